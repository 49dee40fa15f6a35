"""The Gram matrix of rows: stored, or never formed and multiplied by an engine tile by tile."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mercer._core.types import Array, Indices, Rows
from mercer.engine.base import FLOAT32, NOTHING_KEPT, Engine, TileStore
from mercer.engine.thin import times
from mercer.kernels.base import Kernel
from mercer.operators.base import SymmetricOperator

# Up to these a product takes less time than the choice of how to make it.
FEW_ROWS = 128


@dataclass(repr=False, eq=False)
class StoredGram(SymmetricOperator):
    """K in memory. Vectors are rounded to its precision: float32 takes half of the space and the time."""

    matrix: Array  # (n, n)
    n_threads: int = 1
    minus: float = 0.0  # a constant that was taken off every entry
    rough: SymmetricOperator | None = None

    def __post_init__(self) -> None:
        self.n, self.dtype = len(self.matrix), self.matrix.dtype
        self.eps = float(np.finfo(self.dtype).eps)  # the rounding of a stored entry
        self._diag: Array | None = None

    def matmat(self, v: Array) -> Array:
        rounded = np.ascontiguousarray(v, dtype=self.dtype)
        product: Array
        if self.n <= FEW_ROWS:
            product = self.matrix @ rounded
        else:
            product = times(self.matrix, rounded, n_threads=self.n_threads)
        return product.astype(v.dtype, copy=False)

    def among(self, indices: Indices) -> StoredGram:
        return StoredGram(self.matrix[np.ix_(indices, indices)], self.n_threads, self.minus)

    def rows(self, indices: Indices, v: Array) -> Array:
        return self.matrix[indices] @ v.astype(self.dtype, copy=False)

    def diag(self) -> Array:
        if self._diag is None:  # a fit asks for it four times
            self._diag = np.diagonal(self.matrix) + np.asarray(self.minus, dtype=self.dtype)
        return self._diag

    def cross(self, indices: Indices, v: Array) -> Array:
        """K[:, indices] @ v, read as rows: they lie together in memory, columns do not."""
        return self.matrix[indices].T @ v.astype(self.dtype, copy=False)

    def block(self, indices: Indices) -> Array:
        return self.matrix.take(indices, axis=0).take(indices, axis=1)

    def dense(self) -> Array:
        return self.matrix.copy()

    def unprojected(self) -> tuple[Array, Array]:
        return self.matrix.astype(np.float64, copy=False), np.empty((0, self.n))

    def __repr__(self) -> str:
        return f"StoredGram({self.n} x {self.n}, {self.dtype})"


class Gram(SymmetricOperator):
    """K = [k(x_i, x_j)], less a constant where its store has one.

    With a store that rounds, the first product is exact and fills the store on the way; products with `rough`
    then use the rounded tiles.
    """

    is_rough = False  # whether products come from the rounded tiles of the store

    def __init__(
        self,
        engine: Engine[Any],
        kernel: Kernel,  # resolved
        x: Rows,  # checked: an array, a CSR matrix or a `RowSource`
        store: TileStore = NOTHING_KEPT,  # what is kept of the tiles between products
        *,
        dtype: Any = None,  # of the tiles; by default that of the rows
        width: int | None = None,  # of the tiles; by default that which the engine computes fastest
        sliced: bool = False,  # make rows ready in each product again, slice by slice
        rough: SymmetricOperator | None = None,  # a cheaper one, where the store does not round
        exact: SymmetricOperator | None = None,  # in full precision, where tiles are of half floats
    ) -> None:
        self.engine, self.kernel = engine, kernel
        self.dtype: np.dtype[Any] = np.dtype(x.dtype if dtype is None else dtype)
        self.x = engine.load(x, kernel, self.dtype, width=width, sliced=sliced, store=store)
        self.n, self.eps = self.x.n, float(np.finfo(self.dtype).eps)
        self.store, self.minus, self.rough, self.exact = store, store.minus, rough, exact
        self._diag: Array | None = None
        if exact is not None:
            self.eps = float(np.finfo(FLOAT32).eps)
        if store.rounding is not None:
            # A view of the same matrix, multiplied from the rounded tiles of the store. A tile that is not
            # there yet is made in full precision.
            view, of_halves = copy(self), bool(store.halves)
            view.is_rough, view.exact = True, None
            view.eps = float(np.finfo(np.float16 if of_halves else FLOAT32).eps)
            view.minus += store.rounding.minus
            self.rough, self.fills_rough = view, not of_halves or exact is not None

    def matmat(self, v: Array) -> Array:
        """(K - c) v."""
        return self.engine.gram_times(self.kernel, self.x, v, rough=self.is_rough)

    def placed(self, v: Array) -> Array:
        return self.engine.placed(self.x, v)

    def rows(self, indices: Indices, v: Array) -> Array:
        """((K - c) v)[indices], from tiles that are made for it."""
        rounded = v.astype(self.dtype, order="C", copy=False)
        product = self.engine.times(self.kernel, self._some(indices), self.x, rounded)
        return product - self.minus * rounded.sum(axis=0)

    def cross(self, indices: Indices, v: Array) -> Array:
        """(K - c)[:, indices] @ v."""
        rounded = v.astype(self.dtype, order="C", copy=False)
        store = self.store if self.is_rough else NOTHING_KEPT
        product = self.engine.times(self.kernel, self.x, self._some(indices, store), rounded)
        product -= self.minus * rounded.sum(axis=0)
        return product

    def _some(self, indices: Indices, store: TileStore = NOTHING_KEPT) -> Any:
        return self.engine.load(self.x.take(indices), self.kernel, self.dtype, store=store)

    def among(self, indices: Indices) -> Gram:
        """(K - c)[indices][:, indices] as an operator."""
        few = Gram(self.engine, self.kernel, self.x.take(indices), self.store, dtype=self.dtype)
        return cast("Gram", few.rough) if self.is_rough else few

    def block(self, indices: Indices) -> Array:
        """(K - c)[indices][:, indices]."""
        chosen = self.x.take(indices)
        return self.kernel.tile(chosen, chosen) - self.minus

    def diag(self) -> Array:
        kernel = self.kernel
        if self._diag is None and kernel.shift_invariant:  # that of one row is that of all
            first = self.x.take(np.zeros(1, dtype=np.intp))
            self._diag = np.repeat(kernel.tile_diag(first), self.n)
        if self._diag is None:  # rows may have to be read for it
            self._diag = self.engine.map(self.x, kernel.tile_diag, parallel=kernel.parallel)
        return self._diag

    def dense(self) -> Array:
        """K - c as a new array."""
        matrix = self.engine.gram(self.kernel, self.x)
        if self.is_rough:
            matrix -= self.minus - self.store.minus
        return matrix

    def stored(self, n_threads: int = 1) -> StoredGram:
        """The same operator with the whole matrix in memory, multiplied on so many threads."""
        return StoredGram(self.dense(), n_threads, self.minus)

    def __repr__(self) -> str:
        rough = ", rough" if self.is_rough else ""
        return f"Gram({self.kernel!r}, n={self.n}, {self.dtype}, {self.store!r}{rough})"
