"""The width and the penalty of a ridge: tried on a sample of rows, each left out in turn.

One trial costs a Cholesky factor and its inverse, 2m³/3 operations for m rows; the map itself, learned from
all n, costs n³/3. So a first look at every width is taken with few rows, and the best of them is improved
with more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mercer.engine.pairwise import scaled_squared_distances, squared_norms
from mercer.kernels import RBF, Kernel, Linear, Polynomial
from mercer.preimage.regression import Affine, Factored

At: TypeAlias = tuple[int, int]  # a width and a penalty, by their positions

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.preimage.regression import Regression

# Columns in which candidates are compared: more are mixed down to so many.
SKETCH = 50
# How much narrower the next width is; those of the first look are so many steps around the first guess, and
# more rows, which see finer detail, may lead to narrower ones.
FACTOR, WIDEST, NARROWEST, STEPS = 4.0, -4, 4, 8
PENALTIES = np.logspace(-12, 2, 29)
SCANNED = (24, 16, 8, 2)  # of the penalties: 1, 1e-4, 1e-8, 1e-11
# Rows whose scores are moved, each component by this share of its usual size.
MOVED_ROWS, MOVE = 200, 0.3
# The γ of a Gaussian that is the same everywhere: κ is 1 plus the linear term.
LINEAR = 0.0
MEDIAN_ROWS = 100
# Trials of the second look: around what the first one found, and on as long as the error falls.
MOST_TRIALS = 14
CHANCE = 4.0  # how much worse than the best Gaussian a linear map may seem at first


def sketched(x: Array, *, rng: np.random.Generator) -> Array:  # (n, d) -> (n, at most SKETCH)
    """Fewer columns with the same squared lengths, but for chance (Johnson & Lindenstrauss 1984)."""
    if x.shape[1] <= SKETCH:
        return x
    return x @ (rng.standard_normal((x.shape[1], SKETCH)) / np.sqrt(SKETCH))


def latent_scale(scores: Array, weights: Array) -> float:
    """The factor that gives t·t' a mean of one on the diagonal."""
    size = float(np.average(squared_norms(scores), weights=weights))
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


