"""Dask arrays and data frames as rows: chunks that are checked where they are computed, and stay there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import getitem
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, refuse
from mercer._core.types import Indices, Rows
from mercer.data.arrays import is_a
from mercer.data.batches import Pieces
from mercer.data.frames import batch_rows, require_names
from mercer.data.rows import Place, aligned, float_dtype, nth, require_finite, require_rows

FRAME, ARRAY = "dask data frame", "dask array"
SIZES = "Call X.compute_chunk_sizes() first."
# Whole columns that a task holds, several times where it transforms them, and into how many groups columns
# are cut at least, for as many workers.
COLUMN_BYTES, COLUMN_GROUPS = 2**25, 8


def dask_kind(x: Any) -> str | None:
    """Which collection of dask this is, without importing it; None for all else."""
    if is_a(x, "dask.array", "Array"):
        return ARRAY
    if is_a(x, "dask.dataframe", "DataFrame"):
        return FRAME
    if is_a(x, "dask.dataframe", "Series"):
        remedy = "Use X.to_frame() for one column."
        refuse("X", x, "rows of points, a dask data frame or a dask array", "a dask Series", remedy)
    return None


def refuse_dask(x: Any, remedy: str) -> None:
    """Raise where all rows of a collection would be gathered here: its owner knows whether they fit."""
    if (kind := dask_kind(x)) is not None:
        refuse("X", x, "rows in memory, or a file", f"a {kind}", f"Use {remedy}.")


@dataclass(frozen=True)
class Promise:
    """What a collection says of each of its chunks, and what rows have to be."""

    name: str
    d: int
    dtype: np.dtype[Any]
    columns: Sequence[str] | None

    def kept(self, chunk: Any, p: int, start: int | None, tall: int | None) -> Rows:
        """Chunk p as rows of the promised shape, finite; its first is at `start` among all, if known."""
        part = nth("partition" if self.name == FRAME else "chunk", p)
        what = f"{part} of the {self.name}"
        rows, names = batch_rows(chunk, self.columns, what=what)
        if sparse.issparse(rows):
            msg = f"{what} holds sparse rows; dense ones are needed."
            raise InputError.saying(msg, "Use X.map_blocks(lambda x: x.toarray()).")
        n = int(rows.shape[0])
        tall = n if tall is None else tall
        if rows.shape != (tall, self.d):
            found = f"has {n} rows and {rows.shape[1]} columns"
            msg = f"{what} {found}, but the collection says {tall} and {self.d}."
            remedy = "Look at how it was made: its chunks are not what it promises."
            raise InputError.saying(msg, remedy)
        where = range(n) if start is None else range(start, start + n)
        require_finite(rows, Place(self.name, where, names, part, range(n)))
        return aligned(rows.astype(self.dtype, copy=False))


def chunks_of(x: Any, columns: Sequence[str] | None) -> tuple[list[Any], list[float], Promise]:
    """The chunks of a collection, each all columns wide, their heights (NaN: unknown), what they promise."""
    if dask_kind(x) == FRAME:
        if columns is not None:
            require_names(columns, list(x.columns), what=FRAME)
            x = x[list(columns)]
        # The columns of an empty frame show what is refused, before anything is computed.
        rows, names = batch_rows(x._meta, None, what=FRAME)
        chunks = list(x.to_delayed())
        return chunks, [np.nan] * len(chunks), Promise(FRAME, rows.shape[1], rows.dtype, names)
    dtype = float_dtype(np.dtype(x.dtype), what=ARRAY)
    if x.ndim == 2 and np.isnan(x.shape[1]):
        msg = "X is a dask array of an unknown number of columns."
        raise InputError.saying(msg, SIZES)
    if x.ndim != 2 or not np.isnan(x.shape[0]):
        require_rows(x.shape, what=ARRAY)
    whole = x.rechunk({1: -1})
    heights = [float(tall) for tall in whole.chunks[0]]
    return list(whole.to_delayed().ravel()), heights, Promise(ARRAY, int(x.shape[1]), dtype, None)


class DaskRows(Pieces):
    """The rows of a dask array or data frame, chunk by chunk.

    Each chunk is checked by the task that makes it. Without a cluster chunks are computed one at a time when
    they are read; an engine that computes on a cluster has them computed there once (`place`), and rows that
    are asked for by position are picked there.
    """

    random_access = True  # to the next chunk

    def __init__(self, x: Any, columns: Sequence[str] | None = None) -> None:
        parts, heights, promise = chunks_of(x, columns)
        self.name, self.dtype, self.columns = promise.name, promise.dtype, promise.columns
        self._d, known = promise.d, not np.isnan(np.sum(heights))
        if known:
            self._heights = [int(tall) for tall in heights]
        elif self.name == ARRAY:
            msg = "X is a dask array whose chunks have unknown sizes, as after a mask selects rows."
            raise InputError.saying(msg, SIZES)
        starts, at = np.cumsum([0.0, *heights])[:-1], range(len(parts))
        known_of = map(counted, starts), map(counted, heights)
        self._checked = _tasks("rows", promise.kept, parts, at, *known_of)
        self._placed: tuple[Any, Callable[[list[Any]], list[Any]], list[Any]] | None = None

    # ── what a data frame does not know before it is computed ───────────────
    @cached_property
    def _heights(self) -> list[int]:
        return self._asked(len, self._there())

    @cached_property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return require_rows((sum(self._heights), self._d), what=self.name)

    @cached_property
    def starts(self) -> Indices:  # type: ignore[override]
        """The first row of each chunk that has rows, and their end."""
        return np.cumsum([0, *(tall for tall in self._heights if tall)], dtype=np.intp)

    @property
    def places(self) -> list[slice]:
        return [slice(*pair) for pair in pairwise(self.starts.tolist())]

    # ── where chunks are ────────────────────────────────────────────────────
    def place(self, client: Any, compute: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """The chunks, computed once on this cluster; `compute` gives the values of delayed objects."""
        there = self._placed is not None and self._placed[0] is client
        if not there or any(each.status in ("cancelled", "lost") for each in self._placed[2]):  # type: ignore[index]
            self._placed = client, compute, client.compute(self._checked)
        return self.pieces()

    def pieces(self) -> list[Any]:
        """The chunks that have rows, as futures or, where their client is closed, yet to be computed."""
        return [each for each, tall in zip(self._there(), self._heights, strict=True) if tall]

    def anew(self) -> list[Any]:
        """The chunks that have rows, yet to be computed: by any scheduler, on any cluster."""
        return [each for each, tall in zip(self._checked, self._heights, strict=True) if tall]

    def _there(self) -> list[Any]:
        if self._placed is not None and self._placed[0].status == "closed":
            self._placed = None
        return list(self._checked if self._placed is None else self._placed[2])

    def _asked(self, function: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
        """What a function says of chunks, where they are."""
        return self._values(_tasks("look", function, *args))

    def _values(self, work: list[Any]) -> list[Any]:
        import dask

        return list(dask.compute(*work)) if self._placed is None else self._placed[1](work)

    # ── rows ────────────────────────────────────────────────────────────────
    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Rows]]:
        for p in wanted:
            (rows,) = self._values([self.pieces()[int(p)]])
            yield int(p), aligned(rows)  # it has travelled

    def __getitem__(self, key: slice | Indices) -> Rows:
        if isinstance(key, slice):
            return super().__getitem__(key)
        rows = np.asarray(key, dtype=np.intp)
        edges = np.searchsorted(rows, self.starts)
        wanted = np.flatnonzero(np.diff(edges)).tolist()
        pieces = self.pieces()
        positions = [rows[edges[p] : edges[p + 1]] - self.starts[p] for p in wanted]
        found = self._asked(getitem, [pieces[p] for p in wanted], positions)
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *found])

    def look(self, check: Callable[[Rows], object], height: int) -> None:
        del height
        pieces = self.pieces()
        self._asked(_looked_at, [check] * len(pieces), pieces)

    def taken(self, rows: Indices | None, step: Callable[[Rows], Rows] | None = None) -> DaskRows:
        """The rows at these ascending positions (None: all), as a step makes them, where they are."""
        return self if rows is None and step is None else TakenRows(self, rows, step)

    def by_columns(
        self, step: Callable[[Rows, int], Any], then: Callable[..., Any] | None = None
    ) -> list[Any]:
        """``step(columns, first)`` of whole columns, (n, w) from the `first` on, group by group.

        What has to be seen in the order of all rows, a column at a time, is put together by a task: as many
        columns as it has room for. ``then`` makes one value of what all groups give, where they are.
        """
        import dask

        (n, d), pieces, key = self.shape, self.pieces(), f"mercer-columns-{uuid.uuid4().hex}"
        w = max(1, min(COLUMN_BYTES // (n * self.dtype.itemsize), -(-d // COLUMN_GROUPS)))
        sent, cut, group = _whole(step), dask.delayed(_columns), dask.delayed(_grouped)
        found = []
        for first in range(0, d, w):
            named = ((piece, f"{key}-cut-{first}-{p}") for p, piece in enumerate(pieces))
            parts = [cut(piece, first, first + w, dask_key_name=name) for piece, name in named]
            found.append(group(sent, first, *parts, dask_key_name=f"{key}-{first}"))
        if then is not None:
            found = [dask.delayed(then)(*found, dask_key_name=f"{key}-all")]
        return self._values(found)

    def resident_bytes(self, height: int) -> int:
        """The tallest chunk."""
        del height
        return int(np.max(np.diff(self.starts))) * self.shape[1] * self.dtype.itemsize

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_placed": None}  # another process has another client


class TakenRows(DaskRows):
    """Some rows of a collection, as a step makes them of each chunk, where the chunk is."""

    def __init__(
        self, source: DaskRows, rows: Indices | None, step: Callable[[Rows], Rows] | None
    ) -> None:
        like = np.empty((0, source.shape[1]), dtype=source.dtype)
        like = like if step is None else step(like)
        self.name, self.dtype, self.columns = source.name, like.dtype, None
        self._d, self._placed = int(like.shape[1]), None
        starts = source.starts
        edges = starts if rows is None else np.searchsorted(rows, starts)
        self._heights = np.diff(edges).tolist()
        # Of chunks that are on a cluster already, which are known there by their names.
        chunks = source.anew()
        places: list[Any] = [None] * len(chunks)
        if rows is not None:
            ends = zip(pairwise(edges), starts[:-1], strict=True)
            places = [_place(rows[first:end] - at) for (first, end), at in ends]
        self._checked = _tasks("rows", _made, [_whole(step)] * len(chunks), chunks, places)
        if source._placed is not None:
            self.place(*source._placed[:2])


def _tasks(name: str, function: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """Calls of a function with one of each of the arguments, as tasks that no others are mistaken for."""
    import dask

    call, key = dask.delayed(function), f"mercer-{name}-{uuid.uuid4().hex}"
    calls = enumerate(zip(*args, strict=True))
    return [call(*each, dask_key_name=f"{key}-{i}") for i, each in calls]


def _whole(thing: Any) -> Any:
    """A thing as one task, which all others refer to."""
    import dask

    return dask.delayed(thing, f"mercer-step-{uuid.uuid4().hex}", pure=False, traverse=False)


def _place(positions: Indices) -> slice | Indices:
    """Neighbours as a slice: a stretch of rows is two numbers."""
    if not len(positions):
        return slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    gapless = last - first + 1 == len(positions) and bool(np.all(np.diff(positions) == 1))
    return slice(first, last + 1) if gapless else positions


def _made(step: Callable[[Rows], Rows] | None, chunk: Rows, place: slice | Indices | None) -> Rows:
    rows = aligned(chunk if place is None else chunk[place])
    return rows if step is None else step(rows)


def _columns(chunk: Rows, first: int, after: int) -> Rows:
    return np.ascontiguousarray(chunk[:, first:after])


def _grouped(step: Callable[[Rows, int], Any], first: int, *parts: Rows) -> Any:
    return step(np.concatenate(parts), first)


def counted(count: float) -> int | None:
    """A number of rows; None where it is not known."""
    return None if np.isnan(count) else int(count)


def _looked_at(check: Callable[[Rows], object], rows: Rows) -> None:
    check(rows)
