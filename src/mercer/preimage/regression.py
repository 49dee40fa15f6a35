"""Kernel ridge regression with weights, and what it misses of rows that are left out, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg import lapack

from mercer.engine.pairwise import squared_norms

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices


class Regression(Protocol):
    """X̂(t) = Σ_i a_i κ(t, t_i) with (κ + αW⁻¹)a = x: a row of weight w counts as w rows do."""

    @property
    def coef(self) -> Array:  # (n, d)
        """The coefficients a."""
        ...

    def left_out(self) -> Array:  # (n, d)
        """What is missed of each row by the map that is learned from all others: a_i/G_ii.

        G = (κ + αW⁻¹)⁻¹. A row is left out with all of its weight, so no copy of it is left behind.
        """
        ...

    def moved(self, some: Indices, values: Array) -> Array:  # (p,), (p, n) -> (p, d)
        """What the map learned without row i says at scores near its own.

        values : κ of the moved scores with all. Without row i the coefficients lose G e_i a_i/G_ii.
        """
        ...


@dataclass(frozen=True, repr=False)
class Factored:
    """By Cholesky, with the inverse of the factor."""

    root: Array  # (n, n) L⁻¹ with LLᵀ = κ + αW⁻¹, lower
    coef: Array
    inverse_diag: Array  # (n,) G_ii

    @classmethod
    def of(cls, kappa: Array, x: Array, penalties: Array) -> Factored | None:
        """Overwrites κ; None where rounding leaves no factor."""
        factor = factored(kappa, penalties)
        if factor is None:
            return None
        root, failed = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        return None if failed else cls(root, root.T @ (root @ x), squared_norms(root.T))

    def left_out(self) -> Array:
        """a_i/G_ii."""
        return np.asarray(self.coef / self.inverse_diag[:, None])

    def moved(self, some: Indices, values: Array) -> Array:
        """The map without row i, at scores beside it."""
        lost = np.einsum("jp,jp->p", self.root @ values.T, self.root[:, some])
        lost /= self.inverse_diag[some]
        return np.asarray(values @ self.coef - lost[:, None] * self.coef[some])


def factored(kappa: Array, penalties: Array) -> Array | None:
    """L with LLᵀ = κ + diag(penalties), in the place of κ; None where rounding leaves no factor."""
    kappa.flat[:: len(kappa) + 1] += penalties
    # Symmetric: its transpose has the order of columns that LAPACK works on, and no copy is made.
    factor, failed = lapack.dpotrf(kappa.T, lower=1, clean=1, overwrite_a=1)
    return None if failed else factor


def solved(kappa: Array, x: Array, penalties: Array, few: Indices) -> tuple[Array, Array] | None:
    """(κ + diag(penalties))⁻¹x, and what is missed of a few rows that are left out; overwrites κ."""
    factor = factored(kappa, penalties)
    if factor is None:
        return None
    coef = lapack.dpotrs(factor, x, lower=1)[0]
    units = np.zeros((len(x), len(few)), order="F")
    units[few, np.arange(len(few))] = 1.0
    units = lapack.dtrtrs(factor, units, lower=1, overwrite_b=1)[0]
    return coef, coef[few] / squared_norms(units.T)[:, None]


@dataclass(frozen=True, repr=False)
class Affine:
    """κ = FFᵀ with F = (1, √s T): a map that is affine in the scores, one decomposition for all penalties.

    With F̃ = √W F = U diag(σ) Vᵀ everything is done along U and beside it. Beside it there is mostly
    nothing but the error, and no difference of large numbers.
    """

    left: Array  # (n, r) U
    values: Array  # (r,) σ²
    inside: Array  # (r, d) Uᵀ√W x
    outside: Array  # (n, d) √W x - U Uᵀ√W x
    roots: Array  # (n, 1) √w

    @classmethod
    def of(cls, features: Array, x: Array, weights: Array) -> Affine:
        """From F, (n, k + 1)."""
        roots = np.sqrt(weights)[:, None]
        n, r = features.shape
        scaled = roots * features
        if r < n:
            left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
            values = sizes**2
        else:
            values, left = np.linalg.eigh(scaled @ scaled.T)
            values = np.maximum(values, 0.0)
        x = roots * x
        inside = left.T @ x
        outside = x - left @ inside if r < n else np.zeros_like(x)
        if r < n:  # beside U also in the digits that a small penalty magnifies
            outside -= left @ (left.T @ outside)
        return cls(left, values, inside, outside, roots)

    def at(self, alpha: float) -> AffineFit:
        """The map with this penalty."""
        return AffineFit(self, alpha)


@dataclass(frozen=True, repr=False)
class AffineFit:
    """The affine map of one penalty."""

    along: Affine
    alpha: float

    @cached_property
    def coef(self) -> Array:  # (n, d)
        """A = √W (U (σ² + α)⁻¹ Uᵀ + (I - UUᵀ)/α) √W x."""
        own = self.along
        inside = own.left @ (own.inside / (own.values + self.alpha)[:, None])
        return np.asarray(own.roots * (inside + own.outside / self.alpha))

    @cached_property
    def _inverse_diag(self) -> Array:  # (n,)
        own = self.along
        squares = own.left**2
        beside = 0.0
        if own.left.shape[1] < len(squares):
            beside = np.maximum(1.0 - squares.sum(axis=1), 0.0) / self.alpha
        return np.asarray(
            own.roots[:, 0] ** 2 * (squares @ (1.0 / (own.values + self.alpha)) + beside)
        )

    def left_out(self, some: Indices | slice = slice(None)) -> Array:
        """a_i/G_ii."""
        return np.asarray(self.coef[some] / self._inverse_diag[some, None])

    def moved(self, some: Indices, values: Array) -> Array:
        """The map without row i, at scores beside it; κ(t', T) lies in the span of F."""
        own = self.along
        seen = (values * own.roots[:, 0]) @ own.left  # (p, r)
        shrunk = seen / (own.values + self.alpha)
        lost = np.einsum("pr,pr->p", shrunk, own.left[some]) * own.roots[some, 0]
        lost /= self._inverse_diag[some]
        return np.asarray(shrunk @ own.inside - lost[:, None] * self.coef[some])
