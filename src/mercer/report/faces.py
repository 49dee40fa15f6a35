"""Rows that are pictures: the mean, what each component changes in it, and some rows there and back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import MercerError
from mercer.data.rows import row_blocks, take_rows
from mercer.report.markup import Html, joined, tag
from mercer.report.png import address, greys
from mercer.report.section import figure
from mercer.report.shown import count

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.report.measure import Measured
    from mercer.report.subject import Subject

MOST_COMPONENTS = 10
MOST_ROWS = 6
MOST_PIXELS = 128 * 128  # of a picture in the page


def faces(subject: Subject, measured: Measured) -> Html:
    """Figures for rows that are pictures."""
    shape = subject.image_shape or (1, subject.d)
    mean, change = _changes(subject, measured)
    pictures = [("mean", mean, float(mean.min()), float(mean.max()))]
    for j, image in enumerate(change):
        reach = float(np.abs(image).max()) or 1.0
        pictures.append((f"component {j + 1}", image, -reach, reach))
    height, width = shape
    words = (
        f"The mean of {count(subject.n)} pictures of {height} × {width}, and what goes with a larger score "
        "in each pixel: bright where it grows, dark where it falls, grey where nothing changes. For linear "
        f"PCA these are the axes, called eigenfaces.{_smaller(shape)}"
    )
    parts: list[Html | None] = [figure(_sheet(pictures, shape), words, id_="faces-figure")]
    if subject.has_way_back:
        parts.append(_there_and_back(subject, shape))
    return joined(parts)


def _changes(subject: Subject, measured: Measured) -> tuple[Array, Array]:
    """(d,), (c, d): the mean row, and the slope of each pixel over each score, by least squares.

    Scores of different components are uncorrelated on the training rows, so each slope stands alone.
    """
    c = min(measured.scores.shape[1], MOST_COMPONENTS)
    mean = measured.columns.mean
    centred = measured.scores[:, :c] - measured.scores[:, :c].mean(axis=0)
    slopes = np.zeros((c, subject.d))
    for i, block in row_blocks(subject.rows, 1024):
        slopes += centred[i].T @ (subject.raw(block) - mean)
    size = np.sum(centred**2, axis=0)  # (c,)
    return mean, slopes / np.where(size > 0, size, 1.0)[:, None]


def _there_and_back(subject: Subject, shape: tuple[int, int]) -> Html | None:
    which = np.unique(np.linspace(0, subject.n - 1, min(MOST_ROWS, subject.n)).round().astype(int))
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
    cells = [
        _cell(name, _reduced(image.reshape(shape)), low, high)
        for name, image, low, high in pictures
    ]
    return tag("div", *cells, class_="sheet")


def _cell(name: str, image: Array, low: float, high: float) -> Html:
    height, width = image.shape
    pixels: Any = greys(image, low, high)
    # The text under it names it; the picture itself says no more to who can't see it.
    picture = tag("img", src=address(pixels), width=width, height=height, alt=f"picture: {name}")
    return tag("div", picture, tag("span", name))


def _factor(shape: tuple[int, int]) -> int:
    factor = 1
    while (shape[0] // factor) * (shape[1] // factor) > MOST_PIXELS:
        factor += 1
    return factor


def _reduced(image: Array) -> Array:
    """Means of squares of pixels, where there are too many."""
    f = _factor((image.shape[0], image.shape[1]))
    height, width = image.shape[0] // f, image.shape[1] // f
    cut = image[: height * f, : width * f]
    return np.asarray(cut.reshape(height, f, width, f).mean(axis=(1, 3)))


def _smaller(shape: tuple[int, int]) -> str:
    f = _factor(shape)
    return "" if f == 1 else f" They are shown smaller: each pixel is the mean of {f} × {f}."
