"""Products of dense matrices with thin ones, on as many threads as pay.

Compiled where the library is there, and NumPy's on threads over slices of rows elsewhere. BLAS's own threads
would go on spinning after each product, while those of the next pass want their cores. Vectors that an engine
keeps elsewhere are multiplied where they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar, cast

import numpy as np

from mercer._core.types import Array, Indices
from mercer.data.rows import row_slices
from mercer.engine.native import matrices
from mercer.engine.native.bindings import compiled
from mercer.engine.pairwise import squared_norms
from mercer.engine.threads import n_blas_threads, parallel_each

# The least work of a thread: it takes a few tenths of a millisecond to wake one of Python's.
FLOPS_A_THREAD = 8_000_000
# One of the system's starts in a fiftieth, but in a core whose cache holds nothing: on 16 cores a product of
# 10 million operations took 0.23 ms on one thread and 0.32 on two or four, one of 64 million 0.99 and 0.35.
ALONE, COMPILED_FLOPS_A_THREAD = 32_000_000, 4_000_000
# BLAS copies a matrix into panels before it multiplies, which for a thin right side takes longer than the
# product. OpenBLAS has kernels that don't, for products of up to a million multiplications: 1000 rows times 8
# columns take 0.33 ms in slices of that size and 0.73 ms at once, 2000 rows 1.8 ms and 5.2 ms (processors
# without such kernels take as long as before).
UNPACKED, THIN = 10**6, 16  # columns; of more the copy is worth its time

Part = TypeVar("Part")


class RemoteVectors(ABC):
    """Long vectors that are not on the host; to solvers, arrays (`mercer.engine.torch.vectors`)."""

    @abstractmethod
    def inner(self, other: Any) -> Array:  # (n, v), (n, w) -> (v, w)
        """Products with the columns of another block, on the host."""

    @abstractmethod
    def times(self, small: Array) -> Any:  # (n, v), (v, w) -> (n, w)
        """Combinations of the columns."""

    @abstractmethod
    def subtract(self, a: Any, small: Array) -> None:  # (n, w), (n, v), (v, w)
        """Subtract combinations of the columns of another block, in place."""

    @abstractmethod
    def largest_rows(self, count: int) -> Indices:  # (n, k) -> (count, k)
        """Where the largest numbers of each column are, on the host."""


def inner(a: Array, b: Array) -> Array:  # (n, v), (n, w) -> (v, w)
    """aᵀb; sums over slices of rows are added in the order of the rows."""
    if isinstance(a, RemoteVectors):
        return a.inner(b)
    native, n_threads = compiled(), _threads(a, b.shape[1])
    if native is not None and matrices.can_run(a, b):
        return matrices.summed(native, a.T, b, n_threads)
    if n_threads == 1:
        return np.asarray(a.T @ b)
    return reduce(np.add, _by_rows(lambda i: np.asarray(a[i].T @ b[i]), a, n_threads))


def times(a: Array, c: Array, *, n_threads: int | None = None) -> Array:  # (n, v), (v, w)
    """A c, in their common precision."""
    if isinstance(a, RemoteVectors):
        return cast("Array", a.times(c))
    native, n_threads = compiled(), _threads(a, c.shape[1], n_threads)
    if native is not None and matrices.can_run(a, c):
        product = np.zeros((len(a), c.shape[1]))
        matrices.added(native, a, c, product, n_threads)
        return product.astype(a.dtype, copy=False)
    out = np.empty((len(a), c.shape[1]), dtype=np.result_type(a, c))
    most = UNPACKED // max(1, c.size) if 1 < c.shape[1] <= THIN else len(a)
    _by_rows(lambda i: np.matmul(a[i], c, out=out[i]), a, n_threads, most)
    return out


def subtract(block: Array, a: Array, c: Array) -> None:  # (n, w), (n, v), (v, w)
    """Block - a c, in place."""
    if isinstance(block, RemoteVectors):
        block.subtract(a, c)
        return
    native, n_threads = compiled(), _threads(a, c.shape[1])
    if native is not None and matrices.can_run(a, c) and block.dtype == a.dtype == np.float64:
        matrices.added(native, a, -c, block, n_threads)
        return
    _by_rows(lambda i: np.subtract(block[i], a[i] @ c, out=block[i]), a, n_threads)


def column_lengths(block: Array) -> Array:  # (n, k) -> (k,)
    """The lengths of vectors that are neither huge nor tiny."""
    if isinstance(block, RemoteVectors):
        return np.asarray(np.linalg.norm(block, axis=0))
    return np.asarray(np.sqrt(squared_norms(block.T)))


def without(block: Array, unit: Array) -> Array:  # (n, k), (n,) -> (n, k)
    """The vectors less their parts along one of length one, as new ones."""
    if not isinstance(block, RemoteVectors):
        return block - np.outer(unit, unit @ block)
    along, left = np.asarray(unit[:, None], like=block), block.copy()
    subtract(left, along, inner(along, block))
    return left


def largest_rows(sizes: Array, count: int) -> Indices:  # (n, k) -> (count, k)
    """Where the largest numbers of each column are, in any order."""
    if isinstance(sizes, RemoteVectors):
        return sizes.largest_rows(count)
    return np.argpartition(sizes, len(sizes) - count, axis=0)[len(sizes) - count :]


def _by_rows(
    part: Callable[[slice], Part], a: Array, n_threads: int, most: int | None = None
) -> list[Part]:
    """`part` of slices of the rows of a: one for each thread, or of `most` rows."""
    height = min(-(-len(a) // n_threads), len(a) if most is None else most)
    return parallel_each(part, row_slices(len(a), max(1, height)), n_threads=n_threads)


def _threads(a: Array, n_columns: int, most: int | None = None) -> int:
    """The number of threads that pays for a product of a with so many columns."""
    flops = 2 * a.size * n_columns
    if compiled() is None:
        paying = flops // FLOPS_A_THREAD
    else:
        paying = 1 if flops < ALONE else flops // COMPILED_FLOPS_A_THREAD
    return 1 if paying <= 1 else min(n_blas_threads() if most is None else most, paying)
