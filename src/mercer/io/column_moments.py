"""Count, mean and squared deviations of each column, block by block; missing values don't count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Array, Flags


@dataclass(frozen=True)
class ColumnMoments:
    """c = Σw, δ = Σw(x - s)/c and S = Σw(x - s - δ)² of each column about a fixed shift s, in float64.

    Blocks are centred before they are squared and merged by the rule of Chan, Golub & LeVeque (1979), so
    that nothing cancels. What is merged are distances from a value of the column itself: their rounding is
    small beside the spread, however far from zero the column lies and however many blocks there are.
    """

    shift: Array  # (p,)
    count: Array  # (p,)
    offset: Array  # (p,)
    squares: Array  # (p,)

    @classmethod
    def empty(cls, shift: Array) -> ColumnMoments:
        """Of no rows."""
        p = len(shift)
        return cls(shift, np.zeros(p), np.zeros(p), np.zeros(p))

    @classmethod
    def of(
        cls, block: Array, missing: Flags | None, shift: Array, weights: Array | None = None
    ) -> ColumnMoments:  # (b, p), (b, p), (p,), (b,)
        """Moments of one block of rows; a row of weight w counts w times."""
        x = block.astype(np.float64, copy=False) - shift
        if weights is not None:
            present = np.ones(x.shape, dtype=bool) if missing is None else ~missing
            w = np.where(present, weights[:, None], 0.0)  # (b, p)
            x = np.where(w > 0.0, x, 0.0)
            count = w.sum(axis=0)
            offset = np.einsum("ij,ij->j", w, x) / _divisor(count)
            return cls(shift, count, offset, np.einsum("ij,ij->j", w, (x - offset) ** 2))
        if missing is None:
            count = np.full(x.shape[1], float(len(x)))
            offset = x.mean(axis=0)
            centred = x - offset
        else:
            count = np.asarray(np.sum(~missing, axis=0, dtype=np.float64))
            x = np.where(missing, 0.0, x)
            offset = x.sum(axis=0) / np.maximum(count, 1.0)
            centred = np.where(missing, 0.0, x - offset)
        return cls(shift, count, offset, np.einsum("ij,ij->j", centred, centred))

    def merged(self, other: ColumnMoments) -> ColumnMoments:
        """Of both sets of rows together; the shift is the same in both."""
        count = self.count + other.count
        share = other.count / _divisor(count)
        gap = other.offset - self.offset
        squares = self.squares + other.squares + self.count * share * gap**2
        return ColumnMoments(self.shift, count, self.offset + share * gap, squares)

    def filled(self, values: Array, n: float) -> ColumnMoments:  # (p,)
        """As if what is missing of a weight of n in a column were its value in `values`."""
        none = np.zeros(len(values))
        return self.merged(ColumnMoments(self.shift, n - self.count, values - self.shift, none))

    @property
    def mean(self) -> Array:
        """Of each column."""
        return self.shift + self.offset

    def spread(self) -> Array:
        """The population standard deviation."""
        return np.sqrt(self.squares / _divisor(self.count))

    def is_constant(self) -> Flags:
        """Columns whose deviations are no more than the rounding of their own values.

        However many rows there are: about a value of the column nothing adds up, and a column far from
        zero that moves by a thousand roundings does move.
        """
        return self.spread() <= 4.0 * np.finfo(np.float64).eps * np.abs(self.mean)


def _divisor(count: Array) -> Array:
    """The count, or one where it is zero."""
    return np.where(count > 0.0, count, 1.0)


class EvenBlocks:
    """Blocks of rows of any height, cut anew into blocks of one: the same sums, however a file is read.

    A CSV comes in blocks of text and an NPY in blocks of rows; sums over other blocks round otherwise.
    """

    def __init__(self, height: int, width: int) -> None:
        self._held, self._n = np.empty((height, width)), 0

    def cut(self, block: Array) -> Iterator[Array]:  # (b, p)
        """Whole blocks, each good until the next is asked for."""
        done = 0
        while done < len(block):
            some = block[done : done + len(self._held) - self._n]
            self._held[self._n : self._n + len(some)] = some
            self._n, done = self._n + len(some), done + len(some)
            if self._n == len(self._held):
                yield from self.rest()

    def rest(self) -> Iterator[Array]:
        """What is held, if there is any."""
        if self._n:
            yield self._held[: self._n]
            self._n = 0


def a_value(block: Array, missing: Flags | None) -> Array:  # (b, p) -> (p,)
    """A value of each column to shift by; 0 where the block has none."""
    if missing is None:
        return np.array(block[0], dtype=np.float64)
    first = np.argmin(missing, axis=0)
    found = block[first, np.arange(block.shape[1])].astype(np.float64)
    return np.where(np.isnan(found), 0.0, found)
