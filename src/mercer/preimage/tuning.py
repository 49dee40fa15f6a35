"""Kernel ridge regression with every row left out in turn, for all penalties from one decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.kernels import Kernel

# Columns in which candidates are compared: more are mixed down to so many.
SKETCH = 100
# How much narrower the next width is, and how many are tried at most on either side.
FACTOR, STEPS = 4.0, 4


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


def best_penalty(spectrum: Spectrum, x: Array, gamma: float, alphas: Array) -> Trial:
    """The penalty with the least error at this width."""
    errors = [float(np.mean(missed**2)) for missed in spectrum.left_out(x, alphas)]
    best = int(np.argmin(errors))
    return Trial(gamma, float(alphas[best]), errors[best], spectrum)


def best_width(start: Trial, tried: Callable[[float], Trial], factors: tuple[float, ...]) -> Trial:
    """From `start` on in steps of each factor, as long as the error falls."""
    best = start
    for factor in factors:
        last = start
        for _ in range(STEPS):
            new = tried(factor * last.gamma)
            if new.error >= last.error:
                break
            last = new
        best = min(best, last, key=lambda trial: trial.error)
    return best
