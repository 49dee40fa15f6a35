"""Single readings that can't be true: one of them would set the scale of its whole column."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DetectorWarning
from mercer.estimators.validation import users_level

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices
    from mercer.data.training import TrainingData
    from mercer.monitoring.limits import Limits

# What a column usually does is the distance from its median that this share of its readings stays within. Up
# to one reading in ten may be wild without moving it.
USUAL = 0.9
# Beyond that, a tail falls with some power α of the distance, as Hill (1975) measures it, and of such a tail
# the farthest reading is r times as far as the next with probability r^-α. A gap that has a chance of one in
# a thousand, by the readings below it, parts the far ones from the others. α counts as at most LIGHTEST, so
# that no gap is below a factor of 4 (Gaussian columns have 4.6), and a few readings add little to what is
# known beforehand: PRIOR of them with α = 3, as of Student's t with three degrees, a factor of 10.
CHANCE, LIGHTEST, PRIOR, HEAVY = 1e-3, 5.0, 5.0, 3.0
# Fewer distances from the median than this are those of states, and not of a reading that varies.
CODES = 6
# At most one row in so many holds wild cells of one column, and no more than this many stand side by side:
# what comes oftener, or stays, is a state of the process and no glitch.
ONE_IN, TOGETHER = 20, 2
# At least one reading in so many differs from the median: a switch that was on once is no glitch.
MOVES = 10
# Fewer rows than this can't tell a glitch from a process.
FEWEST = 10
# With more than this share of all rows to set aside, the readings are not isolated.
MOST_ROWS = 0.5


def far_cells(x: Array) -> Flags:  # (n, d) -> (n, d)
    """Which cells are far beyond what their column usually does, with a gap between.

    The rule is about gaps in the tail, not about standard deviations: a heavy tail has none so wide. Those
    beyond one gap are all far, so that they can't hide behind one another. Columns that mostly stand still
    have no tail.
    """
    found = np.zeros(x.shape, dtype=bool)
    if len(x) < FEWEST:
        return found
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(x - np.median(x, axis=0)).astype(np.float64)
    off = np.where(np.isfinite(off), off, np.inf)
    for j in np.flatnonzero(np.count_nonzero(off, axis=0) * MOVES >= len(x)):
        found[:, j] = off[:, j] >= _first_far(off[:, j])
    return found


def _first_far(off: Array) -> float:  # (n,) -> distance of the first reading beyond a gap, or ∞
    moved = off[off > 0.0]
    at = max(ceil(USUAL * len(moved)) - 1, 0)
    usual = float(np.partition(moved, at)[at])
    tail = np.sort(moved[moved >= usual])
    if tail[-1] <= CHANCE ** (-1.0 / LIGHTEST) * usual:
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.log(tail / usual)  # 0 first
        below = np.arange(
            len(tail) - 1
        )  # so many of the tail lie below a gap, beside the usual one
        power = (below + PRIOR) / (np.cumsum(excess)[:-1] + PRIOR / HEAVY)  # Hill's, below each gap
        # Codes of states tell of no tail.
        most = LIGHTEST if len(np.unique(moved)) >= CODES else HEAVY
        wide = np.diff(excess) * np.minimum(power, most) > -np.log(CHANCE)
    return float(tail[1 + int(np.argmax(wide))]) if wide.any() else np.inf


def wild_cells(x: Array, far: Flags | None = None) -> Flags:  # (n, d) -> (n, d)
    """Which of the far cells are wild: isolated, so that the rest of the column says what is normal."""
    found = far_cells(x) if far is None else far.copy()
    most = max(1, len(x) // ONE_IN)
    found[:, found.sum(axis=0) > most] = False
    for j in np.flatnonzero(found.any(axis=0)):
        found[:, j] = _isolated(found[:, j])
    return found


def _isolated(wild: Flags) -> Flags:  # (n,) -> (n,)
    """Without runs of neighbours that are longer than `TOGETHER`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wild.astype(np.int8), [0]])))
    for first, after in edges.reshape(-1, 2):
        if after - first > TOGETHER:
            wild[first:after] = False
    return wild


