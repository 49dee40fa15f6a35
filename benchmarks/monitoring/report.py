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


def draw(path: Path, train: np.ndarray, run: np.ndarray, enters: int) -> None:
    """Control charts of a run, by the default detector."""
    seen = KernelPCADetector().fit(train).monitor(run, top=0)
    figure = Figure(figsize=(8.0, 5.2), layout="constrained", dpi=100)
    seen.plot(fault_at=enters, fig=figure)
    figure.savefig(path)
