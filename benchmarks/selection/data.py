"""The points: made ones, scikit-learn's, and samples of real ones where the files are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_gaussian_quantiles,
    make_moons,
)
from sklearn.model_selection import train_test_split

if TYPE_CHECKING:
    from collections.abc import Callable

    Labelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """Rows to choose and to fit on, and rows to judge on."""

    name: str
    n: int  # rows to choose and to fit on
    n_test: int
    read: Callable[[Path], Labelled]
    file: str | None = None


def load(case: Case, folder: str | None, seed: int) -> tuple[np.ndarray, ...] | None:
    """Training rows, test rows, training labels, test labels; None where the file is missing."""
    if case.file is not None and (folder is None or not (Path(folder) / case.file).is_file()):
        return None
    X, y = case.read(Path(folder or ".") / (case.file or ""))
    X = X.astype(np.float64).reshape(len(X), -1)
    return tuple(
        train_test_split(
            X, y, train_size=case.n, test_size=case.n_test, random_state=seed, stratify=y
        )
    )


def standardised(X: np.ndarray, y: np.ndarray) -> Labelled:
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def mnist(path: Path) -> Labelled:
    with np.load(path) as archive:
        return archive["X_train"][:10_000] / 255.0, archive["y_train"][:10_000]


def letters(path: Path) -> Labelled:
    with np.load(path) as archive:
        return standardised(archive["X"].astype(np.float64), archive["y"])


def faces(path: Path) -> Labelled:
    """Every second pixel of each side."""
    with np.load(path) as archive:
        return archive["X"][:, ::2, ::2] / 255.0, archive["y"]


def faults(path: Path) -> Labelled:
    """Rows of the ten test runs from where the fault enters; which run it is, is the label."""
    with np.load(path) as archive:
        runs = archive["test"][:, 160:]  # (10, 800, 52)
    y = np.repeat(np.arange(len(runs)), runs.shape[1])
    return standardised(runs.reshape(-1, runs.shape[2]), y)


CASES = (
    Case(
        "circles", 400, 1000, lambda _: make_circles(1400, factor=0.3, noise=0.05, random_state=0)
    ),
    Case("moons", 400, 1000, lambda _: make_moons(1400, noise=0.1, random_state=0)),
    Case("iris", 90, 60, lambda _: standardised(*load_iris(return_X_y=True))),
    Case("wine", 110, 68, lambda _: standardised(*load_wine(return_X_y=True))),
    Case("cancer", 320, 249, lambda _: standardised(*load_breast_cancer(return_X_y=True))),
    Case("digits", 800, 900, lambda _: load_digits(return_X_y=True)),
    Case("MNIST", 1000, 1500, mnist, "mnist.npz"),
    Case("letters", 1000, 1500, letters, "mlbench_letterrecognition.npz"),
    Case("ORL faces", 240, 160, faces, "orl_faces_112x92.npz"),
    Case("Tennessee", 1000, 1500, faults, "tennessee_eastman.npz"),
    # Not looked at before the rule was chosen.
    Case(
        "quantiles",
        400,
        1000,
        lambda _: make_gaussian_quantiles(n_samples=1400, n_features=4, random_state=0),
    ),
    Case(
        "clusters",
        400,
        1000,
        lambda _: make_classification(
            1400, 12, n_informative=6, n_classes=4, n_clusters_per_class=2, random_state=0
        ),
    ),
)
