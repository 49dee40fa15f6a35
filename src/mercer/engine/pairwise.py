"""Products and distances between two sets of rows: the in-place lines below every kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource
from mercer.engine.shifted import Shift, ShiftedRows, blur_of, centre_of

# Below this share of the largest squared distance from a row, cancellation costs four digits in float64, and
# more than two of the seven of float32.
NEAR = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 1e-2}
NEAR_ENTRIES = 2**20  # differences held at a time

# What rounding may cost an entry, and so the most that |scale| (‖x‖² + ‖y‖²) may be.
BLUR: dict[np.dtype[Any], float] = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
ROUNDING = {dtype: cost / float(np.finfo(dtype).eps) for dtype, cost in BLUR.items()}

# Squares of numbers between these neither overflow nor lose digits to underflow, summed or not.
SQUARABLE = {np.dtype(np.float64): (2.0**-480, 2.0**480), np.dtype(np.float32): (2.0**-50, 2.0**50)}
# Terms that have underflowed to zero stay negligible beside the others when multiplied by no more than this.
STEEP: dict[np.dtype[Any], float] = {
    np.dtype(np.float64): SQUARABLE[np.dtype(np.float64)][0] * 2.0**1022,
    np.dtype(np.float32): SQUARABLE[np.dtype(np.float32)][0] * 2.0**126,
}
# Different numbers of at least this size differ by more than the root of what can be squared.
SMALL = 2.0**-180


def dot(x: Rows, y: Rows, scale: float = 1.0) -> Array:  # (n, d), (m, d) -> (n, m)
    """Scale · x yᵀ as a new dense array; infinite only where that is beyond the largest number."""
    tile = _product(x, y)
    # Whichever is smaller is looked at: the result, or what went into it.
    n, m, d = *tile.shape, int(x.shape[1])
    if n * m <= (n + m) * d:
        sound = bool(np.isfinite(np.sum(tile)))
    else:
        sound = d * _extent(x) * _extent(y) < float(np.finfo(tile.dtype).max)
    if not sound:
        return _balanced_dot(x, y, scale)
    if scale != 1.0:
        tile *= scale
    return tile


def _product(x: Rows, y: Rows) -> Array:
    product: Any = x @ y.T
    return np.asarray(product.toarray() if sparse.issparse(product) else product)


def _extent(x: Rows) -> float:
    values = x.data if sparse.issparse(x) else x
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _balanced_dot(x: Rows, y: Rows, scale: float) -> Array:
    """Rows of a size about 1 are multiplied, and what they were divided by, powers of two, is put back."""
    (x, x_powers), (y, y_powers) = balanced(x), balanced(y)
    tile = _product(x, y)
    mantissa, power = math.frexp(scale)
    tile *= mantissa
    with np.errstate(over="ignore"):  # infinite is what it is then
        return np.ldexp(tile, x_powers[:, None] + y_powers[None, :] + power)


def balanced(x: Rows) -> tuple[Rows, Array]:  # (n, d) -> (n, d), (n,)
    """Rows divided by the power of two above their largest entry, and those powers: no digit is lost."""
    values: Any = abs(x)
    largest = values.max(axis=1)
    largest = largest.toarray().ravel() if sparse.issparse(largest) else largest
    powers = np.frexp(largest)[1]
    if sparse.issparse(x):
        scaled = sparse.csr_array(x, copy=True)
        scaled.data = np.ldexp(scaled.data, -np.repeat(powers, np.diff(scaled.indptr)))
        return scaled, powers
    return np.ldexp(x, -powers[:, None]), powers


def lengths(x: Rows) -> Array:  # (n, d) -> (n,)
    """‖x_i‖ of each row, whatever its size: squares that overflow or vanish are taken of scaled rows."""
    squares = squared_norms(x)
    out = np.sqrt(squares)
    low, high = SQUARABLE[x.dtype]
    lost = np.flatnonzero(~((squares > low) & (squares < high)))  # rows of zeros among them
    if len(lost) > 0:
        rows, powers = balanced(x[lost])
        out[lost] = np.ldexp(np.sqrt(squared_norms(rows)), powers)
    return out


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

    Accurate to `ROUNDING` whatever the data: rows for which the fast expansion could lose more, because
    they lie far out or a narrow kernel makes |scale| ‖x‖² large, are computed again the slow way. Each row
    by itself: in a block of one height, its distances have the same bits whatever the other rows are.
    """
    tile, limit = None, ROUNDING[x.dtype]
    if not isinstance(y, np.ndarray) or len(y) > 1:  # to one point differences take less time
        with np.errstate(over="ignore", invalid="ignore"):  # is too rough
            tile, terms = _expanded(x, y, scale, limit)
            rough = ~(abs(scale) * terms <= limit)  # (n,)
    if tile is None:
        tile = _accurate(x, y, scale)
    elif np.any(rough):
        tile[rough] = _accurate(x[np.flatnonzero(rough)], y, scale)
    clip = np.maximum if scale >= 0 else np.minimum
    return clip(tile, 0, out=tile)  # cancellation can leave ∓1e-16


