"""Block Krylov with thick restart: the top k of a large symmetric operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._core.observer import SILENT, Observer, Stage, State
from mercer._core.params import Constraints, Number, Whole
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.engine.thin import column_lengths
from mercer.engine.threads import single_threaded_blas
from mercer.operators.base import SymmetricOperator
from mercer.solvers.base import EigenPairs, Solver, Status
from mercer.solvers.basis import ConvergenceSchedule, KrylovBasis
from mercer.solvers.dense import Lapack, top_pairs
from mercer.solvers.refine import MAX_REFINEMENTS, compared, refine, spot_checked

# Iterating on a rough operator further than this would only sharpen its own rounding.
ROUGH_TOL = 3e-7
# The same of half floats, in units of their rounding: a better product and corrections do the rest, for
# components that are well above it.
HALF_EPS, HALF_TOL, HALF_NOISE = 1e-4, 0.5, 1 / 16
# Wider blocks gain little speed in the product, and the small problems grow with the basis.
MAX_BLOCK = 48
# Columns beyond k: with 8 there are as few products as with 12, mostly. Compiled passes take columns in
# vectors of 16 float32, the means of the rows among them.
LEAST_MORE, MORE, VECTOR = 8, 12, 16
# Enough for a random block to turn towards a large eigenvalue that was missed.
CONFIRMING_PRODUCTS = 3
# Residuals below this are rounding, whatever the operator.
LEAST_TOL = 1e-14
# What rounding leaves of a product with K, of λ₁, in units of its precision: entries are off independently.
# Components below it (more were asked for than there are) would never settle; the proof judges them.
NOISE = 1 / 128
# How much noise goes into vectors to start from, of their length.
STIR = 0.01
# Landmarks whose eigenproblem is LAPACK's; of more it is solved as the whole is, to the accuracy of a sample.
DENSE_LANDMARKS, START_TOL, START_PRODUCTS = 512, 1e-3, 12


@public
@dataclass(repr=True)
class BlockKrylov(Solver):
    """Block Lanczos, full orthogonalisation, thick restart (Wu & Simon 2000), Rayleigh-Ritz.

    The basis and all small problems are float64, whatever the precision of the operator. Stops on the
    residuals ‖A u - λ u‖/λ₁, and proves them with a last product of the operator itself, or with rows of it
    where its own product was the first and others were corrections of that.

    Parameters
    ----------
    tol : float, default=1e-6
        Largest residual, relative to the largest eigenvalue. An eigenvalue is then right to about
        tol² over its relative gap: 1e-12 for most, 1e-9 where float32 products corrected an exact one; to
        about tol where half floats did, on a GPU.
    block : int, optional
        Width of a block; by default k + 12, or k + 8 where that is a vector less, at most 48. When it is
        less than k, convergence is confirmed by a search outside of the Krylov space.
    max_products : int, default=200
        Block products to spend before giving up (with a warning and the residuals).
    max_basis : int, optional
        Columns kept before a restart; by default k + 8 blocks.
    landmarks : int, default=300
        Rows at most whose small eigenproblem supplies the first block (Nyström); 0 for a random one.
    lapack : bool, default=False
        Leave a matrix to LAPACK as soon as `max_products` turn out to be too few. The planner asks for it
        where the matrix is small.

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
    lapack: bool = False

    constraints: ClassVar[Constraints] = {
        "tol": Number(LEAST_TOL, 1, ends="[)"),
        "block": Whole(1, also=(None,)),
        "max_basis": Whole(1, also=(None,)),
        "max_products": Whole(1),
        "landmarks": Whole(0),
    }
    hints: ClassVar[Mapping[str, str]] = {
        "tol": "Rounding in float64 leaves residuals of about 1e-15; 1e-6 is usual, 1e-12 is strict."
    }

    def width(self, k: int, n: int) -> int:
        """Columns of a block for k components of an n x n matrix."""
        # Fewer beyond k where that saves a vector, more where they cost nothing.
        saves = (k + LEAST_MORE) // VECTOR < (k + MORE) // VECTOR
        return min(self.block or min(k + (LEAST_MORE if saves else MORE), MAX_BLOCK), n)

    def room(self, k: int, n: int) -> int:
        """Columns of the basis before a restart."""
        block = self.width(k, n)
        return min(n, max(self.max_basis or k + 8 * block, k + 2 * block))

    def products(self, k: int, n: int) -> int:
        """Products to expect of a typical run: a landmark start, and about 1.3 digits a product."""
        rounds = -(-k // self.width(k, n))  # a block narrower than k needs more of them
        digits = -np.log10(self.tol)
        return int(min(max(2.0, np.ceil(0.75 * digits)) * rounds, self.max_products))

    def __call__(
        self,
        operator: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        start: Array | None = None,
        observer: Observer = SILENT,
    ) -> EigenPairs:
        self.check_params()
        k, rough = min(k, operator.n), operator.rough
        # Operators bring their own threads. Those of a threaded BLAS keep spinning for some 30 ms
        # after each call and would take the cores away from them.
        with single_threaded_blas():
            search = KrylovSearch(self, operator, rough or operator, k, rng=rng, observer=observer)
            pairs = search.found(start)
            if rough is None or pairs.status in (Status.CONVERGED, Status.STOPPED):
                return pairs
            del search  # and its basis
            # It is too rough for this tolerance: go on with the operator, from where we are.
            rest, exact = Stage(observer, pairs.n_products), operator.exact or operator
            search = KrylovSearch(self, exact, exact, k, rng=rng, observer=rest)
            again = search.found(pairs.vectors)
            return replace(again, n_products=pairs.n_products + again.n_products)


class KrylovSearch:
    """A search for k pairs of an operator, with products of `work`: the operator, or its rough copy."""

    basis: KrylovBasis
    room: int  # its columns before a restart
    settled: Array | None  # Ritz values to be confirmed; empty: no need; None: not there yet

    def __init__(
        self,
        solver: BlockKrylov,
        operator: SymmetricOperator,
        work: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        observer: Observer,
    ) -> None:
        self.solver, self.operator, self.work, self.k = solver, operator, work, k
        self.rng, self.observer, self.block = rng, observer, solver.width(k, operator.n)
        # Whether a product with the operator prepares its rough copy: then the first product is exact, all
        # others are corrections of it, and a few rows show whether their rounding matters.
        self.filled = work is not operator and operator.fills_rough
        tol = solver.tol if work is operator else max(solver.tol, ROUGH_TOL, HALF_TOL * work.eps)
        if self.filled:
            tol = max(0.5 * solver.tol, ROUGH_TOL)  # the rest is room for rounding
        # Narrow blocks make cheap products, and settle when half as many columns again as k are there.
        thrifty = self.block < min(k + LEAST_MORE, MAX_BLOCK)
        first = 1 + -(-3 * k // (2 * self.block)) if thrifty else 2
        expected = solver.products(k, operator.n)
        self.schedule = ConvergenceSchedule(tol, expected, first=first, thrifty=thrifty)

    def found(self, start: Array | None) -> EigenPairs:
        """Iterate on `work`, prove (and where it takes little, refine) on the operator."""
        operator, k, tol, rng = self.operator, self.k, self.solver.tol, self.rng
        state = self.observer.resume()
        if state is None:
            self._begin(start)
            self.basis.multiply(operator if self.filled else self.work)
            self.basis.n_exact = self.basis.size if self.filled else 0
        else:
            self._resume(state)
        status, basis = self._iterated(), self.basis
        if status is Status.MAX_PRODUCTS and self.solver.lapack:
            pairs = Lapack(subset=True)(operator, k, rng=rng)
            return replace(pairs, n_products=basis.n_products + pairs.n_products)
        if self.filled and status is Status.CONVERGED:
            pairs = spot_checked(operator, basis, k, tol=tol, rng=rng)
            if pairs.status.ok:
                return pairs.here()
        # A search that is asked to stop proves what there is, and no more.
        most = 0 if status is Status.STOPPED else MAX_REFINEMENTS
        rough = None if self.work is operator else self.work
        own: dict[str, Any] = {"tol": tol, "observer": self.observer}
        pairs = refine(operator, basis, k, rough=rough, most=most, **own)
        if operator.exact is not None:
            pairs = compared(operator, pairs, tol=tol, rng=rng)
            if not pairs.status.ok and most:  # the operator is now the rough one
                pairs = refine(operator.exact, basis, k, rough=operator, found_by=pairs, **own)
        pairs = pairs.here()
        return pairs if pairs.status.ok or status.ok else replace(pairs, status=status)

    # ── where it begins ─────────────────────────────────────────────────────
    def _begin(self, start: Array | None) -> None:
        first = self.operator.placed(self._start(start))  # (n, b)
        n, k = len(first), self.k
        width = max(self.block, first.shape[1])  # wider than a block with many start vectors
        self.room = min(n, max(self.solver.room(k, n), k + 2 * width))
        self.settled = None if self.block < k else np.empty(0)
        self.basis = KrylovBasis(first, self.room + width)
        self.basis.append(first, rng=self.rng)

    def _start(self, start: Array | None) -> Array:
        operator, block, rng = self.work, self.block, self.rng
        n = operator.n
        if start is not None:
            fresh = rng.standard_normal((n, max(block - start.shape[1], 2)))
            return np.concatenate([_stirred(start, rng=rng), fresh], axis=1)
        # Of few rows a product takes less time than the eigenproblem of many landmarks.
        m = min(self.solver.landmarks, n // 4, max(4 * block, n // 32))
        if m < 2 * block or block < 4:
            return rng.standard_normal((n, block))
        # The eigenvectors of a few hundred rows, extended to all (Nyström), are near the ones sought
        # and save about half of the products.
        chosen = np.sort(rng.choice(n, m, replace=False))
        vectors = operator.placed(self._among(chosen, block - 2))
        landmark = operator.cross(chosen, vectors)  # (n, block - 2)
        landmark = landmark.astype(np.float64, copy=False)
        # To the size of the random columns, whatever that of the kernel: none is dropped beside others.
        size = max(float(landmark.max()), -float(landmark.min()))
        stirred = _stirred(landmark / size if size > 0 else landmark, rng=rng)
        return np.concatenate([stirred, rng.standard_normal((n, 2))], axis=1)

    def _among(self, chosen: Indices, k: int) -> Array:  # (m, k)
        """Leading eigenvectors of the matrix of some rows; of many roughly, by a search of their own."""
        if len(chosen) <= DENSE_LANDMARKS:
            return top_pairs(self.work.block(chosen), k)[1][:, -k:]
        landmarks = self.solver.landmarks
        few = BlockKrylov(START_TOL, max_products=START_PRODUCTS, landmarks=landmarks)
        return few(self.work.among(chosen), k, rng=self.rng).vectors

    # ── where it stands after a product ─────────────────────────────────────
    def _state(self) -> State:
        return {
            **self.basis.state(),
            "looks": self.schedule.state(),
            "is_settled": self.settled is not None,
            "settled": np.empty(0) if self.settled is None else self.settled,
            "restart_at": self.room,
            "means": self.operator.memory(),
            "work_means": self.work.memory(),
            "rng": self.rng.bit_generator.state,
        }

    def _resume(self, state: State) -> None:
        like = self.operator.placed(np.empty((self.operator.n, 0)))
        self.schedule.restore(state["looks"])
        self.settled = np.asarray(state["settled"]) if state["is_settled"] else None
        self.basis, self.room = KrylovBasis.restored(state, like), state["restart_at"]
        self.rng.bit_generator.state = state["rng"]
        # Their next products have the same columns as they would have had, and round alike.
        self.operator.recall(state["means"])
        self.work.recall(state["work_means"])

    def _iterated(self) -> Status:
        """Product after product, until every residual is within the tolerance."""
        basis, schedule = self.basis, self.schedule
        while True:
            self.observer.keep(self._state)
            if basis.n_products >= self.solver.max_products:
                return Status.MAX_PRODUCTS
            ended = self._advanced()
            if self.observer.step(basis.n_products, schedule.expected, "products", schedule.worst):
                ended = ended or Status.STOPPED
            if ended is not None:
                return ended
            if basis.size + basis.next_width > self.room:
                basis.restart(min(self.k + self.block // 2, basis.size))
            basis.extend()
            basis.multiply(self.work)

    def _advanced(self) -> Status | None:
        """After a product: look at the residuals when that is due; say when it is over."""
        basis, schedule, k, eps = self.basis, self.schedule, self.k, self.work.eps
        product, exhausted = basis.n_products, basis.next_width == 0
        if basis.size < k and basis.is_spent(schedule.tol):
            # Fewer than k have an eigenvalue to speak of: any vectors will do for the others.
            basis.inject(self.block, rng=self.rng)
        elif basis.size >= k and (exhausted or product >= schedule.due):
            values = basis.ritz(k)[0]
            # What rounding leaves of residuals; of half floats, of what they have multiplied.
            noise = HALF_NOISE * basis.rough_share(k) if eps > HALF_EPS else NOISE
            worst = schedule.tol * basis.excess(k, schedule.tol, eps * noise)
            schedule.saw(product, worst)
            if worst <= schedule.tol:
                if self.settled is not None and _same(values, self.settled, schedule.tol):
                    return Status.CONVERGED
                # A block narrower than k may have missed copies of an eigenvalue that is repeated
                # more often than that. Look outside of the Krylov space before believing it.
                self.settled = values
                basis.inject(self.block, rng=self.rng)
                schedule.wait(product, CONFIRMING_PRODUCTS)
            elif self.solver.lapack and schedule.is_hopeless(product, self.solver.max_products):
                return Status.MAX_PRODUCTS
        # Nothing outside is left: the answer is exact.
        return Status.CONVERGED if basis.next_width == 0 else None


def _stirred(start: Array, *, rng: np.random.Generator) -> Array:
    """The start vectors with a hundredth of noise in each.

    Landmarks may be blind to some copies of a repeated eigenvalue, and a Krylov space holds nothing that its
    first block does not: a random part in every column shows it as many copies as there are columns.
    """
    lengths = column_lengths(start)
    noise = rng.random(start.shape, dtype=np.float32)  # in a fifth of the time of normal numbers
    noise -= np.float32(0.5)
    size = STIR * np.sqrt(12.0 / len(start))  # their variance is a twelfth
    return start + np.asarray(noise, like=start) * (size * np.where(lengths > 0, lengths, 1.0))


def _same(values: Array, settled: Array, tol: float) -> bool:
    """Whether the Ritz values have not moved; an empty `settled` needs no confirmation."""
    if len(settled) == 0:
        return True
    return bool(np.max(np.abs(values - settled)) <= tol * np.max(np.abs(values)))
