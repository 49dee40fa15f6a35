"""Rows with a wild reading are set aside, with a warning; columns that never move get one too.

Warnings name the far cells alone: of rows on workers nothing else is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from mercer._core.errors import DetectorWarning
from mercer._core.findings import warn
from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.dask import DaskRows
from mercer.data.training import TrainingData
from mercer.monitoring.limits import Limits
from mercer.monitoring.rows import chosen
from mercer.monitoring.wild_readings import (
    evidence,
    far_cells,
    is_usual,
    other_times,
    unknown_to,
    without_witness,
)

# With more than this share of all rows to set aside, the readings are not isolated.
MOST_ROWS = 0.5


# ── far cells, and which of them are wild ───────────────────────────────────
@dataclass(frozen=True, repr=False)
class FarCells:
    """Readings far beyond all others of their column, in the order of rows.

    They are wild where they are isolated, or in stretches that no other column knows of. A process that goes
    somewhere takes more than one sensor along. One that jumps out and back by itself, while all others go on
    as before, has failed.
    """

    n: int  # rows of the table
    cells: Array  # (m, 3): row, column and reading
    wild: Flags  # (m,), which of them can't be true
    lonely: Flags  # (m,), which of them no other column has to witness
    medians: dict[int, float]  # of the columns that they are in

    @classmethod
    def of(cls, x: Rows, *, judged: bool = True) -> FarCells:  # (n, d)
        """The far cells of rows in memory, or on workers, of which each sees whole columns.

        Unless they are to be `judged`, none is wild.
        """
        groups = x.by_columns(_far_columns) if isinstance(x, DaskRows) else [_far_columns(x, 0)]
        n, parts, medians = int(x.shape[0]), [np.empty((0, 5))], {}
        for j, at, readings, median in chain.from_iterable(groups):
            far = _flags(n, at)
            wild = without_witness(far) & judged
            if judged and np.any(far & ~wild) and _unknown_to_others(x, j, far):
                wild = far
            lonely = without_witness(wild)
            parts.append(np.column_stack([at, np.full(len(at), j), readings, wild[at], lonely[at]]))
            medians[j] = median
        cells = np.concatenate(parts)
        cells = cells[np.lexsort(cells[:, 1::-1].T)]
        return cls(n, cells[:, :3], cells[:, 3] > 0.0, cells[:, 4] > 0.0, medians)


def _far_columns(columns: Array, first: int) -> list[tuple[int, Indices, Array, float]]:  # (n, w)
    """For each column with far cells: its number, their rows and readings, and its median."""
    far, found = far_cells(columns), []
    for j in np.flatnonzero(far.any(axis=0)):
        at, column = np.flatnonzero(far[:, j]), columns[:, j]
        found.append((first + int(j), at, column[at], float(np.median(column))))
    return found


def _unknown_to_others(x: Rows, j: int, far: Flags) -> bool:
    """Whether all columns but j are, in these rows, as they are at any other time."""
    if not isinstance(x, DaskRows):
        return unknown_to(np.delete(x, j, axis=1), far)
    if other_times(far) is None:
        return False
    n, at = len(far), np.flatnonzero(far)
    (usual,) = x.by_columns(partial(_evidence, j, at), then=partial(_is_usual, n, at))
    return bool(usual)


def _evidence(j: int, at: Indices, columns: Array, first: int) -> tuple[Array, int]:
    """The evidence of all columns but j."""
    mine = first <= j < first + columns.shape[1]
    others = np.delete(columns, j - first, axis=1) if mine else columns
    return evidence(others, _flags(len(columns), at))


def _is_usual(n: int, at: Indices, *seen: tuple[Array, int]) -> bool:
    other = other_times(_flags(n, at))
    return other is not None and is_usual(other, *seen)


def _flags(n: int, at: Indices) -> Flags:  # (n,)
    flags = np.zeros(n, dtype=bool)
    flags[at] = True
    return flags


# ── rows set aside, and the warnings of them ────────────────────────────────
def without_wild(
    read: TrainingData, names: Any, *, keep: bool
) -> tuple[Rows, Array | None, Array, Indices]:
    """Rows (m, d) and weights (m,) of the fit, cells set aside, and columns that far readings still scale."""
    x, weights, far = read.rows, read.weights, FarCells.of(read.rows, judged=not keep)
    if keep:
        return x, weights, np.empty((0, 3)), np.array(sorted(far.medians), dtype=np.intp)
    kept = set_aside(far, read.kept, names)
    _warn_crowded(far, names)
    left = far.cells[kept[far.cells[:, 0].astype(np.intp)], 1]
    stretched = np.unique(left).astype(np.intp)
    if kept.all():
        return x, weights, np.empty((0, 3)), stretched
    cells = _where(far.cells[far.wild], read.kept)
    weights = None if weights is None else weights[kept]
    return chosen(x, kept), weights, cells, stretched


def _where(cells: Array, positions: Indices | None) -> Array:  # (m, 3) -> (m, 3)
    """Cells by the numbers that rows had before those of weight zero were left out."""
    if positions is None:
        return cells
    return np.column_stack([positions[cells[:, 0].astype(np.intp)], cells[:, 1:]])


def set_aside(far: FarCells, positions: Indices | None, names: Any) -> Flags:  # (n,)
    """Which rows are kept: those without a wild cell. A warning names the others."""
    cells, kept = far.cells[far.wild], np.ones(far.n, dtype=bool)
    if len(cells) == 0:
        return kept
    kept[cells[:, 0].astype(np.intp)] = False
    rows = f"{int(np.sum(~kept))} of {far.n} rows"
    msg = (
        f"{len(cells)} reading(s) lie far beyond all others of their column: "
        f"{_listed(_where(cells, positions), names)}. "
    )
    if np.mean(~kept) > MOST_ROWS:
        msg += (
            f"They are in {rows}, too many to set aside, so they set the scale of their columns, and smaller "
            "changes there go unseen. Clean the rows."
        )
        warn(msg, DetectorWarning, "wild-readings", {"readings": len(cells), "of": far.n})
        return np.ones(far.n, dtype=bool)
    if not far.lonely[far.wild].all():
        msg += (
            "Where they stay or recur, all other columns go on as before: a failed sensor, not a state of "
            "the process. "
        )
    msg += (
        f"{rows} are set aside from the fit, as one such reading would set the scale of its column. Correct "
        "the readings, or pass wild='keep' (--wild keep) if they are normal."
    )
    aside = {"readings": len(cells), "rows": int(np.sum(~kept)), "of": far.n}
    warn(msg, DetectorWarning, "wild-readings-set-aside", aside)
    return kept


def _listed(cells: Array, names: Any) -> str:
    """The first ten cells, or stretches of them: row, column and reading."""
    stretches = []
    for j in np.unique(cells[:, 1]):
        column = cells[cells[:, 1] == j]  # in the order of rows
        stretches += np.split(column, 1 + np.flatnonzero(np.diff(column[:, 0]) != 1.0))
    stretches.sort(key=lambda one: (one[0, 0], one[0, 1]))
    return "; ".join(first_ten(stretches, lambda one: _in_words(one, names)))


def _in_words(stretch: Array, names: Any) -> str:  # (r, 3): neighbouring rows of one column
    first, last, j = int(stretch[0, 0]), int(stretch[-1, 0]), int(stretch[0, 1])
    rows = f"row {first}" if first == last else f"rows {first} to {last}"
    low, high = stretch[:, 2].min(), stretch[:, 2].max()
    readings = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{rows}, column {_column(j, names)}: {readings}"


def _warn_crowded(far: FarCells, names: Any) -> None:
    """Warn of far readings that stay or recur and may be a state of the process: the scale is theirs."""
    cells = far.cells[~far.wild]
    columns = np.unique(cells[:, 1]).astype(np.intp)
    if len(columns) == 0:
        return

    def shown(j: int) -> str:
        readings = cells[cells[:, 1] == j, 2]
        reading = readings[np.argmax(np.abs(readings - far.medians[int(j)]))]
        return f"column {_column(j, names)}: {len(readings)} of {far.n} rows, up to {reading:g}"

    msg = (
        "Readings lie far beyond all others of their column, and stay or recur while other columns move too, "
        "or with none to tell, as in a state of the process: "
        f"{'; '.join(first_ten(columns, shown))}. They are kept, so they set the scale of that column, and a "
        "step in it may go unseen. Clean the rows, or pass wild='keep' (--wild keep) if they are normal."
    )
    warn(msg, DetectorWarning, "wild-readings-kept", {"readings": len(cells), "of": far.n})


def noted(limits: Limits, aside: Array, n: int, *more: str) -> Limits:
    """The limits, with a note of the rows that were set aside, and what else there is to note."""
    count = len(np.unique(aside[:, 0]))
    wild = f"{count} of {n} training rows were set aside for wild readings" if count else ""
    return replace(limits, note="; ".join(filter(None, [limits.note, wild, *more])))


# ── columns ─────────────────────────────────────────────────────────────────
def _column(j: int, names: Any) -> str:
    return str(j) if names is None else f"{j} ({names[j]!r})"


def listed(columns: Indices, names: Any) -> str:
    """The first ten columns, by number and by name."""
    return ", ".join(first_ten(columns, lambda j: _column(j, names)))


def first_ten(things: Sequence[Any] | Indices, words: Callable[[Any], str]) -> list[str]:
    """Ten of them in words, and how many more there are."""
    more = len(things) - 10
    return [words(thing) for thing in things[:10]] + ([f"and {more} more"] if more > 0 else [])


def warn_still(columns: Indices, names: Any) -> None:
    """Warn of columns that never move: they can't be scaled, and a sensor may be stuck."""
    if len(columns) == 0:
        return
    msg = (
        f"{len(columns)} column(s) do not change in the training rows: {listed(columns, names)}. They are "
        "centred but not scaled, so that any change counts in its own unit. Drop them if their sensors "
        "are stuck, or if such changes mean nothing."
    )
    warn(msg, DetectorWarning, "still-columns", {"columns": len(columns)})
