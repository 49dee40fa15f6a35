"""`mercer monitor`: rows of a process judged by a detector, and an exit code that tells of alarms."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer._core.errors import DataError
from mercer._core.table import Table, plain
from mercer.cli.data import Opened, open_model, read_sheet
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.options import OptionType, flagged
from mercer.cli.output import check_output, replacing
from mercer.cli.plot_file import PicturePath, new_figure, save, verbatim
from mercer.cli.verb import Call, verb
from mercer.data.frames import need
from mercer.data.times import as_times
from mercer.monitoring.alarms import Gaps, leading, shares
from mercer.monitoring.report import Monitoring

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer.monitoring.alarms import Run
    from mercer.preprocessing.align import Sheet

EXAMPLE = """\
mercer demo --process normal.csv faulty.csv
mercer fit normal.csv --id time --model detector -o detector.mercer
mercer monitor detector.mercer faulty.csv -o alarms.csv --chart chart.png  # exit code 4"""
PIECE = 5000  # rows that are text at a time
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BLOCK = 20_000  # rows a call: what a detector works with beside them stays small


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


@verb("reading", "memory", example=EXAMPLE)
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
    help="Variables to name for an alarm; 0 names none, and is quicker.",
)
def monitor(
    call: Call,
    *,
    detector: str,
    data: str,
    time: str | None,
    output: Path | None,
    chart: Path | None,
    top: int,
) -> int:
    """Judge rows by a detector: statistics, limits, alarms and the variables behind them.

    Rows with empty cells are not judged, unless the model was fitted with --impute: they are marked in the
    table (judged is 0), and counted. The exit code is 4 when there is an alarm, 0 when there is none among
    the rows that could be judged, and 3 when none could be.
    """
    name_by_time(call, time)
    for option, path in (("-o", output), ("--chart", chart)):
        if path is not None and str(path) != "-":
            check_output(str(path), (detector, data), option=option)
    if output is not None and str(output) == "-" and call.as_json:
        refuse("-o - and --json both fill stdout: leave one of them out, or name a file.")
    figure = None if chart is None else new_figure((8.0, 5.2))
    found = open_model(detector)
    refuse_others(found)
    sheet = read_sheet(call, data, found, gaps=True)
    with call.timed("monitor"):
        seen = monitored(found.model, sheet, top=top)
    _write_table(call, seen, output)
    if chart is not None:
        draw_charts(call, seen, figure)
        save(figure, chart)
        call.say(f"wrote {chart}")
    for line in summary(seen, found.model):
        call.say(line)
    call.tell(results(seen, found.model))
    return ALARM if seen.count else OK


def refuse_others(found: Opened) -> None:
    """Raise when the model judges no rows."""
    if not found.is_detector:
        refuse(
            f"{str(found.path)!r} holds a {type(found.model).__name__}, and a detector was needed. "
            "Fit one to rows in normal operation: mercer fit DATA --model detector -o detector.mercer"
        )


def name_by_time(call: Call, time: str | None) -> None:
    """The rows are named by the column of their times."""
    if time is None:
        return
    if flagged("id") and call.reading.id != time:
        refuse(
            f"--time {time} and --id {call.reading.id} both came, and a row of the table has one name. "
            "Leave one of them out."
        )
    call.reading = replace(call.reading, id=time, id_option="--time")


# ── what a detector saw in the rows, whatever their number ──────────────────
@dataclass(frozen=True)
class Seen:
    """A report on the rows of a file, and how that file names and labels them."""

    report: Monitoring
    named: str | None  # the column that names the rows; None: they are counted from 0
    labels: Any  # (n,) or None
    label_name: str
    top: int  # variables that are named for an alarm, at most

    @property
    def time_name(self) -> str:
        """What the first column of the table is called."""
        return self.named or "time"

    @property
    def count(self) -> int:
        """How many rows are alarms."""
        return int(self.report.table["alarm"].sum())

    @property
    def judged(self) -> int:
        """How many rows were complete."""
        return int(self.report.table["judged"].sum())


def monitored(detector: Any, sheet: Sheet, *, top: int) -> Seen:
    """The rows in the order of the file, block by block, in one report."""
    n, names = len(sheet), list(sheet.names)
    ids = np.arange(n) if sheet.ids is None else np.asarray(sheet.ids)
    reports, found = [], []
    for start in range(0, n, BLOCK):
        rows = np.asarray(sheet.rows[start : start + BLOCK])  # (b, d)
        gaps = Gaps.of(rows)
        found.append(gaps)
        if gaps.judged.any():
            reports.append(detector.monitor(rows[gaps.judged], names=names, top=top))
    gaps = Gaps.joined(found)
    if not reports:
        msg = (
            f"None of {n} rows can be judged: cells are missing in {gaps.where(names)}. Give rows that are "
            "complete, or fit with --impute mean, median or zero."
        )
        raise DataError(msg)
    told = Monitoring.joined(reports).among(gaps, ids)
    if top and len(reports) > 1:  # runs go on from block to block
        told = detector._with_onsets(told, lambda at: detector._rows(np.asarray(sheet.rows[at])))
    return Seen(
        told,
        named=None if sheet.ids is None else sheet.id_name or "id",
        labels=sheet.labels,
        label_name=sheet.label_name or "label",
        top=top,
    )


