"""A dictionary: points whose span stands for the feature space, and how it grows and shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from mercer.model.projection import Projection
from mercer.operators.sections import KernelSections

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels.base import Kernel

# Rows drawn at a time: enough for the products to run at speed, few beside the rows they are drawn from.
BLOCK = 32


@dataclass(frozen=True, repr=False)
class Dictionary:
    """m points Z, and the orthonormal basis Φ(Z)W of their span, with W Wᵀ = k(Z, Z)⁻¹.

    f(x) = k(x, Z) W are the coordinates of the projection of φ(x) onto that span. Those of the points
    themselves are the rows of L: L Lᵀ = k(Z, Z), and W = L⁻ᵀ. All of it in float64, whatever the rows
    are: k(x, x) - ‖f(x)‖² cancels, and W amplifies rounding.
    """

    kernel: Kernel
    points: Rows  # (m, d), in the dtype of the rows
    lower: Array  # (m, m) L
    whiten: Array  # (m, m) W

    @classmethod
    def empty(cls, kernel: Kernel, rows: Rows) -> Dictionary:
        """Of no points; those to come look like these rows."""
        return cls(kernel, rows[:0], np.zeros((0, 0)), np.zeros((0, 0)))

    @property
    def size(self) -> int:
        """m."""
        return len(self.lower)

    @property
    def condition(self) -> float:
        """By how much W amplifies rounding, squared: ‖W‖² max k(z, z)."""
        largest = np.max(np.einsum("ij,ij->i", self.lower, self.lower), initial=0.0)
        return float(np.sum(self.whiten**2) * largest)

    def features(self, x: Rows) -> Array:  # (b, d) float64 -> (b, m)
        """f(x), slice by slice."""
        if self.size == 0:
            return np.zeros((x.shape[0], 0))
        sections = KernelSections(self.kernel, self.points.astype(np.float64, copy=False))
        return Projection(sections, self.whiten, np.zeros(self.size))(x)

    def extended(self, points: Rows, features: Array) -> Dictionary:  # (c, d), (c, m + c)
        """With c more points, given their coordinates: old ones, and new ones that are triangular."""
        m, c = self.size, len(features)
        lower, whiten = np.zeros((m + c, m + c)), np.zeros((m + c, m + c))
        lower[:m, :m], lower[m:] = self.lower, features
        # [[L, 0], [B, C]]⁻ᵀ = [[W, -W Bᵀ C⁻ᵀ], [0, C⁻ᵀ]]
        right = np.linalg.inv(features[:, m:]).T
        whiten[:m, :m], whiten[m:, m:] = self.whiten, right
        whiten[:m, m:] = -(self.whiten @ (features[:, :m].T @ right))
        return Dictionary(self.kernel, stacked(self.points, points), lower, whiten)

    def reduced(self, kept: Indices) -> tuple[Dictionary, Array]:
        """With some of the points only, and the (m, r) orthonormal basis of their span.

        From L[kept]ᵀ = QR: Q is that basis, and Rᵀ the points' coordinates in it. No kernel value is
        computed again, and Q is orthonormal to rounding however near to each other the points are.
        """
        q, r = np.linalg.qr(self.lower[kept].T)
        lower, whiten = np.ascontiguousarray(r.T), np.linalg.inv(r)
        return Dictionary(self.kernel, self.points[kept], lower, whiten), q

    # ── shrinking: which points to do without ───────────────────────────────
    def losses(self, second: Array) -> Array:  # (m, m) -> (m,)
        """What tr M, M = Σw f fᵀ, loses when one point is left out, for each of the points.

        Row w_j of W is dual to the points: orthogonal to φ(z_i) for i ≠ j. Without z_j the span loses
        that direction and no other, hence the energy w_jᵀ M w_j / ‖w_j‖² along it.
        """
        energy, length = self._duals(second)
        return energy / length

    def weakest(self, second: Array, n_out: int) -> tuple[Indices, Array]:
        """The points to keep when `n_out` have to go, and the (m, n_out) directions that go with them.

        Backward greedy column subset selection against M: the point with the smallest loss goes, the
        others' duals are freed of its direction u, w ← w - (w·u)u, and so on. With wᵀMw and ‖w‖² updated
        rather than recomputed a step takes three products of m² numbers, so that dropping c points
        costs O(m²c); choosing the other m - c one by one would cost O(m³).
        """
        whiten = self.whiten
        energy, length = self._duals(second)
        shortest = 1.0 / np.einsum("ij,ij->i", self.lower, self.lower)  # no dual is: w·φ(z) = 1
        u, along = np.zeros((self.size, n_out)), np.zeros((self.size, n_out))  # along: w·u
        inside = np.ones(self.size, dtype=np.bool_)
        for s in range(n_out):
            j = int(np.argmin(np.where(inside, energy / length, np.inf)))
            w = whiten[j] - u[:, :s] @ along[j, :s]
            w -= u[:, :s] @ (w @ u[:, :s])  # once more: duals of near points are long and nearly equal
            w /= np.linalg.norm(w)
            pull, c = second @ w, whiten @ w
            cross = whiten @ pull - along[:, :s] @ (pull @ u[:, :s])  # of the freed duals with Mu
            energy = np.maximum(energy + c * (c * (w @ pull) - 2.0 * cross), 0.0)
            length = np.maximum(length - c * c, shortest)
            u[:, s], along[:, s], inside[j] = w, c, False
        return np.flatnonzero(inside), u

    def _duals(self, second: Array) -> tuple[Array, Array]:
        """wᵀMw and ‖w‖² of each dual vector."""
        energy = np.einsum("ij,ij->i", self.whiten @ second, self.whiten)
        return energy, np.einsum("ij,ij->i", self.whiten, self.whiten)

    def __repr__(self) -> str:
        return f"Dictionary({self.kernel!r}, {self.size} points)"


def stacked(above: Rows, below: Rows) -> Rows:
    """Rows above rows, in the storage of those above."""
    if sparse.issparse(above):
        return sparse.csr_array(sparse.vstack([above, sparse.csr_array(below)]))
    return np.concatenate([above, below.toarray() if sparse.issparse(below) else below])


# ── growing: which rows of a batch to take in ───────────────────────────────
def pivots(
    kernel: Kernel,
    x: Rows,  # (b, d) float64
    f: Array,  # (b, m)
    diag: Array,  # (b,) k(x, x)
    weights: Array,  # (b,)
    *,
    tol: float,
    limit: int,
    floor: float,
    rng: np.random.Generator,
) -> tuple[Indices, Array]:
    """Rows that the dictionary misses, at most `limit`, and everybody's coordinates (b, c) along them.

    Randomly pivoted Cholesky (Chen, Epperly, Tropp & Webber 2024) of the residual kernel
    k(x, x') - f(x)·f(x'), until no more than the share `tol` of the weighted trace is missed. Blocks are
    drawn at once, and thinned by rejection as the authors' accelerated form does, so that each pivot has
    the law of being drawn on its own. Rows whose residual is below `floor` · k(x, x) are rounding.
    """
    chosen = np.zeros(0, dtype=np.intp)
    new = np.zeros((len(f), 0))
    residual = diag - np.einsum("ij,ij->i", f, f)
    open_rows = np.ones(len(f), dtype=np.bool_)
    goal = tol * float(weights @ diag)
    while len(chosen) < limit and float(weights @ np.maximum(residual, 0.0)) > goal:
        law = weights * np.where(open_rows & (residual > floor * diag), residual, 0.0)
        if not np.any(law > 0.0):
            break
        size = min(BLOCK, limit - len(chosen), int(np.count_nonzero(law)))
        drawn = rng.choice(len(f), size=size, p=law / law.sum())
        gram = _residual_gram(kernel, x, drawn, drawn, f, new)
        taken, factor = _thinned(gram, residual[drawn], floor * diag[drawn], rng=rng)
        rows = drawn[taken]
        columns = _residual_gram(kernel, x, slice(None), rows, f, new) @ np.linalg.inv(factor).T
        # A row is asked once: where k(x, x) holds more than the kernel's other values show (noise of
        # its own), its residual never vanishes.
        open_rows[drawn if len(rows) == 0 else rows] = False
        chosen, new = np.concatenate([chosen, rows]), np.concatenate([new, columns], axis=1)
        residual = residual - np.einsum("ij,ij->i", columns, columns)
    return chosen, new


def _residual_gram(
    kernel: Kernel, x: Rows, i: Indices | slice, j: Indices, f: Array, new: Array
) -> Array:
    gram = kernel.tile(x[i], x[j])
    gram -= f[i] @ f[j].T
    gram -= new[i] @ new[j].T
    return gram


def _thinned(
    gram: Array, bounds: Array, floors: Array, *, rng: np.random.Generator
) -> tuple[Indices, Array]:
    """Drawn rows that survive those before them, and the Cholesky factor of their residual Gram matrix.

    A row was drawn with its residual before the block; given the rows taken before it in the block it
    should have been drawn with what is left of that, so it stays with the ratio for a chance.
    """
    gram, chances = gram.copy(), rng.random(len(gram))
    taken: list[int] = []
    factor = np.zeros_like(gram)
    for i in range(len(gram)):
        if gram[i, i] > max(chances[i] * bounds[i], floors[i]):
            column = gram[:, i] / np.sqrt(gram[i, i])
            gram -= np.outer(column, column)
            factor[:, len(taken)] = column
            taken.append(i)
    places = np.array(taken, dtype=np.intp)
    return places, np.tril(factor[places, : len(taken)])
