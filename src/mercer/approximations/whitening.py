"""Whitening: W with W Wᵀ = k(Z, Z)⁻¹, so that k(x, Z) W are coordinates in the span of φ(Z).

The core k(Z, Z) is small. It is made and taken apart in float64 also for rows in float32, whose numbers
float64 holds exactly: rounding in the core would be amplified by its condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError, ZeroVarianceError
from mercer.approximations.landmarks import require_lengths

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel

EPS = float(np.finfo(np.float64).eps)


def core_matrix(kernel: Kernel, points: Rows) -> Array:  # (m, d) -> (m, m)
    """k(Z, Z) in float64, with the diagonal that distances only nearly give."""
    z = points.astype(np.float64)
    lengths = kernel.tile_diag(z)
    require_lengths(lengths)
    core = kernel.tile(z, z)
    np.fill_diagonal(core, lengths)
    return core


def cross_matrix(kernel: Kernel, x: Rows, points: Rows) -> Array:  # (p, d), (m, d) -> (p, m)
    """k(X, Z) in float64."""
    return kernel.tile(x.astype(np.float64), points.astype(np.float64))


def eigen_whitening(core: Array, dtype: np.dtype[Any]) -> Array:  # (m, m) -> (m, r)
    """UΛ^(-1/2) over the eigenvalues of the core above rounding: W Wᵀ = k(Z, Z)⁺.

    Along an eigenvector of value λ features are about √λ long, and their rounding, in the dtype of the
    rows, about eps √(m/λ) max k(z, z). The cut leaves the directions in which the first is the larger.
    """
    values, vectors = np.linalg.eigh(core)
    largest = float(np.max(np.diagonal(core)))
    noise = 10.0 * float(np.finfo(dtype).eps) * np.sqrt(len(core)) * largest
    cut = max(noise, len(core) * EPS * float(values[-1]))
    if values[0] < -max(cut, len(core) * float(np.finfo(dtype).eps) * float(values[-1])):
        msg = (
            f"The kernel is not positive semi-definite: among the landmarks it has the eigenvalue "
            f"{values[0]:.3g} beside a largest of {values[-1]:.3g}, so there is no low-rank bound. "
            "`mercer.check_kernel` shows a witness; use a valid kernel, or approximation=None."
        )
        raise KernelError(msg)
    keep = values > cut
    if not np.any(keep):
        msg = (
            "The landmarks have no length in feature space: k(z, z) = 0 for each of them, so they show "
            "nothing of the data, which may have zero variance. Check that the rows are not all zero, or "
            "use RPCholesky, which never draws such rows."
        )
        raise ZeroVarianceError(msg)
    return vectors[:, keep][:, ::-1] / np.sqrt(values[keep][::-1])


def extended(whiten: Array, inside: Array, lower: Array) -> Array:
    """W of the Cholesky factor [[L, 0], [B, C]], from W = L⁻ᵀ, B and C.

    The inverse transpose is [[W, -W Bᵀ C⁻ᵀ], [0, C⁻ᵀ]]: what was there stays as it was.
    """
    m, a = len(whiten), len(lower)
    fresh = np.linalg.inv(lower).T  # (a, a)
    whole = np.zeros((m + a, m + a))
    whole[:m, :m] = whiten
    whole[:m, m:] = -whiten @ (inside.T @ fresh)
    whole[m:, m:] = np.triu(fresh)
    return whole
