"""A dictionary: points whose span stands for the feature space, and how it grows and shrinks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from mercer._core.errors import KernelError
from mercer.approximations.rejection import accept_pivots
from mercer.approximations.whitening import extended
from mercer.model.projection import Projection
from mercer.model.result import first_reaching
from mercer.operators.sections import KernelSections

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels.base import Kernel

# Pivots of one round at most, and rows that are drawn for each of them: enough for the products to run at
# speed, few beside the rows of a batch.
PIVOTS = 32
CANDIDATES_A_PIVOT = 4
# Share of k(x, x) that rounding can hide of a residual. Against long doubles no more was seen where the
# residual itself was not far larger.
ROUNDING = 1e-10
# A residual k(x, x) - ‖f(x)‖² below minus this share of k(x, x) is not rounding: there is no φ.
INDEFINITE = 1e-6


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
        return cls(kernel, rows[:0].copy(), np.zeros((0, 0)), np.zeros((0, 0)))

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.lower)

    @property
    def condition(self) -> float:
        """By how much W amplifies rounding, squared: ‖W‖² max k(z, z)."""
        largest = float(np.max(squares(self.lower), initial=0.0))
        return largest * float(np.sum(squares(self.whiten)))

    def features(self, x: Rows) -> Array:  # (b, d) float64 -> (b, m)
        """f(x), slice by slice."""
        if self.size == 0:
            return np.zeros((x.shape[0], 0))
        sections = KernelSections(self.kernel, self.points.astype(np.float64, copy=False))
        return Projection(sections, self.whiten, np.zeros(self.size))(x)

    def extended(self, points: Rows, features: Array) -> Dictionary:  # (c, d), (c, m + c)
        """With c more points, given their coordinates: old ones, and new ones that are triangular."""
        m, c = self.size, len(features)
        lower = np.zeros((m + c, m + c))
        lower[:m, :m], lower[m:] = self.lower, features
        whiten = extended(self.whiten, features[:, :m], features[:, m:])
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
        shortest = 1.0 / squares(self.lower)  # no dual is: w·φ(z) = 1
        u, along = np.zeros((self.size, n_out)), np.zeros((self.size, n_out))  # along: w·u
        inside = np.ones(self.size, dtype=np.bool_)
        for s in range(n_out):
            j = int(np.argmin(np.where(inside, energy / length, np.inf)))
            w = whiten[j] - u[:, :s] @ along[j, :s]
            w -= u[:, :s] @ (
                w @ u[:, :s]
            )  # once more: duals of near points are long and nearly equal
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
        return energy, squares(self.whiten)

    def __repr__(self) -> str:
        return f"Dictionary({self.kernel!r}, {self.size} points)"


def squares(rows: Array) -> Array:  # (b, m) -> (b,)
    """‖row‖² of each."""
    return np.einsum("ij,ij->i", rows, rows)


def stacked(above: Rows, below: Rows) -> Rows:
    """Rows above rows, in the storage and the dtype of those above."""
    below = below.astype(above.dtype, copy=False)
    if sparse.issparse(above):
        return sparse.csr_array(sparse.vstack([above, sparse.csr_array(below)]))
    return np.concatenate([above, below.toarray() if sparse.issparse(below) else below])


# ── growing: which rows of a batch to take in ───────────────────────────────
@dataclass(frozen=True, repr=False)
class Batch:
    """Rows on their way in, and their coordinates: in the dictionary and, from m on, along new points."""

    rows: Rows  # (b, d) float64
    weights: Array  # (b,)
    diag: Array  # (b,) k(x, x)
    f: Array  # (b, m) or (b, m + c)

    @property
    def residual(self) -> Array:  # (b,)
        """‖φ - φ̂‖² = k(x, x) - ‖f‖², where rounding may leave it below zero."""
        return self.diag - squares(self.f)

    def missed(self) -> float:
        """Σw‖φ - φ̂‖² from above: with what rounding can hide."""
        return float(self.weights @ (np.maximum(self.residual, 0.0) + ROUNDING * self.diag))


def grown(
    dictionary: Dictionary,
    batch: Batch,
    *,
    tol: float,
    least: int,
    limit: int,
    floor: float,
    rng: np.random.Generator,
) -> tuple[Dictionary, Batch]:
    """The dictionary with rows that it misses, `limit` points at most, and the batch's coordinates in it.

    Randomly pivoted Cholesky (Chen, Epperly, Tropp & Webber 2024) of the residual kernel
    k(x, x') - f(x)·f(x'), until no more than the share `tol` of the weighted trace is missed and there are
    `least` points.
    """
    w, goal = batch.weights, tol * float(batch.weights @ batch.diag)
    chosen, waiting = np.zeros(0, dtype=np.intp), np.ones(len(batch.f), dtype=np.bool_)
    while dictionary.size < limit:
        residual, wanted = batch.residual, least - dictionary.size
        left = float(w @ np.maximum(residual, 0.0))
        law = w * np.where(waiting & (residual > floor * batch.diag), residual, 0.0)
        if (left <= goal and wanted <= 0) or not np.any(law > 0.0):
            break
        most = min(PIVOTS, limit - dictionary.size)
        rows, hopeless, lower = _drawn(dictionary, batch, law, most=most, floor=floor, rng=rng)
        waiting[rows], waiting[hopeless] = False, False
        columns = _residual_gram(dictionary.kernel, batch, slice(None), rows)
        columns = columns @ np.linalg.inv(lower).T
        # Exactly triangular among the chosen: what rounding leaves there is as large as a small pivot.
        columns[chosen], columns[rows] = 0.0, lower
        # Columns of a Cholesky factor are nested: those beyond the goal can be left out.
        count = max(wanted, first_reaching(w @ columns**2, left - goal))
        rows, columns = rows[:count], columns[:, :count]
        batch = replace(batch, f=np.concatenate([batch.f, columns], axis=1))
        dictionary = dictionary.extended(batch.rows[rows], batch.f[rows])
        chosen = np.concatenate([chosen, rows])
    return dictionary, batch


def _drawn(
    dictionary: Dictionary,
    batch: Batch,
    law: Array,
    *,
    most: int,
    floor: float,
    rng: np.random.Generator,
) -> tuple[Indices, Indices, Array]:
    """Rows to take in, rows that can't be, and the Cholesky factor of the residuals of the first.

    The residual of φ(x) ≈ Σ c_j φ(z_j) is rounded by about eps (k(x, x) + Σ c_j² k(z_j, z_j)). Among points
    that came one after the other, as those of a drift do, c can be huge: what counts as a residual has
    to be measured by it, or noise is taken for a point.
    """
    drawn = rng.choice(len(law), size=CANDIDATES_A_PIVOT * most, p=law / law.sum())
    rows, places = np.unique(drawn, return_inverse=True)
    c = batch.f[rows] @ dictionary.whiten.T  # (p, m)
    floors = floor * (batch.diag[rows] + c**2 @ squares(dictionary.lower))
    gram = _residual_gram(dictionary.kernel, batch, rows, rows)
    _require_symmetric(dictionary.kernel, gram, float(np.max(batch.diag)))
    residual = batch.residual[rows]
    taken, lower = accept_pivots(gram, places, residual, floors, most=most, rng=rng)
    # Where k(x, x) holds noise of its own that no other value shows, none of the drawn may be taken.
    hopeless = rows[residual <= floors] if len(taken) else rows
    return rows[taken], hopeless, lower


def _residual_gram(kernel: Kernel, batch: Batch, i: Indices | slice, j: Indices) -> Array:
    gram = kernel.tile(batch.rows[i], batch.rows[j])
    gram -= batch.f[i] @ batch.f[j].T
    return gram


def _require_symmetric(kernel: Kernel, gram: Array, largest: float) -> None:
    """A user's function has to give k(x, y) = k(y, x): half of its values stand for both halves."""
    gap = float(np.max(np.abs(gram - gram.T), initial=0.0))
    if not kernel.parallel and gap > 1e3 * float(np.finfo(np.float64).eps) * largest:
        msg = (
            f"{kernel!r} is not symmetric: k(x, y) and k(y, x) differ by {gap:.3g} for two rows of the "
            "batch. A kernel needs k(x, y) = k(y, x); `mercer.check_kernel` shows the points."
        )
        raise KernelError(msg)


def require_positive(dictionary: Dictionary, batch: Batch) -> None:
    """Raise where there can't be a feature space: a negative length, a projection that is longer."""
    diag, residual = batch.diag, batch.residual
    if np.all(diag >= 0.0) and np.all(residual >= -INDEFINITE * diag):
        return
    i = int(np.argmin(np.minimum(diag, residual)))
    msg = (
        f"{dictionary.kernel!r} is not positive semi-definite on these data: row {i} of the batch has "
        f"k(x, x) = {diag[i]:.3g}, and its projection onto {dictionary.size} landmarks the squared length "
        f"{diag[i] - residual[i]:.3g}. A stream is summed up in a feature space, and there is none. "
        "Use a valid kernel or other parameters; `mercer.check_kernel` shows a witness."
    )
    raise KernelError(msg)
