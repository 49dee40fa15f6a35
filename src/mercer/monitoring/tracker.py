"""From verdicts on rows to events: where one begins and ends, what led it, and all of that as a state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mercer._core.types import Array
from mercer.monitoring.alarm_rule import AlarmRule, Switch
from mercer.monitoring.alarms import FIRST_ALARMS, LEAST_GAIN, beginning, leaders, shares
from mercer.monitoring.events import TOP, BlamePath, Event, Stretch
from mercer.monitoring.library import Course, KnownEvents, signature


@dataclass(frozen=True, eq=False)
class Judged:
    """A row as the alarm logic sees it."""

    row: int
    time: Any
    alarm: bool
    judged: bool
    index: float  # in units of its limit
    scaled: Array | None = None  # (d,), of alarms
    contributions: Array | None = None  # (d,), of alarms that were explained
    deviation: Array | None = None  # (d,), from the normal row that it was explained from


@dataclass
class _Open:
    """An event that lasts: what is known of it so far, in bounded memory."""

    number: int
    raised: int
    kind: str
    first: Judged
    last: Judged
    peak: Judged
    alarms: int = 0
    unjudged: int = 0
    waiting: int = 0  # rows not judged since the last alarm
    onset_rows: list[Array] = field(default_factory=list)
    onset_contributions: list[Array] = field(default_factory=list)
    path: BlamePath = field(default_factory=lambda: BlamePath([]))
    course: Course = field(default_factory=lambda: Course.empty(0))
    onset: tuple[tuple[str, float], ...] = ()
    shelved: bool = False

    def add(self, row: Judged) -> None:
        if not row.alarm:
            self.waiting += not row.judged
            return
        self.unjudged += self.waiting + (not row.judged)
        self.waiting, self.alarms, self.last = 0, self.alarms + 1, row
        if row.index > self.peak.index:
            self.peak = row
        if row.scaled is not None and len(self.onset_rows) < FIRST_ALARMS:
            self.onset_rows.append(row.scaled)
        if row.contributions is None or row.deviation is None:
            self.course.add(row.row - self.first.row, None)
            return
        self.course.add(row.row - self.first.row, signature(row.contributions, row.deviation))
        if np.any(row.contributions > 0.0) and len(self.onset_contributions) < FIRST_ALARMS:
            self.onset_contributions.append(row.contributions)
        self.path.add(row.time, shares(row.contributions))

    def lead(self, gains: Callable[[Array], Array], names: tuple[str, ...]) -> None:
        """Find what led in the first alarms: the onset."""
        rows = self.onset_rows
        gain = gains(np.stack(rows)).mean(axis=0) if rows else np.zeros(len(names))
        if gain.max() < LEAST_GAIN and self.onset_contributions:
            gain = beginning(np.stack(self.onset_contributions))
        self.onset = tuple(leaders(gain, names, TOP))

    def event(self, names: tuple[str, ...], known: KnownEvents, end: Any = None) -> Event:
        return Event(
            self.number,
            self.first.time,
            end,
            self.first.row,
            self.last.row,
            self.raised,
            self.alarms,
            self.unjudged,
            float(self.peak.index),
            self.peak.time,
            self.kind,
            self.onset,
            tuple(self.path.stretches),
            Course(self.course.parts.copy(), self.course.rows),
            names,
            known.nearest(self.course),
            self.shelved,
        )


class Tracker:
    """Makes events of rows that were judged.

    ``gains`` tells of scaled rows (b, d) the share of each one's index that goes with one variable, (b, d).
    """

    def __init__(
        self,
        rule: AlarmRule,
        names: Sequence[str],
        gains: Callable[[Array], Array],
        known: KnownEvents,
    ) -> None:
        self.rule, self.known = rule, known
        self._names, self._gains = tuple(names), gains
        self._switch = Switch(rule)
        self._recent: deque[Judged] = deque(maxlen=rule.m + rule.delay)
        self._open: _Open | None = None
        self._shelved: dict[str, int] = {}  # variable, "" for all, to the row until which
        self.standing, self.count = "normal", 0

    def __call__(self, row: Judged, kind: str) -> tuple[str, Event | None, Event | None]:
        """The state after the next row, the event that began with it, and the one that ended.

        ``kind`` is what an event that begins here is called.
        """
        was = self._switch.raised
        if row.judged or row.alarm:
            self.standing = self._switch(row.alarm, row.index)
        if self._open is None:
            self._recent.append(row)
        else:
            self._open.add(row)
        raised, lasting = self._switch.raised, self._open
        began = self._begin(row.row, kind) if raised and not was else None
        ended = self._end(lasting) if lasting is not None and not raised else None
        return self.standing, began, ended

    def close(self) -> list[Event]:
        """The event that still lasts, ended: alarms that follow after all are another one."""
        if self._open is None:
            return []
        self._switch, self.standing = Switch(self.rule), "normal"
        return [self._end(self._open)]

    def shelve(self, row: int, rows: int, variable: str = "") -> None:
        """Don't announce events that begin with a variable, or any, for so many rows."""
        self._shelved[variable] = row + rows

    def earliest(self, row: int) -> int:
        """The first row that an event may begin with which is raised from this row on."""
        return self._recent[0].row if self._recent and self._open is None else row

    @property
    def number(self) -> int | None:
        """The number of the event that lasts."""
        return None if self._open is None else self._open.number

    @property
    def current(self) -> Event | None:
        return None if self._open is None else self._open.event(self._names, self.known)

    # ── how ─────────────────────────────────────────────────────────────────
    def _begin(self, at: int, kind: str) -> Event:
        """An event begins with the first alarm of those that met the rule."""
        self.count += 1
        rows = list(self._recent)
        first = next(row for row in rows if row.alarm)
        course = Course.empty(len(self._names))
        found = _Open(self.count, at, kind, first, first, first, course=course)
        for row in rows[rows.index(first) :]:
            found.add(row)
        self._recent.clear()
        found.lead(self._gains, self._names)
        leads = found.onset[0][0] if found.onset else ""
        until = max(self._shelved.get(name, -1) for name in {"", leads})
        found.shelved, self._open = at < until, found
        return found.event(self._names, self.known)

    def _end(self, lasting: _Open) -> Event:
        lasting.lead(self._gains, self._names)
        event = lasting.event(self._names, self.known, end=lasting.last.time)
        if self.rule.shelve and event.onset:
            self.shelve(event.last, self.rule.shelve + 1, event.onset[0][0])
        self._open = None
        return event

    # ── state ───────────────────────────────────────────────────────────────
    def state(self) -> dict[str, Any]:
        return {
            "switch": self._switch.state(),
            "recent": [_jsonable(asdict(row)) for row in self._recent],
            "open": None if self._open is None else _jsonable(asdict(self._open)),
            "shelved": self._shelved,
            "standing": self.standing,
            "count": self.count,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._switch.restore(state["switch"])
        self._recent.clear()
        self._recent.extend(_row_of(row) for row in state["recent"])
        self._open = None if state["open"] is None else _open_of(state["open"])
        self._shelved = dict(state["shelved"])
        self.standing, self.count = state["standing"], state["count"]


# ── rows and events as JSON can hold them ───────────────────────────────────
ARRAYS = ("scaled", "contributions", "deviation")


def _jsonable(value: Any) -> Any:
    """Arrays as lists, in dictionaries and lists of them."""
    if isinstance(value, dict):
        return {name: _jsonable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _array(values: Any) -> Any:
    return None if values is None else np.array(values, dtype=np.float64)


def _row_of(state: dict[str, Any]) -> Judged:
    return Judged(**(state | {name: _array(state[name]) for name in ARRAYS}))


def _open_of(state: dict[str, Any]) -> _Open:
    rows = {name: _row_of(state[name]) for name in ("first", "last", "peak")}
    arrays = {name: [*map(_array, state[name])] for name in ("onset_rows", "onset_contributions")}
    path, course = state["path"], state["course"]
    parts = [Stretch(**(s | {"shares": _array(s["shares"])})) for s in path["stretches"]]
    onset = tuple((name, share) for name, share in state["onset"])
    found = {"path": BlamePath(parts, path["height"]), "onset": onset}
    found |= {"course": Course(_array(course["parts"]), course["rows"])}
    return _Open(**(state | rows | arrays | found))
