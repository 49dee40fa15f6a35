"""THE tile loop: every entry of a kernel matrix comes from here, to be kept or used at once."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.rows import take_rows
from mercer.engine.shifted import ShiftedRows, ready_rows
from mercer.engine.threads import share_out
from mercer.engine.tiles import Tiling, row_slices
from mercer.operators.dense import StoredGram
from mercer.operators.packed import PackedTile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels.base import Kernel

    # Its place in the upper triangle, its rows, its columns.
    Card = tuple[int, slice, slice]

PACKED = 2  # bytes of an entry in sixteen bits


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
    packed : bool, default=False
        Hold float32 tiles in sixteen bits (`PackedTile`); every product then uses what was packed.
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
        packed: bool = False,
        sliced: bool = False,
    ) -> None:
        self.kernel, self.tiling = kernel, tiling
        self.n_threads = n_threads if kernel.parallel else 1
        self.dtype: np.dtype[Any] = np.dtype(x.dtype if dtype is None else dtype)
        self.x = ready_rows(x, self.dtype, shift=kernel.shift_invariant, sliced=sliced)
        self.minus, self.packed = minus, packed
        self._diag: Array | None = None
        n_held = hold_bytes // (tiling.width**2 * (PACKED if packed else self.dtype.itemsize))
        self._held: list[Array | PackedTile | None] = [None] * min(n_held, tiling.n_upper)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    def _tile(self, card: Card, room: Array) -> Array:
        """A tile, less the constant. Whoever wants to change it takes a copy."""
        place, i, j = card
        if place >= len(self._held):
            return self._made(i, j)
        held = self._held[place]
        if held is None:
            held = self._made(i, j)
            if self.packed:
                held = PackedTile.of(held, on_diagonal=i == j)
            self._held[place] = held
        return held.unpacked(room) if isinstance(held, PackedTile) else held

    def _room(self) -> Array:
        """Where a thread unpacks its tiles."""
        return np.empty(self.tiling.width**2 if self.packed else 0, dtype=self.dtype)

    def _made(self, i: slice, j: slice) -> Array:
        x_i = self.x[i]
        tile = self.kernel.tile(x_i, x_i if i == j else self.x[j])
        if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
            np.fill_diagonal(tile, self.kernel.tile_diag(x_i))
        if self.minus:
            tile -= self.minus
        return tile

    def _over_tiles(self, hand: Callable[[Iterable[Card]], Any]) -> list[Any]:
        cards = [(place, i, j) for place, (i, j) in enumerate(self.tiling.upper())]
        return share_out(hand, cards, n_threads=self.n_threads)

    def matmat(self, v: Array) -> Array:
        """K v, each tile used for both sides of the diagonal."""
        rounded = np.ascontiguousarray(v, dtype=self.dtype)

        def hand(cards: Iterable[Card]) -> Array:
            # In the precision of the tiles: adding float32 products to a float64 sum would take a
            # sixth of the time, and the products themselves are no better than float32.
            out = np.zeros(v.shape, dtype=self.dtype)
            room = self._room()
            for card in cards:
                tile, (_, i, j) = self._tile(card, room), card
                out[i] += tile @ rounded[j]
                if i != j:
                    out[j] += tile.T @ rounded[i]
            return out

        sums = [part.astype(v.dtype, copy=False) for part in self._over_tiles(hand)]
        if isinstance(self.x, ShiftedRows) and len(self._held) == self.tiling.n_upper:
            self.x = self.x.sliced()  # every tile is there: the ready rows have done their work
        return reduce(_added, sums)

    def dense(self) -> Array:
        """K as a new array, less the constant if there is one."""
        matrix = np.empty((self.n, self.n), dtype=self.dtype)

        def hand(cards: Iterable[Card]) -> None:
            room = self._room()
            for card in cards:
                tile, (_, i, j) = self._tile(card, room), card
                matrix[i, j] = tile
                if i != j:
                    matrix[j, i] = tile.T

        self._over_tiles(hand)
        return matrix

    def stored(self) -> StoredGram:
        """The same operator with the whole matrix in memory."""
        return StoredGram(self.dense(), self.n_threads)

    def diag(self) -> Array:
        """The diagonal of K."""
        if self._diag is None:  # rows may have to be read for it
            slices = row_slices(self.n, self.tiling.width)
            self._diag = np.concatenate([self.kernel.tile_diag(self.x[i]) for i in slices])
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
        return out

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
