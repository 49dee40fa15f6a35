"""Rows for compiled tiles, and passes over these: a job of the library, and the arrays that it points to."""

from __future__ import annotations

import ctypes
import math
from functools import cached_property
from typing import Any

import numpy as np

from mercer._core.types import Array, Indices
from mercer.data.rows import row_slices
from mercer.engine.base import FLOAT32
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import TICKETS, Job, Library, address, aligned
from mercer.engine.native.program import Leaf, Program, Step, of_columns, own_values
from mercer.engine.numpy import HostRows
from mercer.engine.pairwise import SQUARABLE, origin_of
from mercer.engine.tiles import WHOLE, Part, places

COLUMNS = 256  # of a right side that are multiplied at a time: each has two sums a row
BLOCK = 192  # rows of a float64 tile: its entries, and a second tile of them, stay in a core's own cache
# With themselves these are one tile, and packed by it: there is nothing to share out.
FEW_ROWS = 240
# Groups of columns that few rows are multiplied with side by side: a number that depends on sizes alone, so
# that no sum depends on the number of threads.
ROW_BLOCKS, GROUP, SUMS_BYTES = 32, 16, 2**24
# Sums of 40 columns of 10 000 rows, which are multiplied in milliseconds where their tiles are kept. Where
# tiles are made anew a product takes so long that fresh pages don't count: for 5000 rows 0.2 ms beside 15.
ROOM_BYTES, ANEW_BYTES = 2**23, 2**20


