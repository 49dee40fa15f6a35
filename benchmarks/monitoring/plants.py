"""How many false alarms do limits at 1 % make in a later run of two hundred made-up plants?

Each plant has its own number of sensors and causes, its autoregressive order (0 to 3), its tails (Gaussian, t
with five or three degrees) and, every other one, a season. A detector sees one run of it, and judges another
that begins anew.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import signal

from benchmarks.run import say
from mercer import PCA, KernelPCADetector
from mercer.errors import MercerWarning

COUNT, TRAIN, NEW, SEASON = 200, 600, 2000, 150
TAILS = {"gaussian": 0, "t, 5 degrees": 5, "t, 3 degrees": 3}
# Poles of the causes, by order: stable, slower with more of them.
POLES = {0: (), 1: (0.7,), 2: (0.8, 0.4), 3: (0.85, 0.5, -0.3)}
ENTRANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear PCA, 99 %": {"model": PCA(0.99)},
    '`lags="auto"`': {"lags": "auto"},
    "`smoothing=0.3`": {"smoothing": 0.3},
    "`lags=1, smoothing=0.3`": {"lags": 1, "smoothing": 0.3},
    "`confidence=0.9`": {"confidence": 0.9},
}


@dataclass(frozen=True)
class Plant:
    """What a plant is, and its runs."""

    seed: int
    order: int
    tail: str
    season: float

    @classmethod
    def of(cls, seed: int) -> Plant:
        return cls(seed, seed % 4, list(TAILS)[seed // 4 % 3], float(seed // 12 % 2))

    def run(self, n: int, which: int) -> np.ndarray:
        made = np.random.default_rng([self.seed, 7])
        sensors, causes = int(made.integers(6, 21)), int(made.integers(2, 5))
        mixing, amplitude = made.standard_normal((causes, sensors)), made.uniform(0.3, 1.0, causes)
        rng = np.random.default_rng([self.seed, which])
        driven = self._noise((n + 300, causes), rng)
        driven = signal.lfilter([1.0], np.poly(POLES[self.order]), driven, axis=0)[300:]
        driven /= self._spread()
        angle = 2 * np.pi * (np.arange(n) / SEASON + rng.uniform())
        driven = driven + self.season * amplitude * np.sin(angle)[:, None]
        return driven @ mixing + 0.3 * self._noise((n, sensors), rng)

    def _noise(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        degrees = TAILS[self.tail]
        return rng.standard_t(degrees, shape) if degrees else rng.standard_normal(shape)

    def _spread(self) -> float:
        pulse = signal.lfilter([1.0], np.poly(POLES[self.order]), np.eye(1, 500)[0])
        return float(np.sqrt(np.sum(pulse**2)))


def measure(count: int = COUNT) -> list[dict[str, Any]]:
    """A row for each plant and detector."""
    rows = []
    for seed in range(count):
        plant = Plant.of(seed)
        x, new = plant.run(TRAIN, 0), plant.run(NEW, 1)
        for name, knobs in ENTRANTS.items():
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", MercerWarning)
                detector = KernelPCADetector(**knobs).fit(x)
            rate = float(np.mean(detector.predict(new) == -1))
            limits = detector.limits_
            rows.append(
                {
                    "order": plant.order,
                    "tail": plant.tail,
                    "season": bool(plant.season),
                    "detector": name,
                    "rate": rate,
                    "low": limits.low,
                    "high": limits.high,
                    "told": any("slow process" in str(w.message) for w in told),
                }
            )
        if seed % 20 == 19:
            say(f"{seed + 1} plants")
    return rows
