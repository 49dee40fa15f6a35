"""The spectrum as shares of the variance; control charts of a process, and the variables behind an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Number, Whole, require
from mercer._core.public import public
from mercer.plots import _axes, _checks
from mercer.plots._labels import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from mercer._core.types import Array
    from mercer.plots._axes import AxesArray

NORMAL, ALARM = PALETTE[0], PALETTE[1]
ENOUGH = 95.0  # per cent: the usual mark for "nearly all of the variance"
MANY_BARS = 40  # beyond, gaps between bars are narrower than a pixel and make stripes
ROUNDING = 1e-8
WIDE_RANGE = 20.0  # times the limit: beyond, a linear scale squeezes everything normal into a line


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
    style: dict[str, Any] = {"color": PALETTE[5], "label": "each component"}
    if len(share) <= MANY_BARS:
        ax.bar(position, share, width=0.8, **style)
    else:  # one outline: ten thousand bars take seconds to draw
        ax.stairs(share, np.arange(len(share) + 1) + 0.5, fill=True, **style)
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


@public
def control_charts(
    t2: Any,
    q: Any,
    *,
    t2_limit: float | None,
    q_limit: float | None,
    alarms: Any = None,
    judged: Any = None,
    time: Any = None,
    fault_at: Any = None,
    fig: Figure | SubFigure | None = None,
) -> AxesArray:
    """T² above Q over time, each with its limit, alarms in another colour.

    The scale is logarithmic where values go far beyond the limit; infinite ones are triangles on top.

    Parameters
    ----------
    t2, q : arrays of shape (n,)
        The statistics of the rows, in the order of time.
    t2_limit, q_limit : float or None
        Their limits; None draws no line, for a statistic that alarms don't go by.
    alarms : array of shape (n,), optional
        Which rows are alarms; those above the limit of the chart otherwise.
    judged : array of shape (n,), optional
        Which rows have statistics; the others are gaps, marked at the bottom. All rows otherwise.
    time : array of shape (n,), optional
        When each row was taken: numbers or dates. 0, 1, 2, … otherwise.
    fault_at : a time, optional
        Where to draw a line, such as when a fault is known to have begun.
    fig : matplotlib Figure, optional
        Where to draw. A new figure is made otherwise.

    Returns
    -------
    ndarray of two matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import control_charts
    >>> axes = control_charts([1.0, 9.0], [0.1, 0.2], t2_limit=5.0, q_limit=1.0, fig=Figure())
    >>> [ax.get_ylabel() for ax in axes]
    ['T²', 'Q']
    """
    values, known = {"t2": t2, "q": q}, _judged(judged, t2)
    read = {name: _statistic(name, v, known) for name, v in values.items()}
    n = len(read["t2"])
    when: Any = np.arange(n) if time is None else np.asarray(time)
    marked: Any = None if alarms is None else np.asarray(alarms, dtype=bool)
    _checks.same_rows(n, q=read["q"], time=when, **({} if marked is None else {"alarms": marked}))
    axes = _axes.grid(fig, 2, 1, width=8.0, height=5.2)[:, 0]
    axes[0].sharex(axes[1])
    axes[0].tick_params(labelbottom=False)
    for ax, name, label, limit in zip(
        axes, ("t2", "q"), ("T²", "Q"), (t2_limit, q_limit), strict=True
    ):
        _chart(ax, when, read[name], _limit(f"{name}_limit", limit), marked)
        if fault_at is not None:
            ax.axvline(fault_at, color=_axes.INK, linewidth=1, linestyle=":", label="fault begins")
        ax.set_ylabel(label)
    axes[1].set_xlabel("row" if time is None else "time")
    # The fuller legend: one chart may be without a limit.
    handles, labels = max(
        (ax.get_legend_handles_labels() for ax in axes), key=lambda hl: len(hl[1])
    )
    where = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": len(labels)}
    axes[0].legend(handles, labels, fontsize=9, frameon=False, **where)
    return axes


def _judged(judged: Any, t2: Any) -> Any:  # (n,)
    n = len(np.atleast_1d(np.asarray(t2)))
    known = np.ones(n, dtype=bool) if judged is None else np.asarray(judged, dtype=bool)
    _checks.same_rows(n, judged=known)
    if not known.any():
        msg = "`judged` is False for every row, so there is nothing to draw. Pass rows with statistics."
        raise InputError(msg)
    return known


def _statistic(name: str, values: Any, known: Any) -> Array:
    """Numbers, infinity for a row whose statistic overflows, or NaN for one that was not judged."""
    array = np.asarray(values)
    if array.shape != known.shape or array.dtype.kind != "f":
        return _checks.finite(name, array, ndim=1, shape="(n,)")
    beyond = np.isposinf(array) & known
    finite = _checks.finite(name, np.where(beyond | ~known, 0.0, array), ndim=1, shape="(n,)")
    return np.where(known, np.where(beyond, np.inf, finite), np.nan)


def _chart(ax: Axes, when: Any, values: Array, limit: float | None, marked: Any) -> None:
    _axes.tidy(ax)
    line = np.inf if limit is None else limit
    known, beyond = ~np.isnan(values), np.isinf(values)
    above = values > line if marked is None else marked & known
    if np.any(beyond):  # a chart ends somewhere
        most = float(values[known & ~beyond].max(initial=0.0))
        top = 2.0 * min(max(most, limit or 1.0), 1e300)
        values, above = np.where(beyond, top, values), above & ~beyond
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    usual = float(np.nanmedian(values)) if limit is None else limit
    log = high > WIDE_RANGE * usual and low > 0.0
    ax.plot(when, values, color=_axes.FAINT, linewidth=0.8, zorder=1)  # NaN is a gap in it
    style: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 2.5}
    below = known & ~above & ~beyond
    ax.plot(when[below], values[below], color=NORMAL, label="normal", **style)
    ax.plot(when[above], values[above], color=ALARM, label="alarm", zorder=3, **style)
    if np.any(beyond):
        style |= {"marker": "^", "markersize": 6}
        ax.plot(when[beyond], values[beyond], color=ALARM, label="infinite", zorder=3, **style)
    if not known.all():  # along the bottom, whatever the scale
        style |= {"marker": "|", "markersize": 8, "transform": ax.get_xaxis_transform()}
        at = np.full(int(np.sum(~known)), 0.03)
        ax.plot(when[~known], at, color=_axes.INK, label="not judged", zorder=2, **style)
    if limit is not None:
        ax.axhline(limit, color=_axes.INK, linewidth=1, linestyle="--", label="limit")
    if log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0.0, 1.06 * max(high, usual) or 1.0)


@public
def contribution_bars(
    contributions: Any,
    names: Any = None,
    *,
    top: int = 10,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """What each variable adds to an alarm, the largest on top; negative ones lower it.

    Parameters
    ----------
    contributions : array of shape (d,), or (n, d) of which the mean is drawn
        As `KernelPCADetector.contributions` gives them.
    names : sequence of d strings, optional
        Names of the variables; x0, x1, … otherwise.
    top : int, default=10
        How many to draw: those that matter most, either way.
    ax : matplotlib Axes, optional
        Where to draw. A new figure is made otherwise.
    title : str, optional
        Title of the Axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer.plots import contribution_bars
    >>> ax = contribution_bars([0.1, 3.0, -0.5], ["a", "b", "c"], ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['b', 'a', 'c']
    """
    values = _checks.finite("contributions", contributions, ndim=(1, 2), shape="(d,) or (n, d)")
    rows = values.reshape(-1, values.shape[-1])
    mean = (rows / len(rows)).sum(axis=0)  # (d,)
    named = [f"x{j}" for j in range(len(mean))] if names is None else [str(name) for name in names]
    _checks.count("names", named, len(mean), "variables")
    most = np.argsort(-np.abs(mean), kind="stable")[: require("top", top, Whole(1))]
    order = most[np.argsort(-mean[most], kind="stable")]
    ax = _axes.one(ax, width=5.2, height=1.0 + 0.28 * len(order))
    _axes.tidy(ax)
    ax.barh(range(len(order)), mean[order], color=[ALARM if mean[j] > 0 else NORMAL for j in order])
    ax.set_yticks(range(len(order)), [named[j] for j in order])
    ax.invert_yaxis()
    ax.axvline(0.0, color=_axes.INK, linewidth=0.8)
    ax.set_xlabel(
        "contribution" if values.ndim == 1 else f"mean contribution of {len(values)} rows"
    )
    if title is not None:
        ax.set_title(title, fontsize=11)
    return ax


def _limit(name: str, limit: Any) -> float | None:
    number = None if limit is None else float(_checks.finite(name, limit, ndim=0, shape="()"))
    require(name, number, Number(0, also=(None,)), remedy="Pass that of `limits_`.")
    return number
