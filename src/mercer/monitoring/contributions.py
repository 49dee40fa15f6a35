"""Which variables an alarm comes from: integrated gradients (Sundararajan, Taly & Yan 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_slices

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.monitoring.limits import Limits
    from mercer.monitoring.statistics import Gauge

NODES = 16  # Gauss-Legendre points in each part of the path
# Where the path is cut, in turn until the sum is right. The last is the finer the nearer to its start: on the
# way to a row far out a kernel does all its changing within the first steps.
CUTS = (
    *(np.linspace(0.0, 1.0, parts + 1) for parts in (1, 2, 4, 8, 16, 32, 64)),
    np.append(0.0, 2.0 ** np.arange(-63.0, 1.0)),
)
COMPLETE = 1e-6  # of what the contributions have to sum to
ROUNDINGS = 4.0  # a gap of so many times the rounding is none
# Numbers that a slice of points on the path may hold against all sections.
SLICE_NUMBERS = 2**22


def contributions(
    gauge: Gauge, limits: Limits, x: Array, start: Array, statistic: str
) -> tuple[Array, Array]:
    """What each variable adds to a statistic, (b, d), and the share of the sum that is missed, (b,).

    ``start``, (b, d), has the normal row that each row is measured from.
    "combined" explains, for each row, the larger of T² and Q in units of their limits, in these units.
    """
    if statistic != "combined":
        of_t2 = statistic == "T2"
        value, slope = (gauge.t2, gauge.t2_slopes) if of_t2 else (gauge.q, gauge.q_slopes)
        width = gauge.space.projection.sections.width
        found, gap = integrated_gradients(value, slope, x, start, width=width)
        # Beside the limit, and beside rounding: a gap in contributions to next to nothing is none.
        limit = limits.t2 if of_t2 else limits.q
        share = gap / np.maximum(np.abs(found.sum(axis=1)), limit)
        if not of_t2:
            share[gap <= ROUNDINGS * gauge.q_rounding(x)] = 0.0
        return found, share
    seen = gauge(x)
    by_t2 = seen.t2 / limits.t2 > seen.q / limits.q
    found, gap = np.empty(x.shape), np.empty(len(x))
    for name, mine, limit in (("T2", by_t2, limits.t2), ("Q", ~by_t2, limits.q)):
        found[mine], gap[mine] = contributions(gauge, limits, x[mine], start[mine], name)
        found[mine] /= limit
    return found, gap


def integrated_gradients(
    value: Callable[[Array], Array],  # (b, d) -> (b,)
    slope: Callable[[Array], Array],  # (b, d) -> (b, d)
    x: Array,  # (b, d)
    start: Array,  # (b, d)
    *,
    width: int,
) -> tuple[Array, Array]:
    """Contributions (b, d) that sum to f(x) - f(start), and by how much they miss that, (b,).

    c_d = (x_d - z_d) ∫₀¹ ∂f/∂x_d(z + u(x - z)) du. Of a quadratic form x'Mx around z = 0 this is x_d (Mx)_d,
    the complete decomposition that is known for linear PCA; it needs nothing but slopes, so it is there for
    every kernel that has them. The path is cut in two, four, … parts for rows whose sum is not right yet:
    a narrow kernel changes within a short stretch of it. The best that was found is kept. ``width`` is the
    number of sections.
    """
    target = value(x) - value(start)  # (b,)
    found, gap = np.full(x.shape, np.nan), np.full(len(x), np.inf)
    left = np.arange(len(x))
    scale = np.maximum(np.abs(target), np.finfo(np.float64).tiny)
    for cuts in CUTS:
        better = _along(slope, x[left], start[left], cuts, width)
        missed = np.abs(better.sum(axis=1) - target[left])
        nearer = missed < gap[left]
        found[left[nearer]], gap[left[nearer]] = better[nearer], missed[nearer]
        left = left[gap[left] > COMPLETE * scale[left]]
        if len(left) == 0:
            break
    return found, gap


def _along(
    slope: Callable[[Array], Array], x: Array, origin: Array, cuts: Array, width: int
) -> Array:
    """(x - z) times the mean slope on the way from z to x, which is cut at these shares of it."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    lengths = np.diff(cuts)[:, None]
    u = (cuts[:-1, None] + lengths * 0.5 * (nodes + 1.0)).ravel()  # (g,) in (0, 1)
    w = (0.5 * weights * lengths).ravel()  # (g,), summing to 1
    out = np.empty(x.shape)
    for i in row_slices(len(x), max(1, SLICE_NUMBERS // (NODES * max(width, x.shape[1])))):
        step = x[i] - origin[i]  # (b, d)
        mean = np.zeros(step.shape)
        for g in row_slices(len(u), NODES):
            points = origin[i] + u[g, None, None] * step  # (16, b, d)
            slopes = slope(points.reshape(-1, x.shape[1])).reshape(points.shape)
            mean += np.tensordot(w[g], slopes, axes=1)
        out[i] = step * mean
    return out
