"""Readings that can't be true: one would set the scale of its whole column."""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy import fft

from mercer._core.types import Array, Flags, Indices

# The farthest readings below a gap, this share of all, say what the tail of a column is like. Up to as many
# beyond it may be wild.
TAIL = 0.1
# A tail falls with some power α of the distance, as Hill (1975) measures it, and of such a tail the farthest
# reading is r times as far as the next with probability r^-α. A gap that has a chance of one in a thousand,
# by the readings below it, parts the far ones from the others. α counts as at most LIGHTEST, so that no such
# gap is below a factor of 4 (Gaussian columns have 4.6), and a few readings add little to what is known
# beforehand: PRIOR of them with α = 3, as of Student's t with three degrees, a factor of 10.
CHANCE, LIGHTEST, PRIOR, HEAVY = 1e-3, 5.0, 5.0, 3.0
# A power law never ends, but most tails do. With rows enough to show it, a generalised Pareto tail (Pickands
# 1975), over twice the share and with its shape ξ = 1/α as uncertain as they leave it, finds narrower gaps
# improbable: of 500 Gaussian readings one at 12 to 15 standard deviations. It is the second look, so it has
# to be surer, and no gap below a factor of 3 counts at all.
SECOND_CHANCE, NARROWEST, MOST_TAIL = 1e-4, 3.0, 200
# What is known beforehand of ξ, and of the scale as a share of the threshold: t with three degrees again,
# and wide enough to be unlearned from a hundred readings.
SHAPES, SHAPE_SPREAD = np.linspace(-0.5, 1.5, 21), 0.25
SCALES = np.exp(np.linspace(-3.0, 3.0, 41))
USUAL_SCALE = 0.4
# Fewer distances from the median than this are those of states, and not of a reading that varies.
CODES = 6
# Far readings that are isolated, at most one row in so many and no more than this many side by side, need no
# witness. What comes oftener, or stays, may be a state of the process, which other columns would show.
ONE_IN, TOGETHER = 20, 2
# The others know of the far rows if they differ there, from the rows just before and after, more than they do
# at all but this share of other times, of which there have to be enough, with less than this share of rows
# in common.
KNOWN, OTHER_TIMES, SAME = 0.01, 20, 0.25
# A witness that is so many of its usual distances off is as far as one can be.
REACH = 10.0
# At least one reading in so many differs from the median: a switch that was on once is no glitch.
MOVES = 10
# Fewer rows than this can't tell a glitch from a process.
FEWEST = 10


# ── far beyond the others of their column ───────────────────────────────────
def far_cells(x: Array) -> Flags:  # (n, d) -> (n, d)
    """Which cells are far beyond what their column usually does, with a gap between.

    The rule is about gaps in the tail, not about standard deviations: a heavy tail has none so wide. Those
    beyond one gap are all far, so that they can't hide behind one another. Columns that mostly stand still
    have no tail.
    """
    found = np.zeros(x.shape, dtype=bool)
    if len(x) < FEWEST:
        return found
    off = _distances(x)
    for j in np.flatnonzero(np.count_nonzero(off, axis=0) * MOVES >= len(x)):
        with np.errstate(over="ignore", invalid="ignore"):
            found[:, j] = off[:, j] >= _first_far(x[:, j], off[:, j])
    return found


def _distances(x: Array) -> Array:  # (n, d) -> (n, d)
    """Distances from the median of each column."""
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(x - np.median(x, axis=0)).astype(np.float64)
    return np.where(np.isfinite(off), off, np.inf)


