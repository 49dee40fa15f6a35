"""Rows to try a graph on when none are at hand: points of the model, and rows near them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer.approximations.random_features import FourierSections
from mercer.data.rows import take_rows
from mercer.onnx.export import Source, unwrapped

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.onnx.fitted import Fitted

ROWS = 500
JITTER = 0.1  # of the standard deviation of a column
MISSING = 0.05  # share of the numbers that are left out, where the model fills them


def sample_rows(model: Any, *, rng: np.random.Generator) -> Array:  # -> (n, d)
    """Rows as the graph of a model takes them.

    Points of the model and points moved a little. A model of explicit features has none: for PCA rows are
    drawn with its mean and its components, for others from a normal distribution about the centre that
    is known.
    """
    inner, preparation = unwrapped(model)
    source = Source.of(inner)
    rows = _prepared_rows(source.fitted, rng)
    if source.detector is not None:
        rows = rows * source.detector.spread_ + source.detector.center_
    if preparation is None:
        return rows
    rows = np.array(preparation.unscaled(rows), dtype=np.float64)
    if preparation.fills is not None:
        numbers = rows[:, : len(preparation.numbers)]  # they come first
        numbers[rng.random(numbers.shape) < MISSING] = np.nan
    return rows


def _prepared_rows(model: Fitted, rng: np.random.Generator) -> Array:
    sections, d = model.projection.sections, model.n_features
    noise = rng.standard_normal((ROWS, d))
    if model.points is not None:
        return _near(_some_points(model), noise)
    if isinstance(sections, FourierSections):
        lengths = np.linalg.norm(sections.frequencies, axis=1)
        return sections.centre + noise / max(float(np.median(lengths)), 1e-300)
    if model.mean is not None and len(model.mean) == d:  # PCA
        scores = rng.standard_normal((ROWS, len(model.spread))) * model.spread
        axes = model.projection.coef.astype(np.float64).T
        return model.mean + scores @ axes + JITTER * float(np.mean(model.spread)) * noise
    return noise


def _some_points(model: Fitted) -> Array:
    z = model.points
    assert z is not None  # the caller looked
    some = np.unique(np.linspace(0, int(z.shape[0]) - 1, ROWS // 2).astype(np.intp))
    few = take_rows(z, some)
    return np.asarray(few.toarray() if sparse.issparse(few) else few, dtype=np.float64)


def _near(z: Array, noise: Array) -> Array:
    """The points, then points that are moved; counts stay counts."""
    again = z[np.arange(len(noise) - len(z)) % len(z)]
    moved = again + JITTER * z.std(axis=0) * noise[: len(again)]
    return np.concatenate([z, np.abs(moved) if np.all(z >= 0) else moved])
