"""Kernel PCA of a low-rank factor: one pass over the rows, an r x r problem, and a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.types import Array, Indices, Rows
from mercer._core.wording import Message
from mercer.approximations import LowRank
from mercer.approximations.landmarks import core_matrix, entry_error, whitening
from mercer.data.rows import take_rows
from mercer.engine.moments import Moments
from mercer.engine.thin import times
from mercer.engine.threads import blas_between_passes, single_threaded_blas
from mercer.kernels.base import Kernel
from mercer.model.certificate import (
    Certificate,
    EntryRounding,
    proved_certificate,
    square_moves,
    squares_aside,
)
from mercer.model.lowrank_pass import (
    FEW,
    WIDER,
    Seen,
    look,
    look_at_squares,
    loses_little,
    square_dtype,
)
from mercer.model.projection import Projection, projection_dtype
from mercer.model.result import Fit, Task, keep
from mercer.model.rounding import ALIKE, require_variance
from mercer.model.space import FeatureMean
from mercer.operators import StoredGram
from mercer.solvers import Lapack
from mercer.solvers.base import EigenPairs, fixed_signs
from mercer.solvers.refine import NegativePart

# Once all rows are seen squares of sections may lose so many times what they should: the rows from which that
# was judged before are a few of them.
SLACK = 4.0
# Rows of a sample, and samples, from which the error of features that are no projection is judged.
SAMPLE_ROWS, SAMPLES = 1000, 3


def fit_low_rank(task: Task, low_rank: LowRank) -> Fit:
    """PCA of the features f = sections(x) W: A = WV and b = μᵀV for their axes V and mean μ.

    The pairs are those of the features' scatter, (r, k). ``total`` is tr(scatter) + tr(K - K̂), which is
    no less than tr(HKH) where K - K̂ is positive semi-definite: centring takes 1ᵀK1/n off the trace of K, and
    the scatter only 1ᵀK̂1/n. So with landmarks a share of the variance is never overstated. Random features
    err to either side, and their shares are estimates.
    """
    kernel, asked, dtype = task.kernel, task.asked, np.dtype(task.x.dtype)
    found = _found(task, low_rank, dtype)
    if (wanted := found.dtype_for(asked)) != dtype:
        # Scores of rows in float32 would be what is left of terms that cancel: the model computes in float64.
        dtype, points = wanted, low_rank.points
        # The same landmarks, and the directions among them that rounding hides in this precision only.
        unit = entry_error(kernel, points.astype(dtype))
        low_rank = replace(low_rank, whiten=whitening(core_matrix(kernel, points), unit), unit=None)
        found = _found(task, low_rank, dtype)
    seen, pairs, coef, cut = found.seen, found.pairs, found.coef, found.cut
    certificate = found.certificate
    total = float(np.trace(seen.moments.scatter)) + max(seen.trace - seen.held, 0.0)
    require_variance(found.values, cut)
    # Nothing but rounding is left out.
    whole = low_rank.projects and certificate.left_out <= certificate.rounding
    if not (whole and isinstance(asked, int)):  # otherwise there are no more components
        _require_reachable(found.values, asked, total, low_rank.rank, certificate.rounding)
    pairs = keep(pairs, asked, total=total, cut=cut)
    mean, whiten = seen.moments.mean, low_rank.whiten
    coef, offset = coef[:, : len(pairs.values)], mean @ pairs.vectors
    of_sections = mean if whiten is None else np.asarray(whiten @ mean)
    rank_bound = int(task.x.shape[0]) - 1  # what is left out counts in the total, and has a rank
    return Fit(
        Projection(low_rank.sections, coef.astype(dtype), offset.astype(dtype)),
        pairs,
        total,
        rank_bound=min(rank_bound, low_rank.rank) if whole else rank_bound,
        plan=task.plan,
        cut=cut,
        low_end=_negative_part(kernel, low_rank),
        asked=asked,
        weight=seen.moments.weight,
        mean=FeatureMean(of_sections, float(mean @ mean)),
        certificate=certificate,
    )


# ── one precision ───────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Found:
    """The eigenpairs of a factor whose features were computed in one precision, and how far to trust them."""

    dtype: np.dtype[Any]
    seen: Seen
    values: Array  # (k,), the first ones or all r
    coef: Array  # (m, k)
    pairs: EigenPairs  # those of them that were asked for
    certificate: Certificate
    cut: float
    errors: Array  # (k,) of the scores by rounding, root sums of squares over the rows

    def dtype_for(self, asked: int | float | None) -> np.dtype[Any]:
        """The precision in which the components that were asked for keep their digits."""
        values = self.values
        count = asked if isinstance(asked, int) else int(np.sum(values > self.cut))
        count = max(1, min(count, len(values)))
        terms = self.errors[:count] / float(np.finfo(self.dtype).eps)
        # Scores are √λ long, over all rows.
        return projection_dtype(self.dtype, terms, np.sqrt(np.maximum(values[:count], 0.0)))


def _found(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> Found:
    """From squares of sections where they lose no more than features do, and else from features."""
    if not low_rank.projects:
        return _estimated(task, low_rank, dtype)
    with blas_between_passes(low_rank.sections.width):
        squared_in = square_dtype(task, low_rank, dtype)
        if squared_in is not None:
            seen = look_at_squares(task, low_rank, dtype, squared_in)
            if (found := _proved(task, low_rank, dtype, seen, squared_in)) is not None:
                return found
        found = _proved(task, low_rank, dtype, look(task, low_rank, dtype), dtype)
    assert found is not None  # features are what squares are held against
    return found


def _estimated(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> Found:
    seen = look(task, low_rank, dtype)
    k, trace = _few(task, low_rank) or low_rank.rank, seen.trace
    values, coef, pairs = _axes(task, seen.moments, low_rank, k)
    estimate = _estimate(task, low_rank, trace)
    none = np.zeros_like(values)  # features are as small as what they tell apart
    # They are rounded to a few units of themselves, after which nothing but squares is summed up.
    nothing = (ALIKE * float(np.finfo(dtype).eps)) ** 2 * trace
    cut = max(_cut(values, none, dtype), nothing)
    return Found(dtype, seen, values, coef, pairs, estimate, cut, none)


def _estimate(task: Task, low_rank: LowRank, trace: float) -> Certificate:
    """‖K̃ - K̃̂‖₂, no eigenvalue is off by more, judged from exact kernel entries of sampled rows."""
    # The norm among s of n rows, times n/s, is that of all n up to sampling: rather more than less, since a
    # maximum over fewer rows fits their noise. The estimate is the largest of a few plus their spread.
    x, weights = task.x, task.weights
    n = int(x.shape[0])
    weight = float(n) if weights is None else float(weights.sum())
    draws, each = [np.arange(n)], np.ones(n) if weights is None else weights
    if n > SAMPLE_ROWS:
        share = None if weights is None else weights / weight
        # Without weights no row twice; with them a row may be worth several draws.
        law: dict[str, Any] = {"replace": share is not None, "p": share}
        draws = [task.rng.choice(n, SAMPLE_ROWS, **law) for _ in range(SAMPLES)]
        each = np.full(SAMPLE_ROWS, weight / SAMPLE_ROWS)
    norms = [_error_norm(task.kernel, x, low_rank, some, each) for some in draws]
    return Certificate("estimate", trace, 2.0 * max(norms) - min(norms))


def _error_norm(
    kernel: Kernel, x: Rows, low_rank: LowRank, chosen: Indices, weights: Array
) -> float:
    """The spectral norm of P S (K - K̂) S P on some rows, S = diag(√w) and P the projector beside √w."""
    rows = take_rows(x, chosen)
    engine = low_rank.sections.engine
    gap = engine.gram(kernel, engine.load(rows, kernel, rows.dtype)).astype(np.float64)
    features = low_rank.features(rows).astype(np.float64)
    with single_threaded_blas():  # after the threads of a pass, for which BLAS's own would wait
        gap -= features @ features.T
        gap -= weights @ gap / weights.sum()
        gap -= (gap @ weights / weights.sum())[:, None]
        roots = np.sqrt(weights)
        gap *= roots
        gap *= roots[:, None]
        values = np.linalg.eigvalsh(gap)
    return float(max(-values[0], values[-1], 0.0))


def _few(task: Task, low_rank: LowRank) -> int | None:
    """The number of components where they are so few that they are found apart from all others."""
    asked = task.asked
    return asked if isinstance(asked, int) and FEW * asked <= low_rank.rank else None


def _proved(
    task: Task, low_rank: LowRank, dtype: np.dtype[Any], seen: Seen, squared_in: np.dtype[Any]
) -> Found | None:
    """None where squares of sections turn out to lose more than features would."""
    # Of components beyond those asked for a bound on the sum of all moves will do, where that is next to
    # nothing beside what is left out; else all of them are found.
    few, whiten, kernel = _few(task, low_rank), low_rank.whiten, task.kernel
    lengths = kernel.tile_diag(low_rank.points.astype(dtype)).astype(np.float64)
    rounding = EntryRounding(lengths, seen.trace, low_rank.unit_in(kernel, dtype))
    found = partial(_found_with, task, low_rank, seen, rounding, dtype, squared_in=squared_in)
    if few is not None and whiten is not None and kernel.why_valid() is not None:
        scatter, none = float(np.trace(seen.moments.scatter)), np.empty((len(lengths), 0))
        most = rounding.aside(np.array([scatter]), none, whiten, scatter)
        # That of all of them; those that were asked for have a part in it.
        enough = most <= SLACK * WIDER * max(seen.trace - seen.held, 0.0)
        if enough and (of_few := found(k=few)) is not None:
            return of_few
    return found(k=low_rank.rank)


def _found_with(
    task: Task,
    low_rank: LowRank,
    seen: Seen,
    rounding: EntryRounding,
    dtype: np.dtype[Any],
    *,
    squared_in: np.dtype[Any],
    k: int,
) -> Found | None:
    """From the first k components; None where these, or squares of sections, don't tell enough."""
    kernel, trace, whiten = task.kernel, seen.trace, low_rank.whiten
    assert whiten is not None  # a projection has landmarks
    values, coef, pairs = _axes(task, seen.moments, low_rank, k)
    moves = rounding.moves(values, coef)
    parts, left_out, aside = values, max(trace - seen.held, 0.0), k < low_rank.rank
    if aside:
        rest = max(float(np.trace(seen.moments.scatter)) - float(np.sum(values)), 0.0)
        others = rounding.aside(values, coef, whiten, rest)
        if others > WIDER * left_out:
            return None
        parts, moves = np.append(values, rest), np.append(moves, 0.0)
    if seen.squares is not None:
        squared = square_moves(seen.squares, coef, squared_in)
        if aside:
            squared = np.append(squared, squares_aside(seen.squares, squared, whiten, squared_in))
        if not loses_little(squared, moves, left_out, task.asked, slack=SLACK):
            return None
        moves = np.minimum(moves + squared, np.maximum(parts, 0.0))
    if aside:  # a bound on them excuses no squares
        moves[-1] = min(moves[-1] + others, rest)
    proof = proved_certificate(
        parts, moves, rank=low_rank.rank, trace=trace, held=seen.held, dtype=dtype
    )
    proof = replace(proof, goal=low_rank.goal, assumed=kernel.why_valid() is None)
    cut = _cut(values, moves[:k], dtype)
    return Found(dtype, seen, values, coef, pairs, proof, cut, rounding.errors(coef))


