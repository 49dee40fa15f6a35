"""Steps whose kind an engine may know: low-rank fits, `RPCholesky`, features, searches in input space.

Any engine can run them as other steps, a block of rows at a time, by the code that they bring for the host.
One with products of its own uses these instead, also for features of the kinds `Waves` and `Whitened`; its
values are the same up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
from scipy import sparse

from mercer._core.quick import changed
from mercer._core.types import Array, Rows
from mercer.data.rows import row_slices
from mercer.engine.base import Engine, TileKernel
from mercer.engine.moments import Moments
from mercer.engine.pairwise import squared_norms
from mercer.engine.tiles import CACHE_BYTES
from mercer.engine.wide import triangle_product

# Rows whose sections in float32 are squared in float64 at a time.
WIDER_ROWS = 1024


class Weighed:
    """A step of `Engine.fold` over rows that may have weights."""

    weights: Array | None  # (n,)

    def at(self, start: int) -> Self:
        """The step for rows of which the first is at `start` among all."""
        return self if self.weights is None else changed(self, weights=self.weights[start:])

    def weights_at(self, place: slice) -> Array | None:
        return None if self.weights is None else self.weights[place]


class Traced(Weighed):
    """One that sums up squared lengths as well."""

    dtype: np.dtype[Any]  # that kernel values are made in
    lengths: Callable[[Rows], Array]  # k(x, x) of some rows in float64, or an error in words

    def trace(self, rows: Rows, place: slice) -> float:
        """Σw k(x, x) of some rows."""
        lengths, w = self.lengths(rows.astype(self.dtype, copy=False)), self.weights_at(place)
        return float(lengths.sum() if w is None else w @ lengths)


# ── squares of sections k(x, Z): the work of a low-rank fit ─────────────────
@dataclass(frozen=True)
class Squared:
    """What is summed up over rows."""

    moments: Moments  # of the sections
    trace: float  # Σw k(x, x)

    def merged(self, other: Squared) -> Squared:
        return Squared(self.moments.merged(other.moments), self.trace + other.trace)


@dataclass(frozen=True, repr=False)
class SquareSections(Traced):
    """Moments of k(x, Z), centred before they are squared, in one precision or the other."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    dtype: np.dtype[Any]  # of the sections
    squared_in: np.dtype[Any]  # of their products; sums over blocks are in float64
    weights: Array | None  # (n,)
    lengths: Callable[[Rows], Array]  # k(x, x) of some rows in float64, or an error in words
    engine: Engine[Any]  # what makes tiles of them

    def __call__(self, rows: Rows, place: slice) -> Squared:
        rows, w = rows.astype(self.dtype, copy=False), self.weights_at(place)
        n = int(rows.shape[0])
        # A wider copy of all sections would be twice as large as they are.
        height = n if self.squared_in == self.dtype else WIDER_ROWS
        parts = (self._moments(rows[i], None if w is None else w[i]) for i in row_slices(n, height))
        return Squared(reduce(Moments.merged, parts), self.trace(rows, place))

    def _moments(self, rows: Rows, w: Array | None) -> Moments:
        points = self.points.astype(self.dtype, copy=False)
        sections = self.engine.tile(self.kernel, rows, points)  # (b, m), a new array
        return Moments.of(sections.astype(self.squared_in, copy=False), w, overwrite=True)


# ── what columns F = k(X, Z) W of a Cholesky factor explain ─────────────────
@dataclass(frozen=True, repr=False)
class Explained:
    """What columns of F explain: of each row, and each column of all rows."""

    rows: tuple[Array, ...]  # (n,) ‖f‖² in blocks
    energies: Array  # (a,) Σw f²

    def merged(self, other: Explained) -> Explained:
        return Explained(self.rows + other.rows, self.energies + other.energies)


@dataclass(frozen=True, repr=False)
class ExplainSections(Weighed):
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

    It is not one, with 0 in the last column, where Σ_j p_ij is not below zero by a `share` of its terms.
    """

    share: float


# ── kinds of features ───────────────────────────────────────────────────────
# ‖x‖‖ω‖ up to which a phase in float32 is right to 1e-4.
FLOAT32_PHASE = 1e-4 / float(np.finfo(np.float32).eps)


@dataclass(frozen=True, repr=False, eq=False)
class Whitened:
    """x -> k(x, Z) W: coordinates in the span of the images of Z."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    whiten: Array  # (m, r) W, in the precision of the rows
    engine: Engine[Any]  # what makes tiles of them

    @property
    def width(self) -> int:
        return int(self.whiten.shape[1])

    def __call__(self, x: Rows) -> Array:  # (b, d) -> (b, r)
        points = self.points.astype(x.dtype, copy=False)
        return np.asarray(self.engine.tile(self.kernel, x, points) @ self.whiten)


