"""What stands in a column that should hold numbers, and what to do about it: words, dates, 1,000, #REF!."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from mercer._core.errors import quoted
from mercer.data.columns import listed
from mercer.data.csv.numbers import is_number
from mercer.data.historian import NO_READING
from mercer.data.times import as_times

KEPT = 20  # different words of a column, by which it is judged
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?")  # 0,125 is not one
DECIMAL_COMMA = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]*),[0-9]+")
EXCEL = re.compile(r"#(?:DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!)")
# A day or a clock, whichever of its numbers is the month: 01/02/2024 and 10:30.
DATE = re.compile(
    r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}(?:[ T].*)?|[0-9]{1,2}(?::[0-9]{2}){1,2}"
)


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
        said = f"; {numbers} of the {self.looked_at} values looked at are numbers"
        return f"{self.first} in line {self.line}{said if numbers else ''}"

    @property
    def first(self) -> str:
        """The first, in quotes."""
        return quoted(self.some[0])

    @cached_property
    def are_dates(self) -> bool:
        """Whether all of them are dates or times."""
        return are_dates(self.some)

    def what(self, name: str, *, alone: bool) -> tuple[str, str]:
        """What is wrong with them in the column of a name, and what to do if it is not known of all words.

        `alone` is a column that has no other beside it.
        """
        column, place = f"column {quoted(name)}", f"line {self.line}, column {quoted(name)}"
        if (found := self._misread(place, alone=alone)) is not None:
            return found
        if self.are_dates:
            return f"{column} has dates ({self.example})", ""
        if 2 * self.count < self.looked_at:
            rest = self.looked_at - self.count
            others = "the other" if self.count == 1 else f"{rest} of the"
            shown = rest if self.count == 1 else self.looked_at
            are = f"({others} {shown} values looked at are)"
            remedy = f"Correct it, or use {self._na_values(self.some)}."
            return f"{place}: {self.first} is not a number {are}", self.if_missing or remedy
        return f"{column} has words ({self.example})", ""

    def _misread(self, place: str, *, alone: bool) -> tuple[str, str] | None:
        """Numbers that are written in another way, and what a spreadsheet writes for those it has not."""
        said = f"{place}: {self.first}"
        if all(map(THOUSANDS.fullmatch, self.some)):
            remedy = f"Write {self.some[0].replace(',', '')}."
            if all(map(DECIMAL_COMMA.fullmatch, self.some)):
                remedy = f"{remedy[:-1]}, or use `decimal=','` if it is a decimal comma."
            return f"{said} looks like a number with a thousands separator", remedy
        if all(map(DECIMAL_COMMA.fullmatch, self.some)):
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
        missing = tuple(word for word in self.some if _is_no_reading(word))
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


def _is_no_reading(word: str) -> bool:
    """Whether a word is one of a historian; the "b" and "u" of a column of quality may be anything here."""
    return word.lower() in NO_READING or word.lower().startswith(("bad", "no data"))


def _is_row(word: str) -> bool:
    """Whether a field is several numbers with blanks between them."""
    fields = word.split()
    return len(fields) > 1 and all(map(is_number, fields))
