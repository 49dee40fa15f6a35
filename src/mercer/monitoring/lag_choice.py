"""How many lags: as many as still lower the error of predicting a row that was held out from those before it.

The prediction is a ridge regression of the leading directions on their own past, in as many directions as
stand out from columns without relations (parallel analysis, Horn 1965). Columns there are shifted in time
against each other rather than shuffled, since slow columns correlate by chance more than independent rows do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer._core.errors import many
from mercer._core.types import Array, Flags
from mercer.engine.moments import Scale
from mercer.monitoring.lags import ages

MOST_LAGS = 5
# A detector needs a few rows for each column of lagged rows: limits hold from three rows a component on.
ROWS_EACH = 3
STRETCHES = 10
DRAWS, ABOVE = 20, 0.95
# Of the trace of the regressors: enough to keep twins apart, too little to bias what is known.
RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class LagChoice:
    """The number of lags that was chosen, and the errors it was chosen by."""

    lags: int
    directions: int
    errors: Array  # (m + 1,) of 0 to m lags, as shares of the variance

    def __str__(self) -> str:
        without, chosen = self.errors[0], self.errors[self.lags]
        best = int(np.argmin(self.errors))
        found = many(self.directions, "direction")
        text = f"chosen by held-out prediction of {found}: error {chosen:.3g}"
        if self.lags:
            text += f", {without:.3g} without the past"
        if best != self.lags:
            text += f", {self.errors[best]:.3g} with {best}, which is no clear gain"
        return text


def chosen_lags(z: Array, linked: Flags, rng: np.random.Generator) -> LagChoice:  # (n, d), (n,)
    """The fewest lags whose error is within a standard error of the smallest.

    ``linked`` says which rows follow the one before; errors of all numbers of lags are over the same rows.
    """
    n, d = z.shape
    most = max(min(MOST_LAGS, n // (ROWS_EACH * d) - 1, n // (2 * STRETCHES)), 0)
    z = Scale.of(z)(z)
    if not z.any():  # nothing moves, and nothing is to be predicted
        return LagChoice(0, 1, np.ones(1))
    r, axes = parallel_analysis(z, rng)
    scores = z @ axes[:r].T  # (n, r)
    at = np.flatnonzero(ages(np.ones(n, dtype=bool), linked) >= most)
    if most == 0 or len(at) < 2 * STRETCHES:
        return LagChoice(0, r, np.ones(1))
    past = [scores[at - i] for i in range(most + 1)]
    # (m + 1, s)
    errors = np.array([_errors(past[0], past[1 : m + 1], most) for m in range(most + 1)])
    means = errors.mean(axis=1)
    worse = errors - errors[np.argmin(means)]
    allowed = worse.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    lags = int(np.flatnonzero(worse.mean(axis=1) <= allowed)[0])
    return LagChoice(lags, r, means)


def parallel_analysis(z: Array, rng: np.random.Generator) -> tuple[int, Array]:  # (n, d)
    """The number of directions that stand out, at least 1, and the axes of standardized columns.

    A direction stands out with more variance than 95 % of those of the same rank have when every column is
    moved round by a time of its own, which keeps its autocorrelation and nothing else.
    """
    n, d = z.shape
    _, sizes, axes = np.linalg.svd(z, full_matrices=False)
    turned = np.empty((DRAWS, len(sizes)))
    for i in range(DRAWS):
        by = rng.integers(0, n, d)
        moved = z[(np.arange(n)[:, None] + by) % n, np.arange(d)]
        turned[i] = np.linalg.svd(moved, compute_uv=False)
    below = np.flatnonzero(sizes <= np.quantile(turned, ABOVE, axis=0))
    return max(int(below[0]) if len(below) else len(sizes), 1), axes


def _errors(now: Array, past: Sequence[Array], gap: int) -> Array:  # (m, r), l of them -> (s,)
    """Mean squared errors of stretches, as shares of the variance, by regressions that have not seen them."""
    ones = np.ones((len(now), 1))
    x = np.hstack([*past, ones])  # (m, lr + 1)
    total = np.square(now - now.mean(axis=0)).mean(axis=0).sum()
    found = []
    for test in np.array_split(np.arange(len(now)), STRETCHES):
        near = np.zeros(len(now), dtype=bool)
        near[max(test[0] - gap, 0) : test[-1] + gap + 1] = True
        known, wanted = x[~near], now[~near]
        gram = known.T @ known
        ridge = RIDGE * np.trace(gram[:-1, :-1]) / max(len(gram) - 1, 1)
        gram.flat[: -1 : len(gram) + 1] += ridge  # the constant has no penalty
        slopes = np.linalg.solve(gram, known.T @ wanted)
        found.append(np.square(now[test] - x[test] @ slopes).mean(axis=0).sum() / total)
    return np.array(found)
