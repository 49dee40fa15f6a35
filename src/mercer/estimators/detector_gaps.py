"""Rows with empty cells: which can be judged, which can not, and which columns are to thank for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.rows import RowSource
from mercer.data.sources import in_memory
from mercer.estimators.door import new_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Flags, Indices

MOST_NAMED = 10


@dataclass(frozen=True, eq=False)
class Gaps:
    """Which rows are complete, and how many cells each column lacks."""

    judged: Flags  # (n,)
    missing: Indices  # (d,)

    @classmethod
    def of(cls, rows: Any) -> Gaps:  # (n, d)
        """Where cells are NaN."""
        absent = np.isnan(rows)
        return cls(~absent.any(axis=1), absent.sum(axis=0))

    @classmethod
    def joined(cls, parts: Sequence[Gaps]) -> Gaps:
        """Of consecutive blocks of rows."""
        judged = np.concatenate([part.judged for part in parts])
        return cls(judged, np.sum([part.missing for part in parts], axis=0))

    @property
    def count(self) -> int:
        """Rows that are not complete."""
        return int(np.sum(~self.judged))

    def spread_out(self, values: Array) -> Array:  # (m,) -> (n,)
        """Values of the rows that were judged in their places among all rows; NaN in the others."""
        out = np.full(len(self.judged), np.nan)
        out[self.judged] = values
        return out

    def in_words(self, names: Sequence[str]) -> str:
        """'2 of 9 rows could not be judged: cells are missing in flow (2).'; nothing where all could be."""
        if self.count == 0:
            return ""
        n = len(self.judged)
        return f"{self.count} of {n} rows could not be judged: cells are missing in {self.where(names)}."

    def where(self, names: Sequence[str]) -> str:
        """The columns that lack cells, those that lack most first, and how many."""
        order = [j for j in np.argsort(-self.missing, kind="stable") if self.missing[j]]
        shown = [f"{names[j]} ({self.missing[j]})" for j in order[:MOST_NAMED]]
        more = len(order) - MOST_NAMED
        return ", ".join(shown) + (f" and {more} more columns" if more > 0 else "")


def complete_rows(detector: Any, X: Any, names: Sequence[str]) -> tuple[Array, Gaps]:
    """The rows without a missing cell, (m, d), and which those are; infinity is the largest number."""
    if isinstance(X, np.memmap):
        X = np.asarray(X)  # a source would be read block by block, and refused at the first NaN
    rows: Any = new_rows(detector, X, detector._dtype, clip=True, gaps=True)
    if isinstance(rows, RowSource):
        rows = in_memory(rows).astype(detector._dtype, copy=False)
    if hasattr(rows, "indptr"):
        return rows, Gaps.of(np.zeros((rows.shape[0], 1)))  # refused by whoever scales them
    gaps = Gaps.of(rows)
    if not gaps.judged.any():
        msg = (
            f"None of {len(rows)} rows can be judged: cells are missing in {gaps.where(names)}. Give rows "
            "that are complete, fill the cells in (SimpleImputer), or fit without those columns."
        )
        raise InputError(msg)
    complete = rows[gaps.judged] if gaps.count else rows
    if not np.isfinite(complete).all():
        complete = np.nan_to_num(complete)
    return np.asarray(complete), gaps
