"""The scores, two components against each other or one alone; and four panels with the data beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer.plots import _axes, _checks, _labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure, SubFigure

    from mercer._core.types import Array

TITLES = ("data", "PCA", "kernel PCA", "back in input space")


@public
def scores(
    scores: Any,
    labels: Any = None,
    *,
    components: Sequence[int] = (0, 1),
    explained_variance_ratio: Any = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Scatter of two components; of one component, a strip for each label.

    Parameters
    ----------
    scores : array of shape (n, k) or (n,)
        Scores of n points on k components.
    labels : array of shape (n,), optional
        Strings, integers or whole floats are classes (a legend, up to 20 of them); other floats are
        a measurement (a colour bar).
    components : one or two integers
        Which components, counted from 0. With k = 1 the default means the only one there is.
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
    >>> from mercer.plots import scores
    >>> Z = [[-1.0, 0.5], [0.0, -1.0], [1.0, 0.5]]
    >>> ratio = [0.571, 0.429]
    >>> ax = scores(Z, ["a", "b", "a"], explained_variance_ratio=ratio, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'component 1 (57.1 %)'
    """
    values = _checks.finite("scores", scores, ndim=(1, 2), shape="(n, k)")
    values = values.reshape(len(values), -1)  # (n,) is one component
    k = values.shape[1]
    only = k == 1 and tuple(components) == (0, 1)
    chosen = _checks.components((0,) if only else components, k, least=1)
    names = _names(chosen, explained_variance_ratio)
    read = _labels.read(labels, len(values))
    ax = _axes.one(ax, width=5.2 + 0.7 * _labels.outside(read), height=4.0)
    shaded = draw(ax, values[:, chosen], read, names)
    if len(chosen) == 2 or read is None or not read.listed:
        _labels.key(ax, read, shaded)  # a strip of few classes has them on its axis already
    if title is not None:
        ax.set_title(title, fontsize=11)
    return ax


def draw(
    ax: Axes, chosen: Array, labels: _labels.Labels | None, names: Sequence[str]
) -> PathCollection | None:
    """Draw (n, 1) or (n, 2) scores with their names on the axes, and no key."""
    _axes.tidy(ax)
    ax.set_xlabel(names[0])
    if chosen.shape[1] == 1:
        return _strip(ax, chosen, labels)
    ax.set_ylabel(names[1])
    return _labels.draw(ax, chosen, labels)


def _strip(ax: Axes, chosen: Array, labels: _labels.Labels | None) -> PathCollection | None:
    # One number a point leaves the other axis free. It shows the label, or the index, and never
    # random jitter: that would draw a second coordinate which is not there.
    height = np.arange(len(chosen), dtype=np.float64) if labels is None else labels.values
    shaded = _labels.draw(ax, np.column_stack([chosen[:, 0], height]), labels)
    if labels is None:
        ax.set_ylabel("index of the point")
    elif labels.listed:
        ax.set_yticks(range(len(labels.names)), labels.names)
        ax.set_ylim(len(labels.names) - 0.5, -0.5)  # the first class on top, as in a list
        ax.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        ax.set_axisbelow(True)
    else:
        ax.set_ylabel("class" if labels.names else "label")
    return shaded


def _names(chosen: Sequence[int], ratio: Any) -> list[str]:
    """'component 1 (32.1 %)': counted from 1, as people and papers do."""
    names = [f"component {index + 1}" for index in chosen]
    if ratio is None:
        return names
    ratio = _checks.finite("explained_variance_ratio", ratio, ndim=1, shape="(k,)")
    if len(ratio) <= max(chosen) or ratio.min() < 0 or ratio.max() > 1 + 1e-9:
        msg = (
            f"`explained_variance_ratio` must hold a share between 0 and 1 for component "
            f"{max(chosen)}, but {len(ratio)} values from {ratio.min():.3g} to {ratio.max():.3g} "
            "came. Pass `explained_variance_ratio_` of the fitted model."
        )
        raise InputError(msg)
    return [
        f"{name} ({ratio[i]:.1%})".replace("%", " %") for name, i in zip(names, chosen, strict=True)
    ]


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
) -> _axes.AxesArray:
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
    X = _checks.plane("X", X)
    back = _checks.plane("reconstruction", reconstruction)
    linear = _checks.finite("pca_scores", pca_scores, ndim=2, shape="(n, k)")
    kernel = _checks.finite("kpca_scores", kpca_scores, ndim=2, shape="(n, k)")
    _checks.same_rows(len(X), pca_scores=linear, kpca_scores=kernel, reconstruction=back)
    read = _labels.read(labels, len(X))
    titles = TITLES if titles is None else titles
    _checks.count("titles", titles, 4, "panels")

    axes = _axes.grid(fig, 2, 2, width=7.6, height=6.4)
    names = ("component 1", "component 2")
    shaded = _inputs(axes[0, 0], X, read)
    draw(axes[0, 1], linear[:, :2], read, names)
    draw(axes[1, 0], kernel[:, :2], read, names)
    _labels.draw(axes[1, 1], X, None, color=_axes.FAINT, alpha=0.5, gid="original")
    _inputs(axes[1, 1], back, read)
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
    _labels.common_key(axes, read, shaded)
    return axes


def _inputs(ax: Axes, points: Array, labels: _labels.Labels | None) -> PathCollection | None:
    _axes.tidy(ax)
    ax.set(xlabel="feature 1", ylabel="feature 2")
    return _labels.draw(ax, points, labels)
