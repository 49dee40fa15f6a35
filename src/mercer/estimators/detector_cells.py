"""Single readings that can't be true: one of them would set the scale of its whole column."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DetectorWarning
from mercer.estimators.validation import users_level

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices
    from mercer.estimators.door import Training
    from mercer.model.limits import Limits

# A wild cell lies this many times as far from the column's median as the farthest of all the others. Of
# Gaussian rows none does; of Student's t with three degrees the farthest does in one column of a thousand.
FAR = 10.0
# At most one row in so many holds wild cells of one column, and no more than this many stand side by side:
# what comes oftener, or stays, is a state of the process and no glitch.
ONE_IN, TOGETHER = 20, 2
# At least one reading in so many differs from the median: a switch that was on once is no glitch.
MOVES = 10
# Fewer rows than this can't tell a glitch from a process.
FEWEST = 10
# With more than this share of all rows to set aside, the readings are not isolated.
MOST_ROWS = 0.5


def wild_cells(x: Array) -> Flags:  # (n, d) -> (n, d)
    """Which cells are wild: isolated, and ten times as far out as all others of their column.

    The rule is about gaps, not about standard deviations: heavy tails have none so wide, and columns of two
    values, or nearly of one, have no spread to be far from.
    """
    n = len(x)
    found = np.zeros(x.shape, dtype=bool)
    if n < FEWEST:
        return found
    most = max(1, n // ONE_IN)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(x - np.median(x, axis=0))
    off = np.where(np.isfinite(off), off, np.inf)
    top = np.partition(off, n - 1 - np.arange(most + 1), axis=0)[n - 1 - most :]  # (most + 1, d)
    top.sort(axis=0)
    moves = np.count_nonzero(off, axis=0) * MOVES >= n  # (d,)
    wide = (top[1:] > FAR * top[:-1]) & (top[:-1] > 0.0) & moves  # (most, d): a gap below this one
    for j in np.flatnonzero(wide.any(axis=0)):
        least = top[1 + int(np.argmax(wide[:, j])), j]
        found[:, j] = _isolated(off[:, j] >= least)
    return found


def _isolated(wild: Flags) -> Flags:  # (n,) -> (n,)
    """Without runs of neighbours that are longer than `TOGETHER`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wild.astype(np.int8), [0]])))
    for first, after in edges.reshape(-1, 2):
        if after - first > TOGETHER:
            wild[first:after] = False
    return wild


def set_aside(x: Array, positions: Indices | None, names: Any) -> tuple[Flags, Array]:
    """Rows to keep (n,), and row, column and reading of each wild cell in the others (m, 3). Told by name."""
    wild = wild_cells(x)
    gone = np.asarray(wild.any(axis=1))
    if not gone.any():
        return np.logical_not(gone), np.empty((0, 3))
    at, columns = np.nonzero(wild)
    where = at if positions is None else positions[at]
    cells = np.column_stack([where, columns, x[wild]]).astype(np.float64)  # (m, 3)
    rows = f"{int(gone.sum())} of {len(x)} rows"
    msg = (
        f"{len(cells)} reading(s) lie more than {FAR:g} times as far out as all others of their column: "
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
        "the readings, or pass wild='keep' if they are normal."
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


def without_wild(read: Training, names: Any, *, keep: bool) -> tuple[Array, Array | None, Array]:
    """Rows and weights of the fit, and the wild cells (m, 3) of the rows that were set aside."""
    if keep:
        return read.rows, read.weights, np.empty((0, 3))
    kept, cells = set_aside(read.rows, read.kept, names)
    if len(cells) == 0:
        return read.rows, read.weights, cells
    return read.rows[kept], None if read.weights is None else read.weights[kept], cells


def noted(limits: Limits, aside: Array, n: int) -> Limits:
    """The limits, with a note of the rows that were set aside."""
    if len(aside) == 0:
        return limits
    count = len(np.unique(aside[:, 0]))
    return replace(limits, note=f"{count} of {n} training rows were set aside for wild readings")
