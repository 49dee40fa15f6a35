"""A client of Dask as mercer uses it: who the workers are, and work that ends with a value or a sentence.

Work is a function that submits futures, all of them under names of its own. When a worker is lost, Dask
itself computes again what it can; what it can't (rows and vectors that were sent from here) makes it give up,
and the function is called again: it sends them anew, and under the same names finds what is already done.
"""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mercer._core.errors import InputError, MercerError, MercerWarning, users_level
from mercer._core.memory import available_bytes
from mercer.engine.native import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distributed import Client, Future

TURN_SECONDS = 0.2  # between two looks at the cluster while it works
PATIENCE = 15.0  # seconds without a scheduler, or without a worker, before it is told
ATTEMPTS = 10  # times that rows are sent anew: more workers than that are not lost by accident
KEPT_SHARE = 0.6  # of a worker's memory limit: beyond it Dask writes to disk, then pauses it


class ClusterError(MercerError, RuntimeError):
    """The cluster is gone, or can't do the work."""


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker says of itself."""

    n_threads: int
    free_bytes: int
    tiles: str  # "avx2" and the like where tiles are compiled, else "numpy"


def about(dask_worker: Any = None) -> WorkerFacts:
    """Of the worker that this runs on."""
    limit = dask_worker.memory_manager.memory_limit
    free = available_bytes()
    if limit:
        free = min(free, int(KEPT_SHARE * limit) - dask_worker.monitor.get_process_memory())
    return WorkerFacts(dask_worker.state.nthreads, max(free, 2**20), local_tiles())


def local_tiles() -> str:
    """What makes tiles in this process: parts of a product have to agree on it."""
    native = compiled()
    return "numpy" if native is None else native.isa


class Cluster:
    """The workers behind a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._known: dict[str, WorkerFacts] = {}

    # ── who is there ────────────────────────────────────────────────────────
    def workers(self) -> dict[str, WorkerFacts]:
        """By address, in their order; each has been asked for its versions before it is given work."""
        self.require_open()
        there = self._waited_for_workers()
        if fresh := [address for address in there if address not in self._known]:
            self._require_versions(fresh)
            self._ask(fresh)
        return {address: self._known[address] for address in sorted(there)}

    def memory(self) -> dict[str, WorkerFacts]:
        """The same with the memory that is free now."""
        self._ask(list(self.workers()))
        return self.workers()

    def _ask(self, addresses: Sequence[str]) -> None:
        for address, found in self.client.run(about, workers=addresses, on_error="return").items():
            if isinstance(found, BaseException):
                msg = (
                    f"Worker {address} can't run mercer ({found}). Install it there, in the version of this "
                    "process."
                )
                raise ClusterError(msg)
            self._known[address] = found

    def require_open(self) -> None:
        """Raise where the client can't be used."""
        if self.client.asynchronous:
            msg = "engine=client needs a client that waits; got one with asynchronous=True."
            raise InputError(msg)
        if self.client.status != "running":
            msg = (
                f"The Dask client is {self.client.status}. Open a new one, client = distributed.Client(…), "
                "and pass it as `engine`."
            )
            raise ClusterError(msg)

    def _waited_for_workers(self) -> Sequence[str]:
        """Addresses; a cluster that has just started gets some time for its first worker."""
        started = time.monotonic()
        while not (there := list(self.client.nthreads())):
            if time.monotonic() - started > PATIENCE:
                msg = (
                    f"The Dask cluster at {self._address} has no workers, and none has joined within "
                    f"{PATIENCE:g} s. Start some: dask worker {self._address}."
                )
                raise ClusterError(msg)
            time.sleep(TURN_SECONDS)
        return there

    @property
    def _address(self) -> str:
        return str(getattr(self.client.scheduler, "address", "an unknown address"))

    def _require_versions(self, addresses: Sequence[str]) -> None:
        """Raise where a worker has another mercer or a NumPy of another major version; warn of a near one."""
        seen = self.client.get_versions(packages=["mercer", "numpy"])
        here = seen["client"]["packages"]
        for address in addresses:
            there = seen["workers"].get(address, {"packages": here})["packages"]
            for name in ("mercer", "numpy"):
                ours, theirs = here[name], there.get(name)
                if ours == theirs:
                    continue
                got = f"{name} {theirs}" if theirs else f"no {name}"
                msg = (
                    f"Worker {address} has {got}, and this process {name} {ours}. Install the same on "
                    f'every worker: pip install "{name}=={ours}".'
                )
                if name == "numpy" and theirs and theirs.split(".")[0] == ours.split(".")[0]:
                    warnings.warn(msg, MercerWarning, stacklevel=users_level())
                else:
                    raise ClusterError(msg)

    # ── work ────────────────────────────────────────────────────────────────
    def value(
        self,
        build: Callable[[], Future],
        *,
        watched: Callable[[], object] = lambda: None,
    ) -> Any:
        """The value of the future that `build` submits; `watched` is called in turns until it is there."""
        for _ in range(ATTEMPTS):
            future = build()
            try:
                return self._waited(future, watched)
            except (
                CancelledError
            ):  # with a worker something was lost that only this process can send
                self._require_scheduler()
        msg = (
            f"Workers of the Dask cluster at {self._address} were lost {ATTEMPTS} times during one pass. "
            "Look at their logs: they may have been ended for memory, or by the queue they run in."
        )
        raise ClusterError(msg)

    def _waited(self, future: Future, watched: Callable[[], object]) -> Any:
        from distributed import KilledWorker

        done, looked = threading.Event(), time.monotonic()
        future.add_done_callback(lambda _: done.set())
        try:
            while not done.wait(TURN_SECONDS):
                watched()
                if time.monotonic() - looked > PATIENCE and self.client.status == "running":
                    self._waited_for_workers()  # raises where all are gone: Dask would wait for ever
                    looked = time.monotonic()
            return future.result()
        except KilledWorker as cause:
            msg = (
                "Each worker of the Dask cluster that was given a certain part of this work was lost. Their "
                "logs say why; most often it is memory: give them more (--memory-limit), or pass a smaller "
                "`memory`."
            )
            raise ClusterError(msg) from cause
        except KeyboardInterrupt:
            self.client.cancel([future], force=True)
            raise

    def _require_scheduler(self) -> None:
        """Raise unless the client is connected, or is so again after a while."""
        started = time.monotonic()
        while self.client.status == "connecting" and time.monotonic() - started < PATIENCE:
            time.sleep(TURN_SECONDS)
        if self.client.status != "running":
            msg = (
                f"The Dask scheduler at {self._address} has gone away in the middle of the work. Start it "
                "again, open a new client, and fit again."
            )
            raise ClusterError(msg)

    def tree(self, merge: Callable[[Any, Any], Any], parts: Sequence[Future], name: str) -> Future:
        """Neighbours merged in pairs until one is left: in an order that no timing changes."""
        level = 0
        parts = list(parts)
        while len(parts) > 1:
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [
                self.client.submit(merge, *pair, key=f"{name}-{level}-{i}")
                if len(pair) > 1
                else pair[0]
                for i, pair in enumerate(pairs)
            ]
            level += 1
        return parts[0]


def named(what: str) -> str:
    """A name for tasks: the dashboard shows ``mercer-product`` and leaves the rest out."""
    return f"mercer-{what}-{uuid.uuid4().hex}"
