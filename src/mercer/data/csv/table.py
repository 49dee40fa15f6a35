"""CSV and TSV files, read in blocks of lines: by Arrow's or NumPy's parser, or by the csv module."""

from __future__ import annotations

import csv
import io
import re
import warnings
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mercer._core.errors import many, quoted, refuse_data
from mercer._core.types import Array
from mercer.data.csv.blocks import BLOCK_BYTES, Feed, Mark, after_lines, text_blocks
from mercer.data.csv.numbers import MISSING, PLAIN, WordError, is_missing, numbers, why_no_number
from mercer.data.csv.sniff import Dialect, nameless, records_of, sniff, strict_reader
from mercer.data.files import Stamp
from mercer.data.frames import MissingPackageError, need
from mercer.data.rounding import LONG_WHOLE, WHOLE, first_rounded, warn_of_rounded
from mercer.data.rows import row_slices
from mercer.data.table import ROUNDED, Chunk, Column, Kind, Reading, Table, objects

# What an error says after the place of a value that is not a number.
REMEDY = (
    "Correct it, leave the field empty if the value is missing (or name it in `na_values`), or leave the "
    "column out with `columns`."
)


class CsvTable(Table):
    """Lines of fields. Memory is bounded by a block of the file, however long it is."""

    _seeks = True  # whether a pass can begin at a mark

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        self._path, self.source, self.stamp = path, source, Stamp.of(path)
        # Where rows begin that have been met: (row, place in the file).
        self._marks = [(0, self._first_mark(reading))]
        self._dialect = sniff(self._texts, reading, source=source)
        self._no_words = self._dialect.na_values  # which stand for a missing word
        self.named = self._dialect.header
        names = [column.name for column in self._dialect.columns]
        # What is left out here has a note of its own.
        roles, said = _without_unnamed(reading, names, self._dialect.unnamed)
        super().__init__(source, names, reading, roles=roles, notes=(*self._dialect.notes, *said))
        units = zip(names, self._dialect.units or (), strict=False)
        self.units = {name: unit for name, unit in units if not is_missing(unit)}
        self._empty = [j for j in self._dialect.unnamed if j > 0]

    def _first_mark(self, reading: Reading) -> Mark:
        if reading.skip_rows == 0:
            return Mark()  # without opening the file
        return after_lines(self._path, reading.skip_rows, source=self.source)

    def _texts(self, block_bytes: int | None = None, begin: Mark | None = None) -> Any:
        """The text of the file from a mark on, in blocks."""
        sized = {} if block_bytes is None else {"block_bytes": block_bytes}
        begin = begin or self._marks[0][1]
        return text_blocks(self._path, source=self.source, begin=begin, **sized)

    def with_missing(self, texts: frozenset[str]) -> Table:
        other = self._laid_out(self._layout)
        other._dialect = replace(self._dialect, na_values=self._dialect.na_values | texts)  # type: ignore[attr-defined]
        return other

    def _column(self, j: int) -> Column:
        return self._dialect.columns[j]

    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        row, mark = self._marks[bisect_right(self._marks, start, key=itemgetter(0)) - 1]
        feed = Feed(self._texts(begin=mark), mark, self.reading.comment)
        if row == 0:
            records = strict_reader(feed, self._dialect.delimiter)
            heads = (fields for fields in records if any(field.strip() for field in fields))
            n_heads = int(self._dialect.header) + (self._dialect.units is not None)
            deque(islice(heads, n_heads), maxlen=0)
        blank = 0
        while text := feed.rest():
            chunk = self._plain_chunk(text, row, feed)
            if chunk is None:
                chunk, n_blank = self._chunk(row, feed)
                blank += n_blank
            row += len(chunk)
            if self._seeks and row > self._marks[-1][0]:
                self._marks.append((row, feed.mark))
            for rows in row_slices(len(chunk), height):
                yield chunk[rows]
        if blank:
            self.note_once("blank", f"{many(blank, 'blank line')} skipped")

    def resident_bytes(self) -> int:
        """A block as bytes, as text, and with four bytes a letter where it is taken line by line."""
        return super().resident_bytes() + 12 * BLOCK_BYTES

    # ── by Arrow, or by NumPy ───────────────────────────────────────────────
    def _plain_chunk(self, text: str, start: int, feed: Feed) -> Chunk | None:
        """A block whose lines a parser reads as the csv module would, many times as fast; None otherwise."""
        comment = self.reading.comment
        if comment is not None and comment in text:
            return None
        numbers = self._places("number")
        texts = [j for j in (*self._places("category"), *self._layout.beside) if j is not None]
        found = parsed(text, self._dialect, numbers, texts)
        if found is None and not texts:
            found = self._parsed_numbers(text, numbers)
        if found is None:
            return None
        if ROUNDED not in self.noted and _is_large(found.numbers).any() and LONG_WHOLE.search(text):
            return None  # fields are looked at one by one
        first = feed.n_lines + 1
        lines = np.arange(first, first + len(found.numbers))
        feed.skip(len(lines))
        return self._made(start, found, lines)

    def _places(self, kind: Kind) -> list[int]:
        """Where the features of a kind are in the file."""
        pairs = zip(self._layout.features, self.columns, strict=True)
        return [j for j, column in pairs if column.kind == kind]

    def _made(self, start: int, found: Parsed, lines: Any) -> Chunk:
        words = {self.names[j]: self._words(found.texts[j]) for j in self._places("category")}
        ids, labels = (None if j is None else found.texts[j] for j in self._layout.beside)
        names = [self.names[j] for j in self._places("number")]
        numbers = self._cast(found.numbers, names, start, lines)
        return Chunk(start, numbers, words, ids, labels, lines)

    def _parsed_numbers(self, text: str, numbers: list[int]) -> Parsed | None:
        """A block of nothing but numbers, by NumPy's parser."""
        mark, decimal = self._dialect.delimiter, self._dialect.decimal
        unlike = self._empty or self._dialect.na_values or mark == decimal or mark in NUMERIC
        if unlike or not text.isascii() or not mark.isascii():
            return None
        if decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        if text.encode().translate(None, PLAIN + mark.encode() + b"\r\n"):
            return None
        n_lines = text.count("\n") + (not text.endswith("\n"))
        block, lines = np.empty((0, 0)), io.StringIO(text, newline="")
        # What is ragged, infinite or has blank lines is left to the other path, which knows what to say.
        with suppress(ValueError, UserWarning), warnings.catch_warnings():
            warnings.simplefilter("error")
            block = np.loadtxt(lines, delimiter=mark, comments=None, ndmin=2)
        if block.shape != (n_lines, len(self.names)) or np.isinf(block).any():
            return None
        every = numbers == list(range(block.shape[1]))
        return Parsed(block if every else block[:, numbers], {})

    # ── anything ────────────────────────────────────────────────────────────
    def _chunk(self, start: int, feed: Feed) -> tuple[Chunk, int]:
        """The rest of a block, to the end of its last record, and how many blank lines were in it."""
        records, lines, blank = self._records(feed)
        cells = list(zip(*records, strict=True)) or [()] * len(self.names)  # by column
        for j in self._empty:
            if not all(is_missing(cell, self._dialect.na_values) for cell in cells[j]):
                raise nameless(j, self.source)
        numbers = self._places("number")
        values = [self._numbers(cells[j], lines, self.names[j], first=start == 0) for j in numbers]
        block = np.column_stack(values) if values else np.empty((len(records), 0))
        self._warn_long([cells[j] for j in numbers], block, lines)
        texts: dict[Any, Any] = {j: cells[j] for j in self._places("category")}
        texts |= {j: objects(cells[j]) for j in self._layout.beside if j is not None}
        return self._made(start, Parsed(block, texts), np.array(lines, dtype=np.intp)), blank

    def _records(self, feed: Feed) -> tuple[list[list[str]], list[int], int]:
        width, blank, mark = len(self.names), 0, self._dialect.delimiter
        given = "names in the header" if self.named else "fields in the first line"
        records: list[list[str]] = []
        lines: list[int] = []
        for begins, fields in records_of(feed, mark, self.source):
            if len(fields) == width or (width == 1 and not fields):
                records.append(fields or [""])  # of one column, a blank line is an empty field
                lines.append(begins)
            elif len(fields) <= 1 and not "".join(fields).strip():
                blank += 1
            else:
                found = f"line {begins} has {many(len(fields), 'field')}"
                what = f"{self.source}: {found}, but there are {width} {given}."
                remedy = f"Correct the line, or give the `delimiter` if it is not {mark!r}."
                refuse_data(what, remedy, parameter="delimiter", value=mark)
            if feed.at_end_of_block:
                break
        return records, lines, blank

    def _numbers(self, texts: Sequence[str], lines: list[int], name: str, *, first: bool) -> Array:
        try:
            return numbers(texts, self._dialect.decimal, self._dialect.na_values)
        except WordError as error:
            why, hint = why_no_number(error.text, self._dialect.decimal)
            msg = f"{self.source}: {why}, in line {lines[error.at]}, column {quoted(name)}."
            # Below the names, above too few numbers to tell words there from units.
            below = first and error.at == 0 and self._dialect.header
            if below and self._dialect.units is None and self.reading.units_row is None:
                hint = f"If that line has the units of the columns, use `units_row=True`. {hint}".rstrip()
            refuse_data(msg, f"{hint} {REMEDY}".lstrip(), parameter="X", value=error.text)

    def _words(self, texts: Sequence[str]) -> Any:
        return objects(None if is_missing(text, self._no_words) else text.strip() for text in texts)

    def _warn_long(self, texts: Sequence[Sequence[str]], block: Array, lines: list[int]) -> None:
        """Warn, once a file, of whole numbers that are written out and that float64 does not hold."""
        large = _is_large(block)
        if ROUNDED in self.noted or not large.any():
            return
        sheet = np.zeros(block.shape, dtype=object)
        for i, j in np.argwhere(large):
            sheet[i, j] = texts[j][i].strip()
        found = first_rounded(sheet)
        if found is not None:
            self.noted.add(ROUNDED)
            names = [self.names[j] for j in self._places("number")]
            warn_of_rounded(found, what=self.source, names=names, at=f"line {lines[found.row]}")


