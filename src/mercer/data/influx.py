r"""InfluxDB line protocol, a point a line: ``measurement,tag=value field=1.2,other=3i 1767603600000000000``.

Commas, equals signs and spaces in names and in values of tags are escaped by a backslash; a backslash before
anything else is a backslash. Texts among the fields stand in double quotes, where only quotes and backslashes
are escaped. A line break inside of such a text is the one thing of the format that is not read: it ends the
line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from mercer._core.errors import DataError, quoted

Value = float | int | bool | str
# Seconds of one unit, as fractions: 1/UNITS.
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Stamps of these years are told apart by their digits: seconds have ten, milliseconds thirteen, …
GUESSED = tuple(datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1990, 2100))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Characters up to one that is not escaped: a backslash takes the next character with it.
MEASUREMENT = re.compile(r"(?:\\.|[^,\s\\]|\\$)+")
KEY = re.compile(r"(?:\\.|[^,=\s\\])+")
TEXT = re.compile(r'"((?:\\.|[^"\\])*)"')
PLAIN = re.compile(r"[^,\s]+")
# Whole numbers have 64 bits, and no more digits than that takes.
STAMP = re.compile(r"-?\d{1,19}$")
FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$")
WHOLE = re.compile(r"([+-]?\d{1,19})i$|(\d{1,20})u$")
TRUE = frozenset({"t", "T", "true", "True", "TRUE"})
FALSE = frozenset({"f", "F", "false", "False", "FALSE"})
# What a backslash takes away; before other characters it stays.
ESCAPED = re.compile(r"\\([,= ])")
ESCAPED_MEASUREMENT = re.compile(r"\\([, ])")
ESCAPED_TEXT = re.compile(r'\\(["\\])')


@dataclass(frozen=True)
class Point:
    """One line: what was measured where, and when."""

    measurement: str
    fields: dict[str, Value]
    tags: dict[str, str] = field(default_factory=dict)
    time: int | None = None  # as it stands in the line, in a unit that the line does not say


def parse_point(line: str) -> Point:
    r"""The point of a line; a `DataError` with the place where it is not one.

    >>> found = parse_point(r'reactor,unit=R\ 1 flow=10.2,level=3i,mode="auto",open=t 1767603600')
    >>> found.measurement, found.tags, found.time
    ('reactor', {'unit': 'R 1'}, 1767603600)
    >>> found.fields
    {'flow': 10.2, 'level': 3, 'mode': 'auto', 'open': True}
    """
    found = MEASUREMENT.match(line)
    if found is None:
        raise _wrong(line, 0, "a measurement")
    at, tags, fields = found.end(), dict[str, str](), dict[str, Value]()
    while line[at : at + 1] == ",":
        name, at = _key(line, at + 1, "a tag")
        text = KEY.match(line, at)
        if text is None:
            raise _wrong(line, at, "the value of a tag")
        tags[name], at = ESCAPED.sub(r"\1", text[0]), text.end()
    if line[at : at + 1] != " ":
        raise _wrong(line, at, "a space and then fields")
    while line[at : at + 1] == " ":
        at += 1
    while True:
        name, at = _key(line, at, "a field")
        fields[name], at = _value(line, at)
        if line[at : at + 1] != ",":
            break
        at += 1
    rest = line[at:].strip()
    if rest and (not line[at].isspace() or STAMP.match(rest) is None):
        raise _wrong(line, at, "a whole number as the time")
    measurement = ESCAPED_MEASUREMENT.sub(r"\1", found[0])
    return Point(measurement, fields, tags, int(rest) if rest else None)


def _key(line: str, at: int, what: str) -> tuple[str, int]:
    """A name before an equals sign, and the place after that."""
    found = KEY.match(line, at)
    if found is None or line[found.end() : found.end() + 1] != "=":
        raise _wrong(line, at, f"{what}, as name=value")
    return ESCAPED.sub(r"\1", found[0]), found.end() + 1


def _value(line: str, at: int) -> tuple[Value, int]:
    """The value of a field, and the place after it."""
    if line[at : at + 1] == '"':
        text = TEXT.match(line, at)
        if text is None:
            raise _wrong(line, at, "a text that ends with a quote")
        return ESCAPED_TEXT.sub(r"\1", text[1]), text.end()
    found = PLAIN.match(line, at)
    word = "" if found is None else found[0]
    if found is None or (number := _number(word)) is None:
        raise _wrong(line, at, 'a number, a whole number with i or u, true, false or a "text"')
    return number, found.end()


def _number(word: str) -> Value | None:
    if FLOAT.match(word):
        return float(word)
    whole = WHOLE.match(word)
    if whole is not None:
        return int(whole[1] or whole[2])
    return True if word in TRUE else False if word in FALSE else None


def _wrong(line: str, at: int, needed: str) -> DataError:
    got = quoted(line[at : at + 20]) if line[at:] else "the end of the line"
    return DataError(f"not line protocol: {needed} must stand at character {at + 1}; got {got}")


# ── times ───────────────────────────────────────────────────────────────────
def guess_precision(stamp: int) -> str | None:
    """The unit of a time of this century, or the ten years before; None where no unit makes it one.

    >>> guess_precision(1767603600), guess_precision(1767603600000000000), guess_precision(42)
    ('s', 'ns', None)
    """
    low, high = GUESSED
    found = [unit for unit, parts in UNITS.items() if low <= stamp / parts <= high]
    return found[0] if found else None


def as_text(stamp: int, precision: str) -> str:
    """A time as ISO 8601 in UTC, with as many digits as its unit has and no more than it needs.

    >>> as_text(1767603600500, "ms"), as_text(1767603600, "s")
    ('2026-01-05T09:00:00.5Z', '2026-01-05T09:00:00Z')
    """
    seconds, parts = divmod(stamp, UNITS[precision])
    digits = f"{parts:0{len(str(UNITS[precision])) - 1}d}".rstrip("0") if parts else ""
    try:
        whole = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return str(stamp)
    return whole + (f".{digits}" if digits else "") + "Z"
