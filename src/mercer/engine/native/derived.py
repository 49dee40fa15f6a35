"""The derivative of a formula in one of its quantities is a formula: the library has one way to run both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.engine import formula as f
from mercer.engine.native.program import Divided, Leaf, Program, Smooth, own_values, positions

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.engine.native.program import Columns


def quantities(program: Program) -> list[Leaf]:
    """What moves with x in a formula: quantities of pairs, and lengths that parts of it are divided by."""
    lengths = [step.lengths for step in program.steps if step.lengths is not None]
    return [*program.leaves, *dict.fromkeys(lengths)]


def derivative(expr: f.Expr, leaf: Leaf, columns: Columns = None) -> f.Expr | None:  # noqa: PLR0911
    """∂k/∂u of a quantity u, with 0 for a kink; None where that is zero everywhere.

    Of a length ‖φ(x)‖ that a part v of the formula is divided by it is v ∂k/∂v: less so much of k goes with
    each share by which the length grows.
    """
    match expr:
        case f.Pair(kind, unit):
            return f.Const(1.0 / unit / unit) if leaf == Leaf(kind, columns) else None
        case f.Const():
            return None
        case f.Unit(f.Pair(kind="dot")):
            return f.Const(1.0) if leaf == Leaf("dot", columns, unit_rows=True) else None
        case f.Unit(of):
            own = expr if leaf == Leaf("length", columns, of=of) else None
            inner = derivative(of, leaf, columns)
            return _sum(own, None if inner is None else Divided(inner, of))
        case f.On(of):
            inner = derivative(of, leaf, positions(expr.columns))
            return None if inner is None else f.On(inner, expr.columns)
        case f.Affine(of, scale):
            return _scaled(derivative(of, leaf, columns), scale)
        case f.Add(left, right):
            return _sum(derivative(left, leaf, columns), derivative(right, leaf, columns))
        case f.Mul(left, right):
            first = _product(derivative(left, leaf, columns), right)
            return _sum(first, _product(derivative(right, leaf, columns), left))
    (of,) = expr.parts
    inner = derivative(of, leaf, columns)
    return None if inner is None else _product(inner, _outer(expr, of))


def _outer(expr: f.Expr, of: f.Expr) -> f.Expr:
    """f'(u) of a node f(u)."""
    match expr:
        case f.Exp():
            return expr
        case f.Tanh():
            return f.Affine(f.Pow(expr, 2.0), -1.0, 1.0)
        case f.Pow(_, 0.0 | 1.0 as p):
            return f.Const(p)
        case f.Pow(_, p):
            below = of if p == 2 else f.Pow(of, p - 1.0)
            return f.Affine(Smooth(below) if p < 1 else below, p)
        case f.Matern(_, 0.5):  # e^-s with s = √u
            root = f.Pow(of, 0.5)
            inverse = Smooth(f.Pow(of, -0.5))
            return f.Affine(f.Mul(f.Exp(f.Affine(root, -1.0)), inverse), -0.5)
        case f.Matern(_, nu):
            # d/ds s^ν K_ν(s) = -s^ν K_(ν-1)(s): the next rougher one, of the same s.
            rougher = f.Matern(f.Affine(of, nu / (nu - 1.0)), nu - 1.0)
            return f.Affine(rougher, -0.5 * nu / (nu - 1.0))
    raise TypeError(type(expr))


def _scaled(u: f.Expr | None, scale: float) -> f.Expr | None:
    if u is None or scale == 0.0:
        return None
    return f.Const(scale * u.value) if isinstance(u, f.Const) else f.Affine(u, scale)


def _product(u: f.Expr | None, v: f.Expr) -> f.Expr | None:
    if isinstance(v, f.Const):
        return _scaled(u, v.value)
    if isinstance(u, f.Const):
        return _scaled(v, u.value)
    return None if u is None else f.Mul(u, v)


def _sum(u: f.Expr | None, v: f.Expr | None) -> f.Expr | None:
    return f.Add(u, v) if u is not None and v is not None else u or v


# ── both sides moving ───────────────────────────────────────────────────────
def own_slopes(expr: f.Expr, x: Array) -> Array:  # (n, d) -> (n, d)
    """∂u(x, x)/∂x: of the quantities of a row with itself, x·x moves, and so do lengths."""
    out = np.zeros(x.shape)
    for leaf in quantities(Program.of(expr)):
        part = of_columns(x, leaf.columns)
        moved = 2.0 * part if leaf.kind == "dot" and not leaf.unit_rows else None
        if leaf.kind == "length":
            moved = -2.0 * length_slopes(leaf, part)
        inner = None if moved is None else derivative(expr, leaf)
        if inner is not None and moved is not None:
            spread(out, leaf.columns, own_values(inner, x)[:, None] * moved)
    return out


def length_slopes(leaf: Leaf, x: Array) -> Array:  # (n, d) -> (n, d)
    """The share of its own by which ‖φ(x)‖ grows with x, ½ ∂u(x, x)/∂x / u(x, x); 0 where it is zero."""
    assert leaf.of is not None
    own = own_values(leaf.of, x)[:, None]
    return np.divide(0.5 * own_slopes(leaf.of, x), own, out=np.zeros(x.shape), where=own > 0)


def of_columns(x: Array, columns: Columns) -> Array:
    """The columns that a quantity looks at."""
    return x if columns is None else x[:, np.asarray(columns)]


def spread(out: Array, columns: Columns, slopes: Array) -> None:  # (n, d), (n, c)
    """Add slopes in their places; a column that was picked twice counts twice."""
    if columns is None:
        out += slopes
    else:
        np.add.at(out.T, np.asarray(columns), slopes.T)
