"""Kernels in a graph: k(x, z) against stored points, and k(x, x), node by node of their formulas."""

from __future__ import annotations

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.types import Array
from mercer.engine import formula as f
from mercer.engine.pairwise import ROUNDING
from mercer.kernels import Custom, GaussianProcess, Kernel
from mercer.kernels.evaluate import DOT, inverse_lengths, values
from mercer.kernels.evaluate import unit_rows as stored_unit_rows
from mercer.kernels.matern import LARGE_NU, debye_sum
from mercer.kernels.rows import positions
from mercer.onnx.graph import Value


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
        if not isinstance(node, f.Matern) or node.nu >= LARGE_NU or (node.nu - 0.5).is_integer():
            continue
        low = max(np.floor(node.nu - 0.5), 0.0) + 0.5
        msg = (
            f"{kernel!r} can't be exported: its value is a Bessel function, which ONNX does not have, but "
            f"for nu = 0.5, 1.5, 2.5, … and from {LARGE_NU:g} on. Fit with nu={low:g} or nu={low + 1.0:g}."
        )
        raise KernelError(msg)


def tile(kernel: Kernel, x: Value, z: Array) -> Value:  # (b, d), (m, d) -> (b, m)
    """[k(x_i, z_j)] for a resolved kernel and float64 points."""
    return _written(kernel.tree(), x, z, z.shape[1])


def diag(kernel: Kernel, x: Value, d: int) -> Value:  # (b, d) -> (b, 1), or (1, 1)
    """[k(x_i, x_i)]; a constant one is a single number."""
    return _written(kernel.tree(), x, None, d)


def _written(expr: f.Expr, x: Value, z: Array | None, d: int) -> Value:  # noqa: PLR0911
    """The formula against points z, (b, m), or without z of each row with itself, (b, 1) or (1, 1)."""
    own = x.graph.dtype
    if z is None and not expr.has("dot"):
        # Of distances nothing is left but zeros: one number for all rows.
        return x.graph.store(values(expr, np.zeros((1, d)))[:, None])
    match expr:
        case f.Pair():
            return _written(f.Affine(expr), x, z, d)
        case f.Affine(f.Pair(kind, unit), scale, shift):
            if z is None:
                return _function(expr, x.squared_norms())
            out = QUANTITIES[kind](x, z, scale / unit**2)
            return out + shift if shift else out
        case f.Const(value):
            return x.graph.store(np.full((1, 1), value)) if z is None else x.filled(len(z), value)
        case f.Joined():
            left, right = (_written(part, x, z, d) for part in expr.parts)
            return left + right if isinstance(expr, f.Add) else left * right
        case f.Pow(f.Pair("sqdist", unit)) if expr.whole is None and z is not None:
            # A root would show what cancelled in ‖x - z‖².
            squares = by_differences(x.at(np.float64), z, 1.0 / unit**2)
            return _function(expr, squares).at(own)
        case f.Matern(of, nu) if z is not None:
            return _matern(of, nu, x.at(np.float64), z, exact=x.graph.is_double).at(own)
        case f.Tanh(of) | f.Exp(of) if of.has("dot"):
            # In float64: of far rows the sum decides about all digits, and what cancels in it is all that
            # counts.
            return _function(expr, _written(of, x.at(np.float64), z, d)).at(own)
        case f.On(of, columns):
            chosen = [c % d for c in positions(columns, d)]
            points = None if z is None else z[:, chosen]
            return _written(of, x.columns(chosen), points, len(chosen))
        case f.Unit(of):
            return _unit(of, x, z, d)
        case f.Function(of):
            return _function(expr, _written(of, x, z, d))
    raise TypeError(type(expr))


def _function(expr: f.Expr, u: Value) -> Value:
    """A function of one quantity, whatever that is of."""
    match expr:
        case f.Affine(_, scale, shift):
            out = u if scale == 1.0 else u * scale
            return out + shift if shift else out
        case f.Exp():
            return u.op("Exp")
        case f.Tanh():
            return nan_where_infinite(u).op("Tanh")
        case f.Pow(_, p) if p < 0:  # a heavy tail is not zero even where its base overflowed
            return nan_where_infinite(u).op("Pow", float(p))
        case f.Pow(_, p):  # NaN below zero for a broken p, where mercer refuses
            return u.op("Pow", float(p)) if expr.whole is None else u.power(expr.whole)
    raise TypeError(type(expr))


