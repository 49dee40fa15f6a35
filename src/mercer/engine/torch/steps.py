"""Which steps of passes a device runs: squares and features of sections, what they explain, slopes.

A step of another kind, and one on rows or values that the device can't take, is the host's: None says so.

Squares come back once, as m x m numbers. Each block of rows is centred about its own mean, and its moments
are merged there with those of the blocks before by the rule of Chan, Golub & LeVeque (1979), in float64, as
`engine.moments` has it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from mercer._core.observer import Observer
from mercer._core.types import Array, Rows
from mercer.data.rows import row_blocks, row_slices
from mercer.engine.base import FLOAT32, FLOAT64, TileKernel
from mercer.engine.moments import Moments
from mercer.engine.steps import (
    FLOAT32_PHASE,
    Explained,
    ExplainSections,
    FeatureErrors,
    FeatureProduct,
    Pulls,
    Squared,
    SquareFeatures,
    SquareSections,
    Waves,
    Whitened,
)
from mercer.engine.torch import evaluate
from mercer.engine.torch.evaluate import pulled, pulls_of, values
from mercer.engine.torch.place import LEAST, Place
from mercer.engine.torch.rows import TorchRows

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.engine import TorchEngine

T = TypeVar("T")
Made = tuple["Tensor", "Tensor | None"]


# ── squares of sections ─────────────────────────────────────────────────────
def squared(
    step: SquareSections, x: Rows, points: TorchRows, height: int, observer: Observer
) -> Squared | None:
    """The sums of all rows, merged in their order; None where values are out of range."""
    points.settle()
    place, program, wide = points.place, points.program, step.squared_in == FLOAT64
    z, sums = points.side(slice(0, points.n)), DeviceSquares(place, points.n)
    for at, _, side in points.sent_blocks(x, height, observer=observer):
        sections, weights = values(program, side, z), step.weights_at(at)  # (b, m), (b,)
        sums.add(sections.double() if wide and place.has_double else sections, weights)
        sums.add_lengths(values(program, side), weights)
    return sums.squared()


def here(tensor: Tensor) -> Array:
    """A tensor on the host, in float64."""
    return tensor.cpu().numpy().astype(np.float64, copy=False)


class DeviceSquares:
    """W = Σw, μ = Σwf/W, S = Σw(f - μ)(f - μ)ᵀ and Σw k(x, x) of the rows seen so far, in float64.

    On the device, so that no block is waited for; on the host by torch where the device has no float64.
    """

    def __init__(self, place: Place, width: int) -> None:
        import torch

        self.place, self.weight = place, 0.0
        self._trace, self._least = (place.zeros((), place.sums) for _ in range(2))
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

    def add_lengths(self, lengths: Tensor, weights: Array | None) -> None:  # (b,), (b,)
        lengths = lengths.to(self._trace.dtype)
        self._least = self._least.minimum(lengths.min())  # NaN if one is
        if weights is not None:
            lengths = lengths * self.place.tensor(weights, self.place.sums)
        self._trace += lengths.sum()

    def squared(self, beside: float = 0.0) -> Squared | None:
        """All of it on the host, with lengths that were summed `beside`; None where values are out of range.

        Where a length is negative, too: the host says in words which one is.
        """
        # A product of general matrices may round the two sides of the diagonal differently.
        scatter = here(0.5 * (self._scatter + self._scatter.T))
        trace, least = float(self._trace), float(self._least)
        if not np.isfinite([*np.diagonal(scatter), trace]).all() or least != 0.0:
            return None
        return Squared(Moments(self.weight, here(self._mean), scatter), trace + beside)


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


# ── features, whose rows go there: sums come back, or a few numbers of each row ──
class DeviceFeatures(ABC):
    """Makes features of rows, in one precision."""

    place: Place
    dtype: np.dtype[Any]
    width: int  # of the features
    numbers: int  # of a row that are on the device at a time, about
    depth: int = 1  # arrays of features beside each other

    @abstractmethod
    def __call__(self, rows: Rows) -> Made:  # (b, d) -> (b, r), (b,)
        """Features as a new tensor, and k(x, x) where the device has it."""

    @property
    def height(self) -> int:
        return self.place.height(self.numbers, self.depth)


class DeviceWhitened(DeviceFeatures):
    """k(x, Z) W."""

    def __init__(self, points: TorchRows, whiten: Array) -> None:
        self.place, self.dtype, self.points = points.place, points.dtype, points
        points.settle()
        self._whiten = self.place.tensor(whiten, self.dtype)  # (m, r)
        self.width, self.depth = int(whiten.shape[1]), points.program.depth
        self.numbers = points.n + points.d + self.width

    def __call__(self, rows: Rows) -> Made:
        program, side = self.points.program, self.points.side_of(rows)
        sections = values(program, side, self.points.side(slice(0, self.points.n)))
        return sections @ self._whiten, values(program, side)


class DeviceWaves(DeviceFeatures):
    """Cosines and sines of phases, which are in float64 where float32 would lose them."""

    def __init__(self, waves: Waves, place: Place, dtype: np.dtype[Any]) -> None:
        self.place, self.dtype = place, dtype
        # Nothing here may hold the waves themselves: these features are held as long as they are.
        self._radius, self._lengths, self.width = waves.radius, waves.lengths, waves.width
        self.numbers = 2 * self.width + 3 * int(waves.frequencies.shape[1])
        self._centre = place.tensor(waves.centre, place.sums)
        self._omega = place.tensor(waves.frequencies, place.sums)  # (M, d)
        self._rounded = self._omega.to(place.zeros((), dtype).dtype)

    def __call__(self, rows: Rows) -> Made:
        dense = rows.toarray() if sparse.issparse(rows) else rows
        block = self.place.tensor(dense, None if self.place.has_double else self.dtype)
        # Shifted in the better precision: rows near the centre keep the digits of their phases.
        shifted = block - self._centre  # (b, d)
        phases = shifted.to(self._rounded.dtype) @ self._rounded.T  # (b, M)
        m = phases.shape[1]
        out = phases.new_empty(len(phases), 2 * m)
        out[:, :m], out[:, m:] = phases.cos(), phases.sin()
        if self.dtype == FLOAT32:
            self._refine(shifted, out)
        return out.mul_(self._radius), None

    def _refine(self, shifted: Tensor, out: Tensor) -> None:
        """Features of phases that float32 loses are made again in float64."""
        reach = float(shifted.square().sum(dim=1).max().sqrt())
        long = np.flatnonzero(self._lengths * reach > FLOAT32_PHASE)
        if not len(long):
            return
        if not self.place.has_double:  # no number: the host knows how
            out.fill_(float("nan"))
            return
        fine = shifted @ self._omega[long].T
        m = out.shape[1] // 2
        out[:, long], out[:, m + long] = (each.to(out.dtype) for each in (fine.cos(), fine.sin()))


# They stay on a device from product to product.
_SENT: WeakKeyDictionary[Waves, dict[Any, DeviceWaves]] = WeakKeyDictionary()


def squared_features(
    step: SquareFeatures, x: Rows, features: DeviceFeatures, height: int, observer: Observer
) -> Squared | None:
    """The sums of all rows, merged in their order; None where values are out of range."""
    place = features.place
    sums, beside = DeviceSquares(place, features.width), 0.0
    for at, rows in row_blocks(x, height):
        weights, (made, lengths) = step.weights_at(at), features(rows)
        sums.add(made, weights)
        if lengths is None:
            beside += step.trace(rows, at)
        else:
            sums.add_lengths(lengths, weights)
        observer.step(at.stop, int(x.shape[0]), "rows", None)
    return sums.squared(beside)


def multiplied(
    step: FeatureProduct | FeatureErrors, x: Rows, features: DeviceFeatures, height: int
) -> Array | None:  # (n, d) -> (n, k) or (n, k + 1)
    """A few numbers of each row; None where values are out of range."""
    place, errors = features.place, isinstance(step, FeatureErrors)
    dtype = np.result_type(features.dtype, step.coef.dtype)
    coef = place.tensor(step.coef, dtype)
    mean = place.tensor(step.mean, dtype) if isinstance(step, FeatureErrors) else None
    out = np.empty((int(x.shape[0]), step.coef.shape[1] + errors), dtype=dtype)
    for at, rows in row_blocks(x, height):
        made = features(rows)[0].to(coef.dtype)  # (b, m)
        made = made if mean is None else made.sub_(mean)
        scores = made @ coef  # (b, k)
        out[at, : coef.shape[1]] = scores.cpu().numpy()
        if errors:
            left = made.sub_(scores @ coef.T)
            out[at, -1] = left.square_().sum(dim=1).cpu().numpy()
    return out if np.isfinite(out).all() else None


# ── which steps, by their kind ──────────────────────────────────────────────
def folded(engine: TorchEngine, x: Rows, step: Any, observer: Observer) -> Any:
    """The sum of a step over all rows, or None."""
    if isinstance(step, SquareFeatures):
        features = engine.tried(lambda: _features(engine, step.features, x, step.dtype))
        if features is None:
            return None
        work = partial(squared_features, step, x, features, observer=observer)
        return _in_blocks(engine, features.height, work)
    if not isinstance(step, SquareSections | ExplainSections):
        return None
    run: Callable[..., Any] = squared if isinstance(step, SquareSections) else explained
    dtype = step.dtype if isinstance(step, SquareSections) else x.dtype
    points = _points(engine, step.kernel, step.points, x, dtype)
    if points is None:
        return None
    rows = engine.place.height(points.n + points.d, points.program.depth)
    return _in_blocks(engine, rows, partial(run, step, x, points, observer=observer))


def mapped(
    engine: TorchEngine, x: Rows, step: Any, *beside: Array | None, dtype: np.dtype[Any]
) -> Array | None:
    """The results of a step for each row, or None."""
    if isinstance(step, FeatureProduct | FeatureErrors) and int(x.shape[0]):
        features = engine.tried(lambda: _features(engine, step.features, x, dtype))
        if features is None:
            return None
        return _in_blocks(engine, features.height, partial(multiplied, step, x, features))
    if isinstance(step, Pulls) and isinstance(x, np.ndarray) and dtype == FLOAT64:
        return _pulled(engine, x, step, *beside)
    return None


def _pulled(
    engine: TorchEngine, x: Array, step: Pulls, targets: Array | None = None
) -> Array | None:
    few = len(x) * len(step.coef) < evaluate.FEW_PAIRS
    if few or targets is None or not engine.place.has_double:
        return None
    if engine.why_not_rows(step.kernel, x) is not None:
        return None
    there = engine.tried(lambda: pulls_of(step, engine))
    if there is None:  # of another kind, or too little memory
        return None
    return engine.tried(lambda: pulled(step, there, x, targets))


def _points(
    engine: TorchEngine, kernel: TileKernel, points: Rows, x: Rows, dtype: np.dtype[Any]
) -> TorchRows | None:
    """Points that rows are to meet; None where the host computes on either."""
    found = engine.load(points.astype(dtype, copy=False), kernel, dtype)
    return None if found.on_host or engine.why_not_rows(kernel, x) is not None else found


def _features(
    engine: TorchEngine, features: Any, x: Rows, dtype: np.dtype[Any]
) -> DeviceFeatures | None:
    """What makes features of a kind that is known here; None of others."""
    if dtype == FLOAT64 and not engine.place.has_double:
        return None
    if isinstance(features, Waves):
        there, key = _SENT.setdefault(features, {}), (engine.place, dtype)
        if key not in there:
            there[key] = DeviceWaves(features, *key)
        return there[key]
    if not isinstance(features, Whitened):
        return None
    points = _points(engine, features.kernel, features.points, x, dtype)
    return None if points is None else DeviceWhitened(points, features.whiten)


def _in_blocks(engine: TorchEngine, rows: int, work: Callable[[int], T]) -> T | None:
    """The result of a pass in blocks of so many rows, or of fewer where there is less memory; or None."""
    while True:
        # In a tuple, since None is a result too.
        found = engine.tried(lambda rows=rows: (work(rows),))  # type: ignore[misc]
        if found is not None:
            return found[0]
        if rows <= LEAST:
            return None
        rows = max(LEAST, rows // 2)
