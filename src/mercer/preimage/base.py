"""What a pre-image method is given, and what it promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from mercer._core.errors import InputError
from mercer._core.knobs import Knobs
from mercer.engine.pairwise import squared_norms
from mercer.engine.tiles import row_slices

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace

# Examples that a mean length or a quality is taken from.
FEW = 200
# Scores are taken this many times as far out as any example's and no farther: beyond, squares and powers
# overflow, and every answer is a guess anyhow.
FARTHEST = 1e12
BLOCK = 2**18  # numbers of a block of rows


@dataclass(frozen=True, repr=False)
class Examples:
    """Rows with their scores, and the feature space they lie in."""

    scores: Array  # (n, k) float64
    rows: Array  # (n, d)
    kernel: Kernel  # resolved
    # None: no feature space knows these rows. The kernel is precomputed, or they are other rows than its.
    space: FeatureSpace | None

    def __len__(self) -> int:
        return len(self.scores)

    def few(self, *, rng: np.random.Generator) -> Indices:
        """Positions of some examples."""
        return np.sort(rng.choice(len(self), min(FEW, len(self)), replace=False))


@dataclass(frozen=True)
class Quality:
    """Root mean squared error on rows that were held out, beside that of always saying the mean.

    Held out from the way back: Ridge is learned without the row, and the others may not start from it or look
    at its distance. The components themselves have seen it; with many of them new rows fare worse.
    ``residual`` is the median squared distance, in feature space, between the image of the point that was
    found and the point that was sought, as a share of the mean squared length there.
    """

    error: float
    error_of_mean: float
    residual: float | None = None

    def __str__(self) -> str:
        text = f"held-out error {self.error:.4g}, error of the mean {self.error_of_mean:.4g}"
        if self.residual is None:
            return text
        return f"{text}, feature-space residual {self.residual:.2%}"


class Back(Protocol):
    """A way back that has been learned."""

    @property
    def n_rows(self) -> int:
        """Rows that it rests on."""
        ...

    def __call__(self, scores: Array) -> tuple[Array, Flags | None]:  # (b, k) -> (b, d), (b,)
        """Points whose scores are near the given ones, in float64, and which of them a search settled on."""
        ...


@dataclass(frozen=True, repr=False)
class FittedPreimage:
    """The way back, and how well it does."""

    method: Preimage  # with every knob a number
    back: Back
    quality: Quality | None
    space: FeatureSpace | None
    reach: float  # the largest ‖t‖ of an example
    length: float  # mean squared length of the examples in feature space; nan where it is not known
    centre: Array  # (d,) the mean of the examples' rows
    radius: float  # the largest ‖x - centre‖ of an example

    def __call__(self, scores: Array) -> Array:  # (b, k) -> (b, d)
        """Points whose scores are near the given ones."""
        return self.found(scores)[0]

    def found(self, scores: Array) -> tuple[Array, Flags | None]:  # (b, k) -> (b, d), (b,)
        """The points, and which of them had settled; None where nothing is searched for."""
        return self.back(self.within(scores))

    def within(self, scores: Array) -> Array:  # (b, k) -> (b, k)
        """The scores in float64, those beyond all measure drawn in along their direction."""
        scores = scores.astype(np.float64, copy=False)
        limit = FARTHEST * (self.reach or 1.0)
        size = np.max(np.abs(scores), axis=1, keepdims=True)
        return np.where(size > limit, scores / np.maximum(size, limit) * limit, scores)

    def residuals(self, scores: Array, points: Array) -> Array | None:  # (b, k), (b, d) -> (b,)
        """‖φ(x) - ψ(t)‖² over the mean squared length; None where no feature space knows the points.

        ψ(t) is the point of feature space that the scores t stand for.
        """
        if self.space is None:
            return None
        points = points.astype(np.float64, copy=False)
        return self.space.distances(points, self.within(scores)) / (self.length or 1.0)

    @property
    def n_rows(self) -> int:
        """Rows that it rests on."""
        return self.back.n_rows

    def __repr__(self) -> str:
        return f"FittedPreimage({self.method!r}, from {self.n_rows} rows; {self.quality})"


class Preimage(Knobs, ABC):
    """Finds the way back from scores to rows."""

    max_rows: int
    needs_points: ClassVar[bool] = False  # that the model rests on: random features have none

    def fit(self, examples: Examples, *, rng: np.random.Generator) -> FittedPreimage:
        """Learn from examples; no more than `max_rows` of them are used."""
        self.check(examples.kernel)
        some = self.sample(len(examples), rng=rng)
        if some is not None:
            examples = replace(examples, scores=examples.scores[some], rows=examples.rows[some])
        with np.errstate(over="ignore", invalid="ignore"):
            centre, radius = extent(examples.rows)
        if not np.isfinite(radius):
            largest = float(np.max(np.abs(examples.rows)))
            msg = (
                f"X has entries as large as {largest:.3g}, too large to be squared: a way back measures "
                "distances between rows. Scale the columns."
            )
            raise InputError(msg)
        chosen, back, quality = self._learn(examples, rng=rng)
        length = np.nan
        if examples.space is not None:
            few = examples.rows[:: max(1, len(examples) // FEW)]
            length = float(np.mean(examples.space.lengths(few)))
        reach = float(np.sqrt(np.max(squared_norms(examples.scores))))
        return FittedPreimage(chosen, back, quality, examples.space, reach, length, centre, radius)

    @abstractmethod
    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        """The method with every knob a number, the way back, and its quality where it is known."""

    @abstractmethod
    def check(self, kernel: Kernel) -> None:
        """Raise when a knob has an impossible value, or the kernel is not one for this method."""

    def sample(self, n: int, *, rng: np.random.Generator) -> Indices | None:
        """Which of n rows to use; None for all of them."""
        if n <= self.max_rows:
            return None
        return np.sort(rng.choice(n, self.max_rows, replace=False))

    @abstractmethod
    def n_bytes(self, n: int, d: int, k: int) -> int:
        """The most that learning from n rows of d numbers and k scores may hold beside them."""


def extent(rows: Array) -> tuple[Array, float]:  # (n, d) -> (d,)
    """The mean of the rows, and how far the farthest of them lies from it."""
    centre = rows.mean(axis=0, dtype=np.float64)
    blocks = row_slices(len(rows), max(1, BLOCK // rows.shape[1]))
    farthest = max(float(np.max(squared_norms(rows[i] - centre))) for i in blocks)
    return centre, float(np.sqrt(farthest))


def quality_of(
    examples: Examples, points: Array, chosen: Indices, *, error: float | None = None
) -> Quality:
    """Of points found for examples that the way back was not shown; `error` where more were looked at."""
    rows = examples.rows[chosen].astype(np.float64)
    mean = examples.rows.mean(axis=0, dtype=np.float64)
    residual = None
    if examples.space is not None:
        found = examples.space.distances(points, examples.scores[chosen])
        length = float(np.mean(examples.space.lengths(rows)))
        residual = float(np.median(found)) / (length or 1.0)
    if error is None:
        error = float(np.sqrt(np.mean(squared_norms(points - rows)) / rows.shape[1]))
    of_mean = float(np.sqrt(np.mean(squared_norms(rows - mean)) / rows.shape[1]))
    return Quality(error, of_mean, residual)
