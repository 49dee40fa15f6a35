"""Scores against each other: every row as a point, or cells with counts where rows are too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.report.looks import shape
from mercer.report.markup import Html, data_block, grid, joined, paragraph, tag
from mercer.report.png import packed
from mercer.report.section import Section, described, figure
from mercer.report.shown import count, counted, finite_range, number
from mercer.report.svg import Frame, points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mercer._core.types import Array, Indices
    from mercer.report.looks import Looks
    from mercer.report.measure import Measured
    from mercer.report.subject import Subject


BINS = 160  # along either side
LEVELS = 6  # strengths of colour


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
        level = self.levels()
        look = LEVELS * self.codes.astype(np.intp) + level  # (m,)
        for one in np.unique(look).tolist():
            places = self.places[look == one]
            first = np.flatnonzero(np.diff(places, prepend=-2) != 1)
            first = np.union1d(first, np.flatnonzero(places % BINS == 0))
            runs = np.diff(np.append(first, len(places)))
            lots = zip(
                (places[first] % BINS).tolist(),
                (places[first] // BINS).tolist(),
                runs.tolist(),
                strict=True,
            )
            yield one // LEVELS, one % LEVELS, "".join(f"M{a} {b}h{c}v1h-{c}z" for a, b, c in lots)

    def data(self) -> dict[str, Any]:
        """For the script."""
        return {
            "x": list(self.x),
            "y": list(self.y),
            "places": packed(self.places, "u2"),
            "counts": packed(self.counts, "u4"),
            "codes": packed(self.codes, "u1"),
            "majority": packed(self.majority, "u4"),
        }


def cells(
    x: Array, y: Array, x_range: tuple[float, float], y_range: tuple[float, float], looks: Looks
) -> Cells:
    """Count n points in a grid, and the labels in each cell."""
    place = BINS * _bin(y, y_range) + _bin(x, x_range)  # (n,)
    counts = np.bincount(place, minlength=BINS * BINS)
    best, majority = np.zeros(BINS * BINS, dtype=np.uint8), np.zeros_like(counts)
    for code in range(max(1, len(looks.names))):
        own = np.bincount(place[looks.codes == code], minlength=BINS * BINS)
        more = own > majority
        best[more], majority[more] = code, own[more]
    some = np.flatnonzero(counts)
    return Cells(x_range, y_range, some, counts[some], best[some], majority[some])


def _bin(values: Array, ends: tuple[float, float]) -> Indices:
    low, high = ends
    return np.clip(np.floor(BINS * (values - low) / (high - low)), 0, BINS - 1).astype(np.intp)


MOST_LISTED = 20


def choice(names: list[str]) -> Html:
    """Which two components; the script shows it, for without it nothing would happen."""

    def chooser(which: str, words: str, chosen: int) -> Html:
        options = [
            tag("option", name, value=str(j), selected=j == chosen) for j, name in enumerate(names)
        ]
        return tag("label", words, " ", tag("select", *options, id=f"scores-{which}"))

    inside = [chooser("x", "across", 0), chooser("y", "up", 1)]
    return tag("div", *inside, class_="controls", hidden=True)


def tip() -> Html:
    """Where the script writes what is under the pointer; whoever can't see it hears it."""
    return tag("div", class_="tip", id="scores-tip", role="status", aria_live="polite", hidden=True)


def legend(looks: Looks) -> Html | None:
    """Names with their looks; each is a switch."""
    if not looks.names:
        return None
    entries = []
    for code, (name, n) in enumerate(zip(looks.names, looks.counts, strict=True)):
        swatch = tag(
            "svg",
            points(
                np.array([7.0]),
                np.array([7.0]),
                shape(code),
                4.0,
                class_=f"mark {looks.colour(code)}",
            ),
            viewBox="0 0 14 14",
            width="14",
            height="14",
            aria_hidden="true",
        )
        words = tag("span", name, class_="name")
        many = tag("span", count(n), class_="count")
        button = tag(
            "button", swatch, words, many, type="button", aria_pressed="true", data_code=code
        )
        entries.append(tag("li", button))
    return tag("ul", *entries, class_="legend", aria_label="Labels")


