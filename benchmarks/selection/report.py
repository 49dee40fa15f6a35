"""The rows as a table in Markdown."""

from __future__ import annotations

from typing import Any

COLUMNS = {
    "best": "best of the grid",
    "denoising": "`select`",
    "variance": '`criterion="variance"`',
    "reconstruction": '`criterion="reconstruction"`',
    "supervised": "`select` with y",
    "median": "median rule",
    "1/d": "1/d (scikit-learn)",
    "linear": "linear",
}


def markdown(machine: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [
        "Held-out accuracy of logistic regression on standardised scores, in percent; in brackets gamma over",
        f"that of the median rule. The grid has {len(rows[0]['factors'])} widths over six decades of gamma.",
        "",
        "| data | n | d | k | " + " | ".join(COLUMNS.values()) + " |",
        "| :-- | --: | --: | --: | " + " | ".join("--:" for _ in COLUMNS) + " |",
    ]
    for row in rows:
        cells = [row["data"], str(row["n"]), str(row["d"]), str(row["k"])]
        lines.append("| " + " | ".join(cells + [_cell(row[name]) for name in COLUMNS]) + " |")
    lines += [
        "",
        "With the default candidates `select` takes:",
        "",
        "| data | k | kernel | accuracy | seconds |",
        "| :-- | --: | :-- | --: | --: |",
    ]
    lines += [
        f"| {row['data']} | {row['k']} | `{row['default']['shown']}` | "
        f"{100 * row['default']['accuracy']:.1f} | {row['default']['seconds']:.0f} |"
        for row in rows
    ]
    lines += [
        "",
        f"{machine['cpu']}, {machine['cores']} cores, commit {machine['commit']}, {machine['date']}.",
        "",
    ]
    return "\n".join(lines)


def _cell(found: dict[str, Any]) -> str:
    text = f"{100 * found['accuracy']:.1f}"
    return text if found.get("factor") is None else f"{text} ({found['factor']:.3g})"
