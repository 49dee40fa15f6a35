"""From what a user writes for `engine` to an engine: the only place that knows their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from mercer._core.errors import InputError, nearest
from mercer.engine.native import NativeEngine, compiled
from mercer.engine.numpy import NumpyEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer.engine.base import Engine, Facts

# Engines of this version by name; "auto" is the first of them.
ENGINES: dict[str, Callable[[], Engine[Any]]] = {"numpy": NumpyEngine, "native": NativeEngine}
# Names that have a meaning, but no engine in this version.
ABSENT = ("torch", "cuda", "dask")
AUTO = "auto"
NOT_COMPILED = (
    "engine='native' needs compiled tiles, and there was no C++ compiler when mercer was installed, or "
    "MERCER_NATIVE is 'off'. `python -m mercer.engine.native.build` compiles them; engine='numpy' needs none."
)


def resolve_engine(engine: Any) -> Engine[Any]:
    """The engine behind a name, or the one that was given.

    Examples
    --------
    >>> resolve_engine("auto").facts().name
    'numpy'
    """
    if isinstance(engine, str):
        name = engine.strip().lower()
        if name not in (AUTO, *ENGINES):
            _refuse(engine, name)
        if name == "native" and compiled() is None:
            raise InputError(NOT_COMPILED)
        return next(iter(ENGINES.values()))() if name == AUTO else ENGINES[name]()
    if not isinstance(engine, type) and callable(getattr(engine, "facts", None)):
        given: Engine[Any] = engine
        return given
    kind = f"the class {engine.__name__}" if isinstance(engine, type) else type(engine).__name__
    msg = (
        f"engine must be {_known()} or an engine such as "
        f"`mercer.engine.numpy.NumpyEngine(n_threads=2)`; got {kind}."
    )
    raise InputError(msg)


def engine_facts(engine: Any) -> Facts:
    """What a planner may ask of the engine; raises where there is none of that name."""
    return resolve_engine(engine).facts()


def require_runs(facts: Facts, kernel: Any) -> None:
    """Raise where the engine can't run a kernel, with the engine that can."""
    why = facts.runs(kernel)
    if why is not None:
        msg = (
            f"engine={facts.name!r} can't run {kernel!r}: {why.rstrip('.')}. The reference, engine='numpy', "
            "runs every kernel."
        )
        raise InputError(msg)


def _refuse(given: str, name: str) -> NoReturn:
    if name.partition(":")[0] in ABSENT:
        msg = f"This version of mercer has no engine {given!r}. Use {_known()}."
        raise InputError(msg)
    msg = f"engine={given!r} is unknown. {nearest(name, [AUTO, *ENGINES])}"
    raise InputError(msg)


def _known() -> str:
    return " or ".join(repr(name) for name in (AUTO, *ENGINES))
