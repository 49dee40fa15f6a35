"""Features that engines know by kind, and the steps that square, multiply and centre them.

Any engine runs these steps as it runs others, a block of rows at a time. One that has products of its own
makes features of the kinds below, `Waves` and `Whitened`, by those, and gives the same numbers to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer.data.rows import row_slices
from mercer.engine.moments import Moments
from mercer.engine.pairwise import squared_norms
from mercer.engine.steps import Squared
from mercer.engine.tiles import CACHE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from mercer._core.types import Array, Rows
    from mercer.engine.base import Engine, TileKernel

# ‖x‖‖ω‖ up to which a phase in float32 is right to 1e-4.
FLOAT32_PHASE = 1e-4 / float(np.finfo(np.float32).eps)


# ── kinds of features ───────────────────────────────────────────────────────
@dataclass(frozen=True, repr=False, eq=False)
class Whitened:
    """x -> k(x, Z) W: coordinates in the span of the images of Z."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    whiten: Array  # (m, r) W, in the precision of the rows
    engine: Engine[Any]  # what makes tiles of them

    @property
    def width(self) -> int:
        """r."""
        return int(self.whiten.shape[1])

    def __call__(self, x: Rows) -> Array:  # (b, d) -> (b, r)
        points = self.points.astype(x.dtype, copy=False)
        return np.asarray(self.engine.tile(self.kernel, x, points) @ self.whiten)


@dataclass(frozen=True, repr=False, eq=False)
class Waves:
    """x -> √(a/M) [cos ω₁ᵀ(x - c), …, cos ω_Mᵀ(x - c), sin ω₁ᵀ(x - c), …, sin ω_Mᵀ(x - c)].

    In the dtype of the rows; phases that float32 would lose are multiplied in float64.

    Examples
    --------
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
        long = self.too_long(_reach(x, self.centre)) if x.dtype == np.float32 else np.zeros(1, bool)
        if not np.any(long):
            omega = self.frequencies.astype(x.dtype, copy=False)
            _half_products(x, self.centre, omega, out=out)
            return
        omega = np.where(long[:, None], 0.0, self.frequencies).astype(x.dtype)
        _half_products(x, self.centre, omega, out=out)
        fine = np.empty((x.shape[0], np.count_nonzero(long)))
        _half_products(x.astype(np.float64), self.centre, self.frequencies[long], out=fine)
        out[:, long] = np.remainder(fine, np.pi, out=fine)

    def too_long(self, reach: float) -> NDArray[np.bool_]:  # (M,)
        """Frequencies whose phases float32 loses, and float64 does not, at rows up to so far from c."""
        return np.asarray(self.lengths * reach > FLOAT32_PHASE)

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


# ── steps ───────────────────────────────────────────────────────────────────
@dataclass(frozen=True, repr=False)
class SquareFeatures:
    """Moments of features, centred before they are squared, all in one precision, for `Engine.fold`."""

    features: Callable[[Rows], Array]
    dtype: np.dtype[Any]
    weights: Array | None  # (n,)
    lengths: Callable[[Rows], Array]  # k(x, x) of some rows in float64, or an error in words

    def __call__(self, rows: Rows, place: slice) -> Squared:
        rows = rows.astype(self.dtype, copy=False)
        w = None if self.weights is None else self.weights[place]
        # A product is a new array; an explicit map may hand over the rows.
        own = isinstance(self.features, Whitened)
        moments = Moments.of(self.features(rows), w, overwrite=own)
        return Squared(moments, self.trace(rows, place))

    def trace(self, rows: Rows, place: slice) -> float:
        """Σw k(x, x) of some rows."""
        lengths = self.lengths(rows.astype(self.dtype, copy=False))  # (b,)
        return float(lengths.sum() if self.weights is None else self.weights[place] @ lengths)

    def at(self, start: int) -> SquareFeatures:
        """The same for rows of which the first is at `start` among all."""
        return self if self.weights is None else replace(self, weights=self.weights[start:])


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
