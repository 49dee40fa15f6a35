"""The rows of a table as a source: read, checked and prepared a chunk at a time, as often as asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer._core.errors import quoted, refuse_data
from mercer._core.types import Array, Indices
from mercer.data.batches import ascending
from mercer.data.columns import listed
from mercer.data.rows import Place, RowSource, even_blocks, require_finite
from mercer.data.table import Chunk, Column, Table

CHUNK_BYTES = 16 * 2**20  # of numbers that are read at a time
NESTED = re.compile("(?:large_|fixed_size_)?(list|struct|map)")  # types of Arrow
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
                what = "has fewer rows than before: it changed while it was in use."
                refuse_data(f"{self.name} {what}")
        return out

    def resident_bytes(self, height: int) -> int:
        """A chunk, as it is read and prepared, and what the table holds beside it."""
        tall = min(height, chunk_height(self._table), self.shape[0])
        return 2 * tall * self.shape[1] * self.dtype.itemsize + self._table.resident_bytes()

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
    what, mend = _what_stands_in(first, alone=len(table.names) == 1)
    others = "Other columns that are not numbers:" if mend else "The same holds for"
    too = f" {others} {listed(rest)}." if rest else ""
    if not mend:
        what += ", and a kernel needs numbers"
        mend = _advice(table, remedy, dates=" has dates (" in what).replace("{name}", first.name)
        if first.words is not None and (lead := first.words.if_missing):
            mend = f"{lead} If not, {mend[0].lower()}{mend[1:]}"
    msg = f"{table.source}: {what}.{too}"
    refuse_data(msg, mend, parameter="columns", value=first.name)


def _what_stands_in(column: Column, *, alone: bool) -> tuple[str, str]:
    """What a column has instead of numbers, and what to do about it where that is known."""
    if column.words is not None:
        return column.words.what(column.name, alone=alone)
    name, kind = quoted(column.name), column.example.removeprefix("its type is ")
    if nested := NESTED.match(kind):
        what = f"column {name} holds {nested[1]}s, which are not numbers ({column.example})"
        return what, "Make a column of each entry, or choose others with `columns`."
    dates = kind.startswith(("date", "time", "duration"))
    why = f" ({column.example})" if column.example else ""
    return f"column {name} has {'dates' if dates else 'words'}{why}", ""


def _advice(table: Table, remedy: str, *, dates: bool) -> str:
    """What to do about a column of words, or of dates, which are of no use as columns of 0 and 1."""
    if remedy:
        dated = "Keep it beside the rows with `id='{name}'`, or choose others with `columns`."
        return dated if dates else remedy
    if table.stamp is None:
        return "Drop it." if dates else "Drop it, or encode it (OneHotEncoder)."
    opened = "Open the file with mercer.open_table(path, id='{name}') to keep the column beside the rows,"
    if dates:
        return f"{opened} or choose other columns with columns=[…]."
    encoded = "turn its words into numbers first (OneHotEncoder)"
    return f"{opened} choose other columns with columns=[…], or {encoded}."
