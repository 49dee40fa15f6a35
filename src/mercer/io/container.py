"""The bytes of a model file: a prologue, a JSON header and raw arrays, every byte of them checked.

    offset 0   8 bytes   magic  93 4D 45 52 43 45 52 0A
           8   4         format, little-endian unsigned
          12   8         length of the header in bytes, little-endian unsigned
          20  32         SHA-256 of bytes 0 to 19 followed by the header
          52  12         zero
          64             the header, UTF-8 JSON
    then, each at the next multiple of 64 with zeros before it, the arrays in the order of the header's
    ``arrays``; the file ends with the last of them.

Nothing here knows what a model is, and nothing is ever unpickled. A reader compares sizes before anything is
allocated, and checksums before anything is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap as memory_map
import os
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from mercer._core.atomic import sweep, written_whole
from mercer._core.errors import ModelFileError
from mercer.data.rows import RowSource, row_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAGIC = b"\x93MERCER\n"
PROLOGUE = struct.Struct("<8sIQ32s12s")  # 64 bytes
SEALED = 20  # bytes of the prologue that the checksum of the header covers
ALIGNMENT = 64
MOST_HEADER_BYTES = 64 * 2**20
MOST_DIMENSIONS = 4
CHUNK_BYTES = 16 * 2**20
ENTRY = ("dtype", "shape", "order", "offset", "bytes", "sha256")
DTYPES = ("<f4", "<f8", "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")


@dataclass(frozen=True)
class Slot:
    """Where an array lies in the file, and what it is."""

    dtype: str
    shape: tuple[int, ...]
    order: str  # C: the last axis runs fastest; F: the first does
    offset: int
    n_bytes: int
    sha256: str

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.offset + self.n_bytes

    def entry(self) -> dict[str, Any]:
        """As the header has it."""
        values = (self.dtype, list(self.shape), self.order, self.offset, self.n_bytes, self.sha256)
        return dict(zip(ENTRY, values, strict=True))


def aligned(offset: int) -> int:
    """The next multiple of 64."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


# ── writing ─────────────────────────────────────────────────────────────────
def write(path: Path, version: int, header: dict[str, Any], arrays: Sequence[Any]) -> None:
    """A new file takes the place of the old one in a single step, or nothing happens.

    Parameters
    ----------
    path : Path
    version : int
        The format.
    header : dict
        What JSON can hold; ``arrays`` is added here.
    arrays : sequence of ndarray or RowSource
        Written from where they lie, a slice at a time: a memory map or a file of rows is never loaded.
    """
    sweep(path)
    # A checksum has 64 digits whatever it is, so the header can be measured before they are known.
    slots = _placed(arrays, 0)
    room = 0
    while len(_header_bytes(header, slots)) > room:  # offsets grow with the header, by few digits
        room = len(_header_bytes(header, slots)) + 8
        slots = _placed(arrays, PROLOGUE.size + room)
    with written_whole(path) as file:
        written = [_write_array(file, s, a) for s, a in zip(slots, arrays, strict=True)]
        # The last array may be empty, and there may be none.
        file.truncate(max([PROLOGUE.size + room, *(s.end for s in slots)]))
        text = _header_bytes(header, written).ljust(room)  # spaces are JSON too
        start = PROLOGUE.pack(MAGIC, version, len(text), bytes(32), bytes(12))[:SEALED]
        file.seek(0)
        file.write(start + hashlib.sha256(start + text).digest() + bytes(12) + text)


def _header_bytes(header: dict[str, Any], slots: Sequence[Slot]) -> bytes:
    whole = {**header, "arrays": [s.entry() for s in slots]}
    try:
        text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:  # a lone surrogate is a ValueError
        msg = f"The header of a model file has to be plain JSON in UTF-8, but: {error}."
        raise ModelFileError(msg) from error


def _placed(arrays: Sequence[Any], end: int) -> list[Slot]:
    slots = []
    for array in arrays:
        dtype, shape = np.dtype(array.dtype).newbyteorder("<"), tuple(map(int, array.shape))
        n_bytes = math.prod(shape) * dtype.itemsize
        slot = Slot(dtype.str, shape, _order(array), aligned(end), n_bytes, "0" * 64)
        slots.append(slot)
        end = slot.end
    return slots


