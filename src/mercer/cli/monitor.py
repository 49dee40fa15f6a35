"""`mercer monitor`: rows of a process judged by a detector, and an exit code that tells of alarms."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.data import open_model, read_sheet, reading_options
from mercer.cli.frame import ALARM, OK, verb
from mercer.cli.monitor_run import axis_times, monitored, named_by_time, results, summary
from mercer.cli.option_types import OptionType
from mercer.cli.output import check_output, replacing
from mercer.cli.plot_file import PicturePath, new_figure, save, verbatim
from mercer.data.frames import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.cli.monitor_run import Seen
    from mercer.data.table import Reading

EXAMPLE = """\
mercer demo --process normal.csv faulty.csv
mercer fit normal.csv --id time --model detector -o detector.mercer
mercer monitor detector.mercer faulty.csv -o alarms.csv --chart chart.png  # exit code 4"""
PIECE = 5000  # rows that are text at a time
DELIMITERS = {".csv": ",", ".tsv": "\t"}


class TablePath(OptionType):
    """A file name that ends in .csv or .tsv, or - for stdout."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, when its suffix is known."""
        path = Path(value)
        if path.suffix.lower() not in DELIMITERS and str(value) != "-":
            self.fail(
                f"{str(value)!r}: the table is a .csv or .tsv file, or - for stdout.", param, ctx
            )
        return path


@verb(example=EXAMPLE, memory=True)
@click.argument("detector", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "--time", metavar="COLUMN", help="Column that says when each row was taken; --id otherwise."
)
@click.option(
    "-o", "--output", type=TablePath(), help="CSV or TSV file for the table; stdout otherwise."
)
@click.option(
    "--chart", type=PicturePath(), help="Draw T² and Q over time: a .png, .svg or .pdf file."
)
@click.option(
    "--top",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Variables to name for an alarm; 0 names none, and is quicker.",
)
@reading_options
def monitor(
    talk: Talk,
    *,
    detector: str,
    data: str,
    time: str | None,
    output: Path | None,
    chart: Path | None,
    top: int,
    memory: str,
    reading: Reading,
) -> int:
    """Judge rows by a detector: statistics, limits, alarms and the variables behind them.

    Rows with empty cells are not judged, unless the model was fitted with --impute: they are marked in the
    table (judged is 0), and counted. The exit code is 4 when there is an alarm, 0 when there is none among
    the rows that could be judged, and 3 when none could be.
    """
    reading = named_by_time(reading, time)
    for option, path in (("-o", output), ("--chart", chart)):
        if path is not None and str(path) != "-":
            check_output(str(path), (detector, data), option=option)
    if output is not None and str(output) == "-" and talk.as_json:
        msg = "-o - and --json both fill stdout: leave one of them out, or name a file."
        raise click.UsageError(msg)
    figure = None if chart is None else new_figure((8.0, 5.2))
    found = open_model(detector)
    refuse_others(found)
    sheet = read_sheet(talk, data, reading, found, memory, gaps=True)
    with talk.timed("monitor"):
        seen = monitored(found.model, sheet, top=top)
    _write_table(talk, seen, output)
    if chart is not None:
        draw_charts(talk, seen, figure)
        save(figure, chart)
        talk.say(f"wrote {chart}")
    for line in summary(seen, found.model):
        talk.say(line)
    talk.tell(results(seen, found.model))
    return ALARM if seen.count else OK


def refuse_others(found: Opened) -> None:
    """Raise when the model judges no rows."""
    if not found.is_detector:
        msg = (
            f"{str(found.path)!r} holds a {type(found.model).__name__}, and a detector was needed. "
            "Fit one to rows in normal operation: mercer fit DATA --model detector -o detector.mercer"
        )
        raise click.UsageError(msg)


# ── the table and the chart ─────────────────────────────────────────────────
def _write_table(talk: Talk, seen: Seen, path: Path | None) -> None:
    if path is None and talk.as_json:
        return  # the document has it
    if path is None or str(path) == "-":
        for piece in _pieces(seen, ","):
            click.echo(piece, nl=False)
        return
    with replacing(path) as file:
        for piece in _pieces(seen, DELIMITERS[path.suffix.lower()]):
            file.write(piece.encode())
    talk.say(f"wrote {path}: {len(seen.report.table)} rows")


def _pieces(seen: Seen, delimiter: str) -> Iterator[str]:
    """The table as text, some thousand rows at a time: floats as they read back to the same bits."""
    table = seen.report.table
    labelled = seen.labels is not None
    yield _lines([[seen.time_name, *table.columns[1:], *[seen.label_name] * labelled]], delimiter)
    for start in range(0, len(table), PIECE):
        part = slice(start, start + PIECE)
        rows = [[*map(_cell, row.values())] for row in table.take(part)]
        if labelled:
            rows = [[*row, label] for row, label in zip(rows, seen.labels[part], strict=True)]
        yield _lines(rows, delimiter)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)  # an alarm is a 1
    return "" if value != value else value  # noqa: PLR0124 - no number: an empty cell


def _lines(rows: list[list[Any]], delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def draw_charts(talk: Talk, seen: Seen, figure: Any) -> None:
    """Control charts over time, or over row numbers where the names of the rows are no times."""
    times = axis_times(seen.report.table["time"])
    if times is None:
        talk.say(f"{seen.time_name!r} holds neither numbers nor dates: the chart counts the rows")
    axes = seen.drawn_at(times).plot(fig=figure)
    axes[-1].set_xlabel("row" if times is None or seen.named is None else verbatim(seen.named))
    if times is not None and times.dtype.kind == "M":  # 06:00, 07:00, … and the day once
        axis = axes[-1].xaxis
        dates = need("matplotlib.dates", extra="plot")
        axis.set_major_formatter(dates.ConciseDateFormatter(axis.get_major_locator()))
