"""Explicit feature maps of the features themselves: all of them, some of them, their monomials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer._core.errors import InputError, KernelError, NoFiniteMapError
from mercer._core.params import Number, Whole, require
from mercer._core.types import Array, Indices
from mercer.engine import formula as f
from mercer.kernels import monomials
from mercer.kernels.map_base import (
    NONE,
    NOT_NEGATIVE,
    Balanced,
    FeatureMap,
    ProductMap,
    SumMap,
    UnitMap,
    balanced,
)
from mercer.kernels.monomials import Step, Term, n_monomials
from mercer.kernels.rows import positions

# exp(690) ~ 1e299, a little below the largest float64.
MAX_LOG_COEFFICIENT = 690.0

AnyArray = TypeVar("AnyArray", bound=NDArray[np.generic])


@dataclass(frozen=True)
class _OfFeatures(FeatureMap):
    """A map that is made for d features."""

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", int(require("d", self.d, Whole(1))))

    @property
    def n_features(self) -> int:
        return self.d


@dataclass(frozen=True)
class IdentityMap(_OfFeatures):
    """φ(x) = x, the map of the linear kernel.

    >>> print(IdentityMap(3))
    φ(f1, f2, f3) = (f1, f2, f3)
    """

    @property
    def dimension(self) -> int:
        return self.d

    def roundings(self, given: int = 0) -> int:
        return given

    def _fill(self, x: Array, out: Array) -> None:
        out[...] = x

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        return balanced(x.copy(), powers)

    def _slope(self, x: Array, weights: Array) -> Array:
        del x
        return weights

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        yield from inputs


@dataclass(frozen=True)
class ColumnsMap(_OfFeatures):
    """φ(x) = (x_c for c in columns).

    >>> print(ColumnsMap(3, [2, 0]))
    φ(f1, f2, f3) = (f3, f1)
    """

    columns: Sequence[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = tuple(int(c) for c in self.columns)
        if not columns or not all(-self.d <= c < self.d for c in columns):
            msg = (
                f"The columns must be from 0 to {self.d - 1}, one of them at least; got {list(columns)} for "
                f"{self.d} columns."
            )
            raise InputError(msg)
        object.__setattr__(self, "columns", tuple(c % self.d for c in columns))

    @property
    def dimension(self) -> int:
        return len(self.columns)

    def roundings(self, given: int = 0) -> int:
        return given

    def _fill(self, x: Array, out: Array) -> None:
        out[...] = x[list(self.columns)]

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        return balanced(x[list(self.columns)], powers)

    def _slope(self, x: Array, weights: Array) -> Array:
        out = np.zeros_like(x)
        np.add.at(out, list(self.columns), weights)
        return out

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        return (inputs[c] for c in self.columns)


@dataclass(frozen=True)
class PolynomialMap(_OfFeatures):
    """φ(x)_a = √(p!/(a₁!⋯a_d!(p-q)!) γ^q θ^(p-q)) · x₁^a₁⋯x_d^a_d, with q = a₁+⋯+a_d ≤ p.

    The map of (γ x·x' + θ)^p, with γ > 0 and θ ≥ 0. Columns are ordered by degree, and lexicographically
    within a degree: 1, f1, f2, f1², f1 f2, f2². With θ = 0 only q = p remains.

    >>> phi = PolynomialMap(2, 2)
    >>> print(phi)
    φ(f1, f2) = (1, √2 f1, √2 f2, f1², √2 f1 f2, f2²)
    >>> phi([[1.0, 2.0]]) @ phi([[3.0, 4.0]]).T  # (x·x' + 1)² = 12²
    array([[144.]])
    """

    degree: int  # p
    gamma: float = 1.0  # γ
    coef0: float = 1.0  # θ

    def __post_init__(self) -> None:
        super().__post_init__()
        own: dict[str, Any] = {"of": "PolynomialMap", "error": KernelError}
        numbers = {
            "degree": int(require("degree", self.degree, Whole(0))),
            "gamma": float(require("gamma", self.gamma, Number(0), **own)),
            "coef0": float(require("coef0", self.coef0, NOT_NEGATIVE, **own)),
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)
        # A coefficient is at most k(1, 1), the kernel of the all-ones vector with itself, and its
        # multinomial part at most the same with γ = θ = 1.
        base = max(self.d + (self.coef0 > 0), self.gamma * self.d + self.coef0)
        if self.degree * math.log(base) > MAX_LOG_COEFFICIENT:
            msg = (
                f"{self!r} has coefficients beyond the range of floating-point numbers. "
                "Lower `degree`, or use the kernel itself."
            )
            raise InputError(msg)

    @property
    def dimension(self) -> int:
        return n_monomials(self.d, self.degree, homogeneous=self.coef0 == 0)

    @cached_property
    def exponents(self) -> Indices:
        """The exponents a, a read-only (D, d) array."""
        self._check_size()
        blocks = [monomials.exponents_of_degree(self.d, q) for q in self._degrees]
        return _read_only(np.concatenate(blocks))

    @cached_property
    def coefficients(self) -> Array:
        """The factor of each monomial, a read-only (D,) array."""
        self._check_size()
        sizes = [n_monomials(self.d, q, homogeneous=True) for q in self._degrees]
        powers = np.float64(self.gamma) ** (0.5 * np.repeat(self._degrees, sizes))
        return _read_only(self._weights * powers)

    @property
    def _degrees(self) -> range:
        return range(self.degree if self.coef0 == 0 else 0, self.degree + 1)

    @cached_property
    def _steps(self) -> list[list[Step]]:
        return [list(monomials.steps(self.d, q)) for q in range(1, self.degree + 1)]

    @cached_property
    def _weights(self) -> Array:
        # The coefficients less γ^(q/2), which goes into the features: their powers then overflow
        # only where the kernel does.
        blocks = monomials.multinomials(self.d, self.degree)
        theta = float(self.coef0)
        roots = [np.sqrt(blocks[q]) * theta ** (0.5 * (self.degree - q)) for q in self._degrees]
        return np.concatenate(roots)

    def _fill(self, x: Array, out: Array) -> None:
        z = x if self.gamma == 1 else x * x.dtype.type(math.sqrt(self.gamma))
        keep = self.coef0 != 0  # without θ the lower degrees are only on the way
        start = 0
        block = out[:1] if keep or self.degree == 0 else np.empty_like(out[:1])
        block[...] = 1.0
        for q, plan in enumerate(self._steps, start=1):
            below, size = block, plan[-1].target.stop
            start += len(below)
            if keep:
                block = out[start : start + size]
            else:
                block = out if q == self.degree else np.empty((size, x.shape[1]), dtype=x.dtype)
            for step in plan:
                np.multiply(below[step.parents], z[step.feature], out=block[step.target])
        out *= self._weights.astype(out.dtype)[:, None]

    def roundings(self, given: int = 0) -> int:
        # p factors √γ x_j, p - 1 products of them, and one with a coefficient.
        factor = given + (0 if self.gamma == 1 else 1)
        return self.degree * (factor + 1)

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        # (γ x·x' + θ)^p is homogeneous in (√γ x, √θ), of degree p: both are divided by one power of two.
        x, powers = balanced(x.copy(), powers)  # √γ x may be out of range
        root, power = math.frexp(math.sqrt(self.gamma))
        x, powers = balanced(x * x.dtype.type(root), powers + power)
        root, power = math.frexp(math.sqrt(self.coef0))
        both = np.maximum(powers, power if root else NONE)
        plain = PolynomialMap(self.d, self.degree, coef0=1.0 if root else 0.0)
        values = plain._values(np.ldexp(x, np.maximum(powers - both, NONE)))
        if root:
            theta = np.ldexp(root, np.maximum(power - both, NONE))
            sizes = [n_monomials(self.d, q, homogeneous=True) for q in self._degrees]
            missing = self.degree - np.repeat(self._degrees, sizes)  # (D,)
            values *= (theta ** missing[:, None]).astype(x.dtype)
        return balanced(values, self.degree * both)

    def _slope(self, x: Array, weights: Array) -> Array:
        # The multiplications of `_fill`, backwards: each hands its slope to both of its factors.
        root = math.sqrt(self.gamma)
        z = x * x.dtype.type(root)
        blocks = [np.ones((1, x.shape[1]), dtype=x.dtype)]
        for plan in self._steps:
            block = np.empty((plan[-1].target.stop, x.shape[1]), dtype=x.dtype)
            for step in plan:
                np.multiply(blocks[-1][step.parents], z[step.feature], out=block[step.target])
            blocks.append(block)
        slopes = [np.zeros_like(block) for block in blocks]
        scaled, start = weights * self._weights.astype(x.dtype)[:, None], 0
        for q in self._degrees:
            slopes[q] = scaled[start : start + len(blocks[q])]
            start += len(blocks[q])
        out = np.zeros_like(x)
        for q in range(self.degree, 0, -1):
            below = slopes[q - 1].copy()
            for step in self._steps[q - 1]:
                own = slopes[q][step.target]
                out[step.feature] += np.einsum("jb,jb->b", own, blocks[q - 1][step.parents])
                below[step.parents] += own * z[step.feature]
            slopes[q - 1] = below
        out *= x.dtype.type(root)
        return out

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        return monomials.expanded_power(inputs, self.degree, gamma=self.gamma, coef0=self.coef0)


@dataclass(frozen=True)
class ComposedMap(FeatureMap):
    """φ(x) = outer(inner(x)).

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
        return self.inner.n_features

    @property
    def dimension(self) -> int:
        return self.outer.dimension

    def roundings(self, given: int = 0) -> int:
        return self.outer.roundings(self.inner.roundings(given))

    def _fill(self, x: Array, out: Array) -> None:
        self.outer._fill(self.inner._values(x), out)

    def _balanced(self, x: Array, powers: Indices) -> Balanced:
        return self.outer._balanced(*self.inner._balanced(x, powers))

    def _slope(self, x: Array, weights: Array) -> Array:
        return self.inner._slope(x, self.outer._slope(self.inner._values(x), weights))

    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        return self.outer._terms(self.inner._written(inputs))


def _read_only(array: AnyArray) -> AnyArray:
    array.flags.writeable = False
    return array


# ── maps of formulas ────────────────────────────────────────────────────────
# A map is written degree by degree: of a higher one it takes long, though it may be a single column.
MOST_DEGREE = 10_000


def map_of(expr: f.Expr, d: int) -> FeatureMap:  # noqa: PLR0911
    """φ with φ(x)·φ(x') = k(x, x') on `d` features; a `NoFiniteMapError` where it has no finite dimension."""
    match expr:
        case f.Pair(kind="dot"):
            return IdentityMap(d)
        case f.Const(value) if value >= 0:
            return PolynomialMap(d, 0, gamma=1.0, coef0=1.0).scaled(value)
        case f.Pow(of) if 0 < (p := expr.whole or 0) <= MOST_DEGREE:
            gamma, coef0 = 1.0, 0.0
            match of:
                case f.Affine(f.Pair() as pair, scale, shift) if scale > 0 and shift >= 0:
                    of, gamma, coef0 = pair, scale, shift  # (γ x·x' + θ)^p at once
            inner = map_of(of, d)
            return PolynomialMap(inner.dimension, p, gamma=gamma, coef0=coef0).after(inner)
        case f.Affine(of, scale, shift) if shift > 0:
            return map_of(f.Add(f.Affine(of, scale), f.Const(shift)), d)
        case f.Affine(of, scale, 0.0) if scale >= 0:
            return map_of(of, d).scaled(scale)
        case f.Add(left, right):
            return SumMap(map_of(left, d), map_of(right, d))
        case f.Mul(left, right):
            return ProductMap(map_of(left, d), map_of(right, d))
        case f.On(of, columns):
            chosen = positions(columns, d)
            return map_of(of, len(chosen)).after(ColumnsMap(d, chosen))
        case f.Unit(of):
            return UnitMap(map_of(of, d))
        case f.Opaque(kernel):
            return kernel.feature_map(d)
    raise NoFiniteMapError  # `Kernel.feature_map` has the words
