"""PCA of explicit features in one pass over the rows: Φ is never held, only its m x m scatter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.moments import Moments
from mercer.engine.passes import SLICE_BYTES
from mercer.model.certificate import Certificate
from mercer.model.linear import solve_small
from mercer.model.projection import Projection, projection_dtype
from mercer.model.result import Fit
from mercer.model.space import FeatureMean
from mercer.operators import StoredGram
from mercer.operators.centred import require_finite

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.model.task import Task
    from mercer.operators.sections import Sections
    from mercer.solvers import EigenPairs

# Rows of one slice at most: the sums of float32 features are continued in float64 from slice to slice.
SLICE_ROWS = 4096


def fit_streamed(task: Task, sections: Sections) -> Fit:
    """PCA of φ(x) = sections(x), exact, from W, μ and S = Σw(φ - μ)(φ - μ)ᵀ alone.

    No vector has as many entries as there are rows: the pairs are those of S, and their vectors are the
    axes, each with its largest entry positive. Nothing is left out, so the certificate bounds rounding.
    """
    x, weights, dtype = task.x, task.weights, np.dtype(task.x.dtype)
    moments = stream_moments(sections, x, weights=weights, observer=task.observer)
    cut = _rounding(moments, dtype)
    pairs, total = solve_small(task, StoredGram(moments.scatter), cut=cut)
    n = int(x.shape[0]) if weights is None else int(np.count_nonzero(weights))
    return Fit(
        _projection(sections, moments, pairs, dtype),
        pairs,
        total,
        rank_bound=min(n - 1, sections.width),
        plan=task.plan,
        cut=cut(pairs.values),
        low_end=None,
        asked=task.asked,
        weight=moments.weight,
        mean=FeatureMean(moments.mean, float(moments.mean @ moments.mean)),
        certificate=_certificate(moments, pairs, cut(pairs.values)),
    )


def _projection(
    sections: Sections, moments: Moments, pairs: EigenPairs, dtype: np.dtype[Any]
) -> Projection:
    axes, mean = pairs.vectors, moments.mean
    reach = np.linalg.norm(mean) * np.linalg.norm(axes, axis=0)
    dtype = projection_dtype(dtype, reach, np.sqrt(pairs.values / moments.weight))
    return Projection(sections, axes.astype(dtype), (mean @ axes).astype(dtype))


def _trace(moments: Moments) -> float:
    """Σw‖φ‖² = tr K, not centred."""
    return float(np.trace(moments.scatter) + moments.weight * (moments.mean @ moments.mean))


def _rounding(moments: Moments, dtype: np.dtype[Any]) -> Callable[[Array], float]:
    """Eigenvalues below this are rounding: of the solver, and of the shift by the mean.

    The shift rounds each feature by eps|φ|: no eigenvalue is moved by more than the sum of the squares,
    eps² tr K.
    """
    eps, trace = float(np.finfo(dtype).eps), _trace(moments)
    return lambda values: 30.0 * eps * float(np.max(values, initial=0.0)) + 4.0 * eps**2 * trace


def _certificate(moments: Moments, pairs: EigenPairs, rounding: float) -> Certificate:
    # A solver that iterates is right to its residual only.
    slack = float(np.max(pairs.residuals)) * float(pairs.values[0])
    return Certificate("below", _trace(moments), 0.0, rounding + slack)


def stream_moments(
    sections: Sections, x: Rows, *, weights: Array | None, observer: Observer
) -> Moments:
    """Weight, mean and scatter of the sections of all rows, merged in the order of the rows."""
    height = max(1, min(SLICE_ROWS, SLICE_BYTES // max(1, sections.width * x.dtype.itemsize)))
    step = partial(_moments, sections, weights)
    with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
        seen = sections.engine.fold(
            x, step, height=height, parallel=sections.parallel, observer=observer
        )
    require_finite(np.diagonal(seen.scatter))
    return seen


def _moments(sections: Sections, weights: Array | None, rows: Rows, place: slice) -> Moments:
    return Moments.of(sections(rows), None if weights is None else weights[place])
