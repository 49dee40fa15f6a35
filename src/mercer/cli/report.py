"""`mercer report`: a model and its rows as one HTML file that opens anywhere."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from mercer._core.memory import format_bytes
from mercer.cli.data import open_model, read_sheet, reading_options
from mercer.cli.frame import verb
from mercer.cli.output import check_output, replacing, told_file

if TYPE_CHECKING:
    from pathlib import Path

    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading
    from mercer.io.prepare import Sheet

LARGE = 10_000_000  # bytes: more is slow to send and to open
MISSING_ROWS = 4096

EXAMPLE = """\
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=2)" --components 6 -o circles.mercer
mercer report circles.mercer circles.csv -o report.html"""


@verb(example=EXAMPLE, memory=True)
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "-o",
    "--output",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="The HTML file; - is stdout.",
)
@click.option("--title", help="Of the page; what it is about otherwise.")
@click.option(
    "--date/--no-date",
    "dated",
    default=True,
    show_default=True,
    help="Whether the page says when it was made; SOURCE_DATE_EPOCH sets the day.",
)
@reading_options
def report(
    talk: Talk,
    *,
    model: str,
    data: str,
    output: str,
    title: str | None,
    dated: bool,
    memory: str,
    reading: Reading,
) -> None:
    """Write one HTML file that shows a model and its data, and opens anywhere.

    It holds everything it needs and asks nobody for anything: the data in numbers, the kernel and how it was
    chosen, spectrum, scores with what is under the pointer, level sets of two columns, the evidence in plain
    words, what the components keep, alarms of a detector, and the commands that reproduce it. More than
    20 000 rows are counted in cells, which the page says.
    """
    path = _checked(talk, output, [model, data])
    date = _date(dated)
    opened = open_model(model)
    sheet = read_sheet(talk, data, reading, opened, memory, gaps=opened.is_detector)
    with talk.timed("build"):
        page = _page(
            opened,
            sheet,
            source=data,
            model_file=model,
            missing=_missing(data, reading, opened),
            notes=talk.notes,
            title=title,
            date=date,
        )
    body = page.encode("utf-8")
    if len(body) > LARGE:
        size = format_bytes(len(body))
        talk.warn(f"The report is large, {size}: it may be slow to open or to send.")
    if path is None:
        click.echo(body, nl=False)
        return
    _write(talk, path, body)
    n, d = sheet.rows.shape
    talk.tell({"file": path, "bytes": len(body), "n": n, "d": d})


def _checked(talk: Talk, output: str, inputs: list[str]) -> Path | None:
    """Where the page goes, if it can go there; None is stdout."""
    if output != "-":
        return check_output(output, inputs)
    if talk.as_json:
        msg = "-o - and --json both want stdout. Name a file for the page."
        raise click.UsageError(msg)
    return None


def _missing(data: str, reading: Reading, opened: Opened) -> Any:
    """(d,) missing values of each column; None where they can't be counted, for a pipe is read once.

    Without something to fill in, a single one would have been refused; columns of 0 and 1 have none.
    """
    import numpy as np

    preparation = opened.preparation
    if preparation is None or data == "-":
        return None
    found = np.zeros(len(preparation.features), dtype=np.int64)
    if preparation.fills is not None:
        from mercer.data.formats import open_table
        from mercer.io.prepare import matched

        for chunk in matched(open_table(data, reading), preparation).chunks(MISSING_ROWS):
            found[: len(preparation.numbers)] += np.isnan(chunk.numbers).sum(axis=0)
    return found


def _page(opened: Opened, sheet: Sheet, **known: Any) -> str:
    from mercer.report import build

    args = (click.get_current_context().find_root().obj or {}).get("args", [])
    return build(
        opened.model,
        sheet.rows,
        preparation=opened.preparation,
        ids=sheet.ids,
        labels=sheet.labels,
        header=opened.header,
        digest=sheet.digest,
        commands=[shlex.join(["mercer", *args])] if args else (),
        **known,
    )


def _date(dated: bool) -> str | None:
    """The day, in UTC: today, or that of SOURCE_DATE_EPOCH, which builds that can be repeated set."""
    if not dated:
        return None
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError) as error:
        msg = f"SOURCE_DATE_EPOCH={epoch!r} came; whole seconds since 1970 were needed."
        raise click.UsageError(msg) from error


def _write(talk: Talk, path: Path, body: bytes) -> None:
    replaced = path.exists()
    with talk.timed("write"), replacing(path) as file:
        file.write(body)
    talk.say(told_file(path, replaced=replaced))
