"""Peak memory of this process, as the operating system counts it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def give_back_freed_memory() -> None:
    """Hand freed heap pages back, so that a baseline does not hide what a fit will reuse."""
    gc.collect()
    # Where there is no glibc, the baseline is a little high.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    msg = f"{_STATUS} has no line {field}."
    raise OSError(msg)


class PeakMemory:
    """High-water mark of the resident set since `start`, above what was resident then.

    On Linux the mark is set back by writing 5 to ``/proc/self/clear_refs``. Elsewhere ``ru_maxrss``
    stands in: it is never set back, so it misses a peak that stays below an earlier one.
    """

    def __init__(self) -> None:
        self.method = "VmHWM"
        self.baseline = 0

    def start(self) -> None:
        give_back_freed_memory()
        try:
            _CLEAR.write_text("5")
            self.baseline = _status_bytes("VmRSS")
        except OSError:
            self.method = "ru_maxrss"
            self.baseline = _max_rss()

    def stop(self) -> int:
        peak = _status_bytes("VmHWM") if self.method == "VmHWM" else _max_rss()
        return max(0, peak - self.baseline)


def _max_rss() -> int:
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
