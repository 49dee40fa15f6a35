"""Which columns of a file are features, names or labels, and what stands where numbers should."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mercer._core.errors import DataError, quoted, refuse_data
from mercer.data.csv.numbers import is_number
from mercer.data.historian import NO_READING
from mercer.data.times import as_times

if TYPE_CHECKING:
    from mercer.data.table import Kind, Reading

SHOWN = 20  # names that an error lists


@dataclass(frozen=True)
class Layout:
    """Positions of columns in a file."""

    features: tuple[int, ...]
    kinds: tuple[Kind | None, ...]  # None: as the file has it
    id: int | None
    label: int | None

    @property
    def beside(self) -> tuple[int | None, int | None]:
        """What names the rows, and what labels them."""
        return self.id, self.label


def layout_of(names: Sequence[str], reading: Reading, *, source: str, named: bool) -> Layout:
    """The layout that was asked for: the features are all columns but the ids and labels, or those given."""
    require_distinct(names, source=source)
    places = {name: j for j, name in enumerate(names)}
    find = partial(position, places=places, source=source, named=named)
    id_ = None if reading.id is None else find(reading.id, option=reading.id_option)
    label = None if reading.label is None else find(reading.label, option="`label`")
    if reading.columns is None:
        features = tuple(j for j in range(len(names)) if j not in (id_, label))
        return Layout(features, (None,) * len(features), id_, label)
    features = tuple(find(name, option="`columns`") for name in reading.columns)
    layout = Layout(features, (None,) * len(features), id_, label)
    _require_once(layout, names)
    return layout


def position(name: str, places: dict[str, int], *, source: str, named: bool, option: str) -> int:
    """Where a column is; in files without names, x3 and 3 are the fourth one."""
    if name in places:
        return places[name]
    if not named and name.isdecimal() and int(name) < len(places):
        return int(name)
    why = "" if named else " It has no names of its own: columns are counted from 0."
    msg = f"{source} has no column {quoted(name)}, which {option} names.{why}"
    remedy, parts = hint(name, list(places)), [part.strip() for part in name.split(",")]
    there = [part for part in parts if part in places]
    if there and option != "`columns`":
        remedy = f"{option} takes one column: name {' or '.join(map(quoted, there))}."
    raise DataError.saying(msg, remedy, parameter=option.strip("`-"), value=name)


def hint(
    name: str, names: Sequence[str], what: str = "columns", *, taken: Sequence[str] = ()
) -> str:
    """The nearest name that is not taken by something else, and the names that there are."""
    other_use = set(taken)
    free = [other for other in names if other not in other_use]
    close = [other for other in free if other.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, free[:5000], n=1, cutoff=0.6)
    near = f"Did you mean {quoted(close[0])}? " if close else ""
    return f"{near}Its {what} are {listed(names)}."


def listed(names: Sequence[str]) -> str:
    """Names in quotes, the first ones of many.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(map(quoted, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names)} in all)"


def require_distinct(names: Sequence[str], *, source: str) -> None:
    """Raise when two columns have one name."""
    if len(set(names)) == len(names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1]
    places = [j + 1 for j, name in enumerate(names) if name == twice[0]]
    count = "two" if len(places) == 2 else str(len(places))
    where = f"{', '.join(map(str, places[:9][:-1]))} and {places[:9][-1]}"
    too = f"; others that are there more than once: {listed(twice[1:])}" if twice[1:] else ""
    what = f"{source} has {count} columns named {quoted(twice[0])} ({where}){too}."
    refuse_data(what, "Rename them: columns are identified by their names.")


def _require_once(layout: Layout, names: Sequence[str]) -> None:
    counts = Counter(layout.features)
    for j in layout.features:
        option = "`id`" if j == layout.id else "`label`" if j == layout.label else None
        if option is None and counts[j] == 1:
            continue
        where = "twice in `columns`" if option is None else f"in `columns` and as {option}"
        said = f"The column {quoted(names[j])} is named {where}."
        refuse_data(said, "Name it once.", parameter="columns", value=names[j])


