"""Feature space through the projection: lengths, distances, what is left out, and how all of it moves.

A fitted model is scores(x) = sections(x) A - b. Its axes are v_j = Σ_i A_ij φ(z_i), orthonormal, and the mean
of the training rows is μ = Σ_i c_i φ(z_i) (its part in the span of the landmarks, where an approximation
has landmarks). Everything here follows from A, b, c and ‖μ‖²; K is never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from mercer._core.types import Array, Rows
from mercer.engine.pairwise import squared_norms
from mercer.engine.steps import AxisSlopes, FeatureErrors, Pulls, SlopeSums
from mercer.model.projection import Projection
from mercer.operators.sections import GivenSections, KernelSections, weighted_slopes

if TYPE_CHECKING:
    from mercer.model.result import Fit


@dataclass(frozen=True, repr=False)
class FeatureMean:
    """μ = Σ_i c_i φ(z_i), and its squared length; of explicit features, c is μ itself."""

    coef: Annotated[Array, "m"]  # float64
    norm: float


@dataclass(frozen=True, repr=False)
class FeatureSpace:
    """What can be measured in the feature space of a fitted model, in float64."""

    projection: Projection  # float64
    mean: FeatureMean

    @classmethod
    def of(cls, fit: Fit) -> FeatureSpace:
        own = fit.projection
        coef, offset = (a.astype(np.float64, copy=False) for a in (own.coef, own.offset))
        return cls(replace(own, coef=coef, offset=offset), fit.mean)

    # ── rows ────────────────────────────────────────────────────────────────
    def scores(self, x: Rows) -> Array:  # (b, d) -> (b, k)
        return self.projection(x)

    def scores_and_errors(self, x: Rows, diag: Array | None = None) -> tuple[Array, Array]:
        """Scores (b, k), and squared distances (b,) of φ(x) from its projection (Q); `diag` is k(x, x)."""
        if self._explicit:
            sections = self.projection.sections
            known = getattr(sections, "known", sections)
            both = self.mapped(x, FeatureErrors(known, self.projection.coef, self.mean.coef))
            return both[:, :-1], both[:, -1]
        both = self.projection.sections.times(x, self._both)
        scores = both[:, :-1] - self.projection.offset
        errors = self._lengths(x, both[:, -1], diag) - squared_norms(scores)
        return scores, np.maximum(errors, 0.0)

    @cached_property
    def _both(self) -> Array:  # (m, k + 1)
        """The axes and the mean: a search multiplies by them in each of its steps."""
        both = np.column_stack([self.projection.coef, self.mean.coef])
        both.flags.writeable = False  # so that engines may keep it as they need it
        return both

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def errors(self, x: Rows, diag: Array | None = None) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖² - ‖scores(x)‖², at least zero; not a distance with an indefinite kernel."""
        return self.scores_and_errors(x, diag)[1]

    def lengths(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖², at least zero."""
        if self._explicit:
            return self.mapped(x, self._centred_lengths)
        return np.maximum(self._lengths(x, self.mean_products(x), None), 0.0)

    def mean_products(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """φ(x)·μ."""
        return self.projection.sections.times(x, self.mean.coef[:, None])[:, 0]

    def _lengths(self, x: Rows, along: Array, diag: Array | None) -> Array:
        """‖φ(x) - μ‖² from φ(x)·μ and k(x, x)."""
        own = self.mapped(x, self.projection.sections.diag, width=1) if diag is None else diag
        return np.asarray(own - 2.0 * along + self.mean.norm)

    @property
    def _explicit(self) -> bool:
        """Whether sections are features, which can be centred, and not kernel values."""
        return not isinstance(self.projection.sections, (KernelSections, GivenSections))

    def _centred_lengths(self, x: Rows) -> Array:
        return squared_norms(self.projection.sections(x) - self.mean.coef)

    def mapped(
        self,
        x: Rows,
        step: Callable[..., Any],
        *beside: Array | None,
        width: int | None = None,
        parallel: bool = True,
    ) -> Array:
        """A step on rows in float64, as many at a time as leave room for the sections of each."""
        sections = self.projection.sections
        return sections.engine.map(
            x,
            step,
            *beside,
            width=width or sections.width,
            parallel=parallel and sections.parallel,
            dtype=np.float64,
        )

    # ── targets: the points ψ(t) = μ + Σ_j t_j v_j that scores t stand for ──────────────────
    def weights(self, t: Array) -> Array:  # (b, k) -> (b, m)
        """γ with ψ(t) = Σ_i γ_i φ(z_i)."""
        return np.asarray(t @ self.projection.coef.T + self.mean.coef)

    def target_norms(self, t: Array) -> Array:  # (b, k) -> (b,)
        """‖ψ(t)‖² = ‖t‖² + 2 t·b + ‖μ‖²: the axes are orthonormal, and v_j·μ = b_j."""
        return squared_norms(t) + 2.0 * (t @ self.projection.offset) + self.mean.norm

    def distances(self, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b,)
        """‖φ(x_i) - ψ(t_i)‖² of each pair: the part outside of the components and the part along them."""
        scores, errors = self.scores_and_errors(x)
        return errors + squared_norms(scores - t)

    # ── slopes ──────────────────────────────────────────────────────────────
    def distance_slopes(self, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """The gradient of `distances` in x."""
        sections = self.projection.sections
        if isinstance(sections, KernelSections):
            pull = self.mapped(x, self._slopes, t)
            return np.asarray(-2.0 * pull + self.mapped(x, sections.diag_slope, width=1))
        return self.mapped(x, self._distance_slope, t)

    def _distance_slope(self, x: Rows, t: Array) -> Array:
        sections = self.projection.sections
        return -2.0 * sections.slope(x, self.weights(t)) + sections.diag_slope(x)

    @cached_property
    def _slopes(self) -> Pulls:
        return self.pulls(SlopeSums, _slope_sums)

    @cached_property
    def _axis_slopes(self) -> Pulls:
        return replace(self._slopes, mean=None)

    def pulls(self, kind: type[Pulls], host: Callable[..., Array], **own: Any) -> Pulls:
        """A step of a search among the points of the model, towards the targets of scores."""
        sections = self.projection.sections
        assert isinstance(sections, KernelSections)
        points, coef = sections.points, self.projection.coef
        return kind(sections.kernel, points, coef, self.mean.coef, host, **own)

    def error_slopes(self, x: Rows) -> Array:  # (b, d) -> (b, d)
        """The gradient of `errors`."""
        # The projection is the nearest point of its plane: moving it changes no distance to first order.
        return self.distance_slopes(x, self.scores(x))

    def score_slope(self, x: Rows, pull: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """Σ_j p_ij ∂score_j/∂x_i."""
        if isinstance(self.projection.sections, KernelSections):
            return self.mapped(x, self._axis_slopes, pull)
        return self.mapped(x, self._score_slope, pull)

    def _score_slope(self, x: Rows, pull: Array) -> Array:
        return self.projection.sections.slope(x, pull @ self.projection.coef.T)

    def score_slopes(self, x: Rows) -> Array:  # (b, d) -> (b, k, d)
        """∂score_j/∂x of each row."""
        if isinstance(self.projection.sections, KernelSections):
            return self.mapped(x, replace(self.pulls(AxisSlopes, _axis_slopes), mean=None))
        return self.mapped(x, self._score_slopes)

    def _score_slopes(self, x: Rows) -> Array:
        return _of_each(self.projection.coef, x, self.projection.sections.slope)


def _slope_sums(step: Pulls, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b, d)
    weights = t @ step.coef.T
    weights = weights if step.mean is None else weights + step.mean
    return weighted_slopes(step.kernel, x, step.points, weights)


def _axis_slopes(step: Pulls, x: Rows) -> Array:  # (b, d) -> (b, k, d)
    return _of_each(step.coef, x, partial(weighted_slopes, step.kernel, points=step.points))


def _of_each(coef: Array, x: Rows, slope: Callable[..., Array]) -> Array:  # -> (b, k, d)
    each = (np.broadcast_to(c, (int(x.shape[0]), len(c))) for c in coef.T)
    return np.stack([slope(x, weights=c) for c in each], axis=1)
