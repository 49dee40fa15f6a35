"""Small symmetric matrices made tridiagonal by compiled reflections, and vectors turned back by them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.native.bindings import Reduction, address, aligned

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.engine.native.bindings import Library


class Reflections:
    """A = Q T Qᵀ with a tridiagonal T, of which Q is kept as its n - 1 reflections (Householder 1958).

    Parameters
    ----------
    matrix : (n, n) float64
        Symmetric, with entries whose squares are in range; not changed.
    """

    def __init__(self, native: Library, matrix: Array) -> None:
        n, width = len(matrix), native.vector_bytes // 8
        self.n, self._native, self._stride = n, native, -(-n // width) * width
        # The matrix, its rows where a vector may start; three rows of room, and T.
        self._numbers = aligned((n + 5, self._stride), np.float64)
        self._numbers[:n, :n] = matrix
        self._numbers[:n, n:] = 0.0
        self.diagonal, self.off = (
            self._numbers[n + 3, :n],
            self._numbers[n + 4, :n],
        )  # (n,), (n - 1,) and one
        start, row = address(self._numbers), 8 * self._stride
        self._job = Reduction(
            a=start,
            n=n,
            stride=self._stride,
            room=start + n * row,
            diagonal=start + (n + 3) * row,
            off=start + (n + 4) * row,
        )
        native.reduce(ctypes.byref(self._job))

    def vectors(self, coordinates: Array) -> Array:  # (n, k) -> (n, k)
        """Q s: what has these coordinates in the columns of Q."""
        k = coordinates.shape[1]
        rows = aligned((k, self._stride), np.float64)
        rows[:, : self.n] = coordinates.T
        rows[:, self.n :] = 0.0
        self._job.rows, self._job.count = address(rows), k
        self._native.turn_back(ctypes.byref(self._job))
        return np.asarray(rows[:, : self.n].T)
