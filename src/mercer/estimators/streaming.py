"""From batches of rows to the running sums of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from mercer._core.errors import InputError, MercerWarning
from mercer._core.findings import warn
from mercer._core.observer import SILENT, Observer
from mercer._core.params import Number, Whole, require
from mercer._core.types import Array, Rows
from mercer.data.intake import admitted
from mercer.data.rows import RowSource, row_blocks
from mercer.data.sources import as_source
from mercer.engine.resolve import facts_for, resolve_engine
from mercer.estimators.input import (
    as_generator,
    check_kernel_rows,
    check_n_components,
    check_rows,
    new_rows,
    outweighs,
    remember,
)
from mercer.estimators.preimages import named_preimage, refuse_stream_preimage
from mercer.kernels import RBF, Kernel, as_kernel
from mercer.kernels.algebra import placed
from mercer.kernels.rows import as_given, column_names
from mercer.stream.dictionary import ROUNDING, row_weights, stacked
from mercer.stream.incremental import Rules, Stream

# Rules for a width that one point can't answer.
SPREADS = ("median", "scale")


def stream_rules(model: Any) -> Rules:
    """The knobs of an estimator, checked."""
    for name in ("max_landmarks", "batch_size"):
        require(name, getattr(model, name), Whole(1))
    size = int(model.max_landmarks)
    asked = check_n_components(model.n_components, size, "max_landmarks")
    tol = require("tol", model.tol, Number(0, 1, ends="[)"), remedy="It is a share of the trace.")
    why = "1 forgets nothing, 0.999 counts the last thousand rows or so."
    forgetting = require("forgetting", model.forgetting, Number(0, 1, ends="(]"), remedy=why)
    # One more than the components: centring takes one away.
    least = min(asked + 1, size) if isinstance(asked, int) else 0
    return Rules(size, float(tol), float(forgetting), least)


def batch_rows(model: Any, X: Any, past: Stream | None) -> Rows:
    """The next rows, checked against those before them."""
    if past is not None:
        return new_rows(model, X, past.dtype)
    source = as_source(X)
    if source is not None:
        return source
    # The first batch says which columns there are, and is then checked as any other: of one row too.
    twin = copy(model)
    X = admitted(X)
    remember(twin, X, X)
    return check_rows(twin, X, reset=False)


def read(
    model: Any,
    past: Stream | None,
    like: Any,
    x: Rows,
    weights: Array | None,
    *,
    observer: Observer = SILENT,
) -> Stream:
    """The stream after these rows; nothing of the model has changed yet.

    ``like`` is what the user handed over: a function as a kernel sees rows of that kind.
    """
    model = _placed(model, past, like, x)
    engine, rules = resolve_engine(model.engine), stream_rules(model)
    stream = None if past is None else past.on(engine)
    if past is not None:
        _require_same_kernel(model, past)
    for i, block in row_blocks(x, int(model.batch_size)):
        w = None if weights is None else weights[i]
        if w is not None and not w.all():  # a row of weight zero is one that is not there
            block, w = block[np.flatnonzero(w)], w[w > 0]  # noqa: PLW2901
        if block.shape[0]:
            if stream is None:
                stream = _start(model, block, w, like).on(engine)
                kernel = stream.dictionary.kernel
                facts_for(model.engine, engine.facts(), kernel, block)  # raises if it can't run it
            elif _waits(model, stream):
                stream = _restarted(model, stream, block, w, rules=rules, like=like)
            check_kernel_rows(stream.dictionary.kernel, block)
            _warn_lopsided(stream, w, int(block.shape[0]), rules)
            _warn_outgrown(model, stream, block)
            stream = stream.absorbed(block.astype(stream.dtype, copy=False), w, rules)
        if observer.step(i.stop, int(x.shape[0]), "rows", None):
            break
    if stream is None:
        msg = "sample_weight must be above zero for at least one row; got zeros only."
        raise InputError(msg)
    if isinstance(x, RowSource):
        x.check_unchanged()
    refuse_stream_preimage(named_preimage(model.preimage), stream)
    return stream


def _placed(model: Any, past: Stream | None, like: Any, x: Rows) -> Any:
    """The model with positions where its kernel has names of columns; the model itself where it has none."""
    names = column_names(like, x)
    if names is None and past is not None:  # later batches may be arrays
        names = getattr(model, "feature_names_in_", None)
    kernel = as_kernel(model.kernel)
    found = placed(kernel, None if names is None else list(names))
    return model if found is kernel else model._copied(kernel=found)


def _require_same_kernel(model: Any, past: Stream) -> None:
    """A stream has one kernel from its first row on; a rule that was read off that batch stays."""
    asked, has = as_kernel(model.kernel), past.dictionary.kernel
    if not asked.is_data_dependent and repr(asked) != repr(has):
        rng = as_generator(model.random_state)
        resolved = asked.resolve(past.dictionary.points, rng=rng)
        if repr(resolved) != repr(has):
            msg = (
                f"A stream keeps the kernel of its first batch, {has!r}; got kernel={asked!r}. Call `fit` to "
                "begin anew, or set the kernel back."
            )
            raise InputError(msg)


def _start(
    model: Any, rows: Rows, weights: Array | None, like: Any, seed: int | None = None
) -> Stream:
    """A stream of no rows yet, with the width that these rows tell."""
    kernel, rng = as_kernel(model.kernel), as_generator(model.random_state)
    if kernel.is_precomputed:
        msg = (
            "kernel='precomputed' can't be streamed: later rows would need kernel values against "
            "landmarks that are not chosen yet. Use a kernel object, or `KernelPCA`."
        )
        raise InputError(msg)
    kernel.check_rows(rows)
    seen = rows if kernel.parallel else as_given(like, rows)
    resolved = kernel.resolve(seen, rng=rng, weights=weights)
    return Stream.start(resolved, rows, seed=int(rng.integers(2**32)) if seed is None else seed)


# The part of the variance that rounding may make up before it is told.
DROWNED = 1e-2

# A stream with less than this share of variance, and a dictionary of one point, has seen one point.
STILL = 1e-9


def _waits(model: Any, stream: Stream) -> bool:
    """Whether a width is to be read off rows, but all of them so far are one point and tell none."""
    if stream.dictionary.size != 1:
        return False
    kernel, point = as_kernel(model.kernel), stream.dictionary.points
    if not _reads_spread(kernel):
        return False
    moved = float(stream.moments.scatter[0, 0]) + stream.error
    if moved > STILL * stream.trace:
        return False
    untold = _numbers(kernel.resolve(point, rng=as_generator(model.random_state)))
    has = _numbers(stream.dictionary.kernel)
    return len(has) == len(untold) and np.allclose(has, untold, rtol=1e-9, atol=0.0)


def _warn_lopsided(stream: Stream, weights: Array | None, n: int, rules: Rules) -> None:
    """Warn where one row, or the one point before these, outweighs the rest by more than a stream can tell.

    What a dictionary misses is known to `ROUNDING` of Σ w k(x, x), and counts as variance: that of the other
    rows, which is all there is, drowns in it.
    """
    left, w = row_weights(weights, n, rules.forgetting)
    past = left * stream.moments.weight
    times = outweighs(w, past)
    if stream.dictionary.size == 1 and stream.n_rows:
        times = max(times, past / float(w.sum()))
    if times > DROWNED / ROUNDING:
        msg = (
            f"One row weighs {times:.2g} times all other rows so far; beyond {DROWNED / ROUNDING:.1g} times, "
            "the shares of variance of a stream are too small, since what its landmarks miss is known to "
            f"{ROUNDING:g} of the total only. Lower that weight, or drop the row."
        )
        warn(msg, MercerWarning)


def _numbers(kernel: Kernel) -> list[float]:
    return [float(v) for v in kernel.get_params().values() if isinstance(v, Real)]


def _restarted(
    model: Any, stream: Stream, rows: Rows, weights: Array | None, *, rules: Rules, like: Any
) -> Stream:
    """The stream of the one point so far, with the width that it and the next rows tell together.

    The point stands for all rows before, with their weight, so that the width is the one that a first batch
    of all these rows would have told.
    """
    point, past = stream.dictionary.points, stream.moments.weight
    pool = stacked(point, rows)
    counts = np.append(past, np.ones(int(rows.shape[0])) if weights is None else weights)
    began = _start(model, pool, counts, like, stream.seed).on(stream.dictionary.engine)
    if pool.shape[0] == 2 and repr(began.dictionary.kernel) != repr(stream.dictionary.kernel):
        msg = (
            f"{as_kernel(model.kernel)!r} takes its width from the first rows that differ, and those are "
            "two: the width is the distance between them. Begin with more rows, or give the width as a "
            "number."
        )
        warn(msg, MercerWarning)
    began = began.absorbed(point, np.array([past]), replace(rules, forgetting=1.0))
    return replace(began, n_rows=stream.n_rows)


# Later rows this many times as far apart as those that the width was read off have outgrown it: at most
# exp(-100²/2) is left of a Gaussian kernel between them, which is zero.
OUTGROWN = 100.0
FEW_ROWS = 50  # that a distance is taken over, of a batch and of the landmarks


def _warn_outgrown(model: Any, stream: Stream, rows: Rows) -> None:
    """Warn when the first rows that are far wider apart than the kernel's width arrive.

    Once: from then on the landmarks are as far apart. Batches of a few rows are judged beside landmarks.
    """
    kernel, points = as_kernel(model.kernel), stream.dictionary.points
    if not stream.n_rows or not kernel.parallel or not _reads_spread(kernel):
        return
    few = int(rows.shape[0]) < FEW_ROWS
    wider = _growth(model, stream, stacked(points, rows) if few else rows)
    if wider > OUTGROWN >= _growth(model, stream, points):
        msg = (
            f"These rows lie about {wider:.2g} times as far apart as the first ones, which the width in "
            f"{stream.dictionary.kernel!r} was read off and which it keeps; to a kernel this narrow all of "
            "them are alone. Give the width as a number, such as kernel=RBF(gamma=0.1), or begin with rows "
            "that look like the rest."
        )
        warn(msg, MercerWarning)


def _growth(model: Any, stream: Stream, rows: Rows) -> float:
    """How many times the stream's width the one of these rows would be; 0 where they tell none."""
    n = int(rows.shape[0])
    some = rows[np.linspace(0, n - 1, min(n, FEW_ROWS)).astype(int)] if n > 1 else rows
    kernel, rng = as_kernel(model.kernel), as_generator(model.random_state)
    alike, told = (kernel.resolve(part, rng=rng) for part in (some[:1], some))
    if _numbers(told) == _numbers(alike):
        return 0.0
    return max(_widths(stream.dictionary.kernel, told), default=0.0)


def _widths(has: Kernel, told: Kernel) -> Iterator[float]:
    """Ratios of the widths of two kernels of one form, part by part."""
    for name in ("gamma", "length_scale"):
        ours, theirs = getattr(has, name, None), getattr(told, name, None)
        if isinstance(ours, Real) and isinstance(theirs, Real):
            wide = float(ours) / float(theirs) if name == "gamma" else float(theirs) / float(ours)
            # A gamma of a Gaussian is one over a squared distance.
            yield wide**0.5 if isinstance(has, RBF) else wide
    for part, other in zip(has.children, told.children, strict=True):
        yield from _widths(part, other)


def _reads_spread(kernel: Kernel) -> bool:
    """Whether a width is to be read off the spread of the rows, not off their number of columns."""
    own = kernel.is_data_dependent and any(
        isinstance(value, str) and value in SPREADS
        for value in kernel.get_params(deep=False).values()
    )
    return own or any(_reads_spread(child) for child in kernel.children)
