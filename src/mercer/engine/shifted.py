"""Rows made ready for distances: shifted to a common centre, their squared norms beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer.engine.rows import RowSource, take_rows

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows

# Enough rows for a centre: any point near the data does.
CENTRE_ROWS = 500


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
    blur: float  # how far the shift may have moved a row

    @classmethod
    def of(cls, x: Array, centre: Array, dtype: np.dtype[Any]) -> ShiftedRows:
        """Shift dense rows by a float64 centre and round the result to `dtype`."""
        n, d = x.shape
        augmented = np.empty((n, d + 2), dtype=dtype)
        rows = augmented[:, :-2]
        if np.result_type(x.dtype, dtype) == x.dtype:
            np.subtract(x, centre.astype(x.dtype), out=rows, casting="same_kind")
        else:  # each float32 is a float64: shifted in the better precision
            np.subtract(x, centre, out=rows)
        np.einsum("id,id->i", rows, rows, out=augmented[:, -2])
        augmented[:, -1] = 1.0
        return cls(augmented, x, _blur(x, centre, np.result_type(x.dtype, dtype)))

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
        n, width = self.augmented.shape
        return n, width - 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the rows."""
        return self.augmented.dtype

    def __getitem__(self, key: Any) -> Any:
        """Some of the rows, made ready; some of the columns (a tuple), as a plain array of originals."""
        if isinstance(key, tuple):
            return self.original[key].astype(self.dtype, copy=False)
        return ShiftedRows(self.augmented[key], self.original[key], self.blur)

    def plain(self) -> Array:  # (n, d)
        """X itself, in the precision of the shifted rows."""
        return self.original.astype(self.dtype, copy=False)


@dataclass(frozen=True, repr=False)
class SlicedRows:
    """Rows that stay where they are: each slice is made ready when it is read."""

    x: Rows
    dtype: np.dtype[Any]
    centre: Array | None  # None: as they are

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self.x.shape[0]), int(self.x.shape[1])

    def __getitem__(self, key: Any) -> Any:
        rows = self.x[key]
        if self.centre is None or sparse.issparse(rows):
            return rows.astype(self.dtype, copy=False)
        return ShiftedRows.of(rows, self.centre, self.dtype)


def ready_rows(x: Rows, dtype: np.dtype[Any], *, shift: bool) -> Rows:
    """The rows in `dtype`, shifted where only differences count; never the caller's array changed."""
    in_memory = not isinstance(x, RowSource)
    if sparse.issparse(x) or (in_memory and not shift):
        return x.astype(dtype, copy=False)
    if not in_memory:
        return SlicedRows(x, dtype, _centre(x) if shift else None)
    return ShiftedRows.of(x, _centre(x), dtype)


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
    return float(np.finfo(dtype).eps * np.linalg.norm(np.where(exact, 0.0, centre)))
