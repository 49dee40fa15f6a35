"""The spectral measure of a shift-invariant kernel, and draws from it.

Bochner: a continuous k(x - y) is a kernel exactly when it is the Fourier transform of a positive measure.
With that measure scaled to a probability law, k(x, y) = k(0) · E cos(ωᵀ(x - y)). Sums, products and
powers of such kernels mix and add the frequencies of their parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from scipy import special

from mercer._core.errors import KernelError
from mercer.kernels.algebra import Constant, Power, Product, Scale, Sum
from mercer.kernels.derived import Normalised, OnColumns
from mercer.kernels.parameters import number
from mercer.kernels.rows import positions
from mercer.kernels.stationary import RBF, Laplacian, Matern, RationalQuadratic

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.kernels.base import Kernel

Draw: TypeAlias = "Callable[[int, int, np.random.Generator], Array]"
Widths: TypeAlias = "Callable[[int, np.random.Generator], Array | float]"

# The least that half a χ² may be: with very few degrees of freedom it underflows to 0, and the frequency
# it divides must stay a number whose square is one too.
LEAST = 1e-200
BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, repr=False)
class Spectrum:
    """k(x, y) = amplitude · E cos(ωᵀ(x - y)), with ω as `draw` gives it.

    Each row that is drawn has the law of ω exactly. The rows need not be independent of each other.
    """

    amplitude: float  # k(0)
    draw: Draw  # (d, m, rng) -> (m, d)

    def __repr__(self) -> str:
        return f"Spectrum(amplitude={self.amplitude:g})"


def spectrum(kernel: Kernel) -> Spectrum:
    """The spectral measure of a kernel; parameters that wait for data are read when it is drawn from."""
    build = _SPECTRA.get(type(kernel))
    if build is None:
        _refuse(kernel, "has no spectral measure that is known here")
    return build(kernel)


def sample_frequencies(
    kernel: Kernel, d: int, m: int, *, rng: np.random.Generator
) -> tuple[Array, float]:
    """M frequencies ω (m, d) and k(0), such that k(x, y) ≈ k(0) · mean_j cos(ω_jᵀ(x - y)).

    Unbiased for every m: each ω_j has the law of the kernel's spectral measure. Those of a radial
    kernel point in orthogonal directions, d at a time (Yu et al. 2016), and their lengths are stratified:
    both lower the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> k, gap = 2.0 * RBF(0.5), np.array([0.5, -1.0, 0.0])
    >>> omega, amplitude = sample_frequencies(k, 3, 1500, rng=np.random.default_rng(0))
    >>> round(amplitude * float(np.cos(omega @ gap).mean()), 1)
    1.1
    >>> k(gap[None], np.zeros((1, 3))).round(1)
    array([[1.1]])
    """
    law = spectrum(kernel)
    return law.draw(d, m, rng), law.amplitude


def _refuse(part: Kernel, why: str) -> NoReturn:
    msg = (
        f"Random Fourier features need a shift-invariant kernel, k(x - y), but {part!r} {why}. "
        "They take RBF, Laplacian, Matern and RationalQuadratic, their sums, products, powers and "
        "positive multiples. `RPCholesky` takes any kernel."
    )
    raise KernelError(msg)


# ── radial kernels ──────────────────────────────────────────────────────────
def _radial(widths: Widths) -> Spectrum:
    """A scale mixture of Gaussians: ω = width · z, z standard normal in d dimensions."""

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        omega = _directions(d, m, rng)
        # The length of z is independent of its direction, and χ-distributed.
        radii = np.sqrt(2.0 * _gamma(0.5 * d, m, rng)) * widths(m, rng)
        omega *= radii[:, None]
        return omega

    return Spectrum(1.0, draw)


def _directions(d: int, m: int, rng: np.random.Generator) -> Array:  # (m, d)
    # Each is uniform on the sphere; d in a row are orthogonal, so what one misses another sees.
    blocks, rest = divmod(m, d)
    if blocks == 0:
        return _haar(1, d, rest, rng)
    return np.concatenate([_haar(blocks, d, d, rng), _haar(1, d, rest, rng)])


def _haar(blocks: int, d: int, width: int, rng: np.random.Generator) -> Array:
    """Blocks of `width` orthonormal rows in d dimensions, uniform among all such."""
    q, r = np.linalg.qr(rng.standard_normal((blocks, d, width)))
    # The signs that Householder's method picks depend on the matrix: Haar only with R's diagonal
    # positive (Mezzadri 2007).
    q *= np.copysign(1.0, np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    return q.swapaxes(1, 2).reshape(blocks * width, d)


def _gamma(shape: float, m: int, rng: np.random.Generator) -> Array:  # (m,)
    """Gamma variables of unit scale, one in each of m equally likely ranges.

    Each by itself has exactly that law. Together they are spread more evenly than independent draws,
    and a mean over them varies less.
    """
    places = (rng.permutation(m) + rng.random(m)) / max(m, 1)
    return special.gammaincinv(shape, np.minimum(places, BELOW_ONE))


def _rbf(kernel: RBF) -> Spectrum:
    return _radial(lambda m, rng: math.sqrt(2.0 * kernel._gamma))  # noqa: ARG005


def _matern(kernel: Matern) -> Spectrum:
    """Student's t with 2ν degrees of freedom."""

    def widths(m: int, rng: np.random.Generator) -> Array | float:
        l = number(kernel.length_scale, kernel)
        if kernel.nu == np.inf:
            return 1.0 / l
        # t = z √(2ν/χ²) with 2ν degrees of freedom, and half a χ² is gamma-distributed with shape ν.
        half_chi2 = _gamma(kernel.nu, m, rng)
        return np.sqrt(kernel.nu / np.maximum(half_chi2, LEAST)) / l

    return _radial(widths)


