"""PCA of explicit features on the cheaper side: the m x m covariance, or the n x n dot products.

Of rows that are read once, Φ is never held, only its m x m scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from mercer._core.observer import Observer
from mercer._core.types import Array, Rows
from mercer.engine.moments import Moments
from mercer.engine.passes import SLICE_BYTES
from mercer.engine.threads import single_threaded_blas
from mercer.kernels.feature_map import IdentityMap
from mercer.model.centred_features import EPS, CentredRows
from mercer.model.certificate import SUMMED, Certificate
from mercer.model.projection import Projection, projection_dtype
from mercer.model.result import Fit, Task, keep
from mercer.model.rounding import (
    UNITS,
    features_moved,
    features_unit,
    handed_out,
    require_features_in_range,
    require_range,
    require_variance,
)
from mercer.model.space import FeatureMean
from mercer.operators import StoredGram, SymmetricOperator
from mercer.operators.centred import require_finite
from mercer.operators.sections import FeatureSections, Sections
from mercer.solvers import EigenPairs
from mercer.solvers.base import fixed_signs

# Products for which threads of BLAS do not pay: those of 20 000 x 20 numbers take 0.3 ms on one thread, twice
# that on two, and fifty times where other processes want the second core.
LONE_PRODUCTS = 2**25


def fit_linear_pca(task: Task) -> Fit:
    """PCA of the rows themselves; its axes are the columns of the projection's coefficients."""
    sections = FeatureSections(IdentityMap(int(task.x.shape[1])), engine=task.engine)
    return fit_features(task, task.x, sections)


def fit_features(task: Task, features: Rows, sections: Sections, *, roundings: int = 0) -> Fit:
    """PCA of features Φ (n, m): the eigenpairs of K̃ = Φ̃Φ̃ᵀ, from those of Φ̃ᵀΦ̃ where that is smaller."""
    (n, m), dtype = map(int, features.shape), features.dtype
    unit = features_unit(roundings, dtype)
    with single_threaded_blas() if n * m * min(n, m) <= LONE_PRODUCTS else nullcontext():
        rows = CentredRows.of(features, task.weights)
        # Sums of squares must be held in the precision they are made in.
        limit = float(np.finfo(dtype).max)
        require_finite(np.array([np.inf if rows.most > limit else rows.most]))
        # Rows as they are have not been rounded: sums of their squares are made in float64.
        require_features_in_range(rows.largest, dtype if unit else np.float64)
        if rows.largest == 0.0:
            require_range(task.kernel, task.x, dtype)
        pairs, axes, total = (_primal if task.plan.route == "primal" else _dual)(task, rows)
        moved = rows.moved(pairs.values, total, unit)
        return Fit(
            _projection(sections, axes, rows.mean, pairs.values / rows.weight, dtype),
            handed_out(pairs, dtype, moved=moved),
            total,
            rank_bound=min(n - 1, m),
            plan=task.plan,
            cut=rows.cut(pairs.values),
            low_end=None,
            asked=task.asked,
            weight=rows.weight,
            mean=FeatureMean(rows.mean, float(rows.mean @ rows.mean)),
            roots=rows.roots,
        )


def _projection(
    sections: Sections, axes: Array, mean: Array, variances: Array, dtype: np.dtype[Any]
) -> Projection:
    """Scores along axes of features, in a precision that holds them."""
    # Far from the origin x·v and the mean's share in it cancel.
    reach = np.linalg.norm(mean) * np.linalg.norm(axes, axis=0)
    own = projection_dtype(dtype, reach, np.sqrt(variances))
    return Projection(sections, axes.astype(own), (mean @ axes).astype(own))


def _primal(task: Task, rows: CentredRows) -> tuple[EigenPairs, Array, float]:
    """C = Φ̃ᵀΦ̃, CV = VΛ; then U = Φ̃VΛ^(-1/2) are the eigenvectors of K̃."""
    covariance = StoredGram(rows.covariance())
    small, total = solve_small(task, covariance, cut=rows.cut, nothing=rows.nothing)
    values, scale = small.values, np.sqrt(small.values)
    # An axis of LAPACK's has a few units of the first one in it, which is √(λ₁/λ) times as long in Φ̃v.
    top, longer = values[0], np.sqrt(values[0] / values)
    spilt = UNITS * EPS * top * longer
    # K̃U = Φ̃(Φ̃ᵀU) = Φ̃(CV)Λ^(-1/2): evidence for the price of one thin product. It is UΛ and Φ̃RΛ^(-1/2) with
    # R = CV - VΛ, whose size C gives: where that is rounding, there is no need to multiply.
    left = (small.products - small.vectors * values) / top  # whose squares are in range
    squares = np.einsum("ij,ij->j", left, (covariance.matrix / top) @ left)
    sizes = top * np.sqrt(np.maximum(squares, 0.0)) * longer
    seen = bool(np.any(sizes > spilt))
    axes = np.concatenate([small.vectors, small.products], axis=1) if seen else small.vectors
    both = rows.times(axes / np.tile(scale, 1 + seen))
    u = both[:, : len(scale)]
    signs = score_signs(u, rows.roots)  # a vector that is turned round takes its axis with it
    u *= signs
    products = both[:, len(scale) :] * signs if seen else u * values
    rounding = spilt if seen else spilt + sizes
    pairs = EigenPairs(values, u, products, 1, small.status, rounding=rounding)
    return pairs, small.vectors * signs, total


