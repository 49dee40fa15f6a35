"""Whether the parts of a loaded object agree with each other: what annotations do not say.

Each invariant stands behind the sentence that is said where it does not hold. They hold in the order of
the table, so that a later one may rest on those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer._core.errors import ModelFileError
from mercer._core.params import is_whole
from mercer._core.types import Rows
from mercer.data.rows import RowSource, first_bad, row_blocks
from mercer.estimators.anatomy import Anatomy, is_fitted
from mercer.kernels.base import Kernel
from mercer.kernels.map_base import MAX_COLUMNS
from mercer.monitoring.library import ENDS
from mercer.monitoring.statistics import STATISTICS
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.preimage.exact import ExactBack, of_dot_product
from mercer.preimage.ridge import RidgeBack

MOST_DEGREE = 1000
BLOCK = 2**20  # numbers that are looked at together


def check_object(name: str, value: Any) -> None:
    """Raise a `ModelFileError` when an object of that name in a file can't be used as it is."""
    if isinstance(value, BaseEstimator) and not is_fitted(value):
        return  # not fitted: it has learned nothing that could disagree
    for why, holds in INVARIANTS.get(name, {}).items():
        if not holds(value):
            raise ModelFileError(why)


# ── what they ask ───────────────────────────────────────────────────────────
def _blocks(x: Rows) -> Any:
    x = x[None, :] if len(x.shape) == 1 else x
    return (block for _, block in row_blocks(x, max(1, BLOCK // max(1, int(x.shape[1])))))


def _finite(*arrays: Rows) -> bool:
    # A source looks at every block that it hands out.
    own = (x for x in arrays if not isinstance(x, RowSource))
    return all(first_bad(block) is None for x in own for block in _blocks(x))


def _computes(kernel: Kernel, points: Rows) -> bool:
    """Whether a kernel has numbers for parameters and values at the points; its own checks raise."""
    kernel.check_parameters()
    if kernel.is_data_dependent or kernel.is_precomputed:
        return False
    if points.shape[0] == 0:
        return True
    for block in _blocks(points):
        kernel.check_rows(block)
    with np.errstate(all="ignore"):
        return bool(kernel.tile(points[:1], points[:1]).shape == (1, 1))


def _checked(check: Callable[..., Any], *args: Any) -> bool:
    """True, where a check of the code itself raises nothing."""
    check(*args)
    return True


def width_in(sections: Any) -> int:
    """The number of columns of the rows that sections take."""
    if isinstance(sections, KernelSections):
        return int(sections.points.shape[1])
    if isinstance(sections, FeatureSections):
        return sections.feature_map.n_features
    return sections.width if isinstance(sections, GivenSections) else sections.frequencies.shape[1]


def _fits(coef: Any, projection: Any) -> bool:
    return bool(len(coef) == projection.sections.width)


def _k(fit: Any) -> int:
    return int(fit.projection.n_components)


def _d(fit: Any) -> int:
    return width_in(fit.projection.sections)


def _lagged(detector: Any) -> int:
    return int(detector._past.width(detector.n_features_in_))


def _maps(sections: Any) -> bool:
    if not isinstance(sections, FeatureSections):
        return True
    d = width_in(sections)
    return d <= MAX_COLUMNS and _checked(sections.feature_map, np.zeros((1, d)))


def _sizes(back: Any) -> tuple[int, int]:
    """The numbers of components and of columns of a pre-image."""
    if isinstance(back, RidgeBack):
        return _d(back), _k(back)
    if isinstance(back, ExactBack):
        return back.slopes.shape[::-1]
    return back.near.scores.shape[1], back.near.rows.shape[1]


def _takes(model: Any, d: int) -> bool:
    """Whether a fitted model says that it has the columns that its parts have."""
    names = vars(model).get("feature_names_in_")
    return bool(model.n_features_in_ == d and (names is None or len(names) == d))


def _solved(stream: Any) -> bool:
    with np.errstate(all="ignore"):  # sums that no rows have may not have a solution
        fit = Anatomy(stream).fit  # None: no variance yet
    return fit is None or _d(fit) == stream.n_features_in_


def _scales(value: Any) -> bool:
    scales, d = (value.center, value.spread), len(value.features)
    return all(s is None or (s.shape == (d,) and bool(np.isfinite(s).all())) for s in scales)


# ── the table ───────────────────────────────────────────────────────────────
_SPACE = {
    "the mean of a model is not as wide as its sections": lambda v: _fits(v.mean.coef, v.projection)
}
_NEAR = {
    "a pre-image has no rows": lambda v: len(v.near.scores) >= 2,
    "a pre-image has other components than its model": lambda v: _sizes(v)[0] == _k(v.space),
    "a pre-image has other columns than its model": lambda v: _sizes(v)[1] == _d(v.space),
}
INVARIANTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "KernelSections": {
        "a model rests on no points": lambda v: min(v.points.shape) >= 1,
        "the points of a model are not all finite": lambda v: _finite(v.points),
        "a kernel has no values": lambda v: _computes(v.kernel, v.points),
    },
    "FourierSections": {
        "there are no random frequencies": lambda v: min(v.frequencies.shape) >= 1,
        "random frequencies are not all finite": lambda v: _finite(v.frequencies, v.centre),
        "an amplitude is not a size": lambda v: 0.0 <= v.amplitude < np.inf,
    },
    "PolynomialMap": {"a polynomial has too high a degree": lambda v: v.degree <= MOST_DEGREE},
    "Nystrom": {
        "landmarks are neither a number nor rows": lambda v: (
            is_whole(v.landmarks) or len(np.shape(v.landmarks)) == 2
        )
    },
    "Projection": {
        "a projection has another width than its sections": lambda v: _fits(v.coef, v),
        "a projection has two precisions": lambda v: v.coef.dtype == v.offset.dtype,
        "the coefficients of a model are not all finite": lambda v: _finite(v.coef, v.offset),
        "a feature map has too many columns": lambda v: _maps(v.sections),
    },
    "FeatureSpace": _SPACE,
    "Fit": {
        **_SPACE,
        "a fit has other eigenvalues than components": lambda v: len(v.pairs.values) == _k(v),
        "a fit has other weights than rows": lambda v: (
            v.roots is None or v.is_low_rank or len(v.roots) == len(v.pairs.vectors)
        ),
        "a fit has no rows": lambda v: v.weight > 0,
        "a fit has not one finite bound for each component": lambda v: (
            v.ceiling is None or (len(v.ceiling) == _k(v) and _finite(v.ceiling))
        ),
    },
    "Gauge": {
        "a gauge has other variances than components": lambda v: len(v.variances) == _k(v.space)
    },
    "Limits": {"the index of a detector has no limit": lambda v: v.index > 0.0},
    "Calibration": {
        "a calibration has no rows in ascending order": lambda v: (
            len(v.index) > 0 and v.index[0] >= 0.0 and bool(np.all(v.index[1:] >= v.index[:-1]))
        ),
        "a calibration of few rows has no finite index": lambda v: not v.few or _finite(v.index),
        "a calibration has weights that no rows have": lambda v: (
            v.weights is None or (v.weights.min() >= 0.0 and 0.0 < v.weights.sum() < np.inf)
        ),
    },
    "KnownEvents": {
        "the course of an event has other stretches": lambda v: (
            v.courses is None or v.courses.shape[1] == len(ENDS)
        ),
        "an event has a number of rows that none has": lambda v: (
            v.rows is None or bool(np.all((v.rows >= 0.0) & (v.rows < np.inf)))
        ),
    },
    "Dictionary": {
        "a dictionary is not finite": lambda v: _finite(v.points, v.lower, v.whiten),
        "a kernel has no values": lambda v: _computes(v.kernel, v.points),
    },
    "Stream": {
        "moments of a stream are not finite": lambda v: _finite(v.moments.mean, v.moments.scatter),
        "a stream lacks a part of its moments": lambda v: len(v.moments.mean) == v.dictionary.size,
        "a stream has a negative count": lambda v: min(v.seed, v.n_rows) >= 0,
        "a stream has a sum that no rows have": lambda v: all(
            0.0 <= s < np.inf
            for s in (v.trace, v.lost, v.error, v.norm, v.cheapest, v.moments.weight)
        ),
    },
    "SearchBack": {
        "a search has other parameters": lambda v: _checked(v.method.check_params),
        **_NEAR,
    },
    "DistancesBack": {
        "a pre-image has another kernel": lambda v: _checked(v.method.check, v.kernel),
        "a kernel has no values": lambda v: _computes(v.kernel, v.near.rows[:1]),
        **_NEAR,
        "a pre-image has other rows than distances": lambda v: (
            (len(v.own), len(v.centre)) == v.near.rows.shape
        ),
    },
    "ExactBack": {
        "a kernel has other parameters": lambda v: _checked(v.kernel.check_parameters),
        "a kernel can't be undone": lambda v: of_dot_product(v.kernel) is not None,
        "a pre-image divides by zero": lambda v: v.c != 0,
    },
    "FittedPreimage": {
        "a pre-image has a centre of another width": lambda v: len(v.centre) == _sizes(v.back)[1],
        "a pre-image has other components than its space": lambda v: (
            v.space is None or _k(v.space) == _sizes(v.back)[0]
        ),
    },
    "KernelPCA": {
        "a model has other columns than its fit": lambda m: _takes(m, _d(m.fit_)),
        "a kernel has other parameters": lambda m: _checked(m.kernel_.check_parameters),
        "a pre-image has other components than its model": lambda m: (
            "preimage_" not in vars(m) or _sizes(m.preimage_.back)[0] == _k(m.fit_)
        ),
    },
    "PCA": {
        "a model has other columns than its fit": lambda m: _takes(m, _d(m.fit_)),
        "a mean has another width than its model": lambda m: len(m.mean_) == m.n_features_in_,
    },
    "IncrementalKernelPCA": {
        "a stream has other parameters": lambda m: _checked(m._check_stream),
        "a stream has other columns than its dictionary": lambda m: _takes(
            m, m.stream_.dictionary.points.shape[1]
        ),
        "what a stream has solved is of other columns": _solved,
    },
    "KernelPCADetector": {
        "a detector remembers no such rows": lambda m: m._past.lags >= 0,
        "a detector has other columns than its model": lambda m: (
            m.model_.n_features_in_ == _lagged(m) and _takes(m, m.n_features_in_)
        ),
        "a detector smooths other columns than it has": lambda m: (
            m._past.centre is None or len(m._past.centre) == m.n_features_in_
        ),
        "a detector scales other columns than it has": lambda m: (
            m._scale.mean.shape == m.center_.shape == (_lagged(m),)
        ),
        "a detector has other baselines than it shows": lambda m: (
            m._baselines.rows.shape == m.baselines_.shape and len(m.baselines_) >= 1
        ),
        "a detector judges by an unknown statistic": lambda m: m._rule.statistic in STATISTICS,
        "a detector gauges other columns than it has": lambda m: _d(m._gauge.space) == _lagged(m),
    },
    "sklearn.KernelPCA": {
        "a model has other columns than its rows": lambda m: _takes(m, m.X_fit_.shape[1]),
        "a projection has other columns than its model": lambda m: (
            width_in(m._projection.sections) == m.n_features_in_
        ),
        "a model has other eigenvalues than components": lambda m: (
            len(m.eigenvalues_) == m._projection.n_components
        ),
    },
    "Preparation": {
        "an image has no pixels": lambda v: v.image_shape is None or min(v.image_shape) > 0,
        "a preparation has other fills than columns": lambda v: (
            v.fills is None or v.fills.shape == (len(v.numbers),)
        ),
        "a preparation has not one finite scale for each column": _scales,
        "a preparation ignores words of a column without words": lambda v: (
            set(v.ignoring) <= {name for name, _ in v.categories}
        ),
        "a preparation has other units than columns": lambda v: len(v.units) in (0, len(v.numbers)),
        "a preparation divides by zero": lambda v: v.spread is None or bool(np.all(v.spread > 0)),
    },
    "Prepared": {
        "a preparation belongs to no fitted model": lambda v: (
            isinstance(v.model, BaseEstimator) and "n_features_in_" in vars(v.model)
        ),
        "a preparation has other columns than its model": lambda v: (
            len(v.preparation.features) == v.model.n_features_in_
        ),
    },
}
