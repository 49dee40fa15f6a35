"""Which steps of passes a device runs: squares and features of sections, what they explain, slopes.

A step of another kind, and one on rows or values that the device can't take, is the host's: None says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from mercer._core.observer import Observer
from mercer._core.types import Array, Rows
from mercer.data.rows import row_blocks
from mercer.engine.base import FLOAT32, FLOAT64, TileKernel
from mercer.engine.steps import (
    FLOAT32_PHASE,
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
from mercer.engine.torch import slopes
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.place import LEAST, Place
from mercer.engine.torch.rows import TorchRows
from mercer.engine.torch.squares import DeviceMoments, Trace, explained, squared, together

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.engine import TorchEngine


T = TypeVar("T")
Made = tuple["Tensor", "Tensor | None"]


# ── features, whose rows go there: sums come back, or a few numbers of each row


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
        """Rows of a block."""
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
        long = self._too_long(shifted)
        if len(long):
            self._again(shifted, long, out)
        return out.mul_(self._radius), None

    def _too_long(self, shifted: Tensor) -> Any:
        """Which frequencies have phases that float32 loses."""
        if self.dtype != FLOAT32:
            return ()
        reach = float(shifted.square().sum(dim=1).max().sqrt())
        return np.flatnonzero(self._lengths * reach > FLOAT32_PHASE)

    def _again(self, shifted: Tensor, long: Any, out: Tensor) -> None:
        if not self.place.has_double:  # no number: the host knows how
            out.fill_(float("nan"))
            return
        fine = shifted @ self._omega[long].T
        m = out.shape[1] // 2
        out[:, long], out[:, m + long] = (each.to(out.dtype) for each in (fine.cos(), fine.sin()))


_SENT: WeakKeyDictionary[Waves, dict[Any, DeviceWaves]] = WeakKeyDictionary()


def waves_of(waves: Waves, place: Place, dtype: np.dtype[Any]) -> DeviceWaves:
    """Waves on a device, where they stay from product to product."""
    there = _SENT.setdefault(waves, {})
    key = place, dtype
    if key not in there:
        there[key] = DeviceWaves(waves, place, dtype)
    return there[key]


def squared_features(
    step: SquareFeatures, x: Rows, features: DeviceFeatures, height: int, observer: Observer
) -> Squared | None:
    """The sums of all rows, merged in their order; None where values are out of range."""
    place = features.place
    sums, trace, beside = DeviceMoments(place, features.width), Trace(place), 0.0
    for at, rows in row_blocks(x, height):
        weights, (made, lengths) = step.weights_at(at), features(rows)
        sums.add(made, weights)
        if lengths is None:
            beside += step.trace(rows, at)
        else:
            trace.add(lengths, weights)
        observer.step(at.stop, int(x.shape[0]), "rows", None)
    total = trace.sum()
    return together(sums.moments(), None if total is None else total + beside)


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
        return _in_blocks(
            engine, features.height, lambda b: squared_features(step, x, features, b, observer)
        )
    if not isinstance(step, SquareSections | ExplainSections):
        return None
    run: Callable[..., Any] = squared if isinstance(step, SquareSections) else explained
    dtype = step.dtype if isinstance(step, SquareSections) else x.dtype
    points = _points(engine, step.kernel, step.points, x, dtype)
    if points is None:
        return None
    rows = engine.place.height(points.n + points.d, points.program.depth)
    return _in_blocks(engine, rows, lambda b: run(step, x, points, b, observer))


def mapped(
    engine: TorchEngine, x: Rows, step: Any, *beside: Array | None, dtype: np.dtype[Any]
) -> Array | None:
    """The results of a step for each row, or None."""
    if isinstance(step, FeatureProduct | FeatureErrors) and int(x.shape[0]):
        features = engine.tried(lambda: _features(engine, step.features, x, dtype))
        if features is None:
            return None
        return _in_blocks(engine, features.height, lambda b: multiplied(step, x, features, b))
    if isinstance(step, Pulls) and isinstance(x, np.ndarray) and dtype == FLOAT64:
        return _pulled(engine, x, step, *beside)
    return None


def _pulled(
    engine: TorchEngine, x: Array, step: Pulls, targets: Array | None = None
) -> Array | None:
    few = len(x) * len(step.coef) < slopes.FEW_PAIRS
    if few or targets is None or not engine.place.has_double:
        return None
    if engine.why_not_rows(step.kernel, x) is not None:
        return None
    there = engine.tried(lambda: slopes.pulls_of(step, engine))
    if there is None:  # of another kind, or too little memory
        return None
    return engine.tried(lambda: slopes.pulled(step, there, x, targets))


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
        return waves_of(features, engine.place, dtype)
    if not isinstance(features, Whitened):
        return None
    points = _points(engine, features.kernel, features.points, x, dtype)
    return None if points is None else DeviceWhitened(points, features.whiten)


def _in_blocks(engine: TorchEngine, rows: int, work: Callable[[int], T]) -> T | None:
    """The result of a pass in blocks of so many rows, or of fewer where there is less memory; or None."""
    while True:
        # In a tuple: that there is no result is one, too.
        found = engine.tried(lambda rows=rows: (work(rows),))  # type: ignore[misc]
        if found is not None:
            return found[0]
        if rows <= LEAST:
            return None
        rows = max(LEAST, rows // 2)
