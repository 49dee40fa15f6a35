"""Table and picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from mercer import plots

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = 10  # digits in the picture


def markdown(rows: list[dict[str, Any]]) -> str:
    """A line for each way: error by noise, with the knobs that validation chose."""
    kinds = list(dict.fromkeys(row["noise"] for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    heads = "".join(f" {kind}: error | chosen | seconds |" for kind in kinds)
    lines = [f"| way |{heads}", "| :-- |" + " --: | :-- | --: |" * len(kinds)]
    for way in ways:
        cells = ""
        for kind in kinds:
            (row,) = [r for r in rows if r["way"] == way and r["noise"] == kind]
            chosen = ", ".join(f"{name} = {value:g}" for name, value in row["knobs"].items())
            seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
            cells += f" {row['error']:.4f} | {chosen} | {seconds} |"
        lines.append(f"| {way} |{cells}")
    return "\n".join(lines)


def draw(
    path: Path, clean: np.ndarray, made: dict[str, dict[str, np.ndarray]], shape: tuple[int, int]
) -> None:
    """Noises side by side; rows: clean, noisy, and every way."""
    tall = len(next(iter(made.values()))) + 1
    figure = Figure(figsize=(7.0 * len(made), 0.62 * tall + 0.4), layout="constrained", dpi=100)
    for part, (kind, pictures) in zip(figure.subfigures(1, len(made)), made.items(), strict=True):
        rows = {"clean": clean} | pictures
        sheet = np.concatenate([images[:SHOWN] for images in rows.values()])
        axes = plots.faces(np.clip(sheet, 0, 1), shape=shape, n_columns=SHOWN, fig=part)
        for name, ax in zip(rows, axes[::SHOWN], strict=True):
            ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
        part.suptitle(kind, fontsize=11)
    figure.savefig(path)
