"""Kernel widths read off the data: the median distance, the variance, the number of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from mercer._core.errors import KernelError, nearest
from mercer.kernels.base import positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows

Distances: TypeAlias = "Callable[[Rows, Rows], Array]"

# Half a million pairs pin the median down to a fraction of a percent, whatever n is.
MEDIAN_ROWS = 1000

RULES = ("median", "scale", "1/d")
_HINT = " or one of 'median', 'scale', '1/d'"


def check_width(name: str, value: Any, *, kernel: str) -> None:
    """A width is a positive number, None or the name of a rule."""
    if isinstance(value, str):
        if value not in RULES:
            msg = f"{kernel}({name}={value!r}): no such rule. {nearest(value, RULES)}"
            raise KernelError(msg)
    elif value is not None:
        positive(name, value, kernel=kernel, hint=_HINT)


def is_rule(value: Any) -> bool:
    """Whether the width has still to be read off data."""
    return value is None or isinstance(value, str)


def median_distance(x: Rows, distances: Distances, *, rng: np.random.Generator) -> float:
    """Median of the distances between distinct rows, over at most `MEDIAN_ROWS` seeded rows."""
    n = x.shape[0]
    if n > MEDIAN_ROWS:
        x = x[np.sort(rng.choice(n, MEDIAN_ROWS, replace=False))]
    pairs = distances(x, x)[np.triu_indices(x.shape[0], k=1)]
    if not np.any(pairs > 0):
        return 1.0  # all rows alike: any width gives the same (constant) matrix
    median = float(np.median(pairs))
    # More than half of the pairs coincide (counts, categories): ask those that do not.
    return median if median > 0 else float(np.median(pairs[pairs > 0]))


def variance(x: Rows) -> float:
    """Variance of all entries, as in scikit-learn's gamma='scale'."""
    if sparse.issparse(x):
        size = x.shape[0] * x.shape[1]
        return float(x.multiply(x).sum() / size - (x.sum() / size) ** 2)
    return float(np.var(x, dtype=np.float64))


def gamma_from(rule: str | None, x: Rows, *, from_median: Callable[[], float]) -> float:
    """The number behind a rule; ``None`` means 1/d, as scikit-learn's kernels have it."""
    if rule == "median":
        return from_median()
    if rule == "scale":
        spread = variance(x)
        return 1.0 / (x.shape[1] * spread) if spread > 0 else 1.0
    return 1.0 / x.shape[1]
