"""What runs on workers: parts of a product, and steps over shares of rows, by the engine of the worker.

torch is never imported by the client: a device is named here, and looked for where it is used.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, MemoryBudgetError, MercerError
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, aligned
from mercer.engine.base import NOTHING_KEPT, Engine, RowStep, S, Step, TileKernel, TileStore
from mercer.engine.native import NativeEngine
from mercer.engine.native.bindings import compiled
from mercer.engine.native.engine import program_of
from mercer.engine.numpy import NumpyEngine
from mercer.engine.steps import Weighed
from mercer.engine.threads import lanes, single_threaded_blas
from mercer.engine.tiles import PACKED, SINGLE, WHOLE, Part
from mercer.engine.torch.engine import TorchEngine
from mercer.engine.torch.fused import fused_product
from mercer.engine.torch.place import WIDEST, There, device_of, tile_width
from mercer.engine.torch.rows import TorchRows
from mercer.engine.torch.several import shares

# ── devices of workers ──────────────────────────────────────────────────────
FORMS = "'cuda', which is each worker's own GPU, 'mps', or 'torch:cpu' for trials"


def kind_of(name: object) -> str:
    """The kind of device; raises where the name is not that of a device."""
    try:
        return device_of(str(name))[0]
    except InputError:
        msg = f"device must be {FORMS}; got {name!r}."
        raise InputError(msg) from None


def common_width(
    name: str, found: Collection[There], kernel: TileKernel, dtype: np.dtype[Any]
) -> int:
    """The width of tiles that are not planned: for all devices, whose parts of a product must fit together,
    that of the one with the least memory.
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
    share = None if part == WHOLE else own
    found = engine.halved(partial(fused_product, x, v, precise=precise, share=share))
    assert found is not None  # either makes a product
    return found


