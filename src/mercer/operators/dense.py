"""The stored Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.threads import parallel_map
from mercer.engine.tiles import paying_threads
from mercer.operators.base import SymmetricOperator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercer._core.types import Array, Indices

# A thread with less to do costs more to start than it saves.
FLOPS_A_THREAD = 20_000_000
# BLAS copies a matrix into panels before it multiplies, which for a thin right side takes longer than the
# product. OpenBLAS has kernels that don't, for products of up to a million multiplications: 1000 rows times 8
# columns take 0.33 ms in slices of that size and 0.73 ms at once, 2000 rows 1.8 ms and 5.2 ms (processors
# without such kernels take as long as before).
UNPACKED = 10**6
THIN = 16  # columns; of more the copy is worth its time


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

    def matmat(self, v: Array) -> Array:
        """K v, in the dtype of v."""
        rounded = np.ascontiguousarray(v, dtype=self.dtype)
        n_threads = paying_threads(self.n, self.n_threads)
        n_threads = max(1, min(n_threads, 2 * self.n**2 * v.shape[1] // FLOPS_A_THREAD))
        height = -(-self.n // n_threads)
        if 1 < v.shape[1] <= THIN:
            height = min(height, max(1, UNPACKED // (self.n * v.shape[1])))
        if height >= self.n:
            return np.matmul(self.matrix, rounded).astype(v.dtype, copy=False)
        product = np.empty((self.n, v.shape[1]), dtype=self.dtype)

        def work(slices: Iterable[slice]) -> None:
            for i in slices:
                np.matmul(self.matrix[i], rounded, out=product[i])

        parallel_map(work, row_slices(self.n, height), n_threads=n_threads)
        return product.astype(v.dtype, copy=False)

    def rows(self, indices: Indices, v: Array) -> Array:
        """(K v)[indices]."""
        return self.matrix[indices] @ v.astype(self.dtype, copy=False)

    def diag(self) -> Array:
        """The diagonal of K."""
        return np.diagonal(self.matrix) + np.asarray(self.minus, dtype=self.dtype)

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
