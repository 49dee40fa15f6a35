"""Bytes: how many are free, and how to read and write them."""

from __future__ import annotations

import math
import os
import re
from numbers import Real
from pathlib import Path

from mercer._core.errors import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d*)?)\s*([KMGT]I?)?B?\s*$", re.IGNORECASE)

# What a fit may take of the memory that is free when it starts: the rest is the caller's.
AUTO_SHARE = 0.6


def parse_bytes(memory: str | float, *, free: int | None = None) -> int:
    """Read a byte size such as ``"4GB"``, ``"512 MiB"`` or a plain number.

    ``"auto"`` is a share of the bytes that are `free`, by default of those of this machine.

    Examples
    --------
    >>> parse_bytes("1.5GB"), parse_bytes("2 MiB")
    (1500000000, 2097152)
    """
    if isinstance(memory, str):
        if memory.strip().lower() == "auto":
            return int(AUTO_SHARE * (available_bytes() if free is None else free))
        match = _SIZE.match(memory)
        if match is None:
            msg = f"memory={memory!r} is not a size. Write 'auto', a number of bytes, or '4GB'."
            raise InputError(msg)
        number, unit = match.groups()
        factor = (_UNITS | _BINARY)[(unit or "").upper()]
        size = int(float(number) * factor)
    elif isinstance(memory, Real) and not isinstance(memory, bool):
        size = int(memory) if math.isfinite(memory) else 0
    else:
        msg = f"memory must be 'auto', a number of bytes or '4GB', but a {type(memory).__name__} came."
        raise InputError(msg)
    if size <= 0:
        msg = f"memory={memory!r} leaves nothing to work with. Give a positive size such as '4GB'."
        raise InputError(msg)
    return size


def format_bytes(size: float) -> str:
    """Write a byte size for people.

    Examples
    --------
    >>> format_bytes(200e6)
    '200 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def format_seconds(seconds: float) -> str:
    """Write a duration for people.

    Examples
    --------
    >>> format_seconds(0.25), format_seconds(110), format_seconds(400), format_seconds(8000)
    ('0.25 s', '110 s', '6.7 min', '2.2 h')
    """
    for size, unit in ((120, "s"), (7200, "min"), (float("inf"), "h")):
        if seconds < size:
            number = seconds / {"s": 1, "min": 60, "h": 3600}[unit]
            break
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:.0f} {unit}"


def available_bytes() -> int:
    """Memory that can be taken now: the system's, or the container's where that is less."""
    return min(_system_available(), _container_available())


def _system_available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # half of the physical memory where the system does not tell what is free
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 * 10**9


def _container_available() -> int:
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            return max(int(Path(limit).read_text()) - int(Path(used).read_text()), 0)
        except (OSError, ValueError):  # no such file, or "max": no limit is set here
            continue
    return 2**63