# ── engines of workers ──────────────────────────────────────────────────────
@dataclass(frozen=True)
class Local:
    """The engine of a worker: which tiles it makes, and on how many threads."""

    tiles: str  # the instruction set of compiled tiles, or "numpy"
    n_threads: int
    device: str | None = None  # what makes them instead, where rows are in its range
    halves: bool = False  # whether that multiplies half floats, on all workers

    def engine(self) -> Engine[Any]:
        """The engine in this process; raises where the worker has other tiles, or no such device."""
        host = self.host()
        if self.device is None:
            return host
        try:
            return WorkerDevice(self.device, self.halves, tune=False, host=host)
        except Exception as error:
            msg = (
                f"This fit was planned for workers with the device {self.device!r}, and one that has joined "
                f"since can't use it ({error}). Fit again, with a device on every worker or without."
            )
            raise MercerError(msg) from error

    @property
    def slower(self) -> Local | None:
        """What may reach values that this can't; None where nothing does."""
        if self.device is not None:
            return replace(self, device=None)
        return None if self.tiles == "numpy" else replace(self, tiles="numpy")

    def host(self) -> NumpyEngine:
        """The engine of its processor; raises where its tiles are not those that parts were cut for."""
        if self.tiles == "numpy":
            return NumpyEngine(self.n_threads)
        native = compiled()
        if native is None or native.isa != self.tiles:
            found = "no compiled tiles" if native is None else f"tiles for {native.isa}"
            msg = (
                f"This fit was planned for workers with compiled tiles for {self.tiles}, and one that has "
                f"joined since has {found}. Fit again, or set MERCER_NATIVE={self.tiles} on all workers."
            )
            raise MercerError(msg)
        return NativeEngine(self.n_threads)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Work on the threads of a worker; those of BLAS would run beside them, and beside other workers."""
        alone = single_threaded_blas() if self.n_threads == 1 else nullcontext()
        with lanes(self.n_threads), alone, interruptible():
            yield


@dataclass(frozen=True)
class Cut:
    """How rows are made ready for tiles, and what is kept of these."""

    kernel: TileKernel
    dtype: np.dtype[Any]
    width: int | None = None
    sliced: bool = False
    store: TileStore = NOTHING_KEPT

    def loaded(self, engine: Any, x: Rows, *, on_device: bool = False, **part: Part) -> Any:
        own = {"store": self.store if on_device else self.store.of_tiles, **part}
        return engine.load(x, self.kernel, self.dtype, width=self.width, sliced=self.sliced, **own)


class TilePart:
    """All rows, and a part of the tiles of k(X, X), which the first product makes, and which stay there.

    What is pickled is how to make them: a part that Dask moves, or writes to disk, loses time and no number.
    """

    def __init__(self, cut: Cut, part: Part, local: Local, *blocks: Rows) -> None:
        self.cut, self.part, self.local, self.blocks = cut, part, local, blocks

    @cached_property
    def rows(self) -> Any:
        own: dict[str, Any] = {"on_device": self.local.device is not None, "part": self.part}
        return self.cut.loaded(self.local.engine(), joined(self.blocks), **own)

    def times(self, v: Array, dtype: np.dtype[Any], rough: bool) -> Array:
        """The part of K @ V that its tiles give, in this precision."""
        with self.local.at_work():
            own = self.cut.kernel, self.rows, v.astype(dtype, copy=False)
            try:
                return self.local.engine().gram_times(*own, rough=rough)
            except MemoryBudgetError as error:  # a device narrows no tiles for a part
                why = str(error).partition(". ")[0]
                msg = f"On worker {whoami()} {why}. Pass a smaller `memory`, or end what else runs there."
                raise MemoryBudgetError(msg) from error

    def share(self, v: Array, dtype: np.dtype[Any], rough: bool) -> Array | str:
        """The rows of K @ V that are its share, by half floats, or why there are none, in words."""
        with self.local.at_work():
            engine: Any = self.local.engine()  # of a device
            own = self.rows, self.part, v.astype(dtype, copy=False)
            return share_of_halves(engine, *own, precise=not rough)

    def matrix(self) -> Array:
        with self.local.at_work():
            return self.local.engine().gram(self.cut.kernel, self.rows)

    def __sizeof__(self) -> int:
        """The size with tiles that will be kept, unless on a device: Dask does not move what is large."""
        rows = sum(getattr(block, "nbytes", 0) for block in self.blocks)
        if self.local.device is not None:
            return rows
        store, n = self.cut.store, sum(int(block.shape[0]) for block in self.blocks)
        entries = n * (n + 1) // 2 // self.part[1]
        tiles = min(store.keep_bytes, entries * self.cut.dtype.itemsize)
        if store.rounding is not None:
            tiles += entries * (PACKED if store.rounding.packed else SINGLE)
        return tiles + rows

    def __reduce__(self) -> tuple[Any, ...]:
        return TilePart, (self.cut, self.part, self.local, *self.blocks)


def whoami() -> str:
    """The address of the worker that runs this."""
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # in this process, in a test
        return "of this process"


def joined(blocks: tuple[Rows, ...]) -> Rows:
    """Blocks as one array or matrix; rows of a file are read."""
    blocks = tuple(block[:] if isinstance(block, RowSource) else aligned(block) for block in blocks)
    if len(blocks) == 1:
        return blocks[0]
    if sparse.issparse(blocks[0]):
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))
    return np.concatenate(blocks)


# ── passes over shares of rows ──────────────────────────────────────────────
@dataclass(frozen=True)
class Placed:
    """A step that gets the places of rows among all, from those in a share."""

    step: Any
    start: int

    def __call__(self, rows: Rows, place: slice) -> Any:
        return self.step(rows, slice(self.start + place.start, self.start + place.stop))


def placed(step: Step[S], start: int) -> Step[S]:
    """The step for a share of the rows; one that engines know stays of its kind."""
    return step.at(start) if isinstance(step, Weighed) else Placed(step, start)


def fold_share(local: Local, rows: Rows, step: Step[S], start: int, options: dict[str, Any]) -> S:
    """The sum over the rows of a share, the first of which is at `start` among all."""
    with local.at_work():
        return local.engine().fold(rows, placed(step, start), **options)


def map_share(
    local: Local, rows: Rows, step: RowStep, beside: tuple[Any, ...], options: dict[str, Any]
) -> Array:
    """The results of the rows of a share."""
    with local.at_work():
        return local.engine().map(rows, step, *beside, **options)


def times_share(
    local: Local, cut: Cut, v: Array, n_left: int, columns: slice | None, *blocks: Rows
) -> Array:
    """k(X, Z) @ V, of so many blocks of X and the others of Z, whose rows of V are `columns`."""
    engine, sides = local.engine(), (blocks[:n_left], blocks[n_left:])
    with local.at_work():
        x, z = (engine.load(joined(side), cut.kernel, cut.dtype) for side in sides)
        return engine.times(cut.kernel, x, z, v if columns is None else v[columns])


# ── a long task that was cancelled ends soon, not with its pass ─────────────
LOOK_SECONDS = 0.5


class _UnwantedError(BaseException):
    """Raised in the thread of a task that was cancelled."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that stops between two tiles when its task is cancelled, as after Ctrl-C at the client."""
    from distributed.worker import get_worker

    try:
        worker = get_worker()
        key = worker.get_current_task()
    except (ValueError, AttributeError, KeyError):  # no worker: a test, or the client itself
        yield
        return
    done, lock, thread = threading.Event(), threading.Lock(), threading.get_ident()
    watch = threading.Thread(target=_watch, args=(worker, key, thread, done, lock), daemon=True)
    watch.start()
    try:
        yield
    finally:
        with lock:
            done.set()


def _watch(worker: Any, key: Any, thread: int, done: threading.Event, lock: threading.Lock) -> None:
    while not done.wait(LOOK_SECONDS):
        task = worker.state.tasks.get(key)
        if task is not None and task.state != "cancelled":
            continue
        with lock:
            if not done.is_set():
                # Python raises it in that thread at its next step: tiles are drawn a few at a time.
                error = ctypes.py_object(_UnwantedError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
        return
