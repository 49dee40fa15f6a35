"""Tiles in sixteen bits: half the memory of float32, for products that float64 ones prove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from mercer._core.types import Array

LEVELS = 2**16 - 1


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
