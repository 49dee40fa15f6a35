"""A Krylov run as a value that can be written down and taken up again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.solvers.basis import KrylovBasis

if TYPE_CHECKING:
    from mercer._core.observer import State
    from mercer._core.types import Array


class ConvergenceSchedule:
    """Says after which products a look at the residuals is due.

    Each look solves the projected problem. The residuals fall geometrically, so after two looks the
    next one is due shortly before they should reach the tolerance.
    """

    def __init__(self, tol: float, expected: int) -> None:
        self.tol = tol
        self.worst: float | None = None  # the last residual seen
        self.expected = expected  # products until the tolerance is met, by the pace so far
        # The product to look after; one gains two digits or so at best.
        self.due = max(2, int(-0.4 * np.log10(tol)))
        self._last: tuple[int, float] | None = None

    def wait(self, product: int, n_products: int) -> None:
        """Look again after so many products."""
        self.due, self._last = product + n_products, None

    def saw(self, product: int, worst: float) -> None:
        """The largest residual after a product: when to look next, and how many are still to come."""
        self.worst, self.due = worst, product + 1
        if self._last is not None and 0.0 < worst < self._last[1]:
            rate = np.log(self._last[1] / worst) / (product - self._last[0])
            left = max(0.0, np.log(worst / self.tol) / rate)
            self.expected = product + int(np.ceil(left))
            self.due = product + max(1, min(int(0.8 * left), 2))
        self._last = product, worst

    def state(self) -> State:
        """All there is to know, as plain numbers."""
        last = None if self._last is None else list(self._last)
        return {"worst": self.worst, "expected": self.expected, "due": self.due, "last": last}

    def restore(self, state: State) -> None:
        """Go on from such a state."""
        self.worst, self.expected, self.due = state["worst"], state["expected"], state["due"]
        self._last = None if state["last"] is None else (state["last"][0], state["last"][1])


@dataclass
class KrylovRun:
    """Where an iteration stands after a product."""

    basis: KrylovBasis
    schedule: ConvergenceSchedule
    settled: Array | None  # Ritz values to be confirmed; empty: no need; None: not there yet
    room: int  # columns before a restart

    def state(self) -> State:
        """Arrays (views) and plain numbers by name."""
        return {
            **self.basis.state(),
            "looks": self.schedule.state(),
            "is_settled": self.settled is not None,
            "settled": np.empty(0) if self.settled is None else self.settled,
            "restart_at": self.room,
        }

    @classmethod
    def resumed(cls, state: State, tol: float) -> KrylovRun:
        """The run that such a state was taken from."""
        schedule = ConvergenceSchedule(tol, state["looks"]["expected"])
        schedule.restore(state["looks"])
        settled = np.asarray(state["settled"]) if state["is_settled"] else None
        basis = KrylovBasis.restored(state)
        return cls(basis, schedule, settled, state["restart_at"])
