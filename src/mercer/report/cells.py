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

    def paths(self) -> Iterator[tuple[int, int, str]]:
        """For each label and level that occurs one path, in units of cells, from the bottom up.

        Neighbours in a row that look the same are one rectangle: it is shorter, and has no seams.
        """
        level = self.levels()
        look = LEVELS * self.codes.astype(np.intp) + level  # (m,)
        for one in np.unique(look).tolist():
            places = self.places[look == one]
            first = np.flatnonzero(np.diff(places, prepend=-2) != 1)
            first = np.union1d(first, np.flatnonzero(places % BINS == 0))
            runs = np.diff(np.append(first, len(places)))
            lots = zip(
                (places[first] % BINS).tolist(),
                (places[first] // BINS).tolist(),
                runs.tolist(),
                strict=True,
            )
            yield one // LEVELS, one % LEVELS, "".join(f"M{a} {b}h{c}v1h-{c}z" for a, b, c in lots)

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
