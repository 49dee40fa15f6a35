"""The bytes of model files and checkpoints: safetensors' layout, and a seal on every byte of it.

    offset 0   8 bytes   h, the length of the header in bytes, little-endian unsigned
           8   h         the header, UTF-8 JSON, with blanks up to a multiple of 64
       8 + h             the arrays, one after the other, the widest numbers first

The header names each array with its dtype, its shape and where it lies; ``__metadata__`` holds texts, as
safetensors wants it: the format, the seal, and the values of the writer, each as JSON. Any tool that reads
safetensors can look at the arrays; an array in Fortran's order is there as its transpose.

Nothing here knows what a model is, and nothing is ever unpickled. A reader compares sizes before anything is
allocated, and checksums before anything is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap as memory_map
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from mercer._core.atomic import sweep, written_whole

FORMAT = 2  # 1 was a layout of our own: `mercer.persistence.format_1`
METADATA = "__metadata__"
START = '{"__metadata__":{"mercer_format":"%d","sha256":"%s"'
STARTS = re.compile(rb'\{"__metadata__":\{"mercer_format":"(\d{1,9})","sha256":"([0-9a-f]{64})"')
LENGTH_BYTES = 8
ALIGNMENT = 64
MOST_HEADER_BYTES = 64 * 2**20
MOST_DIMENSIONS = 4
CHUNK_BYTES = 16 * 2**20
NO_SEAL = "0" * 64
ENTRY = ("dtype", "shape", "order", "offset", "bytes", "sha256")  # of an array in the header
DTYPES = {
    "F32": "<f4", "F64": "<f8", "BOOL": "|b1",
    "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def storable(dtype: Any) -> bool:
    """Whether arrays of this dtype can be written."""
    return np.dtype(dtype).newbyteorder("<").str in NAMES


class ContainerError(ValueError):
    """A file that can't be read: the text says why, ``how`` in which way.

    ``foreign``: of another kind. ``newer``: of a format to come. ``damaged``: not as it was written.
    ``forged``: sealed, but nothing that a mercer writes.
    """

    def __init__(self, why: str, how: str) -> None:
        super().__init__(why)
        self.how = how


@dataclass(frozen=True)
class Slot:
    """An array in a file."""

    dtype: str  # as NumPy writes it
    shape: tuple[int, ...]
    order: str  # C: the last axis runs fastest; F: the first does
    offset: int  # in the file
    sha256: str = NO_SEAL

    @property
    def n_bytes(self) -> int:
        """The length of the array in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def end(self) -> int:
        """The offset of the first byte after it."""
        return self.offset + self.n_bytes

    def shaped(self, flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The array, a view of its bytes."""
        return flat.view(self.dtype).reshape(self.shape, order=self.order)  # type: ignore[call-overload]


# ── writing ─────────────────────────────────────────────────────────────────
def write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a file, which replaces the old one in a single step, or raise and leave that as it was.

    The header has values that JSON can hold. Arrays are written a slice at a time: a memory map, or a source
    of rows (a dtype, a shape and ``blocks(height)``), is never loaded.
    """
    sweep(path)
    slots = _placed(arrays)
    # A seal has 64 digits whatever it is, so the header can be measured before the arrays are read.
    begin = -(-(LENGTH_BYTES + len(_text(header, slots))) // ALIGNMENT) * ALIGNMENT
    with written_whole(path) as file:
        file.seek(begin)
        slots = {name: _written(file, slot, arrays[name]) for name, slot in slots.items()}
        text = _text(header, slots).ljust(begin - LENGTH_BYTES)
        start = len(text).to_bytes(LENGTH_BYTES, "little")
        seal = _seal(start, text).encode()
        file.seek(0)
        file.write(start + text.replace(NO_SEAL.encode(), seal, 1))  # the first is the header's own


def _placed(arrays: Mapping[str, Any]) -> dict[str, Slot]:
    """Where each array goes: behind those of wider numbers, so that all are aligned without a gap."""
    slots, end = {}, 0
    for name in sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize):
        array = arrays[name]
        dtype = np.dtype(array.dtype).newbyteorder("<").str
        slots[name] = Slot(dtype, tuple(map(int, array.shape)), _order(array), end)
        end = slots[name].end
    return slots


def _order(array: Any) -> str:
    # The layout is kept: products of matrices are summed in another order for another one.
    if not isinstance(array, np.ndarray) or array.ndim < 2 or array.flags.c_contiguous:
        return "C"
    strides = [abs(s) for s in array.strides]
    return "F" if strides == sorted(strides) and (strides[0] > 0 or not array.size) else "C"


def _text(header: Mapping[str, Any], slots: Mapping[str, Slot]) -> bytes:
    seals, entries = {}, {}
    for name, slot in slots.items():
        of_columns = slot.order == "F"
        seals[name] = {"sha256": slot.sha256} | ({"order": "F"} if of_columns else {})
        entries[name] = {
            "dtype": NAMES[slot.dtype],
            "shape": slot.shape[::-1] if of_columns else slot.shape,
            "data_offsets": [slot.offset, slot.end],
        }
    texts = {name: _json(value) for name, value in {**header, "arrays": seals}.items()}
    return f"{START % (FORMAT, NO_SEAL)}{_members(texts)}}}{_members(entries)}}}".encode()


def _members(values: Mapping[str, Any]) -> str:
    return "".join(f",{_json(name)}:{_json(value)}" for name, value in values.items())


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text.encode()  # half a surrogate pair is a ValueError here
    return text


def _seal(start: bytes, text: bytes) -> str:
    """The SHA-256 of the length and of the header whose own seal is zeros."""
    return hashlib.sha256(start + text).hexdigest()


def _written(file: BinaryIO, slot: Slot, array: Any) -> Slot:
    seal, written = hashlib.sha256(), 0
    for block in _blocks(array, slot):
        piece = np.ascontiguousarray(block, dtype=slot.dtype).reshape(-1).view(np.uint8).data
        seal.update(piece)
        file.write(piece)
        written += piece.nbytes
    if written != slot.n_bytes:
        msg = (
            f"{array!r} must give {slot.n_bytes} bytes; got {written}. Its file changed while it was "
            "copied: save again."
        )
        raise ContainerError(msg, "damaged")
    return replace(slot, sha256=seal.hexdigest())


def _blocks(array: Any, slot: Slot) -> Iterator[Any]:
    if slot.n_bytes == 0:
        return
    rows = array
    if isinstance(array, np.ndarray):
        rows = np.atleast_1d(array.T if slot.order == "F" else array)
    height = max(1, CHUNK_BYTES // max(1, slot.n_bytes // int(rows.shape[0])))
    if isinstance(array, np.ndarray):
        yield from (rows[i : i + height] for i in range(0, len(rows), height))
    else:
        yield from (block for _, block in rows.blocks(height))


# ── reading ─────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Contents:
    """A file that was found whole: its format, its header and its arrays."""

    format: int
    header: dict[str, Any]
    arrays: dict[Any, np.ndarray[Any, Any]]


def read(file: BinaryIO, *, mmap: bool = False, arrays: bool = True) -> Contents:
    """The header and the arrays of a file in which every byte is as it was written, or a `ContainerError`.

    With `mmap` arrays are read-only views of the file; without `arrays` they are only checked, not kept.
    """
    # All is read from this one handle: a file that is put in its place meanwhile is another file.
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    version, tree, end = _header(file, size)
    header, slots = _described(tree, end, size)
    return Contents(version, header, taken(file, slots, mmap=mmap, arrays=arrays))


def _header(file: BinaryIO, size: int) -> tuple[int, dict[str, Any], int]:
    start = file.read(LENGTH_BYTES)
    begin = file.read(len(START % (0, NO_SEAL)) + 8)
    match = STARTS.match(begin)
    if match is None:
        msg = "its first bytes are not those of one"
        raise ContainerError(msg, "foreign")
    version, length = int(match[1]), int.from_bytes(start, "little")
    if version > FORMAT:
        raise ContainerError(str(version), "newer")
    if length > MOST_HEADER_BYTES or length > size - LENGTH_BYTES:
        damaged(f"it announces a header of {length} bytes, and has {size} bytes in all")
    text = (begin + file.read(max(0, length - len(begin))))[:length]
    unsealed = text.replace(match[2], NO_SEAL.encode(), 1)
    if _seal(start, unsealed).encode() != match[2]:
        damaged("the checksum of its header does not match")
    return version, parsed(text), LENGTH_BYTES + length


def parsed(text: bytes | str) -> dict[str, Any]:
    """The object in a text of strict JSON."""
    found = _strict(text)
    if not isinstance(found, dict):
        forged(f"its header is a {type(found).__name__} where an object is needed")
    return found


def _strict(text: bytes | str) -> Any:
    try:
        words = text.decode() if isinstance(text, bytes) else text
        found = json.loads(words, parse_constant=_no_constant, object_pairs_hook=_unique)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair can't be printed
    except (ValueError, RecursionError) as error:
        forged(f"its header is not strict JSON: {error}")
    return found


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is not a JSON number"
    raise ValueError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a name stands twice in one object"
        raise ValueError(msg)
    return found


def _described(tree: dict[str, Any], end: int, size: int) -> tuple[dict[str, Any], dict[Any, Slot]]:
    """The writer's own values, and the arrays' places."""
    texts = tree.pop(METADATA)
    if not all(isinstance(text, str) for text in texts.values()):
        forged("its metadata are not all texts")
    header = {n: _strict(text) for n, text in texts.items() if n not in ("mercer_format", "sha256")}
    seals = header.get("arrays")
    if not isinstance(seals, dict) or set(seals) != set(tree):
        forged("its header has not one seal for each array")
    header["arrays"] = {name: _entry(tree[name], seals[name], end) for name in tree}
    return header, placed(header["arrays"], end, size)


def _entry(entry: Any, sealed: Any, end: int) -> dict[str, Any] | None:
    """The two descriptions of an array in one; None where they are not as mercer writes them."""
    both = isinstance(entry, dict) and isinstance(sealed, dict)
    words = {*entry, *sealed, "order"} if both else set()
    if words != {"dtype", "shape", "order", "data_offsets", "sha256"}:
        return None
    offsets = entry["data_offsets"]
    if not isinstance(offsets, list) or [type(i) for i in offsets] != [int, int]:
        return None
    order, shape = sealed.get("order", "C"), entry["shape"]
    return {
        "dtype": DTYPES.get(str(entry["dtype"])),
        "shape": shape[::-1] if order == "F" and isinstance(shape, list) else shape,
        "order": order,
        "offset": end + offsets[0],
        "bytes": offsets[1] - offsets[0],
        "sha256": sealed["sha256"],
    }


def placed(entries: Mapping[Any, Any], end: int, size: int, alignment: int = 1) -> dict[Any, Slot]:
    """The places of arrays, checked: one after the other, up to the end of the file."""
    slots = {}
    for name, entry in entries.items():
        slot, begin = _slot(entry), -(-end // alignment) * alignment
        if slot is None:
            forged(f"its array {str(name)[:80]!r} is described wrongly")
        if slot.offset != begin:
            forged(f"its array {str(name)[:80]!r} begins at byte {slot.offset}, not {begin}")
        slots[name], end = slot, slot.end
    if end != size:
        damaged(f"its header announces {end} bytes, and the file has {size}")
    return slots


def _slot(entry: Any) -> Slot | None:
    if not isinstance(entry, dict) or set(entry) != set(ENTRY):
        return None
    dtype, shape, order, offset, n_bytes, seal = (entry[name] for name in ENTRY)
    whole = [offset, n_bytes, *(shape if isinstance(shape, list) else [None])]
    if not all(type(i) is int and 0 <= i < 2**63 for i in whole) or len(shape) > MOST_DIMENSIONS:
        return None
    if not isinstance(dtype, str) or dtype not in NAMES or order not in ("C", "F"):
        return None
    slot = Slot(dtype, tuple(shape), order, offset, seal)
    return slot if isinstance(seal, str) and slot.n_bytes == n_bytes else None


# ── arrays ──────────────────────────────────────────────────────────────────
def taken(
    file: BinaryIO, slots: Mapping[Any, Slot], *, mmap: bool, arrays: bool
) -> dict[Any, np.ndarray[Any, Any]]:
    """The arrays, each compared with its seal as it is read."""
    keep = arrays and not mmap
    found = {name: _array(file, name, slot, keep=keep) for name, slot in slots.items()}
    if not arrays:
        return {}
    if mmap and any(slot.n_bytes for slot in slots.values()):
        mapped = memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_READ)
        view = np.frombuffer(mapped, dtype=np.uint8)
        found = {name: view[slot.offset : slot.end] for name, slot in slots.items()}
    return {name: slot.shaped(found[name]) for name, slot in slots.items()}


def _array(file: BinaryIO, name: Any, slot: Slot, *, keep: bool) -> np.ndarray[Any, Any]:
    """The bytes of an array; none where it is not to be kept."""
    target = np.empty(slot.n_bytes if keep else min(slot.n_bytes, CHUNK_BYTES), dtype=np.uint8)
    file.seek(slot.offset)
    seal, done = hashlib.sha256(), 0
    while done < slot.n_bytes:
        step = min(CHUNK_BYTES, slot.n_bytes - done)
        piece = target[done : done + step] if keep else target[:step]
        got = file.readinto(piece.data)  # type: ignore[attr-defined]
        if not got:
            damaged(f"it ends within the array {str(name)[:80]!r}")
        seal.update(piece[:got].data)
        done += got
    if seal.hexdigest() != slot.sha256:
        damaged(f"the checksum of the array {str(name)[:80]!r} does not match")
    return target if keep else target[:0]


def damaged(why: str) -> NoReturn:
    """Raise: the bytes are not those that were written."""
    raise ContainerError(why, "damaged")


def forged(why: str) -> NoReturn:
    """Raise: the seal is right, but mercer does not write such bytes."""
    raise ContainerError(why, "forged")
