"""Training data as a fit and its planner see them: checked rows, their weights, and what they take."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import RowSource

CHECKED_BYTES = 16 * 2**20  # of a source that are read at a time


@dataclass(frozen=True)
class TrainingData:
    """Checked training rows and their weights."""

    rows: Rows
    weights: Array | None = None
    kept: Indices | None = None  # positions of the rows that count, where some do not
    copied: bool = False  # our own, whatever becomes of the caller's
    # Of the rows: how many count, their columns, the bytes of a number; whether they are an array or a
    # sparse matrix, and whether they are the latter.
    n: int = field(init=False)
    d: int = field(init=False)
    itemsize: int = field(init=False)
    in_memory: bool = field(init=False)
    is_sparse: bool = field(init=False)

    def __post_init__(self) -> None:
        rows = self.rows
        n, d, itemsize = int(rows.shape[0]), int(rows.shape[1]), int(rows.dtype.itemsize)
        held, is_sparse = not isinstance(rows, RowSource), hasattr(rows, "indptr")
        vars(self).update(n=n, d=d, itemsize=itemsize, in_memory=held, is_sparse=is_sparse)

    @property
    def reading_bytes(self) -> int:
        return 0 if self.in_memory else int(self.rows.resident_bytes(read_height(self.rows)))

    @property
    def numbers_a_row(self) -> int:
        """Numbers that a row takes in memory: all columns, or those of a sparse row that are not zero."""
        if not self.is_sparse:
            return self.d
        return -(-self.n_bytes // (self.n * self.itemsize))

    @property
    def n_bytes(self) -> int:
        if self.is_sparse:
            return int(self.rows.data.nbytes + self.rows.indices.nbytes + self.rows.indptr.nbytes)
        return self.n * self.d * self.itemsize


def read_height(rows: Rows) -> int:
    """Rows of a source that are read at a time."""
    return max(1, CHECKED_BYTES // (int(rows.shape[1]) * 8))
