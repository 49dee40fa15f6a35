"""Control charts of a detector: T², Q and the index of every row, alarms, and the variables behind them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import row_blocks, take_rows
from mercer.monitoring.alarms import FIRST_ALARMS, Gaps, alarm_runs
from mercer.report.markup import Html, grid, joined, paragraph, tag
from mercer.report.measure import BLOCK_ENTRIES, BLOCK_ROWS
from mercer.report.section import Section, described, figure
from mercer.report.shown import count, counted, number, share, short
from mercer.report.svg import Frame, line, points, strokes

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags
    from mercer.estimators import KernelPCADetector
    from mercer.report.subject import Subject
    from mercer.report.svg import Scale

MOST_POINTS = 1200  # rows that are drawn one by one; more are drawn as strokes of several rows
MOST_EXPLAINED = 300
MOST_LISTED = 20
MOST_RUNS = 10
WIDE_RANGE = 20.0  # times the limit: beyond, a linear scale squeezes what is normal into a line


@dataclass(frozen=True, eq=False)
class Track:
    """One statistic of all rows, and where alarms begin; None where alarms don't go by it."""

    name: str
    values: Array  # (n,)
    limit: float | None


@dataclass(frozen=True, eq=False)
class Watched:
    """Statistics of all rows, NaN for those that could not be judged, and which are alarms."""

    t2: Array  # (n,)
    q: Array
    index: Array
    alarm: Flags
    judged: Flags

    @property
    def n_alarms(self) -> int:
        """How many."""
        return int(self.alarm.sum())


def monitoring(subject: Subject) -> Section:
    """The section."""
    detector = subject.detector
    if detector is None:
        text = (
            "The model is no detector, so there is nothing to watch. `mercer fit --model detector` learns "
            "limits from normal rows."
        )
        return Section("monitoring", "Monitoring", [paragraph(text)])
    seen = watched(subject, detector)
    parts: list[Any] = [
        paragraph(_summary(subject, seen)),
        _gaps(subject),
        paragraph(f"Limits: {detector._rule.joint(detector.limits_)}."),
        _charts(subject, detector, seen),
        _alarms(subject, detector, seen),
    ]
    return Section("monitoring", "Monitoring", parts)


