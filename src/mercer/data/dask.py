"""Dask arrays and data frames as rows: chunks that are checked where they are computed, and stay there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, refuse
from mercer.data.batches import Pieces
from mercer.data.frames import batch_rows, is_a, require_names
from mercer.data.rows import Place, aligned, float_dtype, nth, require_finite, require_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercer._core.types import Indices, Rows

FRAME, ARRAY = "dask data frame", "dask array"


def dask_kind(x: Any) -> str | None:
    """Which collection of dask this is, without importing it; None for all else."""
    for module, kind, name in (
        ("dask.array", "Array", ARRAY),
        ("dask.dataframe", "DataFrame", FRAME),
    ):
        if is_a(x, module, kind):
            return name
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
            remedy = "Use X.map_blocks(lambda x: x.toarray())."
            msg = f"{what} holds sparse rows; dense ones are needed. {remedy}"
            raise InputError(msg)
        n = int(rows.shape[0])
        tall = n if tall is None else tall
        if rows.shape != (tall, self.d):
            msg = (
                f"{what} has {n} rows and {rows.shape[1]} columns, but the collection says {tall} and "
                f"{self.d}. Look at how it was made: its chunks are not what it promises."
            )
            raise InputError(msg)
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
    if x.ndim != 2 or not np.isnan(x.shape[0]):
        require_rows(x.shape, what=ARRAY)
    whole = x.rechunk({1: -1})
    heights = [float(tall) for tall in whole.chunks[0]]
    return list(whole.to_delayed().ravel()), heights, Promise(ARRAY, int(x.shape[1]), dtype, None)


PATIENCE = 15.0  # seconds to wait for a worker, or for the scheduler, before raising


class DaskRows(Pieces):
    """The rows of a dask array or data frame, chunk by chunk.

    Each chunk is checked by the task that makes it. Without a cluster chunks are computed one at a time when
    they are read; an engine that computes on a cluster has them computed there once (`futures`), and rows
    that are asked for by position are picked there.
    """

    random_access = True  # to the next chunk

    def __init__(self, x: Any, columns: Sequence[str] | None = None) -> None:
        self._parts, heights, self._promise = chunks_of(x, columns)
        self.name, self.dtype = self._promise.name, self._promise.dtype
        self.columns = self._promise.columns
        self._client: Any = None  # of the cluster that the chunks are on
        self._futures: list[Any] = []
        if self.name == FRAME:
            self._lengths = x.map_partitions(len)
        elif np.isnan(np.sum(heights)):
            msg = (
                "X is a dask array whose chunks have unknown sizes, as after a selection by a mask. Call "
                "X.compute_chunk_sizes() first."
            )
            raise InputError(msg)
        else:
            self._heights = heights

    # ── what a data frame does not know before it is computed ───────────────
    @cached_property
    def _heights(self) -> list[float]:
        (lengths,) = self._computed([self._lengths])
        return [float(tall) for tall in lengths]

    @cached_property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows of all chunks, and columns."""
        return require_rows((int(sum(self._heights)), self._promise.d), what=self.name)

    @cached_property
    def _there(self) -> list[int]:
        """The chunks that have rows."""
        return [p for p, tall in enumerate(self._heights) if tall]

    @cached_property
    def starts(self) -> Indices:  # type: ignore[override]
        """The first row of each of those, and their end."""
        return np.cumsum([0, *(self._heights[p] for p in self._there)], dtype=np.intp)

    @cached_property
    def chunks(self) -> list[Any]:
        """Those, to be computed: each is checked as it is made."""
        import dask

        kept, starts = dask.delayed(self._promise.kept), self.starts.tolist()
        return [
            kept(self._parts[p], p, starts[i], int(self._heights[p]))
            for i, p in enumerate(self._there)
        ]

    @property
    def places(self) -> list[slice]:
        """The rows of each chunk."""
        ends = self.starts.tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    def futures(self, client: Any) -> list[Any]:
        """The chunks on the cluster of this client: they are computed once, and stay while these rows do."""
        there = self._client is client and self._futures
        self._client = client
        if not there or any(future.status == "cancelled" for future in self._futures):
            self._futures = client.compute(self.chunks)
        return list(self._futures)

    def _computed(self, work: list[Any]) -> list[Any]:
        """Values of delayed objects, or of futures, in their order."""
        import dask

        if self._client is None:
            return list(dask.compute(*work))
        _require_workers(self._client)
        return list(self._client.gather(self._client.compute(work)))

    def pieces(self) -> list[Any]:
        """The chunks, as futures or, where their client is closed, yet to be computed."""
        if self._client is not None and self._client.status == "closed":
            self._client, self._futures = None, []
        return list(self._futures or self.chunks)

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Rows]]:
        for p in wanted:
            (rows,) = self._computed([self.pieces()[int(p)]])
            yield int(p), aligned(rows)  # it has travelled

    def __getitem__(self, key: slice | Indices) -> Rows:
        if isinstance(key, slice):
            return super().__getitem__(key)
        import dask

        rows = np.asarray(key, dtype=np.intp)
        edges = np.searchsorted(rows, self.starts)
        wanted = np.flatnonzero(np.diff(edges)).tolist()
        pieces = self.pieces()
        work = [
            dask.delayed(_picked)(pieces[p], rows[edges[p] : edges[p + 1]] - self.starts[p])
            for p in wanted
        ]
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *self._computed(work)])

    def look(self, check: Callable[[Rows], object], height: int) -> None:
        """Show each chunk to the function where it is."""
        import dask

        del height
        self._computed([dask.delayed(_looked_at)(check, piece) for piece in self.pieces()])

    def resident_bytes(self, height: int) -> int:
        """The tallest chunk."""
        del height
        return int(np.max(np.diff(self.starts))) * self.shape[1] * self.dtype.itemsize

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None, "_futures": []}  # another process has another


def _require_workers(client: Any) -> None:
    """Raise where nobody would answer: Dask itself waits for ever."""
    started = time.monotonic()
    while not client.nthreads():
        if time.monotonic() - started > PATIENCE:
            msg = (
                "The rows are chunks on a Dask cluster that has no workers, and none has joined within "
                f"{PATIENCE:g} s. Start some, or fit again."
            )
            raise InputError(msg)
        time.sleep(0.2)


def _looked_at(check: Callable[[Rows], object], rows: Rows) -> None:
    check(rows)


def _picked(rows: Rows, positions: Indices) -> Rows:
    return rows[positions]
