"""Kernels in a graph: k(x, z) against stored points, and k(x, x), node by node of their formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import KernelError
from mercer.engine import formula as f
from mercer.kernels import Custom, GaussianProcess
from mercer.kernels.evaluate import DOT, inverse_lengths, values
from mercer.kernels.matern import LARGE_NU
from mercer.kernels.rows import positions
from mercer.kernels.scaled import unit_rows as stored_unit_rows
from mercer.onnx.pairwise import (
    by_differences,
    chi2_distances,
    dots,
    extents,
    manhattan_distances,
    nan_where_infinite,
    nan_where_lost,
    squared_distances,
    unit_rows,
)

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.kernels import Kernel
    from mercer.onnx.graph import Graph, Value


def require_exportable(kernel: Kernel) -> None:
    """Raise when the kernel, or one that it is made of, has no graph."""
    expr = kernel.tree()
    for part in (node.kernel for node in expr.walk() if isinstance(node, f.Opaque)):
        why = {
            Custom: "it is a Python function, which no ONNX graph can hold",
            GaussianProcess: "it is scikit-learn's own object",
        }.get(type(part), f"{type(part).__name__} is not one of mercer's own, and has no formula")
        msg = (
            f"{part!r} can't be exported: {why}. Fit with mercer's kernels (RBF, Matern, Polynomial, …, "
            "their sums and products), or export a model with kernel='precomputed' and compute the kernel "
            "values where the graph runs."
        )
        raise KernelError(msg)
    for node in expr.walk():
        if isinstance(node, f.Matern):
            require_closed_form(node.nu, kernel)


def tile(g: Graph, kernel: Kernel, x: Value, z: Array) -> Value:  # (b, d), (m, d) -> (b, m)
    """[k(x_i, z_j)] for a resolved kernel and float64 points."""
    return _written(g, kernel.tree(), x, z, z.shape[1])


def diag(g: Graph, kernel: Kernel, x: Value, d: int) -> Value:  # (b, d) -> (b, 1), or (1, 1)
    """[k(x_i, x_i)]; a constant one is a single number."""
    return _written(g, kernel.tree(), x, None, d)


def _written(g: Graph, expr: f.Expr, x: Value, z: Array | None, d: int) -> Value:  # noqa: PLR0911
    """The formula against points z, (b, m), or without z of each row with itself, (b, 1) or (1, 1)."""
    if z is None and not expr.has("dot"):
        # Of distances nothing is left but zeros: one number for all rows.
        return g.store(values(expr, np.zeros((1, d)))[:, None])
    match expr:
        case f.Pair():
            return _pair(g, expr, x, z, 1.0)
        case f.Affine(f.Pair() as of, scale, shift):
            out = _pair(g, of, x, z, scale)
            return g.op("Add", out, shift) if shift else out
        case f.Const(value):
            return g.store(np.full((1, 1), value)) if z is None else g.filled(x, len(z), value)
        case f.Add(left, right):
            return g.op("Add", _written(g, left, x, z, d), _written(g, right, x, z, d))
        case f.Mul(left, right):
            return g.op("Mul", _written(g, left, x, z, d), _written(g, right, x, z, d))
        case f.Pow(f.Pair(kind="sqdist") as of) if expr.whole is None and z is not None:
            wide = g.at(np.float64)  # a root would show what cancelled in ‖x - z‖²
            squares = by_differences(wide, widened(g, x), z, 1.0 / of.unit**2)
            return narrowed(g, _function(wide, expr, squares))
        case f.Matern(of, nu) if z is not None:
            return _matern(g, of, nu, x, z)
        case f.Tanh(of) | f.Exp(of) if of.has("dot"):
            # In float64: of far rows the sum decides about all digits, and what cancels in it is all that
            # counts.
            wide = g.at(np.float64)
            return narrowed(g, _function(wide, expr, _written(wide, of, widened(g, x), z, d)))
        case f.On(of, columns):
            chosen = [c % d for c in positions(columns, d)]
            points = None if z is None else z[:, chosen]
            return _written(g, of, g.columns(x, chosen), points, len(chosen))
        case f.Unit(of):
            return _unit_diag(g, of, x, d) if z is None else _unit(g, of, x, z)
    (of,) = expr.parts
    return _function(g, expr, _written(g, of, x, z, d))


def _function(g: Graph, expr: f.Expr, u: Value) -> Value:
    """A function of one quantity, whatever that is of."""
    match expr:
        case f.Affine(_, scale, shift):
            out = u if scale == 1.0 else g.op("Mul", u, scale)
            return g.op("Add", out, shift) if shift else out
        case f.Exp():
            return g.op("Exp", u)
        case f.Tanh():
            return g.op("Tanh", nan_where_infinite(g, u))
        case f.Pow(_, p) if p < 0:  # a heavy tail is not zero even where its base overflowed
            return g.op("Pow", nan_where_infinite(g, u), float(p))
        case f.Pow(_, p):  # NaN below zero for a broken p, where mercer refuses
            return g.op("Pow", u, float(p)) if expr.whole is None else g.power(u, expr.whole)
    raise TypeError(type(expr))


def _pair(g: Graph, pair: f.Pair, x: Value, z: Array | None, scale: float) -> Value:
    if z is None:
        own = g.squared_norms(x)
        return own if scale == 1.0 else g.op("Mul", own, scale)
    if pair.kind == "sqdist":
        return squared_distances(g, x, z, scale / pair.unit**2)
    if pair.kind == "dot":
        return dots(g, x, z, scale)
    distances = manhattan_distances if pair.kind == "l1" else chi2_distances
    found = distances(g, x, z)
    return found if scale == 1.0 else g.op("Mul", found, scale)


def widened(g: Graph, x: Value) -> Value:
    """X in float64."""
    return x if g.is_double else g.at(np.float64).cast(x)


def narrowed(g: Graph, x: Value) -> Value:
    """X, in float64, in the precision of the graph."""
    return x if g.is_double else g.cast(x)


def _matern(g: Graph, of: f.Expr, nu: float, x: Value, z: Array) -> Value:
    # In float64, whatever comes in: the square root would show what cancelled in ‖x - z‖², and powers of s
    # overflow in float32 where the product with exp(-s) is an ordinary number.
    wide, rows = g.at(np.float64), widened(g, x)
    if nu == 0.5 and g.is_double and isinstance(of, f.Pair) and of.kind == "sqdist":
        # A kink at zero: 1e-16 in s² would be 1e-8 in the value.
        squares = by_differences(wide, rows, z, 2.0 * nu / of.unit**2)
    else:
        squares = _written(wide, f.Affine(of, 2.0 * nu), rows, z, z.shape[1])
    return narrowed(g, matern_values(wide, squares, nu))


# ── length one in feature space ─────────────────────────────────────────────
# Lengths of φ(x) up to this size, and down to its inverse, have squares that are numbers of all digits.
MOST = 1e140
SMALL_ENTRY = 1e-20  # a row of nothing larger may have a k(x, x) that vanished


def _unit(g: Graph, of: f.Expr, x: Value, z: Array) -> Value:
    if of == DOT:
        return dots(g, unit_rows(g, x), np.asarray(stored_unit_rows(z)[0]))
    # In float64: k(x, x) is a square, and beyond float32 where x is an ordinary number.
    wide, x = g.at(np.float64), widened(g, x)
    own = _own_lengths(wide, of, x, z.shape[1])
    zero = wide.op("Equal", own, 0.0)
    inverse = wide.op("Where", zero, 0.0, wide.op("Div", 1.0, wide.op("Where", zero, 1.0, own)))
    product = wide.op("Mul", _written(wide, of, x, z, z.shape[1]), inverse)
    stored = values(of, z)
    lost = ~((stored == 0) | ((stored > MOST**-2) & (stored < MOST**2)))
    return narrowed(g, wide.op("Mul", product, np.where(lost, np.nan, inverse_lengths(of, z))))


def _own_lengths(g: Graph, of: f.Expr, x: Value, d: int) -> Value:  # -> (b, 1), or (1, 1)
    """√k(x, x), and NaN where it is out of range, or below zero, where mercer refuses."""
    own = g.op("Sqrt", _written(g, of, x, None, d))
    own = nan_where_lost(g, own, x, SMALL_ENTRY)
    outside = g.op("Greater", own, MOST)
    small = g.op("And", g.op("Greater", own, 0.0), g.op("Less", own, 1.0 / MOST))
    return g.op("Where", g.op("Or", outside, small), np.nan, own)


def _unit_diag(g: Graph, of: f.Expr, x: Value, d: int) -> Value:
    if of == DOT:
        return _is_positive(g, extents(g, x))
    wide = g.at(np.float64)
    return narrowed(g, _is_positive(wide, _own_lengths(wide, of, widened(g, x), d)))


def _is_positive(g: Graph, found: Value) -> Value:
    """1 where positive, 0 where not, NaN for what is no number."""
    sign = g.op("Where", g.op("Greater", found, 0.0), 1.0, 0.0)
    return g.op("Where", g.op("IsNaN", found), np.nan, sign)


# exp(-s) is zero in float64 from here on; without a clip, 0 times an overflow would be no number.
FAR = 750.0


def require_closed_form(nu: float, kernel: Kernel) -> None:
    """Raise for a ν whose values are Bessel functions."""
    p = nu - 0.5
    if nu < LARGE_NU and not p.is_integer():
        low = max(np.floor(p), 0.0) + 0.5
        msg = (
            f"{kernel!r} can't be exported: its value is a Bessel function, which ONNX does not have, but "
            f"for nu = 0.5, 1.5, 2.5, … and from {LARGE_NU:g} on. Fit with nu={low:g} or nu={low + 1.0:g}."
        )
        raise KernelError(msg)


def matern_values(g: Graph, squares: Value, nu: float) -> Value:
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s) of s², in a graph of float64."""
    return _debye(g, squares, nu) if nu >= LARGE_NU else _closed(g, squares, int(nu - 0.5))


