"""HDF5 and h5ad files, read by slices of rows through h5py."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.data.frames import need
from mercer.data.rows import Stamp, row_slices
from mercer.io.arrays import ArrayTable
from mercer.io.hdf5_inside import Inside
from mercer.io.layout import hint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mercer._core.types import Array
    from mercer.io.table import Reading

MAX_COLUMNS = 10**7  # of a sparse matrix, which may promise any number of them in no space
# What h5py raises over bytes that somebody spoilt; it promises nothing.
BROKEN = (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError)


def open_hdf5(path: Path, reading: Reading, *, shown: str) -> Hdf5Table:
    """The only 2-D data set of a file, or that of ``reading.array``."""
    return Hdf5Table(path, reading, source=f"HDF5 file {shown}")


def open_h5ad(path: Path, reading: Reading, *, shown: str) -> H5adTable:
    """An AnnData file: ``X``, or another matrix of it such as ``layers/counts`` or ``obsm/X_pca``."""
    return H5adTable(path, reading, source=f"h5ad file {shown}")


class Hdf5Table(ArrayTable):
    """The rows of a data set; ids and labels may be other data sets of the file."""

    def __init__(self, path: Path, reading: Reading, *, source: str) -> None:
        self._h5py = need("h5py", extra="hdf5")
        self._path, self.source, self._stamp = path, source, Stamp.of(path)
        self._said: list[str] = []
        with self._opened() as file:
            self._array_name = self._chosen(file, reading)
            shape, dtype = self._shape(file)
            n = shape[0] if shape else 0
            ids, id_name = self._ids(file, reading, n)
            labels, label_name = self._labels(file, reading, n)
            names = self._names(file, shape)
        rest = replace(
            reading,
            id=None if ids is not None else reading.id,
            label=None if labels is not None else reading.label,
        )
        beside = (id_name, label_name)
        super().__init__(
            source, shape, dtype, rest, names=names, ids=ids, labels=labels, beside=beside
        )
        self.reading = reading
        self.notes += self._said

    @contextmanager
    def _opened(self) -> Iterator[Inside]:
        try:
            with self._h5py.File(self._path, "r") as file:
                n_bytes = max(1, self._path.stat().st_size)
                yield Inside(self._h5py, file, source=self.source, n_bytes=n_bytes)
        except DataError:
            raise
        except BROKEN as error:
            said = " ".join(str(error).split()).strip("'\".")[:200] or type(error).__name__
            msg = f"{self.source} can't be read: {said}. It is no HDF5 file, or damaged."
            raise DataError(msg) from error

    _is_sparse = False

    def _chosen(self, file: Inside, reading: Reading) -> str:
        """The name of the data set of rows."""
        if reading.array is not None:
            name = reading.array.strip("/")
            if not isinstance(file.at(name), self._h5py.Dataset):
                near = hint(name, list(file.shapes()), "data sets")
                msg = f"{self.source} has no data set {reading.array!r}. {near}"
                raise DataError(msg)
            return name
        found = file.shapes()
        tables = [name for name, shape in found.items() if len(shape) == 2]
        if len(tables) != 1:
            listed = ", ".join(f"{quoted(n)} {s}" for n, s in list(found.items())[:20]) or "nothing"
            msg = (
                f"{self.source} has {len(tables) or 'no'} data sets of rows and columns. Say which one with "
                f"--array; it has {listed}."
            )
            raise DataError(msg)
        return tables[0]

    def _shape(self, file: Inside) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file.at(self._array_name)
        return stored.shape, stored.dtype

    def _ids(self, file: Inside, reading: Reading, n: int) -> tuple[Any, str | None]:
        return self._beside_rows(file, reading.id, n)

    def _labels(self, file: Inside, reading: Reading, n: int) -> tuple[Any, str | None]:
        return self._beside_rows(file, reading.label, n)

    def _beside_rows(self, file: Inside, name: str | None, n: int) -> tuple[Any, str | None]:
        """The values of a data set with one entry for each row; None where the file has none so named."""
        stored = None if name is None else file.at(name)
        if stored is None:
            return None, None
        values = _values(stored, file)
        if values.shape != (n,):
            msg = (
                f"{self.source}: {name!r} has the shape {values.shape}, but one entry for each of the {n} "
                "rows was needed."
            )
            raise DataError(msg)
        return values, name

    def _names(self, file: Inside, shape: tuple[int, ...]) -> list[str] | None:
        del file, shape
        return None

    def _blocks(self, height: int) -> Iterator[Array]:
        self._stamp.check(self.source)
        with self._opened() as file:
            stored = file.at(self._array_name)
            for i in row_slices(int(self.n_rows or 0), height):
                yield np.asarray(stored[i])
        self._stamp.check(self.source)


class H5adTable(Hdf5Table):
    """Cells by genes: dense or sparse by rows (CSR). Ids are the names of cells, labels a column of obs."""

    def _chosen(self, file: Inside, reading: Reading) -> str:
        name = (reading.array or "X").strip("/")
        if file.at(name) is None:
            near = ", ".join(repr(key) for key in file.at("/"))
            msg = f"{self.source} has no matrix {name!r}. It has {near}; say one with --array."
            raise DataError(msg)
        return name

    def _shape(self, file: Inside) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file.at(self._array_name)
        if isinstance(stored, self._h5py.Dataset):
            return stored.shape, stored.dtype
        kind = _text(stored.attrs.get("encoding-type", stored.attrs.get("h5sparse_format", "?")))
        if not kind.startswith("csr"):
            msg = (
                f"{self.source}: {self._array_name!r} is stored as {kind}, which can't be read by rows. "
                "Write it dense or as CSR (adata.X = adata.X.tocsr())."
            )
            raise DataError(msg)
        self._is_sparse = True
        shape = stored.attrs.get("shape", stored.attrs.get("h5sparse_shape"))
        n, d = (int(s) for s in shape)
        rows = self._part(file, stored, "indptr").shape
        if rows != (n + 1,) or not 0 < d <= MAX_COLUMNS:
            msg = (
                f"{self.source}: its sparse matrix {quoted(self._array_name)} promises {n} rows of {d} "
                f"columns, but has an index of shape {rows}, or columns beyond {MAX_COLUMNS}. Write it again."
            )
            raise DataError(msg)
        return (n, d), self._part(file, stored, "data").dtype

    def _part(self, file: Inside, stored: Any, name: str) -> Any:
        """One of the three data sets that a sparse matrix is made of."""
        part = file.at(name, stored)
        if not isinstance(part, self._h5py.Dataset):
            msg = f"{self.source}: its sparse matrix {quoted(self._array_name)} has no data set {name!r}."
            raise DataError(msg)
        return part

    def _ids(self, file: Inside, reading: Reading, n: int) -> tuple[Any, str | None]:
        if reading.id is not None:
            return self._obs(file, reading.id, n)
        ids = self._index(file, "obs", n)
        return ids, None if ids is None else "cell"

    def _labels(self, file: Inside, reading: Reading, n: int) -> tuple[Any, str | None]:
        return (None, None) if reading.label is None else self._obs(file, reading.label, n)

    def _obs(self, file: Inside, name: str, n: int) -> tuple[Any, str]:
        obs = file.at("obs")
        stored = None if obs is None else file.at(name, obs)
        if stored is None:
            keys = obs if isinstance(obs, self._h5py.Group) else ()
            near = hint(name, [key for key in keys if not key.startswith("_")])
            msg = f"{self.source} has no column {name!r} in obs. {near}"
            raise DataError(msg)
        values = _values(stored, file)
        if values.shape != (n,):
            msg = (
                f"{self.source}: 'obs/{name}' has the shape {values.shape}, but one entry for each of the "
                f"{n} rows was needed."
            )
            raise DataError(msg)
        return values, name

    def _index(self, file: Inside, frame: str, n: int) -> Any:
        found = file.at(frame)
        if found is None:
            return None
        stored = file.at(_text(found.attrs.get("_index", "_index")), found)
        values = None if stored is None else _values(stored, file)
        return values if values is not None and values.shape == (n,) else None

    def _names(self, file: Inside, shape: tuple[int, ...]) -> list[str] | None:
        """The names of the genes, where the matrix is one of cells by genes and names tell them apart."""
        names = self._index(file, "var", shape[1])
        if names is None or not (self._array_name == "X" or "layers/" in self._array_name):
            return None
        texts = [str(name) for name in names]
        if len(set(texts)) < len(texts):
            self._said.append("names of var are not distinct: columns are x0, x1, …")
            return None
        return texts

    def _blocks(self, height: int) -> Iterator[Array]:
        if not self._is_sparse:
            yield from super()._blocks(height)
            return
        self._stamp.check(self.source)
        d = len(self.names)
        with self._opened() as file:
            stored = file.at(self._array_name)
            data, indices, indptr = (
                self._part(file, stored, name) for name in ("data", "indices", "indptr")
            )
            for i in row_slices(int(self.n_rows or 0), height):
                ends = np.asarray(indptr[i.start : i.stop + 1], dtype=np.int64)
                some = slice(int(ends[0]), int(ends[-1]))
                yield _dense(ends, indices[some], data[some], d)
        self._stamp.check(self.source)


def _dense(ends: Any, columns: Any, values: Any, d: int) -> Array:
    """Rows of a CSR matrix; what its parts promise is checked, because a file may promise anything."""
    counts = np.diff(ends)
    columns = np.asarray(columns, dtype=np.int64)
    if (counts < 0).any() or counts.sum() != len(columns) or len(columns) != len(values):
        msg = "the parts of its sparse matrix do not fit together"
        raise ValueError(msg)
    if len(columns) and (columns.min() < 0 or columns.max() >= d):
        msg = f"its sparse matrix has a column that is not among its {d}"
        raise ValueError(msg)
    out = np.zeros((len(counts), d), values.dtype)
    np.add.at(
        out, (np.repeat(np.arange(len(counts)), counts), columns), values
    )  # repeated ones add up
    return out


def _values(stored: Any, file: Inside) -> Any:
    """A data set of numbers or texts, or a categorical of AnnData (codes and categories), in memory."""
    if hasattr(stored, "keys"):
        codes, categories = (file.at(name, stored) for name in ("codes", "categories"))
        if codes is None or categories is None:
            msg = f"{quoted(stored.name)} is a group without codes and categories"
            raise ValueError(msg)
        codes, levels = np.asarray(codes[:]), _values(categories, file)
        out = np.empty(len(codes), dtype=object)
        out[:] = [levels[c] if 0 <= c < len(levels) else None for c in codes]
        return out
    values = np.asarray(stored[...])
    if values.dtype.kind not in "OS":
        return values
    out = np.empty(values.shape, dtype=object)
    out[...] = np.vectorize(_text, otypes=[object])(values) if values.size else values
    return out


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
