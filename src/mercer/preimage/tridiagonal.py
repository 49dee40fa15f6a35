"""The tridiagonal form of a latent kernel matrix: half of its decomposition, and all that penalties need.

√W κ √W = Q T Qᵀ, with an orthogonal Q and a tridiagonal T, is what every decomposition begins with; the
eigenvectors cost as much again. For a penalty α, T + α = L D Lᵀ takes n steps, and the rows of L⁻¹Qᵀ, each
made of the one before, tell the diagonal of G and the coefficients. Such n² steps are no product of matrices:
they are the compiled library's, and where there is none, `Spectrum` says the same.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from mercer.engine.native.bindings import Beside, LeftOut, Library, Reduction, address, aligned
from mercer.preimage.regression import Regression, weighted

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices

PANEL = 32  # columns that LAPACK works on at a time
# Up to these the library is quicker than LAPACK, with vectors of four numbers or more.
COMPILED_ROWS = 240
LEAST_ROWS = 8  # of fewer the eigenvectors cost nothing


@dataclass(frozen=True, repr=False)
class Tridiagonal:
    """√W κ √W = Q T Qᵀ, for penalties that rounding leaves in κ: G = √W Q (T + α)⁻¹ Qᵀ √W."""

    native: Library
    turned: Array  # (n, stride) Qᵀ, and zeros beyond its n columns
    diagonal: Array  # (n,) of T
    off: Array  # (n - 1,) beside it
    roots: Array  # (n, 1) √w
    # Penalties, and D and what is below the diagonal of L for each: (p,), (2, p, n).
    factors: list[tuple[Array, Array]] = field(default_factory=list)

    @classmethod
    def of_kernel(cls, kappa: Array, weights: Array, native: Library) -> Tridiagonal:
        """From κ, (n, n), which is overwritten."""
        roots, n = weighted(kappa, weights), len(kappa)
        lanes = native.vector_bytes // 8
        turned = aligned((n, -(-n // lanes) * lanes), np.float64)
        reduced = _compiled if n <= COMPILED_ROWS and lanes >= 4 else _by_lapack
        diagonal, off = reduced(kappa, turned, native)
        return cls(native, turned, diagonal, off, roots)

    @property
    def left(self) -> Array:  # (n, n) Q
        return self.turned[:, : len(self.diagonal)].T

    def seen(self, values: Array) -> Array:  # (p, n) -> (p, n)
        """κ√W Q of κ at other scores."""
        return np.asarray((values * self.roots[:, 0]) @ self.left)

    def of(self, x: Array) -> Regression:  # (n, d)
        """The regression onto these rows."""
        return TridiagonalRegression(self, self.left.T @ (self.roots * x), None)

    def divided(self, alpha: float, columns: Array) -> Array:  # (n, p) -> (n, p)
        """(T + α)⁻¹ times columns."""
        return np.asarray(lapack.dpttrs(*self.factor(alpha), columns)[0])

    def factor(self, alpha: float) -> tuple[Array, Array]:  # (n,), (n - 1,)
        """D, and what is below the diagonal of L: the very ones that the errors of a penalty came from."""
        for alphas, (pivots, below) in self.factors:
            for known in np.flatnonzero(alphas == alpha):
                return pivots[known], below[known, :-1]
        pivots, below, failed = lapack.dpttrf(self.diagonal + alpha, self.off)
        if failed:
            msg = f"A penalty of {alpha:.3g} is below the rounding of a latent kernel matrix."
            raise np.linalg.LinAlgError(msg)
        return pivots, below


def _compiled(kappa: Array, turned: Array, native: Library) -> tuple[Array, Array]:
    """T, and Qᵀ into `turned`: a matrix that stays in a core's cache needs no panels."""
    n, stride = turned.shape
    a, room = aligned((n, stride), np.float64), aligned((3, stride), np.float64)
    a[:, :n] = kappa
    a[:, n:] = 0.0
    diagonal, off = np.empty(n), np.empty(n - 1)
    job = Reduction(
        a=address(a),
        n=n,
        stride=stride,
        diagonal=address(diagonal),
        off=address(off),
        q=address(turned),
        room=address(room),
    )
    native.reduce(ctypes.byref(job))
    return diagonal, off


