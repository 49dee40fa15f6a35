"""Dask arrays and data frames as rows: chunks that are checked where they are computed, and stay there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError
from mercer.data.batches import Pieces
from mercer.data.frames import batch_rows, require_names
from mercer.data.rows import Place, float_dtype, nth, require_finite, require_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer._core.types import Indices, Rows

FRAME, ARRAY = "dask data frame", "dask array"


def dask_kind(x: Any) -> str | None:
    """Which collection of dask this is, without importing it; None for all else."""
    for module, kind, name in (
        ("dask.array", "Array", ARRAY),
        ("dask.dataframe", "DataFrame", FRAME),
    ):
        if isinstance(x, getattr(sys.modules.get(module), kind, ())):
            return name
    return None


class DaskRows(Pieces):
    """The rows of a dask array or data frame, chunk by chunk.

    Each chunk is checked by the task that makes it. Without a cluster chunks are computed one at a time when
    they are read; an engine that computes on a cluster has them computed there once (`futures`), and rows
    that are asked for by position are picked there.
    """

    random_access = True  # to the next chunk

    def __init__(self, x: Any, columns: Sequence[str] | None = None) -> None:
        import dask

        kind = dask_kind(x)
        self.name = str(kind)
        if kind == FRAME:
            chunks, heights = self._of_frame(x, columns)
        else:
            chunks, heights = self._of_array(x)
        self.shape = require_rows((sum(heights), self.shape[1]), what=self.name)
        there = [p for p, tall in enumerate(heights) if tall]  # a chunk may be empty
        self.starts = np.cumsum([0, *(heights[p] for p in there)], dtype=np.intp)
        check = Promise(self.name, self.shape[1], self.dtype, self.columns).kept
        self._chunks = [
            dask.delayed(check)(chunks[p], p, int(self.starts[i]), heights[p])
            for i, p in enumerate(there)
        ]
        self._placed: Any = None  # a client and its futures

    def _of_array(self, x: Any) -> tuple[list[Any], list[int]]:
        self.dtype = float_dtype(np.dtype(x.dtype), what=self.name)
        if x.ndim == 2 and np.isnan(x.shape[0]):
            msg = (
                "X is a dask array whose chunks have unknown sizes, as after a selection by a mask. Call "
                "X.compute_chunk_sizes() first."
            )
            raise InputError(msg)
        self.shape = require_rows(x.shape, what=self.name)
        whole = x.rechunk({1: -1})
        return list(whole.to_delayed().ravel()), [int(tall) for tall in whole.chunks[0]]

    def _of_frame(self, x: Any, columns: Sequence[str] | None) -> tuple[list[Any], list[int]]:
        if columns is not None:
            require_names(columns, list(x.columns), what=self.name)
            x = x[list(columns)]
        # The columns of an empty frame show what is refused, before anything is computed.
        rows, self.columns = batch_rows(x._meta, None, what=self.name)
        self.dtype, self.shape = rows.dtype, (0, rows.shape[1])
        heights = x.map_partitions(len).compute()
        return list(x.to_delayed()), [int(tall) for tall in heights]

    @property
    def places(self) -> list[slice]:
        """The rows of each chunk."""
        ends = self.starts.tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    def futures(self, client: Any) -> list[Any]:
        """The chunks on the cluster of this client: they are computed once, and stay while these rows do."""
        there = self._placed is not None and self._placed[0] is client
        if not there or any(future.status == "cancelled" for future in self._placed[1]):
            self._placed = client, client.compute(self._chunks)
        return list(self._placed[1])

    def _computed(self, work: list[Any]) -> list[Any]:
        """Values of delayed objects, or of futures, in their order."""
        import dask

        if self._placed is not None:
            return list(self._placed[0].gather(self._placed[0].compute(work)))
        return list(dask.compute(*work))

    def _piece(self, p: int) -> Any:
        return self._chunks[p] if self._placed is None else self._placed[1][p]

    def _pieces(self, wanted: Indices) -> Iterator[tuple[int, Rows]]:
        for p in wanted:
            (rows,) = self._computed([self._piece(int(p))])
            yield int(p), rows

    def __getitem__(self, key: slice | Indices) -> Rows:
        if isinstance(key, slice):
            return super().__getitem__(key)
        import dask

        rows = np.asarray(key, dtype=np.intp)
        edges = np.searchsorted(rows, self.starts)
        wanted = np.flatnonzero(np.diff(edges)).tolist()
        work = [
            dask.delayed(_picked)(self._piece(p), rows[edges[p] : edges[p + 1]] - self.starts[p])
            for p in wanted
        ]
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *self._computed(work)])

    def resident_bytes(self, height: int) -> int:
        """The tallest chunk."""
        del height
        return int(np.max(np.diff(self.starts))) * self.shape[1] * self.dtype.itemsize

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_placed": None}  # another process has another client


@dataclass(frozen=True)
class Promise:
    """What a collection says of each of its chunks, and what rows have to be."""

    name: str
    d: int
    dtype: np.dtype[Any]
    columns: Sequence[str] | None

    def kept(self, chunk: Any, p: int, start: int, tall: int) -> Rows:
        """Chunk p as rows of the promised shape, finite; its first is at `start` among all."""
        part = nth("partition" if self.name == FRAME else "chunk", p)
        what = f"{part} of the {self.name}"
        rows, names = batch_rows(chunk, self.columns, what=what)
        if sparse.issparse(rows):
            remedy = "Use X.map_blocks(lambda x: x.toarray())."
            msg = f"{what} holds sparse rows; dense ones are needed. {remedy}"
            raise InputError(msg)
        if rows.shape != (tall, self.d):
            msg = (
                f"{what} has {rows.shape[0]} rows and {rows.shape[1]} columns, but the collection says "
                f"{tall} and {self.d}. Look at how it was made: its chunks are not what it promises."
            )
            raise InputError(msg)
        require_finite(rows, Place(self.name, range(start, start + tall), names, part, range(tall)))
        return rows.astype(self.dtype, copy=False)


def _picked(rows: Rows, positions: Indices) -> Rows:
    return rows[positions]
