"""PCA of explicit features on the cheaper side: the m x m covariance, or the n x n dot products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mercer._core.errors import KernelError, ZeroVarianceError
from mercer._core.wording import Message
from mercer.engine.equal_rows import are_alike
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.kernels.feature_map import IdentityMap
from mercer.model.centred_features import EPS, CentredRows
from mercer.model.projection import Projection, projection_dtype
from mercer.model.result import Fit, keep
from mercer.model.rounding import UNITS, handed_out
from mercer.model.space import FeatureMean
from mercer.operators import StoredGram
from mercer.operators.centred import require_finite
from mercer.operators.sections import FeatureSections
from mercer.solvers import EigenPairs
from mercer.solvers.base import fixed_signs

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows
    from mercer.operators import SymmetricOperator
    from mercer.planning.recipe import Plan


def fit_linear_pca(
    x: Rows,
    asked: int | float | None,
    *,
    plan: Plan,
    rng: np.random.Generator,
    weights: Array | None = None,
    engine: Any = AUTO,
) -> Fit:
    """PCA of the rows themselves; its axes are the columns of the projection's coefficients."""
    require_different(x)
    sections = FeatureSections(IdentityMap(int(x.shape[1])), engine=resolve_engine(engine))
    return fit_features(x, sections, asked, plan=plan, rng=rng, weights=weights, unit=0.0)


def fit_features(
    features: Rows,
    sections: FeatureSections,
    asked: int | float | None,
    *,
    plan: Plan,
    rng: np.random.Generator,
    weights: Array | None = None,
    unit: float | None = None,
    shared: bool = False,
) -> Fit:
    """PCA of features Φ (n, m), told as the eigenpairs of K̃ = Φ̃Φ̃ᵀ that it shares with Φ̃ᵀΦ̃.

    `unit` is how far the features are off, relative to themselves; by default, a few units of rounding.
    `shared` says that all features of a row may be off alike.
    """
    rows = CentredRows.of(features, weights)
    unit = UNITS * float(np.finfo(features.dtype).eps) if unit is None else unit
    # Sums of squares must be held in the precision they are made in.
    limit = float(np.finfo(features.dtype).max)
    require_finite(np.array([np.inf if rows.most > limit else rows.most]))
    side = _primal if plan.route == "primal" else _dual
    pairs, axes, total = side(rows, asked, plan=plan, rng=rng)
    offset, spread = rows.mean @ axes, np.sqrt(pairs.values / rows.weight)
    # Far from the origin x·v and the mean's share in it cancel.
    reach = np.linalg.norm(rows.mean) * np.linalg.norm(axes, axis=0)
    dtype = projection_dtype(features.dtype, reach, spread)
    projection = Projection(sections, axes.astype(dtype, copy=False), offset.astype(dtype))
    n, m = rows.shape
    bound, cut = min(n - 1, m), rows.cut(pairs.values)
    centre = FeatureMean(rows.mean, float(rows.mean @ rows.mean))
    moved = rows.moved(pairs.values, total, unit, shared=shared)
    pairs = handed_out(pairs, features.dtype, moved=moved)
    return Fit(
        projection, pairs, total, bound, plan, cut, None, asked, rows.weight, centre, rows.roots
    )


def _primal(
    rows: CentredRows, asked: int | float | None, *, plan: Plan, rng: np.random.Generator
) -> tuple[EigenPairs, Array, float]:
    """C = Φ̃ᵀΦ̃, CV = VΛ; then U = Φ̃VΛ^(-1/2) are the eigenvectors of K̃."""
    covariance = StoredGram(rows.covariance())
    small, total = solve_small(
        covariance, asked, cut=rows.cut, plan=plan, rng=rng, nothing=rows.nothing
    )
    scale = np.sqrt(small.values)
    # K̃U = Φ̃(Φ̃ᵀU) = Φ̃(CV)Λ^(-1/2): evidence for the price of one thin product.
    both = rows.times(np.concatenate([small.vectors / scale, small.products / scale], axis=1))
    u, products = np.split(both, 2, axis=1)
    signs = score_signs(u, rows.roots)  # a vector that is turned round takes its axis with it
    u *= signs
    products *= signs
    # An axis of LAPACK's has a few units of the first one in it, which is √(λ₁/λ) times as long in Φ̃v.
    spilt = UNITS * EPS * small.values[0] * np.sqrt(small.values[0] / small.values)
    pairs = EigenPairs(small.values, u, products, 1, small.status, rounding=spilt)
    return pairs, small.vectors * signs, total


