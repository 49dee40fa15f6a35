"""How long work takes: once, and that of several sides in turns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turns(
    jobs: dict[str, Callable[[], object]],
    more: Callable[[int, float], bool],
    *,
    pause: float = 0.0,
) -> dict[str, list[float]]:
    """Seconds of each side, run by run, while ``more(turns, seconds spent)``; none is always the first."""
    times: dict[str, list[float]] = {who: [] for who in jobs}
    began, order, turns = time.perf_counter(), list(jobs), 0
    while more(turns, time.perf_counter() - began):
        for who in order:
            if pause:
                time.sleep(pause)
            times[who].append(seconds_of(jobs[who]))
        order, turns = order[1:] + order[:1], turns + 1
    return times
