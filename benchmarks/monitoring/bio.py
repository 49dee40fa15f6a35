"""How do PyOD's KPCA detector and ours compare on kdd04_bio, in AUC and time?

A seeded sample of 5000 rows to fit, labels unseen and positives among them as they come. To score: all other
positives, and as many of the other rows as make 20 000 in all.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.run import say
from mercer import KernelPCADetector
from mercer.approximations import RPCholesky
from mercer.errors import MercerWarning
from mercer.kernels import RBF

if TYPE_CHECKING:
    from pathlib import Path

FILE = "kdd04_bio.npz"
SEED = 0
N_FIT, N_SCORE = 5000, 20_000


def load(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / FILE) as archive:
        x, y = archive["X"].astype(np.float64), archive["y"]
    order = np.random.default_rng(SEED).permutation(len(x))
    fit, rest = order[:N_FIT], order[N_FIT:]
    positive = rest[y[rest] == 1]
    negative = rest[y[rest] == 0][: N_SCORE - len(positive)]
    score = np.concatenate([positive, negative])
    return {"fit": x[fit], "score": x[score], "y": y[score]}


def toy() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED)
    x, far = rng.standard_normal((400, 6)), 3.0 + rng.standard_normal((20, 6))
    y = np.repeat([0, 1], [200, 20])
    return {"fit": x[:200], "score": np.concatenate([x[200:], far]), "y": y}


def entrants(x: np.ndarray) -> dict[str, tuple[Any, bool]]:
    """By name: a detector, and whether its rows are scaled beforehand."""
    from pyod.models.kpca import KPCA

    scaled = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    median = RBF().resolve(scaled, rng=np.random.default_rng(0)).gamma
    wide, k = median / 256.0, min(200, len(x) // 2)
    rank = min(500, len(x))
    return {
        "PyOD KPCA, its defaults": (KPCA(), False),
        "PyOD KPCA, scaled rows": (KPCA(), True),
        f"PyOD KPCA, our width, {k} components": (KPCA(gamma=wide, n_components=k), True),
        f"mercer, our width, {k} components, Q, one fit": (
            KernelPCADetector(k, kernel=RBF(wide), statistic="Q", limits="approximate"),
            False,
        ),
        f"mercer, our width, {k} components, Q, held-out limits": (
            KernelPCADetector(k, kernel=RBF(wide), statistic="Q"),
            False,
        ),
        "mercer, default": (KernelPCADetector(), False),
        "mercer, default, T²": (KernelPCADetector(statistic="T2"), False),
        "mercer, default, Q": (KernelPCADetector(statistic="Q"), False),
        "mercer, default, limits from F and χ²": (KernelPCADetector(limits="approximate"), False),
        f"mercer, RPCholesky({rank})": (
            KernelPCADetector(approximation=RPCholesky(rank=rank)),
            False,
        ),
        f"mercer, median width, {k} components, RPCholesky({2 * rank})": (
            KernelPCADetector(
                k, kernel=RBF(median), approximation=RPCholesky(rank=min(2 * rank, len(x) // 2))
            ),
            False,
        ),
        "mercer, median width, 0.99": (KernelPCADetector(kernel=RBF(median)), False),
    }


def measure(data: dict[str, np.ndarray], only: str = "") -> list[dict[str, Any]]:
    """Every entrant whose name holds `only`."""
    x, new = data["fit"], data["score"]
    mean, spread = x.mean(axis=0), x.std(axis=0, ddof=1)
    rows = []
    for name, (detector, scaled) in entrants(x).items():
        if only not in name:
            continue
        own, theirs = ((x - mean) / spread, (new - mean) / spread) if scaled else (x, new)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)
            times = [_clock()]
            detector.fit(own)
            times.append(_clock())
            scores = detector.decision_function(theirs)
            times.append(_clock())
        fit, score = np.diff(times, axis=0)
        sign = 1.0 if name.startswith("PyOD") else -1.0  # theirs: more is stranger
        rows.append(
            {
                "detector": name,
                "components": _components(detector),
                "auc": float(roc_auc_score(data["y"], sign * scores)),
                "fit_seconds": fit[0],
                "fit_cpu_seconds": fit[1],
                "score_seconds": score[0],
                "score_cpu_seconds": score[1],
            }
        )
        say(f"{name}: AUC {rows[-1]['auc']:.4f}")
    return rows


def _clock() -> tuple[float, float]:
    """Wall and processor time: the latter says more on a machine that is busy with other work."""
    return time.perf_counter(), time.process_time()


def _components(detector: Any) -> int:
    if hasattr(detector, "model_"):
        return int(detector.model_.n_components_)
    return len(detector.kpca.eigenvalues_)
