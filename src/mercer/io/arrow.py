"""Parquet and Arrow (Feather) files, read a batch of rows at a time through pyarrow."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.data.frames import arrow_dtype, arrow_rows, need
from mercer.data.rows import Stamp
from mercer.io.layout import listed
from mercer.io.table import Chunk, Column, TableFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mercer._core.types import Array
    from mercer.io.table import Reading

BATCH_ROWS = 65536


def open_parquet_table(path: Path, reading: Reading, *, shown: str) -> ArrowTable:
    """A Parquet file, or all those of a folder in the order of their names."""
    if not path.is_dir():
        return ParquetTable([path], reading, source=f"Parquet file {shown}")
    files = sorted(path.glob("*.parquet"))
    if not files:
        msg = f"The folder {shown} has no file that ends in .parquet."
        raise DataError(msg)
    return ParquetTable(files, reading, source=f"folder {shown} of {len(files)} Parquet files")


def open_arrow(path: Path, reading: Reading, *, shown: str) -> ArrowTable:
    """An Arrow file or stream; Feather files are such files."""
    return IpcTable([path], reading, source=f"Arrow file {shown}")


class ArrowTable(TableFile):
    """Columns by name. Texts are words; a null is a missing value."""

    def __init__(self, files: list[Path], reading: Reading, *, source: str) -> None:
        self._files, self.source, self._stamp = files, source, Stamp.of(*files)
        self._arrow = need("pyarrow", extra="parquet")
        schemas, heights = [], []
        for file in files:
            with self._explained():
                schema, height = self._head(file)
            schemas.append(schema)
            heights.append(height)
        self._schema = schema = schemas[0]
        for file, other in zip(files, schemas, strict=True):
            if not other.equals(schema):
                msg = f"{source}: {file.name!r} has other columns than {files[0].name!r}: all must agree."
                raise DataError(msg)
        self.n_rows = None if None in heights else sum(h for h in heights if h is not None)
        if self.n_rows == 0:
            msg = f"{source} has columns and no rows. At least one row was needed."
            raise DataError(msg)
        self._said: list[str] = []
        super().__init__(source, schema.names, self._without_index(reading))
        self.reading = reading  # the index has a note of its own
        self.notes += self._said
        if reading.dtype is None:
            kinds = [schema.field(j).type for j in self._layout.features if self._is_number(j)]
            self.dtype = arrow_dtype(kinds) if kinds else np.dtype(np.float64)

    def _without_index(self, reading: Reading) -> Reading:
        """What pandas stored beside a frame as its index is no feature, unless it is asked for."""
        index = {
            name
            for name in (self._schema.pandas_metadata or {}).get("index_columns", [])
            if isinstance(name, str) and name in self._schema.names
        }
        index -= {reading.id, reading.label}
        if reading.columns is not None or not index:
            return reading
        beside = {*index, reading.id, reading.label}
        self._said.append(f"the index of a data frame is no feature: {listed(sorted(index))}")
        columns = tuple(name for name in self._schema.names if name not in beside)
        return replace(reading, columns=columns)

    def _is_number(self, j: int) -> bool:
        types, kind = self._arrow.types, self._schema.field(j).type
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        return any(test(kind) for test in tests)

    def _column(self, j: int) -> Column:
        if self._is_number(j):
            return Column(self.names[j])
        return Column(self.names[j], "category", f"its type is {self._schema.field(j).type}")

    @abstractmethod
    def _head(self, file: Path) -> tuple[Any, int | None]:
        """The schema of a file, and its number of rows if that is known."""

    @abstractmethod
    def _batches(self, file: Path, names: list[str], height: int) -> Iterator[Any]:
        """Tables of these columns, of at most about `height` rows."""

    def chunks(self, height: int) -> Iterator[Chunk]:
        self._stamp.check(self.source)
        columns, start = self.columns, 0
        used = [c.name for c in columns] + [n for n in (self.id_name, self.label_name) if n]
        for file in self._files:
            with self._explained():
                for table in self._batches(
                    file, list(dict.fromkeys(used)), min(height, BATCH_ROWS)
                ):
                    # Arrow trusts the offsets of a file, and reads past its end where one is wrong.
                    table.validate(full=True)
                    for at in range(0, table.num_rows, height):
                        chunk = self._chunk(table.slice(at, height), columns, start)
                        yield chunk
                        start += len(chunk)
        self._stamp.check(self.source)
        if start == 0:
            msg = f"{self.source} has columns and no rows. At least one row was needed."
            raise DataError(msg)

    def _chunk(self, table: Any, columns: tuple[Column, ...], start: int) -> Chunk:
        numbers = self._numbers(table, [c.name for c in columns if c.kind == "number"], start)
        words = {c.name: _texts(table[c.name]) for c in columns if c.kind == "category"}
        ids, labels = (
            None if name is None else _values(table[name])
            for name in (self.id_name, self.label_name)
        )
        return Chunk(start, numbers, words, ids, labels)

    def _numbers(self, table: Any, names: list[str], start: int) -> Array:
        for name in names:
            if not self._is_number(self._schema.get_field_index(name)):
                msg = (
                    f"{self.source}: column {quoted(name)} is of type {self._schema.field(name).type}, but "
                    "the model needs numbers in it."
                )
                raise DataError(msg)
        with np.errstate(over="ignore"):
            self._tell_rounded(table.select(names), names, range(start, start + len(table)))
            block = arrow_rows(table.select(names), self.dtype)
        self._require_finite(block, names, start)
        return block

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What Arrow has to say against a file, in one sentence."""
        try:
            yield
        except (OSError, self._arrow.ArrowException) as error:
            first = (str(error).strip().splitlines() or ["unreadable"])[0][:200].rstrip(".")
            msg = f"{self.source} can't be read: {first}. Look at how it was written, or write it again."
            raise DataError(msg) from error


class ParquetTable(ArrowTable):
    """Read by row groups, of which only the columns that are used are unpacked."""

    def _head(self, file: Path) -> tuple[Any, int | None]:
        with need("pyarrow.parquet", extra="parquet").ParquetFile(file) as parquet:
            return parquet.schema_arrow, parquet.metadata.num_rows

    def _batches(self, file: Path, names: list[str], height: int) -> Iterator[Any]:
        with need("pyarrow.parquet", extra="parquet").ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(height, columns=names, use_threads=False):
                yield self._arrow.Table.from_batches([batch])


class IpcTable(ArrowTable):
    """Record batches of a file, which is mapped, or of a stream."""

    def _head(self, file: Path) -> tuple[Any, int | None]:
        with self._reader(file) as reader:
            return reader.schema, None

    def _batches(self, file: Path, names: list[str], height: int) -> Iterator[Any]:
        del height  # batches are as they were written; they are cut afterwards
        with self._reader(file) as reader:
            if hasattr(reader, "num_record_batches"):
                batches: Any = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                batches = iter(reader)
            for batch in batches:
                yield self._arrow.Table.from_batches([batch]).select(names)

    @contextmanager
    def _reader(self, path: Path) -> Iterator[Any]:
        ipc = need("pyarrow.ipc", extra="parquet")
        with self._arrow.memory_map(str(path)) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            with (ipc.open_file if is_file else ipc.open_stream)(file) as reader:
                yield reader


def _values(column: Any) -> Any:
    values = column.to_pylist()
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _texts(column: Any) -> Any:
    out = np.empty(len(column), dtype=object)
    out[:] = [None if value is None else str(value) for value in column.to_pylist()]
    return out
