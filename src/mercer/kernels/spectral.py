"""The spectral measure of a shift-invariant kernel, and draws from it.

Bochner: a continuous k(x - y) is a kernel exactly when it is the Fourier transform of a positive measure.
With that measure scaled to a probability law, k(x, y) = k(0) · E cos(ωᵀ(x - y)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from mercer._core.errors import KernelError
from mercer._core.types import Array
from mercer.engine import formula as f
from mercer.kernels.base import Kernel
from mercer.kernels.rows import positions

Draw: TypeAlias = "Callable[[int, int, np.random.Generator], Array]"
Widths: TypeAlias = "Callable[[int, np.random.Generator], Array | float]"

# The least that half a χ² may be, which underflows to 0 with few degrees of freedom and is divided by.
LEAST = 1e-200
BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True)
class Spectrum:
    """k(x, y) = amplitude · E cos(ωᵀ(x - y)): each row drawn has the law of ω; rows may be dependent."""

    amplitude: float  # k(0)
    draw: Draw = field(repr=False)  # (d, m, rng) -> (m, d)


def spectrum(kernel: Kernel) -> Spectrum:
    """The spectral measure of a kernel; for a width that waits for data, that of width 1."""
    tree = kernel.shape()
    try:
        return _law(tree)
    except NotImplementedError:
        for child in kernel.children:
            spectrum(child)  # which may be to blame
        msg = (
            f"Random Fourier features need a shift-invariant kernel, k(x - y), but {kernel!r} has "
            "no positive spectral measure that is known here. They take RBF, Laplacian, Matern and "
            "RationalQuadratic, their sums, products, powers and positive multiples. `RPCholesky` takes any "
            "kernel."
        )
        raise KernelError(msg) from None


def sample_frequencies(
    kernel: Kernel, d: int, m: int, *, rng: np.random.Generator
) -> tuple[Array, float]:
    """The m frequencies ω (m, d) and k(0), such that k(x, y) ≈ k(0) · mean_j cos(ω_jᵀ(x - y)).

    Unbiased for every m. To lower the variance, those of a radial kernel point in orthogonal directions,
    d at a time (Yu et al. 2016), and have stratified lengths.

    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> k, gap = 2.0 * RBF(0.5), np.array([0.5, -1.0, 0.0])
    >>> omega, amplitude = sample_frequencies(k, 3, 1500, rng=np.random.default_rng(0))
    >>> round(amplitude * float(np.cos(omega @ gap).mean()), 1)
    1.1
    >>> k(gap[None], np.zeros((1, 3))).round(1)
    array([[1.1]])
    """
    spectrum(kernel)  # raises where there is none
    law = _law(kernel.tree())
    return law.draw(d, m, rng), law.amplitude


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
    """Gamma variables of unit scale, one in each of m equally likely ranges: a mean over them varies less."""
    places = (rng.permutation(m) + rng.random(m)) / max(m, 1)
    return special.gammaincinv(shape, np.minimum(places, BELOW_ONE))


# ── formulas ────────────────────────────────────────────────────────────────
def _law(expr: f.Expr) -> Spectrum:  # noqa: PLR0911
    """The spectral measure of a formula, where one is known."""
    match expr:
        case f.Exp(f.Affine(f.Pair("sqdist", unit), scale, 0.0)) if scale < 0:
            return _radial(lambda m, rng: math.sqrt(-2.0 * scale) / unit)  # noqa: ARG005
        case f.Matern(f.Pair("sqdist", unit), nu):
            # t = z √(2ν/χ²) with 2ν degrees of freedom; half a χ² is gamma-distributed with shape ν.
            return _radial(
                lambda m, rng: np.sqrt(nu / np.maximum(_gamma(nu, m, rng), LEAST)) / unit
            )
        case f.Pow(f.Affine(f.Pair("sqdist", unit), scale, 1.0), p) if p < 0 < scale:
            # E exp(-sr²/2) = (1 + cr²)^p for s gamma-distributed: shape -p, mean -2pc, c = scale/unit².
            return _radial(lambda m, rng: np.sqrt(_gamma(-p, m, rng) * 2.0 * scale) / unit)
        case f.Exp(f.Affine(f.Pair("l1"), scale, 0.0)) if scale < 0:
            # A product of Cauchy laws: not radial, so no direction is like another, and rows are independent.
            return Spectrum(1.0, lambda d, m, rng: -scale * rng.standard_cauchy((m, d)))
        case f.Const(value) if value >= 0:  # all of the mass at ω = 0
            return Spectrum(value, lambda d, m, rng: np.zeros((m, d)))  # noqa: ARG005
        case f.Affine(of, scale, shift) if shift > 0:
            return _law(f.Add(f.Affine(of, scale), f.Const(shift)))
        case f.Add(left, right):
            return _sum(_law(left), _law(right))
        case f.Mul(left, right):
            return _product(_law(left), _law(right))
        case f.Affine(of, scale, 0.0) if scale >= 0:
            inner = _law(of)
            return Spectrum(scale * inner.amplitude, inner.draw)
        case f.Pow(of) if (expr.whole or 0) > 0:
            inner, p = _law(of), int(expr.exponent)
            return Spectrum(inner.amplitude**p, reduce(_product, [inner] * p).draw)
        case f.On(of, columns):
            return _on_columns(_law(of), columns)
        case f.Unit(of):  # the zero kernel stays zero
            inner = _law(of)
            return Spectrum(float(inner.amplitude > 0), inner.draw)
    raise NotImplementedError(type(expr))


def _sum(left: Spectrum, right: Spectrum) -> Spectrum:
    """A mixture in proportion to the amplitudes."""
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


def _product(left: Spectrum, right: Spectrum) -> Spectrum:
    """A product of characteristic functions belongs to the sum of independent variables."""

    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        omega = left.draw(d, m, rng)
        omega += right.draw(d, m, rng)
        return omega

    return Spectrum(left.amplitude * right.amplitude, draw)


def _on_columns(inner: Spectrum, columns: Any) -> Spectrum:
    def draw(d: int, m: int, rng: np.random.Generator) -> Array:
        chosen = positions(columns, d)
        omega = np.zeros((m, d))
        # A column that is named twice counts twice.
        np.add.at(omega.T, chosen, inner.draw(len(chosen), m, rng).T)
        return omega

    return Spectrum(inner.amplitude, draw)
