"""Parquet and Arrow (Feather) files, data sets, and tables of Arrow in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from mercer._core.errors import many, quoted, refuse_data
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
from mercer.data.table import NO_ROWS, Chunk, Column, Reading, Table, objects

TABLE_ROWS = 65536  # of an Arrow table, made into rows at a time
Batches: TypeAlias = tuple[int, Iterator[Any]]  # the first row of record batches, and these


# ── tables ──────────────────────────────────────────────────────────────────
class ArrowTable(Table):
    """What Arrow reads, in files that are open only while they are read; a null is a missing value."""

    form: str

    def __init__(self, files: Any, reading: Reading, source: str) -> None:  # one file, or a list
        self.source, self._files = source, files if isinstance(files, list) else [files]
        paths = [file for file in self._files if isinstance(file, Path)]
        self.stamp = Stamp.of(*paths) if paths else None
        self._schemas = []
        for f in range(len(self._files)):
            with self._opened(f) as file:
                self._schemas.append(self._schema(file))
                _ = self._schemas[f].names  # which have to be UTF-8, and are not looked at before
        if self.n_rows == 0:
            refuse_data(f"{source} has columns and no rows.", NO_ROWS)
        roles, notes = _without_index(self._schemas[0], reading)
        super().__init__(source, self._schemas[0].names, reading, roles=roles, notes=notes)
        kinds = (kind for f in range(len(self._files)) for kind in self._kinds(f))
        numeric = [kind for kind in kinds if is_numeric(kind)]
        if reading.dtype is None and numeric:
            self.dtype = arrow_dtype(numeric)

    # ── files ───────────────────────────────────────────────────────────────
    @abstractmethod
    def _reader(self, f: int) -> Any:
        """File f, open, as a context."""

    @abstractmethod
    def _batches(self, file: Any, names: list[str], height: int, row: int, start: int) -> Batches:
        """Record batches with these columns or more, and their first row: that of the file or later."""

    def _schema(self, file: Any) -> Any:
        return file.schema

    def _called(self, f: int) -> str:
        one = len(self._files) == 1
        return self.source if one else f"{self.form} file {self._files[f].name!r}"

    @contextmanager
    def _opened(self, f: int) -> Iterator[Any]:
        """File f; what Arrow has to say against it becomes one sentence."""
        broken = (OSError, UnicodeDecodeError, need("pyarrow", extra="parquet").ArrowException)
        remedy = "Look at how it was written, or write it again."
        explain = explained(self._called(f), broken, remedy=remedy, stamp=self.stamp)
        with explain, self._reader(f) as file:
            yield file

    # ── columns ─────────────────────────────────────────────────────────────
    def _kinds(self, f: int) -> list[Any]:
        """The types of the features in file f, which has what the first file has, in whatever order."""
        schema, first = self._schemas[f], self._schemas[0]
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
            what = f"{self._called(f)} and {self._called(0)} have other columns, or other types of them"
            remedy = "Name those that they share with `columns`."
            refuse_data(f"{what}: {listed(unlike)}.", remedy, parameter="columns")
        return [schema.field(column.name).type for column in self.columns]

    def _column(self, j: int) -> Column:
        kind = self._schemas[0].field(j).type
        if is_numeric(kind):
            return Column(self.names[j])
        return Column(self.names[j], "category", f"its type is {kind}")

    # ── rows ────────────────────────────────────────────────────────────────
    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        columns = self.columns
        for name in (c.name for c in columns if c.kind == "number"):
            if not is_numeric(kind := self._schemas[0].field(name).type):
                what = f"column {quoted(name)} is of type {kind}; the model needs numbers."
                refuse_data(f"{self.source}: {what}")
        beside = (self.id_name, self.label_name)
        used = list(dict.fromkeys(n for n in (*(c.name for c in columns), *beside) if n))
        for first, table in self._tables(used, min(height, TABLE_ROWS), start):
            for at in range(0, table.num_rows, height):
                yield self._chunk(table.slice(at, height), columns, first + at)

    def _tables(self, names: list[str], height: int, start: int) -> Iterator[tuple[int, Any]]:
        """Tables of these columns, of about `height` rows, each with its first row: `start` or before."""
        pyarrow, row = need("pyarrow", extra="parquet"), 0
        for f in range(len(self._files)):
            with self._opened(f) as file:
                row, batches = self._batches(file, names, height, row, start)
                for batch in batches:
                    table = pyarrow.Table.from_batches([batch]).select(names)
                    yield row, validated(table, what=self._called(f))
                    row += len(batch)

    def _chunk(self, table: Any, columns: tuple[Column, ...], start: int) -> Chunk:
        names = [c.name for c in columns if c.kind == "number"]
        numbers = table.select(names)
        self._warn_rounded(numbers, names, range(start, start + len(table)))
        stored = arrow_rows(numbers, arrow_dtype(numbers.schema.types))
        words = {c.name: texts(table[c.name]) for c in columns if c.kind == "category"}
        beside = (self.id_name, self.label_name)
        ids, labels = (None if n is None else objects(table[n].to_pylist()) for n in beside)
        return Chunk(start, self._cast(stored, names, start), words, ids, labels)


class ParquetTable(ArrowTable):
    """A Parquet file, or those of a folder by their names; only the columns that are used are unpacked."""

    form = "Parquet"

    def __init__(self, path: Any, reading: Reading, source: str) -> None:  # or an open ParquetFile
        if isinstance(path, Path) and path.is_dir():
            path = _parquet_files(path, source)
            source = f"{source} of {many(len(path), 'Parquet file')}"
        # Of each file; without it, the whole footer would be read again with each row group.
        self._metadata: list[Any] = []
        super().__init__(path, reading, source)

    @contextmanager
    def _reader(self, f: int) -> Iterator[Any]:
        if not isinstance(self._files[f], Path):
            yield self._files[f]
            return
        known = self._metadata[f] if f < len(self._metadata) else None
        parquet = need("pyarrow.parquet", extra="parquet")
        with parquet.ParquetFile(self._files[f], metadata=known) as file:
            yield file

    def _schema(self, file: Any) -> Any:
        self._metadata.append(file.metadata)
        self.n_rows = (self.n_rows or 0) + file.metadata.num_rows
        return file.schema_arrow

    def _batches(self, file: Any, names: list[str], height: int, row: int, start: int) -> Batches:
        groups = list(range(file.metadata.num_row_groups))
        while groups and row + (tall := file.metadata.row_group(groups[0]).num_rows) <= start:
            row += tall
            del groups[0]
        # One at a time: asked for several, Arrow holds them all.
        each = (file.iter_batches(height, [g], names, use_threads=False) for g in groups)
        return row, chain.from_iterable(each)

    def resident_bytes(self) -> int:
        """The largest row group as pages and as values, twice where one ends and the next begins."""
        groups = (one.row_group(g) for one in self._metadata for g in range(one.num_row_groups))
        largest = max((4 * group.total_byte_size for group in groups), default=0)
        return super().resident_bytes() + largest


class IpcTable(ArrowTable):
    """An Arrow file, which is mapped, or a stream in a file; Feather files are such files."""

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
        if hasattr(file, "num_record_batches"):  # from the heads of batches: nothing is unpacked
            dataset = need("pyarrow.dataset", extra="parquet")
            self.n_rows = dataset.dataset(self._files[0], format="ipc").count_rows()
        return file.schema

    def _batches(self, file: Any, names: list[str], height: int, row: int, start: int) -> Batches:
        del names, height, start  # whole batches; they are cut afterwards
        if hasattr(file, "num_record_batches"):
            return row, (file.get_batch(i) for i in range(file.num_record_batches))
        return row, iter(file)


class HeldTable(ArrowTable):
    """A table in memory, as if it were a file."""

    form = "Arrow"
    random_access = True

    def __init__(self, table: Any, reading: Reading) -> None:
        self.n_rows = table.num_rows
        super().__init__(table, reading, "Arrow table")

    def _reader(self, f: int) -> Any:
        return nullcontext(self._files[f])

    def _batches(self, file: Any, names: list[str], height: int, row: int, start: int) -> Batches:
        del row
        rest = file.select(names).slice(start)
        return min(start, len(file)), iter(rest.to_batches(max_chunksize=height))


def _parquet_files(folder: Path, source: str) -> list[Path]:
    files = sorted(folder.glob("*.parquet"))
    below = [file for file in folder.rglob("*.parquet") if file not in files]
    if below or not files:
        inside = below and f"in folders below it, such as {below[0].parent.name!r}"
        refuse_data(
            f"{source}: its Parquet files are {inside or 'nowhere in it'}.",
            "Give a folder whose files end in .parquet; in Python, a partitioned one is "
            "pyarrow.dataset.dataset(folder, partitioning=...).",
        )
    return files


def _without_index(schema: Any, reading: Reading) -> tuple[Reading, list[str]]:
    """What pandas stored beside a frame as its index is not a feature, unless it is asked for."""
    index = index_columns(schema) - {reading.id, reading.label}
    if reading.columns is not None or not index:
        return reading, []
    beside = {*index, reading.id, reading.label}
    columns = tuple(name for name in schema.names if name not in beside)
    note = f"the index of a data frame is not a feature: {listed(sorted(index))}"
    return replace(reading, columns=columns), [note]


# ── data sets ───────────────────────────────────────────────────────────────
def scan(dataset: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    """The rows of a data set, a part at a time; one with a filter is left to Arrow, which reads ahead."""
    broken = (OSError, need("pyarrow", extra="parquet").ArrowException)
    with explained("Arrow data set", broken, remedy="Look at how it was written."):
        for table in _scanned(dataset, None if columns is None else list(columns)):
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
