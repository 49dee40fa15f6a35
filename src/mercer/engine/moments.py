"""Means and squared deviations of rows, a block at a time: of all pairs of columns, and of each column.

Blocks are centred before they are squared and merged by the rule of Chan, Golub & LeVeque (1979): nothing
cancels, however far from the origin the rows lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Annotated, Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dger

from mercer._core.errors import InputError
from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.rows import row_blocks
from mercer.engine.base import Engine
from mercer.engine.wide import wide_times

# Rows whose sum is taken at a time: of float32 rows only these are held in float64.
BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class Moments:
    """W = Σw, μ = Σwf/W and S = Σw(f - μ)(f - μ)ᵀ of the feature rows f seen so far, in float64."""

    weight: float
    mean: Annotated[Array, "m"]
    scatter: Annotated[Array, "m m"]

    @classmethod
    def empty(cls, m: int) -> Moments:
        return cls(0.0, np.zeros(m), np.zeros((m, m)))

    @classmethod
    def of(
        cls, block: Array, weights: Array | None = None, *, overwrite: bool = False
    ) -> Moments:  # (b, m), (b,)
        """Moments of one block of rows; the product runs in the precision of the block.

        The mean is taken of differences from the first row: rows that are all alike have that very row
        for a mean, to the last bit, where the rounding of a plain sum would pass for variance.
        ``overwrite``: the block is not needed any more, and is centred where it lies.
        """
        weight = float(len(block) if weights is None else weights.sum(dtype=np.float64))
        if weight == 0.0:
            return cls.empty(block.shape[1])
        first = block[0].copy()
        centred = np.subtract(block, first, out=block if overwrite else None)
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
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter
        if len(gap):
            # In place, where it can be: the transpose of a symmetric array has the order that BLAS likes.
            root = np.sqrt(self.weight * (other.weight / weight)) * gap
            scatter = dger(1.0, root, root, a=scatter.T, overwrite_a=1).T
        return Moments(weight, self.mean + (other.weight / weight) * gap, scatter)

    def faded(self, factor: float) -> Moments:
        """The same rows with their weights multiplied by a factor."""
        return Moments(self.weight * factor, self.mean, self.scatter * factor)

    def mapped(self, t: Array) -> Moments:  # (m, r)
        """Moments of the rows fT in place of f."""
        return Moments(self.weight, self.mean @ t, wide_times(t.T, wide_times(self.scatter, t)))

    def __repr__(self) -> str:
        return f"Moments(weight={self.weight:g}, m={len(self.mean)})"


@dataclass(frozen=True)
class ColumnMoments:
    """c = Σw, δ = Σw(x - s)/c and S = Σw(x - s - δ)² of each column about a fixed shift s, in float64.

    What is merged are distances from a value of the column itself: their rounding is small beside the spread,
    however far from zero the column lies and however many blocks there are. What is missing does not count.
    """

    shift: Array  # (p,)
    count: Array  # (p,)
    offset: Array  # (p,)
    squares: Array  # (p,)

    @classmethod
    def empty(cls, shift: Array) -> ColumnMoments:
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
        """Moments of both sets of rows together, about our shift."""
        count = self.count + other.count
        share = other.count / _divisor(count)
        gap = (other.shift - self.shift) + (other.offset - self.offset)
        squares = self.squares + other.squares + self.count * share * gap**2
        return ColumnMoments(self.shift, count, self.offset + share * gap, squares)

    def filled(self, values: Array, n: float) -> ColumnMoments:  # (p,)
        """As if what is missing of a weight of n in a column were its value in `values`."""
        none = np.zeros(len(values))
        return self.merged(ColumnMoments(self.shift, n - self.count, values - self.shift, none))

    @property
    def mean(self) -> Array:
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


def column_moments(
    engine: Engine[Any], x: Rows, weights: Array | None = None
) -> ColumnMoments:  # (n, d), (n,)
    """The moments of the columns over all rows, wherever they are."""
    return engine.fold(x, partial(_column_moments, weights), height=BLOCK_ROWS)


def _column_moments(weights: Array | None, rows: Array, place: slice) -> ColumnMoments:
    own = None if weights is None else weights[place]
    return ColumnMoments.of(rows, None, rows[0].astype(np.float64), own)


def _divisor(count: Array) -> Array:
    """The count, or one where it is zero."""
    return np.where(count > 0.0, count, 1.0)


def weighted_mean(x: Rows, weights: Array | None = None) -> Array:  # (n, d), (n,) -> (d,)
    """μ = Σwx/Σw in float64, whatever the precision of the rows and wherever they are.

    Dense rows are summed as x₀ + Σw(x - x₀)/Σw: rows that are all alike have that very row for a mean, to the
    last bit, and far from the origin the sum rounds to the size of the differences.
    """
    _, head = next(iter(row_blocks(x, 1)))
    first = np.zeros(x.shape[1]) if sparse.issparse(head) else head[0].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # refused in words where they are squared
        whole = float(x.shape[0] if weights is None else weights.sum())
        blocks = row_blocks(x, BLOCK_ROWS)
        total = reduce(np.add, (_shifted_sum(rows, first, weights, i) for i, rows in blocks))
        return np.asarray(first + total / whole)


LOOP = 512  # numbers


def less_row(x: Array, row: Array, out: Array | None = None) -> Array:  # (n, d), (d,) -> (n, d)
    """Each row of x less this one, in float64; `out` may be x. One loop of NumPy's takes many short rows."""
    (n, d), out = x.shape, np.empty(x.shape) if out is None else out
    many = max(1, LOOP // d) if x.flags.c_contiguous and out.flags.c_contiguous else 1
    whole, wide = n // many * many, row[None].repeat(many, axis=0).ravel()
    longer = x[:whole].reshape(-1, len(wide)), out[:whole].reshape(-1, len(wide))
    np.subtract(longer[0], wide, out=longer[1])
    np.subtract(x[whole:], row, out=out[whole:])
    return out


def _shifted_sum(rows: Rows, first: Array, weights: Array | None, place: slice) -> Array:  # -> (d,)
    if not sparse.issparse(rows):
        rows = less_row(rows, first)
    w = np.ones(rows.shape[0]) if weights is None else weights[place]
    return np.asarray(rows.T @ w)


def weighted_median(values: Array, weights: Array) -> float:  # (n,), (n,)
    """The median of the values that are not NaN, each as often as its weight says.

    The mean of the first values at which half of the weight is reached and passed: for whole weights that
    is the median of the repeated values.
    """
    order = np.argsort(values, kind="stable")[: int(np.sum(~np.isnan(values)))]  # NaN comes last
    if not len(order):
        return np.nan
    reached = np.cumsum(weights[order])
    low, high = (np.searchsorted(reached, 0.5 * reached[-1], side) for side in ("left", "right"))
    values = values[order]
    return float(0.5 * (values[low] + values[min(int(high), len(values) - 1)]))


def brought_to_one(x: Array) -> tuple[Array, Indices]:  # (n, d) -> (n, d), (d,)
    """Columns divided by powers of two, to at most 1, and these powers.

    The largest squares neither overflow nor vanish, and nothing is rounded but what is no part of them.
    """
    _, power = np.frexp(np.abs(x).max(axis=0, initial=0.0))
    return np.ldexp(x, -power), power


@dataclass(frozen=True, repr=False)
class Scale:
    """x -> (x - mean)/spread, in float64: with a wide kernel, values near 1 cancel."""

    mean: Annotated[Array, "d"]  # float64
    spread: Annotated[Array, "d"]  # float64

    @classmethod
    def of(cls, x: Array, weights: Array | None = None) -> Self:
        """Mean and standard deviation of the rows.

        They are taken of differences from the first row: those of a constant column are zero, where the
        rounding of a long sum, of 0.1 say, would pass for a spread.
        """
        first = x[0].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            z, power = brought_to_one(x - first)
            if weights is None:
                shift, spread = z.mean(axis=0), z.std(axis=0, ddof=1)
            else:
                total = float(weights.sum())
                shift = np.average(z, axis=0, weights=weights)
                squares = weights @ (z - shift) ** 2
                spread = np.sqrt(squares / (total - 1.0 if total > 1.0 else total))
            mean, spread = first + np.ldexp(shift, power), np.ldexp(spread, power)
        wide = np.flatnonzero(~(np.isfinite(mean) & np.isfinite(spread)))
        if len(wide):
            msg = (
                "The rows of a column must not lie farther apart than the largest number that float64 has, "
                f"{np.finfo(np.float64).max:.3g}, or they have no standard deviation; got column {wide[0]}, "
                f"from {x[:, wide[0]].min():.3g} to {x[:, wide[0]].max():.3g}. Divide it by a constant."
            )
            raise InputError(msg)
        return cls._settled(mean, spread, x.dtype)

    @classmethod
    def over(cls, engine: Engine[Any], x: Rows, weights: Array | None = None) -> Self:
        """The same in one pass by an engine over rows that are elsewhere."""
        seen = column_moments(engine, x, weights)
        degrees = np.where(seen.count > 1.0, seen.count - 1.0, seen.count)
        return cls._settled(seen.mean, np.sqrt(seen.squares / degrees), x.dtype)

    @classmethod
    def _settled(cls, mean: Array, spread: Array, dtype: np.dtype[Any]) -> Self:
        still = spread <= 8.0 * float(np.finfo(dtype).eps) * np.abs(mean)
        return cls(mean, np.where(still, 0.0, spread))

    def or_else(self, usual: Scale) -> Self:
        """The same with the spread that is `usual` for columns that don't move."""
        return replace(self, spread=np.where(self.spread == 0.0, usual.spread, self.spread))

    @classmethod
    def none(cls, x: Rows) -> Self:
        """Rows as they are, neither centred nor scaled."""
        return cls(np.zeros(x.shape[1]), np.ones(x.shape[1]))

    @property
    def still(self) -> Indices:
        """Columns without a spread."""
        return np.flatnonzero(self.spread == 0.0)

    def __call__(self, x: Array) -> Array:
        return (x - self.mean) / self.unit

    def back(self, z: Array) -> Array:
        """z -> z·spread + mean."""
        return z * self.unit + self.mean

    @property
    def unit(self) -> Array:
        """The spread, or one where there is none."""
        return np.where(self.spread == 0.0, 1.0, self.spread)
