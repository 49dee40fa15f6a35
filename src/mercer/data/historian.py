"""What historians write beside and in place of readings: quality columns, "Bad", "No Data", "I/O Timeout"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import capwords

# Texts that stand for a reading that is not there, in any case of letters, as plant historians export them.
_NO_READING = (
    "bad, bad input, no data, nodata, i/o timeout, io timeout, comm fail, pt created, calc failed, "
    "scan off, scan timeout, intf shut, not connect, out of serv, no sample, configure, arc off-line, "
    "data error, bad data, bad quality, bad total, no result, shutdown, under range, over range, "
    "#value!, error, [-11059] no good data for calculation"
)
NO_READING = frozenset(_NO_READING.split(", "))
# The same as they are written in files: small, large, or with capitals at the beginning of words.
WRITINGS = frozenset(
    writing
    for text in NO_READING
    for writing in (text, text.upper(), text.capitalize(), text.title(), capwords(text))
)
GOOD = frozenset({"good", "ok", "g", "192", "0xc0", "true", "valid", "good, non-specific", ""})
BAD = frozenset({"bad", "b", "uncertain", "u", "questionable", "false", "invalid", "stale"})
# "flow.Quality", "flow [Status]", "flow_q", "Quality(flow)"
SUFFIX = re.compile(r"(?i)^(.+?)[\s._\-:/]*[\[(]?(?:quality|qual|status|confidence|q)[\])]?$")
PREFIX = re.compile(r"^(?:quality|status)[\s._\-:/]*(?:of\s+)?[\[(]?(.+?)[\])]?$", re.IGNORECASE)
OPC = re.compile(r"\d{1,3}(?:\.0*)?$")  # pandas writes 192.0 where a cell is empty
VALUE = re.compile(r"[\s._\-:/]*[\[(]?value[\])]?$", re.IGNORECASE)


def is_good(text: str) -> bool | None:
    """Whether the text of a quality column, or of a reading, says that the reading counts; None of others.

    OPC's quality is a number of eight bits whose upper two are 11 for good, 192 to 255, and 00 or 01 for bad
    and uncertain, up to 127; 10 is not used.

    >>> is_good("Good"), is_good("192"), is_good("No Data"), is_good("24"), is_good("bar")
    (True, True, False, False, None)
    """
    word = text.strip().lower()
    if word in GOOD:
        return True
    if word in NO_READING or word in BAD or word.startswith(("bad", "no data", "uncertain")):
        return False
    if OPC.match(word) and (code := int(word.partition(".")[0])) <= 255:
        return code >= 192 if not 128 <= code < 192 else None
    return None


def quality_columns(names: Sequence[str]) -> dict[int, int]:
    """The position of a column of readings to that of the column of its quality.

    >>> quality_columns(["time", "flow.Value", "flow.Quality", "heat", "heat [Status]", "q"])
    {1: 2, 3: 4}
    """
    places = {name.strip().lower(): j for j, name in enumerate(names)}
    places |= {VALUE.sub("", name.strip()).lower(): j for j, name in enumerate(names)}
    found = {}
    for j, name in enumerate(names):
        for form in (SUFFIX, PREFIX):
            match = form.match(name.strip())
            of = None if match is None else places.get(match[1].strip().lower())
            if of is not None and of != j:
                found[of] = j
                break
    return found
