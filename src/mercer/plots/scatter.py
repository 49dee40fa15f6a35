"""Scores as a scatter or a strip, the kernel biplot, and rows there and back in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer import views
from mercer._core.public import public
from mercer._core.types import Array
from mercer.estimators.anatomy import is_model
from mercer.plots import _axes
from mercer.plots._axes import Axes, AxesArray, Figure, PathCollection, SubFigure
from mercer.views import checks
from mercer.views.classes import Classes, classes
from mercer.views.scatter import Arrows

TITLES = ("data", "PCA", "kernel PCA", "back in input space")
FEATURES = ("feature 1", "feature 2")
LINE = 0.06  # of the height of the picture: one line of text with some room
CHARACTER = 0.075  # inches of a letter of 9 points, about
OUTWARD = 0.02  # of the width, from the tip of an arrow to its name


@public
def scores(
    scores: Any,
    X: Any = None,
    labels: Any = None,
    *,
    components: Sequence[int] = (0, 1),
    explained_variance_ratio: Any = None,
    time: Any = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Scatter of two components; of one component, a strip for each label.

    Parameters
    ----------
    scores : fitted model, or array of shape (n, k) or (n,)
        A model, whose scores of `X` are drawn, or scores of n points on k components.
    X : array-like of shape (n, d), or labels
        Rows for a model; after scores, their labels. Rows of a detector are marked as alarms or normal
        unless there are labels.
    labels : array of shape (n,), optional
        Strings, integers or whole floats are classes (a colour, a shape and a place in the legend each,
        up to 20 of them); other floats are a measurement (a colour bar).
    components : one or two integers
        Which columns of the scores, counted from 0: pictures call the first component 1. With k = 1
        the default means the only one there is.
    explained_variance_ratio : array of shape (k,), optional
        Shares of the variance between 0 and 1, written on the axes in per cent; a model brings its own.
    time : array-like of shape (n,), optional
        When each row was taken, for a detector that judges rows by those before them: after a gap it begins
        anew, as in `monitor`. The index of a data frame of dates otherwise.
    ax : matplotlib Axes, optional
        Where to draw. A new figure is made otherwise.
    title : str, optional
        Title of the Axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import scores
    >>> Z = [[-1.0, 0.5], [0.0, -1.0], [1.0, 0.5]]
    >>> ratio = [0.571, 0.429]
    >>> ax = scores(Z, ["a", "b", "a"], explained_variance_ratio=ratio, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'component 1 (57.1 %)'
    """
    view = views.scores(
        scores,
        X if is_model(scores) else _axes.drawable(X),
        _axes.drawable(labels),
        components=checks.one_or_two(components, least=1),
        explained_variance_ratio=explained_variance_ratio,
        time=time,
    )
    return _scattered(ax, view, title, width=5.2, height=4.0)


def _scattered(
    ax: Axes | None, view: views.Scores, title: str | None, *, width: float, height: float
) -> Axes:
    """Points with names on the axes, a key and a title."""
    looks = view.classes
    ax = _axes.one(ax, width=width + 0.7 * _axes.outside(looks), height=height)
    shaded = _drawn(ax, view.points, looks, view.axes)
    if view.points.shape[1] == 2 or looks.shade is not None:
        _axes.key(ax, looks, shaded)  # a strip of few classes has them on its axis already
    if title is not None:
        ax.set_title(title, fontsize=11)
    return ax


def _drawn(ax: Axes, chosen: Array, labels: Classes, names: Sequence[str]) -> PathCollection | None:
    """Draw (n, 1) or (n, 2) scores with their names on the axes, and no key."""
    if chosen.shape[1] == 2:
        return _inputs(ax, chosen, labels, names)
    _axes.tidy(ax)
    ax.set_xlabel(names[0])
    # One number a point leaves the other axis free. It shows the label, or the index, and never
    # random jitter: that would draw a second coordinate which is not there.
    height = labels.codes.astype(np.float64) if labels.shade is None else labels.shade
    height = height if labels.names else np.arange(len(chosen), dtype=np.float64)
    shaded = _axes.points(ax, np.column_stack([chosen[:, 0], height]), labels)
    if not labels.names:
        ax.set_ylabel("index of the point")
    elif labels.shade is None:
        ax.set_yticks(range(len(labels.names)), labels.names)
        ax.set_ylim(len(labels.names) - 0.5, -0.5)  # the first class on top, as in a list
        ax.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        ax.set_axisbelow(True)
    else:
        ax.set_ylabel("label" if labels.shaded == "label" else "class")
    return shaded


