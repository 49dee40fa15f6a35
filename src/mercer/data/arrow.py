"""Parquet and Arrow (Feather) files, and tables of Arrow in memory: as sources of rows, and as tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, InputError, quoted
from mercer.data.batches import Pieces
from mercer.data.columns import listed
from mercer.data.files import Stamp, explained
from mercer.data.frames import (
    arrow_dtype,
    arrow_rows,
    index_columns,
    is_numeric,
    need,
    numeric_columns,
    texts,
    validated,
)
from mercer.data.rows import Place, nth, require_finite, require_rows
from mercer.data.table import Chunk, Column, TableFile, objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mercer._core.types import Array, Indices
    from mercer.data.table import Reading

TABLE_ROWS = 65536  # of an Arrow table, made into rows at a time


# ── files ───────────────────────────────────────────────────────────────────
class ArrowFiles(ABC):
    """Files that Arrow reads, each open only while it is read: their schemas, and their rows as tables."""

    form: str
    n_rows: int | None = None  # where the files say so

    def __init__(self, files: Sequence[Any], *, name: str) -> None:
        self.name, self._files = name, list(files)
        self.stamp = Stamp.of(*(file for file in self._files if not _is_open(file)))
        self.schemas: list[Any] = []
        for f in range(len(self)):
            with self.opened(f) as file:
                schema = self._schema(file)
                _ = schema.names  # which have to be UTF-8, and are not looked at before
                self.schemas.append(schema)

    def __len__(self) -> int:
        return len(self._files)

    def called(self, f: int) -> str:
        """The name of file f."""
        return self.name if len(self) == 1 else f"{self.form} file {self._files[f].name!r}"

    @contextmanager
    def opened(self, f: int) -> Iterator[Any]:
        """File f; what Arrow has to say against it becomes one sentence."""
        broken = (OSError, UnicodeDecodeError, need("pyarrow", extra="parquet").ArrowException)
        remedy = "Look at how it was written, or write it again."
        with (
            explained(self.called(f), broken, remedy=remedy, stamp=self.stamp),
            self._reader(f) as file,
        ):
            yield file

    def tables(self, file: Any, names: Sequence[str], height: int) -> Iterator[Any]:
        """All rows of an open file, in tables of these columns and of about `height` rows."""
        pyarrow = need("pyarrow", extra="parquet")
        for batch in self._batches(file, list(names), height):
            yield validated(pyarrow.Table.from_batches([batch]).select(names), what=self.name)

    @abstractmethod
    def _reader(self, f: int) -> Any:
        """File f, open, as a context."""

    @abstractmethod
    def _schema(self, file: Any) -> Any:
        """The schema of an open file."""

    @abstractmethod
    def _batches(self, file: Any, names: list[str], height: int) -> Iterator[Any]:
        """Record batches that have these columns, and maybe others."""


class ParquetFiles(ArrowFiles):
    """Parquet files, by row groups; only the columns that are used are unpacked."""

    form = "Parquet"

    def __init__(self, files: Sequence[Any], *, name: str) -> None:  # paths, or an open ParquetFile
        # Of each file; without it, the whole footer would be read again with each row group.
        self.metadata: list[Any] = []
        super().__init__(files, name=name)
        self.n_rows = sum(one.num_rows for one in self.metadata)

    @contextmanager
    def _reader(self, f: int) -> Iterator[Any]:
        if _is_open(self._files[f]):
            yield self._files[f]
            return
        known = self.metadata[f] if f < len(self.metadata) else None
        parquet = need("pyarrow.parquet", extra="parquet")
        with parquet.ParquetFile(self._files[f], metadata=known) as file:
            yield file

    def _schema(self, file: Any) -> Any:
        self.metadata.append(file.metadata)
        return file.schema_arrow

    def _batches(self, file: Any, names: list[str], height: int) -> Iterator[Any]:
        yield from file.iter_batches(height, columns=names, use_threads=False)

    def group(self, f: int, g: int, names: Sequence[str]) -> Any:
        """Row group g of file f, a table of these columns."""
        with self.opened(f) as file:
            table = file.read_row_group(g, columns=list(names))
            # In our order, whichever Arrow reads them in.
            return validated(table.select(names), what=self.called(f))


def _is_open(file: Any) -> bool:
    return hasattr(file, "read_row_group")


class IpcFiles(ArrowFiles):
    """Arrow files, which are mapped, or streams in files: batches of rows as they were written."""

    form = "Arrow"

    @contextmanager
    def _reader(self, f: int) -> Iterator[Any]:
        pyarrow, ipc = (need(m, extra="parquet") for m in ("pyarrow", "pyarrow.ipc"))
        with pyarrow.memory_map(str(self._files[f])) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            with (ipc.open_file if is_file else ipc.open_stream)(file) as reader:
                yield reader

    def _schema(self, file: Any) -> Any:
        return file.schema

    def _batches(self, file: Any, names: list[str], height: int) -> Iterator[Any]:
        del names, height  # whole batches; they are cut afterwards
        if hasattr(file, "num_record_batches"):
            return (file.get_batch(i) for i in range(file.num_record_batches))
        return iter(file)


def parquet_files(path: Path, *, shown: str) -> ParquetFiles:
    """A Parquet file, or all those in a folder, in the order of their names."""
    if not path.is_dir():
        return ParquetFiles([path], name=f"Parquet file {shown}")
    files = sorted(path.glob("*.parquet"))
    below = [file for file in path.rglob("*.parquet") if file not in files]
    if below or not files:
        found = (
            f"in folders below it, such as {below[0].parent.name!r}" if below else "nowhere in it"
        )
        msg = (
            f"Folder {shown} was given, but Parquet files are {found}. Give a folder whose files end in "
            ".parquet; in Python, a partitioned one is pyarrow.dataset.dataset(folder, partitioning=...)."
        )
        raise DataError(msg)
    return ParquetFiles(files, name=f"folder {shown} of {len(files)} Parquet files")


# ── sources ─────────────────────────────────────────────────────────────────
class ArrowPieces(Pieces):
    """Rows in Arrow tables, which are made into dense rows when they are cut, not before."""

    columns: tuple[str, ...]

    def _part(self, p: int) -> str | None:
        """The name of piece p, where rows are better found by it."""
        del p
        return None

    def _cut(self, p: int, piece: Any, rows: slice | Indices) -> Array:
        first = int(self.starts[p])
        if isinstance(rows, slice):
            local: Sequence[int] | Indices = range(rows.start, rows.stop)
            among_all: Sequence[int] | Indices = range(first + rows.start, first + rows.stop)
            piece = piece.slice(rows.start, rows.stop - rows.start)
        else:
            local, among_all, piece = rows, rows + first, piece.take(rows)
        self._warn_rounded(piece, among_all)
        place = Place(self.name, among_all, self.columns, self._part(p), local)
        for j, column in enumerate(piece.columns):
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                place.refuse("Missing value (null)", row, j, column.null_count)
        out = arrow_rows(piece, self.dtype)
        require_finite(out, place)
        return out

    def _cut_bytes(self, height: int) -> int:
        """Rows just cut, before they are put into their block."""
        return min(height, int(np.max(np.diff(self.starts)))) * self.shape[1] * self.dtype.itemsize


class TableRows(ArrowPieces):
    """The rows of an Arrow table, which stays as it is."""

    random_access = True  # it is in memory

    def __init__(self, table: Any, *, columns: Sequence[str] | None = None) -> None:
        self.name = "Arrow table"
        self.columns = tuple(numeric_columns(table.schema, columns, what=self.name))
        self._table = validated(table.select(self.columns), what=self.name)
        self.shape = require_rows(self._table.shape, what=self.name)
        self.dtype = arrow_dtype(self._table.schema.types)
        self.starts = np.append(np.arange(0, self.shape[0], TABLE_ROWS), self.shape[0])

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Any]]:
        for p in wanted:
            yield int(p), self._table.slice(self.starts[p], self.starts[p + 1] - self.starts[p])

    def resident_bytes(self, height: int) -> int:
        """Rows just cut."""
        return self._cut_bytes(height)


class ParquetRows(ArrowPieces):
    """The numeric columns of Parquet files, read a row group at a time.

    ``x[indices]`` reads the row groups in which these rows are and no others; but a row group is read
    whole, hence no random access.
    """

    def __init__(self, files: ParquetFiles, *, columns: Sequence[str] | None = None) -> None:
        self.name, self.stamp, self._files = files.name, files.stamp, files
        self._groups: list[tuple[int, int]] = []  # file, row group
        self._heaviest = 0
        heights, kinds = [0], set()
        for f, metadata in enumerate(files.metadata):
            found = self._types(f, columns)
            kinds.update(found)
            row_bytes = sum(kind.bit_width for kind in found) // 8 + 1
            for g in range(metadata.num_row_groups):
                group = metadata.row_group(g)
                held = 2 * group.total_byte_size + group.num_rows * row_bytes
                self._heaviest = max(self._heaviest, held)  # packed, unpacked, as a table
                self._groups.append((f, g))
                heights.append(group.num_rows)
        self.starts = np.cumsum(heights, dtype=np.intp)
        self.shape = require_rows((int(self.starts[-1]), len(self.columns)), what=self.name)
        self.dtype = arrow_dtype(list(kinds))

    def _types(self, f: int, chosen: Sequence[str] | None) -> list[Any]:
        """The types of the columns to read in file f, after a look whether they are the first file's."""
        what, schema = self._files.called(f), self._files.schemas[f]
        names = numeric_columns(schema, chosen, what=what)
        if f == 0:
            self.columns = tuple(names)
        elif set(names) != set(self.columns):
            msg = (
                f"{what} has the columns {names}, but {list(self.columns)} were expected, as in "
                f"{self._files.called(0)}. Name the columns to read with `columns`."
            )
            raise InputError(msg)
        return [schema.field(name).type for name in self.columns]

    def _part(self, p: int) -> str:
        f, g = self._groups[p]
        return nth("row group", g) + (
            f" of {self._files.called(f)}" if len(self._files) > 1 else ""
        )

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Any]]:
        for p in map(int, wanted):
            yield p, self._files.group(*self._groups[p], self.columns)

    def resident_bytes(self, height: int) -> int:
        """The largest row group, as stored and as a table, and rows just cut from it."""
        return self._heaviest + self._cut_bytes(height)


