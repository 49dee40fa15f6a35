"""Tiles that the NumPy engine keeps between products: as they are, in float32, or packed into 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mercer._core.types import Array
from mercer.engine.base import FLOAT32, TileKernel
from mercer.engine.tiles import TileIndex, n_upper, places

if TYPE_CHECKING:
    from mercer.engine.numpy import HostRows

LEVELS = 2**16 - 1


class KeptTiles:
    """The tiles of K - c: those that a `TileStore` has room for are kept, the others made anew each time.

    Rounded tiles are made from exact ones, by whichever product computes them first: the two kinds of product
    then differ by the rounding of entries alone (and of float32 sums), never by how a distance was computed.
    """

    def __init__(self, x: HostRows, width: int) -> None:  # x is not held: it holds these tiles
        self.width, self.minus, self.rounding = width, x.store.minus, x.store.rounding
        n_tiles = len(places(n_upper(x.n, width), x.part))
        n_exact = x.store.keep_bytes // (width**2 * x.dtype.itemsize)
        self._exact: list[Array | None] = [None] * min(n_exact, n_tiles)
        self._rounded: list[Array | PackedTile | None] = []
        self.room = 0  # float32 entries that a thread needs to unpack a tile
        if self.rounding is not None:
            self._rounded = [None] * n_tiles
            self.room = width**2 if self.rounding.packed else 0
            # One array for all tiles: were each its own, the heap would keep the holes between them.
            entry = np.uint16 if self.rounding.packed else FLOAT32
            self._pool = np.empty((n_tiles, width**2), dtype=entry)
        self.complete = self.rounding is not None or len(self._exact) == n_tiles

    def exact(
        self, kernel: TileKernel, x: HostRows, index: TileIndex, room: Array | None = None
    ) -> Array:
        """A tile in full precision. To change it, copy it."""
        del room
        place, i, j = index
        keeps = place < len(self._exact)
        kept = self._exact[place] if keeps else None
        if kept is not None:
            return kept
        x_i = x[i]
        tile = kernel.tile(x_i, x_i if i == j else x[j])
        if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
            np.fill_diagonal(tile, kernel.tile_diag(x_i))
        if self.minus:
            tile -= self.minus
        if self._rounded and self._rounded[place] is None:
            self._round(index, tile)
        if keeps:
            self._exact[place] = tile
        return tile

    def rough(self, kernel: TileKernel, x: HostRows, index: TileIndex, room: Array) -> Array:
        """A rounded tile, unpacked into the thread's own room where it is packed."""
        if self._rounded[index[0]] is None:
            self.exact(kernel, x, index)
        kept = self._rounded[index[0]]
        assert kept is not None
        return kept.unpacked(room) if isinstance(kept, PackedTile) else kept

    def _round(self, index: TileIndex, tile: Array) -> None:
        place, i, j = index
        assert self.rounding is not None
        room, minus = self._pool[place, : tile.size].reshape(tile.shape), self.rounding.minus
        if self.rounding.packed:
            rounded = np.subtract(tile, minus, dtype=FLOAT32, casting="same_kind")
            self._rounded[place] = PackedTile.of(rounded, on_diagonal=i == j, codes=room)
        else:
            self._rounded[place] = np.subtract(tile, minus, out=room, casting="same_kind")


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
    def of(cls, tile: Array, *, on_diagonal: bool, codes: npt.NDArray[np.uint16]) -> PackedTile:
        """Pack a tile, whose array is used up on the way, into `codes`."""
        diag = tile.diagonal().copy() if on_diagonal else None
        if on_diagonal:
            np.fill_diagonal(tile, tile[0, -1])
        low = tile.min()
        step = (tile.max() - low) / np.float32(LEVELS)
        tile -= low
        if step > np.finfo(np.float32).tiny:
            tile *= np.float32(1.0) / step
        tile += np.float32(0.5)
        with np.errstate(invalid="ignore"):  # `low` or `step` shows what is not finite
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