# ── length one in feature space ─────────────────────────────────────────────
# Lengths of φ(x) up to this size, and down to its inverse, have squares that are numbers of all digits.
MOST = 1e140
SMALL_ENTRY = 1e-20  # a row of nothing larger may have a k(x, x) that vanished


def _unit(of: f.Expr, x: Value, z: Array | None, d: int) -> Value:
    if of == DOT and z is not None:
        return dots(unit_rows(x), np.asarray(stored_unit_rows(z)[0]))
    if of == DOT:
        return _is_positive(extents(x))
    # In float64: k(x, x) is a square, and beyond float32 where x is an ordinary number.
    wide = x.at(np.float64)
    # √k(x, x), and NaN where it is out of range, or below zero, where mercer refuses: (b, 1), or (1, 1).
    own = nan_where_lost(_written(of, wide, None, d).op("Sqrt"), wide, SMALL_ENTRY)
    own = own.unless((own > MOST) | ((own > 0.0) & (own < 1.0 / MOST)), np.nan)
    if z is None:
        return _is_positive(own).at(x.graph.dtype)
    zero = own.equals(0.0)
    inverse = (1.0 / own.unless(zero, 1.0)).unless(zero, 0.0)
    stored = values(of, z)
    lost = ~((stored == 0) | ((stored > MOST**-2) & (stored < MOST**2)))
    along = np.where(lost, np.nan, inverse_lengths(of, z))
    return (_written(of, wide, z, d) * inverse * along).at(x.graph.dtype)


def _is_positive(found: Value) -> Value:
    """1 where positive, 0 where not, NaN for what is no number."""
    return (found > 0.0).op("Where", 1.0, 0.0).unless(found.op("IsNaN"), np.nan)


# ── Matérn ──────────────────────────────────────────────────────────────────
# exp(-s) is zero in float64 from here on; without a clip, 0 times an overflow would be no number.
FAR = 750.0


def _matern(of: f.Expr, nu: float, x: Value, z: Array, *, exact: bool) -> Value:
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s) of s² = 2νu.

    Rows are in float64, whatever the graph takes: the square root would show what cancelled in ‖x - z‖², and
    powers of s overflow in float32 where the product with exp(-s) is an ordinary number. `exact`: right to
    float64.
    """
    if nu == 0.5 and exact and isinstance(of, f.Pair) and of.kind == "sqdist":
        # A kink at zero: 1e-16 in s² would be 1e-8 in the value.
        squares = by_differences(x, z, 2.0 * nu / of.unit**2)
    else:
        squares = _written(f.Affine(of, 2.0 * nu), x, z, z.shape[1])
    return _debye(squares, nu) if nu >= LARGE_NU else _closed(squares, int(nu - 0.5))


def _closed(squares: Value, p: int) -> Value:
    """exp(-s) Σ_j c_j s^j for ν = p + 1/2, with c_j = 2^j p! (2p-j)!/((2p)! (p-j)! j!), all positive.

    As 1 + r_1 s (1 + r_2 s (1 + …)) with r_j = c_j/c_(j-1): the c_j themselves go down to 1e-77, and
    onnxruntime's optimiser takes a double below 1e-45 for zero.
    """
    s = squares.op("Sqrt").at_most(FAR)
    value = decay = s.op("Neg").op("Exp")
    for j in range(p, 0, -1):
        ratio = 2.0 * (p - j + 1) / ((2 * p - j + 1) * j)
        value = (s if j == p else s * value) * ratio + 1.0
    return value if p == 0 else value * decay


def _debye(squares: Value, nu: float) -> Value:
    """Debye's expansion of K_ν for large ν, as `mercer.kernels.matern` has it."""
    z2 = squares * (1.0 / nu**2)
    w = (z2 + 1.0).op("Sqrt")
    e = z2 / (w + 1.0)  # w - 1
    out = ((_log1p(e * 0.5) - e) * nu).op("Exp") / w.op("Sqrt")
    # The constant in a factor of its own: beside both others, onnxruntime's optimiser rounds it to float32.
    return out * (debye_sum(1.0 / w, nu) * (1.0 / debye_sum(1.0, nu)))


def _log1p(u: Value) -> Value:
    """log(1 + u) without the loss near zero (Kahan): u log(w)/(w - 1) for the w that 1 + u rounds to."""
    w = u + 1.0
    gap = w - 1.0
    lost = gap.equals(0.0)
    return (u * (w.op("Log") / gap.unless(lost, 1.0))).unless(lost, u)