# ── the r x r problem ───────────────────────────────────────────────────────
def _axes(
    task: Task, moments: Moments, low_rank: LowRank, k: int
) -> tuple[Array, Array, EigenPairs]:  # (k,), (m, k)
    """The first k eigenvalues of the scatter, the coefficients WV, and the pairs that were asked for."""
    scatter, asked = moments.scatter, task.asked
    if k < len(scatter):
        pairs = Lapack(subset=True).by_driver(StoredGram(scatter, task.plan.n_threads), k)
        pairs = replace(pairs, n_products=0, spectrum=None)  # of K
        values, vectors = pairs.values, pairs.vectors
    else:
        values, vectors = np.linalg.eigh(scatter)
        values, vectors = values[::-1], np.ascontiguousarray(vectors[:, ::-1])
        # All of their products, for residuals, would take as long again as LAPACK.
        top = vectors[:, : asked if isinstance(asked, int) else k]
        pairs = EigenPairs(values[: top.shape[1]], top, times(scatter, top))
    whiten = low_rank.whiten
    coef = vectors if whiten is None else times(whiten, np.ascontiguousarray(vectors))
    # Of the coefficients, not of the axes: those turn with the basis that happened to whiten the core.
    signs = fixed_signs(coef)
    return values, coef * signs, pairs.turned(signs[: len(pairs.values)])


