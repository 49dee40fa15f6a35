"""Spot checks: what rough products have added to Ritz pairs, from a few rows drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.status import Status
from mercer.solvers.base import EigenPairs, allowed_residuals
from mercer.solvers.refine import rounding_floor

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.operators.base import SymmetricOperator
    from mercer.solvers.basis import KrylovBasis

ROWS = 256  # a tenth or so of what is looked for, for a percent of a product
LARGEST = 4  # rows of each vector that are looked at in any case
TWICE = 2.0  # what the rows show is told twice over, for what they may have missed
# Of its own eigenvalue, what may be missing in the product of a pair: scores are products over √λ, so
# this is how far those of the fit may be from those of `transform`, however small a component is, as a root
# mean square over the rows in units of their spread (single rows may be ten times as far).
SCORES = 1e-5


def spot_checked(
    operator: SymmetricOperator,
    basis: KrylovBasis,
    k: int,
    *,
    tol: float,
    rng: np.random.Generator,
) -> EigenPairs:
    """Ritz pairs of a basis whose first block the operator itself has multiplied, and a rough one the others.

    With u = Q₁s₁ + Q₂s₂ the product A Q₁ is exact, and that of Q₂ is off by E Q₂ for a rough A - E. When
    the first block is near the vectors sought, s₂ is short: E Q₂s₂ is a rounding error of a correction (of
    all of u after a restart). Its size is not assumed but seen, on rows of A u that are computed for it.
    Status.STAGNATED means that it is too large, and that a whole product is to prove the pairs.
    """
    values, coordinates = basis.ritz(k)
    u, products = basis.q @ coordinates, basis.images(coordinates)
    unseen = _unseen(operator, u, products, rng=rng)
    pairs = EigenPairs.largest(values, u, products, k, n_products=basis.n_products, unseen=unseen)
    allowed = allowed_residuals(pairs.values, tol, rounding_floor(operator, pairs.values))
    if np.all(pairs.residuals <= allowed) and np.all(unseen <= SCORES * values):
        return pairs
    return replace(pairs, status=Status.STAGNATED)


def _unseen(
    operator: SymmetricOperator,
    u: Array,  # (n, k)
    products: Array,  # (n, k)
    *,
    rng: np.random.Generator,
) -> Array:
    """‖A u - products‖ for each column, twice as much to be safe, from a sample of rows.

    The rows where a vector is largest are always looked at. Of the others a third is drawn evenly, and two go
    where the vectors are, by their squares and by their sizes: an eigenvector that lives on a dozen rows has
    its rounding there and on their neighbours, and an even draw would never meet them. Each row that is
    drawn counts by one over its chance, so that the mean is the sum over all rows.
    """
    n, k = u.shape
    if n <= ROWS + LARGEST * k:  # few enough to look at them all
        return TWICE * np.linalg.norm(operator.rows(np.arange(n), u) - products, axis=0)
    sizes = np.abs(u)
    largest = np.unique(np.argpartition(sizes, n - LARGEST, axis=0)[n - LARGEST :])
    chances = 1.0 / n + (sizes**2).sum(axis=1) / k + (sizes / sizes.sum(axis=0)).sum(axis=1) / k
    chances[largest] = 0.0
    chances /= chances.sum()
    drawn = rng.choice(n, ROWS, p=chances)
    rows = np.concatenate([largest, drawn])
    gap = operator.rows(rows, u) - products[rows]  # (m, k)
    counts = np.concatenate([np.ones(len(largest)), 1.0 / (ROWS * chances[drawn])])
    return np.asarray(TWICE * np.sqrt(counts @ gap**2))
