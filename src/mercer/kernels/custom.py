"""Kernels from outside: a Python function, a scikit-learn Gaussian-process kernel, a matrix."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from mercer._core.errors import KernelError
from mercer._core.params import Constraints, OneOf
from mercer._core.types import Array, Rows
from mercer.data.rows import take_rows
from mercer.engine.pairwise import dense
from mercer.kernels.base import Kernel


class Custom(Kernel):
    """Any Python function of two points, or of two matrices of points.

    Parameters
    ----------
    function : callable
        ``f(x, y) -> number`` for two points, or ``f(X, Y) -> (n, m) array`` for two matrices. The
        second is far faster. Points are 1-D arrays. Matrices of sparse rows are of the kind that the model
        was fitted to, `scipy.sparse.csr_matrix` or `csr_array`: ``*`` means another thing to each.
    form : {"auto", "points", "matrices"}, default="auto"
        ``"auto"`` tries two small matrices of unequal height and sees what comes back.

    Notes
    -----
    An exact fit keeps K, where it fits into memory. It asks for each pair of rows once, or for (x, y) and
    (y, x) where both lie in one tile of the diagonal; for each row with itself twice; for all pairs of up to
    twelve rows again, which show whether the function is symmetric; and once for its form. `transform` asks
    for each pair of a new row and a training row once. An approximation asks anew on each of its passes,
    and so may call the function more often than an exact fit.

    Points are numbers. Things that are none, such as texts or graphs, have a matrix:
    ``[[f(a, b) for b in things] for a in things]`` with ``kernel="precomputed"``.

    Examples
    --------
    >>> Custom(lambda x, y: float(min(x[0], y[0])))([[1.0], [2.0]])
    array([[1., 1.],
           [1., 2.]])
    """

    parallel: ClassVar[bool] = False
    constraints: ClassVar[Constraints] = {"form": OneOf(("auto", "points", "matrices"))}
    _spmatrix: bool = False  # whether sparse rows are a csr_matrix to the function

    def __init__(self, function: Callable[[Any, Any], Any], form: str = "auto") -> None:
        self.function = function
        self.form = form

    @property
    def is_data_dependent(self) -> bool:
        """Whether the function's form has still to be found out."""
        return self.form == "auto"

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        del rng, weights
        self.check_parameters()
        again = type(self)(self.function, self.form)
        again._spmatrix = self._spmatrix or isinstance(x, sparse.spmatrix)
        if self.form == "auto":
            again.form = again._detect(x)
        return again

    def _detect(self, x: Rows) -> str:
        # Heights that differ from each other and from d: no accident of broadcasting or of matrix
        # multiplication gives the right shape.
        height = 3 if x.shape[1] != 3 else 4
        left, right = (take_rows(x, np.arange(m) % x.shape[0]) for m in (2, height))
        try:
            value = self._on_matrices(left, right)
            shape = np.shape(value) if not sparse.issparse(value) else value.shape
        except Exception:  # a function of points may fail in any way on matrices
            return "points"
        if shape != (2, height) and len(shape) == 2:
            points = dense(left)
            try:  # a function of points may also take matrices, and give what it likes
                self.function(points[0], points[1])
            except Exception as error:
                raise self._wrong_shape(shape, (2, height)) from error
        return "matrices" if shape == (2, height) else "points"

    def _returned(self, what: str) -> KernelError:
        return KernelError(f"The kernel function {_name(self.function)} returned {what}")

    def _wrong_shape(self, found: tuple[int, ...], needed: tuple[int, ...]) -> KernelError:
        return self._returned(
            f"an array of shape {found} for {needed[0]} and {needed[1]} points, but must return one of "
            f"shape {needed}: one value for each pair."
        )

    def _on_matrices(self, x: Rows, y: Rows) -> Any:
        """What the function returns for rows of the kind that it knows."""
        if self._spmatrix:
            x, y = (sparse.csr_matrix(rows) if sparse.issparse(rows) else rows for rows in (x, y))
        return self.function(x, y)

    def tile(self, x: Rows, y: Rows) -> Array:
        if self.form == "matrices":
            tile = self._numbers(self._on_matrices(x, y))
            shape = (x.shape[0], y.shape[0])
            if tile.shape != shape:
                raise self._wrong_shape(tile.shape, shape)
            with np.errstate(over="ignore"):  # reported below
                tile = np.array(tile, dtype=x.dtype)  # a copy, which may be changed
        else:
            x, y = dense(x), dense(y)
            tile = np.empty((len(x), len(y)), dtype=x.dtype)
            for i, x_i in enumerate(x):
                for j, y_j in enumerate(y):
                    tile[i, j] = self._value(x_i, y_j)
        return self._finite(tile)

    def tile_diag(self, x: Rows) -> Array:
        if self.form == "matrices":
            rows = (x[i : i + 1] for i in range(x.shape[0]))
            return np.concatenate([np.zeros(0, x.dtype), *(self.tile(r, r)[0] for r in rows)])
        values = [self._value(row, row) for row in dense(x)]
        return self._finite(np.array(values, dtype=x.dtype))

    def _value(self, x: Array, y: Array) -> float:
        value = self._numbers(self.function(x, y))
        if value.size != 1:
            what = (
                f"an array of shape {value.shape} for two points, but must return one number. A function "
                "of two matrices must return an (n, m) array for n and m points."
            )
            raise self._returned(what)
        return float(value.item())

    def _numbers(self, value: Any) -> Array:
        """What the function returned, as real numbers."""
        if value is None:
            what = (
                "None. A kernel needs a number for every pair of points: does the function end in a "
                "return statement?"
            )
            raise self._returned(what)
        try:
            found = np.asarray(value.toarray() if sparse.issparse(value) else value)
            if found.dtype.kind == "O" and all(isinstance(v, (Real, Decimal)) for v in found.flat):
                found = found.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            what = f"what is not an array of numbers: {error}."
            raise self._returned(what) from error
        if found.dtype.kind in "biuf":
            return found
        first = found.flat[0] if found.size else value
        what = (
            f"{first!r}, of type {type(first).__name__}. A kernel needs a real number for every pair of "
            "points."
        )
        if found.dtype.kind == "c":
            what = (
                f"complex numbers ({found.dtype}); real ones are needed. Return the real part if the "
                "imaginary one is rounding only."
            )
        raise self._returned(what)

    def _finite(self, values: Array) -> Array:
        if not np.all(np.isfinite(values)):
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            what = (
                f"{values[where]} (first at position {where} of a tile). A kernel needs a finite value "
                "for every pair of points."
            )
            raise self._returned(what)
        return values

    def __repr__(self) -> str:
        return f"Custom({_name(self.function)})"


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


