"""Explicit feature maps: φ with φ(x)·φ(x') = k(x, x'), to be called and printed, and new maps from old.

Inside, a map works on the transpose: features are the rows of a (d, b) block of b points, so that
each column of the result is a product of contiguous vectors. Results are in Fortran order, therefore.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer._core.params import Number, require
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.data.rows import row_slices
from mercer.engine.pairwise import dense
from mercer.kernels.monomials import Term, feature, inverse_length, product
from mercer.kernels.rows import as_rows

# A row of so many float64 columns takes 40 MB: what is wanted is the kernel, not the map.
MAX_COLUMNS = 5_000_000
NOT_NEGATIVE = Number(0, ends="[)")  # φ holds the square root of a factor
# Log₂ of the size of a point that has none, below all others.
NONE = -(2**24)
# Bounds what is held besides the result. Blocks small enough for a cache are slower, not faster:
# each touches a page of every column.
BLOCK_ROWS = 16_384
SQUARED = 2**17  # columns that are squared at a time, 1 MB


class FeatureMap(ABC):
    """φ: R^d → R^D, a finite list of functions of the features.

    Called with (n, d) rows, dense or sparse, it gives a new (n, D) array of float32 where they are
    float32, and of float64 elsewhere.
    """

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The number of columns it takes, d."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of columns it gives, D."""

    @abstractmethod
    def _fill(self, x: Array, out: Array) -> None:
        """Write φ of the points x, a (d, b) block, to out, a (D, b) block."""

    @abstractmethod
    def _slope(self, x: Array, weights: Array) -> Array:  # (d, b), (D, b) -> (d, b)
        """Σ_j w_j ∂φ_j/∂x of each point."""

    @abstractmethod
    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        """The D columns in writing, when the d features are written as `inputs`."""

    @abstractmethod
    def roundings(self, given: int = 0) -> int:
        """How often a column is rounded at most, where each feature comes with so many roundings.

        Each rounding of a constant, by which all rows of a column are off alike, leads to one of these, and
        is not counted.
        """

    @abstractmethod
    def _balanced(self, x: Array, powers: Indices) -> Balanced:  # (d, b), (b,)
        """φ of the points 2^powers x, whatever their size."""

    @public
    def __call__(self, X: Any) -> Array:
        """[φ(x_i)], an (n, D) array; X is not changed."""
        x = as_rows(X)
        if x.shape[1] != self.n_features:
            msg = (
                f"X must have {self.n_features} columns, as this feature map was made for; got {x.shape[1]}. "
                f"Make one with `kernel.feature_map({x.shape[1]})`, or pass those columns."
            )
            raise InputError(msg)
        self._check_size()
        out = np.empty((self.dimension, x.shape[0]), dtype=x.dtype)
        for rows in row_slices(x.shape[0], BLOCK_ROWS):
            points = np.ascontiguousarray(dense(x[rows]).T)  # (d, b)
            self._fill(points, out[:, rows])
        return out.T

    def slope(self, x: Array, weights: Array) -> Array:  # (n, d), (n, D) -> (n, d)
        """Σ_j w_ij ∂φ_j(x_i)/∂x_i of checked rows."""
        out = np.empty(x.shape, dtype=np.result_type(x.dtype, weights.dtype))
        for rows in row_slices(x.shape[0], BLOCK_ROWS):
            points = np.ascontiguousarray(dense(x[rows]).T)
            out[rows] = self._slope(points, np.ascontiguousarray(weights[rows].T)).T
        return out

    @property
    def names(self) -> list[str]:
        """The columns as text, such as ``√6 f1 f2``."""
        return [term.text for term in self._columns]

    @property
    def latex(self) -> list[str]:
        r"""The columns as LaTeX, such as ``\sqrt{6}\,f_1 f_2``."""
        return [term.latex for term in self._columns]

    def scaled(self, factor: float) -> FeatureMap:
        """√factor · φ, the map of factor · k."""
        return self if factor == 1 else ScaledMap(self, factor)

    def after(self, inner: FeatureMap) -> FeatureMap:
        """φ(inner(x)): `inner` is applied first."""
        from mercer.kernels.feature_map import ComposedMap, IdentityMap

        same = isinstance(inner, IdentityMap) and inner.d == self.n_features
        return self if same else ComposedMap(self, inner)

    def __str__(self) -> str:
        inputs = [f"f{j + 1}" for j in range(min(self.n_features, 4))]
        if self.n_features > 4:
            inputs[2:] = ["…", f"f{self.n_features}"]
        self._check_size()
        first = itertools.islice(self._terms(self._features), 15)
        columns = ", ".join(term.text for term in first)
        rest = f", …: {self.dimension} columns" if self.dimension > 15 else ""
        return f"φ({', '.join(inputs)}) = ({columns}{rest})"

    @property
    def _features(self) -> list[Term]:
        return [feature(j) for j in range(self.n_features)]

    @cached_property
    def _columns(self) -> tuple[Term, ...]:
        return self._written(self._features)

    def _written(self, inputs: Sequence[Term]) -> tuple[Term, ...]:
        self._check_size()
        return tuple(self._terms(inputs))

    def _values(self, x: Array) -> Array:  # (d, b) -> (D, b)
        self._check_size()
        out = np.empty((self.dimension, x.shape[1]), dtype=x.dtype)
        self._fill(x, out)
        return out

    def _check_size(self) -> None:
        if self.dimension > MAX_COLUMNS:
            count = f"{self.dimension:,}" if self.dimension < 10**15 else "more than 10¹⁵"
            msg = (
                f"This feature map of {self.n_features} features has {count} columns; at most "
                f"{MAX_COLUMNS:,} are ever written out. Use the kernel itself, which needs none of "
                "them, or a lower degree."
            )
            raise InputError(msg)


