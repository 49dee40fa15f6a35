"""The variables behind alarms: what each adds, which led when, events, and what a detector sees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.table import Table
from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import take_rows
from mercer.monitoring.alarm_rule import AlarmRule, Switch
from mercer.monitoring.alarms import FIRST_ALARMS, Gaps, Run, shares
from mercer.monitoring.events import Event, severity
from mercer.monitoring.report import Monitoring
from mercer.views import checks
from mercer.views.base import Listing, View, listing, spaced
from mercer.views.fitted import Fitted, unnamed
from mercer.views.process import MOST_LISTED, along, axis_times
from mercer.views.wording import count, counted, number, share

MOST_VARIABLES = 8
SLOTS = 120  # of time
MOST_EVENTS = 12
MOST_EXPLAINED = 300  # alarms whose contributions are computed for a picture
RULE = AlarmRule()  # the usual one

Spans = list[tuple[int, int]]  # the first and the last row of each


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
        rows = fitted.rows(X)
        contributions, placed = fitted.contributions(rows), fitted.placed(rows)
        if placed is not None:
            contributions = contributions[placed]
    values = checks.finite("contributions", contributions, ndim=(1, 2), shape="(d,) or (n, d)")
    each = values.reshape(-1, values.shape[-1])
    mean = (each / len(each)).sum(axis=0)  # (d,)
    named = checks.named(names, len(mean))
    most = np.argsort(-np.abs(mean), kind="stable")[: require("top", top, Whole(1))]
    order = most[np.argsort(-mean[most], kind="stable")]
    own, shown = tuple(named[j] for j in order), mean[order]
    several = f"mean contribution of {counted(len(each), 'row')}"
    rows = zip(own, map(number, shown), strict=True)
    return Contributions(
        names=own,
        values=shown,
        axis="contribution" if values.ndim == 1 else several,
        caption=f"{own[0]} adds most.",
        tables=(listing("Contributions", ["variable", "contribution"], rows),),
    )


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
    if not seen.table["alarm"].any():
        msg = "There are no contributions to draw: no row is an alarm."
        raise InputError(msg)
    if seen.contributions is None or len(seen.explained) == 0:
        msg = "No alarm was explained: the kernel has no derivative, or variables were not asked for. Look "
        msg += "at the statistics with `mercer.plots.monitoring`."
        raise InputError(msg)
    own, n = shares(seen.contributions), len(seen.table)  # (m, d)
    order = np.argsort(-own.sum(axis=0), kind="stable")[:MOST_VARIABLES]
    order = order[own[:, order].sum(axis=0) > 0.0]
    edges = np.unique(np.linspace(0, n, min(n, SLOTS) + 1).round().astype(np.intp))
    slot = np.searchsorted(edges, seen.explained, side="right") - 1  # (m,)
    counts = np.bincount(slot, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(slot, own[:, j], minlength=len(edges) - 1) / counts for j in order]
    names, total = tuple(seen.names[j] for j in order), own.mean(axis=0)[order]
    most, every = float(np.nanmax(means, initial=0.0)), int(seen.table["alarm"].sum())
    which = "all alarms"
    if len(own) < every:
        which = f"{count(len(own))} of {count(every)} alarms, spread over all of them"
    words = (
        f"Which variables raise the statistic, and when: shares of {which}. The stronger the colour, the "
        f"larger the share, up to {share(most)}; {names[0] if names else 'no variable'} has the largest "
        "over all."
    )
    rows = [[name, f"{100 * value:.0f} %"] for name, value in zip(names, total, strict=True)]
    usual, times = along(seen)
    times = np.arange(1, n + 1) if times is None else times
    # Where each row begins and the last one ends: slots are as wide as their rows.
    step = times[-1:] - times[-2:-1] if n > 1 else np.ones(1, dtype=np.int64)
    return ContributionsOverTime(
        axis=axis or usual,
        names=names,
        time=np.concatenate([times, times[-1:] + step])[edges],
        rows=edges,
        shares=np.array(means).reshape(len(order), -1),
        caption=words,
        tables=(listing("Mean shares over all alarms", ["variable", "share"], rows),),
    )


# ── events ──────────────────────────────────────────────────────────────────
@public
def event_blame(event: Event) -> ContributionsOverTime:
    """Which variables led an event, and when: their shares in its alarms, stretch by stretch.

    Parameters are those of `mercer.plots.contributions_over_time`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector, views
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> (event,) = KernelPCADetector().fit(X).events(X[:20] + [9.0, 0.0], names=["flow", "heat"])
    >>> views.event_blame(event).names
    ('flow', 'heat')
    """
    if not event.blame:
        msg = "The event was not explained: variables were not asked for, or the kernel has no derivative."
        raise InputError(msg)
    mean = event.mean_shares
    order = [j for j in np.argsort(-mean, kind="stable")[:MOST_VARIABLES] if mean[j] > 0.0]
    edges = np.cumsum([0, *(stretch.alarms for stretch in event.blame)])
    names = tuple(event.names[j] for j in order)
    moved = "; ".join(f"{name} from {when} on" for when, name in event.moves())
    rows = [(name, share(mean[j])) for name, j in zip(names, order, strict=True)]
    times = _stretch_times(event)
    return ContributionsOverTime(
        axis="time",
        names=names,
        time=edges if times is None else times,
        rows=edges,
        shares=np.array([[stretch.shares[j] for stretch in event.blame] for j in order]),
        caption=f"{str(event).capitalize()}. The largest share: {moved or 'no variable'}.",
        tables=(listing("Mean shares over the event", ["variable", "share"], rows),),
    )


def _stretch_times(event: Event) -> Any:  # (b + 1,)
    """When stretches begin, and the last one ends; None where these are not times, or not in order."""
    ends = axis_times([*(stretch.begin for stretch in event.blame), event.blame[-1].end])
    if ends is None or np.any(ends[1:] < ends[:-1]):
        return None
    if ends[-1] == ends[-2]:  # of one alarm: as wide as the one before
        unit = "timedelta64[s]" if ends.dtype.kind == "M" else ends.dtype
        step = ends[-2] - ends[-3] if len(ends) > 2 else np.asarray(1).astype(unit)
        ends = np.append(ends[:-1], ends[-2] + step)
    return ends


def events_table(seen: Monitoring) -> Listing:
    """The most severe events of a run by the usual alarm rule, and what led when each began."""
    every, time, rows = event_spans(seen), seen.table["time"], []
    shown = severest(seen, every)
    for first, last in shown:
        led, top = ", ".join(leaders(seen, first, last)), peak(seen, first, last)
        rows.append([time[first], time[last], led or "not known", severity(top), number(top)])
    caption = f"Events: {enough_rows()} above the limit"
    if len(shown) < len(every):
        caption += f". The {len(shown)} most severe; {count(len(every) - len(shown))} are left out"
    return listing(caption, ["from", "to", "led when it began", "severity", "peak"], rows, texts=4)


def enough_rows() -> str:
    """How many rows of how many make an event by the usual rule: '3 of 5 rows'."""
    return f"{RULE.n} of {RULE.m} rows"


def peak(seen: Monitoring, first: int, last: int) -> float:
    """The largest index of some rows, in units of its limit."""
    index = seen.table["index"][first : last + 1]
    return float(np.nanmax(index)) / float(seen.table["index_limit"][0])


def severest(seen: Monitoring, spans: Spans) -> Spans:
    """The most severe events, the longest of those that are as severe, in the order of time."""
    order = {"high": 0, "medium": 1, "low": 2}
    ranked = sorted(spans, key=lambda span: (order[severity(peak(seen, *span))], span[0] - span[1]))
    return sorted(ranked[:MOST_EVENTS])


def shown_spans(seen: Monitoring) -> Spans:
    """The events that a page shows: the most severe ones, the first one and the longest."""
    spans = event_spans(seen)
    longest = sorted(spans, key=lambda span: span[0] - span[1])[:1]
    return sorted({*severest(seen, spans), *spans[:1], *longest})


def event_spans(seen: Monitoring) -> Spans:
    """The first and the last alarm of each event by the usual alarm rule."""
    switch, table = Switch(RULE), seen.table
    judged, limit = np.flatnonzero(table["judged"]).tolist(), float(table["index_limit"][0])
    found: Spans = []
    recent: list[int] = []  # alarms since the last event
    for at, row in enumerate(judged):
        was = switch.raised
        if table["alarm"][row]:
            recent.append(row)
        switch(bool(table["alarm"][row]), float(table["index"][row]) / limit)
        if switch.raised and not was:
            earliest = judged[max(0, at + 1 - RULE.m - RULE.delay)]
            recent = [alarm for alarm in recent if alarm >= earliest]
        elif was and not switch.raised:
            found.append((recent[0], recent[-1]))
            recent = []
    return [*found, (recent[0], recent[-1])] if switch.raised else found


def leaders(seen: Monitoring, first: int, last: int) -> list[str]:
    """The variables that led when an event began."""
    # It begins a few rows after its run where the first alarms are rare.
    own = Run(first, last, 0, 0)
    run = next((run for run in seen.runs if run.first <= last and run.last >= first), own)
    return [name for name, _ in seen.began_with(own if first in seen.onsets else run)]


# ── a detector over many rows ───────────────────────────────────────────────
def watched(
    fitted: Fitted, rows: Rows, *, names: Any, gaps: Gaps, time: Any
) -> tuple[Monitoring, tuple[str, ...]]:
    """What a detector sees in many rows, and what it warned of: some alarms explained, and onsets.

    `rows` are those without a missing cell, of which `gaps` says where they lie among all; for a detector
    that looks back, all of them.
    """
    detector = fitted.judge
    if fitted.looks_back:  # rows are judged by those before them, missing ones included
        every = np.asarray(rows[:])
        seen = replace(fitted.monitor(every, time=time, names=names), missing=gaps.missing)
        with unnamed():
            past, judged = detector._with_past(detector._read(every, gaps=True), time)
        place = np.cumsum(judged) - 1
        return _begun(fitted, seen, lambda at: detector._judge.scaled(past[place[at]])), ()
    blocks = [fitted.monitor(block, names=names, top=0) for _, block in fitted.blocks(rows)]
    seen = Monitoring.joined(blocks)
    alarms = np.flatnonzero(seen.table["alarm"])
    if len(alarms) == 0:
        return seen.among(gaps, time), ()
    begun = [alarms[alarms >= first][:FIRST_ALARMS] for first, _ in shown_spans(seen)]
    # The first ones are in a table, those at equal distances in a picture; events have the others.
    spread = alarms[spaced(len(alarms), MOST_EXPLAINED)]
    some: Any = np.unique(np.concatenate([alarms[:MOST_LISTED], spread, *begun]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fitted.monitor(np.asarray(take_rows(rows, some)), names=names, explain="all")
    top = seen.table["top"].copy()
    top[some] = found.table["top"]
    table = _with_column(seen.table, "top", top)
    seen = replace(seen, table=table, contributions=found.contributions, explained=some)

    def take(at: Indices) -> Array:
        return detector._rows(np.asarray(take_rows(rows, at)))

    with unnamed():
        seen = _begun(fitted, detector._with_onsets(seen, take), take)
    remarks = tuple(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    return seen.among(gaps, time), remarks


def _begun(fitted: Fitted, seen: Monitoring, take: Callable[[Indices], Array]) -> Monitoring:
    """The report with what the first run and each event that a page shows began with, however short."""
    alarm, onsets = seen.table["alarm"], dict(seen.onsets)
    first = [(run.first, run.last) for run in seen.runs[:1]]
    for begin, end in (*first, *shown_spans(seen)):
        if begin not in onsets:
            own = np.zeros_like(alarm)  # as if there were no other: an event is one run
            own[begin : end + 1] = alarm[begin : end + 1]
            alone = replace(seen, table=_with_column(seen.table, "alarm", own))
            onsets |= fitted.judge._with_onsets(alone, take).onsets
    return replace(seen, onsets=onsets)


def _with_column(table: Table, name: str, values: Array) -> Table:
    return Table({own: table[own] for own in table.columns} | {name: values})
