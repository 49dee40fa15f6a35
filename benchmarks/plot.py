"""The picture: time against n, and how many times mercer's time scikit-learn took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.competitors import DEFAULT, MERCER
from benchmarks.report import TRUSTED_RESIDUAL, Row, by_case, fastest, of, ratio

if TYPE_CHECKING:
    from pathlib import Path

COLOURS = {
    "mercer": "#b3001b",
    "mercer tol=1e-10": "#e07a8b",
    "sklearn auto": "#222222",
    "sklearn dense": "#6c757d",
    "sklearn arpack": "#1d70a2",
    "sklearn randomized": "#e08e00",
}


def main_series(rows: list[Row]) -> list[Row]:
    """The measured RBF rows that differ from each other in n alone, the longest such series."""
    series: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        case = row["case"]
        if case["kernel"] == "rbf" and "seconds" in row:
            series.setdefault((case["dataset"], case["d"], case["k"]), []).append(row)
    return max(series.values(), key=lambda one: len({row["case"]["n"] for row in one}), default=[])


def draw_times(axes: Any, rows: list[Row]) -> None:
    series = main_series(rows)
    for who, colour in COLOURS.items():
        points = sorted((row["case"]["n"], row["seconds"]) for row in series if row["who"] == who)
        if points:
            width = 2.5 if who == MERCER else 1.2
            # The default coincides with one of the others: dashes let both be seen.
            style = "--" if who == "sklearn auto" else "-"
            n, seconds = zip(*points, strict=True)
            top = 3 if who == "sklearn auto" else 2
            looks = {"color": colour, "lw": width, "marker": "o", "ms": 4, "zorder": top}
            axes.plot(n, seconds, style, label=who, **looks)
    if series:
        case = series[0]["case"]
        axes.legend(fontsize=8, loc="upper left")
        axes.set_title(f"fit, RBF, {case['dataset']}, d = {case['d']}, k = {case['k']}")
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel="seconds")
    sizes = sorted({row["case"]["n"] for row in series})
    axes.set_xticks(sizes, [f"{n:,}".replace(",", " ") for n in sizes])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.grid(alpha=0.2)


def draw_ratios(axes: Any, rows: list[Row]) -> None:
    groups = by_case(rows)
    chosen = {
        f"fastest with residual ≤ {TRUSTED_RESIDUAL:.0e}": ("#1d70a2", _right),
        "default": ("#6c757d", _default),
    }
    for offset, (label, (colour, pick)) in zip((-0.2, 0.2), chosen.items(), strict=True):
        ratios = [ratio(pick(group), of(group, MERCER)) or 0.0 for group in groups.values()]
        places = [place + offset for place in range(len(groups))]
        # Bars start at 1, where both are equally fast: to the right mercer wins.
        lengths = [r - 1.0 if r else 0.0 for r in ratios]
        bars = axes.barh(places, lengths, left=1.0, height=0.38, color=colour, label=label)
        axes.bar_label(bars, [f"{r:.3g}" if r else "" for r in ratios], padding=3, fontsize=7)
    axes.axvline(1.0, color="#b3001b", lw=1.5)
    axes.set_yticks(range(len(groups)), list(groups), fontsize=7)
    axes.invert_yaxis()
    axes.set(
        xscale="log",
        xlabel="scikit-learn's time ÷ mercer's",
        title="mercer is faster to the right of the red line",
    )
    axes.margins(x=0.15)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0.0, -0.12), ncols=2)
    axes.grid(axis="x", alpha=0.2)


def _right(group: list[Row]) -> Row | None:
    return fastest(group, residual=TRUSTED_RESIDUAL)


def _default(group: list[Row]) -> Row | None:
    return of(group, DEFAULT[group[0]["case"]["kernel"] == "linear"])


def save_plot(rows: list[Row], path: Path) -> None:
    height = max(4.5, 0.42 * len(by_case(rows)) + 1.2)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, height), layout="constrained")
    draw_times(left, rows)
    draw_ratios(right, rows)
    figure.savefig(path, dpi=130)
    plt.close(figure)
