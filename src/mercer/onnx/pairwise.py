"""Distances and products between the rows of a graph and stored points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.pairwise import ROUNDING

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.onnx.graph import Value


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

    def term(x_j: Value, z_j: Value) -> Value:
        gap = x_j - z_j
        return gap * gap

    x_c, z_c = shifted(x, z)
    return x_c.over_features(z_c, term) * scale


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