def table(subject: Subject, measured: Measured, looks: Looks) -> Html:
    """The first rows, and the mean score of each label."""
    c = min(measured.scores.shape[1], 4)
    heads = [f"component {j + 1}" for j in range(c)]
    shown = min(subject.n, MOST_LISTED)
    rows = []
    for i in range(shown):
        label = [] if not looks.names else [_label_of(looks, i)]
        rows.append([subject.id_of(i), *label, *map(number, measured.scores[i, :c].tolist())])
    title = (
        "Scores"
        if shown == subject.n
        else f"Scores of the first {shown} of {count(subject.n)} rows"
    )
    first = [subject.row_name, *(["label"] if looks.names else [])]
    tables = [grid([*first, *heads], rows, caption=title, texts=len(first))]
    if looks.names:
        means = [
            [name, count(n), *map(number, measured.scores[looks.codes == code, :c].mean(axis=0))]
            for code, (name, n) in enumerate(zip(looks.names, looks.counts, strict=True))
            if n
        ]
        tables.append(grid(["label", "rows", *heads], means, caption="Mean scores of each label"))
    return joined(tables)


def _label_of(looks: Looks, row: int) -> str:
    if looks.texts is not None:
        return looks.texts[row]
    return looks.names[int(looks.codes[row])]


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


def scores(subject: Subject, measured: Measured, looks: Looks) -> Section:
    """The section: picture, legend, choice of components, and the data of all this for the script."""
    drawn = _drawn(measured, looks)
    if len(drawn.rows) == 0:
        text = (
            "All rows lie so far out that their scores can't be computed: there is nothing to draw."
        )
        return Section("scores", "Scores", [paragraph(text)])
    first = (0, 1)
    found = _all_cells(drawn) if drawn.many else {}
    inside = _cells_drawn(found[first], looks) if found else _points_drawn(drawn)
    picture = _picture(inside, drawn.names, [_range(drawn.columns[:, j]) for j in first])
    parts = [
        paragraph(_meaning(subject, drawn)),
        figure(
            joined([choice(drawn.names), tag("div", picture, tip(), class_="plot"), legend(looks)]),
            _caption(drawn),
            id_=ID,
            numbers=table(subject, measured, looks),
            class_="scores",
        ),
        data_block(_data(subject, drawn, found), id_="scores-data"),
    ]
    return Section("scores", "Scores", parts)


def _drawn(measured: Measured, looks: Looks) -> Drawn:
    names, columns = _axes(measured.scores)
    if len(columns) > MOST_POINTS:
        names, columns = names[:CELL_AXES], columns[:, :CELL_AXES]
    with np.errstate(over="ignore"):
        # Single precision is what the script gets: both draw the same points.
        columns = columns.astype(np.float32).astype(np.float64)
    rows = np.flatnonzero(np.isfinite(columns).all(axis=1))
    far = len(columns) - len(rows)
    return Drawn(names, columns[rows], looks.taken(rows) if far else looks, rows, far)


def _axes(scores: Array) -> tuple[list[str], Array]:
    """What can be chosen for either axis; a single component is drawn over the rows."""
    c = scores.shape[1]
    names = [f"component {j + 1}" for j in range(c)]
    if c > 1:
        return names, scores
    rows = np.arange(1, len(scores) + 1, dtype=np.float64)
    return ["row", *names], np.column_stack([rows, scores[:, 0]])


def _meaning(subject: Subject, drawn: Drawn) -> str:
    shown, k = len(drawn.names), subject.k
    text = "The scores of a row are its coordinates along the components."
    if shown < k:
        text += f" The first {shown} of {k} components can be chosen here."
    return text


def _caption(drawn: Drawn) -> Html:
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
    return joined([text, f" {looks.remark}" if looks.remark else None])


