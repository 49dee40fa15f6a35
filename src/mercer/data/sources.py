"""Anything that holds rows outside of memory becomes a `RowSource`: the door for files and batches."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mercer._core.errors import InputError
from mercer.data.batches import Batches
from mercer.data.intake import refuse_lazy
from mercer.data.rows import (
    Place,
    RowSource,
    Stamp,
    float_dtype,
    require_finite,
    require_rows,
    row_slices,
)
from mercer.data.tables import ZARR, ChunkedRows, arrow_source, open_parquet, open_zarr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer._core.types import Array, Indices, Rows


def as_source(X: Any, *, columns: Sequence[str] | None = None) -> RowSource | None:
    """A source for rows that are not in memory; None for those that are.

    Blocks come as float32 where the numbers are stored so, otherwise as float64 (integers and booleans
    too), and each is checked for NaN and infinity whenever it is read.

    Parameters
    ----------
    X : str, path, memmap, callable, Arrow table, data set or stream, or chunked array
        A path leads to a ``.npy`` file, a ``.parquet`` file, a folder of those (read in the order of
        their names) or a ``.zarr`` folder. A callable makes a new iterator of batches whenever it is
        called (see `Batches`). A stream is whatever has ``__arrow_c_stream__`` (a RecordBatchReader, a
        relation of DuckDB): it is read into memory, once. Chunked arrays are those of zarr, h5py and
        dask, and whatever else has ``shape``, ``dtype``, ``chunks`` and slices.
    columns : sequence of str, optional
        Which columns to read, in this order, of tables and frames. Without it all are read, except for
        an index that pandas stored beside them.

    Returns
    -------
    RowSource or None
        None for arrays, matrices, frames and lists in memory.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/big.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    >>> rows = as_source(f"{folder.name}/big.npy")
    >>> rows
    npy file '...big.npy', 6 x 2 float32
    >>> rows[2:4]
    array([[4., 5.],
           [6., 7.]], dtype=float32)
    >>> as_source(np.zeros((3, 2))) is None
    True
    >>> folder.cleanup()
    """
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(X, (str, os.PathLike)):
        return _open(X, columns)
    if (table := arrow_source(X, columns)) is not None:
        return table
    refuse_lazy(X)
    if callable(X) and not hasattr(X, "shape"):
        return Batches(X, columns=columns)
    if hasattr(X, "__next__"):
        msg = (
            f"A {type(X).__name__} came, which can be read only once, but a fit reads its rows several "
            "times. Pass a function that makes a new iterator of batches whenever it is called, or the "
            "path of a file."
        )
        raise InputError(msg)
    source: RowSource | None = X if isinstance(X, RowSource) else None
    if isinstance(X, np.memmap) and X._mmap is not None:  # type: ignore[attr-defined]
        source = MappedRows.of(X)
    elif not isinstance(X, np.ndarray) and all(hasattr(X, a) for a in ("shape", "dtype", "chunks")):
        source = ChunkedRows(X)
    if source is not None:
        _no_names(source, columns)
    return source


def in_memory(source: RowSource) -> Rows:
    """All rows as one array, or as one CSR matrix where the batches are CSR."""
    return source[slice(None)]


def _no_names(source: RowSource, columns: Sequence[str] | None) -> None:
    if columns is not None and source.columns != tuple(columns):
        msg = (
            f"columns={list(columns)} came for {source!r}, whose columns have no such names. Leave "
            "`columns` out; a kernel can look at some columns with k.on(positions)."
        )
        raise InputError(msg)


def _open(given: str | os.PathLike[str], columns: Sequence[str] | None) -> RowSource:
    shown, path = os.fspath(given), Path(given).expanduser().absolute()
    suffix = path.suffix.lower()
    if not path.exists():
        msg = f"There is no file or folder {shown!r} (looked for {str(path)!r})."
        raise InputError(msg)
    if suffix == ".npy":
        source: RowSource = open_npy(path, shown=shown)
    elif path.is_dir() and (suffix == ".zarr" or any((path / f).exists() for f in ZARR)):
        source = open_zarr(path, shown=shown)
    elif path.is_dir() or suffix == ".parquet":
        return open_parquet(path, shown=shown, columns=columns)
    else:
        msg = (
            f"{shown!r} came, but rows are read from .npy files, .parquet files, folders of Parquet "
            "files and .zarr folders. For any other format pass a function that yields batches of rows."
        )
        raise InputError(msg)
    _no_names(source, columns)
    return source


class MappedRows(RowSource):
    """The rows of a plain array in a file, in any order of bytes and axes.

    A file is mapped for each read and let go after it: what stays in memory is the block alone, and a
    file that has become shorter is an error, where an older mapping of it would crash the process. The
    memmap of a caller is read as it is.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        name: str,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        strides: Sequence[int],
        offset: int = 0,
        held: Array | None = None,
    ) -> None:
        self.name = name
        self.dtype = float_dtype(dtype, what=name)
        self.shape = require_rows(shape, what=name)
        self._path, self._held = path, held
        self._layout: dict[str, Any] = {"dtype": dtype, "strides": strides, "offset": offset}
        self.stamp = None if path is None else Stamp.of(path)

    @classmethod
    def of(cls, x: np.memmap[Any, Any]) -> MappedRows:
        """The rows of a memmap, or of a slice of one."""
        file = None if x.filename is None else Path(x.filename)
        # What a copy-on-write map was changed to is in no file.
        is_filed = file is not None and file.is_file() and x.mode != "c"
        name = "memmap" if file is None else f"memmap of {file.name!r}"
        return cls(
            file if is_filed else None,
            name=name,
            shape=x.shape,
            dtype=x.dtype,
            strides=x.strides,
            offset=_file_offset(x),
            held=x.view(np.ndarray),
        )

    def _stored(self) -> Array:
        if self._held is not None:
            return self._held
        try:
            with open(str(self._path), "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return np.ndarray(self.shape, buffer=mapped, **self._layout)
        except (OSError, ValueError, TypeError) as error:  # gone, empty, shorter than the array
            self.check_unchanged()
            msg = f"{self.name} cannot be read: {error}."
            raise InputError(msg) from error

    def __getitem__(self, key: slice | Indices) -> Array:
        is_slice = isinstance(key, slice)
        stored = self._stored()[key]
        rows = range(self.shape[0])[key] if isinstance(key, slice) else key
        self._tell_rounded(stored, rows)
        with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
            # A slice is a view of the file, positions have been gathered into memory already.
            block = np.array(stored, dtype=self.dtype, order="C", copy=is_slice or None)
        require_finite(block, Place(self.name, rows))
        return block

    def blocks(self, height: int) -> Iterator[tuple[slice, Array]]:
        self.check_unchanged()
        for i in row_slices(self.shape[0], height):
            yield i, self[i]
        self.check_unchanged()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_held": self._held if self._path is None else None}


def _file_offset(x: np.memmap[Any, Any]) -> int:
    """Where the first entry is in the file. The `offset` of a slice is that of the whole memmap."""
    mapped: Any = x._mmap  # type: ignore[attr-defined]
    start = np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0]
    begins = x.offset - x.offset % mmap.ALLOCATIONGRANULARITY  # maps begin at a page
    return int(begins + x.__array_interface__["data"][0] - start)


