"""Feature space through the projection: lengths, distances, what is left out, and how all of it moves.

A fitted model is scores(x) = sections(x) A - b. Its axes are v_j = Σ_i A_ij φ(z_i), orthonormal, and the mean
of the training rows is μ = Σ_i c_i φ(z_i) (its part in the span of the landmarks, where an approximation
has landmarks). Everything here follows from A, b, c and ‖μ‖²; K is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.pairwise import squared_norms
from mercer.engine.rows import row_blocks
from mercer.model.budget import SLICE_BYTES
from mercer.operators.sections import FeatureSections

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        scores = np.empty((x.shape[0], self.projection.n_components))
        errors = np.empty(x.shape[0])
        for i, block in self._blocks(x):
            own = None if diag is None else diag[i]
            scores[i], errors[i] = self._seen(block, own)
        return scores, errors

    def errors(self, x: Rows, diag: Array | None = None) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖² - ‖scores(x)‖², at least zero."""
        return self.scores_and_errors(x, diag)[1]

    def lengths(self, x: Rows, diag: Array | None = None) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖², at least zero."""
        scores, errors = self.scores_and_errors(x, diag)
        return errors + squared_norms(scores)

    def _seen(self, x: Rows, diag: Array | None) -> tuple[Array, Array]:
        sections, coef, offset = (
            self.projection.sections,
            self.projection.coef,
            self.projection.offset,
        )
        if isinstance(sections, FeatureSections):
            # Features can be centred, and the axes taken off them: nothing cancels.
            centred = sections(x) - self.mean.coef
            scores = centred @ coef
            return scores, squared_norms(centred - scores @ coef.T)
        both = sections.times(x, np.column_stack([coef, self.mean.coef]))
        scores, along = both[:, :-1] - offset, both[:, -1]
        own = sections.diag(x) if diag is None else diag
        errors = own - 2.0 * along + self.mean.norm - squared_norms(scores)
        return scores, np.maximum(errors, 0.0)

    def _blocks(self, x: Rows) -> Iterator[tuple[slice, Rows]]:
        height = max(1, min(4096, SLICE_BYTES // (8 * self.projection.sections.width)))
        for i, block in row_blocks(x, height):
            yield i, block.astype(np.float64, copy=False)

    def mean_products(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """φ(x)·μ."""
        out = np.empty(x.shape[0])
        for i, block in self._blocks(x):
            out[i] = self.projection.sections.times(block, self.mean.coef[:, None])[:, 0]
        return out

    # ── targets: the points ψ(t) = μ + Σ_j t_j v_j that scores t stand for ──────────────────
    def weights(self, t: Array) -> Array:  # (b, k) -> (b, m)
        """γ with ψ(t) = Σ_i γ_i φ(z_i)."""
        return np.asarray(t @ self.projection.coef.T + self.mean.coef)

    def target_norms(self, t: Array) -> Array:  # (b, k) -> (b,)
        """‖ψ(t)‖² = ‖t‖² + 2 t·b + ‖μ‖²: the axes are orthonormal, and v_j·μ = b_j."""
        return squared_norms(t) + 2.0 * (t @ self.projection.offset) + self.mean.norm

    def distances(self, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b,)
        """‖φ(x_i) - ψ(t_i)‖² of each pair, at least zero.

        The part outside of the components and the part along them: neither is a difference of large
        numbers when x is a good pre-image.
        """
        scores, errors = self.scores_and_errors(x)
        return errors + squared_norms(scores - t)

    # ── slopes ──────────────────────────────────────────────────────────────
    def slope(self, x: Array, weights: Array) -> Array:  # (b, d), (b, m) -> (b, d)
        """Σ_j w_ij ∂sections_j(x_i)/∂x_i."""
        return self.projection.sections.slope(x, weights)

    def distance_slopes(self, x: Array, t: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """The gradient of `distances` in x."""
        return self.projection.sections.diag_slope(x) - 2.0 * self.slope(x, self.weights(t))

    def error_slopes(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """The gradient of `errors`: that of the distance to the projection, which may be held still.

        The projection is the nearest point of its plane, so moving it changes nothing to first order.
        """
        return self.distance_slopes(x, self.scores(x))

    def score_slopes(self, x: Array) -> Array:  # (b, d) -> (b, k, d)
        """∂score_j/∂x of each row."""
        coef = self.projection.coef
        slopes = [self.slope(x, np.broadcast_to(c, (len(x), len(c)))) for c in coef.T]
        return np.stack(slopes, axis=1)
