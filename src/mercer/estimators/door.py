"""What comes in: rows in memory or from a source, with their weights, checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.engine.rows import RowSource, row_blocks
from mercer.engine.sources import as_source
from mercer.estimators.validation import check_rows, check_weights, remember_columns

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels import Kernel

CHECKED_ROWS = 8192


@dataclass(frozen=True)
class Training:
    """Checked training rows."""

    rows: Rows
    weights: Array | None
    kept: Indices | None = None  # positions of the rows that count, where some do not

    @property
    def n(self) -> int:
        """Rows that count."""
        return int(self.rows.shape[0])

    @property
    def d(self) -> int:
        """Columns."""
        return int(self.rows.shape[1])

    @property
    def in_memory(self) -> bool:
        """Whether the rows are an array or a sparse matrix."""
        return not isinstance(self.rows, RowSource)

    @property
    def reading_bytes(self) -> int:
        """What a source holds while it is read."""
        return 0 if self.in_memory else int(self.rows.resident_bytes(CHECKED_ROWS))

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return hasattr(self.rows, "indptr")

    @property
    def n_bytes(self) -> int:
        """What the rows take in memory, or would."""
        if self.is_sparse:
            return int(self.rows.data.nbytes + self.rows.indices.nbytes + self.rows.indptr.nbytes)
        return self.n * self.d * int(self.rows.dtype.itemsize)


def training_rows(
    estimator: Any, X: Any, sample_weight: Any, *, copy: bool, pairwise: bool = False
) -> Training:
    """The rows of X that count, checked. With ``copy`` the caller may change his array later."""
    # A kernel matrix has to be symmetric, which only the whole of it shows: a memory map is an array there.
    source = None if pairwise and isinstance(X, np.ndarray) else as_source(X)
    if source is not None:
        if pairwise:
            msg = (
                f"kernel='precomputed' needs the kernel matrix as an array, but {source!r} came. Use "
                "np.load(path, mmap_mode='r')[:] to read it."
            )
            raise InputError(msg)
        if source.shape[0] < 2:
            msg = f"{source!r} has {source.shape[0]} row(s), and at least 2 are needed."
            raise InputError(msg)
        return Training(source, check_weights(sample_weight, source.shape[0]))
    rows = check_rows(estimator, X, reset=True, copy=copy)
    came = Training(rows, check_weights(sample_weight, int(rows.shape[0])))
    return came if came.weights is None else _without_weightless(came, pairwise=pairwise)


def _without_weightless(came: Training, *, pairwise: bool) -> Training:
    """A row of weight zero is a row that is not there."""
    assert came.weights is not None  # the caller looked
    kept = np.flatnonzero(came.weights)
    if len(kept) == came.n:
        return came
    rows = came.rows[np.ix_(kept, kept)] if pairwise else came.rows[kept]
    weights = came.weights[kept]
    return replace(came, rows=rows, weights=None if np.all(weights == 1.0) else weights, kept=kept)


def new_rows(estimator: Any, X: Any, dtype: np.dtype[Any]) -> Rows:
    """Rows to project, checked against those of the fit and of their dtype."""
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise
    source = None if pairwise and isinstance(X, np.ndarray) else as_source(X)
    if source is None:
        return check_rows(estimator, X, reset=False).astype(dtype, copy=False)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and source.columns is not None:  # by name, whatever else the table holds
        source = as_source(X, columns=list(names)) or source
    if source.shape[1] != estimator.n_features_in_:
        msg = (
            f"{source!r} has {source.shape[1]} columns, but {type(estimator).__name__} was fitted on "
            f"{estimator.n_features_in_}. Give the same features in the same order."
        )
        raise InputError(msg)
    return source


def check_kernel_rows(kernel: Kernel, rows: Rows) -> None:
    """Raise when the kernel is not defined on the rows; those of a source are read once for that."""
    for _, block in row_blocks(rows, CHECKED_ROWS if isinstance(rows, RowSource) else 2**62):
        kernel.check_rows(block)


def remember(estimator: Any, X: Any, rows: Rows) -> None:
    """Number and names of the columns, as scikit-learn records them."""
    if not isinstance(rows, RowSource):
        remember_columns(estimator, X)
        return
    estimator.n_features_in_ = int(rows.shape[1])
    names = getattr(rows, "columns", None)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_out(out: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Raise unless scores can be written to `out` as they are."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        what = f"{out.shape} {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        msg = f"`out` has to be an array of shape {shape} and {dtype}, but {what} came."
        raise InputError(msg)
    if not out.flags.writeable:
        msg = "`out` is read-only. Open it for writing, such as np.lib.format.open_memmap(path, 'w+')."
        raise InputError(msg)
