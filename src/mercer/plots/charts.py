"""The spectrum as shares of the variance; a process over time, and the variables behind its alarms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import views
from mercer._core.public import public
from mercer.monitoring.events import Event
from mercer.plots import _axes
from mercer.plots._axes import Axes, AxesArray, Figure, SubFigure
from mercer.views.classes import PALETTE
from mercer.views.process import Chart, seen_by
from mercer.views.variance import MANY_BARS

NORMAL, ALARM = PALETTE[0], PALETTE[1]


@public
def spectrum(eigenvalues: Any, *, total: float | None = None, ax: Axes | None = None) -> Axes:
    """Share λ_i / Σλ of each component, and the cumulative share, on one scale of 0 to 100 %.

    Parameters
    ----------
    eigenvalues : fitted model, or array of shape (k,)
        A model, which brings its whole variance and its bounds, or eigenvalues in descending order.
    total : float, optional
        The whole variance on the scale of the eigenvalues: the trace of the centred kernel matrix. Where
        neither it nor a model tells, shares are of the kept eigenvalues, and the axis says so.
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
    view = views.spectrum(eigenvalues, total=total)
    share, running = 100 * view.shares, 100 * view.running
    position = np.arange(1, len(share) + 1)
    ax = _axes.one(ax, width=5.2, height=3.8)
    _axes.tidy(ax)
    few = len(share) <= MANY_BARS
    style: dict[str, Any] = {"color": PALETTE[5], "label": "each component"}
    if few:
        ax.bar(position, share, width=0.8, **style)
    else:  # one outline: ten thousand bars take seconds to draw
        ax.stairs(share, np.arange(len(share) + 1) + 0.5, fill=True, **style)
    words = f"cumulative, {running[-1]:.1f} % in all"
    marker = "o" if few else None
    ax.plot(position, running, label=words, color=PALETTE[0], marker=marker, markersize=4)
    if view.bounds is not None and view.shows_bounds:
        words = "where the true share lies"
        ax.vlines(position, *(100 * view.bounds.T), color=_axes.INK, linewidth=1.2, label=words)
    enough, k = 100 * view.enough, view.reached
    style, words = {"color": _axes.INK, "linewidth": 1}, f"{enough:.0f} %, not reached"
    if k is not None:
        ax.plot([k], [running[k - 1]], marker="o", markersize=6, linestyle="", **style, zorder=3)
        words = f"{enough:.0f} % with k = {k}"
    ax.axhline(enough, linestyle="--", label=words, **style)
    ax.set(xlabel=view.axes[0], ylabel=view.axes[1], xlim=(0.4, len(share) + 0.6), ylim=(0, 104))
    ax.set_yticks(range(0, 101, 20))
    ax.locator_params(axis="x", integer=True)
    ax.legend(loc="best", fontsize=9, framealpha=0.9, edgecolor="none")
    return ax


