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
        return body.op("Div", body.op("Mul", gap, gap), total)

    x = g.op("Where", g.op("Less", x, 0.0), np.nan, x)
    return g.over_features(x, z, term)


def dots(g: Graph, x: Value, z: Array, scale: float = 1.0) -> Value:  # -> (b, m)
    """Scale · x·z."""
    return g.op("MatMul", x, np.ascontiguousarray((scale * z).T))


def lengths(g: Graph, x: Value) -> Value:  # (b, D) -> (b, 1)
    """‖x_i‖, and 1 for a row of zeros: what rows are divided by to have length one."""
    norms = g.op("Sqrt", g.squared_norms(x))
    return g.op("Where", g.op("Equal", norms, 0.0), 1.0, norms)
