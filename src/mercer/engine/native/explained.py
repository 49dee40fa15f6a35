"""What columns k(X, Z) W of a factor explain of rows, by the compiled library: no thread of Python.

A thread makes the kernel values of a few rows, multiplies them with W while they are in its cache, and
squares the products: neither is written to memory that threads share.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_blocks
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import aligned
from mercer.engine.native.passes import Pass
from mercer.engine.native.rows import NativeRows
from mercer.engine.steps import Explained

if TYPE_CHECKING:
    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.engine.numpy import NumpyEngine
    from mercer.engine.steps import ExplainSections

# Rows of a float64 tile: their columns of F stay in a core's own cache.
TILE = 96
# Rows for which threads are started, and whose blocks have sums of their own.
MOST_ROWS = 2**15


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
    for place, rows in row_blocks(x, MOST_ROWS):
        block = engine.load(rows, kernel, points.dtype, sliced=True)
        if not isinstance(block, NativeRows):
            return None
        weights = None if step.weights is None else step.weights[place]
        work = Explaining(block, points, columns, rows_of[place], weights)
        energies += work.run(n_threads)[-len(energies) :]
        observer.step(place.stop, n, "rows", None)
    return Explained((rows_of,), energies) if np.isfinite(rows_of).all() else None


def _panels(fresh: Array, points: NativeRows) -> Array:  # (m, a) -> (panels, m, panel)
    """Columns of W that are multiplied together lie together, zeros before the first.

    Before, and not beyond the last: the first columns of a triangle are the shortest.
    """
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
        to = lib.Explained(
            w=self._address(columns),
            panels=panels,
            height=m,
            before=m - panels * panel,
            rows=self._address(rows),
            energies=self._address(self.energies),
            offset=self.numbers,
        )
        if weights is not None:
            to.weights = self._address(np.ascontiguousarray(weights, dtype=np.float64))
        self._alive.append(to)
        self.job.explained = ctypes.pointer(to)
        self.job.n_tickets = self.blocks[0]

    def run(self, n_threads: int) -> Array:  # (panels · panel,)
        """Σw f² of each column."""
        self._drawn(n_threads, beyond=self.beyond)
        return np.asarray(self.energies.sum(axis=0))
