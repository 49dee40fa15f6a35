"""Explicit feature maps in a graph: φ(x), column by column as `FeatureMap` gives them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError
from mercer.kernels.feature_map import (
    ColumnsMap,
    ComposedMap,
    IdentityMap,
    PolynomialMap,
    ProductMap,
    ScaledMap,
    SumMap,
    UnitMap,
)
from mercer.onnx.pairwise import extents, nan_where_lost, unit_rows

if TYPE_CHECKING:
    from mercer.approximations.random_features import FourierSections
    from mercer.kernels.feature_map import FeatureMap
    from mercer.onnx.graph import Graph, Value


MOST_PHASE = 2.0**45


def features(g: Graph, phi: FeatureMap, x: Value) -> Value:  # (b, d) -> (b, D)
    """φ(x)."""
    write = _MAPS.get(type(phi))  # by its exact class: a subclass may compute something else
    if write is None:
        msg = (
            f"The feature map {type(phi).__name__} can't be exported: it is not one of mercer's own. "
            "Fit with one of mercer's kernels."
        )
        raise KernelError(msg)
    return write(g, phi, x)


def _identity(g: Graph, phi: IdentityMap, x: Value) -> Value:
    del g, phi
    return x


def _columns(g: Graph, phi: ColumnsMap, x: Value) -> Value:
    return g.columns(x, list(phi.columns))


def _polynomial(g: Graph, phi: PolynomialMap, x: Value) -> Value:
    """Degree by degree: each monomial is one of the degree below times a feature."""
    z = x if phi.gamma == 1 else g.op("Mul", x, math.sqrt(phi.gamma))
    block = g.filled(x, 1, 1.0)
    blocks = [block]
    for plan in phi._steps:
        size = plan[-1].target.stop
        parents, factors = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for step in plan:
            parents[step.target] = np.arange(step.parents.start, step.parents.stop)
            factors[step.target] = step.feature
        block = g.op("Mul", g.columns(block, parents), g.columns(z, factors))
        blocks.append(block)
    kept = blocks[-1:] if phi.coef0 == 0 else blocks
    joined = kept[0] if len(kept) == 1 else g.op("Concat", *kept, axis=1)
    return g.op("Mul", joined, phi._weights)


def _sum(g: Graph, phi: SumMap, x: Value) -> Value:
    return g.op("Concat", features(g, phi.left, x), features(g, phi.right, x), axis=1)


def _product(g: Graph, phi: ProductMap, x: Value) -> Value:
    left = g.op("Unsqueeze", features(g, phi.left, x), np.array([2]))  # (b, L, 1)
    right = g.op("Unsqueeze", features(g, phi.right, x), np.array([1]))  # (b, 1, R)
    return g.op("Reshape", g.op("Mul", left, right), np.array([-1, phi.dimension]))


def _scaled(g: Graph, phi: ScaledMap, x: Value) -> Value:
    return g.op("Mul", features(g, phi.inner, x), math.sqrt(phi.factor))


def _unit(g: Graph, phi: UnitMap, x: Value) -> Value:
    inner = features(g, phi.inner, x)
    if isinstance(phi.inner, IdentityMap):
        return unit_rows(g, inner)
    # Products of small numbers lose digits, and vanish, where those of float32 or float64 end.
    largest = extents(g, inner)
    info = np.finfo(g.dtype)
    blurred = g.op("Less", largest, float(info.tiny / info.eps))
    sound = g.op("Or", g.op("Not", blurred), g.op("Equal", largest, 0.0))
    largest = g.op("Where", sound, largest, np.nan)
    largest = nan_where_lost(g, largest, x, float(info.eps))
    return g.op("Add", unit_rows(g, inner), g.op("Mul", largest, 0.0))


def _composed(g: Graph, phi: ComposedMap, x: Value) -> Value:
    return features(g, phi.outer, features(g, phi.inner, x))


_MAPS: dict[type[FeatureMap], Any] = {
    IdentityMap: _identity,
    ColumnsMap: _columns,
    PolynomialMap: _polynomial,
    SumMap: _sum,
    ProductMap: _product,
    ScaledMap: _scaled,
    UnitMap: _unit,
    ComposedMap: _composed,
}


def fourier_features(g: Graph, sections: FourierSections, x: Value) -> Value:  # (b, d) -> (b, 2M)
    """√(a/M) [cos ωᵀ(x - c), sin ωᵀ(x - c)].

    Phases are made in float64 and brought into one turn before they are rounded: those of long
    frequencies, of which heavy-tailed kernels draw some, have no digits after the point in float32.
    """
    wide = g.at(np.float64)
    rows = wide.op("Sub", x if g.is_double else wide.cast(x), sections.centre)
    phases = wide.op("MatMul", rows, np.ascontiguousarray(sections.frequencies.T))
    # A phase of more turns than this has no digit that is right.
    known = wide.op("Less", wide.op("Abs", phases), MOST_PHASE)
    phases = wide.op("Where", known, phases, np.nan)
    if not g.is_double:
        turns = wide.op("Floor", wide.op("Mul", phases, 0.5 / math.pi))
        phases = g.cast(wide.op("Sub", phases, wide.op("Mul", turns, 2.0 * math.pi)))
    circle = g.op("Concat", _cosines(g, phases), g.op("Sin", phases), axis=1)
    return g.op("Mul", circle, math.sqrt(sections.amplitude / len(sections.frequencies)))


def _cosines(g: Graph, phases: Value) -> Value:
    """cos φ; in float64, where onnxruntime has long had no cosine but a sine, 1 - 2 sin²(φ/2)."""
    if not g.is_double:
        return g.op("Cos", phases)
    half = g.op("Sin", g.op("Mul", phases, 0.5))
    return g.op("Sub", 1.0, g.op("Mul", g.op("Mul", half, half), 2.0))
