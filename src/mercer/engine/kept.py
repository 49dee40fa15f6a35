"""Tiles that the NumPy engine keeps between products: as they are, in float32, or packed into 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.base import FLOAT32

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from mercer._core.types import Array
    from mercer.engine.base import Rounding, TileStore
    from mercer.engine.tiles import TileIndex, Tiling

    TileReader = Callable[[TileIndex], Array]

LEVELS = 2**16 - 1


class KeptTiles:
    """The content of a `TileStore`: the first tiles as they are, as many as fit, and all of them rounded.

    Rounded tiles are made from exact ones, by whichever product computes them first: the two kinds of product
    then differ by the rounding of entries alone (and of float32 sums), never by how a distance was computed.
    """

    def __init__(self, store: TileStore, tiling: Tiling, dtype: np.dtype[Any]) -> None:
        n_exact = store.keep_bytes // (tiling.width**2 * dtype.itemsize)
        self.exact: list[Array | None] = [None] * min(n_exact, tiling.n_upper)
        rounding = store.rounding
        self.rounded = None if rounding is None else RoundedTiles(rounding, tiling)
        self.complete = self.rounded is not None or len(self.exact) == tiling.n_upper

    def reader(self, make: TileReader) -> TileReader:
        """A thread's access to the exact tiles. To change one, copy it."""

        def tile(index: TileIndex) -> Array:
            place = index[0]
            kept = self.exact[place] if place < len(self.exact) else None
            if kept is not None:
                return kept
            made = make(index)
            if self.rounded is not None:
                self.rounded.keep(index, made)
            if place < len(self.exact):
                self.exact[place] = made
            return made

        return tile


class RoundedTiles:
    """All tiles in float32, or in 16 bits."""

    def __init__(self, rounding: Rounding, tiling: Tiling) -> None:
        self.rounding, self.entries = rounding, tiling.width**2
        # One array for all tiles: were each its own, the heap would keep the holes between them.
        shape = tiling.n_upper, self.entries
        self._pool = np.empty(shape, dtype=np.uint16 if rounding.packed else FLOAT32)
        self.tiles: list[Array | PackedTile | None] = [None] * tiling.n_upper

    def keep(self, index: TileIndex, tile: Array) -> None:
        """Round and keep a tile, unless it is kept already."""
        place, i, j = index
        if self.tiles[place] is not None:
            return
        room, minus = self._pool[place, : tile.size].reshape(tile.shape), self.rounding.minus
        if self.rounding.packed:
            rounded = np.subtract(tile, minus, dtype=FLOAT32, casting="same_kind")
            self.tiles[place] = PackedTile.of(rounded, on_diagonal=i == j, codes=room)
        else:
            self.tiles[place] = np.subtract(tile, minus, out=room, casting="same_kind")

    def reader(self, make: TileReader) -> TileReader:
        """A thread's access to the rounded tiles: it has room of its own to unpack them."""
        room = np.empty(self.entries if self.rounding.packed else 0, dtype=FLOAT32)

        def tile(index: TileIndex) -> Array:
            if self.tiles[index[0]] is None:
                self.keep(index, make(index))
            kept = self.tiles[index[0]]
            assert kept is not None
            return kept.unpacked(room) if isinstance(kept, PackedTile) else kept

        return tile


@dataclass(frozen=True, repr=False)
class PackedTile:
    """A float32 tile as low + step · codes: each entry within step/2, (high - low)/131070, of itself.

    Fixed point, not half floats: the entries of a tile of a bounded kernel are of one size, and so
    is their rounding, which acts like noise of a known small norm. The diagonal of K is far from
    its neighbours for a narrow kernel and would widen the steps for all of them: it is kept as it is.
    """

    codes: npt.NDArray[np.uint16]
    low: np.float32
    step: np.float32
    diag: Array | None  # of K, where the tile lies on it

    @classmethod
    def of(
        cls, tile: Array, *, on_diagonal: bool, codes: npt.NDArray[np.uint16] | None = None
    ) -> PackedTile:
        """Pack a tile, whose array is used up on the way, into `codes` where that is given."""
        diag = tile.diagonal().copy() if on_diagonal else None
        if on_diagonal:
            np.fill_diagonal(tile, tile[0, -1])
        low = tile.min()
        step = (tile.max() - low) / np.float32(LEVELS)
        tile -= low
        if step > np.finfo(np.float32).tiny:
            tile *= np.float32(1.0) / step
        tile += np.float32(0.5)
        if codes is None:
            codes = np.empty(tile.shape, dtype=np.uint16)
        with np.errstate(invalid="ignore"):  # what is not finite is told by `low` or `step`
            np.copyto(codes, tile, casting="unsafe")
        return cls(codes, low, step, diag)

    def unpacked(self, room: Array) -> Array:
        """The tile, written to the front of a flat float32 array."""
        tile = room[: self.codes.size].reshape(self.codes.shape)
        np.multiply(self.codes, self.step, out=tile, dtype=np.float32)
        tile += self.low
        if self.diag is not None:
            np.fill_diagonal(tile, self.diag)
        return tile
