"""The unit of weights: eigenvalues are proportional to it, and nothing else of a fit depends on it.

Weighted squares are summed in the precision of the rows, which has room for weights near one. Others are
divided by a power of four, whose root is exact: not a digit of what follows changes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mercer._core.errors import refuse
from mercer._core.quick import changed
from mercer._core.types import Array
from mercer.model.result import Fit

# Weights are left as they are where the largest is at most this, and at least one part in as many.
ORDINARY = 2.0**30


def unit_of(weights: Array) -> float:
    """A power of four near the largest weight; 1 where that is of ordinary size."""
    largest = float(weights.max())
    if 1.0 / ORDINARY <= largest <= ORDINARY:
        return 1.0
    unit = math.ldexp(1.0, 2 * ((math.frexp(largest)[1] - 1) // 2))
    # Beside weights as far apart as numbers can be, the smallest would vanish.
    least = float(weights.min(initial=largest, where=weights > 0.0))
    return unit if least / unit >= np.finfo(np.float64).tiny else 1.0


def in_unit(fit: Fit, unit: float) -> Fit:
    """The fit to weights that are `unit` times as large."""
    by, pairs, low, known = np.float64(unit), fit.pairs, fit.low_end, fit.certificate
    names = ("values", "products", "spectrum", "unseen", "rounding")
    own = {name: getattr(pairs, name) for name in names}
    own = {name: None if value is None else value * by for name, value in own.items()}
    if low is not None:
        low = replace(low, lowest=low.lowest * unit, negative=low.negative * unit)
    if known is not None:
        sums = {name: getattr(known, name) * unit for name in ("trace", "left_out", "rounding")}
        known = replace(known, **sums)
    return changed(
        fit,
        pairs=changed(pairs, **own),
        total=fit.total * unit,
        cut=fit.cut * unit,
        weight=fit.weight * unit,
        roots=None if fit.roots is None else fit.roots * math.sqrt(unit),
        low_end=low,
        certificate=known,
        ceiling=None if fit.ceiling is None else fit.ceiling * by,
    )


def require_room(fit: Fit, unit: float) -> None:
    """Raise where weighted sums, and what evidence multiplies them by, would be no numbers."""
    trace = fit.total if fit.certificate is None else max(fit.total, fit.certificate.trace)
    with np.errstate(over="ignore"):
        most = np.float64(unit) * max(fit.weight, trace) * 2.0 * max(fit.rank_bound, 1)
    if not np.isfinite(most):
        wanted = "small enough for weighted sums of squares to be finite"
        remedy = "Divide them by the largest."
        refuse("sample_weight", unit, wanted, f"weights of about {unit:.1g}", remedy)
