"""Answers on the wire: JSON, a file, or a packet of arrays in float32 behind a header of JSON."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.app.outcome import plain

if TYPE_CHECKING:
    from mercer.app.explore.planes import Panel

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


def packet(panel: Panel) -> Reply:
    """A header and its arrays, in one body."""
    return Reply(packed(panel.header, panel.arrays), PACKET)


def packed(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Four bytes with the length of the header, the header, and the arrays one after the other.

    The header is filled up with spaces, so that the arrays begin at a multiple of four: a browser then
    reads them in place.

    Examples
    --------
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
