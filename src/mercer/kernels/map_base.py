"""The contract of an explicit feature map: φ with φ(x)·φ(x') = k(x, x'), to be called and printed.

Inside, a map works on the transpose: features are the rows of a (d, b) block of b points, so that
each column of the result is made by multiplying contiguous vectors. The result is handed out as the
transpose of such an array, hence in Fortran order.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError
from mercer._core.params import Number
from mercer._core.public import public
from mercer.data.intake import admitted
from mercer.data.rows import row_slices
from mercer.engine.pairwise import dense
from mercer.kernels.monomials import feature
from mercer.kernels.rows import as_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercer._core.types import Array
    from mercer.kernels.monomials import Term

# A row of so many float64 columns takes 40 MB: whoever asks for it means the kernel, not the map.
MAX_COLUMNS = 5_000_000
# Bounds what is held besides the result. Blocks small enough for a cache are slower, not faster:
# each touches a page of every column.
BLOCK_ROWS = 16_384


class FeatureMap(ABC):
    """φ: R^d → R^D, a finite list of functions of the features.

    Called with (n, d) rows, dense or sparse, it gives a new (n, D) array of their dtype (float32
    stays float32, any other number becomes float64).
    """

    @property
    @abstractmethod
    def n_features(self) -> int:
        """d, the number of columns it takes."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D, the number of columns it gives."""

    @abstractmethod
    def _fill(self, x: Array, out: Array) -> None:
        """Write φ of the points x, a (d, b) block, to out, a (D, b) block."""

    @abstractmethod
    def _slope(self, x: Array, weights: Array) -> Array:  # (d, b), (D, b) -> (d, b)
        """Σ_j w_j ∂φ_j/∂x of each point."""

    @abstractmethod
    def _terms(self, inputs: Sequence[Term]) -> Iterator[Term]:
        """The D columns in writing, when the d features are written as `inputs`."""

    @public
    def __call__(self, X: Any) -> Array:
        """[φ(x_i)], an (n, D) array; X is not changed."""
        X = admitted(X)
        x = sparse.csr_array(X) if sparse.issparse(X) and X.ndim == 2 else as_rows(dense(X))
        if x.shape[1] != self.n_features:
            msg = (
                f"This feature map needs {self.n_features} columns, but {x.shape[1]} came. Make it "
                f"with `kernel.feature_map({x.shape[1]})`, or give the features it was made for."
            )
            raise InputError(msg)
        self._check_size()
        dtype = as_rows(dense(x[:0])).dtype
        out = np.empty((self.dimension, x.shape[0]), dtype=dtype)
        for rows in row_slices(x.shape[0], BLOCK_ROWS):
            points = np.ascontiguousarray(as_rows(dense(x[rows])).T)  # (d, b)
            self._fill(points, out[:, rows])
        return out.T

    def slope(self, x: Array, weights: Array) -> Array:  # (n, d), (n, D) -> (n, d)
        """Σ_j w_ij ∂φ_j(x_i)/∂x_i of checked rows."""
        out = np.empty(x.shape, dtype=np.result_type(x.dtype, weights.dtype))
        for rows in row_slices(x.shape[0], BLOCK_ROWS):
            points = np.ascontiguousarray(dense(x[rows]).T)
            out[rows] = self._slope(points, np.ascontiguousarray(weights[rows].T)).T
        return out

    @property
    def names(self) -> list[str]:
        """The columns as text, such as ``√6 f1 f2``."""
        return [term.text for term in self._columns]

    @property
    def latex(self) -> list[str]:
        r"""The columns as LaTeX, such as ``\sqrt{6}\,f_1 f_2``."""
        return [term.latex for term in self._columns]

    def scaled(self, factor: float) -> FeatureMap:
        """√factor · φ, the map of factor · k."""
        from mercer.kernels.map_algebra import ScaledMap

        return self if factor == 1 else ScaledMap(self, factor)

    def after(self, inner: FeatureMap) -> FeatureMap:
        """φ(inner(x)): `inner` is applied first."""
        from mercer.kernels.feature_map import IdentityMap
        from mercer.kernels.map_algebra import ComposedMap

        same = isinstance(inner, IdentityMap) and inner.d == self.n_features
        return self if same else ComposedMap(self, inner)

    def __str__(self) -> str:
        inputs = [f"f{j + 1}" for j in range(min(self.n_features, 4))]
        if self.n_features > 4:
            inputs[2:] = ["…", f"f{self.n_features}"]
        self._check_size()
        first = itertools.islice(self._terms(self._features), 15)
        columns = ", ".join(term.text for term in first)
        rest = f", …: {self.dimension} columns" if self.dimension > 15 else ""
        return f"φ({', '.join(inputs)}) = ({columns}{rest})"

    @property
    def _features(self) -> list[Term]:
        return [feature(j) for j in range(self.n_features)]

    @cached_property
    def _columns(self) -> tuple[Term, ...]:
        return self._written(self._features)

    def _written(self, inputs: Sequence[Term]) -> tuple[Term, ...]:
        self._check_size()
        return tuple(self._terms(inputs))

    def _values(self, x: Array) -> Array:  # (d, b) -> (D, b)
        self._check_size()
        out = np.empty((self.dimension, x.shape[1]), dtype=x.dtype)
        self._fill(x, out)
        return out

    def _check_size(self) -> None:
        if self.dimension > MAX_COLUMNS:
            count = f"{self.dimension:,}" if self.dimension < 10**15 else "more than 10¹⁵"
            msg = (
                f"This feature map of {self.n_features} features has {count} columns; at most "
                f"{MAX_COLUMNS:,} are ever written out. Use the kernel itself, which needs none of "
                "them, or a lower degree."
            )
            raise InputError(msg)


# φ holds the square root of a factor.
NOT_NEGATIVE = Number(0, ends="[)")
