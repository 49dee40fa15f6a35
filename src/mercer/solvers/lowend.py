"""The other end of the spectrum: does a supposed kernel matrix have negative eigenvalues?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercer.solvers.basis import KrylovBasis

if TYPE_CHECKING:
    import numpy as np

    from mercer._core.types import Array
    from mercer.operators.base import SymmetricOperator

BLOCK = 8
PRODUCTS = 8


@dataclass(frozen=True)
class LowEnd:
    """The negative part of a spectrum, as far as it was seen."""

    lowest: float  # the smallest eigenvalue, or an upper bound on it
    negative: float  # sum of |λ| over negative eigenvalues, or a lower bound on it
    complete: bool  # whether the whole spectrum was seen

    @classmethod
    def of_spectrum(cls, values: Array) -> LowEnd:
        """From all eigenvalues."""
        return cls(float(values.min()), float(-values[values < 0].sum()), complete=True)

    def share(self, total: float) -> float:
        """Negative mass over all mass, Σ|λ⁻| / Σ|λ|, given the trace Σλ."""
        mass = total + 2.0 * self.negative  # Σ|λ| = Σλ + 2 Σ|λ⁻|
        return self.negative / mass if mass > 0 else 1.0


def low_end(operator: SymmetricOperator, *, rng: np.random.Generator) -> LowEnd:
    """A few block Lanczos steps: Ritz values lie inside the spectrum, so a negative one is proof."""
    n = operator.n
    basis = KrylovBasis(n, BLOCK * (PRODUCTS + 1))
    basis.append(rng.standard_normal((n, min(BLOCK, n))), rng=rng)
    for _ in range(PRODUCTS):
        basis.multiply(operator)
        if basis.next_width == 0 or basis.n_products == PRODUCTS:
            break
        basis.extend()
    values, _ = basis.ritz(basis.size)
    return LowEnd(float(values.min()), float(-values[values < 0].sum()), complete=False)
