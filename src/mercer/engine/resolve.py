"""The engine that a user means by `engine`: a name, a client of Dask or an engine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mercer._core.errors import InputError, refuse
from mercer._core.params import OneOf, require
from mercer._core.types import Rows
from mercer._core.wording import Message
from mercer.data.arrays import is_a
from mercer.data.frames import need
from mercer.engine.base import Engine, Facts, TileKernel
from mercer.engine.native import NativeEngine, compiled
from mercer.engine.numpy import NumpyEngine

if TYPE_CHECKING:
    from mercer.engine.torch.engine import ChosenEngine

DASK = "dask"
# Engines of this version by name.
ENGINES: dict[str, Callable[[], Engine[Any]]] = {
    "native": NativeEngine,
    "numpy": NumpyEngine,
    DASK: lambda: _on_cluster(None),
}
# What names of devices begin with, and those that are shown: cuda:1, cuda:0,cuda:1 and so on are names too.
DEVICE_KINDS, DEVICES = ("cuda", "mps", "torch"), ("cuda", "mps", "torch:cpu")
# Names that others use, of which none is near to the right one.
MEANT = {
    "gpu": Message("Use {engine:'cuda'} for an NVIDIA GPU, or 'mps' on a Mac."),
    "cpu": Message("Use {engine:'native'}, or 'numpy', which runs every kernel."),
}
AUTO = "auto"
NAMES = (AUTO, *ENGINES, *DEVICES)
# The same, for editors to complete; a test holds the two together.
EngineName: TypeAlias = Literal["auto", "native", "numpy", "dask", "cuda", "mps", "torch:cpu"]
NO_LIBRARY = (
    "mercer was installed without a C++ compiler, or MERCER_NATIVE is 'off'; "
    "`python -m mercer.engine.native.build` compiles tiles"
)


def host_engine() -> NumpyEngine:
    """What computes on the processors of this machine: compiled tiles where they are there."""
    return NumpyEngine() if compiled() is None else NativeEngine()


def resolve_engine(engine: Any) -> Engine[Any]:
    """The engine behind a name, or the one that was given; "auto" is compiled tiles where they are there.

    A device is computed on where it is asked for by its name, or where `device_there` is found to pay.

    >>> resolve_engine("numpy").facts().name
    'numpy'
    """
    if isinstance(engine, str):
        if engine == AUTO:  # as nearly always, and a fit asks some times
            return host_engine()
        return _named_engine(engine)
    is_class = isinstance(engine, type)
    if is_class or not callable(getattr(engine, "facts", None)):
        if is_client(engine):
            return _on_cluster(engine)
        names = ", ".join(map(repr, NAMES))
        must_be = (
            f"{names}, 'dask:ADDRESS', 'dask:cuda', a client of Dask or an engine such as "
            "`mercer.engine.numpy.NumpyEngine(n_threads=2)`"
        )
        got = f"the class {engine.__name__}" if is_class else type(engine).__name__
        refuse("engine", engine, must_be, got=got)
    given: Engine[Any] = engine
    return given


def _named_engine(engine: str) -> Engine[Any]:
    name = engine.strip().lower()
    if re.split("[:,]", name)[0] in DEVICE_KINDS:  # raises where torch or a device is missing
        from mercer.engine.torch import SeveralEngine, TorchEngine
        from mercer.engine.torch.place import devices_of

        names = devices_of(name)
        return TorchEngine(*names) if len(names) == 1 else SeveralEngine(names)
    if name.startswith(f"{DASK}:"):
        return _named_cluster(engine.strip()[len(DASK) + 1 :])
    if name not in NAMES:
        remedy = MEANT.get(name.partition(":")[0], "")
        require("engine", engine, OneOf(NAMES), remedy=remedy)
    if name == "native" and compiled() is None:
        msg = f"engine='native' needs compiled tiles, but {NO_LIBRARY}. engine='numpy' needs none."
        raise InputError(msg)
    return resolve_engine(AUTO) if name == AUTO else ENGINES[name]()


def is_client(engine: Any) -> bool:
    """Whether this is a client of Dask, without importing it: not loaded, it made none."""
    return is_a(engine, "distributed", "Client")


def _named_cluster(where: str) -> Engine[Any]:
    """The engine at an address, on a device of the workers in force, or both: cuda@tcp://host:8786."""
    device, at, address = where.partition("@")
    if re.split("[:,]", device.lower())[0] not in DEVICE_KINDS:
        return _on_cluster(where)
    if device.lower() not in DEVICES or (at and not address):
        must_be = "'dask:cuda', which is each worker's own GPU, or 'dask:cuda@tcp://host:8786'"
        refuse("engine", f"{DASK}:{where}", must_be)
    return _on_cluster(address if at else None, device.lower())


def _on_cluster(where: Any, device: str | None = None) -> Engine[Any]:
    """The engine of a client, of the one at an address or, for None, of the one in force."""
    need("distributed", extra=DASK)
    from mercer.engine.dask.engine import engine_of

    return engine_of(where, device)


def is_auto(engine: Any) -> bool:
    """Whether the choice is left to mercer."""
    return isinstance(engine, str) and engine.strip().lower() == AUTO


def device_there() -> ChosenEngine | None:
    """The first GPU of torch, for a fit by "auto"; None where there is none.

    Imports torch where it is installed, which takes seconds.
    """
    if sys.modules.get("torch") is None and find_spec("torch") is None:
        return None
    try:
        from mercer.engine.torch.engine import ChosenEngine

        return ChosenEngine("cuda")
    except Exception:  # whatever torch or its driver lacks: `engine="cuda"` and `mercer info` tell
        return None


def facts_for(
    engine: Any, facts: Facts, kernel: TileKernel, rows: Rows | None
) -> tuple[Facts, str | None]:
    """The facts of an engine for this kernel and these rows (None: an array that is yet to be read).

    Where compiled tiles, or those of a device, can't be used, the facts are NumPy's, and the second value
    says why. Raises if an engine was asked for by name that can't run the kernel.
    """
    auto = is_auto(engine)
    found, why = resolve_engine(engine), facts.runs(kernel)
    if why is not None and not auto:
        msg = (
            f"engine={facts.name!r} can't run {kernel!r}: {why.rstrip('.')}. The reference, engine='numpy', "
            "runs every kernel."
        )
        raise InputError(msg)
    looks = getattr(found, "why_not_rows", None)
    if looks is None:
        return facts, NO_LIBRARY if auto else None
    if why is None and rows is not None:
        why = looks(kernel, rows)
    if why is None:
        return facts, None
    if facts.workers is not None:  # the same ones, on their processors
        return found.by_processors.facts(), why  # type: ignore[attr-defined]
    return Facts("numpy", facts.lanes, None, facts.runs), why
