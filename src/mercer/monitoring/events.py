"""Events, alarms that belong together, with what led them when, and the verdicts that they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from mercer._core.errors import many
from mercer._core.table import Table
from mercer._core.types import Array
from mercer.monitoring.alarms import LEAST_SHARE, leading
from mercer.monitoring.library import LIKE, UNLIKE, Course, Nearest, signature_distance
from mercer.monitoring.sensors import in_words

Named = tuple[tuple[str, float], ...]
# Stretches in which the blame of an event is kept. When there are more, two neighbours become one.
STRETCHES = 48
TOP = 3


@dataclass(frozen=True, eq=False)
class Stretch:
    """Blame in one stretch of an event: the mean share of each variable over its alarms."""

    begin: Any  # times of the first and the last alarm in it
    end: Any
    alarms: int
    shares: Array  # (d,), summing to 1 where anything raises the statistic

    def merged(self, other: Stretch) -> Stretch:
        n = self.alarms + other.alarms
        shares = (self.alarms * self.shares + other.alarms * other.shares) / n
        return Stretch(self.begin, other.end, n, shares)


@dataclass(frozen=True, eq=False)
class Event:
    """Alarms that belong together, by an alarm rule.

    Attributes
    ----------
    number : int
        Counted from 1 in a stream.
    begin, end : time
        Of its first and its last alarm; ``end`` is None while it lasts.
    first, last : int
        The rows of these, counted from 0.
    raised : int
        The row at which the alarm rule was met.
    alarms, unjudged : int
        Rows of it above the limit, and rows of it that could not be judged.
    peak : float
        The largest index, in units of its limit.
    peak_time : time
        When that was.
    kind : "fault" or "drift"
        Whether the statistics were normal until it began, or had been rising for long.
    onset : tuple of (name, share)
        The variables that led when it began, with shares as in `Monitoring.onsets`.
    blame : tuple of Stretch
        How blame moved from variable to variable.
    course : Course
        Sums over its alarms of ±√share of each variable, the sign that of the deviation, from its first row
        on: what events are compared by.
    nearest : Nearest or None
        The known event that was most like it as long after its first alarm.
    shelved : bool
        Whether it was recorded and not announced.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AlarmRule, KernelPCADetector
    >>> rng = np.random.default_rng(0)
    >>> detector = KernelPCADetector().fit(rng.standard_normal((300, 3)))
    >>> rows = rng.standard_normal((60, 3))
    >>> rows[20:40, 1] += 12.0
    >>> for event in detector.events(rows, names=["flow", "heat", "level"], rule=AlarmRule()):
    ...     print(event)
    event 1, fault: from 20 to 39 (20 rows, all alarms), severity high, began with heat
    """

    number: int
    begin: Any
    end: Any
    first: int
    last: int
    raised: int
    alarms: int
    unjudged: int
    peak: float
    peak_time: Any
    kind: str
    onset: Named
    blame: tuple[Stretch, ...]
    course: Course
    names: tuple[str, ...]
    nearest: Nearest | None = None
    shelved: bool = False

    @property
    def rows(self) -> int:
        """From the first alarm to the last."""
        return self.last - self.first + 1

    @property
    def signature(self) -> Array:  # (d,)
        """The mean over its alarms of ±√share of each variable."""
        return self.course.upto(self.course.rows) / self.alarms

    @property
    def severity(self) -> str:
        """The `severity` of the peak."""
        return severity(self.peak)

    @property
    def led(self) -> Named:
        """The variables that led over the whole event, with their shares."""
        return tuple(leading(self.mean_shares, self.names, TOP))

    @property
    def mean_shares(self) -> Array:  # (d,)
        """The mean share of each variable over all alarms; zeros where nothing was explained."""
        total = sum(stretch.alarms for stretch in self.blame)
        parts = [stretch.alarms * stretch.shares for stretch in self.blame]
        return np.sum(parts, axis=0) / total if total else np.zeros(len(self.names))

    def moves(self) -> list[tuple[Any, str]]:
        """When the lead passed to another variable: (time, name), the first at the beginning."""
        found: list[tuple[Any, str]] = []
        for stretch in self.blame:
            if stretch.shares.max(initial=0.0) < LEAST_SHARE:
                continue
            name = self.names[int(np.argmax(stretch.shares))]
            if not found or found[-1][1] != name:
                found.append((stretch.begin, name))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON can hold it: one line of an event log."""
        return {
            "event": self.number,
            "kind": self.kind,
            "begin": plain_time(self.begin),
            "end": plain_time(self.end),
            "first_row": self.first,
            "last_row": self.last,
            "raised_row": self.raised,
            "rows": self.rows,
            "alarms": self.alarms,
            "not_judged": self.unjudged,
            "severity": self.severity,
            "peak": self.peak if np.isfinite(self.peak) else None,
            "peak_time": plain_time(self.peak_time),
            "began_with": [{"variable": n, "lowers_index_by": s} for n, s in self.onset],
            "led": [{"variable": name, "share": share} for name, share in self.led],
            "moves": [{"time": plain_time(when), "variable": name} for when, name in self.moves()],
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            "shelved": self.shelved,
        }

    def __str__(self) -> str:
        span = f"since {self.begin}" if self.end is None else f"from {self.begin} to {self.end}"
        alarms = "all" if self.alarms == self.rows else self.alarms
        text = f"event {self.number}, {self.kind}: {span} ({many(self.rows, 'row')}, "
        text += f"{alarms} alarms), severity {self.severity}"
        if self.onset:
            text += f", began with {', '.join(name for name, _ in self.onset)}"
        nearest = "" if self.nearest is None else str(self.nearest)
        return "; ".join(filter(None, [text, nearest, "shelved" if self.shelved else ""]))


