"""Components as functions over two columns: where each is positive, negative and zero."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.contours import on_grid, reach
from mercer.report.looks import shape
from mercer.report.markup import Html, figure, joined, paragraph, tag
from mercer.report.png import address
from mercer.report.shown import count, number, span
from mercer.report.svg import Frame, points

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.report.looks import Looks
    from mercer.report.subject import Subject
    from mercer.report.svg import Scale

ID = "levels-figure"
SIDE = 96  # grid points along either column
MOST = 6  # components drawn
MARGIN = 0.15
BANDS = 10  # on either side of zero
MOST_POINTS = 2000  # above, points would cover what they lie on, and are left out
ABOVE, BELOW = (0, 114, 178), (213, 94, 0)


def levels(subject: Subject) -> list[Any]:
    """A panel for each of the first components, or why there is none."""
    if subject.is_precomputed or subject.d != 2:
        return [paragraph(_why_not(subject)), _instead(subject)]
    raw = subject.raw(subject.rows[0 : subject.n])  # (n, 2)
    frame = Frame(width=340, height=300, left=46, right=10, top=30, bottom=26)
    across, up = (span(column, MARGIN) for column in raw.T)
    x, y = frame.across(*across), frame.up(*up)
    sides = (np.linspace(scale.low, scale.high, SIDE) for scale in (x, y))
    values = on_grid(lambda grid: subject.scores(subject.prepared(grid)), *sides)  # (side², k)
    values = values.reshape(SIDE, SIDE, -1).astype(np.float64)
    shown = min(values.shape[2], MOST)
    # What lies over the colours of every panel: the rows and the numbers along the sides.
    dots = _dots(raw, subject.looks, x, y) if len(raw) <= MOST_POINTS else None
    over = joined([dots, _ticks(frame, x, y)])
    drawn = [_panel(subject.names, j, values[:, :, j], frame, over) for j in range(shown)]
    caption = _caption(subject, shown, values.shape[2])
    return [figure(tag("div", *drawn, class_="panels"), caption, id_=ID)]


def _why_not(subject: Subject) -> str:
    if subject.is_precomputed:
        return (
            "The kernel is a matrix from a file: there are no columns to draw the components over."
        )
    if subject.image_shape is not None:
        return "Rows are pictures: what a component changes in them is drawn below, as a picture."
    return f"Level sets are drawn over two columns, and this model has {count(subject.d)}."


def _instead(subject: Subject) -> Html | None:
    """The command that draws a slice, where there is one: a detector has a chart in place of levels."""
    pair = subject.names[:2]
    has_slices = subject.detector is None and subject.image_shape is None and subject.d > 2
    if subject.is_precomputed or not has_slices or any("," in name for name in pair):
        return None
    command = ["mercer", "plot", "levels", *subject.files, "--variables", ",".join(pair)]
    text = shlex.join([*command, "-o", "levels.png"])
    return tag("p", "A slice through them: ", tag("code", text))


def _caption(subject: Subject, shown: int, k: int) -> str:
    text = (
        f"Each component over {subject.names[0]} (across) and {subject.names[1]} (up): blue where it is "
        "positive, orange where it is negative, the line is zero."
    )
    if subject.n > MOST_POINTS:
        text += f" The {count(subject.n)} rows are not drawn on top: they would cover it."
    if shown < k:
        text += f" The first {shown} of {k} components."
    return text


def _panel(names: tuple[str, ...], component: int, values: Array, frame: Frame, over: Html) -> Html:
    image = tag("image", href=address(_colours(values)), width=SIDE, height=SIDE)
    zero = tag("path", d=_contour(values), class_="zero", vector_effect="non-scaling-stroke")
    # An svg of its own: half a pixel of the picture is cut off on every side, so that the first and the last
    # grid points lie on the edges.
    inside = tag(
        "svg",
        image,
        zero,
        x=frame.left,
        y=frame.top,
        width=frame.width - frame.left - frame.right,
        height=frame.height - frame.top - frame.bottom,
        viewBox=f"0.5 0.5 {SIDE - 1} {SIDE - 1}",
        preserveAspectRatio="none",
        class_="inside",
    )
    title = f"component {component + 1}"
    heading = tag("text", title, x=frame.left, y=18, class_="panel-title")
    most = number(float(np.abs(values).max()))
    label = f"{title} as a function of {names[0]} and {names[1]}, at most {most} in size"
    return frame.drawing(heading, inside, over, label=label, id_=ID)


def _ticks(frame: Frame, x: Scale, y: Scale) -> Html:
    bottom = frame.height - frame.bottom
    parts = [
        tag("text", number(t, 3), x=f"{float(x(t)):.1f}", y=bottom + 16, text_anchor="middle")
        for t in x.ticks(5)
    ]
    parts += [
        tag("text", number(t, 3), x=frame.left - 6, y=f"{float(y(t)) + 4:.1f}", text_anchor="end")
        for t in y.ticks(5)
    ]
    return tag("g", *parts)


def _dots(raw: Array, looks: Looks, x: Scale, y: Scale) -> Html:
    parts = []
    for code, mine in looks.each():
        if mine.any():
            kind = f"on-levels {looks.colour(code) if looks.names else 'ink'}"
            parts.append(points(x(raw[mine, 0]), y(raw[mine, 1]), shape(code), 1.6, class_=kind))
    return tag("g", *parts)


def _colours(values: Array) -> Any:  # (s, s) -> (s, s, 4)
    """Blue above zero and orange below, the more opaque the farther: it works on white and on black."""
    band = np.minimum(np.ceil(BANDS * np.abs(values) / reach(values)), BANDS)  # (s, s)
    out = np.empty((*values.shape, 4), dtype=np.uint8)
    out[..., :3] = np.where((values > 0)[..., None], ABOVE, BELOW)
    out[..., 3] = np.rint(215 * band / BANDS).astype(np.uint8)
    return out[::-1]  # pictures begin at the top


def _contour(values: Array) -> str:
    """The zero line by marching squares, in pixels of the picture; a saddle is joined by its middle."""
    v = values[::-1]  # (s, s), from the top
    positive = v > 0
    rows, cols = np.nonzero(
        (positive[:-1, :-1] != positive[1:, 1:])
        | (positive[:-1, 1:] != positive[1:, :-1])
        | (positive[:-1, :-1] != positive[:-1, 1:])
    )
    out = []
    for i, j in zip(rows.tolist(), cols.tolist(), strict=True):
        out += _segments(v[i : i + 2, j : j + 2], i, j)
    return "".join(f"M{a:.2f} {b:.2f}L{c:.2f} {d:.2f}" for a, b, c, d in out)


def _segments(cell: Array, i: int, j: int) -> list[tuple[float, float, float, float]]:
    corners = [(0, 0), (0, 1), (1, 1), (1, 0)]  # row, column, around the square
    crossings = []
    for one, two in zip(corners, corners[1:] + corners[:1], strict=True):
        a, b = float(cell[one]), float(cell[two])
        if (a > 0) != (b > 0):
            t = a / (a - b)
            crossings.append(
                (j + 0.5 + one[1] + t * (two[1] - one[1]), i + 0.5 + one[0] + t * (two[0] - one[0]))
            )
    # A saddle: two corners are cut off, the second and the fourth where the middle is like the first.
    if len(crossings) == 4 and (float(cell.mean()) > 0) != (float(cell[0, 0]) > 0):
        crossings = crossings[3:] + crossings[:3]
    return [(*a, *b) for a, b in zip(crossings[::2], crossings[1::2], strict=True)]
