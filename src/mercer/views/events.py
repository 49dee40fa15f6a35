"""Events as pictures: how blame moved from variable to variable, and events of a run in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer.monitoring.alarm_rule import AlarmRule, Switch
from mercer.monitoring.events import Event, severity
from mercer.views.base import Listing, listing
from mercer.views.leaders import MOST_VARIABLES, ContributionsOverTime
from mercer.views.process import axis_times
from mercer.views.wording import number, share

if TYPE_CHECKING:
    from mercer.monitoring.report import Monitoring

MOST_EVENTS = 12


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
        step = ends[-2] - ends[-3] if len(ends) > 2 else np.asarray(1).astype(_step(ends))
        ends = np.append(ends[:-1], ends[-2] + step)
    return ends


def _step(times: Any) -> Any:
    return "timedelta64[s]" if times.dtype.kind == "M" else times.dtype


def events_table(seen: Monitoring, rule: AlarmRule | None = None) -> Listing:
    """The events of a run by an alarm rule, the first of them, and what led when each began."""
    rule, table = AlarmRule() if rule is None else rule, seen.table
    limit = float(table["index_limit"][0])
    rows = [_line(seen, first, last, limit) for first, last in event_spans(seen, rule)]
    caption = f"Events: {rule.n} of {rule.m} rows above the limit"
    if len(rows) > MOST_EVENTS:
        caption += f", the first {MOST_EVENTS} of {len(rows)}"
    head = ["from", "to", "led when it began", "severity", "peak"]
    return listing(caption, head, rows[:MOST_EVENTS], texts=4)


def event_spans(seen: Monitoring, rule: AlarmRule | None = None) -> list[tuple[int, int]]:
    """The first and the last alarm of each event by an alarm rule."""
    rule, table = AlarmRule() if rule is None else rule, seen.table
    switch, limit = Switch(rule), float(table["index_limit"][0])
    found: list[tuple[int, int]] = []
    recent: list[int] = []  # alarms since the last event
    for i in np.flatnonzero(table["judged"]):
        was = switch.raised
        if table["alarm"][i]:
            recent.append(int(i))
        switch(bool(table["alarm"][i]), float(table["index"][i]) / limit)
        if switch.raised and not was:
            recent = recent[-rule.m - rule.delay :]
            window = np.flatnonzero(table["judged"][: i + 1])[-rule.m - rule.delay :]
            recent = [row for row in recent if row >= window[0]]
        elif was and not switch.raised:
            found.append((recent[0], recent[-1]))
            recent = []
    return [*found, (recent[0], recent[-1])] if switch.raised else found


def leaders(seen: Monitoring, first: int, last: int) -> list[str]:
    """The variables that led when an event began."""
    run = next((run for run in seen.runs if run.first <= last and run.last >= first), None)
    return [] if run is None else [name for name, _ in seen.began_with(run)]


def _line(seen: Monitoring, first: int, last: int, limit: float) -> list[Any]:
    time, index = seen.table["time"], seen.table["index"][first : last + 1] / limit
    led = ", ".join(leaders(seen, first, last))
    peak = float(np.nanmax(index))
    return [time[first], time[last], led or "not known", severity(peak), number(peak)]
