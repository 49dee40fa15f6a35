"""T² and Q of a fitted model: how far a row lies along the components, and how far off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.model.space import FeatureSpace

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.model.result import Fit

# Squared distances below this share of the mean squared length are rounding, whatever their ratio.
ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class Statistics:
    """T² and Q of b rows."""

    t2: Array  # (b,) float64
    q: Array  # (b,) float64

    def __len__(self) -> int:
        return len(self.t2)

    @classmethod
    def joined(cls, parts: list[Statistics]) -> Statistics:
        """One after the other."""
        return cls(np.concatenate([p.t2 for p in parts]), np.concatenate([p.q for p in parts]))


def score_variances(fit: Fit) -> Array:  # (k,)
    """λ_j/(Σw - 1): the variance of each score. Weights that sum to one or less lose no degree."""
    degrees = fit.weight - 1.0 if fit.weight > 1.0 else fit.weight
    return np.asarray(fit.eigenvalues, dtype=np.float64) / degrees


@dataclass(frozen=True, repr=False)
class Gauge:
    """What is read off a row.

    T²(x) = Σ_j s_j(x)²/v_j over the kept components, with v_j = λ_j/(Σw - 1) (Hotelling 1931), and
    Q(x) = ‖φ(x) - μ‖² - ‖s(x)‖², the squared distance from the components (Jackson & Mudholkar 1979).
    """

    space: FeatureSpace
    variances: Array  # (k,)
    rounding: float  # a Q below this is nothing

    @classmethod
    def of(cls, fit: Fit) -> Gauge:
        """The gauge of a fit, on any route."""
        return cls(FeatureSpace.of(fit), score_variances(fit), ROUNDING * fit.total / fit.weight)

    def __call__(self, x: Rows) -> Statistics:  # (b, d) -> (b,), (b,)
        """T² and Q of rows."""
        scores, errors = self.space.scores_and_errors(x)
        return Statistics(self._t2(scores), errors)

    def t2(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """T² alone."""
        return self._t2(self.space.scores(x))

    def _t2(self, scores: Array) -> Array:
        return np.asarray(np.square(scores) @ (1.0 / self.variances))

    def q(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """Q alone."""
        return self.space.errors(x)

    # ── slopes ──────────────────────────────────────────────────────────────
    def t2_slopes(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """∂T²/∂x: one weighted sum of sections, Σ_i (Σ_j 2 s_j A_ij/v_j) ∂k(x, z_i)/∂x."""
        pull = 2.0 * self.space.scores(x) / self.variances  # (b, k)
        return self.space.score_slope(x, pull)

    def q_slopes(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """∂Q/∂x."""
        return self.space.error_slopes(x)
