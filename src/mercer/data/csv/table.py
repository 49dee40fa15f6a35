"""CSV and TSV files, read in blocks of lines: plain numbers by NumPy's parser, all else by the csv module."""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, many, quoted
from mercer.data.csv.blocks import Feed, text_blocks
from mercer.data.csv.numbers import PLAIN, WordError, is_missing, numbers, why_no_number
from mercer.data.csv.sniff import csv_error, nameless, sniff, strict_reader
from mercer.data.files import Stamp
from mercer.data.rounding import LONG_WHOLE, WHOLE, first_rounded, warn_of_rounded
from mercer.data.rows import row_slices
from mercer.data.table import ROUNDED, Chunk, Column, Reading, TableFile, objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mercer._core.types import Array

# What an error says after the place of a value that is no number.
REMEDY = "Correct it, leave the field empty if the value is missing, or leave the column out with --columns."


def open_csv(path: Path, reading: Reading, *, shown: str) -> CsvTable:
    """A file of fields; the delimiter is guessed unless it is given."""
    return CsvTable(path, reading, source=f"CSV file {shown}", delimiter=None)


def open_tsv(path: Path, reading: Reading, *, shown: str) -> CsvTable:
    """A file of fields with tabs between them, unless another delimiter is given."""
    return CsvTable(path, reading, source=f"TSV file {shown}", delimiter="\t")


