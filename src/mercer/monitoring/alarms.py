"""Rows that can be judged, runs of alarms, and the variables that lead them: each row, and each run's onset.

The onset of a run is the variable that, put right alone, would have kept the index down: the
reconstruction-based contribution of Alcala & Qin (2009), for any kernel. A contribution measured along the
path from normal depends on where the process stood: a flow that drifts while the load is high is blamed on
the temperature, which is far from its mean for good reasons. Here each variable in turn may take any normal
value, and what counts is how much of the index goes; where no kernel bends, of the distance by the relations
of the sensors (`Relations`). It needs no slopes. In the same way a row that lacks cells has at least the
index that it has with the best normal values in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, many
from mercer._core.types import Array, Flags, Indices
from mercer.monitoring.statistics import GROUP

if TYPE_CHECKING:
    from mercer.monitoring.contributions import Baselines
    from mercer.monitoring.report import Monitoring

MOST_NAMED = 10  # columns that lack cells
# A run goes on over so many rows that are no alarms: a statistic near its limit crosses it back and forth.
MOST_BETWEEN = 2
# Alarms whose contributions tell what a run began with. The first alone may be noise on its way over the
# limit; a few rows on, the controllers answer, and what they move leads.
FIRST_ALARMS = 3
# Shares below this would be written as 0 %.
LEAST_SHARE = 0.005
# Values that a variable is tried with, in spreads around normal; a parabola through the best three follows.
TRIED = np.linspace(-4.0, 4.0, 17)
REACH = 1e2  # spreads: a reading farther out is brought there first, where every kernel has numbers
MOST_RUNS = 10  # the longest; a run costs some thousand evaluations of the model
# When no variable alone lowers the index by this share, several are wrong at once: contributions tell then.
LEAST_GAIN = 0.05
MOST_MISSING = 0.25  # of a row that lacks more than this share of its cells nothing is said
SWEEPS = 2  # over several missing cells: what fits one depends on the others
# Values that a cell is tried with, in spreads around normal: as many as are judged at once. Then again around
# the best, so narrow that the next ones of the first time are just within.
CELLS = np.linspace(-4.0, 4.0, GROUP)
TIMES, NARROWER = 3, 7.0


@dataclass(frozen=True, eq=False)
class Gaps:
    """Which rows are complete, and how many cells each column lacks."""

    judged: Flags  # (n,)
    missing: Indices  # (d,)
    short: int = 0  # complete rows that a detector with lags finds too few rows before

    @classmethod
    def of(cls, rows: Any) -> Gaps:  # (n, d)
        """The gaps of these rows: where cells are NaN."""
        absent = np.isnan(rows)
        return cls(~absent.any(axis=1), absent.sum(axis=0))

    @classmethod
    def joined(cls, parts: Sequence[Gaps]) -> Gaps:
        """The gaps of consecutive blocks of rows."""
        judged = np.concatenate([part.judged for part in parts])
        short = sum(part.short for part in parts)
        return cls(judged, np.sum([part.missing for part in parts], axis=0), short)

    @property
    def count(self) -> int:
        """Rows that are not complete."""
        return int(np.sum(~self.judged))

    def require_some(self, names: Sequence[str]) -> None:
        """Raise where no row can be judged."""
        if not self.judged.any():
            msg = (
                f"None of {len(self.judged)} rows can be judged: {self._why(names)}. Give "
                "rows that are complete, fill the cells in (SimpleImputer), or fit without those columns."
            )
            raise InputError(msg)

    def in_words(self, names: Sequence[str]) -> str:
        """'2 of 9 rows could not be judged: cells are missing in flow (2).'; nothing where all could be."""
        if self.count == 0:
            return ""
        return f"{self.count} of {len(self.judged)} rows could not be judged: {self._why(names)}."

    def _why(self, names: Sequence[str]) -> str:
        cells = f"cells are missing in {self.where(names)}" if self.missing.any() else ""
        have = "has too few rows before it" if self.short == 1 else "have too few rows before them"
        short = f"{self.short} {have}" if self.short else ""
        return "; ".join(filter(None, [cells, short]))

    def where(self, names: Sequence[str]) -> str:
        """The columns that lack cells, those that lack most first, and how many."""
        order = [j for j in np.argsort(-self.missing, kind="stable") if self.missing[j]]
        shown = [f"{names[j]} ({self.missing[j]})" for j in order[:MOST_NAMED]]
        more = len(order) - MOST_NAMED
        return ", ".join(shown) + (f" and {more} more columns" if more > 0 else "")


@dataclass(frozen=True)
class Run:
    """Alarms that follow each other, perhaps with a few other rows between."""

    first: int  # positions of the first and the last alarm
    last: int
    alarms: int
    unjudged: int  # rows between that could not be judged

    @property
    def rows(self) -> int:
        """From the first alarm to the last, all that lies between included."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        """'40 rows, 37 of them alarms and 2 not judged'."""
        text = many(self.rows, "row")
        if self.alarms == self.rows:
            return text
        unjudged = f" and {self.unjudged} not judged" if self.unjudged else ""
        return f"{text}, {self.alarms} of them alarms{unjudged}"


def alarm_runs(alarm: Flags, judged: Flags) -> list[Run]:
    """Runs of alarms. Rows that were not judged break none, nor do up to two that are no alarms."""
    at, known = np.flatnonzero(alarm), np.asarray(judged, dtype=bool)
    if len(at) == 0:
        return []
    normal = np.cumsum(known & ~np.asarray(alarm, dtype=bool))  # rows so far that are no alarms
    cuts = np.flatnonzero(np.diff(normal[at]) > MOST_BETWEEN) + 1
    return [
        Run(int(run[0]), int(run[-1]), len(run), int(np.sum(~known[run[0] : run[-1] + 1])))
        for run in np.split(at, cuts)
    ]


def shares(contributions: Array) -> Array:  # (..., d) -> (..., d)
    """Shares of what raises the statistic, summing to 1; zeros where nothing does or nothing is known."""
    raising = np.maximum(np.nan_to_num(contributions, nan=0.0), 0.0)
    # By the largest first: sums of what is near the largest number there is overflow.
    largest = raising.max(axis=-1, keepdims=True, initial=0.0)
    raising = raising / np.where(largest > 0.0, largest, 1.0)
    total = raising.sum(axis=-1, keepdims=True)
    return np.asarray(raising / np.where(total > 0.0, total, 1.0))


def leading(share: Array, names: Sequence[str], top: int) -> list[tuple[str, float]]:
    """The variables with the largest shares, with them; none that would be written as 0 %."""
    order = np.argsort(-share, kind="stable")[:top]
    return [(names[j], float(share[j])) for j in order if share[j] >= LEAST_SHARE]


def in_words(named: Sequence[tuple[str, float]]) -> str:
    """'pressure 61 %, flow 30 %'."""
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in named)


def leaders(gain: Array, names: Sequence[str], top: int) -> list[tuple[str, float]]:
    """The `leading` variables, with at least half of the largest gain."""
    named = leading(gain, names, top)
    return [(name, share) for name, share in named if share >= 0.5 * named[0][1]]


def beginning(contributions: Array) -> Array:  # (m, d) -> (d,)
    """Shares of the variables in the first alarms of a run, in their sum.

    After a while the controllers' answer leads a run and no longer its cause: each row that was explained
    has a leader of its own, and a run the one that it began with. The sum, not the mean of shares, lets the
    rows count in which the statistic is clearly above its limit.
    """
    known = contributions[np.any(contributions > 0.0, axis=1)][:FIRST_ALARMS]
    if len(known) == 0:
        return np.zeros(contributions.shape[1])
    return shares((known / np.abs(known).max()).sum(axis=0))


# ── what runs began with ────────────────────────────────────────────────────
def with_onsets(
    report: Monitoring,
    baselines: Baselines,
    index: Callable[[Array], Array],
    take: Callable[[Indices], Array],
    ways: Array | None = None,
) -> Monitoring:
    """The report with what its longest runs began with.

    ``index`` is what `Baselines.measure` says of scaled rows, (b, D) -> (b,), which ``take`` gives by their
    positions; ``ways`` are those of `gains`.
    """
    alarm, at = report.table["alarm"], report.explained
    found: dict[int, Array] = {}
    for run in report.longest(MOST_RUNS):
        first = run.first + np.flatnonzero(alarm[run.first : run.last + 1])[:FIRST_ALARMS]
        gain = gains(index, baselines, take(first), ways).mean(axis=0)  # (d,)
        if gain.max() < LEAST_GAIN and report.contributions is not None:
            within = alarm[at] & (run.first <= at) & (at <= run.last)
            gain = beginning(report.contributions[within])
        found[run.first] = gain
    return replace(report, onsets=found)


def gains(
    index: Callable[[Array], Array], baselines: Baselines, x: Array, ways: Array | None = None
) -> Array:  # (b, D) -> (b, d)
    """The share of each row's index that goes when one variable takes its best normal value.

    ``ways``, (d, p, D), are those in which a variable may be put right, with 1 in its own column: where a row
    holds its past too, that of a deviation which began with it, one that began a row before, and so on.
    """
    x = baselines.within(x, REACH)
    ways = np.eye(x.shape[1])[:, None, :] if ways is None else ways
    here, lowest = index(x), np.empty((len(x), len(ways)))
    for j, way in enumerate(ways):
        found = [_lowest(index, baselines, x, j, w) for w in way]
        lowest[:, j] = np.minimum(here, np.min(found, axis=0))
    with np.errstate(invalid="ignore"):
        return np.nan_to_num((here[:, None] - lowest) / here[:, None], nan=0.0)


def _lowest(
    index: Callable[[Array], Array], baselines: Baselines, x: Array, j: int, way: Array
) -> Array:  # (b, D) -> (b,)
    """The lowest index of each row with column j at any normal value, the others moved along the way."""
    unit, middle = baselines.spread[j], baselines.rows[:, j].mean()
    every, h = np.arange(len(x)), TRIED[1] - TRIED[0]

    def tried(values: Array) -> Array:  # (m, b) in spreads -> (m, b)
        by = middle + unit * values - x[:, j]  # (m, b)
        rows = x + by[:, :, None] * way  # (m, b, D)
        rows[:, :, j] = middle + unit * values
        return index(rows.reshape(-1, x.shape[1])).reshape(values.shape)

    seen = tried(np.repeat(TRIED[:, None], len(x), axis=1))  # (m, b)
    best = np.clip(seen.argmin(axis=0), 1, len(TRIED) - 2)
    left, here, right = (seen[best + side, every] for side in (-1, 0, 1))
    with np.errstate(invalid="ignore"):  # ∞ - ∞
        bend = left - 2.0 * here + right
        step = np.where(bend > 0.0, 0.5 * h * (left - right) / np.where(bend > 0, bend, 1), 0.0)
    between = tried((TRIED[best] + np.clip(np.nan_to_num(step), -h, h))[None])
    return np.minimum(seen.min(axis=0), between[0])


# ── rows with missing cells ─────────────────────────────────────────────────
def least_index(
    index: Callable[[Array], Array], baselines: Baselines, row: Array, limit: float
) -> float:  # (d,), scaled, NaN where cells are missing
    """The index of a row whose missing cells hold the best values within four spreads of normal.

    If that is above the limit, so is the row, whatever normal values its sensors would have shown: the cells
    that are there are enough for an alarm. If not, nothing is known: NaN, as soon as one value of a cell
    makes the row normal, which for most rows is among the first that are tried.
    """
    absent = np.flatnonzero(np.isnan(row))
    if len(absent) > MOST_MISSING * len(row):
        return float("nan")
    middle, least = baselines.middle, np.inf
    filled = np.where(np.isnan(row), middle, row)
    for _ in range(1 if len(absent) == 1 else SWEEPS):
        for j in absent:
            centre, width = middle[j], baselines.spread[j]
            for _ in range(TIMES):
                tried = np.repeat(filled[None], len(CELLS), axis=0)
                tried[:, j] = centre + width * CELLS
                found = index(tried)
                best = int(np.argmin(found))
                centre, width = tried[best, j], width / NARROWER
                if found[best] < least:
                    filled, least = tried[best], float(found[best])
                if least <= limit:
                    return float("nan")
    return least
