"""Centring in feature space, on the vectors: K itself is never touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.operators.base import SymmetricOperator


def minus_mean(v: Array) -> Array:
    """H v with H = I - 11ᵀ/n: the mean of each column is taken off."""
    return v - v.mean(axis=0)


def _require_finite(row_means: Array) -> None:
    if not np.all(np.isfinite(row_means)):
        msg = (
            f"The kernel overflows on these data: row {int(np.argmin(np.isfinite(row_means)))} of K is "
            "not finite. Scale the columns (StandardScaler), lower gamma or the degree, or fit in "
            "float64."
        )
        raise KernelError(msg)


class Centred:
    """H K H with H = I - 11ᵀ/n.

    H acts before *and* after each product. Mathematically the first is idle on vectors that are
    centred already; in rounded arithmetic K is large along 1, and what little of 1 has crept into
    the vectors would come back amplified and stall convergence.

    The first product also carries the column of ones: K1/n is what the offset of the projection and
    the trace of H K H are made of, and one more column of a product that is made anyway costs little.
    """

    def __init__(self, gram: SymmetricOperator) -> None:
        self.gram = gram
        self._row_means: Array | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.gram.n

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the entries of K."""
        return self.gram.dtype

    @property
    def row_means(self) -> Array:
        """K1/n, the mean of each row of K."""
        if self._row_means is None:
            ones = np.full((self.n, 1), 1.0 / self.n)
            self._row_means = self.gram.matmat(ones)[:, 0]
        return self._row_means

    def matmat(self, v: Array) -> Array:
        """H K H v."""
        v = minus_mean(v)
        if self._row_means is None:
            ones = np.full((self.n, 1), 1.0 / self.n, dtype=v.dtype)
            product = self.gram.matmat(np.concatenate([v, ones], axis=1))
            self._row_means = product[:, -1].copy()
            _require_finite(self._row_means)
            product = product[:, :-1]
        else:
            product = self.gram.matmat(v)
        return minus_mean(product)

    def diag(self) -> Array:
        """Diagonal of H K H: k_ii - 2 mean_i + mean."""
        means = self.row_means
        return self.gram.diag() - 2.0 * means + means.mean()

    def trace(self) -> float:
        """Tr(H K H) = tr K - 1ᵀK1/n: the total variance in feature space, times n."""
        return float(self.gram.diag().sum(dtype=np.float64) - self.row_means.sum(dtype=np.float64))

    def columns(self, indices: Indices) -> Array:
        """(H K H)[:, indices]."""
        columns = self.gram.columns(indices)  # a new array: ours to change
        columns -= self.row_means.astype(columns.dtype)[:, None]
        columns -= columns.mean(axis=0)
        return columns

    def dense(self) -> Array:
        """H K H as a new array."""
        matrix = self.gram.dense()
        means = matrix.mean(axis=0)
        _require_finite(means)
        matrix -= means[None, :]
        matrix -= means[:, None]
        matrix += means.mean()
        return matrix

    def __repr__(self) -> str:
        return f"Centred({self.gram!r})"
