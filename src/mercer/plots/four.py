"""Four panels: the data, PCA, kernel PCA, and the way back to input space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.public import public
from mercer.plots import _axes, _checks, _labels, scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure, SubFigure

    from mercer._core.types import Array

TITLES = ("data", "PCA", "kernel PCA", "back in input space")


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
    scatter.draw(axes[0, 1], linear[:, :2], read, names)
    scatter.draw(axes[1, 0], kernel[:, :2], read, names)
    _labels.draw(axes[1, 1], X, None, color=_axes.FAINT, alpha=0.5, gid="original")
    _inputs(axes[1, 1], back, read)
    _same_scale((axes[0, 0], axes[1, 1]), np.vstack([X, back]))
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


def _same_scale(axes: Sequence[Axes], points: Array) -> None:
    # Distances are what a reader compares in input space: one unit is as long in x as in y, and as
    # long in the one panel as in the other.
    for ax in axes:
        ax.update_datalim(points)
        ax.autoscale_view()
        ax.set_aspect("equal", adjustable="datalim")
