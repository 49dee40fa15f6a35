"""THE tile loop: every entry of a kernel matrix comes from here, to be kept or used at once."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import row_slices, take_rows
from mercer.engine.shifted import ShiftedRows, SlicedRows, ready_rows
from mercer.engine.threads import share_out
from mercer.operators.dense import StoredGram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercer._core.types import Array, Indices, Rows
    from mercer.engine.tiles import Tiling
    from mercer.kernels.base import Kernel

    # Its place in the upper triangle, its rows, its columns.
    Card = tuple[int, slice, slice]


def over_tiles(
    tiling: Tiling, hand: Callable[[Iterable[Card]], Any], *, n_threads: int
) -> list[Any]:
    """Deal out the tiles of the upper triangle, a hand a thread."""
    cards = [(place, i, j) for place, (i, j) in enumerate(tiling.upper())]
    return share_out(hand, cards, n_threads=n_threads)


def tile_product(
    tiling: Tiling,
    tiles: Callable[[], Callable[[Card], Array]],
    v: Array,
    *,
    dtype: np.dtype[Any],
    n_threads: int,
) -> Array:
    """K v, each tile used for both sides of the diagonal; `tiles` gives each thread its way to a tile."""
    rounded = np.ascontiguousarray(v, dtype=dtype)

    def hand(cards: Iterable[Card]) -> Array:
        # In the precision of the tiles: adding float32 products to a float64 sum would take a
        # sixth of the time, and the products themselves are no better than float32.
        out = np.zeros(v.shape, dtype=dtype)
        tile_of = tiles()
        for card in cards:
            tile, (_, i, j) = tile_of(card), card
            out[i] += tile @ rounded[j]
            if i != j:
                out[j] += tile.T @ rounded[i]
        return out

    parts = over_tiles(tiling, hand, n_threads=n_threads)
    return reduce(_added, [part.astype(v.dtype, copy=False) for part in parts])


class TiledGram:
    """K = [k(x_i, x_j)], made a tile at a time: one tile a thread lives, and as many as are to be held.

    Parameters
    ----------
    kernel : Kernel
        Resolved.
    x : rows
        Checked: an array, a CSR matrix or a `RowSource`.
    tiling : Tiling
    n_threads : int, default=1
    dtype : dtype, optional
        Precision of the tiles; by default that of the rows.
    minus : float, default=0.0
        A constant taken off every entry. H(K - c11ᵀ)H = HKH, and entries about zero round to smaller
        errors than entries about c.
    hold_bytes : int, default=0
        Tiles of the upper triangle are kept from the first product on while they fit in here; the
        others are made anew for each product. The result is the same, bit by bit.
    sliced : bool, default=False
        Make rows ready slice by slice, in each product again, instead of holding a ready copy.
    """

    def __init__(
        self,
        kernel: Kernel,
        x: Rows,
        tiling: Tiling,
        n_threads: int = 1,
        *,
        dtype: Any = None,
        minus: float = 0.0,
        hold_bytes: int = 0,
        sliced: bool = False,
    ) -> None:
        self.kernel, self.tiling = kernel, tiling
        self.n_threads = n_threads if kernel.parallel else 1
        self.dtype: np.dtype[Any] = np.dtype(x.dtype if dtype is None else dtype)
        self.x = ready_rows(x, self.dtype, shift=kernel.shift_invariant, sliced=sliced)
        self.minus = minus
        self.listener: Callable[[Card, Array], None] | None = None  # is shown each tile made
        self._diag: Array | None = None
        n_held = hold_bytes // (tiling.width**2 * self.dtype.itemsize)
        self._held: list[Array | None] = [None] * min(n_held, tiling.n_upper)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    def tile(self, card: Card) -> Array:
        """A tile, less the constant. Whoever wants to change it takes a copy."""
        place, i, j = card
        held = self._held[place] if place < len(self._held) else None
        if held is not None:
            return held
        tile = self._made(i, j)
        if self.listener is not None:
            self.listener(card, tile)
        if place < len(self._held):
            self._held[place] = tile
        return tile

    def _made(self, i: slice, j: slice) -> Array:
        x_i = self.x[i]
        tile = self.kernel.tile(x_i, x_i if i == j else self.x[j])
        if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
            np.fill_diagonal(tile, self.kernel.tile_diag(x_i))
        if self.minus:
            tile -= self.minus
        return tile

    def matmat(self, v: Array) -> Array:
        """K v, each tile used for both sides of the diagonal."""
        product = tile_product(
            self.tiling, lambda: self.tile, v, dtype=self.dtype, n_threads=self.n_threads
        )
        if self.listener is not None or len(self._held) == self.tiling.n_upper:
            self.rest()
        else:
            self._forget()
        return product

    def rest(self) -> None:
        """Every tile has been kept: the ready rows have done their work, and are let go."""
        if isinstance(self.x, ShiftedRows):
            self.x = self.x.sliced()
        self._forget()

    def _forget(self) -> None:
        """Slices that are ready are of use within a pass, not between two."""
        if isinstance(self.x, SlicedRows):
            self.x.forget()

    def dense(self) -> Array:
        """K as a new array, less the constant if there is one."""
        matrix = np.empty((self.n, self.n), dtype=self.dtype)

        def hand(cards: Iterable[Card]) -> None:
            for card in cards:
                tile, (_, i, j) = self.tile(card), card
                matrix[i, j] = tile
                if i != j:
                    matrix[j, i] = tile.T

        over_tiles(self.tiling, hand, n_threads=self.n_threads)
        self._forget()
        return matrix

    def stored(self) -> StoredGram:
        """The same operator with the whole matrix in memory."""
        return StoredGram(self.dense(), self.n_threads, self.minus)

    def diag(self) -> Array:
        """The diagonal of K."""
        if self._diag is None:  # rows may have to be read for it
            slices = row_slices(self.n, self.tiling.width)
            self._diag = np.concatenate([self.kernel.tile_diag(self.x[i]) for i in slices])
            self._forget()
        return self._diag

    def cross(self, indices: Indices, v: Array) -> Array:
        """(K - c)[:, indices] @ v."""
        chosen = take_rows(self.x, indices)
        rounded = np.ascontiguousarray(v, dtype=self.dtype)
        out = np.empty((self.n, v.shape[1]), dtype=self.dtype)
        shift = self.minus * rounded.sum(axis=0)

        def hand(slices: Iterable[slice]) -> None:
            for i in slices:
                np.matmul(self.kernel.tile(self.x[i], chosen), rounded, out=out[i])
                out[i] -= shift

        share_out(hand, row_slices(self.n, self.tiling.width), n_threads=self.n_threads)
        self._forget()
        return out

    def some_rows(self, indices: Indices, v: Array) -> Array:  # (m,), (n, k) -> (m, k)
        """(K - c)[indices] @ v: a few rows of a product."""
        chosen = take_rows(self.x, indices)
        rounded = np.ascontiguousarray(v, dtype=self.dtype)

        def hand(slices: Iterable[slice]) -> Array:
            out = np.zeros((len(indices), v.shape[1]), dtype=self.dtype)
            for j in slices:
                out += self.kernel.tile(chosen, self.x[j]) @ rounded[j]
            return out

        slices = row_slices(self.n, self.tiling.width)
        sums = reduce(_added, share_out(hand, slices, n_threads=self.n_threads))
        self._forget()
        return sums - self.minus * rounded.sum(axis=0)

    def block(self, indices: Indices) -> Array:
        """(K - c)[indices][:, indices]."""
        chosen = take_rows(self.x, indices)
        return self.kernel.tile(chosen, chosen) - self.minus

    def __repr__(self) -> str:
        held = f", {len(self._held)} of {self.tiling.n_upper} tiles held" if self._held else ""
        return (
            f"TiledGram({self.kernel!r}, n={self.n}, tile={self.tiling.width}, {self.dtype}{held})"
        )


def _added(left: Array, right: Array) -> Array:
    left += right
    return left
