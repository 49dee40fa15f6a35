"""Scores against each other: every row as a point, or cells with counts where rows are too many."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots._axes import span
from mercer.report.drawing import Frame, points
from mercer.report.markup import Html, data_block, figure, grid, joined, packed, paragraph, tag
from mercer.report.shown import count, counted, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mercer._core.types import Array, Indices
    from mercer.report.looks import Looks
    from mercer.report.subject import Subject

BINS = 160  # along either side
LEVELS = 6  # strengths of colour
MOST_LISTED = 20
MOST_POINTS = 20_000  # above, points are counted in cells
CELL_AXES = 4  # components whose pairs are counted: six pairs
FRAME = Frame(width=720, height=520, left=68, right=16, top=14, bottom=48)
MARGIN = 0.04
ID = "scores-figure"


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows of the picture: all whose scores are numbers."""

    names: list[str]  # of what can be chosen for either axis
    columns: Array  # (m, c)
    looks: Looks  # of the m rows
    rows: Indices  # (m,): their positions among all
    far: int  # rows that are left out, for their scores are infinite

    @property
    def many(self) -> bool:
        """Whether points are counted in cells."""
        return len(self.columns) > MOST_POINTS

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """What each axis spans."""
        return [span(column, MARGIN) for column in self.columns.T]


def scores(subject: Subject) -> list[Any]:
    """The picture, its legend, the choice of components, and the data of all this for the script."""
    drawn = _drawn(subject)
    if len(drawn.rows) == 0:
        text = (
            "All rows lie so far out that their scores can't be computed: there is nothing to draw."
        )
        return [paragraph(text)]
    found = _all_cells(drawn) if drawn.many else {}
    inside = _cells_drawn(found[0, 1], drawn.looks) if found else _points_drawn(drawn)
    # Where the script writes what is under the pointer; whoever can't see it hears it.
    tip = tag("div", class_="tip", id="scores-tip", role="status", aria_live="polite", hidden=True)
    plot = tag("div", _picture(inside, drawn), tip, class_="plot")
    text = "The scores of a row are its coordinates along the components."
    if len(drawn.names) < subject.k:
        text += f" The first {len(drawn.names)} of {subject.k} components can be chosen here."
    return [
        paragraph(text),
        figure(
            joined([_choice(drawn.names), plot, _legend(subject.looks)]),
            _caption(drawn),
            id_=ID,
            numbers=_table(subject),
            class_="scores",
        ),
        data_block(_data(subject, drawn, found), id_="scores-data"),
    ]


def _drawn(subject: Subject) -> Drawn:
    columns, looks = subject.measured.scores, subject.looks
    names = [f"component {j + 1}" for j in range(columns.shape[1])]
    if len(names) == 1:  # a single component is drawn over the rows
        along = np.arange(1, len(columns) + 1)
        names, columns = ["row", *names], np.column_stack([along, columns[:, 0]])
    if len(columns) > MOST_POINTS:
        names, columns = names[:CELL_AXES], columns[:, :CELL_AXES]
    with np.errstate(over="ignore"):
        # Single precision is what the script gets: both draw the same points.
        columns = columns.astype(np.float32).astype(np.float64)
    rows = np.flatnonzero(np.isfinite(columns).all(axis=1))
    far = len(columns) - len(rows)
    return Drawn(names, columns[rows], looks.taken(rows) if far else looks, rows, far)


def _caption(drawn: Drawn) -> str:
    n, names, looks = len(drawn.rows), drawn.names, drawn.looks
    if drawn.many:
        text = f"Showing {count(n)} points as {BINS} × {BINS} cells, each the stronger the more it holds"
        text += ", in the colour of its most frequent label." if looks.names else "."
    else:
        text = f"{names[1].capitalize()} against {names[0]}: {counted(n, 'row')}, each a point."
    if drawn.far:
        text += f" {counted(drawn.far, 'row')} too far out to be computed are not drawn."
    elif drawn.many:
        text += " None was left out."
    text += " Point at one, or use the arrow keys, to see what it is."
    return f"{text} {looks.remark}".rstrip()


