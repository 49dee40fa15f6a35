"""A dictionary, points whose span stands for the feature space, and the batches of rows that it grows by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.linalg.lapack import dtrtri

from mercer._core.errors import KernelError, many
from mercer._core.types import Array, Indices, Rows
from mercer.approximations.landmarks import extended
from mercer.approximations.rpcholesky import accept_pivots
from mercer.data.rows import row_slices
from mercer.engine.moments import Moments
from mercer.engine.pairwise import squared_norms
from mercer.engine.passes import fold
from mercer.engine.thin import subtract
from mercer.engine.threads import n_blas_threads, parallel_map
from mercer.engine.wide import times_transposed
from mercer.kernels.base import Kernel
from mercer.model.result import first_reaching
from mercer.operators.sections import KernelSections, OnEngine
from mercer.planning.bytes import FLOAT, SMALL
from mercer.solvers.dense import top_pairs

# Pivots of one round at most, and rows that are drawn for each of them: enough for the products to run at
# speed, few beside the rows of a batch.
PIVOTS = 32
CANDIDATES_A_PIVOT = 4
# Share of k(x, x) that rounding can hide of a residual. Against long doubles no more was seen where the
# residual itself was not far larger.
ROUNDING = 1e-10
# A residual k(x, x) - ‖f(x)‖² below minus this share of k(x, x) is not rounding: there is no φ. Where points
# are near each other, rounding is what `Dictionary.noise` says, of which so many times are allowed.
INDEFINITE, TIMES_NOISE = 1e-6, 100.0
# Rows of a block whose residual Gram matrix is looked at. More: tighter bounds, and b times as many entries.
NORM_ROWS = 128
# Rows of a block whose moments are taken at a time: so many that an m x m sum is little beside their product.
MOMENT_ROWS = 512


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

    @property
    def size(self) -> int:
        return len(self.lower)

    @property
    def condition(self) -> float:
        """The factor by which W amplifies rounding, squared: ‖W‖² max k(z, z)."""
        largest = float(np.max(squared_norms(self.lower), initial=0.0))
        return largest * float(np.sum(squared_norms(self.whiten)))

    def is_dependent(self, floor: float) -> bool:
        """Whether the others leave less than `floor` k(z, z) of some point z: 1/‖w‖² for its dual w."""
        return bool(np.any(squared_norms(self.whiten) * squared_norms(self.lower) * floor > 1.0))

    def noise(self, features: Array) -> Array:  # (b, m) -> (b,)
        """What rounding does to k(x, x) - ‖f(x)‖² for φ(x) ≈ Σ c_j φ(z_j): eps Σ c_j² k(z_j, z_j), about.

        The entries of k(Z, Z) are rounded by eps. Far from points that are near each other c is huge.
        """
        c = times_transposed(features, self.whiten)
        return np.asarray(float(np.finfo(np.float64).eps) * (c**2 @ squared_norms(self.lower)))

    def features(self, x: Rows) -> Array:  # (b, d) float64 -> (b, m)
        """f(x)."""
        return self.sections.times(x, self.whiten)

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

    def weakest(self, second: Array, size: int, floor: float) -> tuple[Indices, Array]:
        """The points to keep, and the (m, c) directions that go with the c others.

        Those go that the rest leave less than `floor` k(z, z) of, and then as many as are above `size`. Each
        time it is the one with the smallest loss.

        Backward greedy column subset selection against M: the point with the smallest loss goes, the
        others' duals are freed of its direction u, w ← w - (w·u)u, and so on. Then W Wᵀ loses ccᵀ with
        c = Wu, and W M Wᵀ loses cpᵀ + pcᵀ with p = WMu - ½(uᵀMu)c. Only the columns that are asked for
        are brought up to date: the s-th point costs O(ms), and two products of matrices come before it.
        """
        lengths = self.whiten @ self.whiten.T
        energies = times_transposed(times_transposed(second, self.whiten).T, self.whiten)  # W M Wᵀ
        length, energy = np.diagonal(lengths).copy(), np.diagonal(energies).copy()
        shortest = 1.0 / squared_norms(self.lower)  # no dual is: w·φ(z) = 1
        c, p = np.zeros((self.size, self.size)), np.zeros((self.size, self.size))
        inside = np.ones(self.size, dtype=np.bool_)
        for s in range(self.size):
            dependent = inside & (floor * length > shortest)
            if not np.any(dependent) and self.size - s <= size:
                break
            going = dependent if np.any(dependent) else inside
            j = int(np.argmin(np.where(going, energy / length, np.inf)))
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


# ── a batch on its way in ────────────────────────────────────────────────────
@dataclass(frozen=True, repr=False)
class Batch:
    """Rows on their way in, and their coordinates: in the dictionary and, from m on, along new points."""

    rows: Rows  # (b, d) float64
    weights: Array  # (b,)
    diag: Array  # (b,) k(x, x)
    f: Array  # (b, m) or (b, m + c)

    def within(self, m: int) -> Batch:
        """The same rows, with their coordinates along the first m points alone."""
        return replace(self, f=self.f[:, :m])

    @cached_property
    def residual(self) -> Array:  # (b,)
        """‖φ - φ̂‖² = k(x, x) - ‖f‖², where rounding may leave it below zero."""
        return self.diag - squared_norms(self.f)

    @property
    def _rounding(self) -> float:
        return ROUNDING * float(self.weights @ self.diag)

    def missed(self) -> float:
        """Σw‖φ - φ̂‖² from above: with what rounding can hide, of which residuals below zero are a sign."""
        return float(self.weights @ np.abs(self.residual)) + self._rounding

    def norm(self, dictionary: Dictionary) -> float:
        """‖√w(Φ - Φ̂)‖² from above, in the spectral norm: with what rounding can hide.

        It is the largest eigenvalue of the residual Gram matrix, and at most the sum of those of its
        blocks on the diagonal. A negative one shows that there is no φ, also where no row alone does.
        """
        blocks = [*row_slices(len(self.f), NORM_ROWS)]
        found = np.zeros(len(blocks))
        residual = self.residual  # of all rows once, not in every thread

        def part(places: Iterable[int]) -> None:
            for place in places:
                found[place] = self._block_norm(dictionary, blocks[place], residual)

        n_threads = n_blas_threads() if dictionary.kernel.parallel else 1
        parallel_map(part, range(len(blocks)), n_threads=n_threads)
        return float(found.sum()) + self._rounding

    def _block_norm(self, dictionary: Dictionary, i: slice, residual: Array) -> float:
        engine, kernel = dictionary.engine, dictionary.kernel
        gram = engine.gram(kernel, engine.load(self.rows[i], kernel, self.f.dtype))
        gram -= self.f[i] @ self.f[i].T
        np.fill_diagonal(gram, residual[i])
        root = np.sqrt(self.weights[i])
        gram *= np.outer(root, root)
        if kernel.why_valid() is not None:
            values, _ = top_pairs(gram, 1)
        else:
            values = np.linalg.eigvalsh(gram)
            if values[0] < -INDEFINITE * float(self.weights[i] @ self.diag[i]):
                seen = (
                    f"a block of K less its part in the span of {many(dictionary.size, 'landmark')} has the "
                    f"eigenvalue {values[0]:.3g} beside a largest of {values[-1]:.3g}"
                )
                raise KernelError(_no_space(kernel, seen))
        return max(float(values[-1]), 0.0)

    @cached_property
    def moments(self) -> Moments:
        """Moments of the coordinates: of blocks of rows on threads, merged in their order."""

        def of_block(f: Array, place: slice) -> Moments:
            return Moments.of(f, self.weights[place])

        return fold(self.f, of_block, height=MOMENT_ROWS, n_threads=n_blas_threads())


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
    (b, m), limit = batch.f.shape, min(limit, dictionary.size + len(batch.f))
    f = np.empty((b, max(m, limit)))  # with room for the columns to come
    f[:, :m] = batch.f
    batch = replace(batch, f=f[:, :m])
    chosen, waiting = np.zeros(0, dtype=np.intp), np.ones(b, dtype=np.bool_)
    while dictionary.size < limit:
        residual, wanted = batch.residual, least - dictionary.size
        left = float(w @ np.maximum(residual, 0.0))
        law = w * np.where(waiting & (residual > floor * batch.diag), residual, 0.0)
        if (left <= goal and wanted <= 0) or not np.any(law > 0.0):
            break
        most = min(PIVOTS, limit - dictionary.size)
        rows, hopeless, lower = _drawn(dictionary, batch, law, most=most, floor=floor, rng=rng)
        waiting[rows], waiting[hopeless] = False, False
        if not len(rows):  # all that was drawn is rounding
            continue
        columns = dictionary.engine.tile(dictionary.kernel, batch.rows, batch.rows[rows])
        subtract(columns, batch.f, batch.f[rows].T)
        columns = columns @ np.linalg.inv(lower).T
        # Exactly triangular among the chosen: what rounding leaves there is as large as a small pivot.
        columns[chosen], columns[rows] = 0.0, lower
        # Columns of a Cholesky factor are nested: those beyond the goal can be left out.
        count = max(wanted, first_reaching(w @ columns**2, left - goal))
        rows, columns = rows[:count], columns[:, :count]
        m = dictionary.size + len(rows)
        f[:, dictionary.size : m] = columns
        batch = replace(batch, f=f[:, :m])
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

    A residual that is large for its row is taken in whatever the points are. Beside points near each other it
    may be noise; then one of them goes (`Dictionary.weakest`), and the row, far from them, takes its place.
    """
    drawn = rng.choice(len(law), size=CANDIDATES_A_PIVOT * most, p=law / law.sum())
    rows, places = np.unique(drawn, return_inverse=True)
    x, f = batch.rows[rows], batch.f[rows]  # (p, d), (p, m)
    floors = floor * batch.diag[rows]
    gram = dictionary.kernel.tile(x, x)
    gram -= f @ f.T
    _require_symmetric(dictionary.kernel, gram, float(np.max(batch.diag)))
    residual = batch.residual[rows]
    taken, lower = accept_pivots(gram, places, residual, floors, rng.random(len(places)), most=most)
    # Where k(x, x) holds noise of its own that no other value shows, none of the drawn may be taken.
    hopeless = rows[residual <= floors] if len(taken) else rows
    return rows[taken], hopeless, lower


