"""What a stream says of one row."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

from mercer.monitoring.events import Event
from mercer.monitoring.sensors import in_words


@dataclass(frozen=True, eq=False, slots=True)
class Verdict:
    """What a stream says of one row.

    Attributes
    ----------
    row : int
        Counted from 0.
    time : as it was given; the count where none was
    t2, q, index : float
        NaN for a row that lacks cells.
    limit : float
        Of the index.
    alarm : bool
        Whether the row is above the limit: by its index or, where it lacks cells, by the least that the index
        can be.
    judged : bool
        Whether all cells are there.
    at_least : float
        The index; of a row that lacks cells the one that it has at least, whatever normal values they hold,
        where that is above the limit, and NaN where some normal value keeps it below: nothing is known then.
    top : tuple of (name, share)
        The variables behind an alarm.
    marks : tuple of (kind, name)
        What is wrong with the row: "missing", "frozen", "range" with the sensor; "late", "repeated",
        "clock put back", "no time" with "", and of a detector that looks back "gap".
    state : "normal", "pending" or "raised"
        By the alarm rule.
    event : int or None
        The number of the event that lasts at this row, whose state is "raised".
    began, ended : Event or None
        An event that was raised at this row, or that is over with it.
    """

    row: int
    time: Any
    t2: float
    q: float
    index: float
    limit: float
    alarm: bool
    judged: bool
    at_least: float
    top: tuple[tuple[str, float], ...]
    marks: tuple[tuple[str, str], ...]
    state: str
    event: int | None = None
    began: Event | None = None
    ended: Event | None = None

    def __str__(self) -> str:
        what = "alarm" if self.alarm else "normal" if self.judged else "not judged"
        index = "" if isnan(self.at_least) else f", index {self.at_least:.3g}"
        marks = f"; {in_words(self.marks)}" if self.marks else ""
        return f"{self.time}: {what}{index} ({self.state}){marks}"
