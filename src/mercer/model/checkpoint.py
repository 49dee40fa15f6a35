"""Checkpoints: a long fit writes down where it stands, and a later one goes on from there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.rows import RowSource, row_blocks
from mercer.model.statefile import REMEDY, identity, plain, probe, read_header, read_state, save

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows
    from mercer._core.watch import State

FORMAT = 2

# A state is offered after every product. A kill costs no more than the work since the last one written;
# writing takes at most 1/20 of the time.
PAUSE = 10.0
PATIENCE = 20.0

# Not a plain import: the root package names every layer above this one, though it loads none.
VERSION: str = import_module("mercer").__version__

BLOCK_BYTES = 16 * 2**20


class Checkpoint:
    """A `Watch` that keeps the state of a fit in a file, and gives it back to the same fit.

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


class Digest:
    """The SHA-256 of rows that come in blocks, however they are cut."""

    def __init__(self) -> None:
        # One stream for dense rows, three for sparse ones: each carries the same bytes for every cut.
        names = ("rows", "data", "indices", "lengths")
        self._streams = {name: hashlib.sha256() for name in names}

    def add(self, block: Rows) -> None:
        """The next rows."""
        for name, part in _parts(block).items():
            self._streams[name].update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)

    def hex(self, shape: Any, dtype: Any) -> str:
        """The digest of all rows, in hexadecimal."""
        whole = hashlib.sha256(f"{tuple(map(int, shape))} {np.dtype(dtype).str}".encode())
        for stream in self._streams.values():
            whole.update(stream.digest())
        return whole.hexdigest()[:32]


def _parts(block: Rows) -> dict[str, Any]:
    if not hasattr(block, "indptr"):
        return {"rows": block}
    lengths = np.diff(block.indptr).astype(np.int64)
    return {"data": block.data, "indices": block.indices.astype(np.int64), "lengths": lengths}


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
