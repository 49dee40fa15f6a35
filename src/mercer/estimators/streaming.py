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
# The part of the variance that rounding may make up before a warning says so.
DROWNED = 1e-2
# A stream with less than this share of variance, and a dictionary of one point, has seen one point.
STILL = 1e-9
# Later rows this many times as far apart as those that the width was read off have outgrown it: at most
# exp(-100²/2) is left of a Gaussian kernel between them, which is zero.
OUTGROWN = 100.0
FEW_ROWS = 50  # that a distance is taken over, of a batch and of the landmarks


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


class Reader:
    """Takes the next rows of a stream in, as the parameters of an estimator say; it changes no model."""

    def __init__(self, model: Any, past: Stream | None, like: Any, x: Rows) -> None:
        self.model, self.past, self.x = model, past, x
        self.like = like  # as it was handed over: a function as a kernel sees rows of that kind
        names = column_names(like, x)
        if names is None and past is not None:  # later batches may be arrays
            names = getattr(model, "feature_names_in_", None)
        self.kernel = placed(as_kernel(model.kernel), None if names is None else list(names))
        self.engine, self.rules = resolve_engine(model.engine), stream_rules(model)

    def read(self, weights: Array | None, observer: Observer = SILENT) -> Stream:
        """The stream after all rows, or after those before the observer asked to stop."""
        stream, n = None, int(self.x.shape[0])
        if self.past is not None:
            stream = self.past.on(self.engine)
            self._require_same_kernel(self.past)
        for i, block in row_blocks(self.x, int(self.model.batch_size)):
            w = None if weights is None else weights[i]
            if w is not None and not w.all():  # a row of weight zero is one that is not there
                block, w = block[np.flatnonzero(w)], w[w > 0]  # noqa: PLW2901
            if block.shape[0]:
                stream = self._after(stream, block, w)
            if observer.step(i.stop, n, "rows", None):
                break
        if stream is None:
            msg = "sample_weight must be above zero for at least one row; got zeros only."
            raise InputError(msg)
        if isinstance(self.x, RowSource):
            self.x.check_unchanged()
        refuse_stream_preimage(named_preimage(self.model.preimage), stream)
        return stream

    def _after(self, stream: Stream | None, rows: Rows, weights: Array | None) -> Stream:
        if stream is None:
            stream = self._start(rows, weights)
            kernel, facts = stream.dictionary.kernel, self.engine.facts()
            facts_for(self.model.engine, facts, kernel, rows)  # raises if it can't run it
        elif self._waits(stream):
            stream = self._restarted(stream, rows, weights)
        check_kernel_rows(stream.dictionary.kernel, rows)
        _warn_lopsided(stream, weights, int(rows.shape[0]), self.rules)
        self._warn_outgrown(stream, rows)
        return stream.absorbed(rows.astype(stream.dtype, copy=False), weights, self.rules)

    def _rng(self) -> np.random.Generator:
        return as_generator(self.model.random_state)

    def _require_same_kernel(self, past: Stream) -> None:
        """A stream has one kernel from its first row on; a rule that was read off that batch stays."""
        asked, has = self.kernel, past.dictionary.kernel
        if asked.is_data_dependent or repr(asked) == repr(has):
            return
        if repr(asked.resolve(past.dictionary.points, rng=self._rng())) != repr(has):
            msg = (
                f"A stream keeps the kernel of its first batch, {has!r}; got kernel={asked!r}. Call `fit` to "
                "begin anew, or set the kernel back."
            )
            raise InputError(msg)

    def _start(self, rows: Rows, weights: Array | None, seed: int | None = None) -> Stream:
        """A stream of no rows yet, with the width of these rows."""
        kernel, rng = self.kernel, self._rng()
        if kernel.is_precomputed:
            msg = (
                "kernel='precomputed' can't be streamed: later rows would need kernel values against "
                "landmarks that are not chosen yet. Use a kernel object, or `KernelPCA`."
            )
            raise InputError(msg)
        kernel.check_rows(rows)
        seen = rows if kernel.parallel else as_given(self.like, rows)
        resolved = kernel.resolve(seen, rng=rng, weights=weights)
        seed = int(rng.integers(2**32)) if seed is None else seed
        return Stream.start(resolved, rows, seed=seed).on(self.engine)

    def _waits(self, stream: Stream) -> bool:
        """Whether a width is to be read off rows, but all of them so far are one point, which has none."""
        if stream.dictionary.size != 1 or not _reads_spread(self.kernel):
            return False
        if float(stream.moments.scatter[0, 0]) + stream.error > STILL * stream.trace:
            return False
        alone = _numbers(self.kernel.resolve(stream.dictionary.points, rng=self._rng()))
        has = _numbers(stream.dictionary.kernel)
        return len(has) == len(alone) and np.allclose(has, alone, rtol=1e-9, atol=0.0)

    def _restarted(self, stream: Stream, rows: Rows, weights: Array | None) -> Stream:
        """The stream of the one point so far, with the width of a first batch of all these rows."""
        # The point stands for all rows before, with their weight.
        point, past = stream.dictionary.points, stream.moments.weight
        pool = stacked(point, rows)
        counts = np.append(past, np.ones(int(rows.shape[0])) if weights is None else weights)
        began = self._start(pool, counts, stream.seed)
        if pool.shape[0] == 2 and repr(began.dictionary.kernel) != repr(stream.dictionary.kernel):
            msg = (
                f"{self.kernel!r} takes its width from the first rows that differ, and those are two: the "
                "width is the distance between them. Begin with more rows, or give the width as a number."
            )
            warn(msg, MercerWarning)
        began = began.absorbed(point, np.array([past]), replace(self.rules, forgetting=1.0))
        return replace(began, n_rows=stream.n_rows)

    def _warn_outgrown(self, stream: Stream, rows: Rows) -> None:
        """Warn once of rows far wider apart than the kernel's width: later, landmarks are as far apart."""
        kernel, points = self.kernel, stream.dictionary.points
        if not stream.n_rows or not kernel.parallel or not _reads_spread(kernel):
            return
        few = int(rows.shape[0]) < FEW_ROWS  # which are judged beside landmarks
        wider = self._growth(stream, stacked(points, rows) if few else rows)
        if wider > OUTGROWN >= self._growth(stream, points):
            msg = (
                f"These rows lie about {wider:.2g} times as far apart as the first ones, which the width in "
                f"{stream.dictionary.kernel!r} was read off and which it keeps; to a kernel this narrow all "
                "of them are alone. Give the width as a number, such as kernel=RBF(gamma=0.1), or begin with "
                "rows that look like the rest."
            )
            warn(msg, MercerWarning)

    def _growth(self, stream: Stream, rows: Rows) -> float:
        """How many times the stream's width the one of these rows would be; 0 where they have none."""
        n, rng = int(rows.shape[0]), self._rng()
        some = rows[np.linspace(0, n - 1, min(n, FEW_ROWS)).astype(int)] if n > 1 else rows
        alike, other = (self.kernel.resolve(part, rng=rng) for part in (some[:1], some))
        if _numbers(other) == _numbers(alike):
            return 0.0
        return max(_widths(stream.dictionary.kernel, other), default=0.0)


