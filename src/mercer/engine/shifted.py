"""Rows made ready for distances: shifted to a common centre, their squared norms beside them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import RowSource, row_slices, take_rows
from mercer.engine.tiles import BAND

# Enough rows for a centre: any point near the data does.
CENTRE_ROWS = 31
SLICE_ROWS = 128  # at a time
RECENT = BAND + 2  # slices of rows that are kept ready


@dataclass(frozen=True, repr=False)
class Shift:
    """A common centre of rows, and how far a shift to it may move one of them."""

    centre: Array  # (d,) float64
    blur: float | None = None  # None: seen from each slice
    # Columns in which the rows differ; None: any may. The others add nothing to any distance, and in
    # pictures they are many (the margins): every product is shorter without them.
    columns: Indices | None = None

    def apply(self, x: Array, dtype: np.dtype[Any]) -> ShiftedRows:
        """Shift dense rows and round the result to `dtype`."""
        n, d = x.shape[0], x.shape[1] if self.columns is None else len(self.columns)
        augmented = np.empty((n, d + 2), dtype=dtype)
        rows = augmented[:, :-2]
        # Each float32 is a float64: shifted in the better precision.
        better = np.result_type(x.dtype, dtype) == x.dtype
        centre = self.centre.astype(x.dtype) if better else self.centre
        if self.columns is None:
            np.subtract(x, centre, out=rows, casting="same_kind")
        else:
            for i in row_slices(n, SLICE_ROWS):  # choosing columns makes a copy: of few at a time
                some = np.take(x[i], self.columns, axis=1)
                np.subtract(some, centre[self.columns], out=rows[i], casting="same_kind")
        np.einsum("id,id->i", rows, rows, out=augmented[:, -2])
        augmented[:, -1] = 1.0
        blur = blur_of(x, self.centre, dtype)[0] if self.blur is None else self.blur
        return ShiftedRows(augmented, x, self, blur)


@dataclass(repr=False)
class ShiftedRows:
    """[x - c, ‖x - c‖², 1] for each row x.

    ‖x-y‖² = ‖x‖² - 2x·y + ‖y‖² cancels badly when the data lie far from the origin; a shift by a common
    point changes no distance and cures that. With the norms and a one as two more columns the whole
    expansion is a single product, which saves two passes over the tile. Done once for all rows.
    """

    augmented: Array  # (n, d + 2), or less where columns are constant
    original: Array  # (n, d): x as it is, for where a shift would lose digits
    shift: Shift
    blur: float  # how far the shift may have moved a row
    sides: dict[float, Array] = field(default_factory=dict)  # by scale: the last one made

    def __post_init__(self) -> None:
        self.shape, self.dtype = self.original.shape, self.augmented.dtype
        self.norms = self.augmented[:, -2]  # (n,): ‖x - c‖²

    def __getitem__(self, key: Any) -> Any:
        """Some of the rows, made ready; some of the columns (a tuple), as a plain array of originals."""
        if isinstance(key, tuple):
            return self.original[key].astype(self.dtype, copy=False)
        return ShiftedRows(self.augmented[key], self.original[key], self.shift, self.blur)

    def weighted(self, scale: float) -> Array:  # (n, d + 2)
        """Scale · [-2x, 1, ‖x‖²]: its product with other rows is scale · ‖x - y‖².

        Kept for the next tile, as these rows are where they are slices: some meet many others in turn.
        """
        side = self.sides.get(scale)
        if side is None:
            side = np.empty_like(self.augmented)
            np.multiply(self.augmented[:, :-2], -2.0 * scale, out=side[:, :-2])
            side[:, -2] = scale
            np.multiply(self.norms, scale, out=side[:, -1])
            self.sides.clear()
            self.sides[scale] = side
        return side

    def plain(self) -> Array:  # (n, d)
        """X itself, in the precision of the shifted rows."""
        return self.original.astype(self.dtype, copy=False)

    def sliced(self) -> SlicedRows:
        """The same rows without the ready copy: it is made again, slice by slice, where one is read."""
        return SlicedRows(self.original, self.dtype, self.shift)


class SlicedRows:
    """Rows that stay where they are: each slice is made ready when it is read."""

    def __init__(self, x: Rows, dtype: np.dtype[Any], shift: Shift | None) -> None:
        self.original, self.dtype, self.shift = x, dtype, shift  # None: as they are
        self.shape = int(x.shape[0]), int(x.shape[1])
        # The slices used last: a band of tiles and the columns that the threads are at.
        self.recent: dict[Any, Rows] = {}
        self.lock = threading.Lock()

    def __getitem__(self, key: Any) -> Any:
        place = (key.start, key.stop) if isinstance(key, slice) and key.step is None else None
        # Threads come to the same columns at once: one makes them ready, and the others wait for it.
        with self.lock:
            rows = self.recent.pop(place, None)
            if rows is None:
                rows = self.original[key]
                if self.shift is None or sparse.issparse(rows):
                    rows = rows.astype(self.dtype, copy=False)
                else:
                    rows = self.shift.apply(rows, self.dtype)
            if place is not None:
                self.recent[place] = rows
            while len(self.recent) > RECENT:
                del self.recent[next(iter(self.recent))]
        return rows

    def forget(self) -> None:
        """Let go of the slices that are ready."""
        with self.lock:
            self.recent.clear()


def ready_rows(x: Rows, dtype: np.dtype[Any], *, shift: bool, sliced: bool = False) -> Rows:
    """The rows in `dtype`, shifted where only differences count; the caller's array stays as it is.

    ``sliced``: without a ready copy of all rows, to save memory where they are read once.
    """
    in_memory = not isinstance(x, RowSource)
    if sparse.issparse(x) or (in_memory and not shift and not sliced):
        return x.astype(dtype, copy=False)
    if not shift:
        return SlicedRows(x, dtype, None)
    centre = centre_of(x)
    if not in_memory:
        return SlicedRows(x, dtype, Shift(centre))
    blur, differ = blur_of(x, centre, dtype)
    known = Shift(centre, blur, None if np.all(differ) else np.flatnonzero(differ))
    return SlicedRows(x, dtype, known) if sliced else known.apply(x, dtype)


def centre_of(x: Rows) -> Array:  # -> (d,)
    """The median of some rows: where most of them are, however far away a few may lie."""
    n = int(x.shape[0])
    if isinstance(x, np.ndarray):
        some = x[:: -(-n // CENTRE_ROWS) or 1]
    else:
        some = take_rows(x, np.unique(np.linspace(0, max(n - 1, 0), CENTRE_ROWS).astype(np.intp)))
    some, half = some.astype(np.float64, copy=False), len(some) // 2
    if len(some) == 0:
        return np.full(x.shape[1], np.nan)
    # What `np.median` does, which takes three times as long for a few rows, since it looks for NaN.
    if len(some) % 2:
        return np.partition(some, half, axis=0)[half]
    middle = np.partition(some, (half - 1, half), axis=0)
    return np.asarray(0.5 * (middle[half - 1] + middle[half]))


def blur_of(x: Array, centre: Array, dtype: np.dtype[Any]) -> tuple[float, Array]:  # -> blur, (d,)
    """Eps ‖c‖ over the columns in which x - c is not exact, and which columns the rows differ in.

    A difference is exact when neither number is more than twice the other (Sterbenz). Elsewhere it is
    rounded to about eps|c|, which matters for rows that are much nearer to each other than to c.
    """
    if len(x) == 0:
        return 0.0, np.zeros(x.shape[1], dtype=bool)
    low, high = (end.reduce(x, axis=0).astype(np.float64) for end in (np.minimum, np.maximum))
    differ, size, below = low != high, np.abs(centre), centre < 0
    low, high = np.where(below, -high, low), np.where(below, -low, high)
    exact = (low >= 0.5 * size) & (high <= 2.0 * size)
    eps = np.finfo(np.result_type(x.dtype, dtype)).eps
    with np.errstate(over="ignore"):  # infinite: no distance is then taken of shifted rows
        blur = float(eps * np.linalg.norm(np.where(exact, 0.0, centre)))
    return blur, differ
