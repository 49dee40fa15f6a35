"""Limits of T², Q and of the two together, from training rows alone, and the rule that goes by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, expm1, log1p
from typing import Annotated, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import special, stats

from mercer._core.errors import DetectorWarning, InputError, ParameterError
from mercer._core.findings import warn
from mercer._core.params import Constraint, Number, OneOf, require
from mercer._core.types import Array
from mercer._core.wording import Message
from mercer.monitoring.statistics import STATISTICS, Statistics, row_count

# With fewer rows than this expected above a limit, an order statistic is mostly luck.
FEW_ABOVE = 5.0
# Values that differ by less than this share of their mean have no variance to speak of.
SAME = 1e-6
# Statistics that differ by less than this share are those of the same row beside other rows.
NEAR = 1e-9
OF_TRAINING_ROWS = "share of the training rows"
FALSE_ALARM = 0.01
LimitsFrom: TypeAlias = Literal["cross-validation", "approximate"]
Wild: TypeAlias = Literal["aside", "keep"]
CHOICES: dict[str, Constraint] = {
    "statistic": OneOf(STATISTICS),
    "limits": OneOf(get_args(LimitsFrom)),
    "wild": OneOf(get_args(Wild)),
}
RATES: dict[str, Constraint] = {
    "false_alarm": Number(0, 1),
    "contamination": Number(0, 0.5),
    "confidence": Number(0.5, 1),
}


@dataclass(frozen=True)
class Limits:
    """What a normal row stays below.

    The index of a row is max(T²/T²-limit, Q/Q-limit): a row is called an alarm when either statistic is too
    large. Two tests make more false alarms than one, so the index has a limit of its own, near 1. In a fitted
    detector that judges by both, ``t2`` and ``q`` are raised by it, to where alarms begin, and it is 1.
    """

    t2: float
    q: float
    index: float
    rate: float  # share of normal rows above each of the three
    method: str
    note: str = ""  # what else there is to know, such as rows that were set aside
    # The rate lies between these, in 90 % of the draws of blocks of held-out rows.
    low: float | None = None
    high: float | None = None

    def indices(self, statistics: Statistics) -> Array:  # (b,)
        """max(T²/T²-limit, Q/Q-limit) of each row."""
        index = statistics.t2 / self.t2
        return np.maximum(index, statistics.q / self.q, out=index)

    def __str__(self) -> str:
        whose = "the training" if self.method == OF_TRAINING_ROWS else "normal"
        above = "one of them, or both" if self.index == 1.0 else "each"
        drawn = ""
        if self.low is not None and self.high is not None:
            drawn = f"{self.low:.1%} to {self.high:.1%} in blocks of held-out rows drawn again"
        text = (
            f"T² below {self.t2:.4g}, Q below {self.q:.4g}: "
            f"{self.rate:.2%} of {whose} rows are above {above} ({self.method})"
        )
        return "; ".join(filter(None, [text, self.note, drawn]))


@dataclass(frozen=True)
class Rule:
    """How often to be wrong, and by what to judge."""

    rate: float
    in_sample: bool  # the rate is the share of training rows that are not normal
    statistic: str
    method: str

    @classmethod
    def of(cls, detector: Any) -> Rule:
        """The rule of a detector, checked."""
        for name, allowed in (CHOICES | RATES).items():
            value = getattr(detector, name)
            if value is not None or name in CHOICES:
                require(name, value, allowed)
        if not isinstance(detector.scale, (bool, np.bool_)):
            wanted = "True or False"
            raise ParameterError.about(parameter="scale", value=detector.scale, must_be=wanted)
        alarm, share, sure = detector.false_alarm, detector.contamination, detector.confidence
        approximate = detector.limits == "approximate"
        msg = ""
        if alarm is not None and share is not None:
            msg = (
                f"{{false_alarm:{alarm!r}}} and {{contamination:{share!r}}} exclude each other: "
                "{false_alarm} sets the rate on new normal rows, {contamination} the share of training rows "
                "that are not normal. Leave one out."
            )
        elif share is not None and approximate:
            msg = (
                f"{{contamination:{share!r}}} and {{limits:'approximate'}} exclude each other: "
                "{contamination} reads the limits off the training rows, not off distributions. Leave one "
                "out."
            )
        elif sure is not None and (share is not None or approximate):
            msg = (
                f"{{confidence:{sure!r}}} is that of limits from held-out rows: leave {{contamination}} and "
                "{limits} out."
            )
        if msg:
            raise InputError(Message(msg))
        rate = FALSE_ALARM if alarm is None else alarm
        return cls(
            float(rate if share is None else share),
            in_sample=share is not None,
            statistic=detector.statistic,
            method=detector.limits,
        )

    def index(self, limits: Limits, found: Statistics) -> Array:  # (b,)
        """The index that the detector goes by, in units of the limits."""
        if self.statistic == "T2":
            return found.t2 / limits.t2
        if self.statistic == "Q":
            return found.q / limits.q
        return limits.indices(found)

    def limit(self, limits: Limits) -> float:
        return limits.index if self.statistic == "combined" else 1.0

    def joint(self, limits: Limits) -> Limits:
        """Limits of T² and Q where alarms begin, so that each statistic has one limit, and the index 1."""
        edge = self.limit(limits)
        return replace(limits, t2=edge * limits.t2, q=edge * limits.q, index=limits.index / edge)


@dataclass(frozen=True, repr=False)
class Calibration:
    """The indices of rows that were held out, which p-values of new rows are counted against."""

    index: Annotated[Array, "n"]  # ascending, in units of the limits
    weights: Annotated[Array, "n"] | None  # how often each counts; None: once
    few: bool  # whether limits are also those of a distribution, as of so few rows

    @classmethod
    def of(cls, rule: Rule, limits: Limits, held: Statistics) -> Calibration:
        """The calibration by the statistics that the limits come from."""
        index = rule.index(limits, held)
        order = np.argsort(index, kind="stable")
        weights = None if held.weights is None else held.weights[order]
        return cls(index[order], weights, _are_few(held.count, rule.rate))

    def __call__(self, index: Array) -> Array:  # (b,) -> (b,)
        """(1 + rows held out that lie as far out)/(1 + rows held out).

        A row is above the limit of a rate α, the ⌈(n + 1)(1 - α)⌉-th of these, if and only if this is at most
        α. Where there are too few rows for the rate, the limit is the larger of that and of Box's, and
        the p-value the larger of both, too; beyond all rows held out only Box's is left.
        """
        counts = np.ones(len(self.index)) if self.weights is None else self.weights
        above = np.append(np.cumsum(counts[::-1])[::-1], 0.0)
        there = above[np.searchsorted(self.index, index)]
        ranked = (1.0 + there) / (1.0 + above[0])
        if not self.few:
            return np.asarray(ranked)
        box = box_tail(self.index, index, self.weights)
        return np.where(there > 0.0, np.maximum(ranked, box), box)


def _are_few(n: float, rate: float) -> bool:
    """Whether so few rows are expected above a limit that an order statistic is mostly luck."""
    return n * rate < FEW_ABOVE - 1e-9


def held_out_limits(held: Statistics, rate: float, *, rounding: float) -> Limits:
    """Limits from rows that the model was not fitted to: no in-sample optimism.

    The ⌈(n + 1)(1 - α)⌉-th smallest value: a new row of the same kind is above it with probability at most
    α (Vovk et al. 2005). Where fewer than five rows are expected above, it is mostly luck, and the larger
    of it and of Box's g·χ²_h with the mean and the variance of the held-out values is taken: either
    alone makes more false alarms than asked for. A row of weight w counts as w rows.
    """
    n, weights = held.count, held.weights
    how = "held-out rows"
    if _are_few(n, rate):
        lost = int(np.sum(~np.isfinite(held.t2) | ~np.isfinite(held.q)))
        if lost:  # there are no moments that Box's limit could be made of
            msg = (
                f"T² and Q must be finite for limits of {n:g} rows; {lost} lie so far from the others "
                "that they overflow. Remove those rows, or set `wild='aside'`."
            )
            raise InputError(Message(msg))
        how = (
            f"χ² with moments of held-out rows, or the largest of them; {n:g} rows are few for this "
            "rate, and a slow process may make several times as many false alarms"
        )
    return _limits(held, partial(held_limit, rate=rate, weights=weights), rate, rounding, how)


def held_limit(values: Array, rate: float, weights: Array | None = None) -> float:
    """The limit of values of held-out rows: an order statistic, of few of them Box's where that is larger."""
    ranked = order_limit(values, rate, weights)
    n = row_count(values, weights)
    return max(box_limit(values, rate, weights), ranked) if _are_few(n, rate) else ranked


