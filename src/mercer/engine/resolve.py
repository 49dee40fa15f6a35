"""From what a user writes for `engine` to an engine: the only place that knows their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer._core.errors import InputError, refuse
from mercer._core.params import OneOf, require
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
NAMES = (AUTO, *ENGINES)
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
        if name.partition(":")[0] in ABSENT:
            msg = f"This version of mercer has no engine {engine!r}. Use {OneOf(NAMES).wanted}."
            raise InputError(msg)
        if name not in NAMES:
            require("engine", engine, OneOf(NAMES))
        if name == "native" and compiled() is None:
            raise InputError(NOT_COMPILED)
        return next(iter(ENGINES.values()))() if name == AUTO else ENGINES[name]()
    is_class = isinstance(engine, type)
    if is_class or not callable(getattr(engine, "facts", None)):
        names = ", ".join(map(repr, NAMES))
        must_be = f"{names} or an engine such as `mercer.engine.numpy.NumpyEngine(n_threads=2)`"
        got = f"the class {engine.__name__}" if is_class else type(engine).__name__
        refuse("engine", engine, must_be, got=got)
    given: Engine[Any] = engine
    return given


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
