"""What was seen while a process ran: a table, its alarms, and a summary in words."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Flags, Indices
    from mercer.model.limits import Limits
    from mercer.model.statistics import Statistics


@dataclass(frozen=True, repr=False)
class Monitoring:
    """A report on rows in the order of time. Print it, or draw it with `plot`.

    Attributes
    ----------
    table : Table
        ``time``, ``T2``, ``T2_limit``, ``Q``, ``Q_limit``, ``index``, ``index_limit``, ``alarm`` and
        ``top``: the variables with the largest contributions, each with its share of the positive ones.
    names : tuple of str
        Names of the variables.
    contributions : ndarray of shape (m, d), or None
        Of the rows in ``explained``, NaN for those with infinite statistics; None where none were asked for,
        or the kernel has no derivative.
    explained : ndarray of shape (m,)
        Positions of the rows that were explained.
    statistic : "combined", "T2" or "Q"
        What the alarms go by.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> seen = KernelPCADetector().fit(X).monitor([[0.0, 0.0], [9.0, 0.0], [9.0, 1.0]])
    >>> print(seen.summary())
    2 of 3 rows are alarms (66.7 %). The first is at time 1; the longest run is 2 long, from time 1 to 2.
    Leading variables: x0 (2).
    """

    table: Table
    names: tuple[str, ...]
    contributions: Array | None
    explained: Indices
    statistic: str = "combined"

    @property
    def alarms(self) -> Table:
        """The rows of the table that are alarms."""
        return self.table.take(self.table["alarm"])

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First and last position of each run of alarms."""
        return alarm_runs(self.table["alarm"])

    def summary(self) -> str:
        """The alarms in words.

        Returns
        -------
        text : str
        """
        alarm, time = self.table["alarm"], self.table["time"]
        count = int(alarm.sum())
        if count == 0:
            return f"None of {len(alarm)} rows is an alarm."
        runs = self.runs
        first, last = max(runs, key=lambda run: run[1] - run[0])
        share = f"{100 * count / len(alarm):.1f} %"
        if count == 1:
            text = f"1 of {len(alarm)} rows is an alarm ({share}), at time {time[first]}."
        else:
            text = (
                f"{count} of {len(alarm)} rows are alarms ({share}). The first is at time "
                f"{time[runs[0][0]]}; the longest run is {last - first + 1} long, from time {time[first]} to "
                f"{time[last]}."
            )
        return text + self._most_named()

    def _most_named(self) -> str:
        if self.contributions is None:
            return ""
        of_alarms = self.contributions[self.table["alarm"][self.explained]]
        of_alarms = of_alarms[np.any(of_alarms > 0.0, axis=1)]
        if len(of_alarms) == 0:
            return ""
        leading = np.bincount(np.argmax(of_alarms, axis=1), minlength=len(self.names))
        order = [j for j in np.argsort(-leading, kind="stable")[:3] if leading[j]]
        named = ", ".join(f"{self.names[j]} ({leading[j]})" for j in order)
        return f" Leading variables: {named}."

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return self.table.to_pandas()

    def plot(self, fault_at: Any = None, fig: Any = None) -> Any:
        """Control charts of T² and Q over time.

        The lines stand where alarms begin: at the limit of T², or of Q, times that of the index.

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
        # The lines stand where alarms begin: the index is above its limit when either is above its line.
        lines = {name: float(t["index_limit"][0] * t[f"{name}_limit"][0]) for name in ("T2", "Q")}
        t2_line, q_line = (
            lines[name] if self.statistic in ("combined", name) else None for name in ("T2", "Q")
        )
        return charts.control_charts(
            t["T2"],
            t["Q"],
            t2_limit=t2_line,
            q_limit=q_line,
            alarms=t["alarm"],
            time=t["time"],
            fault_at=fault_at,
            fig=fig,
        )

    def __str__(self) -> str:
        return f"{self.summary()}\n\n{self.table}"

    def __repr__(self) -> str:
        return f"Monitoring({len(self.table)} rows, {int(self.table['alarm'].sum())} alarms)"


def alarm_runs(alarm: Flags) -> list[tuple[int, int]]:
    """First and last position of each stretch of True."""
    edges = np.diff(np.concatenate([[0], np.asarray(alarm, dtype=np.int8), [0]]))
    first, after = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [(int(a), int(b) - 1) for a, b in zip(first, after, strict=True)]


def report(
    found: Statistics,
    limits: Limits,
    *,
    index: Array,
    index_limit: float,
    time: Any,
    names: Sequence[str],
    explained: Indices,
    contributions: Array | None,
    top: int,
    statistic: str,
) -> Monitoring:
    """The table, with the leading variables of the rows that were explained."""
    n = len(index)
    words = np.full(n, "", dtype=object)
    if contributions is not None:
        words[explained] = [_leading(row, names, top) for row in contributions]
    columns = {
        "time": _times(time, n),
        "T2": found.t2,
        "T2_limit": np.full(n, limits.t2),
        "Q": found.q,
        "Q_limit": np.full(n, limits.q),
        "index": index,
        "index_limit": np.full(n, index_limit),
        "alarm": ~(index <= index_limit),  # what is no number is not normal
        "top": words,
    }
    return Monitoring(Table(columns), tuple(names), contributions, explained, statistic)


def _leading(contributions: Array, names: Sequence[str], top: int) -> str:
    """'pressure 61 %, flow 30 %': shares of what raises the statistic."""
    raising = np.maximum(contributions, 0.0)
    total = float(raising.sum())
    order = [j for j in np.argsort(-raising, kind="stable")[:top] if raising[j] > 0]
    return ", ".join(f"{names[j]} {100 * raising[j] / total:.0f} %" for j in order)


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
