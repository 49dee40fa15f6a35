"""Rows, wherever they are: what every loop over them asks for, and nothing more.

Rows in memory are a NumPy array or a CSR matrix. Rows elsewhere (a file, batches) are a `RowSource`,
which looks the same from here: ``shape``, ``dtype``, ``x[slice]``. The two functions below are the only
way in which approximations and streaming passes read rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.tiles import row_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Indices, Rows


class RowSource(ABC):
    """n checked rows of d numbers that are read a slice at a time.

    Every block handed out is a dense array (or CSR matrix) of `dtype`, finite, of width d; where it is
    not, the error names the source, the batch or file, the row and the column.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # float32 or float64; other numbers are read as float64

    # Whether x[slice] and x[indices] cost about what they read. Batches can only be read in order.
    random_access: bool = True

    @abstractmethod
    def __getitem__(self, key: slice | Indices) -> Rows:
        """The rows of a slice, or those at ascending positions."""

    @abstractmethod
    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        """All rows in order, at most `height` at a time, each block with its place."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise an `InputError` when the file behind the rows has changed since it was opened."""


def row_blocks(x: Rows, height: int) -> Iterator[tuple[slice, Rows]]:
    """All rows in order, at most `height` at a time, each block with its place."""
    if isinstance(x, RowSource):
        yield from x.blocks(height)
        return
    for i in row_slices(int(x.shape[0]), height):
        yield i, x[i]


def take_rows(x: Rows, indices: Indices) -> Rows:
    """The rows at these positions, in this order (positions may repeat), in memory."""
    places, back = np.unique(indices, return_inverse=True)
    return x[places][back]
