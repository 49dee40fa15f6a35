"""Rows of a cluster: here, and on workers in consecutive shares, sent again where one was lost."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mercer._core.types import Indices, Rows
from mercer.data.dask import DaskRows
from mercer.data.rows import RowSource, SomeRows, row_slices, take_rows
from mercer.engine.base import TileKernel
from mercer.engine.dask import hands
from mercer.engine.dask.cluster import Cluster
from mercer.engine.dask.hands import Local
from mercer.engine.dask.work import Work, computed
from mercer.engine.numpy import HostRows
from mercer.engine.torch.devices import There


class ClusterRows:
    """Rows for tiles: here, in a file or on workers; what workers make of them is made when it is needed."""

    def __init__(self, rows: Rows, cut: hands.Cut) -> None:
        self.rows, self.cut, self.dtype = rows, cut, cut.dtype
        self.n, self.d = self.shape = int(rows.shape[0]), int(rows.shape[1])
        self.of_halves = cut.store.halves > 0  # as a fit has planned, also where tiles have to do
        self.here: HostRows | None = None  # for what is short
        # From the first long product on: their placement, hands, and the engine that these compute with.
        self.where: Placement | None = None
        self.dealt: Work | None = None
        self.local: hands.Local | None = None

    def take(self, indices: Indices) -> Rows:
        return take_rows(self.rows, indices).astype(self.dtype, copy=False)


class Shares:
    """The rows of an array or a source in some shares, on workers.

    Rows of an array are sent from here. Those of a file are read by workers, which have to find it under the
    same path. Chunks of a dask collection are where Dask has them. None of them is held here.
    """

    def __init__(self, cluster: Cluster, x: Rows, workers: Sequence[str]) -> None:
        self._work, self._workers = Work(cluster, "rows"), workers
        self._x = weakref.ref(x)  # the caller that computes on the rows holds them
        n = int(x.shape[0])
        own = x.places if isinstance(x, DaskRows) else row_slices(n, -(-n // len(workers)) or 1)
        self.places: list[slice] = list(own)

    def blocks(self) -> list[Any]:
        """All of them, those that were lost anew: futures, or small blocks as they are."""
        x: Any = self._x()
        if isinstance(x, DaskRows):
            return x.place(self._work.client, partial(computed, self._work.cluster))
        if isinstance(x, RowSource):  # the way to the rows, not the rows
            return [SomeRows(x, place) for place in self.places]
        if len(self.places) == 1:  # for all
            return [self._work.sent(0, x)]
        pairs = zip(self.places, self._workers, strict=False)  # few rows have fewer places
        return [self._work.sent(i, x[place], worker) for i, (place, worker) in enumerate(pairs)]


class Placement:
    """The workers that some rows are on, decided once: others that leave or join later change no bit."""

    def __init__(self, cluster: Cluster, x: Rows) -> None:
        self.workers, self.device = cluster.workers(), cluster.device
        self.shares = Shares(cluster, x, list(self.workers))
        self.whole = Shares(cluster, x, list(self.workers)[:1])

    def local(self, kernel: TileKernel | None = None) -> Local:
        """The engine that all these workers have: the device, compiled tiles of one kind, or NumPy."""
        tiles = {each.tiles for each in self.workers.values()}
        threads = min(each.n_threads for each in self.workers.values())
        serial = kernel is not None and not kernel.parallel
        own = tiles.pop() if len(tiles) == 1 else "numpy", 1 if serial else threads
        return Local(*own, self.device, halves=all(each.has_tensor_cores for each in self.there))

    @property
    def there(self) -> list[There]:
        """The devices of these workers, where they compute on such."""
        return [each.there for each in self.workers.values() if isinstance(each.there, There)]


class Placements:
    """Which rows are placed: an array is sent once, as long as it stays the same to the bit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._placed: dict[int, tuple[weakref.ref[Any], int, Placement]] = {}

    def of(self, x: Rows) -> Placement:
        key, mark = id(x), checksum(x)
        found = self._placed.get(key)
        if found is not None and found[0]() is x and found[1] == mark:
            return found[2]
        made = Placement(self._cluster, x)
        self._placed[key] = weakref.ref(x, lambda _: self._placed.pop(key, None)), mark, made
        return made

    def renew(self, x: Rows) -> None:
        """Let rows be placed anew where the workers are others by now: between two fits."""
        found = self._placed.get(id(x))
        if found is not None and list(found[2].workers) != list(self._cluster.workers()):
            self._placed.pop(id(x), None)  # another thread may have


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
