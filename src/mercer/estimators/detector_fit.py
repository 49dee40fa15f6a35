"""What a detector fits: its model, the same model on folds of the rows, and the limits that these give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv

from mercer._core.errors import (
    DetectorWarning,
    InputError,
    MemoryBudgetError,
    MercerError,
    ParameterError,
    many,
    refuse,
)
from mercer._core.findings import silenced, warn
from mercer._core.memory import available_bytes, format_bytes
from mercer._core.params import Whole, is_whole
from mercer._core.types import Array, Flags, Indices, Rows
from mercer._core.wording import Message
from mercer.data.dask import DaskRows
from mercer.engine.base import Engine
from mercer.engine.moments import Scale
from mercer.estimators.base import Projector
from mercer.estimators.input import as_generator
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.preimages import named_approximation
from mercer.kernels import RBF, Kernel, Linear, as_kernel
from mercer.kernels.algebra import placed
from mercer.kernels.rows import column_names
from mercer.monitoring.limits import (
    Limits,
    Rule,
    approximate_limits,
    held_out_limits,
    in_sample_limits,
)
from mercer.monitoring.rows import chosen, made, moves, scale_of
from mercer.monitoring.set_aside import listed
from mercer.monitoring.slowness import (
    HeldOut,
    Slowness,
    held_out_stretches,
    second_run,
    smaller_sizes,
    warn_optimistic,
    warn_stray_runs,
)
from mercer.monitoring.statistics import Gauge, Statistics

# σ of the default kernel, in median distances. A narrow kernel takes the rows it has seen for all there is of
# normal, and what bends in it hides small faults from Q: docs/monitoring.md has figures for both.
WIDE = 16.0
# Rows that a model needs beyond its components before anything off them, or between them, can be judged.
SPARE = 3
# Rows for each component below which limits are not to be relied on.
HELD_OUT_ROWS, APPROXIMATE_ROWS = 3, 5
# What this process holds of a row on workers: T² and Q, once more while limits are made of them, and where
# the row is. Of a slow process T² and Q are looked at for several numbers of components, in two ways.
CLIENT_BYTES, SIZE_BYTES = 64, 40


# ── the model ───────────────────────────────────────────────────────────────
def chosen_model(
    detector: Any, x: Rows, weights: Array | None = None, names: Any = None
) -> Projector:
    """A fresh model: a clone of the one that was given, or a kernel PCA with the detector's parameters."""
    # It is fitted to scaled rows, which have no names: columns of a kernel get their positions here.
    names = column_names(None, SimpleNamespace(columns=names))
    given = detector.model
    if given is not None:
        if not isinstance(given, Projector):
            wanted = "a KernelPCA, PCA or IncrementalKernelPCA"
            remedy = "Pass an object, such as model=PCA(0.95)."
            refuse("model", given, wanted, f"a {type(given).__name__}", remedy)
        _refuse_both(detector)
        model: Projector = clone(given)
        # Neither pre-images nor whitened scores are asked for; T² divides by the variances itself.
        has = model.get_params(deep=False)
        unused = {"preimage": None, "whiten": False}
        model.set_params(**{name: value for name, value in unused.items() if name in has})
        if "kernel" in has:
            model.set_params(kernel=_placed(has["kernel"], names))
    else:
        model = KernelPCA(
            detector.n_components,
            kernel=_placed(_kernel(detector, x, weights), names),
            approximation=clone(detector.approximation, safe=False),  # names and None as they are
            memory=detector.memory,
            engine=detector.engine,
            random_state=detector.random_state,
        )
    if model.__sklearn_tags__().input_tags.pairwise:
        msg = (
            "A detector needs rows, to scale them and to hold some out; got kernel='precomputed'. Pass the "
            "kernel as a function of two matrices."
        )
        raise InputError(msg)
    return model


def _refuse_both(detector: Any) -> None:
    """Refuse parameters that were set beside a model, which has its own: they would go unused unnoticed."""
    usual = signature(type(detector)).parameters
    # Not `n_components`, which scikit-learn's checks set on every estimator that has it.
    asked = ("kernel", "approximation", "memory", "engine")
    for name in [name for name in asked if name in usual]:  # a subclass may have others
        value, default = getattr(detector, name), usual[name].default
        if value is not default and not (isinstance(value, type(default)) and value == default):
            msg = f"Got {name}={value!r} and a `model`, which has its own. Set it there, or leave one out."
            raise InputError(msg)


