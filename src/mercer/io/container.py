"""The bytes of a model file: a prologue, a JSON header and raw arrays, every byte of them checked.

    offset 0   8 bytes   magic  93 4D 45 52 43 45 52 0A
           8   4         format, little-endian unsigned
          12   8         length of the header in bytes, little-endian unsigned
          20  32         SHA-256 of bytes 0 to 19 followed by the header
          52  12         zero
          64             the header, UTF-8 JSON
    then, each at the next multiple of 64 with zeros before it, the arrays in the order of the header's
    ``arrays``; the file ends with the last of them.

Nothing here knows what a model is, and nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

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
        text = _header_bytes(header, written)
        file.seek(0)
        file.write(_prologue(version, text.ljust(room)))
        file.write(text.ljust(room))  # spaces are JSON too


def _prologue(version: int, text: bytes) -> bytes:
    start = PROLOGUE.pack(MAGIC, version, len(text), bytes(32), bytes(12))[:SEALED]
    seal = hashlib.sha256(start + text).digest()
    return start + seal + bytes(12)


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
