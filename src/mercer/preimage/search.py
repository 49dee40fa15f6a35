"""Pre-images by search: from rows whose scores are near, downhill in feature space."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from mercer._core.params import Constraints, Number, Whole
from mercer._core.public import public
from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.rows import row_slices
from mercer.engine.numpy import POINTS
from mercer.engine.pairwise import squared_norms
from mercer.engine.steps import FixedPoints
from mercer.kernels.base import Kernel
from mercer.kernels.slopes import radial_slope
from mercer.model.space import FeatureSpace
from mercer.operators.sections import KernelSections
from mercer.preimage.base import (
    FEW,
    Cost,
    Examples,
    Learned,
    Preimage,
    has_descent,
    quality_without,
)

Improved: TypeAlias = tuple[
    Array, Array, Indices
]  # points, their distances, those still on the way


# Numbers that a slice of targets may hold against all points, and how many such arrays there are.
SLICE_NUMBERS = 2**20
ARRAYS = 12
OF_A_TILE = 8  # the share of a tile that the numbers of a slice may be, where that is more of them
PADDED = 8  # numbers of a row more, at most, that compiled tiles have of it
ROUNDS = 25  # steps of a search, usually


@dataclass(frozen=True, repr=False)
class Neighbours:
    """Rows by their scores."""

    scores: Annotated[Array, "n k"]
    rows: Annotated[Rows, "n d"]  # the model's own where it has them

    def nearest(self, t: Array, count: int, skip: Indices | None = None) -> Indices:
        """The `count` rows with the nearest scores, (b, count), nearest first; `skip` leaves one out each."""
        squares = squared_norms(self.scores) - 2.0 * (t @ self.scores.T)  # (b, n), less ‖t‖²
        if skip is not None:
            squares[np.arange(len(t)), skip] = np.inf
        count = min(count, len(self.scores) - (skip is not None))
        some = np.argpartition(squares, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(squares, some, axis=1), axis=1, kind="stable")
        return np.take_along_axis(some, order, axis=1)

    def points(self, chosen: Indices) -> Array:  # (…,) -> (…, d)
        return np.asarray(self.rows[chosen], dtype=np.float64)


@dataclass(repr=True)
class Search(Preimage):
    """Starts from several near rows, each improved by `improve`; the best point ever seen is the answer."""

    n_starts: int = 3
    max_iter: int = 200
    tol: float = 1e-6
    max_rows: int = 5000

    constraints: ClassVar[Constraints] = {
        "n_starts": Whole(1),
        "max_iter": Whole(1),
        "tol": Number(0, 1),
        "max_rows": Whole(2),
    }

    @abstractmethod
    def improve(self, space: FeatureSpace, x: Array, t: Array, *, radius: float) -> Improved:
        """From starts x, (p, d), towards targets t, (p, k): the best points, and which have not settled."""

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """Examples, the axes twice more, the points, too, and a slice of targets against all of them."""
        rows, starts = min(n, self.max_rows), self.n_starts + 1
        one = starts * max(n, d)  # a slice is one target at least
        kept = n * (3 * (k + 1) + 2 * (d + PADDED))
        return 8 * (rows * (d + k) + kept + ARRAYS * max(SLICE_NUMBERS, one))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """Each of the rows that the quality is taken from, from every start, a number of steps."""
        m = min(FEW, n, self.max_rows) * (self.n_starts + 1)
        steps = min(self.max_iter, ROUNDS)
        return Cost(entries=2.0 * steps * m * n, flops=4.0 * steps * m * n * (k + d))

    def _learn(self, examples: Examples, *, rng: np.random.Generator) -> Learned:
        assert examples.space is not None  # `check` has seen to it
        near = Neighbours(examples.scores, examples.rows)
        back = SearchBack(self, examples.space, near, examples.spread)
        return self, back, quality_without(examples, back, least=3, rng=rng)


@dataclass(frozen=True, repr=False)
class SearchBack:
    """A search, its feature space, and the rows it starts from."""

    method: Search
    space: FeatureSpace
    near: Neighbours
    radius: float

    @property
    def n_rows(self) -> int:
        return len(self.near.scores)

    def __call__(self, scores: Array, skip: Indices | None = None) -> tuple[Array, Flags]:
        """The best points found, and who settled; rows in `skip` are not started from."""
        d = int(self.near.rows.shape[1])
        points, settled = np.empty((len(scores), d)), np.empty(len(scores), dtype=bool)
        starts, width = self.method.n_starts + 1, self.space.projection.sections.width
        # Distances of scores are (b, n), points and slopes (b · starts, d); of k(x, Z) there may be none.
        most = SLICE_NUMBERS // max(self.n_rows, d * starts)
        height = max(1, min(self._numbers // (width * starts), most))
        for i in row_slices(len(scores), height):
            points[i], settled[i] = self._slice(scores[i], None if skip is None else skip[i])
        return points, settled

    @property
    def _numbers(self) -> int:
        """Values k(x, Z) of a slice: far more where an engine has none of them as a whole."""
        sections = self.space.projection.sections
        # Such an engine waits for each step, not for its numbers.
        more = sections.engine.tile_bytes // (8 * OF_A_TILE)
        if more <= SLICE_NUMBERS or not isinstance(sections, KernelSections):
            return SLICE_NUMBERS
        runs = sections.engine.facts().runs(sections.kernel) is None
        return more if runs else SLICE_NUMBERS

    def _slice(self, t: Array, skip: Indices | None) -> tuple[Array, Flags]:
        nearest = self.near.points(self.near.nearest(t, self.method.n_starts, skip))  # (b, s, d)
        # Their mean lies where several near rows agree, and is often the best start of all.
        starts = np.concatenate([nearest, nearest.mean(axis=1, keepdims=True)], axis=1)
        b, s, d = starts.shape
        x, targets = starts.reshape(b * s, d), np.repeat(t, s, axis=0)
        found, distances, active = self.method.improve(self.space, x, targets, radius=self.radius)
        settled = np.ones(b * s, dtype=bool)
        settled[active] = False
        rows, best = np.arange(b), np.argmin(distances.reshape(b, s), axis=1)
        return found.reshape(b, s, d)[rows, best], settled.reshape(b, s)[rows, best]


# ── fixed points of the gradient (Mika, Schölkopf, Smola, Müller, Scholz & Rätsch 1999) ──
# A point farther from its start than this many radii of the data has left them.
LEFT = 10.0
# A denominator below this share of its terms is rounding.
SMALL = 1e-8


@public
@dataclass(repr=True)
class FixedPoint(Search):
    """x ← Σ_i γ_i f'(‖x - z_i‖²) z_i / Σ_i γ_i f'(‖x - z_i‖²), for kernels f(‖x - x'‖²) with a decreasing f.

    Where the gradient of ‖φ(x) - ψ‖² vanishes, x is such a mean of the points z_i, ψ = Σ γ_i φ(z_i). The
    weights may be negative: a denominator near zero, and a step that leaves the data, end a search, and
    the answer is the best point seen, never worse than the best start.

    Parameters
    ----------
    n_starts : int, default=3
        Rows with the nearest scores to start from; their mean is one more start.
    max_iter : int, default=200
    tol : float, default=1e-6
        A search has settled when a step is shorter than this share of the data's radius.
    max_rows : int, default=5000
        Rows to choose starts from.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> X, _ = make_circles(200, noise=0.02, random_state=0)
    >>> model = KernelPCA(20, kernel="rbf", preimage=FixedPoint()).fit(X)
    >>> bool(abs(model.inverse_transform(model.transform(X[:5])) - X[:5]).max() < 0.05)
    True
    """

    needs_points: ClassVar[bool] = True

    def missing_in(self, kernel: Kernel) -> str:
        if kernel.shape().decreasing:
            return ""
        known = "(RBF, Matern, RationalQuadratic, their sums and products)"
        return f"a kernel that decreases with the distance {known}"

    def improve(self, space: FeatureSpace, x: Array, t: Array, *, radius: float) -> Improved:
        """All searches side by side; those that have settled or left the data drop out."""
        home, x = x, x.copy()
        best, least = x.copy(), space.distances(x, t)
        active, step = np.arange(len(x)), space.pulls(FixedPoints, _fixed_points, share=SMALL)
        for _ in range(self.max_iter):
            if len(active) == 0:
                break
            # On one thread: the origin of a part of them, and so the last bits, would depend on parts.
            found = space.mapped(x[active], step, t[active], parallel=False)
            new, sound = found[:, :-1], found[:, -1] > 0
            sound &= squared_norms(new - home[active]) <= (LEFT * radius) ** 2
            active, new = active[sound], new[sound]
            moved = squared_norms(new - x[active])
            x[active] = new
            distances = space.distances(new, t[active])
            better = distances < least[active]
            best[active[better]], least[active[better]] = new[better], distances[better]
            active = active[moved > (self.tol * radius) ** 2]
        # One that a guard has ended has an answer too, and no step to go on with.
        return best, least, active


def _fixed_points(step: FixedPoints, x: Array, t: Array) -> Array:  # (p, d), (p, k) -> (p, d + 1)
    """The next points, and whether each denominator was one to divide by."""
    total, size, moment = np.zeros(len(x)), np.zeros(len(x)), np.zeros(x.shape)
    # Distances do not change with the origin. One among the points keeps the quotient from rounding as
    # numbers far from it do.
    centre = x.mean(axis=0)
    x = x - centre
    for j in row_slices(len(step.coef), POINTS):
        points = step.points[j].astype(np.float64, copy=False) - centre
        pull = radial_slope(step.kernel.tree(), x, points)  # (p, q), none positive
        # γ of these points only: the weights of all points are never there at once.
        pull *= t @ step.coef[j].T if step.mean is None else t @ step.coef[j].T + step.mean[j]
        total += pull.sum(axis=1)
        moment += pull @ points
        size += np.abs(pull, out=pull).sum(axis=1)
    # ψ near φ(x) makes the total negative, as a weighted mean of points should have it.
    sound = -total > step.share * size
    return np.column_stack([centre + moment / np.where(sound, total, 1.0)[:, None], sound])


# ── downhill with the gradient itself ────────────────────────────────────────
ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo)
SHORTER, LONGER = 0.25, 4.0


@public
@dataclass(repr=True)
class Gradient(Search):
    """Minimises ‖φ(x) - ψ‖² over x by gradient descent with Barzilai & Borwein's (1988) steps.

    All targets go downhill side by side, each with a step length of its own, and no step goes uphill.

    Parameters
    ----------
    n_starts : int, default=3
        Rows with the nearest scores to start from; their mean is one more start.
    max_iter : int, default=200
    tol : float, default=1e-6
        A search has settled when a step is shorter than this share of the data's radius.
    max_rows : int, default=5000
        Rows to choose starts from.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> from mercer.kernels import Polynomial
    >>> X, _ = make_circles(200, noise=0.02, random_state=0)
    >>> model = KernelPCA(5, kernel=Polynomial(2), preimage=Gradient()).fit(X)
    >>> bool(abs(model.inverse_transform(model.transform(X[:5])) - X[:5]).max() < 1e-3)
    True
    """

    def missing_in(self, kernel: Kernel) -> str:
        if not kernel.differentiable:
            return "a kernel with a known derivative"
        # A squared distance below zero has no least value to look for.
        return "" if has_descent(kernel) else "a kernel that is known to be positive semi-definite"

    def improve(self, space: FeatureSpace, x: Array, t: Array, *, radius: float) -> Improved:
        """Descent from every start at once; those that have settled drop out."""
        x, value = x.copy(), space.distances(x, t)
        slope = space.distance_slopes(x, t)
        # Histograms have no negative entries; for other kernels there is no bound.
        kernel = getattr(space.projection.sections, "kernel", None)
        least = 0.0 if getattr(kernel, "positive_only", False) else -np.inf
        # A first step of a tenth of the radius, whatever the scale of the kernel.
        length = np.sqrt(squared_norms(slope))
        step = 0.1 * radius / np.where(length > 0, length, 1.0)
        active = np.flatnonzero(length > 0)
        for _ in range(self.max_iter):
            if len(active) == 0:
                break
            new = np.maximum(x[active] - step[active, None] * slope[active], least)
            move = new - x[active]
            found = space.distances(new, t[active])
            promised = -np.einsum("ij,ij->i", move, slope[active])
            good = found <= value[active] - ENOUGH * promised
            step[active[~good]] *= SHORTER
            taken = active[good]
            if len(taken):
                fresh = space.distance_slopes(new[good], t[taken])
                step[taken] = _next_step(move[good], fresh - slope[taken], step[taken])
                x[taken], value[taken], slope[taken] = new[good], found[good], fresh
            active = active[squared_norms(move) > (self.tol * radius) ** 2]
        return x, value, active


def _next_step(move: Array, change: Array, step: Array) -> Array:
    """s·s/s·y, the inverse curvature along the last move; where that is not positive, a longer step."""
    along = np.einsum("ij,ij->i", move, change)
    curved = along > 0
    found = squared_norms(move) / np.where(curved, along, 1.0)
    return np.where(curved, np.clip(found, SHORTER**4 * step, LONGER**4 * step), LONGER * step)
