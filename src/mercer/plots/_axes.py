"""Where a picture is drawn: Axes that were given, or new ones, and their plain look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer.data.frames import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

AxesArray: TypeAlias = NDArray[Any]  # of matplotlib Axes

INK = "#333333"  # lines and remarks that are not data
FAINT = "#BDBDBD"  # data that serve as a backdrop


def one(ax: Axes | None, *, width: float, height: float) -> Axes:
    """The Axes that was given, or a new one in a figure of this many inches."""
    if ax is not None:
        return ax
    pyplot = need("matplotlib.pyplot", extra="plot")
    new: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return new


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
