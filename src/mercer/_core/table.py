"""A small table: named columns of one length, which print themselves and become a data frame when asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mercer._core.errors import InputError, kind_of, nearest

SHOWN = 20  # rows that a printed table has at most, half from either end
WHOLE = (str, list, tuple, dict, type(None))  # values that NumPy would take apart, or make texts of


class Printed:
    """What a notebook shows as it is printed."""

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


class Table(Printed):
    """Named columns of one length.

    Parameters
    ----------
    columns : mapping of str to sequence
        Kept as arrays, in this order.

    Examples
    --------
    >>> table = Table({"kernel": ["rbf", "linear"], "error": [0.25, 0.5]})
    >>> print(table)
    kernel  error
    rbf      0.25
    linear    0.5
    >>> table["error"].min()
    np.float64(0.25)
    """

    def __init__(self, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> None:
        self._columns = {name: _column(values) for name, values in columns.items()}
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            msg = f"Columns must have one length; got {lengths}."
            raise InputError(msg)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """A column as an array."""
        if name not in self._columns:
            msg = f"No column {name!r} in this table. {nearest(str(name), self.columns)}"
            raise InputError(msg)
        return self._columns[name]

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row, as plain Python values by name."""
        for i in range(len(self)):
            yield {name: plain(column[i]) for name, column in self._columns.items()}

    def take(self, rows: Any) -> Table:
        """Some of the rows: positions or a mask."""
        return Table({name: column[rows] for name, column in self._columns.items()})

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame, where pandas is installed."""
        try:
            import pandas as pd
        except ImportError as error:
            msg = "This needs pandas, which is not installed. Install it with: pip install pandas"
            raise InputError(msg) from error
        return pd.DataFrame(dict(self._columns))

    def __str__(self) -> str:
        n = len(self)
        rows = [i for i in range(n) if n <= SHOWN or not SHOWN // 2 <= i < n - SHOWN // 2]
        padded = []
        for name, column in self._columns.items():
            texts = [name, *(_text(column[i]) for i in rows)]
            side, width = ">" if column.dtype.kind in "fiu" else "<", max(map(len, texts))
            padded.append([f"{text:{side}{width}}" for text in texts])
        lines = ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
        if n > SHOWN:
            lines.insert(1 + SHOWN // 2, f"… {n - SHOWN} more rows")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"


def _column(values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, str) or not hasattr(values, "__len__") or np.ndim(values[:0]) != 1:
        msg = f"A column must be a sequence of values, one for each row; got {kind_of(values)}."
        raise InputError(msg)
    if isinstance(values, np.ndarray):
        array = values.copy()
    elif all(isinstance(v, str) for v in values) or not any(isinstance(v, WHOLE) for v in values):
        array = np.array(values)
    else:  # lists, or texts among numbers: each value stays what it is
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = tuple(value) if isinstance(value, list) else value
    array.flags.writeable = False
    return array


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