# ── points of any size ──────────────────────────────────────────────────────
class Balanced(NamedTuple):
    """Points 2^powers values, the largest entry of each of which is about one."""

    values: Array  # (D, b)
    powers: Indices  # (b,), `NONE` for points of zeros


@cache
def columns_held(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The sizes of a point's largest column beside which no other one is lost to the range of a precision."""
    limits = np.finfo(dtype)
    return float(limits.tiny / limits.eps**2), float(limits.max * limits.eps**2)


def balanced(values: Array, powers: Indices) -> Balanced:
    """The points 2^powers values, scaled in place: no digit is lost."""
    largest = np.max(np.abs(values), axis=0, initial=0.0)
    own = np.frexp(largest)[1]
    np.ldexp(values, -own, out=values)
    return Balanced(values, np.where(largest > 0, own + powers, NONE))


def _times_two(values: Array, powers: Indices) -> Array:
    """2^powers values, as a new array."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values, np.clip(powers, -(2**14), 2**14))


# ── new maps from old, one for each way to make a kernel from kernels ────────
@dataclass(frozen=True)
class _Pair(FeatureMap):
    """Two maps of the same features."""

    left: FeatureMap
    right: FeatureMap

    def __post_init__(self) -> None:
        d, other = self.left.n_features, self.right.n_features
        if d != other:
            msg = (
                f"Both maps must take the same columns; got {self.left!r} of {d} and {self.right!r} of "
                f"{other}. Make both for one number of features."
            )
            raise InputError(msg)

    @property
    def n_features(self) -> int:
        return self.left.n_features


@dataclass(frozen=True)
class _Around(FeatureMap):
    """One map, each of its columns changed."""

    inner: FeatureMap

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def dimension(self) -> int:
        return self.inner.dimension


@dataclass(frozen=True)
class SumMap(_Pair):
    """φ(x) = (left(x), right(x)), columns side by side: the map of k₁ + k₂.

    >>> from mercer.kernels.feature_map import IdentityMap, PolynomialMap
    >>> print(SumMap(IdentityMap(2), PolynomialMap(2, 2, coef0=0.0)))
    φ(f1, f2) = (f1, f2, f1², √2 f1 f2, f2²)
    """

    @property
    def dimension(self) -> int:
        return self.left.dimension + self.right.dimension

    def _fill(self, x: Array, out: Array) -> None:
        self.left._fill(x, out[: self.left.dimension])
        self.right._fill(x, out[self.left.dimension :])

    def roundings(self, given: int = 0) -> int:
        return max(self.left.roundings(given), self.right.roundings(given))

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        left, right = self.left._balanced(x, powers), self.right._balanced(x, powers)
        both = np.maximum(left.powers, right.powers)
        parts = [_times_two(side.values, side.powers - both) for side in (left, right)]
        return balanced(np.concatenate(parts), both)

    def _slope(self, x: Array, weights: Array) -> Array:
        left = self.left._slope(x, weights[: self.left.dimension])
        return left + self.right._slope(x, weights[self.left.dimension :])

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        yield from self.left._terms(inputs)
        yield from self.right._terms(inputs)


@dataclass(frozen=True)
class ProductMap(_Pair):
    """φ(x) = (l r for l in left(x) for r in right(x)): the map of k₁ · k₂.

    >>> from mercer.kernels.feature_map import IdentityMap, PolynomialMap
    >>> print(ProductMap(IdentityMap(2), PolynomialMap(2, 1)))
    φ(f1, f2) = (f1, f1², f1 f2, f2, f1 f2, f2²)
    """

    @property
    def dimension(self) -> int:
        return self.left.dimension * self.right.dimension

    def roundings(self, given: int = 0) -> int:
        return self.left.roundings(given) + self.right.roundings(given) + 1

    def _fill(self, x: Array, out: Array) -> None:
        left, right = self.left._values(x), self.right._values(x)
        for i, column in enumerate(left):
            np.multiply(right, column, out=out[i * len(right) : (i + 1) * len(right)])

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        left, right = self.left._balanced(x, powers), self.right._balanced(x, powers)
        values = (left.values[:, None] * right.values).reshape(self.dimension, -1)
        return balanced(values, left.powers + right.powers)

    def _slope(self, x: Array, weights: Array) -> Array:
        left, right = self.left._values(x), self.right._values(x)
        pairs = weights.reshape(len(left), len(right), -1)
        slope = self.left._slope(x, np.einsum("lrb,rb->lb", pairs, right))
        return slope + self.right._slope(x, np.einsum("lrb,lb->rb", pairs, left))

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        right = self.right._written(inputs)
        return (product([l, r]) for l in self.left._terms(inputs) for r in right)


@dataclass(frozen=True)
class ScaledMap(_Around):
    """φ(x) = √factor · inner(x): the map of factor · k.

    >>> from mercer.kernels.feature_map import PolynomialMap
    >>> print(PolynomialMap(1, 2).scaled(3.0))
    φ(f1) = (√3, √6 f1, √3 f1²)
    """

    factor: float

    def __post_init__(self) -> None:
        require("factor", self.factor, NOT_NEGATIVE, of="ScaledMap", error=KernelError)

    def roundings(self, given: int = 0) -> int:
        return self.inner.roundings(given) + 1

    def _fill(self, x: Array, out: Array) -> None:
        self.inner._fill(x, out)
        out *= out.dtype.type(math.sqrt(self.factor))

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        values, powers = self.inner._balanced(x, powers)
        root, power = math.frexp(math.sqrt(self.factor))
        values *= values.dtype.type(root)
        return balanced(values, powers + power)

    def _slope(self, x: Array, weights: Array) -> Array:
        return self.inner._slope(x, weights * weights.dtype.type(math.sqrt(self.factor)))

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        # A whole factor keeps the root of an integer one.
        square = int(self.factor) if float(self.factor).is_integer() else float(self.factor)
        return (product([term], square) for term in self.inner._terms(inputs))


@dataclass(frozen=True)
class UnitMap(_Around):
    """φ(x) = inner(x)/‖inner(x)‖, and 0 where inner(x) = 0: the map of a normalised kernel.

    >>> from mercer.kernels.feature_map import IdentityMap
    >>> print(UnitMap(IdentityMap(2)))
    φ(f1, f2) = (f1 ‖(f1, f2)‖⁻¹, f2 ‖(f1, f2)‖⁻¹)
    """

    def roundings(self, given: int = 0) -> int:
        # A length is off by as much as its entries, by constants too, and by half of what the sum of its
        # squares is: a square and ⌈log₂ D⌉ sums of it are rounded. So are the length and the quotient.
        sums = (self.dimension - 1).bit_length()
        return 4 * self.inner.roundings(given) + (sums // 2 + 1) + 2

    def _fill(self, x: Array, out: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.inner._fill(x, out)
            largest = np.max(np.abs(out), axis=0)
        powers = np.frexp(largest)[1]
        low, high = columns_held(out.dtype)
        held = (largest > low) & (largest < high)
        if not held.all():  # points whose features are out of range, or of zeros
            lost = np.flatnonzero(~held)
            none = np.zeros(len(lost), dtype=np.intp)
            out[:, lost] = self.inner._balanced(np.ascontiguousarray(x[:, lost]), none).values
            powers[lost] = 0
        np.ldexp(out, -powers, out=out)
        out /= _lengths(out)

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        values, powers = self.inner._balanced(x, powers)
        return balanced(values / _lengths(values), np.where(powers == NONE, NONE, 0))

    def _slope(self, x: Array, weights: Array) -> Array:
        # ∂(v/‖v‖) = (I - uuᵀ)∂v/‖v‖ with u = v/‖v‖.
        unit = self.inner._values(x)
        powers = np.frexp(np.max(np.abs(unit), axis=0))[1]
        own = _lengths(np.ldexp(unit, -powers, out=unit))
        unit /= own
        across = weights - unit * np.einsum("ib,ib->b", unit, weights)
        return np.ldexp(self.inner._slope(x, across / own), -powers)

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        columns = self.inner._written(inputs)
        shrink = inverse_length(columns)
        return (product([term, shrink]) for term in columns)


def _lengths(values: Array) -> Array:  # (D, b) -> (b,)
    """The lengths of columns whose squares are in range, summed in float64, and 1 for one of zeros."""
    own = np.empty(values.shape[1])
    for points in row_slices(len(own), max(1, SQUARED // len(values))):
        squares = np.square(values[:, points], dtype=np.float64)
        while (half := len(squares) // 2) > 0:  # each is in ⌈log₂ D⌉ sums, not in D
            squares[:half] += squares[-half:]
            squares = squares[: len(squares) - half]
        own[points] = np.sqrt(squares[0])
    own[own == 0] = 1.0
    return own.astype(values.dtype, copy=False)
