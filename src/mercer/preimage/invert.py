"""What can be undone in a kernel: values that tell the distance of two points, or their dot product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.formula import Affine, Exp, Expr, Matern, Pair, Pow
from mercer.kernels.evaluate import values as evaluated
from mercer.kernels.matern import inverse_matern

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.kernels.base import Kernel


def unscaled(expr: Expr) -> tuple[Expr, float]:
    """(f, c) of a formula c·f with c > 0."""
    factor = 1.0
    while isinstance(expr, Affine) and expr.scale > 0 and expr.shift == 0:
        factor *= expr.scale
        expr = expr.of
    return expr, factor


def of_dot_product(kernel: Kernel) -> Expr | None:
    """The formula without its factor, where its values tell dot products: an even power has lost the sign."""
    expr = unscaled(kernel.shape())[0]
    return expr if _leaf(expr) == "dot" else None


def of_distance(kernel: Kernel) -> Expr | None:
    """The formula without its factor, where its values tell distances, and are 1 for a distance of 0."""
    expr = unscaled(kernel.shape())[0]
    if _leaf(expr) != "sqdist" or not expr.decreasing:
        return None
    return expr if evaluated(expr, np.zeros((1, 1)))[0] == 1.0 else None


def _leaf(expr: Expr) -> str | None:
    """The kind of pair that the values tell, through functions each of which can be undone."""
    match expr:
        case Pair(kind):
            return kind
        case Affine(of, scale) if scale != 0:
            return _leaf(of)
        case Pow(of, p):
            inner = _leaf(of)
            return inner if inner != "dot" or (expr.whole is not None and p % 2 == 1) else None
        case Exp(of) | Matern(of):
            inner = _leaf(of)
            return inner if inner != "dot" else None
    return None


def undone(expr: Expr, values: Array) -> Array:
    """The quantity of the pair for values of its formula: of distances 0 from f(0) on, inf from 0 down."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = _undone(expr, values)
    return np.maximum(found, 0.0) if _leaf(expr) == "sqdist" else found


def _undone(expr: Expr, values: Array) -> Array:
    match expr:
        case Affine(of, scale, shift):
            return _undone(of, (values - shift) / scale)
        case Pow(of, p) if _leaf(of) == "dot":
            return _undone(of, np.sign(values) * np.abs(values) ** (1.0 / p))
        case Pow(of, p):
            return _undone(of, np.power(np.maximum(values, 0.0), 1.0 / p))
        case Exp(of):
            return _undone(of, np.log(np.maximum(values, 0.0)))
        case Matern(of, nu):
            s = inverse_matern(np.clip(values, 0.0, 1.0), nu)
            return _undone(of, 0.5 * s**2 / nu)
        case Pair(unit=unit):
            return np.asarray(values * unit**2)
    raise TypeError(type(expr))
