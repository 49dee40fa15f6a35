"""Feature space through the projection: lengths, distances, what is left out, and how all of it moves.

A fitted model is scores(x) = sections(x) A - b. Its axes are v_j = Σ_i A_ij φ(z_i), orthonormal, and the mean
of the training rows is μ = Σ_i c_i φ(z_i) (its part in the span of the landmarks, where an approximation
has landmarks). Everything here follows from A, b, c and ‖μ‖²; K is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_blocks
from mercer.engine.numpy import POINTS
from mercer.engine.pairwise import squared_norms
from mercer.operators.sections import GivenSections, KernelSections
from mercer.planning.bytes import SLICE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        """‖φ(x) - μ‖² - ‖scores(x)‖², at least zero; with an indefinite kernel it is no distance."""
        return self.scores_and_errors(x, diag)[1]

    def lengths(self, x: Rows, diag: Array | None = None) -> Array:  # (b, d) -> (b,)
        """‖φ(x) - μ‖², at least zero."""
        out = np.empty(x.shape[0])
        for i, block in self._blocks(x):
            out[i] = self._lengths(block, None if diag is None else diag[i])
        return out

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

    def _blocks(self, x: Rows) -> Iterator[tuple[slice, Rows]]:
        width = self.projection.sections.width
        if not self._explicit:
            width = min(width, POINTS)  # kernel values are made for so many points at a time
        yield from _float64_blocks(x, width)

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

        The part outside of the components and the part along them.
        """
        scores, errors = self.scores_and_errors(x)
        return errors + squared_norms(scores - t)

    # ── slopes ──────────────────────────────────────────────────────────────
    def _sloped(self, x: Rows, weights: Callable[[slice], Array]) -> Array:  # -> (b, d)
        """Σ_j w_ij ∂sections_j(x_i)/∂x_i, with the weights of some rows at a time."""
        out = np.empty((int(x.shape[0]), int(x.shape[1])))
        for i, block in _float64_blocks(x, self.projection.sections.width):
            out[i] = self.projection.sections.slope(block, weights(i))
        return out

    def distance_slopes(self, x: Rows, t: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """The gradient of `distances` in x."""
        pull = self._sloped(x, lambda i: self.weights(t[i]))
        pull *= -2.0
        for i, block in self._blocks(x):
            pull[i] += self.projection.sections.diag_slope(block)
        return pull

    def error_slopes(self, x: Rows) -> Array:  # (b, d) -> (b, d)
        """The gradient of `errors`: that of the distance to the projection, which may be held still.

        The projection is the nearest point of its plane, so moving it changes nothing to first order.
        """
        return self.distance_slopes(x, self.scores(x))

    def score_slope(self, x: Rows, pull: Array) -> Array:  # (b, d), (b, k) -> (b, d)
        """Σ_j p_ij ∂score_j/∂x_i."""
        return self._sloped(x, lambda i: pull[i] @ self.projection.coef.T)

    def score_slopes(self, x: Rows) -> Array:  # (b, d) -> (b, k, d)
        """∂score_j/∂x of each row."""
        coef = self.projection.coef
        slopes = [self._sloped(x, lambda i, c=c: _repeated(c, i)) for c in coef.T]  # type: ignore[misc]
        return np.stack(slopes, axis=1)


def _repeated(c: Array, rows: slice) -> Array:
    return np.broadcast_to(c, (rows.stop - rows.start, len(c)))


def _float64_blocks(x: Rows, width: int) -> Iterator[tuple[slice, Rows]]:
    """Rows in float64, as many at a time as leave room for `width` numbers each."""
    for i, block in row_blocks(x, max(1, min(4096, SLICE_BYTES // (8 * width)))):
        yield i, block.astype(np.float64, copy=False)
