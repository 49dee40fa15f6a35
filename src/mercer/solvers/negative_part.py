"""The other end of the spectrum: does a supposed kernel matrix have negative eigenvalues?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.solvers.basis import KrylovBasis

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.operators.base import SymmetricOperator

BLOCK = 8
PRODUCTS = 8


@dataclass(frozen=True)
class NegativePart:
    """The negative part of a spectrum, as far as it was seen."""

    lowest: float  # the smallest eigenvalue, or an upper bound on it
    negative: float  # sum of |λ| over negative eigenvalues, or a lower bound on it
    complete: bool  # whether the whole spectrum was seen

    @classmethod
    def of_spectrum(cls, values: Array) -> NegativePart:
        """From all eigenvalues."""
        return cls(float(values.min()), float(-values[values < 0].sum()), complete=True)

    def share(self, total: float) -> float:
        """Negative mass over all mass, Σ|λ⁻| / Σ|λ|, given the trace Σλ."""
        mass = total + 2.0 * self.negative  # Σ|λ| = Σλ + 2 Σ|λ⁻|
        return self.negative / mass if mass > 0 else 1.0


def negative_part(operator: SymmetricOperator, *, rng: np.random.Generator) -> NegativePart:
    """A few block Lanczos steps: Ritz values lie inside the spectrum, so a negative one is proof.

    Of the operator, that is. The steps are taken with its rough copy where there is one, whose rounding has
    negative eigenvalues of its own: vectors that it shows are then multiplied by the operator itself.
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
    return NegativePart(float(values.min()), float(-values[values < 0].sum()), complete=False)