# ── the picture ─────────────────────────────────────────────────────────────
def _picture(inside: Html, drawn: Drawn) -> Html:
    across, up = drawn.names[:2]
    x, y = FRAME.across(*drawn.ranges[0]), FRAME.up(*drawn.ranges[1])
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
    """Of a point: fewer are larger."""
    return float(np.clip(90.0 / np.sqrt(n), 1.4, 4.0))


def _mark(x: Array, y: Array, r: float, code: int, looks: Looks, **more: Any) -> Html:
    return points(x, y, code, r, class_=f"mark {looks.colour(code)}", **more)


def _points_drawn(drawn: Drawn) -> Html:
    x = FRAME.across(*drawn.ranges[0])(drawn.columns[:, 0])
    y = FRAME.up(*drawn.ranges[1])(drawn.columns[:, 1])
    r, looks = _radius(len(x)), drawn.looks
    return joined(
        _mark(x[mine], y[mine], r, code, looks, data_code=code) for code, mine in looks.each()
    )


# ── what stands around it ───────────────────────────────────────────────────
def _choice(names: list[str]) -> Html:
    """Which two components; the script shows it, for without it nothing would happen."""

    def chooser(which: str, words: str, chosen: int) -> Html:
        options = [
            tag("option", name, value=str(j), selected=j == chosen) for j, name in enumerate(names)
        ]
        return tag("label", words, " ", tag("select", *options, id=f"scores-{which}"))

    inside = [chooser("x", "across", 0), chooser("y", "up", 1)]
    return tag("div", *inside, class_="controls", hidden=True)


def _legend(looks: Looks) -> Html | None:
    """Names with their looks; each is a switch."""
    if not looks.names:
        return None
    middle = np.array([7.0])
    box = {"viewBox": "0 0 14 14", "width": "14", "height": "14", "aria_hidden": "true"}
    switch = {"type": "button", "aria_pressed": "true"}
    entries = []
    for code, (name, n) in enumerate(zip(looks.names, looks.counts, strict=True)):
        swatch = tag("svg", _mark(middle, middle, 4.0, code, looks), **box)
        words, many = tag("span", name, class_="name"), tag("span", count(n), class_="count")
        entries.append(tag("li", tag("button", swatch, words, many, **switch, data_code=code)))
    return tag("ul", *entries, class_="legend", aria_label="Labels")


def _table(subject: Subject) -> Html:
    """The first rows, and the mean score of each label."""
    looks, scores = subject.looks, subject.measured.scores[:, :4]
    heads = [f"component {j + 1}" for j in range(scores.shape[1])]
    shown, title = min(subject.n, MOST_LISTED), "Scores"
    if shown < subject.n:
        title = f"Scores of the first {shown} of {count(subject.n)} rows"
    first, called = [subject.row_name], [[subject.id_of(i)] for i in range(shown)]
    if looks.names:
        texts = looks.texts or [looks.names[code] for code in looks.codes[:shown]]
        called = [[*name, text] for name, text in zip(called, texts, strict=False)]
        first.append("label")
    rows = [[*name, *map(number, row)] for name, row in zip(called, scores, strict=False)]
    tables = [grid([*first, *heads], rows, caption=title, texts=len(first))]
    if looks.names:
        means = [
            [looks.names[code], count(mine.sum()), *map(number, scores[mine].mean(axis=0))]
            for code, mine in looks.each()
            if mine.any()
        ]
        tables.append(grid(["label", "rows", *heads], means, caption="Mean scores of each label"))
    return joined(tables)


