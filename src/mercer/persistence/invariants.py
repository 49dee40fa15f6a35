"""Whether the parts of a loaded object agree with each other: what annotations do not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer._core.errors import ModelFileError
from mercer.data.rows import RowSource, first_bad, row_blocks
from mercer.kernels.map_base import MAX_COLUMNS
from mercer.monitoring.statistics import STATISTICS
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.preimage.exact import ExactBack, of_dot_product
from mercer.preimage.ridge import RidgeBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Rows
    from mercer.kernels.base import Kernel
    from mercer.kernels.feature_map import PolynomialMap

MOST_DEGREE = 1000
BLOCK = 2**20  # numbers that are looked at together


def need(holds: Any, why: str) -> None:
    """Raise a `ModelFileError` that says what is wrong, unless it holds."""
    if not holds:
        raise ModelFileError(why)


# ── rows and kernels ────────────────────────────────────────────────────────
def _finite(x: Rows, what: str) -> None:
    if isinstance(x, RowSource):
        return  # it looks at every block that it hands out
    if x.ndim == 1:
        x = x[None, :]
    for _, block in row_blocks(x, max(1, BLOCK // max(1, int(x.shape[1])))):
        need(first_bad(block) is None, f"{what} are not all finite")


def _kernel(kernel: Kernel, points: Rows) -> None:
    """The kernel has numbers for parameters, and is defined on the points."""
    kernel.check_parameters()
    need(not kernel.is_data_dependent, f"{kernel!r} still waits for data")
    need(not kernel.is_precomputed, "a precomputed kernel has no points")
    if points.shape[0] == 0:
        return
    for _, block in row_blocks(points, max(1, BLOCK // int(points.shape[1]))):
        kernel.check_rows(block)
    with np.errstate(all="ignore"):
        need(
            kernel.tile(points[:1], points[:1]).shape == (1, 1),
            f"{kernel!r} gives no kernel values",
        )


def _kernel_sections(value: Any) -> None:
    need(min(value.points.shape) >= 1, "a model rests on no points")
    _finite(value.points, "the points of a model")
    _kernel(value.kernel, value.points)


def _dictionary(value: Any) -> None:
    _finite(value.points, "the points of a dictionary")
    for basis in (value.lower, value.whiten):
        _finite(basis, "the numbers of a basis")
    _kernel(value.kernel, value.points)


def _fourier(value: Any) -> None:
    need(min(value.frequencies.shape) >= 1, "there are no random frequencies")
    _finite(value.frequencies, "random frequencies")
    _finite(value.centre, "the numbers of a centre")
    need(np.isfinite(value.amplitude) and value.amplitude >= 0, "an amplitude is negative")


def _landmarks(value: Any) -> None:
    given = value.landmarks
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    need(whole or len(np.shape(given)) == 2, "landmarks are neither a number nor rows")


def _polynomial(value: PolynomialMap) -> None:
    need(value.degree <= MOST_DEGREE, f"a polynomial has a degree above {MOST_DEGREE}")


def width_in(sections: Any) -> int:
    """Columns of the rows that sections take."""
    if isinstance(sections, KernelSections):
        return int(sections.points.shape[1])
    if isinstance(sections, FeatureSections):
        return sections.feature_map.n_features
    if isinstance(sections, GivenSections):
        return sections.width
    return int(sections.frequencies.shape[1])


# ── a fit ───────────────────────────────────────────────────────────────────
def _projection(value: Any) -> None:
    need(
        value.sections.width == len(value.coef), "a projection has another width than its sections"
    )
    need(value.coef.dtype == value.offset.dtype, "a projection has two precisions")
    _finite(value.coef, "the coefficients of a model")
    _finite(value.offset, "the offsets of a model")
    if isinstance(value.sections, FeatureSections):
        d = width_in(value.sections)
        need(d <= MAX_COLUMNS, f"a feature map takes {d} columns")
        value.sections.feature_map(np.zeros((1, d)))


def _space(value: Any) -> None:
    same = len(value.mean.coef) == value.projection.sections.width
    need(same, "the mean of a model has another width than its sections")


def _fit(value: Any) -> None:
    _space(value)
    k, n = value.projection.n_components, len(value.pairs.vectors)
    need(len(value.pairs.values) == k, "a fit has other eigenvalues than components")
    need(value.roots is None or value.is_low_rank or len(value.roots) == n, "weights lack rows")
    need(value.weight > 0, "a fit has no rows")


def _gauge(value: Any) -> None:
    k = value.space.projection.n_components
    need(len(value.variances) == k, "a gauge has other variances than components")


def _stream(value: Any) -> None:
    _finite(value.moments.mean, "the means of a stream")
    _finite(value.moments.scatter, "the moments of a stream")
    need(len(value.moments.mean) == value.dictionary.size, "a stream lost a part of its moments")
    need(value.seed >= 0 and value.n_rows >= 0, "a stream has a negative count")
    sums = (value.trace, value.lost, value.error, value.norm, value.cheapest, value.moments.weight)
    need(all(0.0 <= s < np.inf for s in sums), "a stream has a sum that no rows have")


# ── pre-images ────────────────────────────────────────────────────────────
def _search_back(value: Any) -> None:
    value.method.check_params()
    _near(value)


def _distances_back(value: Any) -> None:
    value.method.check(value.kernel)
    _kernel(value.kernel, value.near.rows[:1])
    _near(value)
    n, d = value.near.rows.shape
    need(
        len(value.own) == n and len(value.centre) == d, "a pre-image has other rows than distances"
    )


def _near(value: Any) -> None:
    projection = value.space.projection
    need(len(value.near.scores) >= 2, "a pre-image has no rows")
    need(value.near.scores.shape[1] == projection.n_components, "a pre-image has other components")
    need(value.near.rows.shape[1] == width_in(projection.sections), "a pre-image has other columns")


def _exact_back(value: ExactBack) -> None:
    value.kernel.check_parameters()
    need(of_dot_product(value.kernel) is not None, f"{value.kernel!r} can't be undone")
    need(value.c != 0, "a pre-image divides by zero")


def sizes(back: Any) -> tuple[int, int]:
    """Components and columns of a pre-image."""
    if isinstance(back, RidgeBack):
        return width_in(back.projection.sections), back.projection.n_components
    if isinstance(back, ExactBack):
        return int(back.slopes.shape[1]), int(back.slopes.shape[0])
    return int(back.near.scores.shape[1]), int(back.near.rows.shape[1])


def _preimage(value: Any) -> None:
    k, d = sizes(value.back)
    need(len(value.centre) == d, "a pre-image has a centre of another width")
    if value.space is not None:
        need(value.space.projection.n_components == k, "a pre-image has other components")


# ── estimators, and the preparation of their rows ────────────────────────────
def _columns(model: Any, d: int) -> None:
    """A fitted model has as many columns as its parts."""
    names = vars(model).get("feature_names_in_")
    need(model.n_features_in_ == d, f"a model of {d} columns says it has {model.n_features_in_}")
    need(names is None or len(names) == d, f"a model of {d} columns has other names")


def _kernel_pca(model: Any) -> None:
    projection = model.fit_.projection
    _columns(model, width_in(projection.sections))
    model.kernel_.check_parameters()
    back = vars(model).get("preimage_")
    if back is not None:
        need(sizes(back.back)[0] == projection.n_components, "a pre-image has other components")


def _pca(model: Any) -> None:
    _columns(model, width_in(model.fit_.projection.sections))
    need(len(model.mean_) == model.n_features_in_, "a mean has another width than its model")


def _incremental(model: Any) -> None:
    model._check_stream()
    _columns(model, int(model.stream_.dictionary.points.shape[1]))
    with np.errstate(all="ignore"):  # sums that no rows have may not have a solution
        cached = getattr(model, "fit_", None)  # None: no variance yet
    if cached is not None:
        same = width_in(cached.projection.sections) == model.n_features_in_
        need(same, "what a stream has solved is of other columns")


def _detector(model: Any) -> None:
    d = model.model_.n_features_in_
    _columns(model, d)
    parts = (model.center_, model.spread_, model._scale.mean, model._baselines.rows.T)
    need(all(len(part) == d for part in parts), "a detector scales other columns than it has")
    need(model._baselines.rows.shape == model.baselines_.shape, "a detector has two baselines")
    need(len(model.baselines_) >= 1, "a detector has no baseline")
    need(model._rule.statistic in STATISTICS, f"a detector goes by {model._rule.statistic!r}")
    need(width_in(model._gauge.space.projection.sections) == d, "a detector gauges other columns")


def _drop_in(model: Any) -> None:
    _columns(model, int(model.X_fit_.shape[1]))
    need(width_in(model._projection.sections) == model.n_features_in_, "a projection lacks columns")
    need(len(model.eigenvalues_) == model._projection.n_components, "a model lacks eigenvalues")


def _preparation(value: Any) -> None:
    size, d = value.image_shape, len(value.features)
    need(size is None or min(size) > 0, "an image has no pixels")
    fills = value.fills is None or value.fills.shape == (len(value.numbers),)
    need(fills, "a preparation lacks fills")
    for scale in (value.center, value.spread):
        right = scale is None or (scale.shape == (d,) and bool(np.all(np.isfinite(scale))))
        need(right, "a preparation lacks a finite scale for each column")
    need(value.spread is None or bool(np.all(value.spread > 0)), "a preparation divides by zero")


def _prepared(value: Any) -> None:
    learned = vars(value.model) if isinstance(value.model, BaseEstimator) else {}
    need("n_features_in_" in learned, "a preparation belongs to no fitted model")
    same = len(value.preparation.features) == value.model.n_features_in_
    need(same, "a preparation has other columns than its model")


CHECKS: dict[str, Callable[[Any], None]] = {
    "Dictionary": _dictionary,
    "DistancesBack": _distances_back,
    "ExactBack": _exact_back,
    "FeatureSpace": _space,
    "Fit": _fit,
    "FittedPreimage": _preimage,
    "FourierSections": _fourier,
    "Gauge": _gauge,
    "IncrementalKernelPCA": _incremental,
    "KernelPCA": _kernel_pca,
    "KernelPCADetector": _detector,
    "KernelSections": _kernel_sections,
    "Nystrom": _landmarks,
    "PCA": _pca,
    "PolynomialMap": _polynomial,
    "Preparation": _preparation,
    "Prepared": _prepared,
    "Projection": _projection,
    "SearchBack": _search_back,
    "Stream": _stream,
    "sklearn.KernelPCA": _drop_in,
}


def check_object(name: str, value: Any) -> None:
    """Raise a `ModelFileError` when an object of that name in a file can't be used as it is."""
    # An estimator that is not fitted has learned nothing that could disagree.
    if name in CHECKS and not (
        isinstance(value, BaseEstimator) and not hasattr(value, "n_features_in_")
    ):
        CHECKS[name](value)