def in_sample_limits(own: Statistics, share: float, *, rounding: float) -> Limits:
    """Limits that this share of the training rows is above, and none is on."""
    rank = own.count - min(max(round(share * own.count), 1), own.count - 1)
    limit = partial(half_way, rank=rank, weights=own.weights)
    return _limits(own, limit, share, rounding, OF_TRAINING_ROWS)


def _limits(
    found: Statistics, limit: Callable[[Array], float], rate: float, rounding: float, how: str
) -> Limits:
    t2, q = max(limit(found.t2), float(np.finfo(np.float64).tiny)), max(limit(found.q), rounding)
    both = Limits(t2, q, 1.0, rate, how)
    return Limits(t2, q, limit(both.indices(found)), rate, how)


def approximate_limits(
    own: Statistics, rate: float, *, n: float, k: int, rounding: float
) -> Limits:
    """T² by the F distribution, Q by Box's χ², both for Gaussian rows and many more rows than components.

    Each at the level 1 - √(1 - α), two independent tests make α false alarms; the index takes the
    larger of the two ratios to the limits at α.
    """
    each = -expm1(0.5 * log1p(-rate))  # 1 - √(1 - α), for the smallest rates as well
    t2, t2_each = f_limit(n, k, rate), f_limit(n, k, each)
    q, q_each = (max(box_limit(own.q, level, own.weights), rounding) for level in (rate, each))
    index = max(t2_each / t2, q_each / q)
    return Limits(t2, q, index, rate, "F and χ² approximations")


