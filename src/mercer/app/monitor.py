"""Rows of a process judged by a detector: statistics, limits, alarms and the variables behind them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.atomic import replacing
from mercer._core.errors import DataError, many
from mercer._core.table import Table, plain
from mercer._core.types import Array, Flags
from mercer._core.wording import Message
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import OfModel, Opened, check_output, open_model, read_sheet
from mercer.data.words import are_dates
from mercer.monitoring.alarm_rule import AlarmRule, Switch
from mercer.monitoring.alarms import Gaps, leading, shares
from mercer.monitoring.alarms import Run as AlarmRun
from mercer.monitoring.clock import warn_backwards, warn_unread
from mercer.monitoring.drift import DriftReport
from mercer.monitoring.lags import clock_of
from mercer.monitoring.report import Monitoring
from mercer.monitoring.shadow import Agreement, ShadowReport
from mercer.preprocessing.align import Sheet
from mercer.views.process import axis_times

PIECE = 5000  # rows that are text at a time
DELIMITERS = {".csv": ",", ".tsv": "\t"}
SHADOW_COLUMNS = ("shadow_index", "shadow_alarm")
BLOCK = 20_000  # rows a call: what a detector works with beside them stays small
SHADOW_BLOCK = 4096  # and of two streams


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
        found = open_model(self.model)
        require_detector(found)
        shadow = None if self.shadow is None else open_shadow(self.shadow, self.data)
        sheet = read_sheet(run, self.data, found, gaps=True)
        if sheet.ids is None and (trained := names_of_rows(found)) is not None:
            run.note(rows_are_counted(trained))
        if sheet.ids is not None and (time := unread(sheet.clock)) is not None:
            run.note(times_are_unread(sheet.id_name or "id", time))
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


def unread(times: Any) -> str | None:
    """The first of the times that are written as dates, if not all of them can be read; None otherwise.

    >>> unread(["03/05/2026 08:00", "03/05/2026 08:03"])
    '03/05/2026 08:00'
    >>> unread(["03/13/2026 08:00"]), unread(["batch 7"])
    (None, None)
    """
    first = str(times[0]).strip() if len(times) else ""
    return first if are_dates((first,)) and clock_of(times) is None else None


def times_are_unread(column: str, time: str) -> str:
    """What it means that times are texts, and what helps."""
    return (
        f"it is not known how the times in column {column!r} are written, such as {time!r}: gaps and late "
        'rows are not noticed, and charts count rows. Give --time-format, such as "%d/%m/%Y %H:%M"'
    )


# ── what a detector saw in the rows, whatever their number ──────────────────
@dataclass(frozen=True, eq=False)
class Compared:
    """What the detector in the shadow says of each row, and how the two agree."""

    index: Array  # (n,)
    alarm: Flags  # (n,)
    report: ShadowReport


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
        report = detector._with_onsets(
            report, lambda at: detector._rows(np.asarray(sheet.rows[at]))
        )
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
    found: DriftReport = stream.drift()
    return found


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


# ── a detector in the shadow of the one that counts ─────────────────────────
def open_shadow(path: str, data: str) -> Opened:
    """The detector in the shadow, before any row is read."""
    if data == "-":
        refuse(
            "{shadow} reads the rows of a document or a chart twice, and a pipe can be read once. Write the "
            "rows to a file."
        )
    found = open_model(path)
    require_detector(found)
    return found


def require_detector(found: Opened) -> None:
    """Raise when the model judges no rows."""
    if not found.is_detector:
        refuse(
            "{path} must hold a detector; it holds a {holds}. Fit one to rows in normal operation: mercer "
            "fit DATA --model detector -o detector.mercer",
            path=repr(str(found.path)),
            holds=type(found.model).__name__,
        )


def compared(run: Run, detector: Any, sheet: Sheet, data: str, found: Opened) -> Compared:
    """Judge the rows of a sheet by their detector, and those of its file by the one in the shadow."""
    aside = Run(reading=run.reading, memory=run.memory)
    again = read_sheet(aside, data, found, gaps=True)
    for note in aside.messages("note"):
        if note not in run.messages("note"):  # what was said of the rows already
            run.note(f"for the shadow, {note}", "shadow-data")
    streams = [
        one.stream(names=list(own.names), top=0)
        for one, own in ((detector, sheet), (found.model, again))
    ]
    agreement = Agreement(whole=True)
    index, alarm = np.empty(len(sheet)), np.empty(len(sheet), dtype=bool)
    for start in range(0, len(sheet), SHADOW_BLOCK):
        part = slice(start, start + SHADOW_BLOCK)
        times = None if sheet.ids is None else list(sheet.ids[part])
        clock = None if sheet.clock is None else list(sheet.clock[part])
        mine, theirs = (
            stream.push_many(np.asarray(own.rows[part]), times, clock=clock)
            for stream, own in zip(streams, (sheet, again), strict=True)
        )
        for pair in zip(mine, theirs, strict=True):
            agreement.add(*pair)
        agreement.settle(*streams)
        index[part], alarm[part] = [v.index for v in theirs], [v.alarm and v.judged for v in theirs]
    return Compared(index, alarm, agreement.report())


def require_another(model: str, shadow: str | None) -> None:
    """Raise where a detector is to be its own shadow."""
    if shadow is not None and os.path.realpath(shadow) == os.path.realpath(model):
        refuse("{shadow:{path}} is the detector that counts. Name another one.", path=shadow)


def shadow_facts(report: ShadowReport, old: str, new: str) -> dict[str, Any]:
    """The comparison for programs, and in words with the names of the files."""
    names = Path(old).name, Path(new).name
    names = names if names[0] != names[1] else (old, new)
    words = {"agreement": report.agreement, "summary": report.in_words(*names)}
    return {"detectors": {"counts": old, "shadow": new}, **asdict(report), **words}


def shadow_lines(facts: dict[str, Any]) -> list[str]:
    """The comparison in lines: the summary, and the latest events of one detector alone."""
    lines = [facts["summary"]]
    for side, role in (("old", "counts"), ("new", "shadow")):
        name = Path(facts["detectors"][role]).name
        lines += [f"  {name} alone: {event}" for event in facts[f"latest_only_{side}"]]
    return lines


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
        rows = [[*map(cell, row.values())] for row in table.take(part)]
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


def lines_of(rows: list[list[Any]], delimiter: str) -> str:
    """Rows as text."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()