def _first_far(x: Array, off: Array) -> float:  # (n,), (n,)
    """The distance of the first reading beyond a gap; ∞ where there is none."""
    moved = np.sort(off[off > 0.0])
    total = len(moved)
    share = float(np.mean(x[1:] != x[:-1]))  # what is held for a while tells less than its number
    varied = len(np.unique(moved)) >= CODES  # codes of states tell of no tail
    size = total - ceil((1.0 - TAIL) * total)  # of the tail below a gap
    first = max(total - max(1, int(TAIL * len(off))), 1)
    gaps = first + np.flatnonzero(moved[first:] > NARROWEST * moved[first - 1 : -1])
    for gap in gaps:
        far = float(moved[gap])
        below = moved[max(gap - max(size, 1), 0) : gap]
        if _power_chance(below, far, LIGHTEST if varied else HEAVY) < CHANCE:
            return far
        times = _times(x, off >= far)
        wider = moved[max(gap - min(2 * size, MOST_TAIL) - 1, 0) : gap]
        second = _powers_chance(below, far, times, share), _pareto_chance(wider, far, times, share)
        if varied and min(second) < SECOND_CHANCE:
            return far
    return np.inf


def _times(x: Array, far: Flags) -> float:  # (n,), (n,)
    """How often the column has gone that far: neighbours count as often as they are independent."""
    near = ~(far[1:] | far[:-1])
    pairs = np.stack([x[1:][near], x[:-1][near]]).astype(np.float64)  # (2, p)
    # By the largest, so that squares don't overflow.
    pairs /= max(float(np.abs(pairs).max(initial=0.0)), np.finfo(np.float64).tiny)
    pairs -= pairs.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.sum(pairs**2, axis=1)).prod()
    # Once in (1 + ρ)/(1 - ρ) rows, with the correlation ρ of neighbours that are not far.
    rho = float(np.clip(pairs[0] @ pairs[1] / spread, 0.0, 1.0)) if spread > 0.0 else 1.0
    return float(np.sum(np.maximum(np.diff(_runs(far)) * (1.0 - rho) / (1.0 + rho), 1.0)))


def _power_chance(below: Array, far: float, most: float) -> float:
    """The probability that a power law, with the tail `below`, (k,) in order, leaves a gap up to `far`."""
    excess = np.log(below / below[0])  # 0 first
    power = (len(below) - 1 + PRIOR) / (float(excess.sum()) + PRIOR / HEAVY)
    return float((far / below[-1]) ** -min(power, most))


def _powers_chance(below: Array, far: float, times: float, share: float) -> float:
    """The same probability for several readings: the mean over all powers, which have a gamma distribution.

    Several multiply their probabilities, and with them the error of the most likely power.
    """
    excess = np.log(below / below[0])
    total = share * float(excess.sum()) + PRIOR / HEAVY
    beyond = (times - 1.0) * excess[-1]  # all but one are known to be farther than that
    count = share * (len(below) - 1) + PRIOR
    return float((1.0 + times * np.log(far / below[-1]) / (total + beyond)) ** -count)


def _pareto_chance(below: Array, far: float, times: float, share: float) -> float:
    """The same of a generalised Pareto tail above the first of `below`, over what its parameters may be."""
    if len(below) < 2 or not np.isfinite(far):
        return 1.0
    threshold = below[0]
    excess = below[1:] / threshold - 1.0  # (k,)
    scale, shape = USUAL_SCALE * SCALES[:, None], SHAPES[None, :]  # (s, 1), (1, h)
    end = _log_survival(np.asarray(far / threshold - 1.0), scale, shape)
    # An earlier end is not credible.
    start = np.maximum(_log_survival(excess[-1], scale, shape), -1e3)
    survival = _log_survival(excess, scale[..., None], shape[..., None])  # (s, h, k)
    density = (1.0 + shape[..., None]) * survival - np.log(scale[..., None])  # in logarithms
    likely = share * np.sum(density, axis=-1) + (times - 1.0) * start
    likely -= 0.5 * ((shape - 1.0 / HEAVY) / SHAPE_SPREAD) ** 2 + 0.5 * np.log(SCALES[:, None]) ** 2
    weights = np.exp(likely - likely.max())  # (s, h)
    return float(np.sum(weights * np.exp(times * (end - start))) / weights.sum())


def _log_survival(excess: Array, scale: Array, shape: Array) -> Array:
    """-log(1 + ξe/σ)/ξ; -∞ beyond the end that a tail with ξ < 0 has."""
    grown = 1.0 + shape * excess / scale
    bent = np.abs(shape) > 1e-9
    with np.errstate(divide="ignore", invalid="ignore"):
        power = -np.log(np.maximum(grown, 0.0)) / np.where(bent, shape, 1.0)
    return np.where(grown > 0.0, np.where(bent, power, -excess / scale), -np.inf)


