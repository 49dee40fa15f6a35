"""Limits of a detector: from rows held out, from the training rows, or from distributions."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import check_cv

from mercer._core.errors import DetectorWarning, InputError, MercerWarning
from mercer.estimators.detector_parts import Rule, Scale, listed, part_model
from mercer.estimators.validation import users_level
from mercer.kernels import Laplacian
from mercer.kernels.stationary import Radial
from mercer.model.limits import Limits, approximate_limits, held_out_limits, in_sample_limits
from mercer.model.statistics import Gauge, Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Array, Indices
    from mercer.estimators.base import Projector

# Rows that a model needs beyond its components before anything off them, or between them, can be judged.
SPARE = 3
# Rows for each component below which limits are not to be relied on.
HELD_OUT_ROWS, APPROXIMATE_ROWS = 3, 5


def found_limits(
    rule: Rule, model: Projector, x: Array, folds: Any, scale: Scale, *, rescale: bool, names: Any
) -> Limits:
    """From rows held out, from the training rows, or from distributions."""
    gauge, fit = Gauge.of(model.fit_), model.fit_
    k = model.n_components_
    if rule.in_sample:
        return in_sample_limits(gauge(scale(x)), rule.rate, rounding=gauge.rounding)
    if rule.method == "approximate":
        if fit.weight < k + SPARE:
            raise InputError(_too_few(k, len(x), "the F approximation"))
        _tell_many(k, len(x), APPROXIMATE_ROWS)
        return approximate_limits(
            gauge(scale(x)), rule.rate, n=fit.weight, k=k, rounding=gauge.rounding
        )
    splits = list(_splits(folds, len(x)))
    found = list(_held_out(model, x, splits, scale, rescale=rescale))
    _tell_many(k, min(len(train) for train, _ in splits), HELD_OUT_ROWS)
    _tell_lost(model, x, [train for train, _ in splits], [part_k for _, part_k in found], names)
    held = Statistics.joined([seen for seen, _ in found])
    return held_out_limits(held, rule.rate, rounding=gauge.rounding)


def _held_out(
    model: Projector,
    x: Array,
    splits: list[tuple[Indices, Indices]],
    scale: Scale,
    *,
    rescale: bool,
) -> Iterator[tuple[Statistics, int]]:
    """T² and Q of the rows of each fold, by a model (and a scale) that has not seen them; and its size."""
    for train, test in splits:
        if len(train) < model.n_components_ + SPARE:
            raise InputError(_too_few(model.n_components_, len(train), "a model without one fold"))
        own = Scale.of(x[train], scale) if rescale else scale
        with warnings.catch_warnings():  # the fit to all rows has told already
            warnings.simplefilter("ignore", MercerWarning)
            part = part_model(model, len(train)).fit(own(x[train]))
        yield Gauge.of(part.fit_)(own(x[test])), part.n_components_


# ── folds ───────────────────────────────────────────────────────────────────
def check_folds(folds: Any) -> None:
    """Whether these are folds at all, used or not."""
    if isinstance(folds, Integral) and not isinstance(folds, bool):
        if int(folds) >= 2:
            return
    elif not isinstance(folds, (str, bool)) and hasattr(folds, "split"):
        return
    msg = (
        f"folds={folds!r} came. Needed: a whole number of folds, from 2 to the number of rows, or a "
        "splitter such as KFold(5, shuffle=True)."
    )
    raise InputError(msg)


def _splits(folds: Any, n: int) -> Iterator[tuple[Indices, Indices]]:
    """A number is that many stretches of neighbouring rows; anything else is a splitter of scikit-learn."""
    if isinstance(folds, Integral) and int(folds) > n:
        msg = (
            f"folds={folds} came for {n} rows. Needed: a whole number from 2 to {n}. Give more rows (a few "
            f"hundred make limits that hold), or set `folds` to at most {n}."
        )
        raise InputError(msg)
    try:
        yield from check_cv(folds).split(np.empty((n, 1)))
    except (TypeError, ValueError) as error:
        msg = (
            f"folds={folds!r} does not split {n} rows without labels or groups: {error} Use folds=5, or "
            "a splitter that needs rows alone, such as KFold(5, shuffle=True)."
        )
        raise InputError(msg) from error


def _too_few(k: int, n: int, what: str) -> str:
    return (
        f"Limits were asked from {n} rows for {k} components, but {what} needs at least {k + SPARE} "
        "rows. Lower `n_components`, use a wider kernel, or give more rows."
    )


# ── what to tell ────────────────────────────────────────────────────────────
def _tell_many(k: int, n: int, rows_each: int) -> None:
    """Warn of so many components that T² of new rows hangs on directions that are hardly known."""
    if n >= rows_each * k:
        return
    msg = (
        f"{k} components came from {n} rows, but limits hold from about {rows_each} rows a component on: "
        "expect other shares of false alarms than asked for. Lower `n_components`, use a wider kernel, or "
        "give more rows."
    )
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())


def _tell_lost(
    model: Projector, x: Array, trains: list[Indices], sizes: list[int], names: Any
) -> None:
    """Warn of what a fold takes away from the rest: its held-out rows look far out, and limits too high."""
    moving = Scale.of(x).spread > 0.0
    stopped = np.zeros(x.shape[1], dtype=bool)
    for train in trains:
        stopped |= moving & (Scale.of(x[train]).spread == 0.0)
    columns = np.flatnonzero(stopped)
    if len(columns):
        msg = (
            f"{len(columns)} column(s) change in one stretch of the rows only: {listed(columns, names)}. "
            "Without that stretch they stand still, so its rows look far out and the limits are too high "
            "to see much. Use folds=KFold(5, shuffle=True), or drop the column(s)."
        )
        warnings.warn(msg, DetectorWarning, stacklevel=users_level())
    elif min(sizes) < model.n_components_:
        msg = (
            f"A model without one fold has {min(sizes)} components, that of all rows "
            f"{model.n_components_}: the rows of that fold are unlike the others, and the limits may be too "
            "high. Use folds=KFold(5, shuffle=True), or lower `n_components`."
        )
        warnings.warn(msg, DetectorWarning, stacklevel=users_level())


def tell_blind(model: Projector, rule: Rule, limits: Limits, x: Array) -> None:
    """Warn of a kernel so narrow that a row far from everything is no alarm: Q is bounded there."""
    if not isinstance(getattr(model, "kernel_", None), (Radial, Laplacian)):
        return
    far = Gauge.of(model.fit_).nowhere(x)
    if far is None or rule.index(limits, far)[0] > rule.limit(limits):
        return
    if rule.statistic == "T2":
        msg = (
            "A row far from everything would not alarm: its kernel values vanish, and T² alone does not see "
            "that. Use statistic='combined', or a wider kernel."
        )
    else:
        msg = (
            "The kernel is too narrow: a row far from everything would not alarm, as normal rows that were "
            "not fitted to lie as far from the components as it does. Use a wider kernel."
        )
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())
