"""The width and the penalty of a ridge: tried on a sample of rows, each left out in turn.

One decomposition of the latent kernel matrix serves every penalty, so widths are compared by the error at the
best penalty of each. Taken so, it mostly falls and rises once as they narrow: three widths far apart on few
rows tell where to begin, and from there more rows lead downhill.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mercer._core.types import Array, Indices
from mercer.engine.native.bindings import compiled
from mercer.engine.pairwise import scaled_squared_distances, squared_norms
from mercer.kernels import RBF, Kernel, Linear, Polynomial
from mercer.preimage.regression import LEAST_ROWS, Decomposition, Regression, Spectrum, Tridiagonal

# Columns in which candidates are compared: more are mixed down to so many, the same for all of them.
SKETCH = 16
# Widths are γ = FACTOR**s times the first guess, for whole s; a first look is taken at those of SCANNED.
FACTOR, WIDEST, NARROWEST, SCANNED = 4.0, -4, 8, (-3, -1, 1)
# Penalties: every fourth is looked at, then those beside the best of them, two steps and one step away.
PENALTIES, STRIDES = np.logspace(-12, 2, 29), (4, 2, 1)
# Rows whose scores are moved, each component by this share of its usual size.
MOVED_ROWS, MOVE = 100, 0.3
# The γ of a Gaussian that is the same everywhere: κ is 1 plus the linear term.
LINEAR = 0.0
MEDIAN_ROWS = 100
# How much more than the least so far the squared error of a narrower width may be without ending the search.
# Where nearly all of a row comes back (this share of the mean's error is left), errors of widths differ by
# powers of ten, and a small rise may lie before a deep fall; elsewhere they hardly differ.
RISE, NEARLY_ALL = 1.1, 0.01
# The same for a wider one where no scan has looked beyond it: there errors may be flat, and end in a dip.
FLAT = 1.02


def sketched(x: Array, *, rng: np.random.Generator) -> Array:  # (n, d) -> (n, at most SKETCH)
    """Fewer columns with the same squared lengths, but for chance (Johnson & Lindenstrauss 1984)."""
    if x.shape[1] <= SKETCH:
        return x
    return x @ (rng.standard_normal((x.shape[1], SKETCH)) / np.sqrt(SKETCH))


def latent_scale(scores: Array, weights: Array) -> float:
    """The factor that gives t·t' a mean of one on the diagonal."""
    size = float(weights @ squared_norms(scores) / np.sum(weights))
    return 1.0 / size if size > 0 else 1.0


def latent(gamma: float, scale: float) -> Kernel:
    """Gaussian plus linear, the latter scaled to the same size.

    The 1 that a Gaussian without end leaves is needed: rows and scores are centred with every row, so
    without it a row that is left out is still known as minus the sum of the others.
    """
    return Polynomial(1, scale, coef0=1.0) if gamma == LINEAR else RBF(gamma) + scale * Linear()


def affine_features(scores: Array, scale: float) -> Array:  # (n, k) -> (n, k + 1)
    """F with FFᵀ = 1 + scale t·t'."""
    return np.column_stack([np.ones(len(scores)), np.sqrt(scale) * scores])


@dataclass(frozen=True, repr=False)
class Trial:
    """A width with its best penalty, and their mean squared error on rows left out."""

    gamma: float
    alpha: float
    error: float
    spectrum: Decomposition


