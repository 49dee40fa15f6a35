"""Widths picked without labels, and what a linear classifier makes of each."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelPCA, select
from mercer.errors import MercerWarning
from mercer.kernels import RBF, Linear

if TYPE_CHECKING:
    from benchmarks.selection.data import Case

CRITERIA = ("denoising", "reconstruction", "variance")
DECADES = 3.0  # of gamma, on either side of the median rule


def study(case: Case, parts: tuple[np.ndarray, ...], *, steps: int) -> dict[str, Any]:
    """One row: accuracies on rows that nobody saw, at each pick and at the best width of the grid."""
    X, X_test, y, y_test = parts
    median = float(RBF().resolve(X, rng=np.random.default_rng(0)).gamma)
    gammas = median * np.logspace(-DECADES, DECADES, steps)

    def accuracy(kernel: Any) -> float:
        model = KernelPCA(case.k, kernel=kernel).fit(X)
        judge = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        judge.fit(model.transform(X), y)
        return float(judge.score(model.transform(X_test), y_test))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        curve = [accuracy(RBF(gamma)) for gamma in gammas]
        best = int(np.argmax(curve))
        row: dict[str, Any] = {
            "data": case.name,
            "n": len(X),
            "d": X.shape[1],
            "k": case.k,
            "median_gamma": median,
            "factors": list(gammas / median),
            "curve": curve,
            "best": {"factor": float(gammas[best] / median), "accuracy": curve[best]},
            "median": {"factor": 1.0, "accuracy": accuracy(RBF(median))},
            "1/d": {
                "factor": 1 / X.shape[1] / median,
                "accuracy": accuracy(RBF(1 / X.shape[1])),
            },
            "linear": {"accuracy": accuracy(Linear())},
        }
        grid = [RBF(gamma) for gamma in gammas]
        for criterion in CRITERIA:
            row[criterion] = picked(X, grid, case.k, criterion, median=median)
            row[criterion]["accuracy"] = accuracy(row[criterion].pop("kernel"))
        row["supervised"] = picked(X, grid, case.k, None, median=median, y=y)
        row["supervised"]["accuracy"] = accuracy(row["supervised"].pop("kernel"))
        row["default"] = picked(X, None, case.k, None, median=median)
        kernel = row["default"].pop("kernel")
        row["default"] |= {"accuracy": accuracy(kernel), "shown": repr(kernel)}
    return row


def picked(
    X: np.ndarray, kernels: Any, k: int, criterion: str | None, *, median: float, y: Any = None
) -> dict[str, Any]:
    started = time.perf_counter()
    found = select(X, kernels, n_components=k, criterion=criterion, y=y, refit=False)
    gamma = getattr(found.best_kernel_, "gamma", None)
    return {
        "kernel": found.best_kernel_,
        "factor": None if gamma is None else float(gamma) / median,
        "seconds": time.perf_counter() - started,
    }
