"""One kernel, seen differently: on some of the columns, or normalised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer.data.rows import RowSource
from mercer.engine.pairwise import SQUARABLE
from mercer.kernels.algebra import Unary, bracketed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels.base import Kernel
    from mercer.kernels.feature_map import FeatureMap
    from mercer.kernels.scaled import Scaled


def positions(columns: Any, d: int | None = None) -> list[int]:
    """The columns as whole numbers; a mask, of `d` entries where d is known, says which they are."""
    given = list(columns) if isinstance(columns, (Sequence, np.ndarray)) else [columns]
    if given and all(isinstance(c, (bool, np.bool_)) for c in given):
        if d not in (None, len(given)):
            msg = (
                f"A mask of {len(given)} columns came, but the data have {d} columns. "
                "Give one True or False for each of them, or the positions of those you mean."
            )
            raise KernelError(msg)
        return [int(c) for c in np.flatnonzero(given)]
    whole = all(isinstance(c, (int, np.integer)) and not isinstance(c, bool) for c in given)
    if not whole or isinstance(columns, (int, np.integer)):
        msg = (
            f"k.on(columns) needs a sequence of whole numbers or a mask of booleans, but {columns!r} "
            "came. Write k.on([0, 2]) or k.on([True, False, True])."
        )
        raise KernelError(msg)
    return [int(c) for c in given]


class SomeColumns(RowSource):
    """Some of the columns of rows that are read a slice at a time."""

    def __init__(self, source: RowSource, positions: list[int]) -> None:
        self.source = source
        self.positions = positions
        self.shape = (source.shape[0], len(positions))
        self.dtype = source.dtype
        self.name = source.name
        self.random_access = source.random_access

    def __getitem__(self, key: slice | Indices) -> Rows:
        return self.source[key][:, self.positions]

    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        for i, block in self.source.blocks(height):
            yield i, block[:, self.positions]

    def resident_bytes(self, height: int) -> int:
        return self.source.resident_bytes(height)

    def check_unchanged(self) -> None:
        self.source.check_unchanged()


class OnColumns(Unary):
    """k(x[columns], x'[columns])."""

    def __init__(self, kernel: Kernel, columns: Sequence[int] | Sequence[bool]) -> None:
        self.kernel = kernel
        self.columns = columns

    def check_parameters(self) -> None:
        """The columns are positions or a mask."""
        positions(self.columns)
        super().check_parameters()

    def _pick(self, x: Rows) -> Rows:
        d = x.shape[1]
        columns = positions(self.columns, d)
        outside = [c for c in columns if not -d <= c < d]
        if outside or not columns:
            msg = (
                f"A kernel on columns {columns} was asked for, but the data have {d} columns "
                f"(0 to {d - 1}). Name at least one of those."
            )
            raise InputError(msg)
        return SomeColumns(x, columns) if isinstance(x, RowSource) else x[:, columns]

    def check_rows(self, x: Rows) -> None:
        """The columns exist."""
        self.kernel.check_rows(self._pick(x))

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy whose kernel is resolved on its own columns."""
        self.check_parameters()
        inner = self.kernel.resolve(self._pick(x), rng=rng, weights=weights)
        return type(self)(inner, self.columns)

    def tile(self, x: Rows, y: Rows) -> Array:
        return self.kernel.tile(self._pick(x), self._pick(y))

    def tile_diag(self, x: Rows) -> Array:
        return self.kernel.tile_diag(self._pick(x))

    def scaled(self, x: Rows, y: Rows | None = None) -> Scaled:
        return self.kernel.scaled(self._pick(x), None if y is None else self._pick(y))

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        return self._spread(self.kernel.tile_slope(self._pick(x), self._pick(y), weights), x)

    def diag_slope(self, x: Rows) -> Array:
        return self._spread(self.kernel.diag_slope(self._pick(x)), x)

    def _spread(self, slopes: Array, x: Rows) -> Array:
        """Slopes of the columns that were picked, in their places; a column picked twice counts twice."""
        out = np.zeros(x.shape, dtype=slopes.dtype)
        np.add.at(out.T, positions(self.columns, x.shape[1]), slopes.T)
        return out

    def why_valid(self) -> str | None:
        """Dropping columns is a map of the points."""
        return self._inner_valid("choosing columns is a map of the points")

    def map_dimension(self, d: int) -> int | None:
        """That of the kernel on its columns."""
        return self.kernel.map_dimension(len(positions(self.columns, d)))

    def feature_map(self, d: int) -> FeatureMap:
        """The map of the kernel on its columns."""
        from mercer.kernels.feature_map import ColumnsMap

        columns = positions(self.columns, d)
        return self.kernel.feature_map(len(columns)).after(ColumnsMap(d, columns))

    def __repr__(self) -> str:
        try:
            columns = positions(self.columns)
        except (
            KernelError
        ):  # a text is wanted of wrong columns too, if only for the message about them
            columns = self.columns  # type: ignore[assignment]
        return f"{bracketed(self.kernel)}.on({columns!r})"


def _sound(inverse_lengths: Array) -> bool:
    """Whether no length was zero, infinite or so short that its square has lost digits."""
    low, high = SQUARABLE[inverse_lengths.dtype]
    inside = (inverse_lengths > math.sqrt(low)) & (inverse_lengths < math.sqrt(high))
    return bool(np.all(inside))


class Normalised(Unary):
    """k(x, x') / √(k(x, x) k(x', x')), with 0 where k(x, x) = 0."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def _inverse_lengths(self, x: Rows) -> Array:
        lengths = self.kernel.tile_diag(x)
        if np.any(lengths < 0):
            msg = (
                f"{self.kernel!r} has k(x, x) = {lengths.min():.3g} < 0 on these data, so it is no kernel "
                "and can't be normalised. `mercer.check_kernel` shows a witness."
            )
            raise KernelError(msg)
        np.sqrt(lengths, out=lengths)
        return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    def tile(self, x: Rows, y: Rows) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            along_x, along_y = self._inverse_lengths(x), self._inverse_lengths(y)
            if not (_sound(along_x) and _sound(along_y)):
                return self._quotient(x, y)
            tile = self.kernel.tile(x, y)
            tile *= along_x[:, None]
            tile *= along_y[None, :]
        return tile

    def _quotient(self, x: Rows, y: Rows) -> Array:
        """Where some k(x, x) is zero or out of range: the lengths of φ(x) are never put into the values."""
        shares = self.kernel.scaled(x, y).cosines
        for own, axis in ((self.kernel.scaled(x).cosines, 1), (self.kernel.scaled(y).cosines, 0)):
            inverse = np.divide(1.0, np.sqrt(own), out=np.zeros_like(own), where=own > 0)
            shares = shares * np.expand_dims(inverse, axis)
        return np.asarray(shares, dtype=x.dtype)

    def tile_diag(self, x: Rows) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            along = self._inverse_lengths(x)
        if not _sound(along):
            along = self.kernel.scaled(x).cosines
        return (along > 0).astype(x.dtype)

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        # The quotient rule: k changes, and so does the length of φ(x) that it is divided by.
        with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
            along_x, along_y = self._inverse_lengths(x), self._inverse_lengths(y)
            scaled = weights * along_x[:, None] * along_y[None, :]
            slopes = self.kernel.tile_slope(x, y, scaled)
            value = np.einsum(
                "ij,ij->i", scaled, self.kernel.tile(x, y)
            )  # Σ_j w_ij of the quotient
            slopes -= (0.5 * value * along_x**2)[:, None] * self.kernel.diag_slope(x)
        if not (np.all(np.isfinite(along_x**2)) and np.isfinite(np.sum(slopes))):
            msg = (
                f"The derivative of {self!r} is out of the range of {x.dtype} on these rows: k(x, x) of the "
                "kernel inside overflows or vanishes. Scale the columns (StandardScaler)."
            )
            raise KernelError(msg)
        return slopes

    def diag_slope(self, x: Rows) -> Array:
        return np.zeros(x.shape, dtype=x.dtype)

    def why_valid(self) -> str | None:
        """Scaling each φ(x) to length one keeps dot products dot products."""
        return self._inner_valid("scaling each φ(x) to length one leaves a dot product")

    def map_dimension(self, d: int) -> int | None:
        """As before."""
        return self.kernel.map_dimension(d)

    def feature_map(self, d: int) -> FeatureMap:
        """The map, each row scaled to length one."""
        from mercer.kernels.feature_map import UnitMap

        return UnitMap(self.kernel.feature_map(d))

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.normalised()"
