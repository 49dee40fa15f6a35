"""From what a user writes to a client: the one in force, the one that was given, or one at an address."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from mercer._core.errors import InputError, MercerWarning, refuse
from mercer._core.findings import warn
from mercer.engine.dask.cluster import ClusterError, first_line
from mercer.engine.dask.engine import DaskEngine

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10

# One engine a client, which lives as long: the rows that it has sent are found again by the next fit. A table
# of them would keep clients alive, which engines refer to.
ENGINE = "_mercer_engine"
_CLIENTS: dict[str, Client] = {}  # by address, as long as the process lives


def engine_of(where: Client | str | None, device: str | None = None) -> DaskEngine:
    """The engine of a client, of an address, or, for None, of the client in force; on devices of workers."""
    client = _at(where) if isinstance(where, str) else where or _in_force(device)
    held = ENGINE if device is None else f"{ENGINE} {device}"
    engine: DaskEngine | None = getattr(client, held, None)
    if engine is None:
        engine = DaskEngine(client, device=device)
        setattr(client, held, engine)
    engine.cluster.require_open()
    return engine


def _in_force(device: str | None) -> Client:
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


def _at(address: str) -> Client:
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
