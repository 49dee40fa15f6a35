"""How the variance is spread over the components: bars, their sum, and where the true values lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.charts import MANY_BARS
from mercer.report.evidence import how_sure
from mercer.report.markup import Html, figure, grid, paragraph, tag
from mercer.report.shown import counted, number, power_of_ten, share
from mercer.report.svg import Frame, bars, line, points

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.report.subject import Subject

ID = "spectrum-figure"
MOST_LISTED = 50
ENOUGH = 0.95
ROOM_INSIDE = 22.0  # pixels: a number and a little air


def spectrum(subject: Subject) -> list[Any]:
    """Bars of the shares, and the eigenvalues in a table."""
    values = np.asarray(subject.projector.eigenvalues_, dtype=np.float64)  # (k,)
    fit = subject.fit
    total = float(values.sum()) if fit is None else float(fit.total)
    shares = np.maximum(values, 0.0) / total if total > 0 else np.zeros_like(values)
    running = np.minimum(np.cumsum(shares), 1.0)
    sure = "" if fit is None else how_sure(fit)
    words = _words(shares, running, sure=sure, whole=fit is not None)
    table = _table(subject, shares, running)
    made = figure(_drawn(shares, running), words, id_=ID, numbers=table)
    return [paragraph(_meaning(subject)), made]


def _meaning(subject: Subject) -> str:
    space = "of the columns" if subject.kernel is None else "in the feature space of the kernel"
    whole = "the whole variance, that of the components left out included"
    if subject.fit is None:
        whole = "the variance of the kept components: this model does not know the whole"
    return (
        f"Each component is a direction {space}; its eigenvalue is how much the training rows vary along it. "
        f"Shares are of {whole}."
    )


def _words(shares: Array, running: Array, *, sure: str, whole: bool) -> str:
    k = len(shares)
    text = f"{counted(k, 'component')}: the first holds {sure}{share(float(shares[0]))}"
    if k > 1:
        text += f", all together {sure}{share(float(running[-1]))} of the variance"
    elif whole:
        text += " of the variance"
    reached = np.flatnonzero(running >= ENOUGH * (1 - 1e-9))
    if not whole:
        return f"{text} that was kept."
    if len(reached) == 0:
        return f"{text}. {share(ENOUGH, 0)} is not reached."
    return f"{text}. {share(ENOUGH, 0)} is reached with {int(reached[0]) + 1}."


def _drawn(shares: Array, running: Array) -> Html:
    k, frame = len(shares), Frame()
    x, y = frame.across(0.5, k + 0.5), frame.up(0.0, 1.0)
    places = np.arange(1, k + 1)
    wide = 0.4 * min(1.0, k / 6) if k <= MANY_BARS else 0.5  # a single bar is no wall
    ticks = [(t, f"{t:g}") for t in x.ticks(12) if t == round(t) and 1 <= t <= k]
    parts: list[Any] = [
        frame.axes(
            x,
            y,
            x_label="component",
            y_label="share of the variance",
            x_ticks=ticks or [(1.0, "1")],
            y_ticks=[(t / 5, f"{20 * t} %") for t in range(6)],
        ),
        bars(x(places - wide), x(places + wide), y(shares), float(y(0.0)), class_="bar"),
        line(x(np.array([0.5, k + 0.5])), y(np.array([ENOUGH, ENOUGH])), class_="limit"),
        tag("text", share(ENOUGH, 0), x=frame.left + 4, y=f"{float(y(ENOUGH)) + 14:.1f}"),
        line(x(places), y(running), class_="curve"),
    ]
    if k <= MANY_BARS:
        parts.append(points(x(places), y(running), 0, 3.5, class_="on-curve"))
    if k <= 12:  # room for a number on each bar
        floor = float(y(0.0))
        parts += [_on_top(float(x(i + 1)), float(y(s)), floor, s) for i, s in enumerate(shares)]
    label = "Bars: share of the variance of each component. Line: their sum."
    return frame.drawing(*parts, label=label, id_=ID)


def _on_top(x: float, y: float, floor: float, value: float) -> Html:
    # Inside a bar that is tall enough, for the line of sums runs above; above a low one.
    inside = floor - y >= ROOM_INSIDE
    place = y + 16 if inside else y - 5
    kind = "value inside" if inside else "value"
    return tag(
        "text", share(value), x=f"{x:.1f}", y=f"{place:.1f}", text_anchor="middle", class_=kind
    )


def _table(subject: Subject, shares: Array, running: Array) -> Html:
    values = np.asarray(subject.projector.eigenvalues_, dtype=np.float64)
    head = ["component", "eigenvalue", "share", "sum of shares"]
    rows = [
        [i + 1, number(values[i], 6), share(shares[i], 2), share(running[i], 2)]
        for i in range(min(len(values), MOST_LISTED))
    ]
    fit = subject.fit
    if fit is not None:
        head += ["true value at least", "at most", "residual"]
        for i, row in enumerate(rows):
            low, high = fit.bounds[i]
            row += [number(low, 6), number(high, 6), power_of_ten(float(fit.residuals[i]))]
    caption = "Eigenvalues"
    if len(values) > MOST_LISTED:
        caption += f": the first {MOST_LISTED} of {len(values)}"
    return grid(head, rows, caption=caption, texts=1)
