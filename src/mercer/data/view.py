"""The rows of a table as a source: read, checked and prepared a chunk at a time, as often as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer._core.errors import quoted, refuse_data
from mercer._core.types import Array, Indices
from mercer.data.batches import ascending
from mercer.data.columns import listed
from mercer.data.historian import is_good
from mercer.data.rows import Place, RowSource, even_blocks, require_finite
from mercer.data.table import Chunk, Table

CHUNK_BYTES = 16 * 2**20  # of numbers that are read at a time
FEW_BYTES = 2**18  # around a row that is asked for alone


def chunk_height(table: Table, *, few: bool = False) -> int:
    """Rows of a table that are read at a time."""
    return max(1, (FEW_BYTES if few else CHUNK_BYTES) // (8 * max(1, len(table.columns))))


class TableRows(RowSource):
    """The rows of a table, each chunk as `prepare` makes it; nothing is kept between two passes.

    Without a `prepare` all columns are numbers and none is missing. The number of rows is counted in a first
    pass where the table does not know it.
    """

    def __init__(
        self,
        table: Table,
        prepare: Callable[[Chunk], Array] | None = None,
        *,
        columns: tuple[str, ...] | None = None,
        n_rows: int | None = None,
    ) -> None:
        if prepare is None:
            require_numbers(table)
        names = tuple(column.name for column in table.columns) if columns is None else columns
        self._table, self._prepare, self._names = table, prepare, names
        self.name, self.dtype, self.stamp = table.source, table.dtype, table.stamp
        self.columns = names if table.named or columns is not None else None
        self.random_access = table.random_access
        n = table.n_rows if n_rows is None else n_rows
        if n is None:
            n = sum(len(self._rows(chunk)) for chunk in table.chunks(chunk_height(table)))
        self.shape = n, len(names)

    def _rows(self, chunk: Chunk) -> Array:  # -> (b, d)
        if self._prepare is not None:
            return self._prepare(chunk)
        at = range(chunk.start, chunk.start + len(chunk))
        require_finite(chunk.numbers, Place(self.name, at, self._names, lines=chunk.lines))
        return chunk.numbers

    def blocks(self, height: int) -> Iterator[tuple[slice, Array]]:
        height, start = min(height, self.shape[0]), 0
        chunks = self._table.chunks(min(height, chunk_height(self._table)))
        for block in even_blocks(map(self._rows, chunks), height, self.shape[1], self.dtype):
            yield slice(start, start + len(block)), block
            start += len(block)

    def __getitem__(self, key: slice | Indices) -> Array:
        rows = ascending(key, self.shape[0])
        wanted = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        out, done = np.empty((len(wanted), self.shape[1]), self.dtype), 0
        spread = len(wanted) and wanted[-1] - wanted[0] >= len(wanted)
        height = chunk_height(self._table, few=bool(spread))
        while done < len(wanted):
            first = int(wanted[done])
            for chunk in self._table.chunks(min(height, int(wanted[-1]) - first + 1), first):
                stop = int(np.searchsorted(wanted, chunk.start + len(chunk)))
                out[done:stop] = self._rows(chunk)[wanted[done:stop] - chunk.start]
                done = stop
                if done == len(wanted):
                    break
                if self.random_access and wanted[done] >= chunk.start + 2 * len(chunk):
                    break  # what is between is not read
            else:
                refuse_data(
                    f"{self.name} has fewer rows than before: it changed while it was in use."
                )
        return out

    def resident_bytes(self, height: int) -> int:
        """A chunk, as it is read and prepared, and what the table holds beside it."""
        tall = min(height, chunk_height(self._table), self.shape[0])
        here = 2 * tall * self.shape[1] * self.dtype.itemsize
        return here + self._table.resident_bytes()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        del copy
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


def require_numbers(table: Table, remedy: str = "") -> None:
    """Raise unless all columns of the table are numbers, and there are some; `remedy` says what to do."""
    if not table.columns:
        msg = f"{table.source} has no column left for features, beside `id` and `label`."
        refuse_data(msg, "Name the features with `columns`.", parameter="columns")
    words = [column for column in table.columns if column.kind == "category"]
    if not words:
        return
    first, rest = words[0], [column.name for column in words[1:]]
    why = f" ({first.example})" if first.example else ""
    too = f" The same holds for {listed(rest)}." if rest else ""
    if not remedy:
        kept = (
            f"Keep it beside the rows, mercer.open_table(path, id={first.name!r}), choose others, "
        )
        remedy = "Drop it" if table.stamp is None else f"{kept}columns=[…]"
        remedy += ", or encode it (OneHotEncoder)."
    word = first.example.partition(" in line ")[0].strip("'")
    if is_good(word) is False:
        remedy += f" If {word!r} stands for a missing reading, use `na_values={word!r}`."
    msg = f"{table.source}: column {quoted(first.name)} has words{why}, and a kernel needs numbers.{too}"
    refuse_data(msg, remedy.replace("{name}", first.name), parameter="columns", value=first.name)
