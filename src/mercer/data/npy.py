"""Tables that are one array, with what may stand beside it: NPY files, also as sources, and NPZ."""

from __future__ import annotations

import lzma
import math
import mmap
import struct
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np

from mercer._core.errors import DataError, quoted, refuse_data
from mercer._core.memory import available_bytes, format_bytes
from mercer._core.types import Array, Indices
from mercer.data.columns import hint, listed
from mercer.data.files import Stamp, explained, most_held
from mercer.data.rows import Place, RowSource, float_dtype, require_finite, require_rows, row_slices
from mercer.data.table import Beside, Chunk, Reading, Table


class ArrayTable(Table):
    """Rows of one array. What names and labels them may be a column of it, or an array beside it."""

    random_access = True

    def __init__(
        self,
        source: str,
        shape: Sequence[int],
        stored: Any,  # dtype
        reading: Reading,
        *,
        names: Sequence[str] | None = None,
        ids: Beside = (None, None),
        labels: Beside = (None, None),
        notes: Iterable[str] = (),
    ) -> None:
        n, d = require_rows(shape, what=source)
        self.dtype = float_dtype(stored, what=source)
        self.n_rows, self.named = n, names is not None
        self._beside = ids, labels
        roles = reading if ids[0] is None else replace(reading, id=None)
        roles = roles if labels[0] is None else replace(roles, label=None)
        names = names or [f"x{j}" for j in range(d)]
        super().__init__(source, names, reading, roles=roles, notes=notes)

    @abstractmethod
    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        """Consecutive slices of the array from `start` on, of at most `height` rows, as they are stored."""

    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        layout, features = self._layout, list(self._layout.features)
        for column in self.columns:
            if column.kind == "category":
                what = f"has numbers, but the column {quoted(column.name)} of the model has words"
                remedy = "Give a file that has them as words, such as CSV."
                refuse_data(f"{self.source} {what}.", remedy)
        names = [column.name for column in self.columns]
        for block in self._blocks(height, start):
            rows = slice(start, start + len(block))
            every = features == list(range(block.shape[1]))
            chosen = block if every else block[:, features]
            self._warn_rounded(chosen, names, range(start, rows.stop))
            numbers = self._cast(chosen, names, start)
            ids, labels = (
                block[:, j] if j is not None else None if beside is None else beside[rows]
                for j, (beside, _) in zip(layout.beside, self._beside, strict=True)
            )
            yield Chunk(start, numbers, {}, ids, labels)
            start = rows.stop


def only_table(shapes: dict[str, tuple[int, ...]], noun: str, *, source: str) -> str:
    """The name of the only one of several arrays that has rows and columns."""
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) == 1:
        return tables[0]
    if len(shapes) == 1:
        alone, shape = next(iter(shapes.items()))
        if len(shape) == 1:
            msg = f"{source}: its only {noun[:-1]} {quoted(alone)} is 1-D {shape}."
            remedy = "Use reshape(-1, 1) to store it as one column."
            raise DataError.saying(msg, remedy, parameter="array")
    there = ", ".join(f"{quoted(name)} {shape}" for name, shape in list(shapes.items())[:20])
    msg = f"{source} has {len(tables) or 'no'} {noun} of rows and columns."
    remedy = f"Name one with `array`; it has {there or 'nothing'}."
    raise DataError.saying(msg, remedy, parameter="array")


def require_entries(shape: Sequence[int], n: int, *, what: str) -> None:
    """Raise unless there is one entry for each row."""
    if tuple(shape) != (n,):
        refuse_data(f"{what} must have one entry for each of the {n} rows; got the shape {shape}.")


NPY_VERSIONS = (b"\x01\x00", b"\x02\x00", b"\x03\x00")