def _kernel(detector: Any, x: Rows, weights: Array | None) -> Kernel | Any:
    if not (isinstance(detector.kernel, str) and detector.kernel == "auto"):
        return clone(detector.kernel, safe=False)
    median = RBF().resolve(x, rng=as_generator(detector.random_state), weights=weights)
    return RBF(float(median.gamma) / WIDE**2)  # type: ignore[arg-type]


def _placed(kernel: Any, names: list[str] | None) -> Any:
    """What was given as a kernel, with positions where it has names of columns."""
    found = as_kernel(kernel)
    moved = placed(found, names)
    return kernel if moved is found else moved


def part_model(model: Projector, n: int) -> Projector:
    """The fitted model again, for a part of its rows: same kernel and number of components."""
    params: dict[str, Any] = {"n_components": model.n_components_}
    if hasattr(model, "kernel_"):
        params["kernel"] = model.kernel_
    approximation = named_approximation(getattr(model, "approximation", None))
    if approximation is not None:
        params["approximation"] = approximation.at_most(n)
    return clone(model).set_params(**params)


def model_with_limits(
    rule: Rule, model: Projector, normal: Normal, folds: Any
) -> tuple[Projector, str]:
    """The fitted model, a share of the variance cut to as many components as limits hold for, and a note."""
    approximate, n, k = rule.method == "approximate", len(normal), model.n_components_
    if not (rule.in_sample or approximate):
        n = min((len(train) for train, _ in _splits(folds, normal, 0)), default=n)
    rows_each = APPROXIMATE_ROWS if approximate else HELD_OUT_ROWS
    most, share, note = max(n // rows_each, 1), model.n_components, ""
    if rule.in_sample or k <= most:
        return model, note
    msg = (
        f"{n} rows are few for {k} components: limits hold from about {rows_each} rows a component on, and "
        "false alarms may be more. Lower `n_components`, use a wider kernel, or give more rows."
    )
    if share is not None and not is_whole(share):
        model = model.truncated(most)
        note = f"{many(most, 'component')} of the {k} that keep {share:g} of the variance"
        msg = (
            f"The model has {note}: limits take {rows_each} rows a component, and {n} of {len(normal)} are "
            "left without a fold. They are for new rows; rows of the fit may lie beyond. Give more rows."
        )
    elif n < k + SPARE:  # refused, with the rows that are needed
        return model, note
    # Before the model is fitted again without each fold, which takes longest with so many components.
    warn(msg, DetectorWarning, "few-rows", {"components": k, "rows": n, "rows_each": rows_each})
    return model, note


# ── limits ──────────────────────────────────────────────────────────────────
@dataclass(frozen=True, repr=False)
class Normal:
    """The rows that limits come from: those of the fit, with their weights, names and scale."""

    rows: Rows  # (n, d), unscaled, in memory or on workers
    weights: Array | None  # (n,)
    scale: Scale
    rescale: bool  # whether a part of the rows has a scale of its own
    names: Any
    scaled: Rows  # all rows, as the model of all rows takes them
    engine: Engine[Any]  # that passes over rows
    overlap: int = 0  # rows on either side of a stretch that are in its lagged rows

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @cached_property
    def moved(self) -> Flags:  # (n,)
        """Which rows differ from the one before: one that repeats it is weight, not time."""
        return moves(self.engine, self.rows)

    @cached_property
    def moving(self) -> Flags:  # (d,)
        """Columns that don't stand still."""
        scale = self.scale if self.rescale else scale_of(self.engine, self.rows)
        return np.asarray(scale.spread > 0.0)

    def part(self, train: Indices, k: int) -> Part:
        """Some of the rows, enough of them for a model of k components."""
        if len(train) < k + SPARE:
            msg = (
                f"{len(self)} rows are too few for {many(k, 'component')}: {len(train)} are left when one "
                f"fold is held out, and {k + SPARE} are needed. Lower `n_components`, or give more rows."
            )
            raise InputError(msg)
        weights = None if self.weights is None else self.weights[train]
        found = scale_of(self.engine, chosen(self.rows, train), weights=weights)
        if self.moving.any() and not found.spread.any():
            msg = f"The {len(train)} of {len(self)} rows left when one fold is held out are all equal. "
            msg += "Use folds=KFold(5, shuffle=True), or give rows that change throughout."
            raise InputError(msg)
        scale = found.or_else(self.scale) if self.rescale else self.scale
        return Part(train, scale, weights, self.moving & (found.spread == 0.0))


@dataclass(frozen=True, repr=False)
class Part:
    """Some of the rows, for a model that sees no others."""

    train: Indices  # (m,)
    scale: Scale
    weights: Array | None  # (m,)
    stopped: Flags  # (d,), columns that stand still in it, but not in all rows

    def __len__(self) -> int:
        return len(self.train)


def found_limits(
    rule: Rule, model: Projector, normal: Normal, folds: Any
) -> tuple[Limits, Statistics | None]:
    """Limits from rows held out, with their statistics; or from the training rows, or from distributions."""
    if rule.in_sample or rule.method == "approximate":
        return _training_limits(rule, model, normal, folds), None
    k, rounding = model.n_components_, Gauge.of(model.fit_).rounding
    pace, splits = folds_in_time(rule, k, normal, folds)
    if isinstance(normal.rows, DaskRows):
        require_room(len(normal), len(smaller_sizes(k)) if pace.any else 0)
    found, stopped = [], np.zeros(len(normal.moving), dtype=bool)
    for train, test in splits:  # one at a time: positions are as many as the rows
        part = normal.part(train, k)
        found.append(_held_out(model, normal, part, test, pace))
        stopped |= part.stopped
    lost = _warn_lost(model, normal, stopped, [one.sizes[-1] for one in found])
    held = Statistics.joined([one.stretched[-1] for one in found])
    if not pace.any:
        found.clear()
    limits = held_out_limits(held, rule.rate, rounding=rounding)
    if pace.any and not lost:
        linear = isinstance(getattr(model, "kernel_", None), (Linear, type(None)))
        warn_stray_runs(rule, pace, found, limits, rounding=rounding, linear=linear)
    return limits, held


def _training_limits(rule: Rule, model: Projector, normal: Normal, folds: Any) -> Limits:
    """Limits from the training rows, or from distributions, with a warning where one fold disagrees."""
    gauge, n, k = Gauge.of(model.fit_), model.fit_.weight, model.n_components_
    if not rule.in_sample and n < k + SPARE:
        msg = (
            f"{len(normal)} rows are too few for {many(k, 'component')}: the F approximation of limits needs "
            f"{k + SPARE}. Lower `n_components`, use a wider kernel, or give more rows."
        )
        raise InputError(msg)
    warned = not rule.in_sample and len(normal) < APPROXIMATE_ROWS * k
    found = gauge(normal.scaled, normal.weights)
    if rule.in_sample:
        limits = in_sample_limits(found, rule.rate, rounding=gauge.rounding)
    else:
        limits = approximate_limits(found, rule.rate, n=n, k=k, rounding=gauge.rounding)
    if not warned:
        _check_once(rule, model, normal, folds, limits)
    return limits


def require_room(n: int, n_sizes: int = 0) -> None:
    """Raise where the statistics of rows on workers, which limits are ranks of, don't fit in this process."""
    free, each = available_bytes(), CLIENT_BYTES + SIZE_BYTES * n_sizes
    if n * each > free:
        msg = (
            f"Limits of {n} rows take {format_bytes(n * each)} in this process, {each} bytes a row (T², Q "
            f"and where the row is), and {format_bytes(free)} are free. Fit to fewer rows, every tenth say, "
            "or on a machine with more memory."
        )
        raise MemoryBudgetError(msg)


def folds_in_time(
    rule: Rule, k: int, normal: Normal, folds: Any
) -> tuple[Slowness, Iterator[tuple[Indices, Indices]]]:
    """How slow the rows are, and the folds that this asks for."""
    scaled, n = normal.scaled, int(np.count_nonzero(normal.moved))
    in_time = isinstance(folds, Integral)  # a splitter is for rows in no order
    none = Slowness.none(int(scaled.shape[1]))
    pace = Slowness.of(scaled, rule.rate, normal.engine, normal.moved) if in_time else none
    # The gaps never take rows away that the components need: with so many of them, neighbours stay in.
    room = n - -(-n // int(folds)) - max(k + SPARE, HELD_OUT_ROWS * k) if in_time else 0
    gap = max(pace.gap, normal.overlap)
    return pace, _splits(folds, normal, min(gap, max(room, 0) // 2))


def _check_once(rule: Rule, model: Projector, normal: Normal, folds: Any, limits: Limits) -> None:
    """Hold one fold against limits that come from the training rows: one more fit, not all of them."""
    try:
        pace, splits = folds_in_time(rule, model.n_components_, normal, folds)
        every = list(splits)
        train, test = every[len(every) // 2]
        part = normal.part(train, model.n_components_)
        if np.any(part.stopped):
            return
        held = _held_out(model, normal, part, test, pace)
    except MercerError:  # the other rows make no such model, which these limits don't need
        return
    if held.sizes[-1] == model.n_components_:
        warn_optimistic(rule, held.stretched[-1], limits)


def _held_out(
    model: Projector, normal: Normal, part: Part, test: Indices, pace: Slowness
) -> HeldOut:
    """T² and Q of the rows of a fold, by a model (and a scale) that has not seen them."""
    scale, rows = part.scale, made(normal.rows, part.scale, part.train)
    with silenced():  # the fit to all rows has warned already
        fitted = part_model(model, len(part)).fit(rows, sample_weight=part.weights)
    gauge, counts = Gauge.of(fitted.fit_), None if normal.weights is None else normal.weights[test]
    plain = gauge(made(normal.rows, scale, test), counts)
    if not pace.any:
        return HeldOut([fitted.n_components_], [plain], [])
    sizes = smaller_sizes(fitted.n_components_)
    second = partial(second_run, normal.scale, scale, pace)
    stretched, strayed = (
        gauge.nested(made(normal.rows, partial(second, factors), test), sizes, counts)
        for factors in (pace.stretch, pace.stray)
    )
    # Some kernels have no value there, as that of counts for a negative one: then rows count as they are.
    stretched[-1] = stretched[-1].or_else(plain)
    return HeldOut(sizes, stretched, strayed)


# ── folds ───────────────────────────────────────────────────────────────────
def check_folds(folds: Any) -> None:
    """Whether these are folds at all, used or not."""
    if not Whole(2).holds(folds) and (isinstance(folds, str) or not hasattr(folds, "split")):
        wanted = (
            "an integer from 2 to the number of rows or a splitter such as KFold(5, shuffle=True)"
        )
        raise ParameterError.about(parameter="folds", value=folds, must_be=wanted)


def _splits(folds: Any, normal: Normal, gap: int) -> Iterator[tuple[Indices, Indices]]:
    """So many stretches of neighbouring rows, or what a splitter of scikit-learn gives."""
    n = len(normal)
    if isinstance(folds, Integral):
        if n < int(folds):
            fewer = f", or set {{folds}} to at most {n}" * (n > 1)
            msg = f"{n} rows are too few for limits from {folds} folds. Give more rows (a few hundred make "
            raise InputError(Message(f"{msg}limits that hold){fewer}."))
        moments = np.cumsum(normal.moved) - 1
        yield from held_out_stretches(int(folds), moments, normal.weights, gap)
        return
    try:
        # In the order of rows, as those on workers are taken: what a fit draws depends on it.
        for train, test in check_cv(folds).split(np.empty((n, 1))):
            yield np.sort(train), np.sort(test)
    except (TypeError, ValueError) as error:
        msg = (
            f"folds={folds!r} does not split {n} rows without labels or groups: {error} Use folds=5, or "
            "a splitter that needs rows alone, such as KFold(5, shuffle=True)."
        )
        raise InputError(msg) from error


# ── warnings ────────────────────────────────────────────────────────────────
def _warn_lost(model: Projector, normal: Normal, stopped: Flags, sizes: list[int]) -> bool:
    """Warn of what a fold takes away, and say whether it has: its rows look far out, limits are too high."""
    columns = np.flatnonzero(stopped)
    if len(columns):
        msg = (
            f"{len(columns)} column(s) change in one stretch of the rows only: "
            f"{listed(columns, normal.names)}. Without that stretch they stand still, so its rows look far "
            "out and the limits are too high to see much. Use folds=KFold(5, shuffle=True), or drop the "
            "column(s)."
        )
    elif min(sizes) < model.n_components_:
        msg = (
            f"A model without one fold has {min(sizes)} components, that of all rows "
            f"{model.n_components_}: the rows of that fold are unlike the others, and the limits may be too "
            "high. Use folds=KFold(5, shuffle=True), or lower `n_components`."
        )
    else:
        return False
    warn(msg, DetectorWarning, "unlike-folds")
    return True
