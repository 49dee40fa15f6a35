"""Rows into a file, batch by batch, with ids and labels beside them; whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mercer._core.atomic import sweep, written_whole
from mercer._core.errors import DataError, MercerError, nearest
from mercer.data.columns import require_distinct
from mercer.data.formats import SUFFIXES as READ
from mercer.data.spool import no_room
from mercer.data.writers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer.data.writers import TableWriter

# What is read and can be written goes by the same endings.
SUFFIXES = {ending: form for ending, form in READ.items() if form in FORMATS}


@contextmanager
def open_writer(
    path: str | os.PathLike[str],
    names: Sequence[str],
    *,
    id_name: str | None = None,
    label_name: str | None = None,
    format: str | None = None,  # noqa: A002  (as in `Reading`)
    dtype: Any = np.float64,
) -> Iterator[TableWriter]:
    r"""A writer of rows; the file appears when all went well, and an older one stays if not.

    Parameters
    ----------
    path : str or path-like
        Its ending says the format; ``-`` is the standard output, and takes CSV.
    names : sequence of str
        Of the columns.
    id_name, label_name : str, optional
        Names of the columns of ids and labels, which come first. Without a name there is no such column.
    format : {"csv", "tsv", "npy", "npz", "parquet", "arrow"}, optional
        Where the ending of the path does not say it.
    dtype : dtype
        In which numbers are stored, where the format has it. Texts have as many digits as it takes to
        read the same number again.

    Yields
    ------
    TableWriter

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "scores.csv")
    >>> with open_writer(path, ["kpca0", "kpca1"], id_name="id") as writer:
    ...     writer.write(np.array([[0.1, 2.0]]), ["first"])
    >>> path.read_text()
    'id,kpca0,kpca1\nfirst,0.1,2.0\n'
    >>> folder.cleanup()
    """
    shown = os.fspath(path)
    form = _format(shown, format)
    # A column of scores may have the name of the ids: a file of two columns of one name helps nobody.
    beside = tuple(name for name in (id_name, label_name) if name is not None)
    require_distinct([*beside, *names], source=f"What is to be written to {shown!r}")
    with _target(shown, form) as file:
        writer = FORMATS[form](file, tuple(names), id_name, label_name, np.dtype(dtype))
        yield writer
        writer.close()


def _format(shown: str, form: str | None) -> str:
    if form is None:
        suffix = Path(shown).suffix.lower()
        form = "csv" if shown == "-" else SUFFIXES.get(suffix)
        if form is None:
            msg = (
                f"{shown!r} ends in {suffix!r}, which is not a format that can be written. "
                f"Use one of {', '.join(SUFFIXES)}."
            )
            raise DataError(msg)
    if form not in FORMATS:
        must_be = f"one that can be written: {', '.join(FORMATS)}"
        raise DataError.about(
            parameter="format", value=form, must_be=must_be, remedy=nearest(form, FORMATS)
        )
    return form


@contextmanager
def _target(shown: str, form: str) -> Iterator[BinaryIO]:
    """Where the bytes go: a file beside its place, or the standard output."""
    if shown == "-":
        with _standard_output(form) as file:
            yield file
        return
    path = Path(os.path.realpath(os.path.expanduser(shown)))  # the file behind a link
    _require_place(path, shown)
    if path.exists() and not path.is_file():  # /dev/null is written to, not replaced by a file
        with path.open("wb") as device:
            yield device
        return
    sweep(path)
    with _explained(shown, path), written_whole(path) as file:
        yield file


def _require_place(path: Path, shown: str) -> None:
    if path.is_dir():
        msg = f"{shown!r} is a folder; a file is needed. Add a name, such as {shown.rstrip('/')}/scores.csv."
        raise DataError(msg)
    if not path.parent.is_dir():
        msg = (
            f"{shown!r} needs the folder {str(path.parent)!r}, which does not exist. Make it first."
        )
        raise DataError(msg)


@contextmanager
def _explained(shown: str, path: Path) -> Iterator[None]:
    """What the system says against a file, with its name and what became of the old one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:
            raise  # one of ours, with its own sentence
        if error.filename is not None and not str(error.filename).startswith(str(path)):
            raise  # about a file that the caller was reading
        why = error.strerror or error
        msg = f"{shown!r} could not be written: {why}. What was there before is as it was."
        raise OSError(error.errno, msg) from error


@contextmanager
def _standard_output(form: str) -> Iterator[BinaryIO]:
    """Lines go out as they come. Other formats end with what their beginning needs, and go out whole."""
    if sys.stdout is None:  # started without one
        msg = "The rows were to go to the standard output, but it is closed. Name a file."
        raise OSError(msg)
    out = sys.stdout.buffer
    if form in ("csv", "tsv"):
        yield out
        out.flush()
        return
    with tempfile.TemporaryFile(prefix="mercer-") as file:
        try:
            yield file
            file.seek(0)  # the last bytes reach the disk here
        except MercerError:  # with its own sentence
            raise
        except OSError as error:
            raise no_room(error, "What was to be written") from error
        shutil.copyfileobj(file, out)
        out.flush()
