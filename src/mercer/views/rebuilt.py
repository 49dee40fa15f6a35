"""What the components keep of rows: their distances in feature space, and the rows back in the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.data.rows import take_rows
from mercer.views.base import Listing, View, listing, spaced
from mercer.views.classes import Classes, classes
from mercer.views.fitted import Fitted
from mercer.views.sheets import pixels_of
from mercer.views.wording import count, counted, number, share

MOST_ROWS = 2000  # that are taken back: some pre-images are slow
MOST_BARS = 25
MOST_SHOWN = 6  # rows that are pictures, there and back
HISTOGRAM = 40
ROUNDING = 1e-12  # of a squared length: what is less is arithmetic


# ── in feature space ────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False, kw_only=True)
class Distances(View):
    """A histogram of the squared distances of rows from the components."""

    kind: ClassVar[str] = "distances"
    axes: tuple[str, str] = ("squared distance from the components", "rows")
    edges: Array  # (b + 1,)
    counts: Indices  # (b,)
    missed: float  # share of the squared distance from the mean that the components miss
    left_out: int = 0  # rows too far out for their distance to be a number

    @property
    def is_rounding(self) -> bool:
        """Whether what the components miss is only arithmetic."""
        return self.missed < ROUNDING


@public
def distances(errors: Any, lengths: Any, *, space: str = "feature space") -> Distances:
    """How far rows lie from the components.

    ``errors`` are squared distances from the components, as `reconstruction_error` gives them, ``lengths``
    the squared lengths of the scores, both of shape (n,); ``space`` is where, for the caption.

    Examples
    --------
    >>> from mercer import views
    >>> views.distances([0.0, 1.0, 3.0], [4.0, 4.0, 4.0]).missed
    0.25
    """
    errors = np.maximum(np.asarray(errors, dtype=np.float64), 0.0)
    whole = errors + np.asarray(lengths, dtype=np.float64)
    known = np.isfinite(whole)
    errors, whole, n = errors[known], whole[known], len(errors)
    if len(errors) == 0:
        msg = "All rows lie so far out that their distances from the components can't be computed."
        raise InputError(msg)
    missed = float(errors.sum() / whole.sum()) if whole.sum() > 0 else 0.0
    top = float(errors.max()) or 1.0
    counts, edges = np.histogram(errors, bins=HISTOGRAM, range=(0.0, top))
    words = (
        f"How far each of {count(len(errors))} rows lies from the components, squared, in {space}: half lie "
        f"within {number(float(np.median(errors)), 3)}, the farthest at {number(float(errors.max()), 3)}."
    )
    if len(errors) < n:
        words += f" {counted(n - len(errors), 'row')} too far out to be computed are left out here."
    rows = [
        [f"{number(a, 3)} to {number(b, 3)}", count(int(c))]
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return Distances(
        edges=edges,
        counts=counts,
        missed=missed,
        left_out=n - len(errors),
        caption=words,
        tables=(listing("Histogram", ["distance", "rows"], rows),),
    )


# ── back in the columns ─────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False, kw_only=True)
class Reconstruction(View):
    """Rows taken to their scores and back: the error of each column, and rows where they can be drawn."""

    kind: ClassVar[str] = "reconstruction"
    names: tuple[str, ...]  # of the d columns
    error: Array  # (d,): root mean squared error of each, in its own units
    spread: Array  # (d,): its standard deviation, the error of always saying the mean
    relative: Array  # (d,): the error in units of that; 0 where a column does not vary
    drawn: Indices  # columns that a picture has bars for: all, or the worst of many
    rows: Indices  # (m,): positions of the rows that are drawn: of two columns, or pictures
    original: Array  # (m, d)
    back: Array  # (m, d)
    classes: Classes  # of the m rows
    shape: tuple[int, int] | None = None  # height and width, where rows are pictures

    @property
    def is_exact(self) -> bool:
        """Whether all errors are arithmetic."""
        return bool(np.sum(self.error**2) <= ROUNDING * np.sum(self.spread**2))


@public
def reconstruction(
    model: Any,
    X: Any,
    labels: Any = None,
    *,
    names: Sequence[str] | None = None,
    shape: tuple[int, int] | None = None,
    preparation: Any = None,
) -> Reconstruction:
    """Rows as the components see them, beside what they are.

    Parameters are those of `mercer.plots.reconstruction`; `preparation` is what was done to the rows. Of
    more than 2000 rows as many at equal distances are taken back.

    Examples
    --------
    >>> from mercer import PCA, views
    >>> X = [[0.0, 1.0], [2.0, 0.0], [4.0, 5.0]]
    >>> views.reconstruction(PCA(2).fit(X), X).is_exact
    True
    """
    fitted = Fitted.of(model, preparation)
    fitted.require_preimage("A reconstruction")
    shape = fitted.image_shape if shape is None else pixels_of(shape, fitted.d, "X")
    names = fitted.names(names, X)
    rows = fitted.rows(X)
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    n = int(rows.shape[0])
    which = spaced(n, MOST_ROWS)
    block = take_rows(rows, which)
    raw = fitted.raw(block).astype(np.float64)
    with np.errstate(all="ignore"):
        back = fitted.back(fitted.scores(block)).astype(np.float64)
        error = np.sqrt(np.mean((back - raw) ** 2, axis=0))  # (d,)
        spread = np.sqrt(np.mean((raw - raw.mean(axis=0)) ** 2, axis=0))
        relative = np.divide(error, spread, out=np.zeros_like(error), where=spread > 0)
    shown = np.arange(len(which) if fitted.d == 2 else 0)
    shown = spaced(len(which), MOST_SHOWN) if shape is not None else shown
    worst = np.argsort(-relative, kind="stable")[:MOST_BARS]
    drawn = worst if fitted.d > MOST_BARS else np.arange(fitted.d)
    return Reconstruction(
        names=names,
        error=error,
        spread=spread,
        relative=relative,
        drawn=drawn,
        rows=which[shown],
        original=raw[shown],
        back=back[shown],
        classes=classes(labels, n).taken(which[shown]),
        shape=shape,
        caption=_caption(n, len(which), error, spread),
        tables=(_table(names, drawn, (error, spread, relative)),),
    )


def _table(names: Sequence[str], drawn: Indices, columns: tuple[Array, ...]) -> Listing:
    title = "Errors of the way there and back"
    if len(drawn) < len(names):
        title += f": the {len(drawn)} worst of {count(len(names))} columns"
    rows = [[names[j], *(number(column[j]) for column in columns)] for j in drawn.tolist()]
    return listing(title, ["column", "error", "standard deviation", "ratio"], rows)


def _caption(n: int, taken: int, error: Array, spread: Array) -> str:
    rows = f"{count(n)} rows"
    if taken < n:
        rows = f"{count(taken)} of {count(n)} rows, at equal distances,"
    with np.errstate(over="ignore"):
        own, mean = (float(np.sqrt(np.mean(e**2))) for e in (error, spread))
    return (
        f"{rows} were taken to their scores and back to the columns. The root mean squared error of an "
        f"entry is {number(own, 3)}; always saying the mean of the column would give {number(mean, 3)}. "
        f"That is {_ratio(own, mean)}."
    )


def _ratio(error: float, spread: float) -> str:
    """An error beside that of the mean, in words."""
    if not np.isfinite(error) or not np.isfinite(spread):
        return "no comparison: some rows lie too far out to be computed"
    if spread <= 0.0:
        return "no comparison: no column varies"
    left = (error / spread) ** 2
    if left < ROUNDING:
        return "rounding: the rows come back as they were"
    if left > 1.0:
        return f"worse than the mean, with {number(left, 3)} times its squared error"
    return f"{share(left)} of the squared error of the mean"
