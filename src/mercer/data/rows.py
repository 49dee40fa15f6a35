"""Rows, wherever they are: what every loop over them asks for, and nothing more.

Rows in memory are a NumPy array or a CSR matrix. Rows elsewhere (a file, batches) are a `RowSource`, which
looks the same from here: ``shape``, ``dtype``, ``x[slice]``. Approximations and streaming passes read them by
`row_blocks` and `take_rows`; the other functions hold sources to their promise of finite numbers.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, many
from mercer._core.types import Array, Indices, Rows
from mercer.data.files import Stamp
from mercer.data.intake import admitted
from mercer.data.rounding import warn_rounded


class RowSource(ABC):
    """n checked rows of d numbers that are read a slice at a time.

    Every block handed out is a dense array (or CSR matrix) of `dtype`, finite, of width d; where it is
    not, the error names the source, the batch or file, the row and the column.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # float32 or float64; other numbers are read as float64
    name: str = "row source"  # "npy file 'big.npy'"
    columns: Sequence[str] | None = None  # names, where the rows have them
    stamp: Stamp | None = None  # of the files behind the rows, where there are files

    # Whether x[slice] and x[indices] cost about what they read. Batches can only be read in order.
    random_access: bool = True

    @abstractmethod
    def __getitem__(self, key: slice | Indices) -> Rows:
        """The rows of a slice, or those at ascending positions."""

    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        """All rows in order, at most `height` at a time, each block with its place."""
        self.check_unchanged()
        for i in row_slices(self.shape[0], height):
            yield i, self[i]
        self.check_unchanged()

    def look(self, check: Callable[[Rows], object], height: int) -> None:
        """Show all rows, at most `height` at a time, to a function that raises where they can't be used."""
        for _, block in self.blocks(height):
            check(block)

    def resident_bytes(self, height: int) -> int:
        """What reading blocks of this height holds in memory beyond the block itself."""
        del height
        return 0

    _has_warned = False

    def _warn_rounded(self, stored: Any, rows: Sequence[int] | Indices) -> None:
        """Warn, once a source, of stored numbers that are rounded to float64."""
        if not self._has_warned:
            self._has_warned = warn_rounded(stored, what=self.name, names=self.columns, rows=rows)

    def check_unchanged(self) -> None:
        if self.stamp is not None:
            self.stamp.check(self.name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle holds the way to the rows, not the rows: they have to be the same at the other end.
        self.__dict__.update(state)
        self.check_unchanged()

    def __repr__(self) -> str:
        return f"{self.name}, {self.shape[0]} x {self.shape[1]} {self.dtype}"


class SomeRows(RowSource):
    """Consecutive rows of a source that gives them in any order, read where they are needed."""

    def __init__(self, source: RowSource, place: slice) -> None:
        self.source, self.start = source, place.start
        self.shape, self.dtype = (place.stop - place.start, source.shape[1]), source.dtype
        self.name, self.columns = source.name, source.columns

    def __getitem__(self, key: slice | Indices) -> Rows:
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            return self.source[slice(self.start + start, self.start + stop, step)]
        return self.source[np.asarray(key) + self.start]

    def check_unchanged(self) -> None:
        self.source.check_unchanged()


def row_slices(n_rows: int, width: int, first: int = 0) -> Iterator[slice]:
    """Consecutive slices of at most `width` rows that cover `n_rows`, from the row `first` on."""
    for start in range(first, n_rows, width):
        yield slice(start, min(start + width, n_rows))


class Block:
    """A block of rows that is being filled."""

    def __init__(self, height: int, width: int, dtype: Any, *, is_sparse: bool) -> None:
        self.room, self._shape, self._dtype = height, (height, width), dtype
        self._out: Array | None = None if is_sparse else np.empty(self._shape, dtype)
        self._parts: list[Rows] = []

    def add(self, part: Rows) -> None:
        start, self.room = self._shape[0] - self.room, self.room - part.shape[0]
        if self._out is None:
            self._parts.append(part.astype(self._dtype, copy=False))
        else:
            self._out[start : start + part.shape[0]] = part

    def rows(self) -> Rows:
        """Those that were added."""
        if self._out is not None:
            return self._out[: self._shape[0] - self.room]
        if not self._parts:
            return sparse.csr_array(self._shape, dtype=self._dtype)
        return sparse.csr_array(sparse.vstack(self._parts, format="csr"))


def even_blocks(
    blocks: Iterable[Rows],
    height: int,
    width: int,
    dtype: Any = np.float64,
    *,
    is_sparse: bool = False,
) -> Iterator[Any]:
    """Blocks of any height, cut anew into blocks of one, which are the caller's."""
    out: Block | None = None
    for block in blocks:
        at = 0
        while at < block.shape[0]:
            out = out or Block(height, width, dtype, is_sparse=is_sparse)
            part = slice(at, at + out.room)
            out.add(block[part])
            at = part.stop
            if out.room == 0:
                yield out.rows()
                out = None
        del block  # or it would still be held while the next one is read
    if out is not None:
        yield out.rows()


def row_blocks(x: Rows, height: int) -> Iterator[tuple[slice, Rows]]:
    """All rows in order, at most `height` at a time, each block with its place."""
    if isinstance(x, RowSource):
        yield from x.blocks(height)
        return
    for i in row_slices(int(x.shape[0]), height):
        yield i, x[i]


def take_rows(x: Rows, indices: Indices) -> Rows:
    """The rows at these positions, in this order (positions may repeat), in memory."""
    if isinstance(x, np.ndarray):
        return x[indices]
    places, back = np.unique(indices, return_inverse=True)
    return x[places][back]


# ── what a source promises ──────────────────────────────────────────────────
FEW_NUMBERS = 10_000  # whose squares BLAS sums on the calling thread
REASONS = {
    "c": "complex numbers, but real ones are needed. Store the real part, or both parts as columns",
    "O": "Python objects, which are pickled and not opened. Store the rows as float32 or float64",
    "U": "text, but numbers are needed. Drop those columns, or encode them (OneHotEncoder)",
    "M": "dates, but numbers are needed. Store them as days or seconds since a start",
    "V": "records with named fields, but plain rows are needed. Use "
    "numpy.lib.recfunctions.structured_to_unstructured",
}
ALIKE = {"S": "U", "T": "U", "m": "M"}


def float_dtype(dtype: Any, *, what: str) -> np.dtype[Any]:
    """The precision in which stored numbers are read: float32 as it is, all others as float64."""
    kind = dtype.kind
    if kind in "biuf":
        return np.dtype(np.float32 if kind == "f" and dtype.itemsize == 4 else np.float64)
    msg = f"{what} has dtype {dtype}: {REASONS.get(ALIKE.get(kind, kind), 'numbers are needed')}."
    raise InputError(msg)


def require_rows(shape: Sequence[Any], *, what: str, least: int = 1) -> tuple[int, int]:
    """(n, d), with at least one column and `least` rows; anything else raises, with the way out."""
    if len(shape) != 2:
        out = "reshape(-1, 1) for one feature" if len(shape) < 2 else "reshape(len(x), -1)"
        found = f"{what} is {len(shape)}-D of shape {tuple(shape)}"
        msg = f"{found}, but rows of points are needed, a 2-D array. Use {out}."
        raise InputError(msg)
    n, d = shape
    if not (n >= least and d >= 1):  # a length that a lazy array does not know yet is NaN
        msg = f"{what} has {n} rows and {d} columns; at least one of each is needed."
        raise InputError.saying(msg, "Look at how it was made.")
    return int(n), int(d)


def arrays_of(rows: Rows) -> tuple[Any, ...]:
    """What rows in memory are made of: an array, or the three of a sparse matrix."""
    return (rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,)


def aligned(x: Any) -> Any:
    """The same, copied if not aligned: NumPy multiplies such arrays without BLAS, to other roundings."""
    astray = any(isinstance(a, np.ndarray) and not a.flags.aligned for a in arrays_of(x))
    return x.copy() if astray else x


def as_rows(x: Any, *, what: str) -> Rows:
    """Rows in memory as float32 or float64, dense (C order) or CSR; there may be none."""
    try:
        x = admitted(x, what=what)
        rows = sparse.csr_array(x) if sparse.issparse(x) else np.asarray(x)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        msg = f"{what}, a {type(x).__name__}, is not a 2-D array of numbers: {error}."
        raise InputError(msg) from error
    require_rows(rows.shape, what=what, least=0)
    dtype = float_dtype(rows.dtype, what=what)
    with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
        if sparse.issparse(rows):
            return aligned(rows.astype(dtype, copy=False))
        return aligned(np.ascontiguousarray(rows, dtype=dtype))


@dataclass(frozen=True)
class Place:
    """Where the rows of a block are from, in words for an error."""

    source: str
    rows: Sequence[int] | Indices  # positions among all rows
    columns: Sequence[Any] | None = None
    part: str | None = None  # "batch 6 (the 7th)"
    part_rows: Sequence[int] | Indices = range(0)  # positions within the part
    lines: Any = None  # of a text file, in which the rows begin

    def refuse(self, value: str, row: int, column: int, count: int) -> NoReturn:
        """Raise for a value that no kernel can take, in this row and column of the block."""
        part = "" if self.part is None else f", which is row {self.part_rows[row]} of {self.part}"
        where = f"row {self.rows[row]}{part}" if self.lines is None else f"line {self.lines[row]}"
        name = "" if self.columns is None else f" ({self.columns[column]!r})"
        msg = (
            f"{value} in {self.source}: first in {where}, column {column}{name}; {many(count, 'such value')} "
            "in the rows read with it. Kernels need finite numbers:"
        )
        raise InputError.saying(msg, "drop those rows, or fill them in.", parameter="X")


def nth(noun: str, p: int) -> str:
    """Position p, from 0, for people who count from 0 and for those who count from 1.

    >>> nth("batch", 6), nth("batch", 10), nth("batch", 21)
    ('batch 6 (the 7th)', 'batch 10 (the 11th)', 'batch 21 (the 22nd)')
    """
    count = p + 1
    teen = count % 100 in (11, 12, 13)
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{noun} {p} (the {count}{ending})"


def first_bad(x: Rows) -> tuple[float, int, int, int] | None:
    """The first NaN or infinity of the rows, its row and column, and how many there are."""
    few = isinstance(x, np.ndarray) and x.size <= FEW_NUMBERS and x.dtype.kind == "f"
    if few and math.isfinite(np.vdot(x, x)):  # in a quarter of the time of what is below
        return None
    values = x.data if sparse.issparse(x) else x
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(values.sum()):  # one pass without a temporary; an overflow is looked into
            return None
    bad = ~np.isfinite(values)
    if not bad.any():
        return None
    if sparse.issparse(x):
        at = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(x.indptr, at, side="right")) - 1
        return float(values[at]), row, int(x.indices[at]), int(bad.sum())
    row, column = (int(i) for i in np.argwhere(bad)[0])
    return float(x[row, column]), row, column, int(bad.sum())


