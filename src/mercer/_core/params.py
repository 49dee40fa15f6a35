"""Parameters of solvers, approximations and pre-images: reached by name, each held to a constraint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from mercer._core.errors import InputError, MercerError, ParameterError, close_to, nearest


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether a value is a finite number; a whole number of Python's may be too large for one."""
    try:
        return is_number(value) and math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # 10**400 is no float
        return False


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
    """A whole number, `least` or more, and no more than `most` where there is such an end.

    Examples
    --------
    >>> Whole(2, even=True).wanted, Whole(1, 9, also=("auto", None)).wanted
    ('an even integer >= 2', "an integer from 1 to 9, 'auto' or None")
    """

    least: int
    most: int | None = None
    even: bool = False
    floats: bool = False  # whether 2.0 is whole
    also: tuple[Any, ...] = ()

    @property
    def wanted(self) -> str:
        ends = f">= {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        return _or(f"an {'even ' if self.even else ''}integer {ends}", self.also)

    def holds(self, value: Any) -> bool:
        if is_finite(value) and value % 1 == 0 if self.floats else is_whole(value):
            below = self.most is None or value <= self.most
            return bool(value >= self.least and below and not (self.even and value % 2))
        return _among(value, self.also)


@dataclass(frozen=True)
class Number:
    """A finite number above `above` and below `below`; a square bracket in `ends` takes that end in.

    Examples
    --------
    >>> Number(0, 1).wanted, Number(0).holds(float("inf")), Number(0).holds(True)
    ('a number between 0 and 1, both excluded', False, False)
    >>> Number().wanted, Number(0, 1, ends="(]").wanted
    ('a finite number', 'a number in (0, 1]')
    """

    above: float = -math.inf
    below: float = math.inf
    also: tuple[Any, ...] = ()
    ends: str = "()"

    @property
    def wanted(self) -> str:
        if self.above == -math.inf:
            return _or("a finite number", self.also)
        left, right = self.ends[0], self.ends[1]
        told = f"in {left}{self.above:g}, {self.below:g}{right}"
        if self.below == math.inf:
            told = f"{'>' if left == '(' else '>='} {self.above:g}"
        elif self.ends == "()":
            told = f"between {self.above:g} and {self.below:g}, both excluded"
        return _or(f"a number {told}", self.also)

    def holds(self, value: Any) -> bool:
        if is_finite(value) and self.above < value < self.below:
            return True
        ends = [
            end
            for end, sign in zip((self.above, self.below), self.ends, strict=True)
            if sign in "[]"
        ]
        return _among(value, (*self.also, *ends))


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
        return _or(repr(self.names[0]), self.names[1:])

    def holds(self, value: Any) -> bool:
        return _among(value, self.names)


def _among(value: Any, known: tuple[Any, ...]) -> bool:
    """Whether it is one of these; an array is none, though its entries may be."""
    plain = isinstance(value, str) or is_number(value)
    return any(value is one or (plain and value == one) for one in known)


def _or(first: str, also: tuple[Any, ...]) -> str:
    *before, last = [first, *map(repr, also)]
    return f"{', '.join(before)} or {last}" if before else last


def require(
    name: str,
    value: Any,
    constraint: Constraint,
    *,
    of: str = "",
    remedy: str = "",
    error: type[MercerError] = ParameterError,
) -> Any:
    """The value; raise unless the value may be used: "n_components must be …; got …. Use …".

    Examples
    --------
    >>> require("folds", 1, Whole(2, 9), remedy="Give 3, say.")
    Traceback (most recent call last):
        ...
    mercer._core.errors.ParameterError: folds must be an integer from 2 to 9; got 1. Give 3, say.
    """
    if not constraint.holds(value):
        names = (
            constraint.names if isinstance(constraint, OneOf) else getattr(constraint, "also", ())
        )
        if isinstance(constraint, OneOf) or isinstance(value, str):
            remedy = remedy or close_to(
                str(value), [name for name in names if isinstance(name, str)]
            )
        raise error.about(name, value, must_be=constraint.wanted, of=of, remedy=remedy)
    return value


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
            own, remedy = type(self).__name__, self.hints.get(name, "")
            require(name, getattr(self, name), constraint, of=own, remedy=remedy)


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
