"""What limits ask of the rows they come from, in memory or on workers: parts, scales, moves, principal axes.

Rows of a dask collection stay where they are. A step makes new ones of each chunk, and what comes here are
sums over columns and a flag for each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.dask import DaskRows
from mercer.engine.base import Engine
from mercer.engine.moments import BLOCK_ROWS, Scale, column_moments


def made(rows: Rows, step: Callable[[Array], Array], at: Indices | None = None) -> Rows:
    """The rows that a step makes of those at these ascending positions (None: of all)."""
    if isinstance(rows, DaskRows):
        return rows.taken(at, step)
    return step(rows if at is None else rows[at])


def chosen(rows: Rows, at: Indices | Flags) -> Rows:
    """The rows at these ascending positions, or those that are flagged."""
    if not isinstance(rows, DaskRows):
        return rows[at]
    if at.dtype == bool and at.all():
        return rows
    return rows.taken(np.flatnonzero(at) if at.dtype == bool else np.asarray(at, dtype=np.intp))


def scale_of(engine: Engine[Any], rows: Rows, weights: Array | None = None) -> Scale:
    """Mean and standard deviation of each column, as `Scale.of` has them."""
    if isinstance(rows, DaskRows):
        return Scale.over(engine, rows, weights=weights)
    return Scale.of(rows, weights=weights)


def mean_of(engine: Engine[Any], rows: Rows) -> Array:  # (d,)
    """The mean of each column."""
    here = not isinstance(rows, DaskRows)
    return np.asarray(rows.mean(axis=0)) if here else column_moments(engine, rows).mean


def mean_and_spread(
    engine: Engine[Any], rows: Rows, weights: Array | None
) -> tuple[Array, Array]:  # (d,), (d,)
    """The mean and the spread of each column, as of a whole population."""
    if isinstance(rows, DaskRows):
        seen = column_moments(engine, rows, weights)
        return seen.mean, seen.spread()
    mean = np.average(rows, axis=0, weights=weights)
    return mean, np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weights))


# ── a row that repeats the one before ───────────────────────────────────────
def moves(engine: Engine[Any], rows: Rows) -> Flags:  # (n,)
    """Which rows differ from the one before; the first does."""
    if isinstance(rows, DaskRows):
        later = engine.fold(rows, _Moves.of, height=BLOCK_ROWS).later
    else:
        later = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[True], later])


@dataclass(frozen=True, repr=False)
class _Moves:
    """Which of some neighbouring rows differ from the one before, without the first of them."""

    later: Flags  # (b - 1,)
    first: Array  # (d,)
    last: Array  # (d,)

    @classmethod
    def of(cls, rows: Array, place: slice) -> _Moves:
        del place
        return cls(np.any(rows[1:] != rows[:-1], axis=1), rows[0], rows[-1])

    def merged(self, other: _Moves) -> _Moves:
        between = [bool(np.any(other.first != self.last))]
        return _Moves(np.concatenate([self.later, between, other.later]), self.first, other.last)


# ── directions ──────────────────────────────────────────────────────────────
def principal_axes(engine: Engine[Any], rows: Rows, centre: Array) -> Array:  # (n, d) -> (r, d)
    """Principal axes of rows about their centre: along them relations between columns stay what they are."""
    if isinstance(rows, DaskRows):
        left = engine.fold(rows, partial(_Triangle.of, centre), height=BLOCK_ROWS).r
    else:
        left = rows - centre
    _, s, axes = np.linalg.svd(left, full_matrices=False)
    if len(s) == 0 or s[0] == 0.0:
        return np.empty((0, rows.shape[1]))
    return np.asarray(axes[s > 1e-8 * s[0]])


@dataclass(frozen=True, repr=False)
class _Triangle:
    """R of rows = QR: it has their singular values and axes, to the digits that RᵀR would square away."""

    r: Array  # (min(b, d), d)

    @classmethod
    def of(cls, centre: Array, rows: Array, place: slice) -> _Triangle:
        del place
        return cls(np.asarray(np.linalg.qr(rows - centre, mode="r")))

    def merged(self, other: _Triangle) -> _Triangle:
        return _Triangle(np.asarray(np.linalg.qr(np.concatenate([self.r, other.r]), mode="r")))