def _rational_quadratic(kernel: RationalQuadratic) -> Spectrum:
    """E exp(-sr²/2) = (1 + r²/(2αl²))^(-α) for s gamma-distributed with shape α and mean 1/l²."""

    def widths(m: int, rng: np.random.Generator) -> Array:
        l = number(kernel.length_scale, kernel)
        return np.sqrt(_gamma(kernel.alpha, m, rng) / kernel.alpha) / l

    return _radial(widths)


# ── the others ──────────────────────────────────────────────────────────────
def _laplacian(kernel: Laplacian) -> Spectrum:
    """A product of Cauchy laws: not radial, so no direction is like another, and rows are independent."""

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        return number(kernel.gamma, kernel) * rng.standard_cauchy((m, d))

    return Spectrum(1.0, draw)


def _constant(kernel: Constant) -> Spectrum:
    """All of the mass at ω = 0."""
    if kernel.value < 0:
        _refuse(kernel, "is negative")
    return Spectrum(float(kernel.value), lambda d, m, rng: np.zeros((m, d)))  # noqa: ARG005


# ── algebra ─────────────────────────────────────────────────────────────────
def _scale(kernel: Scale) -> Spectrum:
    if kernel.factor < 0:
        _refuse(kernel, "is a negative multiple")
    inner = spectrum(kernel.kernel)
    return Spectrum(float(kernel.factor) * inner.amplitude, inner.draw)


def _sum(kernel: Sum) -> Spectrum:
    """A mixture in proportion to the amplitudes."""
    left, right = spectrum(kernel.left), spectrum(kernel.right)
    total = left.amplitude + right.amplitude
    share = left.amplitude / total if total > 0 else 1.0  # of the zero kernel every draw is right

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        # Stratified: the left part gets share·m rows, rounded up or down at random so that the
        # expectation is share·m and the mixture stays unbiased.
        n_left = int(share * m + rng.random())
        rows = np.concatenate([left.draw(d, n_left, rng), right.draw(d, m - n_left, rng)])
        # Shuffled, so that each row by itself has the law of the mixture: a product adds row to row.
        return rng.permutation(rows)

    return Spectrum(total, draw)


def _product(kernel: Product) -> Spectrum:
    """A product of characteristic functions belongs to the sum of independent variables."""
    left, right = spectrum(kernel.left), spectrum(kernel.right)

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        omega = left.draw(d, m, rng)
        omega += right.draw(d, m, rng)
        return omega

    return Spectrum(left.amplitude * right.amplitude, draw)


def _power(kernel: Power) -> Spectrum:
    """The sum of p independent draws."""
    inner, p = spectrum(kernel.kernel), int(kernel.exponent)

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        omega = inner.draw(d, m, rng)
        for _ in range(p - 1):
            omega += inner.draw(d, m, rng)
        return omega

    return Spectrum(inner.amplitude**p, draw)


def _on_columns(kernel: OnColumns) -> Spectrum:
    """Nothing along the other columns; a column that is named twice counts twice."""
    inner = spectrum(kernel.kernel)

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        columns = positions(kernel.columns, d)
        omega = np.zeros((m, d))
        np.add.at(omega.T, columns, inner.draw(len(columns), m, rng).T)
        return omega

    return Spectrum(inner.amplitude, draw)


def _normalised(kernel: Normalised) -> Spectrum:
    """k/k(0); the zero kernel stays zero."""
    inner = spectrum(kernel.kernel)
    return Spectrum(float(inner.amplitude > 0), inner.draw)


# By the very class: a subclass may compute another function.
_SPECTRA: dict[type[Kernel], Callable[[Any], Spectrum]] = {
    RBF: _rbf,
    Constant: _constant,
    Laplacian: _laplacian,
    Matern: _matern,
    Normalised: _normalised,
    OnColumns: _on_columns,
    Power: _power,
    Product: _product,
    RationalQuadratic: _rational_quadratic,
    Scale: _scale,
    Sum: _sum,
}
