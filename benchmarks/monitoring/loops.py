"""Whom does an onset blame? Closed loops of known truth: the rank of the variable that a fault entered at.

States in a sparse network, driven by slow causes, some held by controllers with valves, some shown by
analysers that report every few rows. A fault is a step or a ramp in one state, whose sensor and valve are
true, or a bias or a drift of one sensor. The index and the relations of the sensors rank the variables of the
same rows: the first three alarms of each detector.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.run import say
from mercer import PCA, KernelPCADetector
from mercer.errors import MercerWarning
from mercer.monitoring.alarms import alarm_runs, gains

ENTERS, ROWS, BURN = 100, 250, 200
KINDS, SIZES = ("step", "ramp", "bias", "drift"), (0.5, 1.0, 2.0, 4.0)
SEEDS = range(100, 130)  # none of those that the rule was chosen on
BOTH = {"lags": 2, "smoothing": 0.3}
DETECTORS: dict[str, tuple[float, dict[str, Any]]] = {
    "99 %": (0.99, {}),
    "99.9 %": (0.999, {}),
    "99 %, 2 lags": (0.99, {"lags": 2}),
    "99.9 %, 2 lags": (0.999, {"lags": 2}),
    "99.9 %, 2 lags, smoothed": (0.999, BOTH),
    "99.99 %, 2 lags, smoothed": (0.9999, BOTH),
}


class Plant:
    """One plant: its network, loops and analysers are drawn once."""

    def __init__(self, rng: np.random.Generator) -> None:
        s, loops, causes = (int(rng.integers(*r)) for r in ((20, 40), (4, 9), (2, 5)))
        sparse = rng.standard_normal((s, s)) * (rng.random((s, s)) < 1.5 / s)
        a = np.diag(rng.uniform(0.3, 0.9, s)) + 0.4 * sparse
        self.a = a * min(1.0, 0.93 / np.abs(np.linalg.eigvals(a)).max())
        self.load = 0.3 * rng.standard_normal((s, causes)) * (rng.random((s, causes)) < 0.4)
        self.keep = rng.uniform(0.7, 0.97, causes)
        self.held_by = rng.permutation(s)[:loops]  # the states of the valves
        self.p, self.i, self.pull = (
            rng.uniform(*r, loops) for r in ((0.1, 0.5), (0.02, 0.15), (0.3, 1.0))
        )
        self.analysed, self.every = (
            rng.permutation(s)[: int(rng.integers(0, 8))],
            int(rng.integers(2, 5)),
        )
        self.inner, self.noise = (rng.uniform(0.03, 0.3, s) for _ in range(2))
        self.spread = np.ones(s)
        self.spread = self.run(2000, rng).std(axis=0)[:s]

    def true(self, j: int) -> list[int]:
        """Columns that show state j first: its sensor, and the valve that holds it."""
        return [j, *(len(self.a) + np.flatnonzero(self.held_by == j))]

    def run(
        self, n: int, rng: np.random.Generator, kind: str = "", j: int = 0, size: float = 0.0
    ) -> np.ndarray:
        """Rows of sensors and valves; the fault enters at row ENTERS."""
        s, loops = len(self.a), len(self.held_by)
        x, z, whole, valve, shown = (np.zeros(m) for m in (s, len(self.keep), loops, loops, s))
        out = np.empty((n + BURN, s + loops))
        for t in range(-BURN, n):
            since = t - ENTERS if kind else -1
            z = self.keep * z + np.sqrt(1.0 - self.keep**2) * rng.standard_normal(len(z))
            x = self.a @ x + self.load @ z + self.inner * rng.standard_normal(s)
            x[self.held_by] += self.pull * valve
            y = x + self.noise * self.spread * rng.standard_normal(s)
            if since >= 0:
                grown = {
                    "step": 1.0,
                    "ramp": min(since / 40, 3.0),
                    "bias": 1.0,
                    "drift": since / 50,
                }
                if kind in ("step", "ramp"):
                    x[j] += 3.0 * self.inner[j] * size * grown[kind]
                else:
                    y[j] += self.spread[j] * size * grown[kind]
            off = -y[self.held_by]
            whole = whole + self.i * off
            valve = np.clip(self.p * off + whole, -50.0, 50.0)
            late, shown = shown, y
            if t % self.every:  # analysers report what they did
                shown = y.copy()
                shown[self.analysed] = late[self.analysed]
            out[t + BURN] = [*shown, *(valve + 0.02 * rng.standard_normal(loops))]
        return out[BURN:]


def measure() -> list[dict[str, Any]]:
    """A row for each plant, detector and fault that was seen: ranks by the index, and by relations."""
    rows = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        plant = Plant(rng)
        train = plant.run(500, rng)
        runs = []
        for kind in KINDS:
            for size in SIZES:
                j = int(rng.integers(len(plant.a)))
                run = plant.run(ROWS, rng, kind, j, size * rng.choice([-1, 1]))
                runs.append((kind, plant.true(j), run))
        for name, (share, past) in DETECTORS.items():
            detector = KernelPCADetector(model=PCA(share), **past)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)
                detector.fit(train)
            for kind, true, run in runs:
                found = onset(detector, run, true)
                if found is not None:
                    rows.append({"seed": seed, "detector": name, "fault": kind, **found})
        say(f"loops: plant {seed}")
    return rows


def onset(detector: Any, run: np.ndarray, true: list[int]) -> dict[str, int] | None:
    """Ranks at the first run of three alarms or more."""
    lagged, whole = detector._with_past(run)
    x, judge, base = detector._judge.scaled(lagged), detector._judge, detector._baselines
    alarm = np.zeros(len(run), dtype=bool)
    alarm[whole] = judge.index(judge.gauge(x)) > 1.0
    begun = [r for r in alarm_runs(alarm, whole) if r.first >= ENTERS and r.alarms >= 3]
    if not begun:
        return None
    at = np.flatnonzero(alarm)
    first = x[(np.cumsum(whole) - 1)[at[at >= begun[0].first][:3]]]
    ways, found = detector._past.ways(detector._scale.unit), {}
    for how, own in (("index", replace(base, relations=None)), ("relations", base)):
        measure = own.measure(lambda y: judge.index(judge.gauge(y)))
        gain = gains(measure, own, first, ways).mean(axis=0)
        ranks = np.argsort(np.argsort(-gain, kind="stable")) + 1
        found[how] = int(ranks[true].min())
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """The mean of 1/rank, the share that is named first and the mean rank, by the index and by relations."""
    figures = [f"{how}: {w}" for how in ("index", "relations") for w in ("1/rank", "first", "rank")]
    heads = ["linear PCA", "faults seen", *figures]
    lines = [f"| {' | '.join(heads)} |", f"| :-- |{' --: |' * 7}"]
    for name in DETECTORS:
        own = [row for row in rows if row["detector"] == name]
        cells = [f"{len(own)}"]
        for how in ("index", "relations"):
            rank = np.array([row[how] for row in own], dtype=np.float64)
            cells += [
                f"{np.mean(1 / rank):.3f}",
                f"{100 * np.mean(rank == 1):.0f} %",
                f"{rank.mean():.2f}",
            ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
