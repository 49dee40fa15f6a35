"""Centred features, however they are stored: dense rows are shifted, sparse ones are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import iadd

import numpy as np
from scipy import sparse

from mercer._core.types import Array, Rows
from mercer.data.rows import row_slices
from mercer.engine.moments import less_row, weighted_mean
from mercer.engine.pairwise import dot
from mercer.engine.passes import SLICE_BYTES
from mercer.model.rounding import UNITS, features_moved
from mercer.planning.bytes import FLOAT, SMALL

EPS = float(np.finfo(np.float64).eps)
# A slice of so many bytes stays in a core's cache while it is centred and multiplied. Of more columns than
# these their product is too large for that.
CACHED, FEW_COLUMNS = 2**18, 128
# The square of a shift, beside the variance about the mean: as long as it is so small, nothing cancels.
NEAR, TRIES = 1e-3, 3
SOME_ROWS = 64


@dataclass(frozen=True, repr=False)
class CentredRows:
    """Φ̃ = S(Φ - 1μᵀ), S = diag(√w), μ = Φᵀw/Σw; S = I and μ the mean where all rows count alike.

    Φ̃ᵀΦ̃ = Σ w (φ - μ)(φ - μ)ᵀ and Φ̃Φ̃ᵀ have the non-zero eigenvalues that repeated rows would give.
    Subtracting μ from a sparse matrix would fill it, so there it stays implicit. Rows in float32, and of few
    columns, are centred and multiplied in float64 a slice at a time: no copy of them all is made.
    """

    rows: Rows  # (n, m): centred and scaled; or as given, to be centred; or sparse and scaled
    mean: Array  # (m,) float64
    largest: float  # max |Φ|, before centring and scaling
    roots: Array | None = None  # (n,) √w in float64, where the rows carry weights
    # μ, where rows are not centred yet; in two terms, its digits and what is left, where that can be seen:
    # the mean is rounded, and near rows may differ by less.
    steps: tuple[Array, ...] = ()
    scatter: Array | None = None  # (m, m) Φ̃ᵀΦ̃, where it was computed with the mean
    plain: bool = False  # the mean is so small that products may be made before it is taken off

    @classmethod
    def of(cls, features: Rows, weights: Array | None = None) -> CentredRows:
        """Centre and scale copies of the rows of dense or sparse features."""
        roots = None if weights is None else np.sqrt(weights)
        if sparse.issparse(features):
            # Centring happens after the products here, so they need all the digits there are.
            rows = features.astype(np.float64)
            largest = float(np.max(np.abs(rows.data), initial=0.0))
            if roots is not None:
                rows.data *= np.repeat(roots, np.diff(rows.indptr))
            return cls(rows, weighted_mean(features, weights), largest, roots)
        largest = float(np.float64(max(features.max(), -features.min())))
        if features.shape[1] <= FEW_COLUMNS:
            return _few_columns(features, largest, roots)
        if features.dtype != np.float64:
            mean = weighted_mean(features, weights)
            return cls(features, mean, largest, roots, (mean,))
        first = features[0].copy()
        with np.errstate(over="ignore", invalid="ignore"):  # reported when they are squared
            rows = features - first
            w = np.ones(len(rows)) if weights is None else weights
            shift = w @ rows / float(w.sum())
            rows -= shift
        if roots is not None:
            rows *= roots[:, None]
        return cls(rows, first + shift, largest, roots)

    @property
    def shape(self) -> tuple[int, int]:  # n, m
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

    # ── products ────────────────────────────────────────────────────────────
    def _slices(self, axis: int = 0) -> Iterator[tuple[slice, Array]]:
        """Φ̃ in float64, all of it, or a slice of rows (or of columns, axis 1): gone with the next."""
        if not self.steps:
            yield slice(None), self.rows
            return
        length, across = self.shape[axis], self.shape[1 - axis]
        most = CACHED
        if across > FEW_COLUMNS:  # a third of the rows or fewer, unless they are few
            most = max(SMALL // 2, min(SLICE_BYTES, FLOAT * length * across // 6))
        height = min(length, max(1, most // (FLOAT * across)))
        room = np.empty((height, across) if axis == 0 else (across, height))
        for i in row_slices(length, height):
            rows, columns = (i, slice(None)) if axis == 0 else (slice(None), i)
            block = self.rows[rows, columns]
            to = room[: block.shape[0], : block.shape[1]]
            for step in self.steps:
                block = less_row(block, step[columns], to)
            if self.roots is not None:
                block *= self.roots[rows, None]
            yield i, block

    def covariance(self) -> Array:  # (m, m)
        """Φ̃ᵀΦ̃, Σw times the covariance."""
        if self.scatter is not None:
            return self.scatter
        if self._implicit:
            return dot(self.rows.T, self.rows.T) - self.weight * np.outer(self.mean, self.mean)
        return reduce(iadd, (dot(block.T, block.T) for _, block in self._slices()))

    def gram(self) -> Array:  # (n, n)
        """Φ̃Φ̃ᵀ."""
        if not self._implicit:
            return reduce(iadd, (dot(block, block) for _, block in self._slices(axis=1)))
        product = dot(self.rows, self.rows)
        s, cross = self._roots, np.asarray(self.rows @ self.mean)
        product -= np.outer(cross, s)
        product -= np.outer(s, cross - (self.mean @ self.mean) * s)
        return product

    def times(self, v: Array) -> Array:  # (m, k) -> (n, k)
        """Φ̃ v."""
        if self._implicit:
            return np.asarray(self.rows @ v) - np.outer(self._roots, self.mean @ v)
        if self.plain:
            product = np.asarray(v.T @ self.rows.T)  # (k, n)
            product -= (self.mean @ v)[:, None]
            return product.T
        out = np.empty((v.shape[1], self.shape[0]))  # each column in one piece
        for i, block in self._slices():
            np.matmul(v.T, block.T, out=out[:, i])
        return out.T

    def transposed_times(self, u: Array) -> Array:  # (n, k) -> (m, k)
        """Φ̃ᵀ u."""
        if self._implicit:
            return np.asarray(self.rows.T @ u) - np.outer(self.mean, self._roots @ u)
        return reduce(iadd, (block.T @ u[i] for i, block in self._slices()))

    # ── rounding ────────────────────────────────────────────────────────────
    def cut(self, values: Array) -> float:
        """Eigenvalues below this are rounding: of the solver, and of the shift by the mean."""
        weight, m = self.weight, self.shape[1]
        top = float(np.max(values, initial=0.0))
        if self._implicit:  # subtracted after the product: rounding is of its size
            return EPS * (30.0 * top + 4.0 * weight * self.largest**2)
        return 30.0 * EPS * top + 4.0 * weight * m * (EPS * self.largest) ** 2

    @property
    def nothing(self) -> float:
        """Rows that are all alike may show a variance of this, and no more."""
        # Of sparse rows sums of n squares are subtracted from each other, which round to n/2 units of their
        # own size in the worst case, and all in one direction when all terms are alike.
        n, m = self.shape
        return 0.5 * (n + m) * EPS * self._trace(0.0) if self._implicit else 0.0

    def moved(self, values: Array, total: float, unit: float) -> float:
        """How far rounding moves the eigenvalues, with features off by `unit` of themselves at most."""
        top = float(np.max(values, initial=0.0))
        # Centred rows are rounded once more, and so are sums of their products. Columns that are off alike
        # in all rows are so when they are centred.
        lost = EPS * self._trace(total) if self._implicit else 0.0
        centred = features_moved(total, top, UNITS * EPS + unit)
        return features_moved(self._trace(total), top, unit) + centred + 4.0 * lost

    def _trace(self, total: float) -> float:
        """Σw‖φ‖² = tr K, from that of the centred features."""
        return total + self.weight * float(self.mean @ self.mean)

    @property
    def _implicit(self) -> bool:
        return bool(sparse.issparse(self.rows))

    @property
    def _roots(self) -> Array:  # (n,)
        return np.ones(self.shape[0]) if self.roots is None else self.roots


def _few_columns(features: Array, largest: float, roots: Array | None) -> CentredRows:
    """Dense features of few columns, with their scatter: sums of squares about a point near the mean."""
    # One that is near enough: Σw(φ - c)(φ - c)ᵀ and Σw δδᵀ, δ = μ - c, must not cancel. Of standardised rows
    # the origin is. The rounded mean of BLAS nearly always is, and what is left of it, if need be, too.
    n, m = features.shape
    w = np.ones(n) if roots is None else roots
    weight = float(w @ w)
    with np.errstate(over="ignore", invalid="ignore"):  # reported when they are squared
        # In the precision of the features, of which no copy is made.
        weights = (w if roots is None else w * w).astype(features.dtype, copy=False)
        near = (weights @ features).astype(np.float64) / weight
        near = near if np.isfinite(near).all() else features[0].astype(np.float64)
        plain = roots is None and features.dtype == np.float64 and _at_origin(features, near)
        near, steps = (np.zeros(m), ()) if plain else (near, (near,))
        for tries in range(TRIES, 0, -1):
            rows = CentredRows(features, near, largest, roots, steps)
            total, scatter = np.zeros(m), np.zeros((m, m))
            for i, block in rows._slices():
                total += w[i] @ block
                scatter += dot(block.T, block.T)
            shift = total / weight
            if tries == 1 or np.all(weight * shift * shift <= NEAR * np.diagonal(scatter)):
                break
            near = near + shift
            steps = (near,)
        scatter -= weight * np.outer(shift, shift)
        mean = near + shift
        rest = shift - (mean - near)
        rest[np.abs(rest) <= n * EPS * np.abs(shift)] = 0.0  # the rounding of their sum
        counts = np.any(weight * rest * rest > EPS * EPS * np.diagonal(scatter))
    terms = (mean, rest) if counts else (mean,)
    return CentredRows(features, mean, largest, roots, terms, scatter, plain=not steps)


def _at_origin(features: Array, mean: Array) -> bool:
    """Whether the mean looks small beside the spread of some of the rows."""
    some = features[:: len(features) // SOME_ROWS + 1]
    return bool(np.all(2.0 * mean * mean <= NEAR * np.mean((some - mean) ** 2, axis=0)))
