"""What a CSV file is like, from its head: delimiter, decimal mark, names, and which columns hold words."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from mercer._core.errors import DataError, refuse_data
from mercer.data.columns import KEPT, THOUSANDS, Words, listed
from mercer.data.csv.blocks import LINE_BYTES, Feed, Mark
from mercer.data.csv.numbers import is_missing, is_number
from mercer.data.table import Column, Reading

HEAD_BYTES = 2**20
HEAD_ROWS, HEAD_LINES = 1000, 20  # at most, and at least where the file has them
TRIAL_ROWS = 100  # by which delimiters are compared
MAX_COLUMNS = 10**6
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

Record = tuple[int, list[str]]  # the line in which it begins, and its fields


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, and what its columns are."""

    delimiter: str
    decimal: str
    header: bool
    columns: tuple[Column, ...]  # all of the file, in order
    notes: tuple[str, ...]
    unnamed: tuple[int, ...]  # columns that the header has no name for: row names, or empty ones
    units: tuple[str, ...] | None  # of the columns, where a line below the names has them
    na_values: frozenset[str]


def strict_reader(lines: Any, delimiter: str) -> Any:
    """Blanks after a delimiter don't count; a quote that is not closed, or closed too early, is an error."""
    return csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=delimiter != " ")


def records_of(feed: Feed, delimiter: str, source: str, *, cut: bool = False) -> Iterator[Record]:
    """Every record, with the line in which it begins; `cut`: the text may end inside of a quoted field."""
    reader, read = strict_reader(feed, delimiter), 0
    try:
        for fields in reader:
            yield feed.n_lines - (reader.line_num - read) + 1, fields
            read = reader.line_num
    except csv.Error as error:
        if not cut or "end of data" not in str(error):
            line = feed.n_lines - (reader.line_num - read) + 1
            text, limit = str(error), csv.field_size_limit()
            why = next((words.format(limit) for said, words in WHY.items() if said in text), text)
            msg = f"{source}: the record that begins in line {line} can't be read: {why}."
            raise DataError(msg) from error


# What the csv module says, in our words.
WHY = {
    "field limit": "a field is longer than {} characters; most likely a quote is opened and never closed",
    "end of data": "a quote is opened and never closed",
    "expected after": "text follows a closing quote (a quote inside a quoted field is doubled)",
}


def sniff(
    blocks: Callable[[int], Iterator[tuple[str, int]]], reading: Reading, *, source: str
) -> Dialect:
    """Look at the head of a file, `blocks` of its text: what was asked for is taken, the rest is guessed."""
    text, whole = _first_lines(blocks(HEAD_BYTES))
    if not text.strip():
        refuse_data(f"{source} is empty.", "A header and rows are needed.")
    notes: list[str] = []
    head = partial(_head, text, reading, source)
    given = reading.delimiter
    mark = _checked(given, source) if given else _guess_delimiter(partial(head, cut=True))
    if not given and mark != ",":
        notes.append(f"fields are separated by {DELIMITERS[mark]} (guessed)")
    records = list(head(mark, cut=not whole))  # the next pass reads the whole file
    if not records:
        refuse_data(f"{source} has no record in its first {HEAD_BYTES} bytes.", "Look at the file.")
    if (width := len(records[0][1])) > MAX_COLUMNS:
        refuse_data(f"{source} has {width} fields in its first line; {MAX_COLUMNS} are the most.")
    cells = _Cells(reading.decimal, frozenset(reading.na_values))
    # A line of units hides what the columns below it are.
    tried = (records, records[1:]) if len(records) > 3 else (records,)
    if cells.decimal == "." and mark != "," and any(_has_decimal_commas(r, cells) for r in tried):
        cells = replace(cells, decimal=",")
        notes.append("numbers are written with a decimal comma (guessed)")
    header = reading.header
    if header is None:
        header = _guess_header(records, cells, reading, source)
        if not header:
            notes.append("the file is read as one without a header (guessed)")
    names, unnamed = _names(records, header, cells, source)
    units = _units(records, header, reading.units_row, cells)
    if units is not None:
        shown = listed(list(dict.fromkeys(unit for unit in units if unit)))
        why = f"since it has units{' (guessed)' if reading.units_row is None else ''}"
        notes.append(f"line {records[1][0]} is left out, {why}: {shown}")
    rows = records[int(header) + (units is not None) :]
    if not rows and whole:
        refuse_data(f"{source} has a header and no rows.", "At least one row is needed.")
    columns = tuple(_column(j, name, rows, cells) for j, name in enumerate(names))
    return Dialect(mark, cells.decimal, header, columns, (*notes,), unnamed, units, cells.na_values)


