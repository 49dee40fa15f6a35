"""How many false alarms do limits at 1 % make in a second run of the same process?

Rows of four hidden causes behind twenty sensors: independent and Gaussian, independent with heavy tails, or
slow. The detector is fitted to one run and judges another, which begins anew: its own would flatter it.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import signal

from benchmarks.run import say
from mercer import KernelPCADetector
from mercer.errors import MercerWarning
from mercer.kernels import RBF, Polynomial

if TYPE_CHECKING:
    from collections.abc import Iterator

SENSORS, CAUSES, NEW = 20, 4, 2000
SIZES = {100: (5, 10, 20), 500: (10, 50, 100), 2000: (10, 50, 200)}
REPEATS = {100: 10, 500: 4, 2000: 1}
KINDS = ("gaussian", "t with 3 degrees", "slow")
PHI = 0.9
COUNTS = (5, 10, 20, 30, 41, 44, 48)
STEP, READING = 10.0, 1e6  # of a sensor, in its standard deviations; a wild reading
# Wild readings of one sensor: so many in a row, or that share of all rows; how far out, in its deviations.
IN_A_ROW, SCATTERED = (1, 3, 5, 10, 24), (0.05, 0.1)
FAR = (12.0, 15.0, 18.0, 30.0, 1e3, 1e6)


def run(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:  # (n, SENSORS)
    """One run of a process."""
    mixing = np.random.default_rng(99).standard_normal((CAUSES, SENSORS))
    if kind == "t with 3 degrees":
        return rng.standard_t(3, (n, CAUSES)) @ mixing + 0.3 * rng.standard_t(3, (n, SENSORS))
    causes = rng.standard_normal((n + 200, CAUSES))
    if kind == "slow":
        causes = signal.lfilter([np.sqrt(1.0 - PHI**2)], [1.0, -PHI], causes, axis=0)
    return causes[200:] @ mixing + 0.3 * rng.standard_normal((n, SENSORS))


def kernels(x: np.ndarray) -> dict[str, Any]:
    """The kernels of the table, by the training rows."""
    scaled = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    median = float(RBF().resolve(scaled, rng=np.random.default_rng(0)).gamma)  # type: ignore[arg-type]
    return {
        "default": "auto",
        "median": RBF(median),
        "half a median": RBF(4.0 * median),
        "linear": "linear",
        "polynomial 2": Polynomial(2),
    }


def fitted(x: np.ndarray, **knobs: Any) -> tuple[KernelPCADetector, bool]:
    """A detector, and whether it said that its limits may not hold."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", MercerWarning)
        detector = KernelPCADetector(**knobs).fit(x)
    doubts = ("slow process", "components came from", "too narrow")
    return detector, any(doubt in str(w.message) for w in told for doubt in doubts)


def measure(sizes: tuple[int, ...] = tuple(SIZES), *, repeats: int = 0) -> list[dict[str, Any]]:
    """A row for each kernel, number of components, number of rows and kind of rows."""
    return [row for n in sizes for kind in KINDS for row in _rows(kind, n, repeats or REPEATS[n])]


def _rows(kind: str, n: int, repeats: int) -> Iterator[dict[str, Any]]:
    started = time.perf_counter()
    rates: dict[tuple[str, int], list[tuple[float, bool]]] = {}
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n])
        x, new = run(kind, n, rng), run(kind, NEW, rng)
        for name, kernel in kernels(x).items():
            for k in SIZES[n]:
                if name == "linear" and k > SENSORS // 2:
                    continue
                detector, doubted = fitted(x, n_components=k, kernel=kernel)
                rate = float(np.mean(detector.predict(new) == -1))
                rates.setdefault((name, k), []).append((rate, doubted))
    say(f"{kind}, {n} rows: {time.perf_counter() - started:.0f} s")
    for (name, k), found in rates.items():
        share, doubts = np.mean(found, axis=0)
        worst = max(rate for rate, _ in found)
        yield {
            "kind": kind,
            "n": n,
            "kernel": name,
            "components": k,
            "rate": float(share),
            "worst": worst,
            "told": float(doubts),
        }


def tennessee(data: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The fault-free run of the Tennessee Eastman process, by several numbers of components."""
    x = np.asarray(data["train_normal"], dtype=np.float64)
    (normal,) = [r for r, f in zip(data["test"], data["fault"], strict=True) if f == 0]
    rows = []
    for name, kernel in kernels(x).items():
        for k in (c for c in COUNTS if c < x.shape[1]):
            detector, doubted = fitted(x, n_components=k, kernel=kernel)
            rate = float(np.mean(detector.predict(normal) == -1))
            rows.append({"kernel": name, "components": k, "rate": rate, "told": doubted})
    return rows


def steps(data: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Alarms of the fault-free run once a sensor has stepped, with wild readings in the training rows."""
    x = np.asarray(data["train_normal"], dtype=np.float64)
    (normal,) = [r for r, f in zip(data["test"], data["fault"], strict=True) if f == 0]
    rng = np.random.default_rng(0)
    rows = []
    for count, where in ((0, ""), (1, "same"), (5, "same"), (1, "other"), (5, "other")):
        seen, false = [], []
        for column in range(0, x.shape[1], 4):
            spoilt, step = x.copy(), np.array(normal, dtype=np.float64)
            others = np.delete(np.arange(x.shape[1]), column)
            columns = column if where == "same" else rng.choice(others, count)
            spoilt[rng.choice(len(x), count, replace=False), columns] = READING
            step[:, column] += STEP * x[:, column].std()
            detector, _ = fitted(spoilt)
            seen.append(int(np.sum(detector.predict(step) == -1)))
            false.append(float(np.mean(detector.predict(normal) == -1)))
        rows.append(
            {"wild": count, "where": where, "seen": min(seen), "false": float(np.mean(false))}
        )
    return rows


def failures(data: dict[str, np.ndarray], far: tuple[float, ...] = FAR) -> list[dict[str, Any]]:
    """The same once the sensor had failed for a while, or now and then, in the training rows."""
    x = np.asarray(data["train_normal"], dtype=np.float64)
    (normal,) = [r for r, f in zip(data["test"], data["fault"], strict=True) if f == 0]
    rows = []
    for how, size in product((*IN_A_ROW, *SCATTERED), far):
        seen = []
        for column in range(0, x.shape[1], 4):
            rng = np.random.default_rng([column, int(size)])
            if isinstance(how, int):
                at = rng.integers(0, len(x) - how) + np.arange(how)
            else:
                at = rng.choice(len(x), int(how * len(x)), replace=False)
            spoilt, step = x.copy(), np.array(normal, dtype=np.float64)
            mean, spread = x[:, column].mean(), x[:, column].std()
            spoilt[at, column] = mean + size * spread
            step[:, column] += STEP * spread
            detector, _ = fitted(spoilt)
            seen.append(float(np.mean(detector.predict(step) == -1)))
        rows.append({"how": how, "far": size, "seen": seen})
    return rows
