"""Whether the parts of a loaded estimator agree with each other, and with the preparation of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.io.agreement import VALUE_CHECKS, need, sizes, width_in
from mercer.io.known_types import found

if TYPE_CHECKING:
    from collections.abc import Callable


def check_object(name: str, value: Any) -> None:
    """Raise a `ModelFileError` when an object of that name in a file can't be used as it is."""
    check = _CHECKS.get(name)
    if check is not None:
        check(value)


def _columns(model: Any, d: int) -> None:
    """A fitted model has as many columns as its parts."""
    names = vars(model).get("feature_names_in_")
    need(model.n_features_in_ == d, f"a model of {d} columns says it has {model.n_features_in_}")
    need(names is None or len(names) == d, f"a model of {d} columns has other names")


def _kernel_pca(model: Any) -> None:
    if "fit_" not in vars(model):
        return
    projection = model.fit_.projection
    _columns(model, width_in(projection.sections))
    model.kernel_.check_parameters()
    back = vars(model).get("preimage_")
    if back is not None:
        need(sizes(back.back)[0] == projection.n_components, "a way back has other components")


def _pca(model: Any) -> None:
    if "fit_" not in vars(model):
        return
    _columns(model, width_in(model.fit_.projection.sections))
    need(len(model.mean_) == model.n_features_in_, "a mean has another width than its model")


def _incremental(model: Any) -> None:
    if "stream_" not in vars(model):
        return
    # What a stream does next depends on its parameters too.
    found("mercer.estimators.reading:stream_rules")(model)
    method = found("mercer.estimators.parts:named_preimage")(model.preimage)
    found("mercer.estimators.parts:refuse_stream_preimage")(method, model.stream_)
    _columns(model, int(model.stream_.dictionary.points.shape[1]))
    with np.errstate(all="ignore"):  # sums that no rows have may not have a solution
        cached = getattr(model, "fit_", None)  # None: no variance yet
    back = vars(model).get("_back")
    if cached is not None:
        same = width_in(cached.projection.sections) == model.n_features_in_
        need(same, "what a stream has solved is of other columns")
    if back is not None:
        kinds = [found(f"mercer.{home}") for home in _BACK]
        right = isinstance(back, tuple) and len(back) == 3
        right = right and all(isinstance(b, kind) for b, kind in zip(back, kinds, strict=True))
        need(right, "a stream's way back is none")


_BACK = ("model.result:Fit", "preimage.base:Preimage", "preimage.base:FittedPreimage")


def _detector(model: Any) -> None:
    if "model_" not in vars(model):
        return
    d = model.model_.n_features_in_
    _columns(model, d)
    parts = (model.center_, model.spread_, model._scale.mean, model._baselines.rows.T)
    need(all(len(part) == d for part in parts), "a detector scales other columns than it has")
    need(model._baselines.rows.shape == model.baselines_.shape, "a detector has two baselines")
    need(len(model.baselines_) >= 1, "a detector has no baseline")
    aside = getattr(model, "set_aside_", None)  # detectors saved earlier have none
    need(aside is None or aside.shape[1] == 3, "a detector has set aside what is no reading")
    statistics = found("mercer.estimators.detector_parts:STATISTICS")
    need(model._rule.statistic in statistics, f"a detector goes by {model._rule.statistic!r}")
    need(width_in(model._gauge.space.projection.sections) == d, "a detector gauges other columns")


def _drop_in(model: Any) -> None:
    if "_projection" not in vars(model):
        return
    _columns(model, int(model.X_fit_.shape[1]))
    need(width_in(model._projection.sections) == model.n_features_in_, "a projection lacks columns")
    need(len(model.eigenvalues_) == model._projection.n_components, "a model lacks eigenvalues")


def _preparation(value: Any) -> None:
    words, size = value.categories, value.image_shape
    right = isinstance(words, tuple) and all(isinstance(w, tuple) and len(w) == 2 for w in words)
    right = right and all(isinstance(name, str) and _are_texts(levels) for name, levels in words)
    need(right, "the categories of a preparation are none")
    whole = (
        isinstance(size, tuple) and len(size) == 2 and all(type(s) is int and s > 0 for s in size)
    )
    need(size is None or whole, "the size of an image is none")
    need(value.fills is None or len(value.fills) == len(value.numbers), "a preparation lacks fills")
    for scale in (value.center, value.spread):
        need(scale is None or len(scale) == len(value.features), "a preparation lacks a scale")
        need(scale is None or bool(np.all(np.isfinite(scale))), "a scale is not finite")
    need(value.spread is None or bool(np.all(value.spread > 0)), "a preparation divides by zero")


def _are_texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, str) for value in values)


def _prepared(value: Any) -> None:
    need("n_features_in_" in vars(value.model), "what was prepared for is not fitted")
    need(
        len(value.preparation.features) == value.model.n_features_in_, "a preparation lacks columns"
    )


_CHECKS: dict[str, Callable[[Any], None]] = {
    **VALUE_CHECKS,
    "IncrementalKernelPCA": _incremental,
    "KernelPCA": _kernel_pca,
    "KernelPCADetector": _detector,
    "PCA": _pca,
    "Preparation": _preparation,
    "Prepared": _prepared,
    "sklearn.KernelPCA": _drop_in,
}
