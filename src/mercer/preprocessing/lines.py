"""Lines of a CSV as rows of a model, one at a time, as historians write them. No line ends the stream."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer._core.errors import DataError, MercerError
from mercer._core.types import Array
from mercer.data.columns import listed, position
from mercer.data.csv.numbers import is_missing, is_number
from mercer.data.csv.sniff import DELIMITERS
from mercer.data.historian import is_good, quality_columns
from mercer.data.table import Chunk, Reading, objects
from mercer.data.times import as_times
from mercer.preprocessing.learn import Unseen
from mercer.preprocessing.preparation import Preparation


@dataclass(frozen=True, eq=False)
class Arrived:
    """Rows of some lines as the model takes them, their times and labels, and what is wrong with a line."""

    rows: Array  # (b, d), NaN where a cell is missing, bad or not a number
    times: list[Any]
    labels: list[str] | None
    bad: list[str]  # (b,) why a line has no row, or nothing
    clock: list[Any] | None = None  # (b,) times by the format that was given, if one was


@dataclass(frozen=True)
class Layout:
    """Where the columns of a model stand in a line."""

    names: tuple[str, ...]  # all of the header, or x0, x1, …
    delimiter: str
    header: bool
    numbers: tuple[int, ...]
    words: tuple[int, ...]
    id: int | None
    label: int | None
    quality: dict[int, int] = field(default_factory=dict)  # columns of readings to their quality
    lacks: str = ""  # why no line below these names is a row of the model


NO_NAMES = Layout((), ",", False, (), (), None, None)  # before the first line


class LineReader:
    """Reads lines by the names in their header, which may come again after a file was replaced.

    How lines are written, where `reading` does not say it, is guessed from the first one.
    """

    def __init__(self, preparation: Preparation, reading: Reading, source: str) -> None:
        self._preparation, self._reading, self._source = preparation, reading, source
        self.layout = NO_NAMES
        self.head: str | None = None  # the line that the layout is read off
        self.notes: list[str] = []
        self._skip = reading.skip_rows
        self.records: list[Any] = []  # of the lines that were read last
        self._units = False  # whether the next line may be one of units
        self._fresh = True  # whether it is the first of a file
        self._later = False  # whether the names that lines are read by are not the first ones

    def __call__(self, lines: Sequence[str], *, fresh: bool = False) -> Arrived:
        """The rows of the next lines; ``fresh`` where they are the first of a file."""
        if fresh:
            self._skip, self._fresh = self._reading.skip_rows, True
        self.records = [fields for line in lines if (fields := self._fields(line)) is not None]
        return self._all_rows()

    def parted(self, lines: list[str]) -> Iterator[list[str]]:
        """The lines in parts that each have one line of names at most, at their beginning."""
        begin = 0
        for i, line in enumerate(lines):
            if i > begin and self._names_all(line):
                yield lines[begin:i]
                begin = i
        yield lines[begin:]

    def beside(self, other: LineReader) -> Arrived:
        """The rows of the lines that another reader has just read, for a model of other columns perhaps."""
        if other.head != self.head:
            self.go_on(other.head, later=self.layout is not NO_NAMES)
        self.records = other.records
        return self._all_rows()

    def rest(self) -> Arrived:
        """The row that waits for more lines, now that there are none: a line of a CSV waits for nothing."""
        self.records = []
        return self._all_rows()

    def _all_rows(self) -> Arrived:
        if self.layout is NO_NAMES:
            return Arrived(np.empty((0, len(self._preparation.features))), [], None, [])
        return self._rows(self.records)

    def go_on(self, head: str | None, *, later: bool = True) -> None:
        """Read lines as below this line of names; a later one that lacks columns does not end the stream."""
        if head is None:
            return
        delimiter, names = self._parted(head)
        try:
            self.layout = self._layout(delimiter, names)
        except DataError as error:
            if not later:
                raise
            self._lay_aside(delimiter, names, error)
        self.head, self._skip, self._later = head, 0, later

    # ── lines ───────────────────────────────────────────────────────────────
    def _parted(self, line: str) -> tuple[str, list[str]]:
        """The delimiter, where it is not given that of most names or most fields, and the fields."""

        def merit(mark: str) -> tuple[int, int]:
            cells = [cell.strip() for cell in split(line, mark)]
            return sum(cell in self._columns for cell in cells), len(cells)

        delimiter = self._reading.delimiter or max(DELIMITERS, key=merit)
        return delimiter, [cell.strip() for cell in split(line, delimiter)]

    @cached_property
    def _columns(self) -> frozenset[str]:
        return frozenset(self._preparation.columns)

    def _is_head(self, line: str) -> bool:
        """Whether a line names all columns of the model and, where rows have one, that of their times."""
        names, id_ = self.layout.names, self.layout.id
        beside = set() if id_ is None else {names[id_]}
        # One name alone may be a word in a row.
        several = self.layout.header and len(self._columns) + len(beside) > 1
        return several and self._names_all(line, beside)

    def _names_all(self, line: str, beside: Set[str] = frozenset()) -> bool:
        # Most lines are rows, and are not parted for this.
        first = self._preparation.columns[0]
        return first in line and self._columns | beside <= {*self._parted(line)[1]}

    def _is_other_head(self, line: str) -> bool:
        """Whether a new file begins with names: in another order, others beside them, or not all of them."""
        known, cells = set(self._preparation.numbers), {*self._parted(line)[1]}
        some = bool(known & cells) and not any(map(self._is_number, cells))
        return self.layout.header and (some or known <= cells)

    def _fields(self, line: str) -> list[str] | None:
        """The fields of a line that is a row; None for blank lines, comments, names and units."""
        if self._skip:
            self._skip -= 1
            return None
        comment = self._reading.comment
        if not line.strip() or (comment is not None and line.startswith(comment)):
            return None
        fresh, self._fresh = self._fresh, False
        heads = self._is_other_head if fresh else self._is_head
        later = self.layout is not NO_NAMES
        if not later or heads(line):
            self.go_on(line, later=later)
        fields = split(line, self.layout.delimiter)
        if self.layout.header and tuple(cell.strip() for cell in fields) == self.layout.names:
            self._units = self._reading.units_row is not False
            return None  # the names, or the names once more
        units, self._units = self._units, False
        if units and self.layout.header and self._is_units(fields):
            different = dict.fromkeys(cell.strip() for cell in fields if cell.strip())
            self._note(f"a line of units is left out: {listed(list(different))}")
            self._check_units(fields)
            return None
        return fields

    def _is_units(self, fields: list[str]) -> bool:
        """Whether words stand in place of all readings, and none of them says that there is no reading."""
        if self._reading.units_row or len(fields) != len(self.layout.names):
            return bool(self._reading.units_row)
        cells = [fields[j] for j in self.layout.numbers]
        words = [cell for cell in cells if not self._missing(cell)]
        return bool(words) and not any(self._is_number(c) or is_good(c) is False for c in words)

    def _check_units(self, fields: list[str]) -> None:
        """Refuse other units than those of the fit; in a later file, the rows below them."""
        cells = [_cell(fields, j) or "" for j in self.layout.numbers]
        try:
            units = ["" if self._missing(cell) else cell for cell in cells]
            self._preparation.check_units(units, self._source)
        except DataError as error:
            if not self._later:
                raise
            self._lay_aside(self.layout.delimiter, list(self.layout.names), error)

    def _layout(self, delimiter: str, cells: list[str]) -> Layout:
        reading, header = self._reading, self._reading.header
        if header is None:
            header = not all(self._is_number(cell) or self._missing(cell) for cell in cells)
        names = cells if header else [f"x{j}" for j in range(len(cells))]
        id_ = self._beside(names, "id", reading.id_option, named=header)
        label = self._beside(names, "label", "`label`", named=header)
        places = self._places(names, {id_, label}, named=header)
        p = len(self._preparation.numbers)
        found = quality_columns(names) if header else {}
        beside = {*places, id_, label}  # a variable of the model judges no other
        quality = {j: found[j] for j in places if j in found and found[j] not in beside}
        if quality:
            judges = [names[j] for j in quality.values()]
            self._note(f"which readings count is read from {listed(judges)}")
        numbers, words = tuple(places[:p]), tuple(places[p:])
        return Layout(tuple(names), delimiter, header, numbers, words, id_, label, quality)

    def _lay_aside(self, delimiter: str, names: list[str], error: DataError) -> None:
        """Lay out lines that are no rows of the model, which have their times all the same."""
        why = str(error).removesuffix(error.remedy).partition(", which")[0].rstrip(". ")
        id_ = self._reading.id or self._preparation.id
        at = names.index(id_) if id_ in names else None
        self.layout = Layout(tuple(names), delimiter, True, (), (), at, None, lacks=why)
        self._note(f"{why}: its rows are not judged")

    def _beside(self, names: list[str], what: str, option: str, *, named: bool) -> int | None:
        asked, trained = getattr(self._reading, what), getattr(self._preparation, what)
        if asked is None:
            return names.index(trained) if trained in names else None
        places = {name: j for j, name in reversed(list(enumerate(names)))}
        return position(asked, places, source=self._source, named=named, option=option)

    def _places(self, names: list[str], beside: set[int | None], *, named: bool) -> list[int]:
        wanted = self._preparation.columns
        if all(name in names for name in wanted):
            return [names.index(name) for name in wanted]
        free = [j for j in range(len(names)) if j not in beside]
        by_position = not named or self._preparation.is_nameless
        if by_position and len(free) == len(wanted) and not self._preparation.categories:
            self._note("columns are matched by position: names are missing")
            return free
        # A line of numbers that begins with a time is a row, and its names are missing.
        named = named and 2 * sum(map(self._is_number, names)) <= len(names)
        remedy = None if named else "Begin with a line of names."
        absent = [name for name in wanted if name not in names]
        raise self._preparation.lacking(absent, names, self._source, remedy)

    # ── rows ────────────────────────────────────────────────────────────────
    def _rows(self, records: list[list[str]]) -> Arrived:
        layout, p = self.layout, len(self._preparation.numbers)
        rows = np.full((len(records), len(self._preparation.features)), np.nan)
        times = [_cell(fields, layout.id) for fields in records]
        clock = self._clock(times)
        if layout.lacks:
            return Arrived(rows, times, None, [layout.lacks] * len(records), clock)
        width = len(layout.names)
        bad = [
            "" if len(fields) == width else f"{len(fields)} fields in place of {width}"
            for fields in records
        ]
        whole = [i for i, why in enumerate(bad) if not why]
        numbers = np.empty((len(whole), p))
        for k, i in enumerate(whole):
            numbers[k] = [self._reading_of(records[i], j) for j in layout.numbers]
        if self._reading.dtype is not None:
            with np.errstate(over="ignore"):
                numbers = numbers.astype(self._reading.dtype)
        if layout.words:
            self._with_words(rows, bad, whole, numbers, records)
        elif whole:
            rows[whole] = self._prepared(Chunk(0, numbers, {}))
        labels = None if layout.label is None else [_cell(f, layout.label) or "" for f in records]
        return Arrived(rows, times, labels, bad, clock)

    def _clock(self, times: list[Any]) -> list[Any] | None:
        """The times by the format that was given; None for one that is written otherwise."""
        form = self._reading.time_format
        if form is None:
            return None
        clock: list[Any] = [None] * len(times)
        for i, time in enumerate(times):
            with suppress(DataError):
                clock[i] = as_times([time], form)[0]
        return clock

    def _with_words(
        self, rows: Array, bad: list[str], whole: list[int], numbers: Array, records: Any
    ) -> None:
        """Rows with columns of words, one by one: one that holds a new word is no row of the model."""
        unseen, lenient = Unseen(), self._preparation.lenient
        columns = list(zip(self._preparation.categories, self.layout.words, strict=True))
        for k, i in enumerate(whole):
            words = {name: objects([records[i][j].strip() or None]) for (name, _), j in columns}
            chunk = Chunk(0, numbers[k : k + 1], words)
            unseen.add(chunk, lenient)
            try:
                rows[i] = self._prepared(chunk)[0]
            except MercerError as error:
                bad[i] = str(error).partition(".")[0]
        for name in unseen.counts:
            self._note(f"words of column {name!r} that the training rows did not have became zeros")

    def _prepared(self, chunk: Chunk) -> Array:
        """Coded, filled and scaled; what is too large to be scaled is the largest number there is."""
        own = self._preparation
        rows = own.scaled(own.filled(own.coded(chunk)))
        return np.where(np.isnan(rows), np.nan, np.nan_to_num(rows))

    def _reading_of(self, fields: list[str], j: int) -> float:
        """A reading; NaN where it is missing, of bad quality or a word such as No Data."""
        quality, cell = self.layout.quality.get(j), fields[j]
        bad = quality is not None and is_good(fields[quality]) is False
        if bad or self._missing(cell) or not self._is_number(cell):
            return np.nan
        return float(self._pointed(cell))

    def _is_number(self, cell: str) -> bool:
        return is_number(self._pointed(cell))

    def _missing(self, cell: str) -> bool:
        return is_missing(cell, frozenset(self._reading.na_values))

    def _pointed(self, cell: str) -> str:
        """With a decimal point, where the comma is not what parts the fields."""
        apart = self.layout.delimiter != "," and "," in cell and "." not in cell
        return cell.replace(",", ".") if apart or self._reading.decimal == "," else cell

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line; a quote that is never closed ends with the line."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=delimiter != " "), [])
    except csv.Error:
        return [line]


def _cell(fields: list[str], j: int | None) -> Any:
    return fields[j].strip() if j is not None and j < len(fields) else None
