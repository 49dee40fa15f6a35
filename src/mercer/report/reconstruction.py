"""What the components miss of the rows: in feature space always, in the columns where there is a way back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import MercerError
from mercer.data.rows import row_blocks, take_rows
from mercer.report.drawing import Frame, address, bars, greys, line
from mercer.report.markup import Html, figure, grid, joined, paragraph, tag
from mercer.report.shown import count, counted, few, number, share, short

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.report.subject import Subject

MOST_ROWS = 2000  # that are taken back: some ways are slow
MOST_BARS = 25
MOST_PIXELS = 128 * 128  # of a picture in the page
MOST_COMPONENTS = 10  # that are shown as pictures
MOST_PAIRS = 6  # pictures there and back
HISTOGRAM = 40
MISSED, COLUMNS = "missed-figure", "columns-figure"
ROUNDING = 1e-12  # of a squared length: what is less is arithmetic


def reconstruction(subject: Subject) -> list[Any]:
    """What the components miss in feature space, in the columns, and of pictures."""
    text = (
        "There is no picture in the columns: the model was fitted without a way back from scores to rows. "
        "`mercer fit --preimage ridge` adds one."
    )
    if subject.detector is not None:
        text = "A detector needs no way back to the columns, and has none: its Q is the distance above."
    elif subject.is_precomputed:
        text = "The kernel is a matrix from a file: there are no columns to come back to."
    back = _returned(subject) if subject.has_way_back else paragraph(text)
    parts: list[Any] = [_missed(subject), back]
    if subject.image_shape is not None:
        parts += _faces(subject, subject.image_shape)
    return parts


# ── in feature space ────────────────────────────────────────────────────────
def _missed(subject: Subject) -> Html:
    measured = subject.measured
    if subject.is_precomputed:
        return paragraph(
            "The kernel is a matrix from a file. What the components miss of a row needs its k(x, x), which "
            "kernel values against the training points don't have."
        )
    if measured.errors is None:
        kind = type(subject.projector).__name__
        return paragraph(f"{kind} does not measure what its components miss.")
    errors = np.maximum(measured.errors, 0.0)
    whole = errors + measured.lengths
    known = np.isfinite(whole)
    if not known.any():
        return paragraph("All rows lie so far out that their distances can't be computed.")
    far, errors, whole = int(np.sum(~known)), errors[known], whole[known]
    missed = float(errors.sum() / whole.sum()) if whole.sum() > 0 else 0.0
    text = f"Of the squared distance of these rows from the mean, the components hold {share(1 - missed)}"
    if subject.fit is not None:
        text += f"; of the rows that the model was fitted to, {share(float(subject.fit.explained.sum()))}"
    if missed < ROUNDING:
        return paragraph(f"{text}. What they miss is rounding: there is no picture to draw of it.")
    space = "the space of the columns" if subject.kernel is None else "feature space"
    words = (
        f"How far each of {count(len(errors))} rows lies from the components, squared, in {space}: half lie "
        f"within {number(float(np.median(errors)), 3)}, the farthest at {number(float(errors.max()), 3)}."
    )
    if far:
        words += f" {counted(far, 'row')} too far out to be computed are left out here."
    return joined([paragraph(f"{text}."), _histogram(errors, words)])


def _histogram(errors: Array, words: str) -> Html:
    top = float(errors.max()) or 1.0
    tally, edges = np.histogram(errors, bins=HISTOGRAM, range=(0.0, top))
    frame = Frame(height=220)
    x, y = frame.across(0.0, top), frame.up(0.0, float(tally.max()) * 1.05)
    parts = [
        frame.axes(x, y, x_label="squared distance from the components", y_label="rows"),
        bars(x(edges[:-1]) + 0.5, x(edges[1:]) - 0.5, y(tally), float(y(0.0)), class_="bar"),
    ]
    rows = [
        [f"{number(a, 3)} to {number(b, 3)}", count(int(t))]
        for a, b, t in zip(edges[:-1], edges[1:], tally, strict=True)
    ]
    picture = frame.drawing(*parts, label="Histogram of distances", id_=MISSED)
    table = grid(["distance", "rows"], rows, caption="Histogram")
    return figure(picture, words, id_=MISSED, numbers=table)


# ── in the columns ──────────────────────────────────────────────────────────
def _some_rows(n: int, most: int) -> Indices:
    """All positions, or `most` of them at equal distances."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.intp)


