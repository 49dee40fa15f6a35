"""Parameters of kernels: which there are, how they are written, and when two are the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def _names(kind: type) -> tuple[str, ...]:
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


# The parameters of a class, in the order of its constructor. A signature takes longer to read than a small
# tile to compute.
constructor_names: Callable[[type], tuple[str, ...]] = cache(_names)


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


def written(value: Any) -> str:
    """A parameter, as Python would write it: numbers of NumPy's as Python's own, sequences as lists."""
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return f"[{', '.join(map(written, value))}]"
    return repr(value.item() if isinstance(value, np.generic) else value)