class Sample:
    """Rows to try widths and penalties on, and all that these do not change."""

    def __init__(self, scores: Array, x: Array, weights: Array, scale: float) -> None:
        self.scores, self.x, self.weights, self.scale = scores, x, weights, scale
        self.squares = scaled_squared_distances(scores, scores)  # (m, m)
        self.linear = scale * (scores @ scores.T)
        self.entries = float(np.sum(weights)) * x.shape[1]
        self.of_mean = float(weights @ squared_norms(x)) / self.entries
        # Less than what rounding adds to κ anyhow is no penalty.
        trace = float(weights @ (1.0 + np.diagonal(self.linear)))
        self.floor = 4.0 * np.finfo(np.float64).eps * trace

    @property
    def width(self) -> float:
        """Half of one over the median squared distance: a γ to begin with."""
        few = self.squares[:MEDIAN_ROWS, :MEDIAN_ROWS]
        pairs = few[~np.tri(len(few), dtype=bool)]
        pairs = pairs[pairs > 0]
        return 0.5 / float(np.median(pairs)) if len(pairs) else 1.0

    def spectrum(self, gamma: float, least: float = 0.0) -> Decomposition:
        """The decomposition of the latent kernel of this width, for penalties no smaller than the least."""
        if gamma == LINEAR:
            return Spectrum.of_features(affine_features(self.scores, self.scale), self.weights)
        kappa, native = _gaussian(gamma, self.squares, self.linear), compiled()
        if native is None or least <= self.floor or len(kappa) < LEAST_ROWS:
            return Spectrum.of_kernel(kappa, self.weights)
        return Tridiagonal.of_kernel(kappa, self.weights, native)

    def tried(self, gamma: float, alphas: Array, limit: float = np.inf) -> Trial:
        """The penalty with the least error at this width; one that is not below the limit may be more.

        Rows left out lie among the others, and say nothing of scores beside them, where a small penalty lets
        a map swing far beyond the data. So scores that were moved have to come back too: no better than the
        row that they were moved from deserves, but no worse than the mean. Where they do, they do not count.
        """
        if len(alphas) > 1:  # one alone is the caller's wish
            alphas = alphas[alphas > self.floor]
        spectrum = self.spectrum(gamma, least=float(alphas[0]))
        regression, seen = spectrum.of(self.x), None
        errors = _Errors(regression, alphas, self.entries)
        while True:
            best = errors.least()
            if errors.known[best] >= limit or best in errors.sound:
                return Trial(gamma, float(alphas[best]), float(errors.known[best]), spectrum)
            if seen is None:
                seen = spectrum.seen(_gaussian(gamma, *self._moved))
            swing = self._swing(regression, float(alphas[best]), seen)
            if swing > self.of_mean:
                errors.known[best] = max(errors.known[best], swing)
            errors.sound.add(best)

    @cached_property
    def some(self) -> Indices:  # (p,)
        """The rows whose scores are moved."""
        return np.arange(0, len(self.x), -(-len(self.x) // MOVED_ROWS))

    @cached_property
    def _moved(self) -> tuple[Array, Array]:  # (p, m), (p, m)
        """Squared distances and dot products of moved scores, which a first look may do without."""
        # In a direction of chance, the same for every width. Each component by a share of its own size: moved
        # by that of the largest, the small ones would go where no row lies, and a map that rightly rests on
        # them would seem to swing.
        size = np.sqrt((self.weights @ self.scores**2) / np.sum(self.weights))  # (k,)
        noise = np.random.default_rng(0).standard_normal((len(self.some), len(size)))
        beside = self.scores[self.some] + MOVE * size * noise
        return scaled_squared_distances(beside, self.scores), self.scale * (beside @ self.scores.T)

    def _swing(self, regression: Regression, alpha: float, seen: Array) -> float:
        """The mean squared error at scores beside those of the rows, each left out."""
        missed = regression.moved(alpha, self.some, seen) - self.x[self.some]
        weights = self.weights[self.some]
        return float(weights @ squared_norms(missed)) / float(weights.sum() * missed.shape[1])


class _Errors:
    """Left-out errors of one width by penalty, found where they are looked for."""

    def __init__(self, regression: Regression, alphas: Array, entries: float) -> None:
        self.regression, self.alphas, self.entries = regression, alphas, entries
        self.known = np.full(len(alphas), np.inf)
        self.sound = set[int]()  # those that were held against moved scores too
        self._look(range(0, len(alphas), STRIDES[0]))

    def least(self) -> int:
        """The penalty with the least error: from the best so far to those beside it, in smaller strides."""
        for stride in STRIDES[1:]:
            best = int(np.argmin(self.known))
            self._look(j for j in (best - stride, best + stride) if 0 <= j < len(self.alphas))
        return int(np.argmin(self.known))

    def _look(self, some: Iterable[int]) -> None:
        new = [j for j in some if self.known[j] == np.inf]
        if new:
            self.known[new] = self.regression.left_out_errors(self.alphas[new]) / self.entries


def _gaussian(gamma: float, squares: Array, linear: Array) -> Array:
    """exp(-γ squares) + linear, in one new array: fresh memory costs as much as the exponentials."""
    kappa = np.multiply(squares, -gamma)
    np.exp(kappa, out=kappa)
    kappa += linear
    return kappa


@dataclass(repr=False)
class Look:
    """Widths tried on one sample, each once; the decomposition of the best of them is kept."""

    sample: Sample
    guess: float
    alphas: Array
    errors: dict[float, float] = field(default_factory=dict)
    best: Trial | None = None

    def at(self, step: int) -> float:
        """The error of the width that is so many steps from the first guess."""
        return self.of(self.guess * FACTOR**step) if WIDEST <= step <= NARROWEST else np.inf

    def of(self, gamma: float) -> float:
        if gamma not in self.errors:
            limit = np.inf if self.best is None else self.best.error
            trial = self.sample.tried(gamma, self.alphas, limit)
            self.errors[gamma] = trial.error
            if self.best is None or trial.error < limit:
                self.best = trial
        return self.errors[gamma]


def searched(first: Look, second: Look) -> Trial:
    """The width and the penalty with the least error on the rows of the second look.

    Where the pre-image is linear (a polynomial kernel with all its components), no Gaussian will do: beside
    one, however wide, a linear map has a share in each of κ's eigenvalues, and the share in those below
    the penalty is lost, 1e-10 to 1e-7 of the rows. The limit γ = 0 has k + 1 eigenvalues.
    """
    wider, middle, narrower = SCANNED
    start, steps = middle, (1, -1)  # narrower first: more rows see finer detail
    one = second is first
    if first.at(narrower) < first.at(middle):
        start = narrower
    # On the same rows a scan has the price of a walk. There the limit of all wide ones, which is tried anyhow
    # and costs little, says whether one of them is worth a look.
    elif not one or first.of(LINEAR) < first.at(middle):
        if first.at(wider) < first.at(middle):
            start = wider
        elif first.at(wider) < first.at(narrower):
            steps = (-1, 1)
    little = not one and second.at(start) < NEARLY_ALL * second.sample.of_mean
    rises = {1: RISE if little else 1.0, -1: FLAT if one else 1.0}
    for step in steps:
        if _walked(second, start, step, rises[step]):
            break
    second.of(LINEAR)
    assert second.best is not None
    return second.best


def _walked(look: Look, at: int, step: int, rise: float) -> bool:
    """Whether the error falls in this direction, perhaps beyond one width where it rises a little."""
    start = least = look.at(at)
    risen = False
    while True:
        at += step
        error = look.at(at)
        if error >= least and (risen or error >= rise * least):
            return least < start
        risen, least = error >= least, min(error, least)
