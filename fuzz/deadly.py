"""A door that one input kills: by it the fuzzer itself is tested."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from fuzz.doors import Door

if TYPE_CHECKING:
    from pathlib import Path


def enter(path: Path) -> None:
    """Die over ``b"bad"``, as over a segmentation fault."""
    if path.read_bytes() == b"bad":
        os.kill(os.getpid(), signal.SIGKILL)


def seeds() -> list[bytes]:
    """Harmless."""
    return [b"good"]


def named() -> dict[str, bytes]:
    """Deadly."""
    return {"bad": b"bad"}


def unspoilt(data: bytes, _others: list[bytes], _rng: object) -> bytes:
    """As it is."""
    return data


DEADLY = Door("deadly", ".txt", seeds, enter, unspoilt, named)