@dataclass(frozen=True)
class _Cells:
    """What the texts of fields are."""

    decimal: str
    na_values: frozenset[str]

    def missing(self, text: str) -> bool:
        return is_missing(text, self.na_values)

    def number(self, text: str) -> bool:
        return is_number(text, self.decimal)

    def filled(self, j: int, rows: Sequence[Record]) -> list[str]:
        """The fields of column j that are not missing."""
        return [fields[j] for _, fields in rows if j < len(fields) and not self.missing(fields[j])]

    def all_numbers(self, column: list[str]) -> bool:
        """Whether there are some, and all of them are numbers."""
        return bool(column) and all(map(self.number, column))


def _first_lines(blocks: Iterator[tuple[str, int]]) -> tuple[str, bool]:
    """The head of the file, more of it where lines are long, and whether that is all of it."""
    text = ""
    for block, _ in blocks:
        text += block
        enough = len(text) >= HEAD_BYTES // 2 and text.count("\n") >= HEAD_LINES
        if enough or len(text) > LINE_BYTES:
            return text, False
    return text, True


def _checked(delimiter: str, source: str) -> str:
    mark = {"tab": "\t", "\\t": "\t", "space": " "}.get(delimiter, delimiter)
    if len(mark) != 1 or mark in '"\r\n':
        must_be = "one character that is not a quote and does not end a line"
        raise DataError.about(parameter="delimiter", value=delimiter, must_be=must_be, of=source)
    return mark


def _head(text: str, reading: Reading, source: str, mark: str, *, cut: bool) -> Iterator[Record]:
    """The first records that are not blank, nor comments; the text may end inside of one."""
    feed = Feed(iter([(text, 0)]), Mark(0, reading.skip_rows), reading.comment)
    every = records_of(feed, mark, source, cut=cut)
    filled = ((line, fields) for line, fields in every if any(f.strip() for f in fields))
    return islice(filled, HEAD_ROWS)


# ── guesses ─────────────────────────────────────────────────────────────────
def _guess_delimiter(head: Callable[[str], Iterator[Record]]) -> str:
    """That which gives all lines the same number of fields, most of them numbers, and many of them."""

    def merit(mark: str) -> tuple[bool, float, int]:
        records: list[list[str]] = []
        with suppress(DataError):  # one by one: those before an error count
            for _, fields in islice(head(mark), TRIAL_ROWS):
                records.append(fields)
        widths = {len(fields) for fields in records}
        if not records or max(widths) == 1:
            return False, 0.0, 0
        cells = [cell for fields in records for cell in fields if not is_missing(cell)]
        good = sum(is_number(c) or (mark != "," and is_number(c, ",")) for c in cells)
        return len(widths) == 1, round(good / max(len(cells), 1), 3), max(widths)

    return max(DELIMITERS, key=merit)  # the comma stands first and wins a tie


def _has_decimal_commas(records: list[Record], cells: _Cells) -> bool:
    """Whether 3,14 is how the file writes numbers; not if 3.14 is there too, or if all may be thousands."""
    commas: list[str] = []
    for column in zip(*(fields for _, fields in records[1:] or records), strict=False):
        filled = [cell.strip() for cell in column if not cells.missing(cell)]
        if any("." in cell for cell in filled) and all(map(is_number, filled)):
            return False
        if filled and all(is_number(cell, ",") for cell in filled):
            commas += [cell for cell in filled if "," in cell]
    return bool(commas) and not all(THOUSANDS.fullmatch(cell) for cell in commas)


