"""That no eigenvalue was missed: proofs for a Lanczos run, the cheap one first.

A Krylov space from one vector holds one copy of a repeated eigenvalue, and no eigenvector that is orthogonal
to it: residuals don't show the others. k pairs are the largest when no more than k eigenvalues lie above the
least of them, and those are counted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from mercer._core.types import Array
from mercer.engine.base import FLOAT32, FLOAT64
from mercer.solvers.basis import EPS

if TYPE_CHECKING:
    from mercer.solvers.lanczos import LanczosRun

GEMM = {FLOAT32: linalg.blas.sgemm, FLOAT64: linalg.blas.dgemm}
POTRF = {FLOAT32: linalg.lapack.spotrf, FLOAT64: linalg.lapack.dpotrf}
SINGLE = float(np.finfo(FLOAT32).eps)
IN_SINGLE = 1e-15, 1e15  # matrices in this range stay in that of float32
TINY = 1e-280  # a pivot of no sign counts as negative
LOW = 0.85  # of the least eigenvalue found: a bound that low leaves room for the coupling


@dataclass(frozen=True)
class Moments:
    """The sum and the sum of squares of the eigenvalues of A = P B P, P = I - FᵀF, on the image of P.

    They are the trace and the squared Frobenius norm, n² operations, in which no eigenvalue is missing.
    """

    count: int  # of eigenvalues: n less the rows of F
    trace: float
    squares: float
    norm: float  # ‖B‖, Frobenius: what rounding is relative to
    noise: float | None  # ‖E‖, Frobenius, where A + E has no negative eigenvalue; None: not known

    @classmethod
    def of(cls, matrix: Array, fixed: Array, noise: float | None = None) -> Moments:
        """Row by row: sums of n terms, which are off by n units at most, whatever the order."""
        rows = np.vecdot(matrix, matrix)  # (n,)
        products = fixed @ matrix  # (f, n)
        inside = products @ fixed.T
        norm = float(rows.sum())
        squares = norm - 2.0 * float(np.sum(products**2)) + float(np.sum(inside**2))
        trace = float(np.trace(matrix) - np.trace(inside))
        return cls(len(matrix) - len(fixed), trace, squares, math.sqrt(norm), noise)

    def less(self, alpha: Array, beta: Array, times: float = 1.0) -> Moments:
        """Those of C, where A is [T, Mᵀ; M, C] with T tridiagonal and one entry, the last β, in M.

        tr C = tr A - tr T and ‖C‖² = ‖A‖² - ‖T‖² - 2β².
        """
        gone = float(alpha @ alpha + 2.0 * beta @ beta)
        count, trace = int(self.count - times * len(alpha)), self.trace - times * float(alpha.sum())
        return Moments(count, trace, self.squares - times * gone, self.norm, self.noise)

    def largest(self, error: float = 0.0, size: int = 0) -> float:
        """An upper bound on the largest eigenvalue; T, of that size, is off by `error` (Frobenius).

        p numbers of mean μ and variance s² are at most μ + s√(p - 1) (Samuelson 1968; for eigenvalues,
        Wolkowicz & Styan 1980). Where none is negative, the trace is a bound without cancellation: with
        A + E positive semi-definite, λ₁(C) ≤ tr(C + E) + ‖E‖ ≤ tr C + (√p + 1)‖E‖.
        """
        p = self.count
        if p <= 0:
            return -math.inf
        # ‖T‖ and β are at most ‖B‖. Half of each is for the sums over all of B, a few n units of it.
        trace, squares = 8.0 * math.sqrt(size) * error, 8.0 * error * self.norm
        mean, off = self.trace / p, trace / p
        variance = (self.squares + squares) / p - max(abs(mean) - off, 0.0) ** 2
        bound = mean + off + math.sqrt((p - 1) * max(variance, 0.0))
        if self.noise is None:
            return bound
        return min(bound, self.trace + trace + (math.sqrt(p) + 1.0) * self.noise)


# ── by moments ──────────────────────────────────────────────────────────────
def counted(run: LanczosRun, least: float, k: int, moments: Moments) -> bool:
    """Whether no more than k eigenvalues of A lie above `least`, from its moments.

    In the basis V of a run and any basis of what it leaves, A is [T, Mᵀ; M, C], where M has one non-zero
    entry, the last β. Let c bound the eigenvalues of C, and c < σ. Then σ - C is positive definite, and as
    many eigenvalues of A lie above σ as of T + Mᵀ(σ - C)⁻¹M (Haynsworth 1968). As (σ - C)⁻¹ ≤ 1/(σ - c),
    that is at most T with β²/(σ - c) added to its last entry: a tridiagonal matrix, whose eigenvalues above
    σ are counted by the signs of the pivots of its factor (Sylvester).

    Rounding: a product with B, and what takes off its part along the basis, is off by n units of ‖B‖
    (Frobenius) at most. Where the rows are `loss` away from orthonormal ones, the residual of
    A Vᵀ = VᵀT + ... has columns larger by some loss‖B‖. So T and M are off by `error` at most, in the
    Frobenius norm, and by Weyl each eigenvalue by twice that.
    """
    size, n = run.size, len(run.matrix)
    alpha, beta = run.alpha[:size], run.beta[:size]
    left = moments.less(alpha, beta)
    if not left.largest() < least:  # NaN neither
        return False
    rows = run.basis[: min(run.row + 1, n)]  # F, V and the one that is open
    gram = rows @ rows.T
    gram.flat[:: len(gram) + 1] -= 1.0
    loss = math.sqrt(float(np.sum(gram**2)))
    error = math.sqrt(size) * 4.0 * (n * EPS + loss) * moments.norm
    sigma, above = least - 2.0 * error, left.largest(error, size)
    if not above < sigma:
        return False
    raised = alpha.tolist()
    raised[-1] += (1.0 + 8.0 * EPS) * float(beta[-1]) ** 2 / (sigma - above)
    return eigenvalues_above(sigma, raised, beta.tolist()) <= k


def steps_to_count(run: LanczosRun, least: float, moments: Moments, most: int) -> int:
    """After how many more steps the bound should be low enough, if each takes off what the last did.

    0 where that is too many, or where k cuts a cluster in two: the bound is low enough, and the count is not.
    """
    alpha, beta = run.alpha[: run.size], run.beta[: run.size]
    left, last = moments.less(alpha, beta), slice(-1 - run.size // 8, None)
    a, b = alpha[last], beta[last]
    if left.largest() < LOW * least:
        return 0
    for more in (most // 4, most // 2, most):
        if more > 0 and left.less(a, b, more / len(a)).largest() < LOW * least:
            return more
    return 0


def eigenvalues_above(sigma: float, alpha: list[float], beta: list[float]) -> int:
    """How many eigenvalues of a tridiagonal matrix lie above σ, by the signs of pivots of σ - T.

    The count is right for a matrix whose entries differ from these by units of rounding (Kahan 1966).
    """
    count, pivot, square = 0, 1.0, 0.0
    for a, b in zip(alpha, beta, strict=True):
        pivot = sigma - a - square / pivot
        if pivot <= TINY:
            count, pivot = count + 1, min(pivot, -TINY)
        square = b * b
    return count


# ── by a factor ─────────────────────────────────────────────────────────────
def factored(run: LanczosRun, values: Array, u: Array, tol: float) -> bool:  # (k,), (n, k)
    """Whether no other eigenvalue is larger than the least of these: decided in any case, in O(n³/3).

    σI - A with the pairs moved out of its way is positive definite when, and only when, nothing else lies
    above σ, and its Cholesky factor shows that (Sylvester's law). One in float32 takes half as long, and
    shows it for a σ lowered by its rounding: where something lies that near below, T shows it or it fails.
    """
    matrix, size, n = run.matrix, run.scale, len(run.matrix)
    largest, least = float(max(matrix.max(), -matrix.min())), float(values[-1])
    # What the factor, and the entries that it is made of, are rounded to.
    rounded = 8.0 * n * size + 4.0 * n * largest  # units
    lowered = least - SINGLE * rounded
    if IN_SINGLE[0] < size and max(size, largest) < IN_SINGLE[1]:
        alpha, beta = run.alpha[: run.size].tolist(), run.beta[: run.size].tolist()
        none_between = eigenvalues_above(lowered, alpha, beta) <= len(values)
        if none_between and _definite(run, values, u, lowered, FLOAT32):
            return True
    sigma = least + max(tol * size + 4.0 * n * EPS * largest, EPS * rounded)
    return _definite(run, values, u, sigma, FLOAT64)


def _definite(run: LanczosRun, values: Array, u: Array, sigma: float, dtype: np.dtype[Any]) -> bool:
    """Whether σI - A, with F and the pairs at the eigenvalue `run.scale`, has a Cholesky factor."""
    matrix, fixed, size, n = run.matrix, run.fixed, run.scale, len(run.matrix)
    # P B P = B - FᵀH - HᵀF
    products = fixed @ matrix  # (f, n)
    half = products - 0.5 * (products @ fixed.T - (size - sigma) * np.eye(len(fixed))) @ fixed
    left = np.vstack([fixed, half, (u * (values - sigma + size)).T]).astype(dtype, copy=False)
    right = np.vstack([half, fixed, u.T]).astype(dtype, copy=False)
    apart = matrix.astype(dtype)  # (n, n); symmetric, and BLAS has its transpose
    apart = GEMM[dtype](1.0, right.T, left.T, beta=-1.0, c=apart.T, overwrite_c=1, trans_b=1)
    apart.T.flat[:: n + 1] += sigma
    return not POTRF[dtype](apart, lower=1, clean=0, overwrite_a=1)[1]