def scaled_distances(x: Rows, y: Rows, scale: float = 1.0) -> Array:  # -> (n, m)
    """Scale · ‖x_i - y_j‖ as a new array, accurate for near points and rows of any size, wider where it must.

    A square root turns a rounding error of 1e-16 in ‖x - y‖² ≈ 0 into one of 1e-8, which a kernel with a kink
    at zero shows. Pairs that are near beside their distances from the centre are therefore subtracted first:
    which are is decided row by row, so that in a float64 block no row changes the bits of another.
    """
    if isinstance(x, ShiftedRows) and abs(scale) * (x.blur + y.blur) > BLUR[x.dtype]:
        return _by_differences(x, y, scale)
    with np.errstate(over="ignore", invalid="ignore"):  # seen below
        tile, cancelling = _expanded(x, y, 1.0)
    assert tile is not None  # no rounding was too much
    largest = tile.max(axis=1, initial=0.0)  # (n,)
    low, high = SQUARABLE[x.dtype]
    if not low < largest.max(initial=0.0) < high:  # NaN neither
        return _by_differences(x, y, scale)
    # What cancellation left below zero is among the near pairs too.
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        # These are not centred on the y: an x may be nearer to all of them than to the origin.
        largest = np.maximum(largest, cancelling)
    near = np.argwhere(tile < NEAR[x.dtype] * largest[:, None])  # (p, 2)
    many = 4 * np.bincount(near[:, 0], minlength=len(tile)) > tile.shape[1]  # (n,)
    if len(many) and np.all(many):
        return _by_differences(x, y, scale)
    tile[near[:, 0], near[:, 1]] = 0.0
    np.sqrt(tile, out=tile)
    near = near[~many[near[:, 0]]]
    for pairs in np.array_split(near, 1 + len(near) * x.shape[1] // NEAR_ENTRIES):
        gap = dense(x[pairs[:, 0]]) - dense(y[pairs[:, 1]])
        tile[pairs[:, 0], pairs[:, 1]] = lengths(gap)
    tile *= scale
    if np.any(many):
        tile = tile.astype(np.float64, copy=False)
        tile[many] = _by_differences(x[np.flatnonzero(many)], y, scale)
    return tile


def origin_of(x: Rows, dtype: np.dtype[Any], sharpest: float) -> Array:  # -> (d,)
    """The middle of rows whose squared distances are multiplied by `sharpest` at most.

    A shift saves the digits of distances, unless it moves the rows by more than that: then it is zero.
    """
    nowhere = np.zeros(x.shape[1])
    if sparse.issparse(x) or not x.shape[0]:
        return nowhere
    centre, sharp = centre_of(x), 2.0 * math.sqrt(sharpest)
    # Mostly a bound on the blur is small enough, and the columns need not be looked at.
    eps = float(np.finfo(np.result_type(x.dtype, dtype)).eps)
    if sharp * (eps * math.sqrt(centre @ centre)) <= BLUR[dtype]:
        return centre
    if isinstance(x, RowSource):
        return nowhere
    blur, _ = blur_of(x, centre, dtype)
    return centre if sharp * blur <= BLUR[dtype] else nowhere


def _by_differences(x: Rows, y: Rows, scale: float) -> Array:  # -> (n, m)
    """Scale · ‖x_i - y_j‖, subtracted first.

    In float64, where no square of a float32 is lost. Squares of float64 are: where a distance is beyond
    their range, that of rows multiplied by a power of two is taken.
    """
    x, y = (dense(side).astype(np.float64, copy=False) for side in (x, y))
    with np.errstate(over="ignore"):
        tile: Array = cdist(x, y)
        low, high = (math.sqrt(end) for end in SQUARABLE[tile.dtype])
        long, short = ~(tile < high), tile < low
        tile *= scale
        if np.any(long):
            scaled = cdist(np.ldexp(x, -600), np.ldexp(y, -600)) * scale
            np.copyto(tile, np.ldexp(scaled, 600), where=long)
        if np.any(short) and (_holds_small(x) or _holds_small(y)):
            # Entries beyond SMALL differ by nothing, or by more than is short.
            x, y = (np.ldexp(np.clip(side, -SMALL, SMALL), 600) for side in (x, y))
            np.copyto(tile, np.ldexp(cdist(x, y) * scale, -600), where=short)
        return tile


def _holds_small(x: Array) -> bool:
    return bool(np.any((np.abs(x) < SMALL) & (x != 0.0)))


def _expanded(
    x: Rows, y: Rows, scale: float, limit: float = np.inf
) -> tuple[Array | None, Array]:  # -> (n, m), (n,)
    """Scale · (‖x‖² - 2x·y + ‖y‖²) about a common point, and ‖x‖² + the largest ‖y‖², which cancel in it.

    None where rounding would cost an entry of every row more than `limit` units, or squares that vanish
    would count.
    """
    if limit < np.inf and abs(scale) > STEEP[x.dtype]:
        return None, np.full(x.shape[0], np.inf)
    if sparse.issparse(x) or sparse.issparse(y):
        x_norms, y_norms = squared_norms(x), squared_norms(y)
    else:
        if not isinstance(x, ShiftedRows):
            centre = np.add.reduce(y, axis=0, dtype=np.float64) / max(len(y), 1)
            # Mostly a bound on the blur is small enough, and the columns need not be looked at.
            blur = float(np.finfo(x.dtype).eps * np.linalg.norm(centre))
            small = limit == np.inf or math.sqrt(abs(scale)) * 2.0 * blur <= BLUR[x.dtype]
            shift = Shift(centre, blur if small else None)
            x, y = shift.apply(x, x.dtype), shift.apply(y, y.dtype)
        x_norms, y_norms = x.norms, y.norms
    # An entry is rounded by about eps · |scale| (‖x‖² + ‖y‖²): the terms that cancel in it.
    terms = x_norms + np.maximum.reduce(y_norms, initial=0.0)
    if len(terms) and not np.any(abs(scale) * terms <= limit):  # nor is NaN, of what overflowed
        return None, terms
    if not isinstance(x, ShiftedRows):
        tile = dot(x, y)
        tile *= -2.0 * scale
        tile += (scale * x_norms)[:, None]
        tile += (scale * y_norms)[None, :]
        return tile, terms
    # Rows about 1/√scale apart, whose value a shift moves by √scale times how far it moves the rows.
    if limit < np.inf and math.sqrt(abs(scale)) * (x.blur + y.blur) > BLUR[x.dtype]:
        return None, terms
    # The side with fewer rows is the one that is written anew.
    if len(x.augmented) <= len(y.augmented):
        return np.matmul(x.weighted(scale), y.augmented.T), terms
    return np.matmul(x.augmented, y.weighted(scale).T), terms


def _accurate(x: Rows, y: Rows, scale: float) -> Array:
    if isinstance(x, ShiftedRows):
        x, y = x.plain(), y.plain()
    if x.dtype == np.float32:  # twice the digits are cheaper than differences, and mostly enough
        double = scaled_squared_distances(x.astype(np.float64), y.astype(np.float64), scale)
        return double.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        x, y = dense(x), dense(y)
        if len(y) == 1:
            gap = x - y
            tile: Array = np.einsum("ij,ij->i", gap, gap)[:, None]
        else:
            tile = cdist(x, y, "sqeuclidean")
        far = np.flatnonzero(~(tile.max(axis=1, initial=0.0) < np.inf))  # NaN too: inf - inf
        tile *= scale
        if len(far):
            root = math.sqrt(abs(scale))
            tile[far] = math.copysign(1.0, scale) * np.square(_by_differences(x[far], y, root))
        return tile


def manhattan_distances(x: Rows, y: Rows, scale: float = 1.0) -> Array:  # (n, d), (m, d) -> (n, m)
    """Scale · Σ_d |x_id - y_jd|."""
    tile = _homogeneous(partial(cdist, metric="cityblock"), dense(x), dense(y), scale)
    return tile.astype(x.dtype, copy=False)


def chi2_distances(x: Rows, y: Rows, scale: float = 1.0) -> Array:  # (n, d), (m, d) -> (n, m)
    """Scale · Σ_d (x_id - y_jd)² / (x_id + y_jd), with 0/0 = 0."""
    return _homogeneous(_chi2, dense(x), dense(y), scale)


def _chi2(x: Array, y: Array) -> Array:
    out = np.zeros((len(x), len(y)), dtype=x.dtype)
    for x_d, y_d in zip(x.T, y.T, strict=True):  # one feature at a time: no (n, m, d) array
        gap = x_d[:, None] - y_d[None, :]
        # Halves: the sum of two large numbers is infinite. The share is at most 1, so that its product
        # with the gap is right wherever (x - y)² is out of range.
        total = (0.5 * x_d)[:, None] + (0.5 * y_d)[None, :]
        share = np.divide(0.5 * gap, total, out=total, where=total != 0)
        share *= gap
        out += share
    return out


def _homogeneous(
    distances: Callable[[Array, Array], Array], x: Array, y: Array, scale: float
) -> Array:
    """Scale times distances of which d(cx, cy) = c d(x, y): sums that overflow are made of smaller rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        tile = distances(x, y)
        if not tile.max(initial=0.0) < np.inf:
            tile = np.ldexp(scale * distances(np.ldexp(x, -60), np.ldexp(y, -60)), 60)
        elif scale != 1.0:
            tile *= scale
    return tile
