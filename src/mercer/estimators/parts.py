"""The parts of a kernel PCA that have names: approximations and ways back."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array

from mercer._core.errors import InputError, MemoryBudgetError, PreimageWarning, nearest
from mercer._core.memory import format_bytes
from mercer.approximations import APPROXIMATIONS, Approximation, RandomFourier
from mercer.engine.intake import admitted
from mercer.engine.pairwise import squared_norms
from mercer.engine.rows import RowSource, take_rows
from mercer.estimators.validation import users_level
from mercer.model.space import FeatureSpace
from mercer.operators.sections import GivenSections, KernelSections
from mercer.preimage import PREIMAGES, Examples, FittedPreimage, Gradient, Preimage, Ridge
from mercer.preimage.search import Search

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices, Rows
    from mercer.estimators.door import Training
    from mercer.kernels import Kernel
    from mercer.model import Fit
    from mercer.model.incremental import Stream


def _named(what: str, given: Any, kind: type[Any], known: dict[str, Any]) -> Any:
    """None, an object, or the object behind a name."""
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, str):
        if given in known:
            return known[given]()
        msg = f"Unknown {what} {given!r}. {nearest(given, known)}"
        raise InputError(msg)
    if isinstance(given, type):
        msg = f"The class {given.__name__} came as {what}; an object was needed. Write {given.__name__}(...)."
        raise InputError(msg)
    msg = (
        f"{what} must be None, a name or an object, but a {type(given).__name__} came. "
        f"{nearest('', known)}"
    )
    raise InputError(msg)


def named_approximation(given: Any) -> Approximation | None:
    """None, an approximation, or the one behind a name."""
    chosen: Approximation | None = _named("approximation", given, Approximation, APPROXIMATIONS)
    return chosen


def named_preimage(given: Any) -> Preimage | None:
    """None, a pre-image method, or the one behind a name."""
    chosen: Preimage | None = _named("pre-image method", given, Preimage, PREIMAGES)
    return chosen


def refuse_preimage(
    method: Preimage,
    came: Training,
    kernel: Kernel,
    *,
    approximation: Approximation | None = None,
    budget: int,
    n_components: int,
) -> None:
    """Raise where there is no way back, or no room for it."""
    handed = getattr(method, "rows", None)
    if handed is None and (kernel.is_precomputed or came.is_sparse):
        why = "the rows are sparse; use X.toarray()"
        if kernel.is_precomputed:
            why = "the kernel is precomputed, so the rows are not known; use preimage=Ridge(rows=X)"
        msg = f"preimage={method!r} was asked for, but {why}, or use preimage=None."
        raise InputError(msg)
    method.check(kernel)
    if method.needs_points and isinstance(approximation, RandomFourier):
        msg = (
            f"{method!r} makes a mean of points that the model rests on, but {approximation!r} rests on "
            "none. Use preimage='gradient' or 'ridge', or approximation='rpcholesky'."
        )
        raise InputError(msg)
    d = came.d if handed is None else int(np.shape(handed)[-1])
    needed = method.n_bytes(came.n, d, n_components)
    if needed > budget:
        msg = (
            f"The pre-image of {came.n} rows needs about {format_bytes(needed)}, but `memory` allows "
            f"{format_bytes(budget)}. Raise `memory`, lower `max_rows` of {method!r}, or use "
            "preimage=None."
        )
        raise MemoryBudgetError(msg)


def refuse_stream_preimage(method: Preimage | None, stream: Stream) -> None:
    """Raise where a stream's landmarks have no way back."""
    if method is None:
        return
    if getattr(method, "rows", None) is not None:
        msg = f"{method!r} came with `rows`, but a stream keeps landmarks only. Leave `rows` out."
        raise InputError(msg)
    points = stream.dictionary.points
    if hasattr(points, "indptr"):
        msg = f"preimage={method!r} was asked for, but the rows are sparse; use X.toarray()."
        raise InputError(msg)
    method.check(stream.dictionary.kernel)


def handed_over(method: Preimage, came: Training, n: int) -> Array | None:
    """The rows to come back to, one for each row that counts; None where they are the training rows.

    ``n`` is how many rows the fit was given, those of weight zero among them.
    """
    handed = getattr(method, "rows", None)
    if handed is None:
        return None
    handed = admitted(handed, what="rows")
    rows = check_array(handed, dtype=[np.float64, np.float32], input_name="rows", estimator=method)
    if len(rows) != n:
        msg = (
            f"{method!r} came with {len(rows)} rows, but the model is fitted to {n}. Give one "
            "for each training row, in their order."
        )
        raise InputError(msg)
    return np.asarray(rows if came.kept is None else rows[came.kept])


def way_back(
    method: Preimage,
    fit: Fit,
    kernel: Kernel,
    rows: Rows,
    *,
    weights: Array | None = None,
    handed: Array | None = None,
    rng: np.random.Generator,
) -> FittedPreimage:
    """The pre-image method, learned from the scores of the rows that it will keep.

    Each row counts once, however large its weight; a row of weight zero, which a source may hold, does not.
    Where other rows are `handed` over, it leads to those, and no feature space knows them.
    """
    space = None if handed is not None else FeatureSpace.of(fit)
    there = None if weights is None or np.all(weights > 0) else np.flatnonzero(weights)
    some = method.sample(int(rows.shape[0]) if there is None else len(there), rng=rng)
    if there is not None:
        some = there if some is None else there[some]
    chosen = _taken(rows, some)
    if some is None and not fit.is_low_rank and fit.roots is None:
        scores = fit.scores
    else:
        scores = fit.projection(chosen).astype(np.float64)
    targets = chosen if handed is None else _taken(handed, some)
    back = method.fit(Examples(scores, targets, kernel, space), rng=rng)
    _tell_if_useless(back)
    return back


