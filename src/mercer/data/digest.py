"""The SHA-256 of rows, the same however they are cut into blocks."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from mercer._core.types import Rows


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
