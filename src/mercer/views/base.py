"""What every view is: arrays, words and tables that nothing changes, and that JSON can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._core.types import Array, Indices


@dataclass(frozen=True)
class Listing:
    """The numbers of a picture as a table, for those who don't see it; cells are text, ready to read."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1  # how many columns, from the left, hold words


def listing(caption: str, head: Sequence[str], rows: Any, texts: int = 1) -> Listing:
    """A table of anything that has a text."""
    return Listing(caption, tuple(head), tuple(tuple(map(str, row)) for row in rows), texts)


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """A picture as a value: what is drawn, a caption, and tables. How it is drawn is up to a renderer."""

    kind: ClassVar[str] = "view"
    caption: str = ""
    tables: tuple[Listing, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                frozen = value.view()  # the array of a caller stays as it is
                frozen.flags.writeable = False
                object.__setattr__(self, field.name, frozen)

    def to_dict(self) -> dict[str, Any]:
        """The view as plain Python values, which `json.dumps` takes.

        Returns
        -------
        dict
            ``kind`` and every field. Arrays are nested lists, times are ISO 8601 texts; a NaN is None, an
            infinite number the text "Infinity" or "-Infinity", which JSON has no numbers for.
        """
        return {"kind": self.kind, **plain(self)}


def plain(value: Any) -> Any:
    """Any value of a view as JSON has it.

    >>> plain(np.array([1.0, np.nan, np.inf])), plain((np.int64(3), "a"))
    ([1.0, None, 'Infinity'], [3, 'a'])
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return plain((np.datetime_as_string(array) if array.dtype.kind == "M" else array).tolist())
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple, range)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def span(values: Array, margin: float) -> tuple[float, float]:
    """(min, max), widened when equal so that an axis can be drawn, and by a margin on either side."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        half = 0.5 * abs(low) or 0.5
        low, high = low - half, high + half
    pad = margin * (high - low)
    return low - pad, high + pad


def spaced(n: int, most: int) -> Indices:
    """All n positions, or `most` of them at equal distances."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.intp)
