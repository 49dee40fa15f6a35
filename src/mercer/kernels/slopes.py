"""Derivatives of formulas: one rule, from which all slopes of kernels follow."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.types import Array, Rows
from mercer.engine import formula as f
from mercer.engine.pairwise import dense, lengths
from mercer.kernels.evaluate import inverse_lengths, length_one, on_columns, root, squarable, values
from mercer.kernels.matern import matern_slope
from mercer.kernels.rows import positions

SOME_ROWS = 100  # enough for a centre


def slope(expr: f.Expr, x: Rows, y: Rows | None, w: Array) -> Array:  # -> (n, d)
    """Σ_j w_ij ∂k(x_i, y_j)/∂x_i; without y w_i ∂k(x_i, x_i)/∂x_i, both arguments moving.

    The chain rule from the outside in: each node multiplies the weights by its derivative, and the
    leaves sum them over differences, signs or rows. Nothing larger than a tile is held.
    """
    return _pulled(expr, x, y, w, _leaf)


def radial_slope(expr: f.Expr, x: Rows, y: Rows) -> Array:  # -> (n, m)
    """[f'(‖x_i - y_j‖²)] of a formula that is a function f of it; 0 for a kink at a distance of 0."""

    def leaf(end: f.Pair | f.Const, x: Rows, y: Rows | None, w: Array) -> Array:
        del x, y
        if isinstance(end, f.Const):
            return np.zeros_like(w)
        return w / end.unit**2 if squarable(end.unit) else w / end.unit / end.unit

    return _pulled(expr, x, y, np.ones((x.shape[0], y.shape[0])), leaf)


def _pulled(  # noqa: PLR0911
    expr: f.Expr, x: Rows, y: Rows | None, w: Array, leaf: Callable[..., Array]
) -> Array:
    match expr:
        case f.Pair() | f.Const():
            return leaf(expr, x, y, w)
        case f.Affine(of, scale):
            return _pulled(of, x, y, w * scale, leaf)
        case f.Add(left, right):
            return _pulled(left, x, y, w, leaf) + _pulled(right, x, y, w, leaf)
        case f.Mul(left, right):
            first = _pulled(left, x, y, w * values(right, x, y), leaf)
            return first + _pulled(right, x, y, w * values(left, x, y), leaf)
        case f.On(of):
            some = _pulled(of, *on_columns(expr, x, y), w, leaf)
            out = np.zeros(x.shape, dtype=some.dtype)  # a column that is picked twice counts twice
            np.add.at(out.T, positions(expr.columns, x.shape[1]), some.T)
            return out
        case f.Unit():
            return _unit_slope(expr, x, y, w)
        case f.Opaque(kernel):
            msg = (
                f"{kernel!r} has no derivative that is known here. Kernels with a formula (RBF, Matern, "
                "RationalQuadratic, Laplacian, Linear, Polynomial, Sigmoid, Cosine, Chi2) and their sums and "
                "products have one."
            )
            raise KernelError(msg)
    (of,) = expr.parts
    own = _own_slope(expr, of, x, y)
    own *= w
    return _pulled(of, x, y, own, leaf)


def _own_slope(expr: f.Expr, of: f.Expr, x: Rows, y: Rows | None) -> Array:
    """f'(u) of a node f(u), in a new array; 0 for a kink at u = 0."""
    match expr:
        case f.Exp():
            return values(expr, x, y)
        case f.Tanh():
            out = values(expr, x, y)
            np.multiply(out, out, out=out)
            return np.subtract(1.0, out, out=out)
        case f.Matern(_, nu):
            out = matern_slope(root(of, x, y, math.sqrt(2.0) * math.sqrt(nu)), nu)
            out *= nu
            return out.astype(x.dtype, copy=False)
        case f.Pow(_, p):
            if p == 1:
                return values(f.Const(1.0), x, y)
            with np.errstate(divide="ignore", invalid="ignore"):
                out = values(f.Pow(of, p - 1), x, y)
            if p < 1:
                out[np.isinf(out)] = 0.0
            out *= p
            return out
    raise TypeError(type(expr))


def _leaf(end: f.Pair | f.Const, x: Rows, y: Rows | None, w: Array) -> Array:
    if isinstance(end, f.Const) or (y is None and end.kind != "dot"):
        return np.zeros(x.shape, dtype=x.dtype)
    if y is None:
        return np.asarray(2.0 * w[:, None] * dense(x))
    if end.kind == "sqdist" and squarable(end.unit):
        return _weighted_differences(2.0 * w / end.unit**2, x, y)
    if end.kind == "sqdist":
        return _weighted_differences(2.0 * w / end.unit, x, y) / end.unit
    if end.kind == "dot":
        return np.asarray(w @ dense(y))
    slope = _chi2_slope if end.kind == "chi2" else lambda x, y: np.sign(x - y)
    x, y = dense(x), dense(y)
    out = np.empty_like(x)
    for d, (x_d, y_d) in enumerate(zip(x.T, y.T, strict=True)):  # no (n, m, d) array
        out[:, d] = np.einsum("ij,ij->i", w, slope(x_d[:, None], y_d[None, :]))
    return out


def _chi2_slope(x: Array, y: Array) -> Array:  # (n, 1), (1, m) -> (n, m)
    """∂/∂x (x - y)²/(x + y), with 0 where both are 0."""
    x, y = 0.25 * x, 0.25 * y  # ratios stay, and no sum overflows
    total = x + y
    total[total == 0] = np.inf  # where both are zero
    slope = (x - y) / total
    slope *= (x + 3.0 * y) / total
    return slope


def _weighted_differences(w: Array, x: Rows, y: Rows) -> Array:  # (n, m), (n, d), (m, d) -> (n, d)
    """Σ_j w_ij (x_i - y_j), about a centre of the y: far from the origin the sums would cancel."""
    x, y = dense(x), dense(y)
    # The median of some: one row far away must not take the digits of the others.
    some = y[:: max(1, len(y) // SOME_ROWS)]
    centre = np.median(some, axis=0) if len(y) else np.zeros(y.shape[1], dtype=y.dtype)
    # Halves: the difference of two numbers may overflow, and 0 times infinity is NaN.
    x, y, centre = 0.5 * x, 0.5 * y, 0.5 * centre
    return np.asarray(2.0 * (w.sum(axis=1)[:, None] * (x - centre) - w @ (y - centre)))


def _unit_slope(expr: f.Unit, x: Rows, y: Rows | None, w: Array) -> Array:
    # The quotient rule: k changes, and so does the length of φ(x) that it is divided by.
    if y is None:  # it is 1, or 0
        return np.zeros(x.shape, dtype=x.dtype)
    if expr.of == f.Pair("dot"):  # ∂(u·v)/∂x with u = x/‖x‖ is (v - (u·v)u)/‖x‖
        u, v, own = dense(length_one(x)), dense(length_one(y)), lengths(x)[:, None]
        out = w @ v - np.einsum("ij,ij->i", w, u @ v.T)[:, None] * u
        return np.divide(out, own, out=np.zeros_like(out), where=own > 0)
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        along_x, along_y = inverse_lengths(expr.of, x), inverse_lengths(expr.of, y)
        inner = w * along_x[:, None] * along_y[None, :]
        out = slope(expr.of, x, y, inner)
        value = np.einsum("ij,ij->i", inner, values(expr.of, x, y))  # Σ_j w_ij of the quotient
        out -= slope(expr.of, x, None, 0.5 * value * along_x**2)
    if not (np.all(np.isfinite(along_x**2)) and np.isfinite(np.sum(out))):
        msg = (
            f"The derivative of {expr} is out of the range of {x.dtype} on these rows: its u(x, x) "
            "overflows or vanishes. Scale the columns (StandardScaler)."
        )
        raise KernelError(msg)
    return out
