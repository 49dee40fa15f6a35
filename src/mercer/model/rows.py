"""Centred features without a fuss about their storage: dense rows are shifted, sparse ones are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from mercer.engine.pairwise import dot

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows


@dataclass(frozen=True, repr=False)
class CentredRows:
    """Φ̃ = Φ - 1μᵀ. Subtracting μ from a sparse matrix would fill it, so there it stays implicit."""

    rows: Rows  # (n, m): dense and centred, or sparse and not
    mean: Array  # (m,) float64
    largest: float  # max |Φ|, before centring

    @classmethod
    def of(cls, features: Rows) -> CentredRows:
        """Centre the rows of dense or sparse features."""
        if sparse.issparse(features):
            # Centring happens after the products here, so they need all the digits there are.
            features = features.astype(np.float64)
            mean = np.asarray(features.sum(axis=0), dtype=np.float64).ravel() / features.shape[0]
            return cls(features, mean, float(np.max(np.abs(features.data), initial=0.0)))
        mean = features.mean(axis=0, dtype=np.float64)
        largest = float(np.float64(max(features.max(), -features.min())))
        return cls(features - mean.astype(features.dtype), mean, largest)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])

    def covariance(self) -> Array:  # (m, m)
        """Φ̃ᵀΦ̃, n times the covariance, as float64 for the solver."""
        product = dot(self.rows.T, self.rows.T).astype(np.float64, copy=False)
        if sparse.issparse(self.rows):
            product -= self.shape[0] * np.outer(self.mean, self.mean)
        return product

    def gram(self) -> Array:  # (n, n)
        """Φ̃Φ̃ᵀ, as float64 for the solver."""
        product = dot(self.rows, self.rows).astype(np.float64, copy=False)
        if sparse.issparse(self.rows):
            cross = np.asarray(self.rows @ self.mean)
            product -= cross[:, None]
            product -= cross[None, :]
            product += self.mean @ self.mean
        return product

    def times(self, v: Array) -> Array:  # (m, k) -> (n, k)
        """Φ̃ v in float64."""
        product = np.asarray(self.rows @ v.astype(self.rows.dtype, copy=False), dtype=np.float64)
        return product - self.mean @ v if sparse.issparse(self.rows) else product

    def transposed_times(self, u: Array) -> Array:  # (n, k) -> (m, k)
        """Φ̃ᵀ u in float64."""
        product = np.asarray(self.rows.T @ u.astype(self.rows.dtype, copy=False), dtype=np.float64)
        if sparse.issparse(self.rows):
            product -= np.outer(self.mean, u.sum(axis=0))
        return product

    def cut(self, values: Array) -> float:
        """Eigenvalues below this are rounding: of the solver, and of the shift by the mean."""
        n, m = self.shape
        eps = float(np.finfo(self.rows.dtype).eps)
        top = float(np.max(values, initial=0.0))
        if sparse.issparse(self.rows):  # subtracted after the product: rounding is of its size
            return eps * (30.0 * top + 4.0 * n * self.largest**2)
        return 30.0 * eps * top + 4.0 * n * m * (eps * self.largest) ** 2
