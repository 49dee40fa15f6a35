"""The lines as tables in Markdown: what each pick loses against the best width of the grid."""

from __future__ import annotations

from typing import Any

import numpy as np

RULES = {
    "agreement": "`select`",
    "median": "median rule",
    "variance": '`criterion="variance"`',
    "denoising": '`criterion="denoising"`',
    "reconstruction": '`criterion="reconstruction"`',
    "labels": "`select` with y",
}

Lines = list[dict[str, Any]]


def markdown(machine: dict[str, Any], lines: Lines) -> str:
    sizes = sorted({line["k"] for line in lines})
    slow = [line for line in lines if "denoising" in line["picks"]]
    parts = ["Points of accuracy lost, over all lines:", "", *summary(lines)]
    parts += ["", f"k = {slow[0]['k']} only, where all criteria are:", "", *summary(slow)]
    parts += [
        "",
        "Points lost to the best width of the grid, linear judge / 5 neighbours; in brackets",
    ]
    parts += ["the width over the median, `!` where `select` says that there is evidence:", ""]
    parts += detail(slow)
    parts += ["", f"`select` for k = {', '.join(map(str, sizes))}:", "", *by_size(lines, sizes)]
    parts += [
        "",
        f"{machine['cpu']}, {machine['cores']} cores, commit {machine['commit']}, {machine['date']}.",
        "",
    ]
    return "\n".join(parts)


def lost(line: dict[str, Any], rule: str, judge: str) -> float:
    """Points between the best width of the grid and the one picked."""
    curve = line["curves"][judge][: len(line["factors"])]
    return 100.0 * (max(curve) - curve[line["picks"][rule]["at"]])


def losses(lines: Lines, rule: str) -> np.ndarray:
    return np.array([lost(x, rule, judge) for x in lines for judge in x["curves"]])


def summary(lines: Lines) -> list[str]:
    """A row for each rule that all of the lines have, beside the median rule."""
    rows = [
        "| picked by | mean loss | worst loss | against the median rule: mean | worst | best | another width "
        "than the median | seconds |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    median = losses(lines, "median")
    for rule, name in RULES.items():
        if not all(rule in line["picks"] for line in lines):
            continue
        own = losses(lines, rule)
        gap = own - median
        at = [line["picks"][rule]["at"] != line["picks"]["median"]["at"] for line in lines]
        seconds = [line["picks"][rule].get("seconds", 0.0) for line in lines]
        rows.append(
            f"| {name} | {own.mean():.2f} | {own.max():.1f} | {gap.mean():+.2f} | {gap.max():+.1f} | "
            f"{gap.min():+.1f} | {np.mean(at):.0%} | {np.median(seconds):.1f} |"
        )
    return rows


def detail(lines: Lines) -> list[str]:
    rows = ["| data | n | d | " + " | ".join(RULES.values()) + " |"]
    rows.append("| :-- | --: | --: | " + " | ".join("--:" for _ in RULES) + " |")
    for line in lines:
        cells = [line["data"], str(line["n"]), str(line["d"])]
        rows.append("| " + " | ".join(cells + [_cell(line, rule) for rule in RULES]) + " |")
    return rows


def by_size(lines: Lines, sizes: list[int]) -> list[str]:
    rows = ["| data | " + " | ".join(f"k = {k}" for k in sizes) + " |"]
    rows.append("| :-- | " + " | ".join("--:" for _ in sizes) + " |")
    for name in dict.fromkeys(line["data"] for line in lines):
        own = {line["k"]: line for line in lines if line["data"] == name}
        rows.append(f"| {name} | " + " | ".join(_cell(own[k], "agreement") for k in sizes) + " |")
    return rows


def _cell(line: dict[str, Any], rule: str) -> str:
    pick = line["picks"].get(rule)
    if pick is None:
        return ""
    text = " / ".join(f"{lost(line, rule, judge):.1f}" for judge in line["curves"])
    sure = "!" if rule == "agreement" and pick["conclusive"] else ""
    return f"{text} ({line['factors'][pick['at']]:.3g}){sure}"
