"""Squares of sections by the compiled library: no thread of Python, and one sum of m x m numbers.

Moments merge by the rule of Chan, Golub & LeVeque (1979), as `engine.moments` has it: a tile of rows is
centred about the mean of its own rows, and how far the means of tiles, and of blocks, are apart is told by a
few rows more, which are squared with the others.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import row_blocks, row_slices
from mercer.engine.base import FLOAT64
from mercer.engine.moments import Moments
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import aligned
from mercer.engine.native.passes import Pass
from mercer.engine.native.rows import NativeRows
from mercer.engine.native.team import drawn
from mercer.engine.native.thin import NOTHING
from mercer.engine.squares import Squared

if TYPE_CHECKING:
    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.engine.numpy import NumpyEngine
    from mercer.engine.squares import SquareSections

# Rows of a tile: a block has enough of them for many threads.
TILE = 96
# Sections of a block of rows, which threads share, and rows: more are further from the cores, and of fewer
# the threads are started too often.
BLOCK_BYTES, MOST_ROWS, LEAST_ROWS = 2**24, 4096, 1024
# Panels of a product on each side at most, and products a thread: some thread is always late.
GROUP, TICKETS = 4, 3


def squared(
    engine: NumpyEngine, step: SquareSections, x: Rows, *, n_threads: int, observer: Observer
) -> Squared | None:
    """The sums of all rows; None where rows, kernel or values are not for compiled tiles."""
    kernel, dtype, n = step.kernel, step.dtype, int(x.shape[0])
    if step.squared_in not in (dtype, FLOAT64):
        return None
    points = engine.load(step.points.astype(dtype, copy=False), kernel, dtype)
    if not isinstance(points, NativeRows):
        return None
    sums = SquareSums(points, step.squared_in, n)
    trace = 0.0
    for place, rows in row_blocks(x, sums.height):
        block = engine.load(rows, kernel, dtype, sliced=True)
        if not isinstance(block, NativeRows):
            return None
        sums.add(block, None if step.weights is None else step.weights[place], n_threads)
        trace += step.trace(rows, place)
        observer.step(place.stop, n, "rows", None)
    moments = sums.moments()
    return None if moments is None else Squared(moments, trace)


class Centring(Pass):
    """k(X, Z), the rows of a tile about their mean."""

    def __init__(self, x: NativeRows, sums: SquareSums, weights: Array | None) -> None:
        super().__init__(x, sums.points, block=TILE)
        self.room = sums.points.room  # that of the points stays from block to block
        job, (below, beside) = self.job, self.blocks
        self.means = np.empty((below, sums.width))
        centred = lib.Centred(
            to=self._address(sums.centred),
            height=sums.centred.shape[1],
            wide=int(sums.centred.dtype != self.dtype),
            means=self._address(self.means),
            width=sums.width,
        )
        if weights is not None:
            centred.weights = self._address(np.ascontiguousarray(weights, dtype=np.float64))
        self._alive.append(centred)
        job.centred = ctypes.pointer(centred)
        job.group, job.n_tickets = beside, below

    def run(self, n_threads: int) -> Array:  # (tiles, width)
        """The means of the tiles."""
        self._drawn(n_threads)
        return self.means


class SquareSums:
    """Weight, mean and scatter of the sections of all rows so far."""

    def __init__(self, points: NativeRows, squared_in: np.dtype[Any], n: int) -> None:
        self.points, self.width = points, points.panels * points.panel
        fitting = BLOCK_BYTES // (self.width * squared_in.itemsize)
        self.height = min(n, max(LEAST_ROWS, min(MOST_ROWS, fitting)))
        panel = points.native.panel[squared_in]
        # Rows, the means of tiles of them, and one row for the means of blocks.
        beside = -(-self.height // points.panel) + 1
        shape = self.width // panel, self.height + beside, panel
        self.centred = aligned(shape, squared_in)
        side = -(-points.n // panel) * panel  # what lies beyond is nothing but zeros
        self.sums = aligned((side, side), np.float64, zero=True)
        self.weight, self.mean = 0.0, np.zeros(self.width)

    def add(self, x: NativeRows, weights: Array | None, n_threads: int) -> None:
        """The sections of a block of rows."""
        work = Centring(x, self, weights)
        means = work.run(n_threads)
        each = np.ones(x.n) if weights is None else weights
        tiles = np.add.reduceat(each, np.arange(0, x.n, work.side), dtype=np.float64)  # Σw
        weight = float(tiles.sum())
        if weight == 0.0:
            return
        mean = means[0] + tiles @ (means - means[0]) / weight
        means -= mean
        means *= np.sqrt(tiles)[:, None]
        total = self.weight + weight
        gap = mean - self.mean
        apart = np.sqrt(self.weight * (weight / total)) * gap
        self.mean = self.mean + (weight / total) * gap
        self.weight = total
        more = np.vstack([means, apart]).reshape(len(means) + 1, *self.centred.shape[::2])
        rows = x.n + len(more)
        self.centred[:, x.n : rows] = more.transpose(1, 0, 2)
        self._square(rows, n_threads)

    def _square(self, rows: int, n_threads: int) -> None:
        """One side of the diagonal of CᵀC, to what is there."""
        _, height, panel = self.centred.shape
        panels = len(self.sums) // panel
        group = next(
            (g for g in range(GROUP, 1, -1) if _pairs(panels, g) >= TICKETS * n_threads), 1
        )
        job = lib.Squares(
            centred=self.centred.ctypes.data,
            panels=panels,
            height=height,
            rows=rows,
            sums=self.sums.ctypes.data,
            group=group,
            n_tickets=_pairs(panels, group),
        )
        native = self.points.native
        n_threads = max(1, min(n_threads, job.n_tickets, len(NOTHING)))
        work = native.squares[self.centred.dtype]
        drawn(native, work, job, NOTHING[:n_threads], holding=self)

    def moments(self) -> Moments | None:
        """All of it; None where values are out of range."""
        m = self.points.n
        scatter = self.sums[:m, :m].copy()
        for i in row_slices(m, TILE):
            scatter[i.stop :, i] = scatter[i, i.stop :].T
            inside = scatter[i, i]
            scatter[i, i] = np.triu(inside) + np.triu(inside, 1).T
        if not np.isfinite(np.diagonal(scatter)).all():
            return None
        return Moments(self.weight, self.mean[:m], scatter)


def _pairs(panels: int, group: int) -> int:
    """Groups of panels that meet, each pair of them once."""
    groups = -(-panels // group)
    return groups * (groups + 1) // 2
