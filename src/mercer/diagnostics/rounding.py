"""What rounding may do to kernel values: a bound that follows the kernel's own formula.

A power of a kernel multiplies the relative error of its values by the exponent: beyond 10⁶ a matrix of
values that are right to a few units each has eigenvalues below zero that are nothing but rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.types import Array, Rows
from mercer.engine import formula as f
from mercer.engine.pairwise import NEAR, dense, lengths, squared_norms
from mercer.kernels import GaussianProcess, Kernel
from mercer.kernels.evaluate import values
from mercer.kernels.matern import LARGE_NU, matern_slope
from mercer.kernels.rows import picked

EPS = float(np.finfo(np.float64).eps)
UNITS = 8.0  # rounding units of a function that nothing is known about, and of each exp and power
DEBYE = 1e-9 / EPS  # of the series for large ν


def value_error(kernel: Kernel, x: Rows) -> Array:  # (n, d) -> (n, n)
    """A bound on |fl(k(x_i, x_j)) - k(x_i, x_j)|: infinite or NaN where there is none."""
    # First-order analysis of each formula, sums of d terms being right to (d + 4)ε of the sum of their
    # sizes (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    with np.errstate(all="ignore"):
        return np.asarray(EPS * _bounded(kernel.tree(), x)[1])


def _bounded(expr: f.Expr, x: Rows) -> tuple[Array, Array]:
    """The values of all pairs, those of a point with itself as they are, and the bound in units of ε."""
    found = values(expr, x, x)
    np.fill_diagonal(found, values(expr, x))
    size = np.abs(found)
    units: Array = UNITS * size  # of a function that nothing is known about
    match expr:
        case f.Pair():
            units = _pair(expr, x, found)
        case f.Const():
            units = size
        case f.Affine(of, scale, shift):
            inner, own = _bounded(of, x)
            units = abs(scale) * (own + np.abs(inner)) + 2.0 * abs(shift)
        case f.Exp(of):
            grown = np.expm1(EPS * _bounded(of, x)[1]) / EPS
            units = np.where(found > 0, found * (grown + UNITS), 0.0)
        case f.Pow(of, p):
            units = _powered(*_bounded(of, x), float(p))
        case f.Tanh(of):
            units = (1.0 - found**2) * _bounded(of, x)[1] + UNITS * size
        case f.Matern():
            units = _matern(expr, x, found)
        case f.Add(left, right):
            units = _bounded(left, x)[1] + _bounded(right, x)[1] + size
        case f.Mul(left, right):
            (u, of_u), (v, of_v) = _bounded(left, x), _bounded(right, x)
            units = of_u * np.abs(v) + of_v * np.abs(u) + np.abs(u) * np.abs(v)
        case f.On(of):
            units = _bounded(of, picked(x, expr.columns))[1]
        case f.Unit(of):
            units = _unit(_bounded(of, x)[1], values(of, x), size)
        case f.Opaque(GaussianProcess() as kernel):
            units = UNITS * _exponents(kernel.kernel) * size
    return found, units


def _pair(pair: f.Pair, x: Rows, found: Array) -> Array:
    terms = float(x.shape[1]) + 4.0  # of a sum
    if pair.kind == "sqdist":
        return 2.0 * terms * _squares(x) / pair.unit**2
    if pair.kind == "dot":
        own = lengths(x)
        return np.asarray(terms * np.outer(own, own))
    return 2.0 * terms * found


def _squares(x: Rows) -> Array:
    """What cancels in ‖x‖² - 2x·y + ‖y‖² about the mean (of sparse rows about the origin)."""
    norms = squared_norms(x - x.mean(axis=0) if isinstance(x, np.ndarray) else x)
    sizes = norms[:, None] + norms[None, :]
    np.fill_diagonal(sizes, 0.0)
    return sizes


def _powered(found: Array, units: Array, exponent: float) -> Array:
    """The bound of k^p: the relative error δ of k becomes (1 + δ)^|p| - 1."""
    relative = np.divide(EPS * units, np.abs(found), out=np.zeros_like(found), where=units > 0)
    power = np.abs(np.power(found, exponent))
    grown = np.expm1(abs(exponent) * np.log1p(relative)) / EPS
    return np.where(power > 0, power * (grown + UNITS), 0.0)


def _matern(expr: f.Matern, x: Rows, found: Array) -> Array:
    nu, terms = expr.nu, float(x.shape[1]) + 4.0
    if isinstance(expr.of, f.Pair) and expr.of.kind == "sqdist":
        gaps = np.array([lengths(dense(x) - row) for row in dense(x)])
        # Pairs that are near for each of their rows are subtracted first; the others keep what the
        # expansion loses.
        farthest = np.max(gaps, axis=1, initial=0.0) ** 2  # (n,)
        near = gaps**2 < NEAR[gaps.dtype] * np.minimum(farthest, farthest[:, None])
        relative = np.where(near, 0.0, terms * _squares(x) / gaps**2) + 2.0 * terms
        s = np.sqrt(2.0 * nu) * gaps / expr.of.unit
    else:
        squares, units = _bounded(expr.of, x)
        relative = units / (2.0 * squares) + 2.0
        s = np.sqrt(2.0 * nu * squares)
    # |s M'(s)| is at most 2ν(1 - M) where s is too small for its derivative.
    rise = np.where(s > EPS, s * s * np.abs(matern_slope(s, nu)), 2.0 * nu)
    own = DEBYE if nu >= LARGE_NU else 4.0 * (nu * np.abs(np.log(np.where(s > 0, s, 1.0))) + s + nu)
    error = rise * relative + found * (own + UNITS)
    np.fill_diagonal(error, UNITS)
    return error


def _unit(units: Array, own: Array, size: Array) -> Array:
    """The bound of a quotient, from that of its numerator and the values u(x, x) under the root."""
    along = np.divide(np.diagonal(units), own, out=np.zeros_like(own), where=own > 0)
    over = np.sqrt(np.outer(own, own))
    quotient = np.divide(units, over, out=np.zeros_like(units), where=over > 0)
    return quotient + size * (0.5 * (along[:, None] + along[None, :]) + UNITS)


def _exponents(kernel: Any) -> float:
    """The product of all exponents of a scikit-learn kernel, nested or side by side."""
    inner = [getattr(kernel, name) for name in ("k1", "k2", "kernel") if hasattr(kernel, name)]
    own = max(1.0, float(getattr(kernel, "exponent", 1.0)))
    return float(np.prod([own, *map(_exponents, inner)]))
