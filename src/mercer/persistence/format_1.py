"""Model files of format 1: a prologue, a JSON header and arrays with gaps.

    offset 0   8 bytes   magic  93 4D 45 52 43 45 52 0A
           8   4         format, little-endian unsigned: 1
          12   8         length of the header in bytes, little-endian unsigned
          20  32         SHA-256 of bytes 0 to 19 followed by the header
          52  12         zero
          64             the header, UTF-8 JSON; its ``arrays`` say where each array lies
    then, each at the next multiple of 64 with zeros before it, the arrays; the file ends with the last.

Its objects are those of format 2, with numbers for the names of arrays.
"""

from __future__ import annotations

import hashlib
import os
import struct
from typing import Any, BinaryIO

from mercer._core import container
from mercer._core.container import Contents, damaged, forged

MAGIC = b"\x93MERCER\n"
PROLOGUE = struct.Struct("<8sIQ32s12s")  # 64 bytes
SEALED = 20  # bytes of the prologue that the checksum of the header covers
ALIGNMENT = 64


def read(file: BinaryIO, *, mmap: bool = False, arrays: bool = True) -> Contents:
    """The contents, as `mercer._core.container.read` has them."""
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    header, end = _header(file, size)
    entries = header.get("arrays")
    if not isinstance(entries, list):
        forged("its header has no list of arrays")
    slots = container.placed(dict(enumerate(entries)), end, size, ALIGNMENT)
    for slot in slots.values():
        file.seek(end)
        if any(file.read(slot.offset - end)):
            damaged(f"bytes {end} to {slot.offset} are not zero")
        end = slot.end
    header["arrays"] = {str(place): entry for place, entry in enumerate(entries)}
    return Contents(1, header, container.taken(file, slots, mmap=mmap, arrays=arrays))


def _header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    start = file.read(PROLOGUE.size)
    if len(start) < PROLOGUE.size:
        damaged(f"it ends after {size} bytes, in the middle of its beginning")
    _, version, length, seal, rest = PROLOGUE.unpack(start)
    if length > container.MOST_HEADER_BYTES or length > size - PROLOGUE.size:
        damaged(f"it announces a header of {length} bytes, and has {size} bytes in all")
    text = file.read(length)
    if hashlib.sha256(start[:SEALED] + text).digest() != seal or any(rest) or version != 1:
        damaged("the checksum of its header does not match")
    header = container.parsed(text)
    if header.get("format") != 1:
        forged("its header is not of format 1")
    return header, PROLOGUE.size + length