def _cut(values: Array, moves: Array, dtype: np.dtype[Any]) -> float:
    """Eigenvalues up to this are rounding: of the scatter's products, or half of them of the features'."""
    lost = values[moves > 0.5 * values]
    products = 30.0 * float(np.finfo(dtype).eps) * float(np.max(values, initial=0.0))
    return max(products, float(np.max(lost, initial=0.0)))


def _require_reachable(
    values: Array, asked: int | float | None, total: float, rank: int, rounding: float
) -> None:
    """Raise when the rank, not the data, is what keeps the fit from what was asked for."""
    if isinstance(asked, int) and asked > rank:
        msg = Message(
            f"{asked} components were asked for, but the approximation has rank {rank}. Raise "
            "its rank, ask for fewer components, or use {approximation:None}."
        )
        raise InputError(msg)
    held = float(np.sum(values))
    if isinstance(asked, float) and held < asked * total * (1.0 - 1e-12) - rounding:
        msg = Message(
            f"{{n_components:{asked}}} was asked for, but an approximation of rank {rank} shows "
            f"only {held / total:.2%} of the variance for certain. Raise its rank, ask for a smaller share "
            "or for a number of components, or use {approximation:None}."
        )
        raise InputError(msg)


def _negative_part(kernel: Kernel, low_rank: LowRank) -> NegativePart | None:
    """Where validity is not known: what the landmarks show of it."""
    if kernel.why_valid() is not None or not low_rank.projects:
        return None
    values = np.linalg.eigvalsh(core_matrix(kernel, low_rank.points))
    return NegativePart(float(values.min()), float(-values[values < 0].sum()), complete=False)
