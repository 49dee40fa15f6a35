"""Where a verb writes: looked at before the work begins, and never one of the files that it reads."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mercer._core.atomic import part_of, sweep, written_whole
from mercer._core.memory import format_bytes
from mercer.cli.ending import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercer.cli.verb import Call


def check_output(output: str, inputs: Iterable[str], *, option: str = "-o") -> Path:
    """The path, if a file can be written there; an hour of work must not end at a closed door."""
    path = Path(output)
    for given in inputs:
        if given != "-" and _is_same(path, Path(given)):
            refuse(f"{option} {output} is the file that is read. Name another.")
    if path.is_dir():
        refuse(f"{option} {output} is a folder. Name a file in it.")
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        refuse(f"{option} {output} is no plain file. Name one that is, or is not there yet.")
    part = part_of(_behind(path))
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError as error:
        why = "its folder does not exist" if not path.parent.is_dir() else error.strerror
        msg = f"{option} {output} can't be written: {why}."
        raise OSError(msg) from error
    finally:  # also when the program is ended just here
        with suppress(OSError):
            part.unlink()
    sweep(path)
    return path


def check_output_or_stdout(
    call: Call, output: str, inputs: Iterable[str], *, clash: str, option: str = "-o"
) -> Path | None:
    """Where to write; None is stdout, unless --json fills it already, which `clash` says."""
    if output != "-":
        return check_output(output, inputs, option=option)
    if call.as_json:
        refuse(clash)
    return None


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when all went well; what fails is said of `path` itself."""
    try:
        with written_whole(_behind(path)) as file:
            yield file
    except OSError as error:
        msg = f"{str(path)!r} can't be written: {error.strerror or error}."
        raise OSError(msg) from error


def _behind(path: Path) -> Path:
    """The file that a link leads to: it is replaced, and the link stays one."""
    return Path(os.path.realpath(path))


def told_file(path: Path, *, replaced: bool) -> str:
    """What is said about a file that was written."""
    what = "replaced" if replaced else "wrote"
    name = (
        str(path) if str(path).isprintable() else repr(str(path))
    )  # one line, whatever it is called
    return f"{what} {name}, {format_bytes(path.stat().st_size)}"


def _is_same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False
