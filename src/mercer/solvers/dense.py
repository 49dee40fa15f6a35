"""LAPACK on the whole matrix: for small n, and for many components."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import linalg

from mercer._core.observer import SILENT, Observer
from mercer._core.public import public
from mercer._core.types import Array
from mercer.engine.native.bindings import compiled
from mercer.engine.native.matrices import Reflections
from mercer.engine.threads import LONE_DOT, single_threaded_blas
from mercer.operators.base import SymmetricOperator
from mercer.solvers.base import EigenPairs, Solver, Status

# NumPy and SciPy call the same LAPACK routine. NumPy's needs one more copy of the matrix, but shares its BLAS
# threads with the products around it, which counts while the matrix is small.
NUMPY_ROWS = 2000
# Up to these a thread is enough. SciPy's BLAS has threads beside those of NumPy's: on 16 cores the subset
# driver took 150 ms for 500 rows, and 12 ms on one thread. For all pairs that holds up to half as many rows.
LONE_ROWS = 512
# Up to these the matrix stays in a core's cache, and compiled reflections take half as long as LAPACK's
# driver, whose tridiagonal solver for a part of the spectrum is not its quick one.
REFLECTED_ROWS = 300
ORTHOGONAL = 1e-12  # coordinates of the quick solver that are less orthogonal are not used
IN_RANGE = 1e-100, 1e100  # sizes of a matrix whose squares are in range
STEMR = linalg.lapack.dstemr


@public
@dataclass(repr=True)
class Lapack(Solver):
    """All eigenpairs by divide and conquer, or a few by LAPACK's subset driver.

    A few of up to 300 rows are found between compiled reflections, by its solver for tridiagonal matrices.

    It is one call of LAPACK, which Python can't interrupt: Ctrl-C takes effect when the call has ended, which
    for all pairs of thousands of rows may be minutes later. `BlockKrylov` is interrupted between two tiles.

    Parameters
    ----------
    subset : bool, default=False
        Compute only the pairs asked for. Saves time for few components of a large matrix, but does
        not see the low end of the spectrum.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import StoredGram
    >>> pairs = Lapack()(StoredGram(np.diag([1.0, 3.0, 2.0])), 2, rng=np.random.default_rng(0))
    >>> pairs.values
    array([3., 2.])
    """

    subset: bool = False

    def __call__(
        self,
        operator: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        start: Array | None = None,
        observer: Observer = SILENT,
    ) -> EigenPairs:
        del rng, start  # nothing random, nothing to start from
        k = min(k, operator.n)
        return self._proved(operator, *self._solve(operator, k), k, observer)

    def by_driver(self, operator: SymmetricOperator, k: int) -> EigenPairs:
        """The same by LAPACK's own driver, which takes longer and leaves smaller residuals."""
        k = min(k, operator.n)
        return self._proved(operator, *self._solve(operator, k, reflects=False), k, SILENT)

    def reaching(
        self, operator: SymmetricOperator, share: float, *, observer: Observer = SILENT
    ) -> EigenPairs:
        """The largest eigenpairs that add up to a share of the trace, and one more; only they are proved."""
        values, vectors = self._solve(operator, operator.n)
        sums = np.cumsum(values[::-1], dtype=np.float64)
        k = min(int(np.argmax(sums >= share * sums[-1])) + 2, operator.n)
        return self._proved(operator, values, vectors, k, observer)

    def _proved(
        self, operator: SymmetricOperator, values: Array, vectors: Array, k: int, observer: Observer
    ) -> EigenPairs:
        """The last k of these pairs, with their products."""
        spectrum = values if len(values) == operator.n else None
        top, u = (a[..., ::-1][..., :k].astype(np.float64, copy=False) for a in (values, vectors))
        facts = {"n_products": 1, "spectrum": spectrum}
        pairs = EigenPairs.largest(top, u, operator.matmat(u), k, **facts)
        worst = float(pairs.residuals.max(initial=0.0))
        observer.step(1, 1, "products", worst)
        # LAPACK is exact on the matrix it was given; rounding in that matrix can still be too much.
        return replace(pairs, status=Status.STAGNATED) if worst > operator.eps**0.5 else pairs

    def _solve(
        self, operator: SymmetricOperator, k: int, *, reflects: bool = True
    ) -> tuple[Array, Array]:
        n, few = operator.n, self.subset and k < operator.n
        if few and reflects and n <= REFLECTED_ROWS:
            matrix, unit = _scaled(operator.dense())
            found = _reflected(matrix, k)
            if found is not None:
                return unit * found[0], found[1]
        lone = n <= (LONE_ROWS if few else LONE_ROWS // 2)
        with single_threaded_blas() if lone else nullcontext():
            found = _largest(*_scaled(operator.dense()), k) if few else None
            if found is not None:
                return found
            matrix, unit = _scaled(operator.dense())
            if n <= NUMPY_ROWS:
                values, vectors = np.linalg.eigh(matrix)
            else:
                values, vectors = linalg.eigh(matrix, overwrite_a=True, driver="evd")
            return values * unit, vectors


def _largest(matrix: Array, unit: float, k: int) -> tuple[Array, Array] | None:
    """The k largest pairs of unit times a symmetric matrix, which is overwritten; None where that fails."""
    n = len(matrix)
    driver, work, iwork = _subset_driver(matrix.dtype, n)
    # Symmetric: its transpose has the order of columns that LAPACK works on, and no copy is made.
    values, vectors, count, _, failed = driver(
        matrix.T, range="I", il=n - k + 1, iu=n, lower=1, lwork=work, liwork=iwork, overwrite_a=1
    )
    # Of repeated eigenvalues it may return fewer pairs than asked for and not say so.
    return (unit * values[:k], vectors[:, :k]) if count == k and not failed else None


def _reflected(matrix: Array, k: int) -> tuple[Array, Array] | None:
    """The k largest pairs by way of a tridiagonal matrix; None without the library, or where that fails."""
    if (native := compiled()) is None or matrix.dtype != np.float64:
        return None
    form = Reflections(native, matrix)
    found = tridiagonal_pairs(form.diagonal, form.off, 1, k)
    if found is None:
        return None
    values, coordinates = found
    gram = coordinates.T @ coordinates
    gram.flat[:: k + 1] -= 1.0
    if not np.vdot(gram, gram) < ORTHOGONAL**2:  # NaN neither
        return None
    return values, form.vectors(coordinates)


def tridiagonal_pairs(
    diagonal: Array, off: Array, first: int, last: int
) -> tuple[Array, Array] | None:
    """Eigenpairs of a tridiagonal matrix, ascending, the largest being the first; None where that fails.

    By relatively robust representations (Dhillon & Parlett 2004): vectors are orthogonal, as a rule, to some
    hundred units without being made so.
    """
    n, count, by_position = len(diagonal), last - first + 1, 2
    low, high = n - last + 1, n - first + 1
    own = off.copy()  # which is overwritten
    found, values, vectors, failed = STEMR(diagonal, own, by_position, 0.0, 0.0, low, high)
    return (values[:count], vectors[:, :count]) if found == count and not failed else None


def top_pairs(matrix: Array, k: int) -> tuple[Array, Array]:  # (m, m) float64
    """The k largest pairs of a small symmetric matrix in ascending order, or all: for projected problems."""
    m = len(matrix)
    if 5 * k <= m <= REFLECTED_ROWS:  # two thirds of the time of all, for 20 pairs of 160 rows
        size = math.sqrt(float(np.einsum("ij,ij->", matrix, matrix)))
        found = _reflected(matrix, k) if IN_RANGE[0] < size < IN_RANGE[1] else None
        if found is not None:
            return found
    return np.linalg.eigh(matrix)


@lru_cache(maxsize=256)
def _subset_driver(dtype: np.dtype[Any], n: int) -> tuple[Any, int, int]:
    """LAPACK's routine and the work space that it likes: to look them up takes as long as 50 rows."""
    driver, lengths = linalg.get_lapack_funcs(("syevr", "syevr_lwork"), dtype=dtype)
    work, iwork, _ = lengths(n, lower=1)
    return driver, int(work), int(iwork)


def _scaled(matrix: Array) -> tuple[Array, float]:
    """The matrix, in place, with entries near one: LAPACK loses digits on very small ones."""
    if matrix.size <= LONE_DOT:
        size = math.sqrt(np.vdot(matrix, matrix))  # between the largest entry and n times that
        if 1e-30 * len(matrix) < size < 1e30:
            return matrix, 1.0
    largest = max(matrix.max(initial=0.0), -matrix.min(initial=0.0))
    unit = float(2.0 ** np.frexp(largest)[1])  # a power of two: exact
    if 1e-30 < unit < 1e30:
        return matrix, 1.0
    matrix /= unit
    return matrix, unit
