"""Rows that are pictures, and rows beside what the components keep of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer import views
from mercer._core.public import public
from mercer.plots import _axes
from mercer.plots._axes import AxesArray, Figure, SubFigure
from mercer.plots.scatter import returned
from mercer.views.classes import PALETTE

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
) -> AxesArray:
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
    view = views.images(
        images, shape=shape, n_columns=n_columns, titles=titles, symmetric=symmetric
    )
    return drawn(view, fig).ravel()[: len(images)]


@public
def components(
    model: Any,
    shape: tuple[int, int] | None = None,
    *,
    components: Sequence[int] | None = None,
    n_columns: int = 8,
    preparation: Any = None,
    fig: Figure | SubFigure | None = None,
) -> AxesArray:
    """The mean as a picture, and for each component what one standard deviation along it changes.

    For a linear model these are the eigenfaces. For another kernel it is what the pre-image makes of the
    step, which holds near the mean only.

    Parameters
    ----------
    model : fitted model with a pre-image
        Of rows that are pictures.
    shape : (h, w), optional
        Height and width of a picture; a model of a folder of images knows them.
    components : integers, optional
        Which components, counted from 0; the first 15 otherwise.
    n_columns : int
        Pictures side by side.
    preparation : Preparation, optional
        What was done to rows before the fit: pictures are in the units of the file. A `Prepared` brings it.
    fig : matplotlib Figure or SubFigure, optional
        Where to draw. A new figure is made otherwise.

    Returns
    -------
    array of matplotlib Axes, the mean first

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer import PCA, plots
    >>> X = [[0.0, 1.0, 2.0, 0.0], [1.0, 1.0, 0.0, 0.0], [3.0, 1.0, 1.0, 0.0]]
    >>> axes = plots.components(PCA(2).fit(X), (2, 2), fig=Figure())
    >>> [ax.get_title() for ax in axes]
    ['mean', '1: 75.0 %', '2: 25.0 %']
    """
    view = views.components(
        model, shape, components=components, n_columns=n_columns, preparation=preparation
    )
    return drawn(view, fig).ravel()[: len(view.images)]


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
) -> AxesArray:
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
    view = views.ladder(
        original,
        reconstructions,
        shape=shape,
        steps=steps,
        row_titles=row_titles,
        errors=errors,
    )
    return drawn(view, fig)


def drawn(view: views.Images, fig: Figure | SubFigure | None = None) -> AxesArray:
    """The sheet: (rows, columns) Axes, those without a picture removed."""
    m, height, width = view.images.shape
    across = view.columns
    rows = -(-m // across)
    lines = (view.titles is not None) + (view.below is not None)
    tall = CELL * height / width + (TEXT if lines else 0.0)
    extra = TEXT if view.below is not None else 0.0
    axes = _axes.grid(fig, rows, across, width=CELL * across + extra, height=tall * rows + extra)
    for i, ax in enumerate(axes.flat):
        if i >= m:
            ax.remove()
            continue
        ax.imshow(view.images[i], cmap="gray", vmin=view.low[i], vmax=view.high[i])
        # No scale, so no ticks and no frame. Labels stay, which ``axis("off")`` would hide.
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        if view.titles is not None and view.titles[i]:
            ax.set_title(view.titles[i], fontsize=9, pad=3)
        if view.below is not None:
            ax.set_xlabel(view.below[i], fontsize=9, labelpad=2)
    if view.row_titles is not None:
        for ax, title in zip(axes[:, 0], view.row_titles, strict=True):
            ax.set_ylabel(title, fontsize=9)
    return axes


@public
def reconstruction(
    model: Any,
    X: Any,
    labels: Any = None,
    *,
    names: Sequence[str] | None = None,
    shape: tuple[int, int] | None = None,
    preparation: Any = None,
    fig: Figure | SubFigure | None = None,
) -> AxesArray:
    """Rows beside what the components keep of them: points, pictures, or the error of each column.

    Two columns are points in the plane, over where they were. Rows that are pictures stand above what
    their scores say of them. Otherwise a bar for each column is its error, in its standard deviations: at
    1 the scores know no more of it than its mean.

    Parameters
    ----------
    model : fitted model with a pre-image
        Such as ``KernelPCA(preimage="ridge")`` or `PCA`.
    X : array-like of shape (n, d)
        Rows as the model takes them.
    labels : array of shape (n,), optional
        As in `mercer.plots.scores`, for two columns.
    names : sequence of d strings, optional
        Names of the columns.
    shape, preparation, fig
        As in `mercer.plots.components`, where rows are pictures; errors are in the units of the file.

    Returns
    -------
    array of matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer import PCA, plots
    >>> X = [[0.0, 1.0, 2.0], [1.0, 1.0, 0.0], [3.0, 1.5, 1.0], [2.0, 0.0, 0.0]]
    >>> (ax,) = plots.reconstruction(PCA(1).fit(X), X, names=["a", "b", "c"], fig=Figure())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['a', 'b', 'c']
    """
    view = views.reconstruction(
        model, X, _axes.drawable(labels), names=names, shape=shape, preparation=preparation
    )
    if view.shape is not None:  # the rows above what their scores say of them, on one scale
        pictures = np.concatenate([view.original, view.back])
        above = [f"row {i + 1}" for i in view.rows]
        titles = [*above, *("from its scores",) * len(above)]
        sheet = views.images(pictures, shape=view.shape, n_columns=len(above), titles=titles)
        return drawn(sheet, fig)
    tall = 5.0 if len(view.rows) else 1.0 + 0.28 * len(view.drawn)
    axes = _axes.grid(fig, 1, 1, width=5.2, height=tall)[0]
    ax = axes[0]
    if len(view.rows):
        shaded = returned(ax, view.original, view.back, view.classes, view.names)
        ax.set_aspect("equal", adjustable="datalim")
        _axes.key(ax, view.classes, shaded)
        return axes
    names = [view.names[j] for j in view.drawn]
    _axes.named_bars(ax, names, view.relative[view.drawn], PALETTE[5])
    ax.axvline(1.0, color=_axes.INK, linewidth=1, linestyle="--", label="always the mean")
    ax.set_xlabel("error, in standard deviations of the column")
    ax.legend(loc="best", fontsize=9, framealpha=0.9, edgecolor="none")
    return axes
