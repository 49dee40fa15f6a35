"""Arrays that a picture is made of: each check says what was given, what is needed and what to do."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np

from mercer._core.errors import InputError, refuse
from mercer._core.params import Whole, require
from mercer._core.types import Array


def finite(name: str, values: Any, *, ndim: int | tuple[int, ...], shape: str) -> Array:
    """Real, finite and non-empty numbers as float64; ``shape`` is what the reader should pass."""
    try:
        array = np.asarray(values)
    except ValueError as cause:  # rows of unequal length
        msg = f"`{name}` is not a rectangular array ({cause}). Pass an array of shape {shape}."
        raise InputError(msg) from cause
    if array.dtype.kind not in "biuf":
        got = f"{type(values).__name__} of dtype {array.dtype}"
        refuse(name, values, "real numbers", got, f"Pass a dense numeric array of shape {shape}.")
    if array.ndim not in np.atleast_1d(ndim) or array.size == 0:
        remedy = "Reshape it, or pass the array this picture is about."
        refuse(name, values, f"of shape {shape} and not empty", f"shape {array.shape}", remedy)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(map(int, bad[0]))
        msg = f"`{name}` has {len(bad)} values that are NaN or infinite, the first at {where}."
        msg += " Every value must be finite: drop or repair those rows first."
        raise InputError(msg)
    return array.astype(np.float64, copy=False)


def plane(name: str, X: Any) -> Array:
    """(n, 2) points: what can be drawn in input space."""
    points = finite(name, X, ndim=2, shape="(n, 2)")
    if points.shape[1] != 2:
        msg = f"`{name}` must be points of the plane, of shape (n, 2); got shape {points.shape}."
        msg += " Pass two columns, or draw the scores alone with `mercer.plots.scores`."
        raise InputError(msg)
    return points


def same_rows(n: int, **arrays: Array) -> None:
    """Every array has the same n rows."""
    for name, array in arrays.items():
        if len(array) != n:
            msg = f"`{name}` has {len(array)} rows, but {n} points are drawn."
            msg += " Pass one row for each point, in the same order."
            raise InputError(msg)


def count(name: str, values: Sized, expected: int, what: str) -> None:
    """As many entries as there are things to name."""
    if len(values) != expected:
        msg = f"`{name}` has {len(values)} entries, but there are {expected} {what}."
        msg += f" Pass one for each, or leave `{name}` out."
        raise InputError(msg)


def named(names: Any, d: int) -> list[str]:
    """Names of d variables: those given, or x0, x1, …"""
    called = [f"x{j}" for j in range(d)] if names is None else [str(n) for n in names]
    count("names", called, d, "variables")
    return called


def component(index: Any, k: int) -> int:
    """The index of one of k components, counted from 0 as columns of scores are."""
    remedy = "Or fit with a larger `n_components`."
    return int(require("component", index, Whole(0, k - 1), remedy=remedy))


def one_or_two(given: Sequence[int], *, least: int) -> tuple[int, ...]:
    """Two different components, or one where that will do."""
    wanted = tuple(given)
    if not least <= len(wanted) <= 2 or len(set(wanted)) != len(wanted):
        how_many = "two" if least == 2 else "one or two"
        refuse("components", given, f"{how_many} different components, such as (0, 1)")
    return wanted
