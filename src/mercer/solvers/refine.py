"""Proof and refinement: Ritz pairs of a rough operator become eigenpairs of the exact one.

By products with the exact one, or by rows of it where the first product was exact. Also here: what a few
products show of negative eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mercer._core.observer import SILENT, Observer
from mercer._core.types import Array
from mercer.engine.thin import inner, largest_rows, subtract, times
from mercer.operators.base import SymmetricOperator
from mercer.solvers.base import EigenPairs, Status, allowed_residuals, relative_residuals
from mercer.solvers.basis import EPS, KrylovBasis, orthonormal

MAX_REFINEMENTS = 8
MOST_FLOOR = 1e-4
# The share of an allowed residual that the rounding of a rough operator may add unseen. A residual is a
# thousandth of its eigenvalue at most, so scores, products over √λ, are off by a millionth at most.
SLACK = 1e-3
SEEN_SLACK = 0.25  # the same where rows show afterwards what is missing
GAIN = 0.2  # the share of a residual that the product of its correction may be off by
INSIDE = 1e-12  # what is left of a column, of its length, where u holds all of it


def refine(
    operator: SymmetricOperator,
    basis: KrylovBasis,
    k: int,
    *,
    tol: float,
    rough: SymmetricOperator | None = None,
    observer: Observer = SILENT,
    most: int = MAX_REFINEMENTS,
    found_by: EigenPairs | None = None,
) -> EigenPairs:
    """A product with the operator proves the pairs; while a residual is too large, correct and go on.

    The correction is Davidson's, with the basis as preconditioner: along a Ritz vector of value μ the
    residual is divided by λ - μ, and outside of the basis, where the eigenvalues are small beside λ, by λ.
    A Rayleigh-Ritz step over old vectors and corrections does the rest.

    A rough operator that errs by ε on a unit vector leaves the product of a correction of length δ off by εδ.
    The first product shows ε; once εδ is not far below what a residual may be, the operator itself
    multiplies the corrections. Pairs that the rough one has refined already are `found_by` it; without them
    they are the Ritz pairs of the basis.
    """
    slack = SLACK if operator.exact is None else SEEN_SLACK
    if found_by is None:
        _, coordinates = basis.ritz(k)
        u, n_products = times(basis.q, coordinates), basis.n_products  # (n, k)
    else:
        u, n_products = found_by.vectors, found_by.n_products
    product = operator.matmat(u)
    error = 0.0
    if rough is not None and most > 0:
        before = basis.images(coordinates) if found_by is None else found_by.products
        error = float(np.linalg.norm(product - before, axis=0).max(initial=0.0))
        del before
    values, u, p = _rayleigh_ritz(u, product)
    del product  # what is as long as the vectors and not needed any more
    n_products += 1
    excess = _excess(operator, values, u, p, tol)
    observer.step(n_products, None, "products", tol * excess)
    for _ in range(most):
        if excess <= 1.0:
            break
        fresh = _orthogonal_to(u, _correction(basis, k, values, p - u * values))
        if fresh.shape[1] == 0:
            break
        found = None
        if rough is not None:
            found, lengths = _corrected(u, p, fresh, rough.matmat(fresh), k)
            n_products += 1
            allowed = slack * allowed_residuals(found[0], tol)
            if operator.exact is not None:  # or what takes most of the residual away, and is seen
                allowed = np.maximum(allowed, GAIN * relative_residuals(values, u, p))
            if np.any(error * lengths > allowed * abs(float(found[0][0]))):
                found = rough = None
        if found is None:
            found, _ = _corrected(u, p, fresh, operator.matmat(fresh), k)
            n_products += 1
        values, u, p = found
        last, excess = excess, _excess(operator, values, u, p, tol)
        asked = observer.step(n_products, None, "products", tol * excess)
        if asked or excess > 0.5 * last:
            break
    status = Status.CONVERGED if excess <= 1.0 else Status.STAGNATED
    return EigenPairs.largest(values, u, p, k, n_products=n_products, status=status)


def _excess(operator: SymmetricOperator, values: Array, u: Array, p: Array, tol: float) -> float:
    """The largest residual over what it may be: at most one when every pair is right."""
    if operator.exact is None:
        allowed = allowed_residuals(values, tol, rounding_floor(operator, values))
    else:  # half of it is room for what rows are going to show
        allowed = allowed_residuals(values, 0.5 * tol)
    return float(np.max(relative_residuals(values, u, p) / allowed, initial=0.0))


def rounding_floor(operator: SymmetricOperator, values: Array, eps: float | None = None) -> float:
    """The residual that rounding leaves: in the operator's own precision, or in another."""
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0.0:
        return 1.0
    product = 16.0 * (eps or operator.eps) * max(scale, operator.size) / scale
    # The projected problem is float64 whatever the operator is. The sums of up to n terms that make it and
    # rotate by its eigenvectors are off by some √n units (errors of both signs; other BLAS, other sums).
    # LAPACK's divide and conquer drops couplings below 8 of its own half units from z zᵀ (TOL in dlaed2),
    # up to k of them: each pair of that problem is off by 2 · 8 · √k half units, however it is added.
    rotation = (4.0 * np.sqrt(operator.n) + 8.0 * np.sqrt(len(values))) * EPS
    # Whatever rounding does, pairs with larger residuals than this are not called found.
    return min(max(product, rotation), MOST_FLOOR)


