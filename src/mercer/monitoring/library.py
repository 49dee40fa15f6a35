"""Known events: what faults looked like that people have named, and which of them a new one is like.

What leads a fault when it begins is not what leads it an hour later, when controllers have answered. So an
event that is three rows old is compared with the first three rows of a known one, and not with all of it: the
course of an event is what its blame was after one row, two, three, …, in bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any

import numpy as np

from mercer._core.types import Array
from mercer.monitoring.alarms import shares

# An event at most this far from a known one is like it. Blame that is the same but for a fifth of it lies at
# √(1 - √0.8) = 0.33. Beyond the second it is unlike: less than half of its blame is the same.
LIKE, UNLIKE = 0.35, 0.7
# Rows since the beginning at which stretches end: one by one at first, then half as long again each time.
ENDS = np.array([1, 2, 3, 4, 6, 9, 13, 19, 28, 42, 63, 94, 141, 211, 316, 474, 711, 1066, np.inf])
BEGINS = np.append(0, ENDS[:-1])


@dataclass(eq=False)
class Course:
    """Sums of the signatures of alarms, by how many rows after the first alarm they stand.

    Examples
    --------
    >>> import numpy as np
    >>> course = Course.empty(2)
    >>> for row in range(8):
    ...     course.add(row, np.array([1.0, 0.0]) if row < 3 else np.array([0.0, 1.0]))
    >>> course.rows, course.upto(3), course.upto(5), course.upto(8)
    (8, array([3., 0.]), array([3., 2.]), array([3., 5.]))
    """

    parts: Array  # (s, d)
    rows: int = 0  # to the last alarm

    @classmethod
    def empty(cls, d: int) -> Course:
        """The course of an event of d variables that has not begun."""
        return cls(np.zeros((len(ENDS), d)))

    def add(self, row: int, signature: Array | None) -> None:  # (d,)
        """The signature of an alarm, so many rows after the first; None where it was not explained."""
        self.rows = row + 1
        if signature is not None:
            self.parts[np.searchsorted(ENDS, row, side="right")] += signature

    def joined(self, other: Course) -> Course:
        """Two cases of the same fault, from the beginning of each."""
        return Course(self.parts + other.parts, max(self.rows, other.rows))

    def upto(self, rows: int) -> Array:  # (d,)
        """The sum over the first rows; of a stretch that they end within, the share of it that they are."""
        lengths = np.maximum(np.minimum(ENDS, self.rows) - BEGINS, 1.0)
        share = np.clip((rows - BEGINS) / lengths, 0.0, 1.0)
        return np.asarray(share @ self.parts)


@dataclass(frozen=True)
class Nearest:
    """The known event that is nearest, and how far: 0 for the same blame, 1 for no variable in common."""

    name: str
    distance: float

    @property
    def alike(self) -> bool:
        """Whether it is near enough to be taken for the same."""
        return self.distance <= LIKE

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "distance": self.distance, "alike": self.alike}

    def __str__(self) -> str:
        partly = "partly like" if self.distance <= UNLIKE else "unlike any known, nearest"
        how = "like" if self.alike else partly
        return f"{how} {self.name!r} (distance {self.distance:.2f})"


@dataclass(frozen=True, eq=False, repr=False)
class KnownEvents:
    """Named events, each with its course.

    A signature is ±√share of each variable, the sign that of its deviation: a unit vector for each alarm,
    whose distances are Hellinger's, with signs. A course has their sums from the first alarm on. Of an event
    that was learned before there were courses, the mean signature is all that is known.
    """

    names: tuple[str, ...]
    signatures: Annotated[Array, "e d"]
    courses: Annotated[Array, "e s d"] | None = None
    # From the first alarm of each to the last; 0 is not known.
    rows: Annotated[Array, "e"] | None = None

    @classmethod
    def none(cls, d: int) -> KnownEvents:
        return cls((), np.empty((0, d)))

    def course(self, i: int) -> Course | None:
        """The course of an event; None where it is not known."""
        if self.courses is None or self.rows is None or not self.rows[i]:
            return None
        return Course(self.courses[i], int(self.rows[i]))

    def learned(self, name: str, course: Course) -> KnownEvents:
        """The known events with one more, or with another course for a name that is known."""
        kept = [i for i, known in enumerate(self.names) if known != name]
        unknown = Course.empty(self.signatures.shape[1])
        courses = [*(self.course(i) or unknown for i in kept), course]
        whole = course.upto(course.rows)
        return KnownEvents(
            (*(self.names[i] for i in kept), name),
            np.vstack([self.signatures[kept], whole / np.linalg.norm(whole)]),
            np.stack([one.parts for one in courses]),
            np.array([float(one.rows) for one in courses]),
        )

    def nearest(self, course: Course) -> Nearest | None:
        """The known event that is nearest; None where none is known, or nothing was explained.

        Like is compared with like: as many rows of either as the shorter has, from the first alarm on. An
        event that is like none so may not have been seen from its beginning, as after a restart or when a
        fault shows again: then the whole of each known one counts too.
        """
        if not self.names or not np.any(course.parts):
            return None
        so_far = course.upto(course.rows)
        whole = [signature_distance(so_far, each) for each in self.signatures]
        aligned = [self._aligned(i, course, whole[i]) for i in range(len(self.names))]
        found = aligned if min(aligned) <= LIKE else np.minimum(aligned, whole)
        at = int(np.argmin(found))
        return Nearest(self.names[at], float(found[at]))

    def _aligned(self, i: int, course: Course, whole: float) -> float:
        """The distance over the rows that both have; the given one where no course is known."""
        known = self.course(i)
        if known is None:
            return whole
        rows = min(known.rows, course.rows)
        return signature_distance(course.upto(rows), known.upto(rows))

    def __repr__(self) -> str:
        return f"KnownEvents({', '.join(self.names)})"


def signature(contributions: Array, deviations: Array) -> Array:  # (b, d), (b, d) -> (b, d)
    """±√share of each variable: a unit vector for each row in which anything raises the statistic."""
    return np.sign(deviations) * np.sqrt(shares(contributions))


def signature_distance(a: Array, b: Array) -> float:  # (d,), (d,)
    """√(1 - cosine): 0 for the same direction, 1 for no variable in common, √2 for the opposite."""
    sizes = float(np.linalg.norm(a) * np.linalg.norm(b))
    return sqrt(max(1.0 - float(a @ b) / sizes, 0.0)) if sizes > 0.0 else 1.0
