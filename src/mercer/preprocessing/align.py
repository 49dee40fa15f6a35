"""A table as a model takes it: matched to a preparation by the names of its columns, then all of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._core.errors import many, refuse_data
from mercer._core.memory import format_bytes, parse_bytes
from mercer._core.types import Array, Rows
from mercer.data.columns import listed
from mercer.data.formats import open_table
from mercer.data.historian import WRITINGS, is_good, quality_columns
from mercer.data.rows import Digest, RowSource
from mercer.data.table import Chunk, Column, Table
from mercer.data.times import as_times, read_times
from mercer.data.view import TableRows, chunk_height
from mercer.preprocessing.learn import Missing, Unseen
from mercer.preprocessing.preparation import Preparation


# ── columns ─────────────────────────────────────────────────────────────────
class MatchedTable(Table):
    """A table with the columns that a preparation needs, in its order.

    Missing values are counted as rows go by. Where the preparation has nothing to put in their place, the
    pass ends in an error that says how many there are; otherwise a note says how many were filled. With
    `gaps` they stay, as NaN, for a caller that can do with incomplete rows, and so do readings that a
    historian calls bad: by a text in their place, or in a column of quality.
    """

    def __init__(self, table: Table, preparation: Preparation, *, gaps: bool = False) -> None:
        self.__dict__.update(table.__dict__)  # its notes too, which stay one list
        self._table, self.preparation, self._gaps = table, preparation, gaps
        self._room, self._kept = 0, None  # what is kept is the other's
        self.random_access = table.random_access
        self._quality = self._judges(preparation) if gaps and table.named else {}
        if gaps:
            judges = [Column(name, "category") for name in self._quality.values()]
            self._table = table.select([*table.columns, *judges]).with_missing(WRITINGS)

    def _judges(self, preparation: Preparation) -> dict[int, str]:
        """The position of a number among those of the model to the column of its quality."""
        beside = {column.name for column in self.columns} | {self.id_name, self.label_name}
        pairs = ((self.names[j], self.names[q]) for j, q in quality_columns(self.names).items())
        found = {name: judge for name, judge in pairs if judge not in beside}
        return {j: found[n] for j, n in enumerate(preparation.numbers) if n in found}

    def in_place(self) -> RowSource | None:
        return self._table.in_place()

    def resident_bytes(self) -> int:
        return self._table.resident_bytes()

    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        self.missing = missing = Missing()  # of this pass
        names, filled = self.preparation.numbers, self.preparation.fills is not None
        unseen, lenient = Unseen(), self.preparation.lenient
        for chunk in (counting(one, self._quality) for one in self._table.chunks(height, start)):
            missing.add(chunk, names)
            unseen.add(chunk, lenient)
            if self._gaps or filled or not missing.first:
                yield chunk
            # Otherwise on to the end, so that the error can say how many there are.
        if not filled and not self._gaps:
            missing.refuse(self.source)
        elif filled and missing.total:
            count = many(missing.total, "missing value")
            self.note_once("imputed", f"{count} imputed in {missing.where}")
        if unseen.counts:
            self.note_once("unseen words", *unseen.sentences)


def matched(table: Table, preparation: Preparation, *, gaps: bool = False) -> MatchedTable:
    """The file with the features of the preparation, in its order; its notes say what was left out.

    Columns are found by name; others are left out and said. Where the file or the model has no names,
    columns are taken by position, and there have to be as many. What named and labelled the rows of the
    training file does so here, if the file has it and nothing else was asked for.
    """
    if isinstance(table, MatchedTable) and table.preparation is preparation:
        return table
    _require_size(table, preparation)
    id_, label = _beside(table, preparation)
    features = [c for c in table.columns if c.name not in (id_, label)]
    table = table.select(features, id_name=id_, label_name=label)
    wanted = [Column(name) for name in preparation.numbers]
    wanted += [Column(name, "category") for name, _ in preparation.categories]
    names = [column.name for column in table.columns]
    there = set(names)  # of many columns, a list would be looked through as many times
    absent = [name for name in preparation.columns if name not in there]
    nameless = not table.named or preparation.is_nameless
    if not table.named or (absent and nameless):
        _require_width(table, preparation)
    if absent and (preparation.categories or not nameless):
        if not table.named:
            needed = f"columns of words, {listed(absent)}, which are found by name"
            what = f"{table.source} has no names, but the model needs {needed}."
            refuse_data(what, "Give the file a header.")
        raise preparation.lacking(absent, [*names, *table.left_out], table.source)
    if absent:
        wanted = [Column(name) for name in names]
        which = "model" if table.named else "file"
        table.notes.append(f"columns are matched by position: the {which} has no names")
    preparation.check_units([table.units.get(c.name, "") for c in wanted], table.source)
    found = MatchedTable(table.select(wanted), preparation, gaps=gaps)
    judges = found._quality.values()
    if judges:
        table.notes.append(f"which readings count is read from {listed([*judges])}")
    known = {*(column.name for column in wanted), *judges}
    if extra := [name for name in names if name not in known]:
        table.notes.append(f"columns that the model does not use, left out: {listed(extra)}")
    return found


def _require_size(table: Table, preparation: Preparation) -> None:
    theirs, ours = table.image_shape, preparation.image_shape
    if theirs is not None and ours is not None and theirs != ours:
        sizes = f"{theirs[0]}x{theirs[1]} pixels, but the model was fitted to {ours[0]}x{ours[1]}"
        about: Any = {"parameter": "image_size", "value": theirs}
        refuse_data(f"{table.source} has images of {sizes}.", f"Use `image_size={ours}`.", **about)


def _beside(table: Table, preparation: Preparation) -> tuple[str | None, str | None]:
    """The columns that are ids and labels by the training file, where the file has them free."""
    free = {column.name for column in table.columns} - set(preparation.numbers)
    id_ = preparation.id if table.id_name is None and preparation.id in free else None
    label = preparation.label if table.label_name is None and preparation.label in free else None
    return id_, label


def _require_width(table: Table, preparation: Preparation) -> None:
    here, there = len(table.columns), len(preparation.columns)
    if here != there:
        widths = f"has {here} columns of features, but the model was fitted to {there}"
        what = f"{table.source} {widths}; without names they are matched by position."
        remedy = "Name those to use with `columns`, or those beside them with `id` and `label`."
        refuse_data(what, remedy, parameter="columns", value=here)


# ── rows ────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Sheet:
    """Prepared rows, and what stands beside them."""

    rows: Rows  # (n, d), as the model takes them; a source reads them from the file whenever they are used
    ids: Any  # (n,) or None: what names the rows, as the file has it
    labels: Any  # (n,) or None
    names: tuple[str, ...]  # of the d columns
    notes: tuple[str, ...]  # what was guessed, left out, filled or kept elsewhere, for people
    digest: str  # SHA-256 of the rows before they were filled and scaled
    preparation: Preparation
    filled: Array  # (d,), how many values of each column were missing, and filled in
    id_name: str | None = None
    label_name: str | None = None
    time_format: str | None = None

    def raw(self, rows: slice = slice(None)) -> Array:
        """The rows, or some of them, in the units of the file."""
        return self.preparation.unscaled(np.asarray(self.rows[rows]))

    @property
    def times(self) -> Any:
        """(n,) the ids of the rows as datetime64, where they are all times; None otherwise."""
        if self.ids is None:
            return None
        times = as_times(self.ids) if self.time_format is None else self.clock
        return None if times is None or np.isnat(times).any() else times

    @property
    def clock(self) -> Any:
        """What says when each row was taken, in the format given; NaT where it is written otherwise."""
        known = self.ids is None or self.time_format is None
        return self.ids if known else read_times(self.ids, self.time_format)

    def __len__(self) -> int:
        return int(self.rows.shape[0])


def learned_rows(table: Table, *, memory_bytes: int, **how: Any) -> tuple[Sheet, tuple[str, ...]]:
    """All rows of a table, prepared by what is learned from them (as `how` says), and notes."""
    table.keep(memory_bytes // 2)
    preparation, notes = Preparation.learn(table, memory_bytes=memory_bytes, **how)
    table.keep(0)
    ours = MatchedTable(table, preparation)  # by whose columns it was learned
    return prepared_rows(ours, preparation, memory_bytes=memory_bytes), notes


def prepared_rows(table: Table, preparation: Preparation, *, memory_bytes: int) -> Sheet:
    r"""All rows of a table, prepared; columns are matched to those of the preparation by name.

    Rows that fit in half of the memory are held in it. Others stay where they are, and are read and prepared
    anew whenever they are used.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.data.formats import open_table
    >>> from mercer.preprocessing.preparation import Preparation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("y,x\n1,2\n3,4\n")
    ...     sheet = prepared_rows(open_table(path), Preparation(("x", "y")), memory_bytes=10**6)
    >>> sheet.rows
    array([[2., 1.],
           [4., 3.]])
    """
    table = matched(table, preparation)
    held = _Held(len(preparation.features), table.dtype, memory_bytes // 2)
    digest = Digest()
    ids: list[Any] = []
    labels: list[Any] = []
    for chunk in table.chunks(chunk_height(table)):
        coded = preparation.coded(chunk)
        digest.add(coded)
        held.add(preparation.scaled(preparation.filled(coded), chunk))
        ids.append(chunk.ids)
        labels.append(chunk.labels)
    form = table.reading.time_format
    if form is not None and table.id_name is not None:
        # Refused now, not when they are drawn; where rows may have gaps, one time at least has to be there.
        names = _joined(ids)
        if not table._gaps or read_times(names, form) is None:
            as_times(names, form)
    rows: Rows | None = held.rows()
    notes = list(table.notes)
    if rows is None:
        names = preparation.features
        lies = table.in_place() if preparation.is_plain and not table._gaps else None
        rows = lies or TableRows(table, preparation.gappy, columns=names, n_rows=held.n)
        size = format_bytes(held.n_bytes)
        notes.append(f"{size} of rows are more than half of the memory: read anew for every pass")
    counts = {} if preparation.fills is None else table.missing.counts
    return Sheet(
        rows,
        _joined(ids),
        _joined(labels),
        preparation.features,
        tuple(notes),
        digest.hex(rows.shape, rows.dtype),
        preparation,
        np.array([counts.get(name, 0) for name in preparation.features]),
        table.id_name,
        table.label_name,
        table.reading.time_format,
    )


def file_rows(file: Any, preparation: Preparation, *, gaps: bool = False) -> Rows:
    """The prepared rows of a table, or of the file at a path; with `gaps` missing values stay, as NaN."""
    table = file if isinstance(file, Table) else open_table(file)
    found = matched(table, preparation, gaps=gaps)
    return prepared_rows(found, preparation, memory_bytes=parse_bytes("auto")).rows


def _joined(parts: list[Any]) -> Any:
    return None if not parts or parts[0] is None else np.concatenate(parts)


class _Held:
    """Blocks of rows, held until they are too many, and counted."""

    def __init__(self, d: int, dtype: np.dtype[Any], limit: int) -> None:
        self._d, self._dtype, self._limit = d, dtype, limit
        self._blocks: list[Array] = []
        self.n = 0

    @property
    def n_bytes(self) -> int:
        return self.n * self._d * self._dtype.itemsize

    def add(self, block: Array) -> None:
        self.n += len(block)
        self._blocks.append(block)
        if self.n_bytes > self._limit:
            self._blocks.clear()

    def rows(self) -> Array | None:
        if self.n_bytes > self._limit:
            return None
        if len(self._blocks) == 1:
            return self._blocks[0]
        out, stop = np.empty((self.n, self._d), self._dtype), self.n
        while self._blocks:  # each is let go when it has its place: never all rows twice
            block = self._blocks.pop()
            out[stop - len(block) : stop] = block
            stop -= len(block)
        return out


# ── exports of plant historians, of which a detector is fitted to whole rows ──
# Such a row is no loss there: it is left out, and times say that there is a gap.
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
