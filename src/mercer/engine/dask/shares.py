"""Rows on workers: consecutive shares, each a future of a block, sent again where it was lost."""

from __future__ import annotations

import pickle
import weakref
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.dask import DaskRows
from mercer.data.rows import RowSource, row_slices
from mercer.engine.dask.hands import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client, Future

    from mercer._core.types import Rows

LOST = ("lost", "cancelled", "error")


class Shares:
    """The rows of an array or a source, at most so many at a time, on workers.

    Rows of an array are sent from here. Those of a file are read by workers, which have to find it under the
    same path. Chunks of a dask collection are where Dask has them. None of them is held here.
    """

    def __init__(self, client: Client, x: Rows, workers: Sequence[str], count: int) -> None:
        self._client, self._workers = client, list(workers)
        self._x = x if isinstance(x, RowSource) else weakref.ref(x)
        n = int(x.shape[0])
        self.places: list[slice] = (
            x.places
            if isinstance(x, DaskRows)
            else [*row_slices(n, max(1, -(-n // max(1, count))))]
        )
        self._futures: list[Future | None] = [None] * len(self.places)

    def futures(self) -> list[Future]:
        """All of them, those that were lost anew."""
        x = self._x if isinstance(self._x, RowSource) else self._x()
        if isinstance(x, DaskRows):
            return x.futures(self._client)
        found: list[Future] = []
        for i, (place, future) in enumerate(zip(self.places, self._futures, strict=True)):
            if future is None or future.status in LOST:
                future = self._sent(x, place, self._workers[i % len(self._workers)])  # noqa: PLW2901
            found.append(future)
        self._futures = list(found)
        return found

    def _sent(self, x: Rows, place: slice, worker: str) -> Future:
        there = {"workers": [worker]} if worker in self._client.nthreads() else {}
        if isinstance(x, RowSource):
            return self._client.submit(
                read, x, place, pure=False, allow_other_workers=bool(there), **there
            )
        (future,) = self._client.scatter([x[place]], hash=False, **there)
        return future


class Placed:
    """Which rows have been sent already: an array is sent once, as long as it stays the same to the bit."""

    def __init__(self) -> None:
        self._shares: dict[tuple[int, int], tuple[weakref.ref[Any], int, Shares]] = {}

    def shares(self, client: Client, x: Rows, workers: Sequence[str], count: int) -> Shares:
        """The shares of these rows, about `count` of them."""
        key, mark = (id(x), count), checksum(x)
        found = self._shares.get(key)
        if found is not None and found[0]() is x and found[1] == mark:
            return found[2]
        made = Shares(client, x, workers, count)
        forget = weakref.ref(x, lambda _: self._shares.pop(key, None))
        self._shares[key] = forget, mark, made
        return made


def checksum(x: Rows) -> int:
    """Of the numbers of an array or a CSR matrix, at some GB/s; a source watches over its own."""
    if isinstance(x, RowSource):
        return 0
    mark = 0
    for array in (x.data, x.indices, x.indptr) if hasattr(x, "indptr") else (x,):
        mark = zlib.crc32(np.ascontiguousarray(array).data.cast("B"), mark)
    return mark


def travels(x: Rows) -> bool:
    """Whether workers can have these rows: an array, their own chunks, a file read in any order."""
    if not isinstance(x, RowSource) or isinstance(x, DaskRows):
        return True
    return x.stamp is not None and x.random_access


def pickled_bytes(thing: Any) -> float:
    """What it takes to send this; infinite where only Dask can tell."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        size = len(pickle.dumps(thing, protocol=5, buffer_callback=buffers.append))
    except (pickle.PicklingError, TypeError, AttributeError):  # a function of the user's
        return np.inf
    return size + sum(each.raw().nbytes for each in buffers)
