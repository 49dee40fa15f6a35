"""Small pictures as PNG in the page itself: the format needs zlib and nothing else."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer._core.types import Array

GREY, RGBA = 0, 6  # colour types of the standard (ISO/IEC 15948)


def encoded(pixels: NDArray[np.uint8]) -> bytes:  # (h, w) or (h, w, 4)
    """A PNG file of grey or of red, green, blue and opacity."""
    height, width = pixels.shape[:2]
    kind = GREY if pixels.ndim == 2 else RGBA
    # Each line begins with the number of its filter: 0, none.
    lines = np.zeros((height, 1 + pixels[0].size), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in parts)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def address(pixels: NDArray[np.uint8]) -> str:
    """The picture as a data: address."""
    return "data:image/png;base64," + base64.b64encode(encoded(pixels)).decode("ascii")


def greys(image: Array, low: float, high: float) -> NDArray[np.uint8]:
    """Numbers as greys, `low` black and `high` white."""
    width = high - low if high > low else 1.0
    return np.clip(np.rint(255 * (image - low) / width), 0, 255).astype(np.uint8)


def packed(values: Any, dtype: str) -> str:
    """Numbers as base64 of little-endian bytes, for the script."""
    array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode("ascii")
