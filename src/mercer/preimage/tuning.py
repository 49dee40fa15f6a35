"""Kernel ridge regression with every row left out in turn, for all penalties from one decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Indices
    from mercer.kernels import Kernel

    Penalties = Callable[["Spectrum"], Array]

# Columns in which candidates are compared: more are mixed down to so many.
SKETCH = 100
# How much narrower the next width is, and how many are tried on either side.
FACTOR, STEPS = 4.0, 4
# Rows whose scores are moved, each component by this share of its usual size.
MOVED_ROWS, MOVE = 200, 0.3


@dataclass(frozen=True, repr=False)
class Spectrum:
    """κ(T, T) = V diag(λ) Vᵀ of scores T."""

    values: Array  # (n,) none negative
    vectors: Array  # (n, n)

    @classmethod
    def of(cls, kernel: Kernel, scores: Array) -> Spectrum:
        """That of the latent kernel on these scores."""
        values, vectors = np.linalg.eigh(kernel(scores))
        return cls(np.maximum(values, 0.0), vectors)

    def coef(self, x: Array, alpha: float) -> Array:  # (n, d) -> (n, d)
        """(κ + αI)⁻¹ x."""
        return np.asarray(self.vectors @ ((self.vectors.T @ x) / (self.values + alpha)[:, None]))

    def left_out(self, x: Array, alphas: Array) -> list[Array]:  # (n, d), (p,) -> p times (n, d)
        """What is missed of each row by the map learned from all others: r_i/(1 - H_ii).

        r = (I - H)x with H = κ(κ + αI)⁻¹. Both r and 1 - H_ii are sums of α/(λ + α), which is never a
        difference of two numbers near one.
        """
        shrink = alphas / (self.values[:, None] + alphas)  # (n, p)
        gaps = (self.vectors**2) @ shrink  # 1 - H_ii for each α
        right = self.vectors.T @ x
        return [
            (self.vectors @ (s[:, None] * right)) / gap[:, None]
            for s, gap in zip(shrink.T, gaps.T, strict=True)
        ]

    def moved(self, x: Array, alphas: Array, some: Indices, values: Array) -> list[float]:
        """Mean squared error at scores near those of `some` rows, by the map learned without that row.

        values : (m, n) κ of the moved scores with all. Without row i the coefficients a lose
        G e_i a_i/G_ii, G = (κ + αI)⁻¹.
        """
        seen, right = values @ self.vectors, self.vectors.T @ x  # (m, n), (n, d)
        own = self.vectors[some]
        errors = []
        for alpha in alphas:
            inverse = 1.0 / (self.values + alpha)
            coef = own @ (inverse[:, None] * right)  # (m, d)
            lost = ((seen * own) @ inverse) / ((own * own) @ inverse)
            found = seen @ (inverse[:, None] * right) - lost[:, None] * coef
            errors.append(float(np.mean((found - x[some]) ** 2)))
        return errors


def sketched(x: Array, *, rng: np.random.Generator) -> Array:  # (n, d) -> (n, at most SKETCH)
    """Fewer columns with the same squared lengths, but for chance (Johnson & Lindenstrauss 1984)."""
    if x.shape[1] <= SKETCH:
        return x
    return x @ (rng.standard_normal((x.shape[1], SKETCH)) / np.sqrt(SKETCH))


@dataclass(frozen=True, repr=False)
class Trial:
    """A latent width, its best penalty, and their mean squared error on rows left out."""

    gamma: float
    alpha: float
    error: float
    spectrum: Spectrum


def best_penalty(kernel: Kernel, gamma: float, scores: Array, x: Array, alphas: Penalties) -> Trial:
    """The penalty with the least error at this width.

    Rows left out lie among the others, and say nothing of scores beside them, where a small penalty lets a
    map swing far beyond the data. So scores that were moved have to come back too: no better than the
    row that they were moved from deserves, but no worse than the mean. Where they do, they do not count.
    """
    spectrum = Spectrum.of(kernel, scores)
    tried = alphas(spectrum)
    some = np.arange(0, len(x), -(-len(x) // MOVED_ROWS))
    swings = spectrum.moved(x, tried, some, kernel(_beside(scores, some), scores))
    left = [float(np.mean(missed**2)) for missed in spectrum.left_out(x, tried)]
    of_mean = float(np.mean(x**2))
    errors = [
        e if swing <= of_mean else max(e, swing) for e, swing in zip(left, swings, strict=True)
    ]
    best = int(np.argmin(errors))
    return Trial(gamma, float(tried[best]), errors[best], spectrum)


def _beside(scores: Array, some: Indices) -> Array:  # (n, k) -> (m, k)
    """These scores, moved a little in a direction of chance, the same for every width.

    Each component by a share of its own size: moved by that of the largest, the small ones would go
    where no row lies, and a map that rightly rests on them would seem to swing.
    """
    size = np.sqrt(np.mean(scores**2, axis=0))  # (k,)
    noise = np.random.default_rng(0).standard_normal((len(some), scores.shape[1]))
    return np.asarray(scores[some] + MOVE * size * noise)


def widths(gamma: float) -> Array:
    """Widths around this one, wide ones first."""
    return gamma * FACTOR ** np.arange(-STEPS, STEPS + 1)


def best_width(gammas: Array, tried: Callable[[float], Trial]) -> Trial:
    """The width with the least error. All are tried: the error may fall again after it has risen."""
    best = tried(float(gammas[0]))
    for gamma in gammas[1:]:  # two decompositions at a time, not all
        best = min(best, tried(float(gamma)), key=lambda trial: trial.error)
    return best


def narrowed(best: Trial, tried: Callable[[float], Trial], steps: int = STEPS) -> Trial:
    """Narrower and narrower than the best so far, as long as the error falls."""
    for _ in range(steps):
        trial = tried(best.gamma * FACTOR)
        if trial.error >= best.error:
            break
        best = trial
    return best