class Stored(NamedTuple):
    """How an array lies in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    offset: int  # where its entries begin

    @classmethod
    def read(cls, file: Any, n_bytes: int) -> Stored:
        """From the header of an open NPY file of so many bytes, or of a member of an archive."""
        start = file.read(12)
        file.seek(0)
        version = start[6:8]
        length = int.from_bytes(start[8:10] if version == b"\x01\x00" else start[8:12], "little")
        # A header that promises gigabytes of itself is refused before NumPy makes room for it.
        if start[:6] != b"\x93NUMPY" or version not in NPY_VERSIONS or length > n_bytes:
            msg = "it does not begin like an NPY file, or is damaged"
            raise ValueError(msg)
        old = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        inner = [shape[:j] if fortran else shape[j + 1 :] for j in range(len(shape))]
        strides = tuple(dtype.itemsize * math.prod(lengths) for lengths in inner)
        return cls(shape, dtype, strides, file.tell())

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def require_bytes(self, n_bytes: int, *, what: str) -> None:
        promised = self.offset + self.n_bytes
        if n_bytes != promised and not self.dtype.hasobject:  # objects are refused by their type
            header = f"its header promises {promised}: {self.shape} of {self.dtype}"
            remedy = "It is cut short, or something was appended to it. Write it again."
            refuse_data(f"{what} holds {n_bytes} bytes, but {header}.", remedy)

    def array(self, buffer: Any) -> Array:
        """The array, a view of the bytes of the file."""
        return np.ndarray(self.shape, self.dtype, buffer, self.offset, self.strides)


class MappedRows(RowSource):
    """The rows of a plain array in a file, in any order of bytes and axes.

    A file is mapped for each read and let go after it: what stays in memory is the block alone, and a
    file that has become shorter is an error, where an older mapping of it would crash the process. The
    memmap of a caller is read as it is.
    """

    def __init__(
        self, path: Path | None, layout: Stored, *, name: str, held: Array | None = None
    ) -> None:
        self.name = name
        self.dtype = float_dtype(layout.dtype, what=name)
        self.shape = require_rows(layout.shape, what=name)
        self.layout = layout
        self._path, self._held = path, held
        self.stamp = None if path is None else Stamp.of(path)

    @classmethod
    def of(cls, x: np.memmap[Any, Any]) -> MappedRows:
        """The rows of a memmap, or of a slice of one."""
        file = None if x.filename is None else Path(x.filename)
        # What a copy-on-write map was changed to is in no file.
        is_filed = file is not None and file.is_file() and x.mode != "c"
        name = "memmap" if file is None else f"memmap of {file.name!r}"
        layout = Stored(x.shape, x.dtype, x.strides, _file_offset(x))
        return cls(file if is_filed else None, layout, name=name, held=x.view(np.ndarray))

    def stored(self) -> Array:
        """The array as it is in the file; let go of it to let go of the file."""
        if self._held is not None:
            return self._held
        # It may be gone, empty, or shorter than the array.
        broken = (OSError, ValueError, TypeError)
        with explained(self.name, broken, remedy="Write it again.", stamp=self.stamp):
            with open(str(self._path), "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return self.layout.array(mapped)

    def __getitem__(self, key: slice | Indices) -> Array:
        is_slice = isinstance(key, slice)
        stored = self.stored()[key]
        rows = range(self.shape[0])[key] if isinstance(key, slice) else key
        self._warn_rounded(stored, rows)
        with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
            # A slice is a view of the file, positions have been gathered into memory already.
            block = np.array(stored, dtype=self.dtype, order="C", copy=is_slice or None)
        require_finite(block, Place(self.name, rows))
        return block

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_held": self._held if self._path is None else None}


def _file_offset(x: np.memmap[Any, Any]) -> int:
    """Where the first entry is in the file. The `offset` of a slice is that of the whole memmap."""
    mapped: Any = x._mmap  # type: ignore[attr-defined]
    start = np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0]
    begins = x.offset - x.offset % mmap.ALLOCATIONGRANULARITY  # maps begin at a page
    return int(begins + x.__array_interface__["data"][0] - start)


def open_npy(path: Path, *, name: str) -> MappedRows:
    """The rows of an NPY file, after a look whether all of it is there."""
    if path.is_dir():
        refuse_data(f"{name} is a folder; an NPY file is needed.", "Name the file in it.")
    n_bytes = path.stat().st_size
    # NumPy reads the header as Python text, and an old one through Python's tokenizer.
    broken = (OSError, ValueError, SyntaxError, TokenError)
    explain = explained(f"{name} of {n_bytes} bytes", broken, remedy="Write it with np.save.")
    with explain, path.open("rb") as file:
        layout = Stored.read(file, n_bytes)
    layout.require_bytes(n_bytes, what=name)
    return MappedRows(path, layout, name=name)


class NpyTable(ArrayTable):
    """The rows of an NPY file as a table: NaN is a missing value."""

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        self.stamp = Stamp.of(path)
        self._rows = open_npy(path, name=source)
        super().__init__(source, self._rows.shape, self._rows.layout.dtype, reading)

    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        for i in row_slices(self._rows.shape[0], height, start):
            yield np.array(self._rows.stored()[i])

    def in_place(self) -> RowSource | None:
        every = self._layout.features == tuple(range(self._rows.shape[1]))
        return self._rows if every and self._rows.dtype == self.dtype else None


# ── NPZ archives: sizes are checked before anything is unpacked ─────────────
MEMORY_SHARE = 0.5  # of what is free, for an array that can't be read in slices
# What zipfile, its unpackers and NumPy raise over a damaged file (they promise nothing), and over one that
# is packed by an unknown method or with a password (NotImplementedError, RuntimeError).
_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, TokenError, struct.error)
_OTHERS = (OSError, EOFError, LookupError, ArithmeticError, SyntaxError, TypeError, ValueError)
BROKEN = (*_ARCHIVE, *_OTHERS, NotImplementedError, RuntimeError)


class NpzTable(ArrayTable):
    """The rows of one array of an archive; ids, labels and names may be other arrays of it."""

    random_access = False  # what is before a row is unpacked

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        self._path, self.source, self.stamp = path, source, Stamp.of(path)
        self._arrays = self._headers()
        self._name = _chosen(self._arrays, reading, self.source)
        rows = self._arrays[self._name]
        # What our own writer puts beside the rows is taken where nothing else was asked for.
        ours = ("ids", "labels") if self._name == "rows" else (None, None)
        n = rows.shape[0] if rows.shape else 0
        ids, labels = (
            self._beside_rows(asked or name, n)
            for asked, name in zip((reading.id, reading.label), ours, strict=True)
        )
        known = (self._name, "names", ids[1], labels[1])
        others = [name for name in self._arrays if name not in known]
        note = f"array {quoted(self._name)} is read; others of the file are not: {listed(others)}"
        beside: Any = {"names": self._names(rows), "ids": ids, "labels": labels}
        beside["notes"] = [note] if others else []
        super().__init__(self.source, rows.shape, rows.dtype, reading, **beside)

    # ── what is in the archive ──────────────────────────────────────────────
    def _headers(self) -> dict[str, Stored]:
        with self._opened() as archive:
            infos = archive.infolist()
            self._require_harmless(infos)
            found = {}
            for info in (one for one in infos if one.filename.endswith(".npy")):
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as file:
                    found[name] = Stored.read(file, info.file_size)
                what = f"{self.source}: array {quoted(name)}"
                found[name].require_bytes(info.file_size, what=what)
        if not found:
            refuse_data(f"{self.source} has no array in it. Write it with np.savez.")
        return found

    def _require_harmless(self, infos: list[zipfile.ZipInfo]) -> None:
        unpacked = sum(info.file_size for info in infos)
        packed = max(1, self._path.stat().st_size)
        if unpacked > most_held(packed):
            sizes = f"has {format_bytes(packed)} and would unpack to {format_bytes(unpacked)}"
            what = f"{self.source} {sizes}, {unpacked // packed} times as much: it is not opened."
            refuse_data(what, "If you trust it, save the array with np.save.")

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        remedy = "It is not a valid NPZ archive: write it again with np.savez."
        with explained(self.source, BROKEN, remedy=remedy), zipfile.ZipFile(self._path) as archive:
            yield archive

    def _names(self, rows: Stored) -> list[str] | None:
        """The names of the columns, where the archive has as many texts as the rows have columns."""
        found = self._arrays.get("names")
        if found is None or found.dtype.kind != "U" or found.shape != rows.shape[1:]:
            return None
        return [str(name) for name in self._whole("names")]

    def _beside_rows(self, name: str | None, n: int) -> Beside:
        """The array of that name, one entry for each row; nothing where there is none."""
        if name is None or name not in self._arrays:
            return None, None
        require_entries(self._arrays[name].shape, n, what=f"{self.source}: array {quoted(name)}")
        values = self._whole(name)
        if values.dtype.kind == "S":
            values = np.char.decode(values, "utf-8", "replace")
        return values.astype(object) if values.dtype.kind == "U" else values, name

    # ── rows ────────────────────────────────────────────────────────────────
    def _whole(self, name: str) -> Any:
        head, what = self._arrays[name], f"{self.source}: array {quoted(name)}"
        if head.dtype.hasobject:
            float_dtype(head.dtype, what=what)
        size, room = head.n_bytes, int(MEMORY_SHARE * available_bytes())
        if size > room:
            takes = (
                f"takes {format_bytes(size)}, and {format_bytes(room)} of memory are free for it."
            )
            remedy = "Save it with np.save, in C order: such files are read in slices."
            refuse_data(f"{what} {takes}", remedy)
        with self._opened() as archive, archive.open(f"{name}.npy") as file:
            return head.array(_exactly(file, head.offset + head.n_bytes))

    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        head = self._arrays[self._name]
        n, d = head.shape
        if head.strides[-1] != head.dtype.itemsize:  # by columns
            whole = self._whole(self._name)
            for i in row_slices(n, height, start):
                yield whole[i]
            return
        with self._opened() as archive, archive.open(f"{self._name}.npy") as file:
            row_bytes = d * head.dtype.itemsize
            file.seek(head.offset + start * row_bytes)  # what is packed is read for it
            for i in row_slices(n, height, start):
                shape = (i.stop - i.start, d)
                yield np.ndarray(shape, head.dtype, _exactly(file, shape[0] * row_bytes))
            file.read(1)  # at its end the archive's checksum is compared


def _exactly(file: Any, n_bytes: int) -> bytes:
    data: bytes = file.read(n_bytes)
    if len(data) != n_bytes:
        msg = "the array ends before its rows do"
        raise EOFError(msg)
    return data


def _chosen(arrays: dict[str, Stored], reading: Reading, source: str) -> str:
    """The array that was asked for, or the only one that has rows and columns."""
    name = reading.array
    if name is not None and name not in arrays:
        refuse_data(f"{source} has no array {name!r}. {hint(name, list(arrays), 'arrays')}")
    if name is not None:
        return name
    shapes = {name: layout.shape for name, layout in arrays.items()}
    if {"data", "format", "shape"} <= shapes.keys() and 2 not in map(len, shapes.values()):
        refuse_data(
            f"{source} holds a sparse matrix, which is not read from files. Pass scipy.sparse.load_npz(path) "
            "in Python, or save X.toarray() with np.save."
        )
    return only_table(shapes, "arrays", source=source)
