"""Work on a cluster, which ends with a value or an error in words, the parcels that it sends, and rows there.

A function submits tasks and sends what they need, each under a name. When a worker is lost, Dask computes
again what it can, and gives up where rows or vectors are missing that only this process has. Then the
function is called again, sends these anew, and finds under its name what is already done.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.types import Rows
from mercer.data.dask import DaskRows
from mercer.data.rows import RowSource, SomeRows, aligned, row_slices
from mercer.engine.base import Resident, TileKernel
from mercer.engine.dask.cluster import TURN_SECONDS, Cluster, ClusterError, first_line
from mercer.engine.dask.tasks import Cut, Local
from mercer.engine.numpy import HostRows
from mercer.engine.torch.place import There

if TYPE_CHECKING:
    from distributed import Future


OUT_OF_BAND = 5  # the protocol of pickle from which the numbers of arrays are buffers of their own


class Parcel:
    """Something that travels: its arrays are moved, where they have to be, when it arrives.

    Dask reads a message into one buffer and makes arrays that are views of it, at whatever byte they begin.
    NumPy multiplies an array that is not aligned without BLAS: several times more slowly, and with sums in
    another order. So the bits of a result would depend on what else was in the message.
    """

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        import cloudpickle  # functions of the user's, too

        buffers: list[Any] = []
        apart = buffers.append if protocol >= OUT_OF_BAND else None
        data = cloudpickle.dumps(self.thing, protocol=protocol, buffer_callback=apart)
        return _arrived, (data, buffers)

    def __sizeof__(self) -> int:
        from dask.sizeof import sizeof

        return int(sizeof(self.thing))


def _arrived(data: bytes, buffers: list[Any]) -> Parcel:
    return Parcel(pickle.loads(data, buffers=[_moved(each) for each in buffers]))


def _moved(buffer: Any) -> Any:
    """The same bytes, from a multiple of 8 on."""
    if not memoryview(buffer).nbytes:
        return buffer
    octets = np.frombuffer(buffer, dtype=np.uint8)
    return octets if octets.ctypes.data % np.dtype(float).alignment == 0 else octets.copy()


def run(function: Callable[..., Any], *args: Any) -> Parcel:
    """A task: what it takes out of parcels it gives back in one."""
    return Parcel(function(*map(opened, args)))


def opened(arg: Any) -> Any:
    """The content of a parcel; anything else is aligned first."""
    return arg.thing if isinstance(arg, Parcel) else aligned(arg)


ATTEMPTS = 10  # that something is sent anew: more workers than that are not lost by accident
MANY_WORKERS = 6
WITH_TASKS = 2**16  # bytes that travel with a task, by way of the scheduler


class Work:
    """Tasks and what they need, by name; the dashboard of Dask shows ``mercer-product`` and the like."""

    def __init__(self, cluster: Cluster, what: str) -> None:
        self.cluster, self.client = cluster, cluster.client
        self._name = f"mercer-{what}-{uuid.uuid4().hex}"
        self._futures: dict[Any, Future] = {}

    # ── tasks ───────────────────────────────────────────────────────────────
    def submit(
        self, part: Any, function: Callable[..., Any], *args: Any, worker: str | None = None
    ) -> Future:
        """The task of that name, unless it is there; on this worker or, if that is lost, on another."""
        if not self.has(part):
            where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
            # A name that was cancelled stays so while anything refers to it.
            again = f"-{uuid.uuid4().hex}" if part in self._futures else ""
            key = f"{self._name}{again}-{part}"
            self._futures[part] = self.client.submit(run, function, *args, key=key, **where)
        return self._futures[part]

    def sent(self, part: Any, thing: Any, worker: str | None = None) -> Any:
        """What tasks need: small things go with each; a large one is sent once, to this worker or to all.

        Few workers get what is for all from one of them. If many did, they would wait for its line; so Dask
        passes it on from worker to worker.
        """
        if not self.has(part):
            parcel = Parcel(thing)
            if pickled_bytes(parcel) <= WITH_TASKS:
                return parcel
            there = self.cluster.addresses()
            where: dict[str, Any] = {"broadcast": worker is None and len(there) >= MANY_WORKERS}
            if worker in there:
                where["workers"] = [worker]
            (self._futures[part],) = self.client.scatter([parcel], hash=False, **where)
        return self._futures[part]

    def has(self, part: Any) -> bool:
        """Whether there is a future of that name, and it was not lost."""
        return part in self._futures and self._futures[part].status not in ("lost", "cancelled")

    def all(self, parts: Sequence[Future]) -> Future:
        return self.submit("all", listed, *parts)

    def tree(self, parts: Sequence[Future], merge: Callable[[Any, Any], Any]) -> Future:
        """Neighbours merged in pairs until one is left: in an order that no timing changes."""
        level, parts = 0, list(parts)
        while len(parts) > 1:
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [
                self.submit(f"sum-{level}-{i}", merge, *pair) if len(pair) > 1 else pair[0]
                for i, pair in enumerate(pairs)
            ]
            level += 1
        return parts[0]

    # ── values ──────────────────────────────────────────────────────────────
    def value(
        self, build: Callable[[], Future], *, watched: Callable[[], object] = lambda: None
    ) -> Any:
        """The value of the future that `build` submits; `watched` is called in turns until it is there."""
        from distributed.comm import CommClosedError

        _leave_the_thread()
        for _ in range(ATTEMPTS):
            try:
                return self._waited(_sendable(build), watched)
            except (CancelledError, CommClosedError):  # lost with a worker, or on the way to one
                time.sleep(TURN_SECONDS)
                self._require_scheduler()
        msg = (
            f"Workers of the Dask cluster at {self.cluster.address} were lost {ATTEMPTS} times during one "
            "pass. Look at their logs: they may have been ended for memory, or by the queue they run in."
        )
        raise ClusterError(msg)

    def _waited(self, future: Future, watched: Callable[[], object]) -> Any:
        from distributed import KilledWorker

        done, looked = threading.Event(), time.monotonic()
        future.add_done_callback(lambda _: done.set())
        try:
            while not done.wait(TURN_SECONDS):
                watched()
                waited = time.monotonic() - looked > self.cluster.patience
                if waited and self.client.status == "running":
                    self.cluster.addresses()  # raises where all are gone: Dask would wait for ever
                    looked = time.monotonic()
            return opened(future.result())
        except KilledWorker as cause:
            msg = (
                "Each worker of the Dask cluster that was given a certain part of this work was lost. Their "
                "logs say why; most often it is memory: give them more (--memory-limit), or pass a smaller "
                "`memory`."
            )
            raise ClusterError(msg) from cause
        except KeyboardInterrupt:
            self.client.cancel([*self._futures.values()], force=True)
            raise

    def _require_scheduler(self) -> None:
        """Raise unless the client is connected, or is so again after a while."""
        until = time.monotonic() + self.cluster.patience
        while self.client.status == "connecting" and time.monotonic() < until:
            time.sleep(TURN_SECONDS)
        if self.client.status != "running":
            raise ClusterError(self.cluster.gone)


def _sendable(build: Callable[[], Future]) -> Future:
    """What it submits; raises in words where it can't be pickled."""
    try:
        return build()
    except (TypeError, pickle.PicklingError) as cause:
        if "pickle" not in str(cause) and "serialize" not in str(cause):
            raise
        msg = (
            f"This work can't be sent to the workers of a cluster ({first_line(cause)}). A kernel that is a "
            "Python function must not hold locks, open files and the like."
        )
        raise InputError(msg) from cause


