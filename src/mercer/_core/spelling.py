"""Arguments that a signature does not have, told in words: the nearest name, or where the knob lives."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from mercer._core.errors import UnknownParameterError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Thing = TypeVar("Thing", bound="Callable[..., Any]")


def spelled(thing: Thing) -> Thing:
    """A function or a method, or a class and its constructor, whose wrong arguments are told in words.

    The signature stays as it is for people and programs, since `functools.wraps` leaves the way to it. A
    class may know more than the nearest name: its classmethod ``_elsewhere(unknown, given)`` is handed the
    arguments that it lacks and all that were given by name, and answers with sentences.

    Examples
    --------
    >>> @spelled
    ... def tile(x, *, gamma=1.0):
    ...     return x * gamma
    >>> tile(2.0, gama=3.0)
    Traceback (most recent call last):
        ...
    mercer._core.errors.UnknownParameterError: tile has no parameter 'gama'. Did you mean 'gamma'? Known
    names: 'gamma', 'x'.
    """
    if not isinstance(thing, type):
        return _checked(thing, thing.__name__)
    if "__init__" in vars(thing):
        made = _checked(thing.__init__, thing.__name__, makes=True)  # type: ignore[misc]
        thing.__init__ = made  # type: ignore[misc]
    return thing


def _checked(function: Any, owner: str, *, makes: bool = False) -> Any:
    """The function, behind a look at the names and the number of its arguments, `self` aside."""
    parameters = list(inspect.signature(function).parameters.values())
    skip = 1 if parameters and parameters[0].name == "self" else 0
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return function  # a subclass that hands on what it does not know
    names = [p.name for p in parameters[skip:]]
    known = frozenset(names)
    n_places = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if not given.keys() <= known:
            cls = type(args[0]) if makes else None
            raise UnknownParameterError(unknown_words(owner, names, given, cls))
        if len(args) > n_places:
            raise UnknownParameterError(_too_many(owner, names, args[skip:], n_places - skip))
        return function(*args, **given)

    return checked


def unknown_words(
    owner: str, names: Sequence[str], given: dict[str, Any], cls: type | None = None
) -> str:
    """Which of the given names `owner` does not have, and what to write instead."""
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
    more = values[n_places]
    shown = f"={more!r}" if isinstance(more, (str, int, float)) else "=…"
    hint = (
        f" Write the others with their names: {names[n_places]}{shown}." if names[n_places:] else ""
    )
    return f"{owner} takes {by_place} by position; got {len(values)} arguments.{hint}"
