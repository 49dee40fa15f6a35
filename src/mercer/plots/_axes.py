"""Where a picture is drawn and how labels look in it: Axes, plain or new, colours, markers and their key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._core.errors import InputError
from mercer._core.types import Array
from mercer.data.frames import need
from mercer.views.classes import PALETTE, Classes

# The types of matplotlib that every picture is made of: it is loaded by the first one, not by their names.
__all__ = ["Axes", "Figure", "PathCollection", "SubFigure"]
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure, SubFigure
else:
    Axes = PathCollection = Figure = SubFigure = Any

AxesArray: TypeAlias = NDArray[Any]  # of matplotlib Axes

INK = "#333333"  # lines and remarks that are not data
FAINT = "#BDBDBD"  # data that serve as a backdrop
MARKERS = "os^DP"  # of the shapes of classes, in their order
FEW_CLASSES = 5  # a legend this short may stand inside, where the data leave room
MANY_POINTS = 10_000  # above, searching a free corner takes seconds and vector files grow huge


def one(ax: Axes | None, *, width: float, height: float) -> Axes:
    """The Axes that was given, or a new one in a figure of this many inches."""
    if ax is not None:
        return ax
    axes: Axes = grid(None, 1, 1, width=width, height=height)[0, 0]
    return axes


def grid(
    fig: Figure | SubFigure | None, rows: int, columns: int, *, width: float, height: float
) -> AxesArray:
    """(rows, columns) Axes in the figure that was given, or in a new one of this many inches."""
    if fig is None:
        pyplot = need("matplotlib.pyplot", extra="plot")
        fig = pyplot.figure(figsize=(width, height), layout="constrained")
    elif not fig.axes and fig.get_layout_engine() is None and hasattr(fig, "set_layout_engine"):
        # Titles of one row run into the labels of the row above unless the figure makes room. An
        # empty figure without a layout of its own is handed over for just that.
        fig.set_layout_engine("constrained")
    return np.asarray(fig.subplots(rows, columns, squeeze=False), dtype=object)


def named_bars(ax: Axes, names: Sequence[str], values: Any, color: Any) -> None:
    """A bar from the left for each name, the first one on top."""
    tidy(ax)
    ax.barh(range(len(names)), values, color=color)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()


def tidy(ax: Axes) -> None:
    """Only the two spines that carry a scale; text that stays readable when the picture shrinks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)


def note(ax: Axes, text: str) -> None:
    """A small remark along the right edge: out of the way of the data and of any title."""
    ax.annotate(
        text,
        xy=(1.0, 0.5),
        xytext=(4, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="left",
        va="center",
        rotation=90,
        fontsize=9,
        color=INK,
    )


# ── labels: classes as colours and markers, measurements as shades ──────────
def drawable(labels: Any) -> Any:
    """Labels that can be drawn: a number that is NaN or infinite has no place on a scale of colours."""
    array = None if labels is None else np.asarray(labels)
    if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        msg = f"`labels` must be finite numbers or texts; {bad} are NaN or infinite."
        msg += " Drop those rows, or pass the labels as strings."
        raise InputError(msg)
    return labels


def points(
    ax: Axes, at: Array, labels: Classes | None, *, size: float | None = None, **style: Any
) -> PathCollection | None:
    """Draw (n, 2) points. What is returned is the shaded collection, where there is one."""
    n = len(at)
    size = float(np.clip(440 / np.sqrt(n), 4, 22)) if size is None else size
    style = {"s": size, "linewidths": 0, "alpha": 0.85, "rasterized": n > MANY_POINTS} | style
    if labels is None or not labels.names:
        style.setdefault("color", PALETTE[0])
        ax.scatter(at[:, 0], at[:, 1], **style)
        return None
    if labels.shade is not None:
        return ax.scatter(at[:, 0], at[:, 1], c=labels.shade, cmap="viridis", **style)
    for code, mine in labels.each():
        style |= {"color": PALETTE[code % len(PALETTE)], "marker": MARKERS[code % len(MARKERS)]}
        ax.scatter(at[mine, 0], at[mine, 1], label=labels.names[code], **style)
    return None


def key(ax: Axes, labels: Classes, shaded: PathCollection | None) -> None:
    """Explain the colours: a legend for classes, a bar for a measurement, a note for too many."""
    if not labels.names:
        return
    if labels.shade is None:
        # Where it covers no data: in a free corner, or right of the Axes if long.
        style: dict[str, Any] = {"fontsize": 9, "handletextpad": 0.3, "borderpad": 0.4}
        columns = outside(labels)
        if columns == 0:
            style |= {"loc": "best", "framealpha": 0.9, "edgecolor": "none"}
        else:
            style |= {"ncols": columns, "columnspacing": 0.8, "frameon": False}
            style |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        _full_size(ax.legend(**style))
    elif labels.shaded != "label":
        note(ax, labels.shaded)
    elif shaded is not None:
        ax.figure.colorbar(shaded, ax=ax, label="label", pad=0.02).outline.set_visible(False)


def outside(labels: Classes) -> int:
    """Columns of a legend that has to stand to the right of the Axes; 0 where none does."""
    if not labels.names or labels.shade is not None:
        return 0
    if len(labels.names) <= FEW_CLASSES and len(labels.codes) <= MANY_POINTS:
        return 0
    return 1 if len(labels.names) <= 12 else 2


def common_key(axes: AxesArray, labels: Classes, shaded: PathCollection | None) -> None:
    """One explanation of the colours for all Axes of a figure, outside of all of them."""
    if not labels.names:
        return
    figure = axes.flat[0].figure
    if labels.shade is None:
        handles, names = axes.flat[0].get_legend_handles_labels()
        legend = figure.legend(
            handles,
            names,
            loc="outside lower center",
            ncols=min(len(names), 7),
            frameon=False,
            fontsize=9,
            handletextpad=0.2,
        )
        _full_size(legend)
    elif labels.shaded != "label":
        figure.supxlabel(labels.shaded, fontsize=9, color=INK)
    else:
        bar = figure.colorbar(shaded, ax=list(axes.flat), label="label", shrink=0.6, pad=0.02)
        bar.outline.set_visible(False)


def _full_size(made: Any) -> None:
    # Thousands of points are drawn small; their signs in the legend must still be seen.
    for handle in made.legend_handles:
        handle.set_sizes([24])
        handle.set_alpha(1)
