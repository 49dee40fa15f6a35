"""Low-rank fits by the compiled library: squares of sections, and what columns of a factor explain.

No thread of Python, and one sum of m x m numbers. Moments merge by the rule of Chan, Golub & LeVeque (1979),
as `engine.moments` has it: a tile of rows is centred about their mean, and a few more rows, which are squared
with the others, hold the differences between the means of tiles, and of blocks.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from mercer._core.observer import Observer
from mercer._core.types import Array, Rows
from mercer.data.rows import row_blocks, row_slices
from mercer.engine.base import FLOAT64
from mercer.engine.moments import Moments
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import BLOCKS, address, aligned
from mercer.engine.native.passes import NativeRows, Pass
from mercer.engine.numpy import NumpyEngine
from mercer.engine.steps import Explained, ExplainSections, Squared, SquareSections

# Rows of a tile, whose columns of a factor stay in a core's own cache, and tiles of a block at most: a block
# has enough of them for many threads.
TILE, MOST_TILES = 96, 64
# Sections of the blocks of rows in memory, which threads share, and rows of them: more are further from the
# cores, and of fewer the sums are read too often.
BLOCK_BYTES, MOST_ROWS, LEAST_ROWS = 2**24, 4096, 1024
# Rows for which threads are started: of squares, where all are in memory anyway; of what columns explain,
# always, and their blocks have sums of their own.
RUN_ROWS = 2**15
# Panels of a product on each side at most, and products a thread: in the last block some thread is late.
GROUP, PRODUCTS = 4, 3


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
    trace, views = 0.0, isinstance(x, np.ndarray) and x.flags.aligned
    for place, rows in row_blocks(x, max(RUN_ROWS, sums.room) if views else sums.room):
        run = engine.load(rows, kernel, dtype, sliced=True)
        if not isinstance(run, NativeRows):
            return None
        Squaring(run, sums, step.weights_at(place)).run(n_threads)
        trace += step.trace(rows, place)
        observer.step(place.stop, n, "rows", None)
    moments = sums.moments()
    return None if moments is None else Squared(moments, trace)


class SquareSums:
    """Weight, mean and scatter of the sections of all rows so far, and room for some blocks of them."""

    def __init__(self, points: NativeRows, squared_in: np.dtype[Any], n: int) -> None:
        self.points, self.width = points, points.panels * points.panel
        fitting = BLOCK_BYTES // (self.width * squared_in.itemsize)
        self.room = max(LEAST_ROWS, min(MOST_ROWS, fitting))  # rows
        panel = points.native.panel[squared_in]
        self.tiles = max(1, min(MOST_TILES, -(-n // TILE), self.room // (BLOCKS * TILE)))
        # Rows, the means of tiles of them, and one row for the mean of the block.
        self.height = self.tiles * (TILE + 1) + 1
        self.centred = aligned((self.width // panel, BLOCKS * self.height, panel), squared_in)
        self.means = np.empty((BLOCKS * self.tiles, self.width))
        self.panels = -(-points.n // panel)  # what lies beyond is nothing but zeros
        self.sums = aligned((self.panels * panel,) * 2, np.float64, zero=True)
        self.so_far = np.zeros(1 + self.width)  # weight, and mean

    def moments(self) -> Moments | None:
        """The moments of all rows; None where values are out of range."""
        m = self.points.n
        scatter = self.sums[:m, :m].copy()
        for i in row_slices(m, TILE):
            scatter[i.stop :, i] = scatter[i, i.stop :].T
            inside = scatter[i, i]
            scatter[i, i] = np.triu(inside) + np.triu(inside, 1).T
        if not np.isfinite(np.diagonal(scatter)).all():
            return None
        return Moments(float(self.so_far[0]), self.so_far[1 : m + 1], scatter)


class Squaring(Pass):
    """The sections k(X, Z) of a run of rows, about their mean, squared and added to sums."""

    def __init__(self, x: NativeRows, sums: SquareSums, weights: Array | None) -> None:
        super().__init__(x, sums.points, block=TILE)
        self.room = sums.points.room  # that of the points stays from run to run
        self.sums, self.n_blocks = sums, -(-self.blocks[0] // sums.tiles)
        to = lib.Squares(height=sums.height, width=sums.width, tiles=sums.tiles, panels=sums.panels)
        to.wide, to.blocks = int(sums.centred.dtype != self.dtype), self.n_blocks
        arrays = sums.centred, sums.means, sums.so_far, sums.sums
        to.centred, to.means, to.so_far, to.sums = map(address, arrays)
        to.weights = self._weights(weights)
        self.squares, self.job.squares = to, ctypes.pointer(to)

    def run(self, n_threads: int) -> None:
        """All blocks, one after the other."""
        group, products = self._group(n_threads)
        counts = np.zeros(2 * self.n_blocks + products, dtype=np.int64)
        squares = self.squares
        squares.group, squares.products, squares.made = group, products, self._address(counts)
        squares.used, squares.added = (squares.made + 8 * i * self.n_blocks for i in (1, 2))
        self.job.n_tickets = (self.n_blocks + 1) * (squares.tiles + 1 + products)
        self._drawn(n_threads)

    def _group(self, n_threads: int) -> tuple[int, int]:
        """Panels of a product on each side, and products of a block: enough for all threads to the end."""
        enough = n_threads * max(1, PRODUCTS // self.n_blocks)
        for group in range(GROUP, 0, -1):
            groups = -(-self.sums.panels // group)
            products = groups * (groups + 1) // 2  # each pair of groups once
            if group == 1 or products >= enough:
                break
        return group, products


# ── what columns k(X, Z) W of a factor explain of rows ──────────────────────
# A thread makes the kernel values of a few rows, multiplies them with W while they are in its cache, and
# squares the products: neither is written to memory that threads share.


def explained(
    engine: NumpyEngine, step: ExplainSections, x: Rows, *, n_threads: int, observer: Observer
) -> Explained | None:
    """The step over all rows; None where the rows, the kernel or its values have no compiled form."""
    kernel, n = step.kernel, int(x.shape[0])
    points = engine.load(step.points, kernel, x.dtype)
    if not isinstance(points, NativeRows) or step.fresh.dtype != points.dtype:
        return None
    columns = _panels(step.fresh, points)
    rows_of, energies = np.empty(n), np.zeros(step.fresh.shape[1])
    for place, rows in row_blocks(x, RUN_ROWS):
        block = engine.load(rows, kernel, points.dtype, sliced=True)
        if not isinstance(block, NativeRows):
            return None
        work = Explaining(block, points, columns, rows_of[place], step.weights_at(place))
        energies += work.run(n_threads)[-len(energies) :]
        observer.step(place.stop, n, "rows", None)
    return Explained((rows_of,), energies) if np.isfinite(rows_of).all() else None


def _panels(fresh: Array, points: NativeRows) -> Array:  # (m, a) -> (panels, m, panel)
    """Columns of W in panels; zeros come first, where the columns of a triangle are the shortest."""
    (m, a), panel = fresh.shape, points.panel
    out = aligned((-(-a // panel), m, panel), points.dtype, zero=True)
    short = a % panel
    if short:
        out[0, :, -short:] = fresh[:, :short]
    out[int(short > 0) :] = fresh[:, short:].reshape(m, -1, panel).transpose(1, 0, 2)
    return out


class Explaining(Pass):
    """k(X, Z) W of a block of rows, squared."""

    def __init__(
        self, x: NativeRows, points: NativeRows, columns: Array, rows: Array, weights: Array | None
    ) -> None:
        super().__init__(x, points, block=TILE * 8 // x.dtype.itemsize)
        self.room = points.room  # that of the points stays from block to block
        panels, m, panel = columns.shape
        self.energies = np.empty((self.blocks[0], panels * panel))
        self.beyond = panels * panel * self.side * 8 // self.dtype.itemsize  # for F, in float64
        to = lib.Explained(panels=panels, height=m, before=m - panels * panel, offset=self.numbers)
        to.w, to.rows, to.energies = map(self._address, (columns, rows, self.energies))
        to.weights = self._weights(weights)
        self._alive.append(to)
        self.job.explained = ctypes.pointer(to)
        self.job.n_tickets = self.blocks[0]

    def run(self, n_threads: int) -> Array:  # (panels · panel,)
        """Σw f² of each column."""
        self._drawn(n_threads, beyond=self.beyond)
        return np.asarray(self.energies.sum(axis=0))
