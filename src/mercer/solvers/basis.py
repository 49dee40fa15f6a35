"""The growing Krylov basis, its projected matrix, and when an iteration over it looks at the residuals.

Small problems are NumPy's here: it and SciPy each carry a BLAS whose threads keep spinning after a call, and
alternating between the two inside this loop made it three times slower.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.observer import State
from mercer._core.types import Array
from mercer.engine.thin import inner, subtract, times
from mercer.operators.base import SymmetricOperator
from mercer.solvers.base import allowed_residuals
from mercer.solvers.dense import top_pairs

BRISK = 12  # products between two looks
LITTLE = 0.1  # the part of a block along the basis whose removal leaves rounding only
EPS = float(np.finfo(np.float64).eps)
TINY = 1e-100  # numbers between this and one over it can be squared, and sums of them


class KrylovBasis:
    """Q (orthonormal columns) and T = QᵀAQ, with A Q = Q T + W B on the last block.

    The residual of a Ritz pair (θ, Qs) is W B s_last: its norm is known without any product. Vectors are
    where those of `like` are: on the host, or on the device of an engine.
    """

    def __init__(self, like: Array, room: int) -> None:
        # Columns lie together: slices are cheap.
        self.vectors: Array = np.empty_like(like, shape=(len(like), room), order="F")
        self.projected = np.zeros((room, room))
        self.size = 0
        self.n_products = 0
        self.n_exact = 0  # leading columns whose products outrank those of later columns
        self._last = slice(0, 0)  # the block that was multiplied last
        self._far = 0  # columns before it, and before the block that led to it
        self._next: Array = self.vectors[:, :0]  # W
        self._coupling: Array = np.empty((0, 0))  # B
        # Of the projected matrix, ascending: the largest, or all.
        self._ritz: tuple[Array, Array] | None = None
        self._scale = 0.0  # a lower bound on the largest |eigenvalue|

    @property
    def q(self) -> Array:
        """The basis so far."""
        return self.vectors[:, : self.size]

    @property
    def next_width(self) -> int:
        """Columns that the next block brings."""
        return self._next.shape[1]

    def is_spent(self, tol: float) -> bool:
        """Whether the next block is nothing beside the eigenvalues: it is rounding, or not there."""
        size = float(np.linalg.norm(self._coupling))
        largest = float(np.max(np.abs(np.diagonal(self.projected)[: self.size]), initial=0.0))
        return self.next_width == 0 or size <= tol * largest

    def state(self) -> dict[str, Any]:
        """What `restored` needs; views of what is on the host, not copies."""
        return {
            "vectors": np.asarray(self.q),
            "projected": self.projected[: self.size, : self.size],
            "next": np.asarray(self._next),
            "coupling": self._coupling,
            "last": [self._last.start, self._last.stop],
            "n_products": self.n_products,
            "n_exact": self.n_exact,
            "scale": self._scale,
            "room": self.vectors.shape[1],
        }

    @classmethod
    def restored(cls, state: dict[str, Any], like: Array) -> KrylovBasis:
        """A basis that goes on as another would have from its state."""
        size = state["vectors"].shape[1]
        basis = cls(like, state["room"])
        basis.vectors[:, :size] = state["vectors"]
        basis.projected[:size, :size] = state["projected"]
        basis.size, basis.n_products = size, state["n_products"]
        basis.n_exact = state["n_exact"]
        basis._last, basis._scale = slice(*state["last"]), state["scale"]
        basis._next, basis._coupling = np.asarray(state["next"], like=like), state["coupling"]
        return basis

    def append(self, block: Array, *, rng: np.random.Generator) -> None:
        """Orthonormalise a first block, which is multiplied next."""
        self._next, _ = orthonormal(block, drop=1e-10 * _size(block))
        if self.next_width == 0:
            self._next, _ = orthonormal(self._drawn(block.shape[1], rng), drop=0.0)
        self._next, _ = orthonormal(self._next, drop=0.05)
        self.extend()

    def extend(self) -> None:
        """Take the open block into the basis: it is multiplied next."""
        before, self._last = self._last, slice(self.size, self.size + self.next_width)
        self._far = before.start
        self.vectors[:, self._last] = self._next
        self.size = self._last.stop
        if self.n_exact:
            self.projected[self._last, before] = self._coupling
            self.projected[before, self._last] = self._coupling.T
        self._ritz = None

    def _drawn(self, width: int, rng: np.random.Generator) -> Array:
        return np.asarray(rng.standard_normal((len(self.vectors), width)), like=self.vectors)

    def inject(self, width: int, *, rng: np.random.Generator) -> None:
        """Open a random block outside of the basis: what the Krylov space does not contain."""
        n, room = self.vectors.shape
        fresh = self._drawn(max(0, min(width, n - self.size, room - self.size)), rng)
        fresh, _ = orthonormal(fresh, drop=0.0)
        for drop in (1e-8, 0.05):
            subtract(fresh, self.q, inner(self.q, fresh))
            fresh, _ = orthonormal(fresh, drop=drop)
        # No product has led there: A Q = Q T but for what the old block showed, which is forgotten.
        self._next, self._coupling = fresh, np.zeros((fresh.shape[1], self._coupling.shape[1]))

    def multiply(self, operator: SymmetricOperator) -> None:
        """One block product: the new columns of T, and the block that sticks out of Q."""
        product = operator.matmat(self.vectors[:, self._last])
        size = _size(product)
        if not math.isfinite(size):
            msg = (
                "A product with the kernel matrix is not finite: its entries or weights are too large. "
                "Scale the kernel or the weights, or scale the columns (StandardScaler)."
            )
            raise KernelError(msg)
        self.n_products += 1
        self._scale = max(self._scale, size)
        # Three terms (Lanczos): but for rounding, a product has nothing along blocks before the last two.
        far, last, near = self._far, self._last, self.vectors[:, self._far : self.size]
        inside = np.zeros((self.size, product.shape[1]))
        inside[far:] = inner(near, product)
        subtract(product, near, inside[far:])
        block, coupling = orthonormal(product, drop=10.0 * EPS * self._scale)
        for _ in range(3 if block.shape[1] else 0):
            # Once is not enough (Kahan): what is left of Q grew when the block was normalised.
            again = inner(self.q, block)
            subtract(block, self.q, again)
            inside += again @ coupling
            block, turned = orthonormal(block, drop=0.05)
            coupling = turned @ coupling
            # Where more is left, the block that led here was not all that did.
            if np.abs(again).max(initial=0.0) < LITTLE:
                break
        inside[last] = 0.5 * (inside[last] + inside[last].T)
        # A is symmetric: what exact products say of these columns is better than what theirs say.
        inside[: self.n_exact] = self.projected[: self.n_exact, last]
        self.projected[: self.size, last] = inside
        self.projected[last, : self.size] = inside.T
        self._next, self._coupling = block, coupling

    def ritz(self, k: int) -> tuple[Array, Array]:
        """Ritz values, descending, and their coordinates in Q; the first k of them."""
        if self._ritz is None or len(self._ritz[0]) < min(k, self.size):
            self._ritz = top_pairs(self.projected[: self.size, : self.size], min(k, self.size))
        values, rotation = self._ritz
        return values[::-1][:k], rotation[:, ::-1][:, :k]

    def images(self, coordinates: Array) -> Array:  # (size, k) -> (n, k)
        """A Q s = Q T s + W B s_last: after a multiplication, without another."""
        inside = self.projected[: self.size, : self.size] @ coordinates
        outside = self._coupling @ coordinates[self._last]
        images = times(self.q, inside)
        subtract(images, self._next, -outside)
        return images

    def excess(self, k: int, tol: float, floor: float = 0.0) -> float:
        """The largest residual of the first k over what it may be; below `floor` products are rounding."""
        values, coordinates = self.ritz(k)
        scale = np.max(np.abs(values), initial=0.0)
        if scale == 0.0 or self.next_width == 0:
            return 0.0
        residuals = np.linalg.norm(self._coupling / scale @ coordinates[self._last], axis=0)
        floor = max(floor, 100.0 * EPS)  # below that, an estimate says nothing
        return float(np.max(residuals / allowed_residuals(values, tol, floor), initial=0.0))

    def rough_share(self, k: int) -> float:
        """The most that a Ritz vector has outside of the columns with exact products, of its length."""
        outside = self.ritz(k)[1][self.n_exact :]
        return float(np.linalg.norm(outside, axis=0).max(initial=0.0)) if self.n_exact else 1.0

    def restart(self, keep: int) -> None:
        """Thick restart: the leading Ritz vectors become the basis, and the open block stays."""
        self.n_exact = 0  # the first columns are no longer the first block
        values, coordinates = self.ritz(keep)
        self.vectors[:, :keep] = times(self.q, coordinates)
        self.projected[:] = 0.0
        self.projected[np.arange(keep), np.arange(keep)] = values
        self.size = keep
        self._last = slice(0, keep)  # all of them led to the open block
        self._ritz = values[::-1], np.eye(keep)[:, ::-1]


def orthonormal(block: Array, *, drop: float) -> tuple[Array, Array]:
    """W, R with W R = block and WᵀW = I; directions shorter than `drop` are left out."""
    with np.errstate(over="ignore", invalid="ignore"):  # such a block is scaled
        gram, size = inner(block, block), 1.0
    longest = math.sqrt(np.diagonal(gram).max(initial=0.0))
    if not max(drop, TINY) < longest < 1.0 / TINY:
        size = _size(block)
        if size * np.sqrt(len(block)) <= drop:
            return block[:, :0], np.empty((0, block.shape[1]))
        # Scaled to one, so that squares neither overflow nor vanish.
        block, drop = block / size, drop / size
        gram = inner(block, block)
    try:
        upper = np.linalg.cholesky(gram).T
        pivots = np.abs(np.diagonal(upper))
        # Cholesky squares the condition number: on a mild block WᵀW = I to 1e-8, which a second
        # call brings to rounding, and the two are still several times faster than QR.
        if pivots.min() > max(1e-4 * pivots.max(), 10.0 * drop):
            return times(block, np.linalg.inv(upper)), size * upper
    except np.linalg.LinAlgError:
        pass
    q, upper = np.linalg.qr(block)
    left = _left_vectors(upper)
    upper = left.T @ upper  # W R = block whatever the rotation: it sorts short directions from long
    keep = np.linalg.norm(upper, axis=1) > drop
    return times(q, left[:, keep]), size * upper[keep]


def _size(block: Array) -> float:
    """The largest entry; not finite where one of them is not."""
    return float(max(block.max(), -block.min())) if block.size else 0.0


def _left_vectors(upper: Array) -> Array:
    """Left singular vectors; those of R Rᵀ where LAPACK's iteration fails on a graded factor."""
    try:
        return np.linalg.svd(upper)[0]
    except np.linalg.LinAlgError:  # short directions, of less than √ε, may be kept
        return np.linalg.eigh(upper @ upper.T)[1]