# ── words ───────────────────────────────────────────────────────────────────
def summary(seen: Seen, detector: Any) -> list[str]:
    """The alarms in words, and how many a process in order would give too."""
    n, rate = seen.judged, detector.limits_.rate
    lines = [seen.report.summary()]
    if seen.count:
        whose = "rows like the training rows" if rate < 1 else "all rows"
        about = f"{rate * n:.0f}" if rate * n >= 1 else f"{rate * n:.1g}"
        lines.append(f"Of {n} {whose} about {about} would be alarms by chance ({100 * rate:g} %).")
    return lines


# ── a document ──────────────────────────────────────────────────────────────
def results(seen: Seen, detector: Any) -> dict[str, Any]:
    """What --json tells: limits, every alarm with the variables behind it, and what could not be judged."""
    limits, table = detector.limits_, seen.report.table
    rows = [_alarm(seen, int(row)) for row in np.flatnonzero(table["alarm"])]
    return {
        "n": len(table),
        "statistic": seen.report.statistic,
        "limits": {
            **{name: float(table[f"{name}_limit"][0]) for name in ("T2", "Q", "index")},
            "method": limits.method,
        },
        "false_alarm_rate": limits.rate,
        "expected_false_alarms": limits.rate * seen.judged,
        "alarms": {
            "count": len(rows),
            "share": len(rows) / seen.judged,
            "first": rows[0]["time"] if rows else None,
            "runs": [_run(seen, run) for run in seen.report.runs],
            "rows": rows,
        },
        "not_judged": _not_judged(seen),
        "summary": seen.report.summary(),
    }


def _run(seen: Seen, run: Run) -> dict[str, Any]:
    time = seen.report.table["time"]
    return {
        "first": plain(time[run.first]),
        "last": plain(time[run.last]),
        "rows": run.rows,
        "alarms": run.alarms,
        "not_judged": run.unjudged,
        "began_with": [
            {"variable": name, "lowers_index_by": share}
            for name, share in seen.report.began_with(run, seen.top)
        ],
    }


def _not_judged(seen: Seen) -> dict[str, Any]:
    """Rows with missing cells, and the columns that lack them."""
    report = seen.report
    where = np.flatnonzero(~report.table["judged"])
    cells = zip(report.names, report.missing.tolist(), strict=True)
    return {
        "count": len(where),
        "rows": [{"row": int(i), "time": plain(report.table["time"][i])} for i in where],
        "missing_cells": {name: count for name, count in cells if count},
    }


def _alarm(seen: Seen, row: int) -> dict[str, Any]:
    table = seen.report.table
    told = {"row": row, "time": plain(table["time"][row])}
    if seen.labels is not None:
        told["label"] = plain(seen.labels[row])
    told |= {name: float(table[name][row]) for name in ("T2", "Q", "index")}
    return told | {"top": _leading(seen, row)}


def _leading(seen: Seen, row: int) -> list[dict[str, Any]]:
    """The variables that the table names, with their shares of what raises the statistic."""
    report = seen.report
    if report.contributions is None:  # nothing was explained
        return []
    own = shares(report.contributions[np.searchsorted(report.explained, row)])
    named = leading(own, report.names, seen.top)
    return [{"variable": name, "share": share} for name, share in named]


# ── the table and the chart ─────────────────────────────────────────────────
def _write_table(call: Call, seen: Seen, path: Path | None) -> None:
    if path is None and call.as_json:
        return  # the document has it
    if path is None or str(path) == "-":
        for piece in _pieces(seen, ","):
            click.echo(piece, nl=False)
        return
    with replacing(path) as file:
        for piece in _pieces(seen, DELIMITERS[path.suffix.lower()]):
            file.write(piece.encode())
    call.say(f"wrote {path}: {len(seen.report.table)} rows")


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


def draw_charts(call: Call, seen: Seen, figure: Any) -> None:
    """Control charts over time, or over row numbers where the names of the rows are no times."""
    times = axis_times(seen.report.table["time"], call.reading.time_format)
    if times is None:
        call.say(f"{seen.time_name!r} holds neither numbers nor dates: the chart counts the rows")
    table = seen.report.table
    columns = {name: table[name] for name in table.columns}
    columns["time"] = np.arange(len(table)) if times is None else times
    axes = replace(seen.report, table=Table(columns)).plot(fig=figure)
    axes[-1].set_xlabel("row" if times is None or seen.named is None else verbatim(seen.named))
    if times is not None and times.dtype.kind == "M":  # 06:00, 07:00, … and the day once
        axis = axes[-1].xaxis
        dates = need("matplotlib.dates", extra="plot")
        axis.set_major_formatter(dates.ConciseDateFormatter(axis.get_major_locator()))


def axis_times(names: Any, form: str | None = None) -> Any:
    """Names of rows as numbers or dates, where all of them are; None otherwise.

    Examples
    --------
    >>> axis_times(["1", "2.5"])
    array([1. , 2.5])
    >>> axis_times(["2026-01-05T06:00", "2026-01-05T06:01"]).dtype
    dtype('<M8[us]')
    >>> axis_times(["a", "b"]) is None
    True
    """
    values = np.asarray(names)
    if values.dtype.kind in "iufM":
        return values
    with suppress(ValueError):
        numbers = np.array([str(name) for name in values], dtype=np.float64)
        if form is None and np.isfinite(numbers).all():
            return numbers
    return as_times(values, form)
