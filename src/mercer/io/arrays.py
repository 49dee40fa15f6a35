"""NPY files, and what all tables have in common whose rows are slices of one array of numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.data.rows import float_dtype, require_rows, row_slices
from mercer.data.sources import open_npy
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
        names = [c.name for c in self.columns]
        for block in self._blocks(height):
            rows = slice(start, start + len(block))
            every = features == list(range(block.shape[1]))
            chosen = block if every else block[:, features]
            self._tell_rounded(chosen, names, range(start, rows.stop))
            numbers = _cast(chosen, self.dtype)
            self._require_finite(numbers, names, start)
            ids, labels = (
                _part(beside, rows) if j is None else block[:, j]
                for j, beside in ((layout.id, self._ids), (layout.label, self._labels))
            )
            yield Chunk(start, numbers, {}, ids, labels)
            start = rows.stop


def _part(values: Any, rows: slice) -> Any:
    return None if values is None else values[rows]


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

    def _blocks(self, height: int) -> Iterator[Array]:
        self._stored.check_unchanged()
        for i in row_slices(self._stored.shape[0], height):
            yield np.array(np.load(self._path, mmap_mode="r", allow_pickle=False)[i])
        self._stored.check_unchanged()

    def in_place(self) -> Any:
        mapped = np.load(self._path, mmap_mode="r", allow_pickle=False)
        every = self._layout.features == tuple(range(mapped.shape[1]))
        return mapped if every and mapped.dtype == self.dtype else None


def open_npy_table(path: Path, reading: Reading, *, shown: str) -> NpyTable:
    """An NPY file of one 2-D array."""
    return NpyTable(path, reading, shown=shown)
