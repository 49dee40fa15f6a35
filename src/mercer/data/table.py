"""A file of rows, whatever its format: how it is to be read, what columns it has, and its rows in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.data.columns import Layout, layout_of
from mercer.data.rounding import warn_rounded
from mercer.data.rows import float_dtype, require_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mercer._core.types import Array
    from mercer.data.files import Stamp
    from mercer.data.spool import Spool

Kind = Literal["number", "category"]
Beside = tuple[Any, str | None]  # an entry for each row, and its name; (None, None) for nothing
ROUNDED = "rounded numbers"  # a subject of `TableFile.told`


@dataclass(frozen=True)
class Reading:
    """How a file is to be read. Whatever is None is found out, and said where it was a guess.

    Parameters
    ----------
    columns : sequence of str, optional
        The features, in this order: names, or positions from 0 in files without names. All columns but
        `id` and `label` otherwise.
    label, id : str, optional
        Columns (of an NPZ or HDF5 file: arrays) that are kept beside the rows and are no features.
    format : str, optional
        A name in `FORMATS`; the ending of the file's name says it otherwise.
    delimiter : str, optional
        Of a CSV file.
    decimal : {".", ","}
        The decimal mark of a CSV file.
    header : bool, optional
        Whether a CSV file begins with names.
    array : str, optional
        Which array of an NPZ or HDF5 file.
    image_size : (height, width), optional
        To bring all images to.
    dtype : {"float32", "float64"}, optional
        The precision of the numbers; that of the file otherwise.
    id_option : str
        What the option is called that `id` was given by, for messages.
    """

    columns: tuple[str, ...] | None = None
    label: str | None = None
    id: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    header: bool | None = None
    array: str | None = None
    image_size: tuple[int, int] | None = None
    dtype: str | None = None
    id_option: str = "--id"


@dataclass(frozen=True)
class Column:
    """A feature as it stands in the file: its name, and whether it holds numbers or words."""

    name: str
    kind: Kind = "number"
    example: str = ""  # of a column of words: the first one and its place, for an error


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

    def place(self, row: int) -> str:
        """Where a row of this chunk is, for people: the line of the file, or the position."""
        if self.lines is not None:
            return f"line {int(self.lines[row])}"
        return f"row {self.start + row} (counted from 0)"


class TableFile(ABC):
    """Rows in a file, read in chunks as often as needed; never all at once.

    Attributes
    ----------
    source : str
        "CSV file 'a.csv'".
    columns : tuple of Column
        The features.
    n_rows : int or None
        None where only reading tells.
    dtype : dtype
        Of the numbers: float32 or float64.
    named : bool
        Whether the names of the columns are the file's own; x0, x1, … otherwise.
    id_name, label_name : str or None
        What stands beside the rows.
    image_shape : (height, width) or None
        Of rows that are images.
    notes : list of str
        What was guessed, left out or passed over.
    """

    source: str
    stamp: Stamp  # of the files, set by whoever opens them
    n_rows: int | None = None
    dtype: np.dtype[Any] = np.dtype(np.float64)
    named: bool = True
    image_shape: tuple[int, int] | None = None
    # What names and what labels the rows, where that is no column of theirs.
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
        self.told: set[str] = set()  # subjects that have been spoken of
        self._layout = layout_of(self.names, roles or reading, source=source, named=self.named)
        self._spool: Spool | None = None  # holds what came through a pipe, as long as this lives
        if reading.dtype is not None:
            self.dtype = np.dtype(reading.dtype)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The features."""
        forced = self._layout.kinds
        return tuple(
            self._column(j) if kind is None else Column(self.names[j], kind)
            for j, kind in zip(self._layout.features, forced, strict=True)
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that are read as nothing."""
        used = {*self._layout.features, self._layout.id, self._layout.label}
        return tuple(name for j, name in enumerate(self.names) if j not in used)

    @property
    def id_name(self) -> str | None:
        """What the ids of the rows are called."""
        return self._beside[0][1] if self._layout.id is None else self.names[self._layout.id]

    @property
    def label_name(self) -> str | None:
        """What the labels of the rows are called."""
        return self._beside[1][1] if self._layout.label is None else self.names[self._layout.label]

    def select(
        self,
        columns: Sequence[Column],
        *,
        id_name: str | None = None,
        label_name: str | None = None,
    ) -> TableFile:
        """The same file with these features, of these kinds and in this order."""
        place = {name: j for j, name in enumerate(self.names)}
        other = copy(self)  # the notes are shared: who says them, says them for both
        other._layout = Layout(
            tuple(place[column.name] for column in columns),
            tuple(column.kind for column in columns),
            self._layout.id if id_name is None else place[id_name],
            self._layout.label if label_name is None else place[label_name],
        )
        return other

    def fresh_notes(self) -> tuple[str, ...]:
        """The notes that were not handed out before."""
        fresh = tuple(self.notes)
        self.notes.clear()
        return fresh

    def chunks(self, height: int) -> Iterator[Chunk]:
        """All rows in order, at most `height` at a time, of a file that has some and stays the same."""
        self.stamp.check(self.source)
        n = 0
        for chunk in self._chunks(height):
            n += len(chunk)
            yield chunk
        self.stamp.check(self.source)
        if n == 0:
            msg = f"{self.source} has columns and no rows. At least one row was needed."
            raise DataError(msg)

    @abstractmethod
    def _chunks(self, height: int) -> Iterator[Chunk]:
        """The chunks as they are read."""

    def in_place(self) -> Any:
        """The features as they lie in the file, as a memory map; None where they can't be used so."""
        return None

    def _column(self, j: int) -> Column:
        return Column(self.names[j])

    def _warn_rounded(self, stored: Any, names: Sequence[str], rows: Sequence[int]) -> None:
        """Warn, once a file, of numbers that float64 does not hold exactly."""
        if ROUNDED not in self.told and warn_rounded(
            stored, what=self.source, names=names, rows=rows
        ):
            self.told.add(ROUNDED)

    def _cast(self, stored: Array, names: Sequence[str], start: int, lines: Any = None) -> Array:
        """Numbers in the precision of the table. NaN is a missing value; infinity is refused."""
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            numbers = np.ascontiguousarray(stored, dtype=self.dtype)
        bad = np.isinf(numbers)
        if bad.any():
            row, j = (int(i) for i in np.argwhere(bad)[0])
            place = Chunk(start, numbers, {}, lines=lines).place(row)
            what, remedy = "infinity", "Finite numbers were needed: drop the row, or correct it."
            if np.isfinite(stored[row, j]):
                what, remedy = (
                    f"{stored[row, j]} is too large for {self.dtype}",
                    "Leave --dtype out.",
                )
            msg = f"{self.source}: {what} in {place}, column {quoted(names[j])}. {remedy}"
            raise DataError(msg)
        return numbers

    def __repr__(self) -> str:
        n = "?" if self.n_rows is None else self.n_rows
        return f"{self.source}, {n} x {len(self._layout.features)}"


# ── rows of one array ───────────────────────────────────────────────────────
class ArrayTable(TableFile):
    """Rows of one array. What names and labels them may be a column of it, or an array beside it."""

    def __init__(
        self,
        source: str,
        shape: Sequence[int],
        stored: Any,  # dtype
        reading: Reading,
        *,
        names: Sequence[str] | None = None,
        ids: Beside = (None, None),
        labels: Beside = (None, None),
        notes: Iterable[str] = (),
    ) -> None:
        n, d = require_rows(shape, what=source)
        self.dtype = float_dtype(stored, what=source)
        self.n_rows, self.named = n, names is not None
        self._beside = ids, labels
        roles = replace(
            reading,
            id=reading.id if ids[0] is None else None,
            label=reading.label if labels[0] is None else None,
        )
        names = names or [f"x{j}" for j in range(d)]
        super().__init__(source, names, reading, roles=roles, notes=notes)

    @abstractmethod
    def _blocks(self, height: int) -> Iterator[Array]:
        """Consecutive slices of the array, of at most `height` rows, as they are stored."""

    def _chunks(self, height: int) -> Iterator[Chunk]:
        start, layout = 0, self._layout
        features = list(layout.features)
        columns = self.columns
        words = [c.name for c in columns if c.kind == "category"]
        if words:
            msg = (
                f"{self.source} holds numbers, but the column {quoted(words[0])} of the model is one of "
                "words. Give a file that has them as words, such as CSV."
            )
            raise DataError(msg)
        names = [c.name for c in columns]
        for block in self._blocks(height):
            rows = slice(start, start + len(block))
            every = features == list(range(block.shape[1]))
            chosen = block if every else block[:, features]
            self._warn_rounded(chosen, names, range(start, rows.stop))
            numbers = self._cast(chosen, names, start)
            ids, labels = (
                block[:, j] if j is not None else None if beside is None else beside[rows]
                for j, (beside, _) in zip((layout.id, layout.label), self._beside, strict=True)
            )
            yield Chunk(start, numbers, {}, ids, labels)
            start = rows.stop


def only_table(shapes: dict[str, tuple[int, ...]], noun: str, *, source: str) -> str:
    """The name of the only one of several arrays that has rows and columns."""
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) == 1:
        return tables[0]
    there = ", ".join(f"{quoted(name)} {shape}" for name, shape in list(shapes.items())[:20])
    msg = (
        f"{source} has {len(tables) or 'no'} {noun} of rows and columns. Say which one with --array; it has "
        f"{there or 'nothing'}."
    )
    raise DataError(msg)


def require_entries(shape: Sequence[int], n: int, *, what: str) -> None:
    """Raise unless there is one entry for each row."""
    if tuple(shape) != (n,):
        msg = f"{what} has the shape {shape}, but one entry for each of the {n} rows was needed."
        raise DataError(msg)


def objects(values: Iterable[Any]) -> Any:
    """Values as a 1-D array of objects, whatever they are."""
    values = list(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
