"""Centring in feature space, on the vectors: K itself is never touched."""

from __future__ import annotations

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.types import Array, Indices
from mercer.engine.thin import without
from mercer.operators.base import SymmetricOperator

ROW = "row {} of K is not finite"
# Entries of a valid kernel are off by so many units of the largest at most. Where they are off by more, the
# rounding that a fit reports is larger than what this is asked for.
ENTRY_UNITS = 4096.0


def require_finite(values: Array, what: str = "k(x, x) is not finite for some row") -> None:
    """Raise when an entry of each row of K, the largest for a kernel, or its mean has overflowed."""
    if not np.isfinite(values).all():
        msg = (
            f"The kernel overflows on these data: {what.format(int(np.argmin(np.isfinite(values))))}. Scale "
            "the columns (StandardScaler), lower gamma or the degree, or fit in float64."
        )
        raise KernelError(msg)


def centre(matrix: Array, weights: Array | None = None) -> Array:  # (n, n), (n,)
    """P S K S P of a matrix K, in its place."""
    # Twice: a mean of n entries is rounded, by up to n/2 units, and what it leaves in all of them alike
    # would be an eigenvalue n times as large. The means of what is left are right to its own size.
    shares = None if weights is None else (weights / weights.sum()).astype(matrix.dtype, copy=False)
    for twice in (False, True):
        if shares is None:
            means = np.add.reduce(matrix, axis=0) / len(matrix)
            mean = np.add.reduce(means) / len(matrix)
        else:
            means = shares @ matrix
            mean = shares @ means
        if not twice:
            require_finite(means, ROW)
        matrix -= means - mean
        matrix -= means[:, None]
    if weights is not None:
        roots = np.sqrt(weights).astype(matrix.dtype, copy=False)
        matrix *= roots[:, None]
        matrix *= roots[None, :]
    return matrix


