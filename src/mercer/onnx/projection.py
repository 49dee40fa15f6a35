"""scores(x) = sections(x) A - b in a graph, explicit features φ(x) among them, and T² and Q of a detector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._core.errors import KernelError
from mercer.approximations.random_features import FourierSections
from mercer.engine.moments import Scale
from mercer.kernels.feature_map import ColumnsMap, IdentityMap, PolynomialMap
from mercer.kernels.map_base import ComposedMap, FeatureMap, ProductMap, ScaledMap, SumMap, UnitMap
from mercer.monitoring.statistics import score_variances
from mercer.onnx.fitted import Fitted
from mercer.onnx.graph import Value
from mercer.onnx.kernels import diag, extents, nan_where_lost, tile, unit_rows
from mercer.operators.sections import FeatureSections, GivenSections

MOST_PHASE = 2.0**45


def guard(x: Value) -> Value:  # (b, d) -> (b, 1)
    """0 for rows of finite numbers, NaN for others: added to a result, it keeps a wrong one from passing.

    mercer refuses such rows; a graph can't, and a kernel of distances would call infinity an ordinary
    place where all its values are zero.
    """
    return (x * 0.0).row_sum()


def scores(model: Fitted, x: Value) -> Value:  # (b, d) -> (b, k)
    """sections(x) A - b; of explicit features (φ(x) - μ)A: far from the origin φ(x)A and b would cancel."""
    coef = model.projection.coef.astype(np.float64)
    offset = model.projection.offset.astype(np.float64)
    if model.mean is None:
        return _sections(model, x) @ coef - offset
    # μ is rounded to the precision of the graph; what that moves is put back, in float64 and on paper.
    rest = offset - model.mean.astype(x.graph.dtype).astype(np.float64) @ coef
    return (_sections(model, x) - model.mean) @ coef - rest


def _sections(model: Fitted, x: Value) -> Value:  # (b, d) -> (b, m)
    sections = model.projection.sections
    if isinstance(sections, GivenSections):
        return x
    if isinstance(sections, FourierSections):
        return fourier_features(sections, x)
    if isinstance(sections, FeatureSections):
        return features(sections.feature_map, x)
    return tile(model.kernel, x, model.stored_points())


# ── the detector ────────────────────────────────────────────────────────────
def statistics(model: Fitted, x: Value) -> dict[str, Value]:
    """T², Q, the index and the label of each row, (b, 1) each; to be called in float64.

    Q is a difference of squared lengths and the default kernel is wide: in float32 nothing would be left.
    """
    detector: Any = model.detector
    rows = (x - detector.center_) / Scale(detector.center_, detector.spread_).unit
    bad = guard(rows)
    found, errors = _scores_and_errors(detector.model_.fit_, model, rows)
    variances = score_variances(detector.model_.fit_)
    t2 = (found * found) @ (1.0 / variances)[:, None]
    # ∞ - ∞ is no number, and a row so far out is anything but normal.
    t2, q = (values.unless(values.op("IsNaN"), np.inf) for values in (t2, errors))
    limits = detector.limits_
    shares = {"T2": t2 / float(limits.t2), "Q": q / float(limits.q)}  # in units of the limits
    index = shares.get(detector._rule.statistic, shares["T2"].at_least(shares["Q"]))
    out = {name: values + bad for name, values in (("T2", t2), ("Q", q), ("index", index))}
    # A row that is no row is an alarm: NaN is not below the limit.
    normal = out["index"] <= -float(detector.offset_)
    return {**out, "label": normal.op("Where", np.array(1), np.array(-1))}


def _scores_and_errors(fit: Any, model: Fitted, x: Value) -> tuple[Value, Value]:
    """Scores, and the squared distance of φ(x) from its projection."""
    sections, coef = _sections(model, x), fit.projection.coef.astype(np.float64)
    if model.mean is not None:
        centred = sections - model.mean
        found = centred @ coef
        return found, (centred - found @ np.ascontiguousarray(coef.T)).squared_norms()
    found = sections @ coef - fit.projection.offset.astype(np.float64)
    along = sections @ np.asarray(fit.mean.coef, dtype=np.float64)[:, None]
    length = diag(model.kernel, x, model.n_features) - along * 2.0 + float(fit.mean.norm)
    return found, (length - found.squared_norms()).at_least(0.0)


# ── explicit features, column by column as `FeatureMap` gives them ───────────
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
