"""The NumPy engine: THE tile loop, on threads. Every other engine is held against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial, reduce
from operator import iadd
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from mercer._core.memory import hand_back
from mercer._core.observer import SILENT, Observer
from mercer._core.params import Whole, require
from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import RowSource, row_blocks, row_slices, take_rows
from mercer.engine.base import (
    FLOAT32,
    NOTHING_KEPT,
    Cutting,
    Engine,
    Facts,
    Resident,
    RowStep,
    S,
    Step,
    TileKernel,
    TileStore,
)
from mercer.engine.passes import BLOCKS_A_RUN, fold, map_rows, map_shape, numbers_a_row, pass_shape
from mercer.engine.shifted import ShiftedRows, SlicedRows, ready_rows
from mercer.engine.threads import n_blas_threads, parallel_each, parallel_map
from mercer.engine.tiles import WHOLE, Part, TileIndex, cached_width, n_upper, places, upper_tiles

# Points whose kernel values are held at a time, where a row meets all of them.
POINTS = 2048
# Rows of a block in a pass over rows, and entries, at most: a thread with less to do does not pay.
PASS_ROWS, PASS_ENTRIES = 4096, 2**20
# The width from which on sums are so large that what threads have freed of them is handed back.
WIDE = 1000
LEVELS = 2**16 - 1  # of an entry of a packed tile


class HostCutting(Cutting, total=False):
    """How rows in memory or in a file are cut, for one of several that multiply by a matrix together."""

    part: Part  # which of the tiles `gram_times` makes: products of all parts add up to K @ V


class HostRows(Resident):
    """Rows in memory or in a file: as they are or, cut into tiles, in slices that are ready for these."""

    def __init__(
        self,
        rows: Rows,
        dtype: Any,
        width: int | None = None,
        store: TileStore = NOTHING_KEPT,
        part: Part = WHOLE,
    ) -> None:
        super().__init__(rows, dtype)
        self.width, self.store, self.part = width, store, part
        self.kept: KeptTiles | None = None  # from the first product on
        # The same rows, where values of compiled tiles are out of range.
        self.host: HostRows | None = None
        shift = rows.shift if isinstance(rows, ShiftedRows | SlicedRows) else None
        # The point that ready rows are counted from; None where that is the origin.
        self.centre = None if shift is None else shift.centre

    def __getitem__(self, key: slice) -> Rows:
        rows = self.rows
        lazy = isinstance(rows, SlicedRows | RowSource)
        # All of them as they are: what ready rows remember from tile to tile is on the object.
        if lazy or key.start > 0 or key.stop < self.n:
            rows = rows[key]
        return rows if isinstance(rows, ShiftedRows) else rows.astype(self.dtype, copy=False)

    def take(self, indices: Indices) -> Rows:
        rows = take_rows(self.rows, indices)
        return rows if isinstance(rows, ShiftedRows) else rows.astype(self.dtype, copy=False)

    def plain(self) -> HostRows:
        """The rows as they were loaded."""
        ready = isinstance(self.rows, ShiftedRows | SlicedRows)
        return HostRows(self.rows.original if ready else self.rows, self.dtype, self.width)

    def forget(self, *, all_kept: bool = False) -> None:
        """Slices that are ready are of use within a pass, not between two.

        ``all_kept``: neither are ready rows, which have done their work when every tile is kept.
        """
        if all_kept and isinstance(self.rows, ShiftedRows):
            self.rows = self.rows.sliced()
        if isinstance(self.rows, SlicedRows):
            self.rows.forget()


@dataclass(frozen=True)
class NumpyEngine(Engine[HostRows]):
    """Tiles in NumPy, one per thread at a time, with BLAS held to one thread in each of them.

    Parameters
    ----------
    n_threads : int, optional
        By default as many as BLAS may use.
    """

    n_threads: int | None = None

    def __post_init__(self) -> None:
        require("n_threads", self.n_threads, Whole(1, also=(None,)))

    @property
    def lanes(self) -> int:
        """Threads for kernels that may run on several."""
        return n_blas_threads(self.n_threads)

    def facts(self) -> Facts:
        return Facts("numpy", self.lanes, None, runs_every_kernel)

    def load(
        self, x: Rows, kernel: TileKernel, dtype: Any, **cutting: Unpack[HostCutting]
    ) -> HostRows:
        """The rows; those to be cut into tiles shifted to a common centre, with norms for distances."""
        own: dict[str, Any] = {**cutting}
        sliced = own.pop("sliced", False)
        # Shifted rows were taken from loaded ones.
        if own.get("width") is not None and not isinstance(x, ShiftedRows):
            x = ready_rows(x, np.dtype(dtype), shift=kernel.shift_invariant, sliced=sliced)
        return HostRows(x, dtype, **own)

    def times(
        self, kernel: TileKernel, x: HostRows, z: HostRows, v: Array
    ) -> Array:  # (n, d), (m, d), (m, k) -> (n, k)
        """k(X, Z) @ V on threads: over slices of X or, where a few rows meet many tiles of them, of Z."""
        if x.centre is not z.centre:  # rows that were loaded apart have no centre in common
            x, z = x.plain(), z.plain()
        n_threads, height = self._threads(kernel), x.width
        if z.width is not None and x.n <= min(z.n, POINTS):
            across = partial(_against, x[slice(0, x.n)], kernel, z, v)
            parts = parallel_map(across, row_slices(z.n, z.width), n_threads=n_threads)
            product = reduce(np.add, parts)
        else:
            if height is None:
                held = min(z.n, POINTS) * v.itemsize
                n_threads, height = map_shape(x.n, z.n, held, n_threads)
            product = np.empty((x.n, v.shape[1]), dtype=np.result_type(x.dtype, v))
            points = [*row_slices(z.n, POINTS)]

            def down(i: slice) -> None:
                product[i] = _against(x[i], kernel, z, v, points)

            if isinstance(x.rows, RowSource):  # read in order, and shared by the threads
                for i, rows in row_blocks(x.rows, n_threads * height):
                    product[i] = self.times(kernel, HostRows(rows, x.dtype), z, v)
            else:
                height = max(1, min(height, -(-x.n // n_threads)))
                parallel_each(down, row_slices(x.n, height), n_threads=n_threads)
        x.forget()
        z.forget()
        return product

    def gram_times(
        self, kernel: TileKernel, x: HostRows, v: Array, *, rough: bool = False
    ) -> Array:
        """k(X, X) @ V, each tile used for both sides of the diagonal."""
        kept = self._kept(kernel, x)
        dtype = FLOAT32 if rough else x.dtype
        rounded = np.ascontiguousarray(v, dtype=dtype)

        def work(indices: Iterable[TileIndex]) -> Array:
            # In the precision of the tiles: adding float32 products to a float64 sum would take a
            # sixth of the time, and the products themselves are no better than float32.
            out, room = np.zeros(v.shape, dtype=dtype), np.empty(kept.room, dtype=FLOAT32)
            read = partial(kept.rough, room=room) if rough else kept.exact
            for index in indices:
                tile, (_, i, j) = read(kernel, x, index), index
                out[i] += tile @ rounded[j]
                if i != j:
                    out[j] += tile.T @ rounded[i]
                del tile  # before the next one is made
            return out

        indices = upper_tiles(x.n, kept.width, x.part)
        parts = parallel_map(work, indices, n_threads=self._threads(kernel))
        x.forget(all_kept=kept.complete)
        if not parts:  # a part of fewer tiles than there are parts
            return np.zeros_like(v)
        return reduce(iadd, parts[1:], parts[0].astype(v.dtype, copy=False))

    def gram(self, kernel: TileKernel, x: HostRows) -> Array:
        """k(X, X) as a new array, each tile written to both sides of the diagonal."""
        kept = self._kept(kernel, x)
        matrix = np.empty((x.n, x.n), dtype=x.dtype)

        def write(index: TileIndex) -> None:
            tile, (_, i, j) = kept.exact(kernel, x, index), index
            matrix[i, j] = tile
            if i != j:
                matrix[j, i] = tile.T

        parallel_each(write, upper_tiles(x.n, kept.width), n_threads=self._threads(kernel))
        x.forget()
        return matrix

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:  # (b, d), (m, d) -> (b, m)
        """k(X, Z) as a new array, on the calling thread."""
        return kernel.tile(x, z)

    def fold(
        self,
        x: Rows,
        step: Step[S],
        *,
        width: int | None = None,
        height: int | None = None,
        parallel: bool = True,
        observer: Observer = SILENT,
    ) -> S:
        """Blocks on threads, merged in the order of the rows whatever the number of threads."""
        if width is None:
            n, d = int(x.shape[0]), int(x.shape[1])
            usual = max(1, min(PASS_ROWS, PASS_ENTRIES // d))
            n_threads = min(self.lanes, -(-n * d // PASS_ENTRIES))
        else:
            n_threads, usual = pass_shape(numbers_a_row(x), width, x.dtype.itemsize, self.lanes)
            # Few rows are shared by all threads, as long as a block is worth an m x m sum.
            if parallel:
                usual = min(usual, max(128, width, -(-int(x.shape[0]) // n_threads)))
        n_threads, run = n_threads if parallel else 1, 1 if width is None else BLOCKS_A_RUN
        height = height or usual
        found = fold(x, step, height=height, n_threads=n_threads, run=run, observer=observer)
        if width is not None and width >= WIDE:
            hand_back()
        return found

    def map(
        self,
        x: Rows,
        step: RowStep,
        *beside: Array | None,
        width: int = 1,
        parallel: bool = True,
        dtype: Any = None,
    ) -> Array:
        """Blocks on threads, put together in the order of the rows."""
        rows, tiled = (x.rows, x.width) if isinstance(x, HostRows) else (x, None)
        row_bytes = max(width, numbers_a_row(rows)) * np.dtype(dtype or x.dtype).itemsize
        most = self.lanes if parallel else 1
        n_threads, height = map_shape(int(x.shape[0]), width, row_bytes, most)
        height = min(height, tiled or height)
        out = map_rows(x, step, *beside, height=height, n_threads=n_threads, dtype=dtype)
        if isinstance(x, HostRows):
            x.forget()
        return out

    def _threads(self, kernel: TileKernel) -> int:
        return self.lanes if kernel.parallel else 1

    def _kept(self, kernel: TileKernel, x: HostRows) -> KeptTiles:
        """What is kept of the tiles so far, and how the others are made."""
        if x.kept is None:
            usual = cached_width(x.dtype.itemsize, x.d, n_threads=self._threads(kernel))
            x.kept = KeptTiles(x, min(x.width or usual, x.n))
        return x.kept


def _against(
    rows: Rows, kernel: TileKernel, z: HostRows, v: Array, slices: Iterable[slice]
) -> Array:  # (b, d), (m, d), (m, k) -> (b, k)
    """k(rows, Z) @ V over slices of Z."""
    return reduce(iadd, (kernel.tile(rows, z[j]) @ v[j] for j in slices))


def runs_every_kernel(kernel: Any) -> str | None:
    """None, which says that there is nothing against it."""
    del kernel
    return None


# ── tiles that are kept between products: as they are, in float32, or packed into 16 bits ──────────────────
class KeptTiles:
    """The tiles of K - c: those that a `TileStore` has room for are kept, the others made anew each time.

    Rounded tiles are made from exact ones, by whichever product computes them first: the two kinds of product
    then differ by the rounding of entries alone (and of float32 sums), never by how a distance was computed.
    """

    def __init__(self, x: HostRows, width: int) -> None:  # x is not held: it holds these tiles
        self.width, self.minus, self.rounding = width, x.store.minus, x.store.rounding
        n_tiles = len(places(n_upper(x.n, width), x.part))
        n_exact = x.store.keep_bytes // (width**2 * x.dtype.itemsize)
        self._exact: list[Array | None] = [None] * min(n_exact, n_tiles)
        self._rounded: list[Array | PackedTile | None] = []
        self.room = 0  # float32 entries that a thread needs to unpack a tile
        if self.rounding is not None:
            self._rounded = [None] * n_tiles
            self.room = width**2 if self.rounding.packed else 0
            # One array for all tiles: were each its own, the heap would keep the holes between them.
            entry = np.uint16 if self.rounding.packed else FLOAT32
            self._pool = np.empty((n_tiles, width**2), dtype=entry)
        self.complete = self.rounding is not None or len(self._exact) == n_tiles

    def exact(self, kernel: TileKernel, x: HostRows, index: TileIndex) -> Array:
        """A tile in full precision. To change it, copy it."""
        place, i, j = index
        keeps = place < len(self._exact)
        kept = self._exact[place] if keeps else None
        if kept is not None:
            return kept
        x_i = x[i]
        tile = kernel.tile(x_i, x_i if i == j else x[j])
        if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
            np.fill_diagonal(tile, kernel.tile_diag(x_i))
        if self.minus:
            tile -= self.minus
        if self._rounded and self._rounded[place] is None:
            self._round(index, tile)
        if keeps:
            self._exact[place] = tile
        return tile

    def rough(self, kernel: TileKernel, x: HostRows, index: TileIndex, room: Array) -> Array:
        """A rounded tile, unpacked into the thread's own room where it is packed."""
        if self._rounded[index[0]] is None:
            self.exact(kernel, x, index)
        kept = self._rounded[index[0]]
        assert kept is not None
        return kept.unpacked(room) if isinstance(kept, PackedTile) else kept

    def _round(self, index: TileIndex, tile: Array) -> None:
        place, i, j = index
        assert self.rounding is not None
        room, minus = self._pool[place, : tile.size].reshape(tile.shape), self.rounding.minus
        if self.rounding.packed:
            rounded = np.subtract(tile, minus, dtype=FLOAT32, casting="same_kind")
            self._rounded[place] = PackedTile.of(rounded, on_diagonal=i == j, codes=room)
        else:
            self._rounded[place] = np.subtract(tile, minus, out=room, casting="same_kind")


