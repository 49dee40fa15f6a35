"""Tables, and the control charts of one fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from mercer import KernelPCADetector

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


def tennessee(rows: list[dict[str, Any]]) -> str:
    """A line for each detector and rule: detection rates in per cent."""
    faults = list(rows[0]["by_fault"])
    heads = " | ".join(map(str, faults))
    lines = [
        f"| detector | k | rule | false alarms | before faults | {heads} | mean |",
        "| :-- | --: | :-- | --: | --: |" + " --: |" * (len(faults) + 1),
    ]
    for row in rows:
        cells = " | ".join(f"{100 * row['by_fault'][fault]:.1f}" for fault in faults)
        lines.append(
            f"| {row['detector']} | {row['components']} | {row['rule']} | {100 * row['false_alarms']:.1f} "
            f"| {100 * row['before_faults']:.1f} | {cells} | {100 * row['mean']:.1f} |"
        )
    return "\n".join(lines)


def bio(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| detector | components | AUC | fit (s) | fit, CPU (s) | score (s) | score, CPU (s) |",
        "| :-- | --: | --: | --: | --: | --: | --: |",
    ]
    lines += [
        f"| {row['detector']} | {row['components']} | {row['auc']:.4f} | {row['fit_seconds']:.2f} | "
        f"{row['fit_cpu_seconds']:.2f} | {row['score_seconds']:.2f} | {row['score_cpu_seconds']:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


def false_alarms(rows: list[dict[str, Any]]) -> str:
    """False alarms of a second run, in per cent: the mean, * where `fit` mostly warned, and the worst."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines = [
        f"| rows | kernel | k | {' | '.join(kinds)} |",
        "| --: | :-- | --: |" + " --: |" * len(kinds),
    ]
    found = {(r["n"], r["kernel"], r["components"], r["kind"]): r for r in rows}
    for n, kernel, k in dict.fromkeys(key[:3] for key in found):
        cells = [found[n, kernel, k, kind] for kind in kinds]
        text = " | ".join(
            f"{_per_cent(c['rate'], c['told'])} ({100 * c['worst']:.1f})" for c in cells
        )
        lines.append(f"| {n} | {kernel} | {k} | {text} |")
    return "\n".join(lines)


def second_run(rows: list[dict[str, Any]]) -> str:
    """A line for each kernel, a column for each number of components; * where `fit` had warned."""
    counts = list(dict.fromkeys(row["components"] for row in rows))
    lines = [
        f"| kernel | {' | '.join(map(str, counts))} |",
        "| :-- |" + " --: |" * len(counts),
    ]
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        cells = [_per_cent(r["rate"], r["told"]) for r in rows if r["kernel"] == kernel]
        lines.append(f"| {kernel} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _per_cent(share: float, told: float) -> str:
    return f"{100 * share:.1f}{'*' if told > 0.5 else ''}"


def steps(rows: list[dict[str, Any]]) -> str:
    """Alarms of a step, by the number of wild readings in the training rows."""
    lines = [
        "| wild readings | in which column | alarms of 960 rows, fewest | false alarms (%) |",
        "| --: | :-- | --: | --: |",
    ]
    lines += [
        f"| {row['wild']} | {row['where']} | {row['seen']} | {100 * row['false']:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


def failures(rows: list[dict[str, Any]]) -> str:
    """For how many sensors at least nine rows in ten are alarms, by how they had failed in training."""
    sizes = list(dict.fromkeys(row["far"] for row in rows))
    lines = [
        "| wild readings | " + " | ".join(f"{size:g}" for size in sizes) + " |",
        "| :-- |" + " --: |" * len(sizes),
    ]
    for how in dict.fromkeys(row["how"] for row in rows):
        seen = [row["seen"] for row in rows if row["how"] == how]
        name = f"{how} in a row" if isinstance(how, int) else f"{how:.0%} of all rows"
        cells = [f"{sum(share >= 0.9 for share in one)} of {len(one)}" for one in seen]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(path: Path, train: np.ndarray, run: np.ndarray, enters: int) -> None:
    """Control charts of a run, by the default detector."""
    seen = KernelPCADetector().fit(train).monitor(run, top=0)
    figure = Figure(figsize=(8.0, 5.2), layout="constrained", dpi=100)
    seen.plot(fault_at=enters, fig=figure)
    figure.savefig(path)
