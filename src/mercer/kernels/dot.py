"""Kernels of the dot product of two points."""

from __future__ import annotations

from typing import ClassVar

from mercer._core.params import Constraints, Number
from mercer.engine.formula import Affine, Expr, Pair, Pow, Tanh, Unit
from mercer.kernels.bandwidth import number
from mercer.kernels.base import Kernel
from mercer.kernels.map_base import FeatureMap


class Linear(Kernel):
    """x·x': kernel PCA with it is PCA.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    proof = "it is the dot product of the points themselves"

    def formula(self) -> Expr:
        return Pair("dot")


# γ may be 1/d or 1/(d·var); a median distance means nothing for dot products.
_GAMMA = Number(0, also=("scale", "1/d", None))


class Polynomial(Kernel):
    """(γ x·x' + θ)^p.

    Parameters
    ----------
    degree : int, default=3
        p; a whole number for a valid kernel.
    gamma : float, "scale", "1/d" or None, default=1.0
        γ; scikit-learn's default is ``"1/d"``.
    coef0 : float, default=1.0
        θ; not negative for a valid kernel.

    See Also
    --------
    Linear : Degree one.
    Power : A whole power of any kernel.

    Examples
    --------
    >>> Polynomial(2)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    rules = ("gamma",)
    constraints: ClassVar[Constraints] = {"degree": Number(0), "gamma": _GAMMA, "coef0": Number()}

    def __init__(
        self, degree: float = 3, gamma: float | str | None = 1.0, coef0: float = 1.0
    ) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def formula(self) -> Expr:
        base = Affine(Pair("dot"), number(self.gamma, self), float(self.coef0))
        return Pow(base, float(self.degree))

    def feature_map(self, d: int) -> FeatureMap:
        if self.gamma in (None, "1/d"):  # which needs no data
            return Polynomial(self.degree, 1.0 / d, self.coef0).feature_map(d)
        return super().feature_map(d)

    def why_valid(self) -> str | None:
        why = "expanding the power gives products of dot products with non-negative coefficients"
        return why if float(self.degree).is_integer() and self.coef0 >= 0 else None


class Sigmoid(Kernel):
    """tanh(γ x·x' + θ): used like a kernel, but it is not one, whatever γ > 0 and θ are.

    Parameters
    ----------
    gamma : float, "scale", "1/d" or None, default="1/d"
    coef0 : float, default=1.0

    Examples
    --------
    >>> Sigmoid(gamma=1.0, coef0=0.0)([[1.0]], [[1.0]]).round(4)
    array([[0.7616]])
    """

    rules = ("gamma",)
    constraints: ClassVar[Constraints] = {"gamma": _GAMMA, "coef0": Number()}

    def __init__(self, gamma: float | str | None = "1/d", coef0: float = 1.0) -> None:
        self.gamma = gamma
        self.coef0 = coef0

    def formula(self) -> Expr:
        return Tanh(Affine(Pair("dot"), number(self.gamma, self), float(self.coef0)))


class Cosine(Kernel):
    """x·x' / (‖x‖ ‖x'‖), with 0 for a row of zeros.

    Examples
    --------
    >>> Cosine()([[1.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.7071]])
    """

    proof = "it is the dot product of the points, each scaled to length one"

    def formula(self) -> Expr:
        return Unit(Pair("dot"))
