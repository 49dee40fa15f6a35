"""What a pre-image method is given, what it promises, and what that costs: bytes and steps by arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Params
from mercer._core.types import Array, Flags, Indices, Rows
from mercer._core.wording import Message, brief
from mercer.data.rows import row_slices, take_rows
from mercer.engine.base import Engine
from mercer.engine.moments import weighted_median
from mercer.engine.pairwise import squared_norms
from mercer.engine.passes import SLICE_BYTES
from mercer.engine.threads import single_threaded_blas
from mercer.kernels.base import Kernel
from mercer.model.space import FeatureSpace
from mercer.operators.sections import KernelSections
from mercer.planning.bytes import FLOAT, SMALL
from mercer.planning.forecast import least_seconds

Learned: TypeAlias = tuple["Preimage", "Back", "Quality | None"]


# Examples that a mean length or a quality is taken from.
FEW = 200
# Scores are taken this many times as far out as any example's and no farther: beyond, squares and powers
# overflow, and every answer is a guess anyhow.
FARTHEST = 1e12
BLOCK = 2**18  # numbers of a block of rows
# Up to so many examples BLAS has one thread. NumPy's and SciPy's, called in turns, have threads of their own,
# which wait for each other: a ridge of 2000 rows took 1.05 s on two threads each and takes 0.53 on one.
# Beside other work they spin: a factor of 5000 rows took 3.2 s of processor time on two, and 0.8 on one.
ALONE_ROWS = 5000
# Noise of the rows that a quality is taken from, in errors of the mean, and how many of them.
NOISE, NOISY_ROWS = 2.0, 100
CALLS = 3e-3  # seconds that the calls take, whatever the rows
TIMED_ROWS, SIZE = 64, 256
SPENT = 0.05  # seconds for each question


@dataclass(frozen=True, repr=False)
class Examples:
    """Rows with their scores, and the feature space they lie in."""

    scores: Array  # (n, k) float64
    rows: Array  # (n, d)
    kernel: Kernel  # resolved
    # None: no feature space knows these rows. The kernel is precomputed, or they are other rows than its.
    space: FeatureSpace | None
    engine: Engine[Any]  # where the model is computed, and what is learned from these
    # How many rows each one stands for; None: one. No row is in here twice (`mercer.engine.equal_rows`).
    weights: Array | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def counts(self) -> Array:  # (n,)
        return np.ones(len(self)) if self.weights is None else self.weights

    @cached_property
    def mean(self) -> Array:  # (d,)
        """The mean of the rows, each as often as it counts."""
        if self.weights is None:
            return np.asarray(self.rows.mean(axis=0, dtype=np.float64))
        return np.asarray(self.weights @ self.rows) / float(np.sum(self.weights))

    def _squares(self) -> Iterator[tuple[slice, Array]]:
        """Squared distances of the rows from their mean, a block at a time."""
        for i in row_slices(len(self), max(1, BLOCK // self.rows.shape[1])):
            yield i, squared_norms(self.rows[i] - self.mean)

    @property
    def spread(self) -> float:
        """How far the rows lie from their mean, root mean square."""
        squares = sum(float(self.counts[i] @ own) for i, own in self._squares())
        return float(np.sqrt(squares / np.sum(self.counts)))

    @cached_property
    def radius(self) -> float:
        """How far the farthest of the rows lies from their mean."""
        return float(np.sqrt(max(float(np.max(own)) for _, own in self._squares())))

    @cached_property
    def length(self) -> float:
        """The mean squared length of some of them in feature space; nan where that is not known."""
        if self.space is None:
            return np.nan
        some = slice(None, None, max(1, len(self) // FEW))
        return float(np.average(self.space.lengths(self.rows[some]), weights=self.counts[some]))

    def taken(self, some: Indices) -> Examples:
        weights = None if self.weights is None else self.weights[some]
        return replace(self, scores=self.scores[some], rows=self.rows[some], weights=weights)

    def few(self, most: int, *, rng: np.random.Generator) -> Indices:
        """Positions of at most so many examples."""
        return np.sort(rng.choice(len(self), min(most, len(self)), replace=False))


@dataclass(frozen=True)
class Quality:
    """Root mean squared error on rows that were held out, beside that of always saying the mean.

    Ridge is learned without the row that is held out, and the others may not start from it or look at its
    distance. The components themselves have seen it; with many of them new rows fare worse.
    ``residual`` is the median squared distance, in feature space, between the image of the point that was
    found and the point that was sought, as a share of the mean squared length there.

    These rows are clean. ``noisy`` is the error on training rows to which Gaussian noise was added, `NOISE`
    times as large as the error of the mean, against the rows without it: what denoising has to expect. Where
    it is above the error of the mean, such noise takes rows farther from all others than the kernel can see.
    """

    error: float
    error_of_mean: float
    residual: float | None = None
    noisy: float | None = None

    @property
    def survives_noise(self) -> bool | None:
        """Whether noisy rows come back better than the mean would; None where that is not known."""
        return None if self.noisy is None else self.noisy < self.error_of_mean

    def __str__(self) -> str:
        text = f"held-out error {self.error:.4g}, error of the mean {self.error_of_mean:.4g}"
        if self.residual is not None:
            text += f", feature-space residual {self.residual:.2%}"
        if self.noisy is not None:
            worse = "" if self.survives_noise else ", worse than the mean"
            text += f"; rows with noise {NOISE:g} times the mean's error: {self.noisy:.4g}{worse}"
        return text


@dataclass(frozen=True)
class Cost:
    """The work of learning, counted."""

    entries: float = 0.0  # of the model's kernel
    exponentials: float = 0.0  # of a latent one
    flops: float = 0.0  # of products and factors

    def seconds(self, kernel: Kernel, rows: Rows) -> float:
        """How long that takes here."""
        # A product of this size runs about as fast as two Cholesky factors of a few hundred rows do.
        a = np.ones((SIZE, SIZE))
        total = CALLS + self.flops * 2.0 * least_seconds(lambda: a @ a, SPENT) / (2.0 * SIZE**3)
        if self.exponentials:
            some = np.linspace(-5.0, 0.0, SIZE**2)
            total += self.exponentials * 3.0 * least_seconds(lambda: np.exp(some), SPENT) / SIZE**2
        if self.entries:
            few = take_rows(rows, np.arange(min(TIMED_ROWS, int(rows.shape[0]))))
            seconds = least_seconds(lambda: kernel.tile(few, few), SPENT)
            total += self.entries * seconds / int(few.shape[0]) ** 2
        return total


class Back(Protocol):
    """A map from scores to points that has been learned."""

    @property
    def n_rows(self) -> int:
        """Rows that it rests on."""

    def __call__(
        self, scores: Array, skip: Indices | None = None
    ) -> tuple[Array, Flags | None]:  # (b, k), (b,) -> (b, d), (b,)
        """Points whose scores are near the given ones, in float64, and which of them a search settled on.

        skip : for each of the scores the row that may not be looked at, where rows are looked at.
        """


@dataclass(frozen=True, repr=False)
class FittedPreimage:
    """A learned pre-image, and how good it is."""

    method: Preimage  # with every knob a number
    back: Back
    quality: Quality | None
    space: FeatureSpace | None
    reach: float  # the largest ‖t‖ of an example
    length: float  # mean squared length of the examples in feature space; nan where it is not known
    centre: Annotated[Array, "d"]  # the mean of the examples' rows
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

        ψ(t) is the point of feature space that the scores t stand for; the length is that of centred images.
        """
        if self.space is None:
            return None
        points = points.astype(np.float64, copy=False)
        return self.space.distances(points, self.within(scores)) / (self.length or 1.0)

    @property
    def n_rows(self) -> int:
        return self.back.n_rows

    def __repr__(self) -> str:
        return f"FittedPreimage({brief(self.method)}, from {self.n_rows} rows; {self.quality})"


