"""NPZ archives: one array of rows, read as a stream; sizes are checked before anything is unpacked."""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer._core.memory import available_bytes, format_bytes
from mercer.data.rows import Stamp, float_dtype, row_slices
from mercer.io.arrays import ArrayTable
from mercer.io.layout import hint, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mercer._core.types import Array
    from mercer.io.table import Reading

# An archive that grows so much is a trap: numbers that are measured hardly shrink. Small ones are let
# through, because zeros shrink a thousandfold and a file of them does no harm.
RATIO, HARMLESS_BYTES = 250, 2**28
MEMORY_SHARE = 0.5  # of what is free, for an array that can't be read in slices
# What zipfile, its unpackers and NumPy raise over bytes that somebody spoilt; they promise nothing.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, struct.error)
DAMAGED_TOO = (OSError, EOFError, LookupError, ArithmeticError, SyntaxError, TypeError, ValueError)
PACKED_STRANGELY = (NotImplementedError, RuntimeError)  # a method that is not known; a password


@dataclass(frozen=True)
class Member:
    """An array in the archive, by its header."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int  # where its entries begin

    @property
    def n_bytes(self) -> int:
        """Of its entries."""
        return math.prod(self.shape) * self.dtype.itemsize


def open_npz(path: Path, reading: Reading, *, shown: str) -> NpzTable:
    """An archive as np.savez writes it."""
    return NpzTable(path, reading, source=f"NPZ file {shown}")


class NpzTable(ArrayTable):
    """The rows of one array of an archive; ids, labels and names may be other arrays of it."""

    def __init__(self, path: Path, reading: Reading, *, source: str) -> None:
        self._path, self.source, self._stamp = path, source, Stamp.of(path)
        members = self._members()
        self._member = member = _chosen(members, reading, source)
        n = member.shape[0] if member.shape else 0
        # What our own writer puts beside the rows is taken where nothing else was asked for.
        ours = member.name == "rows"
        asked = [
            reading.id or ("ids" if ours else None),
            reading.label or ("labels" if ours else None),
        ]
        ids, labels = (self._beside_rows(name, members, n) for name in asked)
        id_name, label_name = (name if name in members else None for name in asked)
        kept = (id_name, label_name)
        rest = replace(
            reading,
            id=None if id_name is not None else reading.id,
            label=None if label_name is not None else reading.label,
        )
        names = self._names(members, member)
        super().__init__(
            source,
            member.shape,
            member.dtype,
            rest,
            names=names,
            ids=ids,
            labels=labels,
            beside=kept,
        )
        self.reading = reading
        others = [m for m in members if m not in (member.name, "names", *kept)]
        if others:
            self.notes.append(
                f"array {quoted(member.name)} is read; others of the file are not: {listed(others)}"
            )

    # ── what is in the archive ──────────────────────────────────────────────
    def _members(self) -> dict[str, Member]:
        with self._opened() as archive:
            infos = archive.infolist()
            self._require_harmless(infos)
            found = {}
            for info in infos:
                if not info.filename.endswith(".npy"):
                    continue
                with archive.open(info) as file:
                    member = _header(file, info.filename.removesuffix(".npy"))
                promised = member.offset + member.n_bytes
                if promised != info.file_size and not member.dtype.hasobject:
                    msg = (
                        f"{self.source}: array {quoted(member.name)} has {info.file_size} bytes, but its "
                        f"header promises {promised}: {member.shape} of {member.dtype}. Write it again."
                    )
                    raise DataError(msg)
                found[member.name] = member
        if not found:
            msg = f"{self.source} has no array in it. Write it with np.savez."
            raise DataError(msg)
        return found

    def _require_harmless(self, infos: list[zipfile.ZipInfo]) -> None:
        unpacked = sum(info.file_size for info in infos)
        packed = max(1, self._path.stat().st_size)
        if unpacked > HARMLESS_BYTES and unpacked > RATIO * packed:
            msg = (
                f"{self.source} has {format_bytes(packed)} and would unpack to {format_bytes(unpacked)}, "
                f"{unpacked // packed} times as much: it is not opened. If you trust it, save the array with "
                "np.save."
            )
            raise DataError(msg)

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                yield archive
        except DataError:
            raise
        except (*DAMAGED, *DAMAGED_TOO, *PACKED_STRANGELY) as error:
            said = str(error).strip("'\".")[:200] or type(error).__name__
            msg = (
                f"{self.source} can't be read: {said}. It is no NPZ archive, or damaged. Write it again with "
                "np.savez."
            )
            raise DataError(msg) from error

    def _names(self, members: dict[str, Member], rows: Member) -> list[str] | None:
        """The names of the columns, where the archive has as many texts as the rows have columns."""
        found = members.get("names")
        if found is None or found.dtype.kind != "U" or found.shape != rows.shape[1:]:
            return None
        return [str(name) for name in self._whole(found)]

    def _beside_rows(self, name: str | None, members: dict[str, Member], n: int) -> Any:
        """The array of that name, one entry for each row; None where there is none."""
        if name is None or name not in members:
            return None
        member = members[name]
        if member.shape != (n,):
            msg = (
                f"{self.source}: array {quoted(name)} has the shape {member.shape}, but one entry for each "
                f"of the {n} rows was needed."
            )
            raise DataError(msg)
        values = self._whole(member)
        if values.dtype.kind == "S":
            values = np.char.decode(values, "utf-8", "replace")
        return values.astype(object) if values.dtype.kind == "U" else values

    # ── rows ────────────────────────────────────────────────────────────────
    def _whole(self, member: Member) -> Any:
        if member.dtype.hasobject:
            float_dtype(member.dtype, what=f"{self.source}: array {quoted(member.name)}")
        room = int(MEMORY_SHARE * available_bytes())
        if member.n_bytes > room:
            msg = (
                f"{self.source}: array {quoted(member.name)} takes {format_bytes(member.n_bytes)}, and "
                f"{format_bytes(room)} of memory are there for it. Save it with np.save, in C order: such "
                "files are read in slices."
            )
            raise DataError(msg)
        with self._opened() as archive, archive.open(f"{member.name}.npy") as file:
            file.read(member.offset)
            return self._array(_exactly(file, member.n_bytes), member, member.shape)

    def _array(self, data: bytes, member: Member, shape: tuple[int, ...]) -> Any:
        order = "F" if member.fortran else "C"
        return np.frombuffer(data, member.dtype).reshape(shape, order=order)  # type: ignore[call-overload]

    def _blocks(self, height: int) -> Iterator[Array]:
        self._stamp.check(self.source)
        member, (n, d) = self._member, self._member.shape
        if member.fortran:
            whole = self._whole(member)
            for i in row_slices(n, height):
                yield whole[i]
            return
        with self._opened() as archive, archive.open(f"{member.name}.npy") as file:
            file.read(member.offset)
            for i in row_slices(n, height):
                rows = i.stop - i.start
                data = _exactly(file, rows * d * member.dtype.itemsize)
                yield self._array(data, member, (rows, d))
            file.read(1)  # at its end the archive's checksum is compared
        self._stamp.check(self.source)


def _header(file: Any, name: str) -> Member:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        msg = f"array {quoted(name)} is of version {version} of the NPY format"
        raise ValueError(msg)
    old = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return Member(name, shape, dtype, fortran, file.tell())


def _exactly(file: Any, n_bytes: int) -> bytes:
    data: bytes = file.read(n_bytes)
    if len(data) != n_bytes:
        msg = "the array ends before its rows do"
        raise EOFError(msg)
    return data


def _chosen(members: dict[str, Member], reading: Reading, source: str) -> Member:
    """The array that was asked for, or the only one that has rows and columns."""
    if reading.array is not None:
        if reading.array not in members:
            near = hint(reading.array, list(members), "arrays")
            msg = f"{source} has no array {reading.array!r}. {near}"
            raise DataError(msg)
        return members[reading.array]
    tables = [member for member in members.values() if len(member.shape) == 2]
    if not tables and {"data", "format", "shape"} <= members.keys():
        msg = (
            f"{source} holds a sparse matrix, which is not read from files. Pass scipy.sparse.load_npz(path) "
            "in Python, or save X.toarray() with np.save."
        )
        raise DataError(msg)
    if len(tables) != 1:
        shapes = ", ".join(f"{quoted(m.name)} {m.shape}" for m in list(members.values())[:20])
        what = f"{len(tables)} arrays of rows and columns" if tables else "no 2-D array"
        msg = f"{source} has {what}. Say which one with --array; it has {shapes}."
        raise DataError(msg)
    return tables[0]
