"""Exact kernel PCA: from a resolved kernel and checked rows to a projection with evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError, MemoryBudgetError
from mercer.engine.threads import n_blas_threads
from mercer.engine.tiles import square_tiling
from mercer.kernels.dot import Linear
from mercer.model.linear import fit_features, fit_linear_pca, require_finite, require_variance
from mercer.model.plan import LAPACK_SHARE, TILE_BYTES, Plan
from mercer.model.projection import Projection
from mercer.model.result import Fit, first_reaching, keep
from mercer.operators import Centred, StoredGram, TiledGram, minus_mean
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.solvers import EigenPairs, Lapack
from mercer.solvers.lowend import LowEnd, low_end

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel


def fit_kernel_pca(
    kernel: Kernel, x: Rows, asked: int | float | None, *, plan: Plan, rng: np.random.Generator
) -> Fit:
    """Kernel PCA of the rows x with a resolved kernel, as planned."""
    if not kernel.parallel:
        _probe_symmetry(kernel, x)
    if isinstance(kernel, Linear):
        # The rows themselves can be centred, on either side: exact also far from the origin.
        return fit_linear_pca(x, asked, plan=plan, rng=rng)
    if plan.route == "primal":
        return _fit_primal(kernel, x, asked, plan=plan, rng=rng)
    return _fit_dual(kernel, x, asked, plan=plan, rng=rng)


# ── dual: eigenvectors of HKH ───────────────────────────────────────────────
def _fit_dual(
    kernel: Kernel, x: Rows, asked: int | float | None, *, plan: Plan, rng: np.random.Generator
) -> Fit:
    """One product K̃U proves the pairs and, with K1/n riding along, gives offset and trace."""
    operator, sketch = gram_operators(kernel, x, plan)
    diag = operator.gram.diag()
    require_finite(diag)
    pairs, total = _solve(operator, sketch, asked, plan=plan, rng=rng)
    cut = rounding_cut(pairs.values, float(np.max(np.abs(diag))), operator.n, operator.dtype)
    require_variance(pairs.values if pairs.spectrum is None else pairs.spectrum, cut)
    seen = None if kernel.why_valid() else _low_end(operator, sketch, pairs, rng=rng)
    pairs = keep(pairs, asked, total=total, cut=cut)
    coef = minus_mean(pairs.vectors / np.sqrt(pairs.values))  # (n, k)
    offset = operator.row_means @ coef  # (k,)
    sections = GivenSections(operator.n) if kernel.is_precomputed else KernelSections(kernel, x)
    dtype = np.dtype(x.dtype)
    projection = Projection(sections, coef.astype(dtype), offset.astype(dtype))
    return Fit(projection, pairs, total, operator.n - 1, plan, cut, seen, asked, operator.n)


def gram_operators(kernel: Kernel, x: Rows, plan: Plan) -> tuple[Centred, Centred | None]:
    """HKH as planned, and its float32 sketch where the plan has one."""
    if kernel.is_precomputed:
        return Centred(StoredGram(x, n_blas_threads())), None
    exact = tiled(kernel, x)
    if plan.storage == "full":
        return Centred(exact.stored()), None
    if plan.storage == "half":
        sketch = Centred(_sketch(kernel, x))
        with np.errstate(over="ignore", invalid="ignore"):
            usable = np.all(np.isfinite(sketch.row_means))
        # Values beyond float32 (a huge scale) leave the exact operator on its own.
        return Centred(exact), sketch if usable else None
    return Centred(exact), None


def _sketch(kernel: Kernel, x: Rows) -> StoredGram:
    """K in float32, less a constant: neither changes HKH beyond rounding.

    The kernel is shift-invariant, or this plan would not be, so the rows may be centred, which rounds
    best. And H(K - c11ᵀ)H = HKH: entries about zero round to smaller errors than entries about c.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (x - x.mean(axis=0)).astype(np.float32)
        some = rows[:: max(1, len(rows) // 100)]
        return tiled(kernel, rows).stored(minus=float(kernel.tile(some, some).mean()))


def tiled(kernel: Kernel, x: Rows) -> TiledGram:
    """The Gram matrix of the rows, in tiles for as many threads as BLAS may use."""
    n_threads = n_blas_threads()
    tiling = square_tiling(
        x.shape[0], itemsize=x.dtype.itemsize, budget_bytes=TILE_BYTES, n_threads=n_threads
    )
    return TiledGram(kernel, x, tiling, n_threads)


def _solve(
    operator: Centred,
    sketch: Centred | None,
    asked: int | float | None,
    *,
    plan: Plan,
    rng: np.random.Generator,
) -> tuple[EigenPairs, float]:
    n = operator.n
    if asked is None or isinstance(plan.solver, Lapack):
        k = asked if isinstance(asked, int) else n
        pairs = plan.solver(operator, k, rng=rng, sketch=sketch)
        return pairs, operator.trace()
    if isinstance(asked, int):
        pairs = plan.solver(operator, asked, rng=rng, sketch=sketch)
        return pairs, operator.trace()
    return _grow(operator, sketch, asked, plan=plan, rng=rng)


def _grow(
    operator: Centred,
    sketch: Centred | None,
    share: float,
    *,
    plan: Plan,
    rng: np.random.Generator,
) -> tuple[EigenPairs, float]:
    """Double k until the share of the variance is reached; go to LAPACK when k nears n."""
    n, k = operator.n, 16
    start: Array | None = None
    spent = 0
    while k <= n // LAPACK_SHARE:
        pairs = plan.solver(operator, k, rng=rng, sketch=sketch, start=start)
        spent += pairs.n_products
        total = operator.trace()
        if pairs.values.sum() >= share * total:
            count = first_reaching(pairs.values, share * total)
            return replace(pairs.first(count), n_products=spent), total
        start, k = pairs.vectors, 2 * k
    if not plan.lapack_fits:
        msg = (
            f"{share:.1%} of the variance takes more than {k // 2} components, and `memory` does not "
            f"hold the {n} x {n} problem of finding all. Ask for a smaller share or a number of "
            "components, raise `memory`, or use a wider kernel."
        )
        raise MemoryBudgetError(msg)
    pairs = Lapack()(operator, n, rng=rng)
    return replace(pairs, n_products=spent + pairs.n_products), operator.trace()


def _low_end(
    operator: Centred, sketch: Centred | None, pairs: EigenPairs, *, rng: np.random.Generator
) -> LowEnd:
    if pairs.spectrum is not None:
        return LowEnd.of_spectrum(pairs.spectrum)
    return low_end(operator if sketch is None else sketch, rng=rng)


# ── primal: eigenvectors of the covariance of φ(x) ──────────────────────────
def _fit_primal(
    kernel: Kernel, x: Rows, asked: int | float | None, *, plan: Plan, rng: np.random.Generator
) -> Fit:
    """PCA of φ(x): the same non-zero eigenvalues, on the m x m side."""
    feature_map = kernel.feature_map(int(x.shape[1]))
    sections = FeatureSections(feature_map)
    return fit_features(feature_map(x), sections, asked, plan=plan, rng=rng)


# ── what goes wrong ─────────────────────────────────────────────────────────
def rounding_cut(values: Array, largest: float, n: int, dtype: np.dtype[Any]) -> float:
    """Eigenvalues below this are rounding: of the entries (random, √n) and of the solver (λ₁)."""
    eps = float(np.finfo(dtype).eps)
    top = float(np.max(values, initial=0.0))
    return eps * (4.0 * np.sqrt(n) * largest + 30.0 * top)


def _probe_symmetry(kernel: Kernel, x: Rows) -> None:
    """Half of the tiles stand for both halves, so a user's function has to be symmetric."""
    if kernel.is_precomputed:
        return
    few = x[np.unique(np.linspace(0, x.shape[0] - 1, 12).astype(np.intp))]
    tile = kernel.tile(few, few)
    gap = np.abs(tile - tile.T)
    if gap.max() > 1e3 * np.finfo(tile.dtype).eps * max(float(np.abs(tile).max()), 1e-300):
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        msg = (
            f"{kernel!r} is not symmetric: k(x, y) = {tile[i, j]:.6g} but k(y, x) = {tile[j, i]:.6g} "
            "for two rows of the data. A kernel needs k(x, y) = k(y, x); "
            "`mercer.check_kernel` shows the points."
        )
        raise KernelError(msg)