def watched(subject: Subject, detector: KernelPCADetector) -> Watched:
    """Statistics of all rows, block by block."""
    found: dict[str, Array] = {name: np.empty(subject.n) for name in ("T2", "Q", "index")}
    for i, block in row_blocks(subject.rows, min(BLOCK_ROWS, max(1, BLOCK_ENTRIES // subject.d))):
        table = detector.statistics(block)
        for name, column in found.items():
            column[i] = table[name]
    alarm = ~(found["index"] <= -detector.offset_)  # what is no number is not normal
    found["index"] /= -detector.offset_  # in units of the limits that are drawn
    gaps = subject.gaps or Gaps(np.ones(subject.n, dtype=bool), np.zeros(subject.d, dtype=int))
    t2, q, index = (gaps.spread_out(found[name]) for name in ("T2", "Q", "index"))
    alarms = np.zeros(len(gaps.judged), dtype=bool)
    alarms[gaps.judged] = alarm
    return Watched(t2, q, index, alarms, gaps.judged)


def _summary(subject: Subject, seen: Watched) -> str:
    rows = counted(subject.n, "row" if subject.gaps is None else "judged row")
    if seen.n_alarms == 0:
        return "The one row is no alarm." if subject.n == 1 else f"None of {rows} is an alarm."
    runs = alarm_runs(seen.alarm, seen.judged)
    longest = max(runs, key=lambda run: run.rows)
    part = share(seen.n_alarms / subject.n)
    if seen.n_alarms == 1:
        return f"1 of {rows} is an alarm ({part}): row {subject.name_of(longest.first)}."
    return (
        f"{count(seen.n_alarms)} of {rows} are alarms ({part}). The first is "
        f"{subject.name_of(runs[0].first)}; the longest run is from {subject.name_of(longest.first)} to "
        f"{subject.name_of(longest.last)} ({longest})."
    )


def _gaps(subject: Subject) -> Html | None:
    if subject.gaps is None:
        return None
    return paragraph(subject.gaps.in_words(subject.names))


# ── charts ──────────────────────────────────────────────────────────────────
def _charts(subject: Subject, detector: KernelPCADetector, seen: Watched) -> Html:
    limits = detector._rule.joint(detector.limits_)  # where alarms begin, as in the table
    rule = detector._rule.statistic
    drawn = [
        Track("T²", seen.t2, limits.t2 if rule in ("combined", "T2") else None),
        Track("Q", seen.q, limits.q if rule in ("combined", "Q") else None),
        Track("index", seen.index, 1.0),
    ]
    id_ = "charts-figure"
    n, frame = len(seen.index), Frame(height=190, top=10, bottom=42)
    x = frame.across(0.5, n + 0.5)
    ticks = _row_ticks(subject, x)
    pictures = [_chart(frame, x, (subject.row_name, ticks), track, seen.alarm) for track in drawn]
    words = (
        "T² is how far out a row lies along the components, Q how far from them; the index is the larger of "
        "both in units of their limits. The dashed line is where alarms begin; a row that is an alarm is "
        "orange in each chart."
    )
    if n > MOST_POINTS:
        each = count(-(-n // MOST_POINTS))
        words += (
            f" Each stroke spans the least and the largest value of {each} rows: none is left out."
        )
    if subject.gaps is not None:
        words += " A grey line along the bottom stands for a row that could not be judged."
    infinite = int(np.sum(np.isinf(seen.index)))
    if infinite:
        words += f" {counted(infinite, 'row')} too far out to be computed stand at the top."
    return figure(tag("div", *pictures, class_="charts"), words, id_=id_)


def _row_ticks(subject: Subject, x: Scale) -> list[tuple[float, str]]:
    """Some rows along the bottom, by what they are called."""
    n = subject.n if subject.gaps is None else len(subject.gaps.judged)
    if subject.ids is None:
        return [(t, number(t)) for t in x.ticks(7) if 1 <= t <= n]
    # The last one would run out of the picture, and long ones into each other.
    places = [int(t) for t in x.ticks(5) if 1 <= t <= 0.93 * n and t == round(t)]
    return [(float(t), short(subject.name_of(t - 1), 18)) for t in places]


def _chart(
    frame: Frame, x: Scale, along: tuple[str, list[tuple[float, str]]], track: Track, alarm: Flags
) -> Html:
    name, values, limit = track.name, track.values, track.limit
    n = len(values)
    low, high, log = _reach(values, limit)
    y = frame.up(low, high, log=log)
    known = ~np.isnan(values)
    drawable = np.where(known, np.clip(np.where(np.isinf(values), high, values), low, high), np.nan)
    label = f"{name} (log scale)" if log else name
    parts = [frame.axes(x, y, x_label=along[0], y_label=label, x_ticks=along[1])]
    draw = _one_by_one if n <= MOST_POINTS else _strokes
    parts += draw(x, y, drawable, alarm)
    if not known.all():
        bottom, across = y(np.full(int(np.sum(~known)), low)), x(np.flatnonzero(~known) + 1)
        parts.append(strokes(across, bottom, bottom - 8.0, class_="stroke unjudged"))
    if limit is not None:
        parts.append(line(x(np.array([0.5, n + 0.5])), y(np.full(2, limit)), class_="limit"))
    label = f"Control chart of {name}, {counted(int(alarm.sum()), 'alarm')}"
    return frame.drawing(*parts, label=label, described_by=described("charts-figure"))


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
    ends = (
        np.flatnonzero(np.diff(known.astype(np.int8))) + 1
    )  # a line for each stretch without a gap
    stretches = [part for part in np.split(np.arange(len(values)), ends) if known[part[0]]]
    return [
        *(line(across[part], up[part], class_="trace") for part in stretches),
        points(across[normal], up[normal], 0, r, class_="mark normal"),
        points(across[alarm], up[alarm], 3, 1.3 * r, class_="mark alarm"),
    ]


def _strokes(x: Any, y: Any, values: Array, alarm: Flags) -> list[Html]:
    each = -(-len(values) // MOST_POINTS)
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
def _alarms(subject: Subject, detector: KernelPCADetector, seen: Watched) -> Html | None:
    """What runs began with, and the first alarms with the variables behind them."""
    which = np.flatnonzero(seen.alarm)[:MOST_EXPLAINED]
    if len(which) == 0:
        return None
    place = np.cumsum(seen.judged) - 1  # among the complete rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = detector.monitor(
            take_rows(subject.rows, place[which]), names=subject.names, top=3, explain="all"
        )
    rows = [
        [
            subject.name_of(int(i)),
            told.table["top"][a] or "not known",
            *(number(v[i]) for v in (seen.t2, seen.q, seen.index)),
        ]
        for a, i in enumerate(which[:MOST_LISTED].tolist())
    ]
    caption = (
        "Alarms"
        if len(rows) == seen.n_alarms
        else f"The first {len(rows)} of {count(seen.n_alarms)} alarms"
    )
    table = grid(
        [subject.row_name, "leading variables", "T²", "Q", "index"], rows, caption=caption, texts=2
    )
    remarks = [paragraph(" ".join(str(w.message).split()), class_="warning") for w in caught]
    unknown = None
    if told.contributions is None:
        unknown = paragraph(
            "Which variables are behind single alarms is not known: this kernel has no derivative."
        )
    return joined([_runs(subject, detector, seen), unknown, table, *remarks])


def _runs(subject: Subject, detector: KernelPCADetector, seen: Watched) -> Html:
    """The longest runs of alarms in the order of time, and what led when each began.

    Later on the controllers' answer leads, so the variable that led most rows would be no cause.
    """
    every = alarm_runs(seen.alarm, seen.judged)
    longest = sorted(
        sorted(every, key=lambda run: -run.rows)[:MOST_RUNS], key=lambda run: run.first
    )
    place = np.cumsum(seen.judged) - 1
    rows = []
    for run in longest:
        first = run.first + np.flatnonzero(seen.alarm[run.first : run.last + 1])[:FIRST_ALARMS]
        own = detector.monitor(take_rows(subject.rows, place[first]), names=subject.names)
        named = ", ".join(name for one in own.runs[:1] for name, _ in own.began_with(one))
        ends = subject.name_of(run.first), subject.name_of(run.last)
        rows.append([*ends, named or "not known", str(run)])
    caption = (
        "Runs of alarms"
        if len(longest) == len(every)
        else f"The {len(longest)} longest of {count(len(every))} runs of alarms"
    )
    return grid(["from", "to", "led when it began", "length"], rows, caption=caption, texts=4)
