"""Points of InfluxDB line protocol as rows of a model, and lines in the format that their first one has.

A sender may write all readings of a moment in one line, or one reading a line. So lines of the same time are
one row, until every column of the model is there or a line of another time arrives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mercer._core.errors import DataError
from mercer.data.columns import listed
from mercer.data.historian import is_good, quality_columns
from mercer.data.influx import Point, as_text, guess_precision, parse_point
from mercer.data.table import Reading
from mercer.preprocessing.lines import Arrived, Layout, LineReader
from mercer.preprocessing.preparation import Preparation

TIME = "time"
WHOLE_LINE = {"quality", "status"}  # a field of such a name speaks of all fields of its line


class InfluxReader(LineReader):
    """Reads points: fields by their names, ``measurement.field`` where the name alone is not known.

    The fields `wanted` are those of the model, which make a row complete, and those of a shadow. The
    `precision` is the unit of times, "ns", "us", "ms" or "s"; it is guessed from the first one otherwise.
    """

    def __init__(
        self,
        preparation: Preparation,
        reading: Reading,
        source: str,
        wanted: Sequence[str],
        precision: str | None = None,
    ) -> None:
        super().__init__(preparation, reading, source)
        self._wanted, self._precision = frozenset(wanted), precision
        self._left_out = False  # whether lines without a field of the model have been noted
        self._pending: dict[str, Any] | None = None  # cells of a row that waits for more lines
        self._last: str | None = None  # the time of the row before
        self._needed = frozenset(preparation.columns)
        self._id = None if reading.id in (None, TIME) else reading.id
        self._label = label = reading.label or preparation.label
        beside = () if label is None or label in self._needed else (label,)
        names = (TIME, *preparation.columns, *beside)
        after = 1 + len(preparation.numbers)
        numbers, words = range(1, after), range(after, 1 + len(preparation.columns))
        at = None if label is None else names.index(label)
        self.layout = Layout(names, "", True, tuple(numbers), tuple(words), id=0, label=at)

    def __call__(self, lines: Sequence[str], *, fresh: bool = False) -> Arrived:
        del fresh
        self.records = []
        for line in lines:
            text = line.strip()
            if text and not text.startswith("#"):
                self._take(text)
        return self._all_rows()

    def parted(self, lines: list[str]) -> Iterator[list[str]]:
        yield lines

    def rest(self) -> Arrived:
        self.records = []
        self._emit()
        return self._all_rows()

    @property
    def head(self) -> str | None:
        state = {"precision": self._precision, "pending": self._pending, "last": self._last}
        return json.dumps({"influx": state})

    @head.setter
    def head(self, value: str | None) -> None:
        """Only `go_on` sets it."""

    def go_on(self, head: str | None, *, later: bool = True) -> None:
        del later
        if head is not None:
            state = json.loads(head)["influx"]
            self._precision, self._pending = state["precision"], state["pending"]
            self._last = state.get("last")

    def beside(self, other: LineReader) -> Arrived:
        self.records = other.records
        return self._all_rows()

    # ── from lines to rows ──────────────────────────────────────────────────
    def _take(self, line: str) -> None:
        try:
            point = parse_point(line)
        except DataError as error:
            self._emit()
            self.records.append({"bad": str(error)})
            return
        cells = self._cells(point)
        if not self._wanted & cells.keys():
            if not self._left_out:
                self._left_out = True
                what = f"such as {point.measurement!r}"
                self._note(f"lines without a field of the model are left out, {what}")
            return
        time = self._time(point)
        if time is not None and time == self._last and not self._needed & cells.keys():
            # A row is complete for the detector that counts; its shadow must not hold it back.
            self._note("fields that only the shadow reads are left out where they follow their row")
            return
        pending = self._pending
        if pending is not None and (time is None or pending[TIME] != time):
            self._emit()
        elif pending is not None and pending.keys() & cells.keys() & self._wanted:
            if pending["tags"] != point.tags:
                sets = f"{_tags(pending['tags'])} and {_tags(point.tags)}"
                self._note(
                    f"fields of one time have several sets of tags, {sets}: they are taken for rows of one "
                    "unit; pipe the lines of one set alone, such as with grep"
                )
            self._emit()
        if self._pending is None:
            self._pending = {TIME: time, "tags": point.tags}
        self._pending |= cells
        if time is None or self._needed <= self._pending.keys():
            self._emit()

    def _emit(self) -> None:
        if self._pending is not None:
            self.records.append(self._pending)
            self._last = self._pending[TIME]
        self._pending = None

    def _cells(self, point: Point) -> dict[str, str]:
        """The cells that the model knows, as text; those of bad quality are empty."""
        known = self._wanted | {self._label, self._id}
        every = {**point.tags, **point.fields}
        longer = {name: f"{point.measurement}.{name}" for name in every}
        names = {name: own for name in every for own in (longer[name], name) if own in known}
        bad = self._of_bad_quality(point, names.keys())
        return {own: "" if n in bad else _text(every[n]) for n, own in names.items()}

    def _of_bad_quality(self, point: Point, known: Set[str]) -> set[str]:
        """The fields that one of their quality, or of the line's, calls bad; a variable judges none."""
        every = {**point.tags, **point.fields}
        bad = {n for n, value in every.items() if n not in known and is_good(str(value)) is False}
        if any(name.lower() in WHOLE_LINE for name in bad):
            return set(point.fields)
        names = list(every)
        of = {names[j]: names[q] for j, q in quality_columns(names).items()}
        return {name for name, q in of.items() if q in bad}

    def _time(self, point: Point) -> str | None:
        if self._id is not None:
            time = {**point.tags, **point.fields}.get(self._id)
            return None if time is None else str(time)
        if point.time is None:
            self._note("a line without a time is a row by itself")
            return None
        if self._precision is None:
            guessed = guess_precision(point.time)
            self._precision = guessed or "ns"
            why = "" if guessed else ", as the format has them"
            self._note(f"times are taken for {LONG[self._precision]}{why} (--precision)")
        return as_text(point.time, self._precision)

    def _rows(self, records: list[Any]) -> Arrived:
        """As of lines with cells in the order of the layout."""
        cells = [[record.get(name) or "" for name in self.layout.names] for record in records]
        found = super()._rows(cells)
        return replace(
            found,
            times=[record.get(TIME) for record in records],
            bad=[one.get("bad") or other for one, other in zip(records, found.bad, strict=True)],
            clock=None if self._id is None else found.clock,  # stamps have one format
        )