def scan(dataset: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    """The rows of a data set of any format and file system, a row group or a file at a time.

    One with a filter cannot be taken apart: it is left to Arrow, which reads ahead as it likes.
    """
    names = None if columns is None else list(columns)
    broken = (OSError, need("pyarrow", extra="parquet").ArrowException)
    with explained("Arrow data set", broken, remedy="Look at how it was written."):
        for table in _scanned(dataset, names):
            yield validated(table, what="Arrow data set")


def _scanned(dataset: Any, names: list[str] | None) -> Iterator[Any]:
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        yield from dataset.to_batches(columns=names, batch_readahead=0, fragment_readahead=0)
        return
    for fragment in fragments:
        is_parquet = hasattr(fragment, "split_by_row_group")
        for part in fragment.split_by_row_group() if is_parquet else [fragment]:
            yield part.to_table(schema=dataset.schema, columns=names)


# ── tables ──────────────────────────────────────────────────────────────────
def open_parquet_table(path: Path, reading: Reading, *, shown: str) -> ArrowTable:
    """A Parquet file, or all those of a folder in the order of their names."""
    return ArrowTable(parquet_files(path, shown=shown), reading)


def open_arrow(path: Path, reading: Reading, *, shown: str) -> ArrowTable:
    """An Arrow file or stream; Feather files are such files."""
    return ArrowTable(IpcFiles([path], name=f"Arrow file {shown}"), reading)


class ArrowTable(TableFile):
    """Columns by name. Texts are words; a null is a missing value."""

    def __init__(self, files: ArrowFiles, reading: Reading) -> None:
        self._files, self.stamp, self.n_rows = files, files.stamp, files.n_rows
        self._schema = schema = files.schemas[0]
        types = [{field.name: field.type for field in one} for one in files.schemas]
        for f, other in enumerate(types):
            if other != types[0]:  # in whatever order: columns are read by name
                first, name = files.called(0), files.called(f)
                msg = f"{files.name}: {name} has other columns than {first}: all must agree."
                raise DataError(msg)
        if self.n_rows == 0:
            msg = f"{files.name} has columns and no rows. At least one row was needed."
            raise DataError(msg)
        roles, notes = _without_index(schema, reading)
        super().__init__(files.name, schema.names, reading, roles=roles, notes=notes)
        if reading.dtype is None:
            kinds = [schema.field(j).type for j in self._layout.features]
            numbers = [kind for kind in kinds if is_numeric(kind)]
            self.dtype = arrow_dtype(numbers) if numbers else np.dtype(np.float64)

    def _column(self, j: int) -> Column:
        kind = self._schema.field(j).type
        if is_numeric(kind):
            return Column(self.names[j])
        return Column(self.names[j], "category", f"its type is {kind}")

    def _chunks(self, height: int) -> Iterator[Chunk]:
        columns, start = self.columns, 0
        numbers = [c.name for c in columns if c.kind == "number"]
        self._require_numbers(numbers)
        used = [c.name for c in columns] + [n for n in (self.id_name, self.label_name) if n]
        used = list(dict.fromkeys(used))
        for f in range(len(self._files)):
            with self._files.opened(f) as file:
                for table in self._files.tables(file, used, min(height, TABLE_ROWS)):
                    for at in range(0, table.num_rows, height):
                        chunk = self._chunk(table.slice(at, height), columns, numbers, start)
                        yield chunk
                        start += len(chunk)

    def _require_numbers(self, names: list[str]) -> None:
        for name in names:
            kind = self._schema.field(name).type
            if not is_numeric(kind):
                msg = (
                    f"{self.source}: column {quoted(name)} is of type {kind}, but the model needs numbers in "
                    "it."
                )
                raise DataError(msg)

    def _chunk(
        self, table: Any, columns: tuple[Column, ...], names: list[str], start: int
    ) -> Chunk:
        numbers = table.select(names)
        self._warn_rounded(numbers, names, range(start, start + len(table)))
        stored = arrow_rows(numbers, arrow_dtype(numbers.schema.types))
        words = {c.name: texts(table[c.name]) for c in columns if c.kind == "category"}
        ids, labels = (
            None if name is None else objects(table[name].to_pylist())
            for name in (self.id_name, self.label_name)
        )
        return Chunk(start, self._cast(stored, names, start), words, ids, labels)


def _without_index(schema: Any, reading: Reading) -> tuple[Reading, list[str]]:
    """What pandas stored beside a frame as its index is no feature, unless it is asked for."""
    index = index_columns(schema) - {reading.id, reading.label}
    if reading.columns is not None or not index:
        return reading, []
    beside = {*index, reading.id, reading.label}
    columns = tuple(name for name in schema.names if name not in beside)
    note = f"the index of a data frame is no feature: {listed(sorted(index))}"
    return replace(reading, columns=columns), [note]