def _order(array: Any) -> str:
    """Products of matrices are summed in another order for another layout, so it is kept."""
    if isinstance(array, RowSource) or array.ndim < 2 or array.flags.c_contiguous:
        return "C"
    if array.flags.f_contiguous:
        return "F"
    strides = [abs(s) for s in array.strides]
    return "F" if strides == sorted(strides) else "C"


def _write_array(file: BinaryIO, slot: Slot, array: Any) -> Slot:
    file.seek(slot.offset)  # what was jumped over reads as zeros
    seal, written = hashlib.sha256(), 0
    for block in _blocks(array, slot):
        piece = np.ascontiguousarray(block, dtype=slot.dtype).reshape(-1).view(np.uint8).data
        seal.update(piece)
        file.write(piece)
        written += piece.nbytes
    if written != slot.n_bytes:
        msg = (
            f"{array!r} was to give {slot.n_bytes} bytes, but gave {written}. Did its file change while "
            "the model was saved? Save again."
        )
        raise ModelFileError(msg)
    return replace(slot, sha256=seal.hexdigest())


def _blocks(array: Any, slot: Slot) -> Iterator[Any]:
    if slot.n_bytes == 0:
        return
    if not isinstance(array, RowSource):
        array = np.atleast_1d(array.T if slot.order == "F" else array)
    height = max(1, CHUNK_BYTES // max(1, slot.n_bytes // int(array.shape[0])))
    for _, block in row_blocks(array, height):
        yield block


# ── reading ─────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Contents:
    """A file that was found whole: its format, its header and its arrays."""

    format: int
    header: dict[str, Any]
    arrays: list[np.ndarray[Any, Any]]


def read(path: Path, newest: int, *, mmap: bool = False, arrays: bool = True) -> Contents:
    """The header and the arrays of a file in which every byte is as it was written.

    Parameters
    ----------
    path : Path
    newest : int
        The newest format that the caller knows.
    mmap : bool, default=False
        Whether arrays are read-only views of the file; they are checked all the same.
    arrays : bool, default=True
        False: only checked, not kept.
    """
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        version, header, end = _read_header(file, size, path, newest)
        slots = _slots(header, end, size, path)
        found: list[np.ndarray[Any, Any]] = []
        for slot in slots:
            _require_zeros(file, end, slot.offset, path)
            kept = _read_array(file, slot, path, keep=arrays and not mmap)
            end = slot.end
            if kept is not None:
                found.append(kept)
        if arrays and mmap:
            found = _mapped(file, slots)
    return Contents(version, header, found)


def _require_plain(path: Path) -> None:
    if path.is_dir():
        msg = f"{path} is a folder; a model file was needed. Name the file in it."
        raise ModelFileError(msg)
    if path.exists() and not path.is_file():
        msg = f"{path} is no plain file, and a model is read from one. Copy it to a file first."
        raise ModelFileError(msg)


def _opened(path: Path) -> BinaryIO:
    try:
        _require_plain(path)
        return path.open("rb")
    except ModelFileError:  # a ValueError too, with its own sentence
        raise
    except FileNotFoundError as error:
        msg = f"There is no model file {path}."
        raise ModelFileError(msg) from error
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = getattr(error, "strerror", None) or error
        msg = f"The model file {path} can't be opened: {why}."
        raise ModelFileError(msg) from error


def _read_header(
    file: BinaryIO, size: int, path: Path, newest: int
) -> tuple[int, dict[str, Any], int]:
    start = file.read(PROLOGUE.size)
    if not start.startswith(MAGIC[: max(1, len(start))]):
        msg = f"{path} is no model file: it does not begin like one. `mercer fit … -o` writes them."
        raise ModelFileError(msg)
    if len(start) < PROLOGUE.size:
        _damaged(path, f"it ends after {size} bytes, in the middle of its beginning")
    _, version, length, seal, rest = PROLOGUE.unpack(start)
    if version > newest:
        msg = (
            f"{path} has format {version}, and this mercer reads formats up to {newest}: a newer mercer "
            "wrote it. Upgrade with: pip install --upgrade mercer"
        )
        raise ModelFileError(msg)
    if length > MOST_HEADER_BYTES or length > size - PROLOGUE.size:
        _damaged(path, f"a header of {length} bytes is announced in a file of {size}")
    text = file.read(length)
    if hashlib.sha256(start[:SEALED] + text).digest() != seal or any(rest) or version < 1:
        _damaged(path, "the checksum of its header does not match")
    return version, _parsed(text, path), PROLOGUE.size + length


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), parse_constant=_no_constant, object_pairs_hook=_unique)
        json.dumps(header, ensure_ascii=False).encode()  # half a surrogate pair can't be printed
    except (ValueError, RecursionError) as error:
        _refused(path, f"its header is no strict JSON: {error}")
    if not isinstance(header, dict):
        _refused(path, f"its header is a {type(header).__name__}, not an object")
    return header


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a name stands twice in one object"
        raise ValueError(msg)
    return found


