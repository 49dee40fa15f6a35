"""Checkpoints: a long fit writes down where it stands, and a later one goes on from there."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mercer._core.atomic import part_of, sweep, written_whole
from mercer._core.errors import InputError
from mercer.data.digest import Digest
from mercer.data.rows import RowSource, row_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercer._core.observer import State
    from mercer._core.types import Array, Rows


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


FORMAT = 2

# A state is offered after every product. A kill costs no more than the work since the last one written;
# writing takes at most 1/20 of the time.
PAUSE = 10.0
PATIENCE = 20.0

# Not a plain import: the root package names every layer above this one, though it loads none.
VERSION: str = import_module("mercer").__version__

BLOCK_BYTES = 16 * 2**20


class Checkpoint:
    """An `Observer` that keeps the state of a fit in a file, and gives it back to the same fit.

    The first state is written at once. A kill at any moment leaves the last file or the next one, whole.
    A file that is damaged, or belongs to another fit, is refused and left as it is. The file stays when
    the fit is done: until its result is safe elsewhere, the same fit can be had again at little cost.

    Parameters
    ----------
    path : str or path-like
        The file; its folder has to exist.
    fingerprint : dict
        What the state depends on, by name: see `fingerprint`.
    pause, patience : float, optional
        A state is written when the last one is `pause` seconds old, and `patience` times as old as it
        took to write.
    clock : callable, optional
        Seconds, from anywhere.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(f"{folder}/fit.ckpt", {"n": 3}).keep(lambda: {"basis": np.eye(3), "product": 1})
    ...     Checkpoint(f"{folder}/fit.ckpt", {"n": 3}).resume()["product"]
    1
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
            msg = (
                f"checkpoint must be None or the path of a file, but a {type(path).__name__} came."
            )
            raise InputError(msg)
        # Behind a link, so that the file is replaced and not the link.
        self.path = Path(os.path.realpath(os.path.expanduser(path)))
        # As it comes back from the file: tuples become lists.
        self.fingerprint: dict[str, Any] = json.loads(json.dumps(plain(fingerprint, [])))
        self._pause, self._patience, self._clock = pause, patience, clock
        self._due = -np.inf  # when the next state is to be written
        self._known: tuple[int, ...] | None = None  # the file as this fit found or left it
        self._probed = False

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """Never asks to stop."""
        del done, expected, what, residual
        return False

    def resume(self) -> State | None:
        """The state in the file; None when there is no file yet."""
        self._probe()
        if identity(self.path) is None:
            return None
        self._require_ours()
        state = read_state(self.path)
        self._due = self._clock() + self._pause
        return state

    def keep(self, state: Callable[[], State]) -> None:
        """Write the state down, if the last one is old enough."""
        begun = self._clock()
        if begun < self._due:
            return
        self._probe()
        self._require_ours()
        header = {"format": FORMAT, "mercer": VERSION, "fingerprint": self.fingerprint}
        save(self.path, header, state())
        self._known = identity(self.path)
        ended = self._clock()
        self._due = ended + max(self._pause, self._patience * (ended - begun))

    def _probe(self) -> None:
        if not self._probed:
            probe(self.path)
            self._probed = True

    def _require_ours(self) -> None:
        """Raise when the file is damaged or of another fit: it is neither read nor replaced then."""
        found = identity(self.path)
        if found in (None, self._known):
            return
        header = read_header(self.path)
        if header["format"] != FORMAT:
            msg = (
                f"The checkpoint {self.path} has format {header['format']}, of mercer "
                f"{header['mercer']}; this is mercer {VERSION}, which reads format {FORMAT}. Use that "
                f"version, or {REMEDY}"
            )
            raise InputError(msg)
        if header["fingerprint"] != self.fingerprint:
            msg = (
                f"The checkpoint {self.path} belongs to another fit: "
                f"{_differences(header['fingerprint'], self.fingerprint)}. It is left as it is: {REMEDY}"
            )
            raise InputError(msg)
        self._known = found


# ── what a state depends on ─────────────────────────────────────────────────
def fingerprint(x: Rows, weights: Array | None, **ingredients: Any) -> dict[str, Any]:
    """The ingredients of a fit by name: all of them have to be the same when it is resumed.

    Parameters
    ----------
    x : rows
        Array, CSR matrix or `RowSource`: one pass over them.
    weights : (n,) array or None
    **ingredients
        Numbers, texts and truth values as they are; a random generator by its state; anything else by
        its ``repr``.

    Examples
    --------
    >>> found = fingerprint(np.eye(3), None, n_components=2)
    >>> found["n"], found["dtype"], found["n_components"]
    (3, 'float64', 2)
    """
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
    if isinstance(value, np.random.Generator):
        arrays: list[Array] = []
        state = json.dumps(plain(value.bit_generator.state, arrays)).encode()
        return hashlib.sha256(b"".join([state, *(a.tobytes() for a in arrays)])).hexdigest()[:32]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def digest(x: Rows) -> str:
    """SHA-256 of the rows, at about 1 GB/s: the same for an array, a memory map and a `RowSource`."""
    found = Digest()
    for _, block in row_blocks(x, _height(x)):
        found.add(block)
    return found.hex(x.shape, x.dtype)


def _height(x: Rows) -> int:
    n, d = x.shape
    entries = d if isinstance(x, (np.ndarray, RowSource)) else x.nnz / max(n, 1)
    return max(1, int(BLOCK_BYTES // max(1, entries * x.dtype.itemsize)))


def _differences(there: dict[str, Any], here: dict[str, Any]) -> str:
    told = []
    for name in sorted(there.keys() | here.keys()):
        old, new = there.get(name), here.get(name)
        if old != new:
            told.append(f"{name} is {_short(old)} there and {_short(new)} here")
    return "; ".join(told)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
