"""HDF5 and h5ad files, read by slices of rows through h5py; only what is in the file itself is read."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import DataError, quoted, refuse_data
from mercer._core.types import Array
from mercer.data.arrays import ArrayTable, only_table, require_entries
from mercer.data.columns import hint
from mercer.data.files import Stamp, explained, require_promise
from mercer.data.frames import need
from mercer.data.hdf5_bytes import Bytes
from mercer.data.intake import is_compressed
from mercer.data.rows import row_slices
from mercer.data.table import Beside, Reading, objects

MOST_LINKS = 16  # soft links in one path; more are a circle
MAX_COLUMNS = 10**7  # of a sparse matrix, which may promise any number of them in no space
MADE_OF_OTHERS = "is a virtual data set, made of other files"
# What h5py raises over a damaged file; it promises nothing.
BROKEN = (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError)


class Inside:
    """The groups and data sets that an open file itself holds.

    Links, external storage and virtual data sets may lead to any other file. A file from a stranger that is
    read with our rights could hand out, as rows or as scores of them, what we can read and they can't. So
    each step of a path is looked at before it is taken, and each data set before it is read.
    """

    def __init__(self, h5py: Any, file: Any, data: mmap.mmap, *, source: str) -> None:
        self._h5py, self._file, self._source = h5py, file, source
        self._bytes = Bytes(data, file.userblock_size, *file.id.get_create_plist().get_sizes())
        self._heaps_end = False  # until they are walked, before a value of variable length is read

    def attribute(self, holder: Any, *names: str, default: Any = None) -> Any:
        """The value of the first of these attributes that a group or data set has."""
        self._require_heaps_that_end()
        return next((holder.attrs[name] for name in names if name in holder.attrs), default)

    def values(self, stored: Any) -> Any:
        """A data set of numbers or texts, or a categorical of AnnData (codes and categories), in memory."""
        if hasattr(stored, "keys"):
            codes, categories = (self.at(name, stored) for name in ("codes", "categories"))
            if codes is None or categories is None:
                msg = f"{quoted(stored.name)} is a group without codes and categories"
                raise ValueError(msg)
            levels = self.values(categories)
            return objects(levels[c] if 0 <= c < len(levels) else None for c in self.values(codes))
        if stored.dtype.hasobject:  # of variable length: references into a heap
            self._require_heaps_that_end()
        values = np.asarray(stored[...])
        if values.dtype.kind not in "OS":
            return values
        out = np.empty(values.shape, dtype=object)
        out[...] = np.vectorize(_text, otypes=[object])(values) if values.size else values
        return out

    def _require_heaps_that_end(self) -> None:
        if not self._heaps_end and self._bytes.has_endless_heap():
            refuse_data(
                f"{self._source}: a heap of its variable-length values has an object of no size, over which "
                "HDF5 never ends. The file is damaged: write it again."
            )
        self._heaps_end = True

    def at(self, path: str, start: Any = None, links: int = MOST_LINKS) -> Any:
        """The group or data set at a path; None where there is none. What is in another file is refused."""
        here, parts = self._file if start is None else start, path.split("/")
        for place, part in enumerate(parts):
            if part in ("", "."):
                continue
            name = part.encode()
            if not isinstance(here, self._h5py.Group) or not here.id.links.exists(name):
                return None
            link = here.id.links.get_info(name)
            if link.type == self._h5py.h5l.TYPE_HARD:
                if self._bytes.is_virtual(link.u):
                    called = f"{here.name.rstrip('/')}/{part}"
                    self._refuse(f"{quoted(called)} {MADE_OF_OTHERS}")
                here = here[part]
                continue
            if link.type != self._h5py.h5l.TYPE_SOFT:
                self._refuse(f"{quoted(part)} is a link to another file")
            if links == 0:
                self._refuse(f"{quoted(part)} is a link that leads to itself")
            target = here.id.links.get_val(name).decode("utf-8", "replace")
            rest = "/".join([target, *parts[place + 1 :]])
            return self.at(rest, None if target.startswith("/") else here, links - 1)
        if isinstance(here, self._h5py.Dataset):
            self.require_own(here)
        return here

    def require_own(self, stored: Any) -> None:
        """Raise unless the numbers of a data set are in this file, and about as many as it has bytes."""
        why = self.elsewhere(stored)
        if why is not None:
            self._refuse(f"{quoted(stored.name)} {why}")
        promised = math.prod(float(s) for s in stored.shape or ()) * stored.dtype.itemsize
        require_promise(promised, len(self._bytes.data), source=self._source)

    def elsewhere(self, stored: Any) -> str | None:
        """In words, why the numbers of a data set are not in this file; None where they are."""
        # Before its shape is asked for, for which HDF5 would open the other files.
        if stored.is_virtual:
            return MADE_OF_OTHERS
        return "is stored in another file" if stored.external else None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all data sets, by their paths; links are not followed."""
        found: dict[str, tuple[int, ...]] = {}
        others: list[str] = []  # why data sets are not among these
        links: list[str] = []
        seen = {self._h5py.h5o.get_info(self._file.id).addr}  # a group may hold itself

        def look(group: Any, above: str) -> None:
            for name in group:
                link, path = group.id.links.get_info(name.encode()), f"{above}{name}"
                if link.type == self._h5py.h5l.TYPE_EXTERNAL:
                    links.append(f"{quoted(name)} is a link to another file, which is not followed")
                if link.type != self._h5py.h5l.TYPE_HARD or link.u in seen:
                    continue
                seen.add(link.u)
                if self._bytes.is_virtual(link.u):
                    others.append(f"{quoted(f'/{path}')} {MADE_OF_OTHERS}")
                    continue
                thing = group[name]
                if isinstance(thing, self._h5py.Group):
                    look(thing, f"{path}/")
                elif isinstance(thing, self._h5py.Dataset):
                    why = self.elsewhere(thing)
                    if why is None:
                        found[path] = thing.shape or ()
                    else:
                        others.append(f"{quoted(f'/{path}')} {why}")

        look(self._file, "")
        if not found and (others or links):
            self._refuse((others + links)[0])
        return found

    def _refuse(self, why: str) -> None:
        refuse_data(
            f"{self._source}: {why}. Only what is in the file itself is read: copy the rows into it "
            "(h5repack, or write the data set again)."
        )


