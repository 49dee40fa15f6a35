"""Explicit feature maps in a graph: φ(x), column by column as `FeatureMap` gives them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import KernelError
from mercer.kernels.feature_map import ColumnsMap, IdentityMap, PolynomialMap
from mercer.kernels.map_base import ComposedMap, ProductMap, ScaledMap, SumMap, UnitMap
from mercer.onnx.pairwise import extents, nan_where_lost, unit_rows

if TYPE_CHECKING:
    from mercer.approximations.random_features import FourierSections
    from mercer.kernels.map_base import FeatureMap
    from mercer.onnx.graph import Value


MOST_PHASE = 2.0**45


def features(phi: FeatureMap, x: Value) -> Value:  # noqa: PLR0911  (b, d) -> (b, D)
    """φ(x)."""
    if not type(phi).__module__.startswith("mercer."):  # which may compute something else
        msg = (
            f"The feature map {type(phi).__name__} can't be exported: it is not one of mercer's own. "
            "Fit with one of mercer's kernels."
        )
        raise KernelError(msg)
    match phi:
        case IdentityMap():
            return x
        case ColumnsMap():
            return x.columns(phi.columns)
        case PolynomialMap():
            return _polynomial(phi, x)
        case SumMap(left, right):
            return features(left, x).op("Concat", features(right, x), axis=1)
        case ProductMap(left, right):
            first = features(left, x).op("Unsqueeze", np.array([2]))  # (b, L, 1)
            second = features(right, x).op("Unsqueeze", np.array([1]))  # (b, 1, R)
            return (first * second).op("Reshape", np.array([-1, phi.dimension]))
        case ScaledMap(inner, factor):
            return features(inner, x) * math.sqrt(factor)
        case UnitMap(inner):
            return _unit(inner, x)
        case ComposedMap(outer, inner):
            return features(outer, features(inner, x))
    raise TypeError(type(phi))


def _polynomial(phi: PolynomialMap, x: Value) -> Value:
    """Degree by degree: each monomial is one of the degree below times a feature."""
    z = x if phi.gamma == 1 else x * math.sqrt(phi.gamma)
    blocks = [x.filled(1, 1.0)]
    for plan in phi._steps:
        size = plan[-1].target.stop
        parents, factors = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for step in plan:
            parents[step.target] = np.arange(step.parents.start, step.parents.stop)
            factors[step.target] = step.feature
        blocks.append(blocks[-1].columns(parents) * z.columns(factors))
    first, *others = blocks[-1:] if phi.coef0 == 0 else blocks
    joined = first.op("Concat", *others, axis=1) if others else first
    return joined * phi._weights


def _unit(phi: FeatureMap, x: Value) -> Value:
    inner = features(phi, x)
    if isinstance(phi, IdentityMap):
        return unit_rows(inner)
    # Products of small numbers lose digits, and vanish, where those of float32 or float64 end.
    largest, info = extents(inner), np.finfo(x.graph.dtype)
    blurred = (largest < float(info.tiny / info.eps)) & (largest > 0.0)
    largest = nan_where_lost(largest.unless(blurred, np.nan), x, float(info.eps))
    return unit_rows(inner) + largest * 0.0


def fourier_features(sections: FourierSections, x: Value) -> Value:  # (b, d) -> (b, 2M)
    """√(a/M) [cos ωᵀ(x - c), sin ωᵀ(x - c)].

    Phases are made in float64 and brought into one turn before they are rounded: those of long
    frequencies, of which heavy-tailed kernels draw some, have no digits after the point in float32.
    """
    own = x.graph
    phases = (x.at(np.float64) - sections.centre) @ np.ascontiguousarray(sections.frequencies.T)
    # A phase of more turns than this has no digit that is right.
    known = phases.op("Abs") < MOST_PHASE
    phases = known.op("Where", phases, np.nan)
    if not own.is_double:
        turns = (phases * (0.5 / math.pi)).op("Floor")
        phases = (phases - turns * (2.0 * math.pi)).at(own.dtype)
    circle = _cosines(phases).op("Concat", phases.op("Sin"), axis=1)
    return circle * math.sqrt(sections.amplitude / len(sections.frequencies))


def _cosines(phases: Value) -> Value:
    """cos φ; in float64, where onnxruntime has long had no cosine but a sine, 1 - 2 sin²(φ/2)."""
    if not phases.graph.is_double:
        return phases.op("Cos")
    half = (phases * 0.5).op("Sin")
    return 1.0 - half * half * 2.0
