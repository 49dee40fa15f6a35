"""Would these limits hold in a second run? If not, with how many components they would."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from mercer._core.errors import DetectorWarning
from mercer.estimators.validation import users_level
from mercer.monitoring.limits import held_out_limits
from mercer.monitoring.statistics import Statistics

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.estimators.detector_parts import Rule
    from mercer.estimators.detector_runs import Slowness
    from mercer.monitoring.limits import Limits

# So many times as many false alarms as asked for, in the widest run of twenty, are told.
TOLERATED = 3.0
# A number of components is advised where that run makes clearly fewer: half of what is tolerated.
CLEARLY = 0.5
# Luck alone makes a check of limits fail as rarely as this.
LUCK = 1e-3
# Numbers of components that are tried beside the model's own, as shares of it.
SHARES = np.arange(1, 9) / 8.0


@dataclass(frozen=True, repr=False)
class HeldOut:
    """T² and Q of the rows of one fold, by a model that has not seen them."""

    size: int  # components of that model
    sizes: list[int]  # numbers of its components that statistics are of, the last one all of them
    stretched: list[Statistics]  # at each size, of rows as far out as a second run will be
    strayed: list[Statistics]  # of rows of a run that strays


def smaller_sizes(k: int) -> list[int]:
    """Some numbers of components up to k."""
    return [int(size) for size in np.unique(np.maximum(np.round(k * SHARES), 1))]


def tell_strays(
    rule: Rule,
    pace: Slowness,
    found: list[HeldOut],
    limits: Limits,
    *,
    rounding: float,
    weights: Array | None,
    linear: bool,
) -> None:
    """Warn of limits that a run which strays a little farther would make nonsense of."""
    share = _alarms(rule, found, -1, limits, weights)
    if share <= TOLERATED * rule.rate:
        return
    slowest = int(np.argmax(pace.times))
    msg = (
        "The rows are those of a slow process: one direction resembles itself for about "
        f"{pace.times[slowest]:.0f} rows, and its variance is known as if from {pace.counts[slowest]:.0f} "
        f"independent rows. In one run of twenty it varies {pace.stray[slowest] - 1:.0%} more, and then "
        f"about {share:.1%} of normal rows are alarms, not {rule.rate:.2%}. "
    )
    steady = _steady(rule, found, rounding, weights)
    if steady:
        msg += f"With n_components={steady} the limits would hold better. "
    msg += f"Use {'' if linear else 'a wider or a linear kernel, or '}rows from a longer time."
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())


def tell_optimism(rule: Rule, held: Statistics, limits: Limits, weights: Array | None) -> None:
    """Warn of limits of the training rows that rows held out of a second model exceed too often."""
    index = rule.index(limits, held)
    alarm = ~(index <= rule.limit(limits))
    share = float(np.average(alarm, weights=weights))
    count = int(alarm.sum())
    if share <= TOLERATED * rule.rate or stats.binom.sf(count - 1, len(alarm), rule.rate) > LUCK:
        return
    instead = "contamination" if rule.in_sample else "limits='approximate'"
    msg = (
        f"With {instead} the limits are those of the training rows themselves, and new rows lie farther out: "
        f"of {len(alarm)} rows that a second model had not seen, {share:.1%} are above, not {rule.rate:.2%}. "
        f"Leave {instead} out, which gives limits of rows held out, or lower `n_components`."
    )
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())


def _alarms(
    rule: Rule, found: list[HeldOut], i: int, limits: Limits, weights: Array | None
) -> float:
    """Share of the rows that strayed which are alarms, by the i-th size."""
    strayed = Statistics.joined([one.strayed[i] for one in found])
    index = rule.index(limits, strayed)
    known = np.isfinite(index)  # no number where the kernel has no value
    if not known.any():
        return 0.0
    alarm = index[known] > rule.limit(limits)
    return float(np.average(alarm, weights=None if weights is None else weights[known]))


def _steady(rule: Rule, found: list[HeldOut], rounding: float, weights: Array | None) -> int | None:
    """The most components with which a run that strays makes clearly fewer false alarms than is tolerated."""
    if (
        len({tuple(one.sizes) for one in found}) > 1
    ):  # a fold has lost components, which is told elsewhere
        return None
    for i in reversed(range(len(found[0].sizes) - 1)):
        held = Statistics.joined([one.stretched[i] for one in found])
        limits = held_out_limits(held, rule.rate, rounding=rounding, weights=weights)
        if _alarms(rule, found, i, limits, weights) <= CLEARLY * TOLERATED * rule.rate:
            return found[0].sizes[i]
    return None
