"""Low rank, as planned: a factor, PCA of its features, and exact passes where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.threads import single_threaded_blas
from mercer.model.dual import dual_fit, gram_operator
from mercer.model.lowrank import fit_low_rank
from mercer.solvers.ritz import ritz_pairs

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer._core.watch import Watch
    from mercer.engine.base import Engine
    from mercer.kernels.base import Kernel
    from mercer.model.result import Fit
    from mercer.planning.recipe import Plan

# More directions than are sought: a Ritz step over them finds the sought ones better.
OVERSAMPLE = 12


def fit_approximation(
    kernel: Kernel,
    x: Rows,
    asked: int | float | None,
    *,
    plan: Plan,
    rng: np.random.Generator,
    weights: Array | None,
    watch: Watch,
    engine: Engine[Any] | None = None,
) -> Fit:
    """A factor chosen by the approximation, PCA of its features, and exact passes if it is refined."""
    approximation = plan.approximation
    assert approximation is not None  # the plan says so
    low_rank = approximation(kernel, x, weights=weights, rng=rng, watch=watch)
    if not approximation.refine:
        return fit_low_rank(
            kernel, x, asked, low_rank, plan=plan, weights=weights, rng=rng, watch=watch
        )
    wide = asked
    if isinstance(asked, int) and asked < low_rank.rank:
        wide = min(asked + OVERSAMPLE, low_rank.rank)
    rough = fit_low_rank(
        kernel, x, wide, low_rank, plan=plan, weights=weights, rng=rng, watch=watch
    )
    operator = gram_operator(kernel, x, plan, weights, engine=engine)
    scores = rough.projection(x, n_threads=plan.n_threads)
    start = operator.scaled(scores.astype(np.float64))
    k = min(asked, start.shape[1]) if isinstance(asked, int) else start.shape[1]
    with single_threaded_blas():
        pairs = ritz_pairs(operator, start, k, approximation.refine, rng=rng, watch=watch)
    return dual_fit(kernel, x, operator, pairs, asked, total=operator.trace(), plan=plan, rng=rng)
