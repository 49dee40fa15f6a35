"""A step that sums up squares of sections k(x, Z): the work of a low-rank fit.

Any engine runs it as it runs other steps, a block of rows at a time. One that has products of its own takes
the parts of the step instead, and gives the same sums to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from mercer.data.rows import row_slices
from mercer.engine.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from mercer._core.types import Array, Rows
    from mercer.engine.base import Engine, TileKernel

# Rows whose sections in float32 are squared in float64 at a time.
WIDER_ROWS = 1024


@dataclass(frozen=True)
class Squared:
    """What is summed up over rows."""

    moments: Moments  # of the sections
    trace: float  # Σw k(x, x)

    def merged(self, other: Squared) -> Squared:
        """Of both sets of rows."""
        return Squared(self.moments.merged(other.moments), self.trace + other.trace)


@dataclass(frozen=True, repr=False)
class SquareSections:
    """Moments of k(x, Z), centred before they are squared, in one precision or the other."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    dtype: np.dtype[Any]  # of the sections
    squared_in: np.dtype[Any]  # of their products; sums over blocks are in float64
    weights: Array | None  # (n,)
    lengths: Callable[[Rows], Array]  # k(x, x) of some rows in float64, or an error in words
    engine: Engine[Any]  # what makes tiles of them

    def __call__(self, rows: Rows, place: slice) -> Squared:
        rows = rows.astype(self.dtype, copy=False)
        w = None if self.weights is None else self.weights[place]
        n = int(rows.shape[0])
        # A wider copy of all sections would be twice as large as they are.
        height = n if self.squared_in == self.dtype else WIDER_ROWS
        parts = (self._moments(rows[i], None if w is None else w[i]) for i in row_slices(n, height))
        return Squared(reduce(Moments.merged, parts), self.trace(rows, place))

    def at(self, start: int) -> SquareSections:
        """The same for rows of which the first is at `start` among all."""
        return self if self.weights is None else replace(self, weights=self.weights[start:])

    def _moments(self, rows: Rows, w: Array | None) -> Moments:
        points = self.points.astype(self.dtype, copy=False)
        sections = self.engine.tile(self.kernel, rows, points)  # (b, m), a new array
        return Moments.of(sections.astype(self.squared_in, copy=False), w, overwrite=True)

    def trace(self, rows: Rows, place: slice) -> float:
        """Σw k(x, x) of some rows."""
        lengths = self.lengths(rows.astype(self.dtype, copy=False))  # (b,)
        return float(lengths.sum() if self.weights is None else self.weights[place] @ lengths)
