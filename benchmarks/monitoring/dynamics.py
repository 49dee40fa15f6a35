"""What do lags, smoothing and a chosen detector add, at what rate of false alarms, and whom do they blame?

Two processes: Tennessee Eastman, and one of our own whose truth is known. Every detector sees normal rows
only; `select_detector` tries itself on deviations that it makes of them, never on a fault.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.monitoring import plant
from benchmarks.monitoring.cva import CVA
from benchmarks.run import say
from mercer import PCA, KernelPCADetector, select_detector
from mercer.errors import MercerWarning

RULES = ("T2", "Q", "combined")
ENTERS = {"tennessee": 160, "plant": 200}
SEEDS = range(5)  # runs of our own process
IN_A_ROW = 3  # alarms that make a detection, for its delay
# Variables that show the cause of a fault of Tennessee Eastman, by its description (Downs & Vogel 1993):
# columns are XMEAS 1 to 41, then XMV 1 to 11.
CAUSES = {
    1: ("A feed ratio", ["XMEAS 1", "XMEAS 4", "XMV 3", "XMV 4"]),
    4: ("reactor cooling water", ["XMEAS 9", "XMV 10"]),
    5: ("condenser cooling water", ["XMEAS 22", "XMV 11"]),
    7: ("C header pressure", ["XMEAS 4", "XMV 4"]),
    10: ("C feed temperature", ["XMEAS 18", "XMEAS 19", "XMV 9"]),
    11: ("reactor cooling water", ["XMEAS 9", "XMV 10"]),
    12: ("condenser cooling water", ["XMEAS 11", "XMEAS 22", "XMV 11"]),
}
BLAMED = ("default", "linear PCA, 99 %", 'default, `lags="auto"`', "`select_detector`")
NAMES = [f"XMEAS {i}" for i in range(1, 42)] + [f"XMV {i}" for i in range(1, 12)]


def entrants() -> dict[str, Any]:
    """Detectors by name; the last is made of the training rows."""
    return {
        "linear PCA, 99 %": KernelPCADetector(model=PCA(0.99)),
        "default": KernelPCADetector(),
        "dynamic PCA, 2 lags, 99 %": KernelPCADetector(model=PCA(0.99), lags=2),
        "canonical variates, 2 lags": CVA(),
        'default, `lags="auto"`': KernelPCADetector(lags="auto"),
        "default, `smoothing=0.3`": KernelPCADetector(smoothing=0.3),
        "`select_detector`": None,
    }


def fitted(detector: Any, x: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        return select_detector(x).best_ if detector is None else detector.fit(x)


def alarms(detector: Any, x: np.ndarray) -> dict[str, np.ndarray]:
    """Rows above the limit of T², of Q, and of either."""
    if isinstance(detector, CVA):
        return detector.alarms(x)
    table, limits = detector.statistics(x), detector.limits_
    with np.errstate(invalid="ignore"):
        found = {"T2": table["T2"] > limits.t2, "Q": table["Q"] > limits.q}
    return found | {"combined": detector.predict(x) == -1}


def delay(alarm: np.ndarray, enters: int) -> float:
    """Rows from the fault to the first of three alarms in a row; NaN where there are none."""
    after = alarm[enters:].astype(int)
    runs = np.convolve(after, np.ones(IN_A_ROW, dtype=int), mode="valid") == IN_A_ROW
    return float(np.argmax(runs)) if runs.any() else np.nan


def measure(data: dict[str, np.ndarray], process: str) -> list[dict[str, Any]]:
    """A row for each detector and rule."""
    enters, rows = ENTERS[process], []
    x = np.asarray(data["train_normal"], dtype=np.float64)
    normal = data.get("normal", data["test"][list(data["fault"]).index(0)])
    for name, entrant in entrants().items():
        detector = fitted(entrant, x)
        say(f"{process}: {name}")
        clean = alarms(detector, np.asarray(normal, dtype=np.float64))
        faulty = {
            int(fault): alarms(detector, np.asarray(run, dtype=np.float64))
            for fault, run in zip(data["fault"], data["test"], strict=True)
            if fault
        }
        for rule in RULES:
            by_fault = {f: float(a[rule][enters:].mean()) for f, a in faulty.items()}
            rows.append(
                {
                    "process": process,
                    "detector": name,
                    "is": repr(detector),
                    "rule": rule,
                    "false_alarms": float(clean[rule].mean()),
                    "by_fault": by_fault,
                    "delays": {f: delay(a[rule], enters) for f, a in faulty.items()},
                    "mean": float(np.mean(list(by_fault.values()))),
                }
            )
    return rows


def plants() -> list[dict[str, Any]]:
    """Means over runs of our own process, each with its own training rows."""
    every = [measure(plant.data(seed), "plant") for seed in SEEDS]
    rows = []
    for same in zip(*every, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # no delay where nothing was seen
            delays = {
                f: float(np.nanmedian([r["delays"][f] for r in same])) for f in same[0]["delays"]
            }
        rows.append(
            same[0]
            | {
                "is": "; ".join(r["is"] for r in same),
                "false_alarms": float(np.mean([r["false_alarms"] for r in same])),
                "worst": max(r["false_alarms"] for r in same),
                "by_fault": {
                    f: float(np.mean([r["by_fault"][f] for r in same])) for f in same[0]["by_fault"]
                },
                "delays": delays,
                "mean": float(np.mean([r["mean"] for r in same])),
            }
        )
    return rows


# ── blame ───────────────────────────────────────────────────────────────────
def blame(data: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Ranks of the variables that show the cause, at the onset of a fault and over all its alarms.

    "before" is the onset by the index of the detector, in place of how sensors go together.
    """
    x, enters = np.asarray(data["train_normal"], dtype=np.float64), ENTERS["tennessee"]
    rows = []
    for name in BLAMED:
        detector = fitted(entrants()[name], x)
        by_index = copy(detector)
        by_index._baselines = replace(detector._baselines, relations=None)
        for fault, (cause, true) in CAUSES.items():
            run = np.asarray(data["test"][list(data["fault"]).index(fault)], dtype=np.float64)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)
                seen, index = (one.monitor(run, names=NAMES) for one in (detector, by_index))
            ranks = {
                "before": onset_ranks(index, true, enters),
                "onset": onset_ranks(seen, true, enters),
                "event": event_ranks(seen, true, enters),
            }
            rows.append({"detector": name, "fault": fault, "cause": cause, **ranks})
        say(f"blame: {name}")
    return rows


def best_rank(values: np.ndarray, true: list[str]) -> int:
    """The rank of the first of these variables, from 1 on."""
    ranks = np.argsort(np.argsort(-values, kind="stable")) + 1
    return int(min(ranks[NAMES.index(name)] for name in true))


def onset_ranks(seen: Any, true: list[str], enters: int) -> int | None:
    """By what led when the first run after the fault began that is more than chance."""
    after = [
        r
        for r in seen.runs
        if r.first >= enters and r.alarms >= IN_A_ROW and r.first in seen.onsets
    ]
    return best_rank(seen.onsets[after[0].first], true) if after else None


def event_ranks(seen: Any, true: list[str], enters: int) -> int | None:
    """By the mean share of every variable in what raises the statistic, over all alarms after the fault."""
    from mercer.monitoring.alarms import shares

    later = seen.explained >= enters
    if seen.contributions is None or not later.any():
        return None
    return best_rank(shares(seen.contributions[later]).mean(axis=0), true)
