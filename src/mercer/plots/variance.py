"""The spectrum as shares of the variance, each and added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer.plots import _axes, _checks
from mercer.plots._labels import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mercer._core.types import Array

ENOUGH = 95.0  # per cent: the usual mark for "nearly all of the variance"
MANY_BARS = 40  # beyond, gaps between bars are narrower than a pixel and make stripes
ROUNDING = 1e-8


@public
def spectrum(eigenvalues: Any, *, total: float | None = None, ax: Axes | None = None) -> Axes:
    """Share λ_i / Σλ of each component, and the cumulative share, on one scale of 0 to 100 %.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        In descending order, as a fitted model has them.
    total : float, optional
        The whole variance on the scale of the eigenvalues: the trace of the centred kernel matrix.
        Without it the shares are those of the kept eigenvalues only, and the axis says so.
    ax : matplotlib Axes, optional
        Where to draw. A new figure is made otherwise.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import spectrum
    >>> ax = spectrum([6.0, 3.0], total=10.0, ax=Figure().subplots())
    >>> ax.get_lines()[0].get_ydata()
    array([60., 90.])
    """
    share = 100 * _shares(eigenvalues, total)  # (k,)
    running = np.minimum(np.cumsum(share), 100.0)
    position = np.arange(1, len(share) + 1)
    ax = _axes.one(ax, width=5.2, height=3.8)
    _axes.tidy(ax)
    _each(ax, position, share)
    ax.plot(
        position,
        running,
        color=PALETTE[0],
        marker="o" if len(share) <= MANY_BARS else None,
        markersize=4,
        label=f"cumulative, {running[-1]:.1f} % in all",
    )
    _mark(ax, running)
    ax.set(xlabel="component", xlim=(0.4, len(share) + 0.6), ylim=(0, 104))
    ax.set_ylabel(
        "share of the kept variance (%)" if total is None else "share of the variance (%)"
    )
    ax.set_yticks(range(0, 101, 20))
    ax.locator_params(axis="x", integer=True)
    ax.legend(loc="best", fontsize=9, framealpha=0.9, edgecolor="none")
    return ax


def _each(ax: Axes, position: Any, share: Array) -> None:
    style: dict[str, Any] = {"color": PALETTE[5], "label": "each component"}
    if len(share) <= MANY_BARS:
        ax.bar(position, share, width=0.8, **style)
    else:  # one outline: ten thousand bars take seconds to draw
        ax.stairs(share, np.arange(len(share) + 1) + 0.5, fill=True, **style)


def _mark(ax: Axes, running: Array) -> None:
    """The 95 % line, and how many components it takes where those given come so far."""
    reached = np.flatnonzero(running >= ENOUGH * (1 - ROUNDING))
    style: dict[str, Any] = {"color": _axes.INK, "linewidth": 1}
    if len(reached):
        k = int(reached[0]) + 1
        ax.plot([k], [running[k - 1]], marker="o", markersize=6, linestyle="", **style, zorder=3)
        text = f"{ENOUGH:.0f} % with k = {k}"
    else:
        text = f"{ENOUGH:.0f} %, not reached"
    ax.axhline(ENOUGH, linestyle="--", label=text, **style)


def _shares(eigenvalues: Any, total: float | None) -> Array:
    values = _checks.finite("eigenvalues", eigenvalues, ndim=1, shape="(k,)")
    slack = ROUNDING * float(np.abs(values).max())
    if values.min() < -slack or (np.diff(values) > slack).any():
        msg = (
            f"`eigenvalues` must be non-negative and descending, but {values[:4]}… came. Shares of "
            "the variance exist only for such: sort them, and drop the negative ones of an "
            "indefinite kernel."
        )
        raise InputError(msg)
    kept = float(values.sum())
    whole = kept if total is None else float(total)
    if not (np.isfinite(whole) and whole > 0 and kept <= whole * (1 + ROUNDING)):
        msg = (
            f"The eigenvalues add up to {kept:.6g}, which is no part of a total of {whole:.6g}. "
            "`total` must be positive and at least their sum: pass the trace of the centred kernel "
            "matrix, on the scale of the eigenvalues."
        )
        raise InputError(msg)
    return np.maximum(values, 0) / whole
