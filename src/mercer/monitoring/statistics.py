"""T² and Q of a fitted model: how far a row lies along the components, and how far off them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_args

import numpy as np

from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, take_rows
from mercer.model.result import Fit
from mercer.model.space import FeatureSpace
from mercer.operators.sections import KernelSections

Statistic: TypeAlias = Literal["T2", "Q", "combined"]  # what a detector may go by
STATISTICS: tuple[str, ...] = get_args(Statistic)
# Squared distances below this share of the mean squared length are rounding, whatever their ratio.
ROUNDING = 1e-12
# Rows that are judged together. BLAS sums in an order that depends on the shapes of its matrices: in groups
# of one height a row has the same bits alone, in a block and in a file.
GROUP = 16
# Engines take another way for numbers beyond a range of theirs, and with one such row all beside it. Scaled
# rows whose largest reading is out of this range, within all of theirs, are judged by themselves.
ORDINARY = (1e-6, 1e6)


def row_count(values: Array, weights: Array | None) -> float:  # (b,), (b,)
    """How many rows there are, by weight; None: each counts once."""
    return len(values) if weights is None else float(weights.sum())


@dataclass(frozen=True, repr=False)
class Statistics:
    """T² and Q of b rows."""

    t2: Array  # (b,) float64
    q: Array  # (b,) float64
    weights: Array | None = None  # (b,), how often each row counts; None: once

    @property
    def count(self) -> float:
        """How many rows there are, by weight."""
        return row_count(self.t2, self.weights)

    def taken(self, at: Any) -> Statistics:
        weights = None if self.weights is None else self.weights[at]
        return Statistics(self.t2[at], self.q[at], weights)

    def or_else(self, other: Statistics) -> Statistics:
        """These statistics, with those of the other where these are infinite."""
        known = np.isfinite(self.t2) & np.isfinite(self.q)
        t2, q = np.where(known, self.t2, other.t2), np.where(known, self.q, other.q)
        return Statistics(t2, q, self.weights)

    @classmethod
    def joined(cls, parts: list[Statistics]) -> Statistics:
        """The statistics of several blocks of rows, one after the other."""
        t2, q = (np.concatenate([getattr(p, name) for p in parts]) for name in ("t2", "q"))
        weights = [p.weights for p in parts if p.weights is not None]
        return cls(t2, q, np.concatenate(weights) if weights else None)


def score_variances(fit: Fit) -> Array:  # (k,)
    """λ_j/(Σw - 1): the variance of each score. Weights that sum to one or less lose no degree."""
    degrees = fit.weight - 1.0 if fit.weight > 1.0 else fit.weight
    return np.asarray(fit.eigenvalues, dtype=np.float64) / degrees


def _finite_or_infinite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.inf)


@dataclass(frozen=True, repr=False)
class Gauge:
    """Reads T² and Q off rows.

    T²(x) = Σ_j s_j(x)²/v_j over the kept components, with v_j = λ_j/(Σw - 1) (Hotelling 1931), and
    Q(x) = ‖φ(x) - μ‖² - ‖s(x)‖², the squared distance from the components (Jackson & Mudholkar 1979).
    """

    space: FeatureSpace
    variances: Annotated[Array, "k"]
    rounding: float  # a Q below this is nothing

    @classmethod
    def of(cls, fit: Fit) -> Gauge:
        """The gauge of a fit, on any route."""
        return cls(FeatureSpace.of(fit), score_variances(fit), ROUNDING * fit.total / fit.weight)

    def __call__(self, x: Rows, weights: Array | None = None) -> Statistics:  # (b, d), (b,)
        """T² and Q of rows; infinite where a row is so far out that they can't be computed.

        A polynomial of a huge number overflows, and ∞ - ∞ is no number: such a row is anything but normal.
        """
        t2, q = self._seen(x, self._pair).T
        return Statistics(t2, q, weights)

    def steady(self, x: Array) -> Statistics:  # (b, d)
        """T² and Q of rows in memory, whose bits don't depend on the rows beside them.

        A row that arrives by itself is judged as it is in a file of a million.
        """
        largest = np.abs(x).max(axis=1, initial=0.0)  # (b,)
        usual = (ORDINARY[0] < largest) & (largest < ORDINARY[1])
        if len(x) <= GROUP and usual.all():  # rows as they arrive: nothing to share out
            return self._group(x)
        at = np.flatnonzero(usual)
        groups = [at[i : i + GROUP] for i in range(0, len(at), GROUP)]
        groups += [np.array([i]) for i in np.flatnonzero(~usual)]
        t2, q = np.empty(len(x)), np.empty(len(x))
        for rows in groups:
            found = self._group(x[rows])
            t2[rows], q[rows] = found.t2, found.q
        return Statistics(t2, q)

    def _group(self, x: Array) -> Statistics:  # (b, d), b up to GROUP
        """T² and Q of rows that are filled up to a group with copies of the last."""
        b = len(x)
        if 0 < b < GROUP:
            x = x[np.minimum(np.arange(GROUP), b - 1)]
        t2, q = self._pair(x).T if b else np.empty((2, 0))
        return Statistics(t2[:b], q[:b])

    def nested(self, x: Rows, sizes: list[int], weights: Array | None = None) -> list[Statistics]:
        """T² and Q by the first k components alone, for each k; what they leave out is part of Q."""
        found = self._seen(x, partial(self._pairs, sizes))
        at = range(0, 2 * len(sizes), 2)
        return [Statistics(found[:, i], found[:, i + 1], weights) for i in at]

    def _seen(self, x: Rows, step: Callable[[Rows], Array]) -> Array:
        """A few numbers of each row, which are all that comes here of rows elsewhere: no scores do."""
        sections = self.space.projection.sections
        # Where the points of the model are elsewhere too, its vectors, which are here, are as large.
        if not isinstance(x, RowSource) or isinstance(getattr(sections, "points", None), RowSource):
            return step(x)
        return sections.engine.map(x, step, width=sections.width, parallel=False, dtype=np.float64)

    def _pair(self, x: Rows) -> Array:  # (b, d) -> (b, 2)
        with np.errstate(over="ignore", invalid="ignore"):
            scores, errors = self.space.scores_and_errors(x)
            return _finite_or_infinite(np.stack([self._t2(scores), errors], axis=1))

    def _pairs(self, sizes: list[int], x: Rows) -> Array:  # (b, d) -> (b, 2 sizes)
        with np.errstate(over="ignore", invalid="ignore"):
            scores, errors = self.space.scores_and_errors(x)
            squares = np.square(scores)  # (b, k)
            t2 = np.cumsum(squares / self.variances, axis=1)
            left = errors[:, None] + squares.sum(axis=1)[:, None] - np.cumsum(squares, axis=1)
        last = np.array(sizes) - 1
        both = np.stack([t2[:, last], left[:, last]], axis=2)  # (b, sizes, 2)
        return _finite_or_infinite(both.reshape(len(both), -1))

    def nowhere(self, x: Rows) -> Statistics | None:
        """Statistics of a row far from everything, whose kernel values vanish; None for explicit features.

        Its scores are minus the offset b, and Q = k(x, x) + ‖μ‖² - ‖b‖², with k(x, x) that of any row.
        """
        sections = self.space.projection.sections
        if not isinstance(sections, KernelSections):
            return None
        b = self.space.projection.offset[None, :]  # (1, k)
        length = sections.diag(take_rows(x, np.zeros(1, dtype=np.intp)))
        return Statistics(self._t2(b), length + self.space.mean.norm - np.square(b).sum(axis=1))

    def _t2(self, scores: Array) -> Array:
        return np.asarray(np.square(scores) @ (1.0 / self.variances))

    def q_rounding(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """The rounding error of Q, which is a difference of squared lengths."""
        return ROUNDING * (self.space.lengths(x) + self.space.mean.norm) + self.rounding

    # ── slopes ──────────────────────────────────────────────────────────────
    def t2_slopes(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """∂T²/∂x: one weighted sum of sections, Σ_i (Σ_j 2 s_j A_ij/v_j) ∂k(x, z_i)/∂x."""
        pull = 2.0 * self.space.scores(x) / self.variances  # (b, k)
        return self.space.score_slope(x, pull)

    def q_slopes(self, x: Array) -> Array:  # (b, d) -> (b, d)
        return self.space.error_slopes(x)
