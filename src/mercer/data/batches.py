"""Rows that come in pieces: batches from a function, chunks of an array (zarr folders, open arrays)."""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError
from mercer._core.types import Array, Indices, Rows
from mercer.data.files import Stamp, explained, require_promise
from mercer.data.frames import batch_rows, held, need
from mercer.data.rounding import warn_rounded
from mercer.data.rows import (
    Block,
    Place,
    RowSource,
    arrays_of,
    as_rows,
    even_blocks,
    float_dtype,
    nth,
    require_finite,
    require_rows,
    row_slices,
)


class Pieces(RowSource):
    """Rows in consecutive pieces of any height, of which one is held: blocks are cut from them here."""

    random_access = False
    starts: Indices  # (p + 1,) where each piece starts among the rows, and at the end n
    is_sparse: bool = False

    @abstractmethod
    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Any]]:
        """The pieces at these ascending positions, each with its position; none is kept here."""

    def __getitem__(self, key: slice | Indices) -> Rows:
        rows = ascending(key, self.shape[0])
        if isinstance(rows, slice):
            edges = np.clip(self.starts, rows.start, rows.stop) - rows.start
        else:
            edges = np.searchsorted(rows, self.starts)
        out = Block(int(edges[-1]), self.shape[1], self.dtype, is_sparse=self.is_sparse)
        for p, piece in self._pieces(np.flatnonzero(np.diff(edges))):
            start, stop = edges[p : p + 2]
            if isinstance(rows, slice):
                shift = rows.start - self.starts[p]
                out.add(piece[start + shift : stop + shift])
            else:
                out.add(piece[rows[start:stop] - self.starts[p]])
            del piece  # or it would still be held while the next one is read
        return out.rows()

    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        self.check_unchanged()
        n, d = self.shape
        pieces = map(itemgetter(1), self._pieces(np.arange(len(self.starts) - 1)))
        blocks = even_blocks(pieces, min(height, n), d, self.dtype, is_sparse=self.is_sparse)
        yield from zip(row_slices(n, height), blocks, strict=True)
        self.check_unchanged()


ANEW = "makes a new iterator of batches whenever it is called"
SAME = "The function has to make the same batches every time"


def ascending(key: slice | Indices, n: int) -> slice | Indices:
    """A slice with its ends, or positions that a single pass can meet in order."""
    if isinstance(key, slice):
        if key.step in (None, 1):
            start, stop, _ = key.indices(n)
            return slice(start, max(start, stop))
        key = np.arange(n)[key]
    rows = np.asarray(key, dtype=np.intp)
    if len(rows) and not (rows[0] >= 0 and rows[-1] < n and np.all(np.diff(rows) >= 0)):
        needed = f"ascending positions from 0 to {n - 1} are needed."
        msg = f"Rows {rows} were asked for of a source that is read in order: {needed}"
        raise InputError.saying(msg, "Use `take_rows`, which sorts.")
    return rows


class _Seen(NamedTuple):
    """What the first pass learned of a batch."""

    height: int
    dtype: np.dtype[Any]
    mark: int  # a checksum of its numbers

    @classmethod
    def of(cls, rows: Rows) -> _Seen:
        mark = 0
        for array in arrays_of(rows):
            mark = zlib.crc32(np.ascontiguousarray(array).data, mark)
        return cls(rows.shape[0], rows.dtype, mark)

    def __str__(self) -> str:
        return f"{self.height} rows of {self.dtype} with checksum {self.mark:08x}"


