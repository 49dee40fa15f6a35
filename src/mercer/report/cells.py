"""Too many points for a picture: how many lie in each cell of a grid, and which label most of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.report.png import packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mercer._core.types import Array, Indices
    from mercer.report.looks import Looks
    from mercer.report.svg import Frame

BINS = 160  # along either side
LEVELS = 6  # strengths of colour


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a grid that hold anything."""

    x: tuple[float, float]  # the range across, of all cells
    y: tuple[float, float]
    places: Indices  # (m,): row * BINS + column, rows from the bottom
    counts: Indices  # (m,)
    codes: NDArray[np.uint8]  # (m,): the most frequent label; the first of several
    majority: Indices  # (m,): how many have it

    def levels(self) -> Indices:  # (m,)
        """How strong each is drawn: by the logarithm of its count, for counts differ by thousands."""
        most = max(int(self.counts.max()), 2)
        level = np.floor(LEVELS * np.log(self.counts) / np.log(most))
        return np.minimum(level, LEVELS - 1).astype(np.intp)

    def paths(self, frame: Frame) -> Iterator[tuple[int, int, str]]:
        """For each label and level that occurs: squares in pixels, as one path."""
        wide = (frame.width - frame.left - frame.right) / BINS
        tall = (frame.height - frame.top - frame.bottom) / BINS
        left = frame.left + wide * (self.places % BINS)
        top = frame.height - frame.bottom - tall * (self.places // BINS + 1)
        end = f"h{wide:.2f}v{tall:.2f}h-{wide:.2f}z"
        level = self.levels()
        for code in np.unique(self.codes).tolist():
            for l in range(LEVELS):
                mine = (self.codes == code) & (level == l)
                if mine.any():
                    lots = zip(left[mine].tolist(), top[mine].tolist(), strict=True)
                    yield code, l, "".join(f"M{a:.1f} {b:.1f}{end}" for a, b in lots)

    def data(self) -> dict[str, Any]:
        """For the script."""
        return {
            "x": list(self.x),
            "y": list(self.y),
            "places": packed(self.places, "u2"),
            "counts": packed(self.counts, "u4"),
            "codes": packed(self.codes, "u1"),
            "majority": packed(self.majority, "u4"),
        }


def cells(
    x: Array, y: Array, x_range: tuple[float, float], y_range: tuple[float, float], looks: Looks
) -> Cells:
    """Count n points in a grid, and the labels in each cell."""
    place = BINS * _bin(y, y_range) + _bin(x, x_range)  # (n,)
    counts = np.bincount(place, minlength=BINS * BINS)
    best, majority = np.zeros(BINS * BINS, dtype=np.uint8), np.zeros_like(counts)
    for code in range(max(1, len(looks.names))):
        own = np.bincount(place[looks.codes == code], minlength=BINS * BINS)
        more = own > majority
        best[more], majority[more] = code, own[more]
    some = np.flatnonzero(counts)
    return Cells(x_range, y_range, some, counts[some], best[some], majority[some])


def _bin(values: Array, ends: tuple[float, float]) -> Indices:
    low, high = ends
    return np.clip(np.floor(BINS * (values - low) / (high - low)), 0, BINS - 1).astype(np.intp)
