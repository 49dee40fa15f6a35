"""The engine of compiled tiles. What it can't do it leaves to the NumPy engine, whose rows it extends."""

from __future__ import annotations

import ctypes
import math
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.memory import available_bytes
from mercer.engine.base import FLOAT32, FLOAT64, NOTHING_KEPT, Facts
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import Job, Library, aligned, compiled
from mercer.engine.native.program import Leaf, NotCompiledError, Program, Step, own_values
from mercer.engine.native.sections import written
from mercer.engine.numpy import HostRows, NumpyEngine
from mercer.engine.pairwise import BLUR
from mercer.engine.shifted import blur_of, centre_of
from mercer.engine.threads import TURN_SECONDS

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.engine.base import TileKernel, TileStore

BLOCK = (
    192  # rows of a tile, about: its entries, and a second tile of them, stay in a core's own cache
)
TICKETS = 16  # tiles that a thread draws at a time: between two such draws Python looks at signals
# Groups of columns that few rows are multiplied with side by side: a number that depends on sizes alone, so
# that no sum depends on the number of threads.
ROW_BLOCKS, GROUP = 32, 16
# Fewer points than this have no middle that more rows should be counted from, and be packed for.
FEW = 64
# Squares, and sums of them, neither overflow nor lose digits, in either precision of tiles.
RANGE = 2.0**-30, 2.0**40


@lru_cache(maxsize=64)
def _program(tree: Any) -> Program | str:
    try:
        return Program.of(tree)
    except NotCompiledError as error:
        return str(error)


def program_of(kernel: TileKernel) -> Program | str:
    """The operations of a kernel, or why there are none."""
    try:
        return _program(kernel.tree())
    except TypeError:  # holds something that has no hash: a kernel of the user's own
        return "it has no formula"


