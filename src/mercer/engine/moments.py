"""Mean and scatter of features, a block of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array


@dataclass(frozen=True, repr=False)
class Moments:
    """W = Σw, μ = Σwf/W and S = Σw(f - μ)(f - μ)ᵀ of the feature rows f seen so far, in float64.

    Blocks are centred before they are squared and merged by the rule of Chan, Golub & LeVeque (1979):
    nothing cancels, however far from the origin the features lie.
    """

    weight: float
    mean: Array  # (m,)
    scatter: Array  # (m, m)

    @classmethod
    def empty(cls, m: int) -> Moments:
        """Of no rows."""
        return cls(0.0, np.zeros(m), np.zeros((m, m)))

    @classmethod
    def of(cls, block: Array, weights: Array | None = None) -> Moments:  # (b, m), (b,)
        """Of one block of rows; the product runs in the precision of the block.

        The mean is taken of differences from the first row: rows that are all alike have that very row
        for a mean, to the last bit, where the rounding of a plain sum would pass for variance.
        """
        weight = float(len(block) if weights is None else weights.sum(dtype=np.float64))
        if weight == 0.0:
            return cls.empty(block.shape[1])
        first = block[0]
        centred = block - first
        if weights is None:
            shift = centred.mean(axis=0, dtype=np.float64)
        else:
            shift = weights @ centred.astype(np.float64, copy=False) / weight
        centred -= shift.astype(block.dtype)
        if weights is not None:
            centred *= np.sqrt(weights).astype(block.dtype, copy=False)[:, None]
        scatter = (centred.T @ centred).astype(np.float64, copy=False)
        return cls(weight, first + shift, scatter)

    def merged(self, other: Moments) -> Moments:
        """Of both sets of rows together."""
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter += (self.weight * other.weight / weight) * np.outer(gap, gap)
        return Moments(weight, self.mean + (other.weight / weight) * gap, scatter)

    def faded(self, factor: float) -> Moments:
        """The same rows with their weights multiplied by a factor."""
        return Moments(self.weight * factor, self.mean, self.scatter * factor)

    def mapped(self, t: Array) -> Moments:  # (m, r)
        """Of the rows fT in place of f."""
        return Moments(self.weight, self.mean @ t, t.T @ self.scatter @ t)

    def __repr__(self) -> str:
        return f"Moments(weight={self.weight:g}, m={len(self.mean)})"
