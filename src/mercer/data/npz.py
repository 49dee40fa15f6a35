"""NPZ archives: one array of rows, read as a stream; sizes are checked before anything is unpacked."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import quoted, refuse_data
from mercer._core.memory import available_bytes, format_bytes
from mercer._core.types import Array
from mercer.data.columns import hint, listed
from mercer.data.files import Stamp, explained
from mercer.data.npy import ArrayTable, Stored, only_table, require_entries
from mercer.data.rows import float_dtype, row_slices
from mercer.data.table import Beside, Reading

# An archive that grows so much is a trap: numbers that are measured hardly shrink. Small ones are let
# through, because zeros shrink a thousandfold and a file of them does no harm.
RATIO, HARMLESS_BYTES = 250, 2**28
MEMORY_SHARE = 0.5  # of what is free, for an array that can't be read in slices
# What zipfile, its unpackers and NumPy raise over a damaged file (they promise nothing), and over one that
# is packed by an unknown method or with a password (NotImplementedError, RuntimeError).
_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, struct.error)
_OTHERS = (OSError, EOFError, LookupError, ArithmeticError, SyntaxError, TypeError, ValueError)
BROKEN = (*_ARCHIVE, *_OTHERS, NotImplementedError, RuntimeError)


class NpzTable(ArrayTable):
    """The rows of one array of an archive; ids, labels and names may be other arrays of it."""

    random_access = False  # what is before a row is unpacked

    def __init__(self, path: Path, reading: Reading, source: str) -> None:
        self._path, self.source, self.stamp = path, source, Stamp.of(path)
        self._arrays = self._headers()
        self._name = _chosen(self._arrays, reading, self.source)
        rows = self._arrays[self._name]
        # What our own writer puts beside the rows is taken where nothing else was asked for.
        ours = ("ids", "labels") if self._name == "rows" else (None, None)
        n = rows.shape[0] if rows.shape else 0
        ids, labels = (
            self._beside_rows(asked or name, n)
            for asked, name in zip((reading.id, reading.label), ours, strict=True)
        )
        known = (self._name, "names", ids[1], labels[1])
        others = [name for name in self._arrays if name not in known]
        note = f"array {quoted(self._name)} is read; others of the file are not: {listed(others)}"
        beside: Any = {"names": self._names(rows), "ids": ids, "labels": labels}
        beside["notes"] = [note] if others else []
        super().__init__(self.source, rows.shape, rows.dtype, reading, **beside)

    # ── what is in the archive ──────────────────────────────────────────────
    def _headers(self) -> dict[str, Stored]:
        with self._opened() as archive:
            infos = archive.infolist()
            self._require_harmless(infos)
            found = {}
            for info in infos:
                if not info.filename.endswith(".npy"):
                    continue
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as file:
                    found[name] = Stored.read(file, info.file_size)
                what = f"{self.source}: array {quoted(name)}"
                found[name].require_bytes(info.file_size, what=what)
        if not found:
            refuse_data(f"{self.source} has no array in it. Write it with np.savez.")
        return found

    def _require_harmless(self, infos: list[zipfile.ZipInfo]) -> None:
        unpacked = sum(info.file_size for info in infos)
        packed = max(1, self._path.stat().st_size)
        if unpacked > HARMLESS_BYTES and unpacked > RATIO * packed:
            sizes = f"has {format_bytes(packed)} and would unpack to {format_bytes(unpacked)}"
            refuse_data(
                f"{self.source} {sizes}, {unpacked // packed} times as much: it is not opened.",
                "If you trust it, save the array with np.save.",
            )

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        remedy = "It is not a valid NPZ archive: write it again with np.savez."
        with explained(self.source, BROKEN, remedy=remedy), zipfile.ZipFile(self._path) as archive:
            yield archive

    def _names(self, rows: Stored) -> list[str] | None:
        """The names of the columns, where the archive has as many texts as the rows have columns."""
        found = self._arrays.get("names")
        if found is None or found.dtype.kind != "U" or found.shape != rows.shape[1:]:
            return None
        return [str(name) for name in self._whole("names")]

    def _beside_rows(self, name: str | None, n: int) -> Beside:
        """The array of that name, one entry for each row; nothing where there is none."""
        if name is None or name not in self._arrays:
            return None, None
        what = f"{self.source}: array {quoted(name)}"
        require_entries(self._arrays[name].shape, n, what=what)
        values = self._whole(name)
        if values.dtype.kind == "S":
            values = np.char.decode(values, "utf-8", "replace")
        return values.astype(object) if values.dtype.kind == "U" else values, name

    # ── rows ────────────────────────────────────────────────────────────────
    def _whole(self, name: str) -> Any:
        head, what = self._arrays[name], f"{self.source}: array {quoted(name)}"
        if head.dtype.hasobject:
            float_dtype(head.dtype, what=what)
        size, room = head.n_bytes, int(MEMORY_SHARE * available_bytes())
        if size > room:
            refuse_data(
                f"{what} takes {format_bytes(size)}, and {format_bytes(room)} of memory are there for it.",
                "Save it with np.save, in C order: such files are read in slices.",
            )
        with self._opened() as archive, archive.open(f"{name}.npy") as file:
            return head.array(_exactly(file, head.offset + head.n_bytes))

    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        head = self._arrays[self._name]
        n, d = head.shape
        if head.strides[-1] != head.dtype.itemsize:  # by columns
            whole = self._whole(self._name)
            for i in row_slices(n, height, start):
                yield whole[i]
            return
        with self._opened() as archive, archive.open(f"{self._name}.npy") as file:
            row_bytes = d * head.dtype.itemsize
            file.seek(head.offset + start * row_bytes)  # what is packed is read for it
            for i in row_slices(n, height, start):
                shape = (i.stop - i.start, d)
                yield np.ndarray(shape, head.dtype, _exactly(file, shape[0] * row_bytes))
            file.read(1)  # at its end the archive's checksum is compared


def _exactly(file: Any, n_bytes: int) -> bytes:
    data: bytes = file.read(n_bytes)
    if len(data) != n_bytes:
        msg = "the array ends before its rows do"
        raise EOFError(msg)
    return data


def _chosen(arrays: dict[str, Stored], reading: Reading, source: str) -> str:
    """The array that was asked for, or the only one that has rows and columns."""
    name = reading.array
    if name is not None and name not in arrays:
        near = hint(name, list(arrays), "arrays")
        refuse_data(f"{source} has no array {name!r}. {near}")
    if name is not None:
        return name
    shapes = {name: layout.shape for name, layout in arrays.items()}
    if {"data", "format", "shape"} <= shapes.keys() and 2 not in map(len, shapes.values()):
        refuse_data(
            f"{source} holds a sparse matrix, which is not read from files. Pass scipy.sparse.load_npz(path) "
            "in Python, or save X.toarray() with np.save."
        )
    return only_table(shapes, "arrays", source=source)
