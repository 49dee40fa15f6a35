"""How right is it? Float64 on sampled rows, written here and used on every entrant alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.accuracy import BLOCK_BYTES, Tile

RESIDUAL_ROWS = 4096
TRACE_ROWS = 20_000
FROBENIUS_ROWS = 2000
SEED = 20240612

# Directions of the landmarks below this share of the largest are rounding, and explain nothing.
ROUNDING = 1e-12

Features = Callable[[np.ndarray], np.ndarray]  # (b, d) -> (b, r)


def sample(n: int, count: int) -> np.ndarray:
    """Positions of at most `count` rows, the same ones for everybody."""
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(SEED).choice(n, count, replace=False))


def residual(tile: Tile, x: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> float:
    """max_i ‖K̃u_i - λ_i u_i‖ / λ_1, from sampled rows.

    With U orthogonal to 1, K̃U - UΛ = H(KU - UΛ): its columns have mean zero, so the norm is √n times a
    standard deviation, and rows that are drawn at random tell it to a percent or two.
    """
    n, rows = len(x), sample(len(x), RESIDUAL_ROWS)
    u = np.asarray(vectors, dtype=np.float64)
    u = u - u.mean(axis=0)
    error = _products(tile, x, rows, u) - u[rows] * np.asarray(values, dtype=np.float64)
    return float(np.sqrt(n) * error.std(axis=0).max() / np.max(values))


def _products(tile: Tile, x: np.ndarray, rows: np.ndarray, u: np.ndarray) -> np.ndarray:
    """(KU)[rows], a block of them at a time.  (s, k)"""
    points = x.astype(np.float64)
    points -= points.mean(axis=0)  # distances do not see it, and small numbers round better
    height = max(1, BLOCK_BYTES // (8 * len(x)))
    blocks = (rows[start : start + height] for start in range(0, len(rows), height))
    return np.concatenate([tile(points[block], points) @ u for block in blocks])


def landmark_features(tile: Tile, z: np.ndarray) -> Features:
    """x -> k(x, Z) W with W Wᵀ = k(Z, Z)⁺: the projection onto the span of φ(Z)."""
    points = np.asarray(z, dtype=np.float64)
    values, vectors = np.linalg.eigh(tile(points, points))
    kept = values > ROUNDING * values[-1]
    whiten = vectors[:, kept] / np.sqrt(values[kept])  # (m, r)
    return lambda x: tile(np.asarray(x, dtype=np.float64), points) @ whiten


def fitted_features(tile: Tile, model: Any) -> Features:
    """The features behind a fitted approximation: of its landmarks, or its random ones."""
    if hasattr(model, "steps"):
        return landmark_features(tile, model[0].components_)
    sections = model.fit_.projection.sections
    if hasattr(sections, "points"):
        return landmark_features(tile, sections.points)
    return lambda x: np.asarray(sections(np.asarray(x, dtype=np.float64)))


def left_out(features: Features, x: np.ndarray, *, block: int = 2000) -> float:
    """tr(K - FFᵀ)/tr K of a kernel with k(x, x) = 1, from sampled rows (all of 20 000 or fewer)."""
    rows = sample(len(x), TRACE_ROWS)
    blocks = (rows[start : start + block] for start in range(0, len(rows), block))
    return 1.0 - sum(float(np.square(features(x[rows])).sum()) for rows in blocks) / len(rows)


def frobenius(tile: Tile, features: Features, x: np.ndarray) -> float:
    """‖K - FFᵀ‖ / ‖K‖ in the Frobenius norm, over the entries of sampled rows with each other."""
    points = x[sample(len(x), FROBENIUS_ROWS)].astype(np.float64)
    f, k = features(points), tile(points, points)
    return float(np.linalg.norm(k - f @ f.T) / np.linalg.norm(k))