NPY_VERSIONS = (b"\x01\x00", b"\x02\x00", b"\x03\x00")


def _require_head(file: BinaryIO, n_bytes: int) -> None:
    """A header that promises gigabytes of itself is refused before NumPy makes room for it."""
    start = file.read(12)
    file.seek(0)
    version = start[6:8]
    length = int.from_bytes(start[8:10] if version == b"\x01\x00" else start[8:12], "little")
    if start[:6] != b"\x93NUMPY" or version not in NPY_VERSIONS or length > n_bytes:
        msg = "it does not begin like one, or is damaged"
        raise ValueError(msg)


def _short(error: Exception) -> str:
    text = str(error)  # NumPy quotes the header, whatever it is
    return text if len(text) <= 200 else f"{text[:200]}…"


def open_npy(path: Path, *, shown: str) -> MappedRows:
    """The rows of an npy file, after a look whether all of it is there."""
    name = f"npy file {shown!r}"
    try:
        with path.open("rb") as file:
            _require_head(file, path.stat().st_size)
            version = np.lib.format.read_magic(file)
            old = np.lib.format.read_array_header_1_0
            read = old if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            offset = file.tell()
    except IsADirectoryError as error:
        msg = f"{shown!r} is a folder, where an npy file was needed. Name the file in it."
        raise InputError(msg) from error
    except (OSError, ValueError, SyntaxError, TokenError) as error:
        # NumPy reads the header as Python text, and an old one through Python's tokenizer.
        msg = f"{name} of {path.stat().st_size} bytes cannot be read: {_short(error)}. Write it with np.save."
        raise InputError(msg) from error
    item = dtype.itemsize
    n_bytes, promised = path.stat().st_size, offset + math.prod(shape) * item
    if n_bytes != promised and not dtype.hasobject:
        msg = (
            f"{name} holds {n_bytes} bytes, but its header promises {promised}: {shape} of {dtype}. It "
            "was not written to its end, or written on after it. Write it again."
        )
        raise InputError(msg)
    steps = [item * math.prod(shape[:j] if fortran else shape[j + 1 :]) for j in range(len(shape))]
    return MappedRows(path, name=name, shape=shape, dtype=dtype, strides=steps, offset=offset)