def require_finite(x: Rows, place: Place) -> None:
    """Raise for NaN or infinity.

    Sources call it for each block they read: one sum is cheap, and shows a file that was spoilt between
    passes.
    """
    if (found := first_bad(x)) is not None:
        value, *where = found
        place.refuse("NaN" if np.isnan(value) else f"Infinity ({value})", *where)


# ── which rows they are ─────────────────────────────────────────────────────
class Digest:
    """The SHA-256 of rows that come in blocks, however they are cut."""

    def __init__(self) -> None:
        # One stream for dense rows, three for sparse ones: each carries the same bytes for every cut.
        names = ("rows", "data", "indices", "lengths")
        self._streams = {name: hashlib.sha256() for name in names}

    def add(self, block: Rows) -> None:
        parts = {"rows": block}
        if hasattr(block, "indptr"):
            parts = {"data": block.data, "indices": block.indices.astype(np.int64)}
            parts["lengths"] = np.diff(block.indptr).astype(np.int64)
        for name, part in parts.items():
            self._streams[name].update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)

    def hex(self, shape: Any, dtype: Any) -> str:
        whole = hashlib.sha256(f"{tuple(map(int, shape))} {np.dtype(dtype).str}".encode())
        for stream in self._streams.values():
            whole.update(stream.digest())
        return whole.hexdigest()[:32]
