"""Which columns of a file are features, which one names the rows and which one labels them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercer._core.errors import DataError, quoted, refuse_data

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


def layout_of(names: Sequence[str], reading: Reading, *, source: str, named: bool) -> Layout:
    """The layout that was asked for: the features are all columns but the ids and labels, or those given."""
    require_distinct(names, source=source)
    places = {name: j for j, name in enumerate(names)}
    id_, label = (
        None if name is None else position(name, places, source=source, named=named, option=option)
        for name, option in ((reading.id, reading.id_option), (reading.label, "`label`"))
    )
    if reading.columns is None:
        features = tuple(j for j in range(len(names)) if j not in (id_, label))
    else:
        features = tuple(
            position(name, places, source=source, named=named, option="`columns`")
            for name in reading.columns
        )
        _require_once(features, id_, label, names)
    return Layout(features, (None,) * len(features), id_, label)


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
    refuse_data(
        f"{source} has {count} columns named {quoted(twice[0])} ({where}){too}.",
        "Rename them: columns are identified by their names.",
    )


def _require_once(
    features: tuple[int, ...], id_: int | None, label: int | None, names: Sequence[str]
) -> None:
    counts = Counter(features)
    for j in features:
        option = "`id`" if j == id_ else "`label`" if j == label else None
        if option is None and counts[j] == 1:
            continue
        where = "twice in `columns`" if option is None else f"in `columns` and as {option}"
        said = f"The column {quoted(names[j])} is named {where}."
        refuse_data(said, "Name it once.", parameter="columns", value=names[j])