def _require_symmetric(kernel: Kernel, gram: Array, largest: float) -> None:
    """A user's function has to give k(x, y) = k(y, x): half of its values stand for both halves."""
    if kernel.parallel:
        return
    gap = float(np.max(np.abs(gram - gram.T), initial=0.0))
    if gap > 1e3 * float(np.finfo(np.float64).eps) * largest:
        msg = (
            f"{kernel!r} is not symmetric: k(x, y) and k(y, x) differ by {gap:.3g} for two rows of the "
            "batch. A kernel needs k(x, y) = k(y, x); `mercer.check_kernel` shows the points."
        )
        raise KernelError(msg)


def require_positive(dictionary: Dictionary, batch: Batch) -> None:
    """Raise where there can't be a feature space: a negative length, a projection that is longer."""
    diag, residual = batch.diag, batch.residual
    least = -INDEFINITE * diag
    low = np.flatnonzero(~(residual >= least))
    least[low] -= TIMES_NOISE * dictionary.noise(batch.f[low])
    if np.all(diag >= 0.0) and np.all(residual >= least):
        return
    i = int(np.argmin(np.minimum(diag, residual)))
    seen = (
        f"k(x, x) = {diag[i]:.3g} less its part in the span of {many(dictionary.size, 'landmark')} is "
        f"{residual[i]:.3g} for row {i} of the batch"
    )
    raise KernelError(_no_space(dictionary.kernel, seen))


