"""How far the eigenvalues of an approximation can be from the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array

# below: K - K̂ is positive semi-definite, so λ̂ ≤ λ ≤ λ̂ + tr(K - K̂) (Weyl).
# around: rows were projected at different times, so only |√λ - √λ̂| ≤ √(Σ‖φ - φ̂‖²) (Weyl, for
#   singular values).
# estimate: |λ - λ̂| is about as large as stated, judged from sampled entries; no bound.
Kind: TypeAlias = Literal["below", "around", "estimate"]


@dataclass(frozen=True)
class Certificate:
    """What an approximation left out, and hence where the true eigenvalues lie."""

    kind: Kind
    trace: float  # tr K, uncentred, weighted where the rows are
    left_out: float  # tr(K - K̂); for an estimate, the error of K̂ in the spectral norm
    rounding: float = 0.0  # what the precision of the data adds to either side
    goal: float | None = (
        None  # the share that was to be left out at most, where somebody asked for one
    )
    assumed: bool = False  # whether it rests on a kernel being valid that is not known to be

    @property
    def falls_short(self) -> bool:
        """Whether more is left out than was asked for."""
        return self.goal is not None and self.share > self.goal

    @property
    def share(self) -> float:
        """tr(K - K̂)/tr K; not a number for an estimate, which knows no such trace."""
        if self.kind == "estimate":
            return float("nan")
        return self.left_out / self.trace if self.trace > 0 else 0.0

    def bounds(self, values: Array) -> Array:  # (k,) -> (k, 2)
        """Lower and upper bound on each true eigenvalue (for an estimate: a range to expect)."""
        if self.kind == "below":
            low, high = values, values + self.left_out
        elif self.kind == "around":
            roots, gap = np.sqrt(np.maximum(values, 0.0)), np.sqrt(self.left_out)
            low, high = np.maximum(roots - gap, 0.0) ** 2, (roots + gap) ** 2
        else:
            low, high = values - self.left_out, values + self.left_out
        return np.stack([np.maximum(low - self.rounding, 0.0), high + self.rounding], axis=1)

    def __str__(self) -> str:
        if self.kind == "estimate":
            return (
                f"eigenvalues within about {self.left_out:.3g} of the true ones (an estimate from "
                "sampled kernel entries, not a bound)"
            )
        what = f"{self.share:.2e} of tr K left out"
        if self.assumed:
            what += " (if the kernel is valid, which is not known)"
        if self.kind == "below":
            return (
                f"{what}: each true eigenvalue lies at most {self.left_out:.3g} above the one found"
            )
        gap = np.sqrt(self.left_out)
        return (
            f"{what}: the square root of each true eigenvalue is within {gap:.3g} of the one found"
        )
