"""What comes in: rows in memory or from a source, with their weights, checked once."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, many
from mercer.data.frames import held
from mercer.data.rows import RowSource, first_bad, row_blocks
from mercer.data.sources import as_source, in_memory
from mercer.data.training import TrainingData, read_height
from mercer.estimators.validation import cast, check_rows, check_weights, remember_columns
from mercer.kernels import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Array, Indices, Rows


def training_rows(
    estimator: Any, X: Any, sample_weight: Any, *, copy: bool, pairwise: bool = False
) -> TrainingData:
    """The rows of X that count, checked. With ``copy`` the caller may change his array later."""
    _refuse_kernel(X)
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
            msg = f"{source!r} has {many(int(source.shape[0]), 'row')}, and at least 2 are needed."
            raise InputError(msg)
        return TrainingData(source, check_weights(sample_weight, source.shape[0]))
    rows = check_rows(estimator, X, reset=True, copy=copy)
    data = TrainingData(rows, check_weights(sample_weight, int(rows.shape[0])))
    return data if data.weights is None else _without_weightless(data, pairwise=pairwise)


def _refuse_kernel(X: Any) -> None:
    if isinstance(X, Kernel):
        msg = f"Rows were needed, but a kernel came, {X!r}. Look at the order of the arguments."
        raise InputError(msg)


def loaded(data: TrainingData) -> TrainingData:
    """The rows of a source in memory, those of weight zero left out."""
    read = TrainingData(in_memory(data.rows), data.weights)
    return read if read.weights is None else _without_weightless(read, pairwise=False)


def _without_weightless(data: TrainingData, *, pairwise: bool) -> TrainingData:
    """A row of weight zero is a row that is not there."""
    assert data.weights is not None  # the caller looked
    kept = np.flatnonzero(data.weights)
    if len(kept) == data.n:
        return data
    rows = data.rows[np.ix_(kept, kept)] if pairwise else data.rows[kept]
    weights = data.weights[kept]
    return replace(data, rows=rows, weights=None if np.all(weights == 1.0) else weights, kept=kept)


def new_rows(
    estimator: Any, X: Any, dtype: np.dtype[Any], *, clip: bool = False, gaps: bool = False
) -> Rows:
    """Rows to project, checked against those of the fit and of their dtype.

    `clip` as `cast` has it; with `gaps` an array may hold NaN and infinity, as `check_rows` has it.
    """
    _refuse_kernel(X)
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise
    source = None if pairwise and isinstance(X, np.ndarray) else _named_source(estimator, X)
    if source is None:
        return cast(check_rows(estimator, X, reset=False, gaps=gaps), dtype, clip=clip)
    if source.shape[1] != estimator.n_features_in_:
        msg = (
            f"{source!r} has {source.shape[1]} columns, but {type(estimator).__name__} was fitted on "
            f"{estimator.n_features_in_}. Give the same features in the same order."
        )
        raise InputError(msg)
    wider = source.dtype.itemsize > dtype.itemsize
    return CastRows(source, dtype, clip=clip) if wider else source


class CastRows(RowSource):
    """Rows that are read a slice at a time, in the precision of the fit."""

    def __init__(self, source: RowSource, dtype: np.dtype[Any], *, clip: bool) -> None:
        self.source, self.dtype, self.clip = source, dtype, clip
        self.shape, self.name, self.random_access = source.shape, source.name, source.random_access

    def __getitem__(self, key: slice | Indices) -> Rows:
        return cast(self.source[key], self.dtype, clip=self.clip)

    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        for i, block in self.source.blocks(height):
            yield i, cast(block, self.dtype, clip=self.clip, first=i.start)

    def resident_bytes(self, height: int) -> int:
        return self.source.resident_bytes(height)

    def check_unchanged(self) -> None:
        self.source.check_unchanged()


def check_kernel_rows(kernel: Kernel, rows: Rows) -> None:
    """Raise when the kernel is not defined on the rows; those of a source are read once for that."""
    if isinstance(rows, RowSource):
        if not kernel.looks_at_rows:
            return
        for _, block in row_blocks(rows, read_height(rows)):
            kernel.check_rows(block)
    else:
        kernel.check_rows(rows)


def require_scores(scores: Array, kernel: Kernel | None) -> None:
    """Raise where the values of a kernel, or the sums of them, are beyond the largest number."""
    bad = first_bad(scores)
    if bad is None:
        return
    of = "The scores" if kernel is None else f"Values of {kernel!r}"
    n = int(np.count_nonzero(~np.isfinite(scores).all(axis=1)))
    msg = (
        f"{of} overflow {scores.dtype} for {n} of {len(scores)} rows, the first of them row {bad[1]}, or are "
        "no numbers there (NaN). Such rows are far from all that the model was fitted on, or the kernel is "
        "not defined there: drop them or look into them, or fit with a kernel that is bounded (RBF, Matern, "
        "Cosine)."
    )
    raise InputError(msg)


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


def _named_source(estimator: Any, X: Any) -> RowSource | None:
    """A source of new rows; the columns of a table by the names of the fit, whatever else it holds."""
    names = getattr(estimator, "feature_names_in_", None)
    X = held(X)  # names may be looked for twice
    if names is None or isinstance(X, np.ndarray):
        return as_source(X)
    try:
        return as_source(X, columns=list(names))
    except InputError:
        source = as_source(X)
        if source is None or source.columns is None:  # rows without names go by position
            return source
        raise


def _overlaps(out: Any, X: Any) -> bool:
    """Whether `out` may lie in the rows that are read."""
    if isinstance(X, np.ndarray):
        return bool(np.may_share_memory(out, X))
    if isinstance(X, (str, os.PathLike)) and isinstance(out, np.memmap):
        mine = str(getattr(out, "filename", ""))
        return Path(X).expanduser().resolve() == Path(mine).resolve()
    return False


def check_out(out: Any, X: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Raise unless scores can be written to `out` as they are, without harm to the rows."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        what = f"{out.shape} {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        msg = f"`out` has to be an array of shape {shape} and {dtype}, but {what} came."
        raise InputError(msg)
    if _overlaps(out, X):
        msg = (
            "`out` lies in the rows that are read: scores would overwrite them. Give another array."
        )
        raise InputError(msg)
    if not out.flags.writeable:
        msg = "`out` is read-only. Open it for writing, such as np.lib.format.open_memmap(path, 'w+')."
        raise InputError(msg)
