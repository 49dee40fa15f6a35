"""THE tile loop: every entry of a kernel matrix comes from here, to be stored or used at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.threads import share_out
from mercer.engine.tiles import Tiling, row_slices
from mercer.operators.dense import StoredGram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels.base import Kernel

    TileSlices = tuple[slice, slice]


@dataclass(frozen=True, repr=False)
class TiledGram:
    """K = [k(x_i, x_j)], never stored: one tile a thread lives at a time."""

    kernel: Kernel
    x: Rows  # (n, d)
    tiling: Tiling
    n_threads: int = 1

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the tiles."""
        return np.dtype(self.x.dtype)

    def _tile(self, i: slice, j: slice) -> Array:
        tile = self.kernel.tile(self.x[i], self.x[j])
        if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
            np.fill_diagonal(tile, self.kernel.tile_diag(self.x[i]))
        return tile

    def _over_tiles(self, hand: Callable[[Iterable[TileSlices]], Any]) -> list[Any]:
        n_threads = self.n_threads if self.kernel.parallel else 1
        return share_out(hand, self.tiling.upper(), n_threads=n_threads)

    def matmat(self, v: Array) -> Array:
        """K v, each tile used for both sides of the diagonal."""

        def hand(tiles: Iterable[TileSlices]) -> Array:
            out = np.zeros(v.shape, dtype=v.dtype)
            for i, j in tiles:
                tile = self._tile(i, j)
                out[i] += tile @ v[j]
                if i != j:
                    out[j] += tile.T @ v[i]
            return out

        return reduce(np.add, self._over_tiles(hand))

    def dense(self, minus: float = 0.0) -> Array:
        """K as a new array, less a constant if one is given."""
        matrix = np.empty((self.n, self.n), dtype=self.dtype)

        def hand(tiles: Iterable[TileSlices]) -> None:
            for i, j in tiles:
                tile = self._tile(i, j)
                if minus:
                    tile -= minus
                matrix[i, j] = tile
                if i != j:
                    matrix[j, i] = tile.T

        self._over_tiles(hand)
        return matrix

    def stored(self, minus: float = 0.0) -> StoredGram:
        """The same operator with the matrix in memory."""
        return StoredGram(self.dense(minus), self.n_threads)

    def diag(self) -> Array:
        """The diagonal."""
        parts = (self.kernel.tile_diag(self.x[i]) for i in row_slices(self.n, self.tiling.width))
        return np.concatenate(list(parts))

    def columns(self, indices: Indices) -> Array:
        """K[:, indices]."""
        chosen = self.x[indices]
        parts = (self.kernel.tile(self.x[i], chosen) for i in row_slices(self.n, self.tiling.width))
        return np.concatenate(list(parts))

    def __repr__(self) -> str:
        return f"TiledGram({self.kernel!r}, n={self.n}, tile={self.tiling.width}, {self.dtype})"
