"""Some of the columns: their positions, and rows that hold nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer.data.rows import RowSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Indices, Rows


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
            f"A kernel on columns {chosen} was asked for, but the data have {d} columns "
            f"(0 to {d - 1}). Name at least one of those."
        )
        raise InputError(msg)
    return SomeColumns(x, chosen) if isinstance(x, RowSource) else x[:, chosen]
