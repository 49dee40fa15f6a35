"""The seam between a matrix and a solver: a few verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from mercer._core.types import Array, Indices


class SymmetricOperator(Protocol):
    """A symmetric n x n matrix that may or may not be stored."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the entries, whatever the precision of the vectors."""
        ...

    @property
    def minus(self) -> float:
        """A constant that is taken off every entry of the products, not off `diag`."""
        ...

    def matmat(self, v: Array) -> Array:  # (n, k) -> (n, k)
        """K v, in the dtype of v."""
        ...

    def diag(self) -> Array:  # (n,)
        """The diagonal."""
        ...

    def cross(self, indices: Indices, v: Array) -> Array:  # (m,), (m, k) -> (n, k)
        """K[:, indices] @ v: a product with a few columns only."""
        ...

    def block(self, indices: Indices) -> Array:  # (m, m)
        """K[indices][:, indices]."""
        ...

    def dense(self) -> Array:  # (n, n)
        """The whole matrix as a new array that the caller may overwrite."""
        ...
