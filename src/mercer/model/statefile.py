"""A state in a file: written in one piece or not at all, read whole or not at all.

The file is a zip archive of NumPy arrays and a JSON header, as ``np.savez`` writes, whose comment is the
SHA-256 of everything before it: every byte is covered, and nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mercer._core.atomic import part_of, sweep, written_whole
from mercer._core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mercer._core.types import Array
    from mercer._core.watch import State

HEADER = "header.json"
ARRAY = "$array"  # stands in the header where an array was; its value is the array's number
SEAL_BYTES = 64  # SHA-256 in hexadecimal
CHUNK_BYTES = 16 * 2**20
REMEDY = "give `checkpoint` another path, or delete the file to start from the beginning."


# ── write ───────────────────────────────────────────────────────────────────
def save(path: Path, header: dict[str, Any], state: State) -> None:
    """A new file takes the place of the old one, in a single step of the file system.

    Arrays are written from where they lie, whatever their strides. A kill, or a full disk, leaves the
    old file as it was.
    """
    with _explained(path, "written"), written_whole(path) as file:
        _write(file, header, state)


def probe(path: Path) -> None:
    """Raise an `InputError` when no file can be written there, and remove what killed writers left."""
    if not path.parent.is_dir():
        msg = f"The checkpoint {path} needs the folder {path.parent}, which does not exist. Make it first."
        raise InputError(msg)
    if path.is_dir():
        msg = f"The checkpoint {path} is a folder; a file was needed. Add a name: {path / 'fit.ckpt'}."
        raise InputError(msg)
    sweep(path)
    with _explained(path, "written"):
        part = part_of(path)
        part.touch(exist_ok=False)
        part.unlink()


def _write(file: BinaryIO, header: dict[str, Any], state: State) -> None:
    arrays: list[Array] = []
    header = {**header, "state": plain(state, arrays)}
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = bytes(SEAL_BYTES)
        archive.writestr(HEADER, json.dumps(header))
        for number, array in enumerate(arrays):
            member = zipfile.ZipInfo(f"{number}.npy")
            with archive.open(member, "w", force_zip64=True) as target:
                np.lib.format.write_array(target, array, allow_pickle=False)  # a chunk at a time
    file.write(_seal(file))  # over the comment, which comes last


def plain(value: Any, arrays: list[Array]) -> Any:
    """`value` as JSON can hold it; arrays go into the list and leave their number."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {ARRAY: len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: plain(part, arrays) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, arrays) for part in value]
    return value


# ── read ────────────────────────────────────────────────────────────────────
def read_header(path: Path) -> dict[str, Any]:
    """The header of a file that is whole."""
    with _opened(path) as archive:
        header: dict[str, Any] = json.loads(archive.read(HEADER))
    return header


def read_state(path: Path) -> State:
    """The state in a file that is whole."""
    with _opened(path) as archive:
        state: State = _restored(json.loads(archive.read(HEADER))["state"], archive)
    return state


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with _explained(path, "read"), path.open("rb") as file:
        _require_seal(file, path)
        with zipfile.ZipFile(file) as archive:
            yield archive


def identity(path: Path) -> tuple[int, ...] | None:
    """Changes when somebody else writes the file; None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _restored(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, dict):
        if ARRAY in value:
            with archive.open(f"{value[ARRAY]}.npy") as member:
                return np.lib.format.read_array(member, allow_pickle=False)
        return {name: _restored(part, archive) for name, part in value.items()}
    if isinstance(value, list):
        return [_restored(part, archive) for part in value]
    return value


def _seal(file: BinaryIO) -> bytes:
    """The SHA-256 of all but the last `SEAL_BYTES`; the file then stands before these."""
    whole = hashlib.sha256()
    left = file.seek(0, os.SEEK_END) - SEAL_BYTES
    file.seek(0)
    while left > 0 and (chunk := file.read(min(left, CHUNK_BYTES))):
        whole.update(chunk)
        left -= len(chunk)
    return whole.hexdigest().encode()


def _require_seal(file: BinaryIO, path: Path) -> None:
    is_zip = file.read(2) == b"PK"
    if is_zip and _seal(file) == file.read():
        return
    why = (
        "its checksum does not match, so it was cut short or changed"
        if is_zip
        else "it does not begin like one"
    )
    msg = f"The checkpoint {path} is damaged, or is no checkpoint: {why}. It is left as it is: {REMEDY}"
    raise InputError(msg)


@contextmanager
def _explained(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        msg = (
            f"The checkpoint {path} could not be {done}: {error.strerror or error}. What was saved before "
            "is as it was. Make room or give the permission and run again, or give `checkpoint` another "
            "path."
        )
        raise InputError(msg) from error
