"""The stored Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.thin import times
from mercer.operators.base import SymmetricOperator

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices

# Up to these a product takes less time than the choice of how to make it.
FEW_ROWS = 128


@dataclass(repr=False, eq=False)
class StoredGram(SymmetricOperator):
    """K in memory. It may hold less precision than the vectors: then they are rounded to it.

    A product with a stored matrix is bound by memory traffic, so float32 storage runs at twice the
    speed of float64, and takes half of the space.
    """

    matrix: Array  # (n, n)
    n_threads: int = 1
    minus: float = 0.0  # a constant that was taken off every entry
    rough: SymmetricOperator | None = None

    def __post_init__(self) -> None:
        self.n, self.dtype = len(self.matrix), self.matrix.dtype
        self.eps = float(np.finfo(self.dtype).eps)  # the rounding of a stored entry
        self._diag: Array | None = None

    def matmat(self, v: Array) -> Array:
        """K v, in the dtype of v."""
        rounded = np.ascontiguousarray(v, dtype=self.dtype)
        product: Array
        if self.n <= FEW_ROWS:
            product = self.matrix @ rounded
        else:
            product = times(self.matrix, rounded, n_threads=self.n_threads)
        return product.astype(v.dtype, copy=False)

    def among(self, indices: Indices) -> StoredGram:
        """K[indices][:, indices]."""
        return StoredGram(self.matrix[np.ix_(indices, indices)], self.n_threads, self.minus)

    def rows(self, indices: Indices, v: Array) -> Array:
        """(K v)[indices]."""
        return self.matrix[indices] @ v.astype(self.dtype, copy=False)

    def diag(self) -> Array:
        """The diagonal of K."""
        if self._diag is None:  # a fit asks for it four times
            self._diag = np.diagonal(self.matrix) + np.asarray(self.minus, dtype=self.dtype)
        return self._diag

    def cross(self, indices: Indices, v: Array) -> Array:
        """K[:, indices] @ v, read as rows: they lie together in memory, columns do not."""
        return self.matrix[indices].T @ v.astype(self.dtype, copy=False)

    def block(self, indices: Indices) -> Array:
        """K[indices][:, indices]."""
        return self.matrix.take(indices, axis=0).take(indices, axis=1)

    def dense(self) -> Array:
        """A copy of K."""
        return self.matrix.copy()

    def unprojected(self) -> tuple[Array, Array]:
        """K itself, not a copy."""
        return self.matrix.astype(np.float64, copy=False), np.empty((0, self.n))

    def __repr__(self) -> str:
        return f"StoredGram({self.n} x {self.n}, {self.dtype})"
