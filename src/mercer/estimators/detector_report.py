"""What was seen while a process ran: a table, its alarms, and a summary in words."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.table import Table
from mercer.estimators.detector_alarms import alarm_runs, beginning, in_words, leading, shares
from mercer.estimators.detector_gaps import Gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Flags, Indices
    from mercer.estimators.detector_alarms import Run
    from mercer.estimators.detector_parts import Rule
    from mercer.model.limits import Limits
    from mercer.model.statistics import Statistics

MOST_RUNS = 3  # the longest, of which a summary tells what they began with
BEGINNERS = 2  # variables that it names for each


@dataclass(frozen=True, repr=False)
class Monitoring:
    """A report on rows in the order of time. Print it, or draw it with `plot`.

    Attributes
    ----------
    table : Table
        ``time``, ``T2``, ``T2_limit``, ``Q``, ``Q_limit``, ``index``, ``index_limit``, ``alarm``, ``judged`` and
        ``top``: the variables with the largest contributions, each with its share of the positive ones. A row
        with a missing cell is not judged: its statistics are NaN, and it is no alarm. A statistic has one limit,
        above which it makes an alarm; the index is the larger of both in units of these.
    names : tuple of str
        Names of the variables.
    contributions : ndarray of shape (m, d), or None
        Of the rows in ``explained``; None where none were asked for, or the kernel has no derivative. A reading
        more than a million spreads from normal counts as one that far.
    explained : ndarray of shape (m,)
        Positions of the rows that were explained.
    statistic : "combined", "T2" or "Q"
        What the alarms go by.
    missing : ndarray of shape (d,), of integers
        Cells that each column lacks.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> seen = KernelPCADetector().fit(X).monitor([[0.0, 0.0], [9.0, 0.0], [np.nan, 1.0], [9.0, 1.0]])
    >>> print(seen.summary())
    2 of 3 judged rows are alarms (66.7 %). The first is at time 1; the longest run is from time 1 to 3 (3 rows, 2 of them alarms and 1 not judged).
    Leading when it began: x0 100 %.
    1 of 4 rows could not be judged: cells are missing in x0 (1).
    """

    table: Table
    names: tuple[str, ...]
    contributions: Array | None
    explained: Indices
    statistic: str
    missing: Indices

    @property
    def alarms(self) -> Table:
        """The rows of the table that are alarms."""
        return self.table.take(self.table["alarm"])

    @property
    def gaps(self) -> Gaps:
        """The rows that could not be judged."""
        return Gaps(self.table["judged"], self.missing)

    @property
    def runs(self) -> list[Run]:
        """Runs of alarms, which up to three other rows don't end, nor rows that could not be judged."""
        return alarm_runs(self.table["alarm"], self.table["judged"])

    def began_with(self, run: Run, top: int = 3) -> list[tuple[str, float]]:
        """What led when a run of alarms began: variables, with their shares in its first three alarms.

        Parameters
        ----------
        run : Run
            One of ``runs``.
        top : int, default=3
            How many variables to name.

        Returns
        -------
        named : list of (name, share)
            Empty where nothing was explained.
        """
        if self.contributions is None:
            return []
        alarm = self.table["alarm"][self.explained]
        share = beginning(run, self.contributions[alarm], self.explained[alarm])
        return leading(share, self.names, top)

    def summary(self) -> str:
        """The alarms in words: how many, since when, and what led when they began.

        Returns
        -------
        text : str
        """
        texts = (self._counted(), self._beginnings(), self.gaps.in_words(self.names))
        return " ".join(filter(None, texts))

    def _counted(self) -> str:
        alarm, time = self.table["alarm"], self.table["time"]
        count, n = int(alarm.sum()), int(self.table["judged"].sum())
        rows = f"{n} rows" if n == len(alarm) else f"{n} judged rows"
        if count == 0:
            return f"None of {rows} is an alarm."
        runs = self.runs
        longest = max(runs, key=lambda run: run.rows)
        share = f"{100 * count / n:.1f} %"
        if count == 1:
            return f"1 of {rows} is an alarm ({share}), at time {time[longest.first]}."
        return (
            f"{count} of {rows} are alarms ({share}). The first is at time {time[runs[0].first]}; the longest "
            f"run is from time {time[longest.first]} to {time[longest.last]} ({longest})."
        )

    def _beginnings(self) -> str:
        """What led when the longest runs began, in the order of time."""
        runs, time = self.runs, self.table["time"]
        longest = sorted(sorted(runs, key=lambda run: -run.rows)[:MOST_RUNS], key=lambda run: run.first)
        named = [(run, in_words(self.began_with(run, BEGINNERS))) for run in longest]
        told = [(run, words) for run, words in named if words]
        if not told:
            return ""
        if len(runs) == 1:
            return f"Leading when it began: {told[0][1]}."
        listed = "; ".join(f"{words} (time {time[run.first]}, {run.rows} long)" for run, words in told)
        which = "the runs" if len(longest) == len(runs) else f"the {len(longest)} longest of {len(runs)} runs"
        return f"Leading when {which} began: {listed}."

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return self.table.to_pandas()

    def plot(self, fault_at: Any = None, fig: Any = None) -> Any:
        """Control charts of T² and Q over time.

        The lines are the limits of the table, where alarms begin. Rows that could not be judged are gaps, with
        a mark below.

        Parameters
        ----------
        fault_at : a time, optional
            Where to draw a line, such as when a fault is known to have begun.
        fig : matplotlib Figure, optional
            Where to draw. A new figure is made otherwise.

        Returns
        -------
        ndarray of two matplotlib Axes
        """
        # By name: a report can be drawn, but the estimators know nothing of pictures.
        charts = import_module("mercer.plots.charts")
        t = self.table
        t2_line, q_line = (
            float(t[f"{name}_limit"][0]) if self.statistic in ("combined", name) else None
            for name in ("T2", "Q")
        )
        return charts.control_charts(
            t["T2"],
            t["Q"],
            t2_limit=t2_line,
            q_limit=q_line,
            alarms=t["alarm"],
            judged=t["judged"],
            time=t["time"],
            fault_at=fault_at,
            fig=fig,
        )

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
    n, at = len(gaps.judged), np.flatnonzero(gaps.judged)
    words, alarms = np.full(n, "", dtype=object), np.zeros(n, dtype=bool)
    alarms[at] = alarm
    if contributions is not None:
        words[at[explained]] = [
            in_words(leading(row, names, top)) for row in shares(contributions)
        ]
    columns = {
        "time": _times(time, n),
        "T2": gaps.spread_out(found.t2),
        "T2_limit": np.full(n, limits.t2),
        "Q": gaps.spread_out(found.q),
        "Q_limit": np.full(n, limits.q),
        "index": gaps.spread_out(rule.index(limits, found)),
        "index_limit": np.full(n, rule.limit(limits)),
        "alarm": alarms,
        "judged": gaps.judged,
        "top": words,
    }
    return Monitoring(
        Table(columns), tuple(names), contributions, at[explained], rule.statistic, gaps.missing
    )


