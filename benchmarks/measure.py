"""One measurement in a process of its own: ``python -m benchmarks.measure '<job as JSON>'``.

The last line on stdout is the result as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from benchmarks.accuracy import TILES, eigen_accuracy, reconstruction_error
from benchmarks.case import Case
from benchmarks.competitors import competitors
from benchmarks.contention import Contention
from benchmarks.data import load
from benchmarks.memory import PeakMemory

WARM_UP_ROWS = 200
FAST_SECONDS = 5.0  # a fit faster than this is repeated


def timed_fits(build: Any, x: np.ndarray, repeat: int) -> tuple[Any, dict[str, Any]]:
    """Fit, `repeat` times if it is fast; the last model, all times, the highest peak."""
    contention, busy = Contention(), []
    memory = PeakMemory()
    model, seconds, peaks = None, [], []
    while not seconds or (len(seconds) < repeat and seconds[0] < FAST_SECONDS):
        model = build()  # the fit before is let go of here, before the baseline is taken
        memory.start()
        contention.start()
        started = time.perf_counter()
        model.fit(x)
        seconds.append(time.perf_counter() - started)
        peaks.append(memory.stop())
        busy.append(contention.stop())
    return model, {
        "seconds": statistics.median(seconds),
        "seconds_min": min(seconds),
        "seconds_all": seconds,
        "peak_bytes": max(peaks),
        "peak_bytes_all": peaks,
        "memory_method": memory.method,
        "busy_elsewhere": max((cores for cores in busy if cores is not None), default=None),
    }


def kernel_pca_accuracy(case: Case, gamma: float, x: np.ndarray, model: Any) -> dict[str, Any]:
    # Distances do not see the mean, and small numbers round better.
    points = x - x.mean(axis=0) if case.kernel == "rbf" else x
    values, vectors = model.eigenvalues_, model.eigenvectors_
    accuracy = eigen_accuracy(TILES[case.kernel](gamma), points, values, vectors)
    return {
        **asdict(accuracy),
        "n_returned": len(values),
        "eigenvalue_1": float(values.max()),
        "eigenvalues": [float(value) for value in values],
    }


def pca_accuracy(x: np.ndarray, model: Any) -> dict[str, Any]:
    scores = model.transform(x)  # (n, k)
    return {
        "residual": reconstruction_error(x, model.inverse_transform(scores)),
        "n_returned": scores.shape[1],
        # The scores' squared lengths are the eigenvalues of the centred XXᵀ.
        "eigenvalue_1": float(np.square(scores[:, 0]).sum()),
    }


def measure(job: dict[str, Any]) -> dict[str, Any]:
    case, who, gamma = Case(**job["case"]), job["who"], job["gamma"]
    x = load(case, job["faces_dir"])
    builder = competitors(case)[who]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # A small fit loads the code on the way, so that neither clock nor memory sees imports.
        small = case if case.k is None else replace(case, k=min(case.k, WARM_UP_ROWS // 2))
        builder(small, gamma).fit(x[:WARM_UP_ROWS])
        caught.clear()  # what the small fit has to say is not about this case
        model, times = timed_fits(lambda: builder(case, gamma), x, job["repeat"])
    told = kernel_pca_accuracy(case, gamma, x, model) if not case.is_pca else pca_accuracy(x, model)
    return {
        **times,
        "warnings": sorted({str(warning.message) for warning in caught}),
        "plan": str(getattr(model, "plan_", "")),
        **told,
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
