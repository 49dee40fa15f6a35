"""Rows that pass through the device, a block at a time: what every pass over rows reads them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_blocks
from mercer.engine.base import FLOAT64
from mercer.engine.tiles import DEVICE_PASS_ROWS
from mercer.engine.torch.place import LEAST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.engine.torch.place import Place
    from mercer.engine.torch.rows import Side, TorchRows


def height(place: Place, width: int, depth: int) -> int:
    """Rows of a block of which `width` numbers are made, and `depth` such arrays beside each other."""
    wide = place.width(FLOAT64, depth)
    return min(DEVICE_PASS_ROWS, max(LEAST, wide * wide // max(1, width)))


def passed(x: Rows, rows: int, observer: Observer) -> Iterator[tuple[slice, Rows]]:
    """All rows in order, so many at a time, each block with its place; an observer hears of what is done."""
    n = int(x.shape[0])
    for place, block in row_blocks(x, rows):
        yield place, block
        observer.step(place.stop, n, "rows", None)


def sent(points: TorchRows, x: Rows, rows: int, observer: Observer) -> Iterator[tuple[slice, Side]]:
    """The same on the device, to meet these points; the next ones are sent meanwhile."""
    n = int(x.shape[0])
    for place, _, side in points.sent_blocks(x, rows):
        yield place, side
        observer.step(place.stop, n, "rows", None)


def here(tensor: Tensor) -> Array:
    """On the host, in float64."""
    return tensor.cpu().numpy().astype(np.float64, copy=False)
