"""Labels into colours: classes get a colour, a marker and a legend; measurements a colour bar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.plots import _axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

    from mercer._core.types import Array
    from mercer.plots._axes import AxesArray

# Okabe and Ito (2008), told apart by all common kinds of colour vision. Their yellow is left out:
# it vanishes on white. Seven colours and three markers give 21 looks, so 20 classes all differ.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^")
MOST_CLASSES = 20
FEW_CLASSES = 5  # a legend this short may stand inside, where the data leave room
MANY_POINTS = 10_000  # above, searching a free corner takes seconds and vector files grow huge


@dataclass(frozen=True)
class Labels:
    """What each of the n points is called: a class, or a position on a continuous scale."""

    values: Array  # (n,): the code of the class, or the measurement itself
    names: tuple[str, ...]  # one for each class; empty for a measurement

    @property
    def listed(self) -> bool:
        """Whether there are classes, few enough to name each."""
        return 0 < len(self.names) <= MOST_CLASSES

    def look(self, code: int) -> dict[str, Any]:
        """Colour and marker of a class."""
        colour, marker = code % len(PALETTE), code // len(PALETTE)
        return {"color": PALETTE[colour], "marker": MARKERS[marker]}


def read(labels: Any, n: int) -> Labels | None:
    """Tell classes from measurements: floats are measurements unless they count a few classes."""
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != (n,):
        msg = f"`labels` must have shape ({n},), one for each point, but shape {array.shape} came."
        msg += " Pass a flat array in the order of the points, or None."
        raise InputError(msg)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            msg = (
                f"`labels` are numbers, but {int((~np.isfinite(array)).sum())} are NaN or infinite."
            )
            msg += " Drop those points, or pass the labels as strings."
            raise InputError(msg)
        distinct = np.unique(array)
        if len(distinct) > MOST_CLASSES or (distinct != np.round(distinct)).any():
            return Labels(array.astype(np.float64), ())
        array = array.astype(np.int64)  # a class 1.0 is called 1
    try:
        names, codes = np.unique(array, return_inverse=True)
    except TypeError:  # classes such as 1, "a" and None have no common order: go by their names
        names, codes = np.unique(array.astype(str), return_inverse=True)
    return Labels(codes.astype(np.float64), tuple(map(str, names)))


def draw(
    ax: Axes, points: Array, labels: Labels | None, *, size: float | None = None, **style: Any
) -> PathCollection | None:
    """Draw (n, 2) points. What comes back is the shaded collection, where there is one."""
    n = len(points)
    size = float(np.clip(440 / np.sqrt(n), 4, 22)) if size is None else size
    style = {"s": size, "linewidths": 0, "alpha": 0.85, "rasterized": n > MANY_POINTS} | style
    if labels is None:
        style.setdefault("color", PALETTE[0])
        ax.scatter(points[:, 0], points[:, 1], **style)
        return None
    if not labels.listed:
        return ax.scatter(points[:, 0], points[:, 1], c=labels.values, cmap="viridis", **style)
    for code, name in enumerate(labels.names):
        mine = points[labels.values == code]
        ax.scatter(mine[:, 0], mine[:, 1], label=name, **labels.look(code), **style)
    return None


def key(ax: Axes, labels: Labels | None, shaded: PathCollection | None) -> None:
    """Explain the colours: a legend for classes, a bar for a measurement, a note for too many."""
    if labels is None:
        return
    if labels.listed:  # where it covers no data: in a free corner, or right of the Axes if long
        style: dict[str, Any] = {"fontsize": 9, "handletextpad": 0.3, "borderpad": 0.4}
        columns = outside(labels)
        if columns == 0:
            style |= {"loc": "best", "framealpha": 0.9, "edgecolor": "none"}
        else:
            style |= {"ncols": columns, "columnspacing": 0.8, "frameon": False}
            style |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        _full_size(ax.legend(**style))
    elif labels.names:
        _axes.note(ax, remark(labels))
    elif shaded is not None:
        ax.figure.colorbar(shaded, ax=ax, label="label", pad=0.02).outline.set_visible(False)


def remark(labels: Labels) -> str:
    """What stands in place of a legend that would be too long to read."""
    return f"{len(labels.names)} classes, shaded in sorted order"


def outside(labels: Labels | None) -> int:
    """Columns of a legend that has to stand to the right of the Axes; 0 where none does."""
    if labels is None or not labels.listed:
        return 0
    if len(labels.names) <= FEW_CLASSES and len(labels.values) <= MANY_POINTS:
        return 0
    return 1 if len(labels.names) <= 12 else 2


def common_key(axes: AxesArray, labels: Labels | None, shaded: PathCollection | None) -> None:
    """One explanation of the colours for all Axes of a figure, outside of all of them."""
    if labels is None:
        return
    figure = axes.flat[0].figure
    if labels.listed:
        handles, names = axes.flat[0].get_legend_handles_labels()
        style = {"frameon": False, "fontsize": 9, "handletextpad": 0.2}
        place = {"loc": "outside lower center", "ncols": min(len(names), 7)}
        _full_size(figure.legend(handles, names, **place, **style))
    elif labels.names:
        figure.supxlabel(remark(labels), fontsize=9, color=_axes.INK)
    else:
        bar = figure.colorbar(shaded, ax=list(axes.flat), label="label", shrink=0.6, pad=0.02)
        bar.outline.set_visible(False)


def _full_size(made: Any) -> None:
    # Thousands of points are drawn small; their signs in the legend must still be seen.
    for handle in made.legend_handles:
        handle.set_sizes([24])
        handle.set_alpha(1)
