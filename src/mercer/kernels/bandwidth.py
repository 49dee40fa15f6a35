"""Kernel widths read off the data: the median distance, the variance, the number of features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import KernelError
from mercer._core.params import Number
from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import take_rows
from mercer.engine.equal_rows import unlike
from mercer.engine.formula import Expr
from mercer.engine.moments import Moments
from mercer.engine.pairwise import dense, manhattan_distances, scaled_distances
from mercer.engine.passes import fold, map_rows
from mercer.kernels.rows import stacked

# Half a million pairs pin the median down to a fraction of a percent, whatever n is.
MEDIAN_ROWS = 1000
# Entries that a pass over the rows holds in float64 at a time.
BLOCK_ENTRIES = 2**20
# Above this float64 can't distinguish consecutive whole numbers.
WHOLE = 2.0**53
# The width where all rows are one point: any width gives the same matrix, of ones.
ALIKE = 1.0

RULES = ("median", "scale", "1/d")
# What a γ may be, and a length.
GAMMA, LENGTH = Number(0, also=(*RULES, None)), Number(0, also=("median",))


def is_rule(value: Any) -> bool:
    """Whether a width has still to be read off data."""
    return value is None or isinstance(value, str)


def number(value: Any, kernel: object) -> float:
    """The parameter of a kernel as a number; raises where it is still a rule."""
    if is_rule(value):
        msg = f"{kernel!r} still depends on data. Call `kernel.resolve(X, rng=rng)` first."
        raise KernelError(msg)
    return float(value)


def median_distance(
    x: Rows, distances: Callable[..., Array], *, rng: np.random.Generator, weights: Array | None
) -> float:
    """Median of the distances between rows, over at most `MEDIAN_ROWS` seeded rows.

    Whole weights give the median of repeated rows, to the last bit. Other weights are the chances of
    `MEDIAN_ROWS` draws with replacement.
    """
    rows = take_rows(x, _some(int(x.shape[0]), weights, rng=rng))
    rare = not np.any(unlike(rows, rows[:1]))
    if rare:  # all rows, or most of them, are one point: look for others among all
        rows = _with_unlike(x, rows[:1], weights, rng=rng)
    rows = rows.astype(np.float64)  # few enough, and squares of float32 may not fit
    apart = distances(rows, rows)
    pairs = apart[~np.tri(len(apart), dtype=bool)]  # above the diagonal: a mask, no indices
    del apart
    if not np.any(pairs > 0):
        return ALIKE
    median = float(np.median(pairs))
    # More than half of the pairs coincide (counts, categories): ask those that do not.
    return float(np.median(pairs[pairs > 0])) if rare or median == 0 else median


def _with_unlike(x: Rows, point: Rows, weights: Array | None, *, rng: np.random.Generator) -> Rows:
    """A point, and at most `MEDIAN_ROWS` seeded rows that differ from it."""
    places = np.flatnonzero(map_rows(x, partial(unlike, point=point), height=_height(x)))
    if weights is not None:
        places = places[weights[places] > 0]
    if not len(places):
        return point
    others = _some(len(places), None if weights is None else weights[places], rng=rng)
    return stacked(point, take_rows(x, places[others]))


def _some(n: int, weights: Array | None, *, rng: np.random.Generator) -> Indices:
    """At most `MEDIAN_ROWS` seeded positions among n rows, each repeated by its weight."""
    # Rows lie side by side on a line, each as long as its weight, and places on the line are drawn.
    ends = None if weights is None else np.cumsum(weights)  # (n,)
    total = n if ends is None else float(ends[-1])
    if weights is not None and (total > WHOLE or np.any(weights != np.rint(weights))):
        places: Array | Indices = total * np.sort(rng.random(MEDIAN_ROWS))
    elif total <= MEDIAN_ROWS:
        places = np.arange(int(total))
    else:
        places = np.sort(rng.choice(int(total), MEDIAN_ROWS, replace=False))
    return places.astype(np.intp) if ends is None else np.searchsorted(ends, places, side="right")


def variance(x: Rows, weights: Array | None = None) -> float:
    """Variance of all entries, as in scikit-learn's gamma='scale'; a row of weight w counts w times."""
    # About one of the entries: where all are 0.1 the variance is then 0, not that of a rounded mean.
    some = 0 if weights is None else int(np.argmax(weights > 0))
    origin = float(dense(x[some : some + 1])[0, 0])
    seen = fold(x, partial(_entry_moments, weights, origin), height=_height(x))
    return float(seen.scatter[0, 0]) / seen.weight


def _height(x: Rows) -> int:
    return max(1, BLOCK_ENTRIES // max(1, int(x.shape[1])))


def _entry_moments(weights: Array | None, origin: float, block: Rows, place: slice) -> Moments:
    """Moments of all entries of a block, less `origin`; entries that a sparse block omits are zeros."""

    def moments(values: Array, weights: Array) -> Moments:
        return Moments.of(values.astype(np.float64, copy=False).reshape(-1, 1) - origin, weights)

    weights = np.ones(block.shape[0]) if weights is None else weights[place]
    if not sparse.issparse(block):
        return moments(block, np.repeat(weights, block.shape[1]))
    n_stored = np.diff(block.indptr)
    stored = moments(block.data, np.repeat(weights, n_stored))
    left_out = float(weights @ (block.shape[1] - n_stored))
    return stored.merged(Moments(left_out, np.array([-origin]), np.zeros((1, 1))))


def width_from(
    rule: Any, name: str, formula: Expr, x: Rows, *, rng: np.random.Generator, weights: Array | None
) -> float:
    """The number behind a rule for γ or a length; ``None`` means 1/d, as in scikit-learn's kernels.

    At the median distance a γ gives an exponent of 1/2 where distances are squared, and of 1 elsewhere.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the check below reports it
        if rule == "median":
            squared = not formula.has("l1")
            distances = scaled_distances if squared else manhattan_distances
            median = median_distance(x, distances, rng=rng, weights=weights)
            if name != "gamma":
                return median
            width = 0.5 / median / median if squared else 1.0 / median
        elif rule == "scale":
            spread = variance(x, weights)
            width = 1.0 / (x.shape[1] * spread) if spread > 0 else ALIKE
        else:
            width = 1.0 / float(x.shape[1])
    if not float(np.finfo(np.float64).tiny) <= width < np.inf:
        msg = (
            f"{name}={rule!r} gives {width} on these data: distances between rows are too small or too "
            f"large to be squared. Scale the columns (StandardScaler), or give {name}."
        )
        raise KernelError(msg)
    return width
