"""Products of dense matrices with wide ones and with triangles, over slices of rows on threads.

Each slice is multiplied by BLAS on one thread: BLAS's own threads would go on spinning after a product, while
those of the next pass want their cores. Slices depend on sizes alone, so that no bit depends on the number
of threads. (For thin right sides, `engine.thin` has products that need no copies of panels.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._core.types import Array
from mercer.data.rows import row_slices
from mercer.engine.threads import n_blas_threads, parallel_each, single_threaded_blas

# Columns of a triangle that are multiplied together: few waste little, more are multiplied faster.
TRIANGLE = 96
# Rows of a slice: BLAS packs the right side once for each, which is little beside so many rows.
ROWS = 256


def wide_times(
    a: Array, c: Array, *, n_threads: int | None = None
) -> Array:  # (n, m), (m, k) -> (n, k)
    """A C; of an upper triangle C, what lies below its diagonal is not multiplied."""
    multiply = triangle_product if is_upper(c) else np.matmul
    return _sliced(a, c, np.empty((len(a), c.shape[1]), np.result_type(a, c)), multiply, n_threads)


def times_transposed(a: Array, w: Array) -> Array:  # (n, m), (m, m) -> (n, m)
    """A Wᵀ of an upper triangle W."""
    return _sliced(a, w, np.empty((len(a), len(w)), np.result_type(a, w)), _transposed_product)


def _transposed_product(x: Array, w: Array, out: Array) -> None:
    for j in row_slices(len(w), TRIANGLE):
        np.matmul(x[:, j.start :], w[j, j.start :].T, out=out[:, j])


def triangle_product(
    x: Array, w: Array, out: Array | None = None
) -> Array:  # (b, m), (m, a) -> (b, a)
    """X W for the last columns W of an upper triangle; what lies below its diagonal is not multiplied."""
    m, a = w.shape
    out = np.empty((len(x), a), dtype=np.result_type(x, w)) if out is None else out
    for j in row_slices(a, TRIANGLE):
        above = m - a + j.stop  # rows of these columns that are not zero
        np.matmul(x[:, :above], w[:above, j], out=out[:, j])
    return out


def is_upper(c: Array) -> bool:
    """Whether it is a square matrix with zeros below the blocks on its diagonal."""
    if c.shape[0] != c.shape[1]:
        return False
    return not any(c[j.stop :, j].any() for j in row_slices(len(c), TRIANGLE))


def _sliced(
    a: Array, c: Array, out: Array, multiply: Callable[..., object], n_threads: int | None = None
) -> Array:
    slices, n_threads = row_slices(len(a), ROWS), n_threads or n_blas_threads()
    with single_threaded_blas():  # on one thread of ours, too
        parallel_each(lambda i: multiply(a[i], c, out=out[i]), slices, n_threads=n_threads)
    return out
