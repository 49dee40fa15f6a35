"""A file of rows, whatever its format: how it is to be read, what columns it has, and its rows in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mercer._core.errors import DataError, quoted, refuse_data
from mercer._core.observer import require_wanted
from mercer._core.params import is_whole
from mercer._core.types import Array, Indices
from mercer.data.columns import Layout, Words, layout_of
from mercer.data.files import Spool, Stamp, require_holdable
from mercer.data.rounding import warn_rounded
from mercer.data.rows import RowSource, row_slices

Kind = Literal["number", "category"]
Beside = tuple[Any, str | None]  # an entry for each row, and its name; (None, None) for nothing
# What some options of `Reading` may be, and in words.
GUESSED = ((True, False, None), "True, False or None, to have it guessed")
CHOICES: dict[str, tuple[tuple[Any, ...], str]] = {
    "header": GUESSED,
    "units_row": GUESSED,
    "decimal": ((".", ","), "'.' or ','"),
    "dtype": (("float32", "float64", None), "'float32', 'float64' or None"),
}
LINES, SIDES = "a number of lines", "a height and a width in pixels, such as (64, 64), or None"
TEXT_BYTES = 56  # of a short text, as Python holds it
ROUNDED = "rounded numbers"  # a subject of `Table.noted`
NO_ROWS = "At least one row is needed."


@dataclass(frozen=True)
class Reading:
    """How a file is read. Whatever is None is guessed from the file, and guesses are noted.

    Parameters
    ----------
    columns : sequence of str, optional
        The features, in this order: names, or positions from 0 in files without names. All columns but
        `id` and `label` otherwise.
    label, id : str, optional
        Columns (of an NPZ or HDF5 file: arrays) that are kept beside the rows and are not features.
    format : str, optional
        A name in `FORMATS`; the ending of the file's name says it otherwise.
    delimiter : str, optional
        What separates the fields of a CSV file.
    decimal : {".", ","}
        The decimal mark of a CSV file.
    header : bool, optional
        Whether a CSV file or a sheet begins with names.
    units_row : bool, optional
        Whether a line of units follows the names.
    na_values : sequence of str
        Texts that stand for a missing value, in addition to the customary ones such as NA.
    comment : str, optional
        Lines of a CSV file that begin with this text are skipped.
    skip_rows : int
        How many lines to skip at the beginning of a CSV file or a sheet.
    time_format : str, optional
        How times are written, as in `datetime.strptime`; common ways are known.
    array : str, optional
        Which array of an NPZ or HDF5 file, or which sheet of a workbook.
    image_size : (height, width), optional
        The size to bring all images to.
    dtype : {"float32", "float64"}, optional
        The precision of the numbers; that of the file otherwise.
    id_option : str
        The parameter that named the column of `id`, for messages.
    """

    columns: tuple[str, ...] | None = None
    label: str | None = None
    id: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    header: bool | None = None
    units_row: bool | None = None
    na_values: tuple[str, ...] = ()
    comment: str | None = None
    skip_rows: int = 0
    time_format: str | None = None
    array: str | None = None
    image_size: tuple[int, int] | None = None
    dtype: str | None = None
    id_option: str = "`id`"

    def __post_init__(self) -> None:
        for name, nothing in (("columns", None), ("na_values", ())):  # a list will do, and one name
            value = getattr(self, name)
            given = (value,) if isinstance(value, str) else value
            if given is not None and not isinstance(given, Iterable):
                raise DataError.about(name, value, must_be="a text, several of them or None")
            object.__setattr__(self, name, nothing if given is None else tuple(map(str, given)))
        for name in ("label", "id", "format", "delimiter", "time_format", "array", "comment"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise DataError.about(name, value, must_be="a text or None")
        for name, (values, must_be) in CHOICES.items():
            if getattr(self, name) not in values:
                raise DataError.about(name, getattr(self, name), must_be=must_be)
        if not is_whole(self.skip_rows) or self.skip_rows < 0:
            raise DataError.about(parameter="skip_rows", value=self.skip_rows, must_be=LINES)
        if (size := self.image_size) is not None:
            sides = size if isinstance(size, (tuple, list)) else ()
            if len(sides) != 2 or not all(is_whole(side) and side > 0 for side in sides):
                raise DataError.about(parameter="image_size", value=size, must_be=SIDES)
            object.__setattr__(self, "image_size", tuple(map(int, sides)))


@dataclass(frozen=True)
class Column:
    """A feature as it stands in the file: its name, and whether it holds numbers or words."""

    name: str
    kind: Kind = "number"
    example: str = ""  # of a column of words: the first one and its place, for an error
    words: Words | None = None  # of a column of words in a file of texts


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file. A missing number is NaN, a missing word None; nothing is infinite."""

    start: int  # the position of the first among all rows
    numbers: Array  # (b, p)
    words: dict[str, Any]  # of each column of words, (b,) texts
    ids: Any = None  # (b,) or None
    labels: Any = None  # (b,) or None
    lines: Any = None  # (b,) line of the file in which each row begins, where it has lines

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def n_bytes(self) -> int:
        beside = (*self.words.values(), self.ids, self.labels, self.lines)
        arrays = [self.numbers, *(part for part in beside if part is not None)]
        return sum(a.nbytes + TEXT_BYTES * len(a) * (a.dtype.kind == "O") for a in arrays)

    def __getitem__(self, rows: slice) -> Chunk:
        first, last, _ = rows.indices(len(self))
        if last - first == len(self):
            return self
        return replace(self.at(rows), start=self.start + first)

    def at(self, rows: slice | Indices) -> Chunk:
        """Some rows, as if they began where this chunk does."""
        beside = (self.ids, self.labels, self.lines)
        parts = (None if part is None else part[rows] for part in beside)
        words = {name: column[rows] for name, column in self.words.items()}
        return Chunk(self.start, self.numbers[rows], words, *parts)

    def place(self, row: int) -> str:
        """Where a row of this chunk is, for people: the line of the file, or the position."""
        if self.lines is not None:
            return f"line {int(self.lines[row])}"
        return f"row {self.start + row} (counted from 0)"


