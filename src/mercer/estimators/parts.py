"""The parts of a kernel PCA that have names: approximations and ways back."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, MemoryBudgetError, PreimageWarning, nearest
from mercer._core.memory import format_bytes
from mercer.approximations import APPROXIMATIONS, Approximation
from mercer.engine.rows import RowSource, take_rows
from mercer.model.space import FeatureSpace
from mercer.operators.sections import GivenSections
from mercer.preimage import PREIMAGES, Examples, FittedPreimage, Preimage

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.estimators.door import Training
    from mercer.kernels import Kernel
    from mercer.model import Fit


def _named(what: str, given: Any, kind: type[Any], known: dict[str, Any]) -> Any:
    """None, an object, or the object behind a name."""
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, str):
        if given in known:
            return known[given]()
        msg = f"Unknown {what} {given!r}. {nearest(given, known)}"
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


def refuse_preimage(method: Preimage, came: Training, kernel: Kernel, budget: int) -> None:
    """Raise where there is no way back, or no room for it."""
    why = None
    if kernel.is_precomputed:
        why = "the kernel is precomputed, so the rows are not known"
    elif came.is_sparse:
        why = "the rows are sparse; use X.toarray()"
    if why is not None:
        msg = f"preimage={method!r} was asked for, but {why}. Use preimage=None."
        raise InputError(msg)
    method.check(kernel)
    needed = method.n_bytes(came.n, came.d)
    if needed > budget:
        msg = (
            f"The pre-image of {came.n} rows needs about {format_bytes(needed)}, but `memory` allows "
            f"{format_bytes(budget)}. Raise `memory`, lower `max_rows` of {method!r}, or use "
            "preimage=None."
        )
        raise MemoryBudgetError(msg)


def way_back(
    method: Preimage,
    fit: Fit,
    kernel: Kernel,
    rows: Rows,
    *,
    weights: Array | None,
    rng: np.random.Generator,
) -> FittedPreimage:
    """The pre-image method, learned from the scores of the rows that it will keep.

    Each row counts once, however large its weight; a row of weight zero, which a source may hold, does not.
    """
    space = FeatureSpace.of(fit)
    there = None if weights is None or np.all(weights > 0) else np.flatnonzero(weights)
    some = method.sample(int(rows.shape[0]) if there is None else len(there), rng=rng)
    if there is not None:
        some = there if some is None else there[some]
    if some is not None:
        chosen = take_rows(rows, some)
    else:
        chosen = rows[:] if isinstance(rows, RowSource) else rows
        if not fit.is_low_rank and fit.roots is None:
            return method.fit(Examples(fit.scores, chosen, kernel, space), rng=rng)
    scores = fit.projection(chosen).astype(np.float64)
    return method.fit(Examples(scores, chosen, kernel, space), rng=rng)


# Scores this many times as large as any example's lie outside of the data.
FAR = 2.0


def tell_if_far(back: FittedPreimage, scores: Array, points: Array) -> None:
    """Warn of scores that no training row comes near, with a number that shows what became of them."""
    far = np.any(np.abs(scores) > FAR * back.reach, axis=1)
    if not np.any(far):
        return
    residuals = back.residuals(scores[far].astype(np.float64), points[far])
    usual = None if back.quality is None else back.quality.residual
    shown = ""
    if residuals is not None:
        shown = f" The feature-space residual is {float(np.max(residuals)):.3g} of the mean squared length"
        shown += "." if usual is None else f", usually it is {usual:.3g}."
    msg = (
        f"{int(np.sum(far))} of {len(far)} scores lie more than {FAR:g} times as far out as any training "
        f"score, where the way back is a guess.{shown}"
    )
    warnings.warn(msg, PreimageWarning, stacklevel=3)


def with_weightless(fit: Fit, kept: Indices, n: int) -> Fit:
    """A precomputed kernel is given against all n points: those without weight get coefficients 0."""
    coef = np.zeros((n, fit.projection.n_components), dtype=fit.projection.coef.dtype)
    coef[kept] = fit.projection.coef
    projection = replace(fit.projection, sections=GivenSections(n), coef=coef)
    mean = np.zeros(n)
    mean[kept] = fit.mean.coef
    return replace(fit, projection=projection, mean=replace(fit.mean, coef=mean))