def _times(time: Any, n: int) -> Any:
    if time is None:
        return np.arange(n)
    times = np.asarray(time)
    if times.shape != (n,):
        msg = f"`time` must have one entry a row, {n}, but an array of shape {times.shape} came."
        raise InputError(msg)
    return times


def index_times(X: Any) -> Any:
    """The times in the index of a data frame, by its own clock; None where it has none."""
    index: Any = getattr(X, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", "") != "M":
        return None
    local = index.tz_localize(None) if getattr(index, "tz", None) is not None else index
    return local.to_numpy()


def named_columns(detector: Any, names: Any) -> list[str]:
    """Names that were given, those of the data frame of the fit, or x0, x1, …"""
    d = int(detector.n_features_in_)
    if names is None:
        names = getattr(detector, "feature_names_in_", [f"x{j}" for j in range(d)])
    if isinstance(names, str) or not np.iterable(names):
        msg = f"names={names!r} came, but a list of {d} names was needed, one for each variable."
        raise InputError(msg)
    named = [str(name) for name in names]
    if len(named) != d:
        msg = f"`names` has {len(named)} entries, but there are {d} variables. Give one for each."
        raise InputError(msg)
    return named


def check_top(top: Any, explain: Any, d: int) -> int:
    """How many variables to name."""
    if not isinstance(top, Integral) or isinstance(top, bool) or top < 0:
        msg = f"top={top!r} came, but a whole number of variables, 0 or more, was needed."
        raise InputError(msg)
    if explain not in ("alarms", "all"):
        msg = f"explain={explain!r} came. Use explain='alarms' or explain='all'."
        raise InputError(msg)
    return min(int(top), d)