class NativeRows(HostRows):
    """Dense rows in memory, packed into panels for each quantity that a formula takes of them.

    Rows that are `sliced` are packed by each tile for itself, which saves their memory.
    """

    def __init__(
        self,
        rows: Array,
        dtype: Any,
        width: int,
        store: TileStore,
        *,
        sliced: bool,
        program: Program,
        native: Library,
    ) -> None:
        super().__init__(rows, dtype, width, store)
        self.program, self.native, self.sliced = program, native, sliced
        self.panel = native.panel[self.dtype]
        self._packed: dict[tuple[Leaf, bool], tuple[Array | None, Array, Array]] = {}
        self._rooms: dict[str, Array] = {}
        self.tiles: _Kept | None = None  # from the first product on
        self.host: HostRows | None = None  # the same rows for NumPy, where values are out of range

    @cached_property
    def origin(self) -> Array:
        """The middle: a shift saves the digits of distances, unless it moves the rows by more than that."""
        centre, blur = centre_of(self.rows), 0.0
        if self.program.sharpest:
            blur, _ = blur_of(self.rows, centre, self.dtype)
        blurred = math.sqrt(self.program.sharpest) * 2.0 * blur > BLUR[self.dtype]
        return np.zeros_like(centre) if blurred else centre

    @property
    def panels(self) -> int:
        """The number of panels."""
        return -(-self.n // self.panel)

    def packed(self, leaf: Leaf, origin: Array) -> tuple[Array, Array]:
        """[panel][column][row] and squared norms; counted from `origin` where distances are taken."""
        shift = origin if leaf.kind == "sqdist" else None
        # Of origins of others the last one alone: rows may meet one landmark after the other.
        key = leaf, shift is not None and shift is vars(self).get("origin")
        if key not in self._packed or self._packed[key][0] is not shift:
            self._packed[key] = (shift, *self._pack(leaf, origin))
        _, rows, norms = self._packed[key]
        return rows, norms

    def room(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros, in memory that is used again: fresh pages would be faulted in by all threads at once."""
        found = self._rooms.get(name)
        if found is None or found.shape != shape or found.dtype != dtype:
            found = self._rooms[name] = aligned(shape, dtype)
        found.fill(0)
        return found

    def inverse_lengths(self, leaf: Leaf) -> Array:
        """1/√u(x, x) of each row, and 0 where that is zero."""
        key = leaf, False
        if key not in self._packed:
            x = self.rows if leaf.columns is None else self.rows[:, np.asarray(leaf.columns)]
            assert leaf.of is not None
            own = np.sqrt(own_values(leaf.of, x.astype(np.float64, copy=False)))
            out = aligned((self.panels * self.panel,), self.dtype, zero=True)
            np.divide(1.0, own, out=out[: self.n], where=own > 0, casting="same_kind")
            self._packed[key] = None, out, out
        return self._packed[key][1]

    def raw(self, leaf: Leaf, origin: Array, alive: list[Any]) -> lib.Rows:
        """The rows as they are, and what packing them takes; what it points to is `alive`."""
        x, out = self.rows, lib.Rows(n=self.n, unit=int(leaf.unit_rows))
        out.numbers, out.single = x.ctypes.data, int(x.dtype == FLOAT32)
        out.down, out.along = (step // x.itemsize for step in x.strides)
        if leaf.columns is not None:
            chosen = np.asarray(leaf.columns)
            which = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
            alive.append(which)
            out.which, origin = which.ctypes.data, origin[which]
        if leaf.kind == "sqdist":
            origin = np.ascontiguousarray(origin, dtype=np.float64)
            alive.append(origin)
            out.origin = origin.ctypes.data
        return out

    def _pack(self, leaf: Leaf, origin: Array) -> tuple[Array, Array]:
        x, width = self.rows, self.panel
        if leaf.columns is not None:
            chosen = np.asarray(leaf.columns)
            x, origin = x[:, chosen], origin[chosen]
        if leaf.unit_rows:
            x = x / np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))[:, None]
        n, d = x.shape
        out = aligned((self.panels, d, width), self.dtype)
        whole = n // width
        shift = origin[:, None] if leaf.kind == "sqdist" else np.zeros((1, 1))
        # Each float32 is a float64: shifted in the better precision.
        np.subtract(
            x[: whole * width].reshape(whole, width, d).transpose(0, 2, 1),
            shift,
            out=out[:whole],
            casting="same_kind",
        )
        if whole < self.panels:
            rest = n - whole * width
            out[whole, :, rest:] = 0.0
            np.subtract(x[whole * width :].T, shift, out=out[whole, :, :rest], casting="same_kind")
        norms = aligned((self.panels, width), self.dtype)
        np.einsum("pcr,pcr->pr", out, out, out=norms)
        return out, norms


@dataclass(frozen=True)
class NativeEngine(NumpyEngine):
    """Tiles by the compiled library; sparse rows, rows in files and kernels without a formula by NumPy.

    Parameters
    ----------
    n_threads : int, optional
        By default as many as BLAS may use.
    """

    def facts(self) -> Facts:
        """What it is, how wide, and which kernels it runs."""
        native = compiled()
        return Facts(
            "native",
            self.lanes,
            available_bytes(),
            _why_not,
            cache_bytes=BLOCK * BLOCK * 8,
            locked=False,
            panel=1 if native is None else native.panel[FLOAT32],
        )

    def why_not_rows(self, kernel: TileKernel, x: Rows) -> str | None:
        """Why NumPy computes on these rows, in words; None where tiles are compiled."""
        if not isinstance(x, np.ndarray):
            return (
                f"{'sparse rows' if hasattr(x, 'nnz') else 'rows in a file'} have no compiled tiles"
            )
        program = program_of(kernel)
        if isinstance(program, str):
            return program
        return (
            None if _in_range(x, program) else "numbers so large or small have squares out of range"
        )

    def load(
        self,
        x: Rows,
        kernel: TileKernel,
        dtype: Any,
        *,
        width: int | None = None,
        sliced: bool = False,
        store: TileStore = NOTHING_KEPT,
    ) -> HostRows:
        """Packed rows where tiles are compiled, and rows as NumPy has them elsewhere."""
        native, program, dtype = compiled(), program_of(kernel), np.dtype(dtype)
        plain = isinstance(x, np.ndarray) and x.ndim == 2
        if native is None or isinstance(program, str) or not plain or not _in_range(x, program):
            return super().load(x, kernel, dtype, width=width, sliced=sliced, store=store)
        # A tile reads rows of its own precisions, at whole numbers.
        as_it_is = x.flags.aligned and not any(step % x.itemsize for step in x.strides)
        sliced = sliced and as_it_is and x.dtype in (FLOAT32, FLOAT64)
        own: dict[str, Any] = {"sliced": sliced, "program": program, "native": native}
        return NativeRows(x, dtype, width or BLOCK, store, **own)

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:
        """k(X, Z) as a new array."""
        found = written(self, kernel, x, z, self._threads(kernel))
        return super().tile(kernel, x, z) if found is None else found

    def times(self, kernel: TileKernel, x: HostRows, z: HostRows, v: Array) -> Array:
        """k(X, Z) @ V."""
        if not (isinstance(x, NativeRows) and isinstance(z, NativeRows)) or x.dtype != z.dtype:
            return super().times(kernel, x, z, v)
        product = _Rectangle(x, z, v).run(self._threads(kernel))
        # Values out of range, which NumPy knows how to reach, or to refuse in words.
        return product if np.isfinite(product).all() else super().times(kernel, x, z, v)

    def gram_times(
        self, kernel: TileKernel, x: HostRows, v: Array, *, rough: bool = False
    ) -> Array:
        """k(X, X) @ V, each tile used for both sides of the diagonal."""
        if isinstance(x, NativeRows) and x.host is None:
            product = _Symmetric(x).times(v, self._threads(kernel), rough=rough)
            if np.isfinite(product).all():
                return product
            self._give_up(kernel, x)
        return super().gram_times(kernel, _on_host(x), v, rough=rough)

    def gram(self, kernel: TileKernel, x: HostRows) -> Array:
        """k(X, X) as a new array."""
        if isinstance(x, NativeRows) and x.host is None:
            matrix = _Symmetric(x).matrix(self._threads(kernel))
            if np.isfinite(matrix).all():
                return matrix
            self._give_up(kernel, x)
        return super().gram(kernel, _on_host(x))

    def _give_up(self, kernel: TileKernel, x: NativeRows) -> None:
        """Values are out of range, which NumPy knows how to reach, or to refuse in words."""
        x.tiles, x.host = None, super().load(x.rows, kernel, x.dtype, width=x.width, store=x.store)


def _on_host(x: HostRows) -> HostRows:
    return x.host if isinstance(x, NativeRows) and x.host is not None else x


def _why_not(kernel: Any) -> str | None:
    if compiled() is None:
        return "the compiled library is not there; install mercer where there is a C++ compiler"
    program = program_of(kernel)
    return program if isinstance(program, str) else None


def _in_range(x: Array, program: Program) -> bool:
    low, high = RANGE
    most = float(max(x.max(initial=0.0), -x.min(initial=0.0)))
    return x.size > 0 and low < most < high and program.sharpest < 1.0 / low


# ── passes ──────────────────────────────────────────────────────────────────
class _Pass:
    """A job of the library, and the arrays that it points to."""

    def __init__(self, x: NativeRows, z: NativeRows, *, minus: float = 0.0) -> None:
        self.x, self.z, self.native = x, z, x.native
        self.dtype, self.panel = x.dtype, x.panel
        program = x.program
        self._alive: list[Any] = []
        self._packing = 0  # numbers of a row that tiles pack for themselves
        origin = (x if z.n < min(x.n, FEW) else z).origin
        leaves = (lib.Leaf * len(program.leaves))()
        for to, leaf in zip(leaves, program.leaves, strict=True):
            chosen = np.arange(x.d) if leaf.columns is None else np.asarray(leaf.columns)
            columns = int(chosen.sum()) if chosen.dtype == bool else len(chosen)
            to.kind, to.columns = lib.KINDS[leaf.kind], columns
            for side, rows in (("left", x), ("right", z)):
                if rows.sliced:
                    raw = rows.raw(leaf, origin, self._alive)
                    self._alive.append(raw)
                    setattr(to, f"{side}_rows", ctypes.pointer(raw))
                    self._packing = max(self._packing, columns + 1)
                else:
                    packed, norms = rows.packed(leaf, origin)
                    setattr(to, side, self._address(packed))
                    setattr(to, f"{side}_norms", self._address(norms))
        steps = [*program.steps, Step(lib.AFFINE, b=-minus)] if minus else program.steps
        ops = (lib.Op * len(steps))()
        for op, step in zip(ops, steps, strict=True):
            op.code, op.number, op.a, op.b = step.code, step.number, step.a, step.b
            if step.coefficients is not None:
                op.left = self._address(step.coefficients)
            if step.lengths is not None:
                op.left = self._address(x.inverse_lengths(step.lengths))
                op.right = self._address(z.inverse_lengths(step.lengths))
        block = min(x.width, BLOCK * 8 // self.dtype.itemsize)
        panels = max(1, min(block // self.panel, max(x.panels, z.panels)))
        self.job = Job(
            leaves=leaves,
            ops=ops,
            n_ops=len(steps),
            depth=program.depth,
            rows=x.n,
            columns=z.n,
            panels=panels,
        )
        self.side = panels * self.panel  # rows of a tile
        self.blocks = -(-x.panels // panels), -(-z.panels // panels)

    def _address(self, array: Array) -> int:
        self._alive.append(array)
        return int(array.ctypes.data)

    def _right_side(self, v: Array, dtype: np.dtype[Any]) -> int:
        """V in panels of whole vectors, zeros beyond it; the number of vectors of a row."""
        width = self.native.vector_bytes // dtype.itemsize
        vectors = -(-v.shape[1] // width)
        padded = self.x.room("v", (self.blocks[1] * self.side, vectors * width), dtype)
        padded[: len(v), : v.shape[1]] = v
        self.job.v, self.job.vectors = self._address(padded), vectors
        return vectors * width

    def _drawn(self, n_threads: int) -> None:
        """All tickets, on so many threads."""
        job, run = self.job, self.native.run[self.dtype]

        def draw() -> None:
            scratch = aligned(
                (self.side * (job.depth * self.side + 2 * self._packing),), self.dtype
            )
            while run(ctypes.byref(job), scratch.ctypes.data, TICKETS) == TICKETS:
                pass

        n_threads = min(n_threads, job.n_tickets)
        if n_threads <= 1:
            return draw()
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                futures = [pool.submit(draw) for _ in range(n_threads)]
                while wait(futures, timeout=TURN_SECONDS).not_done:
                    pass
            except BaseException:
                job.stop = 1
                raise
        for done in futures:
            done.result()
        return None


class _Rectangle(_Pass):
    """k(X, Z) @ V."""

    def __init__(self, x: NativeRows, z: NativeRows, v: Array) -> None:
        super().__init__(x, z)
        self.dtype_out = np.result_type(x.dtype, v)
        self.k = v.shape[1]
        below, beside = self.blocks
        group = beside if below >= ROW_BLOCKS else min(beside, GROUP)
        groups = -(-beside // group)
        width = self._right_side(v, self.dtype)
        self.sums = x.room("sums", (groups, below * self.side, width), np.float64)
        self.job.sums, self.job.group = self._address(self.sums), group
        self.job.n_tickets = below * groups

    def run(self, n_threads: int) -> Array:
        """The product."""
        self._drawn(n_threads)
        parts = self.sums[:, : self.x.n, : self.k]
        return np.add.reduce(parts, axis=0).astype(self.dtype_out, copy=False)


class _Kept:
    """What is kept of the tiles of one matrix between products."""

    def __init__(self, work: _Pass) -> None:
        store = work.x.store
        entries, n = work.side**2, work.job.n_tickets
        self.made = np.zeros(n, dtype=np.uint8)
        self.n_exact = min(n, store.keep_bytes // (entries * work.dtype.itemsize))
        self.exact = aligned((self.n_exact, entries), work.dtype)
        rounding = store.rounding
        self.rounded = self.codes = self.scales = self.diagonals = None
        if rounding is not None and rounding.packed:
            self.codes = aligned((n, entries), np.uint16)
            self.scales, self.diagonals = (
                np.zeros((n, 2), dtype=np.float32),
                np.zeros(work.x.n, dtype=np.float32),
            )
        elif rounding is not None:
            self.rounded = aligned((n, entries), np.float32)


class _Symmetric(_Pass):
    """k(X, X): each pair of blocks once."""

    def __init__(self, x: NativeRows) -> None:
        super().__init__(x, x, minus=x.store.minus)
        blocks, job = self.blocks[0], self.job
        job.symmetric, job.n_tickets = 1, blocks * (blocks + 1) // 2
        done = np.zeros((blocks, 2), dtype=np.int64)
        job.done = self._address(done)

    def times(self, v: Array, n_threads: int, *, rough: bool) -> Array:
        """K @ V in the dtype of V."""
        job, store = self.job, self.x.store
        if store.keep_bytes or store.rounding is not None:
            if self.x.tiles is None:
                self.x.tiles = _Kept(self)
            self._keep(self.x.tiles)
        job.from_rounded = int(rough)
        width = self._right_side(v, FLOAT32 if rough else self.dtype)
        rows = self.blocks[0] * self.side
        sums = self.x.room("sums", (2, rows, width), np.float64)
        job.sums, job.other_sums = self._address(sums[0]), self._address(sums[1])
        self._drawn(n_threads)
        product = np.empty(v.shape, dtype=v.dtype)
        inside = slice(0, self.x.n), slice(0, v.shape[1])
        return np.add(sums[0][inside], sums[1][inside], out=product, casting="same_kind")

    def matrix(self, n_threads: int) -> Array:
        """K."""
        matrix = np.empty((self.x.n, self.x.n), dtype=self.dtype)
        self.job.matrix, self.job.stride = self._address(matrix), self.x.n
        self._drawn(n_threads)
        return matrix

    def _keep(self, kept: _Kept) -> None:
        job, rounding = self.job, self.x.store.rounding
        job.made = self._address(kept.made)
        job.exact, job.n_exact = self._address(kept.exact), kept.n_exact
        if rounding is not None:
            job.minus = rounding.minus
        for name in ("rounded", "codes", "scales", "diagonals"):
            array = getattr(kept, name)
            if array is not None:
                setattr(job, name, self._address(array))
