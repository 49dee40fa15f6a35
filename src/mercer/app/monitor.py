"""Rows of a process judged by a detector: statistics, limits, alarms and the variables behind them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.atomic import replacing
from mercer._core.errors import DataError, many
from mercer._core.table import Table, plain
from mercer._core.wording import Message
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import OfModel, Opened, check_output, open_detector, read_sheet
from mercer.app.shadow import Compared, compared, open_shadow, require_another, shadow_facts
from mercer.data.columns import are_dates
from mercer.monitoring.alarm_rule import AlarmRule, Switch
from mercer.monitoring.alarms import Gaps, leading, shares
from mercer.monitoring.alarms import Run as AlarmRun
from mercer.monitoring.clock import warn_backwards, warn_unread
from mercer.monitoring.drift import DriftReport
from mercer.monitoring.lags import clock_of
from mercer.monitoring.report import Monitoring
from mercer.preprocessing.align import Sheet
from mercer.views.process import axis_times

PIECE = 5000  # rows that are text at a time
DELIMITERS = {".csv": ",", ".tsv": "\t"}
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # the beginning of one, as OWASP lists them
SHADOW_COLUMNS = ("shadow_index", "shadow_alarm")
BLOCK = 20_000  # rows a call: what a detector works with beside them stays small


@dataclass(frozen=True, kw_only=True)
class OfProcess(OfModel):
    """A request about the rows of a process and a detector."""

    time: str | None = None
    top: int = 3
    output: str | None = None
    shadow: str | None = None


@dataclass(frozen=True, kw_only=True)
class MonitorRequest(OfProcess, Request["Monitored"]):
    """Judge the rows of a file by the detector in a model file.

    Parameters
    ----------
    time : str, optional
        The column that says when each row was taken; the column of ids otherwise.
    top : int
        Variables to name for an alarm; 0 names none, and is quicker.
    output : str, optional
        A .csv or .tsv file for the table.
    shadow : str, optional
        A model file whose detector judges the rows too: it is compared, and decides nothing.
    """

    def fulfil(self, run: Run) -> Monitored:
        """Rows with empty cells are not judged, unless the model fills them: they are marked and counted."""
        named_by_time(run, self.time)
        require_another(self.model, self.shadow)
        path = None
        if self.output is not None:
            if Path(self.output).suffix.lower() not in DELIMITERS:
                refuse("{output} must be a .csv or .tsv file; got {path}.", path=self.output)
            path = check_output(self.output, filter(None, (self.model, self.data, self.shadow)))
        found = open_detector(self.model)
        shadow = None if self.shadow is None else open_shadow(self.shadow, self.data)
        sheet = read_sheet(run, self.data, found, gaps=True)
        if sheet.ids is None and (trained := names_of_rows(found)) is not None:
            run.note(rows_are_counted(trained))
        if sheet.ids is not None and (words := unread_times(sheet.id_name or "id", sheet.clock)):
            run.note(words)
        with run.timed("monitor"):
            seen = monitored(found.model, sheet, top=self.top, run=run)
            if shadow is not None:
                seen = replace(seen, shadow=compared(run, found.model, sheet, self.data, shadow))
        if path is not None:
            with run.timed("write"), replacing(path) as file:
                for piece in table_text(seen, DELIMITERS[path.suffix.lower()]):
                    file.write(piece.encode())
            run.say(f"wrote {path}: {many(len(seen.report.table), 'row')}", "wrote", path=str(path))
        facts = results(seen, found.model)
        if seen.shadow is not None and self.shadow is not None:
            facts["shadow"] = shadow_facts(seen.shadow.report, self.model, self.shadow)
        return Monitored(seen, found.model, facts)


def named_by_time(run: Run, time: str | None) -> None:
    """The rows are named by the column of their times."""
    if time is None:
        return
    if run.reading.id not in (None, time):
        refuse(
            "{time:{when}} and {id:{name}} exclude each other: a row of the table has one name. Leave one of "
            "them out.",
            when=time,
            name=run.reading.id,
        )
    run.reading = replace(run.reading, id=time, id_option="--time")


def names_of_rows(found: Opened) -> str | None:
    """The column that named the training rows: None for none, "" where it is not known, of a data frame."""
    if found.preparation is not None:
        return found.preparation.id
    return None if found.feature_names is None else ""


def rows_are_counted(trained: str) -> str:
    """What it means that rows lack the column that named those of the fit, as `names_of_rows` has it."""
    why, column = "the model, saved in Python, knows no column of times", "a column"
    if trained:
        why = f"there is no column {trained!r}, which named the training rows"
        column = "another column"
    return f"{why}: rows are counted from 0. If {column} has their times, name it with --time"


def unread_times(column: str, times: Any) -> str | None:
    """What it means that times are written as dates which can't all be read, and what helps; else None.

    >>> print(unread_times("when", ["03/05/2026 08:00", "03/05/2026 08:03"]))
    it is not known how the times in column 'when' are written, such as '03/05/2026 08:00': ...
    >>> unread_times("when", ["03/13/2026 08:00"]), unread_times("when", ["batch 7"])
    (None, None)
    """
    first = str(times[0]).strip() if len(times) else ""
    if not are_dates((first,)) or clock_of(times) is not None:
        return None
    return (
        f"it is not known how the times in column {column!r} are written, such as {first!r}: gaps and late "
        'rows are not noticed, and charts count rows. Give --time-format, such as "%d/%m/%Y %H:%M"'
    )


# ── what a detector saw in the rows, whatever their number ──────────────────
@dataclass(frozen=True)
class Seen:
    """A report on the rows of a file, and how that file names and labels them."""

    report: Monitoring
    named: str | None  # the column that names the rows; None: they are counted from 0
    labels: Any  # (n,) or None
    label_name: str
    top: int  # variables that are named for an alarm, at most
    drift: DriftReport | None = None  # None for a detector that looks back: streams tell it
    shadow: Compared | None = None

    @property
    def count(self) -> int:
        """How many rows are alarms."""
        return int(self.report.table["alarm"].sum())

    @property
    def judged(self) -> int:
        """How many rows were complete."""
        return int(self.report.table["judged"].sum())


@dataclass(frozen=True)
class Monitored:
    """What a detector saw, the detector, and the facts for programs."""

    seen: Seen
    detector: Any
    facts: dict[str, Any]


def monitored(detector: Any, sheet: Sheet, *, top: int, run: Run | None = None) -> Seen:
    """The rows in the order of the file, block by block, in one report."""
    run = Run() if run is None else run
    n, names = len(sheet), list(sheet.names)
    ids = np.arange(n) if sheet.ids is None else np.asarray(sheet.ids)
    if not detector._past.static:  # a row is judged by those before it: no block is by itself
        # Without times rows follow each other, whatever step the detector knows.
        report = detector.monitor(np.asarray(sheet.rows[:]), time=sheet.clock, names=names, top=top)
        return _seen(_with_time(report, ids), sheet, top)
    warn_backwards(sheet.clock, n)
    warn_unread(sheet.clock, n)
    reports, found = [], []
    for start in range(0, n, BLOCK):
        rows = np.asarray(sheet.rows[start : start + BLOCK])  # (b, d)
        gaps = Gaps.of(rows)
        found.append(gaps)
        if gaps.judged.any():
            reports.append(detector.monitor(rows[gaps.judged], names=names, top=top))
        run.advance(min(start + BLOCK, n), n, "rows")
    gaps = Gaps.joined(found)
    if not reports:
        msg = Message(
            "None of {n} rows can be judged: cells are missing in {where}. Give complete rows, or fit with "
            "{impute} mean, median or zero.",
            n=n,
            where=gaps.where(names),
        )
        raise DataError(msg)
    report = Monitoring.joined(reports).among(gaps, ids)
    if top and len(reports) > 1:  # runs go on from block to block
        report = detector._with_onsets(report, lambda i: detector._rows(np.asarray(sheet.rows[i])))
    return replace(_seen(report, sheet, top), drift=_drift(detector, sheet, report))


def _with_time(report: Monitoring, times: Any) -> Monitoring:
    columns = {name: report.table[name] for name in report.table.columns}
    return replace(report, table=Table(columns | {"time": times}))


def _drift(detector: Any, sheet: Sheet, report: Monitoring) -> DriftReport:
    """Whether rows drift slowly, as a stream tells it, by the last rows: those before weigh e^-40."""
    begin = max(0, len(sheet) - BLOCK)
    rows, table = np.asarray(sheet.rows[begin:]), report.table
    stream, switch = detector.stream(list(sheet.names), top=0), Switch(AlarmRule())
    judged = np.flatnonzero(table["judged"][begin:])
    ratios = table["index"][begin:] / stream.limit
    scaled = detector._judge.scaled(rows[judged])
    for i, row in zip(judged, scaled, strict=True):
        switch(bool(table["alarm"][begin + i]), float(ratios[i]))
        if not switch.raised:  # what belongs to an event is a fault
            stream.seen_normal(float(ratios[i]), row)
    return stream.drift()


def _seen(report: Monitoring, sheet: Sheet, top: int) -> Seen:
    return Seen(
        report,
        named=None if sheet.ids is None else sheet.id_name or "id",
        labels=sheet.labels,
        label_name=sheet.label_name or "label",
        top=top,
    )


def over_time(seen: Seen, time_format: str | None) -> tuple[Monitoring, str | None]:
    """The report with its rows at their times, and what the axis is called; None where rows only count."""
    times = axis_times(seen.report.table["time"], time_format)
    if times is None or seen.named is None:
        return seen.report, None
    return _with_time(seen.report, times), seen.named


# ── a document ──────────────────────────────────────────────────────────────
def results(seen: Seen, detector: Any) -> dict[str, Any]:
    """For programs: limits, every alarm with the variables behind it, and what could not be judged."""
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
        "drift": None
        if seen.drift is None
        else {**vars(seen.drift), "shifts": dict(seen.drift.shifts), "remedy": seen.drift.remedy},
        "summary": seen.report.summary(),
    }


def _run(seen: Seen, run: AlarmRun) -> dict[str, Any]:
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
    found = {"row": row, "time": plain(table["time"][row])}
    if seen.labels is not None:
        found["label"] = plain(seen.labels[row])
    found |= {name: float(table[name][row]) for name in ("T2", "Q", "index")}
    report, named = seen.report, []
    if report.contributions is not None:  # the variables that the table names
        own = shares(report.contributions[np.searchsorted(report.explained, row)])
        named = leading(own, report.names, seen.top)
    return found | {"top": [{"variable": name, "share": share} for name, share in named]}


# ── the table ───────────────────────────────────────────────────────────────
def table_text(seen: Seen, delimiter: str) -> Iterator[str]:
    """The table as text, some thousand rows at a time: floats as they read back to the same bits."""
    table = seen.report.table
    labelled = seen.labels is not None
    shadow = seen.shadow
    names = [seen.named or "time", *table.columns[1:], *[seen.label_name] * labelled]
    yield lines_of([[*names, *(SHADOW_COLUMNS if shadow else ())]], delimiter)
    for start in range(0, len(table), PIECE):
        part = slice(start, start + PIECE)
        rows = [
            [*map(cell, (row | {"top": no_formula(row["top"])}).values())]
            for row in table.take(part)
        ]
        if labelled:
            rows = [[*row, label] for row, label in zip(rows, seen.labels[part], strict=True)]
        if shadow is not None:
            own = zip(shadow.index[part].tolist(), shadow.alarm[part].tolist(), strict=True)
            rows = [[*row, *map(cell, pair)] for row, pair in zip(rows, own, strict=True)]
        yield lines_of(rows, delimiter)


def cell(value: Any) -> Any:
    """A value as the table has it."""
    if isinstance(value, bool):
        return int(value)  # an alarm is a 1
    return "" if value != value else value  # noqa: PLR0124 - no number: an empty cell


def no_formula(text: str) -> str:
    """Words of mercer's own, which may begin with any name, so that a spreadsheet sees no formula in them.

    An apostrophe stands before such a beginning. Names, ids and labels that are copied stay as they are.
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def lines_of(rows: list[list[Any]], delimiter: str) -> str:
    """Rows as text."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()
