"""Training data as a fit and its planner see them: checked rows, their weights, and what they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercer.data.rows import RowSource

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows

CHECKED_BYTES = 16 * 2**20  # of a source that are read at a time


@dataclass(frozen=True)
class TrainingData:
    """Checked training rows and their weights."""

    rows: Rows
    weights: Array | None = None
    kept: Indices | None = None  # positions of the rows that count, where some do not
    copied: bool = False  # our own, whatever becomes of the caller's

    @property
    def n(self) -> int:
        """Rows that count."""
        return int(self.rows.shape[0])

    @property
    def d(self) -> int:
        """Columns."""
        return int(self.rows.shape[1])

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return int(self.rows.dtype.itemsize)

    @property
    def in_memory(self) -> bool:
        """Whether the rows are an array or a sparse matrix."""
        return not isinstance(self.rows, RowSource)

    @property
    def reading_bytes(self) -> int:
        """What a source holds while it is read."""
        return 0 if self.in_memory else int(self.rows.resident_bytes(read_height(self.rows)))

    @property
    def numbers_a_row(self) -> int:
        """Numbers that a row takes in memory: all columns, or those of a sparse row that are not zero."""
        if not self.is_sparse:
            return self.d
        return -(-self.n_bytes // (self.n * self.itemsize))

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return hasattr(self.rows, "indptr")

    @property
    def n_bytes(self) -> int:
        """What the rows take in memory, or would."""
        if self.is_sparse:
            return int(self.rows.data.nbytes + self.rows.indices.nbytes + self.rows.indptr.nbytes)
        return self.n * self.d * self.itemsize


def read_height(rows: Rows) -> int:
    """Rows of a source that are read at a time."""
    return max(1, CHECKED_BYTES // (int(rows.shape[1]) * 8))
