"""Block Krylov with thick restart: the top k of a large symmetric operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError
from mercer._core.status import Status
from mercer.engine.threads import single_threaded_blas
from mercer.solvers.base import EigenPairs, Solver
from mercer.solvers.basis import KrylovBasis
from mercer.solvers.refine import refine

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.operators.base import SymmetricOperator

# Iterating on a float32 sketch further than this would only sharpen the sketch's own rounding.
SKETCH_TOL = 3e-7
# Wider blocks gain little speed in the product, and the small problems grow with the basis.
MAX_BLOCK = 48
# Enough for a random block to turn towards a large eigenvalue that was missed.
CONFIRMING_PRODUCTS = 3
# How much noise goes into vectors to start from, of their length.
STIR = 0.01


@dataclass(repr=True)
class BlockKrylov(Solver):
    """Block Lanczos, full orthogonalisation, thick restart (Wu & Simon 2000), Rayleigh-Ritz.

    The basis and all small problems are float64, whatever the precision of the operator. Stops on
    the residuals ‖A u - λ u‖/λ₁, and proves them with one last product against the operator itself.

    Parameters
    ----------
    tol : float, default=1e-6
        Largest residual, relative to the largest eigenvalue. An eigenvalue is then right to about
        tol² over its relative gap: 1e-12 for most.
    block : int, optional
        Width of a block; by default k + 12, at most 48. When it is less than k, convergence is
        confirmed by a search outside of the Krylov space.
    max_products : int, default=200
        Block products to spend before giving up (with a warning and the residuals).
    max_basis : int, optional
        Columns kept before a restart; by default k + 8 blocks.
    landmarks : int, default=300
        Rows whose small eigenproblem supplies the first block (Nyström); 0 for a random one.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import StoredGram
    >>> matrix = np.diag(1.0 / np.arange(1, 301))
    >>> pairs = BlockKrylov(tol=1e-10)(StoredGram(matrix), 3, rng=np.random.default_rng(0))
    >>> pairs.values.round(8)
    array([1.        , 0.5       , 0.33333333])
    """

    tol: float = 1e-6
    block: int | None = None
    max_products: int = 200
    max_basis: int | None = None
    landmarks: int = 300

    def __call__(
        self,
        operator: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        sketch: SymmetricOperator | None = None,
        start: Array | None = None,
    ) -> EigenPairs:
        """The k largest eigenpairs, proved against `operator`."""
        self._check()
        # Operators bring their own threads. Those of a threaded BLAS keep spinning for some 30 ms
        # after each call and would take the cores away from them.
        with single_threaded_blas():
            return self._solve(operator, k, rng=rng, sketch=sketch, start=start)

    def _solve(
        self,
        operator: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        sketch: SymmetricOperator | None,
        start: Array | None,
    ) -> EigenPairs:
        k = min(k, operator.n)
        work = operator if sketch is None else sketch
        tol = self.tol if sketch is None else max(self.tol, SKETCH_TOL)
        basis, status = self._iterate(work, k, tol, rng=rng, start=start)
        pairs = refine(operator, basis, k, tol=self.tol)
        if sketch is not None and not pairs.status.ok:
            # The sketch is too rough for this tolerance: go on with the operator, from where we are.
            basis, status = self._iterate(operator, k, self.tol, rng=rng, start=pairs.vectors)
            spent = pairs.n_products
            pairs = refine(operator, basis, k, tol=self.tol, spent=spent)
        if status is Status.MAX_PRODUCTS and not pairs.status.ok:
            return replace(pairs, status=Status.MAX_PRODUCTS)
        return pairs

    def _check(self) -> None:
        if not self.tol > 0:
            msg = f"BlockKrylov needs tol > 0, but tol={self.tol!r} came. Use 1e-6, or 1e-12 for more."
            raise InputError(msg)
        if self.block is not None and self.block < 1:
            msg = f"BlockKrylov needs block >= 1, but block={self.block!r} came. Leave it out for k + 12."
            raise InputError(msg)
        if self.max_products < 1:
            msg = (
                f"BlockKrylov needs max_products >= 1, but max_products={self.max_products!r} came."
            )
            raise InputError(msg)

    def _iterate(
        self,
        operator: SymmetricOperator,
        k: int,
        tol: float,
        *,
        rng: np.random.Generator,
        start: Array | None,
    ) -> tuple[KrylovBasis, Status]:
        n = operator.n
        block = min(self.block or min(k + 12, MAX_BLOCK), n)
        first = self._start(operator, block, rng=rng, start=start)
        width = first.shape[1]  # wider than a block when many start vectors were given
        room = min(n, max(self.max_basis or k + 8 * block, k + 2 * max(block, width)))
        basis = KrylovBasis(n, room + max(block, width))
        basis.append(first, rng=rng)
        watch = _Watch(tol)
        settled: Array | None = None if block < k else np.empty(0)
        for product in range(1, self.max_products + 1):
            basis.multiply(operator)
            if product == self.max_products:
                break
            exhausted = basis.next_width == 0
            if basis.size < k and exhausted:
                basis.inject(block, rng=rng)
            elif basis.size >= k and (exhausted or watch.is_due(product)):
                values = basis.ritz(k)[0]
                worst = tol * basis.excess(k, tol)
                if worst <= tol:
                    if settled is not None and _same(values, settled, tol):
                        return basis, Status.CONVERGED
                    # A block narrower than k may have missed copies of an eigenvalue that is repeated
                    # more often than that. Look outside of the Krylov space before believing it.
                    settled = values
                    basis.inject(block, rng=rng)
                    watch.wait(product, CONFIRMING_PRODUCTS)
                else:
                    watch.saw(product, worst)
            if basis.next_width == 0:  # nothing outside is left: the answer is exact
                return basis, Status.CONVERGED
            if basis.size + basis.next_width > room:
                basis.restart(min(k + block // 2, basis.size))
            basis.extend()
        return basis, Status.MAX_PRODUCTS

    def _start(
        self,
        operator: SymmetricOperator,
        block: int,
        *,
        rng: np.random.Generator,
        start: Array | None,
    ) -> Array:
        n = operator.n
        random = rng.standard_normal((n, block))
        if start is not None:
            fresh = random[:, : max(block - start.shape[1], 2)]
            return np.concatenate([_stirred(start, rng=rng), fresh], axis=1)
        m = min(self.landmarks, n // 4)
        if m < 2 * block or block < 4:
            return random
        # The eigenvectors of a few hundred rows, extended to all (Nyström), are near the ones sought
        # and save about half of the products.
        chosen = np.sort(rng.choice(n, m, replace=False))
        columns = operator.columns(chosen)  # (n, m)
        core = columns[chosen].astype(np.float64)
        core -= core.mean(axis=0)
        core -= core.mean(axis=1)[:, None]
        _, vectors = np.linalg.eigh(core)
        landmark = columns @ vectors[:, -(block - 2) :].astype(columns.dtype)  # (n, block - 2)
        stirred = _stirred(landmark.astype(np.float64), rng=rng)
        return np.concatenate([stirred, random[:, :2]], axis=1)


def _stirred(start: Array, *, rng: np.random.Generator) -> Array:
    """The start vectors with a hundredth of noise in each.

    Landmarks may be blind to some copies of a repeated eigenvalue, and a Krylov space holds nothing
    that its first block does not. A random part in every column shows it as many copies as there
    are columns.
    """
    lengths = np.linalg.norm(start, axis=0)
    noise = rng.standard_normal(start.shape)
    return start + noise * (STIR / np.sqrt(len(start)) * np.where(lengths > 0, lengths, 1.0))


def _same(values: Array, settled: Array, tol: float) -> bool:
    """Whether the Ritz values have not moved; an empty `settled` needs no confirmation."""
    if len(settled) == 0:
        return True
    return bool(np.max(np.abs(values - settled)) <= tol * np.max(np.abs(values)))


class _Watch:
    """Says after which products a look at the residuals is due.

    Each look solves the projected problem. The residuals fall geometrically, so after two looks the
    next one is due shortly before they should reach the tolerance.
    """

    def __init__(self, tol: float) -> None:
        self._tol = tol
        self._due = max(2, int(-0.4 * np.log10(tol)))  # a product gains two digits or so at best
        self._last: tuple[int, float] | None = None

    def is_due(self, product: int) -> bool:
        return product >= self._due

    def wait(self, product: int, n_products: int) -> None:
        self._due, self._last = product + n_products, None

    def saw(self, product: int, worst: float) -> None:
        self._due = product + 1
        if self._last is not None and 0.0 < worst < self._last[1]:
            rate = np.log(self._last[1] / worst) / (product - self._last[0])
            left = np.log(worst / self._tol) / rate
            self._due = product + max(1, min(int(0.8 * left), 2))
        self._last = product, worst
