"""Steps of Lanczos by the compiled library: many to a call, which one by one are too short for that."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.native.bindings import Steps, address

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.engine.native.bindings import Library


class CompiledSteps:
    """The job of a run, and the arrays that it points into.

    Parameters
    ----------
    matrix : (n, n) float64, in C order
    basis : (rows, n) float64, in C order
        Its first `fixed` rows are projected out; the next is the first vector.
    t : two (rows,) float64
        The diagonal of T, and what is beside it, which are written.
    within : (float, float)
        Sizes of the largest entry of the first product; out of these, no step is made.
    spent : float
        What a new vector is no longer than, over the largest number of T, where there is none.
    """

    def __init__(
        self,
        native: Library,
        matrix: Array,
        basis: Array,
        t: tuple[Array, Array],
        *,
        fixed: int,
        within: tuple[float, float],
        spent: float,
    ) -> None:
        self._run, n = native.lanczos, len(matrix)
        room = np.empty(n + len(basis))
        self._alive = matrix, basis, t, room
        self._job = Steps(
            matrix=address(matrix),
            n=n,
            basis=address(basis),
            fixed=fixed,
            alpha=address(t[0]),
            beta=address(t[1]),
            least=within[0],
            most=within[1],
            eps=spent,
            w=address(room),
            along=address(room[n:]),
        )

    def run(self, size: int, row: int, scale: float, end: int) -> tuple[int, int, float, bool]:
        """Steps until T is of size `end`, or the space is spent, which is told last."""
        job = self._job
        job.size, job.row, job.scale, job.end = size, row, scale, end
        spent = bool(self._run(ctypes.byref(job)))
        return job.size, job.row, job.scale, spent
