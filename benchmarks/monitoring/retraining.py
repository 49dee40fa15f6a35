"""Retraining across a drift: false alarms and detection of a detector that stayed, that followed, or is new.

``python -m benchmarks.monitoring.retraining``. The process is that of `plant`. Two of its sensors drift for
4000 rows, by two spreads each, and stay there; in the middle of it the level sensor is off for 200 rows,
which is not to be learned. Afterwards: 3000 normal rows, and 1000 rows each with a sensor off by a step.
"""

from __future__ import annotations

import warnings
from typing import Any

import click
import numpy as np

from benchmarks.monitoring import plant
from mercer import KernelPCADetector

TRAIN, DRIFT, LATER, FAULTY = 2000, 4000, 3000, 1000
DRIFTING = ("cooling out", "steam valve")
SPREADS, STEP = 2.0, 2.5
STEPS = ("level", "power", "recycle")
OFF = slice(1900, 2100)  # rows of the drift in which the level sensor is off


def rows(rng: np.random.Generator, n: int, moved: Any, off: str | None = None) -> np.ndarray:
    """Rows with the drifting sensors moved by so many spreads, and one sensor off by a step."""
    found = plant.run(n, rng)
    spread = found.std(axis=0)
    for name in DRIFTING:
        j = plant.SENSORS.index(name)
        found[:, j] += moved * spread[j]
    if off is not None:
        found[:, plant.SENSORS.index(off)] += STEP * spread[plant.SENSORS.index(off)]
    return found


def seen(detector: KernelPCADetector, rng: np.random.Generator, moved: float) -> list[float]:
    """Alarms in per cent, in normal rows and with each sensor off."""
    runs = [rows(rng, LATER, moved), *(rows(rng, FAULTY, moved, off) for off in STEPS)]
    return [100.0 * float(np.mean(detector.predict(x) == -1)) for x in runs]


def repeat(seed: int) -> dict[str, list[float]]:
    """What each detector sees."""
    rng = np.random.default_rng(seed)
    old = KernelPCADetector(n_components=0.999).fit(rows(rng, TRAIN, 0.0))
    drift = rows(rng, DRIFT, np.linspace(0.0, SPREADS, DRIFT))
    drift[OFF, plant.SENSORS.index("level")] += STEP * drift[:, plant.SENSORS.index("level")].std()
    anew = KernelPCADetector(n_components=0.999)
    return {
        "before the drift": seen(old, rng, 0.0),
        "after it, the same detector": seen(old, rng, SPREADS),
        "`updated(drift, memory=1000)`": seen(old.updated(drift, memory=1000), rng, SPREADS),
        "a new fit to the last 2000 rows": seen(anew.fit(drift[-TRAIN:]), rng, SPREADS),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repeats", default=5, show_default=True)
def main(repeats: int) -> None:
    """Retraining across a drift: alarms in per cent, means over repeats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [repeat(seed) for seed in range(repeats)]
    heads = ["false alarms", "worst", *(f"{name} off" for name in STEPS)]
    click.echo(f"| detector | {' | '.join(heads)} |\n| :-- |{' --: |' * len(heads)}")
    for name in found[0]:
        table = np.array([one[name] for one in found])
        mean = table.mean(axis=0)
        cells = [mean[0], table[:, 0].max(), *mean[1:]]
        click.echo(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |")


if __name__ == "__main__":
    main()
