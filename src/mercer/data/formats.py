"""Formats of files: by which endings they are known, which module reads them, and the way into each."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mercer._core.errors import DataError, nearest
from mercer.data.spool import spooled
from mercer.data.table import Reading

if TYPE_CHECKING:
    from mercer.data.table import TableFile


class Format(NamedTuple):
    """A format: the function that opens its files as tables, and the endings of their names."""

    module: str
    function: str
    endings: tuple[str, ...] = ()


FORMATS = {
    "csv": Format("mercer.data.csv.table", "open_csv", (".csv", ".txt")),
    "tsv": Format("mercer.data.csv.table", "open_tsv", (".tsv", ".tab")),
    "npy": Format("mercer.data.npy", "NpyTable", (".npy",)),
    "npz": Format("mercer.data.npz", "NpzTable", (".npz",)),
    "images": Format("mercer.data.images", "open_images"),
    "parquet": Format("mercer.data.arrow", "open_parquet_table", (".parquet", ".pq")),
    "arrow": Format("mercer.data.arrow", "open_arrow", (".arrow", ".feather", ".ipc")),
    "hdf5": Format("mercer.data.hdf5", "Hdf5Table", (".h5", ".hdf5", ".he5")),
    "h5ad": Format("mercer.data.hdf5", "H5adTable", (".h5ad",)),
}
SUFFIXES = {ending: name for name, form in FORMATS.items() for ending in form.endings}


def format_of(path: Path, asked: str | None) -> str:
    """The format that was asked for, or that the name of the file stands for."""
    shown = str(path)
    if not path.exists():
        msg = f"There is no file or folder {shown!r} (looked for {str(path.absolute())!r})."
        raise DataError(msg)
    if not path.is_file() and not path.is_dir():  # a device has no end
        msg = f"{shown!r} is neither a file nor a folder. Give one of them, or - for a pipe."
        raise DataError(msg)
    if asked is not None:
        form = asked
    elif path.is_dir():
        form = "parquet" if any(path.glob("*.parquet")) else "images"
    else:
        form = SUFFIXES.get(path.suffix.lower(), "")
    if path.is_dir() and form not in ("images", "parquet"):
        msg = f"{shown!r} is a folder, where a {form} file was needed. Name the file in it."
        raise DataError(msg)
    if not form:
        msg = (
            f"{shown!r} has the ending {path.suffix!r}, which stands for no format that can be read. Give "
            f"--format: one of {', '.join(FORMATS)}."
        )
        raise DataError(msg)
    return form


def open_table(path: str | os.PathLike[str], reading: Reading | None = None) -> TableFile:
    r"""A file of rows, after a look at its head; ``-`` is the standard input.

    Parameters
    ----------
    path : str or path-like
        A CSV or TSV file, NPY, NPZ, Parquet, Arrow (Feather), HDF5 or h5ad, or a folder of images or of
        Parquet files. What comes through a pipe is CSV unless ``reading.format`` says otherwise, and
        is kept in a temporary file, because rows are read more than once.
    reading : Reading, optional
        How to read it.

    Returns
    -------
    TableFile

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "a.csv")
    >>> _ = path.write_text("name,x,y\nfirst,1,2.5\nsecond,3,\n")
    >>> table = open_table(path, Reading(id="name"))
    >>> [column.name for column in table.columns]
    ['x', 'y']
    >>> next(table.chunks(100)).numbers
    array([[1. , 2.5],
           [3. , nan]])
    >>> folder.cleanup()
    """
    reading = Reading() if reading is None else reading
    if os.fspath(path) == "-":
        return _piped(None, reading, shown="standard input")
    found = Path(os.fspath(path)).expanduser()
    if found.is_fifo():
        return _piped(found, reading, shown=repr(os.fspath(path)))
    return _opened(found, format_of(found, reading.format), reading, shown=repr(os.fspath(path)))


def _piped(pipe: Path | None, reading: Reading, *, shown: str) -> TableFile:
    form = reading.format or "csv"
    if form == "images":
        msg = "A folder of images can't come through a pipe. Give its path."
        raise DataError(msg)
    spool = spooled(form, pipe)
    table = _opened(spool.path, form, reading, shown=shown)
    table._spool = spool
    return table


def _opened(path: Path, form: str, reading: Reading, *, shown: str) -> TableFile:
    if form not in FORMATS:
        msg = f"format={form!r} came. {nearest(form, FORMATS)}"
        raise DataError(msg)
    # By name: only one of these modules is needed, and some take a while to import.
    module, function, _ = FORMATS[form]
    table: TableFile = getattr(import_module(module), function)(path, reading, shown=shown)
    return table