def _no_space(kernel: Kernel, seen: str) -> str:
    return (
        f"{kernel!r} is not positive semi-definite on these rows: {seen}, so there is no feature space to "
        "sum up a stream in. `mercer.check_kernel` shows a witness; use a valid kernel, or `KernelPCA`, "
        "which shows the negative part."
    )


def row_weights(weights: Array | None, n: int, forgetting: float) -> tuple[float, Array]:
    """What is left of the past after n rows, and what each of them weighs after the last.

    A row of weight s counts as s rows, here too: each of them fades those before it, and the row's own
    copies. With a rows after it that is f^a + … + f^(a + s - 1) = (f^a - f^(a + s))/(1 - f).
    """
    s = np.ones(n) if weights is None else weights
    if forgetting == 1.0:
        return 1.0, s
    # Sums of the weights behind a row alone: from a sum with its own weight, that of 1e17 would take the
    # others' digits with it.
    after = np.append(np.cumsum(s[:0:-1])[::-1], 0.0)
    log = np.log(forgetting)
    # expm1 keeps the digits of 1 - f^s for weights far below one.
    w = np.exp(after * log) * (np.expm1(s * log) / np.expm1(log))
    return float(np.exp(s.sum() * log)), w


def stream_bytes(max_landmarks: int, batch_size: int, d: int) -> int:
    """The most that a stream holds while a batch of dense rows is taken in and points are dropped."""
    p = 2 * max_landmarks  # when everything was forgotten
    # Of p x p: L and W before and after, moments of past, batch and both, what LAPACK works on; of
    # b x p: kernel values, coordinates with and without new points, and their centred copy.
    return FLOAT * (16 * p * p + 6 * batch_size * p + 4 * (batch_size + p) * d) + SMALL
