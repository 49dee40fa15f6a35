"""The engine of a Dask cluster: long work is shared by the workers, short work stays in this process.

A product with k(X, X) is one task for each worker, which has all rows and keeps a part of the tiles from
product to product. A pass over rows is one task for each share of them. Results are added in a fixed order,
and parts and shares don't change when workers are lost or join: no result depends on where it was computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import add
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from mercer._core.errors import EngineWarning, MercerWarning, refuse
from mercer._core.findings import warn
from mercer._core.memory import lately_available_bytes
from mercer._core.observer import SILENT
from mercer._core.types import Array, Rows
from mercer.data.arrays import is_a
from mercer.data.dask import DaskRows
from mercer.engine.base import (
    FLOAT32,
    Cutting,
    Engine,
    Facts,
    FoldOptions,
    MapOptions,
    RowStep,
    S,
    Step,
    TileKernel,
    Workers,
)
from mercer.engine.dask import tasks
from mercer.engine.dask.cluster import Cluster, client_at, client_in_force
from mercer.engine.dask.work import ClusterRows, Placements, Work, computed, travels
from mercer.engine.native.engine import why_not
from mercer.engine.numpy import HostRows, NumpyEngine, runs_every_kernel
from mercer.engine.passes import merged
from mercer.engine.resolve import host_engine
from mercer.engine.tiles import WHOLE
from mercer.engine.torch.engine import why_not_rows
from mercer.engine.torch.fused import halves_for
from mercer.engine.torch.place import WIDEST, There

if TYPE_CHECKING:
    from distributed import Client, Future


CLOSED = (
    "The Dask client that this model was fitted with is closed: it computes in this process, and rows that "
    "were on workers are computed anew. Fit with another client for a cluster."
)
# Numbers that a product or pass looks at from which a trip to the workers, some 50 ms, pays.
LEAST = 2**28


@dataclass(frozen=True, eq=False)
class DaskEngine(Engine[ClusterRows]):
    """Products and passes on the workers of a Dask cluster, each with its own engine.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster.
    least : int, optional
        Work on fewer numbers stays in this process.
    device : str, optional
        ``"cuda"``: each worker makes tiles on its own GPU, by torch; ``"mps"``, or ``"torch:cpu"`` for trials
        without one. By default they are made by its processor.
    """

    client: Client
    least: int = LEAST
    device: str | None = None

    def __post_init__(self) -> None:
        if self.device is not None:
            tasks.kind_of(self.device)
        if not is_a(self.client, "distributed", "Client"):
            remedy = (
                "An address goes into `engine` itself: KernelPCA(engine='dask:tcp://host:8786')."
            )
            got = type(self.client).__name__
            refuse("client", self.client, "a client of Dask, distributed.Client(…)", got, remedy)

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.client, self.device)

    @cached_property
    def placements(self) -> Placements:
        """The workers that hold each array."""
        return Placements(self.cluster)

    @cached_property
    def here(self) -> NumpyEngine:
        """The engine of this process, for short work."""
        return host_engine()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A step that travels to a worker, or a model that is pickled, computes by the engine of that process.
        return host_engine, ()

    def facts(self) -> Facts:
        """All workers together; raises where there are none, with other versions, or without the device."""
        workers = list(self.cluster.memory().values())
        free, count = min(each.free_bytes for each in workers), len(workers)
        lanes, here = sum(each.n_threads for each in workers), lately_available_bytes()
        if self.device is None:
            there = Workers(count, lanes, least=self.least, here_bytes=here)
            own: dict[str, Any] = {"free_bytes": count * free, "workers": there}
            own |= {"name": "dask", "runs": runs_every_kernel, "elsewhere": True}  # NumPy at least
            return replace(self.here.facts(), **own)
        # Rows are in the memory of a worker and of its device: the smaller one bounds both.
        found = [each.there for each in workers if isinstance(each.there, There)]
        free = min(free, tasks.free_bytes(found))
        able = len(found) == count and all(each.has_tensor_cores for each in found)
        # Lanes are threads of this process, for vectors; a forecast times products of all devices together.
        lanes = self.here.facts().lanes
        return Facts(
            self.name,
            lanes,
            count * free,
            why_not,
            WIDEST[tasks.kind_of(self.device)] ** 2 * 8,
            workers=Workers(count, lanes, least=self.least, here_bytes=here, devices=True),
            halves=halves_for if able else None,
            elsewhere=True,
        )

    @property
    def name(self) -> str:
        return "dask" if self.device is None else f"dask:{self.device.strip().lower()}"

    @property
    def by_processors(self) -> DaskEngine:
        """The same workers without their devices."""
        return self if self.device is None else DaskEngine(self.client, self.least)

    def why_not_rows(self, kernel: TileKernel, x: Rows) -> str | None:
        """Why processors compute on these rows, in words; None where devices do, or rows are elsewhere."""
        return None if self.device is None else why_not_rows(kernel, x, self.name)

    def settle(self, x: Rows) -> Rows:
        """The rows, on the workers that are there now: chunks of a dask collection are computed, and stay."""
        self.placements.renew(x)
        if isinstance(x, DaskRows):
            x.place(self.client, partial(computed, self.cluster))
        return x

    def load(
        self, x: Rows, kernel: TileKernel, dtype: Any, **cutting: Unpack[Cutting]
    ) -> ClusterRows:
        """The rows as they are: they are sent when a product is worth it."""
        return ClusterRows(x, tasks.Cut(kernel, np.dtype(dtype), **cutting))

    # ── products ────────────────────────────────────────────────────────────
    def times(self, kernel: TileKernel, x: ClusterRows, z: ClusterRows, v: Array) -> Array:
        """k(X, Z) @ V, shared by the rows of the longer side; each worker has all of the shorter one."""
        if self._is_short(x.n * z.n * x.d, x.rows, z.rows):
            return self.here.times(kernel, self._here(x), self._here(z), v)
        work, cut = Work(self.cluster, "times"), tasks.Cut(kernel, x.dtype)
        down = x.n >= z.n
        long, short = (x.rows, z.rows) if down else (z.rows, x.rows)
        where, whole = self.placements.of(long), self.placements.of(short).whole
        shares, local = where.shares, where.local(kernel)

        def parts() -> list[Future]:
            right, others = work.sent("v", v), whole.blocks()
            found = []
            for i, (place, rows) in enumerate(zip(shares.places, shares.blocks(), strict=True)):
                blocks = [rows, *others] if down else [*others, rows]
                left, columns = (1, None) if down else (len(others), place)
                own = local, cut, right, left, columns
                found.append(work.submit(i, tasks.times_share, *own, *blocks))
            return found

        if down:
            return np.concatenate(work.value(lambda: work.all(parts())))
        return work.value(lambda: work.tree(parts(), add))

    def gram_times(
        self, kernel: TileKernel, x: ClusterRows, v: Array, *, rough: bool = False
    ) -> Array:
        """k(X, X) @ V: each worker makes a part of the tiles, and uses them on both sides of the diagonal."""
        if self._is_short(x.n * x.n * x.d, x.rows):
            return self.here.gram_times(kernel, self._here(x), v, rough=rough and not x.of_halves)
        on_devices = self.device is not None and (x.local is None or x.local.device is not None)
        if on_devices and min(x.cut.store.halves, halves_for(kernel)) > (not rough):
            found = self._of_halves(kernel, x, v, rough=rough)
            if found is not None:
                return found
        rough = rough and not x.of_halves
        product = self._gram_times(kernel, x, v, rough=rough)
        # Values out of range, which processors may reach, and NumPy knows how to, or to refuse in words. The
        # tiles of each are others: all parts are made anew.
        while not np.isfinite(product).all() and x.local is not None and x.local.slower is not None:
            x.parts, x.local = None, x.local.slower
            product = self._gram_times(kernel, x, v, rough=rough)
        return product

    def _gram_times(self, kernel: TileKernel, x: ClusterRows, v: Array, *, rough: bool) -> Array:
        narrow = v.astype(FLOAT32 if rough else x.dtype, copy=False)  # as tiles are multiplied
        work, joined = (tasks.TilePart.times, v.dtype, rough), partial(Work.tree, merge=add)
        product: Array = self._by_parts(kernel, x, narrow, *work, joined=joined)
        return product

    def _of_halves(
        self, kernel: TileKernel, x: ClusterRows, v: Array, *, rough: bool
    ) -> Array | None:
        """A product of half floats, some rows of it by each worker; None where tiles do from now on."""
        narrow = v.astype(FLOAT32, copy=False)
        work = tasks.TilePart.share, v.dtype, rough
        found = self._by_parts(kernel, x, narrow, *work, joined=Work.all)
        why = next((each for each in found if isinstance(each, str)), None)
        if why is None:
            return np.concatenate(found)
        msg = f"{self.name} makes no products of half floats here, but slower tiles instead: {why}."
        warn(msg, EngineWarning)
        x.parts, x.cut = None, replace(x.cut, store=x.cut.store.of_tiles)
        return None

    def _by_parts(
        self,
        kernel: TileKernel,
        x: ClusterRows,
        v: Array,
        function: Callable[..., Any],
        *given: Any,
        joined: Callable[[Work, list[Future]], Future],
    ) -> Any:
        """A function of each part, the vectors and what is `given`, on the worker that has its tiles."""
        work = Work(self.cluster, "product")

        def build() -> Future:
            right, parts = work.sent("v", v), enumerate(self._parts(kernel, x))
            some = [work.submit(h, function, own, right, *given, worker=w) for h, (own, w) in parts]
            return joined(work, some)

        return work.value(build)

    def gram(self, kernel: TileKernel, x: ClusterRows) -> Array:
        """k(X, X) itself, by one worker: it has to come here as a whole."""
        if self._is_short(x.n * x.n * x.d, x.rows):
            return self.here.gram(kernel, self._here(x))
        work, where = Work(self.cluster, "matrix"), self.placements.of(x.rows)
        local, rows = where.local(kernel), where.whole

        def build() -> Future:
            whole = work.submit("whole", tasks.TilePart, x.cut, WHOLE, local, *rows.blocks())
            return work.submit("all", tasks.TilePart.matrix, whole)

        return work.value(build)

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:
        """k(X, Z) of a block of rows, where the block is."""
        return self.here.tile(kernel, x, z)

    # ── passes ──────────────────────────────────────────────────────────────
    def fold(self, x: Rows | ClusterRows, step: Step[S], **options: Unpack[FoldOptions]) -> S:
        """Shares of the rows on the workers that have them, neighbours merged in pairs."""
        rows = x.rows if isinstance(x, ClusterRows) else x
        if self._is_short(x.shape[0] * x.shape[1] * (options.get("width") or 1), rows):
            return self.here.fold(rows, step, **options)
        work, where = Work(self.cluster, "pass"), self.placements.of(rows)
        local, shares, observer = where.local(), where.shares, options.pop("observer", SILENT)
        waiting: list[Future] = []

        def build() -> Future:
            sent, pairs = work.sent("step", step), zip(shares.places, shares.blocks(), strict=True)
            waiting[:] = [
                work.submit(i, tasks.fold_share, local, block, sent, place.start, options)
                for i, (place, block) in enumerate(pairs)
            ]
            return work.tree(waiting, merged)

        def watched() -> None:
            pairs = zip(shares.places, waiting, strict=True)
            done = sum(i.stop - i.start for i, part in pairs if part.status == "finished")
            observer.step(done, shares.places[-1].stop, "rows", None)

        found: S = work.value(build, watched=watched)
        observer.step(shares.places[-1].stop, shares.places[-1].stop, "rows", None)
        return found

    def map(
        self,
        x: Rows | ClusterRows,
        step: RowStep,
        *beside: Array | None,
        **options: Unpack[MapOptions],
    ) -> Array:
        """Shares of the rows on the workers that have them, put together here."""
        rows = x.rows if isinstance(x, ClusterRows) else x
        if self._is_short(x.shape[0] * x.shape[1] * options.get("width", 1), rows):
            return self.here.map(rows, step, *beside, **options)
        work, where = Work(self.cluster, "map"), self.placements.of(rows)
        local, shares = where.local(), where.shares

        def build() -> Future:
            sent, parts = work.sent("step", step), []
            for i, (place, block) in enumerate(zip(shares.places, shares.blocks(), strict=True)):
                own = tuple(None if each is None else each[place] for each in beside)
                own = work.sent(f"beside-{i}", own)
                parts.append(work.submit(i, tasks.map_share, local, block, sent, own, options))
            return work.all(parts)

        return np.concatenate(work.value(build))

    # ── where things are ────────────────────────────────────────────────────
    def _is_short(self, work: int, *rows: Rows) -> bool:
        """Whether it stays in this process: little work, or rows that can't travel; rows on workers don't.

        A fitted model outlives its client, and then answers from here; a fit asks `facts` first, which raise.
        """
        here = int(work) < self.least or not all(map(travels, rows))
        if here and not any(isinstance(each, DaskRows) for each in rows):
            return True
        if self.client.status != "closed":
            return False
        warn(CLOSED, MercerWarning)
        return True

    def _here(self, x: ClusterRows) -> HostRows:
        if x.here is None:
            x.here = x.cut.loaded(self.here, x.rows)
        return x.here

    def _parts(self, kernel: TileKernel, x: ClusterRows) -> list[tuple[Future, str]]:
        """A part for each worker that the rows were placed on at first, and that worker."""
        where = x.where = x.where or self.placements.of(x.rows)
        if x.parts is None:
            x.parts, x.local = Work(self.cluster, "tiles"), x.local or where.local(kernel)
        store, of = x.cut.store, len(where.workers)
        cut = replace(x.cut, store=replace(store, keep_bytes=store.keep_bytes // of))
        if x.local is not None and x.local.device is not None and cut.width is None:
            width = tasks.common_width(x.local.device, where.there, kernel, cut.dtype)
            cut = replace(cut, width=width)
        blocks = [] if all(map(x.parts.has, range(of))) else where.whole.blocks()
        return [
            (x.parts.submit(h, tasks.TilePart, cut, (h, of), x.local, *blocks, worker=w), w)
            for h, w in enumerate(where.workers)
        ]


# One engine a client, which lives as long: the rows that it has sent are found again by the next fit. A table
# of them would keep clients alive, which engines refer to.
ENGINE = "_mercer_engine"


def engine_of(where: Client | str | None, device: str | None = None) -> DaskEngine:
    """The engine of a client, of an address, or, for None, of the client in force; on devices of workers."""
    client = client_at(where) if isinstance(where, str) else where or client_in_force(device)
    held = ENGINE if device is None else f"{ENGINE} {device}"
    engine: DaskEngine | None = getattr(client, held, None)
    if engine is None:
        engine = DaskEngine(client, device=device)
        setattr(client, held, engine)
    engine.cluster.require_open()
    return engine
