"""Feature space through the projection: lengths, distances, what is left out, and how all of it moves.

A fitted model is scores(x) = sections(x) A - b. Its axes are v_j = Σ_i A_ij φ(z_i), orthonormal, and the mean
of the training rows is μ = Σ_i c_i φ(z_i) (its part in the span of the landmarks, where an approximation
has landmarks). Everything here follows from A, b, c and ‖μ‖²; K is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.numpy import POINTS
from mercer.engine.pairwise import squared_norms
from mercer.engine.passes import map_rows
from mercer.operators.sections import GivenSections, KernelSections
from mercer.planning.bytes import SLICE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows
    from mercer.model.projection import Projection
    from mercer.model.result import Fit


@dataclass(frozen=True, repr=False)
class FeatureMean:
    """μ = Σ_i c_i φ(z_i), and its squared length; of explicit features, c is μ itself."""

    coef: Array  # (m,) float64
    norm: float


@dataclass(frozen=True, repr=False)
class FeatureSpace:
    """What can be measured in the feature space of a fitted model, in float64."""

    projection: Projection  # float64
    mean: FeatureMean

    @classmethod
    def of(cls, fit: Fit) -> FeatureSpace:
        """The space of a fit, on any route."""
        own = fit.projection
        coef, offset = (a.astype(np.float64, copy=False) for a in (own.coef, own.offset))
        return cls(replace(own, coef=coef, offset=offset), fit.mean)

    # ── rows ────────────────────────────────────────────────────────────────
    def scores(self, x: Rows) -> Array:  # (b, d) -> (b, k)
        """Scores in float64."""
        return self.projection(x)

    def scores_and_errors(
        self, x: Rows, diag: Array | None = None
    ) -> tuple[Array, Array]:  # (b, d) -> (b, k), (b,)
        """Scores, and the squared distance of φ(x) from its projection: the Q statistic.

        ``diag`` is k(x, x), for a precomputed kernel. Rounding never makes a distance negative.
        """
        b, k = int(x.shape[0]), self.projection.n_components
        out = np.empty((b, k)), np.empty(b)
        self._mapped(x, self._seen, out, diag)
        return out

    def errors(self, x: Rows, diag: Array | None = None) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖² - ‖scores(x)‖², at least zero; with an indefinite kernel it is no distance."""
        return self.scores_and_errors(x, diag)[1]

    def lengths(self, x: Rows, diag: Array | None = None) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖², at least zero."""
        return np.asarray(self._mapped(x, self._lengths, np.empty(x.shape[0]), diag))

    def _lengths(self, x: Rows, diag: Array | None) -> Array:
        sections = self.projection.sections
        if self._explicit:
            return squared_norms(sections(x) - self.mean.coef)
        along = sections.times(x, self.mean.coef[:, None])[:, 0]
        own = sections.diag(x) if diag is None else diag
        return np.maximum(own - 2.0 * along + self.mean.norm, 0.0)

    @property
    def _explicit(self) -> bool:
        """Whether sections are features, which can be centred, and not kernel values."""
        return not isinstance(self.projection.sections, (KernelSections, GivenSections))

    def _seen(self, x: Rows, diag: Array | None) -> tuple[Array, Array]:
        sections, coef, offset = (
            self.projection.sections,
            self.projection.coef,
            self.projection.offset,
        )
        if self._explicit:
            # Features can be centred, and the axes taken off them: nothing cancels.
            centred = sections(x) - self.mean.coef
            scores = centred @ coef
            return scores, squared_norms(centred - scores @ coef.T)
        both = sections.times(x, np.column_stack([coef, self.mean.coef]))
        scores, along = both[:, :-1] - offset, both[:, -1]
        own = sections.diag(x) if diag is None else diag
        errors = own - 2.0 * along + self.mean.norm - squared_norms(scores)
        return scores, np.maximum(errors, 0.0)

    def _mapped(
        self, x: Rows, step: Callable[..., Any], out: Any, *beside: Array | None, wide: bool = False
    ) -> Any:
        """Rows in float64, as many at a time as leave room for the sections of each."""
        width = self.projection.sections.width
        if not (wide or self._explicit):
            width = min(width, POINTS)  # kernel values are made for so many points at a time
        height = max(1, min(4096, SLICE_BYTES // (8 * width)))
        return map_rows(x, step, out, *beside, height=height, dtype=np.float64)

    def mean_products(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """φ(x)·μ."""
        return np.asarray(self._mapped(x, self._along_mean, np.empty(x.shape[0])))

    def _along_mean(self, x: Rows) -> Array:
        return self.projection.sections.times(x, self.mean.coef[:, None])[:, 0]

    # ── targets: the points ψ(t) = μ + Σ_j t_j v_j that scores t stand for ──────────────────
    def weights(self, t: Array) -> Array:  # (b, k) -> (b, m)
        """γ with ψ(t) = Σ_i γ_i φ(z_i)."""
        return np.asarray(t @ self.projection.coef.T + self.mean.coef)

    def target_norms(self, t: Array) -> Array:  # (b, k) -> (b,)
        """‖ψ(t)‖² = ‖t‖² + 2 t·b + ‖μ‖²: the axes are orthonormal, and v_j·μ = b_j."""
        return squared_norms(t) + 2.0 * (t @ self.projection.offset) + self.mean.norm

    def distances(self, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b,)
        """‖φ(x_i) - ψ(t_i)‖² of each pair, at least zero.

        The part outside of the components and the part along them.
        """
        scores, errors = self.scores_and_errors(x)
        return errors + squared_norms(scores - t)

    # ── slopes ──────────────────────────────────────────────────────────────
    def distance_slopes(self, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """The gradient of `distances` in x."""
        return np.asarray(self._mapped(x, self._distance_slope, np.empty(x.shape), t, wide=True))

    def _distance_slope(self, x: Rows, t: Array) -> Array:
        sections = self.projection.sections
        return -2.0 * sections.slope(x, self.weights(t)) + sections.diag_slope(x)

    def error_slopes(self, x: Rows) -> Array:  # (b, d) -> (b, d)
        """The gradient of `errors`: that of the distance to the projection, which may be held still.

        The projection is the nearest point of its plane, so moving it changes nothing to first order.
        """
        return self.distance_slopes(x, self.scores(x))

    def score_slope(self, x: Rows, pull: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """Σ_j p_ij ∂score_j/∂x_i."""
        return np.asarray(self._mapped(x, self._score_slope, np.empty(x.shape), pull, wide=True))

    def _score_slope(self, x: Rows, pull: Array) -> Array:
        return self.projection.sections.slope(x, pull @ self.projection.coef.T)

    def score_slopes(self, x: Rows) -> Array:  # (b, d) -> (b, k, d)
        """∂score_j/∂x of each row."""
        out = np.empty((int(x.shape[0]), self.projection.n_components, int(x.shape[1])))
        return np.asarray(self._mapped(x, self._score_slopes, out, wide=True))

    def _score_slopes(self, x: Rows) -> Array:
        coef, b = self.projection.coef, int(x.shape[0])
        each = (np.broadcast_to(c, (b, len(c))) for c in coef.T)
        return np.stack([self.projection.sections.slope(x, c) for c in each], axis=1)
