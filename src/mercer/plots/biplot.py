"""The kernel biplot: scores, and which way each input variable moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer.plots import _axes, _checks, _labels, scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from mercer._core.types import Array, Indices

REACH = 0.75  # of the way from the centre to the nearest side of the data that the arrows may fill
LINE = 0.06  # of the height of the picture: one line of text with some room
CHARACTER = 0.075  # inches of a letter of 9 points, about
OUTWARD = 0.02  # of the width, from the tip of an arrow to its name
SHORTEST = 1e-6  # of the longest arrow: below, a variable has no direction


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
    scores : array of shape (n, k)
        Scores of n points on k components.
    slopes : array of shape (d, k) or (b, k, d)
        ``importance(model, X).slopes``: mean slopes for one standard deviation of each variable, so that
        variables in different units can be compared; or ``gradients(model, X)``, for one unit of each, whose
        mean over the rows is drawn.
    labels : array of shape (n,), optional
        As in `mercer.plots.scores`.
    names : d strings, optional
        Of the variables; x0, x1, … otherwise.
    components : two integers
        Which components, counted from 0.
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
    points = _checks.finite("scores", scores, ndim=2, shape="(n, k)")
    k = points.shape[1]
    pair = _checks.components(components, k, least=2)
    tips = _mean_slopes(slopes, k)[:, pair]  # (d, 2)
    called = [f"x{l}" for l in range(len(tips))] if names is None else [str(n) for n in names]
    _checks.count("names", called, len(tips), "variables")
    chosen = _longest(tips, require("top", top, Whole(1)))
    read = _labels.read(labels, len(points))
    ax = _axes.one(ax, width=6.0 + 0.7 * _labels.outside(read), height=4.6)
    scatter.scores(
        points,
        labels,
        components=pair,
        explained_variance_ratio=explained_variance_ratio,
        ax=ax,
        title=title,
    )
    for backdrop in ax.collections:
        backdrop.set_alpha(0.4)  # the arrows are what this picture is about
    centre = points[:, pair].mean(axis=0)
    tips = tips[chosen] * _scale(points[:, pair] - centre, tips[chosen])
    _draw(ax, centre, tips, [called[l] for l in chosen])
    return ax


def _mean_slopes(slopes: Any, k: int) -> Array:  # -> (d, k)
    given = _checks.finite("slopes", slopes, ndim=(2, 3), shape="(d, k) or (b, k, d)")
    mean: Array = given if given.ndim == 2 else given.mean(axis=0).T
    if mean.shape[1] != k:
        msg = (
            f"`slopes` of shape {given.shape} speak of {mean.shape[1]} components, but there are scores "
            f"of {k}. Pass `importance(model, X).slopes`, (d, k), or `gradients(model, X)`, (b, k, d)."
        )
        raise InputError(msg)
    return mean


def _longest(tips: Array, top: int) -> Indices:
    """The variables with the longest arrows, without those that have no direction at all."""
    length = np.linalg.norm(tips, axis=1)
    order = np.argsort(-length, kind="stable")[:top]
    return order[length[order] > SHORTEST * length.max()]


def _scale(points: Array, tips: Array) -> float:
    """The factor with which no arrow, from the centre of the points, goes beyond most of their box."""
    if len(tips) == 0:
        return 1.0
    low, high = points.min(axis=0), points.max(axis=0)  # (2,), below and above zero
    room = np.where(tips > 0, high, low)
    ahead = np.abs(tips) > 0
    ratio = np.divide(room, tips, out=np.full_like(tips, np.inf), where=ahead)
    least = float(ratio.min())
    return REACH * least if least > 0 else 1.0


def _draw(ax: Axes, centre: Array, tips: Array, names: list[str]) -> None:
    from matplotlib.patheffects import withStroke

    if len(tips) == 0:
        _axes.note(ax, "no variable moves these scores one way")
        return
    style: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "zorder": 4}
    start = np.broadcast_to(centre, tips.shape)
    made = ax.quiver(*start.T, *tips.T, color=_axes.INK, width=0.005, **style)
    made.set_gid("arrows")
    ends = centre + tips
    right = tips[:, 0] >= 0
    _make_room(ax, ends[:, 0], right, names)
    (left_edge, right_edge), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    outward = OUTWARD * (right_edge - left_edge)
    for side in (True, False):
        own = np.flatnonzero(right == side)
        heights = _spread(ends[own, 1], LINE * (top - bottom))
        style = {"ha": "left" if side else "right", "va": "center", "fontsize": 9}
        for l, height in zip(own, heights, strict=True):
            x = ends[l, 0] + (outward if side else -outward)
            text = ax.text(x, height, names[l], color="black", zorder=5, **style)
            # Over points too.
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


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
    out = np.empty_like(placed)
    out[order] = placed
    return out


def _make_room(ax: Axes, ends: Array, right: Any, names: list[str]) -> None:
    """Widen the picture until the names, which stand outward of the tips, lie in it."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    for _ in range(4):  # a wider picture moves the tips, and with them the names
        low, high = ax.get_xlim()
        wide = high - low
        words = np.array([OUTWARD + CHARACTER * len(name) / inches for name in names]) * wide
        most = max(high, float(np.max(ends + np.where(right, words, 0.0))))
        least = min(low, float(np.min(ends - np.where(right, 0.0, words))))
        ax.set_xlim(min(least, low), min(max(most, high), high + 2 * wide))
