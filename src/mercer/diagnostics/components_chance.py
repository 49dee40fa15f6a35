"""Eigenvalues against chance: parallel analysis by shuffled columns (Horn 1965; Dobriban & Owen 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from mercer.diagnostics.symptoms import centred_spectrum

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.kernels import Kernel


def against_chance(
    kernel: Kernel, rows: Array, *, quantile: float, repeats: int, rng: np.random.Generator
) -> tuple[int, Array, Array]:
    """How many leading eigenvalues exceed those of shuffled data; all of them, and the limits.

    Place by place, with the kernel as it was resolved on the data themselves.
    """
    values = centred_spectrum(kernel(rows).astype(np.float64, copy=False))
    chance = [
        centred_spectrum(kernel(rng.permuted(rows, axis=0)).astype(np.float64, copy=False))
        for _ in range(repeats)
    ]
    limits = np.quantile(chance, quantile, axis=0)  # (n,)
    floor = len(values) * float(np.finfo(np.float64).eps) * max(float(values[0]), 0.0)
    below = np.flatnonzero(values <= np.maximum(limits, floor))
    return int(below[0]) if len(below) else len(values), values, limits


def linear_against_chance(
    rows: Array, *, quantile: float, repeats: int, rng: np.random.Generator
) -> tuple[int, Array, Array]:
    """The same for the linear kernel, each component taken off the rows before the next is asked for.

    Shuffling spreads the variance of a strong component over all directions, and a weak one behind it
    would be hidden in its shadow. What is left after j components has d - j directions, and its shuffled
    form has d: the limit is scaled by d/(d - j), so that both have the same variance in each.
    """
    x = rows.astype(np.float64)
    x -= x.mean(axis=0)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    values, d = s**2, x.shape[1]
    rank = int(np.sum(s > max(x.shape) * np.finfo(np.float64).eps * s[0])) if s[0] > 0 else 0
    limits = np.full(len(values), np.nan)
    for j in range(rank):
        rest = (u[:, j:] * s[j:]) @ vt[j:]
        tops = [_largest(rng.permuted(rest, axis=0)) for _ in range(repeats)]
        limits[j] = np.quantile(tops, quantile) * d / (d - j)
        if values[j] <= limits[j]:
            return j, values, limits
    return rank, values, limits


def _largest(x: Array) -> float:
    """The largest eigenvalue of xᵀx, on the smaller side; x keeps its column means of zero."""
    gram = x.T @ x if x.shape[0] > x.shape[1] else x @ x.T
    last = len(gram) - 1
    return float(linalg.eigvalsh(gram, subset_by_index=[last, last])[0])
