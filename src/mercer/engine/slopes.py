"""Steps of searches in input space, for `Engine.map`: sums over points, weighed by slopes of the kernel.

Row x_i looks for ψ(t_i) = Σ_j γ_ij φ(z_j), with γ_i = A t_i + c. The host's code, which knows derivatives,
comes with a step; an engine that has slopes of its own gives the same numbers to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows
    from mercer.engine.base import TileKernel


@dataclass(frozen=True, repr=False, eq=False)
class Pulls:
    """Points, and what they weigh for targets."""

    kernel: TileKernel
    points: Rows  # (m, d) Z
    coef: Array  # (m, k) A
    mean: Array | None  # (m,) c; None: zero
    host: Callable[..., Array]

    def __call__(self, x: Rows, *targets: Array) -> Array:  # (b, d), (b, k)
        return self.host(self, x, *targets)


class SlopeSums(Pulls):
    """Σ_j γ_ij ∂k(x_i, z_j)/∂x_i, (b, d)."""


class AxisSlopes(Pulls):
    """Σ_j A_jl ∂k(x_i, z_j)/∂x_i of each axis l, (b, k, d): there are no targets."""


@dataclass(frozen=True, repr=False, eq=False)
class FixedPoints(Pulls):
    """Σ_j p_ij z_j / Σ_j p_ij with p_ij = γ_ij f'(‖x_i - z_j‖²), and whether that is a mean, (b, d + 1).

    It is none, 0 in the last column, where Σ_j p_ij is not below zero by a `share` of its terms.
    """

    share: float
