"""Control charts of a detector: T², Q and the index of every row, alarms, and the variables behind them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import take_rows
from mercer.monitoring.alarms import FIRST_ALARMS, MOST_RUNS, alarm_runs
from mercer.plots.charts import WIDE_RANGE
from mercer.report.markup import Html, figure, grid, joined, paragraph, tag
from mercer.report.shown import count, counted, number, share, short
from mercer.report.svg import Frame, line, points, strokes

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices
    from mercer.estimators import KernelPCADetector
    from mercer.monitoring.alarms import Run
    from mercer.monitoring.report import Monitoring
    from mercer.report.subject import Subject
    from mercer.report.svg import Scale

ID = "charts-figure"
MOST_POINTS = 1200  # rows that are drawn one by one; more are drawn as strokes of several rows
MOST_EXPLAINED = 300
MOST_LISTED = 20


@dataclass(frozen=True, eq=False)
class Watched:
    """What a detector says of all rows that were given, N; those with a missing cell could not be judged."""

    subject: Subject
    detector: KernelPCADetector
    statistics: dict[str, Array]  # T², Q and the index, (N,) each: NaN for what could not be judged
    alarm: Flags  # (N,)

    @property
    def n_alarms(self) -> int:
        """How many."""
        return int(self.alarm.sum())

    @property
    def runs(self) -> list[Run]:
        """Runs of alarms."""
        return alarm_runs(self.alarm, self.subject.gaps.judged)

    def explained(self, rows: Indices, **knobs: Any) -> Monitoring:
        """The detector's own report on some of the rows, by their positions among all."""
        place = np.searchsorted(self.subject.places, rows)  # among the complete rows
        chosen = take_rows(self.subject.rows, place)
        return self.detector.monitor(chosen, names=self.subject.names, **knobs)


def monitoring(subject: Subject) -> list[Any]:
    """Control charts, alarms, and the variables behind them."""
    detector = subject.detector
    if detector is None:
        text = (
            "The model is no detector, so there is nothing to watch. `mercer fit --model detector` learns "
            "limits from normal rows."
        )
        return [paragraph(text)]
    seen = _watched(subject, detector)
    return [
        paragraph(_summary(seen)),
        paragraph(subject.gaps.in_words(subject.names)) if subject.gaps.count else None,
        paragraph(f"Limits: {detector._rule.joint(detector.limits_)}."),
        _charts(seen),
        _alarms(seen),
    ]


def _watched(subject: Subject, detector: KernelPCADetector) -> Watched:
    """Statistics of all rows, block by block."""
    found: dict[str, Array] = {name: np.empty(subject.n) for name in ("T2", "Q", "index")}
    for i, block in subject.blocks():
        table = detector.statistics(block)
        for name, column in found.items():
            column[i] = table[name]
    alarm = np.zeros(len(subject.gaps.judged), dtype=bool)
    alarm[subject.places] = ~(
        found["index"] <= -detector.offset_
    )  # what is no number is not normal
    found["index"] /= -detector.offset_  # in units of the limits that are drawn
    spread_out = {name: subject.gaps.spread_out(values) for name, values in found.items()}
    return Watched(subject, detector, spread_out, alarm)


def _summary(seen: Watched) -> str:
    n, called = seen.subject.n, seen.subject.name_of
    rows = counted(n, "judged row" if seen.subject.gaps.count else "row")
    if seen.n_alarms == 0:
        return "The one row is no alarm." if n == 1 else f"None of {rows} is an alarm."
    runs, part = seen.runs, share(seen.n_alarms / n)
    longest = max(runs, key=lambda run: run.rows)
    if seen.n_alarms == 1:
        return f"1 of {rows} is an alarm ({part}): row {called(longest.first)}."
    return (
        f"{count(seen.n_alarms)} of {rows} are alarms ({part}). The first is {called(runs[0].first)}; the "
        f"longest run is from {called(longest.first)} to {called(longest.last)} ({longest})."
    )


# ── charts ──────────────────────────────────────────────────────────────────
def _charts(seen: Watched) -> Html:
    rule, index = seen.detector._rule, seen.statistics["index"]
    limits = rule.joint(seen.detector.limits_)  # where alarms begin, as in the table
    lines = {"T2": limits.t2, "Q": limits.q, "index": 1.0}
    pictures = [
        # A statistic that alarms don't go by has no line.
        _chart(
            seen, name, limit if rule.statistic in ("combined", name) or name == "index" else None
        )
        for name, limit in lines.items()
    ]
    words = (
        "T² is how far out a row lies along the components, Q how far from them; the index is the larger of "
        "both in units of their limits. The dashed line is where alarms begin; a row that is an alarm is "
        "orange in each chart."
    )
    if len(index) > MOST_POINTS:
        each = count(_rows_a_stroke(len(index)))
        words += (
            f" Each stroke spans the least and the largest value of {each} rows: none is left out."
        )
    if seen.subject.gaps.count:
        words += " A grey line along the bottom stands for a row that could not be judged."
    infinite = int(np.sum(np.isinf(index)))
    if infinite:
        words += f" {counted(infinite, 'row')} too far out to be computed stand at the top."
    return figure(tag("div", *pictures, class_="charts"), words, id_=ID)


def _row_ticks(subject: Subject, x: Scale) -> list[tuple[float, str]]:
    """Some rows along the bottom, by what they are called."""
    n = len(subject.gaps.judged)
    if subject.ids is None:
        return [(t, number(t)) for t in x.ticks(7) if 1 <= t <= n]
    # The last one would run out of the picture, and long ones into each other.
    places = [int(t) for t in x.ticks(5) if 1 <= t <= 0.93 * n and t == round(t)]
    return [(float(t), short(subject.name_of(t - 1), 18)) for t in places]


