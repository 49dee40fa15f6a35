"""Products of tall matrices, (n, w) with n far above w, on threads over slices of rows."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.threads import n_blas_threads, parallel_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercer._core.types import Array

# About a millisecond of one core: a thread with less to do costs more to start than it saves.
FLOPS_A_THREAD = 20_000_000


def inner(a: Array, b: Array) -> Array:  # (n, v), (n, w) -> (v, w)
    """aᵀb; sums over slices of rows are added in the order of the rows."""
    n_threads = _paying(a, b.shape[1])
    if n_threads == 1:
        return np.asarray(a.T @ b)

    def part(slices: Iterable[slice]) -> list[Array]:
        return [a[i].T @ b[i] for i in slices]

    parts = parallel_map(part, _slices(a, n_threads), n_threads=n_threads)
    return reduce(np.add, [one for own in parts for one in own])


def times(a: Array, c: Array) -> Array:  # (n, v), (v, w) -> (n, w)
    """A c."""
    out = np.empty((len(a), c.shape[1]), dtype=np.result_type(a, c))
    n_threads = _paying(a, c.shape[1])

    def part(slices: Iterable[slice]) -> None:
        for i in slices:
            np.matmul(a[i], c, out=out[i])

    parallel_map(part, _slices(a, n_threads), n_threads=n_threads)
    return out


def subtract(block: Array, a: Array, c: Array) -> None:  # (n, w), (n, v), (v, w)
    """Block - a c, in place."""
    n_threads = _paying(a, c.shape[1])

    def part(slices: Iterable[slice]) -> None:
        for i in slices:
            block[i] -= a[i] @ c

    parallel_map(part, _slices(a, n_threads), n_threads=n_threads)


def _paying(a: Array, n_columns: int) -> int:
    return max(1, min(n_blas_threads(), 2 * a.size * n_columns // FLOPS_A_THREAD))


def _slices(a: Array, n_threads: int) -> Iterable[slice]:
    """One a thread."""
    return row_slices(len(a), -(-len(a) // n_threads))
