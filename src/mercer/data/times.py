"""Times as people and instruments write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mercer._core.errors import DataError, quoted

DAYS: tuple[str, ...] = ("%Y-%m", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y")
DAYS += ("%d-%m-%Y", "%d-%b-%Y", "%d %b %Y")
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
WAYS = tuple(day + clock for day in DAYS for clock in CLOCKS)
# With a unit: NumPy deprecates times without one.
UNREAD = np.datetime64("NaT", "us")
# Every date begins so; most other texts are ruled out here, before any of the ways is tried.
BEGINS = re.compile(r"\s*\d+([-/.]?\d|[- ][A-Za-z]{3}[- ]\d|-?W\d)")


def as_times(values: Any, form: str | None = None) -> Any:
    """Texts as datetime64 in microseconds, UTC where they have a zone; None where they are not all times.

    Where some have a zone and others have none, how far apart they are is not known: that is None too.

    Without a `form`, as in `datetime.strptime`, they are read as ISO 8601, or in the one common way that fits
    all of them. Where two ways fit and tell other times, such as 01/02/2024, it is not guessed.

    >>> as_times(["2024-01-31 10:00", "2024-02-01 10:00"])
    array(['2024-01-31T10:00:00.000000', '2024-02-01T10:00:00.000000'], dtype='datetime64[us]')
    >>> as_times(["31.01.2024", "1.2.2024"]).astype("datetime64[D]")
    array(['2024-01-31', '2024-02-01'], dtype='datetime64[D]')
    >>> as_times(["01/02/2024"]) is None
    True
    """
    array = np.asarray(values)
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    texts = [value if isinstance(value, str) else "" for value in array.tolist()]
    if form is not None:
        return _by_format(texts, form, strict=True)
    if not texts or not any(c in texts[0] for c in "-/.: "):
        return None
    with suppress(ValueError, OverflowError):
        times = [datetime.fromisoformat(text.strip()) for text in texts]
        are_alike = sum(time.tzinfo is None for time in times) in (0, len(times))
        return np.array(list(map(_plain, times)), dtype="datetime64[us]") if are_alike else None
    ways = (_by_format(texts, way, strict=False) for way in WAYS)
    found = [times for times in ways if times is not None]
    are_one = bool(found) and all(np.array_equal(found[0], other) for other in found[1:])
    return found[0] if are_one else None


def read_times(values: Any, form: str | None = None) -> Any:
    """Dates and texts as datetime64 in microseconds, UTC where they have a zone; None where none can be read.

    What can't be read, such as the "Bad" of a historian, is NaT, and the others are read as if it were not
    there. Where no one way fits all of those, each is read by itself, as it would be in a stream.

    >>> read_times(["2024-01-31 10:00", "Bad"])
    array(['2024-01-31T10:00:00.000000',                        'NaT'],
          dtype='datetime64[us]')
    """
    array = np.asarray(values)
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    cells = array.tolist()
    if form is None and (found := as_times(cells)) is not None:
        return found
    found = np.full(len(cells), UNREAD, dtype="datetime64[us]")
    texts = [i for i, cell in enumerate(cells) if isinstance(cell, str) and _is_time(cell, form)]
    for i in set(range(len(cells))) - set(texts):
        found[i] = UNREAD if isinstance(cells[i], str) else _instant(cells[i])
    if texts:
        times = as_times([cells[i] for i in texts], form)
        if times is None:  # no one way fits all of them: one by one
            alone = [as_times([cells[i]]) for i in texts]
            times = [UNREAD if time is None else time[0] for time in alone]
        found[texts] = times
    return None if np.isnat(found).all() else found


def _is_time(text: str, form: str | None) -> bool:
    """Whether a text is a time in the format, or in any of the common ways."""
    if form is not None:
        return _by_format([text], form, strict=False) is not None
    if not BEGINS.match(text) or not any(c in text for c in "-/.: "):
        return False
    with suppress(ValueError, OverflowError):
        _plain(datetime.fromisoformat(text.strip()))
        return True
    return any(_by_format([text], way, strict=False) is not None for way in WAYS)


def _instant(date: Any) -> Any:
    """A date of Python's, NumPy's or pandas', in UTC where it has a zone; NaT for all else."""
    with suppress(TypeError, ValueError, OverflowError):
        found = np.asarray([_plain(date) if isinstance(date, datetime) else date])
        if found.shape == (1,) and found.dtype.kind not in "iufb":
            return found.astype("datetime64[us]")[0]
    return UNREAD


def _by_format(texts: Sequence[str], form: str, *, strict: bool) -> Any:
    """The times; what is written otherwise is refused, or makes none of them times."""
    found = []
    for row, text in enumerate(texts):
        try:
            found.append(_plain(datetime.strptime(text.strip(), form)))
        except (ValueError, OverflowError) as error:
            if not strict:
                return None
            what = f"The time of row {row} (counted from 0), {quoted(text)},"
            msg = f"{what} does not match {form!r}."
            remedy = "Correct it, or give another `time_format`, such as '%d.%m.%Y %H:%M'."
            raise DataError.saying(msg, remedy, parameter="time_format", value=form) from error
    return np.array(found, dtype="datetime64[us]")


def _plain(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