def _without_unnamed(
    reading: Reading, names: list[str], unnamed: tuple[int, ...]
) -> tuple[Reading, list[str]]:
    """Columns without a name are no features: the first one, as pandas and R write it, holds row names."""
    if not unnamed or reading.columns is not None:
        return reading, []
    notes = []
    if 0 in unnamed and reading.id is None:
        reading = replace(reading, id=names[0])
        notes.append("the first column has no name: kept as the ids of the rows, not a feature")
    elif 0 in unnamed:
        notes.append("the first column has no name: left out")
    if unnamed != (0,):
        places = ", ".join(str(j + 1) for j in unnamed if j > 0)
        notes.append(f"empty column(s) without a name left out: {places}")
    kept = (name for j, name in enumerate(names) if j not in unnamed)
    columns = tuple(name for name in kept if name not in (reading.id, reading.label))
    return replace(reading, columns=columns), notes


def _is_large(block: Array) -> Any:
    return np.abs(block) >= WHOLE


# ── by Arrow, ten times as fast as the csv module: the same bits, or none at all ───
# Arrow is handed only what it can't read otherwise than the csv module and `numbers` do, with their list of
# missing values. Where it raises, or finds what is not a finite number, the block goes the slow way, which
# knows what to say and in which line.
LEAST_CHARACTERS = 2**18  # fewer are read before Arrow is imported
NUMERIC = "0123456789.+-eE "  # of which numbers are made
LEAST_ROWS = 16  # in a block: Arrow has some work for each column


