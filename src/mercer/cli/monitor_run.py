"""What a detector saw in the rows of a file, whatever their number: a report, words and a document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer._core.errors import DataError
from mercer._core.table import Table, plain
from mercer.cli.option_types import flagged
from mercer.monitoring.alarms import Gaps, leading, shares
from mercer.monitoring.report import Monitoring

if TYPE_CHECKING:
    from mercer.data.table import Reading
    from mercer.io.prepare import Sheet
    from mercer.monitoring.alarms import Run

BLOCK = 20_000  # rows a call: what a detector works with beside them stays small


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

    def drawn_at(self, times: Any) -> Monitoring:
        """The report with other times, or with row numbers for None."""
        table = self.report.table
        n = len(table)
        columns = {name: table[name] for name in table.columns}
        columns["time"] = np.arange(n) if times is None else times
        return replace(self.report, table=Table(columns))


def named_by_time(reading: Reading, time: str | None) -> Reading:
    """The rows are named by the column of their times."""
    if time is None:
        return reading
    if flagged("id") and reading.id != time:
        msg = (
            f"--time {time} and --id {reading.id} both came, and a row of the table has one name. "
            "Leave one of them out."
        )
        raise click.UsageError(msg)
    return replace(reading, id=time, id_option="--time")


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
        lines.append(
            f"Of {n} {whose} about {_about(rate * n)} would be alarms by chance ({100 * rate:g} %)."
        )
    return lines


def _about(expected: float) -> str:
    return f"{expected:.0f}" if expected >= 1 else f"{expected:.1g}"


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
    return _named(leading(own, report.names, seen.top))


def _named(variables: list[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"variable": name, "share": share} for name, share in variables]


# ── times ───────────────────────────────────────────────────────────────────
def axis_times(names: Any) -> Any:
    """Names of rows as numbers or dates, where all of them are; None otherwise.

    Examples
    --------
    >>> axis_times(["1", "2.5"])
    array([1. , 2.5])
    >>> axis_times(["2026-01-05T06:00", "2026-01-05T06:01"]).dtype
    dtype('<M8[m]')
    >>> axis_times(["a", "b"]) is None
    True
    """
    values = np.asarray(names)
    if values.dtype.kind in "iufM":
        return values
    for kind in (np.float64, np.datetime64):
        try:
            times = np.array([str(name) for name in values], dtype=kind)
        except ValueError:
            continue
        known = np.isfinite(times) if kind is np.float64 else ~np.isnat(times)
        if known.all():
            return times
    return None