# ── the picture ─────────────────────────────────────────────────────────────
def _range(values: Array) -> tuple[float, float]:
    low, high = finite_range(values)
    pad = MARGIN * (high - low)
    return low - pad, high + pad


def _picture(inside: Html, names: list[str], ranges: list[tuple[float, float]]) -> Html:
    x, y = FRAME.across(*ranges[0]), FRAME.up(*ranges[1])
    axes = FRAME.axes(x, y, x_label=names[0], y_label=names[1])
    cursor = tag("path", d="", class_="cursor")
    label = f"Scores: {names[1]} against {names[0]}"
    return FRAME.drawing(
        axes,
        tag("g", inside, class_="marks"),
        cursor,
        label=label,
        described_by=described(ID),
        tabindex="0",
        class_="live",
    )


def radius(n: int) -> float:
    """Of a point: fewer are larger."""
    return float(np.clip(90.0 / np.sqrt(n), 1.4, 4.0))


def _points_drawn(drawn: Drawn) -> Html:
    columns, looks = drawn.columns, drawn.looks
    x = FRAME.across(*_range(columns[:, 0]))(columns[:, 0])
    y = FRAME.up(*_range(columns[:, 1]))(columns[:, 1])
    parts = []
    for code in range(max(1, len(looks.names))):
        mine = looks.codes == code
        parts.append(
            points(
                x[mine],
                y[mine],
                shape(code),
                radius(len(x)),
                class_=f"mark {looks.colour(code)}",
                data_code=code,
            )
        )
    return joined(parts)


def _cells_drawn(found: Cells, looks: Looks) -> Html:
    paths = [
        tag("path", d=d, class_=f"cell {looks.colour(code)} l{level}", data_code=code)
        for code, level, d in found.paths()
    ]
    return tag("g", *paths, transform=cell_units())


def cell_units() -> str:
    """From cells, counted from the lower left, to pixels."""
    wide = (FRAME.width - FRAME.left - FRAME.right) / BINS
    tall = (FRAME.height - FRAME.top - FRAME.bottom) / BINS
    return f"translate({FRAME.left} {FRAME.height - FRAME.bottom}) scale({wide:.6g} -{tall:.6g})"


def _all_cells(drawn: Drawn) -> dict[tuple[int, int], Cells]:
    """Cells of each pair of axes, the first across."""
    columns, looks = drawn.columns, drawn.looks
    c = columns.shape[1]
    ranges = [_range(columns[:, j]) for j in range(c)]
    return {
        (i, j): cells(columns[:, i], columns[:, j], ranges[i], ranges[j], looks)
        for i in range(c)
        for j in range(i + 1, c)
    }


# ── for the script ──────────────────────────────────────────────────────────
def _data(subject: Subject, drawn: Drawn, found: dict[tuple[int, int], Cells]) -> dict[str, Any]:
    looks, n = drawn.looks, len(drawn.rows)
    sides = ("width", "height", "left", "right", "top", "bottom")
    shared: dict[str, Any] = {
        "n": n,
        "axes": drawn.names,
        "classes": list(looks.names),
        "styles": [looks.colour(code) for code in range(max(1, len(looks.names)))],
        "frame": {side: getattr(FRAME, side) for side in sides},
    }
    if found:
        pairs = {f"{i},{j}": cell.data() for (i, j), cell in found.items()}
        return {**shared, "kind": "cells", "bins": BINS, "levels": LEVELS, "pairs": pairs}
    called = subject.ids is not None or drawn.far > 0
    return {
        **shared,
        "kind": "points",
        "radius": radius(n),
        "margin": MARGIN,
        "values": packed(drawn.columns.T, "f4"),  # column after column
        "codes": packed(looks.codes, "u1"),
        "ids": [subject.id_of(row) for row in drawn.rows.tolist()] if called else None,
        "labels": None if looks.texts is None else list(looks.texts),
    }
