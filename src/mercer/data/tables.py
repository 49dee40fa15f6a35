"""Rows in tables and chunks: Arrow tables, Parquet files, zarr and its like."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.memory import format_bytes
from mercer.data.batches import Batches, Pieces
from mercer.data.frames import (
    arrow_dtype,
    arrow_rows,
    frame_package,
    is_a,
    need,
    numeric_columns,
    streamed_table,
    validated,
)
from mercer.data.rows import (
    Place,
    RowSource,
    Stamp,
    as_rows,
    float_dtype,
    nth,
    require_finite,
    require_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer._core.types import Array, Indices

TABLE_ROWS = 65536  # of an Arrow table, made into rows at a time
SPAN_BYTES = 2**20  # small chunks are read several at a time, up to this size


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
        self._tell_rounded(piece, among_all)
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

    Files are open only while a row group is read. ``x[indices]`` reads the row groups in which these
    rows are and no others; but a row group is read whole, hence no random access.
    """

    def __init__(
        self,
        files: Sequence[Any],  # paths, or an open ParquetFile
        *,
        name: str,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.name, self._files = name, list(files)
        self.stamp = None if self._is_held(0) else Stamp.of(*self._files)
        # Of each file; without it, the whole footer would be read again with each row group.
        self._metadata: list[Any] = []
        self._groups: list[tuple[int, int]] = []  # file, row group
        self._heaviest = 0
        heights, kinds = [0], set()
        for f in range(len(self._files)):
            with self._opened(f) as parquet:
                found = self._columns_of(f, parquet.schema_arrow, columns)
                kinds.update(found)
                self._metadata.append(parquet.metadata)
                row_bytes = sum(kind.bit_width for kind in found) // 8 + 1
                for g in range(parquet.num_row_groups):
                    group = parquet.metadata.row_group(g)
                    held = 2 * group.total_byte_size + group.num_rows * row_bytes
                    self._heaviest = max(self._heaviest, held)  # packed, unpacked, as a table
                    self._groups.append((f, g))
                    heights.append(group.num_rows)
        self.starts = np.cumsum(heights, dtype=np.intp)
        self.shape = require_rows((int(self.starts[-1]), len(self.columns)), what=name)
        self.dtype = arrow_dtype(list(kinds))

    def _columns_of(self, f: int, schema: Any, chosen: Sequence[str] | None) -> list[Any]:
        """The types of the columns to read in file f, after a look whether they are the first file's."""
        what = self._called(f)
        names = numeric_columns(schema, chosen, what=what)
        if f == 0:
            self.columns = tuple(names)
        elif set(names) != set(self.columns):
            msg = (
                f"{what} has the columns {names}, but {list(self.columns)} were expected, as in "
                f"{self._called(0)}. Name the columns to read with `columns`."
            )
            raise InputError(msg)
        return [schema.field(name).type for name in self.columns]

    def _is_held(self, f: int) -> bool:
        return hasattr(self._files[f], "read_row_group")

    def _called(self, f: int) -> str:
        return self.name if self._is_held(f) else f"Parquet file {self._files[f].name!r}"

    @contextmanager
    def _opened(self, f: int) -> Iterator[Any]:
        """File f; what Arrow has to say against it becomes an `InputError`."""
        pyarrow, parquet = (need(m, extra="parquet") for m in ("pyarrow", "pyarrow.parquet"))
        try:
            if self._is_held(f):
                yield self._files[f]
                return
            known = self._metadata[f] if f < len(self._metadata) else None
            with parquet.ParquetFile(self._files[f], metadata=known) as file:
                yield file
        except (OSError, pyarrow.ArrowException) as error:
            self.check_unchanged()
            msg = (
                f"{self._called(f)} cannot be read as Parquet: {str(error).rstrip('.')}. Look at how it "
                "was written, or write it again."
            )
            raise InputError(msg) from error

    def _part(self, p: int) -> str:
        f, g = self._groups[p]
        return nth("row group", g) + (f" of {self._called(f)}" if len(self._files) > 1 else "")

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Any]]:
        for p in wanted:
            yield int(p), self._read(int(p))

    def _read(self, p: int) -> Any:
        f, g = self._groups[p]
        with self._opened(f) as parquet:
            table = parquet.read_row_group(g, columns=list(self.columns))
            # In our order, whichever Arrow reads them in.
            return validated(table.select(self.columns), what=self._called(f))

    def resident_bytes(self, height: int) -> int:
        """The largest row group, as stored and as a table, and rows just cut from it."""
        return self._heaviest + self._cut_bytes(height)


def open_parquet(path: Path, *, shown: str, columns: Sequence[str] | None) -> ParquetRows:
    """The rows of a Parquet file, or of all Parquet files in a folder, in the order of their names."""
    if not path.is_dir():
        return ParquetRows([path], name=f"Parquet file {shown!r}", columns=columns)
    files = sorted(path.glob("*.parquet"))
    below = [file for file in path.rglob("*.parquet") if file not in files]
    if below or not files:
        found = (
            f"in folders below it, such as {below[0].parent.name!r}" if below else "nowhere in it"
        )
        msg = (
            f"Folder {shown!r} was given, but Parquet files are {found}. Pass a folder whose files end "
            "in .parquet; of a partitioned one, pass pyarrow.dataset.dataset(folder, partitioning=...)."
        )
        raise InputError(msg)
    name = f"folder {shown!r} of {len(files)} Parquet files"
    return ParquetRows(files, name=name, columns=columns)


