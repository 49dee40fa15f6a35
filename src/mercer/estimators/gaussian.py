"""The Gaussian model behind linear PCA: variances along the axes, one noise in all other directions."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError
from mercer.model.space import FeatureSpace
from mercer.monitoring.statistics import score_variances

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.model import Fit

# A share of the total variance below this is the rounding of a sum, not noise.
NOTHING = 1e-13


@dataclass(frozen=True, repr=False)
class Gaussian:
    """N(μ, C) with C = V(Λ - σ²I)Vᵀ + σ²I, by maximum likelihood (Tipping and Bishop 1999).

    Nothing d x d is solved: V is orthonormal, so C has the variances Λ along it and σ² across.
    """

    space: FeatureSpace
    variances: Array  # (k,)
    noise: float  # σ²
    d: int

    @classmethod
    def of(cls, fit: Fit, d: int) -> Gaussian:
        """The model of a fit; σ² is the mean of the eigenvalues left out, of the min(n, d) that there are."""
        variances, k = score_variances(fit), len(fit.eigenvalues)
        n = max(fit.rank_bound + 1, round(fit.weight))  # a row of weight two is two rows
        left, scale = fit.total - float(fit.eigenvalues.sum()), variances[0] / fit.eigenvalues[0]
        others = min(n, d) - k
        noise = float(left * scale) / others if others > 0 and left > NOTHING * fit.total else 0.0
        return cls(FeatureSpace.of(fit), variances, noise, d)

    @property
    def axes(self) -> Array:  # (d, k)
        return self.space.projection.coef

    def covariance(self) -> Array:  # (d, d)
        """C, the covariance of the rows in the model."""
        found = (self.axes * (self.variances - self.noise)) @ self.axes.T
        found[np.diag_indices_from(found)] += self.noise
        return np.asarray(found)

    def precision(self) -> Array:  # (d, d)
        """C⁻¹ = V(Λ⁻¹ - σ⁻²I)Vᵀ + σ⁻²I."""
        self._require_noise()
        across = 1.0 / self.noise if self.noise > 0.0 else 0.0
        found = (self.axes * (1.0 / self.variances - across)) @ self.axes.T
        found[np.diag_indices_from(found)] += across
        return np.asarray(found)

    def log_likelihood(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """log N(x; μ, C), from the scores and the squared distance from the axes."""
        self._require_noise()
        scores, off = self.space.scores_and_errors(x)  # (b, k), (b,)
        others = self.d - len(self.variances)
        far = np.square(scores) @ (1.0 / self.variances)
        volume = float(np.log(self.variances).sum())
        if others:
            far, volume = far + off / self.noise, volume + others * log(self.noise)
        return np.asarray(-0.5 * (far + volume + self.d * log(2.0 * pi)))

    def _require_noise(self) -> None:
        k = len(self.variances)
        if self.noise > 0.0 or k == self.d:
            return
        msg = (
            f"The {k} components of this model keep all of the variance of {self.d} columns: nothing is left "
            "for the noise in the other directions, and the covariance has no inverse. Fit with fewer "
            "components, such as n_components=0.99, or call truncated(0.99)."
        )
        raise InputError(msg)
