"""The spectrum: how the variance is spread over the components, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer._core.types import Array
from mercer.estimators.anatomy import is_model
from mercer.model import Fit
from mercer.solvers.base import Status
from mercer.views import checks
from mercer.views.base import Listing, View, listing
from mercer.views.fitted import Fitted
from mercer.views.wording import counted, number, power_of_ten, share

ENOUGH = 0.95  # the usual mark for "nearly all of the variance"
ROUNDING = 1e-8
MANY_BARS = 40  # beyond, gaps between bars are narrower than a pixel and make stripes
SEEN = 0.004  # of the variance: bounds that are nearer to each other are not seen
MOST_LISTED = 50


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
    """What belongs before a share of the variance: an approximation knows it from below, or about."""
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
    first = number(float(fit.eigenvalues[0]), 3)
    text = (
        f"The largest residual ‖K̃u − λu‖/λ₁ is {worst}. So each eigenvalue is within "
        f"{worst} of a true one, in units of the largest, which is {first}."
    )
    if fit.pairs.status is not Status.CONVERGED:
        text += f" The solver {fit.pairs.status.value}"
    return text


def _require_descending(values: Array, whole: float) -> None:
    slack = ROUNDING * float(np.abs(values).max())
    if values.min() < -slack or (np.diff(values) > slack).any():
        msg = (
            f"`eigenvalues` must be non-negative and descending; got {values[:4]}…. Shares of the "
            "variance exist only for such: sort them, and drop the negative ones of an indefinite kernel."
        )
        raise InputError(msg)
    kept = float(values.sum())
    if not (np.isfinite(whole) and whole > 0 and kept <= whole * (1 + ROUNDING)):
        msg = (
            f"`total` must be positive and at least the sum of the eigenvalues, {kept:.6g}; got "
            f"{whole:.6g}. Pass the trace of the centred kernel matrix, on the scale of the eigenvalues."
        )
        raise InputError(msg)


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
    rows = [
        [i + 1, number(values[i], 6), share(shares[i], 2), share(running[i], 2)]
        for i in range(min(len(values), MOST_LISTED))
    ]
    if fit is not None:
        head += ["true value at least", "at most", "residual"]
        for row, (low, high), residual in zip(rows, fit.bounds, fit.residuals, strict=False):
            row += [number(low, 6), number(high, 6), power_of_ten(float(residual))]
    caption = "Eigenvalues"
    if len(values) > MOST_LISTED:
        caption += f": the first {MOST_LISTED} of {len(values)}"
    return listing(caption, head, rows)
