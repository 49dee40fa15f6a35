"""Arrays that are stored in chunks: zarr folders, and open arrays of zarr, h5py and others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.types import Array, Indices
from mercer.data.batches import Pieces
from mercer.data.files import Stamp, explained, require_promise
from mercer.data.frames import need
from mercer.data.rows import Place, as_rows, float_dtype, require_finite, require_rows

SPAN_BYTES = 2**20  # small chunks are read several at a time, up to this size
ZARR = ("zarr.json", ".zarray", ".zgroup")  # any of these marks a zarr folder


class ChunkedRows(Pieces):
    """The rows of an array that is stored in chunks (zarr, h5py and the like), read in whole chunks."""

    random_access = True  # to the next chunk

    def __init__(self, array: Any, *, name: str | None = None) -> None:
        root = getattr(getattr(array, "store", None), "root", None)  # of a zarr array in a folder
        folder = None if root is None else Path(root, array.path)
        package = type(array).__module__.partition(".")[0]
        self.name = name or f"{package} array" + (f" {folder.name!r}" if folder else "")
        self._array = array
        self.dtype = float_dtype(np.dtype(array.dtype), what=self.name)
        self.shape = require_rows(array.shape, what=self.name)
        self.starts = _chunk_starts(array.chunks, self.shape, self.dtype.itemsize, self.name)
        self.stamp = None if folder is None else Stamp.of(folder)

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Array]]:
        for p in wanted:
            yield int(p), self._read(*(int(i) for i in self.starts[p : p + 2]))

    def _read(self, start: int, stop: int) -> Array:
        # What zarr has against its files becomes an `InputError`; codecs raise what they like.
        what = f"{self.name}, rows {start} to {stop - 1},"
        kinds = () if self.stamp is None else Exception
        remedy = "The chunks are damaged, or not what the metadata say. Write it again."
        with explained(what, kinds, remedy=remedy, stamp=self.stamp):
            stored = self._array[start:stop]
        self._warn_rounded(stored, range(start, stop))
        block: Array = as_rows(stored, what=self.name)
        require_finite(block, Place(self.name, range(start, stop)))
        return block

    def resident_bytes(self, height: int) -> int:
        """The tallest span of chunks: packed, unpacked and as rows."""
        del height
        entry = 2 * np.dtype(self._array.dtype).itemsize + self.dtype.itemsize
        return int(np.max(np.diff(self.starts))) * self.shape[1] * entry


def _chunk_starts(chunks: Any, shape: tuple[int, int], itemsize: int, name: str) -> Indices:
    """Where spans of whole chunks start, and at the end n."""
    n, d = shape
    if chunks is not None and np.ndim(chunks[0]) == 1:  # as in dask: the heights one by one
        return np.cumsum([0, *chunks[0]], dtype=np.intp)
    tall = 1 if chunks is None else chunks[0]
    if tall < 1:
        msg = f"{name} has chunks of {tall} rows; at least one is needed. Write it again."
        raise InputError(msg)
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
    # zarr passes on what its metadata make Python raise.
    with explained(name, Exception, remedy="Write it with zarr.save_array."):
        found = zarr.open(path, mode="r")
    if isinstance(found, zarr.Group):
        names = ", ".join(repr(f"{shown}/{key}") for key in found.array_keys())
        msg = f"{shown!r} is a zarr group; an array is needed. Give one of: {names or 'none is in it'}."
        raise InputError(msg)
    # First of all: a trap may promise more chunks than there is memory to count them in.
    promised = math.prod(map(float, found.shape)) * found.dtype.itemsize
    there = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    require_promise(promised, there, source=name)
    return ChunkedRows(found, name=name)
