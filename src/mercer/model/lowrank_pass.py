"""The pass of a low-rank fit: one look at every row, and what it shows of the factor's features.

With sections c = k(x, Z) and features f = cW the scatter of the features is Wᵀ(Σ c cᵀ)W. Squares of sections
take half the work of a product with W, which is then applied to an m x m matrix only; but W amplifies their
rounding twice, and that of features once. So where the core k(Z, Z) is well conditioned for the precision at
hand sections are squared, and elsewhere features are made of every row. The formulas of the certificate
decide, for the components that were asked for and for the bounds, and count what squares add.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.types import Array, Rows
from mercer._core.wording import Message
from mercer.approximations import LowRank
from mercer.approximations.landmarks import checked_lengths
from mercer.data.rows import take_rows
from mercer.engine.base import Mergeable, Step
from mercer.engine.moments import Moments
from mercer.engine.steps import SquareFeatures, SquareSections
from mercer.engine.thin import inner, times
from mercer.kernels.base import Kernel
from mercer.model.certificate import EntryRounding, square_moves
from mercer.model.result import Task
from mercer.operators.centred import require_finite
from mercer.planning.problem import spread_over

S = TypeVar("S", bound=Mergeable)

# Fewer rows a landmark than this: the choice would take as long as what it saves.
ROWS_A_LANDMARK = 4
# Rows that it is judged from: so many, or this share of the landmarks' number, but no more than there are of
# those. Components that are found apart from all others are fewer than half of them.
JUDGED_ROWS, JUDGED_SHARE = 512, 4
# Components are found apart from all others where there are so many times more, in so many steps.
FEW, ROUNDS = 10, 3
# By this share of what is left out the bounds on eigenvalues may grow wider.
WIDER = 1e-3


@dataclass(frozen=True)
class Seen:
    """What one pass over the rows shows of a factor."""

    moments: Moments  # of the features
    trace: float  # Σw k(x, x)
    lowest: float  # the smallest k(x, x) - ‖f‖², where it was looked for
    squares: Array | None = None  # (m,) Σw(c - mean)² of each section, where those were squared

    @property
    def held(self) -> float:
        """Σw‖f‖² = tr K̂."""
        mean = self.moments.mean
        return float(np.trace(self.moments.scatter) + self.moments.weight * (mean @ mean))

    def merged(self, other: Seen) -> Seen:
        lowest = min(self.lowest, other.lowest)
        return Seen(self.moments.merged(other.moments), self.trace + other.trace, lowest)


@dataclass(frozen=True, repr=False)
class Look:
    """The step of that pass: features of some rows in one precision, and what they leave out."""

    kernel: Kernel
    factor: LowRank
    dtype: np.dtype[Any]
    weights: Array | None  # (n,)
    # Of k(x, x), where ‖f‖² may be larger; None: the kernel is known to be valid.
    slack: float | None

    def __call__(self, rows: Rows, place: slice) -> Seen:
        w = None if self.weights is None else self.weights[place]
        rows = rows.astype(self.dtype, copy=False)
        features = self.factor.features(rows)  # (b, r)
        diagonal = checked_lengths(self.kernel, rows)  # (b,)
        lowest = np.inf
        if self.slack is not None:
            left = diagonal - np.einsum("ij,ij->i", features, features)
            lowest = float(np.min(left + self.slack * diagonal))
        trace = float(diagonal.sum() if w is None else w @ diagonal)
        # Kernel values, and products with them, are new arrays; an explicit map may hand over the rows.
        return Seen(Moments.of(features, w, overwrite=self.factor.projects), trace, lowest)


def look(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> Seen:
    """One pass over the rows: their features in a precision."""
    kernel, slack = task.kernel, None
    if low_rank.projects and kernel.why_valid() is None:
        slack = float(np.sqrt(low_rank.unit_in(kernel, low_rank.points.dtype)))
    known = low_rank.known(dtype) if slack is None else None
    if known is None:
        step = Look(kernel, low_rank.rounded(dtype), dtype, task.weights, slack)
        seen = _folded(task, low_rank, step)
    else:
        lengths = partial(checked_lengths, kernel)
        found = _folded(task, low_rank, SquareFeatures(known, dtype, task.weights, lengths))
        seen = Seen(found.moments, found.trace, np.inf)
    require_finite(np.diagonal(seen.moments.scatter))
    if seen.lowest < 0:
        # A projection longer than what is projected: no feature space has that.
        msg = Message(
            f"The kernel is not positive semi-definite on these data: k(x, x) less its part in the span "
            f"of the landmarks is {seen.lowest:.3g} for some row, so there is no low-rank bound. "
            "{mercer.check_kernel} shows a witness; use a valid kernel, or {approximation:None}."
        )
        raise KernelError(msg)
    return seen


def look_at_squares(
    task: Task, low_rank: LowRank, dtype: np.dtype[Any], squared_in: np.dtype[Any]
) -> Seen:
    """The same from sections, by products in `squared_in`."""
    points, lengths = low_rank.points, partial(checked_lengths, task.kernel)
    engine = low_rank.sections.engine
    step = SquareSections(task.kernel, points, dtype, squared_in, task.weights, lengths, engine)
    squared, whiten = _folded(task, low_rank, step), low_rank.whiten
    of_sections = squared.moments
    require_finite(np.diagonal(of_sections.scatter))
    assert whiten is not None
    scatter = times(np.ascontiguousarray(whiten.T), times(of_sections.scatter, whiten))  # (r, r)
    moments = Moments(of_sections.weight, of_sections.mean @ whiten, scatter)
    return Seen(moments, squared.trace, np.inf, np.diagonal(of_sections.scatter).copy())


def _folded(task: Task, low_rank: LowRank, step: Step[S]) -> S:
    sections = low_rank.sections
    with np.errstate(over="ignore", invalid="ignore"):  # reported, in words, of the sums
        return sections.engine.fold(
            task.x, step, width=sections.width, parallel=sections.parallel, observer=task.observer
        )


# ── squares or features ─────────────────────────────────────────────────────
def square_dtype(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The precision in which squares of sections lose no more than features do; None where there is none."""
    # Judged from a few hundred rows, and again when all are seen. Lengths of features show an invalid kernel.
    kernel, whiten = task.kernel, low_rank.whiten
    n, m = int(task.x.shape[0]), low_rank.sections.width
    few_rows = n < ROWS_A_LANDMARK * m
    if not low_rank.projects or whiten is None or few_rows or kernel.why_valid() is None:
        return None
    some = min(m, max(JUDGED_ROWS, m // JUDGED_SHARE))
    rows = take_rows(task.x, spread_over(n, some)).astype(np.float64)
    lengths = kernel.tile_diag(low_rank.points.astype(np.float64))
    trace = kernel.tile_diag(rows).sum()
    rounding = EntryRounding(lengths, trace, low_rank.unit_in(kernel, dtype))
    sections = low_rank.sections(rows)  # (s, m)
    largest = float(np.abs(sections).max(initial=0.0))
    precisions = [p for p in dict.fromkeys((dtype, rows.dtype)) if can_be_squared(largest, p)]
    if not precisions:  # features are as large as the root of that
        return None
    features = times(sections, whiten)  # (s, r)
    left_out = max(float(trace - np.vdot(features, features)), 0.0)
    squares = np.var(sections, axis=0) * some
    features -= features.mean(axis=0)
    directions = list(_judged(features, whiten, task.asked))
    for precision in precisions:
        for values, coef in directions:
            moves = rounding.moves(values, coef)
            squared = square_moves(squares, coef, precision)
            if len(values) < whiten.shape[1]:
                # Of the components that are left aside, what squares add counts, and not what they may.
                rest = square_moves(squares, whiten, precision).sum() - squared.sum()
                squared, moves = np.append(squared, max(rest, 0.0)), np.append(moves, 0.0)
            if loses_little(squared, moves, left_out, task.asked):
                return precision
            if not loses_little(squared, moves, np.inf, task.asked):
                break  # those that were asked for lose digits, whatever the others do
    return None


def can_be_squared(largest: float, dtype: np.dtype[Any]) -> bool:
    """Whether sums of squares of numbers up to this one are in range: not those of 1e200 times a kernel."""
    # Where its cube is, many squares can be summed, and those of numbers that count beside it don't vanish.
    limits = np.finfo(dtype)
    return float(limits.tiny) < largest**3 < float(limits.max) if largest < 1e100 else False


def _judged(
    features: Array, whiten: Array, asked: int | float | None
) -> Iterator[tuple[Array, Array]]:  # (s, r), (m, r) -> (k,), (m, k)
    """The variance of the features along some directions, and these as coefficients of the sections."""
    if isinstance(asked, int) and FEW * asked <= whiten.shape[1]:
        # Roughly those of the components, by subspace iteration from rows, which lie where the variance is.
        axes = np.ascontiguousarray(features[:: max(1, len(features) // (2 * asked))].T)  # (r, ·)
        for _ in range(ROUNDS):
            axes = np.linalg.qr(inner(features, times(features, axes)))[0]
        seen = times(features, axes)
        _, turn = np.linalg.eigh(inner(seen, seen))
        axes = np.ascontiguousarray((axes @ turn)[:, : -asked - 1 : -1])
        seen = times(features, axes)
        yield np.einsum("ij,ij->j", seen, seen), times(whiten, axes)
    # Those that W consists of: eigenvectors of the core, or what each landmark adds to the ones before it.
    yield np.einsum("ij,ij->j", features, features), whiten


def loses_little(  # (r,), (r,)
    squared: Array, moves: Array, left_out: float, asked: int | float | None, *, slack: float = 1.0
) -> bool:
    """Whether what squares add to moves costs the components asked for no digits, and the bounds little."""
    # Each of those components may lose as much as it does with features; all losses together may widen the
    # bounds by a thousandth of themselves.
    count = asked if isinstance(asked, int) else len(moves)
    if np.any(squared[:count] > slack * moves[:count]):
        return False
    return float(np.sum(squared)) <= slack * max(float(np.sum(moves)), WIDER * left_out)
