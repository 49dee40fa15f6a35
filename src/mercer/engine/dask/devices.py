"""Devices of workers: what each says of its own, and the engine that it computes with there.

torch is never imported by the client: a device is named here, and looked for where it is used.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer._core.errors import InputError, MemoryBudgetError, MercerError
from mercer._core.types import Array
from mercer.engine.base import TileKernel
from mercer.engine.native.engine import program_of
from mercer.engine.numpy import NumpyEngine
from mercer.engine.tiles import WHOLE, Part
from mercer.engine.torch.devices import There
from mercer.engine.torch.engine import TorchEngine
from mercer.engine.torch.fused import fused_gram_times
from mercer.engine.torch.place import WIDEST, device_of, tile_width
from mercer.engine.torch.rows import TorchRows
from mercer.engine.torch.sending import STAGING_BYTES
from mercer.engine.torch.several import share_times, shares

FORMS = "'cuda', which is each worker's own GPU, 'mps', or 'torch:cpu' for trials"


def kind_of(name: object) -> str:
    """The kind of device; raises where it is none."""
    try:
        return device_of(str(name))[0]
    except InputError:
        msg = f"device must be {FORMS}; got {name!r}."
        raise InputError(msg) from None


def staged(name: str) -> int:
    """What a worker holds of its own memory to send rows to its device."""
    return STAGING_BYTES if kind_of(name) == "cuda" else 0


def cache_bytes(name: str) -> int:
    """The tile that such a device makes fastest."""
    return WIDEST[kind_of(name)] ** 2 * 8


def common_width(
    name: str, found: Collection[There], kernel: TileKernel, dtype: np.dtype[Any]
) -> int:
    """The width of tiles that nobody has planned: that of the device with the least memory, for all.

    Parts of a product fit together where all tiles are cut alike.
    """
    program, itemsize = program_of(kernel), dtype.itemsize
    depth = 1 if isinstance(program, str) else program.depth
    widest = WIDEST[kind_of(name)] * 8 // itemsize
    return tile_width(min(each.total_bytes for each in found), itemsize, depth=depth, widest=widest)


def free_bytes(found: Collection[There]) -> int:
    """What each may take of its device: as much as the smallest has, a part of it where workers share one."""
    keys = [each.key for each in found]
    return min(each.free_bytes // keys.count(each.key) for each in found)


@dataclass(frozen=True)
class WorkerDevice(TorchEngine):
    """A worker's device. What it leaves to the processor is made by the engine that all workers have."""

    host: NumpyEngine = field(default_factory=NumpyEngine)

    @property
    def here(self) -> NumpyEngine:
        """The engine of the host, which is not for this process alone to choose."""
        return self.host


def worker_device(name: str, host: NumpyEngine, *, halves: bool) -> WorkerDevice:
    """The engine of a worker that work on devices was given to."""
    try:
        return WorkerDevice(name, halves, tune=False, host=host)
    except Exception as error:
        msg = (
            f"This fit was dealt to workers with the device {name!r}, and one that has joined since can't "
            f"use it ({error}). Fit again, with a device on every worker or without."
        )
        raise MercerError(msg) from error


def share_of_halves(
    engine: TorchEngine, x: TorchRows, part: Part, v: Array, *, precise: bool
) -> Array | str:
    """The share of a part in the rows of (K - c) @ V, or why it can't be made, in words: a pass has no tiles.

    All workers have to make theirs, or all have to go over to tiles, as the client decides.
    """
    own = shares(x.n, part[1])[part[0]]
    if x.on_host:
        return "numbers are out of range"
    if own.start == own.stop:
        return np.empty((0, v.shape[1]), dtype=v.dtype)
    x.start = own.start  # halves begin with the share, by which a pass knows the diagonal
    if part == WHOLE:
        found = engine.halved(lambda: fused_gram_times(x, v, precise=precise))
    else:
        found = engine.halved(lambda: share_times(x, own, v, precise=precise))
    assert found is not None  # either makes a product
    return found


def too_little(error: MemoryBudgetError, worker: str) -> MemoryBudgetError:
    """That a device has run out of memory, as a client has to be told it."""
    why = str(error).partition(". ")[0]
    msg = f"On worker {worker} {why}. Pass a smaller `memory`, or end what else runs there."
    return MemoryBudgetError(msg)
