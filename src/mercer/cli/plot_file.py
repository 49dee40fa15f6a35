"""Pictures as files: PNG, SVG or PDF, written whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from mercer._core.atomic import written_whole
from mercer._core.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES = ("png", "svg", "pdf")

# The same picture is the same file: no date in it, and names that are counted, not drawn by lot.
UNDATED = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
SALT = {"svg.hashsalt": "mercer"}


class PicturePath(click.ParamType):
    """A file name whose suffix says which kind of picture it is to be."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, when its suffix is known."""
        path = Path(value)
        suffix = path.suffix.lower().lstrip(".")
        if suffix not in SUFFIXES:
            came = f"{path.suffix!r} is not known" if suffix else f"{str(value)!r} has no suffix"
            hint = nearest(suffix, SUFFIXES) if suffix else f"Try {str(path) + '.png'!r}."
            self.fail(f"{came}: a picture is a .png, .svg or .pdf file. {hint}", param, ctx)
        return path


def save(figure: Any, path: Path, *, dpi: int = 120) -> None:
    """Write a matplotlib figure; a file that was there stays as it was until the new one is whole."""
    from matplotlib import rc_context

    suffix = path.suffix.lower().lstrip(".")
    with rc_context(SALT), opened(path) as file:
        figure.savefig(file, format=suffix, dpi=dpi, metadata=UNDATED[suffix])


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when all went well; what fails is said of `path` itself."""
    check_place(path)
    try:
        with written_whole(path) as file:
            yield file
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from error


def check_place(path: Path) -> None:
    """Raise when `path` can't be written: before the work, so that none is lost."""
    if path.is_dir():
        raise _cannot(path, "it is a folder. Name a file in it")
    if not path.parent.is_dir():
        raise _cannot(path, f"there is no folder {str(path.parent)!r}. Make it first")
    if not os.access(path.parent, os.W_OK):
        raise _cannot(path, f"the folder {str(path.parent)!r} can't be written to")


def _cannot(path: Path, reason: str) -> OSError:
    return OSError(f"Can't write {str(path)!r}: {reason}.")
