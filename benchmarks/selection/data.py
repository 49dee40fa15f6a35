"""The points: made ones, scikit-learn's digits, and samples of MNIST and the letters where the files are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.model_selection import train_test_split

from benchmarks.data import SEED


@dataclass(frozen=True)
class Case:
    """Rows to choose and to fit on, rows to judge on, and a number of components."""

    name: str
    k: int
    n: int  # rows to choose and to fit on
    n_test: int
    file: str | None = None


CASES = (
    Case("circles", 2, 400, 1000),
    Case("circles", 10, 400, 1000),
    Case("moons", 2, 400, 1000),
    Case("moons", 10, 400, 1000),
    Case("digits", 20, 800, 900),
    Case("MNIST", 20, 1000, 2000, "mnist.npz"),
    Case("letters", 10, 1000, 2000, "mlbench_letterrecognition.npz"),
    Case("letters", 40, 1000, 2000, "mlbench_letterrecognition.npz"),
)


def load(case: Case, folder: str | None) -> tuple[np.ndarray, ...] | None:
    """Training rows, test rows, training labels, test labels; None where the file is missing."""
    if case.file is not None and (folder is None or not (Path(folder) / case.file).is_file()):
        return None
    X, y = READERS[case.name](case, folder)
    return tuple(
        train_test_split(
            X, y, train_size=case.n, test_size=case.n_test, random_state=SEED % 2**31, stratify=y
        )
    )


def circles(case: Case, _: str | None) -> tuple[np.ndarray, np.ndarray]:
    return make_circles(case.n + case.n_test, factor=0.3, noise=0.05, random_state=0)


def moons(case: Case, _: str | None) -> tuple[np.ndarray, np.ndarray]:
    return make_moons(case.n + case.n_test, noise=0.1, random_state=0)


def digits(*_: object) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def mnist(case: Case, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    assert folder is not None
    assert case.file is not None
    with np.load(Path(folder) / case.file) as archive:
        X, y = archive["X_train"][:10_000], archive["y_train"][:10_000]
    return X.reshape(len(X), -1) / 255.0, y


def letters(case: Case, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    assert folder is not None
    assert case.file is not None
    with np.load(Path(folder) / case.file) as archive:
        X, y = archive["X"].astype(np.float64), archive["y"]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


READERS = {
    "circles": circles,
    "moons": moons,
    "digits": digits,
    "MNIST": mnist,
    "letters": letters,
}
