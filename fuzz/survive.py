"""Inputs in a process of their own: one that is killed by an input is a finding, and the next takes over."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.trial import SECONDS, Outcome, cap_memory, spoilt, verdict

if TYPE_CHECKING:
    from fuzz.doors import Door

PATIENCE = 60 + 3 * SECONDS  # a child that is silent for so long hangs where no alarm reaches


def survived(door: Door, numbers: range, seed: int, context: Any) -> Outcome:
    """These inputs of a door, whatever they do to the processes that read them."""
    outcome, start = Outcome(), numbers.start
    while start < numbers.stop:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(
            target=_child, args=(theirs, door, range(start, numbers.stop), seed)
        )
        child.start()
        theirs.close()
        start, ended = _heard(ours, outcome, start, door, seed)
        if not ended:
            child.kill()
        child.join()
        if start < numbers.stop:  # it died over this input
            how = _told(child.exitcode) if ended else "hangs beyond any alarm"
            outcome.add(f"FOUND {how}", how, spoilt(door, seed, start))
            start += 1
    return outcome


def _heard(ours: Any, outcome: Outcome, start: int, door: Door, seed: int) -> tuple[int, bool]:
    """How far a child has come, and whether it ended by itself."""
    while ours.poll(PATIENCE):
        try:
            what, found = ours.recv()
        except EOFError:
            return start, True
        outcome.add(what, found, spoilt(door, seed, start) if found else b"")
        start += 1
    return start, False


def _told(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"killed by {signal.Signals(-exitcode).name}"
    return f"process ended with {exitcode}"


def _child(theirs: Any, door: Door, numbers: range, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # An honest input pays for what is imported, before time and memory are counted.
        path = Path(folder) / f"input{door.suffix}"
        path.write_bytes(door.seeds()[0])
        door.enter(path)
        cap_memory()
        for number in numbers:
            what, found, _ = verdict(door, spoilt(door, seed, number), Path(folder))
            theirs.send((what, found))