def _leave_the_thread() -> None:
    """A task that waits for others, as a fit within a task does, leaves its thread to them."""
    from distributed import secede
    from distributed.threadpoolexecutor import thread_state

    if getattr(thread_state, "proceed", False):
        secede()


def computed(cluster: Cluster, delayed: list[Any]) -> list[Any]:
    """The values of delayed objects, or of futures."""
    work = Work(cluster, "look")
    found: list[Any] = work.value(lambda: work.all(cluster.client.compute(delayed)))
    return found


def listed(*parts: Any) -> list[Any]:
    """The values as one list."""
    return list(parts)


def pickled_bytes(parcel: Parcel) -> int:
    """What it takes to send this."""
    buffers: list[pickle.PickleBuffer] = []
    size = len(pickle.dumps(parcel, protocol=5, buffer_callback=buffers.append))
    return size + sum(each.raw().nbytes for each in buffers)


# ── rows ────────────────────────────────────────────────────────────────────
class ClusterRows(Resident):
    """Rows for tiles: here, in a file or on workers; what workers make of them is made when it is needed."""

    def __init__(self, rows: Rows, cut: Cut) -> None:
        super().__init__(rows, cut.dtype)
        self.cut = cut
        # As a fit has planned, even where tiles are used instead.
        self.of_halves = cut.store.halves > 0
        self.here: HostRows | None = None  # for what is short
        # From the first long product on: their placement, parts of the tiles, and the engine of these.
        self.where: Placement | None = None
        self.parts: Work | None = None
        self.local: Local | None = None


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
        """All blocks, sent again where one was lost: futures, or small blocks themselves."""
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
    """The checksum of an array or a CSR matrix, at some GB/s; a source watches over its rows by itself."""
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
