"""NPY files, and what all tables have in common whose rows are slices of one array of numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.engine.rows import float_dtype, require_rows
from mercer.engine.sources import open_npy
from mercer.engine.tiles import row_slices
from mercer.io.table import Chunk, TableFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mercer._core.types import Array
    from mercer.io.table import Reading


class ArrayTable(TableFile):
    """Rows of one array. What names and labels them may be a column of it, or an array beside it."""

    def __init__(
        self,
        source: str,
        shape: Sequence[int],
        stored: Any,  # dtype
        reading: Reading,
        *,
        names: Sequence[str] | None = None,
        ids: Any = None,
        labels: Any = None,
        beside: tuple[str | None, str | None] = (None, None),
    ) -> None:
        n, d = require_rows(shape, what=source)
        self.dtype = float_dtype(stored, what=source)
        self.n_rows, self.named = n, names is not None
        super().__init__(source, names or [f"x{j}" for j in range(d)], reading)
        self._ids, self._labels, self._beside = ids, labels, beside

    @property
    def id_name(self) -> str | None:
        return super().id_name or self._beside[0]

    @property
    def label_name(self) -> str | None:
        return super().label_name or self._beside[1]

    @abstractmethod
    def _blocks(self, height: int) -> Iterator[Array]:
        """Consecutive slices of the array, of at most `height` rows, as they are stored."""

    def chunks(self, height: int) -> Iterator[Chunk]:
        start, layout = 0, self._layout
        features = list(layout.features)
        words = [c.name for c in self.columns if c.kind == "category"]
        if words:
            msg = (
                f"{self.source} holds numbers, but the column {quoted(words[0])} of the model is one of "
                "words. Give a file that has them as words, such as CSV."
            )
            raise DataError(msg)
        for block in self._blocks(height):
            rows = slice(start, start + len(block))
            every = features == list(range(block.shape[1]))
            numbers = _cast(block if every else block[:, features], self.dtype)
            self._require_finite(numbers, start)
            ids = self._ids if layout.id is None else block[:, layout.id]
            labels = self._labels if layout.label is None else block[:, layout.label]
            yield Chunk(
                start,
                numbers,
                {},
                _part(ids, rows, beside=layout.id is None),
                _part(labels, rows, beside=layout.label is None),
            )
            start = rows.stop

    def _require_finite(self, numbers: Array, start: int) -> None:
        """NaN is a missing value; infinity is refused."""
        bad = np.isinf(numbers)
        if not bad.any():
            return
        row, j = (int(i) for i in np.argwhere(bad)[0])
        why = " (too large for --dtype float32?)" if self.dtype == np.float32 else ""
        msg = (
            f"{self.source}: infinity in row {start + row} (counted from 0), column "
            f"{quoted(self.columns[j].name)}{why}. Finite numbers were needed: drop the row, or correct it."
        )
        raise DataError(msg)


def _part(values: Any, rows: slice, *, beside: bool) -> Any:
    if values is None or not beside:
        return values
    return values[rows]


def _cast(block: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return np.ascontiguousarray(block, dtype=dtype)


class NpyTable(ArrayTable):
    """The rows of an NPY file, mapped for each block and let go after it."""

    def __init__(self, path: Path, reading: Reading, *, shown: str) -> None:
        # Refuses objects, what is cut short, and what is not 2-D.
        self._path, self._stored = path, open_npy(path, shown=shown.strip("'"))
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
        super().__init__(f"NPY file {shown}", stored.shape, stored.dtype, reading)
        self._plain = stored.dtype in (np.float32, np.float64) and stored.dtype.isnative

    def _blocks(self, height: int) -> Iterator[Array]:
        self._stored.check_unchanged()
        for i in row_slices(self._stored.shape[0], height):
            yield np.array(np.load(self._path, mmap_mode="r", allow_pickle=False)[i])
        self._stored.check_unchanged()

    def in_place(self) -> Any:
        mapped = np.load(self._path, mmap_mode="r", allow_pickle=False)
        every = self._layout.features == tuple(range(mapped.shape[1]))
        return mapped if every and self._plain and mapped.dtype == self.dtype else None


def open_npy_table(path: Path, reading: Reading, *, shown: str) -> NpyTable:
    """An NPY file of one 2-D array."""
    return NpyTable(path, reading, shown=shown)
