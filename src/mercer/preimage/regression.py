"""Kernel ridge regression with weights, and what it misses of rows that are left out, in closed form.

X̂(t) = Σ_i a_i κ(t, t_i) with (κ + αW⁻¹)a = x: a row of weight w counts as w rows do. With
G = (κ + αW⁻¹)⁻¹ the map that is learned without row i misses a_i/G_ii of it. A row is left out with all of
its weight, so no copy of it is left behind.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.linalg import lapack

from mercer._core.types import Array, Indices
from mercer.engine.native.bindings import Beside, LeftOut, Library, address, aligned
from mercer.engine.native.matrices import Reflections
from mercer.engine.pairwise import squared_norms

ALL = slice(None)


def weighted(kappa: Array, weights: Array) -> Array:  # (n, n), (n,) -> (n, 1)
    """√w, which both sides of κ are multiplied by in place."""
    roots = np.sqrt(weights)[:, None]
    if np.any(roots != 1.0):
        kappa *= roots
        kappa *= roots.T
    return roots


@dataclass(frozen=True, repr=False)
class Spectrum:
    """√W κ √W = U diag(λ) Uᵀ, which serves every penalty: G = √W (U (λ + α)⁻¹ Uᵀ + (I - UUᵀ)/α) √W."""

    left: Array  # (n, r) U; r = n, or fewer where κ has no more
    values: Array  # (r,) λ, none negative
    roots: Array  # (n, 1) √w

    @classmethod
    def of_kernel(cls, kappa: Array, weights: Array) -> Spectrum:
        """From κ, (n, n), which is overwritten."""
        roots = weighted(kappa, weights)
        # Symmetric: its transpose has the order of columns that LAPACK works on, and no copy is made.
        values, left, failed = lapack.dsyevd(kappa.T, lower=1, overwrite_a=1)
        if failed:
            msg = (
                f"The eigenvalues of a latent kernel matrix of {len(kappa)} rows did not converge."
            )
            raise np.linalg.LinAlgError(msg)
        return cls(left, np.maximum(values, 0.0), roots)

    @classmethod
    def of_features(cls, features: Array, weights: Array) -> Spectrum:
        """From F, (n, r), with FFᵀ = κ; its singular values lose no digits, as those of κ would."""
        n, r = features.shape
        if r >= n:
            return cls.of_kernel(features @ features.T, weights)
        roots = np.sqrt(weights)[:, None]
        left, sizes, _ = np.linalg.svd(roots * features, full_matrices=False)
        return cls(left, sizes**2, roots)

    def seen(self, values: Array) -> Array:  # (p, n) -> (p, r)
        """κ√W U of κ at other scores, whose rows lie in the span of √W U."""
        return np.asarray((values * self.roots[:, 0]) @ self.left)

    def of(self, x: Array) -> Regression:  # (n, d)
        """The regression onto these rows."""
        x = self.roots * x
        inside = self.left.T @ x
        if len(self.left) == len(self.values):  # nothing is beside U
            return SpectrumRegression(self, inside, None)
        outside = x - self.left @ inside
        # Beside U also in the digits that a small penalty magnifies.
        outside -= self.left @ (self.left.T @ outside)
        return SpectrumRegression(self, inside, outside)

    def divided(self, alpha: float, columns: Array) -> Array:  # (r, p) -> (r, p)
        """(λ + α)⁻¹ times columns."""
        return np.asarray(columns / (self.values + alpha)[:, None])


@dataclass(frozen=True, repr=False)
class Regression:
    """Maps to the same rows, one for each penalty.

    A row is what lies in the span of U, which the penalty shrinks, and what lies beside it. There mostly
    is nothing but the error, and no difference of large numbers.
    """

    own: Decomposition
    inside: Array  # (r, d) Uᵀ√W x
    outside: Array | None  # (n, d) √W x - U Uᵀ√W x; None: zero

    def left_out_errors(self, alphas: Array) -> Array:  # (p,) -> (p,)
        """Σ_i w_i ‖a_i/G_ii‖² for each penalty: the √w in a_i and the w in G_ii leave no weight.

        Infinite for a penalty that is below rounding.
        """
        raise NotImplementedError

    def coef(self, alpha: float) -> Array:  # (n, d)
        """The coefficients a."""
        coef = self.own.left @ self.own.divided(alpha, self.inside)
        if self.outside is not None:
            coef += self.outside / alpha
        return np.asarray(self.own.roots * coef)

    def left_out(self, alpha: float, some: Indices | slice = ALL) -> Array:  # (p, d)
        """a_i/G_ii."""
        _, coef, diag = self._rows(alpha, some)
        return np.asarray(coef / diag[:, None])

    def moved(self, alpha: float, some: Indices, seen: Array) -> Array:  # (p,), (p, r) -> (p, d)
        """The values of the map learned without row i at scores near those of the row.

        seen : what the decomposition has `seen` of κ at the moved scores. Without row i the coefficients
        lose G e_i a_i/G_ii.
        """
        inverse, coef, diag = self._rows(alpha, some)
        lost = np.einsum("pr,pr->p", seen, inverse) * self.own.roots[some, 0] / diag
        return np.asarray(seen @ self.own.divided(alpha, self.inside) - lost[:, None] * coef)

    def _rows(self, alpha: float, some: Indices | slice) -> tuple[Array, Array, Array]:
        """U(M + α)⁻¹ of some rows, (p, r), their coefficients, (p, d), and G_ii, (p,)."""
        left, roots = np.ascontiguousarray(self.own.left[some]), self.own.roots[some]
        inverse = self.own.divided(alpha, left.T).T
        coef, diag = inverse @ self.inside, np.einsum("pr,pr->p", left, inverse)
        if self.outside is not None:
            coef += self.outside[some] / alpha
            diag += beside(left) / alpha
        return inverse, roots * coef, np.asarray(roots[:, 0] ** 2 * diag)


class SpectrumRegression(Regression):
    """A regression whose errors for many penalties are one product."""

    own: Spectrum

    def left_out_errors(self, alphas: Array) -> Array:  # (p,) -> (p,)
        own, (r, d) = self.own, self.inside.shape
        inverse = 1.0 / (own.values[:, None] + alphas)  # (r, p)
        shrunk = inverse[:, :, None] * self.inside[:, None, :]  # (r, p, d)
        coef = (own.left @ shrunk.reshape(r, -1)).reshape(-1, len(alphas), d)
        squares, others = self._squares
        diag = squares @ inverse  # (n, p) G_ii/w_i
        if self.outside is not None:
            coef += self.outside[:, None, :] / alphas[:, None]
            diag += others[:, None] / alphas
        return np.asarray((np.einsum("npd,npd->np", coef, coef) / diag**2).sum(axis=0))

    @cached_property
    def _squares(self) -> tuple[Array, Array]:  # (n, r), (n,)
        """The squares of U, and the diagonal of I - UUᵀ: the same for every penalty."""
        return self.own.left**2, beside(self.own.left)


def beside(left: Array) -> Array:  # (n, r) -> (n,)
    """The diagonal of I - UUᵀ."""
    return np.maximum(1.0 - squared_norms(left), 0.0)


def solved(kappa: Array, x: Array, penalties: Array, few: int) -> tuple[Array, Array] | None:
    """a of one map, by Cholesky, and what is missed of each of the last `few` rows; overwrites κ.

    None where rounding leaves no factor. G = L⁻ᵀL⁻¹ with the lower L of κ + diag(penalties), and the last
    columns of L⁻¹ are those of the inverse of its last block: of the last rows, G_ii costs nearly nothing.
    """
    kappa.flat[:: len(kappa) + 1] += penalties
    factor, failed = lapack.dpotrf(kappa.T, lower=1, clean=0, overwrite_a=1)  # in place, as above
    if failed:
        return None
    coef = lapack.dpotrs(factor, x, lower=1)[0]
    last = lapack.dtrtri(factor[-few:, -few:], lower=1)[0]
    return coef, coef[-few:] / squared_norms(np.tril(last).T)[:, None]


# ── half of a decomposition ─────────────────────────────────────────────────
# √W κ √W = Q T Qᵀ, with an orthogonal Q and a tridiagonal T, is what every decomposition begins with; the
# eigenvectors cost as much again. For a penalty α, T + α = L D Lᵀ takes n steps, and the rows of L⁻¹Qᵀ, each
# made of the one before, tell the diagonal of G and the coefficients. Such n² steps are not a product of
# matrices: the compiled library makes them, and where there is none, `Spectrum` says the same.
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
        if n <= COMPILED_ROWS and lanes >= 4:  # a core's cache holds the matrix: it needs no panels
            form = Reflections(native, kappa, turned)
            # Without the room for the reflections.
            diagonal, off = form.diagonal.copy(), form.off[:-1].copy()
        else:
            diagonal, off = _by_lapack(kappa, turned)
        return cls(native, turned, diagonal, off, roots)

    @property
    def left(self) -> Array:  # (n, n) Q
        return self.turned[:, : len(self.diagonal)].T

    def seen(self, values: Array) -> Array:  # (p, n) -> (p, n)
        return np.asarray((values * self.roots[:, 0]) @ self.left)

    def of(self, x: Array) -> Regression:  # (n, d)
        return TridiagonalRegression(self, self.left.T @ (self.roots * x), None)

    def divided(self, alpha: float, columns: Array) -> Array:  # (n, p) -> (n, p)
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


def _by_lapack(kappa: Array, turned: Array) -> tuple[Array, Array]:
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
    """A regression whose errors the compiled library sums up."""

    own: Tridiagonal

    def left_out_errors(self, alphas: Array) -> Array:  # (p,) -> (p,)
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


# √W κ √W = U M Uᵀ with orthonormal columns U and an M to whose multiples of I it is easily added.
Decomposition: TypeAlias = Spectrum | Tridiagonal
