"""What rounding may do to kernel values: a bound that follows the kernel's own formula.

A power of a kernel multiplies the relative error of its values by the exponent: beyond 10⁶ a matrix of
values that are right to a few units each has eigenvalues below zero that are nothing but rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.pairwise import NEAR, dense, lengths, squared_norms
from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    GaussianProcess,
    Laplacian,
    Linear,
    Matern,
    Normalised,
    OnColumns,
    Polynomial,
    Power,
    Product,
    RationalQuadratic,
    Scale,
    Sigmoid,
    Sum,
)
from mercer.kernels.matern import LARGE_NU, matern_slope

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels import Kernel

EPS = float(np.finfo(np.float64).eps)
UNITS = 8.0  # rounding units of a function that nothing is known about, and of each exp and power
DEBYE = 1e-9 / EPS  # of the series for large ν


def value_error(kernel: Kernel, x: Rows) -> Array:  # (n, d) -> (n, n)
    """A bound on |fl(k(x_i, x_j)) - k(x_i, x_j)|: infinite or NaN where there is none.

    First-order analysis of each formula, sums of d terms being right to (d + 4)ε of the sum of their
    sizes (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    """
    with np.errstate(all="ignore"):
        return np.asarray(EPS * _units(kernel, x))


def _units(kernel: Kernel, x: Rows) -> Array:
    """The bound in units of ε."""
    known = _KNOWN.get(type(kernel))  # by its exact class: a subclass may compute something else
    return UNITS * np.abs(kernel(x)) if known is None else known(kernel, x)


def _terms(x: Rows) -> float:
    return float(x.shape[1]) + 4.0


def _powered(values: Array, units: Array, exponent: float) -> Array:
    """Of k^p: the relative error δ of k becomes (1 + δ)^p - 1."""
    relative = np.divide(EPS * units, np.abs(values), out=np.zeros_like(values), where=units > 0)
    power = np.abs(np.power(values, exponent))
    grown = np.expm1(exponent * np.log1p(relative)) / EPS
    return np.where(power > 0, power * (grown + UNITS), 0.0)


# ── of distances ────────────────────────────────────────────────────────────
def _squares(x: Rows) -> Array:
    """Of ‖x - y‖², from ‖x‖² - 2x·y + ‖y‖² about the mean (of sparse rows about the origin)."""
    shifted = x - x.mean(axis=0) if isinstance(x, np.ndarray) else x
    norms = squared_norms(shifted)
    error = 2.0 * _terms(x) * (norms[:, None] + norms[None, :])
    np.fill_diagonal(error, 0.0)
    return error


def _rbf(kernel: RBF, x: Rows) -> Array:
    return _exponential(kernel(x), kernel._gamma * _squares(x))


def _exponential(values: Array, exponent: Array) -> Array:
    """Of e^t, from the error of t."""
    grown = np.expm1(EPS * exponent) / EPS
    return np.where(values > 0, values * (grown + UNITS), 0.0)


def _summed(kernel: Laplacian | Chi2, x: Rows) -> Array:
    """e^-t with a t that is a sum of d positive terms."""
    values = kernel(x)
    t = np.where(values > 0, -np.log(values), 0.0)
    return _exponential(values, 2.0 * _terms(x) * t)


def _rational_quadratic(kernel: RationalQuadratic, x: Rows) -> Array:
    values, alpha = kernel(x), float(kernel.alpha)
    base = np.power(values, -1.0 / alpha)
    over = 0.5 / (alpha * float(kernel.length_scale) ** 2)  # type: ignore[arg-type]
    return _powered(1.0 / base, (over * _squares(x) + 2.0 * base) / base**2, alpha)


def _matern(kernel: Matern, x: Rows) -> Array:
    if kernel.nu == np.inf:
        return _rbf(RBF(0.5 / float(kernel.length_scale) ** 2), x)  # type: ignore[arg-type]
    nu, values = float(kernel.nu), kernel(x)
    gaps = np.array([lengths(dense(x) - row) for row in dense(x)])
    s = kernel._per_distance * gaps
    # Near pairs are subtracted first; the others keep what the expansion loses.
    near = gaps**2 < NEAR * np.max(gaps**2, initial=0.0)
    relative = np.where(near, 0.0, _squares(x) / (2.0 * gaps**2)) + 2.0 * _terms(x)
    # |s M'(s)| is at most 2ν(1 - M) where s is too small for its derivative.
    rise = np.where(s > EPS, s * s * np.abs(matern_slope(s, nu)), 2.0 * nu)
    own = DEBYE if nu >= LARGE_NU else 4.0 * (nu * np.abs(np.log(np.where(s > 0, s, 1.0))) + s + nu)
    error = rise * relative + values * (own + UNITS)
    np.fill_diagonal(error, UNITS)
    return error


# ── of dot products ─────────────────────────────────────────────────────────
def _products(x: Rows) -> Array:
    own = lengths(x)
    return np.asarray(_terms(x) * np.outer(own, own))


def _linear(kernel: Linear, x: Rows) -> Array:
    del kernel
    return _products(x)


def _cosine(kernel: Cosine, x: Rows) -> Array:
    del kernel
    return np.full((x.shape[0], x.shape[0]), 2.0 * _terms(x))


def _polynomial(kernel: Polynomial, x: Rows) -> Array:
    base = Polynomial(1, kernel.gamma, kernel.coef0)
    return _powered(base(x), _base(kernel, x), float(kernel.degree))


def _base(kernel: Polynomial | Sigmoid, x: Rows) -> Array:
    return float(kernel.gamma) * 2.0 * _products(x) + 2.0 * abs(kernel.coef0)  # type: ignore[arg-type]


def _sigmoid(kernel: Sigmoid, x: Rows) -> Array:
    values = kernel(x)
    return (1.0 - values**2) * _base(kernel, x) + UNITS * np.abs(values)


# ── algebra ─────────────────────────────────────────────────────────────────
def _sum(kernel: Sum, x: Rows) -> Array:
    return _units(kernel.left, x) + _units(kernel.right, x) + np.abs(kernel(x))


def _product(kernel: Product, x: Rows) -> Array:
    left, right = np.abs(kernel.left(x)), np.abs(kernel.right(x))
    return _units(kernel.left, x) * right + _units(kernel.right, x) * left + left * right


def _scale(kernel: Scale, x: Rows) -> Array:
    return abs(float(kernel.factor)) * (_units(kernel.kernel, x) + np.abs(kernel.kernel(x)))


def _power(kernel: Power, x: Rows) -> Array:
    return _powered(kernel.kernel(x), _units(kernel.kernel, x), float(kernel.exponent))


def _on_columns(kernel: OnColumns, x: Rows) -> Array:
    return _units(kernel.kernel, kernel._pick(x))


def _normalised(kernel: Normalised, x: Rows) -> Array:
    units, own, values = _units(kernel.kernel, x), kernel.kernel.diag(x), np.abs(kernel(x))
    along = np.divide(np.diagonal(units), own, out=np.zeros_like(own), where=own > 0)
    over = np.sqrt(np.outer(own, own))
    quotient = np.divide(units, over, out=np.zeros_like(units), where=over > 0)
    return quotient + values * (0.5 * (along[:, None] + along[None, :]) + UNITS)


def _gaussian_process(kernel: GaussianProcess, x: Rows) -> Array:
    return UNITS * _exponents(kernel.kernel) * np.abs(kernel(x))


def _exponents(kernel: Any) -> float:
    """The product of all exponents of a scikit-learn kernel, nested or side by side."""
    inner = [getattr(kernel, name) for name in ("k1", "k2", "kernel") if hasattr(kernel, name)]
    return float(
        np.prod([max(1.0, float(getattr(kernel, "exponent", 1.0))), *map(_exponents, inner)])
    )


_KNOWN: dict[type[Kernel], Any] = {
    RBF: _rbf,
    Laplacian: _summed,
    Chi2: _summed,
    RationalQuadratic: _rational_quadratic,
    Matern: _matern,
    Linear: _linear,
    Cosine: _cosine,
    Polynomial: _polynomial,
    Sigmoid: _sigmoid,
    Sum: _sum,
    Product: _product,
    Scale: _scale,
    Power: _power,
    OnColumns: _on_columns,
    Normalised: _normalised,
    GaussianProcess: _gaussian_process,
}