def _closed(g: Graph, squares: Value, p: int) -> Value:
    """exp(-s) Σ_j c_j s^j for ν = p + 1/2, with c_j = 2^j p! (2p-j)!/((2p)! (p-j)! j!), all positive.

    As 1 + r_1 s (1 + r_2 s (1 + …)) with r_j = c_j/c_(j-1): the c_j themselves go down to 1e-77, and
    onnxruntime's optimiser takes a double below 1e-45 for zero.
    """
    s = g.op("Min", g.op("Sqrt", squares), FAR)
    decay = g.op("Exp", g.op("Neg", s))
    if p == 0:
        return decay
    value = None
    for j in range(p, 0, -1):
        ratio = 2.0 * (p - j + 1) / ((2 * p - j + 1) * j)
        step = g.op("Mul", s if value is None else g.op("Mul", s, value), ratio)
        value = g.op("Add", step, 1.0)
    assert value is not None  # p ≥ 1
    return g.op("Mul", value, decay)


def _debye(g: Graph, squares: Value, nu: float) -> Value:
    """Debye's expansion of K_ν for large ν, as `mercer.kernels.matern` has it."""
    z2 = g.op("Mul", squares, 1.0 / nu**2)
    w = g.op("Sqrt", g.op("Add", z2, 1.0))
    e = g.op("Div", z2, g.op("Add", w, 1.0))  # w - 1
    rate = g.op("Mul", g.op("Sub", _log1p(g, g.op("Mul", e, 0.5)), e), nu)
    out = g.op("Div", g.op("Exp", rate), g.op("Sqrt", w))
    t = g.op("Div", 1.0, w)
    at_zero = 1.0 - ((3 - 5) / 24 - ((81 - 462 + 385) / 1152 - _U3 / nu) / nu) / nu
    return g.op("Mul", out, g.op("Mul", _debye_sum(g, t, nu), 1.0 / at_zero))


