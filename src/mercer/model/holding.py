"""How the tiles of K are held: all in float32, all in sixteen bits, or as many as there is room for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mercer._core.memory import format_bytes
from mercer.engine.tiles import Tiling
from mercer.operators.tiled import PACKED

if TYPE_CHECKING:
    from mercer.model.problem import Problem


@dataclass(frozen=True)
class Holding:
    """Tiles of one triangle of K, and what of them stays between products."""

    n_tiles: int
    tile: int  # bytes of one, as it is held
    n_held: int
    packed: bool = False
    sliced: bool = False  # the proof makes its rows ready slice by slice, and leaves room for tiles

    @property
    def n_bytes(self) -> int:
        """Of the tiles that are held."""
        return self.n_held * self.tile

    @property
    def share(self) -> float:
        """Of the tiles that are held, in all of them."""
        return self.n_held / self.n_tiles

    def within(self, free: int) -> Holding:
        """As much of it as fits."""
        return replace(self, n_held=max(0, min(self.n_tiles, free // self.tile)))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why K is not simply held."""
        if self.packed:
            return (
                "half of K does not fit in float32: its tiles are held in 16 bits, whose rounding the "
                "float64 proof sees and corrects",
            )
        if self.share < 1.0:
            wanted, held = format_bytes(self.n_tiles * self.tile), format_bytes(self.n_bytes)
            return (
                f"half of K would take {wanted}, and {held} are left for it: the other tiles are made "
                "anew for each product",
            )
        return ()


def holding(problem: Problem, *, width: int, sketch: bool, free: int, ready: int) -> Holding:
    """The best there is room for in `free` bytes; `ready` more are free if the proof's rows are sliced."""
    n_tiles = Tiling(problem.n, width).n_upper
    whole = Holding(n_tiles, width * width * (4 if sketch else problem.itemsize), 0).within(free)
    if whole.share == 1.0 or not sketch:
        return whole
    whole = replace(whole, sliced=True).within(free + ready)
    # Entries of a bounded kernel are of one size, so sixteen bits hold them all. They are no gain
    # where tiles would have to be made anew all the same: corrections cost passes.
    packed = replace(whole, tile=width * width * PACKED, packed=True).within(free + ready)
    if whole.share < 1.0 and packed.share == 1.0 and problem.shift_invariant:
        return packed
    return whole
