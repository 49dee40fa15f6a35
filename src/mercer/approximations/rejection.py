"""Block rejection sampling of pivots: RPCholesky's law, without a pass over the rows for each pivot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices


def accept_pivots(
    residual: Array,  # (p, p)
    candidates: Indices,  # (c,)
    proposed: Array,  # (p,)
    floor: Array,  # (p,)
    *,
    most: int,
    rng: np.random.Generator,
) -> tuple[Indices, Array]:
    """Accepted rows of the residual matrix, in order, and the Cholesky factor of it among them.

    Candidates are rows of the matrix that were drawn, with replacement, in proportion to the residual
    diagonal when they were `proposed`. Each pivot that is accepted takes its share off what is left of
    the others; a candidate is accepted with probability left/proposed. The next pivot is then
    distributed as what is left, which is the law of RPCholesky (Epperly, Tropp & Webber 2024, "Embrace
    rejection"). What is left below the floor is rounding, and never accepted.
    """
    dice = rng.random(len(candidates))
    left = np.diagonal(residual).copy()
    columns = np.empty((len(residual), min(len(residual), most)))  # of the Cholesky factor
    accepted: list[int] = []
    for i, die in zip(candidates.tolist(), dice.tolist(), strict=True):
        a = len(accepted)
        if a == columns.shape[1]:
            break
        if left[i] <= floor[i] or die * proposed[i] >= left[i]:
            continue
        column = residual[:, i] - columns[:, :a] @ columns[i, :a]
        column /= np.sqrt(left[i])
        column[i] = np.sqrt(left[i])
        columns[:, a] = column
        left -= column * column
        left[i] = 0.0  # a row is a landmark once: what rounding leaves of it is no second one
        accepted.append(i)
    chosen = np.array(accepted, dtype=np.intp)
    # Above the diagonal stands what later pivots found left of earlier ones: rounding.
    return chosen, np.tril(columns[chosen, : len(accepted)])
