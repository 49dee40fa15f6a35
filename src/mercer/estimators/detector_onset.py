"""What a run of alarms began with: the variable that, put right alone, would have kept the index down.

The reconstruction-based contribution of Alcala & Qin (2009), for any kernel. A contribution measured along
the path from normal depends on where the process stood: a flow that drifts while the load is high is blamed
on the temperature, which is far from its mean for good reasons. Here each variable in turn may take any
normal value, and what counts is how much of the index goes. It needs no slopes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.estimators.detector_alarms import FIRST_ALARMS, beginning

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Indices
    from mercer.estimators.detector_report import Monitoring

# Values that a variable is tried with, in spreads around normal; a parabola through the best three follows.
TRIED = np.linspace(-4.0, 4.0, 17)
REACH = 1e2  # spreads: a reading farther out is brought there first, where every kernel has numbers
MOST_RUNS = 10  # the longest; a run costs some thousand evaluations of the model
# When no variable alone lowers the index by this share, several are wrong at once: contributions tell then.
LEAST_GAIN = 0.05


def begun(report: Monitoring, detector: Any, take: Callable[[Indices], Array]) -> Monitoring:
    """The report with what its longest runs began with; ``take`` gives scaled rows by their positions."""
    longest = sorted(report.runs, key=lambda run: -run.rows)[:MOST_RUNS]
    alarms = np.flatnonzero(report.table["alarm"])
    found: dict[int, Array] = {}
    for run in longest:
        first = alarms[np.searchsorted(alarms, run.first) :][: min(run.alarms, FIRST_ALARMS)]
        gain = gains(detector, take(first)).mean(axis=0)  # (d,)
        if gain.max() < LEAST_GAIN and report.contributions is not None:
            explained = report.table["alarm"][report.explained]
            gain = beginning(run, report.contributions[explained], report.explained[explained])
        found[run.first] = gain
    return replace(report, onsets=found)


def gains(detector: Any, x: Array) -> Array:  # (b, d) -> (b, d)
    """The share of each row's index that goes when one variable takes its best normal value."""
    rule, baselines = detector._rule, detector._baselines
    x = baselines.within(x, REACH)
    unit = np.ones(x.shape[1]) if baselines.unit is None else baselines.unit
    middle, every = baselines.rows.mean(axis=0), np.arange(len(x))
    h = TRIED[1] - TRIED[0]

    def index(rows: Array) -> Array:
        return np.asarray(rule.index(detector.limits_, detector._gauge(rows)))

    own, lowest = index(x), np.empty(x.shape)
    for j in range(x.shape[1]):

        def tried(values: Array, j: int = j) -> Array:  # (m, b) in spreads -> (m, b)
            rows = np.repeat(x[None], len(values), axis=0)  # (m, b, d)
            rows[:, :, j] = middle[j] + unit[j] * values
            return index(rows.reshape(-1, x.shape[1])).reshape(values.shape)

        seen = tried(np.repeat(TRIED[:, None], len(x), axis=1))  # (m, b)
        best = np.clip(seen.argmin(axis=0), 1, len(TRIED) - 2)
        left, here, right = (seen[best + side, every] for side in (-1, 0, 1))
        with np.errstate(invalid="ignore"):  # ∞ - ∞
            bend = left - 2.0 * here + right
            step = np.where(bend > 0.0, 0.5 * h * (left - right) / np.where(bend > 0, bend, 1), 0.0)
        between = tried((TRIED[best] + np.clip(np.nan_to_num(step), -h, h))[None])
        lowest[:, j] = np.minimum(np.minimum(seen.min(axis=0), between[0]), own)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num((own[:, None] - lowest) / own[:, None], nan=0.0)
