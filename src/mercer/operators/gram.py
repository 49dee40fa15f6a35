"""The Gram matrix of rows: never formed, multiplied by an engine tile by tile."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mercer.engine.base import FLOAT32, NOTHING_KEPT
from mercer.operators.base import SymmetricOperator
from mercer.operators.dense import StoredGram

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.engine.base import Engine, TileStore
    from mercer.kernels.base import Kernel


class Gram(SymmetricOperator):
    """K = [k(x_i, x_j)], less a constant where its store has one.

    With a store that rounds, the first product is exact and fills the store on the way; products with `rough`
    then use the rounded tiles.

    Parameters
    ----------
    engine : Engine
        Makes and multiplies the tiles.
    kernel : Kernel
        Resolved.
    x : rows
        Checked: an array, a CSR matrix or a `RowSource`.
    store : TileStore, optional
        What is kept of the tiles between products; by default nothing.
    dtype : dtype, optional
        Precision of the tiles; by default that of the rows.
    width : int, optional
        Width of the tiles; by default that which the engine computes fastest.
    sliced : bool, default=False
        Make rows ready slice by slice, in each product again, instead of holding a ready copy.
    rough : SymmetricOperator, optional
        A cheaper operator of its own, where the store does not round.
    exact : SymmetricOperator, optional
        The same in full precision, where the store asks for products of two half floats a number.
    """

    is_rough = False  # whether products come from the rounded tiles of the store

    def __init__(
        self,
        engine: Engine[Any],
        kernel: Kernel,
        x: Rows,
        store: TileStore = NOTHING_KEPT,
        *,
        dtype: Any = None,
        width: int | None = None,
        sliced: bool = False,
        rough: SymmetricOperator | None = None,
        exact: SymmetricOperator | None = None,
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
            # The same matrix, multiplied from the rounded tiles of the store: a view, which holds nothing
            # itself. A tile that is not there yet is made in full precision, and nothing else is rounded.
            view, of_halves = copy(self), store.rounding.halves > 0
            view.is_rough, view.exact = True, None
            view.eps = float(np.finfo(np.float16 if of_halves else FLOAT32).eps)
            view.minus += store.rounding.minus
            self.rough, self.fills_rough = view, not of_halves or exact is not None

    def matmat(self, v: Array) -> Array:
        """(K - c) v."""
        return self.engine.gram_times(self.kernel, self.x, v, rough=self.is_rough)

    def placed(self, v: Array) -> Array:
        """Where the engine has vectors."""
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
        """The diagonal of K."""
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
