"""Sections whose views are drawn as SVG: spectrum, level sets, and what the components keep."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from mercer import views
from mercer._core.errors import MercerError
from mercer._core.types import Array
from mercer.report.drawing import Frame, address, bars, class_colour, greys, line, points, strokes
from mercer.report.markup import Html, figure, joined, paragraph, tag
from mercer.report.subject import Subject
from mercer.views.sheets import changes
from mercer.views.variance import MANY_BARS
from mercer.views.wording import count, few, number, share, short

SPECTRUM, LEVELS = "spectrum-figure", "levels-figure"
MISSED, COLUMNS = "missed-figure", "columns-figure"
ROOM_INSIDE = 22.0  # pixels: a number and a little air
BANDS = 10  # on either side of zero
MOST_POINTS = 2000  # above, points would cover what they lie on, and are left out
MOST_PIXELS = 128 * 128  # of a picture in the page
ABOVE, BELOW = (27, 120, 55), (118, 42, 131)  # no colour of a class


# ── the spectrum ────────────────────────────────────────────────────────────
def spectrum(subject: Subject) -> list[Any]:
    """Bars of the shares, and the eigenvalues in a table."""
    fitted = subject.fitted
    view = views.spectrum(fitted.model if fitted.detector is None else fitted.projector)
    space = "of the columns" if fitted.kernel is None else "in the feature space of the kernel"
    whole = "the total variance, including that of the components left out"
    if not view.whole:
        whole = "the variance of the kept components: this model does not know the whole"
    text = f"Each component is a direction {space}; its eigenvalue is how much the training rows "
    text += f"vary along it. Shares are of {whole}."
    return [paragraph(text), figure(_spectrum(view), view, id_=SPECTRUM)]


def _spectrum(view: views.Spectrum) -> Html:
    k, frame, shares = len(view.shares), Frame(height=280), view.shares
    x, y = frame.across(0.5, k + 0.5), frame.up(0.0, 1.0)
    places = np.arange(1, k + 1)
    wide = 0.4 * min(1.0, k / 6) if k <= MANY_BARS else 0.5  # a single bar is no wall
    ticks = [(t, f"{t:g}") for t in x.ticks(12) if t == round(t) and 1 <= t <= k]
    parts: list[Any] = [
        frame.axes(
            x,
            y,
            x_label=view.axes[0],
            y_label=view.axes[1].replace(" (%)", ""),
            x_ticks=ticks or [(1.0, "1")],
            y_ticks=[(t / 5, f"{20 * t} %") for t in range(6)],
        ),
        bars(x(places - wide), x(places + wide), y(shares), float(y(0.0)), class_="bar"),
        line(x(np.array([0.5, k + 0.5])), y(np.full(2, view.enough)), class_="limit"),
        tag("text", share(view.enough, 0), x=frame.left + 4, y=f"{float(y(view.enough)) + 14:.1f}"),
        line(x(places), y(view.running), class_="curve"),
    ]
    if view.bounds is not None and view.shows_bounds:
        low, high = view.bounds.T
        parts.append(strokes(x(places), y(low), y(high), class_="limit"))
    if k <= MANY_BARS:
        parts.append(points(x(places), y(view.running), 0, 3.5, class_="on-curve"))
    if k <= 12:  # room for a number on each bar
        for at, top, value in zip(x(places), y(shares), shares, strict=True):
            # Inside a bar that is tall enough, for the line of sums runs above; above a low one.
            inside = float(y(0.0)) - top >= ROOM_INSIDE
            height, class_ = (top + 16, "value inside") if inside else (top - 5, "value")
            text = tag(
                "text",
                share(value),
                x=f"{at:.1f}",
                y=f"{height:.1f}",
                text_anchor="middle",
                class_=class_,
            )
            parts.append(text)
    label = "Bars: share of the variance of each component. Line: their sum."
    return frame.drawing(*parts, label=label, id_=SPECTRUM)


# ── level sets ──────────────────────────────────────────────────────────────
def levels(subject: Subject) -> list[Any]:
    """A panel for each of the first components of two columns; nothing for other models."""
    fitted = subject.fitted
    if fitted.is_precomputed or fitted.d != 2 or fitted.detector is not None:
        return []
    rows = subject.rows[0 : subject.n]  # (n, 2)
    shown = range(min(fitted.k, 6))
    view = views.levels(
        fitted.model,
        rows,
        component=shown,
        names=subject.names,
        preparation=fitted.preparation,
    )
    frame = Frame(width=340, height=300, left=46, right=10, top=30, bottom=26)
    # What lies over the colours of every panel: the rows and the numbers along the sides.
    over = _over(view, frame, subject.looks)
    panels = [_panel(view, i, frame, over) for i in range(len(view.titles))]
    caption = f"{view.caption} Green is positive, purple negative."
    if subject.n > MOST_POINTS:
        caption += f" The {count(subject.n)} rows are not drawn on top: they would cover it."
    if len(shown) < fitted.k:
        caption += f" The first {len(shown)} of {fitted.k} components."
    body = tag("div", *panels, class_="panels")
    return [figure(body, replace(view, caption=caption), id_=LEVELS)]


def _panel(view: views.Levels, i: int, frame: Frame, over: Html) -> Html:
    x, y = frame.scales(view.across, view.up)
    values, side = view.values[i], view.values.shape[1]
    image = tag("image", href=address(_colours(values, view.reach[i])), width=side, height=side)
    # An svg of its own: half a pixel of the picture is cut off on every side, so that the first and the last
    # grid points lie on the edges.
    across, up = frame.width - frame.left - frame.right, frame.height - frame.top - frame.bottom
    inside = tag(
        "svg",
        image,
        x=frame.left,
        y=frame.top,
        width=across,
        height=up,
        viewBox=f"0.5 0.5 {side - 1} {side - 1}",
        preserveAspectRatio="none",
        class_="inside",
    )
    a, b = x(view.zeros[i][:, :, 0]), y(view.zeros[i][:, :, 1])  # (s, 2)
    pieces = zip(a[:, 0], b[:, 0], a[:, 1], b[:, 1], strict=True)
    d = "".join("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*piece) for piece in pieces)
    zero, title = tag("path", d=d, class_="zero"), view.titles[i]
    heading = tag("text", title, x=frame.left, y=18, class_="panel-title")
    most = number(float(np.abs(values).max()))
    label = f"{title} as a function of {view.axes[0]} and {view.axes[1]}, at most {most} in size"
    return frame.drawing(heading, inside, zero, over, label=label, id_=LEVELS)


def _over(view: views.Levels, frame: Frame, looks: views.Classes) -> Html:
    """Rows as dots, unless they are many, and numbers along the sides."""
    x, y = frame.scales(view.across, view.up)
    dots, raw, bottom = [], view.points, frame.height - frame.bottom
    for code, mine in looks.each():
        if mine.any():
            kind = f"on-levels {class_colour(looks, code) if looks.names else 'ink'}"
            dots.append(points(x(raw[mine, 0]), y(raw[mine, 1]), code, 1.6, class_=kind))
    numbers = []
    for t in x.ticks(5):
        place = f"{float(x(t)):.1f}"
        numbers.append(tag("text", number(t, 3), x=place, y=bottom + 16, text_anchor="middle"))
    for t in y.ticks(5):
        place = f"{float(y(t)) + 4:.1f}"
        numbers.append(tag("text", number(t, 3), x=frame.left - 6, y=place, text_anchor="end"))
    return joined([tag("g", *dots) if len(raw) <= MOST_POINTS else None, tag("g", *numbers)])


def _colours(values: Array, reach: float) -> Any:  # (s, s) -> (s, s, 4)
    """Green above zero and purple below, the more opaque the farther: it works on white and on black."""
    band = np.minimum(np.ceil(BANDS * np.abs(values) / reach), BANDS)  # (s, s)
    out = np.empty((*values.shape, 4), dtype=np.uint8)
    out[..., :3] = np.where((values > 0)[..., None], ABOVE, BELOW)
    out[..., 3] = np.rint(215 * band / BANDS).astype(np.uint8)
    return out[::-1]  # pictures begin at the top


# ── what the components keep ────────────────────────────────────────────────
def reconstruction(subject: Subject) -> list[Any]:
    """What the components miss in feature space, in the columns, and of pictures."""
    fitted = subject.fitted
    if fitted.detector is not None:
        return []  # its Q is that distance, and its charts show it
    parts: list[Any] = []
    if subject.measured.errors is not None:
        parts += _missed(subject, subject.measured.errors)
    if fitted.has_preimage and not fitted.is_precomputed:
        parts += _returned(subject)
    elif fitted.image_shape is not None:
        parts += _faces(subject)
    return parts


def _missed(subject: Subject, errors: Array) -> list[Any]:
    space = "the space of the columns" if subject.fitted.kernel is None else "feature space"
    placed, lengths = subject.placed, subject.measured.lengths
    try:
        view = views.distances(errors[placed], lengths[placed], space=space)
    except MercerError as cause:
        return [paragraph(str(cause))]
    kept = share(1 - view.missed)
    text = f"Of the squared distance of these rows from the mean, the components hold {kept}"
    fit = subject.fitted.fit
    if fit is not None:
        text += f"; of the rows that the model was fitted to, {share(float(fit.explained.sum()))}"
    if view.is_rounding:
        text += ". What they miss is rounding: there is no picture to draw of it"
        return [paragraph(f"{text}.")]
    frame = Frame(height=200)
    x, y = frame.across(0.0, view.edges[-1]), frame.up(0.0, 1.05 * float(view.counts.max()))
    left, right = x(view.edges[:-1]) + 0.5, x(view.edges[1:]) - 0.5
    parts = [
        frame.axes(x, y, x_label=view.axes[0], y_label=view.axes[1]),
        bars(left, right, y(view.counts), float(y(0.0)), class_="bar"),
    ]
    picture = frame.drawing(*parts, label="Histogram of distances", id_=MISSED)
    return [paragraph(f"{text}."), figure(picture, view, id_=MISSED)]


def _returned(subject: Subject) -> list[Any]:
    """The error of each column on the way there and back, or some pictures beside each other."""
    fitted = subject.fitted
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            view = views.reconstruction(
                fitted.model, subject.rows, names=subject.names, preparation=fitted.preparation
            )
        except MercerError as cause:
            return [paragraph(f"There is no picture in the columns: {cause}")]
    parts: list[Any] = [paragraph(view.caption)]
    remarks = dict.fromkeys(" ".join(str(one.message).split()) for one in caught)
    if remarks:
        parts.append(tag("div", *map(paragraph, remarks), class_="warning"))
    if view.shape is not None:
        return [*parts, *_faces(subject), _pairs(subject, view)]
    if np.isfinite([view.error, view.spread]).all() and not view.is_exact:
        parts.append(_per_column(view))
    return parts


def _per_column(view: views.Reconstruction) -> Html:
    """A bar for each column, in units of its spread; the worst where there are many."""
    words = "Error of each column on the way there and back; the dashed line is that of the mean."
    if len(view.drawn) < len(view.names):
        words += f" The {len(view.drawn)} worst of {count(len(view.names))} columns."
    still = [view.names[j] for j in np.flatnonzero(view.spread <= 0.0)]
    if still:
        words += f" These don't vary here: {few(still)}."
    m, values = len(view.drawn), view.relative[view.drawn]
    frame = Frame(height=60 + 22 * m, left=170)
    x, y = frame.across(0.0, max(float(values.max()), 1.0) * 1.04), frame.up(m - 0.5, -0.5)
    ticks = [(float(i), short(view.names[j])) for i, j in enumerate(view.drawn.tolist())]
    label = "error, in standard deviations of the column"
    parts: list[Any] = [frame.axes(x, y, x_label=label, y_label="", y_ticks=ticks)]
    for at, end in zip(y(np.arange(m)).tolist(), x(values).tolist(), strict=True):
        d = f"M{frame.left} {at - 7:.1f}H{end:.1f}v14H{frame.left}z"
        parts.append(tag("path", d=d, class_="bar"))
    parts.append(line(x(np.ones(2)), y(np.array([m - 0.5, -0.5])), class_="limit"))
    picture = frame.drawing(*parts, label="Errors by column", id_=COLUMNS)
    return figure(picture, replace(view, caption=words), id_=COLUMNS)


# ── rows that are pictures ──────────────────────────────────────────────────
def _faces(subject: Subject) -> list[Html]:
    fitted = subject.fitted
    assert fitted.image_shape is not None
    view = changes(fitted, subject.rows, subject.measured.scores, subject.measured.columns[1])
    factor = _factor(fitted.image_shape)
    words = view.caption
    if factor > 1:
        words += f" They are shown smaller: each pixel is the mean of {factor} × {factor}."
    return [figure(_sheet(view), replace(view, caption=words), id_="faces-figure")]


def _pairs(subject: Subject, view: views.Reconstruction) -> Html:
    assert view.shape is not None
    rows = np.concatenate([view.original, view.back])
    m, called = len(view.rows), subject.called_rows
    titles = [str(called[i]) for i in view.rows] + ["from its scores"] * m
    sheet = views.images(rows, shape=view.shape, titles=titles)
    pairs = tag("div", *(_sheet(sheet, (i, m + i)) for i in range(m)), class_="pairs")
    words = f"{count(m)} pictures, each beside what its scores say of it."
    return figure(pairs, replace(sheet, caption=words), id_="returned-figure")


def _sheet(view: views.Images, which: Any = None) -> Html:
    f = _factor(view.images.shape[1:])
    cells, (height, width) = [], (side // f for side in view.images.shape[1:])
    for i in range(len(view.images)) if which is None else which:
        # Means of squares of pixels, where there are too many.
        cut = view.images[i][: height * f, : width * f].reshape(height, f, width, f)
        pixels = greys(cut.mean(axis=(1, 3)), view.low[i], view.high[i])
        name = view.titles[i] if view.titles else ""
        # The text under it names it; the picture itself says no more to those who don't see it.
        picture = tag(
            "img", src=address(pixels), width=width, height=height, alt=f"picture: {name}"
        )
        cells.append(tag("div", picture, tag("span", name)))
    return tag("div", *cells, class_="sheet")


def _factor(shape: Any) -> int:
    """How many pixels along either side become one, where there are too many."""
    factor = 1
    while (shape[0] // factor) * (shape[1] // factor) > MOST_PIXELS:
        factor += 1
    return factor
