"""How right is it? One float64 reference, written here and used on every competitor alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# One block of kernel rows at a time: the reference never holds an n x n matrix.
BLOCK_BYTES = 64 * 2**20

Tile = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Accuracy:
    """What the eigenpairs are worth."""

    residual: float  # max_i ‖K̃u_i - λ_i u_i‖ / λ_1
    orthogonality: float  # max |UᵀU - I|


def rbf_tile(gamma: float) -> Tile:
    """exp(-γ‖x - y‖²)"""

    def tile(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        squared = -2.0 * (x @ y.T)  # (b, n)
        squared += np.einsum("ij,ij->i", x, x)[:, None]
        squared += np.einsum("ij,ij->i", y, y)[None, :]
        np.maximum(squared, 0.0, out=squared)  # rounding may leave a distance a hair below zero
        squared *= -gamma
        return np.exp(squared, out=squared)

    return tile


def poly_tile(gamma: float) -> Tile:
    """(γ x·y + 1)²"""

    def tile(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        values = x @ y.T  # (b, n)
        values *= gamma
        values += 1.0
        return np.square(values, out=values)

    return tile


TILES: dict[str, Callable[[float], Tile]] = {"rbf": rbf_tile, "poly": poly_tile}


def centred_product(
    tile: Tile, x: np.ndarray, u: np.ndarray, *, block_bytes: int = BLOCK_BYTES
) -> np.ndarray:
    """K̃U = HKHU, block of rows by block of rows.  (n, k)"""
    n = len(x)
    rows = max(1, block_bytes // (8 * n))
    inner = u - u.mean(axis=0)  # HU
    product = np.empty_like(inner)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        product[block] = tile(x[block], x) @ inner
    return product - product.mean(axis=0)


def eigen_accuracy(
    tile: Tile,
    x: np.ndarray,
    eigenvalues: np.ndarray,
    eigenvectors: np.ndarray,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Accuracy:
    """Residual and orthogonality of fitted eigenpairs of the centred kernel matrix."""
    values = np.asarray(eigenvalues, dtype=np.float64)  # (k,)
    u = np.asarray(eigenvectors, dtype=np.float64)  # (n, k)
    error = centred_product(tile, x, u, block_bytes=block_bytes) - u * values
    residual = np.linalg.norm(error, axis=0).max() / values.max()
    # A small residual alone would also pass the same eigenvector given k times.
    orthogonality = np.abs(u.T @ u - np.eye(u.shape[1])).max()
    return Accuracy(residual=float(residual), orthogonality=float(orthogonality))


def reconstruction_error(x: np.ndarray, rebuilt: np.ndarray) -> float:
    """‖X - X̂‖ / ‖X - mean‖ in the Frobenius norm."""
    return float(np.linalg.norm(x - rebuilt) / np.linalg.norm(x - x.mean(axis=0)))
