"""Where the blame for an alarm is measured from: a row that is normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import KernelError
from mercer.engine.pairwise import manhattan_distances
from mercer.model.contributions import contributions

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.estimators.base import Projector
    from mercer.model.limits import Limits
    from mercer.model.statistics import Gauge

MOST_BASELINES = 500


@dataclass(frozen=True, repr=False)
class Baselines:
    """The training mean where it is normal itself, else normal training rows, of which the nearest counts.

    On a ring the mean lies in the hole, farther from normal than most faults: a path from there to a row
    would run towards normal, and praise what it should blame.
    """

    rows: Array  # (m, d), scaled, float64

    @classmethod
    def of(cls, gauge: Gauge, limits: Limits, x: Array, weights: Array | None = None) -> Baselines:
        """From the scaled training rows."""
        mean = np.average(x, axis=0, weights=weights)[None, :]
        if limits.indices(gauge(mean))[0] <= limits.index:
            return cls(mean)
        index = limits.indices(gauge(x))
        normal = np.flatnonzero(index <= limits.index)
        if len(normal) == 0:
            normal = np.array([np.argmin(index)])
        # Evenly from all of them: a process may have been elsewhere at another time.
        some = np.linspace(0, len(normal) - 1, min(len(normal), MOST_BASELINES)).round().astype(int)
        return cls(x[normal[some]])

    def __call__(self, x: Array) -> Array:  # (b, d) -> (b, d)
        """The nearest for each row, by the sum of |differences|.

        A fault mostly sits in one sensor or a few. Squares would rather spread a difference over all of
        them; this sum finds the normal row that agrees in the others.
        """
        if len(self.rows) == 1:
            return np.broadcast_to(self.rows, x.shape)
        return np.asarray(self.rows[np.argmin(manhattan_distances(x, self.rows), axis=1)])


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
    """Contributions (b, d) and gaps (b,); no numbers, and no gap, for rows whose statistics are infinite."""
    finite = np.isfinite(limits.indices(gauge(x)))
    found, gap = np.full(x.shape, np.nan), np.zeros(len(x))
    near = x[finite]
    with np.errstate(over="ignore", invalid="ignore"):
        found[finite], gap[finite] = contributions(gauge, limits, near, baselines(near), statistic)
    return found, gap
