"""Stored matrices by the compiled library: products with thin ones, a tridiagonal form, steps of Lanczos."""

from __future__ import annotations

import ctypes

import numpy as np

from mercer._core.types import Array
from mercer.engine.base import FLOAT32, FLOAT64
from mercer.engine.native.bindings import Library, Reduction, Steps, Thin, address, aligned

# Columns of T whose products are summed by themselves where T is long and low, or a number that gives at most
# MOST_GROUPS sums: it depends on sizes alone, so that no sum depends on the number of threads.
GROUP, MOST_GROUPS = 1024, 32
HEIGHT = 12  # tickets have whole multiples of so many rows, which are multiplied together
NOTHING = np.empty((256, 0))  # the scratch memory that threads need, a row for each


def can_run(t: Array, v: Array) -> bool:
    """Whether the library reads these matrices as they are."""
    steps = (*t.strides, *v.strides)
    whole = t.flags.aligned and v.flags.aligned and not any(s % t.itemsize for s in steps)
    return whole and t.dtype == v.dtype and t.dtype in (FLOAT64, FLOAT32)


def added(native: Library, t: Array, v: Array, y: Array, n_threads: int) -> None:
    """Y += T V in place: (m, n), (n, w) and (m, w), Y in float64."""
    wide = _widened(v, native)
    if wide.shape == v.shape and y.strides[1] == y.itemsize and y.flags.aligned:
        _run(native, t, wide, y[None], n_threads=n_threads)
    else:
        room = np.zeros((len(y), wide.shape[1]))
        _run(native, t, wide, room[None], n_threads=n_threads)
        y += room[:, : y.shape[1]]


def summed(native: Library, t: Array, v: Array, n_threads: int) -> Array:  # (m, n), (n, w)
    """T V of a T that is long and low, in float64: parts of its columns are summed side by side."""
    wide, n = _widened(v, native), t.shape[1]
    length = max(GROUP, -(-n // MOST_GROUPS))
    sums = np.zeros((max(1, -(-n // length)), len(t), wide.shape[1]))
    _run(native, t, wide, sums, n_threads=n_threads, length=length)
    return np.asarray(np.add.reduce(sums, axis=0)[:, : v.shape[1]])


def _widened(v: Array, native: Library) -> Array:
    """V as it is where its rows have a vector at least, and else with columns of zeros."""
    width = native.vector_bytes // v.itemsize
    if v.shape[1] >= width and v.strides[1] == v.itemsize:
        return v
    wide = np.zeros((len(v), -(-v.shape[1] // width) * width), dtype=v.dtype)
    wide[:, : v.shape[1]] = v
    return wide


def _run(
    native: Library,
    t: Array,  # (m, n)
    v: Array,  # (n, w), no fewer numbers than a vector has
    y: Array,  # (groups, m, w)
    *,
    n_threads: int,
    length: int | None = None,
) -> None:
    (m, n), groups, size = t.shape, len(y), t.itemsize
    width = native.vector_bytes // size
    vectors = -(-v.shape[1] // width)
    pieces = -(-2 * n_threads // groups) if n_threads > 1 else 1  # some thread is always late
    height = max(HEIGHT, -(-m // (pieces * HEIGHT)) * HEIGHT)
    job = Thin(m=m, n=n, height=height, length=max(1, length or n))
    job.t, job.v, job.y = map(address, (t, v, y))
    job.down, job.along, job.v_stride = (step // size for step in (*t.strides, v.strides[0]))
    job.y_group, job.y_stride, _ = (step // 8 for step in y.strides)
    job.vectors, job.back = vectors, vectors * width - v.shape[1]
    job.n_tickets = groups * -(-m // height)
    n_threads = max(1, min(n_threads, job.n_tickets, len(NOTHING)))
    native.drawn(native.thin[t.dtype], job, NOTHING[:n_threads], holding=(t, v, y))


# ── small symmetric matrices ────────────────────────────────────────────────
class Reflections:
    """A = Q T Qᵀ with a tridiagonal T, of which Q is kept as its n - 1 reflections (Householder 1958).

    The matrix has entries whose squares are in range, and is not changed. `turned`, (n, stride) float64, is
    for Qᵀ itself, in rows of whole vectors.
    """

    def __init__(self, native: Library, matrix: Array, turned: Array | None = None) -> None:
        n, width = len(matrix), native.vector_bytes // 8
        self.n, self._native, self._stride = n, native, -(-n // width) * width
        # The matrix, its rows where a vector may start; three rows of room, and T.
        self._numbers = aligned((n + 5, self._stride), np.float64)
        self._numbers[:n, :n] = matrix
        self._numbers[:n, n:] = 0.0
        self.diagonal, self.off = self._numbers[n + 3 :, :n]  # (n,), (n - 1,) and one
        self._job = job = Reduction(n=n, stride=self._stride)
        rows = (self._numbers[row:] for row in (0, n, n + 3, n + 4))
        job.a, job.room, job.diagonal, job.off = map(address, rows)
        if turned is not None:
            job.q = address(turned)
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


class CompiledSteps:
    """The job of a run, and the arrays that it points into: float64, in C order.

    The first `fixed` rows of the basis are projected out; the next is the first vector. The diagonal of T and
    what is beside it, `t`, are written. No step is made unless the largest entry of the first product is
    `within` two sizes, and a vector no longer than `spent` times the largest number of T is none.
    """

    def __init__(
        self,
        native: Library,
        matrix: Array,  # (n, n)
        basis: Array,  # (rows, n)
        t: tuple[Array, Array],  # (rows,)
        *,
        fixed: int,
        within: tuple[float, float],
        spent: float,
    ) -> None:
        self._run, n = native.lanczos, len(matrix)
        room = np.empty(n + len(basis))
        self._alive = matrix, basis, t, room
        self._job = job = Steps(n=n, fixed=fixed, least=within[0], most=within[1], eps=spent)
        job.matrix, job.basis, job.alpha, job.beta = map(address, (matrix, basis, *t))
        job.w, job.along = address(room), address(room[n:])

    def run(self, size: int, row: int, scale: float, end: int) -> tuple[int, int, float, bool]:
        """Steps until T is of size `end`, or the space is spent, which is the last value."""
        job = self._job
        job.size, job.row, job.scale, job.end = size, row, scale, end
        spent = bool(self._run(ctypes.byref(job)))
        return job.size, job.row, job.scale, spent
