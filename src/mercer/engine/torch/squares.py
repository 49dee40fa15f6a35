"""Low-rank fits on the device: squares of sections, and what columns of a factor explain of rows.

Of squares m x m numbers come back, once. Each block of rows is centred about its own mean, and its moments
are merged there with those of the blocks before by the rule of Chan, Golub & LeVeque (1979), in float64, as
`engine.moments` has it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.observer import Observer
from mercer._core.types import Array, Rows
from mercer.data.rows import row_slices
from mercer.engine.base import FLOAT64
from mercer.engine.moments import Moments
from mercer.engine.steps import Explained, ExplainSections, Squared, SquareSections
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.place import Place
from mercer.engine.torch.rows import TorchRows

if TYPE_CHECKING:
    from torch import Tensor


def squared(
    step: SquareSections, x: Rows, points: TorchRows, height: int, observer: Observer
) -> Squared | None:
    """The sums of all rows, merged in their order; None where values are out of range."""
    points.settle()
    place, program, wide = points.place, points.program, step.squared_in == FLOAT64
    z, sums, trace = points.side(slice(0, points.n)), DeviceMoments(place, points.n), Trace(place)
    for at, _, side in points.sent_blocks(x, height, observer=observer):
        sections, weights = values(program, side, z), step.weights_at(at)  # (b, m), (b,)
        sums.add(sections.double() if wide and place.has_double else sections, weights)
        trace.add(values(program, side), weights)
    return together(sums.moments(), trace.sum())


def here(tensor: Tensor) -> Array:
    """On the host, in float64."""
    return tensor.cpu().numpy().astype(np.float64, copy=False)


def together(moments: Moments | None, trace: float | None) -> Squared | None:
    """Both, where values of neither are out of range."""
    return None if moments is None or trace is None else Squared(moments, trace)


class Trace:
    """Σw k(x, x), and whether each was a length: the host says in words which one was not."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._sum, self._least = (place.zeros((), place.sums) for _ in range(2))

    def add(self, lengths: Tensor, weights: Array | None) -> None:  # (b,), (b,)
        """Those of a block of rows."""
        lengths = lengths.to(self._sum.dtype)
        self._least = self._least.minimum(lengths.min())  # NaN if one is
        if weights is not None:
            lengths = lengths * self.place.tensor(weights, self.place.sums)
        self._sum += lengths.sum()

    def sum(self) -> float | None:
        """Of all rows; None where a number is none or is negative."""
        found, least = float(self._sum), float(self._least)
        return found if math.isfinite(found) and least == 0.0 else None


class DeviceMoments:
    """W = Σw, μ = Σwf/W and S = Σw(f - μ)(f - μ)ᵀ of the rows f seen so far, in float64.

    On the device, so that no block is waited for; on the host by torch where the device has no float64.
    """

    def __init__(self, place: Place, width: int) -> None:
        import torch

        self.place, self.weight = place, 0.0
        self._home = place.device if place.has_double else torch.device("cpu")
        self._mean = torch.zeros(width, dtype=torch.float64, device=self._home)
        self._scatter = torch.zeros((width, width), dtype=torch.float64, device=self._home)

    def add(self, block: Tensor, weights: Array | None) -> None:  # (b, m), (b,)
        """A block of rows, which is used up: centred as `Moments.of` does it, in one product."""
        weight = float(len(block) if weights is None else weights.sum(dtype=np.float64))
        if weight == 0.0:
            return
        wide = self.place.zeros((), self.place.sums).dtype
        first = block[0].clone()  # rows that are all alike have that very row for a mean
        block.sub_(first)
        if weights is None:
            shift = block.mean(dim=0, dtype=wide)
            block.sub_(shift)
        else:
            w = self.place.tensor(weights, self.place.sums)
            shift = w @ block.to(wide) / weight
            block.sub_(shift).mul_(w.sqrt().to(block.dtype)[:, None])
        mean = self._there(first) + self._there(shift)
        self._merge(weight, mean, self._there(block.T @ block))

    def _merge(self, weight: float, mean: Tensor, scatter: Tensor) -> None:
        both = self.weight + weight
        gap = mean - self._mean
        self._scatter += scatter
        if self.weight:
            root = math.sqrt(self.weight * (weight / both)) * gap
            self._scatter.addr_(root, root)
        self._mean += (weight / both) * gap
        self.weight = both

    def _there(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._home, self._mean.dtype)

    def moments(self) -> Moments | None:
        """All of it on the host; None where values are out of range."""
        # A product of general matrices may round the two sides of the diagonal differently.
        scatter = here(0.5 * (self._scatter + self._scatter.T))
        if not np.isfinite(np.diagonal(scatter)).all():
            return None
        return Moments(self.weight, here(self._mean), scatter)


# ── what columns k(X, Z) W of a factor explain of rows ──────────────────────
# Sections, products and squares are in the precision of the rows, their sums in float64 where the device has
# it; a number a row and column comes back.
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
    for at, _, side in points.sent_blocks(x, height, observer=observer):
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