# ── a process over time ─────────────────────────────────────────────────────
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
    """T² above Q over time, each with its limit, alarms in another colour and shape.

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
    view = views.control_charts(
        t2,
        q,
        t2_limit=t2_limit,
        q_limit=q_limit,
        alarms=alarms,
        judged=judged,
        time=time,
    )
    return drawn(view, fault_at=fault_at, fig=fig)


@public
def monitoring(
    detector: Any,
    X: Any = None,
    *,
    time: Any = None,
    names: Any = None,
    fault_at: Any = None,
    fig: Figure | SubFigure | None = None,
    axis: str | None = None,
) -> AxesArray:
    """T² above Q of a detector over time, each with the limit that decides, alarms in colour and shape.

    Parameters
    ----------
    detector : fitted KernelPCADetector, or Monitoring
        A detector, which monitors `X`, or what its `monitor` gave.
    X : array-like of shape (n, d)
        Rows in the order of time, for a detector.
    time : array-like of shape (n,), optional
        When each row was taken: numbers or dates. The index of a data frame of dates, or the number of
        the row, otherwise.
    names : sequence of d strings, optional
        Names of the variables.
    fault_at : a time, optional
        Where to draw a line, such as when a fault is known to have begun.
    fig : matplotlib Figure, optional
        Where to draw. A new figure is made otherwise.
    axis : str, optional
        What the times are called.

    Returns
    -------
    ndarray of two matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer import KernelPCADetector, plots
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> axes = plots.monitoring(KernelPCADetector().fit(X), X[:50] * 2.0, fig=Figure())
    >>> [ax.get_ylabel() for ax in axes]
    ['T²', 'Q']
    """
    view = views.monitoring(detector, X, time=time, names=names, axis=axis)
    return drawn(view, fault_at=fault_at, fig=fig)


def drawn(view: views.ControlCharts, *, fault_at: Any = None, fig: Any = None) -> AxesArray:
    """Charts one above the other, over the same times."""
    m = len(view.charts)
    axes = _axes.grid(fig, m, 1, width=8.0, height=0.6 + 2.3 * m)[:, 0]
    for ax, own in zip(axes, view.charts, strict=True):
        _chart(ax, view, own)
        if fault_at is not None:
            ax.axvline(fault_at, color=_axes.INK, linewidth=1, linestyle=":", label="fault begins")
        if ax is not axes[-1]:
            ax.sharex(axes[-1])
            ax.tick_params(labelbottom=False)
    # Ids are not written: the axis counts the rows.
    _along_time(axes[-1], view.axis if view.ids is None else "row", view.time)
    # The fuller legend: one chart may be without a limit.
    every = (ax.get_legend_handles_labels() for ax in axes)
    handles, labels = max(every, key=lambda found: len(found[1]))
    axes[0].legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=len(labels),
        fontsize=9,
        frameon=False,
    )
    return axes


def _along_time(ax: Axes, name: str, time: Any) -> None:
    ax.set_xlabel(name)
    if time.dtype.kind == "M":  # 06:00, 07:00, … and the day once
        from matplotlib import dates

        made: Any = dates.ConciseDateFormatter
        ax.xaxis.set_major_formatter(made(ax.xaxis.get_major_locator()))


def _chart(ax: Axes, view: views.ControlCharts, own: Chart) -> None:
    _axes.tidy(ax)
    when, values, known = view.time, own.drawn, view.judged
    beyond = np.isinf(own.values)
    above, below = own.alarm & ~beyond, known & ~own.alarm & ~beyond
    ax.plot(when, values, color=_axes.FAINT, linewidth=0.8, zorder=1)  # NaN is a gap in it
    style: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 2.5}
    ax.plot(when[below], values[below], color=NORMAL, label="normal", **style)
    style |= {"marker": "s", "markersize": 3.0}
    ax.plot(when[above], values[above], color=ALARM, label="alarm", zorder=3, **style)
    if np.any(beyond):
        style |= {"marker": "^", "markersize": 6}
        ax.plot(when[beyond], values[beyond], color=ALARM, label="infinite", zorder=3, **style)
    if not known.all():  # along the bottom, whatever the scale
        style |= {"marker": "|", "markersize": 8, "transform": ax.get_xaxis_transform()}
        at = np.full(int(np.sum(~known)), 0.03)
        ax.plot(when[~known], at, color=_axes.INK, label="not judged", zorder=2, **style)
    if own.limit is not None:
        ax.axhline(own.limit, color=_axes.INK, linewidth=1, linestyle="--", label="limit")
    ax.set_ylabel(own.name)
    if own.log:
        ax.set_yscale("log")
    ax.set_ylim(*own.ends)


# ── the variables behind alarms ─────────────────────────────────────────────
@public
def contribution_bars(
    contributions: Any,
    names: Any = None,
    *,
    X: Any = None,
    top: int = 10,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """What each variable adds to an alarm, the largest on top; negative ones lower it.

    Parameters
    ----------
    contributions : array of shape (d,), or (n, d) of which the mean is drawn
        As `KernelPCADetector.contributions` gives them; or a detector, for rows `X`.
    names : sequence of d strings, optional
        Names of the variables; x0, x1, … otherwise.
    X : array-like of shape (n, d), optional
        Rows for a detector, such as those of one run of alarms.
    top : int, default=10
        How many to draw: those that matter most, either way.
    ax, title
        As in `mercer.plots.scores`.

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
    view = views.contributions(contributions, names, X=X, top=top)
    ax = _axes.one(ax, width=5.2, height=1.0 + 0.28 * len(view.names))
    colours = [ALARM if value > 0 else NORMAL for value in view.values]
    _axes.named_bars(ax, view.names, view.values, colours)
    ax.axvline(0.0, color=_axes.INK, linewidth=0.8)
    ax.set_xlabel(view.axis)
    if title is not None:
        ax.set_title(title, fontsize=11)
    return ax


@public
def contributions_over_time(
    detector: Any, X: Any = None, *, time: Any = None, names: Any = None, ax: Axes | None = None
) -> Axes:
    """Which variables raise the statistic, and when: their shares in alarms, in slots of time.

    Parameters
    ----------
    detector : fitted KernelPCADetector, Monitoring or Event
        A detector, which monitors `X`, what its `monitor` gave, or one event.
    X, time, names
        As in `mercer.plots.monitoring`.
    ax : matplotlib Axes, optional
        Where to draw. A new figure is made otherwise.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from mercer import KernelPCADetector, plots
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> found = KernelPCADetector().fit(X).monitor(X[:20] + [9.0, 0.0], names=["flow", "heat"])
    >>> ax = plots.contributions_over_time(found, ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    'flow'
    """
    if isinstance(detector, Event):
        view = views.event_blame(detector)
    else:
        view = views.contributions_over_time(seen_by(detector, X, time=time, names=names))
    ax = _axes.one(ax, width=8.0, height=1.2 + 0.3 * len(view.names))
    edges = np.arange(len(view.names) + 1) - 0.5
    mesh = ax.pcolormesh(view.time, edges, view.shares, cmap="Oranges", vmin=0.0)
    ax.set_yticks(range(len(view.names)), view.names)
    ax.invert_yaxis()
    _along_time(ax, view.axis, view.time)
    _axes.tidy(ax)
    ax.figure.colorbar(mesh, ax=ax, label="share", pad=0.02).outline.set_visible(False)
    return ax