class Preimage(Params, ABC):
    """A method that learns to go back from scores to rows."""

    max_rows: int
    rows: Any = None  # that it leads to in place of the training rows, where it takes any
    needs_points: ClassVar[bool] = False  # that the model rests on: random features have none

    def fit(self, examples: Examples, *, rng: np.random.Generator) -> FittedPreimage:
        """Learn from examples; no more than `max_rows` of them are used."""
        self.check(examples.kernel)
        self._check_points(examples.space)
        some = self.sample(len(examples), rng=rng)
        if some is not None:
            examples = examples.taken(some)
        with np.errstate(over="ignore", invalid="ignore"):
            centre, radius = examples.mean, examples.radius
        if not np.isfinite(radius):
            largest = float(np.max(np.abs(examples.rows)))
            msg = (
                f"X has entries as large as {largest:.3g}, too large to be squared: pre-images measure "
                "distances between rows. Scale the columns."
            )
            raise InputError(msg)
        with single_threaded_blas() if len(examples) <= ALONE_ROWS else nullcontext():
            chosen, back, quality = self._learn(examples, rng=rng)
            if quality is not None and examples.space is not None:
                noisy = noisy_error(examples, back, quality.error_of_mean, rng=rng)
                quality = replace(quality, noisy=noisy)
            reach = float(np.sqrt(np.max(squared_norms(examples.scores))))
            space, length = examples.space, examples.length
        return FittedPreimage(chosen, back, quality, space, reach, length, centre, radius)

    @abstractmethod
    def _learn(self, examples: Examples, *, rng: np.random.Generator) -> Learned:
        """The method with every knob a number, the map it has learned, and its quality where it is known."""

    def check(self, kernel: Kernel) -> None:
        """Raise when a knob has an impossible value, or the kernel is not one for this method."""
        self.check_params()
        needed = self.missing_in(kernel)
        if needed:
            others = "{preimage:'gradient'} or " if has_descent(kernel) else ""
            msg = Message(
                f"{type(self).__name__} needs {{needed}}; got {{got}}. Use {others}{{preimage:'ridge'}}.",
                needed=needed,
                got=repr(kernel),
            )
            raise InputError(msg)

    def _check_points(self, space: FeatureSpace | None) -> None:
        sections = None if space is None else space.projection.sections
        if self.needs_points and not isinstance(sections, KernelSections):
            msg = Message(
                f"{type(self).__name__} makes a mean of points that the model rests on, but {{sections}} "
                "rests on none. Use {preimage:'gradient'} or {preimage:'ridge'}.",
                sections=repr(sections),
            )
            raise InputError(msg)

    def missing_in(self, kernel: Kernel) -> str:
        """The kernel that is needed, in words; nothing where this one will do."""
        del kernel
        return ""

    def sample(self, n: int, *, rng: np.random.Generator) -> Indices | None:
        """Which of n rows to use; None for all of them."""
        if n <= self.max_rows:
            return None
        return np.sort(rng.choice(n, self.max_rows, replace=False))

    @abstractmethod
    def n_bytes(self, n: int, d: int, k: int) -> int:
        """The most that learning from n rows of d numbers and k scores may hold beside them."""

    @abstractmethod
    def cost(self, n: int, d: int, k: int) -> Cost:
        """The work of learning from n rows of d numbers and k scores, for a forecast."""