class Sample:
    """Rows to try widths and penalties on, and all that these do not change."""

    def __init__(self, scores: Array, x: Array, weights: Array, scale: float) -> None:
        self.x, self.weights = x, weights  # (m, d), (m,)
        self.squares = scaled_squared_distances(scores, scores)  # (m, m)
        self.linear = scale * (scores @ scores.T)
        self.some = np.arange(0, len(x), -(-len(x) // MOVED_ROWS))
        beside = _beside(scores, self.some, weights)
        self.moved_squares = scaled_squared_distances(beside, scores)  # (p, m)
        self.moved_linear = scale * (beside @ scores.T)
        self.of_mean = self._mean(x)
        # Less than what rounding adds to κ anyhow is no penalty.
        trace = len(x) + float(np.trace(self.linear))
        self.floor = 4.0 * np.finfo(np.float64).eps * trace
        self._features = affine_features(scores, scale)
        self._affine: Affine | None = None

    @property
    def width(self) -> float:
        """Half of one over the median squared distance: a γ to begin with."""
        few = self.squares[:MEDIAN_ROWS, :MEDIAN_ROWS]
        pairs = few[np.triu_indices(len(few), 1)]
        pairs = pairs[pairs > 0]
        return 0.5 / float(np.median(pairs)) if len(pairs) else 1.0

    def error(self, gamma: float, alpha: float, limit: float = np.inf) -> float:
        """Mean squared error on rows left out; inf where rounding forbids to say.

        Rows left out lie among the others, and say nothing of scores beside them, where a small penalty lets
        a map swing far beyond the data. So scores that were moved have to come back too: no better than the
        row that they were moved from deserves, but no worse than the mean. Where they do, they do not count.
        An error that is not below the limit is not looked at any further.
        """
        found = self._regression(gamma, alpha)
        if found is None:
            return np.inf
        error = self._mean(found.left_out())
        if error >= limit:
            return error
        values = np.exp(-gamma * self.moved_squares) + self.moved_linear
        swing = self._mean(found.moved(self.some, values) - self.x[self.some], self.some)
        return error if swing <= self.of_mean else max(error, swing)

    def _regression(self, gamma: float, alpha: float) -> Regression | None:
        if gamma == LINEAR:
            if self._affine is None:
                self._affine = Affine.of(self._features, self.x, self.weights)
            return self._affine.at(alpha)
        kappa = np.exp(-gamma * self.squares)
        kappa += self.linear
        return Factored.of(kappa, self.x, alpha / self.weights)

    def _mean(self, missed: Array, some: Indices | slice = slice(None)) -> float:
        weights = self.weights[some]
        return float(weights @ squared_norms(missed)) / float(weights.sum() * missed.shape[1])


def _beside(scores: Array, some: Indices, weights: Array) -> Array:  # (n, k) -> (p, k)
    """These scores, moved a little in a direction of chance, the same for every width.

    Each component by a share of its own size: moved by that of the largest, the small ones would go
    where no row lies, and a map that rightly rests on them would seem to swing.
    """
    size = np.sqrt((weights @ scores**2) / np.sum(weights))  # (k,)
    noise = np.random.default_rng(0).standard_normal((len(some), scores.shape[1]))
    return np.asarray(scores[some] + MOVE * size * noise)


@dataclass(repr=False)
class Lattice:
    """Errors of widths γ = gammas[i] and penalties alphas[j], each found once."""

    sample: Sample
    gammas: Array
    alphas: Array
    errors: dict[At, tuple[float, bool]] = field(default_factory=dict)
    n_trials: int = 0

    def error(self, at: At, limit: float = np.inf) -> float:
        """Of a width and a penalty; inf beyond the lattice. One that is not below the limit may be more."""
        i, j = at
        if not (0 <= i < len(self.gammas) and 0 <= j < len(self.alphas)):
            return np.inf
        known = self.errors.get(at)
        if known is not None and (known[1] or known[0] >= limit):
            return known[0]
        alpha = float(self.alphas[j])
        error = np.inf
        if len(self.alphas) == 1 or alpha > self.sample.floor:  # one alone is the caller's wish
            error = self.sample.error(float(self.gammas[i]), alpha, limit)
            self.n_trials += 1
        self.errors[at] = error, error < limit
        return error

    def better(self, other: At, at: At) -> bool:
        """Whether the other one has less error."""
        limit = self.error(at)
        return self.error(other, limit) < limit

    def best_penalty(self, at: At, step: int) -> At:
        """Downhill along the penalties, a number of steps at a time."""
        i, start = at
        for move in (-step, step):
            while self.better((i, at[1] + move), at):
                at = i, at[1] + move
            if at[1] != start:
                break
        return at

    def first_look(self, i: int) -> At:
        """The best of a few penalties far apart: along them, too, the error may fall again."""
        some = SCANNED if len(self.alphas) > 1 else (0,)
        best = i, some[0]
        for j in some[1:]:
            best = (i, j) if self.better((i, j), best) else best
        return best

    def downhill(self, at: At) -> At:
        """From neighbour to neighbour as long as the error falls."""
        most = self.n_trials + MOST_TRIALS
        at, last = self.best_penalty(at, step=3), None  # what more rows see may be far from it
        while at != last and self.n_trials < most:
            last, (i, j) = at, at
            beside = [(i, j - 1), (i, j + 1)]
            if self.gammas[i] != LINEAR:
                beside += [(i + 1, j), (i - 1, j)]
            for other in beside:
                if self.better(other, at):
                    at = other
        return at


def searched(first: Sample, second: Sample, gammas: Array, alphas: Array) -> tuple[float, float]:
    """The width and the penalty with the least error: every other width on few rows, the best on more."""
    look = Lattice(first, gammas, alphas)
    # All widths are tried: the error may fall again after it has risen.
    linear, *others = map(look.first_look, range(2 + NARROWEST - WIDEST if len(gammas) > 1 else 1))
    fine = look if second is first else Lattice(second, gammas, alphas)
    starts = []
    if others:
        best = look.best_penalty(min(others, key=look.error), step=2)
        # With more rows a narrower width may be the better one, or one that was second at first.
        far = [at for at in others if abs(at[0] - best[0]) > 1]
        again = [best, (best[0] + 2, best[1]), *sorted(far, key=look.error)[:1]]
        starts = [min(again, key=fine.error)]
    # With as many scores as rows of the first look anything is linear: so it is a Gaussian that is improved,
    # and the linear map beside it where it has a chance.
    if not starts or look.error(linear) <= CHANCE * look.error(best):
        starts.append(look.best_penalty(linear, step=2))
    i, j = min((fine.downhill(at) for at in starts), key=fine.error)
    return float(gammas[i]), float(alphas[j])
