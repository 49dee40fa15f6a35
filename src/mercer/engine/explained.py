"""A step that tells what columns F = k(X, Z) W of a Cholesky factor explain: the rounds of `RPCholesky`.

Any engine runs it as it runs other steps, a block of rows at a time. One that has products of its own takes
the parts of the step instead, and gives the same numbers to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.wide import triangle_product

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.engine.base import Engine, TileKernel


@dataclass(frozen=True, repr=False)
class Explained:
    """What columns of F explain: of each row, and each column of all rows."""

    rows: tuple[Array, ...]  # (n,) ‖f‖² in blocks
    energies: Array  # (a,) Σw f²

    def merged(self, other: Explained) -> Explained:
        """The sums over these rows and the ones that follow them."""
        return Explained(self.rows + other.rows, self.energies + other.energies)


@dataclass(frozen=True, repr=False)
class ExplainSections:
    """Squares of k(x, Z) W, in the precision of the rows."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    fresh: Array  # (m, a) the last columns of W, an upper triangle, in the dtype of the rows
    weights: Array | None  # (n,)
    engine: Engine[Any]  # what makes tiles of them

    def __call__(self, rows: Rows, place: slice) -> Explained:
        points = self.points.astype(rows.dtype, copy=False)
        squares = triangle_product(
            self.engine.tile(self.kernel, rows, points), self.fresh
        )  # (b, a)
        np.multiply(squares, squares, out=squares)
        w = np.ones(len(squares)) if self.weights is None else self.weights[place]
        energies = w.astype(squares.dtype, copy=False) @ squares
        return Explained((squares.sum(axis=1),), energies.astype(np.float64))

    def at(self, start: int) -> ExplainSections:
        """The same for rows of which the first is at `start` among all."""
        return self if self.weights is None else replace(self, weights=self.weights[start:])
