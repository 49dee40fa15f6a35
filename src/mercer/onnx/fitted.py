"""A fitted model as a graph has it: scores(x) = sections(x) A - b, and T² and Q of a detector.

What it is made of and how much rounding moves its scores, and then the nodes that compute them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, KernelError
from mercer._core.types import Array, Rows
from mercer.approximations.random_features import FourierSections
from mercer.data.rows import take_rows
from mercer.engine.moments import Scale
from mercer.engine.pairwise import dense
from mercer.estimators import PCA
from mercer.estimators.anatomy import Anatomy
from mercer.estimators.base import Projector
from mercer.estimators.detector import KernelPCADetector
from mercer.estimators.input import is_whitened
from mercer.estimators.pipelines import prepared_parts
from mercer.estimators.prepared import Prepared
from mercer.estimators.scores import score_spread
from mercer.kernels import Kernel, Linear, Precomputed
from mercer.kernels.feature_map import ColumnsMap, ComposedMap, IdentityMap, PolynomialMap
from mercer.kernels.map_base import FeatureMap, ProductMap, ScaledMap, SumMap, UnitMap
from mercer.model.projection import Projection
from mercer.monitoring.statistics import score_variances
from mercer.onnx.graph import Value
from mercer.onnx.kernels import diag, extents, nan_where_lost, require_exportable, tile, unit_rows
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.persistence.card import PIPELINE
from mercer.persistence.schema import name_of
from mercer.preprocessing.preparation import Preparation
from mercer.sklearn import KernelPCA as DropIn

# What one file of ONNX can hold, less room for all that is not points and coefficients.
MOST_BYTES = 2**31 - 2**24
SOME_POINTS = 500  # enough to see how large kernel values are, and how they are rounded
# Rounding may move a score by so much of its spread. A tenth of what a fit in float32 allows itself
# (`mercer.model.projection.SCORE_ROUNDING`), because here it is estimated.
ENOUGH = 1e-5
MOST_PHASE = 2.0**45  # a phase of more turns than this has no digit that is right
WHOLE = "`skl2onnx.to_onnx` exports any pipeline after `mercer.onnx.register()`."


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Anatomy):
    """scores(x) = sections(x) A - b, what is known about the size of its terms, and what stands around it."""

    projection: Projection
    spread: Array  # (k,): standard deviation of each score of the training rows
    mean_norm: float  # ‖μ‖², of the training rows in feature space
    variance: float  # mean ‖φ(x) - μ‖² of the training rows
    mean: Array | None = None  # (D,): μ of explicit features
    preparation: Preparation | None = None  # what is done to rows before

    @property
    def kernel(self) -> Kernel:
        """The kernel; that of linear PCA is linear."""
        return super().kernel or (Linear() if isinstance(self.projector, PCA) else Precomputed())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the training rows, in which the model answers."""
        if self.detector is not None:  # the rows of the model inside are scaled, in float64
            return self.detector._dtype
        if isinstance(self.projector, Projector):
            return super().dtype
        return np.dtype(self.projection.coef.dtype)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the estimator that gives the scores knows them."""
        return Anatomy(self.projector).feature_names

    @property
    def route(self) -> str:
        """What the graph holds, in words."""
        if self.points is None:
            return repr(self.projection.sections)
        m = int(self.points.shape[0])
        is_low_rank = self.fit is not None and self.fit.is_low_rank
        return f"low rank, {m} landmarks" if is_low_rank else f"exact, {m} points"

    @property
    def points(self) -> Rows | None:
        """Z; None for explicit features and for given kernel values."""
        sections = self.projection.sections
        return sections.points if isinstance(sections, KernelSections) else None

    def some_points(self, most: int) -> Rows:  # (most, d) or fewer
        """Points from all over Z."""
        z: Any = self.points  # asked of kernel sections only
        return take_rows(z, np.unique(np.linspace(0, int(z.shape[0]) - 1, most).astype(np.intp)))

    # ── rounding ────────────────────────────────────────────────────────────
    def precision(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The precision to compute in: `dtype`, or float64 where the terms of a score cancel too much."""
        return dtype if np.all(self._uncertain(dtype) <= ENOUGH) else np.dtype(np.float64)

    @property
    def rounding(self) -> Array:  # (k,)
        """How uncertain the model's own scores are, in units of their spread."""
        return self._uncertain(np.dtype(self.projection.coef.dtype))

    def _uncertain(self, dtype: np.dtype[Any]) -> Array:  # (k,)
        """What rounding in a precision does to a score, in units of its spread.

        A score is a sum of terms that may be much larger than itself: kernel values far from zero beside a
        large offset, or large coefficients of either sign.
        """
        sections, unit = self.projection.sections, float(np.finfo(dtype).eps)
        if isinstance(sections, FeatureSections) and isinstance(sections.feature_map, IdentityMap):
            # Rows are centred first, and nothing cancels after that.
            return np.zeros_like(self.spread)
        axes = np.linalg.norm(self.projection.coef.astype(np.float64), axis=0)
        if self.mean is not None:
            terms = unit * np.sqrt(self.mean_norm) * axes
        elif self.points is None:  # k(x, x) of training rows is as large as this on average
            largest = self.mean_norm + self.variance
            terms = unit * (largest * axes + np.abs(self.projection.offset))
        else:
            largest, error = self._kernel_values(dtype)
            terms = error * axes + unit * (largest * axes + np.abs(self.projection.offset))
        return np.divide(terms, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)

    def _kernel_values(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """About the largest |k(x, z)|, and what rounding does to one.

        Rows that are moved by eps show both how much of it a kernel amplifies and how its own evaluation
        scatters; float64 shows what float32 lost.
        """
        few = self.some_points(SOME_POINTS).astype(dtype)
        moved = few * dtype.type(1.0 + np.finfo(dtype).eps)
        with np.errstate(over="ignore", invalid="ignore"):
            fine = self.kernel.tile(few.astype(np.float64), few.astype(np.float64))
            gap = np.abs(self.kernel.tile(moved, few) - fine)
        return float(np.max(np.abs(fine))), float(np.max(gap))

    def require_exportable(self, dtype: np.dtype[Any]) -> None:
        """Raise when the kernel has no graph, or the graph no room in one file."""
        if not self.kernel.is_precomputed:
            require_exportable(self.kernel)
        m, k = self.projection.coef.shape
        width = self.model.n_features_in_ if self.points is not None else 0
        size = m * (width + k) * self.precision(dtype).itemsize
        if size > MOST_BYTES:
            msg = (
                f"The graph would hold {m} points of {width} numbers and {k} coefficients for each: "
                f"{size / 1e9:.1f} GB, but an ONNX file holds 2 GB at most. Fit with "
                "approximation='rpcholesky', whose graph holds the landmarks only."
            )
            raise InputError(msg)


def fitted(model: Any) -> Fitted:
    """The parts of a fitted model, whether alone, in a detector or behind a preparation."""
    if name_of(model) == PIPELINE:
        model = Prepared(*prepared_parts(model, otherwise=f"Or export it whole: {WHOLE}"))
    if isinstance(model, Prepared):
        return replace(fitted(model.model), preparation=model.preparation)
    if isinstance(model, (KernelPCADetector, Projector, DropIn)):
        check_is_fitted(model)
        if isinstance(model, KernelPCADetector):
            if not model._past.static:
                msg = "A graph takes rows one by one, and this detector judges them by those "
                msg += "before. Fit it with `lags` 0 and without `smoothing`."
                raise InputError(msg)
            return replace(fitted(model.model_), model=model)
        return _of_drop_in(model) if isinstance(model, DropIn) else _of_projector(model)
    msg = (
        "An export needs a fitted KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, Prepared or "
        "mercer.sklearn.KernelPCA, alone or as the last step of a scikit-learn pipeline; got a "
        f"{type(model).__name__}. {WHOLE}"
    )
    raise InputError(msg)


def _of_projector(model: Projector) -> Fitted:
    fit = model._current()
    explicit = not isinstance(fit.projection.sections, (KernelSections, GivenSections))
    spread = np.sqrt(np.asarray(fit.eigenvalues, dtype=np.float64) / fit.weight)
    return Fitted(
        model,
        model._scoring,
        spread=spread / score_spread(fit) if is_whitened(model.whiten) else spread,
        mean_norm=float(fit.mean.norm),
        variance=fit.total / fit.weight,
        mean=fit.mean.coef if explicit else None,
    )


def _of_drop_in(model: Any) -> Fitted:
    values, n = np.asarray(model.eigenvalues_, dtype=np.float64), len(model.eigenvectors_)
    mean_norm = float(abs(model._centerer.K_fit_all_))
    return Fitted(model, model._projection, np.sqrt(values / n), mean_norm, float(values.sum()) / n)


# ── scores and statistics as nodes ──────────────────────────────────────────
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
    sections: Any = model.projection.sections
    if isinstance(sections, GivenSections):
        return x
    if isinstance(sections, FourierSections):
        return fourier_features(sections, x)
    if isinstance(sections, FeatureSections):
        return features(sections.feature_map, x)
    return tile(model.kernel, x, np.asarray(dense(sections.points[:]), dtype=np.float64))


# ── the detector ────────────────────────────────────────────────────────────
def statistics(model: Fitted, x: Value) -> dict[str, Value]:
    """T², Q, the index and the label of each row, (b, 1) each; to be called in float64.

    Q is a difference of squared lengths and the default kernel is wide: in float32 nothing would be left.
    """
    detector: Any = model.detector
    rows = (x - detector.center_) / Scale(detector.center_, detector.spread_).unit
    bad, fit = guard(rows), detector.model_.fit_
    found, errors = _scores_and_errors(fit, model, rows)
    t2 = (found * found) @ (1.0 / score_variances(fit))[:, None]
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
    length = diag(model.kernel, x, model.model.n_features_in_) - along * 2.0 + float(fit.mean.norm)
    return found, (length - found.squared_norms()).at_least(0.0)


# ── explicit features, column by column as `FeatureMap` gives them ───────────
def features(phi: FeatureMap, x: Value) -> Value:  # noqa: PLR0911  (b, d) -> (b, D)
    """φ(x)."""
    if not type(phi).__module__.startswith("mercer."):  # which may compute something else
        msg = f"The feature map {type(phi).__name__} can't be exported: it is not one of mercer's "
        msg += "own. Fit with one of mercer's kernels."
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
    phases = (phases.op("Abs") < MOST_PHASE).op("Where", phases, np.nan)
    if own.is_double:  # where onnxruntime has long had no cosine, but a sine: 1 - 2 sin²(φ/2)
        half = (phases * 0.5).op("Sin")
        cosines = 1.0 - half * half * 2.0
    else:
        turns = (phases * (0.5 / math.pi)).op("Floor")
        phases = (phases - turns * (2.0 * math.pi)).at(own.dtype)
        cosines = phases.op("Cos")
    circle = cosines.op("Concat", phases.op("Sin"), axis=1)
    return circle * math.sqrt(sections.amplitude / len(sections.frequencies))
