"""K rounded to float32 or to sixteen bits, all of it held: for products that a few exact ones correct."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.operators.packed import PackedTile
from mercer.operators.tiled import tile_product

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Indices
    from mercer.operators.tiled import Card, TiledGram

SINGLE, PACKED = 4, 2  # bytes of an entry


class RoundedGram:
    """The tiles of another operator, made once, rounded and held.

    A tile is made in the precision of `exact`, by whichever of the two comes to it first: a product with
    `exact` costs no more for filling this one. The two then differ by the rounding of entries alone
    (and of float32 sums), never by how a distance was computed.

    Parameters
    ----------
    exact : TiledGram
        Shows each tile that it makes to this operator from now on.
    minus : float, default=0.0
        A constant taken off every entry before it is rounded. H(K - c11ᵀ)H = HKH, and entries about zero
        round to smaller errors than entries about c.
    packed : bool, default=False
        Hold tiles in sixteen bits (`PackedTile`), not in float32.
    """

    def __init__(self, exact: TiledGram, *, minus: float = 0.0, packed: bool = False) -> None:
        self.exact, self.minus, self.packed = exact, minus, packed
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        n_tiles, entries = exact.tiling.n_upper, exact.tiling.width**2
        # One array for all tiles: were each its own, the heap would keep the holes between them.
        self._pool = np.empty((n_tiles, entries), dtype=np.uint16 if packed else self.dtype)
        self._held: list[Array | PackedTile | None] = [None] * n_tiles
        exact.listener = _shown_to(self)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.exact.n

    def keep(self, card: Card, tile: Array) -> None:
        """Round and hold a tile, unless it is held already."""
        place, i, j = card
        if self._held[place] is not None:
            return
        room = self._pool[place, : tile.size].reshape(tile.shape)
        if self.packed:
            rounded = np.subtract(tile, self.minus, dtype=self.dtype, casting="same_kind")
            self._held[place] = PackedTile.of(rounded, on_diagonal=i == j, codes=room)
        else:
            self._held[place] = np.subtract(tile, self.minus, out=room, casting="same_kind")

    def _tiles(self) -> Callable[[Card], Array]:
        """A thread's way to the tiles: it has room of its own to unpack them."""
        room = np.empty(self.exact.tiling.width**2 if self.packed else 0, dtype=self.dtype)

        def tile(card: Card) -> Array:
            place = card[0]
            if self._held[place] is None:
                self.exact.tile(card)  # shows it to `keep`
            held = self._held[place]
            assert held is not None
            return held.unpacked(room) if isinstance(held, PackedTile) else held

        return tile

    def matmat(self, v: Array) -> Array:
        """(K - c) v, rounded."""
        exact = self.exact
        product = tile_product(
            exact.tiling, self._tiles, v, dtype=self.dtype, n_threads=exact.n_threads
        )
        exact.rest()
        return product

    def diag(self) -> Array:
        """The diagonal of K."""
        return self.exact.diag()

    def cross(self, indices: Indices, v: Array) -> Array:
        """(K - c)[:, indices] @ v, not rounded: it is made anew."""
        return self.exact.cross(indices, v) - self.minus * v.sum(axis=0)

    def block(self, indices: Indices) -> Array:
        """(K - c)[indices][:, indices], not rounded."""
        return self.exact.block(indices) - self.minus

    def dense(self) -> Array:
        """K - c as a new array, not rounded."""
        return self.exact.dense() - self.minus

    def __repr__(self) -> str:
        return f"RoundedGram({self.exact!r}, {'16 bits' if self.packed else self.dtype})"


def _shown_to(gram: RoundedGram) -> Callable[[Card, Array], None]:
    """Hands tiles on to `gram` as long as somebody else has a use for it.

    By a weak reference: each of the two would else keep the other alive, and all tiles with them.
    """
    listener = weakref.ref(gram)

    def show(card: Card, tile: Array) -> None:
        found = listener()
        if found is not None:
            found.keep(card, tile)

    return show
