"""Rows with missing cells, judged as far as they can be: the index that they have at least."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.monitoring.statistics import GROUP

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.monitoring.contributions import Baselines

# Of a row that lacks more than this share of its cells nothing is said.
MOST_MISSING = 0.25
SWEEPS = 2  # over several missing cells: what fits one depends on the others
# Values that a cell is tried with, in spreads around normal: as many as are judged at once. Then again around
# the best, so narrow that the next ones of the first time are just within.
TRIED = np.linspace(-4.0, 4.0, GROUP)
TIMES, NARROWER = 3, 7.0


def least_index(
    index: Callable[[Array], Array], baselines: Baselines, row: Array, limit: float
) -> float:  # (d,), scaled, NaN where cells are missing
    """The index of a row whose missing cells hold the best values within four spreads of normal.

    If that is above the limit, so is the row, whatever normal values its sensors would have shown: an alarm
    can be told from the cells that are there. If not, nothing is known: NaN, as soon as one value of a cell
    makes the row normal, which for most rows is among the first that are tried.
    """
    absent = np.flatnonzero(np.isnan(row))
    if len(absent) > MOST_MISSING * len(row):
        return float("nan")
    unit = np.ones(len(row)) if baselines.unit is None else baselines.unit
    middle = baselines.middle
    filled = np.where(np.isnan(row), middle, row)
    least = np.inf
    for _ in range(1 if len(absent) == 1 else SWEEPS):
        for j in absent:
            centre, width = middle[j], unit[j]
            for _ in range(TIMES):
                tried = np.repeat(filled[None], len(TRIED), axis=0)
                tried[:, j] = centre + width * TRIED
                found = index(tried)
                best = int(np.argmin(found))
                centre, width = tried[best, j], width / NARROWER
                if found[best] < least:
                    filled, least = tried[best], float(found[best])
                if least <= limit:
                    return float("nan")
    return least
