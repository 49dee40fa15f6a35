"""Missing values: where the first one is, and how many each column has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.io.layout import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer.io.table import Chunk


class Missing:
    """A tally of what is not there."""

    def __init__(self) -> None:
        self.first = ""  # "line 7, column 'x'"
        self.counts: dict[str, int] = {}  # of the columns that have any

    def add(self, chunk: Chunk, names: Sequence[str]) -> None:
        """Count those of a chunk."""
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isnan(np.sum(chunk.numbers)):  # one pass and no temporary where all is well
                return
        found = np.isnan(chunk.numbers)
        if not found.any():  # sums of large values may be ∞ - ∞
            return
        if not self.first:
            row, j = (int(i) for i in np.argwhere(found)[0])
            self.first = f"{chunk.place(row)}, column {quoted(names[j])}"
        for name, count in zip(names, found.sum(axis=0).tolist(), strict=True):
            if count:
                self.counts[name] = self.counts.get(name, 0) + count

    @property
    def total(self) -> int:
        """Of all columns."""
        return sum(self.counts.values())

    @property
    def where(self) -> str:
        """The columns that have any."""
        noun = "column" if len(self.counts) == 1 else "columns"
        return f"{noun} {listed(list(self.counts))}"

    def refuse(self, source: str = "The rows") -> None:
        """Raise when there are any."""
        if not self.first:
            return
        noun = "value is" if self.total == 1 else "values are"
        msg = (
            f"{source}: {self.total} {noun} missing, the first in {self.first}; in {self.where}. Fill them "
            "when the model is fitted (--impute mean, median or zero), drop those rows, or leave the columns "
            "out (--columns)."
        )
        raise DataError(msg)
