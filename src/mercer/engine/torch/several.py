"""Several devices of one machine: each has all rows, and computes a share of every long product.

Products with k(X, X) are shared by parts of the tiles, as by the workers of a cluster, or, where they are
made of half floats, by rows of the product: a fused pass has no parts. Rows that meet others, and those of
squares of sections, are shared in their order. A thread of the host drives each device, and what they find is
put together in the order of the devices: no bit depends on which one is first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any, TypeVar, Unpack, cast

import numpy as np

from mercer._core.errors import EngineWarning, InputError
from mercer._core.findings import warn
from mercer._core.observer import SILENT
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, SomeRows
from mercer.engine.base import (
    Cutting,
    Engine,
    Facts,
    FoldOptions,
    MapOptions,
    Resident,
    RowStep,
    S,
    Step,
    TileKernel,
)
from mercer.engine.passes import merged
from mercer.engine.steps import SquareSections
from mercer.engine.threads import on_threads
from mercer.engine.tiles import places
from mercer.engine.torch.engine import TorchEngine
from mercer.engine.torch.fused import fused_product, is_fused
from mercer.engine.torch.place import LEAST, Place, device_of
from mercer.engine.torch.rows import TorchRows
from mercer.engine.torch.tiles import symmetric_times
from mercer.engine.torch.vectors import DeviceVectors, like

T = TypeVar("T")


class SeveralRows(Resident):
    """Rows for several devices: as the first one would have them alone, and as each has them."""

    def __init__(self, alone: TorchRows, at: Sequence[Place]) -> None:
        super().__init__(alone.rows, alone.dtype)
        self.alone, self._at = alone, at

    @cached_property
    def shares(self) -> list[slice]:
        """Consecutive rows, one share for each device."""
        return shares(self.n, len(self._at))

    @cached_property
    def points(self) -> list[TorchRows]:
        """All rows for each device, counted from one origin, to be met by others."""
        _ = self.alone.origin  # looked for once
        return [self.alone.at(place) for place in self._at]

    @cached_property
    def parts(self) -> list[TorchRows]:
        """The rows for each part of the tiles of k(X, X), or for each share of the rows of fused products.

        Sides begin with the share, so that its rows have the same numbers among all rows as among its own:
        by these a fused pass knows the diagonal.
        """
        found = [each.at(each.place, (h, len(self.points))) for h, each in enumerate(self.points)]
        for each, share in zip(found, self.shares, strict=True):
            each.start = share.start
        return found

    def settle(self, h: int) -> TorchRows:
        """The part of a device, which holds rows that stay there once, whatever is done with them."""
        self.points[h].settle()
        self.parts[h]._whole = self.points[h]._whole
        return self.parts[h]


@dataclass(frozen=True)
class SeveralEngine(Engine[SeveralRows]):
    """Tiles by torch, on several devices of one kind.

    Parameters
    ----------
    devices : tuple of str
        Such as ``("cuda:0", "cuda:1")``. One that is named twice does the work of two, for trials.
    fused : bool, optional
        As of `TorchEngine`.
    """

    devices: tuple[str, ...]
    fused: bool | None = None

    def __post_init__(self) -> None:
        if len({device_of(each)[0] for each in self.devices}) != 1:
            msg = f"devices must be of one kind, and at least one; got {self.devices!r}."
            raise InputError(msg)
        _ = self.engines  # raises where one is missing

    @cached_property
    def engines(self) -> tuple[TorchEngine, ...]:
        return tuple(TorchEngine(each, self.fused) for each in self.devices)

    @cached_property
    def first(self) -> TorchEngine:
        """The engine of the first device, which does what is not shared."""
        return self.engines[0]

    @property
    def name(self) -> str:
        return ",".join(engine.place.name for engine in self.engines)

    def __getstate__(self) -> dict[str, Any]:
        # Devices are looked for where it is unpickled.
        return {"devices": self.devices, "fused": self.fused}

    @property
    def tile_bytes(self) -> int:
        """The size for the first device, which makes tiles."""
        return self.first.tile_bytes

    def facts(self) -> Facts:
        """The facts of one device, with the memory of the smallest: each has all rows."""
        at = [engine.place for engine in self.engines]
        free = min(place.free_bytes // at.count(place) for place in at)
        return replace(self.first.facts(), name=self.name, free_bytes=free)

    def why_not_rows(self, kernel: TileKernel, x: Rows) -> str | None:
        """Why the host computes on these rows, in words; None where devices do."""
        return self.first.why_not_rows(kernel, x)

    def load(
        self, x: Rows, kernel: TileKernel, dtype: Any, **cutting: Unpack[Cutting]
    ) -> SeveralRows:
        """The rows; they are sent when a product needs them, to each device."""
        alone = self.first.load(x, kernel, dtype, **cutting)
        return SeveralRows(alone, [engine.place for engine in self.engines])

    # ── products ────────────────────────────────────────────────────────────
    def placed(self, x: SeveralRows, v: Array) -> Array:
        """The vectors on the first device, in whose memory a plan counts them."""
        return self.first.placed(x.alone, v)

    def times(self, kernel: TileKernel, x: SeveralRows, z: SeveralRows, v: Array) -> Array:
        """k(X, Z) @ V: each device has a share of X, and all of Z."""
        if self._is_alone(x) or self._is_alone(z, 1) or x.dtype != z.dtype:
            return self.first.times(kernel, x.alone, z.alone, v)
        if x.alone.store.halves and z.alone.store.halves:
            product = self._fused(x, v, precise=False, z=z)
            if product is not None:
                return product
        right, points = self._sent(v), z.points

        def work(h: int) -> Array:
            own = x.alone.some(x.shares[h], self.engines[h].place)
            return np.asarray(self.engines[h].times(kernel, own, points[h], right[h]))

        return like(np.concatenate(self._driven(work)), v)

    def gram_times(
        self, kernel: TileKernel, x: SeveralRows, v: Array, *, rough: bool = False
    ) -> Array:
        """k(X, X) @ V: each device makes a part of the tiles, or some rows of a fused product."""
        if not self._is_alone(x):
            product = self._fused(x, v, precise=not rough)
            if product is None:
                product = self._tiles(x, v, rough=rough and not x.alone.store.halves)
            if np.isfinite(product).all():
                return product
            # Values are out of range: from now on products are the host's.
            x.alone.on_host = True
            for held in ("points", "parts"):
                vars(x).pop(held, None)
        return self.first.gram_times(kernel, x.alone, v, rough=rough)

    def gram(self, kernel: TileKernel, x: SeveralRows) -> Array:
        """k(X, X) as a new array, by the first device: of the few rows that it is asked of."""
        return self.first.gram(kernel, x.alone)

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:
        """k(X, Z) of a block of rows, by the first device."""
        return self.first.tile(kernel, x, z)

    # ── passes ──────────────────────────────────────────────────────────────
    def fold(self, x: Rows | SeveralRows, step: Step[S], **options: Unpack[FoldOptions]) -> S:
        """Squares of sections on all devices, a share of the rows on each; all other steps are the host's."""
        rows = x.rows if isinstance(x, SeveralRows) else x
        n, of = int(rows.shape[0]), len(self.engines)
        if not isinstance(step, SquareSections) or not _in_any_order(rows) or n < of:
            return self.first.fold(rows, step, **options)
        observer, own = options.pop("observer", SILENT), shares(n, of)

        def work(h: int) -> Any:
            return self.engines[h].fold(_some(rows, own[h]), step.at(own[h].start), **options)

        found: Any = reduce(merged, self._driven(work))
        observer.step(n, n, "rows", None)
        return cast("S", found)

    def map(
        self,
        x: Rows | SeveralRows,
        step: RowStep,
        *beside: Array | None,
        **options: Unpack[MapOptions],
    ) -> Array:
        """The results of the first device, or of the host."""
        rows = x.alone if isinstance(x, SeveralRows) else x
        return self.first.map(rows, step, *beside, **options)

    # ── shares ──────────────────────────────────────────────────────────────
    def _is_alone(self, x: SeveralRows, least: int | None = None) -> bool:
        """Whether these rows are left to one device, or to the host: there is nothing to share."""
        few = x.n < (len(self.engines) if least is None else least)
        return few or x.alone.on_host or not _in_any_order(x.rows)

    def _sent(self, v: Array) -> list[Array]:
        """The same vectors on each device, or as they are on the host."""
        return [moved(v, engine.place) for engine in self.engines]

    def _driven(self, work: Callable[[int], T], parts: Sequence[TorchRows] = ()) -> list[T]:
        """`work` of each device, in their order, when all are done; Ctrl-C stops passes over `parts`."""
        stop = threading.Event()
        for part in parts:
            part.stop = stop

        def driven(h: int, stream: Any) -> T:
            with stream:
                return work(h)

        jobs = [partial(driven, h, _stream(each.place)) for h, each in enumerate(self.engines)]
        return [done.result() for done in on_threads(jobs, stop.set)]

    def _tiles(self, x: SeveralRows, v: Array, *, rough: bool) -> Array:
        """The sum of the parts, whose tiles are of one width: that for which all devices have memory."""
        right, depth, parts = self._sent(v), x.alone.program.depth, x.parts

        def work(h: int) -> Array | None:
            tried = self.engines[h].tried
            return tried(lambda: symmetric_times(x.settle(h), right[h], rough=rough))

        usual = x.alone.width or min(e.place.width(x.dtype, depth) for e in self.engines)
        width = min(each.narrowed or usual for each in parts)
        for each in parts:
            if each.narrowed != width:
                each.narrowed, each.kept = width, None
        while True:
            found = self._driven(work, parts)
            done = [moved(part, self.first.place) for part in found if part is not None]
            if len(done) == len(found):
                return reduce(np.add, done)
            if width <= LEAST:
                raise self.first.place.too_little(width)
            width = max(LEAST, width // 2)
            for point, part in zip(x.points, parts, strict=True):
                part.narrow(width)
                point.sliced = part.sliced

    def _fused(
        self, x: SeveralRows, v: Array, *, precise: bool, z: SeveralRows | None = None
    ) -> Array | None:
        """A product of half floats, a share of its rows by each device; None where tiles are used instead."""
        if x.alone.plain or not is_fused(x.alone, precise=precise):
            return None
        right, parts = self._sent(v), x.parts

        def work(h: int) -> Array | str | None:
            others = None if z is None else z.alone.at(self.engines[h].place)
            own = partial(fused_product, parts[h], right[h], others, precise=precise)
            return self.engines[h].halved(partial(own, share=x.shares[h]))

        def joined() -> Array:
            return np.concatenate([moved(part, self.first.place) for part in done], axis=0)

        done: Any = self._driven(work)
        why = next((each for each in done if isinstance(each, str)), None)
        found = why or self.first.halved(joined)
        if not isinstance(found, str):
            return found
        x.alone.plain = True
        for part in x.parts:
            part.halves = None
        what = "make no products of half floats here, but slower tiles instead"
        warn(f"{self.name} {what}: {found}.", EngineWarning)
        return None


def shares(n: int, of: int) -> list[slice]:
    """Consecutive shares of n rows.

    >>> shares(7, 2)
    [slice(0, 3, None), slice(3, 7, None)]
    """
    own = (places(n, (h, of)) for h in range(of))
    return [slice(each.start, each.stop) for each in own]


def moved(v: Array, place: Place) -> Array:
    """Vectors on another device; those of the host stay there."""
    if not isinstance(v, DeviceVectors) or v.place == place:
        return v
    return cast("Array", DeviceVectors(v.tensor.to(place.device), place))


def _in_any_order(x: Rows) -> bool:
    return not isinstance(x, RowSource) or x.random_access


def _some(x: Rows, place: slice) -> Rows:
    return SomeRows(x, place) if isinstance(x, RowSource) else x[place]


def _stream(place: Place) -> Any:
    """The caller's stream there, which its vectors come from, for a thread to go on with."""
    if place.kind != "cuda":
        return nullcontext()
    import torch

    return torch.cuda.stream(torch.cuda.current_stream(place.device))
