"""The certificate of a stream: how far eigenvalues can be when rows were projected at different times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercer.model.certificate import Certificate

if TYPE_CHECKING:
    from mercer._core.types import Array


@dataclass(frozen=True)
class StreamCertificate(Certificate):
    """|√λ - √λ̂| ≤ ‖Φ - Φ̂‖, for all eigenvalues at once (Weyl, for singular values).

    Centring is a projection, and makes no norm larger. The spectral norm is far below the Frobenius norm,
    the root of what was left out, where many directions are missed a little.
    """

    norm: float = math.inf  # at least ‖√w(Φ - Φ̂)‖², spectral

    def bounds(self, values: Array) -> Array:  # (k,) -> (k, 2)
        """Lower and upper bound on each true eigenvalue."""
        return Certificate("around", self.trace, self.norm, self.rounding).bounds(values)

    def __str__(self) -> str:
        what, _, _ = super().__str__().partition(":")
        gap = math.sqrt(self.norm)
        return (
            f"{what}: the square root of each true eigenvalue is within {gap:.3g} of the one found"
        )
