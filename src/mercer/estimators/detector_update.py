"""A detector that follows a process which drifts: recursive updates with forgetting.

Rows are taken in blocks. Each block is judged by the model of the rows before it, and then learned: so every
statistic is that of a row held out, and limits come from them as those of a fit do, with older rows counting
less. Rows far beyond the limit are not learned, or a fault would become normal.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mercer._core.errors import DetectorWarning, InputError
from mercer._core.findings import warn
from mercer._core.wording import Message
from mercer.estimators.incremental import IncrementalKernelPCA
from mercer.monitoring.contributions import Baselines
from mercer.monitoring.limits import FEW_ABOVE, Calibration, held_out_limits
from mercer.monitoring.lineage import Generation, fingerprint
from mercer.monitoring.statistics import Gauge, Statistics
from mercer.operators.sections import KernelSections

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags
    from mercer.monitoring.events import Event
    from mercer.monitoring.limits import Limits, Rule
    from mercer.monitoring.sensors import Sensors

BLOCK = 100  # rows that are judged by one model, before they are learned
LANDMARKS = 500
MOST_FAULTY = 0.5  # share of the rows in events beyond which nothing is learned
TOL = 1e-8  # what Q is made of has to be in the dictionary too


@dataclass(eq=False)
class _Course:
    """The model and its limits while rows go by."""

    model: IncrementalKernelPCA
    rule: Rule
    limits: Limits
    memory: int
    guard: float  # a drift takes a process a little over its limit, a fault far beyond
    seen: Statistics | None = None
    learned: int = 0
    normal: list[Array] = field(default_factory=list)  # blocks of rows that were learned
    kept: list[Flags] = field(default_factory=list)  # which rows of each block were

    def take(self, rows: Array) -> None:  # (b, d), scaled
        """Judge a block, learn what is normal enough, and set the limits anew."""
        gauge = Gauge.of(self.model.fit_)
        found = gauge(rows)
        index = self.rule.index(self.limits, found) / self.rule.limit(self.limits)
        kept = np.asarray(index <= self.guard)
        self.kept.append(kept)
        if not kept.any():
            return
        self.learned += int(kept.sum())
        self.model.partial_fit(rows[kept])
        self.normal.append(rows[kept])
        fresh = Statistics(found.t2[kept], found.q[kept], np.ones(int(kept.sum())))
        self.seen = (
            fresh if self.seen is None else Statistics.joined([self._aged(len(fresh.t2)), fresh])
        )
        if self.seen.count * self.rule.rate >= FEW_ABOVE:
            limits = held_out_limits(self.seen, self.rule.rate, rounding=gauge.rounding)
            self.limits = self.rule.joint(limits)

    def _aged(self, rows: int) -> Statistics:
        """What was seen, with the weights that are left; what hardly counts any more is let go."""
        assert self.seen is not None
        assert self.seen.weights is not None
        weights = self.seen.weights * (1.0 - 1.0 / self.memory) ** rows
        still = weights > 1e-3
        return Statistics(self.seen.t2[still], self.seen.q[still], weights[still])


def in_faults(events: list[Event], n: int) -> Flags:  # (n,)
    """Which of n rows lie in a fault, from its first alarm to its last; a drift is what is to be learned."""
    faulty = np.zeros(n, dtype=bool)
    for event in events:
        if event.kind == "fault":
            faulty[event.first : event.last + 1] = True
    return faulty


def report_left_out(left: int, of: int) -> None:
    """Say how many rows are not learned, or refuse where they are most."""
    if left > MOST_FAULTY * of:
        msg = Message(
            "Nothing was learned: {left} of {of} rows are in events of the detector, too many to take the "
            "others for normal. Give rows of normal operation; if these are, set {keep_faults}.",
            left=left,
            of=of,
        )
        raise InputError(msg)
    if left:
        msg = Message(
            "{left} of {of} rows are in events of the detector and were not learned. If they are normal, "
            "set {keep_faults}.",
            left=left,
            of=of,
        )
        warn(msg, DetectorWarning, "faults", {"left_out": left, "of": of})


def updated(
    detector: Any, rows: Array, readings: Array, *, given: int, memory: int, guard: float, why: str
) -> Any:
    """A new detector that has taken these rows in, of so many given; the old one stays as it is.

    ``rows`` are scaled, with their past beside them; ``readings`` are the same as the sensors show them.
    """
    course = _Course(_recursive(detector, memory), detector._rule, detector.limits_, memory, guard)
    for start in range(0, len(rows), BLOCK):
        course.take(rows[start : start + BLOCK])
    if len(rows) == 0:
        msg = "Nothing was learned: every row lacks a reading. Give rows that are complete."
        raise InputError(msg)
    if course.seen is None:
        msg = (
            f"Nothing was learned: all of {len(rows)} rows are more than {guard:g} times the limit out. If "
            "they are normal, fit a new detector to them."
        )
        raise InputError(msg)
    new, rule, limits = copy(detector), detector._rule, course.limits
    new.model, new.model_ = clone(course.model), course.model
    new._gauge = Gauge.of(course.model.fit_)
    new.limits_, new.offset_ = limits, -rule.limit(limits)
    latest = np.concatenate(course.normal)[-memory:]
    new._baselines = Baselines.of(new._gauge, rule, limits, latest)
    new.baselines_ = new._baselines.rows
    if limits is not detector.limits_:
        new._calibration = Calibration.of(rule, limits, course.seen)
    sensors: Sensors | None = vars(detector).get("_sensors")  # None in older versions
    if sensors is not None:
        new._sensors = sensors.followed(readings[np.concatenate(course.kept)], memory)
    parent = fingerprint(detector._gauge, detector.limits_)
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    step = Generation(made, parent, given, course.learned, memory, why)
    new._lineage = (*detector.lineage_, step)
    return new


def _recursive(detector: Any, memory: int) -> IncrementalKernelPCA:
    """The model of a detector as one that goes on, with rows that are forgotten."""
    own = detector.model_
    if isinstance(own, IncrementalKernelPCA):
        model = deepcopy(own)
        return model.set_params(forgetting=1.0 - 1.0 / memory)
    sections = detector._gauge.space.projection.sections
    if not isinstance(sections, KernelSections) or getattr(own, "approximation", None) is not None:
        msg = (
            "An update needs a model that keeps its rows or their sums: an exact kernel PCA, which is the "
            f"default, or `model=IncrementalKernelPCA(...)`; got a {type(own).__name__}. Fit a new detector."
        )
        raise InputError(msg)
    points = np.asarray(sections.points, dtype=np.float64)
    model = IncrementalKernelPCA(
        int(own.n_components_),
        kernel=own.kernel_,
        max_landmarks=max(LANDMARKS, 2 * int(own.n_components_)),
        tol=TOL,
        forgetting=1.0 - 1.0 / memory,
        random_state=detector.random_state,
    )
    return model.partial_fit(points)
