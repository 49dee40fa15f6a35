"""A detector on the page: statistics over time with limits, runs of alarms, and what is behind one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import views
from mercer.app.explore.meaning import row_number
from mercer.app.explore.planes import Panel, listed
from mercer.app.monitor import Seen, monitored, over_time
from mercer.app.outcome import Observer, Run, plain, refuse
from mercer.app.rows import Opened

if TYPE_CHECKING:
    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.fitting import Shown
    from mercer.preprocessing.align import Sheet

TOP = 3
CHART = ("name", "limit", "ends", "log")
MOST_RUNS = 50


def watched(shown: Shown, watch: Dataset | None) -> Sheet:
    """The rows that are judged: another file, matched by the names of its columns, or the training rows."""
    if shown.inside.detector is None:
        refuse("These panels need a detector; the model is kernel PCA. Choose {kind:'detector'}.")
    if watch is None:
        return shown.sheet
    opened = Opened(shown.model, shown.sheet.preparation, {}, shown.data.path)
    return watch.matched(opened, gaps=True)


def timeline(shown: Shown, watch: Dataset | None, observer: Observer | None = None) -> Panel:
    """T² and Q of rows over time, their limits, and runs of alarms with what led when each began."""
    sheet = watched(shown, watch)
    run = Run(observer)
    with run.following():
        seen = monitored(shown.model, sheet, top=TOP, run=run)
    report, axis = over_time(seen, sheet.time_format)
    view = views.monitoring(report, axis=axis or "row")
    times = view.time
    dates = np.asarray(times).dtype.kind == "M"
    header = {
        **listed(view),
        "charts": [{name: plain(getattr(each, name)) for name in CHART} for each in view.charts],
        "axis": view.axis,
        "times": np.datetime_as_string(times, unit="s").tolist() if dates else None,
        "ids": None if view.ids is None else list(view.ids),
        "runs": [_run(seen, each) for each in seen.report.longest(MOST_RUNS)],
        "caption": seen.report.summary(view.axis),
        "legend": view.legend,
        "count": seen.count,
        "judged": seen.judged,
        "limits": shown.inside.limits,
        "n": len(sheet),
    }
    arrays: dict[str, Any] = {f"chart{i}": c.drawn for i, c in enumerate(view.charts)}
    arrays |= {"alarm": seen.report.table["alarm"], "judged": view.judged}
    if not dates:
        arrays["time"] = times
    return Panel(header, arrays)


def _run(seen: Seen, run: Any) -> dict[str, Any]:
    time = seen.report.table["time"]
    leaders = [{"name": name, "share": float(share)} for name, share in seen.report.began_with(run)]
    return {
        "first": run.first,
        "last": run.last,
        "from": str(time[run.first]),
        "to": str(time[run.last]),
        "rows": run.rows,
        "alarms": run.alarms,
        "leaders": leaders,
        "words": f"{time[run.first]} to {time[run.last]}: {run}",
    }


def contributions(shown: Shown, watch: Dataset | None, row: Any) -> Panel:
    """What each variable adds to the statistic of one row."""
    sheet = watched(shown, watch)
    place = row_number("row", row, len(sheet))
    block = np.asarray(sheet.rows[place : place + 1])
    if np.isnan(block).any():
        refuse(f"Row {place} has missing values, and was not judged.")
    own = shown.inside
    values = own.contributions_at(sheet.rows, place)
    if np.isnan(values).any():
        refuse(f"Row {place} was not judged: too few rows stand before it, or some have gaps.")
    view = views.contributions(values, own.names(sheet.names), top=25)
    called = str(place if sheet.ids is None else sheet.ids[place])
    header = {**listed(view), "names": list(view.names), "axis": view.axis}
    return Panel({**header, "row": place, "called": called}, {"contributions": view.values})
