"""The kernel contract: a symmetric function of two points, evaluated tile by tile."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, KernelError, NoFiniteMapError
from mercer._core.floating import steady
from mercer._core.params import meant
from mercer._core.spelling import spelled
from mercer.data.frames import frame_package, frame_rows, held
from mercer.data.intake import admitted
from mercer.data.rounding import warn_rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Rows
    from mercer.kernels.feature_map import FeatureMap
    from mercer.kernels.scaled import Scaled


class Kernel(ABC):
    """A symmetric function k(x, x') of two points.

    ``k(X, Y)`` is the door: it takes lists and arrays, checks them, and lets parameters such as
    ``gamma="median"`` be read off the data it is given. Inside the library a kernel is first made
    concrete with `resolve`, and then only `tile` and `tile_diag` are called: pure mathematics on
    rows that somebody else has checked.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        spelled(cls)

    # Tiles of a kernel written in NumPy may run side by side; those of a user's function may not.
    parallel: ClassVar[bool] = True

    # ── mathematics on one tile ─────────────────────────────────────────────
    @abstractmethod
    def tile(self, x: Rows, y: Rows) -> Array:
        """[k(x_i, y_j)] for checked rows, as a new (n, m) array of their dtype."""

    @abstractmethod
    def tile_diag(self, x: Rows) -> Array:
        """[k(x_i, x_i)] for checked rows, as a new (n,) array of their dtype."""

    def scaled(self, x: Rows, y: Rows | None = None) -> Scaled:
        """[k(x_i, y_j)], or [k(x_i, x_i)] without y, also where such values would be out of range."""
        from mercer.kernels.scaled import Scaled

        own = self.tile_diag(x)
        return (
            Scaled.of(own, own) if y is None else Scaled.of(self.tile(x, y), own, self.tile_diag(y))
        )

    # ── derivatives ─────────────────────────────────────────────────────────
    @property
    def differentiable(self) -> bool:
        """Whether `tile_slope` is known: k has a derivative in x, but for kinks here and there."""
        return bool(self.children) and all(child.differentiable for child in self.children)

    def tile_slope(
        self, x: Rows, y: Rows, weights: Array
    ) -> Array:  # (n, d), (m, d), (n, m) -> (n, d)
        """Σ_j w_ij ∂k(x_i, y_j)/∂x_i: all that a gradient of sums of kernel values is made of.

        Weighted sums rather than the (n, m, d) derivatives: kernels are combined by changing the
        weights, and nothing larger than a tile is ever held.
        """
        del x, y, weights
        raise KernelError(self._no_slope)

    def diag_slope(self, x: Rows) -> Array:  # (n, d) -> (n, d)
        """∂k(x, x)/∂x, both arguments moving."""
        del x
        raise KernelError(self._no_slope)

    @property
    def _no_slope(self) -> str:
        return (
            f"{self!r} has no derivative that is known here. Kernels of distances and dot products (RBF, "
            "Matern, RationalQuadratic, Laplacian, Linear, Polynomial, Sigmoid, Cosine, Chi2) and their "
            "sums and products have one."
        )

    # ── the door ────────────────────────────────────────────────────────────
    @steady
    def __call__(self, X: Any, Y: Any = None) -> Array:
        """The (n, m) matrix of k(x_i, y_j); ``Y=None`` means X itself.

        Parameters that depend on data (``gamma="median"``) are read off X, and off X and Y together
        when both are given, so that ``k(X, Y)`` is the transpose of ``k(Y, X)``.
        """
        x = as_rows(X)
        y = x if Y is None else as_rows(Y)
        if x.shape[1] != y.shape[1] and not self.is_precomputed:
            msg = (
                f"k(X, Y) needs rows of one width, but X has {x.shape[1]} columns and Y has "
                f"{y.shape[1]}. Give both the same features in the same order."
            )
            raise KernelError(msg)
        x, y = _common_dtype(x, y)
        kernel = self
        if self.is_data_dependent or (isinstance(X, sparse.spmatrix) and not self.parallel):
            pool = x if Y is None or self.is_precomputed else _stack(x, y)
            kernel = self.resolve(as_given(X, pool), rng=np.random.default_rng(0))
        else:
            self.check_parameters()
        kernel.check_rows(x)
        kernel.check_rows(y)
        tile = kernel.tile(x, y)
        if Y is None and not self.is_precomputed:
            np.fill_diagonal(tile, kernel.tile_diag(x))  # exact, where distances only nearly cancel
        return tile

    @steady
    def diag(self, X: Any) -> Array:
        """[k(x_i, x_i)], without the matrix around it."""
        x = as_rows(X)
        kernel = self.resolve(x, rng=np.random.default_rng(0)) if self.is_data_dependent else self
        kernel.check_parameters()
        kernel.check_rows(x)
        return kernel.tile_diag(x)

    # ── parameters ──────────────────────────────────────────────────────────
    @classmethod
    def _param_names(cls) -> tuple[str, ...]:
        return _constructor_names(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; those of kernels inside as ``outer__inner``."""
        params: dict[str, Any] = {name: getattr(self, name) for name in self._param_names()}
        if deep:
            for name, value in list(params.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    inner = value.get_params()
                    params.update({f"{name}__{key}": inner[key] for key in inner})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, ``left__gamma=2`` reaching into a sum."""
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in self._param_names():
                msg = f"{type(self).__name__} has no parameter {name!r}. {meant(name, self.get_params())}"
                raise KernelError(msg)
            if rest:
                inner = getattr(self, name)
                if not hasattr(inner, "set_params"):
                    msg = f"{key} can't be set: {name}={inner!r} of {type(self).__name__} has no parameters."
                    raise KernelError(msg)
                inner.set_params(**{rest: value})
            else:
                setattr(self, name, value)
        return self

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same class and has the same parameters, kernels inside included.

        The parameters as given: ``RBF(sigma=1.0)`` and ``RBF(0.5)`` have the same values, but are not equal,
        and two functions are the same only where they are one object.
        """
        if not isinstance(other, Kernel):
            return NotImplemented
        if type(self) is not type(other):
            return False
        return all(_same(getattr(self, name), getattr(other, name)) for name in self._param_names())

    def __hash__(self) -> int:
        """That of the class: parameters can be set, and a hash must not change."""
        return hash(type(self))

    @property
    def children(self) -> list[Kernel]:
        """The kernels that this one is made of."""
        own = (getattr(self, name) for name in self._param_names())
        return [value for value in own if isinstance(value, Kernel)]

    @property
    def is_precomputed(self) -> bool:
        """Whether the rows are kernel values already."""
        return False

    @property
    def positive_only(self) -> bool:
        """Whether rows may hold no negative entry."""
        return any(child.positive_only for child in self.children)

    @property
    def shift_invariant(self) -> bool:
        """Whether moving all points by one vector changes no value."""
        return bool(self.children) and all(child.shift_invariant for child in self.children)

    @property
    def is_data_dependent(self) -> bool:
        """Whether a parameter still has to be read off the data."""
        return any(child.is_data_dependent for child in self.children)

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy with every parameter a number, checked and read off the rows `x`.

        A row of weight w counts as w rows, so whole weights give what repeated rows give.
        """
        self.check_parameters()
        params = {
            name: value.resolve(x, rng=rng, weights=weights) if isinstance(value, Kernel) else value
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**params)

    def check_parameters(self) -> None:
        """Raise a `KernelError` when a parameter has an impossible value."""
        for child in self.children:
            child.check_parameters()

    def check_rows(self, x: Rows) -> None:
        """Raise an `InputError` when the kernel is not defined on these rows."""
        for child in self.children:
            child.check_rows(x)

    # ── what is known about it ──────────────────────────────────────────────
    def why_valid(self) -> str | None:
        """Why every data set gives a positive semi-definite matrix; None where that is not known."""
        return None

    def feature_map(self, d: int) -> FeatureMap:
        """The explicit φ with φ(x)·φ(x') = k(x, x') on `d` features, where it has finite dimension."""
        msg = (
            f"{self!r} has no explicit feature map of finite dimension for {d} features. "
            "Polynomial and Linear kernels, and their sums and products, have one."
        )
        raise NoFiniteMapError(msg)

    def map_dimension(self, d: int) -> int | None:
        """Number of columns of `feature_map(d)` without building it; None when there is no map."""
        del d
        return None

    # ── algebra ─────────────────────────────────────────────────────────────
    def __add__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Sum, operand

        return Sum(operand(self), operand(other))

    def __radd__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Sum, operand

        return Sum(operand(other), operand(self))

    def __sub__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Scale, Sum, operand

        return Sum(operand(self), Scale(operand(other), -1.0))

    def __neg__(self) -> Kernel:
        from mercer.kernels.algebra import Scale, operand

        return Scale(operand(self), -1.0)

    def __mul__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Product, Scale, is_number, operand

        left = operand(self)
        return Scale(left, other) if is_number(other) else Product(left, operand(other))

    def __rmul__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Product, Scale, is_number, operand

        right = operand(self)
        return Scale(right, other) if is_number(other) else Product(operand(other), right)

    def __pow__(self, exponent: int) -> Kernel:
        from mercer.kernels.algebra import Power, operand

        return Power(operand(self), exponent)

    def on(self, columns: Sequence[int] | Sequence[bool]) -> Kernel:
        """This kernel, looking at some of the columns only: their positions, or a mask of all."""
        from mercer.kernels.algebra import operand
        from mercer.kernels.derived import OnColumns

        return OnColumns(operand(self), columns)

    def normalised(self) -> Kernel:
        """k(x, x') / √(k(x, x) k(x', x')): every point gets length one in feature space."""
        from mercer.kernels.algebra import operand
        from mercer.kernels.derived import Normalised

        return Normalised(operand(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self._shown_params().items())
        return f"{type(self).__name__}({shown})"

    def _shown_params(self) -> dict[str, Any]:
        return {k: _plain(v) for k, v in self.get_params(deep=False).items()}


@cache  # a signature takes longer to read than a small tile to compute
def _constructor_names(kind: type) -> tuple[str, ...]:
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def _same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are the same; sequences and arrays entry by entry."""
    if a is b:
        return True
    if isinstance(a, (list, tuple, np.ndarray)) and isinstance(b, (list, tuple, np.ndarray)):
        a, b = np.asarray(a), np.asarray(b)
        # A mask of columns is not a list of positions, though True == 1.
        return (a.dtype.kind == "b") == (b.dtype.kind == "b") and np.array_equal(a, b)
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # an object whose comparison has no single answer
        return False


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def as_rows(X: Any) -> Rows:
    """A two-dimensional floating array (or CSR matrix) from whatever a caller hands over."""
    X = held(X)
    if frame_package(X) == "pyarrow":
        X, _ = frame_rows(X, None, what="X")
    X = admitted(X)
    x = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if x.dtype.kind == "c":
        msg = f"Complex data ({x.dtype}) came; real numbers were needed. Use X.real, or stack both parts."
        raise InputError(msg)
    if x.ndim != 2:
        msg = (
            f"Rows of points were needed, a 2-D array, but a {x.ndim}-D array of shape {x.shape} came. "
            "Use X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one point."
        )
        raise InputError(msg)
    if x.dtype not in (np.float32, np.float64):
        warn_rounded(X)
        try:
            with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
                x = x.astype(np.float64)
        except (TypeError, ValueError) as error:
            msg = f"Numbers were needed, but the array has dtype {x.dtype}: {error}."
            raise InputError(msg) from error
    return x


def as_given(X: Any, rows: Rows) -> Rows:
    """The rows of X as X is: a csr_matrix where it was a sparse matrix of the old kind."""
    return sparse.csr_matrix(rows) if isinstance(X, sparse.spmatrix) else rows


def _common_dtype(x: Rows, y: Rows) -> tuple[Rows, Rows]:
    dtype = np.result_type(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def _stack(x: Rows, y: Rows) -> Rows:
    if sparse.issparse(x) or sparse.issparse(y):
        return sparse.csr_array(sparse.vstack([x, y]))
    return np.concatenate([x, y])


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of Python's has no largest: 10**400 is no float
        return False


def is_whole(value: Any) -> bool:
    """Whether a number is 1, 2, 3, …, and no more than a float can hold."""
    return _is_finite(value) and value >= 1 and value % 1 == 0


def positive(name: str, value: Any, *, kernel: str, hint: str = "") -> None:
    """Raise unless `value` is a positive finite number."""
    if not _is_finite(value) or value <= 0:
        msg = f"{kernel} needs {name} > 0, but {name}={value!r} came. Give a positive number{hint}."
        raise KernelError(msg)


def finite(name: str, value: Any, *, kernel: str) -> None:
    """Raise unless `value` is a finite number."""
    if not _is_finite(value):
        msg = f"{kernel} needs a finite number {name}, but {name}={value!r} came."
        raise KernelError(msg)
