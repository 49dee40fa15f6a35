"""A process over time: statistics with limits and alarms, and the variables behind them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import DataError, InputError
from mercer._core.params import Number, require
from mercer._core.public import public
from mercer._core.types import Array, Flags
from mercer.data.times import as_times
from mercer.monitoring.report import Monitoring, index_times
from mercer.views import checks
from mercer.views.base import Listing, View, listing
from mercer.views.fitted import Fitted
from mercer.views.wording import count, counted, number

# Columns of the table of a `Monitoring`, and what people call them.
STATISTICS = {"T2": "T²", "Q": "Q", "index": "index"}
WIDE_RANGE = 20.0  # times the limit: beyond, a linear scale squeezes everything normal into a line
MOST_RUNS, MOST_LISTED = 5, 20


# ── statistics over time ────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Chart:
    """One statistic of n rows, its limit, and the scale that shows both."""

    name: str
    values: Array  # (n,): NaN for rows that were not judged; what overflows is infinite
    limit: float | None  # None where alarms don't go by this statistic
    alarm: Flags  # (n,)
    drawn: Array  # (n,): the values, with infinite ones at the top
    ends: tuple[float, float]
    log: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ControlCharts(View):
    """Statistics of rows over time, one chart each."""

    kind: ClassVar[str] = "monitoring"
    axis: str  # what runs across: "time", "row" or a column
    time: Any  # (n,): numbers or dates
    judged: Flags  # (n,)
    charts: tuple[Chart, ...]
    ids: tuple[str, ...] | None = None  # what rows are called, where time only counts them
    legend: str = ""  # what marks and lines are


@public
def control_charts(
    t2: Any,
    q: Any,
    *,
    t2_limit: float | None,
    q_limit: float | None,
    alarms: Any = None,
    judged: Any = None,
    time: Any = None,
) -> ControlCharts:
    """T² and Q over time, each with its limit.

    Parameters are those of `mercer.plots.control_charts`.

    Examples
    --------
    >>> from mercer import views
    >>> view = views.control_charts([1.0, 9.0], [0.1, 0.2], t2_limit=5.0, q_limit=1.0)
    >>> view.charts[0].alarm.tolist(), view.charts[0].log
    ([False, True], False)
    """
    n = len(np.atleast_1d(t2))
    known = np.ones(n, dtype=bool) if judged is None else np.asarray(judged, dtype=bool)
    checks.same_rows(n, judged=known)
    if not known.any():
        msg = "`judged` is False for every row, so there is nothing to draw. Pass rows with statistics."
        raise InputError(msg)
    far, off = _statistic("t2", t2, known), _statistic("q", q, known)
    when: Any = np.arange(n) if time is None else np.asarray(time)
    marked: Any = None if alarms is None else np.asarray(alarms, dtype=bool)
    checks.same_rows(n, q=off, time=when, **({} if marked is None else {"alarms": marked}))
    charts = (
        chart("T²", far, _limit("t2_limit", t2_limit), marked),
        chart("Q", off, _limit("q_limit", q_limit), marked),
    )
    axis = "row" if time is None else "time"
    return ControlCharts(axis=axis, time=when, judged=known, charts=charts)


def chart(name: str, values: Array, limit: float | None, alarm: Any = None) -> Chart:
    """A chart whose scale is logarithmic where values go far beyond the limit."""
    known, beyond = ~np.isnan(values), np.isinf(values)
    above = values > (np.inf if limit is None else limit) if alarm is None else alarm & known
    finite = values[known & ~beyond]
    most = float(finite.max(initial=0.0))
    usual = limit
    if usual is None:
        usual = float(np.median(finite)) if len(finite) else 1.0
    # A chart ends somewhere, and so does what is infinite.
    drawn = np.where(beyond, 2.0 * min(max(most, limit or 1.0), 1e300), values)
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    log = high > WIDE_RANGE * usual and low > 0.0
    ends = (0.8 * min(low, usual), 1.5 * high) if log else (0.0, 1.06 * max(high, usual) or 1.0)
    return Chart(name, values, limit, above, drawn, ends, log)


def _statistic(name: str, values: Any, known: Any) -> Array:
    """Numbers, infinity for a row whose statistic overflows, or NaN for one that was not judged."""
    array = np.asarray(values)
    if array.shape != known.shape or array.dtype.kind != "f":
        return checks.finite(name, array, ndim=1, shape="(n,)")
    beyond = np.isposinf(array) & known
    finite = checks.finite(name, np.where(beyond | ~known, 0.0, array), ndim=1, shape="(n,)")
    return np.where(known, np.where(beyond, np.inf, finite), np.nan)


def _limit(name: str, limit: Any) -> float | None:
    found = None if limit is None else float(checks.finite(name, limit, ndim=0, shape="()"))
    require(name, found, Number(0, also=(None,)), remedy="Pass that of `limits_`.")
    return found


@public
def monitoring(
    detector: Any,
    X: Any = None,
    *,
    time: Any = None,
    names: Any = None,
    statistics: Any = ("T2", "Q"),
    axis: str | None = None,
) -> ControlCharts:
    """The statistics of a detector over rows or time, with limits and alarms.

    Parameters are those of `mercer.plots.monitoring`; `statistics` says which of "T2", "Q" and "index"
    have a chart, `axis` what times are called.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector, views
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> view = views.monitoring(KernelPCADetector().fit(X), [[0.0, 0.0], [9.0, 0.0]])
    >>> view.charts[0].name, view.charts[0].alarm.tolist()
    ('T²', [False, True])
    """
    seen = seen_by(detector, X, time=time, names=names)
    table, (usual, times) = seen.table, along(seen)
    label = axis or usual
    charts = [chart(STATISTICS[s], table[s], seen.line(s), table["alarm"]) for s in statistics]
    legend = [
        "The dashed line is the limit; a row that is an alarm is an orange square in each chart."
    ]
    if seen.gaps.count:
        legend.append("A short stroke along the bottom stands for a row that could not be judged.")
    infinite = int(np.sum(np.isinf(table["index"])))
    if infinite:
        legend.append(f"{counted(infinite, 'row')} too far out to be computed stand at the top.")
    return ControlCharts(
        axis=label,
        time=np.arange(len(table)) if times is None else times,
        judged=np.asarray(table["judged"], dtype=bool),
        charts=tuple(charts),
        ids=tuple(map(str, table["time"])) if times is None else None,
        legend=" ".join(legend),
        caption=seen.summary(label),
        tables=(runs_table(seen), alarms_table(seen)) if seen.runs else (),
    )


def seen_by(detector: Any, X: Any = None, *, time: Any = None, names: Any = None) -> Monitoring:
    """What a detector sees in rows, or what it has seen already."""
    if isinstance(detector, Monitoring):
        return detector
    fitted = Fitted.of(detector)
    time = index_times(X) if time is None else time
    return fitted.monitor(fitted.rows(X), time=time, names=fitted.names(names, X))


def along(seen: Monitoring) -> tuple[str, Any]:
    """The name of the axis, "time" or "row", and the times; None where there are none, or in no order."""
    times = axis_times(seen.table["time"])
    if times is None or np.any(times[1:] < times[:-1]):
        return "row", None
    is_count = times.dtype.kind in "iu" and np.array_equal(times, np.arange(len(times)))
    return "row" if is_count else "time", times


def axis_times(names: Any, form: str | None = None) -> Any:
    """Names of rows as numbers or dates, where all of them are; None otherwise.

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
    with suppress(DataError):  # of another format
        return as_times(values, form)
    return None


