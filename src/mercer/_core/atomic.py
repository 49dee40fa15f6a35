"""A file that appears whole or not at all: written beside its place, then moved there in one step."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

ABANDONED_SECONDS = 60.0


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A binary file in the folder of `path` that becomes `path` when all went well, and vanishes when not.

    A kill, a full disk or an exception leaves the file that was there before as it was. What was written
    is on the disk before it gets its name. A file that is replaced leaves its permissions to the new one.
    """
    if path.exists() and not path.is_file():  # the root user may replace even /dev/null
        why = "it is a folder, a device or a pipe; a plain file is needed"
        raise OSError(errno.EEXIST, why, str(path))
    part = part_of(path)
    try:
        with part.open("x+b") as file:
            lock(file)
            with suppress(OSError):  # no old file, or a disk that knows no permissions
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:  # Ctrl-C too
        if isinstance(error, OSError) and error.filename == str(part):
            error.filename, error.filename2 = str(path), None  # which is what was asked for
        with suppress(OSError):
            part.unlink()
        raise
    with suppress(OSError):  # not every system can; old or new, the file is whole without it
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """`written_whole` of the file that `path` leads to; errors of the system are one sentence."""
    behind = Path(os.path.realpath(path))  # a link stays one
    try:
        with written_whole(behind) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:
            raise  # an error of mercer's, which is a sentence already
        if error.filename is not None and not str(error.filename).startswith(str(behind)):
            raise  # about a file that the caller was reading
        why = error.strerror or error
        msg = f"{str(path)!r} could not be written: {why}. The old file is unchanged."
        raise OSError(error.errno, msg) from error


def part_of(path: Path) -> Path:
    """A new name beside `path`."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")


def sweep(path: Path) -> None:
    """Remove what writers of `path` that were killed left beside it."""
    for part in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        with suppress(OSError):
            # A living writer is without its lock for a moment after it made the file, and for one before
            # the file gets its name: an untouched minute is neither.
            if time.time() - part.stat().st_mtime < ABANDONED_SECONDS:
                continue
            with part.open("rb") as file:
                is_abandoned = lock(file)
            if is_abandoned:
                part.unlink()


def lock(file: BinaryIO) -> bool:
    """Whether this process now holds the lock of the file, which the system drops when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows, where a file that is being written can't be deleted
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
