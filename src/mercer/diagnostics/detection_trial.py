"""Candidate detectors on stretches held out: what they detect of deviations, and their false alarms.

A model that has not seen a stretch judges it as it is, as far out as a second run may go, and with each of
the deviations. Limits are those that `KernelPCADetector` would set, from all stretches together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mercer._core.findings import silenced
from mercer._core.types import Array, Flags, Indices
from mercer.engine.resolve import resolve_engine
from mercer.estimators import KernelPCADetector
from mercer.estimators.detector_fit import (
    HELD_OUT_ROWS,
    Normal,
    chosen_model,
    folds_in_time,
    part_model,
)
from mercer.kernels import Linear
from mercer.monitoring.deviations import Deviation
from mercer.monitoring.lags import Dynamics
from mercer.monitoring.limits import Rule, held_out_limits
from mercer.monitoring.rows import scale_of
from mercer.monitoring.slowness import Slowness, second_run
from mercer.monitoring.statistics import Gauge, Statistics

SETTLED = 3  # times what is remembered
LOOKED_AT = 25  # rows of a stretch, for each deviation: neighbours say the same
TRAINED = 0.8  # of the rows are left when one of five stretches is held out


@dataclass(frozen=True, eq=False)
class Trial:
    """What one candidate did."""

    kernel: Any
    how: Dynamics
    statistic: str
    components: int
    seen: Array  # (s,), the share of rows of each small deviation that are alarms
    caught: Array  # (e,), that of each excursion
    strayed: float  # false alarms in a run that strays as far as one in twenty

    @property
    def power(self) -> float:
        """The mean share of rows with a deviation that are alarms."""
        return float(self.seen.mean())

    @property
    def is_linear(self) -> bool:
        return isinstance(self.kernel, Linear)


@dataclass(frozen=True, eq=False)
class Stage:
    """Rows with their past, plain and with deviations: what all kernels are tried on.

    The first `small` deviations are the small ones; excursions follow.
    """

    x: Array  # (n, d), raw
    linked: Flags  # (n,), which rows follow the one before
    how: Dynamics
    normal: Normal  # its m lagged rows
    ends: Indices  # (m,), the rows that these end with
    deviations: Sequence[Deviation]
    small: int
    _made: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        x: Array,
        linked: Flags,
        how: Dynamics,
        overlap: int,
        *,
        small: Sequence[Deviation],
        far: Sequence[Deviation],
    ) -> Stage:
        rows, whole = how.rows(x, follows=linked)
        engine = resolve_engine("auto")
        scale = scale_of(engine, rows)
        normal = Normal(rows, None, scale, True, None, scale(rows), engine, overlap)
        return cls(x, linked, how, normal, np.flatnonzero(whole), [*small, *far], len(small))

    def spoilt(self, test: Indices) -> Array:  # (t,) -> (s u, D)
        """Some lagged rows of a stretch with each deviation, which begins with its first row."""
        key = int(test[0])
        if key not in self._made:
            first, last = int(self.ends[test[0]]), int(self.ends[test[-1]]) + 1
            ends = self.ends[test[:: max(len(test) // LOOKED_AT, 1)]]
            # Before it, as many rows as are remembered: a weighted mean of them has settled.
            begin, parts = max(first - SETTLED * self.normal.overlap, 0), []
            for deviation in self.deviations:
                rows = deviation(self.x, first, last)[begin:last]
                lagged, whole = self.how.rows(rows, follows=self.linked[begin:last])
                parts.append(lagged[(np.cumsum(whole) - 1)[ends - begin]])
            self._made[key] = np.concatenate(parts)
        return self._made[key]


def tried(stage: Stage, detector: KernelPCADetector, shares: Sequence[float]) -> list[Trial]:
    """The kernel and the statistic of a detector with numbers of components that keep these shares."""
    normal, rule = stage.normal, Rule.of(detector)
    with silenced():
        model = chosen_model(detector, normal.scaled).fit(normal.scaled)
        sizes = _sizes(model, shares, len(normal))
        pace, splits = folds_in_time(rule, sizes[-1], normal, detector.folds)
        folds = [_judged(stage, model, sizes, pace, split) for split in splits]
    held, strayed, seen = zip(*folds, strict=True)  # each by folds and numbers of components
    rounding, found = Gauge.of(model.fit_).rounding, []
    for i, k in enumerate(sizes):
        normal_rows = Statistics.joined([of_fold[i] for of_fold in held])
        limits = rule.joint(held_out_limits(normal_rows, rule.rate, rounding=rounding))
        above = partial(_alarms, rule, limits)
        each = [
            above(of_fold[i]).reshape(len(stage.deviations), -1).mean(axis=1) for of_fold in seen
        ]
        far_out = above(Statistics.joined([of_fold[i] for of_fold in strayed])).mean()
        seen_of, caught = np.split(np.mean(each, axis=0), [stage.small])
        found.append(
            Trial(model.kernel_, stage.how, rule.statistic, k, seen_of, caught, float(far_out))
        )
    return found


def _alarms(rule: Rule, limits: Any, found: Statistics) -> Flags:
    return ~(rule.index(limits, found) <= rule.limit(limits))


def _sizes(model: Any, shares: Sequence[float], n: int) -> list[int]:
    """Numbers of components that keep these shares of the variance, few enough for limits that hold."""
    kept = np.cumsum(model.explained_variance_ratio_)
    wanted = 1 + np.searchsorted(kept, np.array(shares) - 1e-12)
    most = max(int(TRAINED * n) // HELD_OUT_ROWS - 1, 1)
    return sorted({int(min(k, len(kept), most)) for k in wanted})


def _judged(
    stage: Stage, model: Any, sizes: list[int], pace: Slowness, split: tuple[Indices, Indices]
) -> tuple[list[Statistics], list[Statistics], list[Statistics]]:
    """T² and Q of one stretch, by each number of components, of a model that has not seen it."""
    # As far out as a second run will be, and as one that strays; and with each deviation, one by one.
    normal, (train, test) = stage.normal, split
    part = normal.part(train, sizes[-1])
    again = part_model(model, len(part)).set_params(n_components=sizes[-1])
    gauge = Gauge.of(again.fit(part.scale(normal.rows[train])).fit_)
    own = [min(k, again.n_components_) for k in sizes]
    held, strayed = (
        gauge.nested(second_run(normal.scale, part.scale, pace, factors, normal.rows[test]), own)
        for factors in (pace.stretch, pace.stray)
    )
    return held, strayed, gauge.nested(part.scale(stage.spoilt(test)), own)
