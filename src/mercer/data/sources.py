"""Anything that holds rows outside of memory becomes a `RowSource`: the door for files and batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import DataError, ReadingWarning, refuse, users_level
from mercer._core.memory import available_bytes
from mercer._core.types import Rows
from mercer.data.arrays import is_a, unwrapped
from mercer.data.arrow import ArrowTable, HeldTable, ParquetTable, scan
from mercer.data.batches import ANEW, ZARR, Batches, ChunkedRows, open_zarr
from mercer.data.dask import FRAME, DaskRows, dask_kind
from mercer.data.formats import open_table
from mercer.data.frames import frame_package, held, need
from mercer.data.intake import refuse_lazy
from mercer.data.npy import MappedRows, open_npy
from mercer.data.rows import RowSource
from mercer.data.table import Reading, Table
from mercer.data.view import TableRows

KEPT_SHARE = 1 / 16  # of the free memory, for rows that were read to count them

# What `open_table` can be asked for, and a fit can't.
OPTIONS = frozenset(field.name for field in fields(Reading))


def as_source(X: Any, *, columns: Sequence[str] | None = None) -> RowSource | None:
    """A source for rows that are not in memory; None for arrays, matrices, frames and lists, which are.

    Blocks come as float32 where the numbers are stored so, otherwise as float64 (integers and booleans
    too), and each is checked for NaN and infinity whenever it is read.

    A path leads to any file that `open_table` reads, or to a ``.zarr`` folder; all columns are numbers. A
    callable makes a new iterator of batches whenever it is called (see `Batches`). Whatever has
    ``__arrow_c_stream__`` is read into memory, once. Chunked arrays (zarr, h5py, dask) have ``shape``,
    ``dtype``, ``chunks`` and slices. `columns` are those of tables and frames to read, in this order; all
    otherwise, but for pandas' index.

    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/big.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    >>> rows = as_source(f"{folder.name}/big.npy")
    >>> rows
    NPY file '...big.npy', 6 x 2 float32
    >>> rows[2:4]
    array([[4., 5.],
           [6., 7.]], dtype=float32)
    >>> as_source(np.zeros((3, 2))) is None
    True
    >>> folder.cleanup()
    """
    if columns is not None:
        columns = (columns,) if isinstance(columns, str) else tuple(columns)
    X = unwrapped(X)
    if isinstance(X, (str, os.PathLike)):
        return _open(X, columns)
    if (kind := dask_kind(X)) is not None:
        return DaskRows(X, columns if kind == FRAME else None)
    if isinstance(X, Table):
        return _rows(X if columns is None else X.named_columns(columns))
    if (table := _arrow_source(X, columns)) is not None:
        return table
    refuse_lazy(X)
    if callable(X) and not hasattr(X, "shape"):
        return Batches(X, columns=columns)
    if hasattr(X, "__next__"):
        must_be = "rows that can be read several times, as a fit does"
        remedy = f"Pass a function that {ANEW}, or the path of a file."
        refuse("X", X, must_be, got=f"a {type(X).__name__}", remedy=remedy)
    source: RowSource | None = X if isinstance(X, RowSource) else None
    if isinstance(X, np.memmap) and X._mmap is not None:  # type: ignore[attr-defined]
        source = MappedRows.of(X)
    elif not isinstance(X, np.ndarray) and all(hasattr(X, a) for a in ("shape", "dtype", "chunks")):
        source = ChunkedRows(X)
    return None if source is None else _unnamed(source, columns)


def _arrow_source(x: Any, columns: tuple[str, ...] | None) -> RowSource | None:
    """A source for a table, data set, open Parquet file or stream of Arrow; None for anything else."""
    if is_a(x, "pyarrow.dataset", "Dataset"):
        return Batches(partial(scan, x, columns), columns=columns, name="Arrow data set")
    if is_a(x, "pyarrow.parquet", "ParquetFile"):
        return _rows(ParquetTable(x, Reading(columns), "Parquet file"))
    table = held(x)
    if frame_package(table) != "pyarrow":
        return None
    if is_a(table, "pyarrow", "RecordBatch"):
        table = need("pyarrow", extra="parquet").Table.from_batches([table])
    return _rows(HeldTable(table, Reading(columns)))


def _rows(table: Table) -> TableRows:
    """The rows of a table, kept where they were counted and are few; what was guessed is a warning."""
    if table.n_rows is None:
        table.keep(int(KEPT_SHARE * available_bytes()))
    rows = TableRows(table)
    # That the index of a frame of pandas is not a feature goes without saying.
    notes = () if isinstance(table, ArrowTable) else table.fresh_notes()
    if notes:
        what = "Open it with mercer.open_table and options to decide otherwise."
        warnings.warn(f"{table.source}: {'; '.join(notes)}. {what}", ReadingWarning, users_level())
    return rows


def in_memory(source: RowSource) -> Rows:
    """All rows as one array, or as one CSR matrix where the batches are CSR."""
    return source[slice(None)]


def _unnamed(source: RowSource, columns: tuple[str, ...] | None) -> RowSource:
    """The source, of which no columns can be chosen by name."""
    if columns is not None and source.columns != columns:
        must_be = f"None for {source!r}, whose columns have no such names"
        remedy = "A kernel can look at some columns with k.on(positions)."
        refuse("columns", list(columns), must_be, remedy=remedy)
    return source


def _open(given: str | os.PathLike[str], columns: tuple[str, ...] | None) -> RowSource:
    shown, path = os.fspath(given), Path(given).expanduser().absolute()
    if path.is_dir() and (path.suffix.lower() == ".zarr" or any((path / f).exists() for f in ZARR)):
        return _unnamed(open_zarr(path, shown=shown), columns)
    if path.exists() and path.suffix.lower() == ".npy":
        return _unnamed(open_npy(path, name=f"NPY file {shown!r}"), columns)
    try:
        return _rows(open_table(given, Reading(columns)))
    except DataError as error:
        name, text = error.parameter, str(error)
        if name not in OPTIONS or f"`{name}`" not in text or "open_table" in text:
            raise
        how = f"Pass mercer.open_table(path, {name}=…) in place of the path."
        raise DataError.saying(text, how, parameter=name, value=error.value) from None
