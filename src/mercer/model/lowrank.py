"""Kernel PCA of a low-rank factor: one pass over the rows, an r x r problem, and a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer.approximations.landmarks import require_lengths
from mercer.approximations.whitening import core_matrix, eigen_whitening, entry_error
from mercer.engine.moments import Moments
from mercer.model.certificate import (
    estimated_certificate,
    proved_certificate,
    rounding_errors,
    rounding_moves,
)
from mercer.model.linear import require_variance
from mercer.model.projection import Projection, projection_dtype
from mercer.model.result import Fit, keep
from mercer.model.rounding import ALIKE
from mercer.model.space import FeatureMean
from mercer.operators.centred import require_finite
from mercer.operators.sections import KernelSections
from mercer.solvers.base import EigenPairs, fixed_signs
from mercer.solvers.negative_part import NegativePart

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.approximations import LowRank
    from mercer.kernels.base import Kernel
    from mercer.model.certificate import Certificate
    from mercer.model.task import Task


def fit_low_rank(task: Task, low_rank: LowRank) -> Fit:
    """PCA of the features f = sections(x) W: A = WV and b = μᵀV for their axes V and mean μ.

    The pairs are those of the features' scatter, (r, k). ``total`` is tr(scatter) + tr(K - K̂), which is
    no less than tr(HKH) where K - K̂ is positive semi-definite: centring takes 1ᵀK1/n off the trace of K, and
    the scatter only 1ᵀK̂1/n. So with landmarks a share of the variance is never overstated. Random features
    err to either side, and their shares are estimates.

    Where the scores of rows in float32 would be what is left of terms that cancel, the pass is made again
    in float64, and the model computes in it.
    """
    kernel, asked, dtype = task.kernel, task.asked, np.dtype(task.x.dtype)
    found = _found(task, low_rank, dtype)
    if found.dtype_for(asked) != dtype:
        dtype = found.dtype_for(asked)
        low_rank = _rewhitened(kernel, low_rank, dtype)
        found = _found(task, low_rank, dtype)
    seen, pairs, coef, cut = found.seen, found.pairs, found.coef, found.cut
    certificate = found.certificate
    total = float(np.trace(seen.moments.scatter)) + max(seen.trace - seen.held, 0.0)
    require_variance(pairs.values, cut)
    _require_reachable(pairs.values, asked, total, low_rank, certificate)
    pairs = keep(pairs, asked, total=total, cut=cut)
    mean = seen.moments.mean
    coef, offset = coef[:, : len(pairs.values)], mean @ pairs.vectors
    return Fit(
        Projection(low_rank.sections, coef.astype(dtype), offset.astype(dtype)),
        pairs,
        total,
        rank_bound=_rank_bound(int(task.x.shape[0]), low_rank, certificate),
        plan=task.plan,
        cut=cut,
        low_end=_negative_part(kernel, low_rank),
        asked=asked,
        weight=seen.moments.weight,
        mean=FeatureMean(_in_sections(low_rank, mean), float(mean @ mean)),
        certificate=certificate,
    )


def _in_sections(low_rank: LowRank, mean: Array) -> Array:
    """The mean of the features as coefficients of the sections."""
    return mean if low_rank.whiten is None else np.asarray(low_rank.whiten @ mean)


# ── one precision ───────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Found:
    """The eigenpairs of a factor whose features were computed in one precision, and how far to trust them."""

    dtype: np.dtype[Any]
    seen: Seen
    pairs: EigenPairs  # all r of them
    coef: Array  # (m, r)
    certificate: Certificate
    cut: float
    errors: Array  # (r,) of the scores by rounding, root sums of squares over the rows

    def dtype_for(self, asked: int | float | None) -> np.dtype[Any]:
        """The precision in which the components that were asked for keep their digits."""
        values = self.pairs.values
        count = asked if isinstance(asked, int) else int(np.sum(values > self.cut))
        count = max(1, min(count, len(values)))
        terms = self.errors[:count] / float(np.finfo(self.dtype).eps)
        # Scores are √λ long, over all rows.
        return projection_dtype(self.dtype, terms, np.sqrt(np.maximum(values[:count], 0.0)))


def _rewhitened(kernel: Kernel, low_rank: LowRank, dtype: np.dtype[Any]) -> LowRank:
    """The same landmarks, and the directions among them that rounding hides in this precision only."""
    points = _points(low_rank)
    unit = entry_error(kernel, points.astype(dtype))
    return replace(low_rank, whiten=eigen_whitening(core_matrix(kernel, points), unit))


def _found(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> Found:
    kernel, seen = task.kernel, _look(task, low_rank, dtype)
    pairs, coef = _axes(seen.moments, low_rank)
    values, trace = pairs.values, seen.trace
    if not low_rank.projects:
        estimate = estimated_certificate(
            kernel, task.x, low_rank, trace=trace, weights=task.weights, rng=task.rng
        )
        none = np.zeros_like(values)  # features are as small as what they tell apart
        # They are rounded to a few units of themselves, after which nothing but squares is summed up.
        nothing = (ALIKE * float(np.finfo(dtype).eps)) ** 2 * trace
        cut = max(_cut(values, none, dtype), nothing)
        return Found(dtype, seen, pairs, coef, estimate, cut, none)
    points = _points(low_rank).astype(dtype)
    lengths = kernel.tile_diag(points).astype(np.float64)
    errors = rounding_errors(lengths, coef, trace=trace, unit=entry_error(kernel, points))
    moves = rounding_moves(lengths, values, coef, errors)
    proof = proved_certificate(values, moves, trace=trace, held=seen.held, dtype=dtype)
    proof = replace(proof, goal=low_rank.goal, assumed=kernel.why_valid() is None)
    return Found(dtype, seen, pairs, coef, proof, _cut(values, moves, dtype), errors)


# ── the pass ────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Seen:
    """What one pass over the rows tells of a factor."""

    moments: Moments  # of the features
    trace: float  # Σw k(x, x)
    lowest: float  # the smallest k(x, x) - ‖f‖², where it was looked for

    @property
    def held(self) -> float:
        """Σw‖f‖² = tr K̂."""
        mean = self.moments.mean
        return float(np.trace(self.moments.scatter) + self.moments.weight * (mean @ mean))

    def merged(self, other: Seen) -> Seen:
        """Of both sets of rows."""
        return Seen(
            self.moments.merged(other.moments),
            self.trace + other.trace,
            min(self.lowest, other.lowest),
        )


@dataclass(frozen=True, repr=False)
class Look:
    """The step of that pass: the features of some rows in one precision, and what they leave out."""

    kernel: Kernel
    factor: LowRank
    dtype: np.dtype[Any]
    weights: Array | None  # (n,)
    slack: (
        float | None
    )  # of k(x, x), where ‖f‖² may be larger; None where the kernel is known to be valid

    def __call__(self, rows: Rows, place: slice) -> Seen:
        w = None if self.weights is None else self.weights[place]
        rows = rows.astype(self.dtype, copy=False)
        features = self.factor.features(rows)  # (b, r)
        diagonal = self.kernel.tile_diag(rows).astype(np.float64)  # (b,)
        require_lengths(diagonal)
        lowest = np.inf
        if self.slack is not None:
            left = diagonal - np.einsum("ij,ij->i", features, features)
            lowest = float(np.min(left + self.slack * diagonal))
        trace = float(diagonal.sum() if w is None else w @ diagonal)
        return Seen(Moments.of(features, w), trace, lowest)


def _look(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> Seen:
    kernel, sections = task.kernel, low_rank.sections
    in_doubt = low_rank.projects and kernel.why_valid() is None
    slack = float(np.sqrt(entry_error(kernel, _points(low_rank)))) if in_doubt else None
    look = Look(kernel, low_rank.rounded(dtype), dtype, task.weights, slack)
    with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
        seen = sections.engine.fold(
            task.x, look, width=sections.width, parallel=sections.parallel, observer=task.observer
        )
    require_finite(np.diagonal(seen.moments.scatter))
    if seen.lowest < 0:
        # A projection longer than what is projected: no feature space has that.
        msg = (
            f"The kernel is not positive semi-definite on these data: k(x, x) less its part in the span "
            f"of the landmarks is {seen.lowest:.3g} for some row, so there is no low-rank bound. "
            "`mercer.check_kernel` shows a witness; use a valid kernel, or approximation=None."
        )
        raise KernelError(msg)
    return seen


def _points(low_rank: LowRank) -> Rows:
    """Z."""
    sections = low_rank.sections
    assert isinstance(sections, KernelSections)  # what is a projection has landmarks
    return sections.points


# ── the r x r problem ───────────────────────────────────────────────────────
def _axes(moments: Moments, low_rank: LowRank) -> tuple[EigenPairs, Array]:
    """All eigenpairs of the scatter, and the coefficients WV, whose signs are fixed."""
    values, vectors = np.linalg.eigh(moments.scatter)
    products = moments.scatter @ vectors
    pairs = EigenPairs.largest(values, vectors, products, len(values))
    coef = pairs.vectors if low_rank.whiten is None else low_rank.whiten @ pairs.vectors
    # Of the coefficients, not of the axes: those turn with the basis that happened to whiten the core.
    signs = fixed_signs(coef)
    return pairs.turned(signs), coef * signs


def _cut(values: Array, moves: Array, dtype: np.dtype[Any]) -> float:
    """Eigenvalues up to this are rounding: of the scatter's products, or half of them of the features'."""
    lost = values[moves > 0.5 * values]
    products = 30.0 * float(np.finfo(dtype).eps) * float(np.max(values, initial=0.0))
    return max(products, float(np.max(lost, initial=0.0)))


def _is_whole(low_rank: LowRank, certificate: Certificate) -> bool:
    """Whether nothing but rounding is left out."""
    return low_rank.projects and certificate.left_out <= certificate.rounding


def _rank_bound(n: int, low_rank: LowRank, certificate: Certificate) -> int:
    """What is left out has eigenvalues too, and they count in the total."""
    return min(n - 1, low_rank.rank) if _is_whole(low_rank, certificate) else n - 1


def _require_reachable(
    values: Array,
    asked: int | float | None,
    total: float,
    low_rank: LowRank,
    certificate: Certificate,
) -> None:
    """Raise when the rank, not the data, is what keeps the fit from what was asked for."""
    if isinstance(asked, int) and asked > low_rank.rank:
        if _is_whole(low_rank, certificate):
            return  # there are no more components
        msg = (
            f"{asked} components were asked for, but the approximation has rank {low_rank.rank}. Raise "
            "its rank, ask for fewer components, or use approximation=None."
        )
        raise InputError(msg)
    held = float(np.sum(values))
    if isinstance(asked, float) and held < asked * total * (1.0 - 1e-12) - certificate.rounding:
        msg = (
            f"n_components={asked} came, but an approximation of rank {low_rank.rank} shows only "
            f"{held / total:.2%} of the variance for certain. Raise its rank, ask for a smaller share or "
            "for a number of components, or use approximation=None."
        )
        raise InputError(msg)


def _negative_part(kernel: Kernel, low_rank: LowRank) -> NegativePart | None:
    """Where validity is not known: what the landmarks show of it."""
    if kernel.why_valid() is not None or not low_rank.projects:
        return None
    values = np.linalg.eigvalsh(core_matrix(kernel, _points(low_rank)))
    return NegativePart(float(values.min()), float(-values[values < 0].sum()), complete=False)
