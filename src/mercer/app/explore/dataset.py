"""A file of rows on the page: read as everywhere, with and without scaling, and described."""

from __future__ import annotations

import threading
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import PCA
from mercer._core.errors import DataError, refuse_data
from mercer._core.memory import available_bytes, format_bytes
from mercer.app.outcome import Run, as_dict, plain, refuse_value
from mercer.app.rows import Opened, read_sheet, read_training
from mercer.data.files import require_holdable
from mercer.data.formats import open_table
from mercer.data.rows import row_blocks
from mercer.data.table import Reading, Table
from mercer.preprocessing.align import ReadingsTable
from mercer.views.classes import classes

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.preprocessing.align import Sheet
    from mercer.views import Classes

MOST_COLUMNS = 20_000
BLOCK_ENTRIES = 2**21
PACKED = 10  # a file whose numbers take so many times its own size is packed
CONTENTS = "[Content_Types].xml"  # which every workbook has in its archive
OF_CLASSES = ("names", "counts", "ordered", "remark", "shaded")
# A column of words that is called so names its rows.
NAMES = {"id", "name", "time", "date", "datetime", "timestamp", "index", "row", "file"}


@dataclass(eq=False)
class Dataset:
    """A file, how it is read and what is done to its rows; sheets are read when they are needed.

    Parameters
    ----------
    path : Path
        The file, or a folder of images.
    reading : Reading
    name, title : str
        What it is called, in links and for people.
    source : str, default=the name of `path`
        What its owner calls the file; one that was handed over lies under a safe name.
    image_shape : (height, width), optional
        Where rows are images, and the file does not say so.
    suggested : dict
        A recipe to begin with.
    impute, one_hot
        As in `mercer.app.FitRequest`.
    """

    path: Path
    reading: Reading = field(default_factory=Reading)
    name: str = ""
    title: str = ""
    source: str = ""
    image_shape: tuple[int, int] | None = None
    suggested: dict[str, Any] = field(default_factory=dict)
    impute: Any = None
    one_hot: bool = False
    guessed: tuple[str, ...] = ()
    # "Bad" and "No Data" stand for missing numbers, as `mercer monitor` reads them.
    readings: bool = False

    def __post_init__(self) -> None:
        self.source = self.source or self.path.name
        self._sheets: dict[str, Sheet] = {}
        self._planes: dict[str, PCA] = {}
        self._lock = threading.RLock()
        self._stamp: tuple[int, int] | None = None
        self.findings: list[dict[str, Any]] = []

    # ── rows ────────────────────────────────────────────────────────────────
    def sheet(self, scale: str) -> Sheet:
        """All rows, prepared: ``"standard"`` or ``"none"``."""
        with self._lock:
            if scale not in self._sheets:
                self._sheets[scale] = self._read(scale)
            return self._sheets[scale]

    def _unchanged(self) -> None:
        """Raise where the file is no longer the one that was opened: its rows would be those of another."""
        with suppress(FileNotFoundError):  # said by the reader
            found = self.path.stat()
            now = found.st_mtime_ns, found.st_size
            self._stamp = self._stamp or now
            if self._stamp != now:
                refuse_data(f"{self.source} has changed since it was opened.", "Open it again.")

    def _read(self, scale: str) -> Sheet:
        self._unchanged()
        run = Run(reading=self.reading)
        how = {"scale": scale, "impute": self.impute, "one_hot": self.one_hot}
        with run.following():
            sheet = read_training(run, str(self.path), how, table=self._table(self.reading))
        if scale == "none":  # scaling is a choice of the page, and shown there
            self.findings = [as_dict(found) for found in run.findings]
        if self.image_shape is None:
            return sheet
        if int(np.prod(self.image_shape)) != sheet.rows.shape[1]:
            pixels = f"as many pixels as rows have columns, {sheet.rows.shape[1]}"
            refuse_value("image_shape", self.image_shape, f"a height and a width with {pixels}")
        return replace(sheet, preparation=replace(sheet.preparation, image_shape=self.image_shape))

    def matched(self, opened: Opened, *, gaps: bool = False) -> Sheet:
        """The rows as a model that is there already takes them: it knows its columns, nothing is guessed."""
        self._unchanged()
        reading, preparation = self.reading, opened.preparation
        if self.guessed and preparation is not None:
            id_ = None if reading.id in preparation.features else reading.id
            reading = replace(reading, id=id_, label=None, columns=None)
        run = Run(reading=reading)
        with run.following():
            return read_sheet(run, str(self.path), opened, gaps=gaps)

    def _table(self, reading: Reading) -> Table:
        table = _table_of(self.path, reading)
        return ReadingsTable(table, whole=False) if self.readings else table

    def asked(self, scale: str) -> dict[str, Any]:
        """What a request says of the rows."""
        return {
            "data": str(self.path),
            "reading": self.reading,
            "scale": scale,
            "impute": self.impute,
            "one_hot": self.one_hot,
        }

    @property
    def raw(self) -> Sheet:
        """The rows in the units of the file."""
        return self.sheet("none")

    @property
    def n(self) -> int:
        return len(self.raw)

    def columns(self, places: Any, rows: Any = None) -> Array:  # (n, c)
        """Some features of all rows, or of those at some positions, in the units of the file."""
        d = self.raw.rows.shape[1]
        if not all(type(j) is int and 0 <= j < d for j in places):
            refuse_value("columns", list(places), f"numbers of columns from 0 to {d - 1}")
        if rows is not None:
            return np.asarray(self.raw.rows[rows], dtype=np.float64)[:, places]
        height = max(1, BLOCK_ENTRIES // d)
        blocks = [np.asarray(block)[:, places] for _, block in row_blocks(self.raw.rows, height)]
        return np.concatenate(blocks).astype(np.float64)

    def plane(self, scale: str) -> PCA:
        """Linear PCA of the prepared rows, for a plane to look at them in."""
        with self._lock:
            if scale not in self._planes:
                rows = self.sheet(scale).rows
                with Run().following():  # a plane to look at rows in: no finding of the fit
                    self._planes[scale] = PCA(min(2, rows.shape[1]), random_state=0).fit(rows)
            return self._planes[scale]

    # ── what stands beside them ─────────────────────────────────────────────
    @cached_property
    def classes(self) -> Classes:
        return classes(_numbers(self.raw.labels), self.n)

    @property
    def noted(self) -> list[str]:
        """What was done to the rows when they were read."""
        notes = [found["message"] for found in self.findings if found["level"] == "note"]
        return [note for note in notes if note != "columns are not scaled"]

    def described(self) -> dict[str, Any]:
        sheet, shape = self.raw, self.raw.preparation.image_shape
        return {
            "name": self.name,
            "title": self.title or self.name,
            "n": self.n,
            "d": int(sheet.rows.shape[1]),
            "features": list(sheet.names),
            "label": sheet.label_name,
            "id_name": sheet.id_name,
            "columns": self.file_columns,
            "image_shape": None if shape is None else list(shape),
            "classes": described_classes(self.classes),
            "notes": [*self.guessed, *self.noted],
            "source": self.source,
            "suggested": self.suggested,
            "warnings": [found for found in self.findings if found["level"] == "warning"],
            "impute": self.impute,
            "one_hot": self.one_hot,
        }

    @cached_property
    def file_columns(self) -> list[dict[str, str]]:
        """Every column of the file, whatever it is used for."""
        table = self._table(replace(self.reading, columns=None, label=None, id=None))
        return [{"name": c.name, "kind": c.kind} for c in table.columns[:MOST_COLUMNS]]


def described_classes(looks: Classes) -> dict[str, Any]:
    """Classes of rows, without the rows."""
    return {name: plain(getattr(looks, name)) for name in OF_CLASSES}


def _numbers(labels: Any) -> Any:
    """Labels as numbers where all of them are, so that a measurement has a scale of colours."""
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            return values.astype(np.float64)
    return values


# ── a file of which nothing is known ────────────────────────────────────────
def opened(path: Path, *, name: str, reading: Reading | None = None) -> Dataset:
    """A file as it was dropped onto the page: columns of words are guessed to name or label the rows.

    Guesses are said, and can be changed on the page.
    """
    reading = reading or Reading()
    table = _table_of(path, reading)
    _require_room(path, table)
    asked = bool(reading.id or reading.label or reading.columns)
    if not asked and len(table.columns) > MOST_COLUMNS:
        n = len(table.columns)
        refuse_data(f"{table.source} has {n} columns; the page shows at most {MOST_COLUMNS}.")
    as_it_is = Dataset(path, reading, name=name, source=name)
    counted = ReadingsTable(table, whole=False)
    if counted.columns != table.columns:  # "Bad" may stand for a reading, or be a class of the rows
        with suppress(DataError):
            return _checked(_guessed(replace(as_it_is, readings=True), counted, asked=asked))
    return _checked(_guessed(as_it_is, table, asked=asked))


def _guessed(data: Dataset, table: Table, *, asked: bool) -> Dataset:
    """The same with what columns of words are for, unless the reading already says so."""
    words = [c.name for c in table.columns if c.kind == "category"]
    if asked or not words:
        return data
    called = next((word for word in words if word.lower() in NAMES), None)
    left = [word for word in words if word != called]
    label = left[-1] if left else None
    others = [word for word in left if word != label]
    said = [f"column {called!r} names the rows"] if called else []
    said += [f"column {label!r} labels the rows"] if label else []
    said += [f"columns of words are left out: {', '.join(others)}"] if others else []
    numbers = tuple(c.name for c in table.columns if c.kind == "number") if others else None
    reading = replace(data.reading, id=called, label=label, columns=numbers)
    return replace(data, reading=reading, guessed=tuple(said))


def _table_of(path: Path, reading: Reading) -> Table:
    """A file whose rows the page will hold: they must not take far more bytes than it has."""
    if not path.is_file():
        return open_table(path, reading)
    packed = path.stat().st_size
    if zipfile.is_zipfile(path):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            if CONTENTS in sizes:  # a workbook, all texts of which are held before there is a row
                require_holdable(sum(sizes.values()), packed, source=repr(path.name))
    table = open_table(path, reading)
    table.packed_bytes = packed
    return table


def _require_room(path: Path, table: Table) -> None:
    """Raise where a small file says that it has more numbers than memory holds: zeros pack well.

    A file that is as large as its numbers is read where it lies.
    """
    size = 8 * (table.n_rows or 0) * len(table.columns)
    packed = path.stat().st_size if path.is_file() else size
    if size > PACKED * packed and size > available_bytes() // 2:
        refuse_data(
            f"{table.source} has {format_bytes(packed)} and would unpack to {format_bytes(size)}, more than "
            "the page has memory for.",
            "Use the command line, which reads it a block at a time.",
        )


def _checked(data: Dataset) -> Dataset:
    """The same, read once: what is wrong with a file is said when it is opened.

    Missing numbers are filled by the median of their column, and a note says how many: a page that shows
    nothing of a file with a gap in it would be of little use.
    """
    try:
        _ = data.raw, data.file_columns
    except DataError as error:
        if error.parameter != "impute" or data.impute is not None:
            raise
        return _checked(replace(data, impute="median"))
    return data
