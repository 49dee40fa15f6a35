"""Was the machine quiet? What other processes did while we measured, as Linux counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")


def _busy_seconds() -> float:
    """Processor seconds spent so far by everyone, time stolen by the host included."""
    fields = [int(ticks) for ticks in _STAT.read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Contention:
    """Cores that others used on average since `start`; None where the system does not tell."""

    def start(self) -> None:
        self.busy = _busy_seconds() if _STAT.exists() else None
        self.own = time.process_time()
        self.clock = time.perf_counter()

    def stop(self) -> float | None:
        if self.busy is None:
            return None
        wall = time.perf_counter() - self.clock
        others = _busy_seconds() - self.busy - (time.process_time() - self.own)
        # The counters tick in hundredths of a second: a short fit is no evidence either way.
        return max(0.0, others / wall) if wall > 0.2 else None
