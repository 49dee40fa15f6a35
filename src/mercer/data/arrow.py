"""Parquet and Arrow (Feather) files, data sets, and tables of Arrow in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer._core.errors import DataError, many, quoted, refuse_data
from mercer.data.columns import listed
from mercer.data.files import Stamp, explained
from mercer.data.frames import (
    arrow_dtype,
    arrow_rows,
    index_columns,
    is_numeric,
    need,
    texts,
    validated,
)
from mercer.data.table import NO_ROWS, Chunk, Column, Table, objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer.data.table import Reading

TABLE_ROWS = 65536  # of an Arrow table, made into rows at a time


# ── files ───────────────────────────────────────────────────────────────────
class ArrowFiles(ABC):
    """Files that Arrow reads, each open only while it is read: their schemas, and their rows as tables."""

    form: str
    n_rows: int | None = None  # where the files say so

    def __init__(self, files: Sequence[Any], *, name: str) -> None:
        self.name, self._files = name, list(files)
        paths = [file for file in self._files if isinstance(file, Path)]
        self.stamp = Stamp.of(*paths) if paths else None
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

    def tables(self, names: Sequence[str], height: int, start: int) -> Iterator[tuple[int, Any]]:
        """Tables of these columns and of about `height` rows, each with the number of its first row.

        They begin at `start` or before it.
        """
        pyarrow, row = need("pyarrow", extra="parquet"), 0
        for f in range(len(self)):
            with self.opened(f) as file:
                row, batches = self._batches(file, list(names), height, row, start)
                for batch in batches:
                    table = pyarrow.Table.from_batches([batch]).select(names)
                    yield row, validated(table, what=self.called(f))
                    row += len(batch)

    @abstractmethod
    def _reader(self, f: int) -> Any:
        """File f, open, as a context."""

    def _schema(self, file: Any) -> Any:
        """The schema of an open file."""
        return file.schema

    @abstractmethod
    def _batches(
        self, file: Any, names: list[str], height: int, row: int, start: int
    ) -> tuple[int, Iterator[Any]]:
        """Record batches that have these columns, and maybe others, and the row with which they begin.

        `row` is the first of the file; what is before `start` may be passed over.
        """

    def resident_bytes(self) -> int:
        """What is held while rows are read."""
        return 0


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
        if not isinstance(self._files[f], Path):
            yield self._files[f]
            return
        known = self.metadata[f] if f < len(self.metadata) else None
        parquet = need("pyarrow.parquet", extra="parquet")
        with parquet.ParquetFile(self._files[f], metadata=known) as file:
            yield file

    def _schema(self, file: Any) -> Any:
        self.metadata.append(file.metadata)
        return file.schema_arrow

    def _batches(
        self, file: Any, names: list[str], height: int, row: int, start: int
    ) -> tuple[int, Iterator[Any]]:
        groups = list(range(file.metadata.num_row_groups))
        while groups and row + (tall := file.metadata.row_group(groups[0]).num_rows) <= start:
            row += tall
            del groups[0]
        # One at a time: asked for several, Arrow holds them all.
        each = (file.iter_batches(height, [g], names, use_threads=False) for g in groups)
        return row, chain.from_iterable(each)

    def resident_bytes(self) -> int:
        """The largest row group as pages and as values, twice where one ends and the next begins."""
        groups = (one.row_group(g) for one in self.metadata for g in range(one.num_row_groups))
        return max((4 * group.total_byte_size for group in groups), default=0)


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

    def _batches(
        self, file: Any, names: list[str], height: int, row: int, start: int
    ) -> tuple[int, Iterator[Any]]:
        del names, height, start  # whole batches; they are cut afterwards
        if hasattr(file, "num_record_batches"):
            return row, (file.get_batch(i) for i in range(file.num_record_batches))
        return row, iter(file)


class HeldTable(ArrowFiles):
    """A table in memory, as if it were a file."""

    form = "Arrow"

    def __init__(self, table: Any) -> None:
        super().__init__([table], name="Arrow table")
        self.n_rows = table.num_rows

    @contextmanager
    def _reader(self, f: int) -> Iterator[Any]:
        yield self._files[f]

    def _batches(
        self, file: Any, names: list[str], height: int, row: int, start: int
    ) -> tuple[int, Iterator[Any]]:
        del row
        rest = file.select(names).slice(start)
        return min(start, len(file)), iter(rest.to_batches(max_chunksize=height))


def parquet_files(path: Path, source: str) -> ParquetFiles:
    """A Parquet file, or all those in a folder, in the order of their names."""
    if not path.is_dir():
        return ParquetFiles([path], name=source)
    files = sorted(path.glob("*.parquet"))
    below = [file for file in path.rglob("*.parquet") if file not in files]
    if below or not files:
        found = (
            f"in folders below it, such as {below[0].parent.name!r}" if below else "nowhere in it"
        )
        msg = (
            f"{source}: its Parquet files are {found}. Give a folder whose files end in "
            ".parquet; in Python, a partitioned one is pyarrow.dataset.dataset(folder, partitioning=...)."
        )
        raise DataError(msg)
    return ParquetFiles(files, name=f"{source} of {many(len(files), 'Parquet file')}")


# ── data sets ───────────────────────────────────────────────────────────────
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
class ArrowTable(Table):
    """Columns by name. Texts are words; a null is a missing value."""

    def __init__(self, files: ArrowFiles, reading: Reading) -> None:
        self._files, self.stamp, self.n_rows = files, files.stamp, files.n_rows
        self._schema = schema = files.schemas[0]
        if self.n_rows == 0:
            refuse_data(f"{files.name} has columns and no rows.", NO_ROWS)
        self.random_access = isinstance(files, HeldTable)
        roles, notes = _without_index(schema, reading)
        super().__init__(files.name, schema.names, reading, roles=roles, notes=notes)
        kinds = [kind for f in range(len(files)) for kind in self._kinds(f) if is_numeric(kind)]
        if reading.dtype is None and kinds:
            self.dtype = arrow_dtype(kinds)

    def _kinds(self, f: int) -> list[Any]:
        """The types of the features in file f, which has what the first file has, in whatever order."""
        schema, first = self._files.schemas[f], self._schema
        used = [column.name for column in self.columns] + [self.id_name, self.label_name]
        names = set(filter(None, used)) if self.reading.columns is not None else set(first.names)
        there = set(schema.names)
        lacks = sorted(names - there) or (self.reading.columns is None and sorted(there - names))
        unlike = lacks or [
            name
            for name in names
            if is_numeric(schema.field(name).type) != is_numeric(first.field(name).type)
        ]
        if unlike:
            refuse_data(
                f"{self._files.called(f)} and {self._files.called(0)} have other columns, or other types of "
                f"them: {listed(unlike)}.",
                "Name those that they share with `columns`.",
                parameter="columns",
            )
        return [schema.field(column.name).type for column in self.columns]

    def _column(self, j: int) -> Column:
        kind = self._schema.field(j).type
        if is_numeric(kind):
            return Column(self.names[j])
        return Column(self.names[j], "category", f"its type is {kind}")

    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        columns = self.columns
        numbers = [c.name for c in columns if c.kind == "number"]
        self._require_numbers(numbers)
        used = [c.name for c in columns] + [n for n in (self.id_name, self.label_name) if n]
        used = list(dict.fromkeys(used))
        for first, table in self._files.tables(used, min(height, TABLE_ROWS), start):
            for at in range(0, table.num_rows, height):
                yield self._chunk(table.slice(at, height), columns, numbers, first + at)

    def resident_bytes(self) -> int:
        return super().resident_bytes() + self._files.resident_bytes()

    def _require_numbers(self, names: list[str]) -> None:
        for name in names:
            kind = self._schema.field(name).type
            if not is_numeric(kind):
                msg = f"{self.source}: column {quoted(name)} is of type {kind}; the model needs numbers."
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


class ParquetTable(ArrowTable):
    """A Parquet file, or all those of a folder in the order of their names."""

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        super().__init__(parquet_files(path, source), reading)


class IpcTable(ArrowTable):
    """An Arrow file or stream; Feather files are such files."""

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        super().__init__(IpcFiles([path], name=source), reading)


def _without_index(schema: Any, reading: Reading) -> tuple[Reading, list[str]]:
    """What pandas stored beside a frame as its index is not a feature, unless it is asked for."""
    index = index_columns(schema) - {reading.id, reading.label}
    if reading.columns is not None or not index:
        return reading, []
    beside = {*index, reading.id, reading.label}
    columns = tuple(name for name in schema.names if name not in beside)
    note = f"the index of a data frame is not a feature: {listed(sorted(index))}"
    return replace(reading, columns=columns), [note]