def _slots(header: dict[str, Any], end: int, size: int, path: Path) -> list[Slot]:
    """The arrays' places, compared with the size of the file before anything is allocated."""
    entries = header.get("arrays")
    if not isinstance(entries, list):
        _refused(path, "its header has no list of arrays")
    slots = []
    for number, entry in enumerate(entries):
        slot = _slot(entry)
        if slot is None:
            _refused(path, f"array {number} of its header is described wrongly")
        if slot.offset != aligned(end):
            _refused(
                path, f"array {number} is said to begin at byte {slot.offset}, not {aligned(end)}"
            )
        slots.append(slot)
        end = slot.end
    if end != size:
        _damaged(path, f"its header announces {end} bytes, but the file has {size}")
    return slots


def _slot(entry: Any) -> Slot | None:
    if not isinstance(entry, dict) or set(entry) != set(ENTRY):
        return None
    dtype, shape, order, offset, n_bytes, seal = (entry[name] for name in ENTRY)
    whole = [offset, n_bytes, *(shape if isinstance(shape, list) else [None])]
    if not all(type(i) is int and 0 <= i < 2**63 for i in whole):
        return None
    if dtype not in DTYPES or order not in ("C", "F") or not isinstance(seal, str):
        return None
    if len(shape) > MOST_DIMENSIONS or n_bytes != math.prod(shape) * np.dtype(dtype).itemsize:
        return None
    return Slot(dtype, tuple(shape), order, offset, n_bytes, seal)


def _require_zeros(file: BinaryIO, start: int, stop: int, path: Path) -> None:
    file.seek(start)
    if any(file.read(stop - start)):
        _damaged(path, f"bytes {start} to {stop} were to be zero")


def _read_array(
    file: BinaryIO, slot: Slot, path: Path, *, keep: bool
) -> np.ndarray[Any, Any] | None:
    """The array, checked as it is read; None where it is not to be kept."""
    whole = np.empty(slot.n_bytes if keep else 0, dtype=np.uint8)
    chunk = np.empty(0 if keep else min(slot.n_bytes, CHUNK_BYTES), dtype=np.uint8)
    seal, done = hashlib.sha256(), 0
    while done < slot.n_bytes:
        step = min(CHUNK_BYTES, slot.n_bytes - done)
        target = whole[done : done + step] if keep else chunk[:step]
        got = file.readinto(target.data)  # type: ignore[attr-defined]
        if not got:
            _damaged(path, f"it ends within the array at byte {slot.offset}")
        seal.update(target[:got].data)
        done += got
    if seal.hexdigest() != slot.sha256:
        _damaged(path, f"the checksum of the array at byte {slot.offset} does not match")
    return _shaped(whole, slot) if keep else None


def _mapped(file: BinaryIO, slots: Sequence[Slot]) -> list[np.ndarray[Any, Any]]:
    """Read-only views of one map of the file."""
    if not any(slot.n_bytes for slot in slots):
        return [_shaped(np.empty(0, dtype=np.uint8), slot) for slot in slots]
    mapped = memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_READ)
    whole = np.frombuffer(mapped, dtype=np.uint8)
    return [_shaped(whole[slot.offset : slot.end], slot) for slot in slots]


def _shaped(flat: np.ndarray[Any, Any], slot: Slot) -> np.ndarray[Any, Any]:
    return flat.view(slot.dtype).reshape(slot.shape, order=slot.order)  # type: ignore[call-overload]


def _damaged(path: Path, why: str) -> NoReturn:
    msg = (
        f"The model file {path} is damaged: {why}. It was cut short or changed after it was written. "
        "Copy it again, or fit again."
    )
    raise ModelFileError(msg)


def _refused(path: Path, why: str) -> NoReturn:
    msg = f"The model file {path} is refused: {why}. No mercer writes such a file."
    raise ModelFileError(msg)
