"""Block rejection sampling of pivots: RPCholesky's law, without a pass over the rows for each pivot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices


def accept_pivots(
    residual: Array,  # (p, p)
    rows: Indices,  # (p,)
    proposed: Array,  # (p,)
    floor: Array,  # (p,)
    *,
    most: int,
    rng: np.random.Generator,
) -> tuple[Indices, Array]:
    """Accepted candidates, in order, and the Cholesky factor of the residual matrix among them.

    Candidates were drawn, with replacement, in proportion to the residual diagonal when they were
    `proposed`. Each pivot that is accepted takes its share off what is left of the others; a candidate
    is accepted with probability left/proposed. The next pivot is then distributed as what is left,
    which is the law of RPCholesky (Epperly, Tropp & Webber 2024, "Embrace rejection"). What is left
    below the floor is rounding, and never accepted.
    """
    p = len(residual)
    dice = rng.random(p)
    left = np.diagonal(residual).copy()
    columns = np.zeros((p, min(p, most)))  # of the Cholesky factor, for all candidates
    accepted: list[int] = []
    taken: set[int] = set()
    for i in range(p):
        a = len(accepted)
        if a == most:
            break
        # A row is a landmark once: what rounding leaves of it is no second one.
        if int(rows[i]) in taken or left[i] <= floor[i] or dice[i] * proposed[i] >= left[i]:
            continue
        column = residual[i:, i] - columns[i:, :a] @ columns[i, :a]
        column /= np.sqrt(left[i])
        column[0] = np.sqrt(left[i])
        columns[i:, a] = column
        left[i:] -= column * column
        accepted.append(i)
        taken.add(int(rows[i]))
    chosen = np.array(accepted, dtype=np.intp)
    return chosen, columns[chosen, : len(accepted)]
