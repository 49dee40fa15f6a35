"""A process over time: statistics with limits and alarms, and the variables behind them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Number, Whole, require
from mercer._core.public import public
from mercer.data.rows import take_rows
from mercer.monitoring.alarms import Gaps, shares
from mercer.monitoring.report import Monitoring
from mercer.views import checks
from mercer.views.base import Listing, View, listing, spaced
from mercer.views.fitted import Fitted
from mercer.views.wording import count, counted, number

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices, Rows

# Columns of the table of a `Monitoring`, and what people call them.
STATISTICS = {"T2": "T²", "Q": "Q", "index": "index"}
WIDE_RANGE = 20.0  # times the limit: beyond, a linear scale squeezes everything normal into a line
MOST_RUNS, MOST_LISTED = 10, 20
MOST_EXPLAINED = 300  # alarms whose contributions are computed for a picture
MOST_VARIABLES = 8
SLOTS = 120  # of time in a picture of contributions


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
    known = _judged(judged, t2)
    read = {name: _statistic(name, v, known) for name, v in {"t2": t2, "q": q}.items()}
    n = len(read["t2"])
    when: Any = np.arange(n) if time is None else np.asarray(time)
    marked: Any = None if alarms is None else np.asarray(alarms, dtype=bool)
    checks.same_rows(n, q=read["q"], time=when, **({} if marked is None else {"alarms": marked}))
    limits = {"t2": _limit("t2_limit", t2_limit), "q": _limit("q_limit", q_limit)}
    names = {"t2": "T²", "q": "Q"}
    charts = tuple(chart(names[s], read[s], limits[s], marked) for s in names)
    return ControlCharts(
        axis="row" if time is None else "time", time=when, judged=known, charts=charts
    )


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


def _judged(judged: Any, t2: Any) -> Any:  # (n,)
    n = len(np.atleast_1d(np.asarray(t2)))
    known = np.ones(n, dtype=bool) if judged is None else np.asarray(judged, dtype=bool)
    checks.same_rows(n, judged=known)
    if not known.any():
        msg = "`judged` is False for every row, so there is nothing to draw. Pass rows with statistics."
        raise InputError(msg)
    return known


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
    table, times = seen.table, axis_times(seen.table["time"])
    n = len(table)
    plain = times is None or (times.dtype.kind in "iu" and np.array_equal(times, np.arange(n)))
    label = axis or ("row" if plain else "time")
    charts = [chart(STATISTICS[s], table[s], seen.line(s), table["alarm"]) for s in statistics]
    words = "The dashed line is the limit: a row above it is an alarm, orange in each chart."
    if seen.gaps.count:
        words += " A short stroke along the bottom stands for a row that could not be judged."
    infinite = int(np.sum(np.isinf(table["index"])))
    if infinite:
        words += f" {counted(infinite, 'row')} too far out to be computed stand at the top."
    return ControlCharts(
        axis=label,
        time=np.arange(n) if times is None else times,
        judged=np.asarray(table["judged"], dtype=bool),
        charts=tuple(charts),
        ids=tuple(map(str, table["time"])) if times is None else None,
        caption=f"{seen.summary(label)} {words}",
        tables=(runs_table(seen), alarms_table(seen)) if seen.runs else (),
    )


def seen_by(detector: Any, X: Any = None, *, time: Any = None, names: Any = None) -> Monitoring:
    """What a detector sees in rows, or what it has seen already."""
    if isinstance(detector, Monitoring):
        return detector
    fitted = Fitted.of(detector)
    if fitted.detector is None:
        msg = f"Monitoring needs a detector; got a {type(fitted.model).__name__}. Fit a "
        msg += "`KernelPCADetector` to rows of normal operation."
        raise InputError(msg)
    found: Monitoring = fitted.detector.monitor(
        fitted.rows(X), time=time, names=fitted.names(names, X)
    )
    return found


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


# ── alarms in tables ────────────────────────────────────────────────────────
def runs_table(seen: Monitoring) -> Listing:
    """The longest runs of alarms in the order of time, and what led when each began.

    Later on the controllers' answer leads, so the variable that led most rows would be no cause.
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
    rows = [
        [
            table["time"][i],
            table["top"][i] or "not known",
            *(number(table[s][i]) for s in STATISTICS),
        ]
        for i in alarms[:MOST_LISTED]
    ]
    caption = "Alarms"
    if len(rows) < len(alarms):
        caption = f"The first {len(rows)} of {count(len(alarms))} alarms"
    return listing(caption, [row, "leading variables", *STATISTICS.values()], rows, texts=2)


# ── which variables ─────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False, kw_only=True)
class Contributions(View):
    """What variables add to an alarm, the largest first; negative ones lower it."""

    kind: ClassVar[str] = "contributions"
    names: tuple[str, ...]
    values: Array
    axis: str


