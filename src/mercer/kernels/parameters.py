"""Parameters of kernels: which there are, what each may be, and when two are the same."""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError

if TYPE_CHECKING:
    from mercer.kernels.base import Kernel


@cache  # a signature takes longer to read than a small tile to compute
def constructor_names(kind: type) -> tuple[str, ...]:
    """The parameters of a class, in the order of its constructor."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are the same; sequences and arrays entry by entry."""
    if a is b:
        return True
    if isinstance(a, (list, tuple, np.ndarray)) and isinstance(b, (list, tuple, np.ndarray)):
        a, b = np.asarray(a), np.asarray(b)
        # A mask of columns is not a list of positions, though True == 1.
        return (a.dtype.kind == "b") == (b.dtype.kind == "b") and np.array_equal(a, b)
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # an object whose comparison has no single answer
        return False


def plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return value.item() if isinstance(value, np.generic) else value


def is_rule(value: Any) -> bool:
    """Whether a width has still to be read off data."""
    return value is None or isinstance(value, str)


def number(value: Any, kernel: Kernel) -> float:
    """The parameter as a number; a rule that nobody resolved is an error, not a guess."""
    if is_rule(value):
        msg = f"{kernel!r} still depends on data. Call `kernel.resolve(X, rng=rng)` first."
        raise KernelError(msg)
    return float(value)


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of Python's has no largest: 10**400 is no float
        return False


def is_whole(value: Any) -> bool:
    """Whether a number is 1, 2, 3, …, and no more than a float can hold."""
    return _is_finite(value) and value >= 1 and value % 1 == 0


def positive(name: str, value: Any, *, kernel: str, hint: str = "") -> None:
    """Raise unless `value` is a positive finite number."""
    if not _is_finite(value) or value <= 0:
        msg = f"{kernel} needs {name} > 0, but {name}={value!r} came. Give a positive number{hint}."
        raise KernelError(msg)


def finite(name: str, value: Any, *, kernel: str) -> None:
    """Raise unless `value` is a finite number."""
    if not _is_finite(value):
        msg = f"{kernel} needs a finite number {name}, but {name}={value!r} came."
        raise KernelError(msg)