def f_limit(n: float, k: int, rate: float) -> float:
    """k(n² - 1)/(n(n - k)) F_{k, n-k}: T² of a new Gaussian row (Tracy, Young & Mason 1992)."""
    # P(F > f) = I_y((n-k)/2, k/2) with y = (n-k)/(n-k + k f), which has an inverse at any rate.
    y = float(special.betaincinv(0.5 * (n - k), 0.5 * k, rate))
    quantile = (n - k) / k * (1.0 - y) / y
    return k * (n**2 - 1.0) / (n * (n - k)) * quantile


def box_limit(values: Array, rate: float, weights: Array | None = None) -> float:
    """g·χ²_h with the mean gh and the variance 2g²h of the values (Box 1954).

    Of values that are all the same, as those of a repeated recipe, a little more than the largest: rows
    held out lie a little farther out than the same rows do in a model of all n, and none is an alarm.
    """
    g, h, largest = _box(values, weights)
    return largest if h == 0.0 else g * float(stats.chi2.isf(rate, h))


def box_tail(values: Array, at: Array, weights: Array | None = None) -> Array:
    """The level at which each number would be Box's limit; never 0, in float32 neither."""
    g, h, largest = _box(values, weights)
    tail = at <= largest if h == 0.0 else stats.chi2.sf(at / g, h)
    return np.maximum(tail, float(np.finfo(np.float32).tiny))


def _box(values: Array, weights: Array | None) -> tuple[float, float, float]:
    """g and h of g·χ²_h; of values that are all the same, h = 0 and the limit."""
    n = row_count(values, weights)
    largest = float(np.max(values))
    shares = values / largest if largest > 0.0 else values  # squares of the largest float overflow
    mean = float(np.average(shares, weights=weights))
    degrees = n - 1.0 if n > 1.0 else n
    variance = float(np.average((shares - mean) ** 2, weights=weights)) * n / degrees
    if variance <= (SAME * mean) ** 2 or mean <= 0.0:
        return 0.0, 0.0, largest * (n / degrees * (1.0 + SAME))
    return largest * (variance / (2.0 * mean)), 2.0 * mean**2 / variance, 0.0


def order_limit(values: Array, rate: float, weights: Array | None = None) -> float:
    """The ⌈(n + 1)(1 - α)⌉-th smallest value.

    It may be one of the values: they are those of models that have not seen their rows, and no row has it in
    the model of all rows, which judges.
    """
    n = row_count(values, weights)
    rank = ceil((n + 1) * (1.0 - rate) - 1e-9)  # 990, not 991, of 99.0 % of 1000
    ranked, at = _ranked(values, rank, weights)
    return float(ranked[at])


def half_way(values: Array, rank: float, weights: Array | None = None) -> float:
    """Between the value of this rank, from 1 on, and the next that is larger; a hair above where none is.

    A limit that *is* the statistic of a row leaves the label of that row to rounding, which depends on the
    rows beside it. Values within rounding of each other are one.
    """
    ranked, at = _ranked(values, rank, weights)
    here = ranked[at]
    above = ranked[ranked > here + NEAR * abs(here)]
    if len(above) == 0 or not np.isfinite(above[0]):
        return float(here) * (1.0 + NEAR)
    return float(here + 0.5 * (above[0] - here))


def _ranked(values: Array, rank: float, weights: Array | None) -> tuple[Array, int]:
    """Values in order, and the position of the one of this rank, from 1 on, or of the last."""
    near = rank * (1.0 - 1e-12)
    if weights is None:  # of many rows the order itself would be as large as the values
        return np.sort(values), min(max(ceil(near) - 1, 0), len(values) - 1)
    order = np.argsort(values, kind="stable")
    at = int(np.searchsorted(np.cumsum(weights[order]), near))
    return values[order], min(at, len(values) - 1)


def warn_blind(rule: Rule, limits: Limits, far: Statistics | None, stretched: str) -> None:
    """Warn of a kernel so narrow that a row far from everything is no alarm: Q is bounded there.

    ``far`` has the statistics of a row all of whose kernel values vanish; None where they don't. Beside
    readings that set the scale of a column (`stretched`) any kernel is narrow, and no other would help.
    """
    if far is None or rule.index(limits, far)[0] > rule.limit(limits):
        return
    if rule.statistic == "T2":
        msg = (
            "A row far from everything would not alarm: its kernel values vanish, and T² alone does not see "
            "that. Use statistic='combined', or a wider kernel."
        )
    elif stretched:
        msg = (
            "A row far from everything would not alarm: readings far beyond all others set the scale of "
            f"column(s) {stretched}, and some training rows lie as far off as any row can. Clean these rows."
        )
    else:
        msg = (
            "The kernel is too narrow: a row far from everything would not alarm, as normal rows that were "
            "not fitted to lie as far from the components as it does. Use a wider kernel."
        )
    warn(msg, DetectorWarning, "far-rows-unseen")
