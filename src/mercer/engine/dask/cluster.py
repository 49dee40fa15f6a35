"""Clients of Dask, by what a user writes, and the workers behind them: whether they can do the work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from mercer._core.errors import InputError, MercerError, MercerWarning, refuse
from mercer._core.findings import warn
from mercer._core.memory import available_bytes
from mercer.engine.dask.tasks import kind_of
from mercer.engine.native import compiled
from mercer.engine.torch.place import There, there
from mercer.engine.torch.sending import STAGING_BYTES

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 30.0  # seconds to wait for a worker, or for the scheduler, before raising
TURN_SECONDS = 0.2  # between two looks at the cluster while it works
CONNECT_SECONDS = 10
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
    native = compiled()
    tiles = "numpy" if native is None else native.isa  # parts of a product have to agree on it
    return WorkerFacts(dask_worker.state.nthreads, max(free, 2**20), tiles, own)


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
        return {a: self._known[a] for a in sorted(there) if a in self._known}

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
                raise ClusterError(self._no_workers())
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

    def _no_workers(self) -> str:
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


# ── clients ─────────────────────────────────────────────────────────────────
_CLIENTS: dict[str, Client] = {}  # by address, as long as the process lives


def client_in_force(device: str | None) -> Client:
    """The client that Dask has in force; raises where there is none."""
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        name, of = ("dask", "") if device is None else (f"dask:{device}", f"{device}@")
        msg = (
            f"engine={name!r} takes the Dask client in force, and there is none. Open one first, "
            f"client = distributed.Client(…), or pass its address: engine='dask:{of}tcp://host:8786'."
        )
        raise InputError(msg) from None


def client_at(address: str) -> Client:
    """A client of the scheduler at an address, which all fits share."""
    from distributed import Client

    known = _CLIENTS.get(address)
    if known is not None and known.status == "running":
        return known
    _require_address(address)
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as cause:
        msg = (
            f"No Dask scheduler answers at {address!r} within {CONNECT_SECONDS} s ({first_line(cause)}). "
            "Start one with `dask scheduler`, which prints its address, or correct this one."
        )
        raise ClusterError(msg) from cause
    _CLIENTS[address] = client
    return client


def _require_address(address: str) -> None:
    """Raise where it is none; warn where what is sent could be read, and run, by others on the way."""
    scheme, _, host = address.rpartition("://")
    known = scheme in ("", "tcp", "tls", "ws", "wss", "ucx", "inproc")
    has_port = scheme == "inproc" or host.rstrip("/").rpartition(":")[2].isdigit()
    # Dask would wait for it, and complain once more when the process ends.
    if not (known and has_port):
        must_be = "the address of a scheduler after 'dask:', such as 'dask:tcp://10.0.0.1:8786'"
        refuse("engine", f"dask:{address}", must_be)
    if scheme in ("tls", "wss"):
        from distributed import Security

        if Security().get_connection_args("client").get("ssl_context") is None:
            remedy = (
                "Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
                "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY, or open a client with distributed.Security(…) "
                "and pass it as `engine`."
            )
            must_be = "an address for which Dask's configuration names certificates"
            refuse("engine", f"dask:{address}", must_be, remedy=remedy)
    if scheme in ("", "tcp", "ws") and not _is_here(host):
        msg = (
            f"What is sent to {address!r} is not encrypted, and anyone who reaches the scheduler can run "
            "code on the cluster. Use tls:// and distributed.Security outside of this machine."
        )
        warn(msg, MercerWarning)


def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0].strip("[]")
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:  # a name of some other machine
        return False
