"""Whether the parts of a loaded object agree: lengths, finite numbers, kernels that can be computed.

A file whose checksums are right may still have been written by anybody. What is looked at here is what the
mathematics relies on without a look of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mercer._core.errors import ModelFileError
from mercer.engine.rows import first_bad, row_blocks
from mercer.io.known_types import found
from mercer.kernels.map_base import MAX_COLUMNS
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.preimage.distances import DistancesBack
from mercer.preimage.exact import ExactBack
from mercer.preimage.ridge import RidgeBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Rows
    from mercer.kernels.base import Kernel
    from mercer.kernels.feature_map import PolynomialMap

MOST_DEGREE = 1000
BLOCK = 2**20  # numbers that are looked at together


def check_object(name: str, value: Any) -> None:
    """Raise a `ModelFileError` when an object of that name in a file can't be used as it is."""
    if name in _CHECKS:
        _CHECKS[name](value)


def _need(holds: Any, why: str) -> None:
    if not holds:
        _wrong(why)


def _wrong(why: str) -> NoReturn:
    raise ModelFileError(why)


# ── rows and kernels ────────────────────────────────────────────────────────
def _finite(x: Rows, what: str) -> None:
    if x.ndim == 1:
        x = x[None, :]
    for _, block in row_blocks(x, max(1, BLOCK // max(1, int(x.shape[1])))):
        _need(first_bad(block) is None, f"{what} are not all finite")


def _kernel(kernel: Kernel, points: Rows) -> None:
    """The kernel has numbers for parameters, and is defined on the points."""
    kernel.check_parameters()
    _need(not kernel.is_data_dependent, f"{kernel!r} still waits for data")
    _need(not kernel.is_precomputed, "a precomputed kernel has no points")
    if points.shape[0] == 0:
        return
    kernel.check_rows(points)
    with np.errstate(all="ignore"):
        _need(
            kernel.tile(points[:1], points[:1]).shape == (1, 1),
            f"{kernel!r} gives no kernel values",
        )


def _kernel_sections(value: Any) -> None:
    _need(min(value.points.shape) >= 1, "a model rests on no points")
    _finite(value.points, "the points of a model")
    _kernel(value.kernel, value.points)


def _dictionary(value: Any) -> None:
    _finite(value.points, "the points of a dictionary")
    _kernel(value.kernel, value.points)


def _fourier(value: Any) -> None:
    _need(min(value.frequencies.shape) >= 1, "there are no random frequencies")
    _finite(value.frequencies, "random frequencies")
    _finite(value.centre, "the numbers of a centre")
    _need(np.isfinite(value.amplitude) and value.amplitude >= 0, "an amplitude is negative")


def _polynomial(value: PolynomialMap) -> None:
    _need(value.degree <= MOST_DEGREE, f"a polynomial has a degree above {MOST_DEGREE}")


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
    _need(
        value.sections.width == len(value.coef), "a projection has another width than its sections"
    )
    _need(value.coef.dtype == value.offset.dtype, "a projection has two precisions")
    _finite(value.coef, "the coefficients of a model")
    _finite(value.offset, "the offsets of a model")
    if isinstance(value.sections, FeatureSections):
        d = width_in(value.sections)
        _need(d <= MAX_COLUMNS, f"a feature map takes {d} columns")
        value.sections.feature_map(np.zeros((1, d)))


def _space(value: Any) -> None:
    same = len(value.mean.coef) == value.projection.sections.width
    _need(same, "the mean of a model has another width than its sections")


def _fit(value: Any) -> None:
    _space(value)
    k, n = value.projection.n_components, len(value.pairs.vectors)
    _need(len(value.pairs.values) == k, "a fit has other eigenvalues than components")
    _need(value.roots is None or value.is_low_rank or len(value.roots) == n, "weights lack rows")
    _need(value.weight > 0, "a fit has no rows")


def _gauge(value: Any) -> None:
    k = value.space.projection.n_components
    _need(len(value.variances) == k, "a gauge has other variances than components")


def _stream(value: Any) -> None:
    _need(len(value.moments.mean) == value.dictionary.size, "a stream lost a part of its moments")
    _need(value.seed >= 0 and value.n_rows >= 0, "a stream has a negative count")


# ── the way back ────────────────────────────────────────────────────────────
def _search_back(value: Any) -> None:
    value.method.check_knobs()
    _near(value)


def _distances_back(value: Any) -> None:
    value.method.check(value.kernel)
    _kernel(value.kernel, value.near.rows[:1])
    _near(value)
    n, d = value.near.rows.shape
    _need(
        len(value.own) == n and len(value.centre) == d, "a way back has other rows than distances"
    )


def _near(value: Any) -> None:
    projection = value.space.projection
    _need(len(value.near.scores) >= 2, "a way back has no rows")
    _need(value.near.scores.shape[1] == projection.n_components, "a way back has other components")
    _need(value.near.rows.shape[1] == width_in(projection.sections), "a way back has other columns")


def _exact_back(value: ExactBack) -> None:
    value.kernel.check_parameters()
    _need(value.kernel.dot_product(np.ones(1)) is not None, f"{value.kernel!r} can't be undone")
    _need(value.c != 0, "a way back divides by zero")


def _sizes(back: Any) -> tuple[int, int]:
    """Components and columns of a way back."""
    if isinstance(back, RidgeBack):
        return width_in(back.projection.sections), back.projection.n_components
    if isinstance(back, ExactBack):
        return int(back.slopes.shape[1]), int(back.slopes.shape[0])
    assert isinstance(back.near.scores, np.ndarray)
    return int(back.near.scores.shape[1]), int(back.near.rows.shape[1])


def _preimage(value: Any) -> None:
    k, d = _sizes(value.back)
    _need(len(value.centre) == d, "a way back has a centre of another width")
    if value.space is not None:
        _need(value.space.projection.n_components == k, "a way back has other components")
    if not isinstance(value.back, (DistancesBack, ExactBack)):
        assert value.method is not None


# ── estimators ──────────────────────────────────────────────────────────────
def _columns(model: Any, d: int) -> bool:
    """Whether a model is fitted; if so, it has as many columns as its parts."""
    if "n_features_in_" not in vars(model):
        return False
    names = vars(model).get("feature_names_in_")
    _need(model.n_features_in_ == d, f"a model of {d} columns says it has {model.n_features_in_}")
    _need(names is None or len(names) == d, f"a model of {d} columns has {len(names or ())} names")
    return True


def _kernel_pca(model: Any) -> None:
    if "fit_" not in vars(model):
        return
    projection = model.fit_.projection
    _columns(model, width_in(projection.sections))
    model.kernel_.check_parameters()
    back = vars(model).get("preimage_")
    if back is not None:
        _need(_sizes(back.back)[0] == projection.n_components, "a way back has other components")


def _pca(model: Any) -> None:
    if "fit_" not in vars(model):
        return
    _columns(model, width_in(model.fit_.projection.sections))
    _need(len(model.mean_) == model.n_features_in_, "a mean has another width than its model")


def _incremental(model: Any) -> None:
    if "stream_" not in vars(model):
        return
    found("mercer.estimators.reading:stream_rules")(model)
    _columns(model, int(model.stream_.dictionary.points.shape[1]))
    back = vars(model).get("_back")
    if back is not None:
        kinds = [found(f"mercer.{home}") for home in _BACK]
        right = isinstance(back, tuple) and len(back) == 3
        right = right and all(isinstance(b, kind) for b, kind in zip(back, kinds, strict=True))
        _need(right, "a stream's way back is none")


_BACK = ("model.result:Fit", "preimage.base:Preimage", "preimage.base:FittedPreimage")


def _detector(model: Any) -> None:
    if "model_" not in vars(model):
        return
    d = model.model_.n_features_in_
    _columns(model, d)
    parts = (model.center_, model.spread_, model._scale.mean, model._baselines.rows.T)
    _need(all(len(part) == d for part in parts), "a detector scales other columns than it has")
    _need(model._baselines.rows.shape == model.baselines_.shape, "a detector has two baselines")
    _need(len(model.baselines_) >= 1, "a detector has no baseline")
    statistics = found("mercer.estimators.detector_parts:STATISTICS")
    _need(model._rule.statistic in statistics, f"a detector goes by {model._rule.statistic!r}")
    _need(width_in(model._gauge.space.projection.sections) == d, "a detector gauges other columns")


def _drop_in(model: Any) -> None:
    if "_projection" not in vars(model):
        return
    _columns(model, int(model.X_fit_.shape[1]))
    _need(
        width_in(model._projection.sections) == model.n_features_in_, "a projection lacks columns"
    )
    _need(len(model.eigenvalues_) == model._projection.n_components, "a model lacks eigenvalues")


def _prepared(value: Any) -> None:
    _need("n_features_in_" in vars(value.model), "what was prepared for is not fitted")
    _need(
        len(value.preparation.features) == value.model.n_features_in_, "a preparation lacks columns"
    )


_CHECKS: dict[str, Callable[[Any], None]] = {
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
    "PCA": _pca,
    "PolynomialMap": _polynomial,
    "Prepared": _prepared,
    "Projection": _projection,
    "SearchBack": _search_back,
    "Stream": _stream,
    "sklearn.KernelPCA": _drop_in,
}
