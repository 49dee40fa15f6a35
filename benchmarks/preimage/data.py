"""Rows to fit to and rows held out, seeded; real ones where the files are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_circles

Split = tuple[np.ndarray, np.ndarray]

N_FIT, N_HELD = 1200, 400


def splits(folder: str | None) -> dict[str, Split]:
    """The data sets by name. Grey levels are shares, letters are standardised."""
    rng = np.random.default_rng(0)
    digits = load_digits().data / 16.0
    circles = make_circles(N_FIT + N_HELD, factor=0.3, noise=0.05, random_state=0)[0]
    found = {"digits": split(digits, rng), "circles": split(circles, rng)}
    if folder is not None:
        pictures = np.load(Path(folder) / "mnist.npz")["X_train"]
        found["mnist"] = split(pictures.reshape(len(pictures), -1) / 255.0, rng)
        letters = np.load(Path(folder) / "mlbench_letterrecognition.npz")["X"].astype(np.float64)
        found["letters"] = split((letters - letters.mean(axis=0)) / letters.std(axis=0), rng)
    return found


def split(rows: np.ndarray, rng: np.random.Generator) -> Split:
    chosen = rng.permutation(len(rows))[: N_FIT + N_HELD]
    return rows[chosen[:N_FIT]], rows[chosen[N_FIT:]]
