"""Which steps of passes a device runs: squares and features of sections, what they explain, slopes.

A step of another kind, and one on rows or values that the device can't take, is the host's: None says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mercer.engine.base import FLOAT64
from mercer.engine.features import FeatureErrors, FeatureProduct, SquareFeatures, Waves, Whitened
from mercer.engine.steps import ExplainSections, Pulls, SquareSections
from mercer.engine.torch import slopes
from mercer.engine.torch.explained import explained
from mercer.engine.torch.features import DeviceWhitened, multiplied, squared_features, waves_of
from mercer.engine.torch.passes import height
from mercer.engine.torch.place import LEAST
from mercer.engine.torch.squares import squared

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.engine.base import TileKernel
    from mercer.engine.torch.engine import TorchEngine
    from mercer.engine.torch.features import DeviceFeatures
    from mercer.engine.torch.rows import TorchRows

    Tried = Callable[
        [Callable[[], Any]], Any
    ]  # the result, or None where there is too little memory

T = TypeVar("T")


def folded(engine: TorchEngine, tried: Tried, x: Rows, step: Any, observer: Observer) -> Any:
    """The sum of a step over all rows, or None."""
    if isinstance(step, SquareFeatures):
        features = tried(lambda: _features(engine, step.features, x, step.dtype))
        if features is None:
            return None
        return _in_blocks(
            tried, features.height, lambda b: squared_features(step, x, features, b, observer)
        )
    if not isinstance(step, SquareSections | ExplainSections):
        return None
    run: Callable[..., Any] = squared if isinstance(step, SquareSections) else explained
    dtype = step.dtype if isinstance(step, SquareSections) else x.dtype
    points = _points(engine, step.kernel, step.points, x, dtype)
    if points is None:
        return None
    rows = height(engine.place, points.n + points.d, points.program.depth)
    return _in_blocks(tried, rows, lambda b: run(step, x, points, b, observer))


def mapped(
    engine: TorchEngine,
    tried: Tried,
    x: Rows,
    step: Any,
    *beside: Array | None,
    dtype: np.dtype[Any],
) -> Array | None:
    """The results of a step for each row, or None."""
    if isinstance(step, FeatureProduct | FeatureErrors) and int(x.shape[0]):
        features = tried(lambda: _features(engine, step.features, x, dtype))
        if features is None:
            return None
        return _in_blocks(tried, features.height, lambda b: multiplied(step, x, features, b))
    if isinstance(step, Pulls) and isinstance(x, np.ndarray) and dtype == FLOAT64:
        return _pulled(engine, tried, x, step, *beside)
    return None


def _pulled(
    engine: TorchEngine, tried: Tried, x: Array, step: Pulls, targets: Array | None = None
) -> Array | None:
    few = len(x) * len(step.coef) < slopes.FEW_PAIRS
    if few or targets is None or not engine.place.has_double:
        return None
    if engine.why_not_rows(step.kernel, x) is not None:
        return None
    there = tried(
        lambda: slopes.pulls_of(
            step, engine.place, lambda: engine.load(step.points, step.kernel, FLOAT64)
        )
    )
    if there is None:  # of another kind, or too little memory
        return None
    found: Array | None = tried(lambda: slopes.pulled(step, there, x, targets))
    return found


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


def _in_blocks(tried: Tried, rows: int, work: Callable[[int], T]) -> T | None:
    """The result of a pass in blocks of so many rows, or of fewer where there is less memory; or None."""
    while True:
        # In a tuple: that there is no result is one, too.
        found: tuple[T] | None = tried(lambda rows=rows: (work(rows),))  # type: ignore[misc]
        if found is not None:
            return found[0]
        if rows <= LEAST:
            return None
        rows = max(LEAST, rows // 2)
