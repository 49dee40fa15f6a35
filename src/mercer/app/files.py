"""Where a use case writes: looked at before the work begins, and never one of the files that it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mercer._core.atomic import part_of, replacing, sweep
from mercer._core.memory import format_bytes
from mercer._core.wording import Message
from mercer.app.outcome import refuse

__all__ = ["check_output", "component_names", "replacing", "told_file"]


def check_output(output: str, inputs: Iterable[str], *, option: str = "output") -> Path:
    """The path, if a file can be written there: an hour of work must not end in a file that can't be."""
    path, named = Path(output), f"{{{option}:{{path}}}}"  # as a message names it
    if not output:
        refuse(f"{{{option}}} needs a file name; got an empty one.")
    for given in inputs:
        if given != "-" and _is_same(path, Path(given)):
            refuse(f"{named} is the file that is read. Name another.", path=output)
    if path.is_dir():
        refuse(f"{named} is a folder. Name a file in it.", path=output)
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        refuse(
            f"{named} is not a plain file. Name one that is, or that does not exist yet.",
            path=output,
        )
    part = part_of(Path(os.path.realpath(path)))  # beside the file that a link leads to
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError as error:
        why = (
            "its folder does not exist; create it first"
            if not path.parent.is_dir()
            else error.strerror
        )
        told = Message(f"{named} can't be written: {{why}}.", path=output, why=why)
        raise OSError(told) from error
    finally:  # also when the program is ended just here
        with suppress(OSError):
            part.unlink()
    sweep(path)
    return path


def told_file(path: Path, *, replaced: bool) -> str:
    """What is said about a file that was written, in one line whatever it is called."""
    what = "replaced" if replaced else "wrote"
    name = str(path) if str(path).isprintable() else repr(str(path))
    return f"{what} {name}, {format_bytes(path.stat().st_size)}"


def _is_same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False


def component_names(k: int) -> list[str]:
    """The columns of scores in a file, for people: numbered from 1, as in pictures and reports.

    Examples
    --------
    >>> component_names(2)
    ['component_1', 'component_2']
    """
    return [f"component_{i + 1}" for i in range(k)]
