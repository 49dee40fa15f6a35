"""The parts of a kernel PCA that have names: approximations and pre-images, and how these are learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from mercer._core.errors import InputError, MemoryBudgetError, PreimageWarning, refuse
from mercer._core.findings import warn
from mercer._core.memory import format_bytes
from mercer._core.types import Array, Flags, Indices, Rows
from mercer._core.wording import Message
from mercer.approximations import APPROXIMATIONS, Approximation, RandomFourier
from mercer.data.dask import DaskRows
from mercer.data.intake import admitted
from mercer.data.rows import RowSource, take_rows
from mercer.data.training import TrainingData
from mercer.engine.equal_rows import distinct
from mercer.engine.pairwise import squared_norms
from mercer.kernels import Kernel
from mercer.kernels.names import named
from mercer.model import Fit, Plan, Problem
from mercer.model.space import FeatureSpace
from mercer.operators.sections import GivenSections, KernelSections
from mercer.preimage import PREIMAGES, Examples, FittedPreimage, Gradient, Preimage, Quality, Ridge
from mercer.preimage.base import kept_bytes
from mercer.preimage.search import Search
from mercer.solvers import Lapack
from mercer.stream.incremental import Stream

# None, an object, or the one behind a name.
named_approximation: Callable[[Any], Approximation | None] = partial(
    named, "approximation", kind=Approximation, known=APPROXIMATIONS, default=None
)
named_preimage: Callable[[Any], Preimage | None] = partial(
    named, "pre-image method", kind=Preimage, known=PREIMAGES, default=None
)


def planned_preimage(
    method: Preimage, chosen: Plan, problem: Problem, data: TrainingData, kernel: Kernel
) -> Plan:
    """The plan with the pre-image in it; raises where there is none for such rows, or no room for it."""
    refuse_preimage(method, data, kernel, chosen.approximation, keeps_rows=chosen.route == "dual")
    # It is learned on the host, when the fit's tiles are gone: the larger of the two counts.
    allowed = problem.here_bytes if problem.on_device else problem.budget_bytes
    size, kept = _size(chosen, problem), problem.rows_bytes
    needed = needed_bytes(method, data, *size, rows_bytes=kept, allowed=allowed)
    chosen = replace(chosen, preimage=repr(method), preimage_bytes=needed)
    if chosen.host_bytes:
        return replace(chosen, host_bytes=max(chosen.host_bytes, needed))
    return replace(chosen, n_bytes=max(chosen.n_bytes, needed))


def needed_bytes(
    method: Preimage, data: TrainingData, width: int, k: int, *, rows_bytes: int, allowed: int
) -> int:
    """What learning the pre-image of k scores takes, beside the fit; raises where that is not allowed."""
    n, kept = data.n, kept_bytes(n=data.n, k=k, width=width, rows_bytes=rows_bytes)
    needed = kept + method.n_bytes(n, _columns(method, data), k)
    remedy = Message("lower `max_rows` of {method_}, or use {preimage:None}", method_=repr(method))
    _require_bytes(f"The pre-image of {n} rows", needed, allowed, remedy)
    return needed


def _require_bytes(what: str, needed: int, allowed: int, remedy: Message) -> None:
    if needed > allowed:
        msg = Message(
            f"{what} needs about {format_bytes(needed)}, but {{memory}} allows {format_bytes(allowed)}. "
            "Raise {memory}, {remedy}.",
            remedy=remedy,
        )
        raise MemoryBudgetError(msg)


def _size(chosen: Plan, problem: Problem) -> tuple[int, int]:
    """Points or features that the projection rests on, and as many components as the fit may find."""
    n = width = problem.n
    if chosen.approximation is not None and not chosen.approximation.refine:
        width = chosen.approximation.width(n)
    elif chosen.route == "primal":
        width = problem.map_dimension or problem.d
    if problem.k is not None:
        return width, problem.k
    grows = problem.is_share and not isinstance(chosen.solver, Lapack)  # until the share is reached
    return width, min(n, width, chosen.most_components) if grows else min(n, width)


def preimage_seconds(method: Preimage, kernel: Kernel, data: TrainingData, k: int) -> float:
    """How long learning the pre-image of k scores will take, from a few timed steps."""
    return method.cost(data.n, _columns(method, data), k).seconds(kernel, data.rows)


def _columns(method: Preimage, data: TrainingData) -> int:
    """Columns of the pre-images: those of the rows, or of others that the method has."""
    return data.d if method.rows is None else int(np.shape(method.rows)[-1])


def refuse_preimage(
    method: Preimage,
    data: TrainingData,
    kernel: Kernel,
    approximation: Approximation | None,
    *,
    keeps_rows: bool,
) -> None:
    """Raise where no pre-image can be learned by a model that keeps the training rows, or does not."""
    name = repr(method)
    if method.rows is None and (kernel.is_precomputed or data.is_sparse):
        why = "dense rows; got a sparse matrix. Use X.toarray()"
        if kernel.is_precomputed:
            why = "the rows behind a precomputed kernel. Use preimage=Ridge(rows=X)"
        template = f"{{preimage:{{method_}}}} needs {why}, or {{preimage:None}}."
        raise InputError(Message(template, method_=name))
    method.check(kernel)
    if method.needs_points and isinstance(approximation, RandomFourier):
        msg = Message(
            "{method_} makes a mean of points that the model rests on, but {approximation_} rests on "
            "none. Use {preimage:'gradient'} or {preimage:'ridge'}, or {approximation:'rpcholesky'}.",
            method_=name,
            approximation_=repr(approximation),
        )
        raise InputError(msg)
    if keeps_rows and isinstance(data.rows, DaskRows) and not isinstance(method, Ridge):
        found = (
            f"{name} looks at all training rows in each of its steps, and those of a {data.rows.name} "
            "stay where they are. Use preimage='ridge', which takes some of them, or landmarks "
            "(approximation='rpcholesky')."
        )
        raise InputError(found)


def refuse_stream_preimage(method: Preimage | None, stream: Stream) -> None:
    """Raise where a stream's landmarks have no pre-image."""
    if method is None:
        return
    if method.rows is not None:
        msg = f"A stream keeps landmarks only, no other rows; got preimage={method!r}. Leave `rows` out."
        raise InputError(msg)
    points = stream.dictionary.points
    if hasattr(points, "indptr"):
        msg = f"preimage={method!r} needs dense rows; got a sparse matrix. Use X.toarray()."
        raise InputError(msg)
    method.check(stream.dictionary.kernel)


