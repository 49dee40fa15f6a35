"""How sensors go together in normal rows: what an onset is measured by where no kernel bends.

The index of a detector is made for sight: it cuts between T² and Q, and with many components of few lagged
rows one relation that hardly varies outweighs all others. Blame asks which sensor, off by any amount, makes
a row likeliest. Under a Gaussian with covariance S that is a likelihood ratio, (w'S⁻¹x)²/(w'S⁻¹w) of a
deviation w (Basseville & Nikiforov 1993): what of x'S⁻¹x goes when the sensor is put right. S is shrunk to
its diagonal by as much as makes rows that were held out the likeliest: below that, small variances are those
of the training rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any

import numpy as np

from mercer._core.types import Array, Rows
from mercer.data.rows import take_rows
from mercer.engine.moments import Moments
from mercer.model.space import FeatureSpace

# Shares of the diagonal that are tried, and stretches of neighbouring rows of which each is held out once.
SHRINKAGE = np.array([1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0])
STRETCHES = 5
# Columns beyond which the d x d numbers are too many to learn and to keep.
MOST_COLUMNS = 500
# Pairs of rows that a kernel is looked at with, and the share of their squared distance by which the middle
# of a pair may lie off the middle of their scores: 0.02 is the most of eight medians, 0.1 the least of four.
PAIRS, STRAIGHT = 100, 0.05


@dataclass(frozen=True, repr=False)
class Relations:
    """The middle of normal rows, and what brings their shrunk covariance to one."""

    middle: Annotated[Array, "d"]
    whiten: Annotated[Array, "d d"]

    @classmethod
    def of(
        cls, space: FeatureSpace, variances: Array, x: Rows, weights: Array | None = None
    ) -> Relations | None:  # (k,), (n, d), (n,)
        """Those of scaled rows in time; None where they bend, are elsewhere, too few or too wide."""
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
        off = held.mean - rest.mean
        about = held.scatter + held.weight * np.outer(
            off, off
        )  # of what is held out, about the others
        w, axes = np.linalg.eigh((rest.scatter / rest.weight)[both] / np.outer(unit, unit))
        along = np.einsum(
            "ij,ik,kj->j", axes, about[both] / np.outer(unit, unit), axes, optimize=True
        )
        for j, share in enumerate(SHRINKAGE):
            own = _shrunk(w, share)
            loss[j] += held.weight * np.log(own).sum() + (along / own).sum()
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
