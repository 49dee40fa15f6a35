"""How slow a process is, and how far a second run may go beyond the first.

Rows of a process resemble those before them, so n rows tell as much about a slow direction as a few
independent ones: its variance is known to a few tens of per cent, and a second run may go farther out. A
kernel that bends makes much of that, since Q grows with the fourth power of what it has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import fft, stats

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags

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


@dataclass(frozen=True, repr=False)
class Slowness:
    """Slow directions of scaled rows, and by what factors a second run may exceed the first along them."""

    centre: Array  # (d,)
    directions: Array  # (r, d), orthonormal; none of independent rows
    times: Array  # (r,) integrated autocorrelation times, in rows
    counts: Array  # (r,) independent rows that know as much about the variance
    stretch: Array  # (r,) Student's quantile over Gauss's: the spread is known from so few
    stray: Array  # (r,) how much wider one run in twenty is
    longest_gap: int

    @classmethod
    def of(cls, z: Array, rate: float) -> Self:  # (n, d)
        """Measured on rows in the order of time; a row that repeats the one before is weight, not time."""
        moved = np.concatenate([[True], np.any(z[1:] != z[:-1], axis=1)])
        z = z[moved]
        n = len(z)
        centre = z.mean(axis=0)
        axes = _principal_axes(z - centre) if min(z.shape) <= WIDEST else np.empty((0, z.shape[1]))
        scores = (z - centre) @ axes.T  # (n, r)
        correlations = _autocorrelations(scores)  # (n, r)
        slow = _is_slow(scores, correlations)
        found = [_times(c) for c in correlations[:, slow].T]
        times, squares = np.array(found, dtype=np.float64).reshape(-1, 2).T
        counts = np.maximum(n / squares, FEWEST)
        stretch = stats.t.isf(rate / 2.0, counts) / stats.norm.isf(rate / 2.0)
        stray = np.sqrt(counts / stats.chi2.ppf(STRAY, counts))
        return cls(
            centre,
            axes[slow],
            times,
            counts,
            np.minimum(stretch, MOST_STRETCH),
            np.minimum(stray, MOST_STRAY),
            n // 10,
        )

    @classmethod
    def none(cls, d: int) -> Self:
        """Of rows in no order."""
        no = np.empty(0)
        return cls(np.zeros(d), np.empty((0, d)), no, no, no, no, 0)

    @property
    def any(self) -> bool:
        """Whether there is a slow direction at all."""
        return len(self.times) > 0

    @property
    def gap(self) -> int:
        """Rows on either side of a held-out stretch that know too much about it: one correlation time."""
        return min(ceil(0.5 * float(self.times.max())), self.longest_gap) if self.any else 0

    def stretched(self, z: Array) -> Array:
        """Rows as far out as a second run is to be expected, seen from so few independent ones."""
        return self._moved(z, self.stretch)

    def strayed(self, z: Array) -> Array:
        """Rows of the widest run in twenty."""
        return self._moved(z, self.stray)

    def _moved(self, z: Array, factors: Array) -> Array:
        along = (z - self.centre) @ self.directions.T  # (b, r)
        return np.asarray(z + (along * (factors - 1.0)) @ self.directions)


def _principal_axes(z: Array) -> Array:  # (n, d) -> (r, d)
    """Principal axes of centred rows: along them relations between columns stay what they are."""
    _, s, axes = np.linalg.svd(z, full_matrices=False)
    if len(s) == 0 or s[0] == 0.0:
        return np.empty((0, z.shape[1]))
    return np.asarray(axes[s > 1e-8 * s[0]])


def _autocorrelations(scores: Array) -> Array:  # (n, r) -> (n, r)
    """At lags 0 to n - 1, biased as usual: Σ_t s_t s_{t+l}/Σ_t s_t²."""
    n = len(scores)
    size = fft.next_fast_len(2 * n, real=True)
    power = np.abs(fft.rfft(scores, size, axis=0)) ** 2
    sums = fft.irfft(power, size, axis=0)[:n]
    return np.asarray(sums / np.where(sums[:1] > 0.0, sums[:1], 1.0))


def _is_slow(scores: Array, correlations: Array) -> Flags:  # (n, r), (n, r) -> (r,)
    n, r = scores.shape
    if n < 4 or r == 0:
        return np.zeros(r, dtype=bool)
    variance = np.mean(scores**2, axis=0)
    flatness = np.mean(scores**4, axis=0) / variance**2 - 3.0
    return np.asarray((correlations[1] > SURE / np.sqrt(n)) & (flatness > BOUNDED))


def _times(correlations: Array) -> tuple[float, float]:
    """1 + 2 Σ ρ_l and 1 + 2 Σ ρ_l², up to the first pair of lags without a positive sum (Geyer 1992)."""
    pairs = correlations[1:]
    pairs = pairs[: 2 * (len(pairs) // 2)].reshape(-1, 2)
    stops = np.flatnonzero(pairs.sum(axis=1) <= 0.0)
    kept = pairs[: stops[0] if len(stops) else len(pairs)]
    return 1.0 + 2.0 * float(kept.sum()), 1.0 + 2.0 * float(np.square(kept).sum())
