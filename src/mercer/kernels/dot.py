"""Kernels of the dot product of two points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer._core.errors import KernelError
from mercer.engine.formula import Affine, Expr, Pair, Pow, Tanh, Unit
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import finite, number

if TYPE_CHECKING:
    from mercer.kernels.feature_map import FeatureMap


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


class _WithGamma(Kernel):
    """A function of γ x·x', whose γ may be 1/d or 1/(d·var)."""

    gamma: float | str | None
    rules = ("gamma",)

    def check_parameters(self) -> None:
        """Gamma is positive; a median distance means nothing for dot products."""
        name = type(self).__name__
        if self.gamma == "median":
            msg = f"{name}(gamma='median'): a dot product has no distance. Use a number, 'scale' or '1/d'."
            raise KernelError(msg)
        super().check_parameters()


class Polynomial(_WithGamma):
    """(γ x·x' + θ)^p.

    Parameters
    ----------
    degree : int, default=3
        p; a whole number for a valid kernel.
    gamma : float, "scale", "1/d" or None, default=1.0
        γ; scikit-learn's default is ``"1/d"``.
    coef0 : float, default=1.0
        θ; not negative for a valid kernel.

    Examples
    --------
    >>> Polynomial(2)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    def __init__(
        self, degree: float = 3, gamma: float | str | None = 1.0, coef0: float = 1.0
    ) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def check_parameters(self) -> None:
        """The degree is positive, gamma is positive, coef0 is finite."""
        super().check_parameters()
        finite("degree", self.degree, kernel="Polynomial")
        finite("coef0", self.coef0, kernel="Polynomial")
        if self.degree <= 0:
            msg = f"Polynomial needs degree > 0, but degree={self.degree!r} came. Use 1, 2, 3, …"
            raise KernelError(msg)

    def formula(self) -> Expr:
        base = Affine(Pair("dot"), number(self.gamma, self), float(self.coef0))
        return Pow(base, float(self.degree))

    def feature_map(self, d: int) -> FeatureMap:
        """All monomials of degree ≤ p in `d` features, with their coefficients."""
        if self.gamma in (None, "1/d"):  # which needs no data
            return Polynomial(self.degree, 1.0 / d, self.coef0).feature_map(d)
        return super().feature_map(d)

    def why_valid(self) -> str | None:
        """All coefficients of the expanded power are non-negative."""
        if float(self.degree).is_integer() and self.coef0 >= 0:
            return (
                "expanding the power gives products of dot products with non-negative coefficients"
            )
        return None


class Sigmoid(_WithGamma):
    """tanh(γ x·x' + θ): used like a kernel, but not one for every γ and θ.

    Parameters
    ----------
    gamma : float, "scale", "1/d" or None, default="1/d"
    coef0 : float, default=1.0

    Examples
    --------
    >>> Sigmoid(gamma=1.0, coef0=0.0)([[1.0]], [[1.0]]).round(4)
    array([[0.7616]])
    """

    def __init__(self, gamma: float | str | None = "1/d", coef0: float = 1.0) -> None:
        self.gamma = gamma
        self.coef0 = coef0

    def check_parameters(self) -> None:
        """Gamma is positive, coef0 is finite."""
        super().check_parameters()
        finite("coef0", self.coef0, kernel="Sigmoid")

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
