"""Pre-images by search: from rows whose scores are near, downhill in feature space."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Constraints, Number, Whole
from mercer.data.rows import row_slices
from mercer.engine.pairwise import squared_norms
from mercer.preimage.base import FEW, Preimage, quality_of
from mercer.preimage.cost import ROUNDS, Cost

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace
    from mercer.preimage.base import Back, Examples, Quality

# Numbers that a slice of targets may hold against all points, and how many such arrays there are.
SLICE_NUMBERS = 2**20
ARRAYS = 12


def require_suits(method: Preimage, kernel: Kernel, suits: bool, needed: str) -> None:
    """Raise where a method does not suit a kernel, with those that do."""
    if not suits:
        others = "'gradient' or 'ridge'" if has_descent(kernel) else "'ridge'"
        msg = f"{type(method).__name__} needs {needed}; got {kernel!r}. Use preimage={others}."
        raise InputError(msg)


def has_descent(kernel: Kernel) -> bool:
    """Whether ‖φ(x) - ψ‖² is a distance, never negative, with a slope to go down."""
    return kernel.differentiable and kernel.why_valid() is not None


@dataclass(frozen=True, repr=False)
class Neighbours:
    """Rows by their scores."""

    scores: Array  # (n, k)
    rows: Array  # (n, d), the model's own where it has them

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
        """These rows in float64."""
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
    def improve(
        self, space: FeatureSpace, x: Array, t: Array, *, radius: float
    ) -> tuple[Array, Array, Flags]:
        """From starts x, (p, d), towards targets t, (p, k): the best points, their distances, settled."""

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """Examples, the axes once more, and a slice of targets against all points in a few arrays."""
        rows, starts = min(n, self.max_rows), self.n_starts + 1
        one = starts * max(n, d)  # a slice is one target at least
        return 8 * (rows * (d + k) + 2 * n * (k + 1) + ARRAYS * max(SLICE_NUMBERS, one))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """Each of the rows that the quality is taken from, from every start, a number of steps."""
        m = min(FEW, n, self.max_rows) * (self.n_starts + 1)
        steps = min(self.max_iter, ROUNDS)
        return Cost(entries=2.0 * steps * m * n, flops=4.0 * steps * m * n * (k + d))

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        assert examples.space is not None  # `check` has seen to it
        near = Neighbours(examples.scores, examples.rows)
        back = SearchBack(self, examples.space, near, examples.spread)
        if len(examples) < 3:  # nothing to hold out
            return self, back, None
        chosen = examples.few(rng=rng)
        points, _ = back.search(examples.scores[chosen], skip=chosen)
        return self, back, quality_of(examples, points, chosen)


@dataclass(frozen=True, repr=False)
class SearchBack:
    """A search, its feature space, and the rows it starts from."""

    method: Search
    space: FeatureSpace
    near: Neighbours
    radius: float

    @property
    def n_rows(self) -> int:
        """Rows to start from."""
        return len(self.near.scores)

    def __call__(self, scores: Array) -> tuple[Array, Flags]:
        """The best points found, and who settled."""
        return self.search(scores)

    def search(self, scores: Array, skip: Indices | None = None) -> tuple[Array, Flags]:
        """Points, (b, d), and who settled; rows in `skip` are not started from."""
        d = int(self.near.rows.shape[1])
        points, settled = np.empty((len(scores), d)), np.empty(len(scores), dtype=bool)
        width = max(self.space.projection.sections.width, self.n_rows, d)
        height = max(1, SLICE_NUMBERS // (width * (self.method.n_starts + 1)))
        for i in row_slices(len(scores), height):
            own = None if skip is None else skip[i]
            points[i], settled[i] = self._slice(scores[i], own)
        return points, settled

    def _slice(self, t: Array, skip: Indices | None) -> tuple[Array, Flags]:
        nearest = self.near.points(self.near.nearest(t, self.method.n_starts, skip))  # (b, s, d)
        # Their mean lies where several near rows agree, and is often the best start of all.
        starts = np.concatenate([nearest, nearest.mean(axis=1, keepdims=True)], axis=1)
        b, s, d = starts.shape
        found, distances, settled = self.method.improve(
            self.space, starts.reshape(b * s, d), np.repeat(t, s, axis=0), radius=self.radius
        )
        best = np.argmin(distances.reshape(b, s), axis=1)
        rows = np.arange(b)
        return found.reshape(b, s, d)[rows, best], settled.reshape(b, s)[rows, best]
