"""A report on a process that ran: a table, its alarms, and a summary in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer._core.errors import InputError, many
from mercer._core.params import OneOf, Whole, require
from mercer._core.table import Table
from mercer._core.types import Array, Flags, Indices
from mercer.monitoring.alarms import Gaps, Run, alarm_runs, in_words, leaders, leading, shares
from mercer.monitoring.lags import of_rows
from mercer.monitoring.limits import Limits, Rule
from mercer.monitoring.statistics import Statistics

MOST_RUNS = 3  # the longest, of which a summary tells what they began with
BEGINNERS = 2  # variables that it names for each


@dataclass(frozen=True, repr=False)
class Monitoring:
    """A report on rows in the order of time. Print it, or draw it with `plot`.

    Attributes
    ----------
    table : Table
        ``time``, ``T2``, ``T2_limit``, ``Q``, ``Q_limit``, ``index``, ``index_limit``, ``alarm``, ``judged``
        and ``top``: the variables with the largest contributions, each with its share of the positive ones.
        A row with a missing cell is not judged: its statistics are NaN, and it is no alarm. A statistic has
        one limit, above which it makes an alarm; the index is the larger of both in units of these.
    names : tuple of str
        Names of the variables.
    contributions : ndarray of shape (m, d), or None
        Of the rows in ``explained``; None where none were asked for, or the kernel has no derivative. A
        reading more than a million spreads from normal counts as one that far.
    explained : ndarray of shape (m,)
        Positions of the rows that were explained.
    statistic : "combined", "T2" or "Q"
        What the alarms go by.
    missing : ndarray of shape (d,), of integers
        Cells that each column lacks.
    onsets : dict of int to ndarray of shape (d,)
        For the ten longest of ``runs``, by their first positions: the share of the distance from normal that
        would go if each variable alone took its best normal value, mean of the first three alarms. The
        distance is that of a Gaussian with the relations of the training rows, and the index where the
        kernel bends or a single statistic is gone by. `began_with` names the largest.
    short : int
        Complete rows that were not judged, since a detector with lags finds too few rows before them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> seen = KernelPCADetector().fit(X).monitor([[0.0, 0.0], [9.0, 0.0], [np.nan, 1.0], [9.0, 1.0]])
    >>> print(seen.summary())
    2 of 3 judged rows are alarms (66.7 %). The first is at time 1; the longest run is from time 1 to 3
    (3 rows, 2 of them alarms and 1 not judged).
    Leading when it began: x0.
    1 of 4 rows could not be judged: cells are missing in x0 (1).
    """

    table: Table
    names: tuple[str, ...]
    contributions: Array | None
    explained: Indices
    statistic: str
    missing: Indices
    onsets: dict[int, Array] = field(default_factory=dict)
    short: int = 0

    @property
    def alarms(self) -> Table:
        """The rows of the table that are alarms."""
        return self.table.take(self.table["alarm"])

    @property
    def gaps(self) -> Gaps:
        """The rows that could not be judged."""
        return Gaps(self.table["judged"], self.missing, self.short)

    @property
    def runs(self) -> list[Run]:
        """Runs of alarms, which up to two other rows don't end, nor rows that could not be judged."""
        return alarm_runs(self.table["alarm"], self.table["judged"])

    def longest(self, most: int) -> list[Run]:
        """The longest runs, `most` at most, in the order of time."""
        chosen = sorted(self.runs, key=lambda run: -run.rows)[:most]
        return sorted(chosen, key=lambda run: run.first)

    def line(self, statistic: str) -> float | None:
        """Where alarms by T2, Q or the index begin; None where alarms don't go by this one."""
        if self.statistic not in ("combined", statistic) and statistic != "index":
            return None
        return float(self.table[f"{statistic}_limit"][0])

    def began_with(self, run: Run, top: int = 3) -> list[tuple[str, float]]:
        """What led when a run of alarms began, which later on may be what the controllers answer with.

        Parameters
        ----------
        run : Run
            One of ``runs``.
        top : int, default=3
            How many variables to name, at most.

        Returns
        -------
        named : list of (name, share)
            With shares as in ``onsets``; none with less than half of the largest. Empty where there is
            nothing to explain.
        """
        gain = self.onsets.get(run.first, np.zeros(len(self.names)))
        return leaders(gain, self.names, top)

    def summary(self, axis: str = "time") -> str:
        """The alarms in words: how many, since when, and what led when they began.

        Parameters
        ----------
        axis : str, default="time"
            What the times are called, such as "row" where they count rows.
        """
        texts = (self._counted(axis), self._beginnings(axis), self.gaps.in_words(self.names))
        return " ".join(filter(None, texts))

    def _counted(self, axis: str) -> str:
        alarm, time = self.table["alarm"], self.table["time"]
        count, n = int(alarm.sum()), int(self.table["judged"].sum())
        rows = many(n, "judged row" if n < len(alarm) else "row")
        if count == 0:
            return "The one row is not an alarm." if n == 1 else f"None of {rows} is an alarm."
        runs = self.runs
        longest = max(runs, key=lambda run: run.rows)
        share = f"{100 * count / n:.1f} %"
        if count == 1:
            return f"1 of {rows} is an alarm ({share}), at {axis} {time[longest.first]}."
        return (
            f"{count} of {rows} are alarms ({share}). The first is at {axis} {time[runs[0].first]}; the "
            f"longest run is from {axis} {time[longest.first]} to {time[longest.last]} ({longest})."
        )

    def _beginnings(self, axis: str) -> str:
        """What led when the longest runs began, in the order of time."""
        runs, time = self.runs, self.table["time"]
        longest = self.longest(MOST_RUNS)
        named = [(run, self.began_with(run, BEGINNERS)) for run in longest]
        led = [(run, ", ".join(name for name, _ in leads)) for run, leads in named if leads]
        if not led:
            return ""
        if len(runs) == 1:
            return f"Leading when it began: {led[0][1]}."
        texts = [f"{words} ({axis} {time[run.first]}, {run.rows} long)" for run, words in led]
        some = len(longest) < len(runs)
        which = f"the {len(longest)} longest of {len(runs)} runs" if some else "the runs"
        return f"Leading when {which} began: {'; '.join(texts)}."

    @classmethod
    def joined(cls, reports: Sequence[Monitoring]) -> Monitoring:
        """One report of consecutive blocks of rows."""
        first = reports[0]
        if len(reports) == 1:
            return first
        starts = np.cumsum([0, *(len(report.table) for report in reports)])
        columns = {
            name: np.concatenate([report.table[name] for report in reports])
            for name in first.table.columns
        }
        found = [report.contributions for report in reports if report.contributions is not None]
        shares = np.vstack(found) if found else None
        positions = [r.explained + start for r, start in zip(reports, starts, strict=False)]
        table, explained = Table(columns), np.concatenate(positions)
        return cls(table, first.names, shares, explained, first.statistic, first.missing)

    def among(self, gaps: Gaps, time: Any) -> Monitoring:
        """The report of complete rows as one of all n rows in ``gaps``, which were taken at these times."""
        at = np.flatnonzero(gaps.judged)
        fills = dict.fromkeys(("T2", "Q", "index"), np.nan) | {"alarm": False, "top": ""}
        columns: dict[str, Any] = {}
        for name in self.table.columns:
            given = self.table[name]
            columns[name] = np.full(len(gaps.judged), fills.get(name, given[0]), dtype=given.dtype)
            columns[name][at] = given
        columns |= {"time": time, "judged": gaps.judged}
        return replace(
            self,
            table=Table(columns),
            explained=at[self.explained],
            missing=gaps.missing,
            short=gaps.short,
            onsets={int(at[first]): gain for first, gain in self.onsets.items()},
        )

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return self.table.to_pandas()

    def plot(self, fault_at: Any = None, fig: Any = None, axis: str | None = None) -> Any:
        """Control charts of T² and Q over time.

        The lines are the limits of the table, where alarms begin. Rows that could not be judged are gaps,
        with a mark below. Times that are neither numbers nor dates, or not in order, are counted instead.

        Parameters
        ----------
        fault_at : a time, optional
            Where to draw a line, such as when a fault is known to have begun.
        fig : matplotlib Figure, optional
            Where to draw. A new figure is made otherwise.
        axis : str, optional
            What the times are called.

        Returns
        -------
        ndarray of two matplotlib Axes
        """
        # Here, not on top: rows are judged where matplotlib is not installed.
        from mercer.plots.charts import monitoring

        return monitoring(self, fault_at=fault_at, fig=fig, axis=axis)

    def __str__(self) -> str:
        return f"{self.summary()}\n\n{self.table}"

    def __repr__(self) -> str:
        return f"Monitoring({len(self.table)} rows, {int(self.table['alarm'].sum())} alarms)"


