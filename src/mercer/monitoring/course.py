"""The course of an event: what its blame was after one row, two, three, …, in bounded memory.

What leads a fault when it begins is not what leads it an hour later, when controllers have answered. So an
event that is three rows old is compared with the first three rows of a known one, and not with all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array

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