def has_descent(kernel: Kernel) -> bool:
    """Whether ‖φ(x) - ψ‖² is a distance, never negative, with a slope to go down."""
    return kernel.differentiable and kernel.why_valid() is not None


def quality_without(
    examples: Examples, back: Back, *, least: int, rng: np.random.Generator
) -> Quality | None:
    """The quality on some examples, each brought back without itself; None where fewer than `least` are."""
    if len(examples) < least:
        return None
    chosen = examples.few(FEW, rng=rng)
    return quality_of(examples, back(examples.scores[chosen], skip=chosen)[0], chosen)


def quality_of(examples: Examples, points: Array, chosen: Indices) -> Quality:
    """The quality of points found for examples that were held out, each counted as often as its row."""
    rows, counts = examples.rows[chosen].astype(np.float64), examples.counts[chosen]
    residual = None
    if examples.space is not None:
        found = examples.space.distances(points, examples.scores[chosen])
        residual = weighted_median(found, counts) / (examples.length or 1.0)
    return Quality(_rms(points - rows, counts), _rms(rows - examples.mean, counts), residual)


def _rms(missed: Array, counts: Array) -> float:  # (b, d), (b,)
    return float(np.sqrt(np.average(squared_norms(missed), weights=counts) / missed.shape[1]))


def noisy_error(examples: Examples, back: Back, size: float, *, rng: np.random.Generator) -> float:
    """Root mean squared error on some rows with noise, against the rows without it.

    Rows are not left out: what is new to the pre-image is the noise, which is larger than their distances.
    """
    assert examples.space is not None  # scores of other rows are not known
    some = examples.few(NOISY_ROWS, rng=rng)
    rows = examples.rows[some].astype(np.float64)
    noise = rng.standard_normal(rows.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        noisy = rows + NOISE * size * noise
        if np.min(rows) >= 0:  # they may be counts, and keep to that
            noisy = np.maximum(noisy, 0.0)
        points, _ = back(examples.space.scores(noisy))
        return _rms(points - rows, examples.counts[some])


def kept_bytes(*, n: int, k: int, width: int, rows_bytes: int) -> int:
    """The bytes of a fit beside its pre-image: vectors, products, coefficients, rows, slices of sections.

    width : of the sections, n of an exact fit.
    """
    # Scores of the examples and distances in feature space come from slices of sections, with a temporary.
    slices = 3 * min(SLICE_BYTES, FLOAT * n * width)
    return FLOAT * (3 * n * k + 2 * width * k + 8 * n) + rows_bytes + slices + SMALL
