"""Canonical variate analysis, for comparison (Larimore 1990; Russell, Chiang & Braatz 2000).

The states are what the past, p_t = (x_{t-1}, …, x_{t-l}), knows about the future, f_t = (x_t, …, x_{t+l}):
J = Σ_ff^{-1/2} Σ_fp Σ_pp^{-1/2} = U S Vᵀ, and the k first rows of Vᵀ Σ_pp^{-1/2} applied to the past. T² is
their squared length, Q what they leave of the whitened past. Limits are order statistics of stretches that
were held out, as a detector's are, raised together until one of the two alarms at the asked rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOLDS = 5
RIDGE = 1e-3  # of the mean variance: columns that others determine would otherwise be divided by nothing
ENOUGH = 0.3  # canonical correlations below this are those of chance, in a few hundred rows


@dataclass
class CVA:
    """T² and Q of canonical variates, and one limit for each."""

    lags: int = 2
    false_alarm: float = 0.01

    def fit(self, x: np.ndarray) -> CVA:
        self._learn(x)
        held = []
        for test in np.array_split(np.arange(len(x)), FOLDS):
            others = [x[: test[0]], x[test[-1] + 1 :]]
            part = CVA(self.lags, self.false_alarm)._learn(
                *[o for o in others if len(o) > 3 * self.lags]
            )
            held.append(part._pair(x[test])[self.lags :])
        t2, q = np.concatenate(held).T
        level = 1.0 - self.false_alarm
        self.limits = np.array([np.quantile(t2, level), np.quantile(q, level)])
        self.limits *= np.quantile(np.maximum(t2 / self.limits[0], q / self.limits[1]), level)
        return self

    def _learn(self, *parts: np.ndarray) -> CVA:
        every = np.concatenate(parts)
        self.mean, spread = every.mean(axis=0), every.std(axis=0)
        self.spread = np.where(spread > 0.0, spread, 1.0)
        pairs = [self._windows((part - self.mean) / self.spread) for part in parts]
        past, future = (np.concatenate(both) for both in zip(*pairs, strict=True))
        white_p, white_f = _whitening(past), _whitening(future)
        _, s, v = np.linalg.svd(white_f.T @ (future.T @ past / len(past)) @ white_p)
        k = max(int(np.sum(s > ENOUGH)), 1)
        self.whole, self.states = white_p, white_p @ v[:k].T
        return self

    def _windows(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        l, n = self.lags, len(z)
        past = np.hstack([z[l - i : n - l - i] for i in range(1, l + 1)])
        future = np.hstack([z[l + i : n - l + i] for i in range(l + 1)])
        return past, future

    def _pair(self, x: np.ndarray) -> np.ndarray:  # (n, 2)
        """T² and Q of each row by the window that ends with it; NaN where there is none."""
        z, l = (x - self.mean) / self.spread, self.lags
        past = np.hstack([z[l - 1 - i : len(z) - i] for i in range(l)])
        t2 = np.square(past @ self.states).sum(axis=1)
        q = np.square(past @ self.whole).sum(axis=1) - t2
        return np.vstack([np.full((l - 1, 2), np.nan), np.column_stack([t2, q])])

    def alarms(self, x: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(invalid="ignore"):
            t2, q = (self._pair(x) > self.limits).T
        return {"T2": t2, "Q": q, "combined": t2 | q}


def _whitening(x: np.ndarray) -> np.ndarray:  # Σ^{-1/2}, symmetric
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    return (vectors / np.sqrt(values + RIDGE * values.mean())) @ vectors.T