class GaussianProcess(Kernel):
    """A kernel of ``sklearn.gaussian_process.kernels``, as it is.

    The noise of a ``WhiteKernel`` sits on the diagonal of the training matrix only, since it is a
    point's own and shared with no other. Rows that are transformed count as other points, the training
    rows among them: ``transform(X)`` differs from ``fit_transform(X)`` by that noise.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF as Theirs
    >>> from mercer import KernelPCA
    >>> model = KernelPCA(1, kernel=Theirs(2.0)).fit([[0.0], [1.0], [3.0]])
    >>> model.kernel_
    GaussianProcess(RBF(length_scale=2))
    """

    parallel: ClassVar[bool] = False

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        del x, rng, weights
        self.check_parameters()
        return type(self)(deepcopy(self.kernel))  # the caller may change the other

    def tile(self, x: Rows, y: Rows) -> Array:
        # With Y given, WhiteKernel means "other points": the noise sits on the diagonal alone, which
        # `tile_diag` and the diagonal of the Gram matrix supply.
        return np.asarray(self.kernel(_no_sparse(x), _no_sparse(y))).astype(x.dtype)

    def tile_diag(self, x: Rows) -> Array:
        return np.asarray(self.kernel.diag(_no_sparse(x))).astype(x.dtype)

    def why_valid(self) -> str | None:
        why = "it is built from covariance functions of Gaussian processes by sums and products"
        return why if _is_covariance(self.kernel) else None

    def __repr__(self) -> str:
        return f"GaussianProcess({self.kernel!r})"


# `ExpSineSquared` is missing on purpose: of ‖x - x'‖ it is a covariance in one dimension only. So is
# `PairwiseKernel`, which may hold anything.
_COVARIANCES = {"ConstantKernel", "DotProduct", "Matern", "RBF", "RationalQuadratic", "WhiteKernel"}


def _is_covariance(kernel: Any) -> bool:
    name = type(kernel).__name__
    if not type(kernel).__module__.startswith("sklearn.gaussian_process"):
        return False  # another class of the same name: nothing is known about it
    if name in ("Sum", "Product"):
        return _is_covariance(kernel.k1) and _is_covariance(kernel.k2)
    if name == "Exponentiation":
        whole = float(kernel.exponent).is_integer() and kernel.exponent >= 0
        return whole and _is_covariance(kernel.kernel)
    # Variances, widths and ν must not be negative, and scikit-learn does not refuse that.
    params = kernel.get_params(deep=False).items()
    signed = [value for name, value in params if not name.endswith("_bounds")]
    return name in _COVARIANCES and all(np.all(np.asarray(value) >= 0) for value in signed)


def _no_sparse(x: Rows) -> Rows:
    if sparse.issparse(x):
        msg = "A Gaussian-process kernel needs dense rows; got a sparse matrix. Use X.toarray()."
        raise KernelError(msg)
    return x


class Precomputed(Kernel):
    """The rows are kernel values already: K at fit, k(x, training points) at transform.

    Examples
    --------
    >>> from mercer import KernelPCA
    >>> K = [[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]]
    >>> model = KernelPCA(1, kernel="precomputed").fit(K)
    >>> model.transform([[2.0, 1.0, 0.0]]).shape
    (1, 1)
    """

    is_precomputed: ClassVar[bool] = True

    def tile(self, x: Rows, y: Rows) -> Array:
        del y
        return np.array(dense(x))

    def tile_diag(self, x: Rows) -> Array:
        return np.array(x.diagonal())