def handed_over(method: Preimage | None, data: TrainingData, sample_weight: Any) -> Array | None:
    """What pre-images are made of, one row for each that counts; None where that is the training rows."""
    if method is None or method.rows is None:
        return None
    # As many rows as the fit was given; those of weight zero are gone from `data`.
    n = data.n if sample_weight is None else int(np.shape(sample_weight)[0])
    handed = admitted(method.rows, what="rows")
    rows = check_array(handed, dtype=[np.float64, np.float32], input_name="rows", estimator=method)
    if len(rows) != n:
        wanted = f"the {n} rows that the model is fitted to, in their order"
        refuse("rows", rows.shape, wanted, f"{len(rows)}")
    return np.asarray(rows if data.kept is None else rows[data.kept])


def fit_preimage(
    method: Preimage,
    fit: Fit,
    kernel: Kernel,
    rows: Rows,
    *,
    weights: Array | None = None,
    handed: Array | None = None,
    rng: np.random.Generator,
) -> FittedPreimage:
    """The pre-image method, learned from the scores of the rows that it will keep."""
    # Other rows, to which it leads where they are handed over, are in no feature space.
    space = None if handed is not None else FeatureSpace.of(fit)
    # A row of weight w counts as w equal rows do, and equal rows are one example of that weight; one of
    # weight zero, which a source may hold, is none.
    there = None if weights is None or np.all(weights > 0) else np.flatnonzero(weights)
    parts = (rows,) if handed is None else (rows, handed)
    some, counts = distinct(parts, weights, there)
    sampled = method.sample(int(rows.shape[0]) if some is None else len(some), rng=rng)
    if sampled is not None:
        some = sampled if some is None else some[sampled]
        counts = None if counts is None else counts[sampled]
    chosen = _taken(rows, some)
    if not fit.is_low_rank and fit.roots is None:
        scores = fit.scores if some is None else fit.scores[some]
    else:
        scores = fit.projection(chosen).astype(np.float64)
    targets = chosen if handed is None else _taken(handed, some)
    engine = fit.projection.sections.engine
    back = method.fit(Examples(scores, targets, kernel, space, engine, counts), rng=rng)
    _warn_if_useless(back)
    return back


def fit_preimage_later(
    fit: Fit, kernel: Kernel, *, budget: int, rng: np.random.Generator
) -> FittedPreimage | None:
    """A pre-image for a model that was fitted without one, from its points, where they are dense."""
    points = getattr(fit.projection.sections, "points", None)
    if points is None or hasattr(points, "indptr"):
        return None
    # An exact model holds every training row: this is the `Ridge` that its fit would have learned. Landmarks
    # are spread out, not typical: a search that only starts from them does better.
    method = Gradient() if fit.is_low_rank and not Gradient().missing_in(kernel) else Ridge()
    m, d = map(int, points.shape)
    needed = method.n_bytes(m, d, fit.projection.n_components)
    remedy = Message("or fit with {preimage}")
    _require_bytes(f"A pre-image from {m} points", needed, budget, remedy)
    return fit_preimage(method, fit, kernel, points, rng=rng)


