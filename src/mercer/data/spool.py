"""What comes through a pipe is kept in a temporary file: rows are read more than once."""

from __future__ import annotations

import shutil
import sys
import tempfile
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from mercer._core.errors import DataError, MercerError

ADVICE = "Make room there, or set TMPDIR to a folder on a larger disk."


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


def spooled(form: str, pipe: Path | None = None) -> Spool:
    """All that comes through a pipe, or through the standard input, in a file."""
    if pipe is None and sys.stdin is None:  # started without one
        msg = "The path is -, the standard input, but that is closed."
        raise DataError.saying(msg, "Pipe a file into it, or name one.")
    # A pipe that can't be opened is not a matter of room.
    with nullcontext(sys.stdin.buffer) if pipe is None else pipe.open("rb") as stream:
        try:
            return Spool(stream, f".{form}")
        except OSError as error:
            raise no_room(error, "What was read from the pipe") from error


def no_room(error: OSError, what: str) -> TemporaryRoomError:
    """An error that says which temporary folder is full, and what to do."""
    where = tempfile.gettempdir()
    return TemporaryRoomError(
        f"{what} could not be kept in the temporary folder {where!r}: {error.strerror or error}. {ADVICE}"
    )