class Centred(SymmetricOperator):
    """P S K S P: the centred kernel matrix, H K H where all rows count alike.

    With weights w, S = diag(√w) and P = I - √w√wᵀ/Σw. Centring at the weighted mean, H = I - 1wᵀ/Σw,
    makes the covariance problem that of S H K Hᵀ S, and S H = P S: a projector on each side of a
    symmetric matrix again, with the eigenvalues that repeated rows would have. Without weights S = I
    and P = H = I - 11ᵀ/n.

    P acts before *and* after each product. Mathematically the first is idle on centred vectors; in rounded
    arithmetic K is large along √w, and would amplify what little of it has crept into the vectors.

    The first product also carries the column w/Σw: Kw/Σw is what the offset of the projection and the trace
    are made of. A constant that was taken off the entries of K is gone from P S K S P too: P S 11ᵀ S P = 0.
    Products with what is left of a wide kernel, whose entries hardly differ, round to its size.
    """

    def __init__(
        self, gram: SymmetricOperator, weights: Array | None = None, *, positive: bool = False
    ) -> None:
        self.gram, self.n, self.eps, self.fills_rough = gram, gram.n, gram.eps, gram.fills_rough
        self.weights = weights  # (n,) float64
        self.roots = None if weights is None else np.sqrt(weights)
        self.weight = float(gram.n if weights is None else weights.sum())  # Σw
        self._row_means: Array | None = None
        self.positive = positive  # K is positive semi-definite, but for rounding
        # Centred alike; it has row means of its own.
        self.rough = None if gram.rough is None else Centred(gram.rough, weights)
        self.exact: Centred | None = None
        if gram.exact is not None:
            self.exact = Centred(gram.exact, weights, positive=positive)

    @property
    def size(self) -> float:
        """Before centring the matrix is as large as Σw times its mean: rounding is relative to that."""
        return self.weight * float(np.abs(self.offset_means).max())

    @property
    def noise(self) -> float | None:
        """‖S E S‖ for errors E of the entries, which are at most √w_i √w_j times the same number."""
        if not self.positive:
            return None
        return ENTRY_UNITS * self.eps * float(np.abs(self.gram.diag()).max()) * self.weight

    @property
    def row_means(self) -> Array:
        """Kw/Σw, the mean of each row of K."""
        return self.offset_means + self.gram.minus

    @property
    def offset_means(self) -> Array:
        """The mean of each row of K less its constant."""
        if self._row_means is None:
            self._row_means = self.gram.matmat(self.shares[:, None])[:, 0]
        return self._row_means

    def memory(self) -> Array:
        return np.empty(0) if self._row_means is None else self._row_means

    def recall(self, memory: Array) -> None:
        # The next product has as many columns as it would have had.
        self._row_means = memory if len(memory) else None

    @property
    def shares(self) -> Array:
        """w/Σw."""
        if self.weights is None:
            return np.full(self.n, 1.0 / self.n)
        return self.weights / self.weight

    def scaled(self, v: Array) -> Array:
        """S v."""
        return v if self.roots is None else v * self.roots.astype(v.dtype, copy=False)[:, None]

    def project(self, v: Array) -> Array:
        """P v as a new array."""
        if self.roots is None:
            return v - np.add.reduce(v, axis=0) / len(v)  # the mean, in half of its time
        unit = (self.roots / np.sqrt(self.weight)).astype(v.dtype, copy=False)
        return without(v, unit)

    def matmat(self, v: Array) -> Array:
        """P S K S P v."""
        v = self.scaled(self.project(v))
        if self._row_means is None:
            shares = self.shares.astype(v.dtype, copy=False)[:, None]
            v = np.concatenate([v, shares], axis=1)  # the name, too: one copy less is held
            product = self.gram.matmat(v)
            self._row_means = np.array(product[:, -1])
            require_finite(self._row_means, ROW)
            return self.project(self.scaled(product[:, :-1]))
        product = self.gram.matmat(v)
        if self.roots is not None:
            return self.project(self.scaled(product))
        product -= np.add.reduce(product, axis=0) / len(product)  # a new array
        return product

    def placed(self, v: Array) -> Array:
        return self.gram.placed(v)

    def rows(self, indices: Indices, v: Array) -> Array:
        """(P S K S P v)[indices]."""
        v = self.scaled(self.project(v))
        some = self.gram.rows(indices, v) - self.offset_means @ v
        return some if self.roots is None else some * self.roots[indices][:, None]

    def diag(self) -> Array:
        """w_i (k_ii - 2 mean_i + mean)."""
        means = self.row_means
        diag = self.gram.diag() - 2.0 * means + self.shares @ means
        return diag if self.weights is None else diag * self.weights

    def trace(self) -> float:
        """Σ w_i k_ii - wᵀKw/Σw: the total variance in feature space, times Σw."""
        diag = self.gram.diag().astype(np.float64) - self.gram.minus
        means = self.offset_means.astype(np.float64)
        if self.weights is None:
            return float(diag.sum() - means.sum())
        return float(self.weights @ diag - self.weights @ means)

    def cross(self, indices: Indices, v: Array) -> Array:
        """P S K[:, indices] S v: all of a product with a few columns but the centring of their rows.

        For vectors v that are centred themselves nothing is missing, and no mean of K is needed.
        """
        some = v if self.roots is None else v * self.roots[indices][:, None]
        return self.project(self.scaled(self.gram.cross(indices, some)))

    def block(self, indices: Indices) -> Array:
        """S K S on a few rows, centred among themselves."""
        few = self.gram.block(indices).astype(np.float64)
        return centre(few, None if self.weights is None else self.weights[indices])

    def among(self, indices: Indices) -> Centred:
        """P S K S P of a few rows."""
        weights = None if self.weights is None else self.weights[indices]
        return Centred(self.gram.among(indices), weights, positive=self.positive)

    def dense(self) -> Array:
        """P S K S P as a new array."""
        return centre(self.gram.dense(), self.weights)

    def unprojected(self) -> tuple[Array, Array]:
        """S K S and √w/√Σw."""
        matrix, fixed = self.gram.unprojected()
        assert not len(fixed)  # nothing is centred twice
        if self.roots is None:
            return matrix, np.full((1, self.n), self.n**-0.5)
        matrix = matrix * self.roots[:, None]
        matrix *= self.roots
        return matrix, self.roots[None] / np.sqrt(self.weight)

    def __repr__(self) -> str:
        return f"Centred({self.gram!r})"
