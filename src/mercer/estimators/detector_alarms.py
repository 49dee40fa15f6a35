"""Runs of alarms, and the variables that lead them: each row, and each run when it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Flags

# A run goes on over so many rows that are no alarms: a statistic near its limit crosses it back and forth.
MOST_BETWEEN = 2
# Alarms whose contributions tell what a run began with. The first alone may be noise on its way over the
# limit; a few rows on, the controllers answer, and what they move leads.
FIRST_ALARMS = 3
# Shares below this would be written as 0 %.
LEAST_SHARE = 0.005


@dataclass(frozen=True)
class Run:
    """Alarms that follow each other, perhaps with a few other rows between."""

    first: int  # positions of the first and the last alarm
    last: int
    alarms: int
    unjudged: int  # rows between that could not be judged

    @property
    def rows(self) -> int:
        """From the first alarm to the last, all that lies between included."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        """'40 rows, 37 of them alarms and 2 not judged'."""
        text = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        if self.alarms == self.rows:
            return text
        unjudged = f" and {self.unjudged} not judged" if self.unjudged else ""
        return f"{text}, {self.alarms} of them alarms{unjudged}"


def alarm_runs(alarm: Flags, judged: Flags | None = None) -> list[Run]:
    """Runs of alarms. Rows that were not judged break none, nor do up to two that are no alarms."""
    at = np.flatnonzero(alarm)
    if len(at) == 0:
        return []
    known = np.ones(len(alarm), dtype=bool) if judged is None else np.asarray(judged, dtype=bool)
    normal = np.cumsum(known & ~np.asarray(alarm, dtype=bool))  # rows so far that are no alarms
    cuts = np.flatnonzero(np.diff(normal[at]) > MOST_BETWEEN) + 1
    return [
        Run(int(own[0]), int(own[-1]), len(own), int(np.sum(~known[own[0] : own[-1] + 1])))
        for own in np.split(at, cuts)
    ]


def shares(contributions: Array) -> Array:  # (..., d) -> (..., d)
    """Of what raises the statistic, summing to 1; zeros where nothing does, or nothing is known."""
    raising = np.maximum(np.nan_to_num(contributions, nan=0.0), 0.0)
    # By the largest first: sums of what is near the largest number there is overflow.
    largest = raising.max(axis=-1, keepdims=True, initial=0.0)
    raising = raising / np.where(largest > 0.0, largest, 1.0)
    total = raising.sum(axis=-1, keepdims=True)
    return np.asarray(raising / np.where(total > 0.0, total, 1.0))


def leading(share: Array, names: Sequence[str], top: int) -> list[tuple[str, float]]:
    """The variables with the largest shares, with them; none that would be written as 0 %."""
    order = np.argsort(-share, kind="stable")[:top]
    return [(names[j], float(share[j])) for j in order if share[j] >= LEAST_SHARE]


def in_words(named: Sequence[tuple[str, float]]) -> str:
    """'pressure 61 %, flow 30 %'."""
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in named)


def beginning(run: Run, contributions: Array, explained: Array) -> Array:  # (m, d), (m,) -> (d,)
    """Shares of the variables in the first alarms of a run, in their sum.

    After a while the controllers' answer leads a run and no longer its cause: of rows that were explained
    every one has its own leader, and a run the one that it began with. The sum, not the mean of shares,
    lets the rows count in which the statistic is clearly above its limit.
    """
    first = np.searchsorted(explained, run.first)
    last = np.searchsorted(explained, run.last, side="right")
    own = contributions[first:last]
    known = own[np.any(own > 0.0, axis=1)][:FIRST_ALARMS]
    if len(known) == 0:
        return np.zeros(contributions.shape[1])
    return shares((known / np.abs(known).max()).sum(axis=0))
