"""Randomly pivoted Cholesky: landmarks drawn where the kernel matrix is not yet explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Constraints, Number, Whole, require
from mercer._core.public import public
from mercer.approximations.base import TOO_MANY, Approximation, LowRank, check_points
from mercer.approximations.pivots import (
    CANDIDATES,
    FLOOR,
    GLANCES,
    LEAST,
    PivotSearch,
    looked_at,
)
from mercer.approximations.whitening import core_matrix, whitening
from mercer.engine.passes import FLOAT, pass_bytes
from mercer.engine.resolve import AUTO, resolve_engine

if TYPE_CHECKING:
    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel

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
    >>> from mercer._core.observer import NullObserver
    >>> from mercer.kernels import RBF
    >>> x = np.array([[0.0], [0.01], [0.02], [9.0]])
    >>> rng = np.random.default_rng(0)
    >>> low_rank = RPCholesky(rank=2)(RBF(1.0), x, weights=None, rng=rng, observer=NullObserver())
    >>> low_rank
    LowRank(RBF(gamma=1.0) against 2 points, rank=2)
    >>> 3 in low_rank.landmarks  # the far point is drawn
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
        """Rounds of candidates, each followed by a pass that says what is left of every row.

        The pass after the last round is left to the fit, which makes one anyway.
        """
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
            if goal is not None or search.rank < most:
                search.update(observer=observer)
            if goal is not None and search.cut_back(goal):
                break
        # The Cholesky factor has chosen. Its last pivots may be near rounding, where its inverse amplifies
        # more than it has to: there the eigenvectors of the core whiten best.
        whiten = whitening(core_matrix(kernel, search.points), search.unit)
        return LowRank(
            search.sections, whiten, search.landmarks, projects=True, goal=goal, unit=search.unit
        )

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
        """The rank is "auto" or a whole number up to n, tol a share, and the rows are points."""
        check_points(kernel, self)
        super().check(kernel, shape)
        require(
            "rank", self.rank, Whole(1, shape[0], also=("auto",)), of="RPCholesky", remedy=TOO_MANY
        )

    def n_bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        """The bytes of a fit, at most.

        Numbers a row (what is left of it, its diagonal, masses to draw from), and the larger of two: the
        candidates of a round, or a pass over blocks of rows and the m x m problems after it.
        """
        n, d = shape
        m = self.width(n)
        looked = min(n, CANDIDATES, GLANCES * looked_at(m) + LEAST)
        p = min(looked, looked_at(m) + LEAST)  # that are not rejected at a glance
        a_round = FLOAT * (looked * 3 * (m + d + 2) + 5 * p * p + 5 * m * m)
        a_pass = pass_bytes(n, d, m, itemsize) + FLOAT * 14 * m * m
        return 7 * FLOAT * n + FLOAT * 3 * m * (d + 2) + max(a_round, a_pass)

    def at_most(self, n: int) -> RPCholesky:
        """With a rank of at most n."""
        return replace(self, rank=min(self.rank, n)) if isinstance(self.rank, int) else self

    def width(self, n: int) -> int:
        """The rank, or where an automatic one stops."""
        return min(n, int(self.max_rank if self.rank == "auto" else self.rank))