def _returned(subject: Subject) -> Html:
    which = _some_rows(subject.n, MOST_ROWS)
    block = take_rows(subject.rows, which)
    raw = subject.raw(block).astype(np.float64)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            back = subject.back(block).astype(np.float64)
        except MercerError as cause:
            return paragraph(f"There is no picture in the columns: {cause}")
        error = np.sqrt(np.mean((back - raw) ** 2, axis=0))  # (d,)
        spread = np.sqrt(np.mean((raw - raw.mean(axis=0)) ** 2, axis=0))
    told = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    parts: list[Any] = [paragraph(_there_and_back(subject.n, len(which), error, spread))]
    if told:
        parts.append(tag("div", *(paragraph(line) for line in told), class_="warning"))
    finite = np.all(np.isfinite(error)) and np.all(np.isfinite(spread))
    exact = finite and float(np.sum(error**2)) <= ROUNDING * float(np.sum(spread**2))
    if subject.image_shape is None and finite and not exact:
        parts.append(_per_column(subject, error, spread))
    return joined(parts)


def _there_and_back(n: int, taken: int, error: Array, spread: Array) -> str:
    rows = f"{count(n)} rows"
    if taken < n:
        rows = f"{count(taken)} of {count(n)} rows, at equal distances in the file,"
    with np.errstate(over="ignore"):
        own, mean = (float(np.sqrt(np.mean(e**2))) for e in (error, spread))
    return (
        f"{rows} were taken to their scores and back to the columns. The root mean squared error of an "
        f"entry is {number(own, 3)}; always saying the mean of the column would give {number(mean, 3)}. "
        f"That is {_ratio(own, mean)}."
    )


def _ratio(error: float, spread: float) -> str:
    """An error beside that of the mean, in words."""
    if not np.isfinite(error) or not np.isfinite(spread):
        return "no comparison: some rows lie too far out to be computed"
    if spread <= 0.0:
        return "no comparison: no column varies"
    left = (error / spread) ** 2
    if left < ROUNDING:
        return "rounding: the rows come back as they were"
    if left > 1.0:
        return f"worse than the mean, with {number(left, 3)} times its squared error"
    return f"{share(left)} of the squared error of the mean"


def _per_column(subject: Subject, error: Array, spread: Array) -> Html:
    """A bar for each column, in units of its spread; the worst where there are many."""
    varies = spread > 0.0
    relative = np.divide(error, spread, out=np.zeros_like(error), where=varies)
    worst = np.argsort(-relative, kind="stable")[:MOST_BARS]
    order = worst if subject.d > MOST_BARS else np.arange(subject.d)
    words = "Error of each column on the way there and back; the dashed line is that of the mean."
    if len(order) < subject.d:
        words += f" The {len(order)} worst of {count(subject.d)} columns."
    still = [subject.names[j] for j in np.flatnonzero(~varies)]
    if still:
        words += f" These don't vary here: {few(still)}."
    names = [subject.names[j] for j in order.tolist()]
    rows = [
        [name, number(error[j]), number(spread[j]), number(relative[j], 3)]
        for name, j in zip(names, order.tolist(), strict=True)
    ]
    head = ["column", "error", "standard deviation", "ratio"]
    table = grid(head, rows, caption="Errors of the way there and back")
    return figure(_lying_bars(names, relative[order]), words, id_=COLUMNS, numbers=table)


