"""A few exact products turn an approximation into Ritz pairs whose residuals are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer._core.status import Status
from mercer._core.watch import BLIND
from mercer.solvers.base import EigenPairs
from mercer.solvers.basis import KrylovBasis

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer._core.watch import Watch
    from mercer.operators.base import SymmetricOperator


def ritz_pairs(
    operator: SymmetricOperator,
    start: Array,  # (n, b)
    k: int,
    passes: int,
    *,
    rng: np.random.Generator,
    watch: Watch = BLIND,
) -> EigenPairs:
    """The k best pairs in the Krylov space of `start` after a number of block products.

    Each Ritz value is at most the true one, and each lies within its residual of some true one. Products
    of the Ritz vectors follow from A Q = Q T + W B, so the residuals are true and cost no product.
    """
    width = start.shape[1]
    basis = KrylovBasis(operator.n, passes * width)
    basis.append(_unit_columns(start), rng=rng)
    basis.multiply(operator)
    while not watch.step(basis.n_products, passes, "products", None) and basis.n_products < passes:
        if basis.next_width == 0:  # the space is invariant: what is left is looked for outside
            basis.inject(width, rng=rng)
        if basis.next_width == 0:
            break
        basis.extend()
        basis.multiply(operator)
    values, coordinates = basis.ritz(k)
    vectors, products = basis.q @ coordinates, basis.images(coordinates)
    facts = {"n_products": basis.n_products, "status": Status.REFINED}
    return EigenPairs.largest(values, vectors, products, k, **facts)


def _unit_columns(block: Array) -> Array:
    """Columns of length one: directions count, and scores of small variance are short."""
    lengths = np.linalg.norm(block, axis=0)
    return block / np.where(lengths > 0, lengths, 1.0)
