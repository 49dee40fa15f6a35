"""The workers behind a client of Dask: who is there, and whether they can do the work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mercer._core.errors import InputError, MercerError, MercerWarning
from mercer._core.findings import warn
from mercer._core.memory import available_bytes
from mercer.engine.dask.tasks import kind_of
from mercer.engine.native import compiled
from mercer.engine.torch.devices import There, there
from mercer.engine.torch.sending import STAGING_BYTES

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 30.0  # seconds to wait for a worker, or for the scheduler, before raising
TURN_SECONDS = 0.2  # between two looks at the cluster while it works
KEPT_SHARE = 0.6  # of a worker's memory limit: beyond it Dask writes to disk, then pauses it


class ClusterError(MercerError, RuntimeError):
    """The cluster is gone, or can't do the work.

    Start its workers again, with the packages and the memory that the message names.
    """


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker says of itself."""

    n_threads: int
    free_bytes: int
    tiles: str  # "avx2" and the like where tiles are compiled, else "numpy"
    there: There | str | None = None  # the device that it is to compute on, or why it has none


def about(device: str | None, dask_worker: Any = None) -> WorkerFacts:
    """The facts of the worker that runs this."""
    own = None if device is None else there(device)
    limit = dask_worker.memory_manager.memory_limit
    free = available_bytes()
    if limit:
        free = min(free, int(KEPT_SHARE * limit) - dask_worker.monitor.get_process_memory())
    if device is not None and kind_of(device) == "cuda":
        free -= STAGING_BYTES
    return WorkerFacts(dask_worker.state.nthreads, max(free, 2**20), local_tiles(), own)


def local_tiles() -> str:
    """What makes tiles in this process, on which parts of a product have to agree."""
    native = compiled()
    return "numpy" if native is None else native.isa


class Cluster:
    """The workers behind a client."""

    patience = PATIENCE

    def __init__(self, client: Client, device: str | None = None) -> None:
        self.client, self.device = client, device
        self._known: dict[str, WorkerFacts] = {}
        # Of the scheduler: once that is gone, the client does not know it any more.
        self.address = str(getattr(client.scheduler, "address", "an unknown address"))

    # ── who is there ────────────────────────────────────────────────────────
    def workers(self) -> dict[str, WorkerFacts]:
        """The workers that answer, by address and in its order, each of them asked for its versions first."""
        started = time.monotonic()
        while not (found := self._answering()):
            if time.monotonic() - started > self.patience:
                msg = (
                    f"No worker of the Dask cluster at {self.address} has answered within "
                    f"{self.patience:g} s. Look at their logs, and at the network between them and here."
                )
                raise ClusterError(msg)
        return found

    @property
    def gone(self) -> str:
        """The message about a scheduler that does not answer any more."""
        return (
            f"The Dask scheduler at {self.address} has gone away in the middle of the work. Start it again, "
            "open a new client, and fit again."
        )

    def _answering(self) -> dict[str, WorkerFacts]:
        self.require_open()
        try:
            there = self.addresses()
            if fresh := [address for address in there if address not in self._known]:
                self._require_versions(fresh)
                self._ask(fresh)
        except OSError as cause:  # the line is cut, and the client has not noticed yet
            raise ClusterError(self.gone) from cause
        return {
            address: self._known[address] for address in sorted(there) if address in self._known
        }

    def memory(self) -> dict[str, WorkerFacts]:
        """The workers, with the memory that is free now."""
        self._ask(list(self.workers()))
        return self.workers()

    def _ask(self, addresses: Sequence[str]) -> None:
        asked = self.client.run(about, self.device, workers=addresses, on_error="return")
        for address, found in asked.items():
            if isinstance(found, OSError):
                continue  # the worker is gone
            if isinstance(found, BaseException):
                msg = (
                    f"Worker {address} can't run mercer ({found}). Install it there, in the version of this "
                    "process."
                )
                raise ClusterError(msg)
            if isinstance(found.there, str):
                msg = (
                    f"Worker {address} has no device {self.device!r} ({found.there}): give each worker one "
                    "(dask-cuda starts a worker for each GPU) and a torch that can use it, or leave `device` "
                    "out to compute on the processors of workers."
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

    def addresses(self) -> Sequence[str]:
        """The workers that take tasks; waits a while for a cluster that has just started.

        One that is paused for memory may take tasks again: it is waited for, but not for ever, as by Dask.
        """
        started, asked = time.monotonic(), None
        while not (there := self._running()):
            # A cluster that adapts starts workers when there is work.
            asked = asked or self.client.submit(int, pure=False)
            if time.monotonic() - started > self.patience:
                raise ClusterError(self._nobody())
            time.sleep(TURN_SECONDS)
        return there

    def _running(self) -> list[str]:
        from distributed.comm import CommClosedError

        if self.client.scheduler is None:  # the client has given it up
            raise CommClosedError(self.gone)
        try:
            info = self.client.sync(self.client.scheduler.identity)
        except OSError as cause:  # nothing answers at its address, for now or for good
            raise CommClosedError(self.gone) from cause
        return [a for a, worker in info["workers"].items() if worker["status"] == "running"]

    def _nobody(self) -> str:
        paused = len(self.client.nthreads())
        if paused:
            return (
                f"All workers of the Dask cluster at {self.address} ({paused}) have been paused for memory "
                f"for {self.patience:g} s. Give them more (dask worker --memory-limit), or pass a smaller "
                "`memory`."
            )
        return (
            f"The Dask cluster at {self.address} has no workers, and none has joined within "
            f"{self.patience:g} s. Start some, dask worker {self.address}; for those that wait in a queue, "
            "call client.wait_for_workers(1) first."
        )

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
                    warn(msg, MercerWarning)
                else:
                    raise ClusterError(msg)


def first_line(cause: BaseException) -> str:
    """The first line of an error."""
    return str(cause).strip().partition("\n")[0].rstrip(".") or type(cause).__name__
