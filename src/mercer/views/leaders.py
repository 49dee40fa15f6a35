"""The variables behind alarms and events: what each adds, which led when, and events in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.monitoring.alarm_rule import AlarmRule, Switch
from mercer.monitoring.alarms import Run, shares
from mercer.monitoring.events import Event, severity
from mercer.monitoring.report import Monitoring
from mercer.views import checks
from mercer.views.base import Listing, View, listing
from mercer.views.fitted import Fitted
from mercer.views.process import along, axis_times
from mercer.views.wording import count, counted, number, share

MOST_VARIABLES = 8
SLOTS = 120  # of time
MOST_EVENTS = 12
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
    names = tuple(seen.names[j] for j in order)
    most = float(np.nanmax(means, initial=0.0))
    total = own.mean(axis=0)[order]
    every = int(seen.table["alarm"].sum())
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
    return ContributionsOverTime(
        axis=axis or usual,
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
    return ContributionsOverTime(
        axis="time",
        names=names,
        time=_edges(event),
        rows=edges,
        shares=np.array([[stretch.shares[j] for stretch in event.blame] for j in order]),
        caption=f"{str(event).capitalize()}. The largest share: {moved or 'no variable'}.",
        tables=(listing("Mean shares over the event", ["variable", "share"], rows),),
    )


def _edges(event: Event) -> Any:  # (b + 1,)
    """Where stretches begin, and the last one ends: times where they are in order, else alarms counted."""
    last = event.blame[-1]
    ends = axis_times([*(stretch.begin for stretch in event.blame), last.end])
    if ends is None or np.any(ends[1:] < ends[:-1]):
        return np.cumsum([0, *(stretch.alarms for stretch in event.blame)])
    if ends[-1] == ends[-2]:  # of one alarm: as wide as the one before
        unit = "timedelta64[s]" if ends.dtype.kind == "M" else ends.dtype
        step = ends[-2] - ends[-3] if len(ends) > 2 else np.asarray(1).astype(unit)
        ends = np.append(ends[:-1], ends[-2] + step)
    return ends


def events_table(seen: Monitoring) -> Listing:
    """The most severe events of a run by the usual alarm rule, and what led when each began."""
    every = event_spans(seen)
    shown, time, rows = severest(seen, every), seen.table["time"], []
    for first, last in shown:
        led, top = ", ".join(leaders(seen, first, last)), peak(seen, first, last)
        rows.append([time[first], time[last], led or "not known", severity(top), number(top)])
    caption = f"Events: {enough_rows()} above the limit"
    if len(shown) < len(every):
        caption += f". The {len(shown)} most severe; {count(len(every) - len(shown))} are left out"
    head = ["from", "to", "led when it began", "severity", "peak"]
    return listing(caption, head, rows, texts=4)


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


def told_spans(seen: Monitoring) -> Spans:
    """The events that a page tells of: the most severe ones, the first one and the longest."""
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
