"""How the caller's np.errstate is met: kernels underflow by design, and overflows are told in words.

exp(-γd²) of a far point is 0, which NumPy calls an underflow; a division or an overflow on the way to a
refusal is looked at by the code that made it. With ``np.errstate(all="raise")`` around a fit each of them
would end it. So everything public runs as under NumPy's defaults, except that what the caller ignores
stays ignored.
"""

from __future__ import annotations

from functools import wraps
from inspect import isfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def steady(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with an error state in which arithmetic raises nothing.

    Examples
    --------
    >>> import numpy as np
    >>> far = steady(lambda distance: np.exp(-np.float64(distance)))
    >>> with np.errstate(all="raise"):
    ...     float(far(1e4))
    0.0
    """

    @wraps(function)
    def steadied(*args: P.args, **kwargs: P.kwargs) -> R:
        modes: dict[str, Any] = {
            kind: mode if mode == "ignore" else "warn" for kind, mode in np.geterr().items()
        }
        with np.errstate(**(modes | {"under": "ignore"})):
            return function(*args, **kwargs)

    return steadied


class Steady:
    """A class whose public methods and properties are `steady`, and those of its subclasses."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isfunction(member) and not isgeneratorfunction(member):
                setattr(cls, name, steady(member))
            elif type(member) is property and member.fget is not None:
                setattr(cls, name, property(steady(member.fget), member.fset, member.fdel))
