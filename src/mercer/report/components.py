"""The components: how the variance is spread over them, and where each is positive, negative and zero."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots._axes import span
from mercer.plots.charts import MANY_BARS
from mercer.plots.contours import on_grid, reach
from mercer.report.drawing import Frame, address, bars, line, points
from mercer.report.evidence import how_sure
from mercer.report.markup import Html, figure, grid, joined, paragraph, tag
from mercer.report.shown import count, counted, number, power_of_ten, share

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.model import Fit
    from mercer.report.drawing import Scale
    from mercer.report.looks import Looks
    from mercer.report.subject import Subject

SPECTRUM, LEVELS = "spectrum-figure", "levels-figure"
MOST_LISTED = 50
ENOUGH = 0.95
ROOM_INSIDE = 22.0  # pixels: a number and a little air
SIDE = 96  # grid points along either column
MOST = 6  # components drawn
MARGIN = 0.15
BANDS = 10  # on either side of zero
MOST_POINTS = 2000  # above, points would cover what they lie on, and are left out
ABOVE, BELOW = (0, 114, 178), (213, 94, 0)


# ── the spectrum ────────────────────────────────────────────────────────────
def spectrum(subject: Subject) -> list[Any]:
    """Bars of the shares, and the eigenvalues in a table."""
    values = np.asarray(subject.projector.eigenvalues_, dtype=np.float64)  # (k,)
    fit = subject.fit
    total = float(values.sum()) if fit is None else float(fit.total)
    shares = np.maximum(values, 0.0) / total if total > 0 else np.zeros_like(values)
    running = np.minimum(np.cumsum(shares), 1.0)
    space = "of the columns" if subject.kernel is None else "in the feature space of the kernel"
    whole = "the whole variance, that of the components left out included"
    if fit is None:
        whole = "the variance of the kept components: this model does not know the whole"
    text = (
        f"Each component is a direction {space}; its eigenvalue is how much the training rows vary along it. "
        f"Shares are of {whole}."
    )
    sure = "" if fit is None else how_sure(fit)
    words = _words(shares, running, sure=sure, whole=fit is not None)
    table = _table(values, shares, running, fit)
    made = figure(_drawn(shares, running), words, id_=SPECTRUM, numbers=table)
    return [paragraph(text), made]


def _words(shares: Array, running: Array, *, sure: str, whole: bool) -> str:
    k = len(shares)
    text = f"{counted(k, 'component')}: the first holds {sure}{share(float(shares[0]))}"
    if k > 1:
        text += f", all together {sure}{share(float(running[-1]))} of the variance"
    elif whole:
        text += " of the variance"
    reached = np.flatnonzero(running >= ENOUGH * (1 - 1e-9))
    if not whole:
        return f"{text} that was kept."
    if len(reached) == 0:
        return f"{text}. {share(ENOUGH, 0)} is not reached."
    return f"{text}. {share(ENOUGH, 0)} is reached with {int(reached[0]) + 1}."


def _drawn(shares: Array, running: Array) -> Html:
    k, frame = len(shares), Frame()
    x, y = frame.across(0.5, k + 0.5), frame.up(0.0, 1.0)
    places = np.arange(1, k + 1)
    wide = 0.4 * min(1.0, k / 6) if k <= MANY_BARS else 0.5  # a single bar is no wall
    ticks = [(t, f"{t:g}") for t in x.ticks(12) if t == round(t) and 1 <= t <= k]
    parts: list[Any] = [
        frame.axes(
            x,
            y,
            x_label="component",
            y_label="share of the variance",
            x_ticks=ticks or [(1.0, "1")],
            y_ticks=[(t / 5, f"{20 * t} %") for t in range(6)],
        ),
        bars(x(places - wide), x(places + wide), y(shares), float(y(0.0)), class_="bar"),
        line(x(np.array([0.5, k + 0.5])), y(np.array([ENOUGH, ENOUGH])), class_="limit"),
        tag("text", share(ENOUGH, 0), x=frame.left + 4, y=f"{float(y(ENOUGH)) + 14:.1f}"),
        line(x(places), y(running), class_="curve"),
    ]
    if k <= MANY_BARS:
        parts.append(points(x(places), y(running), 0, 3.5, class_="on-curve"))
    if k <= 12:  # room for a number on each bar
        for at, top, value in zip(x(places), y(shares), shares, strict=True):
            # Inside a bar that is tall enough, for the line of sums runs above; above a low one.
            inside = float(y(0.0)) - top >= ROOM_INSIDE
            style = {"text_anchor": "middle", "class_": "value inside" if inside else "value"}
            height = f"{top + 16 if inside else top - 5:.1f}"
            parts.append(tag("text", share(value), x=f"{at:.1f}", y=height, **style))
    label = "Bars: share of the variance of each component. Line: their sum."
    return frame.drawing(*parts, label=label, id_=SPECTRUM)


def _table(values: Array, shares: Array, running: Array, fit: Fit | None) -> Html:
    head = ["component", "eigenvalue", "share", "sum of shares"]
    rows = [
        [i + 1, number(values[i], 6), share(shares[i], 2), share(running[i], 2)]
        for i in range(min(len(values), MOST_LISTED))
    ]
    if fit is not None:
        head += ["true value at least", "at most", "residual"]
        for row, (low, high), residual in zip(rows, fit.bounds, fit.residuals, strict=False):
            row += [number(low, 6), number(high, 6), power_of_ten(float(residual))]
    caption = "Eigenvalues"
    if len(values) > MOST_LISTED:
        caption += f": the first {MOST_LISTED} of {len(values)}"
    return grid(head, rows, caption=caption, texts=1)


# ── level sets ──────────────────────────────────────────────────────────────
def levels(subject: Subject) -> list[Any]:
    """A panel for each of the first components, or why there is none."""
    if subject.is_precomputed or subject.d != 2:
        return _no_levels(subject)
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
    caption = (
        f"Each component over {subject.names[0]} (across) and {subject.names[1]} (up): blue where it is "
        "positive, orange where it is negative, the line is zero."
    )
    if dots is None:
        caption += f" The {count(subject.n)} rows are not drawn on top: they would cover it."
    if shown < values.shape[2]:
        caption += f" The first {shown} of {values.shape[2]} components."
    return [figure(tag("div", *drawn, class_="panels"), caption, id_=LEVELS)]


def _no_levels(subject: Subject) -> list[Any]:
    """Why there is no picture, and the command that draws a slice, where there is one."""
    if subject.is_precomputed:
        text = (
            "The kernel is a matrix from a file: there are no columns to draw the components over."
        )
        return [paragraph(text)]
    if subject.image_shape is not None:
        text = "Rows are pictures: what a component changes in them is drawn below, as a picture."
        return [paragraph(text)]
    text = f"Level sets are drawn over two columns, and this model has {count(subject.d)}."
    pair, parts = subject.names[:2], [paragraph(text)]
    # A detector has a chart in place of levels.
    if subject.detector is None and subject.d > 2 and not any("," in name for name in pair):
        command = ["mercer", "plot", "levels", *subject.files, "--variables", ",".join(pair)]
        text = shlex.join([*command, "-o", "levels.png"])
        parts.append(tag("p", "A slice through them: ", tag("code", text)))
    return parts


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
    return frame.drawing(heading, inside, over, label=label, id_=LEVELS)


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
            parts.append(points(x(raw[mine, 0]), y(raw[mine, 1]), code, 1.6, class_=kind))
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
