"""Times of rows as they arrive: late, repeated, after a gap, and a clock that was put back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from mercer._core.errors import DetectorWarning, InputError, many
from mercer._core.findings import warn
from mercer._core.types import Flags
from mercer._core.wording import Message
from mercer.monitoring.lags import STATIC, Dynamics, clock_of_rows, follow, seconds

# So many rows that are late and in order among themselves mean that the clock was put back.
PUT_BACK = 3
OUT_OF_TURN = ("late", "repeated")
KINDS = (*OUT_OF_TURN, "clock put back", "no time")
# Share of rows out of their turn beyond which times don't say how rows follow each other.
MOST_OUT_OF_TURN = 0.5
# A stream looks at so many rows before it says that they come at another pace than those of the fit.
FIRST_ROWS = 20


class Clock:
    """Whether each row is in its turn.

    A row that is older than the newest one is late, one of the same time repeated. Either is judged, but is
    not a next row: it stays outside of the alarm logic and of lagged rows. When three late rows follow each
    other in order, the clock was put back, and time goes on from there. A row whose time can't be read has no
    time, where others have one: it is taken for the next row.

    Examples
    --------
    >>> clock = Clock()
    >>> [clock(t) for t in (1.0, 2.0, 2.0, 1.5, 3.0)]
    ['', '', 'repeated', 'late', '']
    >>> [clock(t) for t in (0.0, 1.0, 2.0)]
    ['late', 'late', 'clock put back']
    """

    def __init__(self) -> None:
        self._newest: float | None = None
        self._late: list[float] = []  # since the last row that was in its turn
        self._unread = 0  # rows before the first time
        self.counts = dict.fromkeys(KINDS, 0)

    def __call__(self, time: Any, *, expected: bool = False) -> str:
        """What is wrong with the time of the next row; nothing where it is in its turn, or no row has one.

        Names of rows may be no times at all: that one is missing is known where it is ``expected``, or once
        a row has had one.
        """
        now = seconds(time)
        if now is None and not expected and self._newest is None:
            self._unread += 1
            return ""
        if now is not None and self._newest is None:
            self.counts["no time"] += self._unread
        mark = "no time" if now is None else self._mark(now)
        if mark:
            self.counts[mark] += 1
        return mark

    def _mark(self, now: float) -> str:
        if self._newest is None or now > self._newest:
            self._newest, self._late = now, []
            return ""
        if now == self._newest or (self._late and now == self._late[-1]):
            return "repeated"
        self._late = [*self._late, now] if not self._late or now > self._late[-1] else [now]
        if len(self._late) < PUT_BACK:
            return "late"
        self._newest, self._late = now, []
        return "clock put back"

    def state(self) -> dict[str, Any]:
        times = {"newest": self._newest, "late": self._late, "unread": self._unread}
        return times | {"counts": self.counts}

    def restore(self, state: dict[str, Any]) -> None:
        self._newest, self._late = state["newest"], list(state["late"])
        self._unread = state.get("unread", 0)  # older versions did not count them
        self.counts = dict.fromkeys(KINDS, 0) | state["counts"]


def require_turns(counts: dict[str, int], n: int) -> None:
    """Raise where most of n rows were late or repeated: all of them would stay outside of events."""
    late, repeated = counts["late"], counts["repeated"]
    if late + repeated > MOST_OUT_OF_TURN * n:
        msg = Message(
            "Times must go forwards from row to row; got {late} of {n} rows older than one before, and "
            "{repeated} of the same time. Sort the rows by time, the oldest first; if these are not times, "
            "name the rows by another column, or leave {time} out.",
            late=late,
            repeated=repeated,
            n=n,
        )
        raise InputError(msg)


# ── pace ────────────────────────────────────────────────────────────────────
def require_pace(time: Any, n: int, how: Dynamics = STATIC) -> None:
    """Raise where times can't say which of n rows follow each other, or none of them does as in the fit.

    At another step every row begins a history of its own: a moving mean would be the row itself, drawn to
    the centre, and no alarm.
    """
    clock = clock_of_rows(time, n)
    if clock is None or n < 3:
        return
    if np.mean(clock[1:] <= np.fmax.accumulate(clock)[:-1]) > MOST_OUT_OF_TURN:
        require_turns(turns(clock), n)
    steps = np.diff(clock)[np.isfinite(np.diff(clock))]
    if how.static or how.step is None or not len(steps):
        return
    step = float(np.quantile(steps, 0.5, method="lower"))  # one that is there
    if step > 0.0 and not follow(step, how.step):
        dates = are_dates(time)
        met = f"The rows are {apart(step, dates=dates)} apart"
        raise InputError(other_pace(how, apart(how.step, dates=dates), met))


def turns(times: Any) -> dict[str, int]:
    """How many rows were late, repeated, after a clock that was put back, or without a time."""
    clock = Clock()
    for time in times:
        clock(time)
    return clock.counts


def in_turn(time: Any, n: int) -> Flags:  # (n,)
    """Which of n rows are in their turn: histories go on over late and repeated ones, as in a stream."""
    clock = clock_of_rows(time, n)
    if clock is None or not np.any(clock[1:] <= np.fmax.accumulate(clock)[:-1]):
        return np.ones(n, dtype=bool)
    mark = Clock()
    return np.array([mark(now) not in OUT_OF_TURN for now in clock], dtype=bool)


def warn_backwards(time: Any, n: int) -> None:
    """Warn where most of n rows, each judged by itself, are older than one before."""
    clock = clock_of_rows(time, n)
    if clock is None or not np.any(clock[1:] < np.fmax.accumulate(clock)[:-1]):
        return
    late = turns(clock)["late"]
    if late > MOST_OUT_OF_TURN * n:
        msg = (
            f"{late} of {n} rows are older than one before. Each row is judged by itself, but runs of alarms "
            "and what they began with are in the order of the rows. Sort them by time, the oldest first."
        )
        warn(msg, DetectorWarning, "backwards", {"late": late, "rows": n})


def warn_unread(time: Any, n: int) -> None:
    """Warn where some of n rows have times and others have none that can be read."""
    clock = clock_of_rows(time, n)
    unread = np.flatnonzero(np.isnan([] if clock is None else clock))
    if len(unread):
        have = "has" if len(unread) == 1 else "have"
        msg = (
            f"{len(unread)} of {n} rows {have} no time that can be read; the first is row {unread[0]} "
            "(counted from 0). Such a row counts as one step after the row before it."
        )
        warn(msg, DetectorWarning, "no_time", {"unread": len(unread), "rows": n})


def warn_pace(how: Dynamics, gaps: int, time: Any) -> None:
    """Warn of a stream most of whose first rows followed a gap."""
    if how.step is not None and gaps > MOST_OUT_OF_TURN * FIRST_ROWS:
        met = f"Most of the first {FIRST_ROWS} rows follow a gap"
        msg = other_pace(how, apart(how.step, dates=are_dates([time])), met)
        warn(msg, DetectorWarning, "pace", {"gaps": gaps, "rows": FIRST_ROWS})


def other_pace(how: Dynamics, usual: str, met: str) -> str:
    """The message about rows at another step than those of the fit, which begins with what was met."""
    lost = ["its moving mean restarts at every row"] if how.smoothing is not None else []
    lost += [f"no row has {rows_before(how.lags)} directly before it"] if how.lags else []
    return (
        f"{met}, but the detector was fitted to rows {usual} apart, so {' and '.join(lost)}. Give rows every "
        f"{usual}, or fit a detector to rows like these."
    )


def rows_before(lags: int) -> str:
    """'2 rows', '1 row'."""
    return many(lags, "row")


def are_dates(time: Any) -> bool:
    """Whether times are dates, whose steps are seconds, and not numbers."""
    times = np.asarray(time)
    with suppress(TypeError, ValueError):
        times[:1].astype(np.float64)
        return times.dtype.kind == "M"
    return True


def apart(step: float, *, dates: bool) -> str:
    """A step between rows for people: '2 min' of dates; a number as it is.

    Examples
    --------
    >>> apart(120.0, dates=True), apart(90.0, dates=True), apart(2.0, dates=False)
    ('2 min', '1.5 min', '2')
    """
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if dates and step >= size:
            return f"{step / size:.3g} {unit}"
    return f"{step:g} s" if dates else f"{step:g}"
