"""Lines as they are written: of a pipe, or of a file that grows, is cut back or is replaced by a new one."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mercer._core.errors import DataError, refuse_data
from mercer.data.files import NO_INPUT

PIECE = 2**16  # bytes read at a time: what waits to be judged stays small
PAUSE = 0.2  # seconds between looks at a file that does not grow, or a pipe that is silent
KNOWN = 64  # bytes by which a place in a file is known again
LONGEST = 2**20  # bytes of a line; a longer one is handed over in parts, which are not rows


class Lines:
    """Complete lines of a file or, of the path ``-``, of the standard input, as soon as they are there.

    With `follow` a file is waited for when it has no more lines, and looked for anew when it is replaced.
    `at` is the `place` where an earlier reader has stopped.
    """

    def __init__(
        self, path: str, *, follow: bool = False, at: dict[str, Any] | None = None
    ) -> None:
        self.path, self.follow, self.ended = path, follow, False
        self._rest, self._offset, self._fresh = b"", 0, True
        self._queue: list[Path] = []  # rotated files to read to their ends first
        self._fd: int | None = None
        if path == "-":
            if sys.stdin is None:
                refuse_data(NO_INPUT)
            with suppress(OSError, ValueError):  # it may be a stream of Python's without a number
                self._fd = sys.stdin.fileno()
            if at is not None:
                self._rest = at["rest"].encode("latin-1")
                self._fresh = not self._rest  # another pipe, unless the last one was cut in a line
        elif at is not None:
            self._reopen(at)
        elif Path(path).exists() or not follow:  # otherwise it may be written later
            self._open(Path(path), 0)

    @property
    def place(self) -> dict[str, Any]:
        """Where the lines that were handed over end: JSON can hold it."""
        if self.path == "-":
            return {"rest": self._rest.decode("latin-1")}
        inode = None if self._fd is None else os.fstat(self._fd).st_ino
        offset = self._offset - len(self._rest)
        return {"inode": inode, "offset": offset, "before": _before(self._fd, offset)}

    def read(self) -> tuple[list[str], bool]:
        """The lines that are there now, and whether they are the first of a file; waits a little for some."""
        fresh, piece = self._fresh, self._piece()
        if not piece and not self.ended:
            return [], False
        *whole, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LONGEST or (self.ended and self._rest):
            whole, self._rest = [*whole, self._rest], b""
        if whole:  # the first line of a file may be written in pieces
            self._fresh = False
        return [line.decode("utf-8-sig", "replace").rstrip("\r") for line in whole], fresh

    def close(self) -> None:
        if self._fd is not None and self.path != "-":
            os.close(self._fd)
        self._fd = None

    # ── how ─────────────────────────────────────────────────────────────────
    def _piece(self) -> bytes:
        if self.path == "-":
            return self._of_pipe()
        piece = b"" if self._fd is None else os.read(self._fd, PIECE)
        self._offset += len(piece)
        if piece:
            return piece
        later = self._next()
        if later is None:
            self.ended = not (self.follow or self._queue)
            if self.follow:
                time.sleep(PAUSE)
        elif self._rest:
            return b"\n"  # no more of the last line will come
        else:
            self._queue = self._queue[1:]
            self._open(later, 0)
        return b""

    def _of_pipe(self) -> bytes:
        fd = self._fd  # None where a program put another stream in its place
        if fd is not None and os.name == "posix" and not select.select([fd], [], [], PAUSE)[0]:
            return b""
        piece = sys.stdin.buffer.read(PIECE) if fd is None else os.read(fd, PIECE)
        self.ended = not piece
        return piece

    def _next(self) -> Path | None:
        """The file to go on with at the end of this one; this one itself where it was cut back."""
        if not self._queue and not self.follow:
            return None
        path = self._queue[0] if self._queue else Path(self.path)
        try:
            there = path.stat()
        except OSError:  # between two files, of which the next may be written later
            if not self.follow and path == Path(self.path):
                self._queue = []
            return path if self._queue and not self.follow else None
        if self._fd is None:
            return path
        here = os.fstat(self._fd)  # after the other: what was written before that one is seen
        if (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev):
            return path if here.st_size < self._offset else None
        # A writer that has not noticed a rotation yet may end its last line.
        waits = self.follow and self._rest and not there.st_size
        return None if here.st_size > self._offset or waits else path

    def _open(self, path: Path, offset: int) -> None:
        self.close()
        if path.is_dir():
            refuse_data(f"{str(path)!r} is a folder.", "Name a file of lines.")
        if path.exists() and not path.is_file():
            refuse_data(
                f"{str(path)!r} is a pipe or a device, which has no place to go on from.",
                "Give it as the standard input: mercer monitor MODEL - < PIPE.",
            )
        try:
            self._fd = os.open(path, os.O_RDONLY)
        except OSError as error:
            msg = f"{str(path)!r} can't be read: {error.strerror}."
            raise DataError.saying(msg, "Name a file that is there.") from error
        self._offset = os.lseek(self._fd, offset, os.SEEK_SET)
        self._rest, self._fresh = b"", not offset

    def _reopen(self, at: dict[str, Any]) -> None:
        """Where an earlier reader stopped: in this file, or in the one that was put aside since."""
        path, offset = Path(self.path), int(at["offset"])
        files = [path, *rotated(path)]  # the newest first
        for i, old in enumerate(files):
            with suppress(OSError):
                if old.stat().st_ino != at["inode"]:
                    continue
                self._open(old, offset)
                if _before(self._fd, offset) == at["before"]:
                    self._queue = [p for p in reversed(files[:i]) if p == path or are_alike(p, old)]
                    return
        self.close()
        self._offset, self._fresh = 0, True
        if path.exists() or not self.follow:  # otherwise it may be written later
            self._open(path, 0)


def _before(fd: int | None, offset: int) -> str:
    """The bytes before a place: a new file may have the number of one that was deleted, and be as long."""
    if fd is None:
        return ""
    here = os.lseek(fd, 0, os.SEEK_CUR)
    begin = os.lseek(fd, max(offset - KNOWN, 0), os.SEEK_SET)
    found = os.read(fd, offset - begin)
    os.lseek(fd, here, os.SEEK_SET)
    return found.decode("latin-1")


def rotated(path: Path) -> list[Path]:
    """Files that a log rotation may have made of this one, the newest first: a.csv.1, a.csv-20260105, …"""

    def changed(other: Path) -> float:
        with suppress(OSError):
            return other.stat().st_mtime
        return 0.0

    found = (other for other in path.parent.glob(f"{path.name}[.-]*") if other.suffix != ".part")
    return sorted(found, key=changed, reverse=True)


def are_alike(one: Path, other: Path) -> bool:
    """Whether two names differ in their digits alone: what else lies beside a file is no part of it."""
    return re.sub(r"\d+", "0", one.name) == re.sub(r"\d+", "0", other.name)