@dataclass(frozen=True, repr=False, eq=False)
class Waves:
    """x -> √(a/M) [cos ω₁ᵀ(x - c), …, cos ω_Mᵀ(x - c), sin ω₁ᵀ(x - c), …, sin ω_Mᵀ(x - c)].

    In the dtype of the rows; phases that float32 would lose are multiplied in float64.

    >>> waves = Waves(np.array([[np.pi], [2.0]]), amplitude=4.0, centre=np.zeros(1))
    >>> waves(np.array([[0.0], [0.5]])).round(3)
    array([[1.414, 1.414, 0.   , 0.   ],
           [0.   , 0.764, 1.414, 1.19 ]])
    """

    frequencies: Array  # (M, d) float64
    amplitude: float  # a
    centre: Array  # (d,) float64

    @property
    def width(self) -> int:
        """A cosine and a sine for each frequency: 2M."""
        return 2 * len(self.frequencies)

    @property
    def radius(self) -> float:
        """√(a/M)."""
        return math.sqrt(self.amplitude / len(self.frequencies))

    def __call__(self, x: Rows) -> Array:  # (b, d) -> (b, 2M)
        m = len(self.frequencies)
        features = np.empty((x.shape[0], 2 * m), dtype=x.dtype)
        cosines, sines = features[:, :m], features[:, m:]
        self._half_phases(x, out=sines)
        height = max(1, CACHE_BYTES // (2 * m * features.itemsize))
        for i in row_slices(len(features), height):
            _circle(cosines[i], sines[i], self.radius)
        return features

    def _half_phases(self, x: Rows, *, out: Array) -> None:
        """½ωᵀ(x - c), a multiple of π left out where it is large."""
        # Phases that float32 loses, and float64 does not.
        reach = _reach(x, self.centre) if x.dtype == np.float32 else 0.0
        long = self.lengths * reach > FLOAT32_PHASE  # (M,)
        omega = np.where(long[:, None], 0.0, self.frequencies) if np.any(long) else self.frequencies
        _half_products(x, self.centre, omega.astype(x.dtype, copy=False), out=out)
        if np.any(long):
            fine = np.empty((x.shape[0], np.count_nonzero(long)))
            _half_products(x.astype(np.float64), self.centre, self.frequencies[long], out=fine)
            out[:, long] = np.remainder(fine, np.pi, out=fine)

    @cached_property
    def lengths(self) -> Array:  # (M,)
        """‖ω‖."""
        return np.sqrt(squared_norms(self.frequencies))


def _half_products(x: Rows, centre: Array, omega: Array, *, out: Array) -> None:  # -> (b, M)
    """½ωᵀ(x - c) in the dtype of x."""
    centre = centre.astype(x.dtype, copy=False)
    if sparse.issparse(x):
        # Shifted rows would be dense: the phases are shifted in their place.
        np.subtract(x @ omega.T, omega @ centre, out=out)
        out *= 0.5
    else:
        rows = x - centre  # (b, d)
        rows *= 0.5
        np.matmul(rows, omega.T, out=out)


def _reach(x: Rows, centre: Array) -> float:
    """What ‖x‖‖ω‖ may be at most in the products above, for ‖ω‖ = 1."""
    centre = centre.astype(x.dtype, copy=False)
    shifted = x if sparse.issparse(x) else x - centre
    beside = float(np.linalg.norm(centre)) if sparse.issparse(x) else 0.0
    return math.sqrt(np.max(squared_norms(shifted), initial=0.0)) + beside


def _circle(cosines: Array, sines: Array, radius: float) -> None:
    """From half angles in `sines`: radius · cos in the one, radius · sin in the other.

    With t = tan ½θ, cos θ = 2/(1 + t²) - 1 and sin θ = 2t/(1 + t²), both right to two units in the last
    place of the radius. The tangent takes one call in place of two, and in float64 NumPy runs it, unlike
    the other two, on vector instructions where there are any: four times as fast, measured.
    """
    tangents = np.tan(sines, out=sines)
    np.multiply(tangents, tangents, out=cosines)
    cosines += 1.0
    np.divide(2.0 * radius, cosines, out=cosines)
    tangents *= cosines
    cosines -= radius


# ── steps that square, multiply and centre them ─────────────────────────────
@dataclass(frozen=True, repr=False)
class SquareFeatures(Traced):
    """Moments of features, centred before they are squared, all in one precision, for `Engine.fold`."""

    features: Callable[[Rows], Array]
    dtype: np.dtype[Any]
    weights: Array | None  # (n,)
    lengths: Callable[[Rows], Array]  # k(x, x) of some rows in float64, or an error in words

    def __call__(self, rows: Rows, place: slice) -> Squared:
        rows = rows.astype(self.dtype, copy=False)
        # A product is a new array; an explicit map may hand over the rows.
        own = isinstance(self.features, Whitened)
        moments = Moments.of(self.features(rows), self.weights_at(place), overwrite=own)
        return Squared(moments, self.trace(rows, place))


@dataclass(frozen=True, repr=False)
class FeatureProduct:
    """features(x) @ coef, for `Engine.map`."""

    features: Callable[[Rows], Array]
    coef: Array  # (m, k), in the precision of the rows

    def __call__(self, rows: Rows) -> Array:  # (b, d) -> (b, k)
        return np.asarray(self.features(rows) @ self.coef)


@dataclass(frozen=True, repr=False)
class FeatureErrors:
    """Scores along orthonormal axes, and what they leave of a row's squared length, for `Engine.map`.

    Features can be centred, and the axes taken off them: nothing cancels.
    """

    features: Callable[[Rows], Array]
    coef: Array  # (m, k) the axes
    mean: Array  # (m,)

    def __call__(self, rows: Rows) -> Array:  # (b, d) -> (b, k + 1)
        centred = self.features(rows) - self.mean
        scores = centred @ self.coef
        return np.column_stack([scores, squared_norms(centred - scores @ self.coef.T)])
