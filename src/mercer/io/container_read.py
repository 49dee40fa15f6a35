"""Reading a model file: sizes before anything is allocated, checksums before anything is used."""

from __future__ import annotations

import hashlib
import json
import math
import mmap as memory_map
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from mercer._core.errors import ModelFileError
from mercer.io.container import (
    CHUNK_BYTES,
    DTYPES,
    ENTRY,
    MAGIC,
    MOST_DIMENSIONS,
    MOST_HEADER_BYTES,
    PROLOGUE,
    SEALED,
    Slot,
    aligned,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
