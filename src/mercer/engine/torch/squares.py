"""Squares of sections k(x, Z) on the device, the work of a low-rank fit: m x m numbers a block come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_blocks
from mercer.engine.base import FLOAT64
from mercer.engine.moments import Moments
from mercer.engine.squares import Squared
from mercer.engine.torch.evaluate import values

if TYPE_CHECKING:
    from torch import Tensor

    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.engine.squares import SquareSections
    from mercer.engine.torch.rows import Side, TorchRows

ROWS = 2**16  # of a block: each ends in sums of m x m numbers, which are sent to the host


def squared(
    step: SquareSections, x: Rows, points: TorchRows, height: int, observer: Observer
) -> Squared | None:
    """The sums of all rows, merged in their order; None where values are out of range."""
    points.settle()
    z, found, n = points.side(slice(0, points.n)), None, int(x.shape[0])
    for place, rows in row_blocks(x, min(height, ROWS)):
        weights = None if step.weights is None else step.weights[place]
        moments = _moments(step, points, points.side_of(rows), z, weights)
        if moments is None:
            return None
        part = Squared(moments, step.trace(rows, place))
        found = part if found is None else found.merged(part)
        observer.step(place.stop, n, "rows", None)
    return found


def _moments(
    step: SquareSections, points: TorchRows, x: Side, z: Side, weights: Array | None
) -> Moments | None:
    """As `Moments.of` has it: about the first row, less the mean of what is left, in one product."""
    weight = float(x.n if weights is None else weights.sum(dtype=np.float64))
    if weight == 0.0:
        return Moments.empty(z.n)
    place, wide = points.place, points.place.sums
    sections = values(points.program, x, z)  # (b, m)
    if step.squared_in == FLOAT64 and place.has_double:
        sections = sections.double()
    first = sections[0].clone()
    sections.sub_(first)
    if weights is None:
        shift = sections.mean(dim=0, dtype=place.zeros((), wide).dtype)
        sections.sub_(shift)
    else:
        w = place.tensor(weights, wide)
        shift = w @ sections.to(w.dtype) / weight
        sections.sub_(shift).mul_(w.sqrt().to(sections.dtype)[:, None])
    scatter = _host(sections.T @ sections)
    if not np.isfinite(np.diagonal(scatter)).all():
        return None
    return Moments(weight, _host(first) + _host(shift), scatter)


def _host(tensor: Tensor) -> Array:
    return tensor.cpu().numpy().astype(np.float64, copy=False)
