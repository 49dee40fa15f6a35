"""Components as functions over two variables: where each is positive, negative and zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError, ParameterError, close_to
from mercer._core.params import Number, Whole, require
from mercer._core.public import public
from mercer._core.types import Array
from mercer._core.wording import Message
from mercer.data.rows import row_slices
from mercer.estimators.anatomy import is_model
from mercer.views import checks
from mercer.views.base import View, listing, span
from mercer.views.classes import Classes, classes
from mercer.views.fitted import Fitted
from mercer.views.scatter import component_names
from mercer.views.wording import number, share

BLOCK = 2048  # grid points a call: a transform that stores (block, n) kernel values stays small
MOST = 6  # components of a model that are drawn unless others are asked for


@dataclass(frozen=True, eq=False, kw_only=True)
class Levels(View):
    """Components on a grid of points, with the lines where they are zero and the data."""

    kind: ClassVar[str] = "levels"
    axes: tuple[str, str]  # the two variables, across and up
    titles: tuple[str, ...]  # "component 1", one for each of the c components
    where: str  # how other variables are held, in words; empty where there are none
    across: Array  # (r,)
    up: Array  # (r,)
    values: Array  # (c, r, r): rows from the bottom
    reach: Array  # (c,): where the colours end, symmetric about zero
    zeros: tuple[Array, ...]  # c times (s, 2, 2): both ends of each piece of a zero line
    points: Array  # (n, 2): the data
    classes: Classes
    several: bool = True  # whether a sequence of components was asked for


@public
def levels(
    model: Any,
    X: Any,
    *,
    component: int | Iterable[int] | None = None,
    n_components: int | None = None,
    variables: Sequence[int | str] | None = None,
    fixed: Any = "median",
    names: Sequence[str] | None = None,
    labels: Any = None,
    resolution: int = 96,
    margin: float = 0.15,
    preparation: Any = None,
) -> Levels:
    """Components as functions over two variables, all others held.

    Parameters are those of `mercer.plots.contours`; a callable that takes (m, d) points and gives their
    (m, k) scores may stand for the model.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import views
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    >>> view = views.levels(lambda points: points, X, component=[0], resolution=3, margin=0.0)
    >>> view.values[0]
    array([[-1.,  0.,  1.],
           [-1.,  0.,  1.],
           [-1.,  0.,  1.]])
    """
    transform, ratio = model, None
    if is_model(model):
        fitted = Fitted.of(model, preparation)
        transform, ratio = fitted.raw_scores, fitted.shares
        names, X = fitted.names(names, X), fitted.raw(fitted.rows(X))
        if component is None and n_components is None:
            n_components = min(fitted.k, MOST)
    points, axes, where, lifted = _read_slice(X, variables, fixed, names)
    chosen, several = _chosen(component, n_components)
    require("resolution", resolution, Whole(2))
    remedy = "It is a share of the extent of X, such as 0.15."
    require("margin", margin, Number(0, ends="[)"), remedy=remedy)
    across, up = (np.linspace(*span(column, margin), resolution) for column in points.T)
    scores = _on_grid(lambda at: transform(lifted(at)), across, up)
    scores = checks.finite("transform(points)", scores, ndim=2, shape="(m, k)")
    chosen = [checks.component(index, scores.shape[1]) for index in chosen]
    values = scores.T[chosen].reshape(-1, resolution, resolution)
    titles, held = tuple(component_names(chosen, ratio)), f", {where}" if where else ""
    table = [
        [title, number(each.min()), number(each.max()), share(float(np.mean(each > 0)))]
        for title, each in zip(titles, values, strict=True)
    ]
    head = ["component", "least", "largest", "positive on"]
    return Levels(
        axes=axes,
        titles=titles,
        where=where,
        across=across,
        up=up,
        values=values,
        # Symmetric about zero, for the sign of a component is its meaning. At the 98th percentile: a
        # polynomial grows without bound in the corners, and its largest value would leave the middle pale.
        reach=np.array(
            [float(np.percentile(s, 98)) or float(s.max()) or 1.0 for s in np.abs(values)]
        ),
        zeros=tuple(zero_line(across, up, each) for each in values),
        points=points,
        classes=classes(labels, len(points)),
        several=several,
        caption=f"Each component over {axes[0]} (across) and {axes[1]} (up){held}; the line is zero.",
        tables=(listing("Components over the picture", head, table),),
    )


# ── which points ────────────────────────────────────────────────────────────
def _read_slice(
    X: Any, variables: Any, fixed: Any, names: Any
) -> tuple[Array, tuple[str, str], str, Callable[[Array], Any]]:
    """The two variables that move, (n, 2), their names, how others are held, and points of all, (m, d)."""
    rows = checks.finite("X", X, ndim=2, shape="(n, d)")
    d = rows.shape[1]
    given = getattr(X, "columns", None) if names is None else names
    called = None if given is None else checks.named(given, d)
    if d < 2:
        checks.plane("X", rows)  # raises
    if d > 2 and variables is None:
        msg = Message(
            "A picture has two variables; got `X` of shape {shape}. {fixed} says where the others are held. "
            "Say which two move: {variables:{pair}}",
            shape=rows.shape,
            pair=repr((0, 1) if called is None else (called[0], called[-1])),
        )
        raise ParameterError(msg)
    pair = (0, 1)
    if variables is not None:
        wanted = variables if np.ndim(variables) == 1 else []
        places = [_place(variable, d, called) for variable in wanted]
        if len(places) != 2 or places[0] == places[1]:
            must_be = "two different variables, by two names or two column numbers"
            raise ParameterError.about(parameter="variables", value=variables, must_be=must_be)
        pair = places[0], places[1]
    held, where = _held(rows, fixed)

    def lifted(points: Array) -> Any:
        whole = np.tile(held, (len(points), 1))  # (m, d)
        whole[:, pair] = points
        # A model that was fitted to named columns wants them back.
        return type(X)(whole, columns=X.columns) if hasattr(X, "iloc") else whole

    first, second = (called[l] if called else f"feature {l + 1}" for l in pair)
    return rows[:, pair], (first, second), where if d > 2 else "", lifted


def _place(variable: Any, d: int, names: list[str] | None) -> int:
    if isinstance(variable, str):
        if names is not None and variable in names:
            return names.index(variable)
        known = "there are no names" if names is None else f"the names are {', '.join(names)}"
        near = "" if names is None else f" {close_to(variable, names)}"
        msg = f"Unknown variable {variable!r}: {known}. Pass column numbers, or `names`.{near}"
        raise ParameterError(msg.rstrip())
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
        point = checks.finite("fixed", fixed, ndim=1, shape="(d,)")
        checks.count("fixed", point, rows.shape[1], "variables")
        return point.copy(), "the others held"
    wanted = "'median', the number of a row of X or a point of d values"
    raise ParameterError.about(parameter="fixed", value=fixed, must_be=wanted)


def _chosen(component: Any, n_components: int | None) -> tuple[list[Any], bool]:
    if n_components is not None:
        if component is not None:
            msg = f"Got both component={component!r} and n_components={n_components!r}."
            msg += " One of the two says what to draw: leave the other out."
            raise InputError(msg)
        return list(range(require("n_components", n_components, Whole(1)))), True
    if component is None or np.ndim(component) == 0:
        return [0 if component is None else component], False
    chosen = list(component)
    if not chosen:
        msg = "`component` is an empty sequence. Pass at least one component, such as 0."
        raise InputError(msg)
    return chosen, True


# ── what they are there ─────────────────────────────────────────────────────
def _on_grid(transform: Callable[[Array], Any], across: Array, up: Array) -> Array:  # (r², k)
    """The scores of a grid of points, row by row from the bottom, a block at a time."""
    first, second = np.meshgrid(across, up)
    points = np.column_stack([first.ravel(), second.ravel()])  # (r², 2)
    blocks = []
    for rows in row_slices(len(points), BLOCK):
        block = points[rows]
        scores = np.asarray(transform(block))
        if scores.ndim != 2 or len(scores) != len(block):
            got = f"points of shape {block.shape} and returned shape {scores.shape}"
            msg = f"`transform` was given {got}. It must return one row of scores for each point, (m, k): "
            msg += "pass `model.transform`."
            raise InputError(msg)
        blocks.append(scores)
    return np.concatenate(blocks)


def zero_line(across: Array, up: Array, values: Array) -> Array:  # (r, r) -> (s, 2, 2)
    """The zero line by marching squares: both ends of each piece. A saddle is joined by its middle.

    The corners of a square are numbered 0 to 3 around it, edge e goes from corner e to the next.
    """
    corners = values[:-1, :-1], values[:-1, 1:], values[1:, 1:], values[1:, :-1]
    v = np.stack(corners)  # (4, r-1, r-1)
    above = v > 0
    row, column = np.nonzero(above.any(axis=0) & ~above.all(axis=0))
    # (4, m): the squares that the line runs through.
    v, above = v[:, row, column], above[:, row, column]
    x = np.stack([across[column], across[column + 1], across[column + 1], across[column]])
    y = np.stack([up[row], up[row], up[row + 1], up[row + 1]])
    crossed = above != np.roll(above, -1, axis=0)  # (4, m)
    t = np.divide(v, v - np.roll(v, -1, axis=0), out=np.zeros_like(v), where=crossed)
    ends = np.stack([side + t * (np.roll(side, -1, axis=0) - side) for side in (x, y)], axis=-1)
    saddle = crossed.all(axis=0)
    # (2, m): the two edges that are crossed.
    plain = np.argsort(~crossed, axis=0, kind="stable")[:2]
    every = np.arange(v.shape[1])
    pieces = [np.stack([ends[plain[0], every], ends[plain[1], every]], 1)[~saddle]]
    # Two corners of a saddle are cut off: the second and the fourth where the middle is like the first.
    like = (v.mean(axis=0) > 0) == above[0]
    for own, edges in ((saddle & like, ((0, 1), (2, 3))), (saddle & ~like, ((3, 0), (1, 2)))):
        pieces += [np.stack([ends[a, own], ends[b, own]], 1) for a, b in edges]
    return np.concatenate(pieces)
