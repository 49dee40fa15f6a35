"""Which variables an alarm comes from: integrated gradients (Sundararajan, Taly & Yan 2017)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Annotated, Any, TypeAlias

import numpy as np

from mercer._core.errors import DetectorWarning, KernelError
from mercer._core.findings import warn
from mercer._core.types import Array, Flags, Rows
from mercer.data.rows import row_slices, take_rows
from mercer.engine.moments import Moments
from mercer.engine.pairwise import manhattan_distances
from mercer.kernels import Kernel
from mercer.model.space import FeatureSpace
from mercer.monitoring.limits import Limits, Rule
from mercer.monitoring.rows import mean_and_spread
from mercer.monitoring.statistics import Gauge, Statistics

NODES = 16  # Gauss-Legendre points in each part of the path
# Where the path is cut, in turn until the sum is right. The last is the finer the nearer to its start: on the
# way to a row far out a kernel does all its changing within the first steps.
CUTS = (
    *(np.linspace(0.0, 1.0, parts + 1) for parts in (1, 2, 4, 8, 16, 32, 64)),
    np.append(0.0, 2.0 ** np.arange(-63.0, 1.0)),
)
COMPLETE = 1e-6  # of what the contributions have to sum to
ROUNDINGS = 4.0  # a gap of so many times the rounding is none
# Numbers that a slice of points on the path may hold against all sections.
SLICE_NUMBERS = 2**22
MOST_BASELINES = 500
# Spreads from normal beyond which a reading is only "wild": how far it lies says nothing more, the numbers
# behind it overflow, and a path to it has its bend in a share of 1e-20. The first that has numbers counts.
REACHES = (1e6, 1e4, 1e2)
SAME = 1e-6  # a statistic that differs by no more than this share, within reach and out there
# Shares of the diagonal that are tried, and stretches of neighbouring rows of which each is held out once.
SHRINKAGE = np.array([1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0])
STRETCHES = 5
# Columns beyond which the d x d numbers are too many to learn and to keep.
MOST_COLUMNS = 500
# Pairs of rows that a kernel is looked at with, and the share of their squared distance by which the middle
# of a pair may lie off the middle of their scores: 0.02 is the most of eight medians, 0.1 the least of four.
PAIRS, STRAIGHT = 100, 0.05
# Contributions that miss their sum by more than this share of it are not to be relied on.
INCOMPLETE = 1e-2


Ends: TypeAlias = tuple[Statistics, Statistics]  # of rows, and of where the paths to them start


def contributions(
    gauge: Gauge, limits: Limits, x: Array, start: Array, statistic: str, *, seen: Ends
) -> tuple[Array, Array]:
    """What each variable adds to a statistic, (b, d), and the share of the sum that is missed, (b,).

    ``start``, (b, d), has the normal row that each row is measured from, ``seen`` the statistics of both.
    "combined" explains, for each row, the larger of T² and Q in units of their limits, in these units.
    """
    there, normal = seen
    if statistic != "combined":
        of_t2 = statistic == "T2"
        slope, limit = (gauge.t2_slopes, limits.t2) if of_t2 else (gauge.q_slopes, limits.q)
        width = gauge.space.projection.sections.width
        target = there.t2 - normal.t2 if of_t2 else there.q - normal.q
        found, gap = integrated_gradients(target, slope, x, start, width=width)
        # Beside the limit, and beside rounding: a gap in contributions to next to nothing is none.
        share = gap / np.maximum(np.abs(found.sum(axis=1)), limit)
        open_ = np.flatnonzero(~(share <= COMPLETE))
        if not of_t2 and len(open_):
            share[open_[gap[open_] <= ROUNDINGS * gauge.q_rounding(x[open_])]] = 0.0
        return found, share
    by_t2 = there.t2 / limits.t2 > there.q / limits.q
    found, gap = np.empty(x.shape), np.empty(len(x))
    for name, mine, limit in (("T2", by_t2, limits.t2), ("Q", ~by_t2, limits.q)):
        if np.any(mine):
            some, both = (x[mine], start[mine], name), (there.taken(mine), normal.taken(mine))
            found[mine], gap[mine] = contributions(gauge, limits, *some, seen=both)
            found[mine] /= limit
    return found, gap


def ends(gauge: Gauge, x: Array, start: Array) -> Ends:  # (b, d), (b, d)
    """The statistics of rows, and of the normal row that each is measured from, by one call."""
    seen, b = gauge(np.concatenate([x, start])), len(x)
    return seen.taken(slice(b)), seen.taken(slice(b, None))


def integrated_gradients(
    target: Array,  # (b,), f(x) - f(start)
    slope: Callable[[Array], Array],  # (b, d) -> (b, d)
    x: Array,  # (b, d)
    start: Array,  # (b, d)
    *,
    width: int,
) -> tuple[Array, Array]:
    """Contributions (b, d) that sum to f(x) - f(start), and by how much they miss that, (b,).

    c_d = (x_d - z_d) ∫₀¹ ∂f/∂x_d(z + u(x - z)) du. Of a quadratic form x'Mx around z = 0 this is x_d (Mx)_d,
    the complete decomposition that is known for linear PCA; it needs nothing but slopes, so it is there for
    every kernel that has them. The path is cut in two, four, … parts for rows whose sum is not right yet:
    a narrow kernel changes within a short stretch of it. The best that was found is kept. ``width`` is the
    number of sections.
    """
    found, gap = np.full(x.shape, np.nan), np.full(len(x), np.inf)
    left = np.arange(len(x))
    scale = np.maximum(np.abs(target), np.finfo(np.float64).tiny)
    for cuts in CUTS:
        better = _along(slope, x[left], start[left], cuts, width)
        missed = np.abs(better.sum(axis=1) - target[left])
        nearer = missed < gap[left]
        found[left[nearer]], gap[left[nearer]] = better[nearer], missed[nearer]
        left = left[gap[left] > COMPLETE * scale[left]]
        if len(left) == 0:
            break
    return found, gap


def _along(
    slope: Callable[[Array], Array], x: Array, origin: Array, cuts: Array, width: int
) -> Array:
    """(x - z) times the mean slope on the way from z to x, which is cut at these shares of it."""
    nodes, weights = _gauss_legendre()
    lengths = np.diff(cuts)[:, None]
    u = (cuts[:-1, None] + lengths * 0.5 * (nodes + 1.0)).ravel()  # (g,) in (0, 1)
    w = (0.5 * weights * lengths).ravel()  # (g,), summing to 1
    out = np.empty(x.shape)
    for i in row_slices(len(x), max(1, SLICE_NUMBERS // (NODES * max(width, x.shape[1])))):
        step = x[i] - origin[i]  # (b, d)
        mean = np.zeros(step.shape)
        for g in row_slices(len(u), NODES):
            points = origin[i] + u[g, None, None] * step  # (16, b, d)
            slopes = slope(points.reshape(-1, x.shape[1])).reshape(points.shape)
            mean += np.tensordot(w[g], slopes, axes=1)
        out[i] = step * mean
    return out


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[Array, Array]:  # (16,), (16,)
    """Finding them takes as long as a kernel row against a thousand points."""
    return np.polynomial.legendre.leggauss(NODES)


# ── how sensors go together ─────────────────────────────────────────────────
@dataclass(frozen=True, repr=False)
class Relations:
    """The middle of normal rows, and what brings their shrunk covariance to one.

    An onset is measured by them where no kernel bends. The index of a detector is made for sight: it cuts
    between T² and Q, and with many components of few lagged rows one relation that hardly varies outweighs
    all others. Blame asks which sensor, off by any amount, makes a row likeliest. Under a Gaussian with
    covariance S that is a likelihood ratio, (w'S⁻¹x)²/(w'S⁻¹w) of a deviation w (Basseville & Nikiforov
    1993): what of x'S⁻¹x goes when the sensor is put right. S is shrunk to its diagonal by as much as makes
    rows that were held out the likeliest: below that, small variances are those of the training rows alone.
    """

    middle: Annotated[Array, "d"]
    whiten: Annotated[Array, "d d"]

    @classmethod
    def of(
        cls, space: FeatureSpace, variances: Array, x: Rows, weights: Array | None = None
    ) -> Relations | None:  # (k,), (n, d), (n,)
        """The relations of scaled rows in time; None where rows bend, are on workers, too few or too wide."""
        fits = isinstance(x, np.ndarray) and x.shape[1] <= MOST_COLUMNS
        if not fits or len(x) < 2 * STRETCHES or bend(space, variances, x) > STRAIGHT:
            return None
        parts = [
            Moments.of(x[at].astype(np.float64), None if weights is None else weights[at])
            for at in np.array_split(np.arange(len(x)), STRETCHES)
        ]
        seen = reduce(Moments.merged, parts)
        spread = np.sqrt(np.diag(seen.scatter) / seen.weight)
        unit = np.where(spread > 0.0, spread, 1.0)
        correlation = seen.scatter / seen.weight / np.outer(unit, unit)
        w, axes = np.linalg.eigh(correlation)
        w = _shrunk(w, shrinkage(parts, unit, spread > 0.0))
        return cls(seen.mean, axes / unit[:, None] / np.sqrt(w))

    def __call__(self, x: Array) -> Array:  # (b, d) -> (b,)
        """The squared distance of rows from normal, in units of how normal rows vary together."""
        return np.asarray(np.square((x - self.middle) @ self.whiten).sum(axis=1))


def shrinkage(parts: list[Moments], unit: Array, moves: Any) -> float:  # (d,), (d,)
    """The share of the diagonal with which each stretch is likeliest by the others."""
    loss = np.zeros(len(SHRINKAGE))
    both, unit = np.ix_(moves, moves), unit[moves]
    for i, held in enumerate(parts):
        rest = reduce(Moments.merged, parts[:i] + parts[i + 1 :])
        if held.weight == 0.0 or rest.weight == 0.0:
            continue
        off, scale = held.mean - rest.mean, np.outer(unit, unit)
        # Of what is held out, about the others.
        about = held.scatter + held.weight * np.outer(off, off)
        w, axes = np.linalg.eigh((rest.scatter / rest.weight)[both] / scale)
        along = np.einsum("ij,ik,kj->j", axes, about[both] / scale, axes, optimize=True)
        for j, share in enumerate(SHRINKAGE):
            shrunk = _shrunk(w, share)
            loss[j] += held.weight * np.log(shrunk).sum() + (along / shrunk).sum()
    return float(SHRINKAGE[np.argmin(loss)])


def _shrunk(eigenvalues: Array, share: float) -> Array:
    """Eigenvalues of a correlation matrix of which a share is its diagonal."""
    return np.asarray((1.0 - share) * np.maximum(eigenvalues, 0.0) + share)


def bend(space: FeatureSpace, variances: Array, x: Array) -> float:  # (k,), (n, d)
    """How far scores of the middle of two rows lie off the middle of theirs; 0 of what is linear."""
    half = len(x) // 2
    at = np.linspace(0, half - 1, min(half, PAIRS)).round().astype(np.intp)
    one, other = take_rows(x, at), take_rows(x, at + half)
    ends, middle = space.scores(one), space.scores(0.5 * one + 0.5 * other)
    others = space.scores(other)
    apart = np.sum(np.square(0.5 * (ends - others)) / variances)
    off = np.sum(np.square(middle - 0.5 * (ends + others)) / variances)
    return float(off / apart) if apart > 0.0 else 0.0


# ── from a normal row ───────────────────────────────────────────────────────
@dataclass(frozen=True, repr=False)
class Baselines:
    """The training mean where it is normal itself, else normal training rows, of which the nearest counts.

    On a ring the mean lies in the hole, farther from normal than most faults: a path from there to a row
    would run towards normal, and praise what it should blame.
    """

    rows: Annotated[Array, "m d"]  # scaled, float64
    unit: Annotated[Array, "d"] | None = None  # the `spread`, which older files lack
    relations: Relations | None = None  # what an onset is measured by; None is the index

    @classmethod
    def of(
        cls, gauge: Gauge, rule: Rule, limits: Limits, x: Rows, weights: Array | None = None
    ) -> Baselines:
        """The baselines of the scaled training rows.

        A detector that goes by T² or Q alone is not interested in all relations.
        """
        by_both = rule.statistic == "combined"
        relations = Relations.of(gauge.space, gauge.variances, x, weights) if by_both else None
        mean, spread = mean_and_spread(gauge.space.projection.sections.engine, x, weights)
        mean = mean[None, :]  # (1, d)
        unit = np.where(spread > 0.0, spread, 1.0)
        if limits.indices(gauge(mean))[0] <= limits.index:
            return cls(mean, unit, relations)
        index = limits.indices(gauge(x))
        normal = np.flatnonzero(index <= limits.index)
        if len(normal) == 0:
            normal = np.array([np.argmin(index)])
        # Evenly from all of them: a process may have been elsewhere at another time.
        some = np.linspace(0, len(normal) - 1, min(len(normal), MOST_BASELINES)).round().astype(int)
        return cls(take_rows(x, normal[some]), unit, relations)

    @cached_property
    def middle(self) -> Array:  # (d,)
        """The mean of the normal rows."""
        return np.asarray(self.rows.mean(axis=0))

    @cached_property
    def spread(self) -> Array:  # (d,)
        """The spreads of the scaled training rows."""
        return np.ones(self.rows.shape[1]) if self.unit is None else self.unit

    def measure(self, index: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """The distance from normal that causes are looked for with: relations, or else the index."""
        return index if self.relations is None else self.relations

    def __call__(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """The nearest for each row, by the sum of |differences|.

        A fault mostly sits in one sensor or a few. Squares would rather spread a difference over all of
        them; this sum finds the normal row that agrees in the others.
        """
        if len(self.rows) == 1:
            return np.broadcast_to(self.rows, x.shape)
        return np.asarray(self.rows[np.argmin(manhattan_distances(x, self.rows), axis=1)])

    def within(self, x: Array, reach: float) -> Array:  # (b, d) -> (b, d)
        """The rows, with readings farther than so many spreads from normal brought there."""
        far = reach * self.spread
        return np.clip(x, self.rows.min(axis=0) - far, self.rows.max(axis=0) + far)

    def explain(
        self, gauge: Gauge, limits: Limits, x: Array, statistic: str
    ) -> tuple[Array, Array]:
        """Contributions (b, d) and gaps (b,); no numbers, and no gap, for rows of infinite statistics.

        With a bounded kernel a row far out has the statistics of one at the end of our reach, where the
        bend of the path can be found: contributions to one are those to the other.
        """
        start = self(x)
        seen = ends(gauge, x, start)
        index = limits.indices(seen[0])
        finite = np.isfinite(index)
        found, gap = np.full(x.shape, np.nan), np.zeros(len(x))

        def explained(rows: Array, start: Array, seen: Ends, at: Flags) -> tuple[Array, Array]:
            both = seen[0].taken(at), seen[1].taken(at)
            with np.errstate(over="ignore", invalid="ignore"):
                return contributions(gauge, limits, rows[at], start[at], statistic, seen=both)

        found[finite], gap[finite] = explained(x, start, seen, finite)
        for reach in REACHES:
            lost = np.flatnonzero(~(gap <= INCOMPLETE) & finite)
            if len(lost) == 0:
                break
            near = self.within(x[lost], reach)
            start = self(near)
            seen = ends(gauge, near, start)
            same = np.abs(limits.indices(seen[0]) - index[lost]) <= SAME * index[lost]
            wild = np.any(near != x[lost], axis=1) & same
            if not wild.any():
                break
            again, missed = explained(near, start, seen, wild)
            lost = lost[wild]
            better = ~(gap[lost] <= missed)
            found[lost[better]], gap[lost[better]] = again[better], missed[better]
        return found, gap

    def explain_within_reach(
        self, gauge: Gauge, limits: Limits, x: Array, statistic: str
    ) -> tuple[Array, Array]:
        """Contributions for naming: a wild reading is named as one at the end of our reach would be.

        So two wild sensors are both named, though the one may be 1e70 times as wild as the other, and a row
        whose statistics are infinite has variables to blame.
        """
        found, gap = np.full(x.shape, np.nan), np.full(len(x), np.inf)
        left = np.arange(len(x))
        for reach in REACHES:
            near = self.within(x[left], reach)
            found[left], gap[left] = self.explain(gauge, limits, near, statistic)
            left = left[np.isnan(found[left]).any(axis=1)]
            if len(left) == 0:
                break
        return found, gap


def has_slopes(kernel: Kernel | None) -> bool:
    """Whether the kernel has a known derivative; without a kernel all is linear."""
    return kernel is None or bool(kernel.differentiable)


def need_slopes(kernel: Kernel | None) -> None:
    """Refuse a kernel without a derivative."""
    if not has_slopes(kernel):
        msg = (
            f"Contributions need a kernel with a known derivative, but {kernel!r} has "
            "none. Kernels of distances and dot products, and their sums and products, have one."
        )
        raise KernelError(msg)


def warn_incomplete(gap: Array) -> None:
    """Warn of contributions that don't sum to what they should."""
    bad = int(np.sum(~(gap <= INCOMPLETE)))
    if bad:
        worst = float(np.max(gap))
        msg = (
            f"The contributions of {bad} of {len(gap)} rows miss their sum by up to {worst:.1%} of it: the "
            "kernel changes too fast on the way to those rows, or they lie too far out. Look at the readings "
            "themselves, or use a wider or a smoother kernel."
        )
        figures = {"rows": bad, "of": len(gap), "worst": worst}
        warn(msg, DetectorWarning, "contributions", figures)