def _dual(task: Task, rows: CentredRows) -> tuple[EigenPairs, Array, float]:
    """K̃ = Φ̃Φ̃ᵀ, K̃U = UΛ; then V = Φ̃ᵀUΛ^(-1/2) are the axes."""
    pairs, total = solve_small(task, StoredGram(rows.gram()), cut=rows.cut, nothing=rows.nothing)
    pairs = pairs.turned(score_signs(pairs.vectors, rows.roots))
    axes = rows.transposed_times(pairs.vectors / np.sqrt(pairs.values))  # (m, k)
    return pairs, _orthonormalised(axes, pairs.values), total


def score_signs(u: Array, roots: Array | None) -> Array:  # (n, k), (n,) -> (k,)
    """±1 for each column, so that the largest *score* is positive, as it would be for repeated rows."""
    # Vectors of weighted rows carry a factor √w, and are zero where the weight is.
    return fixed_signs(u if roots is None else u / np.where(roots > 0, roots, 1.0)[:, None])


def _orthonormalised(axes: Array, values: Array) -> Array:
    # Division by √λ amplifies rounding in the axes of small λ by λ₁/λ. Where that could be seen, one
    # triangular step restores VᵀV = I; the leading axes, which are right already, stay as they are.
    if values[-1] > EPS**0.5 * values[0]:
        return axes
    return np.linalg.solve(np.linalg.cholesky(axes.T @ axes), axes.T).T


def solve_small(
    task: Task, operator: SymmetricOperator, *, cut: Callable[[Array], float], nothing: float = 0.0
) -> tuple[EigenPairs, float]:
    """The pairs of a stored matrix that were asked for and are above rounding, and its trace."""
    total, n = float(operator.diag().sum()), operator.n
    k = min(task.asked, n) if isinstance(task.asked, int) else n
    pairs = task.plan.solver(operator, k, rng=task.rng)
    rounding = cut(pairs.values)
    require_variance(pairs.values, rounding, nothing=nothing)
    return keep(pairs, task.asked, total=total, cut=rounding), total


# ── rows that are read once ─────────────────────────────────────────────────
# Rows of one slice at most: the sums of float32 features are continued in float64 from slice to slice.
SLICE_ROWS = 4096


def fit_streamed(task: Task, sections: Sections, *, roundings: int = 0) -> Fit:
    """PCA of φ(x) = sections(x), exact, from Σw, μ and S = Σw(φ - μ)(φ - μ)ᵀ: the pairs are those of S."""
    x, weights, dtype = task.x, task.weights, np.dtype(task.x.dtype)
    moments = stream_moments(sections, x, weights=weights, observer=task.observer)
    squares = float(moments.mean @ moments.mean)
    trace = float(np.trace(moments.scatter) + moments.weight * squares)  # Σw‖φ‖² = tr K

    def cut(values: Array) -> float:
        """Eigenvalues below this are rounding: of the solver, and of the shift by the mean."""
        # The shift rounds each feature by eps|φ|: no eigenvalue is moved by more than the sum of the squares.
        eps = float(np.finfo(dtype).eps)
        return 30.0 * eps * float(np.max(values, initial=0.0)) + 4.0 * eps**2 * trace

    pairs, total = solve_small(task, StoredGram(moments.scatter), cut=cut)
    rounding = cut(pairs.values)
    # A solver that iterates is right to its residual only. Features are rounded, and so are sums of their
    # products in the precision of the rows.
    top, eps = float(pairs.values[0]), float(np.finfo(dtype).eps)
    slack = float(np.max(pairs.residuals)) * top + SUMMED * eps * total
    slack += features_moved(trace, top, features_unit(roundings, dtype))
    n = int(x.shape[0]) if weights is None else int(np.count_nonzero(weights))
    return Fit(
        _projection(sections, pairs.vectors, moments.mean, pairs.values / moments.weight, dtype),
        pairs,
        total,
        rank_bound=min(n - 1, sections.width),
        plan=task.plan,
        cut=rounding,
        low_end=None,
        asked=task.asked,
        weight=moments.weight,
        mean=FeatureMean(moments.mean, squares),
        # Nothing is left out: it bounds rounding.
        certificate=Certificate("below", trace, 0.0, rounding + slack),
    )


def stream_moments(
    sections: Sections, x: Rows, *, weights: Array | None, observer: Observer
) -> Moments:
    """Weight, mean and scatter of the sections of all rows, merged in the order of the rows."""
    height = max(1, min(SLICE_ROWS, SLICE_BYTES // max(1, sections.width * x.dtype.itemsize)))
    step = partial(_moments, sections, weights)
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, in words
        seen = sections.engine.fold(
            x, step, height=height, parallel=sections.parallel, observer=observer
        )
    require_finite(np.diagonal(seen.scatter))
    return seen


def _moments(sections: Sections, weights: Array | None, rows: Rows, place: slice) -> Moments:
    return Moments.of(sections(rows), None if weights is None else weights[place])