def _guess_header(records: list[Record], cells: _Cells, reading: Reading, source: str) -> bool:
    """Names are words, and numbers stand below them; where that does not tell, ask."""
    line, first = records[0]
    words = [not cells.number(cell) and not cells.missing(cell) for cell in first]
    if not any(words):
        return False
    asked = {reading.id, reading.label, *(reading.columns or ())} - {None}
    if len(records) == 1 or asked & {cell.strip() for cell in first}:
        return True
    if all(word or cells.missing(cell) for word, cell in zip(words, first, strict=True)):
        return True
    below = [cells.filled(j, records[1:]) for j in range(len(first))]
    if any(word and cells.all_numbers(below[j]) for j, word in enumerate(words)):
        return True
    if _is_within(first, words, below, cells):
        return False
    msg = f"{source}: line {line} may be names or the first row: {listed(first)}."
    remedy = "Use `header=True` if it has the names of the columns, and `header=False` if not."
    raise DataError.saying(msg, remedy, parameter="header")


def _is_within(first: list[str], words: list[bool], below: list[list[str]], cells: _Cells) -> bool:
    """Whether the numbers of the first line are like those below them: wavelengths as names are not."""
    for j, cell in enumerate(first):
        if words[j] or cells.missing(cell):
            continue
        if len(below[j]) < 5 or not cells.all_numbers(below[j]):
            return False
        values = [float(c.replace(",", ".")) for c in below[j]]
        if not min(values) <= float(cell.replace(",", ".")) <= max(values):
            return False
    return True


# ── columns ─────────────────────────────────────────────────────────────────
def _names(
    records: list[Record], header: bool, cells: _Cells, source: str
) -> tuple[list[str], tuple[int, ...]]:
    """The names of all columns, and which of them have none: the first, of row names, and empty ones."""
    first = records[0][1]
    if not header:
        return [f"x{j}" for j in range(len(first))], ()
    names = [cell.strip() for cell in first]
    unnamed = tuple(j for j, name in enumerate(names) if not name)
    for j in unnamed:
        names[j] = f"column {j + 1}"
        if j > 0 and cells.filled(j, records[1:]):
            raise nameless(j, source)
    return names, unnamed


def nameless(j: int, source: str) -> DataError:
    """The error for values that stand below no name."""
    return DataError.saying(
        f"{source}: column {j + 1} has values and no name in the header.",
        "Give it one, or use `header=False` if the first line is not a header.",
        parameter="header",
    )


def _units(
    records: list[Record], header: bool, asked: bool | None, cells: _Cells
) -> tuple[str, ...] | None:
    """The line of units below the names: as asked for, or where words stand above nothing but numbers."""
    # Names, units and two rows: fewer don't show that words above them are units.
    if not header or asked is False or len(records) < (2 if asked else 4):
        return None
    units = tuple(cell.strip() for cell in records[1][1])
    if asked or len(units) != len(records[0][1]):
        return units if asked else None
    words = [unit for unit in enumerate(units) if not cells.missing(unit[1])]
    below = [u for j, u in words if cells.all_numbers(cells.filled(j, records[2:]))]
    return units if below and not any(map(cells.number, below)) else None


def _column(j: int, name: str, rows: Sequence[Record], cells: _Cells) -> Column:
    some: dict[str, None] = {}
    first, n_words, n_filled = 0, 0, 0
    for line, fields in rows:
        if j >= len(fields) or cells.missing(fields[j]):
            continue
        n_filled += 1
        if not cells.number(fields[j]):
            n_words += 1
            first = first or line
            if len(some) < KEPT:
                some[fields[j].strip()] = None
    if not n_words:
        return Column(name)
    words = Words(tuple(some), first, n_words, n_filled)
    return Column(name, "category", words.example, words)
