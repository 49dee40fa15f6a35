"""Rows that are pictures: a sheet of them, components as pictures, and the ladder of reconstructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError, refuse
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.types import Array, Rows
from mercer.data.rows import row_blocks
from mercer.views import checks
from mercer.views.base import View
from mercer.views.fitted import Fitted
from mercer.views.scatter import component_names
from mercer.views.wording import count, counted, share

MOST_COMPONENTS = 15  # that are shown unless others are asked for
MOST_CHANGES = 10  # of components without a pre-image
GREYS = "bright where it grows, dark where it falls, grey where nothing changes"


@dataclass(frozen=True, eq=False, kw_only=True)
class Images(View):
    """Grey pictures in rows, each with what is black and what is white in it."""

    kind: ClassVar[str] = "images"
    images: Array  # (m, h, w)
    low: Array  # (m,): black
    high: Array  # (m,): white
    titles: tuple[str, ...] | None = None  # above each
    below: tuple[str, ...] | None = None  # under each
    columns: int = 8
    row_titles: tuple[str, ...] | None = None


@public
def images(
    images: Any,
    *,
    shape: tuple[int, int],
    n_columns: int = 8,
    titles: Sequence[str] | None = None,
    symmetric: bool = False,
) -> Images:
    """A sheet of grey pictures, one for each row.

    Parameters are those of `mercer.plots.faces`.

    Examples
    --------
    >>> from mercer import views
    >>> views.images([[0.0, 1.0, 2.0, 3.0]], shape=(2, 2)).images.shape
    (1, 2, 2)
    """
    rows = checks.finite("images", images, ndim=2, shape="(n, h * w)")
    height, width = pixels_of(shape, rows.shape[1], "images")
    n_columns = min(require("n_columns", n_columns, Whole(1)), len(rows))
    if titles is not None:
        checks.count("titles", titles, len(rows), "images")
    low, high = np.full(len(rows), rows.min()), np.full(len(rows), rows.max())
    if symmetric:
        high = np.abs(rows).max(axis=1)
        high[high == 0.0] = 1.0
        low = -high
    return Images(
        images=rows.reshape(-1, height, width),
        low=low,
        high=high,
        titles=None if titles is None else tuple(map(str, titles)),
        columns=n_columns,
        caption=f"{counted(len(rows), 'picture')} of {height} × {width}.",
    )


@public
def ladder(
    original: Any,
    reconstructions: Any,
    *,
    shape: tuple[int, int],
    steps: Sequence[int],
    errors: Any = None,
    row_titles: Sequence[str] | None = None,
) -> Images:
    """Pictures rebuilt from more and more components, the original last, the error under each.

    Parameters are those of `mercer.plots.ladder`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import views
    >>> x = np.array([[0.0, 3.0, 0.0, 4.0]])
    >>> views.ladder(x, np.stack([x * 0.5, x * 0.9], axis=1), shape=(2, 2), steps=[1, 2]).below
    ('error 50.0 %', '10.0 %', '')
    """
    original = checks.finite("original", original, ndim=2, shape="(m, h * w)")
    rebuilt = checks.finite("reconstructions", reconstructions, ndim=3, shape="(m, s, h * w)")
    height, width = pixels_of(shape, original.shape[1], "original")
    m, s = len(original), len(steps)
    if rebuilt.shape != (m, s, original.shape[1]):
        p = original.shape[1]
        msg = f"`reconstructions` must have shape {(m, s, p)}: {m} originals of {p} pixels in {s} steps; "
        msg += f"got {rebuilt.shape}. Stack one reconstruction for each of `steps` along axis 1."
        raise InputError(msg)
    if row_titles is not None:
        checks.count("row_titles", row_titles, m, "rows")
    words = []
    for row in _errors(original, rebuilt, errors):
        below = ["undefined" if np.isnan(error) else f"{100 * error:.1f} %" for error in row]
        words += [f"error {below[0]}", *below[1:], ""]
    # The original's own greys are the scale of its row: only then does a pale reconstruction look pale.
    return Images(
        images=np.concatenate([rebuilt, original[:, None]], axis=1).reshape(-1, height, width),
        low=np.repeat(original.min(axis=1), s + 1),
        high=np.repeat(original.max(axis=1), s + 1),
        titles=(*(f"k = {k}" for k in steps), "original", *("",) * ((m - 1) * (s + 1))),
        below=tuple(words),
        columns=s + 1,
        row_titles=None if row_titles is None else tuple(map(str, row_titles)),
        caption=f"{counted(m, 'picture')}, each rebuilt from more and more components.",
    )


def _errors(original: Array, rebuilt: Array, errors: Any) -> Array:
    """(m, s) relative errors: those that were given, or ‖x - x̂‖ / ‖x‖, NaN for x = 0."""
    if errors is None:
        size = np.linalg.norm(original, axis=1)[:, None]  # (m, 1)
        missed = np.linalg.norm(rebuilt - original[:, None, :], axis=2)  # (m, s)
        return np.divide(missed, size, out=np.full_like(missed, np.nan), where=size > 0)
    given = checks.finite("errors", errors, ndim=2, shape="(m, s)")
    if given.shape != rebuilt.shape[:2]:
        must_be = f"one relative error for each of {rebuilt.shape[:2]} pictures"
        remedy = "Pass None to have them computed."
        refuse("errors", errors, must_be, f"shape {given.shape}", remedy)
    return given


def pixels_of(shape: Any, p: int, name: str) -> tuple[int, int]:
    """Height and width of pictures of p pixels."""
    try:
        height, width = (int(require("shape", side, Whole(1))) for side in shape)
    except (TypeError, ValueError):
        refuse("shape", shape, "(height, width) in pixels", remedy="Pass two integers.")
    if height * width != p:
        sides, m = (height, width), height * width
        msg = f"shape={sides} means {m} pixels, but a row of `{name}` has {p}."
        msg += " Pass the height and the width whose product is that."
        raise InputError(msg)
    return height, width


@public
def components(
    model: Any,
    shape: tuple[int, int] | None = None,
    *,
    components: Sequence[int] | None = None,
    n_columns: int = 8,
    preparation: Any = None,
) -> Images:
    """The mean as a picture, and for each component what one standard deviation along it changes.

    Parameters are those of `mercer.plots.components`.

    Examples
    --------
    >>> from mercer import PCA, views
    >>> X = [[0.0, 1.0, 2.0, 0.0], [1.0, 1.0, 0.0, 0.0], [3.0, 1.0, 1.0, 0.0]]
    >>> views.components(PCA(2).fit(X), (2, 2)).titles
    ('mean', '1: 75.0 %', '2: 25.0 %')
    """
    fitted = Fitted.of(model, preparation)
    fitted.require_preimage("A picture of a component")
    shape = fitted.image_shape if shape is None else shape
    if shape is None:
        msg = f"`shape` must be (height, width): this model has {fitted.d} columns, and no picture size."
        raise InputError(msg)
    pixels_of(shape, fitted.d, "X")
    wanted = range(min(fitted.k, MOST_COMPONENTS)) if components is None else components
    chosen = [checks.component(index, fitted.k) for index in wanted]
    steps = np.zeros((len(chosen) + 1, fitted.k))  # the first row is the mean: no step at all
    spreads = np.sqrt(np.asarray(fitted.projector.explained_variance_, dtype=np.float64))
    steps[range(1, len(chosen) + 1), chosen] = spreads[chosen]
    pictures = np.asarray(fitted.back(steps), dtype=np.float64)  # (1 + c, h * w)
    mean = pictures[0] - pictures[0].mean()  # so that middle grey is its average brightness
    kept = fitted.shares
    called = [str(j + 1) if kept is None else f"{j + 1}: {share(kept[j])}" for j in chosen]
    sheet = np.vstack([mean, pictures[1:] - pictures[0]])
    words = (
        f"The mean, and what one standard deviation along each component changes in it: {GREYS}."
    )
    made = images(sheet, shape=shape, n_columns=n_columns, titles=["mean", *called], symmetric=True)
    return replace(made, caption=words)


def changes(fitted: Fitted, rows: Rows, scores: Array, mean: Array) -> Images:
    """The mean row, and what goes with a larger score in each pixel: slopes, by least squares over rows.

    It needs no pre-image. Scores of different components are uncorrelated on the training rows, so each
    slope stands alone; for linear PCA these are the axes.
    """
    shape = fitted.image_shape
    assert shape is not None
    scores = scores[:, :MOST_CHANGES]
    centred = scores - scores.mean(axis=0)
    slopes = np.zeros((scores.shape[1], fitted.d))
    for i, block in row_blocks(rows, 1024):
        slopes += centred[i].T @ (fitted.raw(block) - mean)
    size = np.sum(centred**2, axis=0)  # (c,)
    slopes /= np.where(size > 0, size, 1.0)[:, None]
    titles = ["mean", *component_names(range(len(slopes)), fitted.shares)]
    view = images(np.vstack([mean, slopes]), shape=shape, titles=titles, symmetric=True)
    low, high = view.low.copy(), view.high.copy()
    low[0], high[0] = mean.min(), mean.max()
    words = f"The mean of {count(len(scores))} pictures of {shape[0]} × {shape[1]}, and what goes with a "
    words += f"larger score in each pixel: {GREYS}. For linear PCA these are the axes, called eigenfaces."
    return replace(view, low=low, high=high, caption=words)