def _rayleigh_ritz(u: Array, p: Array) -> tuple[Array, Array, Array]:
    small = inner(u, p)
    values, rotation = np.linalg.eigh(0.5 * (small + small.T))
    values, rotation = values[::-1], np.ascontiguousarray(rotation[:, ::-1])
    return values, times(u, rotation), times(p, rotation)


def _corrected(
    u: Array, p: Array, fresh: Array, images: Array, k: int
) -> tuple[tuple[Array, Array, Array], Array]:
    """The top k over vectors and corrections, their products, and how long each one's correction is."""
    # fᵀA u is taken from the proved products p alone: from the images of f it would be as rough as
    # the operator they may come from, and it is what the whole correction rests on.
    coupling, own = inner(fresh, p), inner(fresh, images)
    top = inner(u, p)
    small = np.block([[0.5 * (top + top.T), coupling.T], [coupling, 0.5 * (own + own.T)]])
    values, rotation = np.linalg.eigh(small)
    values, rotation = values[::-1][:k], rotation[:, ::-1][:, :k]
    old, new = rotation[: u.shape[1]], rotation[u.shape[1] :]
    lengths = np.linalg.norm(new, axis=0)
    vectors, products = times(u, old), times(p, old)
    subtract(vectors, fresh, -new)
    subtract(products, images, -new)
    return (values, vectors, products), lengths


def _correction(basis: KrylovBasis, k: int, values: Array, error: Array) -> Array:
    known, coordinates = basis.ritz(basis.size)
    inside = inner(basis.q, error)  # (size, k)
    along = coordinates[:, k:].T @ inside  # (size - k, k)
    gaps = values[None, :] - known[k:, None]
    least = 1e-4 * abs(values[0])  # a cluster cut in two by k: its directions are found together
    gaps = np.where(np.abs(gaps) < least, least, gaps)
    floor = np.maximum(np.abs(values), least)
    # What lies in the basis, over its gaps, and what lies outside, over the eigenvalue.
    found = error / floor
    subtract(found, basis.q, inside / floor - coordinates[:, k:] @ (along / gaps))
    return found


def _orthogonal_to(u: Array, block: Array) -> Array:
    """The block outside of the span of u, orthonormal; columns that have nothing there are left out."""
    # Twice is enough (Kahan): a column that the second pass shortens again by half was rounding, which
    # would bring back a vector that u holds already.
    rounded = INSIDE * np.linalg.norm(block, axis=0)
    for least in (rounded, 0.5):
        block = block.copy()
        subtract(block, u, inner(u, block))
        norms = np.linalg.norm(block, axis=0)
        block, _ = orthonormal(block[:, norms > least] / norms[norms > least], drop=1e-12)
    return block


