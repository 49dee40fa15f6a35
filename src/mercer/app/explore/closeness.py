"""What a width makes of these rows: all alike, each by itself, or only near ones alike.

Two numbers say it. The values of a kernel, scaled so that a row has 1 with itself, add up to how many
neighbours a row has. The alignment of the centred kernel matrix with that of the linear kernel,
⟨K, L⟩ / ‖K‖‖L‖ (Cristianini et al. 2002), is 1 where the components are those of PCA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.views.wording import count, number

if TYPE_CHECKING:
    from mercer._core.types import Array

ALONE = 5.0  # neighbours: fewer make a component of single rows
# Alignment with PCA: above the first nothing is bent, above the others little, and some.
SAME, STRAIGHT, BENDING = 0.999, 0.98, 0.7


def closeness(kernel: Any, some: Array, others: Array, n: int, knob: str) -> dict[str, Any]:
    """Sentences about a kernel of distances on some rows, and whether its width should be changed.

    Parameters
    ----------
    kernel : Kernel
        Resolved. One that is not a function of distances has no width, and nothing is said of it.
    some, others : ndarray of shape (m, d) and (q, d)
        Rows, and those among which they look for neighbours.
    n : int
        How many rows there are, of which the `others` may be a part.
    knob : str
        The parameter that is the width.

    Returns
    -------
    dict
        ``words`` (a list), ``level`` (``"warning"`` or ``"note"``), ``neighbours`` and ``alignment``.
    """
    if not kernel.shift_invariant or not hasattr(kernel, knob):
        return {}
    own = float(kernel(some[:1])[0, 0])
    near = np.asarray(kernel(some, others), dtype=np.float64) / own  # (m, q)
    # Of the q rows one is the row itself, and stands for no other.
    neighbours = float(np.median(near.sum(axis=1)) - 1.0) * (n - 1) / max(1, len(others) - 1)
    alignment = _alignment(np.asarray(kernel(some), dtype=np.float64), some @ some.T)
    wider, narrower = ("larger", "smaller") if knob != "gamma" else ("smaller", "larger")
    agrees = f"the kernel matrix agrees with that of PCA to {100 * alignment:.0f} %"
    narrowed = f"A {narrower} {knob} tells near rows from far ones."
    if neighbours < ALONE and alignment < STRAIGHT:
        said = "That is too narrow: nearly every row stands by itself, and a component picks out a few rows. "
        said += f"A {wider} {knob} joins neighbours."
    elif alignment >= SAME:
        said = f"That is too wide to bend anything: {agrees}, and the components are those of PCA. {narrowed}"
    elif alignment >= STRAIGHT:
        said = (
            f"That is wide: {agrees}, so the first components are nearly those of PCA. {narrowed}"
        )
    elif alignment >= BENDING:
        said = f"The first components are still much like those of PCA: {agrees}. {narrowed}"
    else:
        said = f"Only near rows are alike, so components bend with the rows: {agrees} only."
    many = count(round(neighbours)) if neighbours >= 10 else number(max(neighbours, 0.0), 2)
    begun = f"A row has {many} neighbours among {count(n - 1)} others: an equal row counts 1, a far one 0."
    return {
        "words": [begun, said],
        "level": "warning" if said.startswith("That is too") else "note",
        "neighbours": neighbours,
        "alignment": alignment,
    }


def _alignment(a: Array, b: Array) -> float:
    """Between two kernel matrices of the same rows, after centring."""
    a, b = (m - m.mean(axis=0) - m.mean(axis=1)[:, None] + m.mean() for m in (a, b))
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.sum(a * b)) / lengths if lengths > 0 else 0.0
