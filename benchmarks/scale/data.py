"""The points: seeded, so that every process sees the same ones, and real ones where the files are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.data import MAKERS, SEED, kernel_gamma

if TYPE_CHECKING:
    from benchmarks.scale.case import Case

FILES = {
    "mnist": "mnist.npz",
    "kdd04_bio": "kdd04_bio.npz",
    "letters": "mlbench_letterrecognition.npz",
}

RARE = "rare clusters"
N_RARE, RARE_ROWS = 60, 10
SPREAD, APART = 0.03, 10.0
RARE_GAMMA = 0.5  # σ = 1: a cluster is far inside of it, two clusters never are


def rare_clusters(n: int, d: int, rng: np.random.Generator) -> np.ndarray:  # (n, d)
    """Two clusters with nearly all rows, and sixty of ten rows each, all of them far apart.

    A cluster is narrow beside the kernel, so that one landmark in it explains nearly all of it, and 62
    would do for all. Uniform landmarks meet a cluster of ten among 20 000 rows with probability
    1 - (1 - 1/2000)^m: 5 % for m = 100, 39 % for m = 1000. The others are left out entirely, and with
    them most of the 3 % of the trace that rare rows are; further landmarks go to the two large
    clusters, where they gain nothing. RPCholesky draws a row in proportion to what is not explained of
    it: with a landmark in each large cluster, the rare rows are most of what is left, and are found.
    """
    rare_rows = min(RARE_ROWS, max(1, n // (4 * N_RARE)))  # rare in a toy as well
    n_large = n - N_RARE * rare_rows
    sizes = [n_large - n_large // 3, n_large // 3, *[rare_rows] * N_RARE]
    centres = APART * rng.standard_normal((len(sizes), d))
    rows = np.repeat(centres, sizes, axis=0) + SPREAD * rng.standard_normal((n, d))
    return rng.permutation(rows)


def load(case: Case, folder: str | None = None) -> np.ndarray:
    """The data matrix of a case.  (n, d), C order"""
    rng = np.random.default_rng(SEED)
    if case.dataset in FILES:
        x = real(case.dataset, case.n, folder, rng)
    elif case.dataset == RARE:
        x = rare_clusters(case.n, case.d, rng)
    else:
        x = MAKERS[case.dataset](case.n, case.d, rng)
    if x.shape != (case.n, case.d):
        msg = (
            f"The case {case.name} needs data of shape {(case.n, case.d)}, but {x.shape} came. "
            f"Check the files given with --data."
        )
        raise ValueError(msg)
    return np.ascontiguousarray(x, dtype=case.dtype)


def is_there(dataset: str, folder: str | None) -> bool:
    """Whether a data set can be loaded: made ones always can."""
    if dataset not in FILES:
        return True
    return folder is not None and (Path(folder) / FILES[dataset]).is_file()


def real(dataset: str, n: int, folder: str | None, rng: np.random.Generator) -> np.ndarray:
    """n rows drawn without replacement: grey levels from 0 to 1, other columns standardised."""
    if folder is None:
        msg = f"{dataset} is read from {FILES[dataset]}. Give its folder with --data."
        raise ValueError(msg)
    with np.load(Path(folder) / FILES[dataset]) as archive:
        x = archive["X_train"] if dataset == "mnist" else archive["X"]
    x = x.reshape(len(x), -1)
    rows = x[np.sort(rng.choice(len(x), min(n, len(x)), replace=False))].astype(np.float64)
    if dataset == "mnist":
        return rows / 255.0
    # Columns in different units: the largest one would be all that a distance sees.
    scale = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def width(case: Case, x: np.ndarray) -> float:
    """γ of the RBF kernel: that of the median distance, or the one that makes rare clusters hard."""
    return RARE_GAMMA if case.dataset == RARE else kernel_gamma(case, x)  # type: ignore[arg-type]
