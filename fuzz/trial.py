"""One input at a time through a door: refused with a sentence, or let in; all else is a finding."""

from __future__ import annotations

import random
import resource
import signal
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.errors import MercerError

if TYPE_CHECKING:
    from fuzz.doors import Door

SECONDS = 10  # of the processor, however busy the machine is; longer is a hang
ROOM = 1_500_000_000  # bytes that an input may make us ask for, beyond what the process has


@dataclass
class Outcome:
    """What became of the inputs of one door."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[bytes, str]] = field(default_factory=list)

    def add(self, verdict: str, finding: str | None, data: bytes) -> None:
        """One more input."""
        self.counts[verdict] += 1
        if finding:
            self.findings.append((data, finding))


class HangError(BaseException):
    """An input took too long. No `except Exception` of the code under test may swallow it."""


class EscapeError(BaseException):
    """An input made us read another file, or run another program. Nothing may swallow it either."""


def cap_memory() -> None:
    """From here on no more than `ROOM` can be allocated on top of what the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def spoilt(door: Door, seed: int, number: int) -> bytes:
    """Input `number` of a door, the same for the same seed, whichever were made before it.

    The first ones are its named cases.
    """
    named = list(door.named().values())
    if number < len(named):
        return named[number]
    rng, seeds = random.Random(f"{door.name} {seed} {number}"), door.seeds()
    return door.spoil(rng.choice(seeds), seeds, rng)


def tried(door: Door, count: int, seed: int, folder: Path) -> Outcome:
    """`count` spoilt inputs, in this process."""
    outcome = Outcome()
    for number in range(count):
        outcome.add(*verdict(door, spoilt(door, seed, number), folder))
    return outcome


def verdict(door: Door, data: bytes, folder: Path) -> tuple[str, str | None, bytes]:
    """What became of an input, what was found if anything, and the input."""
    path = folder / f"input{door.suffix}"
    path.write_bytes(data)
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door.enter(path)
    except MercerError as error:
        message = str(error)
        poor = len(message) < 20 or len(message) > 2000
        found = f"poor message: {message!r}" if poor else None
        return f"refused, {type(error).__name__}", found, data
    except KeyboardInterrupt:  # whoever runs this has seen enough
        raise
    except BaseException as error:
        return f"FOUND {type(error).__name__}", f"{type(error).__name__}: {error}", data
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    name = next((name for name, case in door.named().items() if case == data), None)
    if name is not None:
        return "FOUND let in", f"let in, where a refusal was due: {name}", data
    return "let in", None, data


def _too_long(_signal: int, _frame: Any) -> None:
    msg = f"more than {SECONDS} s"
    raise HangError(msg)
