"""`mercer report`: a model and its rows as one HTML file that opens anywhere."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mercer._core.memory import format_bytes
from mercer.app.rows import check_output, open_model, read_sheet, write_note
from mercer.cli.ending import refuse
from mercer.cli.options import option
from mercer.cli.verb import Call, verb

LARGE = 10_000_000  # bytes: more is slow to send and to open

EXAMPLE = """\
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=2)" --components 6 -o circles.mercer
mercer report circles.mercer circles.csv -o report.html"""


@verb("reading", "memory", example=EXAMPLE)
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@option("-o --output", "The HTML file; - is stdout.", "FILE", default="report.html")
@option("--time", "Column that says when each row was taken; --id otherwise.", "COLUMN")
@option("--title", "The title of the page; what it is about otherwise.")
@option(
    "--date/--no-date dated",
    "Whether the page says when it was made; SOURCE_DATE_EPOCH sets the day.",
    default=True,
)
def report(
    call: Call,
    *,
    model: str,
    data: str,
    output: str,
    time: str | None,
    title: str | None,
    dated: bool,
) -> None:
    """Write one HTML file that shows a model and its data, and opens anywhere.

    It holds everything it needs and loads nothing: the alarms of a detector first, then the data in numbers,
    the kernel and how it was chosen, spectrum, scores with what is under the pointer, level sets of two
    columns, the evidence in plain words, what the components keep, and the commands that reproduce it. More
    than 20 000 rows are counted in cells, which the page says.
    """
    import mercer.report as page
    from mercer.cli.monitor import name_by_time
    from mercer.report.build import ENDINGS

    if output == "-" and call.as_json:
        refuse("-o - and --json both fill stdout. Name a file for the page.")
    if Path(output).suffix.lower() not in ENDINGS:
        refuse(f"-o must end in .html; got {output!r}. For a PDF, print the page from a browser.")
    path = None if output == "-" else check_output(output, [model, data])
    date = _date() if dated else None
    name_by_time(call, time)
    opened = open_model(model)
    sheet = read_sheet(call, data, opened, gaps=opened.is_detector)
    about: dict[str, Any] = {
        "preparation": opened.preparation,
        # By a format of the user's own they are dates; of texts the page sees by itself whether they are.
        "ids": sheet.ids if sheet.time_format is None or sheet.times is None else sheet.times,
        "labels": sheet.labels,
        "header": opened.header,
        "digest": sheet.digest,
        "commands": [call.line] if call.line else (),
        "source": data,
        "model_file": model,
        "missing": sheet.filled,
        "notes": call.messages("note"),
        "title": title,
        "date": date,
    }
    if path is None:
        with call.timed("build"):
            text = page.build(opened.model, sheet.rows, **about)
        click.echo(text.encode("utf-8"), nl=False)
        return
    replaced = path.exists()
    with call.timed("build"):
        page.report(opened.model, sheet.rows, path, **about)
    size = path.stat().st_size
    if size > LARGE:
        call.warn(f"The report is large, {format_bytes(size)}: it may be slow to open or to send.")
    call.say(write_note(path, replaced=replaced))
    n, d = sheet.rows.shape
    call.tell({"file": path, "bytes": size, "n": n, "d": d})


def _date() -> str:
    """The day, in UTC: today, or that of SOURCE_DATE_EPOCH, which builds that can be repeated set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        refuse(f"SOURCE_DATE_EPOCH must be whole seconds since 1970; got {epoch!r}.")