def _by_lapack(kappa: Array, turned: Array, native: Library) -> tuple[Array, Array]:  # noqa: ARG001
    """T, and Qᵀ into `turned`; κ is overwritten."""
    n = len(kappa)
    form, diagonal, off, scales, _ = lapack.dsytrd(kappa.T, lower=1, overwrite_a=1, lwork=PANEL * n)
    # Q leaves the first row alone: reflection j, of column j - 1, begins in row j. Rows of zeros stay so.
    turned[0] = 0.0
    turned[:, 0] = 0.0
    turned[:, n:] = 0.0
    turned[1:, 1:n] = form[1:, :-1].T
    lapack.dorgqr(turned.T, np.append(0.0, scales), lwork=PANEL * n, overwrite_a=1)
    return diagonal, off


class TridiagonalRegression(Regression):
    """With errors that the compiled library sums up."""

    own: Tridiagonal

    def left_out_errors(self, alphas: Array) -> Array:  # (p,) -> (p,)
        """Σ_i w_i ‖a_i/G_ii‖² for each penalty; inf where rounding leaves no factor of T + α."""
        own, (job, _) = self.own, self._job
        alphas, errors = np.ascontiguousarray(alphas), np.empty(len(alphas))
        factors = np.empty((2, len(alphas), job.n))
        job.alphas, job.errors, job.penalties = address(alphas), address(errors), len(alphas)
        job.pivots = address(factors)
        job.below = job.pivots + factors.strides[0]
        own.native.left_out(ctypes.byref(job))
        own.factors.append((alphas, factors))
        return errors

    def moved(self, alpha: float, some: Indices, seen: Array) -> Array:  # (p,), (p, n) -> (p, d)
        """What the map learned without row i says at scores near its own."""
        own, (job, _) = self.own, self._job
        pivots, below = own.factor(alpha)
        q, looked = self._columns(own.left[some]), self._columns(seen)
        said = aligned((job.columns, q.shape[1]), np.float64)
        task = Beside(
            q=address(q),
            seen=address(looked),
            n=job.n,
            stride=q.shape[1],
            pivots=address(pivots),
            below=address(below),
            x=job.x,
            columns=job.columns,
            inverse=job.inverse,
            targets=job.targets,
            said=address(said),
        )
        own.native.beside(ctypes.byref(task))
        return np.asarray(said[: self.inside.shape[1], : len(seen)].T)

    def _columns(self, rows: Array) -> Array:  # (p, n) -> (n, stride)
        """Rows as columns, the last of them again where a vector has room for more."""
        p, n = rows.shape
        lanes = self.own.native.vector_bytes // 8
        columns = aligned((n, -(-p // lanes) * lanes), np.float64)
        columns[:, :p] = rows.T
        columns[:, p:] = rows[-1:].T
        return columns

    @cached_property
    def _job(self) -> tuple[LeftOut, Array]:
        """All that is the same for every penalty, and the room that it points to: x, D⁻¹L⁻¹Qᵀx and D⁻¹."""
        own, (n, d) = self.own, self.inside.shape
        columns = -(-d // own.native.targets) * own.native.targets
        room = np.zeros((2 * columns + 1, n))
        room[:columns].reshape(n, columns)[:, :d] = self.inside
        job = LeftOut(
            q=address(own.turned),
            n=n,
            stride=own.turned.shape[1],
            diagonal=address(own.diagonal),
            off=address(own.off),
            x=address(room),
            columns=columns,
            targets=address(room[columns:]),
            inverse=address(room[-1]),
        )
        return job, room
