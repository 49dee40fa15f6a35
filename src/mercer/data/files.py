"""What holds for every file of rows: it stays as it was, keeps its promise, is refused in one sentence."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mercer._core.errors import DataError, InputError, MercerError, refuse_data
from mercer._core.memory import format_bytes

NO_INPUT = "The path is -, the standard input, which is closed. Pipe a file to it, or name one."
# A file whose rows take so many times its own bytes is a trap. Small ones are let through, because zeros
# shrink a thousandfold and a file of them does no harm.
RATIO, HARMLESS_BYTES = 1000, 2**30
# The same of rows that are unpacked to be held at once, in an archive of NumPy or by the page of
# `mercer explore`: numbers that are measured hardly shrink.
HELD_RATIO, HELD_BYTES = 250, 2**28


@contextmanager
def explained(
    source: str,
    kinds: type[Exception] | tuple[type[Exception], ...],
    *,
    remedy: str,
    stamp: Stamp | None = None,
) -> Iterator[None]:
    """What a library raises over a file, as one sentence; where the file has changed, that is the cause."""
    try:
        yield
    except MercerError:  # a sentence already
        raise
    except kinds as error:
        if stamp is not None:
            stamp.check(source)
        first = (str(error).strip().splitlines() or [""])[0].strip("'\". ")
        msg = f"{source} can't be read: {first[:200] or type(error).__name__}. {remedy}"
        raise DataError(msg) from error


def most_held(there: float) -> float:
    """The most bytes that the rows of a file of so many bytes may take, where all of them are held."""
    return max(HELD_BYTES, HELD_RATIO * there)


def require_holdable(promised: float, there: float, *, source: str) -> None:
    """Raise where a page that holds its rows would need far more bytes than the file has."""
    if promised > most_held(there):
        remedy = "Store fewer rows or columns, or use the command line: mercer fit."
        _refuse_promise(promised, there, source, remedy)


def require_promise(promised: float, there: float, *, source: str, remedy: str) -> None:
    """Raise where rows of so many bytes are promised by a file that has far fewer."""
    if promised > max(HARMLESS_BYTES, RATIO * there):
        _refuse_promise(promised, there, source, remedy)


def _refuse_promise(promised: float, there: float, source: str, remedy: str) -> NoReturn:
    what = f"has {format_bytes(there)} and promises rows of {format_bytes(promised)}"
    refuse_data(f"{source} {what}: it is not read.", remedy)


@dataclass(frozen=True)
class Stamp:
    """Size and time of the last change of files, as they were when a source was opened."""

    paths: tuple[str, ...]
    files: dict[str, tuple[int, int]]  # bytes, nanoseconds

    @classmethod
    def of(cls, *paths: Path) -> Stamp:
        """The stamp of files, and of all files in folders."""
        return cls(tuple(map(str, paths)), dict(_stats(paths)))

    def check(self, name: str) -> None:
        """Raise when a file is gone, new, longer, shorter or written again."""
        now = dict(_stats(map(Path, self.paths)))
        if now == self.files:
            return
        file = min(f for f in now.keys() | self.files.keys() if now.get(f) != self.files.get(f))
        msg = (
            f"{name} changed while it was in use: {file!r} was {_shown(self.files.get(file))} when it was "
            f"opened, and is {_shown(now.get(file))} now. What was read before does not belong to what "
            "would be read next. Fit again, on a file that is not being written to (after flush(), if it was "
            "written through a memmap)."
        )
        raise InputError(msg)


def _stats(paths: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    for path in paths:
        below = (Path(folder, f) for folder, _, files in os.walk(path) for f in files)
        for file in below if path.is_dir() else [path]:
            try:
                stat = file.stat()
            except FileNotFoundError:
                continue
            yield str(file), (stat.st_size, stat.st_mtime_ns)


def _shown(stat: tuple[int, int] | None) -> str:
    if stat is None:
        return "not there"
    return f"{stat[0]} bytes, written at {np.datetime64(stat[1], 'ns')} UTC"


# ── what comes through a pipe is kept in a file: rows are read more than once ───
class TemporaryRoomError(MercerError, OSError):
    """The disk for temporary files is full, or can't be written.

    Make room there, or set TMPDIR to a folder on a larger disk.
    """


class Spool:
    """A temporary file that lives as long as this object."""

    def __init__(self, stream: Any, suffix: str) -> None:
        file = tempfile.NamedTemporaryFile(prefix="mercer-", suffix=suffix)  # noqa: SIM115
        # Closed, and with it gone, when this object is, also when the process ends: a file that is left to
        # the garbage collector to close is warned of from Python 3.14 on.
        weakref.finalize(self, file.close)
        self.path = Path(file.name)
        shutil.copyfileobj(stream, file, 2**20)
        file.flush()


def spooled(form: str, pipe: Path | None) -> Spool:
    """All that comes through a pipe, or through the standard input, in a file."""
    if pipe is None and sys.stdin is None:  # started without one
        refuse_data(NO_INPUT)
    # A pipe that can't be opened is not a matter of room.
    with nullcontext(sys.stdin.buffer) if pipe is None else pipe.open("rb") as stream:
        try:
            return Spool(stream, f".{form}")
        except OSError as error:
            raise no_room(error, "What was read from the pipe") from error


def no_room(error: OSError, what: str) -> TemporaryRoomError:
    """An error that says which temporary folder is full, and what to do."""
    where, why = tempfile.gettempdir(), error.strerror or error
    return TemporaryRoomError.saying(
        f"{what} could not be kept in the temporary folder {where!r}: {why}.",
        "Make room there, or set TMPDIR to a folder on a larger disk.",
    )
