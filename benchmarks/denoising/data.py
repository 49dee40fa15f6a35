"""Digits in three disjoint parts, and two kinds of noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED = 19990101
FILE = "mnist.npz"
SIGMA = 0.5  # of the grey range
HIT = 0.4  # share of the pixels that speckle sets to black or white, as in Mika et al.


@dataclass(frozen=True)
class Parts:
    """Rows of grey levels between 0 and 1."""

    train: np.ndarray
    check: np.ndarray  # choices are made on these
    test: np.ndarray  # and judged on these
    shape: tuple[int, int]


def mnist(folder: Path, *, n_train: int, n_check: int, n_test: int) -> Parts:
    """Training and validation rows from MNIST's training part, test rows from its test part."""
    with np.load(folder / FILE) as archive:
        seen, unseen = archive["X_train"], archive["X_test"]
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(seen))[: n_train + n_check]
    test = unseen[rng.permutation(len(unseen))[:n_test]]
    train, check = seen[order[:n_train]], seen[order[n_train:]]
    return Parts(_rows(train) / 255, _rows(check) / 255, _rows(test) / 255, seen.shape[1:])


def small() -> Parts:
    """scikit-learn's digits: does everything run?"""
    X = load_digits().data / 16.0
    order = np.random.default_rng(SEED).permutation(len(X))
    return Parts(X[order[:200]], X[order[200:240]], X[order[240:300]], (8, 8))


def _rows(pictures: np.ndarray) -> np.ndarray:  # (n, h, w) -> (n, h w)
    return pictures.reshape(len(pictures), -1).astype(np.float64)


def gaussian(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x + SIGMA * rng.standard_normal(x.shape)


def speckle(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    hit = rng.random(x.shape) < HIT
    return np.where(hit, rng.integers(0, 2, x.shape).astype(x.dtype), x)


NOISES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "gaussian": gaussian,
    "speckle": speckle,
}
