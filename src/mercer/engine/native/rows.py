"""Rows of the compiled engine: packed into panels, or as they lie in memory."""

from __future__ import annotations

import ctypes
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.types import Array
from mercer.engine.base import FLOAT32
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import Library, address, aligned
from mercer.engine.native.program import Leaf, Program, own_values
from mercer.engine.numpy import HostRows
from mercer.engine.pairwise import origin_of

if TYPE_CHECKING:
    from mercer.engine.native.passes import Kept


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
        self.host: HostRows | None = None  # the same rows for NumPy, where values are out of range

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
        """The columns of a model, which nobody may write to, in whole vectors and panels; None for others.

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
        """Whether a room is used again."""
        return any(room is each for each in self._rooms.values())

    def inverse_lengths(self, leaf: Leaf) -> Array:
        """1/√u(x, x) of each row, and 0 where that is zero."""
        if leaf not in self._packed:
            x = self.rows if leaf.columns is None else self.rows[:, np.asarray(leaf.columns)]
            assert leaf.of is not None
            own = np.sqrt(own_values(leaf.of, x.astype(np.float64, copy=False)))
            out = aligned((self.panels * self.panel,), self.dtype, zero=True)
            np.divide(1.0, own, out=out[: self.n], where=own > 0, casting="same_kind")
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
        d = self.d if leaf.columns is None else len(leaf.columns)
        out = aligned((self.panels, d, self.panel), self.dtype)
        norms = aligned((self.panels, self.panel), self.dtype)
        work = self.native.pack[self.dtype]
        work(ctypes.byref(raw), d, self.panels, address(out), address(norms))
        return out, norms
