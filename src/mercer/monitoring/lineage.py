"""Where a model comes from: each time that it was updated, on what, why, and which model it was before."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from mercer.monitoring.limits import Limits
from mercer.monitoring.statistics import Gauge


@dataclass(frozen=True)
class Generation:
    """One update of a detector."""

    made: str  # when, in UTC
    parent: str  # the `fingerprint` of the detector that it was made from
    rows: int  # that it was given
    learned: int  # those of them that were normal enough
    memory: int  # rows that count: older ones are forgotten
    why: str = ""  # as it was given

    def __str__(self) -> str:
        learned = f"{self.learned} of {self.rows} rows learned, {self.memory} rows count"
        why = f" ({self.why})" if self.why else ""
        return f"{self.made}: {learned}, from {self.parent}{why}"


def fingerprint(gauge: Gauge, limits: Limits) -> str:
    """Twelve digits that tell one fitted detector from another.

    They are those of its axes and limits, whatever file it lies in.
    """
    digest = hashlib.sha256()
    projection = gauge.space.projection
    for array in (projection.coef, projection.offset, gauge.variances):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    digest.update(np.array([limits.t2, limits.q, limits.index], dtype="<f8").tobytes())
    return digest.hexdigest()[:12]
