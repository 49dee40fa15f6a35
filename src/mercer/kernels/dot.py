"""Kernels of the dot product of two points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from mercer._core.errors import KernelError
from mercer.engine.pairwise import SQUARABLE, dense, dot, lengths, squared_norms
from mercer.kernels.bandwidth import check_width, gamma_from, is_rule
from mercer.kernels.base import Kernel, finite
from mercer.kernels.scaled import Scaled, divided_rows, in_range, unit_rows
from mercer.kernels.stationary import number

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.feature_map import FeatureMap


class OfDotProducts(Kernel):
    """f(x·x')."""

    @property
    def differentiable(self) -> bool:
        """Yes."""
        return True

    def _dot_slope(self, products: Array) -> Array:
        """F' of dot products, in a new array or in their own."""
        raise NotImplementedError

    def dot_product(self, values: Array) -> Array | None:
        """x·x' for values f(x·x'), where f can be inverted; None where it can't."""
        del values
        return None

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        slopes = self._dot_slope(dot(x, y))
        slopes *= weights
        return slopes @ dense(y)

    def diag_slope(self, x: Rows) -> Array:
        return np.asarray(2.0 * self._dot_slope(squared_norms(x))[:, None] * dense(x))


class Linear(OfDotProducts):
    """x·x': kernel PCA with it is PCA.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def tile(self, x: Rows, y: Rows) -> Array:
        return dot(x, y)

    def tile_diag(self, x: Rows) -> Array:
        return squared_norms(x)

    def scaled(self, x: Rows, y: Rows | None = None) -> Scaled:
        return Scaled.dots(x, y)

    def _dot_slope(self, products: Array) -> Array:
        return np.ones_like(products)

    def dot_product(self, values: Array) -> Array | None:
        """The values themselves."""
        return values

    def why_valid(self) -> str | None:
        """It is the dot product of the points themselves."""
        return "it is the dot product of the points themselves"

    def map_dimension(self, d: int) -> int:
        """The points themselves: d."""
        return d

    def feature_map(self, d: int) -> FeatureMap:
        """The identity."""
        from mercer.kernels.feature_map import IdentityMap

        return IdentityMap(d)


class _WithGamma(OfDotProducts):
    """A function of γ x·x', whose γ may be 1/d or 1/(d·var)."""

    gamma: float | str | None

    @property
    def is_data_dependent(self) -> bool:
        """Whether gamma is still a rule."""
        return is_rule(self.gamma)

    def check_parameters(self) -> None:
        """Gamma is positive; a median distance means nothing for dot products."""
        name = type(self).__name__
        if self.gamma == "median":
            msg = f"{name}(gamma='median'): a dot product has no distance. Use a number, 'scale' or '1/d'."
            raise KernelError(msg)
        check_width("gamma", self.gamma, kernel=name)

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy with gamma as a number."""
        del rng  # neither rule is random
        self.check_parameters()
        params = self.get_params(deep=False)
        if self.is_data_dependent:
            params["gamma"] = gamma_from(self.gamma, x, weights=weights, from_median=float)
        return type(self)(**params)

    def _own_products(self, x: Rows) -> Array:
        """γ x·x of each row; x·x alone may be out of range."""
        gamma = number(self.gamma, self)
        with np.errstate(over="ignore"):
            products = squared_norms(x)
        products *= gamma
        return in_range(products, lambda: Scaled.dots(x, None).times(gamma))


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

    @property
    def _exponent(self) -> float:
        # An integer exponent is repeated multiplication to NumPy, and defined for negative bases.
        return int(self.degree) if float(self.degree).is_integer() else self.degree

    def _power(self, base: Array) -> Array:
        """(γ x·x' + θ)^p of γ x·x'."""
        base += self.coef0
        if not isinstance(self._exponent, int) and np.any(base < 0):
            msg = (
                f"{self!r} takes a power of γ x·x' + θ, which is {base.min():.3g} < 0 for some pair "
                "of points: not a real number. Use a whole degree."
            )
            raise KernelError(msg)
        if self._exponent == 2:
            return np.multiply(base, base, out=base)
        if self._exponent == 3:
            return np.multiply(base, base * base, out=base)
        return np.power(base, self._exponent, out=base)

    def tile(self, x: Rows, y: Rows) -> Array:
        return self._power(dot(x, y, number(self.gamma, self)))

    def tile_diag(self, x: Rows) -> Array:
        return self._power(self._own_products(x))

    def scaled(self, x: Rows, y: Rows | None = None) -> Scaled:
        base = Scaled.dots(x, y).times(number(self.gamma, self)).plus(self.coef0)
        return base.power(self._exponent)

    def _dot_slope(self, products: Array) -> Array:
        gamma = number(self.gamma, self)
        if self.degree == 1:
            return np.full_like(products, gamma)
        below = Polynomial(self.degree - 1, gamma, self.coef0)
        products *= gamma
        slopes = below._power(products)
        slopes *= self.degree * gamma
        return slopes

    def dot_product(self, values: Array) -> Array | None:
        """An odd root, less θ; an even power has lost the sign."""
        if self.degree % 2 != 1:
            return None
        root = np.sign(values) * np.abs(values) ** (1.0 / self.degree)
        return np.asarray((root - self.coef0) / number(self.gamma, self))

    def why_valid(self) -> str | None:
        """All coefficients of the expanded power are non-negative."""
        if float(self.degree).is_integer() and self.coef0 >= 0:
            return (
                "expanding the power gives products of dot products with non-negative coefficients"
            )
        return None

    def map_dimension(self, d: int) -> int | None:
        """All monomials: C(d+p, p), or C(d+p-1, p) without the lower ones when coef0 = 0."""
        if self.why_valid() is None:
            return None
        from mercer.kernels.feature_map import n_monomials

        return n_monomials(d, int(self.degree), homogeneous=self.coef0 == 0)

    def feature_map(self, d: int) -> FeatureMap:
        """All monomials of degree ≤ p in `d` features, with their coefficients."""
        if self.why_valid() is None:
            return super().feature_map(d)
        from mercer.kernels.feature_map import PolynomialMap

        self.check_parameters()
        if is_rule(self.gamma) and self.gamma == "scale":
            msg = (
                "Polynomial(gamma='scale') depends on data. Give a number or call `resolve` first."
            )
            raise KernelError(msg)
        gamma = 1.0 / d if is_rule(self.gamma) else float(self.gamma)  # type: ignore[arg-type]
        return PolynomialMap(d, int(self.degree), gamma=gamma, coef0=float(self.coef0))


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

    def _tanh(self, base: Array) -> Array:
        base += self.coef0
        return np.tanh(base, out=base)

    def tile(self, x: Rows, y: Rows) -> Array:
        return self._tanh(dot(x, y, number(self.gamma, self)))

    def tile_diag(self, x: Rows) -> Array:
        return self._tanh(self._own_products(x))

    def _dot_slope(self, products: Array) -> Array:
        products *= number(self.gamma, self)
        slopes = self._tanh(products)
        np.multiply(slopes, slopes, out=slopes)
        np.subtract(1.0, slopes, out=slopes)
        slopes *= number(self.gamma, self)
        return slopes


class Cosine(Kernel):
    """x·x' / (‖x‖ ‖x'‖), with 0 for a row of zeros.

    Examples
    --------
    >>> Cosine()([[1.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.7071]])
    """

    def tile(self, x: Rows, y: Rows) -> Array:
        return dot(_unit_rows(x), _unit_rows(y))

    def tile_diag(self, x: Rows) -> Array:
        return (lengths(x) > 0).astype(x.dtype)

    @property
    def differentiable(self) -> bool:
        """Yes, away from the origin."""
        return True

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        # ∂(u·v)/∂x with u = x/‖x‖ is (v - (u·v)u)/‖x‖.
        u, v = dense(_unit_rows(x)), dense(_unit_rows(y))
        along = np.einsum("ij,ij->i", weights, u @ v.T)
        own = lengths(x)[:, None]
        out = weights @ v - along[:, None] * u
        return np.divide(out, own, out=np.zeros_like(out), where=own > 0)

    def diag_slope(self, x: Rows) -> Array:
        return np.zeros(x.shape, dtype=x.dtype)

    def why_valid(self) -> str | None:
        """It is the dot product of the points after scaling each to length one."""
        return "it is the dot product of the points, each scaled to length one"

    def map_dimension(self, d: int) -> int:
        """The scaled points: d."""
        return d

    def feature_map(self, d: int) -> FeatureMap:
        """The points, each scaled to length one."""
        from mercer.kernels.feature_map import IdentityMap, UnitMap

        return UnitMap(IdentityMap(d))


def _unit_rows(x: Rows) -> Rows:
    with np.errstate(over="ignore"):
        squares = squared_norms(x)
    low, high = SQUARABLE[x.dtype]
    if not np.all((squares > low) & (squares < high)):  # rows of zeros, too long or too short ones
        return unit_rows(x)[0]
    return divided_rows(x, np.sqrt(squares))