def later_way_back(
    fit: Fit, kernel: Kernel, *, budget: int, rng: np.random.Generator
) -> FittedPreimage | None:
    """A way back for a model that was fitted without one, from the points that it rests on.

    An exact model holds every training row, so this is the `Ridge` that its fit would have learned.
    Landmarks are spread out, not typical: there a search that only starts from them does better. None
    where no points are known, or no dense ones.
    """
    points = getattr(fit.projection.sections, "points", None)
    if points is None or hasattr(points, "indptr"):
        return None
    method = Gradient() if fit.is_low_rank and _suits(Gradient(), kernel) else Ridge()
    m, d = (int(size) for size in points.shape)
    needed = method.n_bytes(m, d, fit.projection.n_components)
    if needed > budget:
        msg = (
            f"A way back from {m} points needs about {format_bytes(needed)}, but `memory` "
            f"allows {format_bytes(budget)}. Raise `memory`, or fit with `preimage`."
        )
        raise MemoryBudgetError(msg)
    return way_back(method, fit, kernel, points, rng=rng)


def _tell_if_useless(back: FittedPreimage) -> None:
    """Warn where the mean of the rows would have been as good an answer."""
    quality = back.quality
    if quality is None or quality.error_of_mean == 0 or quality.error < quality.error_of_mean:
        return
    other = "" if isinstance(back.method, Ridge) else "preimage='ridge', "
    msg = (
        f"The way back is no better than always saying the mean: {quality}. Use {other}more components or "
        "a wider kernel."
    )
    warnings.warn(msg, PreimageWarning, stacklevel=users_level())


def _taken(rows: Rows, some: Indices | None) -> Rows:
    if some is not None:
        return take_rows(rows, some)
    return rows[:] if isinstance(rows, RowSource) else rows


# Scores this many times as far from the mean as any example's lie outside of the data. Their length counts,
# not each one: components with hardly any variance are wild for new rows of the same kind too.
FAR = 2.0


def tell_if_far(back: FittedPreimage, scores: Array, points: Array) -> None:
    """Warn of scores that no training row comes near, and of points that have left the data."""
    far = squared_norms(back.within(scores)) > (FAR * back.reach) ** 2
    left = squared_norms(points - back.centre) > (FAR * back.radius) ** 2
    for which, what in (
        (far, "scores lie more than {} times as far out as any training row"),
        (left & ~far, "points lie more than {} times as far from the mean as any training row"),
    ):
        if np.any(which):
            msg = (
                f"{int(np.sum(which))} of {len(which)} {what.format(f'{FAR:g}')}, where the way back is "
                f"a guess.{_worst(back, scores[which], points[which])}"
            )
            warnings.warn(msg, PreimageWarning, stacklevel=users_level())


def _worst(back: FittedPreimage, scores: Array, points: Array) -> str:
    """A number that shows what became of them."""
    residuals = back.residuals(scores, points)
    if residuals is None:
        return ""
    shown = (
        f" The worst feature-space residual is {np.max(residuals):.3g} of the mean squared length"
    )
    usual = None if back.quality is None else back.quality.residual
    return f"{shown}." if usual is None else f"{shown}, usually it is {usual:.3g}."


def tell_if_unsettled(back: FittedPreimage, settled: Flags | None) -> None:
    """Warn of searches that ran out of steps."""
    if settled is None or np.all(settled):
        return
    assert isinstance(back.method, Search)  # nobody else tells
    msg = (
        f"{int(np.sum(~settled))} of {len(settled)} pre-images had not settled after "
        f"{back.method.max_iter} steps; the best points seen are given. Raise `max_iter`, or look at the "
        "residuals in `preimage_.residuals(scores, points)`."
    )
    warnings.warn(msg, PreimageWarning, stacklevel=users_level())


def ways_back(kernel: Kernel, fit: Fit, *, sparse: bool) -> str:
    """The pre-image methods that such a model would accept, as arguments to write down."""
    if kernel.is_precomputed:
        return "preimage=Ridge(rows=X)"
    pointed = isinstance(fit.projection.sections, KernelSections)
    names = [
        name
        for name, method in PREIMAGES.items()
        if _suits(method(), kernel) and (pointed or not method.needs_points)
    ]
    dense = "dense rows, X.toarray(), and " if sparse else ""
    return f"{dense}preimage={' or '.join(map(repr, names))}"


def _suits(method: Preimage, kernel: Kernel) -> bool:
    try:
        method.check(kernel)
    except InputError:
        return False
    return True


def with_weightless(fit: Fit, kept: Indices, n: int) -> Fit:
    """A precomputed kernel is given against all n points: those without weight get coefficients 0."""
    coef = np.zeros((n, fit.projection.n_components), dtype=fit.projection.coef.dtype)
    coef[kept] = fit.projection.coef
    projection = replace(fit.projection, sections=GivenSections(n), coef=coef)
    mean = np.zeros(n)
    mean[kept] = fit.mean.coef
    return replace(fit, projection=projection, mean=replace(fit.mean, coef=mean))