@dataclass(frozen=True, repr=False)
class PackedTile:
    """A float32 tile as low + step · codes: each entry within step/2, (high - low)/131070, of itself.

    Fixed point, not half floats: the entries of a tile of a bounded kernel are of one size, and so
    is their rounding, which acts like noise of a known small norm. The diagonal of K is far from
    its neighbours for a narrow kernel and would widen the steps for all of them: it is kept as it is.
    """

    codes: npt.NDArray[np.uint16]
    low: np.float32
    step: np.float32
    diag: Array | None  # of K, where the tile lies on it

    @classmethod
    def of(cls, tile: Array, *, on_diagonal: bool, codes: npt.NDArray[np.uint16]) -> PackedTile:
        """Pack a tile, whose array is used up on the way, into `codes`."""
        diag = tile.diagonal().copy() if on_diagonal else None
        if on_diagonal:
            np.fill_diagonal(tile, tile[0, -1])
        low = tile.min()
        step = (tile.max() - low) / np.float32(LEVELS)
        tile -= low
        if step > np.finfo(np.float32).tiny:
            tile *= np.float32(1.0) / step
        tile += np.float32(0.5)
        with np.errstate(invalid="ignore"):  # `low` or `step` shows what is not finite
            np.copyto(codes, tile, casting="unsafe")
        return cls(codes, low, step, diag)

    def unpacked(self, room: Array) -> Array:
        """The tile, written to the front of a flat float32 array."""
        tile = room[: self.codes.size].reshape(self.codes.shape)
        np.multiply(self.codes, self.step, out=tile, dtype=np.float32)
        tile += self.low
        if self.diag is not None:
            np.fill_diagonal(tile, self.diag)
        return tile
