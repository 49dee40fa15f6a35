"""The engine of compiled tiles. What it can't do it leaves to the NumPy engine, whose rows it extends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Unpack, cast

import numpy as np

from mercer._core.observer import SILENT
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, row_blocks, row_slices
from mercer.engine.base import (
    FLOAT32,
    FLOAT64,
    Facts,
    FoldOptions,
    MapOptions,
    RowStep,
    S,
    Step,
    TileKernel,
)
from mercer.engine.native.bindings import compiled
from mercer.engine.native.passes import BLOCK, COLUMNS, FEW_ROWS, NativeRows, Rectangle, Symmetric
from mercer.engine.native.program import (
    Leaf,
    NotCompiledError,
    Program,
    of_columns,
    own_values,
)
from mercer.engine.native.slopes import pulled
from mercer.engine.native.squares import explained, squared
from mercer.engine.numpy import POINTS, HostCutting, HostRows, NumpyEngine
from mercer.engine.pairwise import STEEP
from mercer.engine.passes import SLICE_BYTES
from mercer.engine.steps import ExplainSections, Pulls, SquareSections
from mercer.engine.threads import LONE_DOT, n_blas_threads, parallel_each
from mercer.engine.tiles import WHOLE
from mercer.engine.wide import wide_times

# Squares, and sums of them, neither overflow nor lose digits, in either precision of tiles.
RANGE = 2.0**-30, 2.0**40
# What has vanished below the least number may be multiplied by this, in either precision of tiles.
STEEPEST = STEEP[FLOAT32]
LOOKED_AT = 2**26  # bytes that one thread looks through in some milliseconds
PART_ROWS = 2**15  # rows whose products are summed, and that are packed, at a time
# Columns that BLAS, which copies them into panels first, multiplies faster than the library.
WIDE = 128
# With slices eight times smaller a search among 20 000 points took three times as long.
SEARCHED_BYTES = 2**29
HOST_ARRAYS = 4  # that the host has of so many rows against all points: from fewer at a time
# Steps of `fold` that are compiled, by their kind.
COMPILED: dict[type, Callable[..., Any]] = {SquareSections: squared, ExplainSections: explained}


@lru_cache(maxsize=64)
def _program(tree: Any, text: str) -> Program | str:
    del text  # tells trees apart that are equal: a mask of columns, and positions
    try:
        return Program.of(tree)
    except NotCompiledError as error:
        return str(error)


def program_of(kernel: TileKernel) -> Program | str:
    """The operations of a kernel, or why there are none."""
    tree = kernel.tree()
    try:
        return _program(tree, tree.text)
    except TypeError:  # holds something that has no hash: a kernel of the user's own
        return "it has no formula"


@dataclass(frozen=True)
class NativeEngine(NumpyEngine):
    """Tiles by the compiled library; sparse rows, rows in files and kernels without a formula by NumPy.

    Parameters
    ----------
    n_threads : int, optional
        By default as many as BLAS may use.
    """

    def facts(self) -> Facts:
        native = compiled()
        panel = 1 if native is None else native.panel[FLOAT32]
        return Facts("native", self.lanes, None, _why_not_compiled, BLOCK * BLOCK * 8, False, panel)

    @property
    def tile_bytes(self) -> int:
        """A large size, since no tile is held as a whole: more rows take fewer calls and panels."""
        return SEARCHED_BYTES

    def why_not_rows(self, kernel: TileKernel, x: Rows) -> str | None:
        """Why NumPy computes on these rows, in words; None where tiles are compiled."""
        if not isinstance(x, np.ndarray):
            kind = "sparse rows" if hasattr(x, "nnz") else "rows in a file"
            return f"{kind} have no compiled tiles"
        program = program_of(kernel)
        return program if isinstance(program, str) else out_of_range(x, program)

    def load(
        self, x: Rows, kernel: TileKernel, dtype: Any, **cutting: Unpack[HostCutting]
    ) -> HostRows:
        """Packed rows where tiles are compiled, and rows as NumPy has them elsewhere."""
        native, program, dtype = compiled(), program_of(kernel), np.dtype(dtype)
        plain = isinstance(x, np.ndarray) and x.ndim == 2
        if native is None or isinstance(program, str) or not plain or out_of_range(x, program):
            return super().load(x, kernel, dtype, **cutting)
        # The library reads float32 and float64 rows whose strides are whole numbers of entries.
        if not x.flags.aligned or any(step % x.itemsize for step in x.strides):
            x = x.copy()
        if x.dtype not in (FLOAT32, FLOAT64):
            x = x.astype(FLOAT64)
        # A copy for each of several quantities would take more than the one that is planned for. And few
        # rows, which are in one tile, are packed by it.
        packed = sum(leaf.width(x.shape[1]) for leaf in program.leaves)
        sliced = cutting.pop("sliced", False) or packed > x.shape[1] or len(x) <= FEW_ROWS
        own: dict[str, Any] = {"sliced": sliced, "program": program, "native": native}
        return NativeRows(x, dtype, **own, **cutting)

    def times(self, kernel: TileKernel, x: HostRows, z: HostRows, v: Array) -> Array:
        """k(X, Z) @ V, in slices of X: what is packed and summed of them is a part of memory."""
        mine = isinstance(x, NativeRows) or isinstance(x.rows, RowSource)
        if not (mine and isinstance(z, NativeRows)) or x.dtype != z.dtype:
            return super().times(kernel, x, z, v)
        if x.width is None and v.shape[1] >= WIDE and z.n <= POINTS and v.dtype == x.dtype:
            product = self._wide_times(kernel, x, z, v)
            return super().times(kernel, x, z, v) if product is None else product
        product = np.empty((x.n, v.shape[1]), dtype=np.result_type(x.dtype, v))
        for i, part in self._parts(kernel, x):
            if not isinstance(part, NativeRows):
                return super().times(kernel, x, z, v)
            if v.shape[1] <= COLUMNS:  # as it is, so that a read-only one is known again
                product[i] = Rectangle(part, z).times(v, self._threads(kernel))
                continue
            for j in row_slices(v.shape[1], COLUMNS):
                product[i, j] = Rectangle(part, z).times(v[:, j], self._threads(kernel))
        # Values out of range, which NumPy knows how to reach, or to refuse in words.
        return product if np.isfinite(product).all() else super().times(kernel, x, z, v)

    def _wide_times(self, kernel: TileKernel, x: HostRows, z: NativeRows, v: Array) -> Array | None:
        """k(X, Z) @ V for so many columns that BLAS multiplies them faster: compiled tiles, each made once.

        None where some rows have no compiled tiles, or these are out of range.
        """
        product = np.empty((x.n, v.shape[1]), dtype=v.dtype)
        for i, rows in row_blocks(x.rows, max(BLOCK, SLICE_BYTES // (z.n * v.itemsize))):
            part, n_threads = self.load(rows, kernel, x.dtype), self._threads(kernel)
            tile = Rectangle(part, z).matrix(n_threads) if isinstance(part, NativeRows) else None
            if tile is None:
                return None
            product[i] = wide_times(tile, v, n_threads=n_threads)
        return product if np.isfinite(product).all() else None

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:
        """k(X, Z) as a new array; in a thread of a pass, on that thread."""
        rows, points = (self.load(each, kernel, x.dtype) for each in (x, z))
        if isinstance(rows, NativeRows) and isinstance(points, NativeRows):
            matrix = Rectangle(rows, points).matrix(self._threads(kernel))
            if matrix is not None:
                return matrix
        return super().tile(kernel, x, z)

    def fold(self, x: Rows, step: Step[S], **options: Unpack[FoldOptions]) -> S:
        """Steps of low-rank fits by compiled products; all others on threads, as NumPy has them."""
        if (work := COMPILED.get(type(step))) is not None:
            n_threads = self.lanes if options.get("parallel", True) else 1
            observer = options.get("observer", SILENT)
            found = work(self, step, x, n_threads=n_threads, observer=observer)
            if found is not None:
                return cast("S", found)
        return super().fold(x, step, **options)

    def map(
        self, x: Rows, step: RowStep, *beside: Array | None, **options: Unpack[MapOptions]
    ) -> Array:
        """Sums over slopes by compiled tiles; all other steps on threads, as NumPy has them."""
        if isinstance(step, Pulls):
            # On all threads, also where parts of the rows may not be: no bit depends on their number.
            targets = (each for each in beside if each is not None)
            dtype, n_threads = options.get("dtype"), self._threads(step.kernel)
            found = pulled(self, step, x, *targets, dtype=dtype, n_threads=n_threads)
            if found is not None:
                return found
            options["width"] = HOST_ARRAYS * options.get("width", 1)
        return super().map(x, step, *beside, **options)

    def _parts(self, kernel: TileKernel, x: HostRows) -> Iterator[tuple[slice, HostRows]]:
        """Slices of the rows, as they are loaded on their own; those of rows that stay are loaded once."""
        if isinstance(x, NativeRows) and x.n <= PART_ROWS:
            yield slice(0, x.n), x
            return
        kept = x.parts if isinstance(x, NativeRows) and x.width is not None else None
        for i, rows in row_blocks(x.rows, PART_ROWS):
            part = kept.get(i.start) if kept else None
            if part is None:
                part = self.load(rows, kernel, x.dtype, width=x.width)
            if kept is not None and isinstance(part, NativeRows) and isinstance(x, NativeRows):
                part.origin, kept[i.start] = x.origin, part
            yield i, part

    def gram_times(
        self, kernel: TileKernel, x: HostRows, v: Array, *, rough: bool = False
    ) -> Array:
        if isinstance(x, NativeRows) and x.host is None:
            product = Symmetric(x, x.part).times(v, self._threads(kernel), rough=rough)
            # NumPy's tiles are others: where there are parts, all of them have to be NumPy's.
            if x.part != WHOLE or np.isfinite(product).all():
                return product
            self._give_up(kernel, x)
        return super().gram_times(kernel, x.host or x, v, rough=rough)

    def gram(self, kernel: TileKernel, x: HostRows) -> Array:
        if isinstance(x, NativeRows) and x.host is None:
            matrix = Symmetric(x).matrix(self._threads(kernel))
            if _is_finite(matrix):
                return matrix
            self._give_up(kernel, x)
        return super().gram(kernel, x.host or x)

    def _give_up(self, kernel: TileKernel, x: NativeRows) -> None:
        """Values are out of range, which NumPy knows how to reach, or to refuse in words."""
        cutting = HostCutting(width=x.width, sliced=x.sliced, store=x.store)
        x.tiles, x.host = None, super().load(x.rows, kernel, x.dtype, **cutting)


def _is_finite(matrix: Array) -> bool:
    """Whether all entries are; a finite sum of squares has finite terms, and takes no room."""
    quick = matrix.size <= LONE_DOT and math.isfinite(np.vdot(matrix, matrix))
    return quick or bool(np.isfinite(matrix).all())


def why_not(kernel: TileKernel) -> str | None:
    """Why a kernel has no operations, in words, or None."""
    program = program_of(kernel)
    return program if isinstance(program, str) else None


def _why_not_compiled(kernel: TileKernel) -> str | None:
    if compiled() is None:
        return "the compiled library is not there; install mercer where there is a C++ compiler"
    return why_not(kernel)


def _largest(x: Array) -> float:
    """The size of the largest number, or NaN; what is large is looked at on all threads."""

    def largest(i: slice) -> float:
        return float(max(x[i].max(initial=0.0), -x[i].min(initial=0.0)))

    if x.nbytes <= LOOKED_AT:
        return largest(slice(None))
    n_threads = n_blas_threads()
    slices = row_slices(len(x), max(1, -(-len(x) // (4 * n_threads))))
    return float(np.max(parallel_each(largest, slices, n_threads=n_threads), initial=0.0))


def out_of_range(x: Array, program: Program, tiles: str = "compiled tiles") -> str | None:
    """Why squares of these numbers, or distances over a width, would overflow or lose digits; or None."""
    low, high = RANGE
    # Between the largest number and √(nd) times that, by one product: nearly always enough.
    quick = x.size <= LONE_DOT and x.dtype.kind == "f"
    most = math.sqrt(np.vdot(x, x)) if quick else math.inf
    if not low * math.sqrt(x.size) < most < high:
        most = _largest(x)
    if not low < most < high:
        return f"{tiles} take rows of {low:.0e} to {high:.0e} in size, and these are {most:.3g}"
    if not program.sharpest < 1.0 / low:
        return f"a kernel that multiplies squared distances by {program.sharpest:.3g} is too narrow"
    if not program.steepest < STEEPEST:
        return f"a kernel that multiplies a part of itself by {program.steepest:.3g} is too steep"
    return next(filter(None, (_too_large(x, factor) for factor in program.factors)), None)


def _too_large(x: Array, factor: Leaf) -> str | None:
    """Why values of a factor are so large that what has vanished in the other one may count; or None."""
    if x.ndim != 2 or factor.of is None:  # of sparse rows there are no products
        return None
    with np.errstate(all="ignore"):
        own = own_values(factor.of, of_columns(x, factor.columns).astype(np.float64, copy=False))
    most = float(max(own.max(initial=0.0), -own.min(initial=0.0)))
    return None if most < STEEPEST else f"a factor of the kernel is as large as {most:.3g}"
