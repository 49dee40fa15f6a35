"""Steps whose kind an engine may know: low-rank fits, rounds of `RPCholesky`, searches in input space.

Any engine runs them as it runs other steps, a block of rows at a time, with the code of the host that they
bring. One that has products of its own takes the parts of a step instead, and gives the same to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.moments import Moments
from mercer.engine.wide import triangle_product

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows
    from mercer.engine.base import Engine, TileKernel

# Rows whose sections in float32 are squared in float64 at a time.
WIDER_ROWS = 1024


# ── squares of sections k(x, Z): the work of a low-rank fit ─────────────────
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


# ── what columns F = k(X, Z) W of a Cholesky factor explain ─────────────────
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
        tile = self.engine.tile(self.kernel, rows, points)
        squares = triangle_product(tile, self.fresh)  # (b, a)
        np.multiply(squares, squares, out=squares)
        w = np.ones(len(squares)) if self.weights is None else self.weights[place]
        energies = w.astype(squares.dtype, copy=False) @ squares
        return Explained((squares.sum(axis=1),), energies.astype(np.float64))

    def at(self, start: int) -> ExplainSections:
        """The same for rows of which the first is at `start` among all."""
        return self if self.weights is None else replace(self, weights=self.weights[start:])


# ── sums over points, weighed by slopes of the kernel, for `Engine.map` ─────
@dataclass(frozen=True, repr=False, eq=False)
class Pulls:
    """Points, and what they weigh for targets: x_i looks for ψ(t_i) = Σ_j γ_ij φ(z_j), γ_i = A t_i + c."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    coef: Array  # (m, k) A
    mean: Array | None  # (m,) c; None: zero
    host: Callable[..., Array]

    def __call__(self, x: Rows, *targets: Array) -> Array:  # (b, d), (b, k)
        return self.host(self, x, *targets)


class SlopeSums(Pulls):
    """Σ_j γ_ij ∂k(x_i, z_j)/∂x_i, (b, d)."""


class AxisSlopes(Pulls):
    """Σ_j A_jl ∂k(x_i, z_j)/∂x_i of each axis l, (b, k, d): there are no targets."""


@dataclass(frozen=True, repr=False, eq=False)
class FixedPoints(Pulls):
    """Σ_j p_ij z_j / Σ_j p_ij with p_ij = γ_ij f'(‖x_i - z_j‖²), and whether that is a mean, (b, d + 1).

    It is none, 0 in the last column, where Σ_j p_ij is not below zero by a `share` of its terms.
    """

    share: float
