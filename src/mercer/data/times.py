"""Times as people and instruments write them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mercer._core.errors import DataError, quoted

DAYS = (
    "%Y-%m",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")


def as_times(values: Any, form: str | None = None) -> Any:
    """Texts as datetime64 in microseconds, UTC where they have a zone; None where they are not all times.

    Where some have a zone and others have none, nobody knows how far apart they are: that is None too.

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
    ways = (_by_format(texts, day + clock, strict=False) for day in DAYS for clock in CLOCKS)
    found = [times for times in ways if times is not None]
    if not found or any(not np.array_equal(found[0], other) for other in found[1:]):
        return None
    return found[0]


def _by_format(texts: Sequence[str], form: str, *, strict: bool) -> Any:
    """The times; what is written otherwise is refused, or makes none of them times."""
    found = []
    for row, text in enumerate(texts):
        try:
            found.append(_plain(datetime.strptime(text.strip(), form)))
        except (ValueError, OverflowError) as error:
            if not strict:
                return None
            msg = (
                f"The time of row {row} (counted from 0), {quoted(text)}, does not match {form!r}."
            )
            remedy = "Correct it, or give another `time_format`, such as '%d.%m.%Y %H:%M'."
            raise DataError.saying(msg, remedy, parameter="time_format", value=form) from error
    return np.array(found, dtype="datetime64[us]")


def _plain(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