def _lying_bars(names: list[str], values: Array) -> Html:
    """A bar from the left for each name, the first on top, and a line at 1."""
    m = len(values)
    frame = Frame(height=60 + 24 * m, left=170)
    x, y = frame.across(0.0, max(float(values.max()), 1.0) * 1.04), frame.up(m - 0.5, -0.5)
    ticks = [(float(i), short(name)) for i, name in enumerate(names)]
    label = "error, in standard deviations of the column"
    parts: list[Any] = [frame.axes(x, y, x_label=label, y_label="", y_ticks=ticks)]
    for at, end in zip(y(np.arange(m)).tolist(), x(values).tolist(), strict=True):
        d = f"M{frame.left} {at - 7:.1f}H{end:.1f}v14H{frame.left}z"
        parts.append(tag("path", d=d, class_="bar"))
    parts.append(line(x(np.ones(2)), y(np.array([m - 0.5, -0.5])), class_="limit"))
    return frame.drawing(*parts, label="Errors by column", id_=COLUMNS)


# ── pictures ────────────────────────────────────────────────────────────────
def _faces(subject: Subject, shape: tuple[int, int]) -> list[Html | None]:
    """The mean, what each component changes in it, and some rows there and back."""
    mean, change = _changes(subject)
    pictures = [("mean", mean, float(mean.min()), float(mean.max()))]
    for j, image in enumerate(change):
        reach = float(np.abs(image).max()) or 1.0
        pictures.append((f"component {j + 1}", image, -reach, reach))
    (height, width), f = shape, _factor(shape)
    words = (
        f"The mean of {count(subject.n)} pictures of {height} × {width}, and what goes with a larger score "
        "in each pixel: bright where it grows, dark where it falls, grey where nothing changes. For linear "
        "PCA these are the axes, called eigenfaces."
    )
    if f > 1:
        words += f" They are shown smaller: each pixel is the mean of {f} × {f}."
    made = figure(_sheet(pictures, shape), words, id_="faces-figure")
    return [made, _pairs(subject, shape) if subject.has_way_back else None]


def _changes(subject: Subject) -> tuple[Array, Array]:
    """(d,), (c, d): the mean row, and the slope of each pixel over each score, by least squares.

    Scores of different components are uncorrelated on the training rows, so each slope stands alone.
    """
    mean, scores = subject.measured.columns[1], subject.measured.scores[:, :MOST_COMPONENTS]
    centred = scores - scores.mean(axis=0)
    slopes = np.zeros((scores.shape[1], subject.d))
    for i, block in row_blocks(subject.rows, 1024):
        slopes += centred[i].T @ (subject.raw(block) - mean)
    size = np.sum(centred**2, axis=0)  # (c,)
    return mean, slopes / np.where(size > 0, size, 1.0)[:, None]


def _pairs(subject: Subject, shape: tuple[int, int]) -> Html | None:
    which = _some_rows(subject.n, MOST_PAIRS)
    block = take_rows(subject.rows, which)
    raw = subject.raw(block)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the figure before this one has told them
        try:
            back = subject.back(block)
        except MercerError:
            return None
    low, high = float(raw.min()), float(raw.max())
    pairs = []
    for i, row in enumerate(which.tolist()):
        own = (subject.id_of(row), raw[i], low, high)
        pairs.append(_sheet([own, ("from its scores", back[i], low, high)], shape))
    words = f"{count(len(which))} pictures, each beside what its scores say of it."
    return figure(tag("div", *pairs, class_="pairs"), words, id_="returned-figure")


def _sheet(pictures: list[tuple[str, Array, float, float]], shape: tuple[int, int]) -> Html:
    cells, f = [], _factor(shape)
    height, width = shape[0] // f, shape[1] // f
    for name, image, low, high in pictures:
        # Means of squares of pixels, where there are too many.
        cut = image.reshape(shape)[: height * f, : width * f].reshape(height, f, width, f)
        pixels = greys(cut.mean(axis=(1, 3)), low, high)
        size = {"width": width, "height": height}
        # The text under it names it; the picture itself says no more to who can't see it.
        picture = tag("img", src=address(pixels), **size, alt=f"picture: {name}")
        cells.append(tag("div", picture, tag("span", name)))
    return tag("div", *cells, class_="sheet")


def _factor(shape: tuple[int, int]) -> int:
    """How many pixels along either side become one, where there are too many."""
    factor = 1
    while (shape[0] // factor) * (shape[1] // factor) > MOST_PIXELS:
        factor += 1
    return factor