@dataclass(frozen=True)
class Comparison:
    """Two events beside each other. Print it."""

    distance: float  # 0 for the same signature, 1 for no variable in common, √2 for opposite ones
    table: Table  # shares of each variable in either event, and their difference, the largest first
    of: tuple[str, str]  # the events in words

    def __str__(self) -> str:
        partly = "partly alike" if self.distance <= UNLIKE else "unlike"
        words = "much alike" if self.distance <= LIKE else partly
        return f"{self.of[0]}\n{self.of[1]}\ndistance {self.distance:.2f}: {words}\n\n{self.table}"


def compare_events(a: Event, b: Event) -> Comparison:
    """How two events of the same variables differ.

    Parameters
    ----------
    a, b : Event

    Returns
    -------
    comparison : Comparison
    """
    one, other = a.mean_shares, b.mean_shares
    order = np.argsort(-np.abs(one - other), kind="stable")
    columns: dict[str, Any] = {
        "variable": [a.names[j] for j in order],
        "first": one[order],
        "second": other[order],
        "difference": (other - one)[order],
    }
    distance = signature_distance(a.signature, b.signature)
    return Comparison(distance, Table(columns), (str(a), str(b)))


# ── a row of a stream ───────────────────────────────────────────────────────
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


# ── blame, in bounded memory ────────────────────────────────────────────────
@dataclass
class BlamePath:
    """Shares of variables over an event of any length: when stretches are too many, they double in length."""

    stretches: list[Stretch]
    height: int = 1  # alarms of a stretch

    def add(self, time: Any, shares: Array) -> None:
        fresh = Stretch(time, time, 1, shares)
        if self.stretches and self.stretches[-1].alarms < self.height:
            self.stretches[-1] = self.stretches[-1].merged(fresh)
            return
        if len(self.stretches) == STRETCHES:
            pairs = zip(self.stretches[::2], self.stretches[1::2], strict=True)
            self.stretches = [one.merged(other) for one, other in pairs]
            self.height *= 2
        self.stretches.append(fresh)


def severity(peak: float) -> str:
    """A peak in words: "low" up to twice the limit, "medium" up to five times, "high" above."""
    return "high" if peak > 5.0 else "medium" if peak > 2.0 else "low"


def plain_time(time: Any) -> Any:
    """A time as JSON can hold it: a number, or a text."""
    plain = time.item() if isinstance(time, np.generic) and time.dtype.kind != "M" else time
    return plain if plain is None or isinstance(plain, (int, float, str)) else str(plain)
