"""What columns k(X, Z) W of a factor explain of rows, on the device: a number a row and column comes back.

Sections, products and squares are in the precision of the rows, their sums in float64 where the device has
it. Of a triangle W only what is not zero is multiplied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.steps import Explained
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.passes import here, sent

if TYPE_CHECKING:
    from torch import Tensor

    from mercer._core.observer import Observer
    from mercer._core.types import Rows
    from mercer.engine.steps import ExplainSections
    from mercer.engine.torch.rows import TorchRows

# Columns of W that are multiplied together: few waste little below the diagonal, more are multiplied faster.
PANEL = 256


def explained(
    step: ExplainSections, x: Rows, points: TorchRows, height: int, observer: Observer
) -> Explained | None:
    """The step over all rows; None where values are out of range."""
    points.settle()
    place, z = points.place, points.side(slice(0, points.n))
    fresh = place.tensor(step.fresh, points.dtype)  # (m, a)
    # They stay there until the end: the next block is read while this one is computed.
    rows_of = place.zeros((int(x.shape[0]),), place.sums)
    energies = place.zeros((step.fresh.shape[1],), place.sums)
    for at, side in sent(points, x, height, observer):
        sections = values(points.program, side, z)  # (b, m)
        weights = None if step.weights is None else place.tensor(step.weights[at], points.dtype)
        _add_squares(sections, fresh, weights, rows_of[at], energies)
    found = Explained((here(rows_of),), here(energies))
    return found if np.isfinite(found.rows[0]).all() else None


def _add_squares(
    sections: Tensor, fresh: Tensor, weights: Tensor | None, rows: Tensor, columns: Tensor
) -> None:  # (b, m), (m, a), (b,), (b,), (a,)
    """Σf² of each row, and Σw f² of each column, are added to what is there."""
    m, a = fresh.shape
    for j in row_slices(a, PANEL):
        above = m - a + j.stop  # rows of these columns that are not zero
        squares = (sections[:, :above] @ fresh[:above, j]).square_()  # (b, p)
        rows += squares.sum(dim=1, dtype=rows.dtype)
        if weights is not None:
            squares.mul_(weights[:, None])
        columns[j] += squares.sum(dim=0, dtype=columns.dtype)
