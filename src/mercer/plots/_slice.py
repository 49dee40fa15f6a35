"""A plane through the space of the inputs: two variables move, the others are held."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.plots import _checks

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array


@dataclass(frozen=True)
class Slice:
    """The points of X whose two variables are `pair`, all others at `held`."""

    pair: tuple[int, int]
    held: Array  # (d,)
    names: tuple[str, str]  # of the two axes
    where: str  # how the others are held, in words; empty where there are none
    frame: Any  # an empty data frame with the columns of X, where X is one

    def lifted(self, transform: Callable[[Any], Any]) -> Callable[[Array], Any]:
        """A transform of points of the plane, from one of points of the whole space."""

        def plane(points: Array) -> Any:  # (m, 2) -> (m, k)
            rows = np.tile(self.held, (len(points), 1))  # (m, d)
            rows[:, self.pair] = points
            if self.frame is None:
                return transform(rows)
            # A model that was fitted to named columns wants them back.
            return transform(type(self.frame)(rows, columns=self.frame.columns))

        return plane


def read(X: Any, variables: Any, fixed: Any, names: Any) -> tuple[Slice, Array]:
    """The slice that was asked for, and the data as its (n, 2) coordinates."""
    rows = _checks.finite("X", X, ndim=2, shape="(n, d)")
    d = rows.shape[1]
    given = getattr(X, "columns", None) if names is None else names
    called = None if given is None else [str(name) for name in given]
    if called is not None:
        _checks.count("names", called, d, "variables")
    if d < 2:
        _checks.plane("X", rows)  # raises
    if d > 2 and variables is None:
        msg = (
            f"`X` of shape {rows.shape} came, and a picture has two variables. Pass which two move, such as "
            "variables=(0, 1); `fixed` says where the others are held."
        )
        raise InputError(msg)
    pair = (0, 1) if variables is None else _pair(variables, d, called)
    held, where = _held(rows, fixed)
    if called is None:
        called = [f"feature {l + 1}" for l in range(d)]
    frame = X.iloc[:0] if hasattr(X, "iloc") else None
    shown = (called[pair[0]], called[pair[1]])
    return Slice(pair, held, shown, where if d > 2 else "", frame), rows[:, pair]


def _pair(variables: Any, d: int, names: list[str] | None) -> tuple[int, int]:
    wanted = list(variables) if np.ndim(variables) == 1 else []
    places = [_place(variable, d, names) for variable in wanted]
    if len(places) != 2 or places[0] == places[1]:
        msg = f"`variables` must be two different variables, but {variables!r} came."
        msg += " Pass two column numbers or two names, such as variables=(0, 1)."
        raise InputError(msg)
    return places[0], places[1]


def _place(variable: Any, d: int, names: list[str] | None) -> int:
    if isinstance(variable, str):
        if names is not None and variable in names:
            return names.index(variable)
        known = "there are no names" if names is None else f"the names are {', '.join(names)}"
        msg = f"There is no variable {variable!r}: {known}. Pass column numbers, or `names`."
        raise InputError(msg)
    try:
        place = operator.index(variable)
    except TypeError:
        place = -1
    if not 0 <= place < d:
        msg = f"variable {variable!r} was asked for, but there are {d}, counted from 0 to {d - 1}."
        raise InputError(msg)
    return place


def _held(rows: Array, fixed: Any) -> tuple[Array, str]:
    if isinstance(fixed, str):
        if fixed == "median":
            return np.median(rows, axis=0), "the others at their medians"
    elif np.ndim(fixed) == 0:
        row = _row(fixed, len(rows))
        return rows[row].copy(), f"the others as in row {row}"
    else:
        point = _checks.finite("fixed", fixed, ndim=1, shape="(d,)")
        _checks.count("fixed", point, rows.shape[1], "variables")
        return point.copy(), "the others held"
    msg = f"fixed={fixed!r} came. Pass 'median', the number of a row of X, or a point of d values."
    raise InputError(msg)


def _row(fixed: Any, n: int) -> int:
    try:
        row = operator.index(fixed)
    except TypeError:
        row = -1
    if not 0 <= row < n:
        msg = f"fixed={fixed!r} is no row of X, which has {n}, counted from 0."
        msg += " Pass one of those, 'median', or a point of d values."
        raise InputError(msg)
    return row