class Parsed(NamedTuple):
    """The fields of a block of lines, a line each."""

    numbers: Array  # (b, p)
    texts: dict[int, Any]  # of each column of texts, (b,) objects


def parsed(text: str, dialect: Dialect, numbers: list[int], texts: list[int]) -> Parsed | None:
    """The columns of numbers and of texts at these positions; None where Arrow can't be used."""
    if len(text) < LEAST_CHARACTERS or not _is_plain(text, dialect, with_texts=bool(texts)):
        return None
    data = text.encode()
    ends = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")), len(data))
    n_lines = len(ends) - text.endswith("\n")
    # What the csv module takes for a quote that is never closed is read by Arrow.
    if n_lines < LEAST_ROWS or np.max(np.diff(ends, prepend=-1)) > csv.field_size_limit():
        return None
    table = _read(data, dialect, numbers, texts)
    if table is None or table.num_rows != n_lines:  # a blank line is passed over
        return None
    block, n_missing = np.empty((n_lines, len(numbers))), 0
    for i, j in enumerate(numbers):
        column = table.column(str(j))
        block[:, i] = column.to_numpy(zero_copy_only=False)
        n_missing += column.null_count
    if np.count_nonzero(~np.isfinite(block)) != n_missing:
        return None  # inf, 1e999, or a NaN that is not in our list
    return Parsed(block, {j: table.column(str(j)).to_numpy(zero_copy_only=False) for j in texts})


