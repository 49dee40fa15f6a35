"""Which rows become landmarks: uniformly drawn, or spread out in feature space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.wording import Message
from mercer.data.rows import take_rows
from mercer.operators.centred import require_finite

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.engine.base import Engine
    from mercer.kernels.base import Kernel

# k-means++ looks at this many rows a landmark, and at no fewer than the second number: with more rows
# than that the landmarks are spread over a seeded sample of them.
ROWS_A_LANDMARK = 20
SAMPLE_ROWS = 10_000
SLICE_ROWS = 2048  # of the sample at a time


def checked_diagonal(kernel: Kernel, x: Rows, engine: Engine[Any]) -> Array:  # (n,)
    """k(x, x) of all rows in float64; raise where it overflows or is negative."""
    with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
        if kernel.shift_invariant:  # all are as long as the first: no pass over a file for that
            one = kernel.tile_diag(take_rows(x, np.zeros(1, dtype=np.intp)))
            diagonal = np.full(int(x.shape[0]), one[0], dtype=np.float64)
        else:
            diagonal = engine.map(x, kernel.tile_diag, parallel=kernel.parallel).astype(np.float64)
    require_lengths(diagonal)
    return np.asarray(diagonal)


def checked_lengths(kernel: Kernel, rows: Rows) -> Array:  # (b,)
    """The same of a block of rows."""
    lengths = kernel.tile_diag(rows).astype(np.float64)
    require_lengths(lengths)
    return np.asarray(lengths)


def require_lengths(diagonal: Array) -> None:
    """Raise unless k(x, x), a squared length in feature space, is finite and not negative."""
    require_finite(diagonal)
    if np.any(diagonal < 0):
        msg = Message(
            f"The kernel is not positive semi-definite: k(x, x) = {diagonal.min():.3g} < 0 for some row, "
            "so there is no low-rank bound. {mercer.check_kernel} shows a witness; use a valid kernel, "
            "or {approximation:None}."
        )
        raise KernelError(msg)


def uniform(n: int, m: int, *, weights: Array | None, rng: np.random.Generator) -> Indices:
    """M of n rows without replacement, in proportion to their weights where they have some."""
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

    Each landmark is drawn in proportion to the squared distance from those there are,
    ‖φ(x) - φ(z)‖² = k(x, x) + k(z, z) - 2k(x, z). When no row is left at a distance there are fewer
    landmarks than were asked for, and more would add nothing.
    """
    n = int(x.shape[0])
    sample = uniform(n, sample_size(n, m), weights=weights, rng=rng)
    rows = take_rows(x, sample)
    # In a sample drawn in proportion to the weights each row counts alike.
    mass = weights[sample] if weights is not None and len(sample) == n else np.ones(len(sample))
    lengths = checked_diagonal(kernel, rows, engine)
    # As rows that are cut into tiles: they are made ready for distances once, not for each landmark.
    resident = engine.load(rows, kernel, x.dtype, width=SLICE_ROWS)
    one = np.ones((1, 1), dtype=x.dtype)
    rounding = 10.0 * float(np.finfo(x.dtype).eps) * lengths
    distances = np.ones(len(sample))
    chosen: list[int] = []
    while len(chosen) < m and np.any(distances > 0):
        j = _draw(mass * distances, rng=rng)
        landmark = engine.load(resident.take(np.array([j])), kernel, x.dtype)
        towards = engine.times(kernel, resident, landmark, one)[:, 0]
        found = lengths + lengths[j] - 2.0 * towards
        found[found <= rounding + rounding[j]] = 0.0
        found[j] = 0.0
        distances = found if not chosen else np.minimum(distances, found)
        chosen.append(j)
    return sample[np.array(chosen)]


def _draw(mass: Array, *, rng: np.random.Generator) -> int:
    return int(drawn(mass, 1, rng=rng)[0])


def drawn(mass: Array, count: int, *, rng: np.random.Generator) -> Indices:
    """Positions drawn independently, each in proportion to its mass; never one without any."""
    ends = np.cumsum(mass)
    places = ends[-1] * rng.random(count)
    # Rounding may put a place at the very end: the last position with a mass is meant.
    last = int(np.searchsorted(ends, ends[-1], side="left"))
    return np.minimum(np.searchsorted(ends, places, side="right"), last)
