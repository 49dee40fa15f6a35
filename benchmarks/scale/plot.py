"""The pictures: cost against n, memory against its budget, error against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.scale.case import Case
from benchmarks.scale.entrants import (
    ARPACK,
    EXACT,
    EXACT_UNHELD,
    FOURIER,
    KMEANS,
    NYSTROEM,
    NYSTROM,
    RPCHOLESKY,
)
from benchmarks.scale.report import exponent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COLOURS = {
    EXACT: "#b3001b",
    EXACT_UNHELD: "#e07a8b",
    RPCHOLESKY: "#5b2a86",
    NYSTROM: "#1b998b",
    KMEANS: "#e08e00",
    FOURIER: "#6c757d",
    ARPACK: "#1d70a2",
    NYSTROEM: "#222222",
}
MARKERS = ("o", "s", "^", "D", "v", "P")


def finish(axes: Any, **legend: Any) -> None:
    axes.grid(alpha=0.2)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, **legend)


def ticks(axes: Any, values: Iterable[float]) -> None:
    """Where something was measured, and nowhere else."""
    places = sorted(set(values))
    axes.set_xticks(places, [f"{place:,.10g}".replace(",", " ") for place in places])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_growth(series: dict[str, tuple[list[int], list[float]]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
    for who, (sizes, seconds) in series.items():
        if sizes:
            p = exponent(sizes, seconds)
            label = who if p is None else f"{who}: $n^{{{p:.1f}}}$"
            axes.plot(sizes, seconds, "o-", ms=4, color=COLOURS[who], label=label)
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel="seconds", title="cost of a fit")
    ticks(axes, (n for sizes, _ in series.values() for n in sizes))
    finish(axes)
    save(figure, path)


def draw_memory(rows: list[dict[str, Any]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 5.5), layout="constrained")
    sizes = sorted({row["case"]["n"] for row in rows})
    for n, colour in zip(sizes, (COLOURS[EXACT], COLOURS[ARPACK]), strict=False):
        own = sorted(
            (row for row in rows if row["case"]["n"] == n), key=lambda r: r["options"]["memory"]
        )
        budgets = [row["options"]["memory"] / 1e9 for row in own]
        for key, style, what in (
            ("planned_bytes", "x--", "planned"),
            ("peak_bytes", "o-", "measured"),
        ):
            values = [row[key] / 1e9 for row in own]
            axes.plot(budgets, values, style, ms=5, color=colour, label=f"n = {n}, {what}")
    limits = [row["options"]["memory"] / 1e9 for row in rows]
    if limits:
        ends = [min(limits), max(limits)]
        axes.plot(ends, ends, color="#222222", lw=1, label="the budget")
    axes.set(
        xscale="log", yscale="log", xlabel="memory given, GB", ylabel="memory above the data, GB"
    )
    ticks(axes, limits)
    axes.set_title("nothing may lie above the line")
    finish(axes)
    save(figure, path)


def draw_error(
    timed: list[dict[str, Any]],
    medians: dict[tuple[str, int], dict[str, float | None]],
    path: Path,
) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
    for who in dict.fromkeys(row["who"] for row in timed):
        own = sorted(
            (row for row in timed if row["who"] == who), key=lambda r: r["options"]["rank"]
        )
        seconds, errors = [row["seconds"] for row in own], [row["frobenius"] for row in own]
        left.plot(seconds, errors, "o-", ms=4, color=COLOURS[who], label=who)
        for row in own:
            spot = row["seconds"], row["frobenius"]
            left.annotate(
                str(row["options"]["rank"]),
                spot,
                fontsize=7,
                xytext=(3, 3),
                textcoords="offset points",
            )
    title = (
        f"error against time, {Case(**timed[0]['case']).name}" if timed else "error against time"
    )
    left.set(xscale="log", yscale="log", xlabel="seconds of a fit", title=title)
    left.set_ylabel("‖K - K̂‖/‖K‖ on sampled rows; the numbers are ranks")
    draw_left_out(right, medians)
    finish(left)
    finish(right, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path)


def draw_left_out(axes: Any, medians: dict[tuple[str, int], dict[str, float | None]]) -> None:
    names = list(dict.fromkeys(name for name, _ in medians))
    for name, marker in zip(names, MARKERS, strict=False):
        for who in (RPCHOLESKY, NYSTROM, KMEANS):
            points = [(rank, of[who]) for (of_name, rank), of in medians.items() if of_name == name]
            known = [(rank, value) for rank, value in points if value is not None and value > 0]
            if known:
                ranks, values = zip(*known, strict=True)
                label = f"{name.split(' n=')[0]}, {who.removeprefix('mercer ')}"
                axes.plot(ranks, values, marker=marker, ms=4, color=COLOURS[who], label=label)
    axes.set(xscale="log", yscale="log", xlabel="rank", ylabel="tr(K - K̂)/tr K")
    ticks(axes, (rank for _, rank in medians))
    axes.set_title("trace left out")
