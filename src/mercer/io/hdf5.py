"""HDF5 and h5ad files, read by slices of rows through h5py."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer._core.memory import format_bytes
from mercer.engine.frames import need
from mercer.engine.rows import Stamp
from mercer.engine.tiles import row_slices
from mercer.io.arrays import ArrayTable
from mercer.io.layout import hint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mercer._core.types import Array
    from mercer.io.table import Reading

RATIO, HARMLESS_BYTES = 1000, 2**30  # a file that promises a thousand times its bytes is a trap
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
        self._require_harmless(shape, dtype)
        beside = (id_name, label_name)
        super().__init__(
            source, shape, dtype, rest, names=names, ids=ids, labels=labels, beside=beside
        )
        self.reading = reading
        self.notes += self._said

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with self._h5py.File(self._path, "r") as file:
                yield file
        except DataError:
            raise
        except BROKEN as error:
            said = " ".join(str(error).split()).strip("'\".")[:200] or type(error).__name__
            msg = f"{self.source} can't be read: {said}. It is no HDF5 file, or damaged."
            raise DataError(msg) from error

    def _require_harmless(self, shape: tuple[int, ...], dtype: Any) -> None:
        promised = float(np.prod([float(s) for s in shape])) * dtype.itemsize
        there = max(1, self._path.stat().st_size)
        if promised > HARMLESS_BYTES and promised > RATIO * there and not self._is_sparse:
            msg = (
                f"{self.source} has {format_bytes(there)} and promises rows of {format_bytes(promised)}: it "
                "is not read. Store the rows that there are."
            )
            raise DataError(msg)

    _is_sparse = False

    def _chosen(self, file: Any, reading: Reading) -> str:
        """The name of the data set of rows."""
        found: dict[str, tuple[int, ...]] = {}

        def look(name: str, thing: Any) -> None:
            if isinstance(thing, self._h5py.Dataset):
                found[name] = thing.shape or ()

        file.visititems(look)
        if reading.array is not None:
            name = reading.array.strip("/")
            if name not in found:
                near = hint(name, list(found), "data sets")
                msg = f"{self.source} has no data set {reading.array!r}. {near}"
                raise DataError(msg)
            return name
        tables = [name for name, shape in found.items() if len(shape) == 2]
        if len(tables) != 1:
            listed = ", ".join(f"{quoted(n)} {s}" for n, s in list(found.items())[:20]) or "nothing"
            msg = (
                f"{self.source} has {len(tables) or 'no'} data sets of rows and columns. Say which one with "
                f"--array; it has {listed}."
            )
            raise DataError(msg)
        return tables[0]

    def _shape(self, file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file[self._array_name]
        return stored.shape, stored.dtype

    def _ids(self, file: Any, reading: Reading, n: int) -> tuple[Any, str | None]:
        return self._beside_rows(file, reading.id, n)

    def _labels(self, file: Any, reading: Reading, n: int) -> tuple[Any, str | None]:
        return self._beside_rows(file, reading.label, n)

    def _beside_rows(self, file: Any, name: str | None, n: int) -> tuple[Any, str | None]:
        """The values of a data set with one entry for each row; None where the file has none so named."""
        if name is None or name not in file:
            return None, None
        values = _values(file[name])
        if values.shape != (n,):
            msg = (
                f"{self.source}: {name!r} has the shape {values.shape}, but one entry for each of the {n} "
                "rows was needed."
            )
            raise DataError(msg)
        return values, name

    def _names(self, file: Any, shape: tuple[int, ...]) -> list[str] | None:
        del file, shape
        return None

    def _blocks(self, height: int) -> Iterator[Array]:
        self._stamp.check(self.source)
        with self._opened() as file:
            stored = file[self._array_name]
            for i in row_slices(int(self.n_rows or 0), height):
                yield np.asarray(stored[i])
        self._stamp.check(self.source)


class H5adTable(Hdf5Table):
    """Cells by genes: dense or sparse by rows (CSR). Ids are the names of cells, labels a column of obs."""

    def _chosen(self, file: Any, reading: Reading) -> str:
        name = (reading.array or "X").strip("/")
        if name not in file:
            near = ", ".join(repr(key) for key in file)
            msg = f"{self.source} has no matrix {name!r}. It has {near}; say one with --array."
            raise DataError(msg)
        return name

    def _shape(self, file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file[self._array_name]
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
        return tuple(int(s) for s in shape), stored["data"].dtype

    def _ids(self, file: Any, reading: Reading, n: int) -> tuple[Any, str | None]:
        if reading.id is not None:
            return self._obs(file, reading.id, n)
        ids = self._index(file, "obs", n)
        return ids, None if ids is None else "cell"

    def _labels(self, file: Any, reading: Reading, n: int) -> tuple[Any, str | None]:
        return (None, None) if reading.label is None else self._obs(file, reading.label, n)

    def _obs(self, file: Any, name: str, n: int) -> tuple[Any, str]:
        obs = file.get("obs", {})
        if name not in obs:
            near = hint(name, [key for key in obs if not key.startswith("_")])
            msg = f"{self.source} has no column {name!r} in obs. {near}"
            raise DataError(msg)
        values = _values(obs[name])
        if values.shape != (n,):
            msg = (
                f"{self.source}: 'obs/{name}' has the shape {values.shape}, but one entry for each of the "
                f"{n} rows was needed."
            )
            raise DataError(msg)
        return values, name

    def _index(self, file: Any, frame: str, n: int) -> Any:
        if frame not in file:
            return None
        key = _text(file[frame].attrs.get("_index", "_index"))
        values = _values(file[frame][key]) if key in file[frame] else None
        return values if values is not None and values.shape == (n,) else None

    def _names(self, file: Any, shape: tuple[int, ...]) -> list[str] | None:
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
            stored = file[self._array_name]
            for i in row_slices(int(self.n_rows or 0), height):
                ends = np.asarray(stored["indptr"][i.start : i.stop + 1], dtype=np.int64)
                some = slice(int(ends[0]), int(ends[-1]))
                yield _dense(ends, stored["indices"][some], stored["data"][some], d)
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


def _values(stored: Any) -> Any:
    """A data set of numbers or texts, or a categorical of AnnData (codes and categories), in memory."""
    if hasattr(stored, "keys"):
        codes, levels = np.asarray(stored["codes"][:]), _values(stored["categories"])
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
