"""Components as functions over two variables: where each is positive, negative and zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Number, Whole, require
from mercer._core.public import public
from mercer.plots import _axes, _checks, _labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes

    from mercer._core.types import Array


@dataclass(frozen=True)
class Slice:
    """The points whose two variables move, all others held."""

    points: Array  # (n, 2): the two variables of the data
    names: tuple[str, str]
    where: str  # how the others are held, in words; empty where there are none
    lifted: Callable[[Array], Any]  # (m, 2) -> (m, d), a data frame where the data are one


def _read_slice(X: Any, variables: Any, fixed: Any, names: Any) -> Slice:
    rows = _checks.finite("X", X, ndim=2, shape="(n, d)")
    d = rows.shape[1]
    given = getattr(X, "columns", None) if names is None else names
    called = None if given is None else [str(name) for name in given]
    if called is not None:
        _checks.count("names", called, d, "variables")
    if d < 2:
        _checks.plane("X", rows)  # raises
    if d > 2 and variables is None:
        msg = (
            f"`X` of shape {rows.shape} came, and a picture has two variables. Pass which two move, such as "
            "variables=(0, 1); `fixed` says where the others are held."
        )
        raise InputError(msg)
    pair = (0, 1) if variables is None else _pair(variables, d, called)
    held, where = _held(rows, fixed)

    def lifted(points: Array) -> Any:
        whole = np.tile(held, (len(points), 1))  # (m, d)
        whole[:, pair] = points
        # A model that was fitted to named columns wants them back.
        return type(X)(whole, columns=X.columns) if hasattr(X, "iloc") else whole

    first, second = (called[l] if called else f"feature {l + 1}" for l in pair)
    return Slice(rows[:, pair], (first, second), where if d > 2 else "", lifted)


def _pair(variables: Any, d: int, names: list[str] | None) -> tuple[int, int]:
    wanted = list(variables) if np.ndim(variables) == 1 else []
    places = [_place(variable, d, names) for variable in wanted]
    if len(places) != 2 or places[0] == places[1]:
        msg = f"`variables` must be two different variables, but {variables!r} came."
        msg += " Pass two column numbers or two names, such as variables=(0, 1)."
        raise InputError(msg)
    return places[0], places[1]


def _place(variable: Any, d: int, names: list[str] | None) -> int:
    if isinstance(variable, str):
        if names is not None and variable in names:
            return names.index(variable)
        known = "there are no names" if names is None else f"the names are {', '.join(names)}"
        msg = f"There is no variable {variable!r}: {known}. Pass column numbers, or `names`."
        raise InputError(msg)
    return int(require("variable", variable, Whole(0, d - 1)))


def _held(rows: Array, fixed: Any) -> tuple[Array, str]:
    if isinstance(fixed, str):
        if fixed == "median":
            return np.median(rows, axis=0), "the others at their medians"
    elif np.ndim(fixed) == 0:
        remedy = "Or pass 'median', or a point of d values."
        row = int(require("fixed", fixed, Whole(0, len(rows) - 1), remedy=remedy))
        return rows[row].copy(), f"the others as in row {row}"
    else:
        point = _checks.finite("fixed", fixed, ndim=1, shape="(d,)")
        _checks.count("fixed", point, rows.shape[1], "variables")
        return point.copy(), "the others held"
    msg = f"fixed={fixed!r} came. Pass 'median', the number of a row of X, or a point of d values."
    raise InputError(msg)


BANDS = 20  # even, so that zero is an edge between two bands
BLOCK = 2048  # grid points a call: a transform that stores (block, n) kernel values stays small
MOST_COLUMNS = 3


@public
def levels(
    X: Any,
    transform: Callable[[Array], Any],
    *,
    component: int | Iterable[int] = 0,
    n_components: int | None = None,
    variables: Sequence[int | str] | None = None,
    fixed: Any = "median",
    names: Sequence[str] | None = None,
    labels: Any = None,
    ax: Any = None,
    resolution: int = 200,
    margin: float = 0.15,
) -> Any:
    """Level sets of a component as a function over two variables, with its zero line and the data.

    With more than two variables the picture is a slice: two of them move, the others are held where `fixed`
    says. The data are then drawn pale: their other variables are not the held ones, so the colour under
    a point is not its score.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        The data, drawn on top; their box is what the picture shows.
    transform : callable
        Takes (m, d) points and gives their (m, k) scores, as ``model.transform`` does.
    component : int or sequence of int
        Which component, counted from 0; several make a grid of Axes.
    n_components : int, optional
        Short for ``component=range(n_components)``.
    variables : two integers or names, optional
        Which two variables move, counted from 0; the only two there are where it is left out.
    fixed : "median", int or array of shape (d,), default="median"
        Where the other variables are held: at the medians of X, at those of the row with this number, or
        at those of a point.
    names : d strings, optional
        Of the variables; the columns of a data frame where it is left out.
    labels : array of shape (n,), optional
        As in `mercer.plots.scores`.
    ax : matplotlib Axes, or an array of them where several components are drawn, optional
        Where to draw. A new figure is made otherwise.
    resolution : int
        Grid points along each side.
    margin : float
        How far the picture goes beyond the data, as a share of their extent.

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
        msg = (
            f"`transform` must be callable, but {type(transform).__name__} came. Pass the data first and "
            "`model.transform` second: levels(X, model.transform)."
        )
        raise InputError(msg)
    sliced = _read_slice(X, variables, fixed, names)
    X = sliced.points  # (n, 2) from here on
    read = _labels.read(labels, len(X))
    chosen, several = _chosen(component, n_components)
    require("resolution", resolution, Whole(2))
    remedy = "It is a share of the extent of X, such as 0.15."
    require("margin", margin, Number(0, ends="[)"), remedy=remedy)
    across, up = (np.linspace(*_axes.span(column, margin), resolution) for column in X.T)  # (r,)
    scores = on_grid(lambda points: transform(sliced.lifted(points)), across, up)
    scores = _checks.finite("transform(points)", scores, ndim=2, shape="(m, k)")
    values = scores.reshape(resolution, resolution, -1)  # (r, r, k)
    chosen = [_checks.component(index, values.shape[2]) for index in chosen]
    axes = _places(ax, len(chosen), several, shape=float(np.ptp(up) / np.ptp(across)))
    for place, index in zip(axes, chosen, strict=True):
        _fill(place, across, up, values[:, :, index])
        shaded = _labels.draw(place, X, read, **_on_top(read, pale=bool(sliced.where)))
        place.set_title(f"component {index + 1}", fontsize=11)
    if several and ax is None:
        _labels.common_key(axes, read, shaded)
    else:
        _labels.key(axes[0], read, shaded)
    _describe(axes, sliced, several=several, own=ax is None)
    return axes if several else axes[0]


