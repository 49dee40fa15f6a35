"""What the components hold: the spectrum, how sure that is, and rows as their scores know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError, refuse
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.data.rows import take_rows
from mercer.estimators.anatomy import is_model
from mercer.model import Fit
from mercer.solvers.base import Status
from mercer.views import checks
from mercer.views.base import Listing, View, listing, spaced
from mercer.views.classes import Classes, classes
from mercer.views.fitted import Fitted
from mercer.views.sheets import pixels_of
from mercer.views.wording import count, counted, number, power_of_ten, share

ENOUGH = 0.95  # the usual mark for "nearly all of the variance"
ROUNDING = 1e-8
MANY_BARS = 40  # beyond, gaps between bars are narrower than a pixel and make stripes
SEEN = 0.004  # of the variance: bounds that are nearer to each other are not seen
MOST_LISTED = 50
MOST_ROWS = 2000  # that are taken back: some pre-images are slow
MOST_BARS = 25
MOST_SHOWN = 6  # rows that are pictures, there and back
HISTOGRAM = 40
ARITHMETIC = 1e-12  # of a squared length: what is less is arithmetic


@dataclass(frozen=True, eq=False, kw_only=True)
class Spectrum(View):
    """Shares of the variance; of a fit that brings evidence, between which shares the true ones lie."""

    kind: ClassVar[str] = "spectrum"
    axes: tuple[str, str]
    eigenvalues: Array  # (k,)
    shares: Array  # (k,), of the whole or, where it is not known, of what was kept
    running: Array  # (k,): their sums
    whole: bool  # whether shares are of the whole variance
    bounds: Array | None = None  # (k, 2): shares that the true ones lie between
    # How far the eigenvalues can be trusted, in words; empty where nothing is known.
    evidence: str = ""
    enough: float = ENOUGH
    reached: int | None = None  # the first number of components whose shares add up to that

    @property
    def shows_bounds(self) -> bool:
        """Whether the bounds of few bars are far enough apart to be seen."""
        if self.bounds is None or len(self.shares) > MANY_BARS:
            return False
        return float(np.ptp(self.bounds, axis=1).max()) > SEEN


def how_sure(fit: Fit | None) -> str:
    """The words before a share of the variance, which an approximation knows from below, or about."""
    if fit is None or fit.certificate is None or fit.trace_error == 0.0:
        return ""
    return "at least " if fit.certificate.kind == "below" else "about "


@public
def spectrum(eigenvalues: Any, *, total: float | None = None) -> Spectrum:
    """Share λ_i / Σλ of each component, and the cumulative share.

    Parameters are those of `mercer.plots.spectrum`.

    Examples
    --------
    >>> from mercer import views
    >>> view = views.spectrum([6.0, 3.0], total=10.0)
    >>> view.shares.tolist(), view.reached
    ([0.6, 0.3], None)
    >>> print(view.caption)
    2 components: the first holds 60.0 %, all together 90.0 % of the variance. 95 % is not reached.
    """
    fit, given = None, None if total is None else float(total)
    if is_model(eigenvalues):
        fitted = Fitted.of(eigenvalues)
        fit, values, ratio = fitted.fit, fitted.eigenvalues, fitted.shares
        if given is None and fit is not None:
            given = float(fit.total)
        elif given is None and ratio is not None:
            given = float(values.sum() / max(ratio.sum(), ROUNDING))
    else:
        values = checks.finite("eigenvalues", eigenvalues, ndim=1, shape="(k,)")
    known, whole = given is not None, float(values.sum()) if given is None else given
    if total is not None or not is_model(eigenvalues):
        _require_descending(values, whole)
    shares = np.maximum(values, 0.0) / whole if whole > 0 else np.zeros_like(values)
    running = np.minimum(np.cumsum(shares), 1.0)
    reached = np.flatnonzero(running >= ENOUGH * (1 - ROUNDING))
    first = int(reached[0]) + 1 if len(reached) else None
    bounds = None
    if fit is not None and whole > 0 and np.isfinite(fit.bounds).all():
        bounds = np.clip(np.asarray(fit.bounds, dtype=np.float64) / whole, 0.0, 1.0)
    return Spectrum(
        axes=("component", f"share of the {'' if known else 'kept '}variance (%)"),
        eigenvalues=values,
        shares=shares,
        running=running,
        whole=known,
        bounds=bounds,
        evidence="" if fit is None else trust(fit),
        reached=first,
        caption=_words(shares, running, first, how_sure(fit), whole=known),
        tables=(_table(values, shares, running, fit),),
    )


def trust(fit: Fit) -> str:
    """How far the eigenvalues of a fit can be trusted, in words."""
    if fit.certificate is not None:
        return f"The fit is an approximation: {fit.certificate}."
    worst = power_of_ten(float(np.max(fit.residuals)))
    text = f"The largest residual ‖K̃u − λu‖/λ₁ is {worst}. So each eigenvalue is within {worst} of a true "
    text += f"one, in units of the largest, which is {number(float(fit.eigenvalues[0]), 3)}."
    if fit.pairs.status is not Status.CONVERGED:
        text += f" The solver {fit.pairs.status.value}"
    return text


def _require_descending(values: Array, whole: float) -> None:
    slack = ROUNDING * float(np.abs(values).max())
    if values.min() < -slack or (np.diff(values) > slack).any():
        remedy = "Sort them, and drop the negative ones of an indefinite kernel."
        refuse("eigenvalues", values, "non-negative and descending", f"{values[:4]}…", remedy)
    kept = float(values.sum())
    if not (np.isfinite(whole) and whole > 0 and kept <= whole * (1 + ROUNDING)):
        must_be = f"positive and at least the sum of the eigenvalues, {kept:.6g}"
        remedy = "Pass the trace of the centred kernel matrix, on the scale of the eigenvalues."
        refuse("total", whole, must_be, f"{whole:.6g}", remedy)


def _words(shares: Array, running: Array, reached: int | None, sure: str, *, whole: bool) -> str:
    k = len(shares)
    text = f"{counted(k, 'component')}: the first holds {sure}{share(float(shares[0]))}"
    if k > 1:
        text += f", all together {sure}{share(float(running[-1]))} of the variance"
    elif whole:
        text += " of the variance"
    if not whole:
        return f"{text} that was kept."
    enough = share(ENOUGH, 0)
    return f"{text}. {enough} is {'not reached' if reached is None else f'reached with {reached}'}."


def _table(values: Array, shares: Array, running: Array, fit: Fit | None) -> Listing:
    head = ["component", "eigenvalue", "share", "sum of shares"]
    lots = list(zip(values, shares, running, strict=True))[:MOST_LISTED]
    rows = [[i, number(v, 6), share(s, 2), share(r, 2)] for i, (v, s, r) in enumerate(lots, 1)]
    if fit is not None:
        head += ["true value at least", "at most", "residual"]
        for row, (low, high), residual in zip(rows, fit.bounds, fit.residuals, strict=False):
            row += [number(low, 6), number(high, 6), power_of_ten(float(residual))]
    caption = "Eigenvalues"
    if len(values) > MOST_LISTED:
        caption += f": the first {MOST_LISTED} of {len(values)}"
    return listing(caption, head, rows)


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
        return self.missed < ARITHMETIC


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
    counts, edges = np.histogram(errors, bins=HISTOGRAM, range=(0.0, float(errors.max()) or 1.0))
    words = (
        f"How far each of {count(len(errors))} rows lies from the components, squared, in {space}: half lie "
        f"within {number(float(np.median(errors)), 3)}, the farthest at {number(float(errors.max()), 3)}."
    )
    if len(errors) < n:
        words += f" {counted(n - len(errors), 'row')} too far out to be computed are left out here."
    lots = zip(edges[:-1], edges[1:], counts, strict=True)
    rows = [[f"{number(a, 3)} to {number(b, 3)}", count(int(c))] for a, b, c in lots]
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
        return bool(np.sum(self.error**2) <= ARITHMETIC * np.sum(self.spread**2))


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
        caption=_there_and_back(n, len(which), error, spread),
        tables=(_errors_table(names, drawn, (error, spread, relative)),),
    )


def _errors_table(names: Sequence[str], drawn: Indices, columns: tuple[Array, ...]) -> Listing:
    title = "Errors of the way there and back"
    if len(drawn) < len(names):
        title += f": the {len(drawn)} worst of {count(len(names))} columns"
    rows = [[names[j], *(number(column[j]) for column in columns)] for j in drawn.tolist()]
    return listing(title, ["column", "error", "standard deviation", "ratio"], rows)


def _there_and_back(n: int, taken: int, error: Array, spread: Array) -> str:
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
    if left < ARITHMETIC:
        return "rounding: the rows come back as they were"
    if left > 1.0:
        return f"worse than the mean, with {number(left, 3)} times its squared error"
    return f"{share(left)} of the squared error of the mean"
