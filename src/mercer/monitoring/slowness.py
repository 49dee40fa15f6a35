"""How slow a process is, how far a second run may go beyond the first, and how sure limits are to hold there.

Rows of a process resemble those before them, so n rows tell as much about a slow direction as a few
independent ones: its variance is known to a few tens of per cent, and a second run may go farther out. A
kernel that bends makes much of that, since Q grows with the fourth power of what it has not seen.

Such rows come in spells. A thousand of them that exceed a limit ten times may have done so in one spell or in
ten, and the next thousand will do so in none, or in three. Drawing single rows again would take them for
independent; blocks, as long as rows resemble each other, keep the spells whole (Künsch 1989).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, Self

import numpy as np
from scipy import fft, stats

from mercer._core.errors import DetectorWarning, Remedy
from mercer._core.findings import warn
from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.dask import DaskRows
from mercer.engine.base import Engine
from mercer.engine.moments import Scale, brought_to_one
from mercer.engine.resolve import resolve_engine
from mercer.monitoring.limits import Limits, Rule, held_limit, held_out_limits
from mercer.monitoring.rows import chosen, made, mean_of, moves, principal_axes
from mercer.monitoring.statistics import Statistics

# Lag-one correlations of independent rows stay below this many of their standard errors, 1/√n, in any of
# hundreds of directions: for such rows nothing changes.
SURE = 4.0
# Directions of more columns and rows than this are not looked for.
WIDEST = 1000
# Flatter than a uniform distribution (-1.2 is its excess kurtosis, -1.5 that of a sine): what goes round and
# round has been at its ends, and a second run will not go beyond.
BOUNDED = -1.1
# The t quantile of fewer degrees than this says nothing any more.
FEWEST = 4.0
# One run in twenty varies more than this quantile of the variance allows for.
STRAY = 0.05
MOST_STRETCH, MOST_STRAY = 2.0, 3.0
# So many times as many false alarms as asked for, in the widest run of twenty, deserve a warning.
TOLERATED = 3.0
# A number of components is advised where that run makes clearly fewer: half of what is tolerated.
CLEARLY = 0.5
# Luck alone makes a check of limits fail as rarely as this.
LUCK = 1e-3
DRAWS = 400  # of blocks
LOW, HIGH = 0.05, 0.95  # in 90 % of the draws the rate lies between these
# A block is so many autocorrelation times long, and there are at least so many of them.
MEMORIES, LEAST_BLOCKS = 2.0, 8
# Numbers of components that are tried beside the model's own, as shares of it.
SHARES = np.arange(1, 9) / 8.0


@dataclass(frozen=True, repr=False)
class Slowness:
    """Slow directions of scaled rows, and by what factors a second run may exceed the first along them."""

    centre: Array  # (d,)
    directions: Array  # (r, d), orthonormal; none of independent rows
    times: Array  # (r,) integrated autocorrelation times, in rows
    counts: Array  # (r,) independent rows that know as much about the variance
    stretch: Array  # (r,) Student's quantile over Gauss's: the spread is known from so few
    stray: Array  # (r,) how much wider one run in twenty is
    gap: int  # rows beside a held-out stretch, on either side, that know too much about it: half of a time

    @classmethod
    def of(
        cls, z: Rows, rate: float, engine: Engine[Any] | None = None, moved: Flags | None = None
    ) -> Self:  # (n, d), (n,)
        """Measured on rows in the order of time; a row that repeats the one before is weight, not time.

        ``moved`` are the rows that don't, where that is known.
        """
        engine = resolve_engine("auto") if engine is None else engine
        z = chosen(z, moves(engine, z) if moved is None else moved)
        n, d = int(z.shape[0]), int(z.shape[1])
        centre = mean_of(engine, z)
        axes = principal_axes(engine, z, centre) if min(n, d) <= WIDEST else np.empty((0, d))
        scores = made(z, partial(_along, centre, axes))  # (n, r)
        if isinstance(scores, DaskRows):  # each direction in the order of time, somewhere
            found = np.concatenate(scores.by_columns(_paces)) if len(axes) else np.empty((0, 3))
        else:
            found = _paces(scores)
        slow = found[:, 0] > 0.0
        times, squares = found[slow, 1:].T
        counts = np.maximum(n / squares, FEWEST)
        stretch = stats.t.isf(rate / 2.0, counts) / stats.norm.isf(rate / 2.0)
        stray = np.sqrt(counts / stats.chi2.ppf(STRAY, counts))
        stretch, stray = np.minimum(stretch, MOST_STRETCH), np.minimum(stray, MOST_STRAY)
        gap = min(ceil(0.5 * float(times.max(initial=0.0))), n // 10)
        return cls(centre, axes[slow], times, counts, stretch, stray, gap)

    @classmethod
    def none(cls, d: int) -> Self:
        """The slowness of rows in no order: none."""
        no = np.empty(0)
        return cls(np.zeros(d), np.empty((0, d)), no, no, no, no, 0)

    @property
    def any(self) -> bool:
        """Whether there is a slow direction at all."""
        return len(self.times) > 0

    def moved(self, z: Array, factors: Array) -> Array:
        """Rows as far out as a second run is to be expected, by `stretch`, or one of twenty, by `stray`."""
        along = _along(self.centre, self.directions, z)  # (b, r)
        return np.asarray(z + (along * (factors - 1.0)) @ self.directions)


def _along(centre: Array, directions: Array, z: Array) -> Array:  # (d,), (r, d), (b, d) -> (b, r)
    return np.asarray((z - centre) @ directions.T)


def _paces(scores: Array, first: int = 0) -> Array:  # (n, r) -> (r, 3)
    """For each direction, whether it is slow (1 or 0) and, where it is, its `integrated_times`."""
    del first
    n, r = scores.shape
    scores, _ = brought_to_one(scores)  # fourth powers follow
    correlations, found = autocorrelations(scores), np.zeros((r, 3))  # (n, r)
    if n < 4 or r == 0:
        return found
    flatness = np.mean(scores**4, axis=0) / np.mean(scores**2, axis=0) ** 2 - 3.0
    slow = (correlations[1] > SURE / np.sqrt(n)) & (flatness > BOUNDED)
    found[slow, 0] = 1.0
    found[slow, 1:] = np.reshape([integrated_times(c) for c in correlations[:, slow].T], (-1, 2))
    return found


def autocorrelations(scores: Array) -> Array:  # (n, r) -> (n, r)
    """Autocorrelations at lags 0 to n - 1, biased as usual: Σ_t s_t s_{t+l}/Σ_t s_t²."""
    n = len(scores)
    size = fft.next_fast_len(2 * n, real=True)
    power = np.abs(fft.rfft(scores, size, axis=0)) ** 2
    sums = fft.irfft(power, size, axis=0)[:n]
    return np.asarray(sums / np.where(sums[:1] > 0.0, sums[:1], 1.0))


def integrated_times(correlations: Array) -> tuple[float, float]:
    """1 + 2 Σ ρ_l and 1 + 2 Σ ρ_l², up to the first pair of lags without a positive sum (Geyer 1992)."""
    pairs = correlations[1:]
    pairs = pairs[: 2 * (len(pairs) // 2)].reshape(-1, 2)
    stops = np.flatnonzero(pairs.sum(axis=1) <= 0.0)
    kept = pairs[: stops[0] if len(stops) else len(pairs)]
    return 1.0 + 2.0 * float(kept.sum()), 1.0 + 2.0 * float(np.square(kept).sum())


def held_out_stretches(
    folds: int, units: Indices, weights: Array | None, gap: int
) -> Iterator[tuple[Indices, Indices]]:
    """Stretches of equal weight, each with the rows that are more than `gap` moments away from it.

    Copies of a row side by side are one moment, of their weight: a row of weight two is split from the others
    as one that is there twice, and no row is judged by a model that has seen its copy.
    """
    counts = np.bincount(units, weights)  # (u,)
    if np.all(counts == 1.0):
        sizes = [len(part) for part in np.array_split(counts, folds)]
        fold = np.repeat(np.arange(folds), sizes)
    else:
        # By the middle of each moment's weight.
        middles = np.cumsum(counts) - 0.5 * counts
        fold = np.minimum((folds * middles / counts.sum()).astype(int), folds - 1)
    for one in np.unique(fold):
        first, last = np.flatnonzero(fold == one)[[0, -1]]
        near = (units >= first - gap) & (units <= last + gap)
        test = (units >= first) & (units <= last)
        yield np.flatnonzero(~near), np.flatnonzero(test)


# ── a second run ────────────────────────────────────────────────────────────
def second_run(usual: Scale, own: Scale, pace: Slowness, factors: Array, rows: Array) -> Array:
    """Rows as far out as those of a second run, on the scale of a model that has not seen them."""
    return own(usual.back(pace.moved(usual(rows), factors)))


@dataclass(frozen=True, repr=False)
class HeldOut:
    """T² and Q of the rows of one fold, by a model that has not seen them."""

    sizes: list[int]  # numbers of its components that statistics are of, the last one all of them
    stretched: list[Statistics]  # at each size, of rows as far out as a second run will be
    strayed: list[Statistics]  # of rows of a run that strays


def smaller_sizes(k: int) -> list[int]:
    """Some numbers of components up to k."""
    return [int(size) for size in np.unique(np.maximum(np.round(k * SHARES), 1))]


def warn_stray_runs(
    rule: Rule,
    pace: Slowness,
    found: list[HeldOut],
    limits: Limits,
    *,
    rounding: float,
    linear: bool,
) -> None:
    """Warn of limits that a run which strays a little farther would make nonsense of."""
    share = _alarms(rule, found, -1, limits)
    if share <= TOLERATED * rule.rate:
        return
    slowest = int(np.argmax(pace.times))
    msg = (
        "The rows are those of a slow process: one direction resembles itself for about "
        f"{pace.times[slowest]:.0f} rows, and its variance is known as if from {pace.counts[slowest]:.0f} "
        f"independent rows. In one run of twenty it varies {pace.stray[slowest] - 1:.0%} more, and then "
        f"about {share:.1%} of normal rows are alarms, not {rule.rate:.2%}. "
    )
    steady = _steady(rule, found, rounding)
    if steady:
        msg += f"With n_components={steady} the limits would hold better. "
    msg += f"Use {'' if linear else 'a wider or a linear kernel, or '}rows from a longer time."
    remedy = Remedy("n_components", steady) if steady else None
    figures = {"rows": float(pace.times[slowest]), "share": share, "rate": rule.rate}
    warn(msg, DetectorWarning, "slow-process", figures, remedy)


def warn_optimistic(rule: Rule, held: Statistics, limits: Limits) -> None:
    """Warn of limits of the training rows that rows held out of a second model exceed too often."""
    alarm = ~(rule.index(limits, held) <= rule.limit(limits))
    share = float(np.average(alarm, weights=held.weights))
    count = int(alarm.sum())
    if share <= TOLERATED * rule.rate or stats.binom.sf(count - 1, len(alarm), rule.rate) > LUCK:
        return
    instead = "contamination" if rule.in_sample else "limits='approximate'"
    msg = (
        f"With {instead} the limits are those of the training rows themselves, and new rows lie farther out: "
        f"of {len(alarm)} rows that a second model had not seen, {share:.1%} are above, not {rule.rate:.2%}. "
        f"Leave {instead} out, which gives limits of rows held out, or lower `n_components`."
    )
    figures = {"rows": len(alarm), "share": share, "rate": rule.rate}
    warn(msg, DetectorWarning, "optimistic-limits", figures)


def _alarms(rule: Rule, found: list[HeldOut], i: int, limits: Limits) -> float:
    """Share of the rows that strayed which are alarms, by the i-th size."""
    strayed = Statistics.joined([one.strayed[i] for one in found])
    index = rule.index(limits, strayed)
    known = np.isfinite(index)  # no number where the kernel has no value
    if not known.any():
        return 0.0
    above = index[known] > rule.limit(limits)
    return float(np.average(above, weights=strayed.taken(known).weights))


def _steady(rule: Rule, found: list[HeldOut], rounding: float) -> int | None:
    """The most components with which a run that strays makes clearly fewer false alarms than is tolerated."""
    if any(one.sizes != found[0].sizes for one in found):
        return None  # lost components have a warning elsewhere
    for i in reversed(range(len(found[0].sizes) - 1)):
        held = Statistics.joined([one.stretched[i] for one in found])
        limits = held_out_limits(held, rule.rate, rounding=rounding)
        if _alarms(rule, found, i, limits) <= CLEARLY * TOLERATED * rule.rate:
            return found[0].sizes[i]
    return None


# ── blocks of rows drawn again ──────────────────────────────────────────────
def block_length(index: Array) -> int:  # (n,)
    """Rows that resemble each other: twice the autocorrelation time of their ranks, n^(1/3) at least."""
    n = len(index)
    ranks = np.argsort(np.argsort(index, kind="stable"), kind="stable")[:, None] - 0.5 * (n - 1)
    time, _ = integrated_times(autocorrelations(ranks)[:, 0])
    return max(1, min(ceil(max(MEMORIES * time, n ** (1 / 3))), n // LEAST_BLOCKS))


def blocks_again(n: int, length: int, rng: np.random.Generator) -> Indices:  # (n,)
    """Positions of n rows drawn in blocks, round the end."""
    starts = rng.integers(0, n, -(-n // length))
    drawn = (starts[:, None] + np.arange(length)) % n
    return drawn.ravel()[:n]


def with_confidence(
    limits: Limits, rule: Rule, held: Statistics, confidence: float | None
) -> Limits:
    """The limits with the range of rates that they may turn out to have, raised to hold with a confidence.

    Raised, they lie where in that share of the draws the limit of the drawn rows is no higher.
    """
    index = rule.index(limits, held)
    if held.weights is not None or len(index) < LEAST_BLOCKS or not np.isfinite(index).all():
        return limits
    n, length, edge = len(index), block_length(index), rule.limit(limits)
    if confidence is not None:
        rng = np.random.default_rng(0)
        found = [held_limit(index[blocks_again(n, length, rng)], rule.rate) for _ in range(DRAWS)]
        factor = max(float(np.quantile(found, confidence)) / edge, 1.0)
        limits = replace(limits, t2=factor * limits.t2, q=factor * limits.q)
        edge = factor * edge
    # The share of rows above the limit in each draw, by sums of whole blocks: no row is copied.
    above = index > edge
    sums = np.append(0, np.cumsum(np.append(above, above[:length])))
    starts = np.random.default_rng(0).integers(0, n, (DRAWS, -(-n // length)))
    rates = (sums[starts + length] - sums[starts]).mean(axis=1) / length
    low, high = np.quantile(rates, [LOW, HIGH])
    return replace(limits, low=float(low), high=float(high))