# ── when to look at the residuals ───────────────────────────────────────────
class ConvergenceSchedule:
    """Says after which products a look at the residuals is due.

    Each look solves the projected problem. The residuals fall geometrically, so after two looks the
    next one is due shortly before they should reach the tolerance. A look of a `thrifty` schedule costs
    more than a product, that of a `brisk` one far more: a dozen products are made between two looks, until
    half of the digits are there.
    """

    def __init__(
        self, tol: float, expected: int, *, first: int, thrifty: bool = False, brisk: bool = False
    ) -> None:
        self.tol, self.thrifty, self.brisk = tol, thrifty, brisk
        self.worst: float | None = None  # the last residual seen
        self.expected = expected  # products until the tolerance is met, by the pace so far
        # The product to look after; one gains two digits or so at best.
        self.due = max(2, int(-0.4 * np.log10(tol)), first)
        self._last: list[Any] | None = None  # a product, and the worst residual after it
        self._first: list[Any] | None = None

    def wait(self, product: int, n_products: int) -> None:
        """Look again after so many products."""
        self.due, self._last, self._first = product + n_products, None, None

    def is_hopeless(self, product: int, most: int) -> bool:
        """Whether more products are left than `most` and a third, by the pace since the first look.

        Residuals of flat spectra stay where they are for a dozen products before they fall: nothing is said
        before a fifth of `most` is spent. What is left then is overrated up to three times.
        """
        if self._first is None or self.worst is None or product - self._first[0] < most / 5:
            return False
        gained = np.log(self._first[1] / max(self.worst, self.tol))
        left = np.log(max(self.worst / self.tol, 1.0))
        return bool(left * (product - self._first[0]) > 4.0 / 3.0 * most * max(gained, 0.0))

    def saw(self, product: int, worst: float) -> None:
        """Plan the next look, given the largest residual after a product."""
        most = max(1, product // 4)  # products until the next look of a thrifty schedule
        if self.brisk and worst * worst > self.tol:
            most = max(most, min(product // 2, BRISK))
        self.worst, self.due = worst, product + (most if self.thrifty else 1)
        if self._last is not None and 0.0 < worst < self._last[1]:
            rate = math.log(self._last[1] / worst) / (product - self._last[0])
            left = max(0.0, math.log(worst / self.tol) / rate)
            self.expected = product + math.ceil(left)
            self.due = product + max(1, min(int(0.8 * left), 2))
            if self.thrifty:
                self.due = product + max(1, min(math.ceil(left), max(2, most)))
        self._last = [product, worst]
        self._first = self._first or self._last

    def state(self) -> State:
        """What `restore` needs, as plain numbers."""
        known = {"worst": self.worst, "expected": self.expected, "due": self.due}
        return {**known, "last": self._last, "first": self._first}

    def restore(self, state: State) -> None:
        """Go on from such a state."""
        self.worst, self.expected, self.due = state["worst"], state["expected"], state["due"]
        self._last, self._first = state["last"], state.get("first", state["last"])
