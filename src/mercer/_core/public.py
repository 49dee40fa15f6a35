"""Public calls: unknown arguments are refused in words, and the caller's np.errstate ends no fit.

exp(-γd²) of a far point is 0, which NumPy calls an underflow, and would raise with
``np.errstate(all="raise")`` around a fit. So everything public runs under NumPy's defaults, except that what
the caller ignores stays ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from mercer._core.errors import UnknownParameterError, nearest

Thing = TypeVar("Thing", bound="Callable[..., Any]")
# What NumPy says of floating-point errors by itself, and what our own code runs under.
USUAL = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def public(thing: Thing) -> Thing:
    """A function or a method as users call it; of a class, its constructor.

    The signature stays as it is, through `functools.wraps`. A class may know more than the nearest name: its
    classmethod ``_elsewhere(unknown, given)`` gets the arguments that it lacks and all that were given by
    name, and returns sentences.

    >>> import numpy as np
    >>> @public
    ... def tile(distance, *, gamma=1.0):
    ...     return np.exp(-gamma * np.float64(distance))
    >>> with np.errstate(all="raise"):
    ...     float(tile(1e4))
    0.0
    >>> tile(2.0, gama=3.0)
    Traceback (most recent call last):
        ...
    mercer._core.errors.UnknownParameterError: tile has no parameter 'gama'. Did you mean 'gamma'? Known
    names: 'distance', 'gamma'.
    """
    if not isinstance(thing, type):
        # A kernel, or a feature map, is called: by the name of its class.
        called = thing.__name__ == "__call__"
        owner = thing.__qualname__.partition(".")[0] if called else thing.__name__
        return _entered(thing, owner)
    if "__init__" in vars(thing):
        thing.__init__ = _entered(thing.__init__, thing.__name__, makes=True)  # type: ignore[misc]
    return thing


class Public:
    """A class whose constructor, public methods and properties are `public`, and those of its subclasses."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        public(cls)
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if inspect.isfunction(member) and not inspect.isgeneratorfunction(member):
                setattr(cls, name, public(member))
            elif type(member) is property and member.fget is not None:
                setattr(cls, name, property(public(member.fget), member.fset, member.fdel))


def _entered(function: Any, owner: str, *, makes: bool = False) -> Any:
    parameters = list(inspect.signature(function).parameters.values())
    skip = 1 if parameters and parameters[0].name == "self" else 0
    names = [p.name for p in parameters[skip:]]
    known = frozenset(names)
    n_places = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
    takes_all = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    if makes and takes_all:
        return function  # a subclass that hands on what it does not know

    @wraps(function)
    def entered(*args: Any, **given: Any) -> Any:
        if not takes_all and not given.keys() <= known:
            cls = type(args[0]) if makes else None
            raise UnknownParameterError(unknown_words(owner, names, given, cls))
        if not takes_all and len(args) > n_places:
            raise UnknownParameterError(_too_many(owner, names, args[skip:], n_places - skip))
        if makes:  # parameters are stored, and nothing is computed
            return function(*args, **given)
        now = np.geterr()
        if now == USUAL:  # as it is, unless a user has changed it
            return function(*args, **given)
        ignored = {kind: mode for kind, mode in now.items() if mode == "ignore"}
        with np.errstate(**{"all": "warn", "under": "ignore", **ignored}):  # type: ignore[arg-type]
            return function(*args, **given)

    return entered


def unknown_words(
    owner: str, names: Sequence[str], given: dict[str, Any], cls: type | None = None
) -> str:
    """Which of the given names `owner` lacks, and what to write instead."""
    unknown = {name: value for name, value in given.items() if name not in names}
    listed = ", ".join(map(repr, unknown))
    begin = f"{owner} has no parameter{'s' * (len(unknown) > 1)} {listed}."
    elsewhere = getattr(cls, "_elsewhere", None)
    advice = "" if elsewhere is None else elsewhere(unknown, given)
    if advice:
        return f"{begin} {advice}"
    hint = nearest(next(iter(unknown)), names) if names else "It has none."
    return f"{begin} {hint}"


def _too_many(owner: str, names: Sequence[str], values: Sequence[Any], n_places: int) -> str:
    by_place = ", ".join(map(repr, names[:n_places])) or "nothing"
    more, rest = values[n_places], names[n_places:]
    shown = f"={more!r}" if isinstance(more, (str, int, float)) else "=…"
    hint = f" Write the others with their names: {rest[0]}{shown}." if rest else ""
    return f"{owner} takes {by_place} by position; got {len(values)} arguments.{hint}"