KEPT = 20  # different words of a column, by which it is judged
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?")  # 0,125 is not one
DECIMAL_COMMA = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]*),[0-9]+")
EXCEL = re.compile(r"#(?:DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!)")
# A day or a clock, whichever of its numbers is the month: 01/02/2024 and 10:30.
DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[ T].*)?|\d{1,2}(?::\d{2}){1,2}", re.ASCII)


@dataclass(frozen=True)
class Words:
    """The values of a column that are not numbers."""

    some: tuple[str, ...]  # different ones, the first of them, without blanks around
    line: int  # of the first
    count: int  # of them all
    looked_at: int  # values, numbers or not

    @property
    def example(self) -> str:
        """The first and its place, for an error."""
        numbers = self.looked_at - self.count
        rest = f"; {numbers} of the {self.looked_at} values looked at are numbers"
        return f"{self.first} in line {self.line}{rest if numbers else ''}"

    @property
    def first(self) -> str:
        return quoted(self.some[0])

    def what(self, name: str, *, alone: bool) -> tuple[str, str]:
        """What is wrong with them and, where that is clear, what to do; `alone`: there is no other column."""
        column, place = f"column {quoted(name)}", f"line {self.line}, column {quoted(name)}"
        if (found := self._misread(place, alone=alone)) is not None:
            return found
        if are_dates(self.some):
            return f"{column} has dates ({self.example})", ""
        if 2 * self.count < self.looked_at:
            rest = self.looked_at - self.count
            others = f"the other {rest}" if self.count == 1 else f"{rest} of the {self.looked_at}"
            are = f"({others} values looked at are)"
            remedy = f"Correct it, or use {self._na_values(self.some)}."
            return f"{place}: {self.first} is not a number {are}", self.if_missing or remedy
        return f"{column} has words ({self.example})", ""

    def _misread(self, place: str, *, alone: bool) -> tuple[str, str] | None:
        """Numbers that are written in another way, and what a spreadsheet writes for those it has not."""
        said = f"{place}: {self.first}"
        commas = all(map(DECIMAL_COMMA.fullmatch, self.some))
        if all(map(THOUSANDS.fullmatch, self.some)):
            otherwise = ", or use `decimal=','` if it is a decimal comma" if commas else ""
            remedy = f"Write {self.some[0].replace(',', '')}{otherwise}."
            return f"{said} looks like a number with a thousands separator", remedy
        if commas:
            return f"{said} looks like a number with a decimal comma", "Use `decimal=','`."
        if all(map(EXCEL.fullmatch, self.some)):
            remedy = f"Mend the formula, or use {self._na_values(self.some)}."
            return f"{place} holds an Excel error: {self.first}", remedy
        if alone and all(_is_row(word) for word in self.some):
            remedy = "Use `delimiter='space'`."
            if any(word.split() != word.split(" ") for word in self.some):
                remedy = "Put one comma, or one space with `delimiter='space'`, between them."
            return f"{place} is the only column, and its fields are separated by spaces", remedy
        return None

    @property
    def if_missing(self) -> str:
        """What to do about those that historians write where there is no reading; empty without any."""
        # The "b" and "u" of a column of quality may be anything here.
        begins = ("bad", "no data")
        lower = ((word, word.lower()) for word in self.some)
        missing = tuple(w for w, low in lower if low in NO_READING or low.startswith(begins))
        if not missing:
            return ""
        one, more = "stands for a missing reading", "stand for missing readings"
        stand = one if len(missing) == 1 else more
        return f"If {listed(missing)} {stand}, use {self._na_values(missing)}."

    @staticmethod
    def _na_values(words: tuple[str, ...]) -> str:
        return f"`na_values={(words[0] if len(words) == 1 else words)!r}`"


def are_dates(words: tuple[str, ...]) -> bool:
    """Whether all words are dates or times, in whatever order day and month stand.

    >>> are_dates(("01/02/2024", "02/02/2024")), are_dates(("10:30",)), are_dates(("1.5.a", "b"))
    (True, True, False)
    """
    return bool(words) and (all(map(DATE.fullmatch, words)) or as_times(list(words)) is not None)


def _is_row(word: str) -> bool:
    """Whether a field is several numbers with blanks between them."""
    fields = word.split()
    return len(fields) > 1 and all(map(is_number, fields))
