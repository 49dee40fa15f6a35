"""Anything that holds rows outside of memory becomes a `RowSource`: the door for files and batches."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.arrow import ParquetFiles, ParquetRows, TableRows, parquet_files, scan
from mercer.data.batches import Batches
from mercer.data.dask import FRAME, DaskRows, dask_kind
from mercer.data.frames import frame_package, held, is_a
from mercer.data.intake import refuse_lazy
from mercer.data.npy import MappedRows, open_npy
from mercer.data.rows import RowSource
from mercer.data.zarr import ZARR, ChunkedRows, open_zarr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Rows


def as_source(X: Any, *, columns: Sequence[str] | None = None) -> RowSource | None:
    """A source for rows that are not in memory; None for those that are.

    Blocks come as float32 where the numbers are stored so, otherwise as float64 (integers and booleans
    too), and each is checked for NaN and infinity whenever it is read.

    Parameters
    ----------
    X : str, path, memmap, callable, Arrow table, data set or stream, chunked array or dask data frame
        A path leads to a ``.npy`` file, a ``.parquet`` file, a folder of those (read in the order of
        their names) or a ``.zarr`` folder. A callable makes a new iterator of batches whenever it is
        called (see `Batches`). A stream is whatever has ``__arrow_c_stream__`` (a RecordBatchReader, a
        relation of DuckDB): it is read into memory, once. Chunked arrays are those of zarr, h5py, dask and
        whatever else has ``shape``, ``dtype``, ``chunks`` and slices.
    columns : sequence of str, optional
        Which columns to read, in this order, of tables and frames. Without it all are read, except for
        an index that pandas stored beside them.

    Returns
    -------
    RowSource or None
        None for arrays, matrices, frames and lists in memory.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/big.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    >>> rows = as_source(f"{folder.name}/big.npy")
    >>> rows
    npy file '...big.npy', 6 x 2 float32
    >>> rows[2:4]
    array([[4., 5.],
           [6., 7.]], dtype=float32)
    >>> as_source(np.zeros((3, 2))) is None
    True
    >>> folder.cleanup()
    """
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(X, (str, os.PathLike)):
        return _open(X, columns)
    if (kind := dask_kind(X)) is not None:
        return DaskRows(X, columns if kind == FRAME else None)
    if (table := _arrow_source(X, columns)) is not None:
        return table
    refuse_lazy(X)
    if callable(X) and not hasattr(X, "shape"):
        return Batches(X, columns=columns)
    if hasattr(X, "__next__"):
        msg = (
            f"A {type(X).__name__} came, which can be read only once, but a fit reads its rows several "
            "times. Pass a function that makes a new iterator of batches whenever it is called, or the "
            "path of a file."
        )
        raise InputError(msg)
    source: RowSource | None = X if isinstance(X, RowSource) else None
    if isinstance(X, np.memmap) and X._mmap is not None:  # type: ignore[attr-defined]
        source = MappedRows.of(X)
    elif not isinstance(X, np.ndarray) and all(hasattr(X, a) for a in ("shape", "dtype", "chunks")):
        source = ChunkedRows(X)
    if source is not None:
        _no_names(source, columns)
    return source


def _arrow_source(x: Any, columns: Sequence[str] | None) -> RowSource | None:
    """A source for a table, data set, open Parquet file or stream of Arrow; None for anything else."""
    if frame_package(x) == "pyarrow":
        return TableRows(x, columns=columns)
    if is_a(x, "pyarrow.parquet", "ParquetFile"):
        return ParquetRows(ParquetFiles([x], name="Parquet file"), columns=columns)
    if is_a(x, "pyarrow.dataset", "Dataset"):
        return Batches(partial(scan, x, columns), columns=columns, name="Arrow data set")
    table = held(x)
    return None if table is x else TableRows(table, columns=columns)


def in_memory(source: RowSource) -> Rows:
    """All rows as one array, or as one CSR matrix where the batches are CSR."""
    return source[slice(None)]


def _no_names(source: RowSource, columns: Sequence[str] | None) -> None:
    if columns is not None and source.columns != tuple(columns):
        msg = (
            f"columns={list(columns)} came for {source!r}, whose columns have no such names. Leave "
            "`columns` out; a kernel can look at some columns with k.on(positions)."
        )
        raise InputError(msg)


def _open(given: str | os.PathLike[str], columns: Sequence[str] | None) -> RowSource:
    shown, path = os.fspath(given), Path(given).expanduser().absolute()
    suffix = path.suffix.lower()
    if not path.exists():
        msg = f"There is no file or folder {shown!r} (looked for {str(path)!r})."
        raise InputError(msg)
    if suffix == ".npy":
        source: RowSource = open_npy(path, name=f"npy file {shown!r}")
    elif path.is_dir() and (suffix == ".zarr" or any((path / f).exists() for f in ZARR)):
        source = open_zarr(path, shown=shown)
    elif path.is_dir() or suffix == ".parquet":
        return ParquetRows(parquet_files(path, shown=repr(shown)), columns=columns)
    else:
        msg = (
            f"{shown!r} came, but rows are read from .npy files, .parquet files, folders of Parquet "
            "files and .zarr folders. For any other format pass a function that yields batches of rows."
        )
        raise InputError(msg)
    _no_names(source, columns)
    return source
