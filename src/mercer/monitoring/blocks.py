"""How sure a limit is when rows resemble their neighbours: blocks of them drawn again (Künsch 1989).

Rows of a process come in spells. A thousand of them that exceed a limit ten times may have done so in one
spell or in ten, and the next thousand will do so in none, or in three. Drawing single rows again would take
them for independent; blocks, as long as rows resemble each other, keep the spells whole.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from mercer.monitoring.limits import held_limit
from mercer.monitoring.slowness import autocorrelations, integrated_times

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices
    from mercer.monitoring.limits import Limits, Rule
    from mercer.monitoring.statistics import Statistics

DRAWS = 400
# In 90 % of the draws the rate lies between these.
LOW, HIGH = 0.05, 0.95
MEMORIES = 2.0  # a block is so many autocorrelation times long,
LEAST_BLOCKS = 8  # and there are at least so many of them


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
    low, high = np.quantile(_rates(index > edge, length), [LOW, HIGH])
    return replace(limits, low=float(low), high=float(high))


def _rates(above: Flags, length: int) -> Array:  # (n,) -> (DRAWS,)
    """The share of rows above a limit in each draw, by sums of whole blocks: no row is copied."""
    n = len(above)
    sums = np.append(0, np.cumsum(np.append(above, above[:length])))
    starts = np.random.default_rng(0).integers(0, n, (DRAWS, -(-n // length)))
    return np.asarray((sums[starts + length] - sums[starts]).mean(axis=1) / length)
