"""Rows that no fit has seen and many a graph will meet: far away, or all but zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.approximations.random_features import FourierSections
from mercer.onnx.maps import MOST_PHASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.onnx.fitted import Fitted

# How many times as far from the centre as the rows at hand: a wrong unit, a stuck sensor, a filler.
SPREADS = (1e3, 1e7, 1e20)
SIZES = (1e-10, 1e-30)  # of tiny rows, beside the rows at hand
ROWS = 20  # of each


@dataclass(frozen=True)
class FarRows:
    """Rows of one kind."""

    factor: float
    rows: Array


def far_rows(x: Array, fitted: Fitted, asked: Callable[[Array], Array]) -> list[FarRows]:
    """Rows spread out, and shrunk: those that the precision of x can hold, of rows without gaps.

    `asked` prepares rows for the model. Where no entry is negative, none becomes so. Random features of rows
    so far away that their phases have lost their digits are left out: there is nothing to agree on.
    """
    whole = x[np.all(np.isfinite(x), axis=1)]
    if len(whole) == 0:
        return []
    some = whole[np.unique(np.linspace(0, len(whole) - 1, ROWS).astype(np.intp))].astype(np.float64)
    centre = np.zeros(some.shape[1]) if np.all(some >= 0) else np.median(some, axis=0)
    groups = [FarRows(s, centre + s * (some - centre)) for s in SPREADS]
    groups += [FarRows(s, s * some) for s in SIZES]
    most = float(np.finfo(x.dtype).max)
    kept = [
        g for g in groups if np.max(np.abs(g.rows)) < most and _has_phases(asked(g.rows), fitted)
    ]
    return [FarRows(g.factor, g.rows.astype(x.dtype)) for g in kept]


def _has_phases(rows: Array, fitted: Fitted) -> bool:
    sections: Any = fitted.projection.sections
    if not isinstance(sections, FourierSections):
        return True
    # Right to 1e-4 of a turn, as scores of float32 are.
    limit = min(MOST_PHASE, 1e-6 / float(np.finfo(np.float64).eps))
    return bool(np.max(np.abs((rows - sections.centre) @ sections.frequencies.T)) < limit)


def reach(groups: list[FarRows]) -> str:
    """What was looked at, in words."""
    factors = [group.factor for group in groups]
    return f"spread out and shrunk by {min(factors):.0e} to {max(factors):.0e}" if factors else ""