class NativeRows(HostRows):
    """Dense rows in memory, packed into panels for each quantity that a formula takes of them.

    Rows that are `sliced` are packed by each tile for itself, which saves their memory.
    """

    def __init__(
        self,
        rows: Array,
        dtype: Any,
        *,
        sliced: bool,
        program: Program,
        native: Library,
        **cutting: Any,
    ) -> None:
        super().__init__(rows, dtype, **cutting)
        self.program, self.native, self.sliced = program, native, sliced
        self.panel = native.panel[self.dtype]
        self.panels = -(-self.n // self.panel)
        self._packed: dict[Leaf, tuple[Array, Array]] = {}  # about their own origin
        self._rooms: dict[str, Array] = {}
        self._padded: tuple[Array, Array] | None = None  # what these points were multiplied with
        self.parts: dict[int, HostRows] = {}  # of many rows, by their first
        self.tiles: Kept | None = None  # from the first product on

    @cached_property
    def origin(self) -> Array:
        """Where distances are counted from; rows that join others need none of their own."""
        return origin_of(self.rows, self.dtype, self.program.sharpest)

    def packed(self, leaf: Leaf, origin: Array) -> tuple[Array, Array]:
        """[panel][column][row] and squared norms; counted from `origin` where distances are taken."""
        own = vars(self).get("origin")
        if leaf.kind == "sqdist" and origin is not own:  # of the rows that these meet
            return self._pack(leaf, origin)
        if leaf not in self._packed:
            self._packed[leaf] = self._pack(leaf, origin)
        return self._packed[leaf]

    def room(self, name: str, shape: tuple[int, ...], dtype: Any, *, zero: bool = True) -> Array:
        """Memory that is used again: fresh pages would be faulted in by all threads at once.

        Much of it is given back after its product, which takes far longer than its pages: it would lie there
        while the same rows are multiplied in another precision.
        """
        anew = self.width is not None and (self.tiles is None or not self.tiles.complete)
        most = min(ROOM_BYTES, ANEW_BYTES) if anew else ROOM_BYTES
        if math.prod(shape) * np.dtype(dtype).itemsize > most:
            self._rooms.pop(name, None)
            return np.asarray(aligned(shape, dtype, zero=zero))
        found = self._rooms.get(name)
        if found is None or found.shape != shape or found.dtype != dtype:
            found = self._rooms[name] = aligned(shape, dtype)
        if zero:
            found.fill(0)
        return found

    def padded(self, v: Array, shape: tuple[int, int], dtype: Any) -> Array | None:
        """The columns of a model, which are read-only, in whole vectors and panels; None for others.

        Rows that arrive one by one meet the same points and the same columns each time, and copying these
        took as long as a fifth of the product.
        """
        if v.flags.writeable or v.base is not None:
            return None
        if math.prod(shape) * np.dtype(dtype).itemsize > ROOM_BYTES:
            return None
        found = self._padded
        if found is None or found[0] is not v or found[1].shape != shape or found[1].dtype != dtype:
            copy = aligned(shape, dtype, zero=True)
            copy[: len(v), : v.shape[1]] = v
            found = self._padded = v, copy  # at once: another thread may be reading
        return found[1]

    def stays(self, room: Array) -> bool:
        return any(room is each for each in self._rooms.values())

    def inverse_lengths(self, leaf: Leaf) -> Array:
        """1/√u(x, x) of each row, and 0 for rows of zeros where that is zero.

        NaN where squares of lengths have lost digits to their range: so are the products, which are then
        made by NumPy.
        """
        if leaf not in self._packed:
            assert leaf.of is not None
            x = of_columns(self.rows, leaf.columns).astype(np.float64, copy=False)
            with np.errstate(all="ignore"):
                own = own_values(leaf.of, x)
            low, high = SQUARABLE[self.dtype]
            lost = np.flatnonzero(~((own > low) & (own < high)))
            out = aligned((self.panels * self.panel,), self.dtype, zero=True)
            own[lost] = np.where((own[lost] == 0.0) & ~np.any(x[lost], axis=1), np.inf, np.nan)
            np.divide(1.0, np.sqrt(own), out=out[: self.n], casting="same_kind")
            self._packed[leaf] = out, out
        return self._packed[leaf][0]

    def raw(self, leaf: Leaf, origin: Array, alive: list[Any]) -> lib.Rows:
        """The rows as they are, and what packing them takes; what it points to is `alive`."""
        x, out = self.rows, lib.Rows(n=self.n, unit=int(leaf.unit_rows))
        out.numbers, out.single = address(x), int(x.dtype == FLOAT32)
        out.down, out.along = (step // x.itemsize for step in x.strides)
        if leaf.columns is not None:
            which = np.asarray(leaf.columns, dtype=np.int64) % self.d  # some count from the end
            alive.append(which)
            out.which, origin = address(which), origin[which]
        if leaf.kind == "sqdist":
            origin = np.ascontiguousarray(origin, dtype=np.float64)
            alive.append(origin)
            out.origin = address(origin)
        return out

    def _pack(self, leaf: Leaf, origin: Array) -> tuple[Array, Array]:
        alive: list[Any] = []
        raw = self.raw(leaf, origin, alive)
        d = leaf.width(self.d)
        out = aligned((self.panels, d, self.panel), self.dtype)
        norms = aligned((self.panels, self.panel), self.dtype)
        work = self.native.pack[self.dtype]
        work(ctypes.byref(raw), d, self.panels, address(out), address(norms))
        return out, norms


# ── passes ──────────────────────────────────────────────────────────────────
class Pass:
    """A job of the library, and the arrays that it points to."""

    def __init__(
        self,
        x: NativeRows,
        z: NativeRows,
        *,
        minus: float = 0.0,
        block: int | None = None,
        program: Program | None = None,
        beside: dict[Leaf, tuple[NativeRows, NativeRows]] | None = None,
    ) -> None:
        self.x, self.z, self.native, self.room = x, z, x.native, x.room
        self.dtype, self.panel = x.dtype, x.panel
        program = program or x.program
        # Rows that stay are packed about an origin of their own; those that meet them join.
        origin = x.origin if z.width is None and x.width is not None else z.origin
        self._alive: list[Any] = []
        packing = 0  # numbers of a row that tiles pack for themselves
        leaves = (lib.Leaf * len(program.leaves))()
        for to, leaf in zip(leaves, program.leaves, strict=True):
            left, right = (beside or {}).get(leaf, (x, z))  # the rows that a quantity is of
            columns = leaf.width(left.d)
            to.kind, to.columns = lib.KINDS[leaf.kind], columns
            for side, rows in (("left", left), ("right", right)):
                if rows.sliced and side == "right" and z is x:
                    to.right_rows = to.left_rows
                elif rows.sliced:
                    raw = rows.raw(leaf, origin, self._alive)
                    self._alive.append(raw)
                    setattr(to, f"{side}_rows", ctypes.pointer(raw))
                    packing = max(packing, columns + 1)
                else:
                    packed, norms = rows.packed(leaf, origin)
                    setattr(to, side, self._address(packed))
                    setattr(to, f"{side}_norms", self._address(norms))
        steps, kept = program.shared
        if minus:
            steps = [*steps, Step(lib.AFFINE, b=-minus)]
        ops = (lib.Op * len(steps))()
        for op, step in zip(ops, steps, strict=True):
            op.code, op.number, op.a, op.b = step.code, step.number, step.a, step.b
            if step.coefficients is not None:
                op.left = self._address(step.coefficients)
            if step.lengths is not None:
                op.left = self._address(x.inverse_lengths(step.lengths))
                op.right = self._address(z.inverse_lengths(step.lengths))
        block = block or min(x.width or BLOCK, BLOCK * 8 // self.dtype.itemsize)
        panels = max(1, min(block // self.panel, max(x.panels, z.panels)))
        depth = program.depth + kept
        self.job = Job(leaves=leaves, ops=ops, n_ops=len(steps), depth=depth, panels=panels)
        self.job.rows, self.job.columns = x.n, z.n
        self.side = panels * self.panel  # rows of a tile
        # The memory of each thread: a stack of tiles, and rows that are packed for one of them.
        self.numbers = self.side * (depth * self.side + 2 * packing)
        self.blocks = -(-x.panels // panels), -(-z.panels // panels)

    def _address(self, array: Array | Indices) -> int:
        self._alive.append(array)
        return address(array)

    def _weights(self, weights: Array | None) -> int | None:
        if weights is None:
            return None
        return self._address(np.ascontiguousarray(weights, dtype=np.float64))

    def _right_side(self, v: Array, dtype: np.dtype[Any]) -> int:
        """V in panels of whole vectors, zeros beyond it; the number of vectors of a row."""
        width = self.native.vector_bytes // dtype.itemsize
        vectors = -(-v.shape[1] // width)
        shape = self.blocks[1] * self.side, vectors * width
        padded = self.z.padded(v, shape, dtype)
        if padded is None:
            padded = self.room("v", shape, dtype)
            padded[: len(v), : v.shape[1]] = v
        self.job.v, self.job.vectors = self._address(padded), vectors
        return vectors * width

    def _drawn(self, n_threads: int, *, beyond: int = 0, tickets: int = TICKETS) -> None:
        """All tickets, `tickets` between looks at signals, on threads with room for `beyond` more numbers."""
        job, n_threads = self.job, max(1, min(n_threads, self.job.n_tickets))
        shape = n_threads, self.numbers + beyond
        scratch = self.room("scratch", shape, self.dtype, zero=False)
        work = self.native.run[self.dtype]
        self.native.drawn(work, job, scratch, holding=self, tickets=tickets)

    def _grouped(self, width: int) -> Array:  # (groups, rows, width)
        """Sums of so many numbers a row, for each group of blocks of columns that is a ticket."""
        below, beside = self.blocks
        a_group = 8 * below * self.side * max(1, width)  # bytes
        most = max(1, SUMS_BYTES // a_group)  # that have room
        group = beside if below >= ROW_BLOCKS else max(min(beside, GROUP), -(-beside // most))
        groups = -(-beside // group)
        self.job.group, self.job.n_tickets = group, below * groups
        return self.room("sums", (groups, below * self.side, width), np.float64)


class Rectangle(Pass):
    """k(X, Z): with the steps of a pass over rows the points are packed for each block anew.

    They are few, and a block has thousands of rows. So nothing is remembered from block to block, and a step
    that holds the engine can be pickled.
    """

    def times(self, v: Array, n_threads: int) -> Array:
        sums = self._grouped(self._right_side(v, self.dtype))
        self.job.sums = self._address(sums)
        self._drawn(n_threads)
        parts = sums[:, : self.x.n, : v.shape[1]]
        return np.add.reduce(parts, axis=0).astype(np.result_type(self.dtype, v), copy=False)

    def matrix(self, n_threads: int) -> Array | None:
        """The matrix; None where values are out of range, which NumPy knows how to reach or to refuse."""
        matrix = np.empty((self.x.n, self.z.n), dtype=self.dtype)
        job, (below, beside) = self.job, self.blocks
        job.matrix, job.stride = self._address(matrix), self.z.n
        job.group, job.n_tickets = beside, below  # a ticket is a block of rows against all points
        self._drawn(n_threads)
        # A finite sum has finite terms; an infinite one may have, and is looked through.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(matrix.sum()) or np.isfinite(matrix).all()
        return matrix if finite else None


class Kept:
    """What is kept of the tiles of one matrix between products."""

    def __init__(self, work: Symmetric) -> None:
        store = work.x.store
        entries, n = work.side**2, len(work.tickets)
        self.made = np.zeros(n, dtype=np.uint8)
        self.n_exact = min(n, store.keep_bytes // (entries * work.dtype.itemsize))
        self.exact = aligned((self.n_exact, entries), work.dtype)
        rounding = store.rounding
        self.rounded = self.codes = self.scales = self.diagonals = None
        if rounding is not None and rounding.packed:
            self.codes = aligned((n, entries), np.uint16)
            self.scales = np.zeros((n, 2), dtype=np.float32)
            self.diagonals = np.zeros(work.x.n, dtype=np.float32)
        elif rounding is not None:
            self.rounded = aligned((n, entries), np.float32)
        self.complete = rounding is not None or self.n_exact == n


class Symmetric(Pass):
    """k(X, X): each pair of blocks once."""

    def __init__(self, x: NativeRows, part: Part = WHOLE) -> None:
        super().__init__(x, x, minus=x.store.minus, block=FEW_ROWS if x.n <= FEW_ROWS else None)
        blocks, job = self.blocks[0], self.job
        self.tickets = places(blocks * (blocks + 1) // 2, part)
        job.symmetric, job.ticket, job.n_tickets = 1, self.tickets.start, self.tickets.stop
        job.done = self._address(_done_before(self.tickets.start, blocks))

    def times(self, v: Array, n_threads: int, *, rough: bool) -> Array:
        if v.shape[1] > COLUMNS:
            parts = (v[:, j] for j in row_slices(v.shape[1], COLUMNS))
            own = self.x, self.x.part
            return np.hstack([Symmetric(*own).times(p, n_threads, rough=rough) for p in parts])
        job, store = self.job, self.x.store
        if store.keep_bytes or store.rounding is not None:
            if self.x.tiles is None:
                self.x.tiles = Kept(self)
            self._keep(self.x.tiles)
        job.from_rounded = int(rough)
        width = self._right_side(v, FLOAT32 if rough else self.dtype)
        rows = self.blocks[0] * self.side
        sums, other = (self.x.room(name, (rows, width), np.float64) for name in ("sums", "other"))
        job.sums, job.other_sums = self._address(sums), self._address(other)
        self._drawn(n_threads)
        inside = slice(0, self.x.n), slice(0, v.shape[1])
        # Large sums, which are not kept, become the product.
        free = v.dtype == sums.dtype and not self.x.stays(sums)
        product = sums[inside] if free else np.empty(v.shape, dtype=v.dtype)
        return np.add(sums[inside], other[inside], out=product, casting="same_kind")

    def matrix(self, n_threads: int) -> Array:
        matrix = np.empty((self.x.n, self.x.n), dtype=self.dtype)
        self.job.matrix, self.job.stride = self._address(matrix), self.x.n
        self._drawn(n_threads)
        return matrix

    def _keep(self, kept: Kept) -> None:
        job, rounding, first = self.job, self.x.store.rounding, self.tickets.start
        job.n_exact = first + kept.n_exact
        if rounding is not None:
            job.minus = rounding.minus
        for name in ("made", "exact", "rounded", "codes", "scales"):
            array = getattr(kept, name)
            if array is not None:  # the library counts tickets from the first of all parts
                setattr(job, name, self._address(array) - first * array.strides[0])
        if kept.diagonals is not None:  # of all rows
            job.diagonals = self._address(kept.diagonals)


def _done_before(ticket: int, blocks: int) -> Any:  # -> (blocks, 2)
    """By block, the rounds in which tickets before this one meet it: from either side, as the library counts.

    In round s block i meets block i + s, on a ring; a block meets itself in round 0, on one side only.
    """
    full, started = divmod(ticket, blocks)
    done = np.empty((blocks, 2), dtype=np.int64)
    done[:, 0], done[:, 1] = full, max(full - 1, 0)
    done[:started, 0] += 1
    if full > 0:
        done[(np.arange(started) + full) % blocks, 1] += 1
    return done
