"""Rows that are pictures: a sheet of faces, and the ladder of reconstructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer.plots import _axes, _checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from mercer._core.types import Array

CELL = 1.15  # inches across one picture
TEXT = 0.24  # inches for one line under or above it


@public
def faces(
    images: Any,
    *,
    shape: tuple[int, int],
    n_columns: int = 8,
    titles: Sequence[str] | None = None,
    fig: Figure | SubFigure | None = None,
    symmetric: bool = False,
) -> _axes.AxesArray:
    """A sheet of grey pictures, one for each row.

    Parameters
    ----------
    images : array of shape (n, h * w)
        One picture a row, as ``picture.ravel()`` gives it.
    shape : (h, w)
        Height and width of a picture.
    n_columns : int
        Pictures side by side.
    titles : n strings, optional
        What stands above each picture.
    fig : matplotlib Figure or SubFigure, optional
        Where to draw. A new figure is made otherwise.
    symmetric : bool
        For eigenfaces, whose sign and size are arbitrary: each picture has a scale of its own, with
        zero as the middle grey. Otherwise one scale serves all, so that brightness can be compared.

    Returns
    -------
    array of matplotlib Axes, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import faces
    >>> axes = faces(np.arange(12.0).reshape(2, 6), shape=(3, 2), fig=Figure())
    >>> np.asarray(axes[1].get_images()[0].get_array())
    array([[ 6.,  7.],
           [ 8.,  9.],
           [10., 11.]])
    """
    images = _checks.finite("images", images, ndim=2, shape="(n, h * w)")
    height, width = _shape(shape, images.shape[1], "images")
    n_columns = min(require("n_columns", n_columns, Whole(1)), len(images))
    if titles is not None:
        _checks.count("titles", titles, len(images), "images")
    rows = -(-len(images) // n_columns)
    tall = CELL * height / width + (TEXT if titles is not None else 0.0)
    axes = _axes.grid(fig, rows, n_columns, width=CELL * n_columns, height=tall * rows).ravel()
    for unused in axes[len(images) :]:
        unused.remove()
    axes = axes[: len(images)]
    low, high = float(images.min()), float(images.max())
    for i, (ax, image) in enumerate(zip(axes, images, strict=True)):
        if symmetric:
            high = float(np.abs(image).max()) or 1.0
            low = -high
        _show(ax, image.reshape(height, width), low, high)
        if titles is not None:
            ax.set_title(str(titles[i]), fontsize=9, pad=3)
    return axes


@public
def ladder(
    original: Any,
    reconstructions: Any,
    *,
    shape: tuple[int, int],
    steps: Sequence[int],
    errors: Any = None,
    row_titles: Sequence[str] | None = None,
    fig: Figure | SubFigure | None = None,
) -> _axes.AxesArray:
    """Pictures rebuilt from more and more components, the original last, the error under each.

    Parameters
    ----------
    original : array of shape (m, h * w)
        The pictures, one a row.
    reconstructions : array of shape (m, s, h * w)
        Each of them rebuilt in s steps.
    shape : (h, w)
        Height and width of a picture.
    steps : s integers
        Number of components of each step.
    errors : array of shape (m, s), optional
        Relative errors, 1 for 100 %. ``‖x - x̂‖ / ‖x‖`` is used otherwise.
    row_titles : m strings, optional
        What stands to the left of each row.
    fig : matplotlib Figure or SubFigure, optional
        Where to draw. A new figure is made otherwise.

    Returns
    -------
    array of matplotlib Axes, shape (m, s + 1)

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import ladder
    >>> x = np.array([[0.0, 3.0, 0.0, 4.0]])
    >>> steps = np.stack([x * 0.5, x * 0.9], axis=1)
    >>> axes = ladder(x, steps, shape=(2, 2), steps=[1, 2], fig=Figure())
    >>> [ax.get_xlabel() for ax in axes[0]]
    ['error 50.0 %', '10.0 %', '']
    """
    original = _checks.finite("original", original, ndim=2, shape="(m, h * w)")
    rebuilt = _checks.finite("reconstructions", reconstructions, ndim=3, shape="(m, s, h * w)")
    height, width = _shape(shape, original.shape[1], "original")
    m, s = len(original), len(steps)
    if rebuilt.shape != (m, s, original.shape[1]):
        msg = (
            f"`reconstructions` has shape {rebuilt.shape}, but {m} originals of "
            f"{original.shape[1]} pixels in {s} steps need {(m, s, original.shape[1])}. "
            "Stack one reconstruction for each of `steps` along axis 1."
        )
        raise InputError(msg)
    errors = _errors(original, rebuilt, errors)
    if row_titles is not None:
        _checks.count("row_titles", row_titles, m, "rows")
    tall = CELL * height / width + TEXT
    size = {"width": CELL * (s + 1) + TEXT, "height": tall * m + TEXT}
    axes = _axes.grid(fig, m, s + 1, **size)
    for i in range(m):
        # The original's own greys are the scale of its row: only then does a pale reconstruction
        # look pale.
        low, high = float(original[i].min()), float(original[i].max())
        for j, image in enumerate([*rebuilt[i], original[i]]):
            _show(axes[i, j], image.reshape(height, width), low, high)
            if j < s:
                error = errors[i, j]
                told = "undefined" if np.isnan(error) else f"{100 * error:.1f} %"
                word = "error " if j == 0 else ""
                axes[i, j].set_xlabel(word + told, fontsize=9, labelpad=2)
        if row_titles is not None:
            axes[i, 0].set_ylabel(str(row_titles[i]), fontsize=9)
    for ax, title in zip(axes[0], [*(f"k = {k}" for k in steps), "original"], strict=True):
        ax.set_title(title, fontsize=9, pad=3)
    return axes


def _errors(original: Array, rebuilt: Array, errors: Any) -> Array:
    """(m, s) relative errors: those that were given, or ‖x - x̂‖ / ‖x‖, NaN for x = 0."""
    if errors is None:
        size = np.linalg.norm(original, axis=1)[:, None]  # (m, 1)
        missed = np.linalg.norm(rebuilt - original[:, None, :], axis=2)  # (m, s)
        relative: Array = np.full_like(missed, np.nan)
        np.divide(missed, size, out=relative, where=size > 0)
        return relative
    given = _checks.finite("errors", errors, ndim=2, shape="(m, s)")
    if given.shape != rebuilt.shape[:2]:
        msg = f"`errors` has shape {given.shape}, but {rebuilt.shape[:2]} pictures are rebuilt."
        msg += " Pass one relative error for each, or None to have them computed."
        raise InputError(msg)
    return given


def _shape(shape: Any, p: int, name: str) -> tuple[int, int]:
    try:
        height, width = (int(require("shape", side, Whole(1))) for side in shape)
    except (TypeError, ValueError) as cause:
        msg = f"`shape` must be (height, width) in pixels, but {shape!r} came. Pass two integers."
        raise InputError(msg) from cause
    if height * width != p:
        msg = (
            f"shape={(height, width)} means {height * width} pixels, but a row of `{name}` "
            f"has {p}. Pass the height and the width whose product is that."
        )
        raise InputError(msg)
    return height, width


def _show(ax: Axes, image: Array, low: float, high: float) -> None:
    ax.imshow(image, cmap="gray", vmin=low, vmax=high)
    # No scale, so no ticks and no frame. Labels stay, which ``axis("off")`` would hide.
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
