"""Centred features without a fuss about their storage: dense rows are shifted, sparse ones are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from mercer.engine.pairwise import dot
from mercer.engine.rows import row_blocks

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows

# Rows whose sum is taken at a time: of float32 rows only these are held in float64.
BLOCK_ROWS = 4096


def weighted_mean(x: Rows, weights: Array | None = None) -> Array:  # (n, d), (n,) -> (d,)
    """μ = Σwx/Σw in float64, whatever the precision of the rows and wherever they are."""
    if weights is None:
        weights = np.ones(x.shape[0])
    total = np.zeros(x.shape[1])
    for i, block in row_blocks(x, BLOCK_ROWS):
        total += np.asarray(block.T @ weights[i])
    return total / float(weights.sum())


@dataclass(frozen=True, repr=False)
class CentredRows:
    """Φ̃ = S(Φ - 1μᵀ), S = diag(√w), μ = Φᵀw/Σw; S = I and μ the mean where all rows count alike.

    Φ̃ᵀΦ̃ = Σ w (φ - μ)(φ - μ)ᵀ and Φ̃Φ̃ᵀ have the non-zero eigenvalues that repeated rows would give.
    Subtracting μ from a sparse matrix would fill it, so there it stays implicit.
    """

    rows: Rows  # (n, m): dense, centred and scaled; or sparse, scaled and not centred
    mean: Array  # (m,) float64
    largest: float  # max |Φ|, before centring and scaling
    roots: Array | None = None  # (n,) √w in float64, where the rows carry weights

    @classmethod
    def of(cls, features: Rows, weights: Array | None = None) -> CentredRows:
        """Centre and scale the rows of dense or sparse features; theirs stay as they are."""
        roots = None if weights is None else np.sqrt(weights)
        mean = weighted_mean(features, weights)
        if sparse.issparse(features):
            # Centring happens after the products here, so they need all the digits there are.
            rows = features.astype(np.float64)
            largest = float(np.max(np.abs(rows.data), initial=0.0))
            if roots is not None:
                rows.data *= np.repeat(roots, np.diff(rows.indptr))
            return cls(rows, mean, largest, roots)
        largest = float(np.float64(max(features.max(), -features.min())))
        rows = features - mean.astype(features.dtype)
        if roots is not None:
            rows *= roots.astype(features.dtype)[:, None]
        return cls(rows, mean, largest, roots)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])

    @property
    def weight(self) -> float:
        """Σw: n, where all rows count alike."""
        return float(self.shape[0]) if self.roots is None else float(self.roots @ self.roots)

    @property
    def most(self) -> float:
        """No entry of the two products below is larger; infinite where float64 can't hold it."""
        heaviest = 1.0 if self.roots is None else float(np.max(self.roots**2))
        return self.largest * self.largest * max(self.weight, heaviest * self.shape[1])

    def covariance(self) -> Array:  # (m, m)
        """Φ̃ᵀΦ̃, Σw times the covariance, as float64 for the solver."""
        product = dot(self.rows.T, self.rows.T).astype(np.float64, copy=False)
        if self._implicit:
            product -= self.weight * np.outer(self.mean, self.mean)
        return product

    def gram(self) -> Array:  # (n, n)
        """Φ̃Φ̃ᵀ, as float64 for the solver."""
        product = dot(self.rows, self.rows).astype(np.float64, copy=False)
        if self._implicit:
            s, cross = self._roots, np.asarray(self.rows @ self.mean)
            product -= np.outer(cross, s)
            product -= np.outer(s, cross - (self.mean @ self.mean) * s)
        return product

    def times(self, v: Array) -> Array:  # (m, k) -> (n, k)
        """Φ̃ v in float64."""
        product = np.asarray(self.rows @ v.astype(self.rows.dtype, copy=False), dtype=np.float64)
        return product - np.outer(self._roots, self.mean @ v) if self._implicit else product

    def transposed_times(self, u: Array) -> Array:  # (n, k) -> (m, k)
        """Φ̃ᵀ u in float64."""
        product = np.asarray(self.rows.T @ u.astype(self.rows.dtype, copy=False), dtype=np.float64)
        return product - np.outer(self.mean, self._roots @ u) if self._implicit else product

    def cut(self, values: Array) -> float:
        """Eigenvalues below this are rounding: of the solver, and of the shift by the mean."""
        weight, m = self.weight, self.shape[1]
        eps = float(np.finfo(self.rows.dtype).eps)
        top = float(np.max(values, initial=0.0))
        if self._implicit:  # subtracted after the product: rounding is of its size
            return eps * (30.0 * top + 4.0 * weight * self.largest**2)
        return 30.0 * eps * top + 4.0 * weight * m * (eps * self.largest) ** 2

    @property
    def _implicit(self) -> bool:
        return bool(sparse.issparse(self.rows))

    @property
    def _roots(self) -> Array:  # (n,)
        """√w, or ones."""
        return np.ones(self.shape[0]) if self.roots is None else self.roots
