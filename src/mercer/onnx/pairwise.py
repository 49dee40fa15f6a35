"""Distances and products between the rows of a graph and stored points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.pairwise import ROUNDING

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.onnx.graph import Graph, Value


def shifted(g: Graph, x: Value, z: Array) -> tuple[Value, Array]:
    """Rows and points less a c among the points: differences stay, and what cancels in them is small.

    c is a number of the graph's precision, so both sides are shifted by the same.
    """
    c = np.median(z, axis=0).astype(g.dtype)
    return g.op("Sub", x, c), z - c.astype(np.float64)


def squared_distances(
    g: Graph, x: Value, z: Array, scale: float
) -> Value:  # (b, d), (m, d) -> (b, m)
    """Scale · ‖x - z‖², never of the wrong sign.

    By ‖x‖² - 2x·z + ‖z‖² about a centre of the points. An entry is rounded by about eps · |scale| ‖z‖²,
    and where that is too much for some point, the work is done in float64, or by differences. Rows far
    from all points need no such care: their distances are large, and right to a few units of their own.
    """
    x_c, z_c = shifted(g, x, z)
    norms = np.einsum("ij,ij->i", z_c, z_c)
    if 2.0 * abs(scale) * float(norms.max(initial=0.0)) > ROUNDING[g.dtype]:
        return _careful(g, x, z, scale)
    tile = g.op("MatMul", x_c, np.ascontiguousarray((-2.0 * scale * z_c).T))
    tile = g.op("Add", tile, scale * norms)
    tile = g.op("Add", tile, g.op("Mul", g.squared_norms(x_c), scale))
    return g.op("Max" if scale >= 0 else "Min", tile, 0.0)


def _careful(g: Graph, x: Value, z: Array, scale: float) -> Value:
    if g.is_double:
        return by_differences(g, x, z, scale)
    double = g.at(np.float64)
    return g.cast(squared_distances(double, double.cast(x), z, scale))


def by_differences(g: Graph, x: Value, z: Array, scale: float) -> Value:  # -> (b, m)
    """Scale · ‖x - z‖², subtracted first: right for near points too, at d passes over the tile."""

    def term(body: Graph, x_j: Value, z_j: Value) -> Value:
        gap = body.op("Sub", x_j, z_j)
        return body.op("Mul", gap, gap)

    x_c, z_c = shifted(g, x, z)
    return g.op("Mul", g.over_features(x_c, z_c, term), scale)


def manhattan_distances(g: Graph, x: Value, z: Array) -> Value:  # -> (b, m)
    """Σ_d |x_d - z_d|."""
    x_c, z_c = shifted(g, x, z)
    return g.over_features(
        x_c, z_c, lambda body, x_j, z_j: body.op("Abs", body.op("Sub", x_j, z_j))
    )


def chi2_distances(g: Graph, x: Value, z: Array) -> Value:  # -> (b, m)
    """Σ_d (x_d - z_d)²/(x_d + z_d), with 0/0 = 0; NaN for a row with a negative entry."""

    def term(body: Graph, x_j: Value, z_j: Value) -> Value:
        gap, total = body.op("Sub", x_j, z_j), body.op("Add", x_j, z_j)
        # Where both are zero, so is the gap; where both are smaller than this, its square is.
        total = body.op("Max", total, float(np.finfo(body.dtype).tiny))
        return body.op("Mul", gap, body.op("Div", gap, total))  # a share of 1: no square overflows

    x = g.op("Where", g.op("Less", x, 0.0), np.nan, x)
    return g.over_features(x, z, term)


def dots(g: Graph, x: Value, z: Array, scale: float = 1.0) -> Value:  # -> (b, m)
    """Scale · x·z."""
    return g.op("MatMul", x, np.ascontiguousarray((scale * z).T))


def extents(g: Graph, x: Value) -> Value:  # (b, D) -> (b, 1)
    """max_j |x_ij|."""
    sizes = g.op("Abs", x)
    where = g.op("ArgMax", sizes, axis=1, keepdims=1)  # ReduceMax has another form from opset 18 on
    return g.op("GatherElements", sizes, where, axis=1)


def unit_rows(g: Graph, x: Value) -> Value:  # (b, D) -> (b, D)
    """Rows of length one, but for those of zeros; divided by their extent first, so that no square of theirs
    overflows or vanishes, which would give a finite number that is wrong.
    """
    largest = extents(g, x)
    rows = g.op("Div", x, g.op("Where", g.op("Equal", largest, 0.0), 1.0, largest))
    norms = g.op("Sqrt", g.squared_norms(rows))
    return g.op("Div", rows, g.op("Where", g.op("Equal", norms, 0.0), 1.0, norms))


def nan_where_infinite(g: Graph, values: Value) -> Value:
    """NaN in place of ±∞: what overflowed on the way is not known, and must not pass for a number."""
    return g.op("Where", g.op("IsInf", values), np.nan, values)


def nan_where_lost(
    g: Graph, found: Value, x: Value, small: float
) -> Value:  # (b, 1), (b, d) -> (b, 1)
    """NaN where `found` is zero because the entries of a row, all of them below `small`, were too small."""
    largest = extents(g, x)
    tiny = g.op("And", g.op("Greater", largest, 0.0), g.op("Less", largest, small))
    return g.op("Where", g.op("And", g.op("Equal", found, 0.0), tiny), np.nan, found)
