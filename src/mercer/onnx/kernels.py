"""Kernels in a graph: k(x, z) against stored points, and k(x, x)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError
from mercer.kernels import (
    RBF,
    Chi2,
    Constant,
    Cosine,
    Custom,
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
from mercer.kernels.derived import positions
from mercer.kernels.scaled import unit_rows as stored_unit_rows
from mercer.onnx.matern import matern_tile
from mercer.onnx.pairwise import (
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


def tile(g: Graph, kernel: Kernel, x: Value, z: Array) -> Value:  # (b, d), (m, d) -> (b, m)
    """[k(x_i, z_j)] for a resolved kernel and float64 points."""
    return _known(kernel)[0](g, kernel, x, z)


def diag(g: Graph, kernel: Kernel, x: Value, d: int) -> Value:  # (b, d) -> (b, 1), or (1, 1)
    """[k(x_i, x_i)]; a constant one is a single number."""
    return _known(kernel)[1](g, kernel, x, d)


def require_exportable(kernel: Kernel) -> None:
    """Raise when the kernel, or one that it is made of, has no graph."""
    _known(kernel)
    for child in kernel.children:
        require_exportable(child)


def _known(kernel: Kernel) -> tuple[Any, Any]:
    found = _KERNELS.get(type(kernel))
    if found is not None:
        return found
    why = {
        Custom: "it is a Python function, which no ONNX graph can hold",
        GaussianProcess: "it is scikit-learn's own object",
    }.get(type(kernel), f"{type(kernel).__name__} is not one of mercer's own kernels")
    msg = (
        f"{kernel!r} can't be exported: {why}. Fit with mercer's kernels (RBF, Matern, Polynomial, …, "
        "their sums and products), or export a model with kernel='precomputed' and compute the kernel "
        "values where the graph runs."
    )
    raise KernelError(msg)


# ── functions of distances ──────────────────────────────────────────────────
def _rbf(g: Graph, kernel: RBF, x: Value, z: Array) -> Value:
    return g.op("Exp", squared_distances(g, x, z, -kernel._gamma))


def _rational_quadratic(g: Graph, kernel: RationalQuadratic, x: Value, z: Array) -> Value:
    l = float(kernel.length_scale)  # type: ignore[arg-type]
    base = squared_distances(g, x, z, 0.5 / (kernel.alpha * l**2))
    base = nan_where_infinite(g, base)  # a heavy tail is not zero even there
    return g.op("Pow", g.op("Add", base, 1.0), -float(kernel.alpha))


def _laplacian(g: Graph, kernel: Laplacian, x: Value, z: Array) -> Value:
    gamma = float(kernel.gamma)  # type: ignore[arg-type]
    return g.op("Exp", g.op("Mul", manhattan_distances(g, x, z), -gamma))


def _chi2(g: Graph, kernel: Chi2, x: Value, z: Array) -> Value:
    return g.op("Exp", g.op("Mul", chi2_distances(g, x, z), -float(kernel.gamma)))


def _one(g: Graph, kernel: Kernel, x: Value, d: int) -> Value:
    del kernel, x, d
    return g.store(np.ones((1, 1)))


# ── functions of dot products ───────────────────────────────────────────────
def _linear(g: Graph, kernel: Linear, x: Value, z: Array) -> Value:
    del kernel
    return dots(g, x, z)


def _linear_diag(g: Graph, kernel: Linear, x: Value, d: int) -> Value:
    del kernel, d
    return g.squared_norms(x)


def _power_of(g: Graph, kernel: Polynomial, products: Value) -> Value:
    base = g.op("Add", products, float(kernel.coef0))
    p = float(kernel.degree)
    if p.is_integer():
        return g.power(base, int(p))
    return g.op("Pow", base, p)  # NaN below zero, where mercer refuses


def _polynomial(g: Graph, kernel: Polynomial, x: Value, z: Array) -> Value:
    return _power_of(g, kernel, dots(g, x, z, float(kernel.gamma)))  # type: ignore[arg-type]


def _polynomial_diag(g: Graph, kernel: Polynomial, x: Value, d: int) -> Value:
    del d
    return _power_of(g, kernel, g.op("Mul", g.squared_norms(x), float(kernel.gamma)))  # type: ignore[arg-type]


def _sigmoid(g: Graph, kernel: Sigmoid, x: Value, z: Array) -> Value:
    # In float64: of far rows the sum decides between -1 and 1, and what cancels in it is all that counts.
    wide = g.at(np.float64)
    base = dots(wide, widened(g, x), z, float(kernel.gamma))  # type: ignore[arg-type]
    return narrowed(g, _tanh(wide, kernel, base))


def _sigmoid_diag(g: Graph, kernel: Sigmoid, x: Value, d: int) -> Value:
    del d
    wide = g.at(np.float64)
    base = wide.op("Mul", wide.squared_norms(widened(g, x)), float(kernel.gamma))  # type: ignore[arg-type]
    return narrowed(g, _tanh(wide, kernel, base))


def _tanh(g: Graph, kernel: Sigmoid, base: Value) -> Value:
    return g.op("Tanh", nan_where_infinite(g, g.op("Add", base, float(kernel.coef0))))


def widened(g: Graph, x: Value) -> Value:
    """X in float64."""
    return x if g.is_double else g.at(np.float64).cast(x)


def narrowed(g: Graph, x: Value) -> Value:
    """X, in float64, in the precision of the graph."""
    return x if g.is_double else g.cast(x)


def _cosine(g: Graph, kernel: Cosine, x: Value, z: Array) -> Value:
    del kernel
    return dots(g, unit_rows(g, x), np.asarray(stored_unit_rows(z)[0]))


def _is_positive(g: Graph, values: Value) -> Value:
    """1 where positive, 0 where not, NaN for what is no number."""
    found = g.op("Where", g.op("Greater", values, 0.0), 1.0, 0.0)
    return g.op("Where", g.op("IsNaN", values), np.nan, found)


def _cosine_diag(g: Graph, kernel: Cosine, x: Value, d: int) -> Value:
    del kernel, d
    return _is_positive(g, extents(g, x))


# ── algebra ─────────────────────────────────────────────────────────────────
def _constant(g: Graph, kernel: Constant, x: Value, z: Array) -> Value:
    return g.filled(x, len(z), float(kernel.value))


def _constant_diag(g: Graph, kernel: Constant, x: Value, d: int) -> Value:
    del x, d
    return g.store(np.full((1, 1), float(kernel.value)))


def _both(kind: str) -> tuple[Any, Any]:
    def both_tiles(g: Graph, kernel: Any, x: Value, z: Array) -> Value:
        return g.op(kind, tile(g, kernel.left, x, z), tile(g, kernel.right, x, z))

    def both_diags(g: Graph, kernel: Any, x: Value, d: int) -> Value:
        return g.op(kind, diag(g, kernel.left, x, d), diag(g, kernel.right, x, d))

    return both_tiles, both_diags


def _scale(g: Graph, kernel: Scale, x: Value, z: Array) -> Value:
    return g.op("Mul", tile(g, kernel.kernel, x, z), float(kernel.factor))


def _scale_diag(g: Graph, kernel: Scale, x: Value, d: int) -> Value:
    return g.op("Mul", diag(g, kernel.kernel, x, d), float(kernel.factor))


def _power(g: Graph, kernel: Power, x: Value, z: Array) -> Value:
    return g.power(tile(g, kernel.kernel, x, z), int(kernel.exponent))


def _power_diag(g: Graph, kernel: Power, x: Value, d: int) -> Value:
    return g.power(diag(g, kernel.kernel, x, d), int(kernel.exponent))


# ── derived ─────────────────────────────────────────────────────────────────
def _on_columns(g: Graph, kernel: OnColumns, x: Value, z: Array) -> Value:
    chosen = _chosen(kernel, z.shape[1])
    return tile(g, kernel.kernel, g.columns(x, chosen), z[:, chosen])


def _on_columns_diag(g: Graph, kernel: OnColumns, x: Value, d: int) -> Value:
    chosen = _chosen(kernel, d)
    return diag(g, kernel.kernel, g.columns(x, chosen), len(chosen))


def _chosen(kernel: OnColumns, d: int) -> list[int]:
    return [c % d for c in positions(kernel.columns, d)]


def _normalised(g: Graph, kernel: Normalised, x: Value, z: Array) -> Value:
    # In float64: k(x, x) is a square, and beyond float32 where x is an ordinary number.
    wide, x = g.at(np.float64), widened(g, x)
    own = _own_lengths(wide, kernel, x, z.shape[1])
    zero = wide.op("Equal", own, 0.0)
    inverse = wide.op("Where", zero, 0.0, wide.op("Div", 1.0, wide.op("Where", zero, 1.0, own)))
    product = wide.op("Mul", tile(wide, kernel.kernel, x, z), inverse)
    stored = kernel.kernel.tile_diag(z)
    lost = ~((stored == 0) | ((stored > MOST**-2) & (stored < MOST**2)))
    return narrowed(g, wide.op("Mul", product, np.where(lost, np.nan, kernel._inverse_lengths(z))))


# Lengths of φ(x) up to this size, and down to its inverse, have squares that are numbers of all digits.
MOST = 1e140
SMALL_ENTRY = 1e-20  # a row of nothing larger may have a k(x, x) that vanished


def _own_lengths(g: Graph, kernel: Normalised, x: Value, d: int) -> Value:  # -> (b, 1), or (1, 1)
    """√k(x, x), and NaN where it is out of range, or below zero, where mercer refuses."""
    own = g.op("Sqrt", diag(g, kernel.kernel, x, d))
    own = nan_where_lost(g, own, x, SMALL_ENTRY)
    outside = g.op("Greater", own, MOST)
    small = g.op("And", g.op("Greater", own, 0.0), g.op("Less", own, 1.0 / MOST))
    return g.op("Where", g.op("Or", outside, small), np.nan, own)


def _normalised_diag(g: Graph, kernel: Normalised, x: Value, d: int) -> Value:
    own = _own_lengths(g.at(np.float64), kernel, widened(g, x), d)
    return narrowed(g, _is_positive(g.at(np.float64), own))


# By the exact class: a subclass may have another tile, and would be exported wrongly in silence.
_KERNELS: dict[type[Kernel], tuple[Any, Any]] = {
    RBF: (_rbf, _one),
    RationalQuadratic: (_rational_quadratic, _one),
    Matern: (matern_tile, _one),
    Laplacian: (_laplacian, _one),
    Chi2: (_chi2, _one),
    Linear: (_linear, _linear_diag),
    Polynomial: (_polynomial, _polynomial_diag),
    Sigmoid: (_sigmoid, _sigmoid_diag),
    Cosine: (_cosine, _cosine_diag),
    Constant: (_constant, _constant_diag),
    Sum: _both("Add"),
    Product: _both("Mul"),
    Scale: (_scale, _scale_diag),
    Power: (_power, _power_diag),
    OnColumns: (_on_columns, _on_columns_diag),
    Normalised: (_normalised, _normalised_diag),
}
