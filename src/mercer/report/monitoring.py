"""Control charts of a detector: T², Q and the index of every row, alarms, and the variables behind them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import take_rows
from mercer.monitoring.alarms import FIRST_ALARMS, MOST_RUNS
from mercer.monitoring.report import Monitoring
from mercer.plots.charts import WIDE_RANGE
from mercer.report.drawing import Frame, line, points, strokes
from mercer.report.markup import Html, figure, grid, joined, paragraph, tag
from mercer.report.shown import count, counted, number, share, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Flags, Indices
    from mercer.estimators import KernelPCADetector
    from mercer.report.drawing import Scale
    from mercer.report.subject import Subject

ID = "charts-figure"
# Columns of the table, and what the page calls them.
STATISTICS = {"T2": "T²", "Q": "Q", "index": "index"}
MOST_POINTS = 1200  # rows that are drawn one by one; more are drawn as strokes of several rows
MOST_EXPLAINED = 300
MOST_LISTED = 20


def monitoring(subject: Subject) -> list[Any]:
    """Control charts, alarms, and the variables behind them."""
    detector = subject.detector
    if detector is None:
        text = (
            "The model is no detector, so there is nothing to watch. `mercer fit --model detector` learns "
            "limits from normal rows."
        )
        return [paragraph(text)]
    blocks = [detector.monitor(block, names=subject.names, top=0) for _, block in subject.blocks()]
    seen = Monitoring.joined(blocks).among(subject.gaps, subject.called)
    return [
        paragraph(_summary(seen)),
        paragraph(seen.gaps.in_words(seen.names)) if seen.gaps.count else None,
        paragraph(f"Limits: {detector._rule.joint(detector.limits_)}."),
        _charts(subject, seen),
        _alarms(subject, detector, seen),
    ]


def _summary(seen: Monitoring) -> str:
    name, alarms = seen.table["time"], len(seen.alarms)
    n = len(name) - seen.gaps.count
    rows = counted(n, "judged row" if seen.gaps.count else "row")
    if alarms == 0:
        return "The one row is no alarm." if n == 1 else f"None of {rows} is an alarm."
    runs, part = seen.runs, share(alarms / n)
    longest = max(runs, key=lambda run: run.rows)
    if alarms == 1:
        return f"1 of {rows} is an alarm ({part}): row {name[longest.first]}."
    return (
        f"{count(alarms)} of {rows} are alarms ({part}). The first is {name[runs[0].first]}; the "
        f"longest run is from {name[longest.first]} to {name[longest.last]} ({longest})."
    )


# ── charts ──────────────────────────────────────────────────────────────────
def _charts(subject: Subject, seen: Monitoring) -> Html:
    pictures = [_chart(subject, seen, name) for name in STATISTICS]
    index = seen.table["index"]
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
    if seen.gaps.count:
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
    return [(float(t), short(str(subject.called[t - 1]), 18)) for t in places]


def _chart(subject: Subject, seen: Monitoring, statistic: str) -> Html:
    values, limit, name = seen.table[statistic], seen.line(statistic), STATISTICS[statistic]
    n, frame = len(values), Frame(height=190, top=10, bottom=42)
    low, high, log = _reach(values, limit)
    x, y = frame.across(0.5, n + 0.5), frame.up(low, high, log=log)
    known = ~np.isnan(values)
    drawable = np.where(known, np.clip(np.where(np.isinf(values), high, values), low, high), np.nan)
    label = f"{name} (log scale)" if log else name
    ticks = _row_ticks(subject, x)
    parts = [frame.axes(x, y, x_label=subject.row_name, y_label=label, x_ticks=ticks)]
    draw = _one_by_one if n <= MOST_POINTS else _strokes
    parts += draw(x, y, drawable, seen.table["alarm"])
    if not known.all():
        bottom, across = y(np.full(int(np.sum(~known)), low)), x(np.flatnonzero(~known) + 1)
        parts.append(strokes(across, bottom, bottom - 8.0, class_="stroke unjudged"))
    if limit is not None:
        parts.append(line(x(np.array([0.5, n + 0.5])), y(np.full(2, limit)), class_="limit"))
    label = f"Control chart of {name}, {counted(len(seen.alarms), 'alarm')}"
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
def _alarms(subject: Subject, detector: KernelPCADetector, seen: Monitoring) -> Html | None:
    """What runs began with, and the first alarms with the variables behind them."""
    alarms, name = np.flatnonzero(seen.table["alarm"]), seen.table["time"]
    if len(alarms) == 0:
        return None

    def explained(which: Indices, **knobs: Any) -> Monitoring:
        """The detector's own report on some of the rows, by their positions among all."""
        rows = take_rows(subject.rows, np.searchsorted(subject.places, which))
        return detector.monitor(rows, names=subject.names, **knobs)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = explained(alarms[:MOST_EXPLAINED], explain="all")
    rows = [
        [
            name[i],
            top or "not known",
            *(number(seen.table[statistic][i]) for statistic in STATISTICS),
        ]
        for i, top in zip(alarms[:MOST_LISTED], told.table["top"], strict=False)
    ]
    caption = "Alarms"
    if len(rows) < len(alarms):
        caption = f"The first {len(rows)} of {count(len(alarms))} alarms"
    head = [subject.row_name, "leading variables", *STATISTICS.values()]
    unknown = None
    if told.contributions is None:
        unknown = paragraph(
            "Which variables are behind single alarms is not known: this kernel has no derivative."
        )
    remarks = [paragraph(" ".join(str(w.message).split()), class_="warning") for w in caught]
    table = grid(head, rows, caption=caption, texts=2)
    return joined([_runs(seen, explained), unknown, table, *remarks])


def _runs(seen: Monitoring, explained: Callable[[Indices], Monitoring]) -> Html:
    """The longest runs of alarms in the order of time, and what led when each began.

    Later on the controllers' answer leads, so the variable that led most rows would be no cause.
    """
    longest, every, name = seen.longest(MOST_RUNS), len(seen.runs), seen.table["time"]
    alarms, rows = np.flatnonzero(seen.table["alarm"]), []
    for run in longest:
        own = explained(alarms[alarms >= run.first][: min(run.alarms, FIRST_ALARMS)])
        named = ", ".join(leader for one in own.runs[:1] for leader, _ in own.began_with(one))
        rows.append([name[run.first], name[run.last], named or "not known", str(run)])
    caption = "Runs of alarms"
    if len(longest) < every:
        caption = f"The {len(longest)} longest of {count(every)} runs of alarms"
    return grid(["from", "to", "led when it began", "length"], rows, caption=caption, texts=4)
