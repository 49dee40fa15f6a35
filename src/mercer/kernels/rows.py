"""Rows of points: what a caller hands over, and some of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, KernelError, nearest, refuse
from mercer._core.types import Indices, Rows
from mercer.data.arrays import with_nan
from mercer.data.frames import frame_package, frame_rows, held
from mercer.data.intake import admitted, is_single, refuse_text
from mercer.data.rounding import warn_rounded
from mercer.data.rows import RowSource


def as_rows(X: Any) -> Rows:
    """A two-dimensional floating array (or CSR matrix) from whatever a caller hands over."""
    X = held(X)
    if frame_package(X) == "pyarrow":
        X, _ = frame_rows(X, None, what="X")
    X = admitted(X)
    refuse_text(X)
    if sparse.issparse(X):
        x = sparse.csr_array(X)
    else:
        x = np.ascontiguousarray(
            with_nan(np.asarray(X)), dtype=np.float32 if is_single(X) else None
        )
    if x.ndim != 2:
        msg = (
            f"X must be a 2-D array, one point a row; got a {x.ndim}-D array of shape {x.shape}. Use "
            "X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one point."
        )
        raise InputError(msg)
    if x.dtype not in (np.float32, np.float64):
        warn_rounded(X)
        try:
            with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
                x = x.astype(np.float64)
        except (TypeError, ValueError) as error:
            msg = f"X must hold numbers; got an array of {x.dtype}: {error}."
            raise InputError(msg) from error
    return x


def as_given(X: Any, rows: Rows) -> Rows:
    """The rows of X as X is: a csr_matrix where it was a sparse matrix of the old kind."""
    return sparse.csr_matrix(rows) if isinstance(X, sparse.spmatrix) else rows


def stacked(x: Rows, y: Rows) -> Rows:
    """The rows of one after those of the other."""
    if sparse.issparse(x) or sparse.issparse(y):
        return sparse.csr_array(sparse.vstack([x, y]))
    return np.concatenate([x, y])


# ── columns ─────────────────────────────────────────────────────────────────
def column_names(X: Any, rows: Any = None) -> list[str] | None:
    """Names of the columns of a source of rows, or of a frame; None where there are none."""
    found = getattr(rows, "columns", None)
    package = frame_package(X)
    if found is None and package is not None and hasattr(X, "shape"):  # a lazy frame has none
        found = X.column_names if package == "pyarrow" else X.columns
    names = None if found is None else list(found)
    return names if names and all(isinstance(name, str) for name in names) else None


def refuse_twins(X: Any) -> None:
    """Raise where two columns of a frame have one name, since columns are known by theirs."""
    names = column_names(X) or []
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        refuse("X", twins, "a frame whose columns have different names", f"{twins[0]!r} twice")


def shared_names(X: Any, Y: Any) -> list[str] | None:
    """Names of the columns of X or Y; raises where they differ, since columns are paired by position."""
    names, others = column_names(X), column_names(Y)
    if names is not None and others is not None and names != others:
        got, other = ", ".join(map(repr, names)), ", ".join(map(repr, others))
        msg = f"X and Y must have the same columns in the same order; got {got} and {other}."
        raise KernelError(msg)
    return others if names is None else names


def are_names(columns: Any) -> bool:
    """Whether the columns of a kernel are given by their names."""
    listed = isinstance(columns, (Sequence, np.ndarray)) and not isinstance(columns, str)
    return listed and len(columns) > 0 and all(isinstance(c, str) for c in columns)


def named_positions(columns: Sequence[Any], names: Sequence[str] | None) -> list[int]:
    """Where the named columns are among these names."""
    if names is None:
        msg = (
            f"k.on({list(map(str, columns))}) names columns, but these rows have no column names. "
            "Write positions, counted from 0, such as k.on([0, 2]); in Python, a data frame has names "
            "(set_output(transform='pandas') keeps them in a pipeline)."
        )
        raise KernelError(msg)
    names = list(names)
    for column in columns:
        if column not in names:
            msg = f"Unknown column {str(column)!r} in k.on(…). {nearest(column, names)}"
            raise KernelError(msg)
        if names.count(column) > 1:
            msg = f"k.on(…) names the column {str(column)!r}, of which the data have several. Rename them."
            raise KernelError(msg)
    return [names.index(column) for column in columns]


def positions(columns: Any, d: int | None = None) -> list[int]:
    """The columns as whole numbers; a mask, of `d` entries where d is known, says which they are."""
    if are_names(columns):
        return named_positions(columns, None)
    given = list(columns) if isinstance(columns, (Sequence, np.ndarray)) else [columns]
    if given and all(isinstance(c, (bool, np.bool_)) for c in given):
        if d not in (None, len(given)):
            msg = (
                f"k.on(mask) needs one True or False for each of the {d} columns; got {len(given)}. Write as "
                "many, or the positions of those you mean."
            )
            raise KernelError(msg)
        return [int(c) for c in np.flatnonzero(given)]
    whole = all(isinstance(c, (int, np.integer)) and not isinstance(c, bool) for c in given)
    if not whole or isinstance(columns, (int, np.integer)):
        msg = (
            f"k.on(columns) needs a sequence of positions, of names or of booleans; got {columns!r}. Write "
            "k.on([0, 2]), k.on(['temperature']) or k.on([True, False, True])."
        )
        raise KernelError(msg)
    return [int(c) for c in given]


class SomeColumns(RowSource):
    """Some of the columns of rows that are read a slice at a time."""

    def __init__(self, source: RowSource, positions: list[int]) -> None:
        self.source, self.positions = source, positions
        self.shape, self.dtype = (source.shape[0], len(positions)), source.dtype
        self.name, self.random_access = source.name, source.random_access

    def __getitem__(self, key: slice | Indices) -> Rows:
        return self.source[key][:, self.positions]

    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        for i, block in self.source.blocks(height):
            yield i, block[:, self.positions]

    def resident_bytes(self, height: int) -> int:
        return self.source.resident_bytes(height)

    def check_unchanged(self) -> None:
        self.source.check_unchanged()


def picked(x: Rows, columns: Any) -> Rows:
    """The rows on these columns; an error where they have none of that name."""
    d = x.shape[1]
    chosen = positions(columns, d)
    outside = [c for c in chosen if not -d <= c < d]
    if outside or not chosen:
        msg = (
            f"The columns of a kernel must be from 0 to {d - 1}, one of them at least; got {chosen} for data "
            f"with {d} columns."
        )
        raise InputError(msg)
    return SomeColumns(x, chosen) if isinstance(x, RowSource) else x[:, chosen]


def require_counts(x: Rows) -> None:
    """Raise where an entry is negative, which no count is."""
    lowest = x.data.min(initial=0) if sparse.issparse(x) else x.min(initial=0)
    if lowest < 0:
        msg = (
            f"Negative values in data: Chi2 is a kernel of histograms, whose entries must be >= 0; got "
            f"{lowest:.6g}. Leave counts unscaled (--scale none at the command line, scale=False of a "
            "detector), shift the columns to start at zero, or use RBF."
        )
        raise InputError(msg)
