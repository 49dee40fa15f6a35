"""The pass of a low-rank fit: one look at every row, and what it tells of the factor's features.

With sections c = k(x, Z) and features f = cW the scatter of the features is Wᵀ(Σ c cᵀ)W. Squares of sections
take half the work of a product with W, which is then applied to an m x m matrix only; but W amplifies their
rounding twice, and that of features once. So where the core k(Z, Z) is well conditioned for the precision at
hand sections are squared, and elsewhere features are made of every row. The formulas of the certificate
decide, for the components that were asked for and for the bounds, and count what squares add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError
from mercer.approximations.landmarks import require_lengths
from mercer.approximations.whitening import entry_error
from mercer.data.rows import row_slices, take_rows
from mercer.engine.moments import Moments
from mercer.model.certificate import rounding_errors, rounding_moves, square_moves
from mercer.operators.centred import require_finite
from mercer.operators.sections import KernelSections

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.approximations import LowRank
    from mercer.kernels.base import Kernel
    from mercer.model.task import Task

# Fewer rows a landmark than this: the choice would take as long as what it saves.
ROWS_A_LANDMARK = 4
# Rows whose sections in float32 are squared in float64 at a time.
WIDER_ROWS = 1024
# By this share of what is left out the bounds on eigenvalues may grow wider.
WIDER = 1e-3


@dataclass(frozen=True)
class Seen:
    """What one pass over the rows tells of a factor."""

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
        """Of both sets of rows."""
        return Seen(
            self.moments.merged(other.moments),
            self.trace + other.trace,
            min(self.lowest, other.lowest),
        )

    def whitened(self, whiten: Array) -> Seen:  # (m, r)
        """Of features, from what was seen of sections."""
        squares = np.diagonal(self.moments.scatter).copy()
        return replace(self, moments=self.moments.mapped(whiten), squares=squares)


@dataclass(frozen=True, repr=False)
class Look:
    """The step of that pass: sections or features of some rows in one precision, and what they leave out."""

    kernel: Kernel
    factor: LowRank  # whose `whiten` is None where sections are squared
    dtype: np.dtype[Any]
    squared_in: np.dtype[Any]
    weights: Array | None  # (n,)
    slack: (
        float | None
    )  # of k(x, x), where ‖f‖² may be larger; None where the kernel is known to be valid

    def __call__(self, rows: Rows, place: slice) -> Seen:
        w = None if self.weights is None else self.weights[place]
        n = int(rows.shape[0])
        # A wider copy of all sections would be twice as large as they are.
        height = n if self.squared_in == self.dtype else WIDER_ROWS
        slices = row_slices(n, height)
        return reduce(
            Seen.merged, (self._seen(rows[i], None if w is None else w[i]) for i in slices)
        )

    def _seen(self, rows: Rows, w: Array | None) -> Seen:
        rows = rows.astype(self.dtype, copy=False)
        features = self.factor.features(rows)  # (b, r)
        diagonal = self.kernel.tile_diag(rows).astype(np.float64)  # (b,)
        require_lengths(diagonal)
        lowest = np.inf
        if self.slack is not None:
            left = diagonal - np.einsum("ij,ij->i", features, features)
            lowest = float(np.min(left + self.slack * diagonal))
        trace = float(diagonal.sum() if w is None else w @ diagonal)
        features = features.astype(self.squared_in, copy=False)
        # Kernel values, and products with them, are new arrays; an explicit map may hand over the rows.
        return Seen(Moments.of(features, w, overwrite=self.factor.projects), trace, lowest)


def look(task: Task, low_rank: LowRank, dtype: np.dtype[Any], *, squared_in: Any = None) -> Seen:
    """One pass over the rows in a precision; `squared_in`: of sections, by products in that precision."""
    kernel, sections = task.kernel, low_rank.sections
    in_doubt = low_rank.projects and kernel.why_valid() is None
    slack = float(np.sqrt(entry_error(kernel, points_of(low_rank)))) if in_doubt else None
    whole = squared_in is None
    factor = low_rank.rounded(dtype) if whole else replace(low_rank, whiten=None)
    step = Look(kernel, factor, dtype, dtype if whole else squared_in, task.weights, slack)
    with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
        seen = sections.engine.fold(
            task.x, step, width=sections.width, parallel=sections.parallel, observer=task.observer
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
    if whole:
        return seen
    assert low_rank.whiten is not None
    return seen.whitened(low_rank.whiten)


def points_of(low_rank: LowRank) -> Rows:
    """Z."""
    sections = low_rank.sections
    assert isinstance(sections, KernelSections)  # what is a projection has landmarks
    return sections.points


# ── squares or features ─────────────────────────────────────────────────────
def square_dtype(task: Task, low_rank: LowRank, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The precision in which squares of sections lose no more than features do; None where there is none.

    Judged from as many rows as there are landmarks; the fit looks again when it has seen all. A kernel that
    may not be one has features, whose lengths tell.
    """
    kernel, whiten = task.kernel, low_rank.whiten
    n, m = int(task.x.shape[0]), low_rank.sections.width
    if not low_rank.projects or whiten is None or n < ROWS_A_LANDMARK * m:
        return None
    if kernel.why_valid() is None:
        return None
    rows = take_rows(task.x, np.linspace(0, n - 1, m).astype(np.intp)).astype(np.float64)
    points = points_of(low_rank)
    lengths, trace = kernel.tile_diag(points.astype(np.float64)), kernel.tile_diag(rows).sum()
    sections = low_rank.sections(rows)  # (m, m)
    features = sections @ whiten  # (m, r)
    left_out = max(float(trace - np.vdot(features, features)), 0.0)
    values, squares = (np.var(each, axis=0) * m for each in (features, sections))
    unit = entry_error(kernel, points.astype(dtype))
    errors = rounding_errors(lengths, whiten, trace=trace, unit=unit)
    moves = rounding_moves(lengths, values, whiten, errors)
    for precision in dict.fromkeys((dtype, np.dtype(np.float64))):
        squared = square_moves(squares, whiten, precision)
        if loses_little(squared, moves, left_out, task.asked):
            return precision
    return None


def loses_little(
    squared: Array,  # (r,) what squares of sections add
    moves: Array,  # (r,) to the rounding of features
    left_out: float,
    asked: int | float | None,
    *,
    slack: float = 1.0,
) -> bool:
    """Whether squares cost the components that were asked for no digits, and the bounds next to nothing.

    Each component that was asked for may lose as much as it does with features: all of them, unless their
    number was given. Beyond these, all losses together may widen the bounds by a thousandth of themselves.
    """
    count = asked if isinstance(asked, int) else len(moves)
    if np.any(squared[:count] > slack * moves[:count]):
        return False
    return float(np.sum(squared)) <= slack * max(float(np.sum(moves)), WIDER * left_out)
