"""HDF5 and h5ad files, read by slices of rows through h5py; only what is in the file itself is read."""

from __future__ import annotations

import math
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from mercer._core.errors import quoted, refuse_data
from mercer._core.types import Array
from mercer.data.columns import hint
from mercer.data.files import Stamp, explained, require_promise
from mercer.data.frames import need
from mercer.data.intake import is_compressed
from mercer.data.npy import ArrayTable, only_table, require_entries
from mercer.data.rows import row_slices
from mercer.data.table import Beside, Reading, objects

SMALLEST_HEAP = 4096  # bytes; HDF5 refuses a smaller collection itself
MOST_MESSAGES = 2**16  # of one object's header; damaged, it may promise any number
LAYOUT, CONTINUATION = 0x08, 0x10  # types of messages in a header
VIRTUAL = 3  # the class of a layout


class Bytes(NamedTuple):
    """A mapped file, of which only what is looked at is loaded."""

    data: mmap.mmap
    base: int  # where addresses are counted from
    address_width: int  # bytes of an address
    length_width: int  # and of a length

    def is_virtual(self, address: int) -> bool:
        """Whether this is a virtual data set: opening a damaged one, HDF5 2.0 may overwrite the stack."""
        return any(
            kind == LAYOUT and body[:1] > b"\x02" and body[1:2] == bytes([VIRTUAL])
            for kind, body in islice(self._messages(self.base + address), MOST_MESSAGES)
        )

    def _messages(self, place: int) -> Iterator[tuple[int, bytes]]:
        """Types and bodies of the messages in the header of an object, in both forms that it may have."""
        data, is_new = self.data, self.data[place : place + 4] == b"OHDR"
        if is_new:
            flags = int.from_bytes(data[place + 5 : place + 6], "little")
            place += 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
            start = place + (1 << (flags & 3))
            size = int.from_bytes(data[place:start], "little")
            kind_width, ends, head = 1, 4, 6 if flags & 4 else 4
        else:
            start, size = place + 16, int.from_bytes(data[place + 8 : place + 12], "little")
            kind_width, ends, head = 2, 0, 8
        blocks = [(start, start + size)]
        for start, end in blocks:  # which grow
            at = start
            while at + head <= min(end, len(data)):
                kind = int.from_bytes(data[at : at + kind_width], "little")
                length = int.from_bytes(data[at + kind_width : at + kind_width + 2], "little")
                body = data[at + head : at + head + length]
                yield kind, body
                if kind == CONTINUATION:
                    there = self.base + int.from_bytes(body[: self.address_width], "little")
                    size = int.from_bytes(body[self.address_width :][: self.length_width], "little")
                    blocks.append((there + ends, there + size - ends))  # signature, checksum
                at += head + length

    def has_endless_heap(self) -> bool:
        """Whether HDF5's walk over the objects of some collection of the global heap has no end.

        HDF5 2.0 goes on by the size of each object, and stays for ever at one of no size, where no signal
        reaches it. This is the same walk; HDF5 itself refuses one that leaves the collection. Bytes of plain
        data may look like a collection, and are refused only if their walk stands still, too. Good
        collections lie apart and their objects have 16 bytes or more, so that all walks together take no
        more steps than the file has room for; where spoilt ones overlap, that ends the walks.
        """
        length = {2: "H", 4: "I", 8: "Q"}.get(self.length_width)
        if length is None:  # HDF5 reads none other
            return False
        # Signature, version, 3 bytes, size; index, references, 4 bytes, size. Both are padded to 16 bytes.
        heap, thing, head, data = Struct(f"<8x{length}"), Struct(f"<H6x{length}"), 16, self.data
        steps = len(data) // head
        for start in (found.start() for found in re.finditer(rb"(?s)GCOL\x01(?=.{11})", data)):
            (size,) = heap.unpack_from(data, start)
            if not SMALLEST_HEAP <= size <= len(data) - start:  # HDF5 refuses it
                continue
            place, end = start + head, start + size
            while place + head <= end:
                index, size = thing.unpack_from(data, place)
                # Free space (0) has its header in its size; HDF5 computes modulo 2**64.
                step = (size if index == 0 else head + (size + 7) % 2**64 // 8 * 8) % 2**64
                place, steps = place + step, steps - 1
                if step == 0 or steps < 0:
                    return True
        return False


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
                refuse_data(f"{self._source}: {quoted(stored.name)} has no codes and categories.")
            levels = self.values(categories)
            return objects(levels[c] if 0 <= c < len(levels) else None for c in self.values(codes))
        if stored.dtype.hasobject:  # of variable length: references into a heap
            self._require_heaps_that_end()
        values = np.asarray(stored[...])
        is_text = values.dtype.kind in "OS"
        return np.vectorize(_text, otypes=[object])(values) if is_text else values

    def _require_heaps_that_end(self) -> None:
        if not self._heaps_end and self._bytes.has_endless_heap():
            what = "a heap of its variable-length values has an object of no size, over which HDF5 never ends"
            refuse_data(f"{self._source}: {what}.", "The file is damaged: write it again.")
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
        if (why := self.elsewhere(stored)) is not None:
            self._refuse(f"{quoted(stored.name)} {why}")
        promised = math.prod(float(s) for s in stored.shape or ()) * stored.dtype.itemsize
        remedy = "If you trust it, pass the open data set of h5py, or store it uncompressed."
        require_promise(promised, len(self._bytes.data), source=self._source, remedy=remedy)

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
                why = MADE_OF_OTHERS if self._bytes.is_virtual(link.u) else None
                thing = group[name] if why is None else None
                if isinstance(thing, self._h5py.Group):
                    look(thing, f"{path}/")
                elif isinstance(thing, self._h5py.Dataset) and not (why := self.elsewhere(thing)):
                    found[path] = thing.shape or ()
                if why is not None:
                    others.append(f"{quoted(f'/{path}')} {why}")

        look(self._file, "")
        if not found and (others or links):
            self._refuse((others + links)[0])
        return found

    def _refuse(self, why: str) -> None:
        remedy = "Copy the rows into it (h5repack, or write the data set again)."
        refuse_data(f"{self._source}: {why}. Only what is in the file itself is read.", remedy)


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
        beside: Any = {"names": names, "ids": ids, "labels": labels, "notes": notes}
        super().__init__(self.source, shape, dtype, reading, **beside)

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
        if reading.array is None:
            return only_table(file.shapes(), "data sets", source=self.source)
        name = reading.array.strip("/")
        if not isinstance(file.at(name), self._h5py.Dataset):
            near = hint(name, list(file.shapes()), "data sets")
            refuse_data(f"{self.source} has no data set {reading.array!r}. {near}")
        return name

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
            remedy = f"Name one with `array`; it has {', '.join(map(repr, file.at('/')))}."
            msg = f"{self.source} has no matrix {name!r}."
            refuse_data(msg, remedy, parameter="array", value=name)
        return name

    def _shape(self, file: Inside) -> tuple[tuple[int, ...], np.dtype[Any]]:
        stored = file.at(self._array_name)
        if isinstance(stored, self._h5py.Dataset):
            return stored.shape, stored.dtype
        kind = _text(file.attribute(stored, "encoding-type", "h5sparse_format", default="?"))
        if not kind.startswith("csr"):
            what = f"{self._array_name!r} is stored as {kind}, which can't be read by rows"
            remedy = "Write it dense or as CSR (adata.X = adata.X.tocsr())."
            refuse_data(f"{self.source}: {what}.", remedy)
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
        part = file.at(name, stored)
        if not isinstance(part, self._h5py.Dataset):
            whose = f"{self.source}: its sparse matrix {quoted(self._array_name)}"
            refuse_data(f"{whose} has no data set {name!r}.")
        return part

    def _ids(self, file: Inside, name: str | None, n: int) -> Beside:
        if name is not None:
            return super()._ids(file, name, n)
        ids = self._index(file, "obs", n)
        return ids, None if ids is None else "cell"

    def _found(self, file: Inside, name: str) -> Any:
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
        return None if values is None or values.shape != (n,) else values

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
        d, parts = len(self.names), ("data", "indices", "indptr")
        with self._opened() as file:
            stored = file.at(self._array_name)
            data, indices, indptr = (self._part(file, stored, name) for name in parts)
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
