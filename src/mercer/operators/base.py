"""The seam between a matrix and a solver: a few verbs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mercer._core.types import Array, Indices


class SymmetricOperator(Protocol):
    """A symmetric n x n matrix that may or may not be stored."""

    n: int  # number of rows
    eps: float  # the relative rounding of an entry, whatever the precision of the vectors
    minus: float = 0.0  # a constant that is taken off every entry of the products, not off `diag`
    rough: SymmetricOperator | None = None  # a cheaper operator that is nearly the same
    # Whether a product with this operator prepares `rough` at no cost: the two then differ by the rounding of
    # entries alone, and a solver begins with an exact product.
    fills_rough: bool = False
    # The operator whose products are as exact as `rows`, where those of this one are less.
    exact: SymmetricOperator | None = None

    @property
    def size(self) -> float:
        """The norm that the rounding of a product is relative to, where that is above the eigenvalues."""
        return 0.0

    @property
    def noise(self) -> float | None:
        """‖E‖ (Frobenius), where the matrix is positive semi-definite but for an error E; None: not known."""
        return None

    def matmat(self, v: Array) -> Array:  # (n, k) -> (n, k)
        """K v, in the dtype of v."""

    def placed(self, v: Array) -> Array:  # (n, k)
        """Vectors where products with them are made: on the host, or on the device of an engine."""
        return v

    def rows(self, indices: Indices, v: Array) -> Array:  # (m,), (n, k) -> (m, k)
        """(K v)[indices]: a few rows of a product."""

    def diag(self) -> Array:  # (n,)
        """The diagonal."""

    def cross(self, indices: Indices, v: Array) -> Array:  # (m,), (m, k) -> (n, k)
        """K[:, indices] @ v: a product with a few columns only."""

    def block(self, indices: Indices) -> Array:  # (m, m)
        """K[indices][:, indices]."""

    def among(self, indices: Indices) -> SymmetricOperator:  # m x m
        """The same operator of a few rows, centred among themselves where it is centred."""

    def dense(self) -> Array:  # (n, n)
        """The whole matrix as a new array that the caller may overwrite."""

    def unprojected(self) -> tuple[Array, Array]:  # (n, n), (f, n)
        """B and orthonormal rows F, in float64: the matrix is P B P, P = I - FᵀF. Not to be written to."""
        return self.dense().astype(np.float64, copy=False), np.empty((0, self.n))

    def memory(self) -> Array:
        """What later products need of earlier ones, for a checkpoint; empty where they need nothing."""
        return np.empty(0)

    def recall(self, memory: Array) -> None:
        """Go on as the operator that such a memory was taken from."""
        del memory
