"""What a detector saw in the rows of a file, whatever their number: a report, words and a document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer._core.table import Table
from mercer.cli.flags import flagged
from mercer.estimators.detector_report import Monitoring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer.io.prepare import Sheet
    from mercer.io.table import Reading

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
    return replace(reading, id=time)


def monitored(detector: Any, sheet: Sheet, *, top: int) -> Seen:
    """The rows in the order of the file, block by block, in one report."""
    n = len(sheet)
    ids = np.arange(n) if sheet.ids is None else np.asarray(sheet.ids)
    reports = []
    for start in range(0, n, BLOCK):
        part = slice(start, min(start + BLOCK, n))
        rows = np.asarray(sheet.rows[part])  # (b, d)
        reports.append(detector.monitor(rows, time=ids[part], names=list(sheet.names), top=top))
    return Seen(
        _joined(reports),
        named=None if sheet.ids is None else sheet.id_name or "id",
        labels=sheet.labels,
        label_name=sheet.label_name or "label",
        top=top,
    )


def _joined(reports: Sequence[Monitoring]) -> Monitoring:
    """One report of consecutive blocks of rows."""
    first = reports[0]
    starts = np.cumsum([0, *(len(report.table) for report in reports)])
    columns = {
        name: np.concatenate([report.table[name] for report in reports])
        for name in first.table.columns
    }
    shares = [report.contributions for report in reports if report.contributions is not None]
    return Monitoring(
        Table(columns),
        first.names,
        np.vstack(shares) if shares else None,
        np.concatenate([r.explained + start for r, start in zip(reports, starts, strict=False)]),
        first.statistic,
    )


# ── words ───────────────────────────────────────────────────────────────────
def summary(seen: Seen, detector: Any) -> list[str]:
    """The alarms in words, and how many a process in order would give too."""
    n, limits = len(seen.report.table), detector.limits_
    lines = [seen.report.summary()]
    if seen.count:
        whose = "rows like the training rows" if limits.rate < 1 else "all rows"
        lines.append(
            f"Of {n} {whose} about {_about(limits.rate * n)} would be alarms by chance "
            f"({100 * limits.rate:g} %)."
        )
    return lines


def _about(expected: float) -> str:
    return f"{expected:.0f}" if expected >= 1 else f"{expected:.1g}"


# ── a document ──────────────────────────────────────────────────────────────
def results(seen: Seen, detector: Any) -> dict[str, Any]:
    """What --json tells: limits, and every alarm with the variables behind it."""
    limits, table = detector.limits_, seen.report.table
    where = np.flatnonzero(table["alarm"])
    rows = [_alarm(seen, int(row)) for row in where]
    return {
        "n": len(table),
        "statistic": seen.report.statistic,
        "limits": {
            "T2": limits.t2,
            "Q": limits.q,
            "index": float(table["index_limit"][0]),
            "method": limits.method,
        },
        "false_alarm_rate": limits.rate,
        "expected_false_alarms": limits.rate * len(table),
        "alarms": {
            "count": len(rows),
            "share": len(rows) / len(table),
            "first": rows[0]["time"] if rows else None,
            "runs": [
                {
                    "first": _plain(table["time"][a]),
                    "last": _plain(table["time"][b]),
                    "rows": b - a + 1,
                }
                for a, b in seen.report.runs
            ],
            "rows": rows,
        },
        "summary": seen.report.summary(),
    }


def _alarm(seen: Seen, row: int) -> dict[str, Any]:
    table = seen.report.table
    told = {"row": row, "time": _plain(table["time"][row])}
    if seen.labels is not None:
        told["label"] = _plain(seen.labels[row])
    told |= {name: float(table[name][row]) for name in ("T2", "Q", "index")}
    return told | {"top": _leading(seen, row)}


def _leading(seen: Seen, row: int) -> list[dict[str, Any]]:
    """The variables that the table names, with their shares of what raises the statistic."""
    report = seen.report
    if report.contributions is None or not report.table["top"][row]:  # nothing was explained
        return []
    raising = np.maximum(report.contributions[np.searchsorted(report.explained, row)], 0.0)
    most = [j for j in np.argsort(-raising, kind="stable")[: seen.top] if raising[j] > 0.0]
    total = float(raising.sum())
    return [{"variable": report.names[j], "share": float(raising[j]) / total} for j in most]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


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
