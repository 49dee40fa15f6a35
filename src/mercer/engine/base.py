"""The interface between the mathematics and where it is computed: an engine is a handful of verbs.

Only tiles of K are large; vectors are (n, block). So solvers, small eigenproblems and evidence are written
once, in NumPy, and an engine only multiplies by kernel matrices that are never formed, and passes over rows;
it may keep a solver's vectors (`placed`). `NumpyEngine` is the reference that others are tested against.

Matrices that are stored whole (a few thousand rows), explicit maps of rows in memory and the small matrices
of landmarks are on the host as well. Steps of `fold` and `map` are code of the host and get their rows there,
but an engine may do by its own products those whose kind it knows (`engine.steps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack

import numpy as np

from mercer._core.observer import Observer
from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import take_rows
from mercer.engine.formula import Expr
from mercer.engine.tiles import CACHE_BYTES

FLOAT64, FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)

R = TypeVar("R", bound="Resident")
S = TypeVar("S", bound="Mergeable")
S_co = TypeVar("S_co", bound="Mergeable", covariant=True)


class TileKernel(Protocol):
    """What an engine may ask of a kernel, all of whose parameters are numbers."""

    @property
    def parallel(self) -> bool:
        """Whether tiles may be computed on several threads at once."""

    @property
    def shift_invariant(self) -> bool:
        """Whether moving all points by one vector changes no value."""

    def tree(self) -> Expr:
        """The formula, for engines that compute tiles of their own; a leaf `Opaque` where it has none."""

    def tile(self, x: Rows, y: Rows) -> Array:
        """[k(x_i, y_j)] as a new (n, m) array."""

    def tile_diag(self, x: Rows) -> Array:
        """[k(x_i, x_i)] as a new (n,) array."""


@dataclass(frozen=True)
class Workers:
    """Other processes that compute for this one."""

    count: int
    lanes: int  # tiles that all of them make side by side
    least: int = 0  # work on fewer numbers stays in this process
    here_bytes: int = 2**63  # memory that can be taken in this process
    devices: bool = False  # each makes its tiles on a device, one at a time


@dataclass(frozen=True)
class Facts:
    """All that a planner may ask of an engine."""

    name: str
    lanes: int  # tiles that are computed side by side: threads or streams
    # Memory that can be taken now, where the tiles live; None: that of this machine, asked when it is needed.
    free_bytes: int | None
    runs: Callable[[Any], str | None]  # None, or why this kernel can't run here, in words
    cache_bytes: int = CACHE_BYTES  # a tile of this size is computed fastest
    locked: bool = True  # tiles that are computed side by side wait for the interpreter's lock
    panel: int = 1  # rows that are computed together: tiles are as wide as some of them
    precisions: tuple[np.dtype[Any], ...] = (FLOAT32, FLOAT64)
    workers: Workers | None = None  # who makes tiles and reads rows, where that is not this process
    # Half floats a number of which it makes products with a kernel matrix far faster than in float32: one for
    # rough ones, two for ones that are about as good as float32's, 0 for those of this kernel; None: never.
    halves: Callable[[Any], int] | None = None
    # Memory of this process that so many bytes of rows take on their way to where the tiles live; None: none.
    staging: Callable[[int], int] | None = None
    # Tiles live on a device or with workers: `memory` calls the place `name`.
    elsewhere: bool = False


class Resident:
    """Rows where the engine computes, in the precision of their tiles; opaque to all others."""

    def __init__(self, rows: Rows, dtype: Any) -> None:
        self.rows, self.dtype = rows, np.dtype(dtype)
        self.n, self.d = self.shape = int(rows.shape[0]), int(rows.shape[1])

    def take(self, indices: Indices) -> Rows:
        """A few rows on the host, as `TileKernel.tile` and `Engine.load` take them."""
        return take_rows(self.rows, indices).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Rounding:
    """How tiles are rounded for rough products: float32 or, `packed`, 16 bits an entry.

    With `halves` no tile is kept: rough products are made of one half float a number and, where it is two,
    all others of two; `Facts.halves` says of which kernels.
    """

    packed: bool = False
    minus: float = 0.0  # taken off every entry first: entries about zero round to smaller errors
    halves: int = 0


@dataclass(frozen=True)
class TileStore:
    """What is to be kept of the tiles of k(X, X) between products; the engine keeps it with the rows.

    Tiles are kept as they are while they fit in `keep_bytes`, and a kept tile changes no bit of a product.
    With a `rounding` all of them are kept rounded as well, by whichever product computes them first.
    """

    minus: float = 0.0  # a constant taken off every entry: H(K - c11ᵀ)H = HKH
    keep_bytes: int = 0
    rounding: Rounding | None = None

    @property
    def halves(self) -> int:
        """Half floats a number of which products are to be made; 0: these are made of tiles."""
        return 0 if self.rounding is None else self.rounding.halves

    @property
    def of_tiles(self) -> TileStore:
        """For processors, which make no products of half floats; as it is where nothing is said of such."""
        return TileStore(self.minus) if self.halves else self


NOTHING_KEPT = TileStore()


class Mergeable(Protocol):
    """A sum over rows: that of two sets of rows follows from their sums."""

    def merged(self, other: Self, /) -> Self:
        """The sum over both."""


class Step(Protocol[S_co]):
    """Work on one block of rows for `Engine.fold`: a frozen dataclass, so that it pickles to a worker."""

    def __call__(self, rows: Rows, place: slice, /) -> S_co:
        """The sum over these rows, which are those of `place` among all."""


class RowStep(Protocol):
    """Work on one block of rows for `Engine.map`."""

    def __call__(self, rows: Rows, /, *beside: Any) -> Array:
        """One result per row, (b, …); `beside` belong to the same rows."""


class Cutting(TypedDict, total=False):
    """How the rows of `Engine.load` are cut into tiles, and what is kept of these."""

    width: int | None  # of the tiles of k(X, X); None leaves it to the engine
    sliced: bool  # no ready copy of all rows is made, to save memory
    store: TileStore  # what may be kept of the tiles between products


class FoldOptions(TypedDict, total=False):
    """What `Engine.fold` takes beside the step; all but the observer only helps to choose blocks."""

    observer: Observer  # counts rows that are done; it can't stop a pass
    width: int | None  # features made of a row, where the result has width x width numbers
    height: int | None  # rows of a block that a caller has planned for
    parallel: bool  # steps may run at the same time


class MapOptions(TypedDict, total=False):
    """What `Engine.map` takes beside the step; all but the precision only helps to choose blocks."""

    dtype: Any  # the precision that steps get the rows in, by default their own
    width: int  # numbers that are made of a row
    parallel: bool  # steps may run at the same time


class Engine(Protocol[R]):
    """Where kernel matrices are multiplied and rows are passed over.

    Six verbs, and four which an engine that inherits from this class gets: `gram` from `gram_times`, `tile`
    from `times`, and `settle` and `placed`, which do nothing.
    """

    def __sklearn_clone__(self) -> Self:
        """Itself: clones of an estimator compute in the same place, and share what an engine holds there."""
        return self

    def facts(self) -> Facts:
        """What it is, how wide, and what it can run."""

    @property
    def tile_bytes(self) -> int:
        """The size of a tile that is made fastest in steps of `map`; no worker is asked for it."""
        return CACHE_BYTES

    def settle(self, x: Rows) -> Rows:
        """The rows of a fit, from where they will be read many times."""
        return x

    def load(
        self, x: Rows, kernel: TileKernel, dtype: np.dtype[Any], **cutting: Unpack[Cutting]
    ) -> R:
        """The rows where the engine computes, for tiles of this kernel in this precision."""

    def placed(self, x: R, v: Array) -> Array:  # (n, k)
        """Vectors of a solver, where products of these rows with them are made.

        The products are then there as well, and a solver goes on with what it gets as with arrays: see
        `mercer.engine.thin.RemoteVectors`.
        """
        del x
        return v

    def times(
        self, kernel: TileKernel, x: R, z: R, v: Array
    ) -> Array:  # (n, d), (m, d), (m, k) -> (n, k)
        """k(X, Z) @ V as a new array; the matrix is never formed, and X may be in a file."""

    def gram_times(
        self, kernel: TileKernel, x: R, v: Array, *, rough: bool = False
    ) -> Array:  # (n, k) -> (n, k)
        """k(X, X) @ V in the dtype of V, less the constant of the store; ``rough``: with rounded tiles."""

    def gram(self, kernel: TileKernel, x: R) -> Array:
        """k(X, X) itself, less that constant, as a new array: for solvers that want all of it."""
        return self.gram_times(kernel, x, np.eye(x.n, dtype=x.dtype))

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:  # (b, d), (m, d) -> (b, m)
        """k(X, Z) itself, of a block of rows on the host, as a new array: for steps that want all of it."""
        rows, points = (self.load(each, kernel, x.dtype) for each in (x, z))
        return self.times(kernel, rows, points, np.eye(points.n, dtype=x.dtype))

    def fold(self, x: Rows | R, step: Step[S], **options: Unpack[FoldOptions]) -> S:
        """The results of `step` on blocks of rows, merged in the order of the rows.

        No observer can stop a pass, since half of the rows are not the model of any data set.

        Steps whose kind it knows (`SquareSections`, `SquareFeatures`, `ExplainSections`) an engine may do by
        products of its own.
        """

    def map(
        self, x: Rows | R, step: RowStep, *beside: Array | None, **options: Unpack[MapOptions]
    ) -> Array:  # (n, …)
        """The results of ``step(rows, *beside)`` on blocks of rows, in the order of the rows.

        ``beside`` are arrays with a row for each row of x (or None, for none), cut at the same places. Steps
        that an engine may know: `FeatureProduct`, `FeatureErrors`, `SlopeSums`, `AxisSlopes`, `FixedPoints`.
        """