class Batches(Pieces):
    """Rows from a function that makes a new iterator of batches whenever it is called.

    A batch is a 2-D array, a CSR matrix or a frame (pandas, polars, Arrow; `columns` are those to read) of
    any height, also 0. All batches are read once at the start, to learn the number of rows, the width and
    the precision (float32 when all batches are, otherwise float64): one read more than the fit itself
    makes. Each later pass is held to the first by a checksum of every batch, because a function that
    shuffles would mix up rows without a sound.

    >>> import numpy as np
    >>> def halves():
    ...     yield np.zeros((3, 2), dtype=np.float32)
    ...     yield np.ones((2, 2), dtype=np.float32)
    >>> rows = Batches(halves)
    >>> rows
    batches from 'halves', 5 x 2 float32
    >>> [(i.start, i.stop) for i, block in rows.blocks(4)]
    [(0, 4), (4, 5)]
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self._make, self._chosen = make, columns
        called = getattr(make, "func", make)  # a functools.partial is named after what it calls
        self.name = name or f"batches from {getattr(called, '__name__', type(called).__name__)!r}"
        self._heaviest = self._row_bytes = 0
        self._width: int | None = None  # of the first batch
        self._seen = self._first_pass()
        self.starts = np.cumsum([0, *(batch.height for batch in self._seen)], dtype=np.intp)
        self.shape = (int(self.starts[-1]), int(self._width or 0))
        # An empty batch has no numbers, hence no precision.
        single = all(batch.dtype == np.float32 for batch in self._seen if batch.height)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _first_pass(self) -> list[_Seen]:
        seen: list[_Seen] = []
        start, iterator = 0, self._iterator()
        while (rows := self._next(iterator, len(seen))) is not None:
            tall, part = rows.shape[0], nth("batch", len(seen))
            place = range(start, start + tall)
            require_finite(rows, Place(self.name, place, self.columns, part, range(tall)))
            seen.append(_Seen.of(rows))
            self._row_bytes = max(self._row_bytes, _n_bytes(rows) // max(1, tall))
            start += tall
            del rows
        if start == 0:
            msg = f"{self.name}: there are no rows in {len(seen)} batch(es)."
            raise InputError.saying(msg, f"Pass a function that {ANEW}.")
        return seen

    def _iterator(self) -> Iterator[Any]:
        made = self._make()
        try:
            return iter(made)
        except TypeError as error:
            kind = type(made).__name__
            msg = f"{self.name}: the function returned a {kind}, not an iterator of batches."
            raise InputError.saying(msg, "Write a function that yields 2-D arrays.") from error

    def _next(self, iterator: Iterator[Any], p: int) -> Rows | None:
        """Batch p as rows of the kind and width of the first; None at the end."""
        try:
            batch = held(next(iterator))
        except StopIteration:
            return None
        what = f"{nth('batch', p)} of {self.name}"
        rows, columns = batch_rows(batch, self._chosen, what=what)
        if not self._has_warned:
            self._has_warned = warn_rounded(batch, what=what, names=columns)
        is_same = isinstance(batch, np.ndarray) and np.may_share_memory(rows, batch)
        given = 0 if is_same else getattr(batch, "nbytes", _n_bytes(rows))
        self._heaviest = max(self._heaviest, _n_bytes(rows) + given)
        if self._width is None:
            self._width, self.columns = rows.shape[1], columns
            self.is_sparse = sparse.issparse(rows)
        kinds = ("dense", "sparse")
        if rows.shape[1] != self._width:
            _refuse(what, f"{rows.shape[1]} columns", f"{self._width}")
        if sparse.issparse(rows) != self.is_sparse:
            _refuse(what, f"{kinds[not self.is_sparse]} rows", f"{kinds[self.is_sparse]} ones")
        if columns != self.columns and None not in (columns, self.columns):
            _refuse(what, f"the columns {columns}", f"{self.columns}")
        return rows

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Rows]]:
        needed = set(wanted.tolist())
        last = max(needed, default=-1)
        iterator = self._iterator()
        for p in range(last + 1):
            rows = self._next(iterator, p)
            self._hold_to_first_pass(p, rows)
            if p in needed:
                yield p, rows
            del rows
        if last == len(self._seen) - 1 and self._next(iterator, last + 1) is not None:
            ends = f"the first pass ended after {nth('batch', last)}, a later one goes on with"
            msg = f"{self.name}: {ends} {nth('batch', last + 1)}."
            raise InputError.saying(msg, f"{SAME}.")

    def _hold_to_first_pass(self, p: int, rows: Rows | None) -> None:
        if rows is None and p == 0:
            msg = f"{self.name}: a second call gave no batch: the iterator it returns is used up."
            remedy = f"Pass a function that {ANEW}, not one that returns the same generator again."
            raise InputError.saying(msg, remedy)
        now = None if rows is None else _Seen.of(rows)
        if now != self._seen[p]:
            had = f"{self.name}: {nth('batch', p)} had {self._seen[p]} on the first pass"
            msg = f"{had}, and {now or 'is missing'} now."
            remedy = f"{SAME}: shuffle with a fixed seed or not at all, or write the rows to a file once."
            raise InputError.saying(msg, remedy)

    def resident_bytes(self, height: int) -> int:
        """The largest batch, as it is given and as rows; sparse blocks are copied once more."""
        return self._heaviest + self.is_sparse * min(height, self.shape[0]) * self._row_bytes


def _refuse(what: str, got: str, expected: str) -> None:
    msg = f"{what} has {got}, but {expected} were expected, as in the first batch."
    remedy = "All batches need the same columns in the same order, and all are dense or all sparse."
    raise InputError.saying(msg, remedy)


def _n_bytes(rows: Rows) -> int:
    return sum(int(array.nbytes) for array in arrays_of(rows))


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
            what = f"{name} is packed with pickle ({head.name!r} says so)"
            msg = f"{what}, and unpacking it could run code that is in the file: it is not opened."
            raise InputError.saying(msg, "Write it again with zarr.save_array.")


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
    remedy = (
        "If you trust it, pass the open array, zarr.open_array(path), or store it uncompressed."
    )
    require_promise(promised, there, source=name, remedy=remedy)
    return ChunkedRows(found, name=name)
