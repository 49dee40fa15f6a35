"""Scores against each other as SVG: every row as a point, or cells with counts where rows are too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from mercer import views
from mercer._core.types import Array
from mercer.report.drawing import Frame, class_colour, points
from mercer.report.markup import Html, data_block, figure, joined, packed, paragraph, tag
from mercer.report.subject import Subject
from mercer.views.base import span
from mercer.views.scatter import BINS, LEVELS, Cells, cells
from mercer.views.wording import count, counted

MOST_POINTS = 20_000  # above, points are counted in cells
CELL_AXES = 4  # components whose pairs are counted: six pairs
FRAME = Frame(width=720, height=520, left=68, right=16, top=14, bottom=48)
MARGIN = 0.04
ID = "scores-figure"
NO_SCORES = "All rows lie so far out that their scores can't be computed: there is nothing to draw."
Ranges: TypeAlias = list[tuple[float, float]]


def scores(subject: Subject) -> list[Any]:
    """The picture, its legend, the choice of components, and the data of all this for the script."""
    view = _view(subject)
    if view is None:
        return [paragraph(NO_SCORES)]
    ranges = [span(column, MARGIN) for column in view.points.T]  # what each axis spans
    found: dict[tuple[int, int], Cells] = {}  # of each pair of axes, the first across
    if len(view.points) > MOST_POINTS:
        lots = list(zip(view.points.T, ranges, strict=True))
        for i, j in combinations(range(len(lots)), 2):
            (x, x_range), (y, y_range) = lots[i], lots[j]
            found[i, j] = cells(x, y, x_range, y_range, view.classes)
    inside = _cells_drawn(found[0, 1], view.classes) if found else _points_drawn(view, ranges)
    # Where the script writes what is under the pointer; a screen reader says it.
    tip = tag("div", class_="tip", id="scores-tip", role="status", aria_live="polite", hidden=True)
    plot = tag("div", _picture(inside, view, ranges), tip, class_="plot")
    text = "The scores of a row are its coordinates along the components."
    if subject.fitted.detector is not None:
        text += " Alarms have a colour and a shape of their own."
    k = subject.fitted.k
    if len(view.axes) < k:
        text += f" The first {len(view.axes)} of {k} components can be chosen here."
    body = joined([_choice(view.axes), plot, _legend(view.classes)])
    whole = replace(view, caption=_caption(view, many=bool(found)))
    return [
        paragraph(text),
        figure(body, whole, id_=ID, class_="scores"),
        data_block(_data(subject, view, found), id_="scores-data"),
    ]


def _view(subject: Subject) -> views.Scores | None:
    """All components that can be chosen; None where no row has scores."""
    placed = subject.placed
    columns = subject.measured.scores[placed]
    many = len(columns) > MOST_POINTS
    with np.errstate(over="ignore"):
        # Single precision is what the script gets: both draw the same points.
        columns = columns[:, : CELL_AXES if many else None].astype(np.float32).astype(np.float64)
    if not np.isfinite(columns).all(axis=1).any():
        return None
    view = views.scores(
        columns,
        labels=subject.score_looks.taken(placed),
        components=range(columns.shape[1]),
        explained_variance_ratio=subject.fitted.shares,
        ids=subject.called_rows[placed] if _called(subject) else None,
        keep_infinite=False,
    )
    view = replace(view, rows=placed[view.rows])
    if len(view.axes) == 1:  # a single component is drawn over the rows
        along = np.column_stack([view.rows + 1.0, view.points[:, 0]])
        return replace(view, axes=("row", *view.axes), points=along)
    return view


def _called(subject: Subject) -> bool:
    """Whether rows have names, or numbers that do not simply count them."""
    return subject.ids is not None or subject.gaps.count > 0 or len(subject.placed) < subject.n


def _caption(view: views.Scores, *, many: bool) -> str:
    """What the picture shows: points, or cells where there are too many."""
    how = " Point at one, or use the arrow keys, to see what it is."
    if not many:
        return view.caption + how
    looks, grid = view.classes, f"{BINS} × {BINS}"
    text = f"Showing {count(len(view.points))} points as {grid} cells, each the stronger the more it holds"
    text += ", in the colour of its most frequent label." if looks.names else "."
    left = " None was left out."
    if view.left_out:
        left = f" {counted(view.left_out, 'row')} too far out to be computed are not drawn."
    return f"{text}{left}{how} {looks.remark}".rstrip()


# ── the picture ─────────────────────────────────────────────────────────────
def _picture(inside: Html, view: views.Scores, ranges: Ranges) -> Html:
    across, up = view.axes[:2]
    x, y = FRAME.across(*ranges[0]), FRAME.up(*ranges[1])
    return FRAME.drawing(
        FRAME.axes(x, y, x_label=across, y_label=up),
        tag("g", inside, class_="marks"),
        tag("path", d="", class_="cursor"),
        label=f"Scores: {up} against {across}",
        id_=ID,
        tabindex="0",
        class_="live",
    )


def _radius(n: int) -> float:
    return float(np.clip(90.0 / np.sqrt(n), 1.4, 4.0))


def _mark(x: Array, y: Array, r: float, code: int, looks: views.Classes, **more: Any) -> Html:
    return points(x, y, code, r, class_=f"mark {class_colour(looks, code)}", **more)


def _points_drawn(view: views.Scores, ranges: Ranges) -> Html:
    x, y = FRAME.across(*ranges[0])(view.points[:, 0]), FRAME.up(*ranges[1])(view.points[:, 1])
    r, looks = _radius(len(x)), view.classes
    marks = (_mark(x[own], y[own], r, code, looks, data_code=code) for code, own in looks.each())
    return joined(marks)


def _cells_drawn(found: Cells, looks: views.Classes) -> Html:
    paths = [
        tag("path", d=d, class_=f"cell {class_colour(looks, code)} l{level}", data_code=code)
        for code, level, d in cell_paths(found)
    ]
    # From cells, counted from the lower left, to pixels.
    wide = (FRAME.width - FRAME.left - FRAME.right) / BINS
    tall = (FRAME.height - FRAME.top - FRAME.bottom) / BINS
    corner = f"translate({FRAME.left} {FRAME.height - FRAME.bottom})"
    return tag("g", *paths, transform=f"{corner} scale({wide:.6g} -{tall:.6g})")


def cell_paths(found: Cells) -> Iterator[tuple[int, int, str]]:
    """For each class and level that occurs one path, in units of cells, from the bottom up.

    Neighbours in a row that look the same are one rectangle: it is shorter, and has no seams.
    """
    look = LEVELS * found.codes.astype(np.intp) + found.levels()  # (m,)
    for one in np.unique(look).tolist():
        places = found.places[look == one]
        first = np.flatnonzero(np.diff(places, prepend=-2) != 1)
        first = np.union1d(first, np.flatnonzero(places % BINS == 0))
        runs = np.diff(np.append(first, len(places)))
        lots = zip(places[first].tolist(), runs.tolist(), strict=True)
        d = "".join(f"M{place % BINS} {place // BINS}h{run}v1h-{run}z" for place, run in lots)
        yield one // LEVELS, one % LEVELS, d


# ── what stands around it ───────────────────────────────────────────────────
def _choice(names: tuple[str, ...]) -> Html:
    """Controls that choose two components; hidden until the script, which obeys them, shows them."""
    inside = []
    for chosen, (which, words) in enumerate([("x", "across"), ("y", "up")]):
        options = [
            tag("option", name, value=str(j), selected=j == chosen) for j, name in enumerate(names)
        ]
        inside.append(tag("label", words, " ", tag("select", *options, id=f"scores-{which}")))
    return tag("div", *inside, class_="controls", hidden=True)


def _legend(looks: views.Classes) -> Html | None:
    """Names with their looks; each is a switch."""
    if not looks.names:
        return None
    middle = np.array([7.0])
    entries = []
    for code, (name, n) in enumerate(zip(looks.names, looks.counts, strict=True)):
        mark = _mark(middle, middle, 4.0, code, looks)
        swatch = tag("svg", mark, viewBox="0 0 14 14", width="14", height="14", aria_hidden="true")
        words, many = tag("span", name, class_="name"), tag("span", count(n), class_="count")
        switch = tag(
            "button", swatch, words, many, type="button", aria_pressed="true", data_code=code
        )
        entries.append(tag("li", switch))
    return tag("ul", *entries, class_="legend", aria_label="Labels")


# ── for the script ──────────────────────────────────────────────────────────
def _data(
    subject: Subject, view: views.Scores, found: dict[tuple[int, int], Cells]
) -> dict[str, Any]:
    looks = view.classes
    shared: dict[str, Any] = {
        "n": len(view.points),
        "axes": list(view.axes),
        "classes": list(looks.names),
        "styles": [class_colour(looks, code) for code, _ in looks.each()],
        "frame": asdict(FRAME),
    }
    if found:
        kinds = {"places": "u2", "counts": "u4", "codes": "u1", "majority": "u4"}
        pairs = {}
        for (i, j), cell in found.items():
            lots = {name: packed(getattr(cell, name), kind) for name, kind in kinds.items()}
            pairs[f"{i},{j}"] = {"x": list(cell.x), "y": list(cell.y), **lots}
        return {**shared, "kind": "cells", "bins": BINS, "levels": LEVELS, "pairs": pairs}
    called = _called(subject) or view.left_out > 0
    return {
        **shared,
        "kind": "points",
        "radius": _radius(len(view.points)),
        "margin": MARGIN,
        "values": packed(view.points.T, "f4"),  # column after column
        "codes": packed(looks.codes, "u1"),
        "ids": [str(name) for name in subject.called_rows[view.rows]] if called else None,
        "labels": looks.texts,
    }
