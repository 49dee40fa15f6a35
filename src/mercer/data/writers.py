"""Rows into a file (see `FORMATS`), batch by batch, with ids and labels beside them; whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mercer._core.atomic import replacing
from mercer._core.errors import refuse, refuse_data
from mercer._core.types import Array
from mercer.data.columns import require_distinct
from mercer.data.files import no_room
from mercer.data.formats import SUFFIXES as READ
from mercer.data.frames import MissingPackageError, need
from mercer.data.rows import row_slices

TEXT_CELLS = 2**18  # written as text at a time
ARROW_CELLS = 2**14  # fewer are written before Arrow is imported


@dataclass(eq=False)
class TableWriter(ABC):
    """Takes rows in batches, in the order in which they are to stand, and writes them to an open file."""

    file: BinaryIO
    names: tuple[str, ...]
    beside: tuple[str | None, str | None]  # the names of ids and labels
    dtype: np.dtype[Any]
    n_rows: int = 0  # written so far
    notes: list[str] = field(default_factory=list)  # what the format can't hold, for people

    def __post_init__(self) -> None:
        self._begin()

    def write(self, rows: Array, ids: Any = None, labels: Any = None) -> None:
        """The next rows, (b, k), with what names and labels them, (b,) each."""
        rows = np.asarray(rows)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            refuse("rows", rows.shape, f"of {len(self.names)} columns")
        beside: list[Any] = []
        for what, name, values in zip(("ids", "labels"), self.beside, (ids, labels), strict=True):
            if name is not None and (values is None or len(values) != len(rows)):
                count = "none" if values is None else str(len(values))
                refuse(what, count, f"one for each of {len(rows)} rows")
            beside.append(None if name is None else values)
        self._write(rows, *beside)
        self.n_rows += len(rows)

    @abstractmethod
    def _begin(self) -> None:
        """What stands before the rows."""

    @abstractmethod
    def _write(self, rows: Array, ids: Any, labels: Any) -> None:
        """The next rows, with one id and one label for each, or None."""

    @abstractmethod
    def close(self) -> None:
        """What stands after the rows; the file is left open."""


class Csv(TableWriter):
    """Lines of fields in UTF-8. A number has the fewest digits from which it is read again, bit for bit."""

    delimiter = ","

    def _begin(self) -> None:
        self._text = io.StringIO(newline="")
        kind: dict[str, Any] = {"delimiter": self.delimiter, "lineterminator": "\n"}
        self._plain = csv.writer(self._text, **kind)
        # Readers pass over blanks at the beginning of a field, and take \r for the end of a line, unless the
        # field is quoted; csv does not know that.
        self._quoting = csv.writer(self._text, quoting=csv.QUOTE_NONNUMERIC, **kind)
        names = [*(name for name in self.beside if name is not None), *self.names]
        (self._quoting if _has_special(names) else self._plain).writerow(names)
        self._send()

    def _write(self, rows: Array, ids: Any, labels: Any) -> None:
        words = [_plain_values(part) for part in (ids, labels) if part is not None]
        # As Python's numbers and as text a batch takes ten times its bytes: a part of it at a time.
        for some in row_slices(len(rows), max(1, TEXT_CELLS // max(1, rows.shape[1]))):
            beside = [part[some] for part in words]
            lines = _lines(rows[some], beside, self.delimiter)
            if lines is not None:
                self.file.write(lines)
                continue
            records = _numbers(rows[some])
            if beside:
                records = [[*before, *row] for *before, row in zip(*beside, records, strict=True)]
            (self._quoting if any(map(_has_special, beside)) else self._plain).writerows(records)
            self._send()

    def _send(self) -> None:
        self.file.write(self._text.getvalue().encode("utf-8", "backslashreplace"))
        self._text.seek(0)
        self._text.truncate()

    def close(self) -> None:
        """Nothing stands after the rows."""


class Tsv(Csv):
    """Lines of fields with tabs between them."""

    delimiter = "\t"


def _numbers(values: Array) -> Any:
    """Numbers whose repr is read back: Python's floats; float32 as it is, which has fewer digits."""
    return values if values.dtype == np.float32 else values.tolist()


