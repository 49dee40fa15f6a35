"""Numbers that float64 does not hold exactly: found before they are rounded, with one warning.

float16, booleans and whole numbers up to 2⁵³ are held exactly, so reading them as float64 loses nothing.
Larger whole numbers (identifiers, times in nanoseconds) and long doubles may lose digits, and rows that
differed may become equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Rational
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._core.errors import RoundingWarning, many
from mercer._core.findings import warn
from mercer._core.types import Array, Indices
from mercer.data.arrays import home_of

WHOLE = 2**53  # up to here float64 holds every whole number
# Written without a point and without an exponent; 2**53 has 16 digits.
LONG_WHOLE = re.compile(r"(?<![0-9.eE])[+-]?[0-9]{16,}(?![0-9.eE])")


class Rounded(NamedTuple):
    """The first value that is rounded, and how many are."""

    value: str
    read: float
    row: int
    column: int
    n_values: int


def warn_rounded(
    x: Any,
    *,
    what: str = "X",
    names: Sequence[Any] | None = None,
    rows: Sequence[int] | Indices | None = None,
) -> bool:
    """Give a `RoundingWarning` if float64 does not hold all numbers of `x`; whether it was given.

    `x` is as the caller has it: an array, a sparse matrix, a frame of pandas, polars or Arrow, or lists.
    `rows` are the numbers of its rows, where it is a part of something.
    """
    found = first_rounded(x)
    if found is None:
        return False
    if names is None:
        names = getattr(x, "column_names", getattr(x, "columns", None))  # of Arrow, of the others
    at = "" if rows is None else f"row {int(rows[found.row])}"
    warn_of_rounded(found, what=what, names=names, at=at)
    return True


def warn_of_rounded(found: Rounded, *, what: str, names: Sequence[Any] | None, at: str) -> None:
    """Give the warning; `at` is the place of the row where it is not its number."""
    name = None if names is None else next(iter(names[found.column :]), None)
    column = f"{found.column} ({name!r})" if isinstance(name, str) else found.column
    place, read = at or f"row {found.row}", found.read
    shown = str(int(read)) if abs(read) >= WHOLE and np.isfinite(read) else repr(read)
    msg = (
        f"{what} has numbers that float64 does not hold exactly: {found.value} in {place}, column {column} "
        f"is read as {shown} ({many(found.n_values, 'such value')} among the rows read with it). Leave out a "
        "column of identifiers; subtract an offset from large numbers whose differences matter."
    )
    warn(msg, RoundingWarning)


def first_rounded(x: Any) -> Rounded | None:
    """The first value of `x` that float64 does not hold exactly.

    >>> first_rounded(np.array([[1, 2**53], [2**53 + 1, 2**60]]))
    Rounded(value='9007199254740993', read=9007199254740992.0, row=1, column=0, n_values=1)
    >>> first_rounded(np.array([[0.1]], dtype=np.float16))
    """
    found, count = [], 0
    for values, rows, columns in _parts(x):
        if (lost := lost_digits(values)) is not None:
            at = int(np.argmax(lost))
            count += int(np.count_nonzero(lost))
            found.append((int(rows(at)), int(columns(at)), values.flat[at]))
    if not found:
        return None
    row, column, value = min(found, key=itemgetter(0, 1))
    with np.errstate(all="ignore"):
        return Rounded(str(value), float(value), row, column, count)


def _parts(x: Any) -> Iterator[tuple[Array, Any, Any]]:
    """Arrays that may lose digits, each with the row and the column of its entries."""
    if sparse.issparse(x):
        if _may_lose(x.dtype):
            coo = x.tocoo()
            yield coo.data, coo.coords[0].__getitem__, coo.coords[-1].__getitem__
        return
    package = home_of(x)
    if package in COLUMNS and hasattr(x, "columns"):
        for j, values in COLUMNS[package](x):
            yield values, int, lambda _, j=j: j
        return
    if hasattr(x, "to_numpy"):  # a series
        x = x.to_numpy()
    if isinstance(x, (list, tuple)):
        x = _gathered(x)
    if isinstance(x, np.ndarray) and _may_lose(x.dtype):
        wide = x.shape[1] if x.ndim == 2 and x.shape[1] else 1
        yield np.ma.getdata(x), lambda at: at // wide, lambda at: at % wide


def _gathered(x: Any) -> Any:
    """Lists as an array of objects: NumPy would make float64 of 1.5 and 2**60 before they are looked at."""
    try:
        found = np.asarray(x)
    except ValueError:  # ragged, which is refused elsewhere
        return None
    big = found.dtype.kind == "f" and found.size and np.nanmax(np.abs(found), initial=0) >= WHOLE
    return np.asarray(x, dtype=object) if big or found.dtype.kind == "O" else found


def _may_lose(dtype: Any) -> bool:
    held = {"i": 4, "u": 4, "f": 8}  # bytes of numbers that float64 holds
    return dtype.kind == "O" or dtype.itemsize > held.get(dtype.kind, np.inf)


def lost_digits(values: Array) -> Any:
    """Which entries float64 does not hold exactly, flat; None where it holds all."""
    if values.size == 0:
        return None
    kind = values.dtype.kind
    if kind in "iu":
        if int(values.max()) <= WHOLE and int(values.min()) >= -WHOLE:
            return None
        size = np.abs(values.ravel()).astype(np.uint64)  # |-2⁶³| wraps to 2⁶³, as it should
        size[size == 0] = 1
        odd = size // (size & (~size + np.uint64(1)))  # without factors of two, which cost no digit
        lost = odd > np.uint64(WHOLE)
    elif kind == "f":
        flat = values.ravel()
        with np.errstate(all="ignore"):
            double = flat.astype(np.float64)
            lost = np.isfinite(double) & (double.astype(flat.dtype) != flat)  # others are refused
    else:
        lost = np.fromiter(map(_is_rounded, values.flat), dtype=bool, count=values.size)
    return lost if lost.any() else None


def _is_rounded(value: Any) -> bool:
    """Whether a number is a whole one that float64 does not hold; fractions are read to the nearest."""
    if isinstance(value, np.floating):
        with np.errstate(all="ignore"):
            return bool(np.isfinite(float(value)) and type(value)(float(value)) != value)
    if isinstance(value, str):
        return LONG_WHOLE.fullmatch(value.strip()) is not None and _is_rounded(int(value))
    if isinstance(value, np.integer):
        value = int(value)
    exact = isinstance(value, (Rational, Decimal)) and not isinstance(value, bool)
    try:
        large = exact and abs(value) > WHOLE
        return bool(large and value == int(value) and int(float(value)) != int(value))
    except (OverflowError, ValueError):  # infinite, which is refused elsewhere
        return False


# ── frames ──────────────────────────────────────────────────────────────────
def _pandas_columns(frame: Any) -> Iterator[tuple[int, Array]]:
    kinds = {"i": np.int64, "u": np.uint64, "f": np.float64, "O": object}
    for j, dtype in enumerate(frame.dtypes):
        plain = dtype if isinstance(dtype, np.dtype) else kinds.get(getattr(dtype, "kind", ""))
        if plain is not None and np.dtype(plain).kind in "iufO" and _may_lose(np.dtype(plain)):
            nullable = not isinstance(dtype, np.dtype) and plain is not object
            filled = {"na_value": 0} if nullable else {}
            yield j, frame.iloc[:, j].to_numpy(dtype=plain, **filled)


def _polars_columns(frame: Any) -> Iterator[tuple[int, Array]]:
    for j, column in enumerate(frame.get_columns()):
        kind = str(column.dtype)
        if kind in ("Int64", "UInt64"):
            yield j, column.fill_null(0).to_numpy()
        elif kind.startswith(("Int128", "UInt128", "Decimal")):
            yield j, np.array([v or 0 for v in column.to_list()], dtype=object)


def _arrow_columns(table: Any) -> Iterator[tuple[int, Array]]:
    for j, column in enumerate(table.columns):
        kind = str(column.type)
        if kind in ("int64", "uint64"):
            values = column.fill_null(0) if column.null_count else column
            yield j, values.to_numpy(zero_copy_only=False)
        elif kind.startswith("decimal") and column.type.precision > 15:
            size = np.abs(column.cast("float64").to_numpy(zero_copy_only=False))
            large = np.flatnonzero(size >= WHOLE)
            values = np.zeros(len(size), dtype=object)
            values[large] = column.take(large).to_pylist()
            yield j, values


COLUMNS = {"pandas": _pandas_columns, "polars": _polars_columns, "pyarrow": _arrow_columns}