def ritz_pairs(
    operator: SymmetricOperator,
    start: Array,  # (n, b)
    k: int,
    passes: int,
    *,
    rng: np.random.Generator,
    observer: Observer = SILENT,
) -> EigenPairs:
    """The k best pairs in the Krylov space of `start` after a number of block products.

    Each Ritz value is at most the true one, and lies within its residual of some true one. Products of the
    Ritz vectors follow from A Q = Q T + W B, so the residuals are true and cost no product.
    """
    width, start = start.shape[1], operator.placed(start)
    basis = KrylovBasis(start, passes * width)
    # Columns of length one: directions count, and scores of small variance are short.
    lengths = np.linalg.norm(start, axis=0)
    basis.append(start / np.where(lengths > 0, lengths, 1.0), rng=rng)
    basis.multiply(operator)
    while not observer.step(basis.n_products, passes, "products", None):
        if basis.n_products >= passes:
            break
        if basis.next_width == 0:  # the space is invariant: what is left is looked for outside
            basis.inject(width, rng=rng)
        if basis.next_width == 0:
            break
        basis.extend()
        basis.multiply(operator)
    values, coordinates = basis.ritz(k)
    vectors, products = times(basis.q, coordinates), basis.images(coordinates)
    facts = {"n_products": basis.n_products, "status": Status.REFINED}
    return EigenPairs.largest(values, vectors, products, k, **facts).here()


# ── spot checks: what rough products have added to Ritz pairs, from a few rows drawn at random ──
SPOT_ROWS = 256  # a tenth or so of what is looked for, for a percent of a product
LARGEST = 4  # rows of each vector that are looked at in any case
TWICE = 2.0  # what the rows show is doubled, for what they may have missed
# What may be missing in the product of a pair, of its eigenvalue: scores are products over √λ, so this is how
# far those of the fit may be from those of `transform`, as a root mean square over the rows in units of their
# spread (single rows may be ten times as far).
SCORES = 1e-5
# The same of products of two half floats a number, whose rows are float32 as a rule.
SEEN_SCORES = 1e-4


def spot_checked(
    operator: SymmetricOperator, basis: KrylovBasis, k: int, *, tol: float, rng: np.random.Generator
) -> EigenPairs:
    """Ritz pairs of a basis whose first block the operator itself has multiplied, and a rough one the others.

    With u = Q₁s₁ + Q₂s₂ the product A Q₁ is exact, and that of Q₂ is off by E Q₂ for a rough A - E. When
    the first block is near the vectors sought, s₂ is short. Rows of A u show the size of E Q₂s₂; where it is
    too large, the status is STAGNATED, and a whole product has to prove the pairs.
    """
    values, coordinates = basis.ritz(k)
    u, products = times(basis.q, coordinates), basis.images(coordinates)
    unseen = _unseen(operator, u, products, rng=rng)
    pairs = EigenPairs.largest(values, u, products, k, n_products=basis.n_products, unseen=unseen)
    return _judged(operator, pairs, tol)


def compared(
    operator: SymmetricOperator, pairs: EigenPairs, *, tol: float, rng: np.random.Generator
) -> EigenPairs:
    """Pairs whose products are less exact than rows, with what rows show of them; STAGNATED: too much."""
    unseen = _unseen(operator, pairs.vectors, pairs.products, rng=rng)
    return _judged(operator, replace(pairs, unseen=unseen), tol)


def _judged(operator: SymmetricOperator, pairs: EigenPairs, tol: float) -> EigenPairs:
    """Converged, if residuals and scores are small enough with what rows have shown; else stagnated."""
    exact, scores = (operator.exact or operator), SCORES if operator.exact is None else SEEN_SCORES
    floor = rounding_floor(operator, pairs.values, exact.eps)
    allowed = allowed_residuals(pairs.values, tol, floor)
    assert pairs.unseen is not None
    near = np.all(pairs.residuals <= allowed) and np.all(pairs.unseen <= scores * pairs.values)
    return replace(pairs, status=Status.CONVERGED if near else Status.STAGNATED)