def _lines(rows: Array, words: list[list[Any]], delimiter: str) -> bytes | None:
    """The same lines by Arrow, several times as fast; None where fields need quotes or Arrow is missing."""
    if rows.size < ARROW_CELLS or any(not _is_plain(part, delimiter) for part in words):
        return None
    try:
        pyarrow, compute = (need(m, extra="parquet") for m in ("pyarrow", "pyarrow.compute"))
        columns = [pyarrow.array(map(str, part), pyarrow.string()) for part in words]
    except (MissingPackageError, UnicodeEncodeError):  # of half a character
        return None
    for values in rows.T:
        size = np.abs(values)
        # Outside of these Arrow writes 1 for 1.0 and 1e-7 for 1e-07.
        odd = ~((size >= 1e-3) & (size < 1e6)) | (values == np.floor(values))
        texts = pyarrow.array(np.ascontiguousarray(values)).cast(pyarrow.string())
        if odd.any():
            ours = list(map(str, _numbers(values[odd])))
            texts = compute.replace_with_mask(texts, pyarrow.array(odd), pyarrow.array(ours))
        columns.append(texts)
    lines = compute.binary_join_element_wise(*columns, delimiter)
    whole = compute.binary_join(pyarrow.ListArray.from_arrays([0, len(lines)], lines), "\n")
    return whole[0].as_py().encode() + b"\n"


def _is_plain(values: list[Any], delimiter: str) -> bool:
    """Whether these are whole numbers, or texts without anything that asks for quotes."""
    if all(type(value) is int for value in values):
        return True
    if not all(type(value) is str for value in values):
        return False
    joined = "\n".join(values)
    special = any(mark in joined for mark in (delimiter, '"', "\r"))
    return not special and joined.count("\n") == len(values) - 1 and not _has_special(values)


def _plain_values(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _has_special(fields: list[Any]) -> bool:
    return any(isinstance(f, str) and (f[:1] == " " or "\r" in f) for f in fields)


class Npy(TableWriter):
    """One array. Its header has room for any number of rows, and is written again at the end."""

    def _begin(self) -> None:
        if kept := " and ".join(repr(name) for name in self.beside if name is not None):
            what = f"{kept} are not written; use .npz or .csv to keep them"
            self.notes.append(f"an NPY file holds numbers alone: {what}")
        self._start = self.file.tell()
        self._header(self.file)

    def _header(self, file: Any) -> None:
        shape = (self.n_rows, len(self.names))
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)

    def _write(self, rows: Array, ids: Any, labels: Any) -> None:
        del ids, labels  # the note says so
        self.file.write(np.ascontiguousarray(rows, self.dtype).tobytes())

    def close(self) -> None:
        self.file.seek(self._start)
        # As long as before: NumPy leaves room for the digits of a growing axis.
        self._header(self.file)
        self.file.seek(0, io.SEEK_END)


class Npz(Npy):
    """A zip archive of arrays: ``rows``, ``names``, and ``ids`` and ``labels`` if there are any."""

    def _begin(self) -> None:
        self._rows: Any = tempfile.TemporaryFile(prefix="mercer-")  # noqa: SIM115
        self._words: tuple[list[Any], list[Any]] = ([], [])

    def _write(self, rows: Array, ids: Any, labels: Any) -> None:
        try:
            self._rows.write(np.ascontiguousarray(rows, self.dtype).tobytes())
        except OSError as error:
            raise no_room(error, "The rows of an NPZ file") from error
        for kept, values in zip(self._words, (ids, labels), strict=True):
            if values is not None:
                kept.extend(_plain_values(values))

    def close(self) -> None:
        with self._rows, zipfile.ZipFile(self.file, "w", zipfile.ZIP_STORED) as archive:
            with archive.open("rows.npy", "w", force_zip64=True) as member:
                self._header(member)
                self._rows.seek(0)
                shutil.copyfileobj(self._rows, member, 2**20)
            names = ("names", *self.beside)
            arrays = zip(("names", "ids", "labels"), (self.names, *self._words), names, strict=True)
            for key, values, name in arrays:
                if name is not None:
                    with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, _one_type(values), allow_pickle=False)


