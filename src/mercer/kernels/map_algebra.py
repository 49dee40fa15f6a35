"""New feature maps from old, one for each way to make a kernel from kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer._core.params import require
from mercer.kernels.map_base import NOT_NEGATIVE, FeatureMap
from mercer.kernels.monomials import inverse_length, product

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer._core.types import Array
    from mercer.kernels.monomials import Term


@dataclass(frozen=True)
class _Pair(FeatureMap):
    """Two maps of the same features."""

    left: FeatureMap
    right: FeatureMap

    def __post_init__(self) -> None:
        d, other = self.left.n_features, self.right.n_features
        if d != other:
            msg = (
                f"Two maps of the same features were needed, but {self.left!r} takes {d} columns "
                f"and {self.right!r} takes {other}. Make both for one number of features."
            )
            raise InputError(msg)

    @property
    def n_features(self) -> int:
        """That of both."""
        return self.left.n_features


@dataclass(frozen=True)
class _Around(FeatureMap):
    """One map, each of its columns changed."""

    inner: FeatureMap

    @property
    def n_features(self) -> int:
        """That of the inner map."""
        return self.inner.n_features

    @property
    def dimension(self) -> int:
        """That of the inner map."""
        return self.inner.dimension


@dataclass(frozen=True)
class SumMap(_Pair):
    """φ(x) = (left(x), right(x)), columns side by side: the map of k₁ + k₂.

    Examples
    --------
    >>> from mercer.kernels.feature_map import IdentityMap, PolynomialMap
    >>> print(SumMap(IdentityMap(2), PolynomialMap(2, 2, coef0=0.0)))
    φ(f1, f2) = (f1, f2, f1², √2 f1 f2, f2²)
    """

    @property
    def dimension(self) -> int:
        """Columns of both."""
        return self.left.dimension + self.right.dimension

    def _fill(self, x: Array, out: Array) -> None:
        self.left._fill(x, out[: self.left.dimension])
        self.right._fill(x, out[self.left.dimension :])

    def _slope(self, x: Array, weights: Array) -> Array:
        left = self.left._slope(x, weights[: self.left.dimension])
        return left + self.right._slope(x, weights[self.left.dimension :])

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        yield from self.left._terms(inputs)
        yield from self.right._terms(inputs)


@dataclass(frozen=True)
class ProductMap(_Pair):
    """φ(x) = (l r for l in left(x) for r in right(x)): the map of k₁ · k₂.

    Examples
    --------
    >>> from mercer.kernels.feature_map import IdentityMap, PolynomialMap
    >>> print(ProductMap(IdentityMap(2), PolynomialMap(2, 1)))
    φ(f1, f2) = (f1, f1², f1 f2, f2, f1 f2, f2²)
    """

    @property
    def dimension(self) -> int:
        """Columns of one times columns of the other."""
        return self.left.dimension * self.right.dimension

    def _fill(self, x: Array, out: Array) -> None:
        left, right = self.left._values(x), self.right._values(x)
        for i, column in enumerate(left):
            np.multiply(right, column, out=out[i * len(right) : (i + 1) * len(right)])

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

    Examples
    --------
    >>> from mercer.kernels.feature_map import PolynomialMap
    >>> print(PolynomialMap(1, 2).scaled(3.0))
    φ(f1) = (√3, √6 f1, √3 f1²)
    """

    factor: float

    def __post_init__(self) -> None:
        require("factor", self.factor, NOT_NEGATIVE, of="ScaledMap", error=KernelError)

    def _fill(self, x: Array, out: Array) -> None:
        self.inner._fill(x, out)
        out *= out.dtype.type(math.sqrt(self.factor))

    def _slope(self, x: Array, weights: Array) -> Array:
        return self.inner._slope(x, weights * weights.dtype.type(math.sqrt(self.factor)))

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        # A whole factor keeps the root of an integer one.
        square = int(self.factor) if float(self.factor).is_integer() else float(self.factor)
        return (product([term], square) for term in self.inner._terms(inputs))


@dataclass(frozen=True)
class UnitMap(_Around):
    """φ(x) = inner(x)/‖inner(x)‖, and 0 where inner(x) = 0: the map of a normalised kernel.

    Examples
    --------
    >>> from mercer.kernels.feature_map import IdentityMap
    >>> print(UnitMap(IdentityMap(2)))
    φ(f1, f2) = (f1 ‖(f1, f2)‖⁻¹, f2 ‖(f1, f2)‖⁻¹)
    """

    def _fill(self, x: Array, out: Array) -> None:
        self.inner._fill(x, out)
        _, own = _unit(out)
        out /= own

    def _slope(self, x: Array, weights: Array) -> Array:
        # ∂(v/‖v‖) = (I - uuᵀ)∂v/‖v‖ with u = v/‖v‖.
        unit = self.inner._values(x)
        powers, own = _unit(unit)
        unit /= own
        across = weights - unit * np.einsum("ib,ib->b", unit, weights)
        return np.ldexp(self.inner._slope(x, across / own), -powers)

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        columns = self.inner._written(inputs)
        shrink = inverse_length(columns)
        return (product([term, shrink]) for term in columns)


def _unit(values: Array) -> tuple[Array, Array]:  # (D, b) -> (b,), (b,)
    """Divide columns by powers of two, which are returned, so that their lengths, returned too, can be
    squared; 1 for a column of zeros.
    """
    powers = np.frexp(np.max(np.abs(values), axis=0))[1]
    np.ldexp(values, -powers, out=values)
    own = np.sqrt(np.einsum("ib,ib->b", values, values))
    own[own == 0] = 1.0
    return powers, own


@dataclass(frozen=True)
class ComposedMap(FeatureMap):
    """φ(x) = outer(inner(x)).

    Examples
    --------
    >>> from mercer.kernels.feature_map import ColumnsMap, PolynomialMap
    >>> print(PolynomialMap(2, 2, coef0=0.0).after(ColumnsMap(3, [0, 2])))
    φ(f1, f2, f3) = (f1², √2 f1 f3, f3²)
    """

    outer: FeatureMap
    inner: FeatureMap

    def __post_init__(self) -> None:
        if self.outer.n_features != self.inner.dimension:
            msg = (
                f"{self.outer!r} takes {self.outer.n_features} columns, but {self.inner!r} gives "
                f"{self.inner.dimension}. Make the outer map for {self.inner.dimension} features."
            )
            raise InputError(msg)

    @property
    def n_features(self) -> int:
        """That of the map which is applied first."""
        return self.inner.n_features

    @property
    def dimension(self) -> int:
        """That of the map which is applied last."""
        return self.outer.dimension

    def _fill(self, x: Array, out: Array) -> None:
        self.outer._fill(self.inner._values(x), out)

    def _slope(self, x: Array, weights: Array) -> Array:
        return self.inner._slope(x, self.outer._slope(self.inner._values(x), weights))

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        return self.outer._terms(self.inner._written(inputs))
