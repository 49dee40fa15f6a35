"""Slow change as against a fault: how the levels of the index and of variables move while no event lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._core.types import Array
from mercer.monitoring.alarms import leading

# Rows over which levels are averaged, with weights that fall exponentially.
MEMORY = 500
# And those before an event, which tell whether the process was on its way there or broke.
BEFORE = 100
# The level of the index, in units of that of rows held out at the fit, above which a process has drifted.
# A mean over 500 rows of a process whose rows resemble each other for 30 is that of some 16 independent ones,
# and within a quarter of the level at the fit in all but one of a hundred.
DRIFTED = 1.5
# By so much, at least, the level over 500 rows is raised when a drift meets the limit.
LIFTED = 1.2
REMEDY = "If the process has changed for good, mercer retrain DETECTOR NEW_ROWS -o NEW.mercer follows it."


@dataclass(frozen=True)
class DriftReport:
    """Whether a process has left slowly what a model knows. Print it."""

    # The mean index of the last 500 rows or so that belong to no event, in units of that at the fit.
    level: float
    drifted: bool  # whether it is above 1.5, after 250 rows at least
    rows: int  # that were judged since the stream began
    # The variables that moved most, with how far, in standard deviations of the training rows.
    shifts: tuple[tuple[str, float], ...]

    @property
    def remedy(self) -> str:
        """What to do about it, at the command line; nothing where there is no drift."""
        return f"Rows drift slowly. {REMEDY}" if self.drifted else ""

    def __str__(self) -> str:
        if not self.rows:
            return "No row was judged yet."
        change = "the process has drifted" if self.drifted else "no drift"
        text = f"The index is {self.level:.2f} times what it was at the fit: {change}."
        moved = ", ".join(f"{name} by {shift:+.1f} spreads" for name, shift in self.shifts)
        return f"{text} Moved most: {moved}." if moved else text


class Drift:
    """Exponentially weighted means of the index and of scaled rows, over rows that belong to no event."""

    def __init__(
        self, names: Sequence[str], usual: float | None, centre: Array, unit: Array
    ) -> None:
        self._names, self._usual = tuple(names), usual  # None: the first rows tell
        self._centre, self._unit = centre, unit
        self._mean, self._lately, self._rows = 0.0, 0.0, 0
        self._where = np.zeros(len(centre))

    def add(self, index: float, scaled: Array) -> None:
        """The next row; what is above the limit counts as on it, so that no single row is a drift."""
        self._rows += 1
        weight = 1.0 / min(self._rows, MEMORY)
        self._mean += weight * (min(index, 1.0) - self._mean)
        self._lately += (min(index, 1.0) - self._lately) / min(self._rows, BEFORE)
        off = np.clip((scaled - self._centre) / self._unit, -10.0, 10.0)
        self._where += weight * (off - self._where)
        if self._usual is None and self._rows == MEMORY:
            self._usual = self._mean

    @property
    def level(self) -> float:
        """The mean index, in units of that at the fit; 1 until that is known."""
        return self._mean / self._usual if self._usual and self._rows else 1.0

    @property
    def drifted(self) -> bool:
        """Whether the level has left what is usual."""
        return self._rows >= MEMORY // 2 and self.level > DRIFTED

    @property
    def rising(self) -> bool:
        """Whether rows have been farther out than usual for long: a drift on its way to the limit.

        A fault that takes a minute to develop lifts the last 100 rows, and hardly the last 500.
        """
        if not self._usual or self._rows < MEMORY // 2:
            return False
        return self._lately > DRIFTED * self._usual and self.level > LIFTED

    def report(self) -> DriftReport:
        d = len(self._names)
        where = self._where[:d]  # of lagged rows, the newest
        moved = [name for name, _ in leading(np.abs(where), self._names, 3)]
        shifts = tuple((name, float(where[self._names.index(name)])) for name in moved)
        return DriftReport(self.level, self.drifted, self._rows, shifts)

    def state(self) -> dict[str, Any]:
        levels = {"mean": self._mean, "lately": self._lately, "usual": self._usual}
        return levels | {"rows": self._rows, "where": self._where.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        self._mean, self._lately = state["mean"], state["lately"]
        self._rows, self._usual = state["rows"], state["usual"]
        self._where = np.array(state["where"], dtype=np.float64)
