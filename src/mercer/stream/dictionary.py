"""A dictionary: points whose span stands for the feature space, and how it grows and shrinks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.linalg.lapack import dtrtri

from mercer._core.types import Array, Indices, Rows
from mercer.approximations.landmarks import extended
from mercer.engine.pairwise import squared_norms
from mercer.engine.wide import times_transposed
from mercer.kernels.base import Kernel
from mercer.operators.sections import KernelSections, OnEngine


@dataclass(frozen=True, repr=False)
class Dictionary(OnEngine):
    """m points Z, and the orthonormal basis Φ(Z)W of their span, with W Wᵀ = k(Z, Z)⁻¹.

    f(x) = k(x, Z) W are the coordinates of the projection of φ(x) onto that span. Those of the points
    themselves are the rows of L: L Lᵀ = k(Z, Z), and W = L⁻ᵀ. All of it in float64, whatever the rows
    are: k(x, x) - ‖f(x)‖² cancels, and W amplifies rounding.
    """

    kernel: Kernel
    points: Annotated[Rows, "m d"]  # in the dtype of the rows
    lower: Annotated[Array, "m m"]  # L
    whiten: Annotated[Array, "m m"]  # W

    @classmethod
    def empty(cls, kernel: Kernel, rows: Rows) -> Dictionary:
        """A dictionary of no points; those to come look like these rows."""
        return cls(kernel, rows[:0].copy(), np.zeros((0, 0)), np.zeros((0, 0)))

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.lower)

    @property
    def condition(self) -> float:
        """The factor by which W amplifies rounding, squared: ‖W‖² max k(z, z)."""
        largest = float(np.max(squared_norms(self.lower), initial=0.0))
        return largest * float(np.sum(squared_norms(self.whiten)))

    def features(self, x: Rows) -> Array:  # (b, d) float64 -> (b, m)
        """f(x)."""
        return self.sections.times(x, self.whiten)

    def values(self, x: Rows, points: Rows) -> Array:  # (b, d), (c, d) float64 -> (b, c)
        """k(x, points), of a few points."""
        return self.engine.tile(self.kernel, x, points)

    @property
    def sections(self) -> KernelSections:
        """x -> k(x, Z)."""
        return KernelSections(self.kernel, self.points, engine=self.engine)

    def extended(self, points: Rows, features: Array) -> Dictionary:  # (c, d), (c, m + c)
        """The dictionary with c more points, given their coordinates: old ones, and new ones, triangular."""
        m, c = self.size, len(features)
        lower = np.zeros((m + c, m + c))
        lower[:m, :m], lower[m:] = self.lower, features
        whiten = extended(self.whiten, features[:, :m], features[:, m:])
        more = stacked(self.points, points)
        return replace(self, points=more, lower=lower, whiten=whiten)

    def reduced(self, kept: Indices) -> tuple[Dictionary, Array]:
        """The dictionary of some of the points, and the (m, r) orthonormal basis of their span.

        From L[kept]ᵀ = QR: Q is that basis, and Rᵀ the points' coordinates in it. No kernel value is
        computed again, and Q is orthonormal to rounding however near to each other the points are.
        """
        q, r = qr(self.lower[kept].T, mode="economic", check_finite=False)
        # No row of L is a combination of others, so there are no zeros on the diagonal of R.
        whiten, _ = dtrtri(r)
        lower, whiten = np.ascontiguousarray(r.T), np.ascontiguousarray(whiten)
        return replace(self, points=self.points[kept], lower=lower, whiten=whiten), q

    # ── shrinking: which points to do without ───────────────────────────────
    def losses(self, second: Array) -> Array:  # (m, m) -> (m,)
        """What tr M, M = Σw f fᵀ, loses when one point is left out, for each of the points.

        Row w_j of W is dual to the points: orthogonal to φ(z_i) for i ≠ j. Without z_j the span loses
        that direction and no other, hence the energy w_jᵀ M w_j / ‖w_j‖² along it.
        """
        energy = np.einsum("ji,ij->i", times_transposed(second, self.whiten), self.whiten)
        return energy / squared_norms(self.whiten)

    def weakest(self, second: Array, n_out: int) -> tuple[Indices, Array]:
        """The points to keep when `n_out` have to go, and the (m, n_out) directions that go with them.

        Backward greedy column subset selection against M: the point with the smallest loss goes, the
        others' duals are freed of its direction u, w ← w - (w·u)u, and so on. Then W Wᵀ loses ccᵀ with
        c = Wu, and W M Wᵀ loses cpᵀ + pcᵀ with p = WMu - ½(uᵀMu)c. Only the columns that are asked for
        are brought up to date: the s-th point costs O(ms), and two products of matrices come before it.
        """
        lengths = self.whiten @ self.whiten.T
        energies = times_transposed(times_transposed(second, self.whiten).T, self.whiten)  # W M Wᵀ
        length, energy = np.diagonal(lengths).copy(), np.diagonal(energies).copy()
        shortest = 1.0 / squared_norms(self.lower)  # no dual is: w·φ(z) = 1
        c, p = np.zeros((self.size, n_out)), np.zeros((self.size, n_out))
        inside = np.ones(self.size, dtype=np.bool_)
        for s in range(n_out):
            j = int(np.argmin(np.where(inside, energy / length, np.inf)))
            root, loss = math.sqrt(length[j]), energy[j] / length[j]
            c[:, s] = (lengths[j] - c[:, :s] @ c[j, :s]) / root
            pull = (energies[j] - c[:, :s] @ p[j, :s] - p[:, :s] @ c[j, :s]) / root
            p[:, s] = pull - 0.5 * loss * c[:, s]
            energy = np.maximum(energy - 2.0 * c[:, s] * p[:, s], 0.0)
            length = np.maximum(length - c[:, s] ** 2, shortest)
            inside[j] = False
        return np.flatnonzero(inside), np.linalg.qr(self.whiten[~inside].T)[0]

    def __repr__(self) -> str:
        return f"Dictionary({self.kernel!r}, {self.size} points)"


def stacked(above: Rows, below: Rows) -> Rows:
    """Rows above rows, in the storage and the dtype of those above."""
    below = below.astype(above.dtype, copy=False)
    if sparse.issparse(above):
        return sparse.csr_array(sparse.vstack([above, sparse.csr_array(below)]))
    return np.concatenate([above, below.toarray() if sparse.issparse(below) else below])
