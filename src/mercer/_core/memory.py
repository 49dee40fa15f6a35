"""Bytes: how many are free, and how to read and write them."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias

from mercer._core.errors import ParameterError, close_to, quoted_value
from mercer._core.params import is_finite

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d*)?)\s*([KMGT]I?)?B?\s*$", re.IGNORECASE)

# Where a container says what it may take, and what it has taken.
CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
# What a fit may take of the memory that is free when it starts: the rest is the caller's.
AUTO_SHARE = 0.6
LOOK_SECONDS = 0.05

# A size, "auto", or such by the name of a place: {"cuda": "20GB", "host": "4GB"}, "cuda=20GB,host=4GB".
Memory: TypeAlias = str | float | Mapping[str, str | float]
HOST = "host"
ELSEWHERE = ("cuda", "mps", "dask")  # places of mercer's own engines
_PLACE = re.compile(rf"{HOST}|mps|dask|cuda(:\d{{1,3}})?")
PLACES = "'host', 'cuda' (or 'cuda:1' and so on), 'mps' and 'dask', the workers of a cluster"
SIZES = (
    "'auto', a positive number of bytes, a positive size such as '4GB', or sizes by place such as "
    "'cuda=20GB,host=4GB'"
)


_wrong = partial(ParameterError.about, "memory")


def parse_bytes(memory: Memory, *, free: int | None = None, place: str = HOST) -> int:
    """Read a byte size such as ``"4GB"``, ``"512 MiB"`` or a plain number, or that of a place among several.

    ``"auto"`` is a share of the bytes that are `free`, by default of those of this machine. For several
    devices, ``"cuda:0,cuda:1"``, it is the least of theirs.

    >>> parse_bytes("1.5GB"), parse_bytes("2 MiB"), parse_bytes("cuda=20GB,host=4GB", place="cuda:0")
    (1500000000, 2097152, 20000000000)
    """
    return min(_bytes(said_of(memory, each), free) for each in place.split(","))


def said_of(memory: Memory, place: str, *, beside: str = HOST) -> str | float:
    """The size for a place: a size alone is that of each, and ``"auto"`` that of places not named.

    `memory` may name the place itself, one ``beside`` it, and those of mercer's own engines.
    """
    parts: Any = _listed(memory) if isinstance(memory, str) and "=" in memory else memory
    if not isinstance(parts, Mapping):
        return parts
    if not parts:
        raise _wrong(memory, must_be=SIZES)
    for name, size in parts.items():
        own = (place, beside, place.partition(":")[0], beside.partition(":")[0])
        if not isinstance(name, str) or not (name in own or _PLACE.fullmatch(name)):
            known = close_to(str(name), (HOST, *ELSEWHERE))
            must_be, got = f"sizes by place, which are {PLACES}", f"the place {name!r}"
            raise _wrong(memory, must_be=must_be, got=got, remedy=known)
        _bytes(size, 1, f" for {name!r}")
    return parts.get(place, parts.get(place.partition(":")[0], "auto"))


def _listed(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    found = {name.strip().lower(): size.strip() for name, _, size in pairs}
    if len(found) < len(pairs):
        raise _wrong(text, must_be="one size for each place")
    return found


def _bytes(memory: Any, free: int | None, where: str = "") -> int:
    if isinstance(memory, str) and memory.strip().lower() == "auto":
        return int(AUTO_SHARE * (lately_available_bytes() if free is None else free))
    size = 0
    if isinstance(memory, str):
        match = _SIZE.match(memory)
        if match is not None:
            number, unit = match.groups()
            size = int(float(number) * _UNITS[(unit or "").upper()])
    elif is_finite(memory):
        size = int(memory)
    if size <= 0:
        got = f"{quoted_value(memory)}{where}"
        raise _wrong(memory, must_be=SIZES, got=got)
    return size


def format_bytes(size: float) -> str:
    """Write a byte size for people.

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

    >>> format_seconds(0.25), format_seconds(110), format_seconds(400), format_seconds(8000)
    ('0.25 s', '110 s', '6.7 min', '2.2 h')
    """
    number, unit = seconds, "s"
    if seconds >= 120:
        number, unit = (seconds / 60, "min") if seconds < 7200 else (seconds / 3600, "h")
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:.0f} {unit}"


def lately_available_bytes() -> int:
    """Free bytes, read at most twenty times a second: to look takes a twentieth of a small fit.

    In that time only a small part of memory can be taken, at a few gigabytes a second.
    """
    return _looked(int(time.monotonic() / LOOK_SECONDS))


@lru_cache(maxsize=1)
def _looked(moment: int) -> int:
    del moment
    return available_bytes()


def hand_back() -> None:
    """Return freed memory to the system: the C library keeps what living threads have freed."""
    with suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def available_bytes() -> int:
    """Memory that can be taken now: the system's, or the container's where that is less."""
    try:
        found = re.search(rb"MemAvailable:\s*(\d+)", _start_of("/proc/meminfo"))
        free = int(found[1]) * 1024 if found else _physical_bytes() // 2
    except OSError:  # a system that does not say what is free
        free = _physical_bytes() // 2
    for limit, used in _there(CGROUPS):
        with suppress(OSError, ValueError):  # no such file, or "max": no limit is set here
            allowed = int(_start_of(limit)) - int(_start_of(used))
            return min(free, max(allowed, 0))
    return free


@cache  # a container is of one kind for the life of its processes
def _there(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in pairs if os.path.exists(pair[0]))


def _start_of(path: str) -> bytes:
    """The start of a file of the system's: for every fit, and without buffers, which take longer."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 * 10**9