def report(
    found: Statistics,
    rule: Rule,
    limits: Limits,
    *,
    alarm: Flags,
    gaps: Gaps,
    time: Any,
    names: Sequence[str],
    explained: Indices,
    contributions: Array | None,
    top: int,
) -> Monitoring:
    """The table, with the leading variables of the rows that were explained.

    What is given of rows is given of those that were judged.
    """
    m = len(alarm)
    words = np.full(m, "", dtype=object)
    if contributions is not None:
        words[explained] = [in_words(leading(row, names, top)) for row in shares(contributions)]
    columns = {
        "time": np.arange(m),
        "T2": found.t2,
        "T2_limit": np.full(m, limits.t2),
        "Q": found.q,
        "Q_limit": np.full(m, limits.q),
        "index": rule.index(limits, found),
        "index_limit": np.full(m, rule.limit(limits)),
        "alarm": alarm,
        "judged": np.ones(m, dtype=bool),
        "top": words,
    }
    judged = Monitoring(
        Table(columns), tuple(names), contributions, explained, rule.statistic, gaps.missing
    )
    return judged.among(gaps, _times(time, len(gaps.judged)))


def _times(time: Any, n: int) -> Any:
    if time is None:
        return np.arange(n)
    of_rows(time, n)
    # An index with a zone is shown by its own clock, and compared in UTC.
    return np.asarray(time if getattr(time, "tz", None) is None else time.tz_localize(None))


def index_times(X: Any) -> Any:
    """The times in the index of a data frame, with their zone if they have one; None for another index."""
    index: Any = getattr(X, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", "") != "M":
        return None
    return index.to_numpy() if getattr(index, "tz", None) is None else index


def named_columns(names: Any, fitted: Any, d: int) -> list[str]:
    """Names that were given, those of the data frame of the fit, or x0, x1, …"""
    if names is None:
        names = [f"x{j}" for j in range(d)] if fitted is None else fitted
    several = np.iterable(names) and not isinstance(names, str)
    named = [str(name) for name in names] if several else []
    if len(named) != d:
        got = len(named) if several else repr(names)
        msg = f"names must be a list of {d} names, one for each variable; got {got}."
        raise InputError(msg)
    return named


def check_top(top: Any, explain: Any, d: int) -> int:
    """How many variables to name."""
    require("explain", explain, OneOf(("alarms", "all")))
    return min(int(require("top", top, Whole(0))), d)
