"""Where the blame for an alarm is measured from: a row that is normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import KernelError
from mercer.engine.pairwise import manhattan_distances
from mercer.estimators.detector_parts import INCOMPLETE
from mercer.monitoring.contributions import contributions

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.estimators.base import Projector
    from mercer.monitoring.limits import Limits
    from mercer.monitoring.statistics import Gauge

MOST_BASELINES = 500
# Spreads from normal beyond which a reading is only "wild": how far it lies says nothing more, the numbers
# behind it overflow, and a path to it has its bend in a share of 1e-20. The first that has numbers counts.
REACHES = (1e6, 1e4, 1e2)
SAME = 1e-6  # a statistic that differs by no more than this share, within reach and out there


@dataclass(frozen=True, repr=False)
class Baselines:
    """The training mean where it is normal itself, else normal training rows, of which the nearest counts.

    On a ring the mean lies in the hole, farther from normal than most faults: a path from there to a row
    would run towards normal, and praise what it should blame.
    """

    rows: Array  # (m, d), scaled, float64
    unit: Array | None = None  # (d,), spreads of the scaled training rows; None is one everywhere

    @classmethod
    def of(cls, gauge: Gauge, limits: Limits, x: Array, weights: Array | None = None) -> Baselines:
        """From the scaled training rows."""
        mean = np.average(x, axis=0, weights=weights)[None, :]
        spread = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
        unit = np.where(spread > 0.0, spread, 1.0)
        if limits.indices(gauge(mean))[0] <= limits.index:
            return cls(mean, unit)
        index = limits.indices(gauge(x))
        normal = np.flatnonzero(index <= limits.index)
        if len(normal) == 0:
            normal = np.array([np.argmin(index)])
        # Evenly from all of them: a process may have been elsewhere at another time.
        some = np.linspace(0, len(normal) - 1, min(len(normal), MOST_BASELINES)).round().astype(int)
        return cls(x[normal[some]], unit)

    def __call__(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """The nearest for each row, by the sum of |differences|.

        A fault mostly sits in one sensor or a few. Squares would rather spread a difference over all of
        them; this sum finds the normal row that agrees in the others.
        """
        if len(self.rows) == 1:
            return np.broadcast_to(self.rows, x.shape)
        return np.asarray(self.rows[np.argmin(manhattan_distances(x, self.rows), axis=1)])

    def within(self, x: Array, reach: float) -> Array:  # (b, d) -> (b, d)
        """The rows, with readings farther than so many spreads from normal brought there."""
        far = reach * (1.0 if self.unit is None else self.unit)
        return np.clip(x, self.rows.min(axis=0) - far, self.rows.max(axis=0) + far)


def has_slopes(model: Projector) -> bool:
    """Whether the kernel has a known derivative; without a kernel all is linear."""
    kernel = getattr(model, "kernel_", None)
    return kernel is None or bool(kernel.differentiable)


def need_slopes(model: Projector) -> None:
    """Refuse a kernel without a derivative."""
    if has_slopes(model):
        return
    msg = (
        f"Contributions need a kernel with a known derivative, but {model.kernel_!r} has "
        "none. Kernels of distances and dot products, and their sums and products, have one."
    )
    raise KernelError(msg)


def blame(
    gauge: Gauge, limits: Limits, x: Array, baselines: Baselines, statistic: str
) -> tuple[Array, Array]:
    """Contributions (b, d) and gaps (b,); no numbers, and no gap, for rows whose statistics are infinite.

    With a bounded kernel a row far out has the statistics of one at the end of our reach, where the bend of
    the path can be found: contributions to one are those to the other.
    """
    index = limits.indices(gauge(x))
    finite = np.isfinite(index)
    found, gap = np.full(x.shape, np.nan), np.zeros(len(x))
    found[finite], gap[finite] = _summed(gauge, limits, x[finite], baselines, statistic)
    for reach in REACHES:
        lost = np.flatnonzero(~(gap <= INCOMPLETE) & finite)
        near = baselines.within(x[lost], reach)
        same = np.abs(limits.indices(gauge(near)) - index[lost]) <= SAME * index[lost]
        wild = np.any(near != x[lost], axis=1) & same
        if not wild.any():
            break
        lost, near = lost[wild], near[wild]
        again, missed = _summed(gauge, limits, near, baselines, statistic)
        better = ~(gap[lost] <= missed)
        found[lost[better]], gap[lost[better]] = again[better], missed[better]
    return found, gap


def blame_within_reach(
    gauge: Gauge, limits: Limits, x: Array, baselines: Baselines, statistic: str
) -> tuple[Array, Array]:
    """Contributions for naming: a wild reading is named as one at the end of our reach would be.

    So two wild sensors are both named, though the one may be 1e70 times as wild as the other, and a row whose
    statistics are infinite has someone to blame.
    """
    found, gap = np.full(x.shape, np.nan), np.full(len(x), np.inf)
    left = np.arange(len(x))
    for reach in REACHES:
        near = baselines.within(x[left], reach)
        found[left], gap[left] = blame(gauge, limits, near, baselines, statistic)
        left = left[np.isnan(found[left]).any(axis=1)]
        if len(left) == 0:
            break
    return found, gap


def _summed(
    gauge: Gauge, limits: Limits, x: Array, baselines: Baselines, statistic: str
) -> tuple[Array, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        return contributions(gauge, limits, x, baselines(x), statistic)
