"""Is a fault that was learned by its name known again: when the event is raised, after 10 rows, after 50?

Tennessee Eastman has one run of each fault. Its even rows are learned, the odd ones judged as they arrive:
other noise, the same course. Then the first 400 rows of each fault are learned, and events are named that
begin in the middle of what follows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from benchmarks.monitoring.tennessee import ENTERS
from mercer import PCA, KernelPCADetector
from mercer.monitoring.library import signature_distance

WHEN = (0, 10, 50)  # rows after the first alarm; 0 is when the event is raised
LATER = 560  # rows of a run: what lies before is learned
DETECTORS = {
    "default": KernelPCADetector(),
    "linear PCA, 99.9 %": KernelPCADetector(model=PCA(0.999)),
}


def measure(data: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """A row for each fault: what it was called when, by its course and by the mean of all of it."""
    x = np.asarray(data["train_normal"], dtype=np.float64)
    runs = {
        int(fault): np.asarray(run, dtype=np.float64)
        for fault, run in zip(data["fault"], data["test"], strict=True)
        if fault
    }
    rows = []
    for name, detector in DETECTORS.items():
        detector.fit(x)
        for fault, run in runs.items():
            detector.learn_event(str(fault), run[ENTERS::2])
        rows += [
            {"detector": name, "fault": fault, **_onset(detector, run[1::2], ENTERS // 2)}
            for fault, run in runs.items()
        ]
        for fault, run in runs.items():
            detector.learn_event(str(fault), run[ENTERS:LATER])
        rows.append({"detector": name, "fault": 0, "counts": _middles(detector, runs)})
    return rows


def _onset(detector: Any, rows: np.ndarray, enters: int) -> dict[str, Any]:
    stream, first, found = detector.stream(), None, {}
    for i, row in enumerate(rows):
        verdict = stream.push(row)
        if first is None and verdict.began is not None and verdict.began.first >= enters:
            first, found[0] = verdict.began.first, _named(detector, verdict.began)
        if first is not None and i - first in WHEN[1:] and stream.current is not None:
            found[i - first] = _named(detector, stream.current)
    return {"told": found}


def _named(detector: Any, event: Any) -> tuple[str, float, str, float]:
    """The nearest and its distance; and the same by the mean over all of a known event, as before."""
    known = detector.known_events_
    whole = [signature_distance(event.signature, own) for own in known.signatures]
    at = int(np.argmin(whole))
    return event.nearest.name, event.nearest.distance, known.names[at], whole[at]


def _middles(detector: Any, runs: dict[int, np.ndarray]) -> dict[int, Counter[str]]:
    counts: dict[int, Counter[str]] = {}
    for rows in (5, 13, 50):
        counts[rows] = Counter()
        for fault, run in runs.items():
            for begin in range(LATER, 900, 20):
                for event in detector.events(run[begin : begin + rows])[:1]:
                    right = "right" if event.nearest.name == str(fault) else "wrong"
                    how = "named" if event.nearest.alike else "nearest"
                    counts[rows][f"{how} {right}"] += 1
    return counts


def table(rows: list[dict[str, Any]]) -> str:
    """Names and distances, those of before in brackets; bold where the event is called like it."""
    head = "| detector | fault | raised | after 10 rows | after 50 rows |\n| :-- | --: | :-- | :-- | :-- |"
    lines = [head]
    for row in (r for r in rows if r["fault"]):
        cells = [_cell(row["told"].get(when)) for when in WHEN]
        lines.append(f"| {row['detector']} | {row['fault']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| detector, rows from the middle | named right | wrong | nearest right | wrong |",
    ]
    lines.append("| :-- | --: | --: | --: | --: |")
    for row in (r for r in rows if not r["fault"]):
        for n, found in row["counts"].items():
            kinds = ("named right", "named wrong", "nearest right", "nearest wrong")
            lines.append(f"| {row['detector']}, {n} | {' | '.join(str(found[k]) for k in kinds)} |")
    return "\n".join(lines)


def _cell(told: tuple[str, float, str, float] | None) -> str:
    if told is None:
        return "–"
    name, distance, before, was = told
    return f"{_bold(name, distance)} ({_bold(before, was)})"


def _bold(name: str, distance: float) -> str:
    text = f"{name} {distance:.2f}"
    return f"**{text}**" if distance <= 0.35 else text