def _dual(
    rows: CentredRows, asked: int | float | None, *, plan: Plan, rng: np.random.Generator
) -> tuple[EigenPairs, Array, float]:
    """K̃ = Φ̃Φ̃ᵀ, K̃U = UΛ; then V = Φ̃ᵀUΛ^(-1/2) are the axes."""
    gram = StoredGram(rows.gram())
    pairs, total = solve_small(gram, asked, cut=rows.cut, plan=plan, rng=rng, nothing=rows.nothing)
    pairs = pairs.turned(score_signs(pairs.vectors, rows.roots))
    axes = rows.transposed_times(pairs.vectors / np.sqrt(pairs.values))  # (m, k)
    return pairs, _orthonormalised(axes, pairs.values), total


def score_signs(u: Array, roots: Array | None) -> Array:  # (n, k), (n,) -> (k,)
    """±1 for each column, so that the largest *score* is positive, as it would be for repeated rows.

    Vectors of weighted rows carry a factor √w, which may put their largest entry elsewhere. Rows of
    weight zero have entries zero.
    """
    return fixed_signs(u if roots is None else u / np.where(roots > 0, roots, 1.0)[:, None])


def _orthonormalised(axes: Array, values: Array) -> Array:
    # Division by √λ amplifies rounding in the axes of small λ by λ₁/λ. Where that could be seen, one
    # triangular step restores VᵀV = I; the leading axes, which are right already, stay as they are.
    if values[-1] > EPS**0.5 * values[0]:
        return axes
    upper = np.linalg.cholesky(axes.T @ axes).T
    return np.linalg.solve(upper.T, axes.T).T


def solve_small(
    operator: SymmetricOperator,
    asked: int | float | None,
    *,
    cut: Callable[[Array], float],
    plan: Plan,
    rng: np.random.Generator,
    nothing: float = 0.0,
) -> tuple[EigenPairs, float]:
    """The pairs of a stored matrix that were asked for and are above rounding, and its trace."""
    total = float(operator.diag().sum())
    k = asked if isinstance(asked, int) else operator.n
    pairs = plan.solver(operator, min(k, operator.n), rng=rng)
    rounding = cut(pairs.values)
    require_variance(pairs.values, rounding, nothing=nothing)
    return keep(pairs, asked, total=total, cut=rounding), total


def require_variance(values: Array, cut: float, *, nothing: float = 0.0) -> None:
    """Raise when no eigenvalue is above rounding, or none above what rows without variance show."""
    if np.any(values > max(cut, nothing)):
        return
    if np.any(values < -10.0 * max(cut, nothing)):
        msg = Message(
            f"No eigenvalue is positive (the smallest seen is {values.min():.3g}): the function is not a "
            "kernel, and on these data it is nearly the negative of one. {mercer.check_kernel} shows a "
            "witness."
        )
        raise KernelError(msg)
    raise_zero_variance()


def require_different(x: Rows) -> None:
    """Raise when all rows are one and the same."""
    if are_alike(x):
        raise_zero_variance()


def raise_zero_variance() -> NoReturn:
    """Say that there is no component to find."""
    msg = (
        "The data have zero variance in feature space: all rows map to one point, so there is no "
        "component to find. Check that the rows differ, by more than 1e-150 (scale the columns otherwise), "
        "and that the kernel has not saturated (a sigmoid or polynomial with a large gamma, an RBF with a "
        "tiny one)."
    )
    raise ZeroVarianceError(msg)