class Table(ABC):
    """Rows with named columns, in a file or elsewhere, read in chunks as often as needed.

    Attributes
    ----------
    source : str
        "CSV file 'a.csv'".
    columns : tuple of Column
        The features.
    n_rows : int or None
        The number of rows; None where only reading tells.
    dtype : dtype
        The precision of the numbers: float32 or float64.
    named : bool
        Whether the names of the columns are the file's own; x0, x1, … otherwise.
    id_name, label_name : str or None
        The names of what is kept beside the rows.
    image_shape : (height, width) or None
        The size of rows that are images.
    random_access : bool
        Whether chunks can begin at any row for about what it costs to read them.
    notes : list of str
        What was guessed, left out or skipped.
    units : dict
        The units of columns, by their names, where the file says them.
    packed_bytes : float
        The size of the file, where it is refused if its rows take far more.
    """

    source: str
    stamp: Stamp | None = None  # of the files, where there are files
    n_rows: int | None = None
    dtype: np.dtype[Any] = np.dtype(np.float64)
    named: bool = True
    image_shape: tuple[int, int] | None = None
    random_access: bool = False
    packed_bytes: float = float("inf")
    # What names and what labels the rows, where that is not a column of theirs.
    _beside: tuple[Beside, Beside] = ((None, None), (None, None))

    def __init__(
        self,
        source: str,
        names: Sequence[str],
        reading: Reading,
        *,
        roles: Reading | None = None,  # of columns, where the file has its own ideas of them
        notes: Iterable[str] = (),
    ) -> None:
        self.source, self.reading = source, reading
        self.names = tuple(names)  # of all columns of the file, features or not
        self.notes: list[str] = list(notes)
        self.noted: set[str] = set()  # subjects that notes or warnings have been given on
        self.units: dict[str, str] = {}
        self._layout = layout_of(self.names, roles or reading, source=source, named=self.named)
        self._spool: Spool | None = None  # has what came through a pipe, as long as this lives
        self._room = 0  # bytes of chunks to keep
        self._kept: deque[Chunk] | None = None  # all of them, once they were read
        if reading.dtype is not None:
            self.dtype = np.dtype(reading.dtype)
        if reading.time_format is not None and self.id_name is None:
            msg = f"{source}: `time_format` says how times are written, but no column of times is named."
            about = {"parameter": "time_format", "value": reading.time_format}
            refuse_data(msg, "Name it with `id`.", **about)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The features."""
        return tuple(
            self._column(j) if kind is None else Column(self.names[j], kind)
            for j, kind in zip(self._layout.features, self._layout.kinds, strict=True)
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns of the file that are not read."""
        used = {*self._layout.features, self._layout.id, self._layout.label}
        return tuple(name for j, name in enumerate(self.names) if j not in used)

    @property
    def id_name(self) -> str | None:
        """The name of what names the rows, which is kept beside them."""
        return self._beside[0][1] if self._layout.id is None else self.names[self._layout.id]

    @property
    def label_name(self) -> str | None:
        """The name of what labels them, likewise."""
        return self._beside[1][1] if self._layout.label is None else self.names[self._layout.label]

    def select(
        self,
        columns: Sequence[Column],
        *,
        id_name: str | None = None,
        label_name: str | None = None,
    ) -> Table:
        """The same file with these features, of these kinds and in this order."""
        place = {name: j for j, name in enumerate(self.names)}
        layout = Layout(
            tuple(place[column.name] for column in columns),
            tuple(column.kind for column in columns),
            self._layout.id if id_name is None else place[id_name],
            self._layout.label if label_name is None else place[label_name],
        )
        return self._laid_out(layout)

    def with_missing(self, texts: frozenset[str]) -> Table:
        """The same file, in which these texts too stand for missing numbers, where it has texts."""
        del texts
        return self

    def named_columns(self, names: Sequence[str]) -> Table:
        """The same table with the columns of these names as features, whatever they were before."""
        roles = Reading(columns=tuple(names))
        found = layout_of(self.names, roles, source=self.source, named=self.named)
        return self._laid_out(replace(found, id=self._layout.id, label=self._layout.label))

    def _laid_out(self, layout: Layout) -> Table:
        other = copy(self)  # the notes are shared: those that are handed out are so for both
        other._layout, other._room, other._kept = layout, 0, None
        return other

    def note_once(self, subject: str, *notes: str) -> None:
        """Add notes, unless there have been some on this subject."""
        if subject not in self.noted:
            self.noted.add(subject)
            self.notes += notes

    def fresh_notes(self) -> tuple[str, ...]:
        """The notes that were not handed out before."""
        fresh = tuple(self.notes)
        self.notes.clear()
        return fresh

    def chunks(self, height: int, start: int = 0) -> Iterator[Chunk]:
        """The rows from `start` on in order, at most `height` at a time; the file has to stay the same."""
        if self._kept is not None:
            for chunk in self._again(height):
                if chunk.start + len(chunk) > start:
                    yield chunk[max(0, start - chunk.start) :]
            return
        self.check_unchanged()
        row_bytes, packed = len(self._layout.features) * self.dtype.itemsize, self.packed_bytes
        require_holdable((self.n_rows or 0) * row_bytes, packed, source=self.source)
        require_wanted()
        n, kept, room = 0, deque[Chunk](), self._room if start == 0 else 0
        for chunk in self._chunks(height, start):
            require_wanted()
            n = chunk.start + len(chunk)
            require_holdable(n * row_bytes, packed, source=self.source)
            if n <= start:
                continue
            room -= chunk.n_bytes
            if room < 0:
                kept.clear()
            else:
                kept.append(chunk)
            yield chunk[max(0, start - chunk.start) :]
        self.check_unchanged()
        if n == 0:
            refuse_data(f"{self.source} has columns and no rows.", NO_ROWS)
        if room > 0:
            self._kept = kept

    def keep(self, n_bytes: int) -> None:
        """Keep what the next pass reads, if it takes fewer bytes; with 0, the next one lets go of it."""
        self._room = n_bytes

    def _again(self, height: int) -> Iterator[Chunk]:
        kept = self._kept or deque()
        if not self._room:
            self._kept = None
        held = iter(kept) if self._room else (kept.popleft() for _ in range(len(kept)))
        for chunk in held:
            for rows in row_slices(len(chunk), height):
                yield chunk[rows]

    def check_unchanged(self) -> None:
        """Raise when a file behind the rows has changed since it was opened."""
        if self.stamp is not None:
            self.stamp.check(self.source)

    def in_place(self) -> RowSource | None:
        """The features as they lie in the file, where they can be used so."""
        return None

    @abstractmethod
    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        """The chunks as they are read: from `start` on, or from somewhere before it."""

    def resident_bytes(self) -> int:
        """What reading holds in memory beside the chunk that it hands out."""
        return sum(chunk.n_bytes for chunk in self._kept or ())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # a pickle holds the way to the rows

    def _column(self, j: int) -> Column:
        return Column(self.names[j])

    def _warn_rounded(self, stored: Any, names: Sequence[str], rows: Sequence[int]) -> None:
        """Warn, once a file, of numbers that float64 does not hold exactly."""
        about: Any = {"what": self.source, "names": names, "rows": rows}
        if ROUNDED not in self.noted and warn_rounded(stored, **about):
            self.noted.add(ROUNDED)

    def _cast(self, stored: Array, names: Sequence[str], start: int, lines: Any = None) -> Array:
        """Numbers in the precision of the table. NaN is a missing value; infinity is refused."""
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            numbers = np.ascontiguousarray(stored, dtype=self.dtype)
        bad = np.isinf(numbers)
        if bad.any():
            row, j = (int(i) for i in np.argwhere(bad)[0])
            place = Chunk(start, numbers, {}, lines=lines).place(row)
            what, remedy, about = "infinity", "Drop the row, or correct it.", "X"
            if np.isfinite(stored[row, j]):
                what = f"{stored[row, j]} is too large for {self.dtype}"
                remedy, about = "Leave `dtype` out.", "dtype"
            msg = f"{self.source}: {what} in {place}, column {quoted(names[j])}."
            refuse_data(msg, remedy, parameter=about, value=stored[row, j])
        return numbers

    def __repr__(self) -> str:
        n_rows = "?" if self.n_rows is None else self.n_rows
        return f"{self.source}, {n_rows} x {len(self._layout.features)}"


def objects(values: Iterable[Any]) -> Any:
    """Values as a 1-D array of objects, whatever they are."""
    values = list(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
