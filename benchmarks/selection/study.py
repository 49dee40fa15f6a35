"""Widths picked without labels, and what two classifiers make of each."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelPCA, select
from mercer.errors import MercerWarning
from mercer.kernels import RBF, Linear

if TYPE_CHECKING:
    from benchmarks.selection.data import Case

    Parts = tuple[np.ndarray, ...]

COMPONENTS = (2, 5, 10, 20, 40)
# Pre-images and judges are slow: what needs them picks at this number of components only, on fewer rows.
SLOW_AT, SLOW_ROWS = 10, 500
FAST, SLOW = ("agreement", "variance"), ("denoising", "reconstruction")
JUDGES = {
    "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, tol=1e-3)),
    "neighbours": lambda: KNeighborsClassifier(5),
}


def study(case: Case, parts: Parts, *, steps: int) -> list[dict[str, Any]]:
    """A line for each number of components: accuracies along the grid, and who picks which width."""
    X = parts[0]
    median = float(RBF().resolve(X, rng=np.random.default_rng(0)).gamma)
    factors = 2.0 ** np.linspace(-4, 4, steps)  # of the width
    grid = [RBF(median / factor**2) for factor in factors]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        curves = [accuracies(kernel, parts) for kernel in (*grid, Linear())]
        lines = []
        for k in COMPONENTS:
            line: dict[str, Any] = {"data": case.name, "n": len(X), "d": X.shape[1], "k": k}
            line["factors"] = list(factors)
            line["curves"] = {name: [curve[k][name] for curve in curves] for name in JUDGES}
            line["picks"] = {"median": {"at": int(np.argmin(abs(np.log(factors))))}}
            for criterion in FAST + (SLOW if k == SLOW_AT else ()):
                line["picks"][criterion] = picked(X, grid, k, criterion)
            if k == SLOW_AT:
                line["picks"]["labels"] = picked(X, grid, k, None, y=parts[2])
            lines.append(line)
    return lines


def accuracies(kernel: Any, parts: Parts) -> dict[int, dict[str, float]]:
    """By number of components and judge, on rows that nobody saw. The first k of 40 are those of k."""
    X, X_test, y, y_test = parts
    model = KernelPCA(max(COMPONENTS), kernel=kernel).fit(X)
    known, new = model.transform(X), model.transform(X_test)
    return {
        k: {
            name: float(make().fit(known[:, :k], y).score(new[:, :k], y_test))
            for name, make in JUDGES.items()
        }
        for k in COMPONENTS
    }


def picked(X: np.ndarray, grid: list[RBF], k: int, criterion: str | None, y: Any = None) -> dict:
    """Which of the grid, whether with evidence, and how long it took."""
    started = time.perf_counter()
    rows = None if criterion in FAST else SLOW_ROWS
    found = select(X, grid, n_components=k, criterion=criterion, y=y, max_rows=rows, refit=False)
    return {
        "at": next(i for i, kernel in enumerate(grid) if kernel is found.best_kernel_),
        "conclusive": found.conclusive_,
        "seconds": time.perf_counter() - started,
    }