def set_aside(x: Array, wild: Flags, positions: Indices | None, names: Any) -> tuple[Flags, Array]:
    """Rows to keep (n,), and row, column and reading of each wild cell in the others (m, 3). Told by name."""
    gone = np.asarray(wild.any(axis=1))
    if not gone.any():
        return np.logical_not(gone), np.empty((0, 3))
    at, columns = np.nonzero(wild)
    where = at if positions is None else positions[at]
    cells = np.column_stack([where, columns, x[wild]]).astype(np.float64)  # (m, 3)
    rows = f"{int(gone.sum())} of {len(x)} rows"
    msg = (
        f"{len(cells)} reading(s) lie far beyond all others of their column: "
        f"{_listed(cells, names)}. "
    )
    if gone.mean() > MOST_ROWS:
        msg += (
            f"They are in {rows}, too many to set aside, so they set the scale of their columns, and smaller "
            "changes there go unseen. Clean the rows."
        )
        warnings.warn(msg, DetectorWarning, stacklevel=users_level())
        return np.ones(len(x), dtype=bool), np.empty((0, 3))
    msg += (
        f"{rows} are set aside from the fit, as one such reading would set the scale of its column. Correct "
        "the readings, or pass wild='keep' (--wild keep) if they are normal."
    )
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())
    return np.logical_not(gone), cells


def _listed(cells: Array, names: Any) -> str:
    """The first ten cells: row, column and reading."""
    shown = [
        f"row {int(i)}, column {int(j) if names is None else f'{int(j)} ({names[int(j)]!r})'}: {value:g}"
        for i, j, value in cells[:10]
    ]
    more = "" if len(cells) <= 10 else f"; and {len(cells) - 10} more"
    return "; ".join(shown) + more


def tell_crowded(x: Array, crowded: Flags, names: Any) -> None:
    """Warn of far readings that are too many, or too close together, to be set aside: the scale is theirs."""
    columns = np.flatnonzero(crowded.any(axis=0))
    if len(columns) == 0:
        return
    shown = []
    for j in columns[:10]:
        readings = x[crowded[:, j], j]
        reading = readings[np.argmax(np.abs(readings - np.median(x[:, j])))]
        name = f"{j}" if names is None else f"{j} ({names[j]!r})"
        shown.append(f"column {name}: {len(readings)} of {len(x)} rows, up to {reading:g}")
    more = "" if len(columns) <= 10 else f"; and {len(columns) - 10} more"
    msg = (
        "Readings lie far beyond all others of their column, too many or too close together to be set aside "
        f"as glitches: {'; '.join(shown)}{more}. They set the scale of that column, and a step in it may go "
        "unseen. Clean the rows, or pass wild='keep' (--wild keep) if they are normal."
    )
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())


@dataclass(frozen=True, repr=False)
class Tidy:
    """The training rows that are fitted to."""

    rows: Array  # (m, d)
    weights: Array | None  # (m,)
    aside: (
        Array  # (c, 3): row, column and reading of each wild cell in the rows that were set aside
    )
    stretched: Indices  # columns that still have far readings, which set their scale


def without_wild(read: TrainingData, names: Any, *, keep: bool) -> Tidy:
    """Rows and weights of the fit, and what was set aside."""
    x = read.rows
    far = far_cells(x)
    if keep:
        return Tidy(x, read.weights, np.empty((0, 3)), np.flatnonzero(far.any(axis=0)))
    wild = wild_cells(x, far)
    kept, cells = set_aside(x, wild, read.kept, names)
    tell_crowded(x, far & ~wild, names)
    far &= kept[:, None]
    weights = None if read.weights is None else read.weights[kept]
    return Tidy(x[kept] if len(cells) else x, weights, cells, np.flatnonzero(far.any(axis=0)))


def noted(limits: Limits, aside: Array, n: int) -> Limits:
    """The limits, with a note of the rows that were set aside."""
    if len(aside) == 0:
        return limits
    count = len(np.unique(aside[:, 0]))
    return replace(limits, note=f"{count} of {n} training rows were set aside for wild readings")
