"""Which rows become landmarks, uniformly drawn or spread out in feature space, and what whitens them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dtrtri

from mercer._core.errors import KernelError, ZeroVarianceError
from mercer._core.types import Array, Indices, Rows
from mercer._core.wording import Message
from mercer.data.rows import take_rows
from mercer.engine import formula as f
from mercer.engine.base import Engine
from mercer.engine.shifted import centre_of
from mercer.kernels.base import Kernel
from mercer.operators.centred import require_finite

# k-means++ looks at a seeded sample of this many rows a landmark, and at no fewer than the second number.
ROWS_A_LANDMARK = 20
SAMPLE_ROWS = 10_000
SLICE_ROWS = 2048  # of the sample at a time


def checked_diagonal(kernel: Kernel, x: Rows, engine: Engine[Any]) -> Array:  # (n,)
    """k(x, x) of all rows in float64; raise where it overflows or is negative."""
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        if kernel.shift_invariant:  # all are as long as the first: no pass over a file for that
            one = kernel.tile_diag(take_rows(x, np.zeros(1, dtype=np.intp)))
            diagonal = np.full(int(x.shape[0]), one[0], dtype=np.float64)
        else:
            diagonal = engine.map(x, kernel.tile_diag, parallel=kernel.parallel).astype(np.float64)
    return _as_lengths(diagonal)


def checked_lengths(kernel: Kernel, rows: Rows) -> Array:  # (b,)
    """`checked_diagonal` of a block of rows."""
    return _as_lengths(kernel.tile_diag(rows).astype(np.float64))


def _as_lengths(diagonal: Array) -> Array:
    """k(x, x); raise unless it, a squared length in feature space, is finite and not negative."""
    require_finite(diagonal)
    if np.any(diagonal < 0):
        msg = Message(
            f"The kernel is not positive semi-definite: k(x, x) = {diagonal.min():.3g} < 0 for some row, "
            "so there is no low-rank bound. {mercer.check_kernel} shows a witness; use a valid kernel, "
            "or {approximation:None}."
        )
        raise KernelError(msg)
    return diagonal


def uniform(n: int, m: int, *, weights: Array | None, rng: np.random.Generator) -> Indices:
    """Draw m of n rows without replacement, in proportion to their weights."""
    share = None if weights is None else weights / weights.sum()
    return np.sort(rng.choice(n, m, replace=False, p=share))


def sample_size(n: int, m: int) -> int:
    """Rows that `k_means_plus_plus` looks at."""
    return min(n, max(SAMPLE_ROWS, ROWS_A_LANDMARK * m))


def k_means_plus_plus(
    kernel: Kernel,
    x: Rows,
    m: int,
    *,
    weights: Array | None,
    rng: np.random.Generator,
    engine: Engine[Any],
) -> Indices:
    """D² sampling (Arthur & Vassilvitskii 2007) in feature space, over a seeded sample of the rows.

    Each landmark is drawn in proportion to the least squared distance from the others,
    ‖φ(x) - φ(z)‖² = k(x, x) + k(z, z) - 2k(x, z). It stops early when no row is left at a distance.
    """
    n = int(x.shape[0])
    sample = uniform(n, sample_size(n, m), weights=weights, rng=rng)
    rows = take_rows(x, sample)
    # In a sample drawn in proportion to the weights each row counts alike.
    mass = weights[sample] if weights is not None and len(sample) == n else np.ones(len(sample))
    lengths = checked_diagonal(kernel, rows, engine)
    # Rows that are cut into tiles are made ready for distances once, not for each landmark.
    resident = engine.load(rows, kernel, x.dtype, width=SLICE_ROWS)
    one = np.ones((1, 1), dtype=x.dtype)
    rounding = 10.0 * float(np.finfo(x.dtype).eps) * lengths
    distances = np.ones(len(sample))
    chosen: list[int] = []
    while len(chosen) < m and np.any(distances > 0):
        j = int(drawn(mass * distances, 1, rng=rng)[0])
        landmark = engine.load(resident.take(np.array([j])), kernel, x.dtype)
        towards = engine.times(kernel, resident, landmark, one)[:, 0]
        found = lengths + lengths[j] - 2.0 * towards
        found[found <= rounding + rounding[j]] = 0.0
        found[j] = 0.0
        distances = found if not chosen else np.minimum(distances, found)
        chosen.append(j)
    return sample[np.array(chosen)]


def drawn(mass: Array, count: int, *, rng: np.random.Generator) -> Indices:
    """Positions drawn independently, each in proportion to its mass; never one of mass 0."""
    ends = np.cumsum(mass)
    places = ends[-1] * rng.random(count)
    # Rounding may put a place at the very end, which is that of the last position with a mass.
    last = int(np.searchsorted(ends, ends[-1], side="left"))
    return np.minimum(np.searchsorted(ends, places, side="right"), last)


# ── whitening: W with W Wᵀ = k(Z, Z)⁻¹, so that k(x, Z) W are coordinates in the span of φ(Z) ──
# The core k(Z, Z) is small. It is made and taken apart in float64 also for rows in float32, whose numbers
# float64 holds exactly: rounding in the core would be amplified by its condition.
EPS = float(np.finfo(np.float64).eps)

# Kernels promise entries right to 1e-4, in float64 to 1e-9.
MOST_ROUNDING = 1e-3
# Points that show how kernel values are rounded.
PROBE_POINTS = 256


def core_matrix(kernel: Kernel, points: Rows) -> Array:  # (m, d) -> (m, m)
    """k(Z, Z) in float64, with the diagonal that distances only nearly give."""
    z = points.astype(np.float64)
    lengths, core = checked_lengths(kernel, z), kernel.tile(z, z)
    np.fill_diagonal(core, lengths)
    return core


def entry_error(kernel: Kernel, points: Rows) -> float:
    """Rounding of k(x, z) in the dtype of the points, relative to √k(x, x)√k(z, z).

    At least eps. The diagonal of a tile shows it, where distances cancel most and the true values are known,
    and there also what a relative change of eps in the points does: an exponential of 300 loses hundreds.
    Distances are taken of points about their centre, whose rounding they show: not that of an offset.
    """
    points = points[:PROBE_POINTS]
    eps = float(np.finfo(points.dtype).eps)
    if not sparse.issparse(points):
        centre = centre_of(points)
        centre[_placed(kernel.tree(), np.arange(len(centre)))] = 0.0
        points = (points.astype(np.float64) - centre).astype(points.dtype)
    worst = eps
    for near in (points, points * points.dtype.type(1.0 + eps)):
        with np.errstate(over="ignore", invalid="ignore"):  # the pass over all rows reports it
            lengths = kernel.tile_diag(points).astype(np.float64)
            entries = np.diagonal(kernel.tile(near, points)).astype(np.float64)
            gaps = np.abs(entries - lengths)[lengths > 0] / lengths[lengths > 0]
        # A larger gap is not rounding but noise that a point shares with no other, not even itself.
        worst = max(worst, float(np.max(gaps[gaps < MOST_ROUNDING], initial=0.0)))
    return worst


def _placed(expr: f.Expr, columns: Indices) -> Indices:
    """Those of the columns whose origin a value depends on: dot products, and what is not known, look at."""
    match expr:
        case f.Pair(kind="sqdist" | "l1"):
            return columns[:0]
        case f.Pair() | f.Opaque():
            return columns
        case f.On(of):
            return _placed(of, columns[np.asarray(expr.columns)])
    return np.concatenate([columns[:0], *(_placed(part, columns) for part in expr.parts)])


def whitening(core: Array, unit: float) -> Array:  # (m, m) -> (m, r)
    """W over the directions of the core that lie above rounding: W Wᵀ is k(Z, Z)⁻¹ where that exists.

    The core is scaled to a diagonal of ones first: k(z, z) may span many orders of magnitude. Along an
    eigenvector of value λ features are then about √λ long, and their rounding, `unit` for an entry, about
    unit √(m/λ): the cut keeps the directions in which the first is larger. Where it keeps all of them, the
    inverse of the Cholesky factor spans them in a sixth of the time: Σ1/λ, the sum of its squares, shows
    that the least λ lies above the cut.
    """
    lengths, limits = np.diagonal(core), np.finfo(core.dtype)
    # What has lost digits to the range of numbers, and what is nothing beside the largest, spans nothing.
    held = lengths > max(limits.tiny, EPS**4 * lengths.max())
    scale = np.divide(1.0, np.sqrt(lengths), out=np.zeros(len(core)), where=held)
    core = core * scale * scale[:, None]
    # No eigenvalue is larger than the trace, which is m.
    whiten = _inverse_factor(core, 1.0 / _cut(unit, len(core), float(len(core))))
    return scale[:, None] * (_eigen_whitening(core, unit) if whiten is None else whiten)


def _inverse_factor(core: Array, most: float) -> Array | None:  # (m, m)
    """L⁻ᵀ of the Cholesky factor L; None where there is none, or its squares add up to `most` or more."""
    try:
        lower = np.linalg.cholesky(core)
    except np.linalg.LinAlgError:
        return None
    if np.sum(np.diagonal(lower) ** -2.0) >= most:  # the squares of its diagonal, already
        return None
    # LAPACK's order is by columns: that of the transpose.
    upper, failed = dtrtri(lower.T, lower=0, overwrite_c=1)
    whiten = np.ascontiguousarray(upper)
    return None if failed or np.vdot(whiten, whiten) >= most else whiten


def _cut(unit: float, m: int, largest: float) -> float:
    return max(10.0 * unit * np.sqrt(m), m * EPS * largest)


def _eigen_whitening(core: Array, unit: float) -> Array:  # (m, m) -> (m, r)
    values, vectors = np.linalg.eigh(core)
    cut = _cut(unit, len(core), float(values[-1]))
    if values[0] < -max(cut, len(core) * unit * float(values[-1])):
        msg: str = Message(
            f"The kernel is not positive semi-definite: among the landmarks, scaled to k(z, z) = 1, it has "
            f"the eigenvalue {values[0]:.3g} beside a largest of {values[-1]:.3g}, so there is no low-rank "
            "bound. {mercer.check_kernel} shows a witness; use a valid kernel, or {approximation:None}."
        )
        raise KernelError(msg)
    keep = values > cut
    if not np.any(keep):
        msg = (
            "The landmarks have no length in feature space: k(z, z) = 0 for each of them, so they show "
            "nothing of the data, which may have zero variance. Check that the rows are not all zero, or "
            "use RPCholesky, which never draws such rows."
        )
        raise ZeroVarianceError(msg)
    return np.asarray(vectors[:, keep][:, ::-1] / np.sqrt(values[keep][::-1]))


def extended(whiten: Array, inside: Array, lower: Array) -> Array:
    """[[W, -W Bᵀ C⁻ᵀ], [0, C⁻ᵀ]], the W of the Cholesky factor [[L, 0], [B, C]], from W = L⁻ᵀ, B and C."""
    m, a = len(whiten), len(lower)
    fresh, _ = dtrtri(lower.T, lower=0)  # (a, a); pivots are above rounding
    whole = np.zeros((m + a, m + a))
    whole[:m, :m] = whiten
    whole[:m, m:] = -whiten @ (inside.T @ fresh)
    whole[m:, m:] = np.triu(fresh)
    return whole
