"""Witnesses against a kernel: points and a vector v with vᵀKv < 0, or k(x, y) ≠ k(y, x)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.types import Array, Indices, Rows
from mercer.diagnostics.rounding import value_error
from mercer.engine.pairwise import dense
from mercer.kernels import Kernel
from mercer.solvers.base import TIE

# What cancels inside a function is not known, so an eigenvalue counts as negative only from -1e-10 of the
# largest on, even where the bound on rounding alone would allow more.
LEAST_DEPTH = 1e-10
# A witness this deep, -λ_min/λ_max, speaks for itself; shrinking may give up depth down to here.
CLEAR_DEPTH = 1e-4
# Among so many points each is tried for whether the witness can do without it.
DROPPABLE = 100
# A second evaluation goes over all pairs of so many points, and over as many random pairs of more.
FEW = 32


@dataclass(frozen=True, eq=False, repr=False)
class Witness:
    """Why a function is not a kernel: vᵀKv < 0 on a few points, or k(x, y) ≠ k(y, x).

    Attributes
    ----------
    kind : "negative" or "asymmetric"
    points : (m, d) array
        The points; for a kernel matrix the (m,) numbers of the rows.
    matrix : (m, m) array
        K on these points.
    vector : (m,) array or None
        v, of length one; None for an asymmetric pair.
    value : float
        vᵀKv; for an asymmetric pair k(x, y) - k(y, x).
    """

    kind: Literal["negative", "asymmetric"]
    points: Array | Indices
    matrix: Array
    vector: Array | None
    value: float

    def __str__(self) -> str:
        where = "rows" if self.points.ndim == 1 else "points"
        shown = f"Witness: {where} {_text(self.points)}"
        if self.vector is None:
            there, back = float(self.matrix[0, 1]), float(self.matrix[1, 0])
            return f"{shown}, k(x, y) = {there:.6g}, k(y, x) = {back:.6g}."
        return f"{shown}, v = {_text(self.vector)}, vᵀKv = {self.value:.4g}."

    def __repr__(self) -> str:
        return f"Witness({self.kind!r}, {len(self.points)} points, value={self.value:.4g})"


def _text(values: Array | Indices) -> str:
    with np.printoptions(precision=4, suppress=True, threshold=24, edgeitems=2, linewidth=200):
        return " ".join(str(values).split())


# ── where kernel values come from ───────────────────────────────────────────
@dataclass(frozen=True)
class KernelValues:
    """Values of a resolved kernel between rows x, by their numbers."""

    kernel: Kernel
    x: Rows

    def matrix(self, rows: Indices) -> Array:
        """K on these rows, as the caller would compute it."""
        with np.errstate(all="ignore"):  # an overflow shows as a value that is not finite
            K = self.kernel(self.x[rows])
        if not np.all(np.isfinite(K)):
            i, j = np.argwhere(~np.isfinite(K))[0]
            msg = (
                f"{self.kernel!r} gives {K[i, j]} for the rows {rows[i]} and {rows[j]}. A kernel needs a "
                "finite value for every pair of points: rescale the data, or change the parameters."
            )
            raise KernelError(msg)
        return K

    def one(self, i: int, j: int) -> float:
        """k(x_i, x_j), evaluated alone; of a point with itself by the diagonal, where white noise lives."""
        x_i, x_j = dense(self.x[[i]]), dense(self.x[[j]])
        if i == j:
            return float(self.kernel.tile_diag(x_i)[0])
        return float(self.kernel.tile(x_i, x_j)[0, 0])

    def points(self, rows: Indices) -> Array:
        """What the caller needs to compute K on these rows."""
        return dense(self.x[rows])

    def error(self, rows: Indices) -> Array:
        """What rounding may have done to each entry of K on these rows, by the formula of the kernel."""
        return value_error(self.kernel, self.x[rows])


@dataclass(frozen=True)
class MatrixValues:
    """The same of a matrix that claims to be a kernel matrix: its entries are what they are."""

    K: Array

    def matrix(self, rows: Indices) -> Array:
        return np.asarray(self.K[np.ix_(rows, rows)], dtype=np.float64)

    def one(self, i: int, j: int) -> float:
        return float(self.K[i, j])

    def points(self, rows: Indices) -> Indices:
        return np.array(rows)

    def error(self, rows: Indices) -> Array:
        return np.zeros((len(rows), len(rows)))


Values: TypeAlias = KernelValues | MatrixValues


# ── rounding ────────────────────────────────────────────────────────────────
def precision(K: Array) -> float:
    """The rounding unit of the values: that of float32 when float32 could hold them all."""
    with np.errstate(over="ignore"):
        single = np.array_equal(K, K.astype(np.float32))
    # Counts fit float32 too, and yet are exact; beyond 2²³ float32 itself knows only whole numbers.
    counts = np.array_equal(K, np.rint(K)) and np.abs(K).max() < 2**23
    return float(np.finfo(np.float32 if single and not counts else np.float64).eps)


def rounding(n: int, largest: float, eps: float) -> float:
    """How far below zero rounding may push an eigenvalue of an n × n matrix of given largest |λ|."""
    # Each value is off by a few units, |E_ij| ≤ 8ε|K_ij|, so ‖E‖₂ ≤ ‖E‖_F ≤ 8ε‖K‖_F ≤ 8ε√n‖K‖₂, and no
    # eigenvalue moves by more than ‖E‖₂ (Weyl).
    return max(LEAST_DEPTH, 8.0 * eps * math.sqrt(n)) * largest


@dataclass(frozen=True, eq=False)
class Trial:
    """One data set, looked at: its extreme eigenvalues, and the witness it yields, if any."""

    witness: Witness | None
    lowest: float
    largest: float

    @classmethod
    def of(cls, values: Values, rows: Indices, *, rng: np.random.Generator) -> Trial:
        """Look for an asymmetric pair first, then for a negative direction."""
        K = values.matrix(rows)
        eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
        lowest, largest = float(eigenvalues[0]), float(np.abs(eigenvalues).max())
        eps = precision(K)
        witness = find_asymmetry(values, rows, K, eps=eps)
        if witness is None and lowest < -rounding(len(K), largest, eps):
            witness = find_negative(values, rows, K, eps=eps, rng=rng)
        return cls(witness, lowest, largest)

    @property
    def depth(self) -> float:
        """λ_min/λ_max, what a search pushes down, to the digits that are not rounding."""
        # With more of them rounding would lead the search, on each processor by a path of its own.
        ratio = self.lowest / self.largest if self.largest > 0 else 0.0
        return float(LEAST_DEPTH * np.rint(ratio / LEAST_DEPTH))

    @property
    def spectrum(self) -> str:
        return f"the smallest eigenvalue is {self.lowest:.3g}, the largest {self.largest:.3g}"


# ── asymmetry ───────────────────────────────────────────────────────────────
def find_asymmetry(values: Values, rows: Indices, K: Array, *, eps: float) -> Witness | None:
    """A pair of rows whose two values differ by more than half of the digits, or None."""
    roots = np.sqrt(np.abs(np.diagonal(K)))
    # |k(x, y)| ≤ √(k(x, x) k(y, y)) for a kernel: the terms that cancel in it may be that large.
    scale = np.maximum(np.maximum(np.abs(K), np.abs(K.T)), np.outer(roots, roots))
    gap = np.divide(np.abs(K - K.T), scale, out=np.zeros_like(scale), where=scale > 0)
    limit = math.sqrt(eps)
    worst = _ranked(gap.ravel())[:5]
    for i, j in zip(*np.unravel_index(worst, gap.shape), strict=True):
        if gap[i, j] <= limit:
            return None
        pair = rows[[min(i, j), max(i, j)]]
        there, back = values.one(pair[0], pair[1]), values.one(pair[1], pair[0])
        # Evaluated alone the pair must differ as well: a tile may round its two halves differently.
        # And by more than the formula of the kernel lets rounding do to either.
        if abs(there - back) > limit * scale[i, j] + 2.0 * values.error(pair).max():
            matrix = values.matrix(pair)
            matrix[0, 1], matrix[1, 0] = there, back
            return Witness("asymmetric", values.points(pair), matrix, None, there - back)
    return None


# ── negative directions ─────────────────────────────────────────────────────
def find_negative(
    values: Values, rows: Indices, K: Array, *, eps: float, rng: np.random.Generator
) -> Witness | None:
    """A small witness vᵀKv < 0 from rows that have one, if a second evaluation agrees."""
    S = 0.5 * (K + K.T)
    eigenvalues, vectors = np.linalg.eigh(S)
    largest = float(np.abs(eigenvalues).max())
    floor = rounding(len(K), largest, eps)
    depth = min(CLEAR_DEPTH, -0.5 * float(eigenvalues[0]) / largest)
    weights = np.sum(_lowest_space(eigenvalues, vectors) ** 2, axis=1)  # (n,): of any basis

    def is_deep(subset: Indices) -> bool:
        own = np.linalg.eigvalsh(S[np.ix_(subset, subset)])
        return bool(own[0] < -floor and -own[0] >= depth * np.abs(own).max())

    for subset in _subsets(S, weights, floor, is_deep):
        witness = _confirmed(values, rows[subset], eps=eps, rng=rng)
        if witness is not None:
            return witness
    return None


def _first(sizes: Array) -> int:
    """Where the largest is, the first of those that equal it within rounding."""
    largest = float(np.max(sizes))
    return int(np.argmax(sizes >= largest - TIE * abs(largest)))


def _ranked(sizes: Array) -> Indices:
    """Positions from the largest of these down; what is equal within rounding in its own order."""
    largest = float(np.max(sizes)) or 1.0  # sizes are not negative
    return np.argsort(-np.rint(sizes / (TIE * largest)), kind="stable")


def _lowest_space(eigenvalues: Array, vectors: Array) -> Array:  # (n,), (n, n) -> (n, p)
    """A basis of the directions in which K is most negative: several where the eigenvalue repeats."""
    return vectors[:, eigenvalues <= eigenvalues[0] + TIE * abs(eigenvalues[0])]


def _subsets(
    S: Array, weights: Array, floor: float, is_deep: Callable[[Indices], bool]
) -> Iterator[Indices]:
    """Positions that may carry a witness: one point, a pair, a few, all."""
    i = _first(-np.diagonal(S))
    if S[i, i] < -floor:  # k(x, x) = ‖φ(x)‖² is negative
        yield np.array([i])
    if len(S) == 1:
        return
    pair = _worst_pair(S)
    if is_deep(pair):  # Cauchy-Schwarz fails
        yield pair
    yield _fewest(weights, is_deep)
    yield np.arange(len(S))


def _worst_pair(S: Array) -> Indices:
    """The two points whose 2 × 2 matrix has the lowest eigenvalue."""
    diag = np.diagonal(S)
    half_sum = 0.5 * (diag[:, None] + diag[None, :])
    half_gap = 0.5 * (diag[:, None] - diag[None, :])
    lowest = half_sum - np.hypot(half_gap, S)
    np.fill_diagonal(lowest, np.inf)
    return np.sort(np.array(np.unravel_index(_first(-lowest.ravel()), S.shape)))


def _fewest(weights: Array, is_deep: Callable[[Indices], bool]) -> Indices:
    """Few points, chosen by their weight, on which the negative direction survives."""
    order, n = _ranked(weights), len(weights)
    m = min(3, n)
    while m < n and not is_deep(order[:m]):
        m = min(m + max(1, m // 2), n)
    subset = order[:m]
    if m <= DROPPABLE:
        for point in order[:m][::-1]:  # the lightest first
            rest = subset[subset != point]
            if len(rest) > 0 and is_deep(rest):
                subset = rest
    return np.sort(subset)


def _confirmed(
    values: Values, rows: Indices, *, eps: float, rng: np.random.Generator
) -> Witness | None:
    """A witness on these rows, if their own matrix, computed afresh, has a negative direction."""
    K = values.matrix(rows)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (K + K.T))
    # Rounding chooses the sign of an eigenvector, and the basis where an eigenvalue repeats. The point that
    # weighs most in that space, the first of equals, is projected onto it: the same from any basis, and
    # positive there.
    basis = _lowest_space(eigenvalues, vectors)  # (m, p)
    v = basis @ basis[_first(np.sum(basis**2, axis=1))]
    v /= np.linalg.norm(v)
    value = float(v @ K @ v)
    # Pairs evaluated alone are rounded differently; |vᵀEv| ≤ ‖E‖₂ ≤ m max|E_ij|.
    noise = len(rows) * _noise(values, rows, K, rng=rng)
    # |vᵀEv| ≤ |v|ᵀ|E||v|, with what the formula of the kernel lets rounding do to each value.
    noise += float(np.abs(v) @ values.error(rows) @ np.abs(v))
    if not value < -rounding(len(K), float(np.abs(eigenvalues).max()), eps) - noise:
        return None  # nor is there a witness where the bound is NaN
    return Witness("negative", values.points(rows), K, v, value)


def _noise(values: Values, rows: Indices, K: Array, *, rng: np.random.Generator) -> float:
    m = len(rows)
    pairs = np.indices((m, m)).reshape(2, -1).T
    if m > FEW:
        pairs = rng.integers(m, size=(FEW * FEW, 2))
    with np.errstate(all="ignore"):
        return max(abs(values.one(rows[i], rows[j]) - float(K[i, j])) for i, j in pairs)