class CsvTable(TableFile):
    """Lines of fields. Memory is bounded by a block of the file, however long it is."""

    def __init__(self, path: Path, reading: Reading, *, source: str, delimiter: str | None) -> None:
        self._path, self.stamp = path, Stamp.of(path)
        self._dialect = sniff(path, reading, source=source, delimiter=delimiter)
        self.named = self._dialect.header
        names = [column.name for column in self._dialect.columns]
        # What is left out here has a note of its own.
        roles, said = _without_unnamed(reading, names, self._dialect.unnamed)
        super().__init__(source, names, reading, roles=roles, notes=(*self._dialect.notes, *said))
        self._empty = [j for j in self._dialect.unnamed if j > 0]

    def _column(self, j: int) -> Column:
        return self._dialect.columns[j]

    def _chunks(self, height: int) -> Iterator[Chunk]:
        feed = Feed(text_blocks(self._path, source=self.source))
        if self._dialect.header:
            records = strict_reader(feed, self._dialect.delimiter)
            next((fields for fields in records if any(field.strip() for field in fields)), None)
        start = blank = 0
        while text := feed.rest():
            chunk = self._plain_chunk(text, start, feed)
            if chunk is None:
                chunk, n_blank = self._chunk(start, feed)
                blank += n_blank
            for rows in row_slices(len(chunk), height):
                yield _cut(chunk, rows)
            start += len(chunk)
        if blank and "blank" not in self.told:
            self.told.add("blank")
            self.notes.append(f"{many(blank, 'blank line')} passed over")

    # ── numbers alone ───────────────────────────────────────────────────────
    def _plain_chunk(self, text: str, start: int, feed: Feed) -> Chunk | None:
        """A block of nothing but numbers, twice as fast; None where there is anything else."""
        mark, decimal, layout = self._dialect.delimiter, self._dialect.decimal, self._layout
        special = layout.id is not None or layout.label is not None or bool(self._empty)
        special = special or any(column.kind == "category" for column in self.columns)
        if special or mark == decimal or not text.isascii() or not mark.isascii():
            return None
        data = text.encode()
        if decimal == ",":
            if b"." in data:
                return None
            data = data.replace(b",", b".")
        if mark.encode() in PLAIN or data.translate(None, PLAIN + mark.encode() + b"\r\n"):
            return None
        n_lines = text.count("\n") + (not text.endswith("\n"))
        block = _parsed(data.decode(), mark)
        # Other shapes are ragged or have blank lines: the other path knows what to say.
        if block is None or block.shape != (n_lines, len(self.names)) or np.isinf(block).any():
            return None
        if ROUNDED not in self.told and _is_large(block).any() and LONG_WHOLE.search(data.decode()):
            return None  # there the fields are looked at one by one
        lines = np.arange(feed.n_lines + 1, feed.n_lines + 1 + n_lines)
        feed.skip(n_lines)
        features = list(layout.features)
        if features != list(range(block.shape[1])):
            block = block[:, features]
        names = [self.names[j] for j in features]
        return Chunk(start, self._cast(block, names, start, lines), {}, lines=lines)

    # ── anything ────────────────────────────────────────────────────────────
    def _chunk(self, start: int, feed: Feed) -> tuple[Chunk, int]:
        """The rest of a block, to the end of its last record, and how many blank lines were in it."""
        records, lines, blank = self._records(feed)
        cells = list(zip(*records, strict=True)) or [()] * len(self.names)  # by column
        for j in self._empty:
            if not all(map(is_missing, cells[j])):
                raise nameless(j, self.source)
        columns = self.columns
        pairs = list(zip(self._layout.features, columns, strict=True))
        values = [self._numbers(cells[j], lines, c) for j, c in pairs if c.kind == "number"]
        block = np.column_stack(values) if values else np.empty((len(records), 0))
        names = [c.name for c in columns if c.kind == "number"]
        self._warn_long([cells[j] for j, c in pairs if c.kind == "number"], block, lines)
        words = {c.name: _words(cells[j]) for j, c in pairs if c.kind == "category"}
        ids, labels = (
            None if j is None else objects(cells[j]) for j in (self._layout.id, self._layout.label)
        )
        places = np.array(lines, dtype=np.intp)
        numbers = self._cast(block, names, start, places)
        return Chunk(start, numbers, words, ids, labels, places), blank

    def _records(self, feed: Feed) -> tuple[list[list[str]], list[int], int]:
        width, begins, blank = len(self.names), feed.n_lines + 1, 0
        records: list[list[str]] = []
        lines: list[int] = []
        try:
            for fields in strict_reader(feed, self._dialect.delimiter):
                if len(fields) == width:
                    records.append(fields)
                    lines.append(begins)
                elif width == 1 and not fields:  # of one column, a blank line is an empty field
                    records.append([""])
                    lines.append(begins)
                elif len(fields) <= 1 and not "".join(fields).strip():
                    blank += 1
                else:
                    raise self._ragged(len(fields), begins)
                begins = feed.n_lines + 1
                if feed.at_end_of_block:
                    break
        except csv.Error as error:
            raise csv_error(error, begins, self.source) from error
        return records, lines, blank

    def _ragged(self, n_fields: int, line: int) -> DataError:
        given = "names in the header" if self._dialect.header else "fields in the first line"
        return DataError(
            f"{self.source}: line {line} has {many(n_fields, 'field')}, but there are {len(self.names)} "
            f"{given}. Correct the line, or say --delimiter if it is not {self._dialect.delimiter!r}."
        )

    def _numbers(self, texts: Sequence[str], lines: list[int], column: Column) -> Array:
        try:
            return numbers(texts, self._dialect.decimal)
        except WordError as error:
            why = why_no_number(error.text, self._dialect.decimal)
            msg = (
                f"{self.source}: {why}, in line {lines[error.at]}, column {quoted(column.name)}. "
                f"{REMEDY}"
            )
            raise DataError(msg) from None

    def _warn_long(self, texts: Sequence[Sequence[str]], block: Array, lines: list[int]) -> None:
        """Warn, once a file, of whole numbers that are written out and that float64 does not hold."""
        large = _is_large(block)
        if ROUNDED in self.told or not large.any():
            return
        sheet = np.zeros(block.shape, dtype=object)
        for i, j in np.argwhere(large):
            sheet[i, j] = texts[j][i].strip()
        found = first_rounded(sheet)
        if found is not None:
            self.told.add(ROUNDED)
            names = [c.name for c in self.columns if c.kind == "number"]
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
        notes.append("the first column has no name: kept as the ids of the rows, no feature")
    elif 0 in unnamed:
        notes.append("the first column has no name: left out")
    if unnamed != (0,):
        places = ", ".join(str(j + 1) for j in unnamed if j > 0)
        notes.append(f"empty column(s) without a name left out: {places}")
    kept = (name for j, name in enumerate(names) if j not in unnamed)
    columns = tuple(name for name in kept if name not in (reading.id, reading.label))
    return replace(reading, columns=columns), notes


def _parsed(text: str, delimiter: str) -> Array | None:
    """Lines of numbers by NumPy's parser; None where it finds something else."""
    if not text.strip():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lines = io.StringIO(text, newline="")
            return np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
    except (ValueError, UserWarning):
        return None


def _is_large(block: Array) -> Any:
    return np.abs(block) >= WHOLE


def _words(texts: Sequence[str]) -> Any:
    return objects(None if is_missing(text) else text.strip() for text in texts)


def _cut(chunk: Chunk, rows: slice) -> Chunk:
    if rows.start == 0 and rows.stop >= len(chunk):
        return chunk
    ids, labels, lines = (
        None if part is None else part[rows] for part in (chunk.ids, chunk.labels, chunk.lines)
    )
    words = {name: column[rows] for name, column in chunk.words.items()}
    return Chunk(chunk.start + rows.start, chunk.numbers[rows], words, ids, labels, lines)
