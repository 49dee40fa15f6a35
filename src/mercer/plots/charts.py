"""Control charts of a process, and bars for the variables behind an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.params import Number, require
from mercer._core.public import public
from mercer.plots import _axes, _checks
from mercer.plots._labels import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from mercer._core.types import Array
    from mercer.plots._axes import AxesArray

NORMAL, ALARM = PALETTE[0], PALETTE[1]
WIDE_RANGE = 20.0  # times the limit: beyond, a linear scale squeezes everything normal into a line


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
    most = np.argsort(-np.abs(mean), kind="stable")[: _checks.whole("top", top, least=1)]
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
