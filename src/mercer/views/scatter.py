"""Scores against each other: every row a point, arrows of variables, or cells with counts for many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._core.errors import InputError, refuse
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.estimators.anatomy import is_model
from mercer.views import checks
from mercer.views.base import View, listing
from mercer.views.classes import Classes, alarm_classes, classes
from mercer.views.fitted import Fitted, unnamed
from mercer.views.wording import count, counted, number, share

BINS = 160  # along either side
LEVELS = 6  # strengths of colour
MOST_LISTED = 20
REACH = 0.75  # of the way from the centre to the nearest side of the data that the arrows may fill
SHORTEST = 1e-6  # of the longest arrow: below, a variable has no direction


@dataclass(frozen=True, eq=False)
class Arrows:
    """Which way variables move two scores: mean slopes, on a scale of their own."""

    start: Array  # (2,): the middle of the points
    tips: Array  # (a, 2): from there
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(View):
    """Rows as points, with what each axis is called; the first two axes are drawn first."""

    kind: ClassVar[str] = "scores"
    axes: tuple[str, ...]  # "component 1 (57.1 %)"
    points: Array  # (m, c)
    classes: Classes  # of the m rows
    rows: Indices  # (m,): their positions among the rows that were given
    ids: tuple[str, ...] | None = None  # what each is called
    left_out: int = 0  # rows too far out for their scores to be numbers
    without_past: int = 0  # rows with too few before them to have scores
    arrows: Arrows | None = None


@public
def scores(
    scores: Any,
    X: Any = None,
    labels: Any = None,
    *,
    components: Sequence[int] = (0, 1),
    explained_variance_ratio: Any = None,
    time: Any = None,
    ids: Any = None,
    keep_infinite: bool = True,
) -> Scores:
    """Scores of rows on some components.

    Parameters are those of `mercer.plots.scores`, with as many components as one likes; `ids` are what rows
    are called. With ``keep_infinite=False`` rows whose scores are not finite are left out, and counted; of
    a detector that looks back those with too few rows before them always are.

    Examples
    --------
    >>> from mercer import PCA, views
    >>> X = [[0.0, 1.0], [2.0, 0.0], [4.0, 5.0]]
    >>> view = views.scores(PCA(2).fit(X), X, ["a", "b", "a"])
    >>> view.axes, view.classes.counts
    (('component 1 (88.8 %)', 'component 2 (11.2 %)'), (2, 1))
    """
    placed: Indices | None = None  # rows that have scores; None for all
    if is_model(scores):
        fitted = Fitted.of(scores)
        if X is None:
            msg = "Scores of a model need rows: scores(model, X), or scores(Z)."
            raise InputError(msg)
        rows, time = fitted.rows(X), fitted.times(X, time)
        values, ratio = fitted.scores(rows, time), fitted.shares
        placed = fitted.placed(rows, time)
        if labels is None and fitted.detector is not None:
            labels = alarm_classes(fitted.alarm(rows, time))
    else:
        if X is not None and labels is not None:
            msg = "Scores take labels, not rows as well: scores(Z, labels), or scores(model, X, labels)."
            raise InputError(msg)
        values, ratio, labels = scores, None, X if labels is None else labels
    if explained_variance_ratio is not None:
        ratio = explained_variance_ratio
    return _of_arrays(
        values, labels, components, ratio, placed, ids=ids, keep_infinite=keep_infinite
    )


def _of_arrays(
    values: Any,
    labels: Any,
    components: Sequence[int],
    ratio: Any,
    placed: Indices | None,
    *,
    ids: Any = None,
    keep_infinite: bool = True,
) -> Scores:
    try:
        values = np.asarray(values)
        n = len(values)
    except (TypeError, ValueError):  # of a single number, and of rows of unequal length
        checks.finite("scores", values, ndim=(1, 2), shape="(n, k)")  # raises, in words
    placed = np.arange(n) if placed is None else placed
    kept = placed
    if not keep_infinite:
        kept = placed[np.isfinite(values[placed].reshape(len(placed), -1)).all(axis=1)]
    points = checks.finite("scores", values[kept], ndim=(1, 2), shape="(n, k)")
    points = points.reshape(len(points), -1)  # (n,) is one component
    k = points.shape[1]
    wanted = (0,) if k == 1 and tuple(components) == (0, 1) else components
    chosen = [checks.component(index, k) for index in wanted]
    view = Scores(
        points=points[:, chosen],
        axes=tuple(component_names(chosen, ratio)),
        classes=classes(labels, n).taken(kept),
        rows=kept,
        ids=None if ids is None else tuple(str(ids[i]) for i in kept.tolist()),
        left_out=len(placed) - len(kept),
        without_past=n - len(placed),
    )
    return replace(view, caption=_caption(view), tables=_tables(view))


def component_names(chosen: Sequence[int], ratio: Any = None) -> list[str]:
    """'component 1 (32.1 %)': counted from 1, as people and papers do."""
    names = [f"component {index + 1}" for index in chosen]
    if ratio is None:
        return names
    ratio = checks.finite("explained_variance_ratio", ratio, ndim=1, shape="(k,)")
    if len(ratio) <= max(chosen) or ratio.min() < 0 or ratio.max() > 1 + 1e-9:
        must_be = f"shares between 0 and 1, one for component {max(chosen) + 1} among them"
        got = f"{len(ratio)} values from {ratio.min():.3g} to {ratio.max():.3g}"
        remedy = "Pass `explained_variance_ratio_` of the fitted model."
        refuse("explained_variance_ratio", ratio, must_be, got, remedy)
    return [f"{name} ({share(ratio[i])})" for name, i in zip(names, chosen, strict=True)]


def _caption(view: Scores) -> str:
    axes, rows = view.axes, counted(len(view.points), "row")
    text = f"{axes[0].capitalize()}: {rows}, each a point."
    if len(axes) > 1:
        text = f"{axes[1].capitalize()} against {axes[0]}: {rows}, each a point."
    if view.left_out:
        text += f" {counted(view.left_out, 'row')} too far out to be computed are not drawn."
    if view.without_past:
        text += f" {counted(view.without_past, 'row')} with too few before them are not drawn."
    return f"{text} {view.classes.remark}".rstrip()


def _tables(view: Scores) -> tuple[Any, ...]:
    looks, points, heads = view.classes, view.points[:, :4], view.axes[:4]
    shown, title = min(len(points), MOST_LISTED), "Scores"
    if shown < len(points):
        title = f"Scores of the first {shown} of {count(len(points))} rows"
    ids = view.ids or [str(i + 1) for i in view.rows[:shown].tolist()]
    columns = {"row": ids[:shown]}
    if looks.names:
        own = [looks.names[code] for code in looks.codes[:shown]]
        columns["label"] = looks.taken(np.arange(shown)).texts or own
    lots = zip(*columns.values(), points[:shown], strict=True)
    rows = [[*words, *map(number, values)] for *words, values in lots]
    tables = [listing(title, [*columns, *heads], rows, texts=len(columns))]
    if looks.names:
        some = ((looks.names[code], points[mine]) for code, mine in looks.each() if mine.any())
        means = [[name, count(len(own)), *map(number, own.mean(axis=0))] for name, own in some]
        tables.append(listing("Mean scores of each label", ["label", "rows", *heads], means))
    return tuple(tables)


# ── variables as arrows ─────────────────────────────────────────────────────
@public
def biplot(
    scores: Any,
    slopes: Any,
    labels: Any = None,
    *,
    names: Sequence[str] | None = None,
    components: Sequence[int] = (0, 1),
    top: int = 6,
    explained_variance_ratio: Any = None,
) -> Scores:
    """Scores of two components, with an arrow for each input variable: which way it moves them.

    Parameters are those of `mercer.plots.arrows`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import views
    >>> view = views.biplot(np.eye(3)[:, :2], [[1.0, 0.0], [0.0, 0.0]], names=["moves", "does not"])
    >>> view.arrows.names
    ('moves',)
    """
    if is_model(scores):
        from mercer.diagnostics import importance

        fitted = Fitted.of(scores)
        names = fitted.inner_names(fitted.names(names, slopes))
        rows, time = fitted.rows(slopes), fitted.times(slopes)
        placed = fitted.placed(rows, time)
        ratio = fitted.shares if explained_variance_ratio is None else explained_variance_ratio
        with unnamed():
            found = importance(fitted.projector, fitted.inner(rows, time), names=names)
        points, slopes = fitted.scores(rows, time), found.slopes
    else:
        points, placed, ratio = scores, None, explained_variance_ratio
    checks.finite("scores", points if placed is None else points[placed], ndim=2, shape="(n, k)")
    k = np.shape(points)[1]
    pair = [checks.component(index, k) for index in checks.one_or_two(components, least=2)]
    tips = _mean_slopes(slopes, k)[:, pair]  # (d, 2)
    called = checks.named(names, len(tips))
    length = np.linalg.norm(tips, axis=1)
    chosen = np.argsort(-length, kind="stable")[: require("top", top, Whole(1))]
    chosen = chosen[length[chosen] > SHORTEST * length.max()]
    view = _of_arrays(points, labels, pair, ratio, placed)
    centre = view.points.mean(axis=0)
    tips = tips[chosen] * _scale(view.points - centre, tips[chosen])
    words = f"{view.caption} An arrow is the mean slope of both scores with respect to a variable."
    arrows = Arrows(centre, tips, tuple(called[l] for l in chosen))
    return replace(view, caption=words, arrows=arrows)


def _mean_slopes(slopes: Any, k: int) -> Array:  # -> (d, k)
    given = checks.finite("slopes", slopes, ndim=(2, 3), shape="(d, k) or (b, k, d)")
    mean: Array = given if given.ndim == 2 else given.mean(axis=0).T
    if mean.shape[1] != k:
        msg = (
            f"`slopes` of shape {given.shape} are of {mean.shape[1]} components, but there are scores of "
            f"{k}. Pass `importance(model, X).slopes`, (d, k), or `gradients(model, X)`, (b, k, d)."
        )
        raise InputError(msg)
    return mean


def _scale(points: Array, tips: Array) -> float:
    """The factor with which no arrow, from the centre of the points, goes beyond most of their box."""
    if len(tips) == 0:
        return 1.0
    low, high = points.min(axis=0), points.max(axis=0)  # (2,), below and above zero
    room = np.where(tips > 0, high, low)
    ratio = np.divide(room, tips, out=np.full_like(tips, np.inf), where=np.abs(tips) > 0)
    least = float(ratio.min())
    return REACH * least if least > 0 else 1.0


# ── too many points: cells ──────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a grid of 160 × 160 that hold any points of two axes."""

    x: tuple[float, float]  # the range across, of all cells
    y: tuple[float, float]
    places: Indices  # (m,): row * BINS + column, rows from the bottom
    counts: Indices  # (m,)
    codes: NDArray[np.uint8]  # (m,): the most frequent class; the first of several
    majority: Indices  # (m,): how many have it

    def levels(self) -> Indices:  # (m,)
        """How strong each is drawn: by the logarithm of its count, for counts differ by thousands."""
        most = max(int(self.counts.max()), 2)
        level = np.floor(LEVELS * np.log(self.counts) / np.log(most))
        return np.minimum(level, LEVELS - 1).astype(np.intp)


def cells(
    x: Array, y: Array, x_range: tuple[float, float], y_range: tuple[float, float], looks: Classes
) -> Cells:
    """Count n points in a grid, and the classes in each cell."""
    place = BINS * _bin(y, y_range) + _bin(x, x_range)  # (n,)
    counts = np.bincount(place, minlength=BINS * BINS)
    best, majority = np.zeros(BINS * BINS, dtype=np.uint8), np.zeros_like(counts)
    for code, mine in looks.each():
        own = np.bincount(place[mine], minlength=BINS * BINS)
        more = own > majority
        best[more], majority[more] = code, own[more]
    some = np.flatnonzero(counts)
    return Cells(x_range, y_range, some, counts[some], best[some], majority[some])


def _bin(values: Array, ends: tuple[float, float]) -> Indices:
    low, high = ends
    return np.clip(np.floor(BINS * (values - low) / (high - low)), 0, BINS - 1).astype(np.intp)