def _chart(seen: Watched, statistic: str, limit: float | None) -> Html:
    values, name = seen.statistics[statistic], statistic.replace("T2", "T²")
    n, frame = len(values), Frame(height=190, top=10, bottom=42)
    low, high, log = _reach(values, limit)
    x, y = frame.across(0.5, n + 0.5), frame.up(low, high, log=log)
    known = ~np.isnan(values)
    drawable = np.where(known, np.clip(np.where(np.isinf(values), high, values), low, high), np.nan)
    label = f"{name} (log scale)" if log else name
    ticks = _row_ticks(seen.subject, x)
    parts = [frame.axes(x, y, x_label=seen.subject.row_name, y_label=label, x_ticks=ticks)]
    draw = _one_by_one if n <= MOST_POINTS else _strokes
    parts += draw(x, y, drawable, seen.alarm)
    if not known.all():
        bottom, across = y(np.full(int(np.sum(~known)), low)), x(np.flatnonzero(~known) + 1)
        parts.append(strokes(across, bottom, bottom - 8.0, class_="stroke unjudged"))
    if limit is not None:
        parts.append(line(x(np.array([0.5, n + 0.5])), y(np.full(2, limit)), class_="limit"))
    label = f"Control chart of {name}, {counted(seen.n_alarms, 'alarm')}"
    return frame.drawing(*parts, label=label, id_=ID)


def _reach(values: Array, limit: float | None) -> tuple[float, float, bool]:
    finite = values[np.isfinite(values)]
    usual = float(np.median(finite)) if limit is None and len(finite) else float(limit or 1.0)
    most = max(float(finite.max()) if len(finite) else usual, usual)
    least = float(finite.min()) if len(finite) else 0.0
    if most > WIDE_RANGE * usual and least > 0.0:
        return 0.8 * min(least, usual), 1.5 * most, True
    return 0.0, 1.08 * most or 1.0, False


def _one_by_one(x: Any, y: Any, values: Array, alarm: Flags) -> list[Html]:
    across, known = x(np.arange(1, len(values) + 1)), ~np.isnan(values)
    up = y(np.where(known, values, 1.0))
    r = 2.2 if len(values) <= 400 else 1.5
    normal = known & ~alarm
    # A line for each stretch without a gap.
    ends = np.flatnonzero(np.diff(known.astype(np.int8))) + 1
    stretches = [part for part in np.split(np.arange(len(values)), ends) if known[part[0]]]
    return [
        *(line(across[part], up[part], class_="trace") for part in stretches),
        points(across[normal], up[normal], 0, r, class_="mark normal"),
        points(across[alarm], up[alarm], 3, 1.3 * r, class_="mark alarm"),
    ]


def _rows_a_stroke(n: int) -> int:
    return -(-n // MOST_POINTS)


def _strokes(x: Any, y: Any, values: Array, alarm: Flags) -> list[Html]:
    each = _rows_a_stroke(len(values))
    starts = np.arange(0, len(values), each)
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)  # without NaN
    known = ~np.isnan(low)
    any_alarm = np.logical_or.reduceat(alarm, starts)
    across = x(np.minimum(starts + 0.5 * (each + 1), len(values)))
    # A stroke of no length has no colour: one pixel at least.
    bottom, top = (y(np.where(known, v, 1.0)) + side for v, side in ((low, 0.5), (high, -0.5)))
    normal = known & ~any_alarm
    return [
        strokes(across[normal], bottom[normal], top[normal], class_="stroke normal"),
        strokes(across[any_alarm], bottom[any_alarm], top[any_alarm], class_="stroke alarm"),
    ]


# ── alarms ──────────────────────────────────────────────────────────────────
def _alarms(seen: Watched) -> Html | None:
    """What runs began with, and the first alarms with the variables behind them."""
    which = np.flatnonzero(seen.alarm)[:MOST_EXPLAINED]
    if len(which) == 0:
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = seen.explained(which, top=3, explain="all")
    called, leaders = seen.subject.name_of, told.table["top"]
    rows = [
        [called(i), leaders[a] or "not known", *(number(v[i]) for v in seen.statistics.values())]
        for a, i in enumerate(which[:MOST_LISTED].tolist())
    ]
    caption = "Alarms"
    if len(rows) < seen.n_alarms:
        caption = f"The first {len(rows)} of {count(seen.n_alarms)} alarms"
    head = [seen.subject.row_name, "leading variables", "T²", "Q", "index"]
    unknown = None
    if told.contributions is None:
        unknown = paragraph(
            "Which variables are behind single alarms is not known: this kernel has no derivative."
        )
    remarks = [paragraph(" ".join(str(w.message).split()), class_="warning") for w in caught]
    return joined([_runs(seen), unknown, grid(head, rows, caption=caption, texts=2), *remarks])


def _runs(seen: Watched) -> Html:
    """The longest runs of alarms in the order of time, and what led when each began.

    Later on the controllers' answer leads, so the variable that led most rows would be no cause.
    """
    every, called = seen.runs, seen.subject.name_of
    longest = sorted(every, key=lambda run: -run.rows)[:MOST_RUNS]
    rows = []
    for run in sorted(longest, key=lambda run: run.first):
        first = run.first + np.flatnonzero(seen.alarm[run.first : run.last + 1])[:FIRST_ALARMS]
        own = seen.explained(first)
        named = ", ".join(name for one in own.runs[:1] for name, _ in own.began_with(one))
        rows.append([called(run.first), called(run.last), named or "not known", str(run)])
    caption = "Runs of alarms"
    if len(longest) < len(every):
        caption = f"The {len(longest)} longest of {count(len(every))} runs of alarms"
    return grid(["from", "to", "led when it began", "length"], rows, caption=caption, texts=4)
