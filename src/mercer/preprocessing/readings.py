"""An export of a plant historian as rows to fit a detector to: only readings that count, only whole rows.

`mercer monitor` takes "Bad" and columns of quality for missing readings. A detector is fitted to the same
exports, and a row that lacks a reading is no loss there: it is left out, and times say that there is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mercer._core.errors import many, refuse_data
from mercer.data.columns import listed
from mercer.data.historian import WRITINGS, is_good, quality_columns
from mercer.data.table import Chunk, Column, Table

LOOKED_AT = 1000  # rows
MOST_WORDS = 12  # of quality in them


class ReadingsTable(Table):
    """A table without columns of quality and what they call bad; `whole`: without gappy rows."""

    def __init__(self, table: Table, *, whole: bool) -> None:
        found = table.names if table.named else ()
        features = {column.name: column for column in table.columns}
        beside = (table.id_name, table.label_name)
        pairs = ((found[j], found[q]) for j, q in quality_columns(found).items())
        judges = _speaking(table, {n: q for n, q in pairs if n in features and q not in beside})
        kept = [
            Column(name) if name in judges or _is_reading(column) else column
            for name, column in features.items()
            if name not in judges.values()
        ]
        with_judges = [*kept, *(Column(judge, "category") for judge in judges.values())]
        self._table = table.select(with_judges).with_missing(WRITINGS)
        self.__dict__.update(table.select(kept).__dict__)  # its notes too, which stay one list
        self._features, self._whole = tuple(kept), whole
        self.n_rows = None if whole else table.n_rows
        numbers = [column.name for column in kept if column.kind == "number"]
        self._places = {numbers.index(name): judge for name, judge in judges.items()}
        if judges:
            self.notes.append(f"which readings count is read from {listed([*judges.values()])}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The features, with their first words where they have any."""
        return self._features

    def resident_bytes(self) -> int:
        return super().resident_bytes() + self._table.resident_bytes()

    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        del start  # how many rows before it are left out is not known
        kept, seen = 0, 0
        for chunk in (counting(one, self._places) for one in self._table.chunks(height)):
            rows = np.flatnonzero(~np.isnan(chunk.numbers).any(axis=1) | (not self._whole))
            seen += len(chunk)
            if len(rows):
                yield replace(chunk.at(rows), start=kept)
                kept += len(rows)
        if not kept:
            what = f"{self.source}: every one of {many(seen, 'row')} lacks a reading."
            remedy = "Fit with `impute='median'`, or leave out the columns that lack most with `columns`."
            refuse_data(what, remedy, parameter="impute")
        if left_out := seen - kept:
            have = "lacks a reading and is" if left_out == 1 else "lack a reading and are"
            note = f"{left_out} of {many(seen, 'row')} {have} left out of the fit (--impute fills in instead)"
            self.note_once("left out", note)


def counting(chunk: Chunk, judges: dict[int, str]) -> Chunk:
    """The chunk without the readings, by their position, that the column of their quality calls bad."""
    if not judges:
        return chunk
    numbers, others = np.array(chunk.numbers), dict(chunk.words)
    for j, judge in judges.items():
        bad = [word is not None and is_good(str(word)) is False for word in chunk.words[judge]]
        numbers[np.array(bad, dtype=bool), j] = np.nan
        others.pop(judge, None)
    return replace(chunk, numbers=numbers, words=others)


def _speaking(table: Table, judges: dict[str, str]) -> dict[str, str]:
    """The judges whose first cells are of quality: a variable may have such a name too."""
    if not judges:
        return {}
    looked_at = table.select([Column(judge, "category") for judge in judges.values()])
    kept, first = {}, next(iter(looked_at.chunks(LOOKED_AT)))  # a file has a row at least
    for name, judge in judges.items():
        words = {str(word) for word in first.words[judge] if word is not None}
        said = {is_good(word) for word in words}
        if True in said and None not in said and len(words) <= MOST_WORDS:
            kept[name] = judge
    return kept


def _is_reading(column: Column) -> bool:
    """Whether the words of a column stand for readings that are missing."""
    example = column.example.partition(" in line ")[0].strip("'")
    return column.kind == "category" and is_good(example) is False
