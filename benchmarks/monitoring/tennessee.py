"""Which faults of the Tennessee Eastman process are seen, at what rate of false alarms?

Trained on 500 normal rows; every test run has 960 rows, and its fault enters after row 160. The limits are
set at 1 % from the training rows; nothing is chosen by looking at faults.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import PCA, IncrementalKernelPCA, KernelPCADetector, select
from mercer.approximations import RPCholesky
from mercer.errors import MercerWarning
from mercer.kernels import RBF

if TYPE_CHECKING:
    from pathlib import Path

FILE = "tennessee_eastman.npz"
ENTERS = 160
WIDTHS = (1.0, 2.0, 4.0, 6.0, 10.0, 16.0, 30.0)  # σ in median distances
COUNTS = [10, 20, 30, 40]
RULES = ("T2", "Q", "combined")


def load(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / FILE) as archive:
        return {name: archive[name] for name in ("train_normal", "test", "fault")}


def toy() -> dict[str, np.ndarray]:
    """The same shapes from a process of three hidden causes, for a quick look whether everything runs."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((3, 8))

    def run(n: int) -> np.ndarray:
        return rng.standard_normal((n, 3)) @ mixing + 0.1 * rng.standard_normal((n, 8))

    test = np.stack([run(300), run(300)])
    test[1, ENTERS:, 2] += 2.0
    return {"train_normal": run(200), "test": test, "fault": np.array([0, 1])}


def entrants(x: np.ndarray) -> dict[str, KernelPCADetector]:
    scaled = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    gamma = RBF().resolve(scaled, rng=np.random.default_rng(0)).gamma
    widths = {w: RBF(gamma / w**2) for w in WIDTHS}
    chosen = select(
        scaled, list(widths.values()), n_components=COUNTS, folds=5, criterion="denoising"
    ).best_
    width = np.sqrt(gamma / chosen.kernel_.gamma)
    found = {
        "PCA, 0.95": KernelPCADetector(model=PCA(0.95)),
        "PCA, 0.99": KernelPCADetector(model=PCA(0.99)),
        "PCA, 0.999": KernelPCADetector(model=PCA(0.999)),
        f"select: σ = {width:.3g} medians, k = {chosen.n_components_}": KernelPCADetector(
            chosen.n_components_, kernel=chosen.kernel_
        ),
        f"select's width, 0.99: σ = {width:.3g} medians": KernelPCADetector(kernel=chosen.kernel_),
        "default: σ = 16 medians, 0.99": KernelPCADetector(),
        "default, RPCholesky(200)": KernelPCADetector(approximation=RPCholesky(rank=200)),
        "default, streaming": KernelPCADetector(
            model=IncrementalKernelPCA(0.99, kernel=widths[16.0], max_landmarks=200, tol=1e-9)
        ),
        "default, F and χ² limits": KernelPCADetector(limits="approximate"),
    }
    for w in (1.0, 2.0, 4.0, 6.0, 10.0):
        found[f"σ = {w:g} medians, 0.99"] = KernelPCADetector(kernel=widths[w])
    found["σ = 30 medians, 0.999"] = KernelPCADetector(0.999, kernel=widths[30.0])
    return found


def measure(data: dict[str, np.ndarray], detectors: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for name, one in detectors.items() for row in rates(name, one, data)]


def rates(name: str, detector: Any, data: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """A row for each rule: false alarms, and what is seen of each fault."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        detector.fit(data["train_normal"])
    seconds = time.perf_counter() - started
    limits = detector.limits_
    rows = []
    seen = [detector.statistics(x) for x in data["test"]]
    for rule in RULES:
        column, limit = {
            "T2": ("T2", limits.t2),
            "Q": ("Q", limits.q),
            "combined": ("index", limits.index),
        }[rule]
        alarms = [run[column] > limit for run in seen]
        by_fault = {
            int(fault): float(alarm[ENTERS:].mean())
            for fault, alarm in zip(data["fault"], alarms, strict=True)
            if fault
        }
        before = [a[:ENTERS].mean() for a, f in zip(alarms, data["fault"], strict=True) if f]
        (normal,) = [a for a, f in zip(alarms, data["fault"], strict=True) if f == 0]
        rows.append(
            {
                "detector": name,
                "rule": rule,
                "components": detector.model_.n_components_,
                "false_alarms": float(normal.mean()),
                "before_faults": float(np.mean(before)),
                "by_fault": by_fault,
                "mean": float(np.mean(list(by_fault.values()))),
                "seconds": seconds,
            }
        )
    return rows
