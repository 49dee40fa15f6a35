"""The NumPy engine: THE tile loop, on threads. Every other engine is held against it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mercer._core.errors import ParameterError
from mercer._core.memory import available_bytes
from mercer.data.rows import RowSource, row_slices, take_rows
from mercer.engine.base import FLOAT32, Engine, Facts, Mergeable, TileStore
from mercer.engine.kept import KeptTiles
from mercer.engine.passes import fold, map_rows
from mercer.engine.shifted import ShiftedRows, SlicedRows, ready_rows
from mercer.engine.threads import n_blas_threads, parallel_map
from mercer.engine.tiles import Tiling, cached_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercer._core.types import Array, Indices, Rows
    from mercer.engine.base import RowStep, Step, TileKernel
    from mercer.engine.kept import TileReader
    from mercer.engine.tiles import TileIndex

S = TypeVar("S", bound=Mergeable)

# Points whose kernel values are held at a time, where a row meets all of them.
POINTS = 2048
# Rows of a block in a pass over rows, and entries, at most: a thread with less to do does not pay.
PASS_ROWS, PASS_ENTRIES = 4096, 2**20


class HostRows:
    """Rows in memory or in a file, in slices that are ready for tiles."""

    def __init__(self, rows: Rows, dtype: Any, width: int = POINTS) -> None:
        self.rows, self.dtype, self.width = rows, np.dtype(dtype), width

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.n, self.d

    @property
    def tiling(self) -> Tiling:
        """The tiles of k(X, X)."""
        return Tiling(self.n, min(self.width, self.n))

    def __getitem__(self, key: slice) -> Rows:
        lazy = isinstance(self.rows, SlicedRows | RowSource)
        whole = not lazy and key.start == 0 and key.stop == self.n
        # All of them as they are: what ready rows remember from tile to tile is on the object.
        return self._cast(self.rows if whole else self.rows[key])

    def take(self, indices: Indices) -> Rows:
        """A few rows, ready too."""
        return self._cast(take_rows(self.rows, indices))

    def _cast(self, rows: Rows) -> Rows:
        return rows if isinstance(rows, ShiftedRows) else rows.astype(self.dtype, copy=False)

    @property
    def centre(self) -> Array | None:
        """The point that ready rows are counted from; None where that is the origin."""
        rows = self.rows
        shift = rows.shift if isinstance(rows, ShiftedRows | SlicedRows) else None
        return None if shift is None else shift.centre

    def plain(self) -> HostRows:
        """The rows as they were loaded."""
        rows = self.rows
        if isinstance(rows, ShiftedRows):
            rows = rows.original
        elif isinstance(rows, SlicedRows):
            rows = rows.x
        return HostRows(rows, self.dtype, self.width)

    def rest(self) -> None:
        """Every tile is kept: ready rows have done their work, and are let go."""
        if isinstance(self.rows, ShiftedRows):
            self.rows = self.rows.sliced()
        self.forget()

    def forget(self) -> None:
        """Slices that are ready are of use within a pass, not between two."""
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
        n = self.n_threads
        if n is not None and (isinstance(n, bool) or not isinstance(n, Integral) or n < 1):
            msg = f"n_threads must be a whole number of at least 1 or None; got {n!r}."
            raise ParameterError(msg)

    @property
    def lanes(self) -> int:
        """Threads for kernels that may run on several."""
        return self.n_threads or n_blas_threads()

    def facts(self) -> Facts:
        """What it is, how wide, and that it runs every kernel."""
        return Facts("numpy", self.lanes, available_bytes(), _runs_every_kernel)

    def load(
        self,
        x: Rows,
        kernel: TileKernel,
        dtype: Any,
        *,
        width: int | None = None,
        sliced: bool = False,
    ) -> HostRows:
        """The rows, shifted to a common centre and with their norms where distances are to be taken."""
        dtype = np.dtype(dtype)
        if width is None:
            width = cached_width(dtype.itemsize, int(x.shape[1]), n_threads=self._threads(kernel))
        if isinstance(x, ShiftedRows):  # taken from rows that were loaded
            return HostRows(x, dtype, width)
        shift = kernel.shift_invariant
        return HostRows(ready_rows(x, dtype, shift=shift, sliced=sliced), dtype, width)

    def times(
        self, kernel: TileKernel, x: HostRows, z: HostRows, v: Array
    ) -> Array:  # (n, d), (m, d), (m, k) -> (n, k)
        """k(X, Z) @ V on threads over slices of whichever has more rows."""
        if x.centre is not z.centre:  # rows that were loaded apart have no centre in common
            x, z = x.plain(), z.plain()
        n_threads = self._threads(kernel)
        if x.n <= min(z.n, POINTS):
            few = x[slice(0, x.n)]

            def across(slices: Iterable[slice]) -> Array:
                return _against(kernel, few, z, v, slices)

            parts = parallel_map(across, row_slices(z.n, z.width), n_threads=n_threads)
            product = reduce(_added, parts)
        else:
            product = np.empty((x.n, v.shape[1]), dtype=np.result_type(x.dtype, v))
            points = list(row_slices(z.n, POINTS))

            def down(slices: Iterable[slice]) -> None:
                for i in slices:
                    product[i] = _against(kernel, x[i], z, v, points)

            parallel_map(down, row_slices(x.n, x.width), n_threads=n_threads)
        x.forget()
        z.forget()
        return product

    def gram_times(
        self,
        kernel: TileKernel,
        x: HostRows,
        v: Array,
        store: TileStore | None = None,
        *,
        rough: bool = False,
    ) -> Array:
        """k(X, X) @ V, each tile used for both sides of the diagonal."""
        make, kept = self._tiles(kernel, x, store)
        tiles = kept.rounded if rough else kept
        assert tiles is not None  # a rough product is asked for where the store rounds
        dtype = FLOAT32 if rough else x.dtype
        rounded = np.ascontiguousarray(v, dtype=dtype)

        def work(indices: Iterable[TileIndex]) -> Array:
            # In the precision of the tiles: adding float32 products to a float64 sum would take a
            # sixth of the time, and the products themselves are no better than float32.
            out = np.zeros(v.shape, dtype=dtype)
            read = tiles.reader(make)
            for index in indices:
                tile, (_, i, j) = read(index), index
                out[i] += tile @ rounded[j]
                if i != j:
                    out[j] += tile.T @ rounded[i]
            return out

        parts = self._over_tiles(kernel, x, work)
        if kept.complete:
            x.rest()
        else:
            x.forget()
        return reduce(_added, [part.astype(v.dtype, copy=False) for part in parts])

    def gram(self, kernel: TileKernel, x: HostRows, store: TileStore | None = None) -> Array:
        """k(X, X) as a new array, each tile written to both sides of the diagonal."""
        make, kept = self._tiles(kernel, x, store)
        matrix = np.empty((x.n, x.n), dtype=x.dtype)

        def work(indices: Iterable[TileIndex]) -> None:
            read = kept.reader(make)
            for index in indices:
                tile, (_, i, j) = read(index), index
                matrix[i, j] = tile
                if i != j:
                    matrix[j, i] = tile.T

        self._over_tiles(kernel, x, work)
        x.forget()
        return matrix

    def fold(self, x: Rows, step: Step[S]) -> S:
        """Blocks on threads, merged in the order of the rows whatever the number of threads."""
        n_threads, height = self._pass(x, step)
        return fold(x, step, height=height, n_threads=n_threads)

    def map(self, x: Rows, step: RowStep) -> Array:
        """Blocks on threads, put together in the order of the rows."""
        n_threads, height = self._pass(x, step)
        one = step(x[0:1])
        out = np.empty((int(x.shape[0]), *one.shape[1:]), dtype=one.dtype)
        map_rows(x, step, out, height=height, n_threads=n_threads)
        if isinstance(x, HostRows):
            x.forget()
        return out

    def _pass(self, x: Rows, step: Any) -> tuple[int, int]:
        """Threads of a pass over the rows, and the height of its blocks."""
        n, d = int(x.shape[0]), int(x.shape[1])
        most = self.lanes if getattr(step, "parallel", True) else 1
        height = x.width if isinstance(x, HostRows) else max(1, min(PASS_ROWS, PASS_ENTRIES // d))
        return min(most, -(-n * d // PASS_ENTRIES)), height

    def _threads(self, kernel: TileKernel) -> int:
        return self.lanes if kernel.parallel else 1

    def _tiles(
        self, kernel: TileKernel, x: HostRows, store: TileStore | None
    ) -> tuple[TileReader, KeptTiles]:
        """How a tile is made, and what is kept of tiles so far."""
        store = TileStore() if store is None else store
        if store.tiles is None:
            store.tiles = KeptTiles(store, x.tiling, x.dtype)
        minus = store.minus

        def make(index: TileIndex) -> Array:
            _, i, j = index
            x_i = x[i]
            tile = kernel.tile(x_i, x_i if i == j else x[j])
            if i == j:  # distances of a point to itself only nearly cancel; the diagonal is known
                np.fill_diagonal(tile, kernel.tile_diag(x_i))
            if minus:
                tile -= minus
            return tile

        return make, store.tiles

    def _over_tiles(
        self, kernel: TileKernel, x: HostRows, work: Callable[[Iterable[TileIndex]], Any]
    ) -> list[Any]:
        indices = [(place, i, j) for place, (i, j) in enumerate(x.tiling.upper())]
        return parallel_map(work, indices, n_threads=self._threads(kernel))


def _against(
    kernel: TileKernel, rows: Rows, z: HostRows, v: Array, slices: Iterable[slice]
) -> Array:  # (b, d), (m, d), (m, k) -> (b, k)
    """k(rows, Z) @ V over slices of Z."""
    return reduce(_added, (kernel.tile(rows, z[j]) @ v[j] for j in slices))


def _added(left: Array, right: Array) -> Array:
    left += right
    return left


def _runs_every_kernel(kernel: Any) -> str | None:
    del kernel
    return None