def _warn_lopsided(stream: Stream, weights: Array | None, n: int, rules: Rules) -> None:
    """Warn where one row, or the one point before, outweighs the rest by more than a stream can show."""
    # What a dictionary misses is known to `ROUNDING` of Σ w k(x, x); the variance of others drowns in it.
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


def _widths(has: Kernel, other: Kernel) -> Iterator[float]:
    """Ratios of the widths of two kernels of one form, part by part."""
    for name in ("gamma", "length_scale"):
        ours, theirs = getattr(has, name, None), getattr(other, name, None)
        if isinstance(ours, Real) and isinstance(theirs, Real):
            wide = float(ours) / float(theirs) if name == "gamma" else float(theirs) / float(ours)
            # A gamma of a Gaussian is one over a squared distance.
            yield wide**0.5 if isinstance(has, RBF) else wide
    for ours, theirs in zip(has.children, other.children, strict=True):
        yield from _widths(ours, theirs)


def _reads_spread(kernel: Kernel) -> bool:
    """Whether a width is to be read off the spread of the rows, not off their number of columns."""
    rules = [v for v in kernel.get_params(deep=False).values() if isinstance(v, str)]
    own = kernel.is_data_dependent and any(rule in SPREADS for rule in rules)
    return own or any(map(_reads_spread, kernel.children))
