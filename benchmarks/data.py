"""The points: seeded, so that every process sees the same ones, and full-rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.fft import idctn
from scipy.spatial.distance import pdist

from benchmarks.case import FACES, Case

SEED = 20240611
FACE_SHAPE = (112, 92)
N_PEOPLE, N_SHOTS = 40, 10
FACES_FILE = "orl_faces_112x92.npz"

# Half a million pairs pin the median down to a fraction of a percent, whatever n is.
MEDIAN_ROWS = 1000


def load(case: Case, faces_dir: str | None = None) -> np.ndarray:
    """The data matrix of a case.  (n, d) float64, C order"""
    if case.dataset == FACES:
        x = faces(faces_dir)
    else:
        x = MAKERS[case.dataset](case.n, case.d, np.random.default_rng(SEED))
    if x.shape != (case.n, case.d):
        msg = (
            f"The data of the case {case.name} must have the shape {(case.n, case.d)}; got {x.shape}. "
            f"Check the file given with --data."
        )
        raise ValueError(msg)
    return np.ascontiguousarray(x, dtype=np.float64)


def gaussian(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    # No direction stands out: the top of the spectrum is flat, which is hard on iterative solvers.
    return rng.standard_normal((n, d))


def decaying(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    # Variance 1/j along feature j: how measured data usually look.
    return rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))


def blobs(n: int, d: int, rng: np.random.Generator, *, n_clusters: int = 10) -> np.ndarray:
    # Centres about as far apart as a cluster is wide in all: nine eigenvalues stand above the rest.
    centres = 1.5 * rng.standard_normal((n_clusters, d))
    return centres[rng.integers(n_clusters, size=n)] + rng.standard_normal((n, d))


MAKERS = {"gaussian": gaussian, "decaying": decaying, "blobs": blobs}


def faces(faces_dir: str | None) -> np.ndarray:
    """The ORL faces where the file is at hand, else pictures like them.  (400, 10304)"""
    if faces_dir is not None:
        with np.load(Path(faces_dir) / FACES_FILE) as archive:
            return archive["X"].reshape(len(archive["X"]), -1).astype(np.float64)
    return synthetic_faces(np.random.default_rng(SEED))


def synthetic_faces(rng: np.random.Generator) -> np.ndarray:
    """Forty smooth pictures, ten varied shots of each, in whole grey levels.  (400, 10304)"""
    rows, cols = np.indices(FACE_SHAPE)
    decay = 1.0 / (1.0 + rows + cols) ** 1.5  # power falls with frequency, as in photographs

    def pictures(count: int) -> np.ndarray:
        return idctn(decay * rng.standard_normal((count, *FACE_SHAPE)), axes=(1, 2), norm="ortho")

    people = np.repeat(pictures(N_PEOPLE), N_SHOTS, axis=0)
    shots = people + 0.5 * pictures(N_PEOPLE * N_SHOTS)
    grey = 128 + 40 * shots / shots.std() + 3 * rng.standard_normal(shots.shape)
    return np.clip(np.round(grey), 0, 255).reshape(len(grey), -1)


def kernel_gamma(case: Case, x: np.ndarray) -> float:
    """1/(2 median²) for the RBF kernel, 1/d for the polynomial: a number, the same for all."""
    if case.kernel != "rbf":
        return 1.0 / case.d
    rng = np.random.default_rng(SEED)
    rows = x if len(x) <= MEDIAN_ROWS else x[rng.choice(len(x), MEDIAN_ROWS, replace=False)]
    return float(1.0 / (2.0 * np.median(pdist(rows)) ** 2))
