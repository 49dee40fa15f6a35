"""What holds for every file of rows: it stays as it was, keeps its promise, is refused in one sentence."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, InputError, MercerError
from mercer._core.memory import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

RATIO, HARMLESS_BYTES = 1000, 2**30  # a file that promises a thousand times its bytes is a trap


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
        said = first[:200] or type(error).__name__
        msg = f"{source} can't be read: {said}. {remedy}"
        raise DataError(msg) from error


def require_promise(promised: float, there: int, *, source: str) -> None:
    """Raise where rows of so many bytes are promised by a file that has far fewer."""
    if promised > HARMLESS_BYTES and promised > RATIO * there:
        msg = (
            f"{source} has {format_bytes(there)} and promises rows of {format_bytes(promised)}: it is not "
            "read. Store the rows that there are."
        )
        raise DataError(msg)


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
            f"{name} changed while it was in use: {file!r} was {_told(self.files.get(file))} when it was "
            f"opened, and is {_told(now.get(file))} now. What was read before does not belong to what "
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


def _told(stat: tuple[int, int] | None) -> str:
    if stat is None:
        return "not there"
    return f"{stat[0]} bytes, written at {np.datetime64(stat[1], 'ns')} UTC"
