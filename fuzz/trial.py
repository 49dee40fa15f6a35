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

SECONDS = 10  # longer is a hang
ROOM = 1_500_000_000  # bytes that an input may make us ask for, beyond what the process has


@dataclass
class Outcome:
    """What became of the inputs of one door."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[bytes, str]] = field(default_factory=list)


class HangError(BaseException):
    """An input took too long. No `except Exception` of the code under test may swallow it."""


def cap_memory() -> None:
    """From here on no more than `ROOM` can be allocated on top of what the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def tried(door: Door, count: int, seed: int, folder: Path) -> Outcome:
    """`count` spoilt inputs, the same for the same seed."""
    rng, seeds, outcome = random.Random(f"{door.name} {seed}"), door.seeds(), Outcome()
    path = folder / f"input{door.suffix}"
    signal.signal(signal.SIGALRM, _too_long)
    for _ in range(count):
        data = door.spoil(rng.choice(seeds), seeds, rng)
        path.write_bytes(data)
        verdict, finding = _verdict(door, path)
        outcome.counts[verdict] += 1
        if finding:
            outcome.findings.append((data, finding))
    return outcome


def _verdict(door: Door, path: Path) -> tuple[str, str | None]:
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door.enter(path)
    except MercerError as error:
        message = str(error)
        poor = len(message) < 20 or len(message) > 2000
        return f"refused, {type(error).__name__}", f"poor message: {message!r}" if poor else None
    except KeyboardInterrupt:  # whoever runs this has seen enough
        raise
    except BaseException as error:
        return f"FOUND {type(error).__name__}", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "let in", None


def _too_long(_signal: int, _frame: Any) -> None:
    msg = f"more than {SECONDS} s"
    raise HangError(msg)
