"""Lanczos, a vector at a time: the top k of a small matrix that is stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy import linalg

from mercer._core.observer import SILENT, Observer
from mercer._core.params import Constraints, Number, Whole
from mercer._core.public import public
from mercer._core.types import Array
from mercer.engine.native.bindings import compiled
from mercer.engine.native.matrices import CompiledSteps
from mercer.engine.threads import single_threaded_blas
from mercer.operators.base import SymmetricOperator
from mercer.solvers.base import EigenPairs, Solver, allowed_residuals, relative_residuals
from mercer.solvers.basis import EPS, ConvergenceSchedule
from mercer.solvers.dense import Lapack, tridiagonal_pairs
from mercer.solvers.krylov import LEAST_TOL
from mercer.solvers.missed import Moments, counted, factored, steps_to_count
from mercer.solvers.refine import rounding_floor

# Estimates of residuals below this, of λ₁, say nothing.
FLOOR = 100.0 * EPS
SQUARES = 1e-100, 1e100  # entries of a product whose squares are in range
SPENT = 10.0 * EPS  # what is left of a product, over the largest number of T, is rounding
# A Cholesky factor, in float32, takes as long as n/20 steps: half of them are spent to do without. More are
# lost where the bound falls more slowly than it did: 75 steps, and then the factor, for 20 of 1500 rows.
STEPS_OF_A_FACTOR = 40
BRISK_ROWS = 400  # up to these a look takes as long as several steps
SYMV = linalg.blas.dsymv  # reads half of the matrix; to look it up takes as long as a step


@public
@dataclass(repr=True)
class Lanczos(Solver):
    """Lanczos with full orthogonalisation and no restart, for a matrix that fits in memory.

    A step is a product with one vector, and costs little else. Where the basis would outgrow `max_basis`,
    or an eigenvalue turns out to be repeated, LAPACK finds the pairs. One product with the operator itself
    proves the residuals; the trace and the Frobenius norm of what the basis leaves, or a Cholesky factor,
    prove that no larger eigenvalue is missed.

    Parameters
    ----------
    tol : float, default=1e-13
        Largest residual ‖A u - λ u‖, relative to the largest eigenvalue.
    max_basis : int, optional
        Vectors at most, beyond which LAPACK is quicker; by default k + 60 and a third of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import StoredGram
    >>> matrix = np.diag(1.0 / np.arange(1, 301))
    >>> Lanczos()(StoredGram(matrix), 3, rng=np.random.default_rng(0)).values.round(8)
    array([1.        , 0.5       , 0.33333333])
    """

    tol: float = 1e-13
    max_basis: int | None = None

    constraints: ClassVar[Constraints] = {
        "tol": Number(LEAST_TOL, 1, ends="[)"),
        "max_basis": Whole(1, also=(None,)),
    }
    hints: ClassVar[Mapping[str, str]] = {
        "tol": "Rounding in float64 leaves residuals of about 1e-15; 1e-13 is usual."
    }

    def width(self, k: int, n: int) -> int:  # noqa: ARG002
        """Columns of a block."""
        return 1

    def products(self, k: int, n: int) -> int:
        """Products to expect of a typical run."""
        return min(2 * k + 16, self.room(k, n))

    def room(self, k: int, n: int) -> int:
        """Vectors of the basis at most: LAPACK takes about as long as so many steps."""
        return min(n, self.max_basis or k + 60 + n // 3)

    def __call__(
        self,
        operator: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        start: Array | None = None,
        observer: Observer = SILENT,
    ) -> EigenPairs:
        del start  # a sum of them is no better than a random vector
        self.check_params()
        k, n = min(k, operator.n), operator.n
        # Two libraries, NumPy's and SciPy's, take turns, and threads of either would spin beside the other.
        with single_threaded_blas(), np.errstate(under="ignore"):
            run = LanczosRun(*operator.unprojected(), room=self.room(k, n), rng=rng)
            found = None
            # The tridiagonal problem may be too much for its driver; there are others.
            with suppress(np.linalg.LinAlgError):
                found = self._found(run, k)
            if found is not None and self._complete(run, *found, operator.noise):
                pairs = self._proved(operator, *found) or self._proved(operator, *run.sharper(k))
                if pairs is not None:
                    observer.step(run.size + 1, None, "products", float(pairs.residuals.max()))
                    return replace(pairs, n_products=run.size + 1)
        pairs = Lapack(subset=True)(operator, k, rng=rng, observer=observer)
        return replace(pairs, n_products=run.size + pairs.n_products)

    def _proved(self, operator: SymmetricOperator, values: Array, u: Array) -> EigenPairs | None:
        """The pairs, if their residuals are what they may be."""
        products = operator.matmat(u)
        allowed = allowed_residuals(values, self.tol, rounding_floor(operator, values))
        if np.all(relative_residuals(values, u, products) <= allowed):
            return EigenPairs.largest(values, u, products, len(values))
        return None

    def _found(self, run: LanczosRun, k: int) -> tuple[Array, Array] | None:
        """Ritz pairs once their residuals are small; None where LAPACK is quicker."""
        room, brisk = run.room, len(run.matrix) <= BRISK_ROWS
        first = max(12, 3 * k // 2)
        schedule = ConvergenceSchedule(self.tol, room, first=first, thrifty=True, brisk=brisk)
        while True:
            run.extend(min(max(schedule.due, k), room))
            if run.size < k:
                return None
            values, coordinates = run.ritz(k, k)  # the last is the last to settle
            excess = self._excess(run, float(values[0]), float(coordinates[-1, 0]))
            if excess <= 1.0:
                values, coordinates = run.ritz(1, k)
                excess = max(map(partial(self._excess, run), values, coordinates[-1]))
            if excess <= 1.0:
                return values, run.vectors(coordinates)
            schedule.saw(run.size, self.tol * excess)
            if run.size >= room or (2 * run.size > room and schedule.expected > 2 * room):
                return None

    def _complete(self, run: LanczosRun, values: Array, u: Array, noise: float | None) -> bool:
        """Whether no larger eigenvalue was missed: by moments, after more steps where a few will do."""
        moments, least, k = Moments.of(run.matrix, run.fixed, noise), float(values[-1]), len(values)
        end = min(run.size + len(run.matrix) // STEPS_OF_A_FACTOR, run.room)
        while not counted(run, least, k, moments):
            more = steps_to_count(run, least, moments, end - run.size)
            if more == 0:
                return factored(run, values, u, self.tol)
            run.extend(run.size + more)
        return True

    def _excess(self, run: LanczosRun, value: float, end: float) -> float:
        """The residual of a Ritz pair, by its value and last coordinate, over what it may be."""
        # `allowed_residuals` of one pair, as a number: arrays would take longer than some steps.
        allowed = max(min(self.tol, 1e-3 * abs(value) / run.scale), FLOOR)
        return float(run.coupling * abs(end) / run.scale / allowed)


class LanczosRun:
    """Orthonormal rows V and the tridiagonal T = V A Vᵀ, with A = P B P for P = I - FᵀF.

    The basis begins with F, so that orthogonalisation is the projection. What a product has along the basis
    is taken off twice, which is enough (Kahan): B may be large along F.
    """

    def __init__(self, matrix: Array, fixed: Array, *, room: int, rng: np.random.Generator) -> None:
        self.matrix, self.fixed = np.ascontiguousarray(matrix), fixed  # (n, n), (f, n)
        self.rng = rng
        n, f = len(matrix), len(fixed)
        self.room = min(room, n - f)
        self.basis = np.empty((f + self.room + 1, n))
        self.basis[:f] = fixed
        self.size = 0  # vectors of the Krylov space, and products
        self.scale = 0.0  # a lower bound on the largest |eigenvalue|
        self.alpha, self.beta = np.empty((2, len(self.basis)))  # the diagonal of T, and beside it
        self.row = f - 1  # of the basis, the last one that counts
        self._open()
        self._compiled = None
        if (native := compiled()) is not None:
            where = self.matrix, self.basis, (self.alpha, self.beta)
            self._compiled = CompiledSteps(native, *where, fixed=f, within=SQUARES, spent=SPENT).run

    @property
    def coupling(self) -> float:
        """The entry of T between the last vector and the open one."""
        return float(self.beta[self.size - 1])

    def _open(self) -> None:
        """A random vector outside of the basis, where there is one."""
        self.row += 1
        if self.row < len(self.matrix):
            rows, w = self.basis[: self.row], self.rng.standard_normal(len(self.matrix))
            for _ in range(2):
                w -= rows.dot(w).dot(rows)
                w /= math.sqrt(w.dot(w))
            self.basis[self.row] = w

    def extend(self, size: int) -> None:
        """Steps until T is so large, the basis spans everything, or the first product's squares overflow."""
        while self.size < size and self.row < len(self.matrix):
            before = self.size
            if (run := self._compiled) is None:
                spent = self._step()
            else:
                self.size, self.row, self.scale, spent = run(self.size, self.row, self.scale, size)
            if self.size == before:
                return  # LAPACK knows how to scale it
            if spent:  # the space is invariant: what is left is looked for outside
                self._open()

    def _step(self) -> bool:
        """One step by BLAS; whether the space is spent."""
        rows = self.basis[: self.row + 1]
        w = SYMV(1.0, self.matrix.T, rows[-1])  # as BLAS has it, and no copy
        if not (self.size or SQUARES[0] < np.abs(w).max() < SQUARES[1]):
            return False
        along = rows.dot(w)
        w -= along.dot(rows)
        w -= rows.dot(w).dot(rows)
        length = math.sqrt(w.dot(w))
        self.scale = max(self.scale, abs(along[-1]), length)
        spent = length <= SPENT * self.scale
        self.alpha[self.size], self.beta[self.size] = along[-1], 0.0 if spent else length
        self.size += 1
        if not spent:
            self.row += 1
            np.multiply(w, 1.0 / length, out=self.basis[self.row])
        return spent

    def ritz(self, first: int, last: int) -> tuple[Array, Array]:
        """Ritz values, the largest being the first, and their coordinates in V."""
        found = tridiagonal_pairs(self.alpha[: self.size], self.beta[: self.size], first, last)
        if found is None:
            msg = "LAPACK found no eigenvalues of a tridiagonal matrix."
            raise np.linalg.LinAlgError(msg)
        values, coordinates = found
        return values[::-1], coordinates[:, ::-1]

    def sharper(self, k: int) -> tuple[Array, Array]:
        """The k largest Ritz pairs by a driver that takes longer and is more exact."""
        # The lower half is read.
        inside = np.diag(self.alpha[: self.size]) + np.diag(self.beta[: self.size - 1], -1)
        values, coordinates = np.linalg.eigh(inside)
        return values[::-1][:k], self.vectors(coordinates[:, ::-1][:, :k])

    def vectors(self, coordinates: Array) -> Array:  # (size, k) -> (n, k)
        """Vᵀ s."""
        first = len(self.fixed)
        return self.basis[first : first + self.size].T @ coordinates
