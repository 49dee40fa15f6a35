"""The measurements as text."""

from __future__ import annotations

import math
from typing import Any

Row = dict[str, Any]
ROUNDING = 1e-6  # of the mean's error: neither side has anything left to lose


def markdown(machine: dict[str, Any], rows: list[Row]) -> str:
    parts = [f"Measured {machine['date']}, {machine['cpu']}.\n"]
    ridge = [row for row in rows if row["question"] == "ridge"]
    if ridge:
        parts += ["## Ridge against scikit-learn\n", ridge_table(ridge), worst(ridge)]
    methods = [row for row in rows if row["question"] == "methods" and not row["reason"]]
    if methods:
        parts += ["## Each method\n", methods_table(methods)]
    return "\n".join(parts)


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def ridge_table(rows: list[Row]) -> str:
    lines = [
        "| data | kernel | k | the mean | scikit-learn, default | its best (α) | mercer | ÷ best |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: |",
    ]
    for row in rows:
        best = f"{number(row['best'])} ({row['best_alpha']:.0e})"
        cells = [row["data"], row["kernel"], str(row["k"]), number(row["of_mean"])]
        cells += [number(row["default"]), best, number(row["error"])]
        lines.append(f"| {' | '.join([*cells, number(row['error'] / row['best'])])} |")
    return "\n".join(lines)


def worst(rows: list[Row]) -> str:
    real = [row for row in rows if row["error"] > ROUNDING * row["of_mean"]]
    most = max(row["error"] / row["best"] for row in real)
    return (
        f"\nThe largest ratio to scikit-learn's best is {most:.3f}, among the {len(real)} of "
        f"{len(rows)} lines with an error above {ROUNDING:g} of the mean's.\n"
    )


def methods_table(rows: list[Row]) -> str:
    lines = [
        "| data | kernel | k | method | error | the mean | residual | seconds |",
        "| :-- | :-- | --: | :-- | --: | --: | --: | --: |",
    ]
    for row in rows:
        cells = [row["data"], row["kernel"], str(row["k"]), row["method"], number(row["error"])]
        cells += [number(row["error_of_mean"]), f"{row['residual']:.2%}", number(row["seconds"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
