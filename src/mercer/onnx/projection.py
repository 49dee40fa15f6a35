"""scores(x) = sections(x) A - b in a graph, and T² and Q of a detector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.approximations.random_features import FourierSections
from mercer.engine.moments import Scale
from mercer.monitoring.statistics import score_variances
from mercer.onnx.kernels import diag, tile
from mercer.onnx.maps import features, fourier_features
from mercer.operators.sections import FeatureSections, GivenSections

if TYPE_CHECKING:
    from mercer.onnx.fitted import Fitted
    from mercer.onnx.graph import Value


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