# ── quantities of pairs: rows of the graph and stored points ─────────────────
def shifted(x: Value, z: Array) -> tuple[Value, Array]:
    """Rows and points less a c among the points: differences stay, and what cancels in them is small.

    c is a number of the graph's precision, so both sides are shifted by the same.
    """
    c = np.median(z, axis=0).astype(x.graph.dtype)
    return x - c, z - c.astype(np.float64)


def squared_distances(x: Value, z: Array, scale: float) -> Value:  # (b, d), (m, d) -> (b, m)
    """Scale · ‖x - z‖², never of the wrong sign.

    By ‖x‖² - 2x·z + ‖z‖² about a centre of the points. An entry is rounded by about eps · |scale| ‖z‖²,
    and where that is too much for some point, the work is done in float64, or by differences. Rows far
    from all points need no such care: their distances are large, and right to a few units of their own.
    """
    x_c, z_c = shifted(x, z)
    norms = np.einsum("ij,ij->i", z_c, z_c)
    if 2.0 * abs(scale) * float(norms.max(initial=0.0)) > ROUNDING[x.graph.dtype]:
        if x.graph.is_double:
            return by_differences(x, z, scale)
        return squared_distances(x.at(np.float64), z, scale).at(x.graph.dtype)
    tile = x_c @ np.ascontiguousarray((-2.0 * scale * z_c).T) + scale * norms
    tile = tile + x_c.squared_norms() * scale
    return tile.at_least(0.0) if scale >= 0 else tile.at_most(0.0)


def by_differences(x: Value, z: Array, scale: float) -> Value:  # -> (b, m)
    """Scale · ‖x - z‖², subtracted first: right for near points too, at d passes over the tile."""
    x_c, z_c = shifted(x, z)
    return x_c.over_features(z_c, lambda x_j, z_j: (x_j - z_j).power(2)) * scale


def manhattan_distances(x: Value, z: Array, scale: float) -> Value:  # -> (b, m)
    """Scale · Σ_d |x_d - z_d|."""
    x_c, z_c = shifted(x, z)
    return x_c.over_features(z_c, lambda x_j, z_j: (x_j - z_j).op("Abs")) * scale


def chi2_distances(x: Value, z: Array, scale: float) -> Value:  # -> (b, m)
    """Scale · Σ_d (x_d - z_d)²/(x_d + z_d), with 0/0 = 0; NaN for a row with a negative entry."""
    # Where both are zero, so is the gap; where both are smaller than this, its square is.
    tiny = float(np.finfo(x.graph.dtype).tiny)

    def term(x_j: Value, z_j: Value) -> Value:
        gap = x_j - z_j
        return gap * (gap / (x_j + z_j).at_least(tiny))  # a share of 1: no square overflows

    return x.unless(x < 0.0, np.nan).over_features(z, term) * scale


def dots(x: Value, z: Array, scale: float = 1.0) -> Value:  # -> (b, m)
    """Scale · x·z."""
    return x @ np.ascontiguousarray((scale * z).T)


def extents(x: Value) -> Value:  # (b, D) -> (b, 1)
    """max_j |x_ij|."""
    sizes = x.op("Abs")
    where = sizes.op("ArgMax", axis=1, keepdims=1)  # ReduceMax has another form from opset 18 on
    return sizes.op("GatherElements", where, axis=1)


def unit_rows(x: Value) -> Value:  # (b, D) -> (b, D)
    """Rows of length one, but for those of zeros; divided by their extent first, so that no square of theirs
    overflows or vanishes, which would give a finite number that is wrong.
    """
    largest = extents(x)
    rows = x / largest.unless(largest.equals(0.0), 1.0)
    norms = rows.squared_norms().op("Sqrt")
    return rows / norms.unless(norms.equals(0.0), 1.0)


def nan_where_infinite(values: Value) -> Value:
    """NaN in place of ±∞: what overflowed on the way is not known, and must not pass for a number."""
    return values.unless(values.op("IsInf"), np.nan)


def nan_where_lost(found: Value, x: Value, small: float) -> Value:  # (b, 1), (b, d) -> (b, 1)
    """NaN where `found` is zero because the entries of a row, all of them below `small`, were too small."""
    largest = extents(x)
    tiny = (largest > 0.0) & (largest < small)
    return found.unless(found.equals(0.0) & tiny, np.nan)


# Scale times a quantity of each row of the graph with each point: (b, d), (m, d), scale -> (b, m).
QUANTITIES = {
    "sqdist": squared_distances,
    "dot": dots,
    "l1": manhattan_distances,
    "chi2": chi2_distances,
}
