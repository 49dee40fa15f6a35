"""Kernels of a distance between two points."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.params import Constraints, Number
from mercer._core.types import Array, Rows
from mercer.engine import formula
from mercer.engine.formula import Affine, Exp, Expr, Pair, Pow
from mercer.kernels.bandwidth import is_rule, number
from mercer.kernels.base import Kernel


class RBF(Kernel):
    """exp(-γ‖x - x'‖²), with γ = 1/(2σ²).

    Parameters
    ----------
    gamma : float, "median", "scale", "1/d" or None, default="median"
        ``"median"`` takes the median distance between rows for σ; ``"scale"`` is 1/(d·var(X));
        ``"1/d"`` (or None) is what scikit-learn's kernels use.
    sigma : float, optional
        The width σ, instead of gamma.

    See Also
    --------
    Laplacian : Rougher.
    Matern : Between the two.
    RationalQuadratic : All widths at once.
    mercer.diagnostics.widths : Widths to try on given rows.

    Examples
    --------
    >>> RBF(sigma=1.0)([[0.0]], [[1.0]]).round(4)
    array([[0.6065]])
    """

    proof = "the Gaussian is the Fourier transform of a positive measure (Bochner)"
    rules = ("gamma",)
    constraints: ClassVar[Constraints] = {"sigma": Number(0, also=(None,))}

    def __init__(self, gamma: float | str | None = "median", *, sigma: float | None = None) -> None:
        self.gamma = gamma
        self.sigma = sigma

    @property
    def is_data_dependent(self) -> bool:
        return self.sigma is None and is_rule(self.gamma)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.sigma is not None and not 1e-154 < self.sigma < 1e154:
            msg = (
                f"RBF(sigma={self.sigma!r}): gamma = 1/(2 sigma²) is out of the range of float64. Scale "
                "the columns (StandardScaler), and sigma with them."
            )
            raise KernelError(msg)
        if self.sigma is not None and self.gamma != "median":
            msg = (
                f"RBF takes gamma or sigma, not both; got gamma={self.gamma!r} and sigma={self.sigma!r}. "
                "Leave one out: gamma = 1/(2 sigma²)."
            )
            raise KernelError(msg)

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        if self.is_data_dependent:
            return super().resolve(x, rng=rng, weights=weights)
        self.check_parameters()
        return type(self)(self._gamma)

    @property
    def _gamma(self) -> float:
        if self.sigma is not None:
            return 0.5 / float(self.sigma) ** 2
        return number(self.gamma, self)

    def formula(self) -> Expr:
        return Exp(Affine(Pair("sqdist"), -self._gamma))

    def _shown_params(self) -> dict[str, Any]:
        shown = super()._shown_params()
        shown.pop("gamma" if self.sigma is not None else "sigma")
        return shown


class Laplacian(Kernel):
    """exp(-γ ‖x - x'‖₁), with the sum of absolute differences for a distance.

    Parameters
    ----------
    gamma : float, "median", "scale", "1/d" or None, default="median"
        ``"median"`` is 1 over the median of the L1 distances; the others as in `RBF`.

    Examples
    --------
    >>> Laplacian(gamma=1.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    proof = "exp(-γ|t|) is the Fourier transform of a positive measure, as are products of such"
    rules = ("gamma",)

    def __init__(self, gamma: float | str | None = "median") -> None:
        self.gamma = gamma

    def formula(self) -> Expr:
        return Exp(Affine(Pair("l1"), -number(self.gamma, self)))


class Matern(Kernel):
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s), with s = √(2ν) ‖x - x'‖/l.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness; 0.5, 1.5, 2.5 and inf have closed forms, and from 50 on there is a series right
        to 1e-9. The others cost a Bessel function.
    length_scale : float or "median", default="median"

    Examples
    --------
    >>> Matern(nu=0.5, length_scale=1.0)([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    proof = "its spectral density is a positive Student t density (Bochner)"
    rules = ("length_scale",)
    constraints: ClassVar[Constraints] = {"nu": Number(0, also=(np.inf,))}

    def __init__(self, nu: float = 1.5, length_scale: float | str | None = "median") -> None:
        self.nu = nu
        self.length_scale = length_scale

    def formula(self) -> Expr:
        squares = Pair("sqdist", number(self.length_scale, self))
        if self.nu == np.inf:
            return Exp(Affine(squares, -0.5))
        return formula.Matern(squares, float(self.nu))


class RationalQuadratic(Kernel):
    """(1 + ‖x - x'‖²/(2αl²))^(-α).

    Parameters
    ----------
    alpha : float, default=1.0
        Small: heavy tails. Large: the kernel tends to `RBF` with σ = l.
    length_scale : float or "median", default="median"

    Examples
    --------
    >>> RationalQuadratic(alpha=1.0, length_scale=1.0)([[0.0]], [[2.0]]).round(4)
    array([[0.3333]])
    """

    proof = "it is a positive mixture of Gaussians of all widths"
    rules = ("length_scale",)
    constraints: ClassVar[Constraints] = {"alpha": Number(0)}

    def __init__(self, alpha: float = 1.0, length_scale: float | str | None = "median") -> None:
        self.alpha = alpha
        self.length_scale = length_scale

    def formula(self) -> Expr:
        squares = Pair("sqdist", number(self.length_scale, self))
        return Pow(Affine(squares, 0.5 / self.alpha, 1.0), -float(self.alpha))


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
