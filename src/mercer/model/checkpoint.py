"""Checkpoints: a long fit writes down where it stands, and a later one goes on from there."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mercer._core import container
from mercer._core.atomic import part_of, sweep
from mercer._core.errors import InputError
from mercer._core.observer import Observer, State
from mercer._core.types import Array, Rows
from mercer._core.version import VERSION
from mercer.data.rows import Digest, row_blocks
from mercer.engine.passes import numbers_a_row

FORMAT = 3
ARRAY = "$array"  # stands in the state where an array was; its value is the array's name
FLOAT = "$float"  # a number that JSON does not have, as text
REMEDY = "give `checkpoint` another path, or delete the file to start from the beginning."
ARCHIVE = b"PK"  # ZIP, as formats 1 and 2 were

# A state is offered after every product. A kill costs no more than the work since the last one written;
# writing takes at most 1/20 of the time.
PAUSE = 10.0
PATIENCE = 20.0

BLOCK_BYTES = 16 * 2**20


# ── files ───────────────────────────────────────────────────────────────────
def read(path: Path, *, arrays: bool = True) -> container.Contents:
    """The contents of a file that is whole."""
    with _explained(path, "read"), path.open("rb") as file:
        is_archive = file.read(len(ARCHIVE)) == ARCHIVE
        try:
            contents = container.read(file, arrays=arrays)
        except container.ContainerError as error:
            why = f"it has layout {error}" if error.how == "newer" else str(error)
        else:
            if {"checkpoint", "fingerprint", "mercer", "state"} <= contents.header.keys():
                return contents
            why = "it is a model file"
    what = f"damaged, or is not a checkpoint: {why}"
    if is_archive:
        what = (
            f"a ZIP archive: a checkpoint of format 1 or 2, which mercer {VERSION} does not read, or no "
            "checkpoint at all"
        )
    msg = f"The checkpoint {path} is {what}. It is left as it is: {REMEDY}"
    raise InputError(msg)


def plain(value: Any, arrays: dict[str, Array], where: str = "state") -> Any:
    """`value` as JSON can hold it; arrays go into `arrays` and leave their name."""
    if isinstance(value, np.ndarray):
        if not container.storable(value.dtype):
            msg = f"A checkpoint holds arrays of numbers; got {where} of dtype {value.dtype}."
            raise InputError(msg)
        arrays[where] = value
        return {ARRAY: where}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT: repr(value)}
    if isinstance(value, dict):
        return {name: plain(part, arrays, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, arrays, f"{where}[{i}]") for i, part in enumerate(value)]
    return value


def _restored(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, list):
        return [_restored(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        return arrays[value[ARRAY]]
    if FLOAT in value:
        return float(value[FLOAT])
    return {name: _restored(part, arrays) for name, part in value.items()}


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


class Checkpoint(Observer):
    """An `Observer` that keeps the state of a fit in a file, and gives it back to the same fit.

    The first state is written at once. A kill at any moment leaves the last file or the next one, whole.
    A file that is damaged, or belongs to another fit, is refused and left as it is. The file stays when
    the fit is done, so that it can be repeated at little cost. A state is written when the last is `pause`
    seconds old, and `patience` times what it took to write.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: dict[str, Any],
        *,
        pause: float = PAUSE,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            msg = f"checkpoint must be None or the path of a file; got a {type(path).__name__}."
            raise InputError(msg)
        # Behind a link, so that the file is replaced and not the link.
        self.path = Path(os.path.realpath(os.path.expanduser(path)))
        # As it comes back from the file: tuples become lists.
        self.fingerprint: dict[str, Any] = json.loads(json.dumps(plain(fingerprint, {})))
        self._pause, self._patience, self._clock = pause, patience, clock
        self._due = -np.inf  # when the next state is to be written
        self._known: tuple[int, ...] | None = None  # the file as this fit found or left it
        self._probed = False

    def resume(self) -> State | None:
        self._probe()
        if self._identity() is None:
            return None
        contents = self._ours(arrays=True)
        self._due = self._clock() + self._pause
        state: State = _restored(contents.header["state"], contents.arrays)
        return state

    def keep(self, state: Callable[[], State]) -> None:
        begun = self._clock()
        if begun < self._due:
            return
        self._probe()
        if self._identity() not in (None, self._known):
            self._ours(arrays=False)
        arrays: dict[str, Array] = {}
        header = {"checkpoint": FORMAT, "mercer": VERSION, "fingerprint": self.fingerprint}
        header["state"] = plain(state(), arrays)
        # In a single step of the file system: a kill, or a full disk, leaves the old file as it was.
        with _explained(self.path, "written"):
            container.write(self.path, header, arrays)
        self._known = self._identity()
        ended = self._clock()
        self._due = ended + max(self._pause, self._patience * (ended - begun))

    def _probe(self) -> None:
        """Raise an `InputError` when no file can be written there, and remove what killed writers left."""
        if self._probed:
            return
        path = self.path
        if not path.parent.is_dir():
            self._refuse(f"needs the folder {path.parent}, which does not exist. Create it first.")
        if path.is_dir():
            self._refuse(f"is a folder; a file is needed. Add a name: {path / 'fit.ckpt'}.")
        sweep(path)
        with _explained(path, "written"):
            part = part_of(path)
            part.touch(exist_ok=False)
            part.unlink()
        self._probed = True

    def _identity(self) -> tuple[int, ...] | None:
        """A value that changes when another writer replaces the file; None when there is no file."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _ours(self, *, arrays: bool) -> container.Contents:
        """The file; one that is damaged or of another fit raises, and is neither used nor replaced."""
        found = self._identity()
        contents = read(self.path, arrays=arrays)
        header = contents.header
        if header["checkpoint"] != FORMAT:
            self._refuse(
                f"has format {header['checkpoint']}, of mercer {header['mercer']}; this is mercer {VERSION}, "
                f"which reads format {FORMAT}. Use that version, or {REMEDY}"
            )
        if header["fingerprint"] != self.fingerprint:
            different = _differences(header["fingerprint"], self.fingerprint)
            self._refuse(f"belongs to another fit: {different}. It is left as it is: {REMEDY}")
        self._known = found
        return contents

    def _refuse(self, why: str) -> NoReturn:
        msg = f"The checkpoint {self.path} {why}"
        raise InputError(msg)


# ── what a state depends on ─────────────────────────────────────────────────
def fingerprint(x: Rows, weights: Array | None, **ingredients: Any) -> dict[str, Any]:
    """The ingredients of a fit by name: all of them have to be the same when it is resumed."""
    return {
        "rows": digest(x),
        "n": int(x.shape[0]),
        "d": int(x.shape[1]),
        "dtype": str(x.dtype),
        "weights": None if weights is None else digest(weights[:, None]),
        "mercer": VERSION,
        **{name: _ingredient(value) for name, value in ingredients.items()},
    }


def _ingredient(value: Any) -> Any:
    """Plain values as they are, a random generator by its state, anything else by its ``repr``."""
    if isinstance(value, np.random.Generator):
        arrays: dict[str, Array] = {}
        state = json.dumps(plain(value.bit_generator.state, arrays)).encode()
        parts = [state, *(array.tobytes() for array in arrays.values())]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:32]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def digest(x: Rows) -> str:
    """SHA-256 of the rows, at about 1 GB/s: the same for an array, a memory map and a `RowSource`."""
    found = Digest()
    row_bytes = numbers_a_row(x) * x.dtype.itemsize
    for _, block in row_blocks(x, max(1, BLOCK_BYTES // max(1, row_bytes))):
        found.add(block)
    return found.hex(x.shape, x.dtype)


def _differences(there: dict[str, Any], here: dict[str, Any]) -> str:
    if not isinstance(there, dict):
        return "it does not say which"
    pairs = ((name, there.get(name), here.get(name)) for name in sorted(there.keys() | here.keys()))
    changes = (
        f"{n} is {_short(old)} there and {_short(new)} here" for n, old, new in pairs if old != new
    )
    return "; ".join(changes)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
