"""Made data as CSV files: the two circles, and a process with five sensors in order and out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np
from sklearn.datasets import make_circles

from mercer.cli.output import check_output, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mercer._core.types import Array

SENSORS = ("flow", "temperature", "pressure", "level", "power")
BEGUN = np.datetime64("2026-01-05T06:00")
MINUTES = 300  # rows of each process file
FAULT_AT = 200  # the minute from which the flow sensor of the second file reads too high


def circles() -> tuple[Array, Any]:
    """400 points (n, 2) on two circles, and which one (n,): 0 is the outer, 1 the inner."""
    points, which = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    return np.asarray(points), np.asarray(which)


def process(*, seed: int, fault_at: int | None = None) -> Array:
    """(MINUTES, 5) readings of a heated tank: a slow load drives all five sensors, not all of them linearly.

    From `fault_at` on the flow sensor drifts by 0.05 a minute, up to 2. Each reading by itself stays in its
    usual range for long; that flow and the others no longer belong together is what a monitor can see.
    """
    rng = np.random.default_rng(seed)
    minute = np.arange(MINUTES)
    load = np.sin(2 * np.pi * minute / 150 + seed) + 0.3 * _slow(rng)  # (n,)
    ambient = _slow(rng)
    columns = [
        10 + 1.5 * load,
        60 + 4 * load + ambient,
        2 + 0.2 * load**2,
        1.2 - 0.1 * load + 0.02 * ambient,
        30 + 3 * load + 0.6 * load**2 - 0.5 * ambient,
    ]
    spreads = np.array([0.15, 0.3, 0.02, 0.01, 0.3])
    readings = np.column_stack(columns) + spreads * rng.standard_normal((MINUTES, len(SENSORS)))
    if fault_at is not None:
        readings[:, 0] += np.clip(0.05 * (minute - fault_at), 0.0, 2.0)
    return readings


def _slow(rng: np.random.Generator) -> Array:
    """An autoregression of standard deviation 1 whose memory is about twenty minutes."""
    keep, value, values = 0.95, rng.standard_normal(), []
    for shock in rng.standard_normal(MINUTES):
        value = keep * value + np.sqrt(1 - keep**2) * shock
        values.append(value)
    return np.array(values)


# ── files ───────────────────────────────────────────────────────────────────
def write_circles(path: str) -> int:
    """Write id, x, y and label to a CSV file, or to stdout for -; the number of rows."""
    points, which = circles()
    names = np.array(["outer", "inner"])[which]
    # Ids are words: whoever forgets --id is told of a column of words, and fits no row numbers.
    rows = [
        (f"p{i:03d}", *map(repr, map(float, point)), name)
        for i, (point, name) in enumerate(zip(points, names, strict=True))
    ]
    _write(path, ("id", "x", "y", "label"), rows)
    return len(rows)


def write_process(normal: str, faulty: str) -> int:
    """Write the process in order, and out of order from minute FAULT_AT on; the rows of each file."""
    for path, seed, fault_at in ((normal, 0, None), (faulty, 2, FAULT_AT)):
        readings = process(seed=seed, fault_at=fault_at)
        rows = [
            (str(BEGUN + minute), *(f"{value:.4f}" for value in reading))
            for minute, reading in enumerate(readings)
        ]
        _write(path, ("time", *SENSORS), rows)
    return MINUTES


def _write(path: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    # No cell has a comma, a quote or a line break in it.
    text = "".join(f"{','.join(cells)}\n" for cells in (header, *rows))
    if path == "-":
        click.echo(text, nl=False)
        return
    with replacing(check_output(path, (), option="the file")) as file:
        file.write(text.encode())
