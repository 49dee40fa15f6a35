"""The first section of a detector's page: alarms, their onset, statistics over time, and the variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.types import Array, Flags
from mercer.monitoring.events import severity
from mercer.monitoring.report import Monitoring
from mercer.report.drawing import Frame, Scale, date_ticks, line, points, strokes
from mercer.report.markup import Html, figure, folded, listed, paragraph, tag
from mercer.report.subject import Subject
from mercer.views import ContributionsOverTime, ControlCharts, contributions_over_time, monitoring
from mercer.views.leaders import enough_rows, event_spans, events_table, leaders, peak
from mercer.views.process import Chart, alarms_table, runs_table
from mercer.views.wording import count, counted, number, short

CHARTS, LEADERS = "charts-figure", "leaders-figure"
MOST_POINTS = 1200  # rows that are drawn one by one; more are drawn as strokes of several rows
LEVELS = 6  # strengths of colour
LEFT = 104  # pixels for names of variables; the charts above begin there too


def alarms(subject: Subject) -> list[Any]:
    """When alarms began and with what, limits, control charts and contributions over time."""
    if subject.fitted.detector is None:
        return []
    seen, remarks = subject.watched
    view = monitoring(seen, statistics=("index", "T2", "Q"), axis=subject.row_name)
    explained = seen.contributions is not None and len(seen.explained) > 0
    over = contributions_over_time(seen, axis=subject.row_name) if explained else None
    found, none = events_table(seen), f"No event: never were {enough_rows()} above the limit."
    events = listed(found) if found.rows else paragraph(none) if seen.runs else None
    return [
        _charts(view, seen),
        None if over is None else figure(_leaders(view, over), over, id_=LEADERS),
        events,
        paragraph(f"Limits: {subject.fitted.limits}."),
        listed(runs_table(seen)) if seen.runs else None,
        _single(subject, seen, remarks),
    ]


def key_figures(subject: Subject) -> list[tuple[str, str, str]]:
    """The first event and the longest, alarms that belong to none, and what each began with."""
    seen = subject.watched[0]
    n, every = int(seen.table["judged"].sum()), int(seen.table["alarm"].sum())
    facts = [("alarms", count(every), f"of {counted(n, 'row')}, {100 * every / n:.1f} %")]
    if not every:
        return facts
    spans = event_spans(seen)
    outside = every - sum(int(seen.table["alarm"][a : b + 1].sum()) for a, b in spans)
    words = f"{counted(outside, 'alarm')} without an event" if outside else "with all alarms"
    if not spans:
        run = seen.runs[0]
        alone = _begins(seen, (run.first, run.last), "first alarm, of no event")
        return [("events", "none", words), alone, *facts]
    longest = max(spans, key=lambda span: span[1] - span[0])
    begun = {longest: "longest event begins"} | {spans[0]: "first event"}  # which may be the same
    begins = [_begins(seen, span, what) for span, what in sorted(begun.items())]
    return [*begins, ("events", count(len(spans)), words), *facts]


def _begins(seen: Monitoring, span: tuple[int, int], what: str) -> tuple[str, str, str]:
    """When an event began, its length and severity, and the variables that led."""
    first, last = span
    led = ", ".join(leaders(seen, first, last)[:2])
    words = f"{counted(last - first + 1, 'row')}, severity {severity(peak(seen, first, last))}"
    words += f", led by {led}" if led else ""
    return what, short(str(seen.table["time"][first]), 20), words


def _single(subject: Subject, seen: Monitoring, remarks: tuple[str, ...]) -> Html | None:
    """The first alarms one by one, and warnings about their variables."""
    if not seen.runs:
        return None
    parts: list[Any] = [paragraph(text, class_="warning") for text in remarks]
    if seen.contributions is None:
        why = "this kernel has no derivative"
        parts.append(paragraph(f"Which variables are behind single alarms is not known: {why}."))
    table = alarms_table(seen, subject.row_name)
    return tag("div", *parts, folded(table.caption, listed(table)))


# ── along time ──────────────────────────────────────────────────────────────
def _across(view: ControlCharts, frame: Frame) -> tuple[Array, Scale, list[tuple[float, str]]]:
    """Places of rows, the scale they lie on, and its ticks: dates, numbers, or rows by their names."""
    n, time = len(view.time), view.time
    if time.dtype.kind == "M":
        places = (time - time[0]) / np.timedelta64(1, "s")  # (n,)
    else:
        places = time.astype(np.float64) if view.ids is None else np.arange(1.0, n + 1)
    pad = 0.5 * float(places[-1] - places[0]) / max(n - 1, 1) or 0.5
    x = frame.across(float(places[0]) - pad, float(places[-1]) + pad)
    if time.dtype.kind == "M":
        return places, x, date_ticks(time[0], time[-1], 6)
    if view.ids is None:
        return places, x, [(t, number(t)) for t in x.ticks(7) if places[0] <= t <= places[-1]]
    # The last one would run out of the picture, and long ones into each other.
    at = [int(t) for t in x.ticks(5) if 1 <= t <= 0.93 * n and t == round(t)]
    return places, x, [(float(t), short(view.ids[t - 1], 18)) for t in at]


def _charts(view: ControlCharts, seen: Monitoring) -> Html:
    pictures = [_chart(view, own, named=own is view.charts[-1]) for own in view.charts]
    words = (
        "T² is how far out a row lies along the components, Q how far from them; the index is the "
    )
    words += f"larger of both in units of their limits. {view.legend}"
    if len(view.time) > MOST_POINTS:
        many = f"{count(_rows_a_stroke(len(view.time)))} rows"
        words += f" Each stroke spans the least and the largest value of {many}: none is left out."
    label = f"Control charts, {counted(len(seen.alarms), 'alarm')}"
    return figure(tag("div", *pictures, class_="charts", aria_label=label), words, id_=CHARTS)


def _chart(view: ControlCharts, own: Chart, *, named: bool) -> Html:
    frame = Frame(height=172 if named else 146, left=LEFT, top=10, bottom=42 if named else 18)
    places, x, ticks = _across(view, frame)
    y = frame.up(*own.ends, log=own.log)
    label = f"{own.name} (log scale)" if own.log else own.name
    ticks = [(t, text if named else "") for t, text in ticks]
    parts = [frame.axes(x, y, x_label=view.axis if named else "", y_label=label, x_ticks=ticks)]
    known = ~np.isnan(own.values)
    drawable = np.where(known, np.clip(own.drawn, *own.ends), np.nan)
    draw = _one_by_one if len(places) <= MOST_POINTS else _strokes
    parts += draw(x(places), y, drawable, own.alarm)
    if not known.all():
        bottom = y(np.full(int(np.sum(~known)), own.ends[0]))
        parts.append(strokes(x(places[~known]), bottom, bottom - 8.0, class_="stroke unjudged"))
    if own.limit is not None:
        parts.append(line(np.array([x.start, x.end]), y(np.full(2, own.limit)), class_="limit"))
    alarms = counted(int(own.alarm.sum()), "alarm")
    return frame.drawing(*parts, label=f"Control chart of {own.name}, {alarms}", id_=CHARTS)


def _one_by_one(across: Array, y: Any, values: Array, alarm: Flags) -> list[Html]:
    known = ~np.isnan(values)
    up = y(np.where(known, values, 1.0))
    r = 2.2 if len(values) <= 400 else 1.5
    normal = known & ~alarm
    # A line for each stretch without a gap.
    ends = np.flatnonzero(np.diff(known.astype(np.int8))) + 1
    stretches = [part for part in np.split(np.arange(len(values)), ends) if known[part[0]]]
    return [
        *(line(across[part], up[part], class_="trace") for part in stretches),
        points(across[normal], up[normal], 0, r, class_="mark normal"),
        points(across[alarm], up[alarm], 1, 1.1 * r, class_="mark alarm"),
    ]


def _rows_a_stroke(n: int) -> int:
    return -(-n // MOST_POINTS)


def _strokes(across: Array, y: Any, values: Array, alarm: Flags) -> list[Html]:
    starts = np.arange(0, len(values), _rows_a_stroke(len(values)))
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)  # without NaN
    known = ~np.isnan(low)
    any_alarm = np.logical_or.reduceat(alarm, starts)
    across = 0.5 * (across[starts] + across[np.append(starts[1:] - 1, len(across) - 1)])
    # A stroke of no length has no colour: one pixel at least.
    bottom, top = (y(np.where(known, v, 1.0)) + side for v, side in ((low, 0.5), (high, -0.5)))
    normal = known & ~any_alarm
    return [
        strokes(across[normal], bottom[normal], top[normal], class_="stroke normal"),
        strokes(across[any_alarm], bottom[any_alarm], top[any_alarm], class_="stroke alarm"),
    ]


def _leaders(view: ControlCharts, over: ContributionsOverTime) -> Html:
    """A row for each variable, a cell for each slot of time, the stronger the larger the share."""
    m = len(over.names)
    frame = Frame(height=56 + 20 * m, left=LEFT, top=6)
    places, x, ticks = _across(view, frame)
    y = frame.up(m - 0.5, -0.5)
    step = float(places[-1] - places[0]) / max(len(places) - 1, 1) or 1.0
    begins = np.append(places, places[-1] + step)[over.rows] - 0.5 * step  # (b + 1,)
    left, right = x(begins[:-1]), x(begins[1:])
    names = [(float(i), short(name, 15)) for i, name in enumerate(over.names)]
    parts = [frame.axes(x, y, x_label=over.axis, y_label="", x_ticks=ticks, y_ticks=names)]
    most = float(np.nanmax(over.shares, initial=0.0)) or 1.0
    level = np.ceil(LEVELS * np.nan_to_num(over.shares) / most).astype(int)  # (v, b): 0 is nothing
    for one in np.unique(level[level > 0]).tolist():
        cells = [
            f"M{left[j]:.1f} {float(y(i)) - 9:.1f}H{right[j]:.1f}v18H{left[j]:.1f}z"
            for i, j in np.argwhere(level == one).tolist()
        ]
        parts.append(tag("path", d="".join(cells), class_=f"cell c1 l{one - 1}"))
    return frame.drawing(*parts, label="Shares of variables in alarms over time", id_=LEADERS)
