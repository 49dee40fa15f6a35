"""Randomly pivoted Cholesky: landmarks drawn, in blocks, where the kernel matrix is not yet explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError, ZeroVarianceError
from mercer._core.observer import Observer
from mercer._core.params import Constraints, Number, Whole, require
from mercer._core.public import public
from mercer._core.types import Array, Indices, Rows
from mercer.approximations.base import TOO_MANY, Approximation, LowRank, check_points
from mercer.approximations.landmarks import (
    checked_diagonal,
    checked_lengths,
    core_matrix,
    drawn,
    entry_error,
    extended,
)
from mercer.data.rows import take_rows
from mercer.engine.base import Engine
from mercer.engine.passes import FLOAT, pass_bytes
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.engine.steps import ExplainSections
from mercer.engine.thin import subtract, times
from mercer.kernels.base import Kernel
from mercer.operators.sections import KernelSections

# Candidates that are drawn together, at most, and for a pivot.
CANDIDATES, CANDIDATES_A_PIVOT = 2000, 4
# Rows that a pass may have for each candidate that it saves: at rank 500 a row takes a fifth of the time of a
# candidate, and all cores share the rows.
ROWS_A_CANDIDATE = 32
# Candidates are looked at a part at a time: so many times what the pivots still wanted are expected to take,
# and at least so many. Once there are pivots most are rejected at a glance, and a part may be twice as large.
LOOKED_AT, LEAST, GLANCES = 1.25, 256, 2
# What is left of a row below so many roundings of k(x, x) is rounding: a pass leaves about √m of them.
FLOOR = 100.0
# A goal is met by this margin, since a certificate adds a little to rounding.
MARGIN = 1e-3


class PivotSearch:
    """Pivots Z, W = L⁻ᵀ of the Cholesky factor of k(Z, Z), and d = k(x, x) - ‖k(x, Z)W‖² of each row.

    L grows by blocks of rows, so W, an upper triangle, grows by columns: one pass with the new columns
    brings d up to date.
    """

    def __init__(self, kernel: Kernel, x: Rows, weights: Array | None, engine: Engine[Any]) -> None:
        self.kernel, self.x, self.weights, self.engine = kernel, x, weights, engine
        self.diagonal = checked_diagonal(kernel, x, engine)  # (n,)
        self.left = self.diagonal.copy()  # (n,)
        self.landmarks = np.empty(0, dtype=np.intp)
        self.points: Rows = None  # (m, d), from the first round on
        self.whiten: Array = np.empty((0, 0))
        self.unit = float(np.finfo(x.dtype).eps)  # rounding of a kernel value
        self._energies: Array = np.empty(0)  # Σw f² of each column f of F that `left` knows of
        if not np.any(self.diagonal > 0):
            msg = (
                "The data have zero variance in feature space: k(x, x) = 0 for every row, so there is "
                "nothing to approximate. Check that the rows are not all zero."
            )
            raise ZeroVarianceError(msg)

    @property
    def rank(self) -> int:
        """Number of pivots."""
        return len(self.landmarks)

    @property
    def sections(self) -> KernelSections:
        """x -> k(x, Z)."""
        return KernelSections(self.kernel, self.points, engine=self.engine)

    def _weighted(self, values: Array) -> Array:
        return values if self.weights is None else values * self.weights

    # ── a round of candidates ───────────────────────────────────────────────
    def draw(self, most: int, *, rng: np.random.Generator) -> int:
        """Propose candidates where something is left, and accept at most so many; the number accepted."""
        floor = FLOOR * self.unit * self.diagonal
        mass = self._weighted(np.where(self.left > floor, self.left, 0.0))
        mass[self.landmarks] = 0.0
        if not np.any(mass > 0):
            return 0
        goal, before, expected = self.rank + most, self.rank, 0.0
        while (wanted := goal - self.rank) > 0 and expected * ROWS_A_CANDIDATE <= len(mass):
            known, count = self.rank, max(CANDIDATES_A_PIVOT * wanted, int(LOOKED_AT * expected))
            first = looked_at(max(wanted, int(expected)))
            looked = self._look(mass, min(CANDIDATES, count), goal, first, rng=rng)
            if self.rank == known:
                break  # a pass shows whether there is anything left
            # At this rate: more candidates of the same law, or a pass that shows where to look.
            expected = (goal - self.rank) * looked / (self.rank - known)
        return self.rank - before

    def _look(
        self, mass: Array, count: int, goal: int, size: int, *, rng: np.random.Generator
    ) -> int:
        """Draw candidates, and look at them, at ``size`` first, up to `goal` pivots; the number looked at."""
        candidates = drawn(mass, count, rng=rng)
        dice, start = rng.random(len(candidates)), 0
        while start < len(candidates) and (wanted := goal - self.rank) > 0:
            size = min(size, GLANCES * looked_at(goal))
            rest = len(candidates) - start
            known, part = self.rank, slice(start, start + (size if rest > size + LEAST else rest))
            looked = self._accept(candidates[part], dice[part], most=wanted)
            start += looked
            size = looked_at((goal - self.rank) * looked // max(1, self.rank - known))
        return start

    def _accept(self, candidates: Indices, dice: Array, *, most: int) -> int:
        """Add pivots among candidates that were drawn by what was left; the number looked at."""
        looked = len(candidates)
        rows, places = np.unique(candidates, return_inverse=True)
        points = take_rows(self.x, rows)
        if self.rank == 0:  # the first candidates show how kernel values are rounded
            self.unit = entry_error(self.kernel, points)
        floor = FLOOR * self.unit * self.diagonal[rows]
        floor[np.isin(rows, self.landmarks)] = np.inf  # a row is a landmark once
        inside, proposed = self._inside(points), self.left[rows]  # (p, m), (p,)
        if self.rank > 0:
            # What is left of a row only falls: most are rejected by the pivots that there are already, and
            # what the others have in common is a far smaller matrix.
            left = checked_lengths(self.kernel, points.astype(np.float64))
            left -= np.einsum("ij,ij->i", inside, inside)
            stays = (left > floor)[places] & (dice * proposed[places] < left[places])
            passed, beyond = np.split(np.flatnonzero(stays), [looked_at(most) + LEAST])
            looked = int(beyond[0]) if len(beyond) else looked
            few, places = np.unique(places[passed], return_inverse=True)
            rows, points, dice = rows[few], points[few], dice[passed]
            inside, proposed, floor = inside[few], proposed[few], floor[few]
        if len(rows) == 0:
            return looked
        residual = core_matrix(self.kernel, points)
        subtract(residual, inside, inside.T)  # (p, p)
        chosen, lower = accept_pivots(residual, places, proposed, floor, dice, most=most)
        if len(chosen):
            self.whiten = extended(self.whiten, inside[chosen], lower)
            self.landmarks = np.concatenate([self.landmarks, rows[chosen]])
            self.points = take_rows(self.x, self.landmarks)
        return looked

    def _inside(self, points: Rows) -> Array:
        """Coordinates in the span of the landmarks, in float64."""
        if self.rank == 0:
            return np.empty((points.shape[0], 0))
        return times(self.sections(points.astype(np.float64)), self.whiten)

    # ── a pass over the rows ────────────────────────────────────────────────
    def update(self, *, observer: Observer) -> None:
        """Take what the new pivots explain off every row."""
        fresh = self.whiten[:, len(self._energies) :].astype(self.x.dtype)  # (m, a)
        seen = self.engine.fold(
            self.x,
            ExplainSections(self.kernel, self.points, fresh, self.weights, self.engine),
            width=self.rank,
            parallel=self.kernel.parallel,
            observer=observer,
        )
        self.left -= np.concatenate(seen.rows)
        np.maximum(self.left, 0.0, out=self.left)  # the fit shows whether that was rounding
        self._energies = np.concatenate([self._energies, seen.energies])

    def cut_back(self, goal: float) -> bool:
        """Whether the share left out has come down to the goal; pivots beyond the first to do so are dropped.

        The first columns of F are those of the first pivots alone, so what each left out is known.
        """
        trace = float(self._weighted(self.diagonal).sum())
        left_out = trace - np.cumsum(self._energies)  # (m,)
        reached = left_out <= (1.0 - MARGIN) * goal * trace
        if not np.any(reached):
            return False
        m = int(np.argmax(reached)) + 1
        self.landmarks, self.points = self.landmarks[:m], self.points[:m]
        self.whiten = self.whiten[:m, :m].copy()
        return True


def looked_at(wanted: int) -> int:
    """Candidates that are looked at together, for so many pivots."""
    return max(LEAST, int(LOOKED_AT * wanted))


def accept_pivots(  # (p, p), (c,), (p,), (p,), (c,) in [0, 1) -> (a,), (a, a)
    residual: Array, candidates: Indices, proposed: Array, floor: Array, dice: Array, *, most: int
) -> tuple[Indices, Array]:
    """Accepted rows of the residual matrix, in order, and the Cholesky factor of it among them.

    Candidates were drawn, with replacement, in proportion to the residual diagonal when they were `proposed`.
    Each pivot takes its share off what is left of the others; a candidate is accepted with probability
    left/proposed. The next pivot is then distributed as what is left, which is the law of RPCholesky
    (Epperly, Tropp & Webber 2024, "Embrace rejection"). What is left below the floor is never accepted.
    """
    left = np.diagonal(residual).copy()
    columns = np.empty((len(residual), min(len(residual), most)))  # of the Cholesky factor
    accepted: list[int] = []
    for i, die in zip(candidates.tolist(), dice.tolist(), strict=True):
        a = len(accepted)
        if a == columns.shape[1]:
            break
        if left[i] <= floor[i] or die * proposed[i] >= left[i]:
            continue
        column = residual[:, i] - columns[:, :a] @ columns[i, :a]
        column /= np.sqrt(left[i])
        column[i] = np.sqrt(left[i])
        columns[:, a] = column
        left -= column * column
        left[i] = 0.0  # a row is a landmark once, whatever rounding leaves of it
        accepted.append(i)
    chosen = np.array(accepted, dtype=np.intp)
    # Above the diagonal stands what later pivots found left of earlier ones: rounding.
    return chosen, np.tril(columns[chosen, : len(accepted)])


# With rank="auto" the first look at what is left out; from there on the rank doubles from look to look.
FIRST_RANK = 64


@public
@dataclass
class RPCholesky(Approximation):
    """Randomly pivoted Cholesky (Chen, Epperly, Tropp & Webber 2023).

    Each landmark is drawn in proportion to k(x, x) - ‖k(x, Z)W‖², what the landmarks before it leave
    unexplained of a row: rare clusters and far points are found because they are not explained. Pivots
    come in blocks by rejection sampling (Epperly, Tropp & Webber 2024), so a few passes over the rows do.
    Each true eigenvalue lies above the one found, by no more than the trace left out.

    Parameters
    ----------
    rank : int or "auto", default=500
        Number of landmarks, or ``"auto"`` for as few as leave out no more than `tol` of the trace.
    tol : float, default=1e-2
        With ``rank="auto"``, the share tr(K - K̂)/tr K that may be left out.
    max_rank : int, default=2000
        With ``rank="auto"``, where to stop, whatever is left out by then.
    refine : int, default=0
        Exact passes over K that turn the approximation into exact Ritz pairs with residuals.

    See Also
    --------
    Nystrom : Landmarks of your own, or drawn uniformly.
    RandomFourier : A fast `transform`, and an estimate instead of a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.approximations import RPCholesky
    >>> from mercer.kernels import RBF
    >>> X = np.array([[0.0], [0.01], [0.02], [9.0]])
    >>> model = KernelPCA(1, kernel=RBF(1.0), approximation=RPCholesky(rank=2)).fit(X)
    >>> bool(model.fit_.trace_error < 0.001)  # the far point is one of the two landmarks
    True
    """

    rank: int | str = 500
    tol: float = 1e-2
    max_rank: int = 2000
    refine: int = 0

    constraints: ClassVar[Constraints] = {
        "rank": Whole(1, also=("auto",)),
        "tol": Number(0, 1),
        "max_rank": Whole(1),
        "refine": Whole(0),
    }

    def __call__(
        self,
        kernel: Kernel,
        x: Rows,
        *,
        weights: Array | None,
        rng: np.random.Generator,
        observer: Observer,
        engine: Any = AUTO,
    ) -> LowRank:
        self.check(kernel, (int(x.shape[0]), int(x.shape[1])))
        goal = self._goal(np.dtype(x.dtype))
        most = self.width(int(x.shape[0]))
        search = PivotSearch(kernel, x, weights, resolve_engine(engine))
        while search.rank < most:
            wanted = most - search.rank
            if goal is not None:
                wanted = min(wanted, max(FIRST_RANK, search.rank))
            if search.draw(wanted, rng=rng) == 0:
                break  # all that is left is rounding
            if goal is not None or search.rank < most:  # else the fit makes this pass
                search.update(observer=observer)
            if goal is not None and search.cut_back(goal):
                break
        # The Cholesky factor has chosen. Its last pivots may be near rounding, where its inverse amplifies
        # more than it has to: there the eigenvectors of the core whiten best.
        return LowRank.projecting(search.sections, search.landmarks, search.unit, goal)

    def _goal(self, dtype: np.dtype[Any]) -> float | None:
        if self.rank != "auto":
            return None
        floor = FLOOR * float(np.finfo(dtype).eps)
        if self.tol < floor:
            remedy = "fit in float64, or " if dtype == np.float32 else ""
            msg = (
                f"RPCholesky(rank='auto', tol={self.tol:g}) can't be reached in {dtype}: what is left of a "
                f"row below {floor:.1g} of k(x, x) is rounding. Raise `tol`, {remedy}use "
                "approximation=None for the exact solution."
            )
            raise InputError(msg)
        return float(self.tol)

    def check(self, kernel: Kernel, shape: tuple[int, int]) -> None:
        check_points(kernel, self)
        super().check(kernel, shape)
        known = Whole(1, shape[0], also=("auto",))
        require("rank", self.rank, known, of="RPCholesky", remedy=TOO_MANY)

    def n_bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        # Numbers a row (what is left of it, its diagonal, masses to draw from), and the larger of two: the
        # candidates of a round, or a pass over blocks of rows and the m x m problems after it.
        n, d = shape
        m = self.width(n)
        looked = min(n, CANDIDATES, GLANCES * looked_at(m) + LEAST)
        p = min(looked, looked_at(m) + LEAST)  # that are not rejected at a glance
        a_round = FLOAT * (looked * 3 * (m + d + 2) + 5 * p * p + 5 * m * m)
        a_pass = pass_bytes(n, d, m, itemsize) + FLOAT * 14 * m * m
        return 7 * FLOAT * n + FLOAT * 3 * m * (d + 2) + max(a_round, a_pass)

    def at_most(self, n: int) -> RPCholesky:
        return replace(self, rank=min(self.rank, n)) if isinstance(self.rank, int) else self

    def width(self, n: int) -> int:
        return min(n, int(self.max_rank if self.rank == "auto" else self.rank))

    @property
    def size(self) -> str:
        return "max_rank" if self.rank == "auto" else "rank"