def _is_plain(text: str, dialect: Dialect, *, with_texts: bool) -> bool:
    """Whether the rules of the csv module and those of Arrow mean the same in this text."""
    mark = dialect.delimiter
    if not mark.isascii() or mark in NUMERIC:
        return False
    if "\r" in text and text.count("\r") != text.count("\r\n"):
        return False
    if text.startswith("\ufeff"):  # which Arrow takes for a mark of the file
        return False
    blanks = " \t".replace(mark, "")
    if any(blank in text for blank in blanks):
        # csv skips blanks before a field, also before its quote; Arrow trims those around numbers, but not
        # around what is listed as missing.
        begins = any(f"{before}{b}" in text for before in (mark, "\n") for b in blanks)
        if (begins or text[0] in blanks) and (with_texts or '"' in text):
            return False
        if dialect.na_values:
            return False
    return '"' not in text or '"' not in _quoted(mark).sub("", text)


@cache
def _quoted(mark: str) -> re.Pattern[str]:
    """Fields that are quoted as they should be, each within a line."""
    m = re.escape(mark)
    return re.compile(rf'(?:(?<=[{m}\n])|\A)"(?:[^"\r\n]|"")*"(?=[{m}\r\n]|\Z)')


@cache
def _missing(na_values: frozenset[str]) -> list[str]:
    """What stands for nothing, in all cases of letters."""
    words = (product(*({c, c.upper()} for c in word)) for word in MISSING)
    return sorted({"".join(letters) for cases in words for letters in cases} | na_values)


def _read(data: bytes, dialect: Dialect, numbers: list[int], texts: list[int]) -> Any:
    """A table of these columns; None where Arrow is not installed, or refuses what it reads."""
    try:
        pyarrow, reader = need("pyarrow", extra="parquet"), need("pyarrow.csv", extra="parquet")
    except MissingPackageError:
        return None
    kinds = {str(j): pyarrow.null() for j in dialect.unnamed if j > 0}  # where nothing may stand
    kinds |= {str(j): pyarrow.float64() for j in numbers}
    kinds |= {str(j): pyarrow.string() for j in texts}
    names = [str(j) for j in range(len(dialect.columns))]
    try:
        return reader.read_csv(
            pyarrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            reader.ParseOptions(delimiter=dialect.delimiter),
            reader.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                null_values=_missing(dialect.na_values),
                decimal_point=dialect.decimal,
            ),
        )
    except pyarrow.ArrowException:  # which the slow way says with its line and column
        return None