def _warn_if_useless(back: FittedPreimage) -> None:
    """Warn where the mean of the rows would have been as good an answer."""
    quality = back.quality
    if quality is None or quality.error_of_mean == 0:
        return
    if quality.error < quality.error_of_mean:
        _warn_if_narrow(back, quality)
        return
    other = "" if isinstance(back.method, Ridge) else "{preimage:'ridge'}, "
    msg = Message(
        f"The pre-image is no better than always answering the mean: {{quality}}. Use {other}more components "
        "or a wider kernel.",
        quality=quality,
    )
    figures = {"error": quality.error, "error_of_mean": quality.error_of_mean}
    warn(msg, PreimageWarning, "useless-preimages", figures)


def _warn_if_narrow(back: FittedPreimage, quality: Quality) -> None:
    """Warn where a kernel is so narrow that noisy rows are lost: clean ones alone would not show it."""
    if quality.survives_noise is not False or (quality.residual or 0.0) < NARROW:
        return
    # Components that are not few beside the columns leave little noise out, whatever the kernel.
    if back.space is None or FEW_SHARE * back.space.projection.n_components > len(back.centre):
        return
    msg = (
        f"The pre-image suits clean rows only: {quality}. A kernel this narrow sees rows with noise as far "
        "from everything; to denoise, use a wider kernel (RBF with a smaller gamma)."
    )
    warn(msg, PreimageWarning, "narrow-kernel", {"error": quality.error})


def _taken(rows: Rows, some: Indices | None) -> Rows:
    if some is not None:
        return take_rows(rows, some)
    return rows[:] if isinstance(rows, RowSource) else rows


# A feature-space residual from which on a kernel counts as narrow: a third of the usual row is out of reach
# of its components.
NARROW = 1.0 / 3.0
FEW_SHARE = 4  # components are few up to this share of the columns

# Scores this many times as far from the mean as any example's lie outside of the data. Their length counts,
# not each one: components with hardly any variance are wild for new rows of the same kind too.
FAR = 2.0


def warn_if_far(back: FittedPreimage, scores: Array, points: Array) -> None:
    """Warn of scores that no training row comes near, and of points that have left the data."""
    far = squared_norms(back.within(scores)) > (FAR * back.reach) ** 2
    left = squared_norms(points - back.centre) > (FAR * back.radius) ** 2
    for which, what, of in ((far, "scores", "out"), (left & ~far, "points", "from the mean")):
        if not np.any(which):
            continue
        figures = {"points": int(np.sum(which)), "of": len(which)}
        msg = (
            f"{figures['points']} of {len(which)} {what} lie more than {FAR:g} times as far {of} as any "
            "training row, where the pre-image is a guess."
        )
        residuals = back.residuals(scores[which], points[which])
        if residuals is not None:
            worst = f"{np.max(residuals):.3g} of the mean squared length"
            usual = None if back.quality is None else back.quality.residual
            beside = "" if usual is None else f", usually it is {usual:.3g}"
            msg += f" The worst feature-space residual is {worst}{beside}."
        warn(msg, PreimageWarning, "far-preimages", figures)


def warn_if_unsettled(back: FittedPreimage, settled: Flags | None) -> None:
    """Warn of searches that ran out of steps."""
    if settled is None or np.all(settled):
        return
    assert isinstance(back.method, Search)  # no other method says so
    figures = {"points": int(np.sum(~settled)), "of": len(settled)}
    msg = (
        f"{figures['points']} of {len(settled)} pre-images had not settled after "
        f"{back.method.max_iter} steps; the best points seen are given. Raise `max_iter`, or look at the "
        "residuals in `preimage_.residuals(scores, points)`."
    )
    warn(msg, PreimageWarning, "unsettled-preimages", figures)


def preimages_for(kernel: Kernel, fit: Fit, *, sparse: bool) -> str:
    """The pre-image methods that such a model would accept, as arguments to write down."""
    if kernel.is_precomputed:
        return "preimage=Ridge(rows=X)"
    pointed = isinstance(fit.projection.sections, KernelSections)
    names = [
        name
        for name, method in PREIMAGES.items()
        if not method().missing_in(kernel) and (pointed or not method.needs_points)
    ]
    dense = "dense rows, X.toarray(), and " if sparse else ""
    return f"{dense}preimage={' or '.join(map(repr, names))}"


def with_weightless(fit: Fit, kept: Indices, n: int) -> Fit:
    """A precomputed kernel is given against all n points: those without weight get coefficients 0."""
    coef = np.zeros((n, fit.projection.n_components), dtype=fit.projection.coef.dtype)
    coef[kept] = fit.projection.coef
    projection = replace(fit.projection, sections=GivenSections(n), coef=coef)
    mean = np.zeros(n)
    mean[kept] = fit.mean.coef
    return replace(fit, projection=projection, mean=replace(fit.mean, coef=mean))
