"""Kernels of the distance between two points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._core.errors import KernelError, NoFiniteMapError
from mercer.engine.pairwise import (
    manhattan_distances,
    scaled_distances,
    scaled_squared_distances,
    weighted_differences,
    weighted_signs,
)
from mercer.kernels.bandwidth import check_width, gamma_from, is_rule, median_distance
from mercer.kernels.base import Kernel, positive
from mercer.kernels.matern import inverse_matern, matern, matern_slope

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.feature_map import FeatureMap


class _Stationary(Kernel):
    """k(x, x) = 1, and φ has infinite dimension."""

    @property
    def shift_invariant(self) -> bool:
        """Yes: only differences of points enter."""
        return True

    def tile_diag(self, x: Rows) -> Array:
        return np.ones(x.shape[0], dtype=x.dtype)

    @property
    def differentiable(self) -> bool:
        """Yes, but for a kink where two points meet, if the kernel has one."""
        return True

    def diag_slope(self, x: Rows) -> Array:
        return np.zeros(x.shape, dtype=x.dtype)  # k(x, x) = 1 everywhere

    def feature_map(self, d: int) -> FeatureMap:
        """Raise: the map of this kernel is infinite-dimensional."""
        msg = (
            f"The feature map of {self!r} is infinite-dimensional (for {d} features as for any "
            "number): it can't be written down, but every product φ(x)·φ(x') is the kernel value. "
            "Polynomial(p).feature_map(d) is finite."
        )
        raise NoFiniteMapError(msg)


class Radial(_Stationary):
    """f(‖x - x'‖²) with a decreasing f: what fixed points and distances in feature space need."""

    def radial_slope(self, x: Rows, y: Rows) -> Array:  # -> (n, m)
        """[f'(‖x_i - y_j‖²)], none of them positive; 0 for a kink at a distance of 0."""
        raise NotImplementedError

    def squared_distance(self, values: Array) -> Array:
        """‖x - x'‖² for values f(‖x - x'‖²) between 0 and 1: 0 from 1 on, inf from 0 down."""
        raise NotImplementedError

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        slopes = self.radial_slope(x, y)
        slopes *= 2.0 * weights
        return weighted_differences(slopes, x, y)


class RBF(Radial):
    """exp(-γ‖x - x'‖²), with γ = 1/(2σ²).

    Parameters
    ----------
    gamma : float, "median", "scale", "1/d" or None, default="median"
        ``"median"`` takes the median distance between rows for σ; ``"scale"`` is 1/(d·var(X));
        ``"1/d"`` (or None) is what scikit-learn's kernels use.
    sigma : float, optional
        The width σ, instead of gamma.

    Examples
    --------
    >>> RBF(sigma=1.0)([[0.0]], [[1.0]]).round(4)
    array([[0.6065]])
    """

    def __init__(self, gamma: float | str | None = "median", *, sigma: float | None = None) -> None:
        self.gamma = gamma
        self.sigma = sigma

    @property
    def is_data_dependent(self) -> bool:
        """Whether gamma is still a rule."""
        return self.sigma is None and is_rule(self.gamma)

    def check_parameters(self) -> None:
        """Gamma or sigma, and positive."""
        check_width("gamma", self.gamma, kernel="RBF")
        if self.sigma is not None:
            positive("sigma", self.sigma, kernel="RBF")
            if self.gamma != "median":
                msg = (
                    f"RBF takes gamma or sigma, but gamma={self.gamma!r} and sigma={self.sigma!r} came. "
                    "Leave one out: gamma = 1/(2 sigma²)."
                )
                raise KernelError(msg)

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy with gamma as a number."""
        self.check_parameters()
        if not self.is_data_dependent:
            return type(self)(self._gamma)

        def from_median() -> float:
            median = median_distance(x, scaled_distances, rng=rng, weights=weights)
            gamma = 0.5 / median / median
            if gamma < float(np.finfo(np.float64).tiny):
                msg = (
                    f"Half of the rows are more than {median:.3g} apart, too large to be squared. Scale the "
                    "columns (StandardScaler), or give gamma."
                )
                raise KernelError(msg)
            return gamma

        gamma = gamma_from(self.gamma, x, weights=weights, from_median=from_median)
        return type(self)(gamma)

    @property
    def _gamma(self) -> float:
        if self.sigma is not None:
            return 0.5 / float(self.sigma) ** 2
        return number(self.gamma, self)

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = scaled_squared_distances(x, y, -self._gamma)
        return np.exp(tile, out=tile)

    def radial_slope(self, x: Rows, y: Rows) -> Array:
        tile = self.tile(x, y)
        tile *= -self._gamma
        return tile

    def squared_distance(self, values: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.log(np.clip(values, 0.0, 1.0)) / self._gamma

    def why_valid(self) -> str | None:
        """Bochner: the Fourier transform of a Gaussian is a Gaussian, hence positive."""
        return "the Gaussian is the Fourier transform of a positive measure (Bochner)"

    def _shown_params(self) -> dict[str, Any]:
        shown = super()._shown_params()
        shown.pop("gamma" if self.sigma is not None else "sigma")
        return shown


class Laplacian(_Stationary):
    """exp(-γ Σ_d |x_d - x'_d|).

    Parameters
    ----------
    gamma : float, "median", "scale", "1/d" or None, default="median"
        ``"median"`` is 1 over the median of the L1 distances; the others as in `RBF`.

    Examples
    --------
    >>> Laplacian(gamma=1.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    def __init__(self, gamma: float | str | None = "median") -> None:
        self.gamma = gamma

    @property
    def is_data_dependent(self) -> bool:
        """Whether gamma is still a rule."""
        return is_rule(self.gamma)

    def check_parameters(self) -> None:
        """Gamma is positive."""
        check_width("gamma", self.gamma, kernel="Laplacian")

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy with gamma as a number."""
        self.check_parameters()
        if not self.is_data_dependent:
            return type(self)(self.gamma)

        def from_median() -> float:
            return 1.0 / median_distance(x, manhattan_distances, rng=rng, weights=weights)

        gamma = gamma_from(self.gamma, x, weights=weights, from_median=from_median)
        return type(self)(gamma)

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = manhattan_distances(x, y, -number(self.gamma, self))
        return np.exp(tile, out=tile)

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        tile = self.tile(x, y)
        tile *= weights
        tile *= -number(self.gamma, self)
        return weighted_signs(tile, x, y)

    def why_valid(self) -> str | None:
        """Each factor exp(-γ|t|) is the Fourier transform of a Cauchy density."""
        return "exp(-γ|t|) is the Fourier transform of a positive measure, and products of such are too"


class _LengthScale(Radial):
    """A kernel of ‖x - x'‖/l, whose l may be the median distance."""

    length_scale: float | str | None

    @property
    def is_data_dependent(self) -> bool:
        """Whether the length scale is still a rule."""
        return is_rule(self.length_scale)

    def check_parameters(self) -> None:
        """The length scale is positive, or the word median."""
        name = type(self).__name__
        if self.length_scale != "median":
            positive("length_scale", self.length_scale, kernel=name, hint=" or 'median'")

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy with the length scale as a number."""
        self.check_parameters()
        params = self.get_params(deep=False)
        if self.is_data_dependent:
            params["length_scale"] = median_distance(x, scaled_distances, rng=rng, weights=weights)
        return type(self)(**params)


class Matern(_LengthScale):
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

    def __init__(self, nu: float = 1.5, length_scale: float | str | None = "median") -> None:
        self.nu = nu
        self.length_scale = length_scale

    def check_parameters(self) -> None:
        """Nu and the length scale are positive."""
        if self.nu != np.inf:
            positive("nu", self.nu, kernel="Matern", hint=" or inf")
        super().check_parameters()

    def tile(self, x: Rows, y: Rows) -> Array:
        l = number(self.length_scale, self)
        if self.nu == np.inf:
            tile = _squared_over(x, y, -0.5, l)
            return np.exp(tile, out=tile)
        values = matern(scaled_distances(x, y, self._per_distance), self.nu)
        return values.astype(x.dtype, copy=False)

    @property
    def _per_distance(self) -> float:
        """√(2ν)/l."""
        return math.sqrt(2.0) * math.sqrt(self.nu) / number(self.length_scale, self)

    def radial_slope(self, x: Rows, y: Rows) -> Array:
        l = number(self.length_scale, self)
        if self.nu == np.inf:
            tile = self.tile(x, y)
            tile *= -0.5 / l**2
            return tile
        # s² = 2ν r²/l², so ds/d(r²) = ν/(l² s).
        slope = matern_slope(scaled_distances(x, y, self._per_distance), self.nu)
        slope *= self.nu / l**2
        return slope.astype(x.dtype, copy=False)

    def squared_distance(self, values: Array) -> Array:
        l = number(self.length_scale, self)
        if self.nu == np.inf:
            return RBF(0.5 / l**2).squared_distance(values)
        s = inverse_matern(np.clip(values, 0.0, 1.0), self.nu)
        return np.asarray(0.5 * (s * l) ** 2 / self.nu)

    def why_valid(self) -> str | None:
        """Its spectral density is that of a Student t distribution, hence positive."""
        return "its spectral density is a positive Student t density (Bochner)"


class RationalQuadratic(_LengthScale):
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

    def __init__(self, alpha: float = 1.0, length_scale: float | str | None = "median") -> None:
        self.alpha = alpha
        self.length_scale = length_scale

    def check_parameters(self) -> None:
        """Alpha and the length scale are positive."""
        positive("alpha", self.alpha, kernel="RationalQuadratic")
        super().check_parameters()

    def tile(self, x: Rows, y: Rows) -> Array:
        l = number(self.length_scale, self)
        tile = _squared_over(x, y, 0.5 / self.alpha, l)
        if not tile.max(initial=0.0) < np.inf:  # a heavy tail is more than zero even there
            s = scaled_distances(x, y, math.sqrt(0.5 / self.alpha) / l)
            return np.power(np.hypot(1.0, s), -2.0 * self.alpha).astype(x.dtype, copy=False)
        tile += 1.0
        return np.power(tile, -self.alpha, out=tile)

    def radial_slope(self, x: Rows, y: Rows) -> Array:
        l = number(self.length_scale, self)
        tile = _squared_over(x, y, 0.5 / self.alpha, l)
        tile += 1.0
        np.power(tile, -self.alpha - 1.0, out=tile)
        tile *= -0.5 / l**2
        return tile

    def squared_distance(self, values: Array) -> Array:
        l = number(self.length_scale, self)
        with np.errstate(divide="ignore", over="ignore"):
            base = np.power(np.clip(values, 0.0, 1.0), -1.0 / self.alpha)
        return np.asarray((base - 1.0) * (2.0 * self.alpha * l**2))

    def why_valid(self) -> str | None:
        """It is a mixture of Gaussians whose inverse widths are gamma-distributed."""
        return "it is a positive mixture of Gaussians of all widths"


def _squared_over(x: Rows, y: Rows, factor: float, l: float) -> Array:
    """Factor · ‖x - y‖²/l², also where l² is out of range."""
    if 1e-150 < l < 1e150:
        return scaled_squared_distances(x, y, factor / l**2)
    with np.errstate(over="ignore"):
        tile = factor * np.square(scaled_distances(x, y, 1.0 / l))
        return tile.astype(x.dtype, copy=False)


def number(value: Any, kernel: Kernel) -> float:
    """The parameter as a number; a rule that nobody resolved is an error, not a guess."""
    if is_rule(value):
        msg = f"{kernel!r} still depends on data. Call `kernel.resolve(X, rng=rng)` first."
        raise KernelError(msg)
    return float(value)
