"""Tiles of k(X, X) on the device: what is kept of them between products, and one pass over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.types import Array
from mercer.engine.base import FLOAT32
from mercer.engine.numpy import LEVELS
from mercer.engine.tiles import PACKED, TileIndex, n_upper, places, upper_tiles
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.place import kept_tiles
from mercer.engine.torch.vectors import found_for

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.rows import TorchRows

MIDDLE = 2**15  # torch has no unsigned numbers of 16 bits to compute with


class KeptTiles:
    """The tiles of K - c: as they are, or rounded, while there is room; the others are made each time.

    Rounded tiles are made of exact ones, whether they are kept or not, so that no bit of a product depends on
    how much memory the device has.
    """

    def __init__(self, x: TorchRows, width: int) -> None:  # x is not held: it holds these tiles
        self.width, store = width, x.store
        self.rounding = store.rounding
        n_tiles, free = len(places(n_upper(x.n, width), x.part)), x.place.free_bytes
        size = width**2 * x.dtype.itemsize
        self.n_exact = kept_tiles(n_tiles, size, asked_bytes=store.keep_bytes, free_bytes=free)
        self.n_rounded = 0
        if store.rounding is not None and not store.rounding.halves:
            each = width**2 * (PACKED if store.rounding.packed else FLOAT32.itemsize)
            left = free - 2 * self.n_exact * size
            self.n_rounded = kept_tiles(n_tiles, each, asked_bytes=n_tiles * each, free_bytes=left)
        self._exact: dict[int, Tensor] = {}
        self._rounded: dict[int, Tensor | Codes] = {}

    def exact(self, x: TorchRows, index: TileIndex) -> Tensor:
        """A tile in full precision. To change it, copy it."""
        place, i, j = index
        if place in self._exact:
            return self._exact[place]
        rows = x.side(i)
        tile = values(x.program, rows, rows if i == j else x.side(j))
        if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
            tile.diagonal().copy_(values(x.program, rows))
        if x.store.minus:
            tile.sub_(x.store.minus)
        if place < self.n_rounded and place not in self._rounded:
            self._rounded[place] = self._round(tile, on_diagonal=i == j)
        if place < self.n_exact:
            self._exact[place] = tile
        return tile

    def rough(self, x: TorchRows, index: TileIndex) -> Tensor:
        """A rounded tile in float32."""
        place, i, j = index
        kept = self._rounded.get(place)
        if kept is None:
            tile = self.exact(x, index)
            kept = self._rounded.get(place)
            kept = self._round(tile, on_diagonal=i == j) if kept is None else kept
        return kept.unpacked() if isinstance(kept, Codes) else kept

    def _round(self, tile: Tensor, *, on_diagonal: bool) -> Tensor | Codes:
        import torch

        assert self.rounding is not None
        rounded = (tile - self.rounding.minus).to(torch.float32)
        return Codes.of(rounded, on_diagonal=on_diagonal) if self.rounding.packed else rounded


@dataclass(frozen=True, repr=False, eq=False)
class Codes:
    """A float32 tile as low + step · codes: fixed point of 16 bits, as `engine.numpy.PackedTile` has it."""

    codes: Tensor  # int16
    low: Tensor
    step: Tensor
    diag: Tensor | None  # of K, where the tile lies on it

    @classmethod
    def of(cls, tile: Tensor, *, on_diagonal: bool) -> Codes:
        """Pack a tile, which is used up on the way."""
        import torch

        diag = None
        if on_diagonal:  # far from its neighbours for a narrow kernel: it would widen all steps
            diag = tile.diagonal().clone()
            tile.diagonal().copy_(tile[0, -1].expand(len(diag)))
        low, high = tile.aminmax()
        step = (high - low) / LEVELS
        tile.sub_(low).div_(step.clamp(min=float(np.finfo(np.float32).tiny))).round_()
        return cls(tile.sub_(MIDDLE).to(torch.int16), low, step, diag)

    def unpacked(self) -> Tensor:
        tile = self.codes.to(self.low.dtype).add_(MIDDLE).mul_(self.step).add_(self.low)
        if self.diag is not None:
            tile.diagonal().copy_(self.diag)
        return tile


def kept_of(x: TorchRows) -> KeptTiles:
    """What is kept of the tiles so far, and how the others are made."""
    if x.kept is None:
        x.settle()
        width = x.narrowed or x.width or x.place.width(x.dtype, x.program.depth)
        x.kept = KeptTiles(x, min(width, x.n))
    return x.kept


def symmetric_times(x: TorchRows, v: Array, *, rough: bool) -> Array:  # (n, k) -> (n, k)
    """K @ V in the dtype of V, each tile used for both sides of the diagonal.

    One tile after another, so that sums are the same in every run. Products of a tile are in its precision,
    sums over tiles in that of the device's sums, float64 where it has it.
    """
    kept = kept_of(x)
    read, dtype = (kept.rough, FLOAT32) if rough else (kept.exact, x.dtype)
    right, sums = x.place.tensor(v, dtype), x.place.zeros(v.shape, x.place.sums)
    for index in upper_tiles(x.n, kept.width, x.part):
        tile, (_, i, j) = read(x, index), index
        sums[i] += tile @ right[j]
        if i != j:
            sums[j] += tile.T @ right[i]
    x.forget()
    return found_for(v, sums)


def matrix(x: TorchRows) -> Array:  # -> (n, n)
    """K, each tile written to both sides of the diagonal."""
    kept, out = kept_of(x), np.empty((x.n, x.n), dtype=x.dtype)
    for index in upper_tiles(x.n, kept.width):
        tile, (_, i, j) = kept.exact(x, index).cpu().numpy(), index
        out[i, j] = tile
        if i != j:
            out[j, i] = tile.T
    x.forget()
    return out
