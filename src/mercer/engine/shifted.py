"""Rows made ready for distances: shifted to a common centre, their squared norms beside them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer.engine.rows import RowSource, take_rows
from mercer.engine.tiles import BAND

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows

# Enough rows for a centre: any point near the data does.
CENTRE_ROWS = 500
RECENT = BAND + 2  # slices of rows that are kept ready


@dataclass(frozen=True, repr=False)
class Shift:
    """A common centre of rows, and how far a shift to it may move one of them."""

    centre: Array  # (d,) float64
    blur: float | None = None  # None: seen from each slice

    def apply(self, x: Array, dtype: np.dtype[Any]) -> ShiftedRows:
        """Shift dense rows and round the result to `dtype`."""
        n, d = x.shape
        augmented = np.empty((n, d + 2), dtype=dtype)
        rows = augmented[:, :-2]
        if np.result_type(x.dtype, dtype) == x.dtype:
            np.subtract(x, self.centre.astype(x.dtype), out=rows, casting="same_kind")
        else:  # each float32 is a float64: shifted in the better precision
            np.subtract(x, self.centre, out=rows)
        np.einsum("id,id->i", rows, rows, out=augmented[:, -2])
        augmented[:, -1] = 1.0
        known = Shift(self.centre, _blur(x, self.centre, dtype)) if self.blur is None else self
        return ShiftedRows(augmented, x, known)


@dataclass(frozen=True, repr=False)
class ShiftedRows:
    """[x - c, ‖x - c‖², 1] for each row x.

    ‖x-y‖² = ‖x‖² - 2x·y + ‖y‖² cancels badly when the data lie far from the origin; a shift by a common
    point changes no distance and cures that. With the norms and a one as two more columns the whole
    expansion is a single product, which saves two passes over the tile. Done once for all rows, not
    once a tile.
    """

    augmented: Array  # (n, d + 2)
    original: Array  # (n, d): x as it came, for where a shift would lose digits
    shift: Shift  # its blur is known

    @property
    def blur(self) -> float:
        """How far the shift may have moved a row."""
        return self.shift.blur or 0.0

    @property
    def rows(self) -> Array:  # (n, d)
        """X - c."""
        return self.augmented[:, :-2]

    @property
    def norms(self) -> Array:  # (n,)
        """‖x - c‖²."""
        return self.augmented[:, -2]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.original.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the rows."""
        return self.augmented.dtype

    def __getitem__(self, key: Any) -> Any:
        """Some of the rows, made ready; some of the columns (a tuple), as a plain array of originals."""
        if isinstance(key, tuple):
            return self.original[key].astype(self.dtype, copy=False)
        return ShiftedRows(self.augmented[key], self.original[key], self.shift)

    def plain(self) -> Array:  # (n, d)
        """X itself, in the precision of the shifted rows."""
        return self.original.astype(self.dtype, copy=False)

    def sliced(self) -> SlicedRows:
        """The same rows without the ready copy: it is made again, slice by slice, where one is read."""
        return SlicedRows(self.original, self.dtype, self.shift)


@dataclass(frozen=True, repr=False)
class SlicedRows:
    """Rows that stay where they are: each slice is made ready when it is read."""

    x: Rows
    dtype: np.dtype[Any]
    shift: Shift | None  # None: as they are
    # The slices used last: a band of tiles and the columns that the threads are at.
    recent: dict[tuple[int, int], Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self.x.shape[0]), int(self.x.shape[1])

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice) or key.step is not None:
            return self._read(key)
        place = key.start, key.stop
        with self.lock:
            rows = self.recent.pop(place, None)
        if rows is None:
            rows = self._read(key)  # by two threads at once at worst
        with self.lock:
            self.recent[place] = rows
            while len(self.recent) > RECENT:
                del self.recent[next(iter(self.recent))]
        return rows

    def _read(self, key: Any) -> Any:
        rows = self.x[key]
        if self.shift is None or sparse.issparse(rows):
            return rows.astype(self.dtype, copy=False)
        return self.shift.apply(rows, self.dtype)


def ready_rows(x: Rows, dtype: np.dtype[Any], *, shift: bool, sliced: bool = False) -> Rows:
    """The rows in `dtype`, shifted where only differences count; never the caller's array changed.

    ``sliced``: without a ready copy of them all, for who has to save memory and reads them once.
    """
    in_memory = not isinstance(x, RowSource)
    if sparse.issparse(x) or (in_memory and not shift and not sliced):
        return x.astype(dtype, copy=False)
    if not shift:
        return SlicedRows(x, dtype, None)
    if not in_memory:
        return SlicedRows(x, dtype, Shift(_centre(x)))
    centre = _centre(x)
    known = Shift(centre, _blur(x, centre, dtype))
    return SlicedRows(x, dtype, known) if sliced else known.apply(x, dtype)


def _centre(x: Rows) -> Array:
    """The median of some rows: where most of them are, however far away a few may lie."""
    n = int(x.shape[0])
    some = take_rows(x, np.unique(np.linspace(0, max(n - 1, 0), CENTRE_ROWS).astype(np.intp)))
    return np.asarray(np.median(some.astype(np.float64, copy=False), axis=0))


def _blur(x: Array, centre: Array, dtype: np.dtype[Any]) -> float:
    """Eps ‖c‖ over the columns in which x - c is not exact.

    A difference is exact when neither number is more than twice the other (Sterbenz). Elsewhere it is
    rounded to about eps|c|, which matters for rows that are much nearer to each other than to c.
    """
    if len(x) == 0:
        return 0.0
    low, high = (np.asarray(end(x, axis=0), dtype=np.float64) for end in (np.min, np.max))
    low, high = np.where(centre < 0, -high, low), np.where(centre < 0, -low, high)
    exact = (low >= 0.5 * np.abs(centre)) & (high <= 2.0 * np.abs(centre))
    eps = float(np.finfo(np.result_type(x.dtype, dtype)).eps)
    return float(eps * np.linalg.norm(np.where(exact, 0.0, centre)))