# ── alarms in tables ────────────────────────────────────────────────────────
def runs_table(seen: Monitoring) -> Listing:
    """The longest runs of alarms in the order of time, and what led when each began.

    Later on the controllers' answer leads, so the variable that led most rows would not be the cause.
    """
    longest, every, name = seen.longest(MOST_RUNS), len(seen.runs), seen.table["time"]
    rows = []
    for run in longest:
        led = ", ".join(leader for leader, _ in seen.began_with(run))
        rows.append([name[run.first], name[run.last], led or "not known", str(run)])
    caption = "Runs of alarms"
    if len(longest) < every:
        caption = f"The {len(longest)} longest of {count(every)} runs of alarms"
    return listing(caption, ["from", "to", "led when it began", "length"], rows, texts=4)


def alarms_table(seen: Monitoring, row: str = "row") -> Listing:
    """The first alarms, with the variables behind each where they were asked for."""
    table, alarms = seen.table, np.flatnonzero(seen.table["alarm"])
    rows = []
    for i in alarms[:MOST_LISTED]:
        values = (number(table[s][i]) for s in STATISTICS)
        rows.append([table["time"][i], table["top"][i] or "not known", *values])
    caption = "Alarms"
    if len(rows) < len(alarms):
        caption = f"The first {len(rows)} of {count(len(alarms))} alarms"
    return listing(caption, [row, "leading variables", *STATISTICS.values()], rows, texts=2)
