"""Times of rows as they arrive: late, repeated, after a gap, and a clock that was put back."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.wording import Message
from mercer.data.times import as_times

# So many rows that are late and in order among themselves mean that the clock was put back.
PUT_BACK = 3
# Share of rows out of their turn beyond which times don't say how rows follow each other.
MOST_OUT_OF_TURN = 0.5


class Clock:
    """Whether each row is in its turn.

    A row that is older than the newest one is late, one of the same time repeated. Either is judged, but is
    not a next row: it stays outside of the alarm logic and of lagged rows. When three late rows follow each
    other in order, the clock was put back, and time goes on from there.

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
        self.counts = {"late": 0, "repeated": 0, "clock put back": 0}

    def __call__(self, time: Any) -> str:
        """What is wrong with the time of the next row; nothing where it has none or is in its turn."""
        now = seconds(time)
        if now is None:
            return ""
        mark = self._mark(now)
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
        """What JSON can hold of it."""
        return {"newest": self._newest, "late": self._late, "counts": self.counts}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._newest, self._late = state["newest"], list(state["late"])
        self.counts = dict(state["counts"])


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


def seconds(time: Any) -> float | None:
    """A time as a number, dates in seconds; None for what is neither, such as the name of a batch."""
    if time is None or isinstance(time, bool):
        return None
    if isinstance(time, (int, float, np.integer, np.floating)):
        return float(time) if np.isfinite(time) else None
    if isinstance(time, str):
        try:
            return float(time) if np.isfinite(float(time)) else None
        except ValueError:
            pass
    try:
        found = as_times([time] if isinstance(time, str) else np.asarray([time], "datetime64[us]"))
    except (TypeError, ValueError):
        return None
    if found is None or np.isnat(found[0]):
        return None
    return float((found[0] - np.datetime64(0, "us")) / np.timedelta64(1, "s"))