def arrow_source(x: Any, columns: Sequence[str] | None) -> RowSource | None:
    """A source for a table, data set, open Parquet file or stream of Arrow; None for anything else."""
    if frame_package(x) == "pyarrow":
        return TableRows(x, columns=columns)
    if is_a(x, "pyarrow.parquet", "ParquetFile"):
        return ParquetRows([x], name="Parquet file", columns=columns)
    if is_a(x, "pyarrow.dataset", "Dataset"):
        return Batches(partial(scan, x, columns), columns=columns, name="Arrow data set")
    if (table := streamed_table(x)) is not None:
        return TableRows(table, columns=columns)
    return None


def scan(dataset: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    """The rows of a data set of any format and file system, a row group or a file at a time.

    One with a filter cannot be taken apart: it is left to Arrow, which reads ahead as it likes.
    """
    names = None if columns is None else list(columns)
    try:
        for table in _scanned(dataset, names):
            yield validated(table, what="Arrow data set")
    except (OSError, need("pyarrow", extra="parquet").ArrowException) as error:
        msg = f"Arrow data set cannot be read: {str(error)[:200].rstrip('.')}. Look at how it was written."
        raise InputError(msg) from error


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


# ── chunked arrays ──────────────────────────────────────────────────────────
RATIO, HARMLESS_BYTES = 1000, 2**30  # a folder that promises a thousand times its bytes is a trap
ZARR = ("zarr.json", ".zarray", ".zgroup")  # any of these marks a zarr folder


class ChunkedRows(Pieces):
    """The rows of an array that is stored in chunks (zarr, h5py, dask), read in whole chunks."""

    random_access = True  # to the next chunk

    def __init__(self, array: Any, *, name: str | None = None) -> None:
        root = getattr(getattr(array, "store", None), "root", None)  # of a zarr array in a folder
        folder = None if root is None else Path(root, array.path)
        package = type(array).__module__.partition(".")[0]
        self.name = name or f"{package} array" + (f" {folder.name!r}" if folder else "")
        self._array = array
        self.dtype = float_dtype(np.dtype(array.dtype), what=self.name)
        self.shape = require_rows(array.shape, what=self.name)
        self.starts = _chunk_starts(array.chunks, self.shape, self.dtype.itemsize)
        self.stamp = None if folder is None else Stamp.of(folder)

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Array]]:
        for p in wanted:
            yield int(p), self._read(*(int(i) for i in self.starts[p : p + 2]))

    def _read(self, start: int, stop: int) -> Array:
        stored = self._stored(start, stop)
        self._tell_rounded(stored, range(start, stop))
        block: Array = as_rows(stored, what=self.name)
        require_finite(block, Place(self.name, range(start, stop)))
        return block

    def _stored(self, start: int, stop: int) -> Any:
        """The rows as they are stored; what zarr has against its files becomes an `InputError`."""
        if self.stamp is None:
            return self._array[start:stop]
        try:
            return self._array[start:stop]
        except Exception as error:  # every codec raises what it likes
            self.check_unchanged()
            msg = (
                f"{self.name}: the chunks of rows {start} to {stop - 1} cannot be read: "
                f"{str(error)[:200].rstrip('.')}. They are damaged, or not what the metadata say. Write it "
                "again."
            )
            raise InputError(msg) from error

    def resident_bytes(self, height: int) -> int:
        """The tallest span of chunks: packed, unpacked and as rows."""
        del height
        entry = 2 * np.dtype(self._array.dtype).itemsize + self.dtype.itemsize
        return int(np.max(np.diff(self.starts))) * self.shape[1] * entry


def _chunk_starts(chunks: Any, shape: tuple[int, int], itemsize: int) -> Indices:
    """Where spans of whole chunks start, and at the end n."""
    n, d = shape
    if chunks is not None and np.ndim(chunks[0]) == 1:  # dask: the heights one by one
        return np.cumsum([0, *chunks[0]], dtype=np.intp)
    tall = 1 if chunks is None else chunks[0]
    span = tall * max(1, SPAN_BYTES // (tall * d * itemsize))
    return np.append(np.arange(0, n, span), n)


def _refuse_pickles(path: Path, name: str) -> None:
    """Raise where the metadata ask for Python's pickle, with which a chunk could run any code here."""
    for head in (path / file for file in ZARR):
        if head.is_file() and b"pickle" in head.read_bytes().lower():
            msg = (
                f"{name} is packed with pickle ({head.name!r} says so), and unpacking it could run code that "
                "is in the file: it is not opened. Write it again with zarr.save_array."
            )
            raise InputError(msg)


def open_zarr(path: Path, *, shown: str) -> ChunkedRows:
    """The rows of a zarr array in a folder."""
    zarr, name = need("zarr", extra="zarr"), f"zarr array {shown!r}"
    _refuse_pickles(path, name)
    try:
        found = zarr.open(path, mode="r")
    except Exception as error:  # zarr passes on what its metadata make Python raise
        msg = f"{name} cannot be read: {str(error).rstrip('.')}. Write it with zarr.save_array."
        raise InputError(msg) from error
    if isinstance(found, zarr.Group):
        names = ", ".join(repr(f"{shown}/{key}") for key in found.array_keys())
        msg = f"{shown!r} is a zarr group; an array was needed. Give one of: {names or 'none is in it'}."
        raise InputError(msg)
    rows = ChunkedRows(found, name=name)
    promised = rows.shape[0] * rows.shape[1] * rows.dtype.itemsize
    there = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if promised > HARMLESS_BYTES and promised > RATIO * there:
        msg = (
            f"{name} has {format_bytes(there)} and promises rows of {format_bytes(promised)}: it is not "
            "read. Store the rows that there are."
        )
        raise InputError(msg)
    return rows
