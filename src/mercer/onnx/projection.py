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
    from mercer._core.types import Array
    from mercer.onnx.fitted import Fitted
    from mercer.onnx.graph import Graph, Value


def guard(g: Graph, x: Value) -> Value:  # (b, d) -> (b, 1)
    """0 for rows of finite numbers, NaN for others: added to a result, it keeps a wrong one from passing.

    mercer refuses such rows; a graph can't, and a kernel of distances would call infinity an ordinary
    place where all its values are zero.
    """
    return g.row_sum(g.op("Mul", x, 0.0))


def scores(g: Graph, model: Fitted, x: Value) -> Value:  # (b, d) -> (b, k)
    """sections(x) A - b."""
    coef = model.projection.coef.astype(np.float64)
    offset = model.projection.offset.astype(np.float64)
    if model.mean is None:
        return g.op("Sub", g.op("MatMul", _sections(g, model, x), coef), offset)
    return _explicit_scores(g, _centred(g, model, x), model.mean, coef, offset)


def _centred(g: Graph, model: Fitted, x: Value) -> Value:  # (b, d) -> (b, D)
    """φ(x) - μ: far from the origin φ(x)A and b = μA would cancel."""
    assert model.mean is not None  # features are explicit here
    return g.op("Sub", _sections(g, model, x), model.mean)


def _explicit_scores(g: Graph, centred: Value, mean: Array, coef: Array, offset: Array) -> Value:
    # μ was rounded to the precision of the graph; what that moved is put back, in float64 and on paper.
    rest = offset - mean.astype(g.dtype).astype(np.float64) @ coef
    return g.op("Sub", g.op("MatMul", centred, coef), rest)


def _sections(g: Graph, model: Fitted, x: Value) -> Value:  # (b, d) -> (b, m)
    sections = model.projection.sections
    if isinstance(sections, GivenSections):
        return x
    if isinstance(sections, FourierSections):
        return fourier_features(g, sections, x)
    if isinstance(sections, FeatureSections):
        return features(g, sections.feature_map, x)
    return tile(g, model.kernel, x, model.stored_points())


# ── the detector ────────────────────────────────────────────────────────────
def statistics(g: Graph, detector: Any, model: Fitted, x: Value) -> dict[str, Value]:
    """T², Q, the index and the label of each row, (b, 1) each; to be called in float64.

    Q is a difference of squared lengths and the default kernel is wide: in float32 nothing would be left.
    """
    rows = g.op(
        "Div", g.op("Sub", x, detector.center_), Scale(detector.center_, detector.spread_).unit
    )
    bad = guard(g, rows)
    found, errors = _scores_and_errors(g, detector, model, rows)
    variances = score_variances(detector.model_.fit_)
    t2 = g.op("MatMul", g.op("Mul", found, found), (1.0 / variances)[:, None])
    t2, q = (_or_infinite(g, values) for values in (t2, errors))
    index = _index(g, detector, t2, q)
    named = {"T2": t2, "Q": q, "index": index}
    out = {name: g.op("Add", values, bad) for name, values in named.items()}
    # A row that is no row is an alarm: NaN is not below the limit.
    normal = g.op("LessOrEqual", out["index"], -float(detector.offset_))
    out["label"] = g.op("Where", normal, np.array(1), np.array(-1))
    return out


def _scores_and_errors(g: Graph, detector: Any, model: Fitted, x: Value) -> tuple[Value, Value]:
    """Scores, and the squared distance of φ(x) from its projection."""
    fit = detector.model_.fit_
    coef, offset = (
        part.astype(np.float64) for part in (fit.projection.coef, fit.projection.offset)
    )
    if model.mean is not None:
        centred = _centred(g, model, x)
        found = g.op("MatMul", centred, coef)
        left = g.op("Sub", centred, g.op("MatMul", found, np.ascontiguousarray(coef.T)))
        return found, g.squared_norms(left)
    values = _sections(g, model, x)
    found = g.op("Sub", g.op("MatMul", values, coef), offset)
    along = g.op("MatMul", values, np.asarray(fit.mean.coef, dtype=np.float64)[:, None])
    own = diag(g, model.kernel, x, model.n_features)
    length = g.op("Add", g.op("Sub", own, g.op("Mul", along, 2.0)), float(fit.mean.norm))
    return found, g.op("Max", g.op("Sub", length, g.squared_norms(found)), 0.0)


def _or_infinite(g: Graph, values: Value) -> Value:
    """∞ - ∞ is no number, and a row so far out is anything but normal."""
    return g.op("Where", g.op("IsNaN", values), np.inf, values)


def _index(g: Graph, detector: Any, t2: Value, q: Value) -> Value:
    """What the detector goes by, in units of the limits."""
    limits, statistic = detector.limits_, detector._rule.statistic
    of_t2 = g.op("Div", t2, float(limits.t2))
    of_q = g.op("Div", q, float(limits.q))
    if statistic == "T2":
        return of_t2
    return of_q if statistic == "Q" else g.op("Max", of_t2, of_q)