_U3 = (30375.0 - 369603.0 + 765765.0 - 425425.0) / 414720.0  # u₃(1)


def _debye_sum(g: Graph, t: Value, nu: float) -> Value:
    """Σ_k (-1)^k u_k(t)/ν^k up to k = 3."""
    q = g.op("Mul", t, t)

    def horner(*coefficients: float) -> Value:
        value = g.op("Add", g.op("Mul", q, coefficients[-1]), coefficients[-2])
        for coefficient in reversed(coefficients[:-2]):
            value = g.op("Add", g.op("Mul", value, q), coefficient)
        return value

    u1 = g.op("Mul", t, horner(3 / 24, -5 / 24))
    u2 = g.op("Mul", q, horner(81 / 1152, -462 / 1152, 385 / 1152))
    scaled = (c / 414720.0 for c in (30375.0, -369603.0, 765765.0, -425425.0))
    u3 = g.op("Mul", g.op("Mul", t, q), horner(*scaled))
    inner = g.op("Sub", u2, g.op("Mul", u3, 1.0 / nu))
    inner = g.op("Sub", u1, g.op("Mul", inner, 1.0 / nu))
    return g.op("Sub", 1.0, g.op("Mul", inner, 1.0 / nu))


def _log1p(g: Graph, u: Value) -> Value:
    """log(1 + u) without the loss near zero (Kahan): u log(w)/(w - 1) for the w that 1 + u rounds to."""
    w = g.op("Add", u, 1.0)
    gap = g.op("Sub", w, 1.0)
    lost = g.op("Equal", gap, 0.0)
    ratio = g.op("Div", g.op("Log", w), g.op("Where", lost, 1.0, gap))
    return g.op("Where", lost, u, g.op("Mul", u, ratio))