@public
def contributions(
    contributions: Any, names: Any = None, *, X: Any = None, top: int = 10
) -> Contributions:
    """What each variable adds to an alarm, or to the mean of several.

    Parameters are those of `mercer.plots.contribution_bars`.

    Examples
    --------
    >>> from mercer import views
    >>> views.contributions([0.1, 3.0, -0.5], ["a", "b", "c"]).names
    ('b', 'a', 'c')
    """
    if X is not None:
        fitted = Fitted.of(contributions)
        names = fitted.names(names, X)
        contributions = fitted.detector.contributions(fitted.rows(X))
    values = checks.finite("contributions", contributions, ndim=(1, 2), shape="(d,) or (n, d)")
    rows = values.reshape(-1, values.shape[-1])
    mean = (rows / len(rows)).sum(axis=0)  # (d,)
    named = checks.named(names, len(mean))
    most = np.argsort(-np.abs(mean), kind="stable")[: require("top", top, Whole(1))]
    order = most[np.argsort(-mean[most], kind="stable")]
    own, shown = tuple(named[j] for j in order), mean[order]
    several = f"mean contribution of {counted(len(rows), 'row')}"
    table = listing(
        "Contributions", ["variable", "contribution"], zip(own, map(number, shown), strict=True)
    )
    axis = "contribution" if values.ndim == 1 else several
    words = f"{own[0]} adds most."
    return Contributions(names=own, values=shown, axis=axis, caption=words, tables=(table,))


@dataclass(frozen=True, eq=False, kw_only=True)
class ContributionsOverTime(View):
    """Shares of variables in what raises the statistic, in slots of time: NaN where no row was an alarm."""

    kind: ClassVar[str] = "contributions over time"
    axis: str
    names: tuple[str, ...]  # (v,): the variable with the largest share first
    time: Any  # (b + 1,): where slots begin and end, numbers or dates
    rows: Indices  # (b + 1,): the same in rows
    shares: Array  # (v, b)


def contributions_over_time(seen: Monitoring, *, axis: str | None = None) -> ContributionsOverTime:
    """Which variables led alarms, and when; refused where no alarm was explained.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector, views
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> seen = KernelPCADetector().fit(X).monitor([[0.0, 0.0], [9.0, 0.0]], names=["flow", "heat"])
    >>> views.contributions_over_time(seen).names
    ('flow', 'heat')
    """
    if seen.contributions is None or len(seen.explained) == 0:
        msg = "No alarm was explained: there is none, or the kernel has no derivative. Look at the "
        msg += "statistics with `mercer.plots.monitoring`."
        raise InputError(msg)
    own, n = shares(seen.contributions), len(seen.table)  # (m, d)
    order = np.argsort(-own.sum(axis=0), kind="stable")[:MOST_VARIABLES]
    order = order[own[:, order].sum(axis=0) > 0.0]
    edges = np.unique(np.linspace(0, n, min(n, SLOTS) + 1).round().astype(np.intp))
    slot = np.searchsorted(edges, seen.explained, side="right") - 1  # (m,)
    counts = np.bincount(slot, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(slot, own[:, j], minlength=len(edges) - 1) / counts for j in order]
    names = tuple(seen.names[j] for j in order)
    total = own.mean(axis=0)[order]
    every = int(seen.table["alarm"].sum())
    which = "all alarms"
    if len(own) < every:
        which = f"{count(len(own))} of {count(every)} alarms, at equal distances"
    words = (
        f"Which variables raise the statistic, and when: shares of {which}. The stronger, the larger the "
        f"share; {names[0] if names else 'no variable'} has the largest over all."
    )
    rows = [[name, f"{100 * value:.0f} %"] for name, value in zip(names, total, strict=True)]
    times = axis_times(seen.table["time"])
    times = np.arange(1, n + 1) if times is None else times
    return ContributionsOverTime(
        axis=axis or ("row" if times.dtype.kind in "iu" else "time"),
        names=names,
        time=_ends(times)[edges],
        rows=edges,
        shares=np.array(means).reshape(len(order), -1),
        caption=words,
        tables=(listing("Mean shares over all alarms", ["variable", "share"], rows),),
    )


def _ends(times: Any) -> Any:  # (n,) -> (n + 1,)
    """Where each row begins and the last one ends: slots are as wide as their rows."""
    step = times[-1:] - times[-2:-1] if len(times) > 1 else np.ones(1, dtype=np.int64)
    return np.concatenate([times, times[-1:] + step])


def watched(
    fitted: Fitted, rows: Rows, *, names: Any, gaps: Gaps, time: Any
) -> tuple[Monitoring, tuple[str, ...]]:
    """What a detector sees in many rows, and what it warned of: the first alarms and some others explained.

    `rows` are those without a missing cell, of which `gaps` says where they lie among all.
    """
    detector = fitted.detector
    blocks = [detector.monitor(block, names=names, top=0) for _, block in fitted.blocks(rows)]
    seen = Monitoring.joined(blocks)
    alarms = np.flatnonzero(seen.table["alarm"])
    if len(alarms) == 0:
        return seen.among(gaps, time), ()
    # The first ones are in a table, those at equal distances in a picture.
    first = alarms[:MOST_LISTED]
    some = np.union1d(first, alarms[spaced(len(alarms), MOST_EXPLAINED)])

    def take(at: Indices) -> Any:
        return np.asarray(take_rows(rows, at))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = detector.monitor(take(some), names=names, explain="all")
    top = seen.table["top"].copy()
    top[some] = told.table["top"]
    columns = {name: seen.table[name] for name in seen.table.columns} | {"top": top}
    seen = replace(
        seen, table=type(seen.table)(columns), contributions=told.contributions, explained=some
    )
    seen = detector._with_onsets(seen, lambda at: detector._rows(take(at)))
    remarks = tuple(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    return seen.among(gaps, time), remarks
