"""Components as functions over two variables: where each is positive, negative and zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mercer import views
from mercer._core.errors import refuse
from mercer._core.public import public
from mercer._core.types import Array
from mercer.plots import _axes
from mercer.plots._axes import Axes
from mercer.views import checks

BANDS = 20  # even, so that zero is an edge between two bands
MOST_COLUMNS = 3


@public
def levels(X: Any, transform: Callable[[Array], Any], *, ax: Any = None, **which: Any) -> Any:
    """Level sets of any function over two variables, with its zero line and the data.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        The data, drawn on top; their box is what the picture shows.
    transform : callable
        Takes (m, d) points and gives their (m, k) scores, as ``model.transform`` does.
    ax, **which
        As in `mercer.plots.contours`; the first component is drawn unless others are asked for.

    Returns
    -------
    matplotlib Axes, or an array of them, one for each of several components

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import levels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    >>> ax = levels(X, lambda points: points @ np.eye(2), ax=Figure().subplots(), resolution=20)
    >>> ax.get_title()
    'component 1'
    """
    if not callable(transform):
        remedy = "Pass the data first: levels(X, model.transform), or contours(model, X)."
        refuse("transform", transform, "callable", f"a {type(transform).__name__}", remedy)
    return contours(transform, X, ax=ax, **which)


@public
def contours(
    model: Any,
    X: Any,
    *,
    component: int | Iterable[int] | None = None,
    n_components: int | None = None,
    variables: Sequence[int | str] | None = None,
    fixed: Any = "median",
    names: Sequence[str] | None = None,
    labels: Any = None,
    ax: Any = None,
    resolution: int = 200,
    margin: float = 0.15,
    preparation: Any = None,
) -> Any:
    """Level sets of components as functions over two variables, with their zero lines and the data.

    With more than two variables the picture is a slice: two of them move, the others are held where `fixed`
    says. The data are then drawn pale: their other variables are not the held ones, so the colour under
    a point is not its score.

    Parameters
    ----------
    model : fitted model
        Its components are the functions; their shares of the variance stand above them.
    X : array or data frame of shape (n, d)
        The data, drawn on top; their box is what the picture shows. For a `Prepared` in the units of its
        file.
    component : int or sequence of int, optional
        Which components, counted from 0; several make a grid of Axes. The first six otherwise.
    n_components : int, optional
        Short for ``component=range(n_components)``.
    variables : two integers or names, optional
        Which two variables move, counted from 0; the only two there are where it is left out.
    fixed : "median", int or array of shape (d,), default="median"
        Where the other variables are held: at the medians of X, at those of the row with this number, or
        at those of a point.
    names : d strings, optional
        Names of the variables; the columns of a data frame where it is left out.
    labels : array of shape (n,), optional
        As in `mercer.plots.scores`.
    ax : matplotlib Axes, or an array of them where several components are drawn, optional
        Where to draw. A new figure is made otherwise.
    resolution : int
        Grid points along each side.
    margin : float
        How far the picture goes beyond the data, as a share of their extent.
    preparation : Preparation, optional
        What was done to the rows before the fit: the axes are in the units of the file. A `Prepared`
        brings it.

    Returns
    -------
    matplotlib Axes, or an array of them, one for each of several components

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer import PCA, plots
    >>> X = np.array([[0.0, 1.0], [3.0, 0.0], [-1.0, -1.0]])
    >>> ax = plots.contours(PCA(2).fit(X), X, component=1, ax=Figure().subplots(), resolution=20)
    >>> ax.get_title()
    'component 2 (17.4 %)'
    """
    view = views.levels(
        model,
        X,
        component=component,
        n_components=n_components,
        variables=variables,
        fixed=fixed,
        names=names,
        labels=_axes.drawable(labels),
        resolution=resolution,
        margin=margin,
        preparation=preparation,
    )
    axes = _places(ax, view)
    # Points must be seen on dark as well as on pale: a white rim, and black without labels.
    style: dict[str, Any] = {"linewidths": 0.4, "edgecolors": "white", "size": 12.0}
    style["alpha"] = 0.7 if view.where else 1.0
    if not view.classes.names:
        style["color"] = "black"
    for i, place in enumerate(axes):
        _fill(place, view, i)
        shaded = _axes.points(place, view.points, view.classes, **style)
        place.set_title(view.titles[i], fontsize=11)
    if view.several and ax is None:
        _axes.common_key(axes, view.classes, shaded)
    else:
        _axes.key(axes[0], view.classes, shaded)
    _describe(axes, view, own=ax is None)
    return axes if view.several else axes[0]


def _places(ax: Any, view: views.Levels) -> Any:
    """Axes for each component: those that were given, or new ones in rows of at most three."""
    count = len(view.titles)
    if ax is not None:
        places = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        checks.count("ax", places, count, "components to draw")
        return places
    # Height for each unit of width, as the data have it.
    tall = float(np.clip(np.ptp(view.up) / np.ptp(view.across), 0.4, 1.4))
    columns = min(count, MOST_COLUMNS)
    rows = -(-count // columns)
    width, height = 5.2, 4.3 * tall + 0.4
    if view.several:
        width, height = 3.2 * columns, (2.4 * tall + 0.5) * rows + 0.2
    made = _axes.grid(None, rows, columns, width=width, height=height).ravel()
    for unused in made[count:]:
        unused.remove()
    return made[:count]


def _fill(ax: Axes, view: views.Levels, i: int) -> None:
    from matplotlib.collections import LineCollection

    end = view.reach[i]
    edges = np.linspace(-end, end, BANDS + 1)
    filled = ax.contourf(
        view.across, view.up, view.values[i], levels=edges, cmap="PRGn", extend="both"
    )
    if len(view.zeros[i]):
        zero = LineCollection(
            list(view.zeros[i]), gid="zero", colors=_axes.INK, linewidths=1.4, capstyle="round"
        )
        ax.add_collection(zero, autolim=False)
    beside = ax.inset_axes((1.02, 0.0, 0.035, 1.0))  # as tall as the picture, whatever its aspect
    bar = ax.figure.colorbar(
        filled, cax=beside, extendfrac=0.03, ticks=[-end, 0.0, end], format="%.2g"
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    _axes.tidy(ax)
    ax.spines[:].set_visible(False)
    wide, high = float(np.ptp(view.across)), float(np.ptp(view.up))
    # Else the units differ, or the picture would be a slit.
    if max(wide, high) < 3 * min(wide, high):
        ax.set_aspect("equal")


def _describe(axes: Any, view: views.Levels, *, own: bool) -> None:
    across, up = view.axes
    if not view.several:  # in a grid the names would repeat in every cell
        axes[0].set(xlabel=across, ylabel=up)
        if view.where:
            axes[0].set_title(f"{axes[0].get_title()}, {view.where}", fontsize=11)
    elif own:
        columns = min(len(axes), MOST_COLUMNS)
        for place, ax in enumerate(axes):
            ax.set_ylabel(up if place % columns == 0 else "")
            ax.set_xlabel(across if place + columns >= len(axes) else "")
        if view.where:
            axes[0].figure.suptitle(f"over {across} and {up}, {view.where}", fontsize=10)