# ── arrows ──────────────────────────────────────────────────────────────────
@public
def arrows(
    scores: Any,
    slopes: Any,
    labels: Any = None,
    *,
    names: Sequence[str] | None = None,
    components: Sequence[int] = (0, 1),
    top: int = 6,
    explained_variance_ratio: Any = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Scatter of two components, with an arrow for each input variable: which way it moves the scores.

    An arrow is the mean slope of the two scores with respect to the variable. All start in the middle of
    the points and share a scale of their own: directions can be compared with the points, lengths only
    with each other. A variable whose effect goes one way here and the other way there has a short arrow,
    however important it is; `mercer.plots.levels` shows such a one.

    Parameters
    ----------
    scores : fitted model, or array of shape (n, k)
        A model, or scores of n points on k components.
    slopes : rows for a model, or array of shape (d, k) or (b, k, d)
        Of a model rows (n, d), from which scores and slopes follow. With scores
        ``importance(model, X).slopes``: mean slopes for one standard deviation of each variable, so that
        variables in different units can be compared; or ``gradients(model, X)``, for one unit of each, whose
        mean over the rows is drawn.
    labels : array of shape (n,), optional
        As in `mercer.plots.scores`.
    names : d strings, optional
        Of the variables; x0, x1, … otherwise.
    components : two integers
        Which columns of the scores, counted from 0.
    top : int, default=6
        How many arrows: those that are longest in this plane.
    explained_variance_ratio : array of shape (k,), optional
        Shares of the variance between 0 and 1, written on the axes in per cent.
    ax : matplotlib Axes, optional
        Where to draw. A new figure is made otherwise.
    title : str, optional
        Title of the Axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from mercer import PCA
    >>> from mercer.diagnostics import importance
    >>> from mercer.plots import arrows
    >>> iris = load_iris()
    >>> pca = PCA(2).fit(iris.data)
    >>> found = importance(pca, iris.data, names=["sepal l", "sepal w", "petal l", "petal w"])
    >>> Z = pca.transform(iris.data)
    >>> ax = arrows(Z, found.slopes, names=found.names, top=2, ax=Figure().subplots())
    >>> sorted(text.get_text() for text in ax.texts if text.get_text())
    ['petal l', 'sepal l']
    """
    view = views.biplot(
        scores,
        slopes,
        _axes.drawable(labels),
        names=names,
        components=components,
        explained_variance_ratio=explained_variance_ratio,
        top=top,
    )
    ax = _scattered(ax, view, title, width=6.0, height=4.6)
    for backdrop in ax.collections:
        backdrop.set_alpha(0.4)  # the arrows are what this picture is about
    assert view.arrows is not None
    _draw(ax, view.arrows)
    return ax


def _draw(ax: Axes, arrows: Arrows) -> None:
    from matplotlib.patheffects import withStroke

    centre, tips, names = arrows.start, arrows.tips, arrows.names
    if len(tips) == 0:
        _axes.note(ax, "no variable moves these scores one way")
        return
    ax.quiver(
        *np.broadcast_to(centre, tips.shape).T,
        *tips.T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        zorder=4,
        color=_axes.INK,
        width=0.005,
        gid="arrows",
    )
    ends = centre + tips
    right = tips[:, 0] >= 0
    _make_room(ax, ends[:, 0], right, names)
    (left_edge, right_edge), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    outward = OUTWARD * (right_edge - left_edge)
    for side in (True, False):
        own = np.flatnonzero(right == side)
        heights = _spread(ends[own, 1], LINE * (top - bottom))
        style: dict[str, Any] = {"ha": "left" if side else "right", "va": "center", "fontsize": 9}
        style["path_effects"] = [withStroke(linewidth=2.5, foreground="white")]  # over points too
        for l, height in zip(own, heights, strict=True):
            x = ends[l, 0] + (outward if side else -outward)
            ax.text(x, height, names[l], color="black", zorder=5, **style)


def _spread(heights: Array, gap: float) -> Array:
    """The heights in their order, those nearer than the gap pushed apart, each half of what is missing."""
    order = np.argsort(heights, kind="stable")
    placed = heights[order].copy()
    # A push may bring the next pair too near: a dozen names settle in a few rounds.
    for _ in range(200):
        short = np.maximum(gap - np.diff(placed), 0.0)
        if not np.any(short > 1e-9 * gap):
            break
        placed[1:] += 0.5 * short
        placed[:-1] -= 0.5 * short
    return placed[np.argsort(order)]


def _make_room(ax: Axes, ends: Array, right: Any, names: Sequence[str]) -> None:
    """Widen the picture until the names, which stand outward of the tips, lie in it."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    for _ in range(4):  # a wider picture moves the tips, and with them the names
        low, high = ax.get_xlim()
        wide = high - low
        words = np.array([OUTWARD + CHARACTER * len(name) / inches for name in names]) * wide
        most = max(high, float(np.max(ends + np.where(right, words, 0.0))))
        least = min(low, float(np.min(ends - np.where(right, 0.0, words))))
        ax.set_xlim(least, min(most, high + 2 * wide))


# ── input space ─────────────────────────────────────────────────────────────
@public
def panels(
    X: Any,
    pca_scores: Any,
    kpca_scores: Any,
    reconstruction: Any,
    labels: Any = None,
    *,
    titles: Sequence[str] | None = None,
    fig: Figure | SubFigure | None = None,
) -> AxesArray:
    """Data, PCA, kernel PCA and the points taken back to input space, side by side.

    Parameters
    ----------
    X : array of shape (n, 2)
        The data.
    pca_scores, kpca_scores : arrays of shape (n, k)
        The first two columns of each are drawn; where k = 1, a strip.
    reconstruction : array of shape (n, 2)
        The points taken back to input space, drawn over the faint data on the same scale.
    labels : array of shape (n,), optional
        As in `mercer.plots.scores`.
    titles : four strings, optional
        Titles of the panels, in the order of the arguments.
    fig : matplotlib Figure or SubFigure, optional
        Where to draw. A new figure is made otherwise.

    Returns
    -------
    array of matplotlib Axes, shape (2, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import panels
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    >>> axes = panels(X, X - X.mean(0), X - X.mean(0), X, fig=Figure())
    >>> [ax.get_title() for ax in axes.flat]
    ['data', 'PCA', 'kernel PCA', 'back in input space']
    """
    X = checks.plane("X", X)
    back = checks.plane("reconstruction", reconstruction)
    linear = checks.finite("pca_scores", pca_scores, ndim=2, shape="(n, k)")
    kernel = checks.finite("kpca_scores", kpca_scores, ndim=2, shape="(n, k)")
    checks.same_rows(len(X), pca_scores=linear, kpca_scores=kernel, reconstruction=back)
    looks = classes(_axes.drawable(labels), len(X))
    titles = TITLES if titles is None else titles
    checks.count("titles", titles, 4, "panels")

    axes = _axes.grid(fig, 2, 2, width=7.6, height=6.4)
    names = ("component 1", "component 2")
    shaded = _inputs(axes[0, 0], X, looks)
    _drawn(axes[0, 1], linear[:, :2], looks, names)
    _drawn(axes[1, 0], kernel[:, :2], looks, names)
    returned(axes[1, 1], X, back, looks)
    # Distances are what a reader compares in input space: one unit is as long in x as in y, and as
    # long in the one panel as in the other.
    for ax in (axes[0, 0], axes[1, 1]):
        ax.update_datalim(np.vstack([X, back]))
        ax.autoscale_view()
        ax.set_aspect("equal", adjustable="datalim")
    if linear.shape[1] > 1:
        axes[0, 1].set_aspect("equal", adjustable="datalim")  # PCA turns the data, it bends nothing
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, fontsize=11)
    _axes.common_key(axes, looks, shaded)
    return axes


def returned(
    ax: Axes, X: Array, back: Array, labels: Classes, names: Sequence[str] = FEATURES
) -> PathCollection | None:
    """Points of the plane taken back, over where they were."""
    _axes.points(ax, X, None, color=_axes.FAINT, alpha=0.5, gid="original")
    return _inputs(ax, back, labels, names)


def _inputs(
    ax: Axes, points: Array, labels: Classes, names: Sequence[str] = FEATURES
) -> PathCollection | None:
    _axes.tidy(ax)
    ax.set(xlabel=names[0], ylabel=names[1])
    return _axes.points(ax, points, labels)