def _unseen(  # (n, k), (n, k) -> (k,)
    operator: SymmetricOperator, u: Array, products: Array, *, rng: np.random.Generator
) -> Array:
    """‖A u - products‖ for each column, twice as much to be safe, from a sample of rows.

    The rows where a vector is largest are always looked at. Of the others a third is drawn evenly, and two
    thirds by the squares and the sizes of the vectors: an even draw would miss an eigenvector that lives on
    a dozen rows. Each row that is drawn counts by one over its chance.
    """
    n, k = u.shape
    if n <= SPOT_ROWS + LARGEST * k:  # few enough to look at them all
        gap = np.asarray(operator.rows(np.arange(n), u)) - np.asarray(products)
        return np.asarray(TWICE * np.linalg.norm(gap, axis=0))
    sizes = np.abs(u)
    largest = np.unique(largest_rows(sizes, LARGEST))
    chances = 1.0 / n + (sizes**2).sum(axis=1) / k + (sizes / sizes.sum(axis=0)).sum(axis=1) / k
    chances[largest] = 0.0
    chances /= chances.sum()
    drawn = rng.choice(n, SPOT_ROWS, p=chances)
    rows = np.concatenate([largest, drawn])
    gap = np.asarray(operator.rows(rows, u)) - np.asarray(products[rows])  # (m, k)
    counts = np.concatenate([np.ones(len(largest)), 1.0 / (SPOT_ROWS * chances[drawn])])
    return np.asarray(TWICE * np.sqrt(counts @ gap**2))


# ── the other end of the spectrum: does a supposed kernel matrix have negative eigenvalues? ──
BLOCK = 8
PRODUCTS = 8


@dataclass(frozen=True)
class NegativePart:
    """The negative part of a spectrum, as far as it was seen."""

    lowest: float  # the smallest eigenvalue, or an upper bound on it
    negative: float  # sum of |λ| over negative eigenvalues, or a lower bound on it
    complete: bool  # whether the whole spectrum was seen

    @classmethod
    def of_spectrum(cls, values: Array, *, complete: bool = True) -> NegativePart:
        """From all eigenvalues, or from Ritz values, which lie inside the spectrum."""
        return cls(float(values.min()), float(-values[values < 0].sum()), complete)

    def share(self, total: float) -> float:
        """Negative mass over all mass, Σ|λ⁻| / Σ|λ|, given the trace Σλ."""
        mass = total + 2.0 * self.negative  # Σ|λ| = Σλ + 2 Σ|λ⁻|
        return self.negative / mass if mass > 0 else 1.0


def negative_part(operator: SymmetricOperator, *, rng: np.random.Generator) -> NegativePart:
    """A few block Lanczos steps: Ritz values lie inside the spectrum, so a negative one is proof.

    A rough copy, which takes the steps where there is one, has negative eigenvalues of its own by rounding:
    vectors that it shows are multiplied by the operator itself.
    """
    n, work = operator.n, operator.rough or operator
    basis = KrylovBasis(np.empty((n, 0)), BLOCK * (PRODUCTS + 1))
    basis.append(rng.standard_normal((n, min(BLOCK, n))), rng=rng)
    for _ in range(PRODUCTS):
        basis.multiply(work)
        if basis.next_width == 0 or basis.n_products == PRODUCTS:
            break
        basis.extend()
    values, coordinates = basis.ritz(basis.size)
    if work is not operator and values.min() < 0:
        u = basis.q @ coordinates[:, -BLOCK:]  # (n, b), the lowest
        small = u.T @ operator.matmat(u)
        values = np.linalg.eigvalsh(0.5 * (small + small.T))
    return NegativePart.of_spectrum(values, complete=False)