# ── too many points: cells ──────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a grid that hold anything."""

    x: tuple[float, float]  # the range across, of all cells
    y: tuple[float, float]
    places: Indices  # (m,): row * BINS + column, rows from the bottom
    counts: Indices  # (m,)
    codes: NDArray[np.uint8]  # (m,): the most frequent label; the first of several
    majority: Indices  # (m,): how many have it

    def levels(self) -> Indices:  # (m,)
        """How strong each is drawn: by the logarithm of its count, for counts differ by thousands."""
        most = max(int(self.counts.max()), 2)
        level = np.floor(LEVELS * np.log(self.counts) / np.log(most))
        return np.minimum(level, LEVELS - 1).astype(np.intp)

    def paths(self) -> Iterator[tuple[int, int, str]]:
        """For each label and level that occurs one path, in units of cells, from the bottom up.

        Neighbours in a row that look the same are one rectangle: it is shorter, and has no seams.
        """
        look = LEVELS * self.codes.astype(np.intp) + self.levels()  # (m,)
        for one in np.unique(look).tolist():
            places = self.places[look == one]
            first = np.flatnonzero(np.diff(places, prepend=-2) != 1)
            first = np.union1d(first, np.flatnonzero(places % BINS == 0))
            runs = np.diff(np.append(first, len(places)))
            lots = zip(places[first].tolist(), runs.tolist(), strict=True)
            d = "".join(f"M{place % BINS} {place // BINS}h{run}v1h-{run}z" for place, run in lots)
            yield one // LEVELS, one % LEVELS, d

    def data(self) -> dict[str, Any]:
        """For the script."""
        kinds = {"places": "u2", "counts": "u4", "codes": "u1", "majority": "u4"}
        lots = {name: packed(getattr(self, name), kind) for name, kind in kinds.items()}
        return {"x": list(self.x), "y": list(self.y), **lots}


def cells(
    x: Array, y: Array, x_range: tuple[float, float], y_range: tuple[float, float], looks: Looks
) -> Cells:
    """Count n points in a grid, and the labels in each cell."""
    place = BINS * _bin(y, y_range) + _bin(x, x_range)  # (n,)
    counts = np.bincount(place, minlength=BINS * BINS)
    best, majority = np.zeros(BINS * BINS, dtype=np.uint8), np.zeros_like(counts)
    for code, mine in looks.each():
        own = np.bincount(place[mine], minlength=BINS * BINS)
        more = own > majority
        best[more], majority[more] = code, own[more]
    some = np.flatnonzero(counts)
    return Cells(x_range, y_range, some, counts[some], best[some], majority[some])


def _bin(values: Array, ends: tuple[float, float]) -> Indices:
    low, high = ends
    return np.clip(np.floor(BINS * (values - low) / (high - low)), 0, BINS - 1).astype(np.intp)


def _all_cells(drawn: Drawn) -> dict[tuple[int, int], Cells]:
    """Cells of each pair of axes, the first across."""
    columns, ranges = drawn.columns.T, drawn.ranges
    return {
        (i, j): cells(columns[i], columns[j], ranges[i], ranges[j], drawn.looks)
        for i, j in combinations(range(len(columns)), 2)
    }


def _cells_drawn(found: Cells, looks: Looks) -> Html:
    paths = [
        tag("path", d=d, class_=f"cell {looks.colour(code)} l{level}", data_code=code)
        for code, level, d in found.paths()
    ]
    # From cells, counted from the lower left, to pixels.
    wide = (FRAME.width - FRAME.left - FRAME.right) / BINS
    tall = (FRAME.height - FRAME.top - FRAME.bottom) / BINS
    corner = f"translate({FRAME.left} {FRAME.height - FRAME.bottom})"
    return tag("g", *paths, transform=f"{corner} scale({wide:.6g} -{tall:.6g})")


# ── for the script ──────────────────────────────────────────────────────────
def _data(subject: Subject, drawn: Drawn, found: dict[tuple[int, int], Cells]) -> dict[str, Any]:
    looks, n = drawn.looks, len(drawn.rows)
    shared: dict[str, Any] = {
        "n": n,
        "axes": drawn.names,
        "classes": list(looks.names),
        "styles": [looks.colour(code) for code, _ in looks.each()],
        "frame": asdict(FRAME),
    }
    if found:
        pairs = {f"{i},{j}": cell.data() for (i, j), cell in found.items()}
        return {**shared, "kind": "cells", "bins": BINS, "levels": LEVELS, "pairs": pairs}
    called = subject.ids is not None or drawn.far > 0
    return {
        **shared,
        "kind": "points",
        "radius": _radius(n),
        "margin": MARGIN,
        "values": packed(drawn.columns.T, "f4"),  # column after column
        "codes": packed(looks.codes, "u1"),
        "ids": [subject.id_of(row) for row in drawn.rows.tolist()] if called else None,
        "labels": None if looks.texts is None else list(looks.texts),
    }
