"""Tables of lagged, smoothed and chosen detectors."""

from __future__ import annotations

from typing import Any

import numpy as np

WHEN = {"before": "onset, by the index", "onset": "onset", "event": "event"}


def _lines(heads: list[str], rows: list[list[str]], texts: int) -> str:
    marks = [":--"] * texts + ["--:"] * (len(heads) - texts)
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, marks, *rows])


def _words(rule: str) -> str:
    return {"T2": "T²"}.get(rule, rule)


def rates(rows: list[dict[str, Any]]) -> str:
    """False alarms and rows that are alarms after each fault, in per cent."""
    faults = list(rows[0]["by_fault"])
    worst = ["worst"] if "worst" in rows[0] else []
    cells = [
        [
            row["detector"],
            _words(row["rule"]),
            f"{100 * row['false_alarms']:.1f}",
            *([f"{100 * row['worst']:.1f}"] if worst else []),
            *(f"{100 * row['by_fault'][fault]:.1f}" for fault in faults),
            f"{100 * row['mean']:.1f}",
        ]
        for row in rows
    ]
    heads = ["detector", "rule", "false alarms", *worst, *map(str, faults), "mean"]
    return _lines(heads, cells, 2)


def delays(rows: list[dict[str, Any]]) -> str:
    """Rows from each fault to three alarms in a row, by the combined rule; – where there were none."""
    faults = list(rows[0]["delays"])
    cells = [
        [
            row["detector"],
            *("–" if np.isnan(row["delays"][f]) else f"{row['delays'][f]:.0f}" for f in faults),
        ]
        for row in rows
        if row["rule"] == "combined"
    ]
    return _lines(["detector", *map(str, faults)], cells, 1)


def blame(rows: list[dict[str, Any]]) -> str:
    """Ranks of the first variable that shows the cause: at the onset, before and after, and over events."""
    faults = list(dict.fromkeys(row["fault"] for row in rows))
    causes = {row["fault"]: row["cause"] for row in rows}
    cells = []
    for name in dict.fromkeys(row["detector"] for row in rows):
        own = {row["fault"]: row for row in rows if row["detector"] == name}
        for when, words in WHEN.items():
            cells.append([name, words, *(str(own[fault][when] or "–") for fault in faults)])
    return _lines(["detector", "rank", *(f"{f} {causes[f]}" for f in faults)], cells, 2)


def plants(rows: list[dict[str, Any]]) -> str:
    """False alarms of each detector over all plants, in per cent."""
    cells = []
    for name in dict.fromkeys(row["detector"] for row in rows):
        own = [row for row in rows if row["detector"] == name]
        rate = np.array([row["rate"] for row in own])
        known = [r for r in own if r["low"] is not None]
        inside = (
            np.mean([r["low"] - 1e-9 <= r["rate"] <= r["high"] + 1e-9 for r in known])
            if known
            else np.nan
        )
        told = (
            np.mean([row["told"] for row in own if row["rate"] > 0.03])
            if (rate > 0.03).any()
            else np.nan
        )
        figures = (rate.mean(), *np.quantile(rate, [0.5, 0.9]), rate.max(), np.mean(rate > 0.02))
        cells.append(
            [
                name,
                *(f"{100 * f:.1f}" for f in figures),
                *("–" if np.isnan(f) else f"{100 * f:.0f}" for f in (inside, told)),
            ]
        )
    heads = [
        "detector",
        "mean",
        "median",
        "90 % below",
        "worst",
        "plants above 2 %",
        "inside the range",
        "warned, of those above 3 %",
    ]
    return _lines(heads, cells, 1)


def kinds(rows: list[dict[str, Any]]) -> str:
    """Mean false alarms by what a plant is, in per cent."""
    groups = {f"order {p}": ("order", p) for p in sorted({r["order"] for r in rows})}
    groups |= {tail: ("tail", tail) for tail in dict.fromkeys(r["tail"] for r in rows)}
    groups |= {"no season": ("season", False), "season": ("season", True)}
    cells = []
    for name in dict.fromkeys(row["detector"] for row in rows):
        own = [row for row in rows if row["detector"] == name]
        means = [[r["rate"] for r in own if r[key] == value] for key, value in groups.values()]
        cells.append([name, *(f"{100 * np.mean(m):.1f}" if m else "–" for m in means)])
    return _lines(["detector", *groups], cells, 1)
