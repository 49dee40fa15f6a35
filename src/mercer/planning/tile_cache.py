"""How the tiles of K are held: all in float32, all in sixteen bits, or as many as there is room for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mercer._core.memory import format_bytes
from mercer.engine.tiles import PACKED, SINGLE, Tiling

if TYPE_CHECKING:
    from mercer.planning.problem import Problem


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
                "half of K does not fit in float32: its tiles are held in 16 bits, whose rounding is "
                "measured on rows in float64",
            )
        if self.share < 1.0:
            wanted, held = format_bytes(self.n_tiles * self.tile), format_bytes(self.n_bytes)
            return (
                f"half of K would take {wanted}, and {held} are left for it: the other tiles are made "
                "anew for each product",
            )
        return ()


def holding(problem: Problem, *, width: int, itemsize: int, free: int) -> Holding:
    """Tiles of `itemsize` bytes an entry, as many as fit in `free` bytes."""
    return Holding(Tiling(problem.n, width).n_upper, width * width * itemsize, 0).within(free)


def rounded_holding(
    problem: Problem, *, width: int, free: int, ready: int, most: int
) -> Holding | None:
    """All tiles, in float32 or else in sixteen bits, in at most `most` bytes.

    `ready` more bytes than `free` are there if rows are sliced.
    """
    single = holding(problem, width=width, itemsize=SINGLE, free=free)
    sliced = replace(single, sliced=True)
    # Entries of a bounded kernel are of one size, so sixteen bits hold them all.
    packed = replace(sliced, tile=width * width * PACKED, packed=True)
    ways = [single, sliced.within(free + ready)]
    if problem.shift_invariant:
        ways.append(packed.within(free + ready))
    return next((way for way in ways if way.share == 1.0 and way.n_bytes <= most), None)
