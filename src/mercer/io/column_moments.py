"""Count, mean and squared deviations of each column, block by block; missing values don't count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags


@dataclass(frozen=True)
class ColumnMoments:
    """c = Σ1, μ = Σx/c and S = Σ(x - μ)² of each column, in float64.

    Blocks are centred before they are squared and merged by the rule of Chan, Golub & LeVeque (1979), so
    that nothing cancels however far from zero a column lies.
    """

    count: Array  # (p,)
    mean: Array  # (p,)
    squares: Array  # (p,)

    @classmethod
    def empty(cls, p: int) -> ColumnMoments:
        """Of no rows."""
        return cls(np.zeros(p), np.zeros(p), np.zeros(p))

    @classmethod
    def of(cls, block: Array, missing: Flags | None) -> ColumnMoments:  # (b, p), (b, p)
        """Of one block of rows."""
        x = block.astype(np.float64, copy=False)
        if missing is None:
            count: Array = np.full(x.shape[1], float(len(x)))
            mean = x.mean(axis=0)
            centred = x - mean
        else:
            count = np.asarray(np.sum(~missing, axis=0, dtype=np.float64))
            filled = np.where(missing, 0.0, x)
            mean = filled.sum(axis=0) / np.maximum(count, 1.0)
            centred = np.where(missing, 0.0, filled - mean)
        # What rounding left of the mean of the centred column: without it, a column far from zero is off.
        off = centred.sum(axis=0) / np.maximum(count, 1.0)
        squares = np.einsum("ij,ij->j", centred, centred) - count * off**2
        return cls(count, mean + off, np.maximum(squares, 0.0))

    def merged(self, other: ColumnMoments) -> ColumnMoments:
        """Of both sets of rows together."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1.0)
        gap = other.mean - self.mean
        squares = self.squares + other.squares + self.count * share * gap**2
        return ColumnMoments(count, self.mean + share * gap, squares)

    def filled(self, values: Array, n: int) -> ColumnMoments:  # (p,)
        """As if each missing one of n entries of a column were its value in `values`."""
        p = len(values)
        return self.merged(ColumnMoments(n - self.count, np.array(values), np.zeros(p)))

    def spread(self) -> Array:
        """The population standard deviation."""
        return np.sqrt(self.squares / np.maximum(self.count, 1.0))

    def is_constant(self) -> Flags:
        """Columns whose deviations are no more than the rounding of their mean.

        The bound is that of Chan, Golub & LeVeque for two passes: σ² <= cεσ² + (cμε)².
        """
        eps = np.finfo(np.float64).eps
        variance = self.spread() ** 2
        return variance <= self.count * eps * variance + (self.count * self.mean * eps) ** 2
