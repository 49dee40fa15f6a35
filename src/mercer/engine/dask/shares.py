"""Rows on workers: consecutive shares, each a future of a block, sent again where it was lost."""

from __future__ import annotations

import weakref
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.dask import DaskRows
from mercer.data.rows import RowSource, row_slices
from mercer.engine.dask.hands import SomeRows
from mercer.engine.dask.work import Work

if TYPE_CHECKING:
    from mercer._core.types import Rows
    from mercer.engine.dask.cluster import Cluster


class Shares:
    """The rows of an array or a source in some shares, on workers.

    Rows of an array are sent from here. Those of a file are read by workers, which have to find it under the
    same path. Chunks of a dask collection are where Dask has them. None of them is held here.
    """

    def __init__(self, cluster: Cluster, x: Rows, count: int) -> None:
        self._work, self._workers = Work(cluster, "rows"), list(cluster.workers())
        self._x = x if isinstance(x, RowSource) else weakref.ref(x)
        n = int(x.shape[0])
        self.places: list[slice] = (
            x.places
            if isinstance(x, DaskRows)
            else [*row_slices(n, max(1, -(-n // max(1, count))))]
        )

    def blocks(self) -> list[Any]:
        """All of them, those that were lost anew: futures, or small blocks as they are."""
        x: Any = self._x if isinstance(self._x, RowSource) else self._x()
        if isinstance(x, DaskRows):
            return x.futures(self._work.client)
        if isinstance(x, RowSource):  # the way to the rows, not the rows
            return [SomeRows(x, place) for place in self.places]
        of = len(self._workers)
        return [
            self._work.sent(i, x[place], self._workers[i % of])
            for i, place in enumerate(self.places)
        ]


class Placed:
    """Which rows have been sent already: an array is sent once, as long as it stays the same to the bit."""

    def __init__(self) -> None:
        self._shares: dict[tuple[int, int], tuple[weakref.ref[Any], int, Shares]] = {}

    def shares(self, cluster: Cluster, x: Rows, count: int) -> Shares:
        """The shares of these rows, about `count` of them."""
        key, mark = (id(x), count), checksum(x)
        found = self._shares.get(key)
        if found is not None and found[0]() is x and found[1] == mark:
            return found[2]
        made = Shares(cluster, x, count)
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
