"""Rows of points: what a caller hands over, and some of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, KernelError
from mercer.data.frames import frame_package, frame_rows, held
from mercer.data.intake import admitted
from mercer.data.rounding import warn_rounded
from mercer.data.rows import RowSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Indices, Rows


def as_rows(X: Any) -> Rows:
    """A two-dimensional floating array (or CSR matrix) from whatever a caller hands over."""
    X = held(X)
    if frame_package(X) == "pyarrow":
        X, _ = frame_rows(X, None, what="X")
    X = admitted(X)
    x = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if x.dtype.kind == "c":
        msg = f"Complex data ({x.dtype}) came; real numbers were needed. Use X.real, or stack both parts."
        raise InputError(msg)
    if x.ndim != 2:
        msg = (
            f"Rows of points were needed, a 2-D array, but a {x.ndim}-D array of shape {x.shape} came. "
            "Use X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one point."
        )
        raise InputError(msg)
    if x.dtype not in (np.float32, np.float64):
        warn_rounded(X)
        try:
            with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
                x = x.astype(np.float64)
        except (TypeError, ValueError) as error:
            msg = f"Numbers were needed, but the array has dtype {x.dtype}: {error}."
            raise InputError(msg) from error
    return x


def as_given(X: Any, rows: Rows) -> Rows:
    """The rows of X as X is: a csr_matrix where it was a sparse matrix of the old kind."""
    return sparse.csr_matrix(rows) if isinstance(X, sparse.spmatrix) else rows


def in_one_dtype(x: Rows, y: Rows) -> tuple[Rows, Rows]:
    """Both in the better precision of the two."""
    dtype = np.result_type(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def stacked(x: Rows, y: Rows) -> Rows:
    """The rows of one after those of the other."""
    if sparse.issparse(x) or sparse.issparse(y):
        return sparse.csr_array(sparse.vstack([x, y]))
    return np.concatenate([x, y])


# ── columns ─────────────────────────────────────────────────────────────────
def positions(columns: Any, d: int | None = None) -> list[int]:
    """The columns as whole numbers; a mask, of `d` entries where d is known, says which they are."""
    given = list(columns) if isinstance(columns, (Sequence, np.ndarray)) else [columns]
    if given and all(isinstance(c, (bool, np.bool_)) for c in given):
        if d not in (None, len(given)):
            msg = (
                f"A mask of {len(given)} columns came, but the data have {d} columns. "
                "Give one True or False for each of them, or the positions of those you mean."
            )
            raise KernelError(msg)
        return [int(c) for c in np.flatnonzero(given)]
    whole = all(isinstance(c, (int, np.integer)) and not isinstance(c, bool) for c in given)
    if not whole or isinstance(columns, (int, np.integer)):
        msg = (
            f"k.on(columns) needs a sequence of whole numbers or a mask of booleans, but {columns!r} "
            "came. Write k.on([0, 2]) or k.on([True, False, True])."
        )
        raise KernelError(msg)
    return [int(c) for c in given]


class SomeColumns(RowSource):
    """Some of the columns of rows that are read a slice at a time."""

    def __init__(self, source: RowSource, positions: list[int]) -> None:
        self.source = source
        self.positions = positions
        self.shape = (source.shape[0], len(positions))
        self.dtype = source.dtype
        self.name = source.name
        self.random_access = source.random_access

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