LONG = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _tags(tags: dict[str, str]) -> str:
    return listed([f"{name}={value}" for name, value in tags.items()]) or "none"


# ── which format ────────────────────────────────────────────────────────────
class RowReader:
    """Reads lines in the format given, or as points where the first line is one with a field of the model."""

    def __init__(
        self,
        preparation: Preparation,
        reading: Reading,
        source: str,
        wanted: Sequence[str],
        precision: str | None = None,
    ) -> None:
        self._about, self._wanted = (preparation, reading, source), wanted
        self._precision, self._own = precision, LineReader(*self._about)
        self._is_known = False
        if reading.format is not None or reading.skip_rows:  # points have nothing before them
            self._choose(influx=reading.format == "influx")

    def __call__(self, lines: Sequence[str], *, fresh: bool = False) -> Arrived:
        if not self._is_known:
            first = next((text for line in lines if (text := line.strip()) and text[0] != "#"), "")
            if not first:
                return self.rest()
            self._choose(influx=self._is_point(first))
            if isinstance(self._own, InfluxReader):
                self.notes.append("lines are read as InfluxDB line protocol (--format influx)")
            elif self._precision is not None:
                self.notes.append("--precision is for InfluxDB line protocol, and not used here")
        return self._own(lines, fresh=fresh)

    def parted(self, lines: list[str]) -> Iterator[list[str]]:
        return self._own.parted(lines)

    def beside(self, other: RowReader) -> Arrived:
        if other._is_known and not self._is_known:
            self._choose(influx=isinstance(other._own, InfluxReader))
        return self._own.beside(other._own)

    def rest(self) -> Arrived:
        return self._own.rest()

    @property
    def notes(self) -> list[str]:
        return self._own.notes

    @property
    def head(self) -> str | None:
        return self._own.head

    def go_on(self, head: str | None) -> None:
        if head is not None and not self._is_known:
            self._choose(influx=head.startswith('{"influx"'))
        self._own.go_on(head)

    def _choose(self, *, influx: bool) -> None:
        self._is_known = True
        if influx:
            self._own = InfluxReader(*self._about, self._wanted, self._precision)

    def _is_point(self, line: str) -> bool:
        with suppress(DataError):
            point = parse_point(line)
            names = {*point.fields, *(f"{point.measurement}.{name}" for name in point.fields)}
            return bool(names & set(self._wanted))
        return False