# ── wild: what the rest of the column, and the other columns, know nothing of ───
def without_witness(far: Flags) -> Flags:  # (n,) -> (n,)
    """Which far cells of a column are so rare, and so short, that they are wild whatever other columns do."""
    rare = np.asarray(far & (far.sum() <= max(1, len(far) // ONE_IN)))
    for first, after in _runs(rare):
        rare[first:after] &= after - first <= TOGETHER
    return rare


def _runs(flags: Flags) -> Indices:  # (n,) -> (r, 2)
    """Where each run of neighbours begins, and the place after it."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return edges.reshape(-1, 2)


def unknown_to(others: Array, far: Flags) -> bool:  # (n, d - 1), (n,)
    """Whether the other columns are, in these rows, as they are at any other time."""
    other, groups = other_times(far), range(0, others.shape[1], 64)
    if other is None:
        return False
    return is_usual(other, *[evidence(others[:, first : first + 64], far) for first in groups])


def evidence(others: Array, far: Flags) -> tuple[Array, int]:  # (n, d), (n,) -> (n,)
    """How much the rows differ from those around when the pattern of far ones is moved along in time.

    Each column's mean there, less that of the rows around, is held against the same of the whole pattern of
    rows moved along in time, which keeps whatever autocorrelation, tails and drifts a column has. Squares
    are added up over the columns, in units of what is usual for each. The second value is how many columns
    tell anything.
    """
    n, around = len(others), np.zeros(len(others), dtype=bool)
    for first, after in _runs(far):
        length = after - first
        around[max(first - length, 0) : after + length] = True
    around &= ~far
    pattern = far / far.sum() - around / around.sum()  # (n,)
    wave = np.conj(fft.rfft(pattern))[:, None]
    moved = np.abs(fft.irfft(wave * fft.rfft(_bounded(others), axis=0), n, axis=0))  # at each lag
    moved[moved < 1e-9] = 0.0  # rounding
    moved = moved[:, moved.any(axis=0)]
    usual = np.median(moved, axis=0)
    smallest = np.min(np.where(moved > 0.0, moved, np.inf), axis=0)
    sums = np.sum((moved / np.where(usual > 0.0, usual, smallest)) ** 2, axis=1)
    return sums, moved.shape[1]


def other_times(far: Flags) -> Flags | None:  # (n,) -> (n,)
    """Lags at which the pattern meets other rows; None where these are too few to tell.

    Moved by little, or by the period of a sensor that fails at equal intervals, it meets the same ones.
    """
    n, flags = len(far), fft.rfft(far.astype(np.float64))
    other = fft.irfft(np.conj(flags) * flags, n) < SAME * far.sum()  # (n,)
    reach = 2 * int(np.diff(_runs(far)).max())
    other[:reach] = other[n - reach + 1 :] = False
    return np.asarray(other) if other.sum() >= OTHER_TIMES else None


def is_usual(other: Flags, *seen: tuple[Array, int]) -> bool:
    """Whether what columns tell of the far rows is no more than what they tell of other times."""
    if not any(count for _, count in seen):
        return False
    sums = np.sum([part for part, _ in seen], axis=0)
    return bool(np.mean(sums[other] >= sums[0]) > KNOWN)


def _bounded(x: Array) -> Array:  # (n, d) -> (n, d)
    """In usual distances from the median, no farther than `REACH`."""
    off = _distances(x)
    usual = np.quantile(off, 1.0 - TAIL, axis=0, method="lower")
    usual = np.where(usual > 0.0, usual, off.max(axis=0))  # of a column that mostly stands still
    usual = np.where((usual > 0.0) & np.isfinite(usual), usual, 1.0)
    side = np.where(x < np.median(x, axis=0), -1.0, 1.0)
    with np.errstate(over="ignore"):
        return np.asarray(side * np.minimum(off / usual, REACH))
