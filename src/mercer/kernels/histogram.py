"""Kernels for histograms and other counts."""

from __future__ import annotations

from typing import ClassVar

from mercer._core.params import Constraints, Number
from mercer.engine.formula import Affine, Exp, Expr, Pair
from mercer.kernels.base import Kernel


class Chi2(Kernel):
    """exp(-γ Σ_d (x_d - x'_d)²/(x_d + x'_d)), for histograms: no entry may be negative.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> Chi2()([[1.0, 0.0]], [[0.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    proof = "its exponent is conditionally negative definite on non-negative data (Schoenberg)"

    constraints: ClassVar[Constraints] = {"gamma": Number(0)}

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def formula(self) -> Expr:
        return Exp(Affine(Pair("chi2"), -self.gamma))
