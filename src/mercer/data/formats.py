"""Formats of files: by which endings they are known, which module reads them, and the way into each."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from mercer._core.errors import DataError, UnknownParameterError, nearest, refuse_data
from mercer.data.columns import listed
from mercer.data.files import spooled
from mercer.data.table import Reading, Table


class Format(NamedTuple):
    """A format: the class of its tables, what its files are called, and the endings of their names."""

    module: str
    table: str
    called: str
    endings: tuple[str, ...] = ()
    takes: frozenset[str] = frozenset()  # options of `Reading` that not all formats have


# How text is written has no bearing on files that are not text, and is left out with a note. The others say
# which values are read, and are refused where they can't be obeyed.
WRITTEN = ("delimiter", "decimal", "header", "units_row", "comment")
NAMED = frozenset({"array"})
LINES = frozenset({*WRITTEN, "na_values", "skip_rows"})
SHEET = LINES - {"delimiter"}
FORMATS = {
    "csv": Format("csv.table", "CsvTable", "CSV file", (".csv", ".txt"), LINES),
    "tsv": Format("csv.table", "CsvTable", "TSV file", (".tsv", ".tab"), LINES),
    "npy": Format("npy", "NpyTable", "NPY file", (".npy",)),
    "npz": Format("npy", "NpzTable", "NPZ file", (".npz",), NAMED),
    "images": Format("images", "ImageTable", "image folder"),
    "parquet": Format("arrow", "ParquetTable", "Parquet file", (".parquet", ".pq")),
    "arrow": Format("arrow", "IpcTable", "Arrow file", (".arrow", ".feather", ".ipc")),
    "hdf5": Format("hdf5", "Hdf5Table", "HDF5 file", (".h5", ".hdf5", ".he5"), NAMED),
    "excel": Format("excel", "ExcelTable", "Excel file", (".xlsx", ".xlsm"), NAMED | SHEET),
    "h5ad": Format("hdf5", "H5adTable", "h5ad file", (".h5ad",), NAMED),
}
SUFFIXES = {ending: name for name, form in FORMATS.items() for ending in form.endings}
OLD_EXCEL = {".xls", ".xlsb", ".ods"}
# Of what is not read, the call of pandas that reads it as one frame.
FOREIGN = {
    ".json": "read_json(path)",
    ".jsonl": "read_json(path, lines=True)",
    ".ndjson": "read_json(path, lines=True)",
    ".xml": "read_xml(path)",
    ".html": "read_html(path)[0]",
    ".orc": "read_orc(path)",
    ".dta": "read_stata(path)",
    ".sav": "read_spss(path)",
}
PICKLES = {".pkl", ".pickle"}
MISNAMED = "If its ending is wrong, rename it."
PACKED = {".gz": "gunzip", ".bz2": "bunzip2", ".xz": "unxz", ".zst": "unzstd", ".zip": "unzip"}


def format_of(path: Path, asked: str | None) -> str:
    """The format that was asked for, or that the name of the file stands for."""
    shown = str(path)
    if not path.exists():
        msg = f"There is no file or folder {shown!r} (looked for {str(path.absolute())!r})."
        refuse_data(msg, parameter="X", value=shown)
    if path.is_dir():
        try:  # a walk would find a folder empty that can't be read
            os.scandir(path).close()
        except OSError as error:
            msg = f"{shown!r} can't be read: {error.strerror}."
            raise DataError.saying(msg, "Check its permissions.") from error
        form = asked or ("parquet" if any(path.rglob("*.parquet")) else "images")
        if form not in ("images", "parquet"):
            refuse_data(f"{shown!r} is a folder; a {form} file is needed. Name the file in it.")
        return form
    if not path.is_file():  # a device has no end
        refuse_data(f"{shown!r} is neither a file nor a folder. Give one of them, or - for a pipe.")
    form = asked or SUFFIXES.get(path.suffix.lower(), "")
    if not form:
        _refuse_ending(shown, path.suffix)
    return form


def _refuse_ending(shown: str, ending: str) -> NoReturn:
    """What stands behind endings that are not those of rows, and what to do."""
    known = f"Give `format`: one of {', '.join(FORMATS)}. Convert other files to CSV or Parquet."
    if ending.lower() == ".mercer":
        refuse_data(f"{shown!r} is a model file, and rows are needed here.", "Give a file of data.")
    if ending.lower() in OLD_EXCEL:
        known = "Save the sheet as .xlsx or CSV."
    elif ending.lower() in FOREIGN:
        call = f"pandas.{FOREIGN[ending.lower()]}.to_csv(new_path, index=False)"
        known = f"Convert it to CSV or Parquet first: {call}. {MISNAMED}"
    elif ending.lower() in PICKLES:  # which run code as they are loaded
        known = f"Load it only if you trust it, and save it as CSV or Parquet. {MISNAMED}"
    elif ending.lower() in PACKED:
        known = f"Unpack it with {PACKED[ending.lower()]} first."
    what = f"ends in {ending!r}, which is not a format that can be read"
    refuse_data(f"{shown!r} {what if ending else 'has no extension'}.", known, parameter="format")


def open_table(
    path: str | os.PathLike[str], reading: Reading | None = None, **options: Any
) -> Table:
    r"""Open a file of rows, after a look at its head; ``-`` is the standard input.

    Parameters
    ----------
    path : str or path-like
        A CSV or TSV file, NPY, NPZ, Parquet, Arrow (Feather), HDF5 or h5ad, an Excel workbook, or a folder
        of images or of Parquet files. A pipe is CSV unless `format` says otherwise, and is kept in a
        temporary file, because rows are read more than once.
    reading : Reading, optional
        How to read it.
    **options : object
        The same by name: ``id="name"``, ``na_values=["-999"]``, … (see `mercer.data.table.Reading`).

    Returns
    -------
    Table
        Its rows are read when they are needed. Estimators take it in the place of an array.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("name,x,y\nfirst,1,2.5\nsecond,3,\n")
    ...     table = open_table(path, id="name")
    ...     [column.name for column in table.columns], next(table.chunks(100)).numbers.tolist()
    (['x', 'y'], [[1.0, 2.5], [3.0, nan]])
    """
    if not isinstance(path, (str, os.PathLike)):
        raise DataError.about(parameter="path", value=path, must_be="the path of a file")
    if not isinstance(reading, Reading | None):
        must_be = "a `mercer.data.table.Reading` or None"
        raise DataError.about(parameter="reading", value=reading, must_be=must_be)
    known = {field.name for field in fields(Reading)}
    if unknown := [name for name in options if name not in known]:
        near = nearest(unknown[0], known - {"id_option"})
        msg = f"open_table has no option {unknown[0]!r}. {near}"
        raise UnknownParameterError(msg)
    reading = replace(Reading() if reading is None else reading, **options)
    if os.fspath(path) == "-":
        return _piped(None, reading, shown="standard input")
    found = Path(os.fspath(path)).expanduser()
    if found.is_fifo():
        return _piped(found, reading, shown=repr(os.fspath(path)))
    return _opened(found, format_of(found, reading.format), reading, shown=repr(os.fspath(path)))


def _piped(pipe: Path | None, reading: Reading, *, shown: str) -> Table:
    form = reading.format or "csv"
    if form == "images":
        refuse_data("A folder of images can't be read from a pipe.", "Give its path.")
    spool = spooled(form, pipe)
    table = _opened(spool.path, form, reading, shown=shown)
    table._spool = spool
    return table


def _opened(path: Path, name: str, reading: Reading, *, shown: str) -> Table:
    if name not in FORMATS:
        must_be, near = f"one of {', '.join(FORMATS)}", nearest(name, FORMATS)
        raise DataError.about(parameter="format", value=name, must_be=must_be, remedy=near)
    form = FORMATS[name]
    source = f"{'folder' if path.is_dir() and name != 'images' else form.called} {shown}"
    vain = _unheard(form, reading, source)
    heard = replace(reading, **{option: getattr(Reading(), option) for option in vain})
    if name == "tsv" and reading.delimiter is None:
        heard = replace(heard, delimiter="\t")
    # By name: only one of these modules is needed, and some take a while to import.
    kind = getattr(import_module(f"mercer.data.{form.module}"), form.table)
    table: Table = kind(path, heard, source)
    if vain:
        left = ", ".join(f"`{option}`" for option in vain)
        table.notes.append(f"left out, since the file is not text: {left}")
    return table


def _unheard(form: Format, reading: Reading, source: str) -> list[str]:
    """Options that were given and have no bearing on the format; one that it can't obey is refused."""
    usual = Reading()
    given = {o for o in NAMED | LINES if getattr(reading, o) != getattr(usual, o)}
    for option in sorted(given - form.takes - {*WRITTEN}):
        having = listed([other for other, its in FORMATS.items() if option in its.takes])
        msg = f"`{option}` does not apply to {source}: it is for the formats {having}."
        stored = " Missing numbers have to be NaN in it." if option == "na_values" else ""
        refuse_data(msg, f"Leave it out.{stored}", parameter=option, value=getattr(reading, option))
    return sorted(given - form.takes)