def _chosen(component: Any, n_components: int | None) -> tuple[list[Any], bool]:
    if n_components is not None:
        if not (isinstance(component, int) and component == 0):
            msg = f"Both component={component!r} and n_components={n_components!r} came."
            msg += " One of the two says what to draw: leave the other out."
            raise InputError(msg)
        return list(range(require("n_components", n_components, Whole(1)))), True
    if np.ndim(component) == 0:
        return [component], False
    chosen = list(component)
    if not chosen:
        msg = "`component` is an empty sequence. Pass at least one component, such as 0."
        raise InputError(msg)
    return chosen, True


def on_grid(transform: Callable[[Array], Any], across: Array, up: Array) -> Array:  # (r², k)
    """The scores of a grid of points, row by row from the bottom, a block at a time."""
    first, second = np.meshgrid(across, up)
    points = np.column_stack([first.ravel(), second.ravel()])  # (r², 2)
    blocks = []
    for start in range(0, len(points), BLOCK):
        block = points[start : start + BLOCK]
        scores = np.asarray(transform(block))
        if scores.ndim != 2 or len(scores) != len(block):
            msg = (
                f"`transform` took points of shape {block.shape} and gave shape {scores.shape}. It "
                "must give one row of scores for each point, (m, k): pass `model.transform`."
            )
            raise InputError(msg)
        blocks.append(scores)
    return np.concatenate(blocks)


def reach(values: Array) -> float:
    """Where the colours of a component end: they are symmetric about zero, for its sign is its meaning.

    At the 98th percentile: a polynomial grows without bound in the corners, and its largest value would
    leave the middle, where the data are, without any colour.
    """
    size = np.abs(values)
    return float(np.percentile(size, 98)) or float(size.max()) or 1.0


def _places(ax: Any, count: int, several: bool, *, shape: float) -> Any:
    """(count,) Axes: those that were given, or new ones in rows of at most three."""
    if ax is not None:
        places = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        _checks.count("ax", places, count, "components to draw")
        return places
    tall = float(np.clip(shape, 0.4, 1.4))  # height for each unit of width, as the data have it
    if not several:
        return np.array([_axes.one(None, width=5.2, height=4.3 * tall + 0.4)], dtype=object)
    columns = min(count, MOST_COLUMNS)
    rows = -(-count // columns)
    size = {"width": 3.2 * columns, "height": (2.4 * tall + 0.5) * rows + 0.2}
    made = _axes.grid(None, rows, columns, **size).ravel()
    for unused in made[count:]:
        unused.remove()
    return made[:count]


def _fill(ax: Axes, across: Array, up: Array, values: Array) -> None:
    end = reach(values)
    edges = np.linspace(-end, end, BANDS + 1)
    filled = ax.contourf(across, up, values, levels=edges, cmap="PRGn", extend="both")
    if values.min() < 0 < values.max():
        zero = ax.contour(across, up, values, levels=[0.0], colors=_axes.INK, linewidths=1.4)
        zero.set_gid("zero")
    beside = ax.inset_axes((1.02, 0.0, 0.035, 1.0))  # as tall as the picture, whatever its aspect
    ticks: dict[str, Any] = {"ticks": [-end, 0.0, end], "format": "%.2g"}
    bar = ax.figure.colorbar(filled, cax=beside, extendfrac=0.03, **ticks)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    _axes.tidy(ax)
    ax.spines[:].set_visible(False)
    wide, high = float(np.ptp(across)), float(np.ptp(up))
    # Else the units differ, or the picture would be a slit.
    if max(wide, high) < 3 * min(wide, high):
        ax.set_aspect("equal")


def _describe(axes: Any, sliced: Slice, *, several: bool, own: bool) -> None:
    """What the two axes are, and where the other variables are held."""
    across, up = sliced.names
    if not several:  # in a grid the names would repeat in every cell
        axes[0].set(xlabel=across, ylabel=up)
        if sliced.where:
            axes[0].set_title(f"{axes[0].get_title()}, {sliced.where}", fontsize=11)
    elif sliced.where and own:
        figure = axes[0].figure
        figure.suptitle(f"over {across} (across) and {up} (up), {sliced.where}", fontsize=10)


def _on_top(labels: _labels.Labels | None, *, pale: bool) -> dict[str, Any]:
    """Points must be seen on dark as well as on pale: a white rim, and black without labels."""
    seen = 0.7 if pale else 1.0
    rim: dict[str, Any] = {"linewidths": 0.4, "edgecolors": "white", "alpha": seen, "size": 12.0}
    return rim if labels is not None else rim | {"color": "black"}
