"""Parameters of solvers, approximations and pre-images: reached by name, each held to a constraint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

from mercer._core.errors import InputError, MercerError, ParameterError, close_to, nearest


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; True and False are not."""
    if type(value) is int:  # which an abstract class takes ten times as long to see
        return True
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a real number; True and False are not."""
    if isinstance(value, float) or type(value) is int:
        return True
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether a value is a finite number; a whole number of Python's may be too large for one."""
    try:
        return is_number(value) and math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # 10**400 is not a float
        return False


class Constraint:
    """What a parameter may be, `also` some values that are not of its kind."""

    also: tuple[Any, ...] = ()

    @property
    def wanted(self) -> str:
        """The end of a sentence: "tol must be …"."""
        *before, last = [*self._kind(), *map(repr, self.also)]
        return f"{', '.join(before)} or {last}" if before else last

    def holds(self, value: Any) -> bool:
        """Whether the value may be used; an array may not, though its entries might."""
        plain = isinstance(value, str) or is_number(value)
        among = value in self.also if plain else id(value) in map(id, self.also)
        return among or self._is_kind(value)

    def _kind(self) -> tuple[str, ...]:
        return ()

    def _is_kind(self, value: Any) -> bool:  # noqa: ARG002
        return False


Constraints: TypeAlias = Mapping[str, Constraint]


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number, `least` or more, and no more than `most` where there is such an end.

    >>> Whole(2, even=True).wanted, Whole(1, 9, also=("auto", None)).wanted
    ('an even integer >= 2', "an integer from 1 to 9, 'auto' or None")
    """

    least: int
    most: int | None = None
    even: bool = False
    floats: bool = False  # whether 2.0 is whole
    also: tuple[Any, ...] = ()

    def _kind(self) -> tuple[str, ...]:
        ends = f">= {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        return (f"an {'even ' if self.even else ''}integer {ends}",)

    def _is_kind(self, value: Any) -> bool:
        if not (is_finite(value) and value % 1 == 0 if self.floats else is_whole(value)):
            return False
        most = math.inf if self.most is None else self.most
        return bool(self.least <= value <= most and not (self.even and value % 2))


@dataclass(frozen=True)
class Number(Constraint):
    """A finite number above `above` and below `below`; a square bracket in `ends` takes that end in.

    >>> Number(0, 1).wanted, Number(0).holds(float("inf")), Number(0).holds(True)
    ('a number between 0 and 1 (exclusive)', False, False)
    >>> Number().wanted, Number(0, 1, ends="(]").wanted
    ('a finite number', 'a number in (0, 1]')
    """

    above: float = -math.inf
    below: float = math.inf
    also: tuple[Any, ...] = ()
    ends: str = "()"

    def _kind(self) -> tuple[str, ...]:
        if self.above == -math.inf:
            return ("a finite number",)
        left, right = self.ends[0], self.ends[1]
        where = f"in {left}{self.above:g}, {self.below:g}{right}"
        if self.below == math.inf:
            where = f"{'>' if left == '(' else '>='} {self.above:g}"
        elif self.ends == "()":
            where = f"between {self.above:g} and {self.below:g} (exclusive)"
        return (f"a number {where}",)

    def _is_kind(self, value: Any) -> bool:
        if not is_finite(value):
            return False
        left, right = self.ends[0], self.ends[1]
        at_end = (left == "[" and value == self.above) or (right == "]" and value == self.below)
        return bool(self.above < value < self.below or at_end)


class OneOf(Constraint):
    """One of a few names.

    >>> OneOf(("single", "double")).wanted
    "'single' or 'double'"
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.also = names


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

    >>> require("folds", 1, Whole(2, 9), remedy="Give 3, say.")
    Traceback (most recent call last):
        ...
    mercer._core.errors.ParameterError: folds must be an integer from 2 to 9; got 1. Give 3, say.
    """
    if not constraint.holds(value):
        if isinstance(constraint, OneOf) or isinstance(value, str):
            names = [name for name in constraint.also if isinstance(name, str)]
            remedy = remedy or close_to(str(value), names)
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
    """A hint for a parameter that a kernel does not have: one of a kernel inside, or a near name.

    >>> meant("gamma", {"left": 1, "left__gamma": 2})
    'A kernel inside has it: write left__gamma (of an estimator: kernel__left__gamma).'
    """
    inside = [key for key in params if key.endswith(f"__{name}")]
    if inside:
        own = " or ".join(inside)
        return f"A kernel inside has it: write {own} (of an estimator: kernel__{inside[0]})."
    known = [key for key in params if "__" not in key]
    return nearest(name, known) if known else "It has none."
