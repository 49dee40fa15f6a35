"""Parameters of solvers, approximations and pre-images: reached by name, each held to a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from mercer._core.errors import InputError, ParameterError, nearest


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


class Constraint(Protocol):
    """What a parameter may be."""

    @property
    def wanted(self) -> str:
        """The end of a sentence: "tol must be …"."""
        ...

    def holds(self, value: Any) -> bool:
        """Whether the value may be used."""
        ...


Constraints: TypeAlias = Mapping[str, Constraint]


@dataclass(frozen=True)
class Whole:
    """A whole number, `least` or more.

    Examples
    --------
    >>> Whole(2, even=True).wanted, Whole(1, also=("auto",)).wanted
    ('an even integer >= 2', "an integer >= 1 or 'auto'")
    """

    least: int
    even: bool = False
    also: tuple[Any, ...] = ()

    @property
    def wanted(self) -> str:
        return _or(f"an {'even ' if self.even else ''}integer >= {self.least}", self.also)

    def holds(self, value: Any) -> bool:
        if is_whole(value):
            return bool(value >= self.least and not (self.even and value % 2))
        return _among(value, self.also)


@dataclass(frozen=True)
class Number:
    """A finite number above `above`, and below `below` where there is such an end.

    Examples
    --------
    >>> Number(0, 1).wanted, Number(0).holds(float("inf")), Number(0).holds(True)
    ('a number between 0 and 1, both excluded', False, False)
    """

    above: float
    below: float = float("inf")
    also: tuple[Any, ...] = ()

    @property
    def wanted(self) -> str:
        ends = f"a number between {self.above:g} and {self.below:g}, both excluded"
        return _or(ends if self.below < float("inf") else f"a number > {self.above:g}", self.also)

    def holds(self, value: Any) -> bool:
        if is_number(value) and self.above < value < self.below:
            return True
        return _among(value, self.also)


@dataclass(frozen=True)
class OneOf:
    """One of a few names.

    Examples
    --------
    >>> OneOf(("single", "double")).wanted
    "'single' or 'double'"
    """

    names: tuple[str, ...]

    @property
    def wanted(self) -> str:
        return _or(", ".join(map(repr, self.names[:-1])), self.names[-1:])

    def holds(self, value: Any) -> bool:
        return _among(value, self.names)


def _among(value: Any, known: tuple[Any, ...]) -> bool:
    """Whether it is one of these; an array is none, though its entries may be."""
    return any(value is one or (type(value) in (str, int, float) and value == one) for one in known)


def _or(first: str, also: tuple[Any, ...]) -> str:
    return " or ".join([first, *map(repr, also)])


class Params:
    """`get_params` and `set_params` over the fields of a dataclass, and a check of each."""

    constraints: ClassVar[Constraints] = {}
    hints: ClassVar[Mapping[str, str]] = {}  # what to use instead of a value that is refused

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        del deep
        return {own.name: getattr(self, own.name) for own in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as GridSearchCV does with ``solver__tol``."""
        for name, value in params.items():
            if name not in self.get_params():
                known = nearest(name, self.get_params())
                msg = f"{type(self).__name__} has no parameter {name!r}. {known}"
                raise InputError(msg)
            setattr(self, name, value)
        return self

    def check_params(self) -> None:
        """Raise a `ParameterError` for the first parameter that has an impossible value."""
        for name, constraint in self.constraints.items():
            value = getattr(self, name)
            if not constraint.holds(value):
                raise ParameterError.about(
                    name,
                    value,
                    must_be=constraint.wanted,
                    of=type(self).__name__,
                    remedy=self.hints.get(name, ""),
                )


def meant(name: str, params: dict[str, Any]) -> str:
    """What was meant by a parameter that a kernel has not: one of a kernel inside, or a near name.

    >>> meant("gamma", {"left": 1, "left__gamma": 2})
    'A kernel inside has it: write left__gamma (of an estimator: kernel__left__gamma).'
    """
    inside = [key for key in params if key.endswith(f"__{name}")]
    if inside:
        told = " or ".join(inside)
        return f"A kernel inside has it: write {told} (of an estimator: kernel__{inside[0]})."
    known = [key for key in params if "__" not in key]
    return nearest(name, known) if known else "It has none."
