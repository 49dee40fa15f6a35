"""What a fit means in the variables of the file: walks, slopes, rows and pictures; alarms and what led."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import diagnostics, views
from mercer._core.params import Whole, require
from mercer.app.explore.fitting import SAMPLE, Shown, drawn, rows_at
from mercer.app.explore.planes import Panel, Plane, listed, method_of, whole_rows
from mercer.app.monitor import Seen, monitored, over_time
from mercer.app.outcome import Observer, Run, refuse, refuse_value
from mercer.app.rows import Opened
from mercer.views.base import listing, plain
from mercer.views.checks import component as component_index
from mercer.views.fitted import unnamed
from mercer.views.scatter import component_names
from mercer.views.wording import count, number

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.app.explore.dataset import Dataset
    from mercer.preprocessing.align import Sheet

ENDS = (1.0, 99.0)  # percentiles of a score between which a walk goes
MOST_STEPS, MOST_LISTED = 201, 12
MOST_IMAGES = 64
MOST_CELLS = 4000  # columns of a row that are listed
IMPORTANCE_ROWS = 2000


def row_number(name: str, given: Any, n: int) -> int:
    """The position of a row, counted from 0."""
    return int(require(name, given, Whole(0, n - 1)))


def walk(shown: Shown, component: Any, at: Any, steps: Any, plane: Any = None) -> Panel:
    """From a row, or from the mean, along one component: its score moves, all others stay."""
    if shown.inside.detector is not None:
        refuse("A detector has no pre-images to walk through. Choose kernel PCA to walk along one.")
    own, sheet = shown.returning().inside, shown.sheet
    component = component_index(component, own.k)
    steps = int(require("steps", steps, Whole(2, MOST_STEPS)))
    some = rows_at(sheet.rows, drawn(len(sheet), SAMPLE))
    scores = own.scores(some)  # (m, k)
    if at == "mean":
        begun, where = np.zeros(own.k), "the mean"
        original = own.back(begun[None])[0]
    else:
        row = row_number("row", at.get("row") if isinstance(at, dict) else at, len(sheet))
        block = sheet.rows[row : row + 1]
        begun, where, original = own.scores(block)[0], f"row {row}", own.raw(block)[0]
    low, high = np.percentile(scores[:, component], ENDS)
    t = np.linspace(float(low), float(high), steps)  # (s,)
    asked = np.tile(begun, (steps, 1))  # (s, k)
    asked[:, component] = t
    path = own.back(asked)  # (s, d)
    missed = np.sum((own.raw_scores(path) - asked) ** 2, axis=1)
    names = own.names(sheet.names)
    title = component_names([component], shown.shares)[0]
    seen = Plane.read(plane, shown.data, shown.recipe.scale)
    track = seen.of_raw(shown.in_file(path))
    centre = track.mean(axis=0)
    shape = own.image_shape
    # One scale of greys for all walks: a picture that is brighter is a brighter one.
    ends = np.vstack([path, original]) if shape is None else own.raw(some)
    header = {
        **method_of(own),
        "component": title,
        "names": list(names),
        "values": [number(value) for value in t],
        "image_shape": None if shape is None else list(shape),
        "low": float(ends.min()),
        "high": float(ends.max()),
        "start": int(np.argmin(np.abs(t - begun[component]))),
        "centre": centre.tolist(),
        "axes": seen.axes,
        "caption": f"The row that belongs to each score: {title} moves from its {ENDS[0]:g}st to its "
        f"{ENDS[1]:g}th percentile, all other scores stay those of {where}. "
        "A ring in Data and Level sets marks it.",
        "tables": [_walked(path, names)],
    }
    arrays = {"t": t, "path": path, "original": original}
    return Panel(header, {**arrays, "track": track - centre, "distance": missed})


def _walked(path: Array, names: tuple[str, ...]) -> dict[str, Any]:
    """The columns that a walk moves most, in units of their own."""
    moved = np.ptp(path, axis=0)
    most = np.argsort(-moved, kind="stable")[:MOST_LISTED]
    rows = [[names[j], number(path[0, j]), number(path[-1, j]), number(moved[j])] for j in most]
    caption = "Where the columns begin and end"
    if len(most) < len(names):
        caption = f"The {len(most)} of {count(len(names))} columns that move most"
    return plain(listing(caption, ["column", "begins", "ends", "moves by"], rows))


def importance(shown: Shown) -> Panel:
    """How much of each component every variable moves."""
    own, sheet = shown.inside, shown.sheet
    some = drawn(len(sheet), IMPORTANCE_ROWS)
    rows = np.asarray(own.inner_at(sheet.rows, some))
    whole = whole_rows(rows)
    rows = rows if whole is None else rows[whole]
    names = own.inner_names(own.names(sheet.names))
    with unnamed():
        found = diagnostics.importance(own.projector, rows, names=names)
    n = count(len(sheet))
    whose = f"all {n} rows"
    if some is not None:
        whose = f"{count(len(some))} of {n} rows, drawn with seed 0"
    order = np.argsort(-found.shares.max(axis=1), kind="stable")[:MOST_LISTED]
    head = ["variable", *(f"component {i + 1}" for i in range(found.shares.shape[1]))]
    cells = [[names[j], *(f"{100 * share:.1f} %" for share in found.shares[j])] for j in order]
    header = {
        "names": list(names),
        "sentences": str(found).splitlines(),
        "caption": "A share is how much of the change of a component is due to a column, when each column "
        f"moves alone and the others stay; averaged over {whose}.",
        "tables": [plain(listing("Shares", head, cells))],
    }
    arrays = {"importance": found.sizes, "shares": found.shares, "slopes": found.slopes}
    return Panel(header, arrays)


def images(data: Dataset, rows: Any) -> Panel:
    """Rows as pictures."""
    shape = data.raw.preparation.image_shape
    if shape is None:
        name = data.title or data.name
        refuse("The rows of {name} are not images. Give their height and width first.", name=name)
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_IMAGES:
        refuse_value("rows", rows, f"1 to {MOST_IMAGES} numbers of rows")
    places = [row_number("rows", row, data.n) for row in rows]
    view = views.images(np.asarray(data.raw.rows[places]), shape=shape)
    header = {**listed(view), "low": float(view.low.min()), "high": float(view.high.max())}
    return Panel(header, {"images": view.images})


def row(data: Dataset, place: Any) -> dict[str, Any]:
    """One row as the file has it, in words."""
    sheet = data.raw
    place = row_number("row", place, data.n)
    values = np.asarray(sheet.rows[place : place + 1])[0]
    shown = list(zip(sheet.names, values, strict=True))[:MOST_CELLS]
    return {
        "row": place,
        "id": None if sheet.ids is None else str(sheet.ids[place]),
        "label": None if sheet.labels is None else str(sheet.labels[place]),
        "values": [{"name": name, "value": number(float(value), 6)} for name, value in shown],
        "left_out": len(values) - len(shown),
    }


# ── what a detector saw ─────────────────────────────────────────────────────
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
