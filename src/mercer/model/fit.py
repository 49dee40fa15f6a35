"""Kernel PCA, whatever the route: from a resolved kernel and checked rows to a fitted value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.types import Rows
from mercer.data.rows import RowSource, take_rows
from mercer.engine.threads import blas_between_passes, lanes, single_threaded_blas
from mercer.kernels.base import Kernel
from mercer.model.certificate import refined_ceiling
from mercer.model.dual import dual_fit, fit_dual, gram_operator, in_unit, require_room, unit_of
from mercer.model.linear import fit_features, fit_linear_pca, fit_streamed
from mercer.model.lowrank import fit_low_rank
from mercer.model.result import Fit, Task
from mercer.model.rounding import require_different, require_range
from mercer.operators.sections import FeatureSections
from mercer.planning.problem import spread_over
from mercer.solvers.refine import ritz_pairs


def fit_kernel_pca(task: Task) -> Fit:
    """Kernel PCA of the rows with a resolved kernel, as planned: on an engine, with the plan's threads."""
    if task.weights is None or (unit := unit_of(task.weights)) == 1.0:
        return _fitted(task)
    fit = _fitted(replace(task, weights=task.weights / unit))
    require_room(fit, unit)
    return in_unit(fit, unit)


def _fitted(task: Task) -> Fit:
    kernel, x, plan = task.kernel, task.x, task.plan
    require_different(x)
    if not (kernel.parallel or kernel.is_precomputed):
        _probe_symmetry(kernel, x)
    with lanes(plan.n_threads):
        if plan.approximation is not None:
            return fit_approximation(task)
        if kernel.is_linear and not isinstance(x, RowSource):
            # The rows themselves can be centred, on either side: exact also far from the origin.
            return fit_linear_pca(task)
        return _fit_primal(task) if plan.route == "primal" else fit_dual(task)


def _fit_primal(task: Task) -> Fit:
    """PCA of φ(x): the same non-zero eigenvalues, on the m x m side."""
    kernel, x = task.kernel, task.x
    sections = FeatureSections(kernel.feature_map(int(x.shape[1])), engine=task.engine)
    roundings = sections.feature_map.roundings()
    if isinstance(x, RowSource):
        return fit_streamed(task, sections, roundings=roundings)
    return fit_features(task, sections(x), sections, roundings=roundings)


def _probe_symmetry(kernel: Kernel, x: Rows) -> None:
    """Half of the tiles stand for both halves, so a user's function has to be symmetric."""
    few = take_rows(x, spread_over(int(x.shape[0]), 12))
    tile = kernel.tile(few, few)
    gap = np.abs(tile - tile.T)
    if gap.max() > 1e3 * np.finfo(tile.dtype).eps * max(float(np.abs(tile).max()), 1e-300):
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        msg = (
            f"{kernel!r} is not symmetric: k(x, y) = {tile[i, j]:.6g} but k(y, x) = {tile[j, i]:.6g} for "
            "two rows of the data. A kernel needs k(x, y) = k(y, x); `mercer.check_kernel` shows the points."
        )
        raise KernelError(msg)


# More directions than are sought: a Ritz step over them finds the sought ones better.
OVERSAMPLE = 12


def fit_approximation(task: Task) -> Fit:
    """A factor chosen by the approximation, PCA of its features, and exact passes if it is refined."""
    kernel, x, asked, approximation = task.kernel, task.x, task.asked, task.plan.approximation
    rng, weights, observer, engine = task.rng, task.weights, task.observer, task.engine
    assert approximation is not None  # the plan says so
    # A factor is made of kernel values in the precision of the rows, which has to hold them.
    require_range(kernel, x, x.dtype)
    with blas_between_passes(approximation.width(int(x.shape[0]))):
        low_rank = approximation(
            kernel, x, weights=weights, rng=rng, observer=observer, engine=engine
        )
    if not approximation.refine:
        return fit_low_rank(task, low_rank)
    wide = asked
    if isinstance(asked, int) and asked < low_rank.rank:
        wide = min(asked + OVERSAMPLE, low_rank.rank)
    rough = fit_low_rank(replace(task, asked=wide), low_rank)
    operator = gram_operator(kernel, x, task.plan, weights, engine=engine)
    start = operator.scaled(rough.projection(x).astype(np.float64))
    k = min(asked, start.shape[1]) if isinstance(asked, int) else start.shape[1]
    with single_threaded_blas():
        pairs = ritz_pairs(operator, start, k, approximation.refine, rng=rng, observer=observer)
    found = dual_fit(task, operator, pairs)
    assert rough.certificate is not None
    known = rough.bounds[:, 1] if rough.certificate.kind != "estimate" else np.empty(0)
    # Rounding moves values, residuals and trace alike.
    values, off = found.eigenvalues, found.rounded
    residuals, rest = found.residuals * values[0] + found.cut, found.rest + float(off.sum())
    return replace(found, ceiling=refined_ceiling(values, off, residuals, rest, known))
