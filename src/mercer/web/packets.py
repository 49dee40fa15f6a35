"""Answers on the wire: JSON, a file, a packet of arrays in float32 behind a header of JSON, or an error."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import KernelSyntaxError, MercerError, StoppedError
from mercer.app.outcome import plain
from mercer.web.desk import BusyError, SupersededError
from mercer.web.session import FullError, NotFoundError

PACKET = "application/octet-stream"
# Where a file of the session lies is of no use to a reader, who knows it by its name.
FOLDER = re.compile(r"[^\s'\"]*mercer-explore-\w+(?:[/\\]+\d+)?[/\\]+")
JSON = "application/json"
STATIC = Path(__file__).parent / "static"  # the files of the page


@dataclass(frozen=True)
class Reply:
    """An answer: how it went, what it is, and its bytes."""

    body: bytes
    kind: str = JSON
    status: int = 200
    name: str | None = None  # of a file to save
    headers: dict[str, str] = field(default_factory=dict)


def json_reply(value: Any, status: int = 200) -> Reply:
    """Plain values; numbers that JSON has no word for are null."""
    return Reply(_text(value), JSON, status)


def packed(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Four bytes with the length of the header, the header, and the arrays one after the other.

    The header is filled up with spaces, so that the arrays begin at a multiple of four: a browser then
    reads them in place.

    >>> body = packed({"n": 2}, {"x": np.array([1.0, 2.0])})
    >>> unpacked(body)
    ({'n': 2, 'arrays': {'x': {'shape': [2], 'offset': 0}}}, {'x': array([1., 2.], dtype=float32)})
    """
    blocks, places, offset = [], {}, 0
    with np.errstate(over="ignore"):  # what float32 can't hold is infinite there
        for name, values in arrays.items():
            block = np.ascontiguousarray(values, dtype="<f4")
            places[name] = {"shape": list(block.shape), "offset": offset}
            blocks.append(block.tobytes())
            offset += block.nbytes
    text = _text({**header, "arrays": places})
    text += b" " * (-(4 + len(text)) % 4)
    return b"".join([struct.pack("<I", len(text)), text, *blocks])


def unpacked(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a packet: what the page does, for tests and programs."""
    (length,) = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + length])
    arrays = {}
    for name, place in header["arrays"].items():
        count = int(np.prod(place["shape"], dtype=np.int64))
        block = np.frombuffer(body, "<f4", count, 4 + length + place["offset"])
        arrays[name] = block.reshape(place["shape"])
    return header, arrays


def _text(value: Any) -> bytes:
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return FOLDER.sub("", text).encode("utf-8", "replace")


class MediaTypeError(MercerError):
    """A body of another kind than is taken."""


# ── errors: a sentence, a place in a text, a remedy, and no details ─────────
ERRORS: dict[type[BaseException], tuple[str, int]] = {
    NotFoundError: ("not-found", 404),
    SupersededError: ("superseded", 409),
    StoppedError: ("stopped", 409),
    BusyError: ("busy", 429),
    FullError: ("too-large", 413),
    MediaTypeError: ("media-type", 415),
    MercerError: ("refused", 422),
    MemoryError: ("refused", 422),
    OSError: ("failed", 500),
    Exception: ("failed", 500),
}


def failed(error: BaseException) -> Reply:
    """An error as the page shows it."""
    return json_reply({"error": in_words(error)}, _kind_of(error)[1])


def in_words(error: BaseException) -> dict[str, Any]:
    """A sentence, and the place, the parameter and the remedy where it has them."""
    at = None
    if isinstance(error, KernelSyntaxError):
        message, at = _pointed(str(error))
    elif isinstance(error, MercerError):
        message = str(error)
    elif isinstance(error, MemoryError):
        message = "There is not enough memory for this. Use fewer rows, or an approximation."
    else:
        message = f"{type(error).__name__}: this was not foreseen. The terminal has the details."
    return {
        "code": _kind_of(error)[0],
        "message": message,
        "parameter": getattr(error, "parameter", None),
        "remedy": getattr(error, "remedy", ""),
        "at": at,
    }


def _kind_of(error: BaseException) -> tuple[str, int]:
    return next(pair for kind, pair in ERRORS.items() if isinstance(error, kind))


def _pointed(message: str) -> tuple[str, list[int] | None]:
    """The sentence of a syntax error, and where its caret points in a text that is shown whole."""
    lines = message.split("\n")
    if len(lines) < 3 or "^" not in lines[-1] or "…" in lines[-2]:
        return lines[0], None
    start = lines[-1].index("^") - 2
    return "\n".join(lines[:-2]), [start, start + lines[-1].count("~") + 1]
