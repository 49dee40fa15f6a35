"""Products of tall matrices, (n, w) with n far above w, on threads over slices of rows."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.threads import n_blas_threads, parallel_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercer._core.types import Array

Part = TypeVar("Part")

# About a millisecond of one core: a thread with less to do costs more to start than it saves.
FLOPS_A_THREAD = 20_000_000


def inner(a: Array, b: Array) -> Array:  # (n, v), (n, w) -> (v, w)
    """aᵀb; sums over slices of rows are added in the order of the rows."""

    def part(own: Iterable[slice]) -> Array:
        (i,) = own
        return np.asarray(a[i].T @ b[i])

    return reduce(np.add, _parts(part, a, b.shape[1]))


def times(a: Array, c: Array) -> Array:  # (n, v), (v, w) -> (n, w)
    """A c."""
    out = np.empty((len(a), c.shape[1]), dtype=np.result_type(a, c))

    def part(own: Iterable[slice]) -> None:
        (i,) = own
        np.matmul(a[i], c, out=out[i])

    _parts(part, a, c.shape[1])
    return out


def subtract(block: Array, a: Array, c: Array) -> None:  # (n, w), (n, v), (v, w)
    """Block - a c, in place."""

    def part(own: Iterable[slice]) -> None:
        (i,) = own
        block[i] -= a[i] @ c

    _parts(part, a, c.shape[1])


def _parts(part: Callable[[Iterable[slice]], Part], a: Array, n_columns: int) -> list[Part]:
    """`part` of the rows of a, one slice of them for each thread that pays."""
    n_threads = max(1, min(n_blas_threads(), 2 * a.size * n_columns // FLOPS_A_THREAD))
    slices = row_slices(len(a), max(1, -(-len(a) // n_threads)))
    return parallel_map(part, slices, n_threads=n_threads)