def _one_type(values: Sequence[Any]) -> Any:
    """Numbers as numbers, and anything else as texts: never Python objects, which would be pickled."""
    found = np.array(values)
    if found.dtype.kind in "biuf" and found.ndim == 1:
        return found
    return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)


class Parquet(TableWriter):
    """Columns by name, a row group for each batch."""

    def _begin(self) -> None:
        self._arrow = need("pyarrow", extra="parquet")
        self._writer: Any = None
        self._types: dict[str, Any] = {}

    def _write(self, rows: Array, ids: Any, labels: Any) -> None:
        beside = zip(self.beside, (ids, labels), strict=True)
        columns = {n: self._words(n, _plain_values(some)) for n, some in beside if n is not None}
        block = np.asarray(rows, self.dtype)
        for j, name in enumerate(self.names):
            columns[name] = self._arrow.array(np.ascontiguousarray(block[:, j]))
        table = self._arrow.table(columns)
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table)

    def _opened(self, schema: Any) -> Any:
        return need("pyarrow.parquet", extra="parquet").ParquetWriter(self.file, schema)

    def _words(self, name: str, values: list[Any]) -> Any:
        """Whole numbers as such where the first batch has them, everything else as texts."""
        arrow = self._arrow
        whole = all(type(v) is int and abs(v) < 2**63 for v in values)  # not a bool
        kind = self._types.setdefault(name, arrow.int64() if whole else arrow.string())
        if kind == arrow.string():
            values = [None if value is None else str(value) for value in values]
        return arrow.array(values, kind)

    def close(self) -> None:
        if self._writer is None:  # there was no batch
            self.write(np.empty((0, len(self.names))), [], [])
        self._writer.close()


class Arrow(Parquet):
    """An Arrow file (Feather, version 2), a record batch for each batch."""

    def _opened(self, schema: Any) -> Any:
        return need("pyarrow.ipc", extra="parquet").new_file(self.file, schema)


# ── files ───────────────────────────────────────────────────────────────────
FORMATS: dict[str, type[TableWriter]] = {
    "csv": Csv,
    "tsv": Tsv,
    "npy": Npy,
    "npz": Npz,
    "parquet": Parquet,
    "arrow": Arrow,
}
# What is read and can be written goes by the same endings.
SUFFIXES = {ending: form for ending, form in READ.items() if form in FORMATS}


@contextmanager
def open_writer(
    path: str | os.PathLike[str],
    names: Sequence[str],
    *,
    id_name: str | None = None,
    label_name: str | None = None,
    dtype: Any = np.float64,
) -> Iterator[TableWriter]:
    r"""A writer of rows; the file appears when all went well, and an older one stays if not.

    The ending of the path says the format; ``-`` is the standard output, and takes CSV. The columns of ids
    and labels stand before the others; without a name there is no such column. Numbers are stored as
    `dtype` where the format has it; texts have as many digits as it takes to read the same number again.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.csv")
    ...     with open_writer(path, ["kpca0", "kpca1"], id_name="id") as writer:
    ...         writer.write(np.array([[0.1, 2.0]]), ["first"])
    ...     path.read_text()
    'id,kpca0,kpca1\nfirst,0.1,2.0\n'
    """
    target = Path(path)
    is_out = os.fspath(path) == "-"
    form = "csv" if is_out else SUFFIXES.get(target.suffix.lower())
    if form is None:
        ends = f"ends in {target.suffix!r}, which is not a format that can be written"
        what = f"{str(target)!r} {ends if target.suffix else 'has no extension'}."
        refuse_data(what, f"Use one of {', '.join(SUFFIXES)}.")
    # A column of scores may have the name of the ids: two columns of one name could not be distinguished.
    beside = tuple(name for name in (id_name, label_name) if name is not None)
    require_distinct([*beside, *names], source=f"What is to be written to {str(target)!r}")
    with _standard_output() if is_out else replacing(target) as file:
        writer = FORMATS[form](file, tuple(names), (id_name, label_name), np.dtype(dtype))
        yield writer
        writer.close()


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    if sys.stdout is None:  # started without one
        msg = "The rows were to go to the standard output, but it is closed. Name a file."
        raise OSError(msg)
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()