class Hdf5Table(ArrayTable):
    """The rows of a data set; ids and labels may be other data sets of the file."""

    form = "HDF5"
    _is_sparse = False

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        self._path, self.source, self.stamp = path, source, Stamp.of(path)
        notes: list[str] = []
        with self._opened() as file:
            self._array_name = self._chosen(file, reading)
            shape, dtype = self._shape(file)
            n = shape[0] if shape else 0
            ids, labels = self._ids(file, reading.id, n), self._beside_rows(file, reading.label, n)
            names = self._names(file, shape, notes)
        super().__init__(
            self.source, shape, dtype, reading, names=names, ids=ids, labels=labels, notes=notes
        )

    @contextmanager
    def _opened(self) -> Iterator[Inside]:
        remedy = f"It is not a valid {self.form} file: write it again."
        with (
            explained(self.source, BROKEN, remedy=remedy),
            self._h5py.File(self._path, "r") as file,
            self._path.open("rb") as plain,
            mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            yield Inside(self._h5py, file, data, source=self.source)

    @property
    def _h5py(self) -> Any:  # a module, which does not pickle
        return need("h5py", extra="hdf5")

    def _chosen(self, file: Inside, reading: Reading) -> str:
        """The name of the data set of rows."""
        if reading.array is not None:
            name = reading.array.strip("/")
            if not isinstance(file.at(name), self._h5py.Dataset):
                near = hint(name, list(file.shapes()), "data sets")
                refuse_data(f"{self.source} has no data set {reading.array!r}. {near}")
            return name
        return only_table(file.shapes(), "data sets", source=self.source)

    def _shape(self, file: Inside) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file.at(self._array_name)
        return stored.shape, stored.dtype

    def _ids(self, file: Inside, name: str | None, n: int) -> Beside:
        return self._beside_rows(file, name, n)

    def _beside_rows(self, file: Inside, name: str | None, n: int) -> Beside:
        """The values of a data set with one entry for each row; nothing where the file has none so named."""
        stored = None if name is None else self._found(file, name)
        if stored is None:
            return None, None
        values = file.values(stored)
        require_entries(values.shape, n, what=f"{self.source}: {stored.name.strip('/')!r}")
        return values, name

    def _found(self, file: Inside, name: str) -> Any:
        return file.at(name)

    def _names(self, file: Inside, shape: tuple[int, ...], notes: list[str]) -> list[str] | None:
        del file, shape, notes
        return None

    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        with self._opened() as file:
            stored = file.at(self._array_name)
            for i in row_slices(int(self.n_rows or 0), height, start):
                yield np.asarray(stored[i])


class H5adTable(Hdf5Table):
    """Cells by genes: dense or sparse by rows (CSR). Ids are the names of cells, labels a column of obs."""

    form = "h5ad"

    def _chosen(self, file: Inside, reading: Reading) -> str:
        name = (reading.array or "X").strip("/")
        if file.at(name) is None:
            near = ", ".join(repr(key) for key in file.at("/"))
            msg = f"{self.source} has no matrix {name!r}."
            remedy = f"Name one with `array`; it has {near}."
            raise DataError.saying(msg, remedy, parameter="array", value=name)
        return name

    def _shape(self, file: Inside) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file.at(self._array_name)
        if isinstance(stored, self._h5py.Dataset):
            return stored.shape, stored.dtype
        kind = _text(file.attribute(stored, "encoding-type", "h5sparse_format", default="?"))
        if not kind.startswith("csr"):
            refuse_data(
                f"{self.source}: {self._array_name!r} is stored as {kind}, which can't be read by rows. "
                "Write it dense or as CSR (adata.X = adata.X.tocsr())."
            )
        self._is_sparse = True
        n, d = (int(s) for s in file.attribute(stored, "shape", "h5sparse_shape"))
        rows = self._part(file, stored, "indptr").shape
        if rows != (n + 1,) or not 0 < d <= MAX_COLUMNS:
            refuse_data(
                f"{self.source}: its sparse matrix {quoted(self._array_name)} promises {n} rows of {d} "
                f"columns, but has an index of shape {rows}, or columns beyond {MAX_COLUMNS}. Write it again."
            )
        return (n, d), self._part(file, stored, "data").dtype

    def _part(self, file: Inside, stored: Any, name: str) -> Any:
        """One of the three data sets that a sparse matrix is made of."""
        part = file.at(name, stored)
        if not isinstance(part, self._h5py.Dataset):
            msg = f"{self.source}: its sparse matrix {quoted(self._array_name)} has no data set {name!r}."
            raise DataError(msg)
        return part

    def _ids(self, file: Inside, name: str | None, n: int) -> Beside:
        if name is not None:
            return self._beside_rows(file, name, n)
        ids = self._index(file, "obs", n)
        return ids, None if ids is None else "cell"

    def _found(self, file: Inside, name: str) -> Any:
        """A column of obs."""
        obs = file.at("obs")
        stored = None if obs is None else file.at(name, obs)
        if stored is None:
            keys = obs if isinstance(obs, self._h5py.Group) else ()
            near = hint(name, [key for key in keys if not key.startswith("_")])
            refuse_data(f"{self.source} has no column {name!r} in obs. {near}")
        return stored

    def _index(self, file: Inside, frame: str, n: int) -> Any:
        found = file.at(frame)
        if found is None:
            return None
        stored = file.at(_text(file.attribute(found, "_index", default="_index")), found)
        values = None if stored is None else file.values(stored)
        return values if values is not None and values.shape == (n,) else None

    def _names(self, file: Inside, shape: tuple[int, ...], notes: list[str]) -> list[str] | None:
        """The names of the genes, where the matrix is one of cells by genes and names tell them apart."""
        names = self._index(file, "var", shape[1])
        if names is None or not (self._array_name == "X" or "layers/" in self._array_name):
            return None
        texts = [str(name) for name in names]
        if len(set(texts)) < len(texts):
            notes.append("names of var are not distinct: columns are x0, x1, …")
            return None
        return texts

    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        if not self._is_sparse:
            yield from super()._blocks(height, start)
            return
        d = len(self.names)
        with self._opened() as file:
            stored = file.at(self._array_name)
            data, indices, indptr = (
                self._part(file, stored, name) for name in ("data", "indices", "indptr")
            )
            for i in row_slices(int(self.n_rows or 0), height, start):
                ends = np.asarray(indptr[i.start : i.stop + 1], dtype=np.int64)
                some = slice(int(ends[0]), int(ends[-1]))
                yield _dense(ends, indices[some], data[some], d)


def _dense(ends: Any, columns: Any, values: Any, d: int) -> Array:
    """Rows of a CSR matrix; what its parts promise is checked, because a file may promise anything."""
    columns, n = np.asarray(columns, dtype=np.int64), len(ends) - 1
    whole = len(columns) == len(values) == ends[-1] - ends[0]
    if not whole or not is_compressed(values, columns, ends - ends[0], n, d):
        msg = f"the parts of its sparse matrix do not fit together, or to its {d} columns"
        raise ValueError(msg)
    out = np.zeros((n, d), values.dtype)
    rows = np.repeat(np.arange(n), np.diff(ends))
    np.add.at(out, (rows, columns), values)  # repeated ones add up
    return out


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
