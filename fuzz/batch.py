"""Some inputs of one door in a process of their own, whose memory is capped."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fuzz.doors import DOORS
from fuzz.trial import Outcome, cap_memory, tried


def batch(name: str, count: int, seed: int) -> Outcome:
    door = next(door for door in DOORS if door.name == name)
    door.seeds()  # before memory is short
    cap_memory()
    with tempfile.TemporaryDirectory() as folder:
        return tried(door, count, seed, Path(folder))
