"""Products and distances between two sets of rows: the in-place lines below every kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from mercer.engine.shifted import Shift, ShiftedRows

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows


# Below this share of the largest squared distance in a tile, cancellation has cost four digits.
NEAR = 1e-4
SOME_ROWS = 100  # enough for a centre
NEAR_ENTRIES = 2**20  # differences held at a time

# The most that |scale| (‖x‖² + ‖y‖²) may be: rounding then costs an entry 1e-9, in float32 1e-4.
ROUNDING = {
    np.dtype(np.float64): 1e-9 / float(np.finfo(np.float64).eps),
    np.dtype(np.float32): 1e-4 / float(np.finfo(np.float32).eps),
}


BLUR = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def dot(x: Rows, y: Rows) -> Array:  # (n, d), (m, d) -> (n, m)
    """X yᵀ as a new dense array."""
    product: Any = x @ y.T
    return product.toarray() if sparse.issparse(product) else product


def squared_norms(x: Rows) -> Array:  # (n, d) -> (n,)
    """‖x_i‖² of each row."""
    if sparse.issparse(x):
        return np.asarray(x.multiply(x).sum(axis=1), dtype=x.dtype).ravel()
    return np.einsum("id,id->i", x, x)


def dense(x: Rows) -> Array:
    """The rows as an array; only ever asked of the rows of one tile."""
    if isinstance(x, ShiftedRows):
        return x.plain()
    return x.toarray() if sparse.issparse(x) else x


def scaled_squared_distances(x: Rows, y: Rows, scale: float = 1.0) -> Array:  # -> (n, m)
    """Scale · ‖x_i - y_j‖² as a new array, never of the wrong sign.

    Accurate to `ROUNDING` whatever the data: a tile where the fast expansion could lose more, because
    an outlier or a narrow kernel makes |scale| ‖x‖² large, is computed again the slow way.
    """
    tile = _expanded(x, y, scale, ROUNDING[x.dtype])
    if tile is None:
        tile = _accurate(x, y, scale)
    clip = np.maximum if scale >= 0 else np.minimum
    return clip(tile, 0, out=tile)  # cancellation can leave ∓1e-16


def scaled_distances(x: Rows, y: Rows, scale: float = 1.0) -> Array:  # -> (n, m)
    """Scale · ‖x_i - y_j‖ as a new array, accurate for near points too.

    A square root turns a rounding error of 1e-16 in ‖x - y‖² ≈ 0 into one of 1e-8, which a kernel with a
    kink at zero shows. Pairs that are near beside the rest are therefore subtracted first.
    """
    if isinstance(x, ShiftedRows) and _too_blurred(x, y, scale**2):
        tile = cdist(x.plain(), y.plain()).astype(x.dtype, copy=False)
        tile *= scale
        return tile
    tile = _expanded(x, y, 1.0, np.inf)
    assert tile is not None  # no rounding was too much
    # What cancellation left below zero is among the near pairs too.
    near = np.argwhere(tile < NEAR * tile.max(initial=0.0))
    for pairs in np.array_split(near, 1 + len(near) * x.shape[1] // NEAR_ENTRIES):
        gap = dense(x[pairs[:, 0]]) - dense(y[pairs[:, 1]])
        tile[pairs[:, 0], pairs[:, 1]] = np.einsum("pd,pd->p", gap, gap)
    np.sqrt(tile, out=tile)
    tile *= scale
    return tile


def _expanded(x: Rows, y: Rows, scale: float, limit: float) -> Array | None:
    if isinstance(x, ShiftedRows):
        return _ready_tile(x, y, scale, limit)
    if sparse.issparse(x) or sparse.issparse(y):
        return _sparse_tile(x, y, scale, limit)
    return _dense_tile(x, y, scale, limit)


def _accurate(x: Rows, y: Rows, scale: float) -> Array:
    if isinstance(x, ShiftedRows):
        x, y = x.plain(), y.plain()
    if x.dtype == np.float32:  # twice the digits are cheaper than differences, and mostly enough
        double = scaled_squared_distances(x.astype(np.float64), y.astype(np.float64), scale)
        return double.astype(np.float32)
    tile: Array = cdist(dense(x), dense(y), "sqeuclidean")
    tile *= scale
    return tile


def _too_rough(x_norms: Array, y_norms: Array, scale: float, limit: float) -> bool:
    # An entry is rounded by about eps · |scale| (‖x‖² + ‖y‖²): the terms that cancel in it.
    most = float(np.maximum.reduce(x_norms, initial=0.0))
    most += float(np.maximum.reduce(y_norms, initial=0.0))
    return bool(abs(scale) * most > limit)


def _too_blurred(x: ShiftedRows, y: ShiftedRows, scale: float) -> bool:
    # Rows about 1/√scale apart, whose value a shift moves by √scale times how far it moves the rows.
    return bool(math.sqrt(abs(scale)) * (x.blur + y.blur) > BLUR[x.dtype])


def _dense_tile(x: Array, y: Array, scale: float, limit: float) -> Array | None:
    centre = np.add.reduce(y, axis=0, dtype=np.float64) / max(len(y), 1)
    shift = Shift(centre)
    return _ready_tile(shift.apply(x, x.dtype), shift.apply(y, y.dtype), scale, limit)


def _ready_tile(x: ShiftedRows, y: ShiftedRows, scale: float, limit: float) -> Array | None:
    if _too_rough(x.norms, y.norms, scale, limit):
        return None
    if np.isfinite(limit) and _too_blurred(x, y, scale):
        return None
    # The side with fewer rows is the one that is written anew.
    if len(x.augmented) <= len(y.augmented):
        return np.matmul(x.weighted(scale), y.augmented.T)
    return np.matmul(x.augmented, y.weighted(scale).T)


def _sparse_tile(x: Rows, y: Rows, scale: float, limit: float) -> Array | None:
    x_norms, y_norms = squared_norms(x), squared_norms(y)
    if _too_rough(x_norms, y_norms, scale, limit):
        return None
    tile = dot(x, y)
    tile *= -2.0 * scale
    tile += (scale * x_norms)[:, None]
    tile += (scale * y_norms)[None, :]
    return tile


def manhattan_distances(x: Rows, y: Rows) -> Array:  # (n, d), (m, d) -> (n, m)
    """Σ_d |x_id - y_jd|."""
    x, y = dense(x), dense(y)
    return cdist(x, y, "cityblock").astype(x.dtype, copy=False)


def chi2_distances(x: Rows, y: Rows) -> Array:  # (n, d), (m, d) -> (n, m)
    """Σ_d (x_id - y_jd)² / (x_id + y_jd), with 0/0 = 0."""
    x, y = dense(x), dense(y)
    out = np.zeros((len(x), len(y)), dtype=x.dtype)
    for x_d, y_d in zip(x.T, y.T, strict=True):  # one feature at a time: no (n, m, d) array
        total = x_d[:, None] + y_d[None, :]
        gap = x_d[:, None] - y_d[None, :]
        gap *= gap
        np.divide(gap, total, out=gap, where=total != 0)
        out += gap
    return out


def weighted_differences(w: Array, x: Rows, y: Rows) -> Array:  # (n, m), (n, d), (m, d) -> (n, d)
    """Σ_j w_ij (x_i - y_j), about a centre of the y: far from the origin the two sums would cancel."""
    x, y = dense(x), dense(y)
    # The median of some: one row far away must not take the digits of the others.
    some = y[:: max(1, len(y) // SOME_ROWS)]
    centre = np.median(some, axis=0) if len(y) else np.zeros(y.shape[1], dtype=y.dtype)
    return np.asarray(w.sum(axis=1)[:, None] * (x - centre) - w @ (y - centre))


def weighted_signs(w: Array, x: Rows, y: Rows) -> Array:  # (n, m), (n, d), (m, d) -> (n, d)
    """Σ_j w_ij sign(x_i - y_j), feature by feature: no (n, m, d) array."""
    x, y = dense(x), dense(y)
    out = np.empty_like(x)
    for d, (x_d, y_d) in enumerate(zip(x.T, y.T, strict=True)):
        out[:, d] = np.einsum("ij,ij->i", w, np.sign(x_d[:, None] - y_d[None, :]))
    return out


def weighted_chi2_slopes(w: Array, x: Rows, y: Rows) -> Array:  # (n, m), (n, d), (m, d) -> (n, d)
    """Σ_j w_ij ∂/∂x_i (x_i - y_j)²/(x_i + y_j), feature by feature, with 0 where both are 0."""
    x, y = dense(x), dense(y)
    out = np.empty_like(x)
    for d, (x_d, y_d) in enumerate(zip(x.T, y.T, strict=True)):
        total = x_d[:, None] + y_d[None, :]
        total[total == 0] = np.inf  # where both are zero
        slope = (x_d[:, None] - y_d[None, :]) / total
        slope *= (x_d[:, None] + 3.0 * y_d[None, :]) / total
        out[:, d] = np.einsum("ij,ij->i", w, slope)
    return out
