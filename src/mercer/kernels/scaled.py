"""Kernel values beyond the range of floating-point numbers: the lengths of φ(x) are kept apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mercer._core.types import Array, Rows
from mercer.engine.pairwise import balanced, dot, squared_norms

# log₂ of the length of φ(x) = 0: below all others, and still a number to calculate with.
NONE = -1e9


@dataclass(frozen=True, repr=False)
class Scaled:
    """k(x_i, y_j) = c_ij 2^(a_i + b_j), where a and b are log₂ of the lengths of φ(x) and φ(y).

    For a kernel c is the cosine of two points in feature space, between -1 and 1 whatever the size of its
    values. Slower and a few digits less exact than plain values, for where these are out of range.
    """

    cosines: Array  # (n, m), or (n,) for k(x_i, x_i)
    left: Array  # (n, 1), or (n,)
    right: Array  # (1, m), or (n,)

    @classmethod
    def of(cls, values: Array, own: Array, other: Array | None = None) -> Scaled:
        """From values in range, and k(x, x) of their rows; `other` is None where values are these."""
        left = right = half_log(own)
        if other is not None:
            left, right = left[:, None], half_log(other)[None, :]
        return cls(_times_two(values, -(left + right)), left, right)

    @classmethod
    def dots(cls, x: Rows, y: Rows | None) -> Scaled:
        """Dot products of rows of any size; of each with itself where y is None."""
        u, left = unit_rows(x)
        if y is None:
            return cls(squared_norms(u), left, left)
        v, right = unit_rows(y)
        return cls(dot(u, v), left[:, None], right[None, :])

    def values(self) -> Array:
        """The values themselves, infinite where they are beyond the largest number."""
        return _times_two(self.cosines, self.left + self.right)

    def __add__(self, other: Scaled) -> Scaled:
        # log₂ of the lengths of two vectors at a right angle.
        left = 0.5 * np.logaddexp2(2.0 * self.left, 2.0 * other.left)
        right = 0.5 * np.logaddexp2(2.0 * self.right, 2.0 * other.right)
        cosines = _times_two(self.cosines, self.left - left + (self.right - right))
        cosines += _times_two(other.cosines, other.left - left + (other.right - right))
        return Scaled(cosines, left, right)

    def __mul__(self, other: Scaled) -> Scaled:
        return Scaled(
            self.cosines * other.cosines, self.left + other.left, self.right + other.right
        )

    def times(self, factor: float) -> Scaled:
        half = 0.5 * math.log2(abs(factor)) if factor else NONE
        return Scaled(
            self.cosines * math.copysign(1.0, factor), self.left + half, self.right + half
        )

    def plus(self, value: float) -> Scaled:
        ones = Scaled(
            np.ones_like(self.cosines), np.zeros_like(self.left), np.zeros_like(self.right)
        )
        return self + ones.times(value)

    def power(self, exponent: float) -> Scaled:
        return Scaled(np.power(self.cosines, exponent), self.left * exponent, self.right * exponent)


def half_log(values: Array) -> Array:
    """log₂ √v, and 0 for what is no length."""
    sound = (values > 0) & (values < np.inf)
    return np.asarray(0.5 * np.log2(np.where(sound, values, 1.0), dtype=np.float64))


def unit_rows(x: Rows) -> tuple[Rows, Array]:  # (n, d) -> (n, d), (n,)
    """Rows of length one, but for those of zeros, and log₂ of their lengths; no square is out of range."""
    rows, powers = balanced(x)
    norms = np.sqrt(squared_norms(rows))
    zero = norms == 0
    norms[zero] = 1.0
    logs = np.where(zero, NONE, powers + np.log2(norms, dtype=np.float64))
    return divided_rows(rows, norms), logs


def divided_rows(x: Rows, lengths: Array) -> Rows:
    """Each row over its length."""
    if sparse.issparse(x):
        return sparse.csr_array(sparse.diags_array(1.0 / lengths) @ x)
    return x / lengths[:, None]


def _times_two(values: Array, powers: Array) -> Array:  # values · 2^powers, in their dtype
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        whole = np.clip(np.rint(powers), -10_000, 10_000)
        rest = np.exp2(np.clip(powers - whole, -0.5, 0.5))
        scaled = np.ldexp(values * rest, whole.astype(np.int32))
        return np.asarray(scaled, dtype=values.dtype)


def in_range(tile: Array, scaled: Callable[[], Scaled]) -> Array:
    """The tile, or where something in it overflowed the values of `scaled`."""
    # One pass without a temporary. A sum may overflow where no value does: then the second is as good.
    return tile if np.isfinite(np.sum(tile)) else scaled().values()
