"""The kernel contract: a symmetric function of two points, evaluated tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, KernelError, NoFiniteMapError
from mercer._core.params import Constraints, is_number, meant, require
from mercer._core.public import public
from mercer._core.types import Array, Rows
from mercer.engine.formula import Expr, On, Opaque, Pair, remembered
from mercer.kernels.bandwidth import GAMMA, LENGTH, is_rule, width_from
from mercer.kernels.evaluate import complete, values
from mercer.kernels.map_base import FeatureMap
from mercer.kernels.parameters import constructor_names, same, written
from mercer.kernels.rows import as_given, as_rows, picked, require_counts, shared_names, stacked
from mercer.kernels.slopes import slope

# Kernels by the name of their class: all that have a formula of their own, wherever they are written.
FORMULAS: dict[str, type[Kernel]] = {}


class Kernel:
    """A symmetric function k(x, x') of two points.

    ``k(X, Y)`` takes lists and arrays, checks them, and reads parameters such as ``gamma="median"``
    off the data. Inside the library a kernel is made concrete with `resolve`, and only `tile` and
    `tile_diag` are called, on rows that have been checked.

    A subclass needs a constructor and a `formula`, from which all else follows, or a `tile` and a
    `tile_diag` where it has no formula.
    """

    # Tiles of a kernel written in NumPy may run side by side; those of a user's function may not.
    parallel: ClassVar[bool] = True
    is_precomputed: ClassVar[bool] = False  # whether the rows are kernel values already
    # Why it is a kernel, whatever its parameters; see `why_valid`.
    proof: ClassVar[str | None] = None
    rules: ClassVar[tuple[str, ...]] = ()  # positive numbers, or rules to read them off the data
    constraints: ClassVar[Constraints] = {}  # what the other parameters may be

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        public(cls)
        own = vars(cls)
        if not {"formula", "tile", "tile_diag"}.isdisjoint(own) and "why_valid" not in own:
            cls.proof = own.get("proof")  # that of the class above is for another function
            if cls.proof is None:
                cls.why_valid = Kernel.why_valid  # type: ignore[method-assign]
        if "formula" in own:
            cls._inherited = own["formula"]  # type: ignore[method-assign]
            for name in {"tile", "tile_diag"}.difference(own):  # they are of another function, too
                setattr(cls, name, vars(Kernel)[name])
            held = FORMULAS.setdefault(cls.__name__, cls)
            if not held.__module__.startswith("mercer."):  # a name of mercer's own stays that
                FORMULAS[cls.__name__] = cls
        elif "tile" in own or "tile_diag" in own:
            # What `super().tile` computes is the formula of the class above.
            cls.formula = Kernel.formula  # type: ignore[method-assign]

    # ── mathematics on one tile ─────────────────────────────────────────────
    def formula(self) -> Expr | None:
        """The kernel as a formula of distances and dot products; None where it has none."""
        return None

    def _inherited(self) -> Expr:
        """The formula of the class, or of the nearest one above it that has any."""
        msg = f"{type(self).__name__} needs a formula, or a tile and a tile_diag; it has neither."
        raise NotImplementedError(msg)

    def tree(self) -> Expr:
        """The formula, or the kernel itself as its only leaf."""
        return remembered(self, lambda: self.formula() or Opaque(self), "tree")

    def shape(self) -> Expr:
        """The tree, with 1 for every width that still waits for data; raises on impossible parameters."""
        return remembered(self, self._checked_tree, "shape")

    def _checked_tree(self) -> Expr:
        self.check_parameters()
        return self._assumed().tree() if self.is_data_dependent else self.tree()

    def _assumed(self) -> Kernel:
        params = self.get_params(deep=False)
        for name, value in params.items():
            if isinstance(value, Kernel):
                params[name] = value._assumed()
            elif name in self.rules and is_rule(value):
                params[name] = 1.0
        return type(self)(**params) if self.rules or self.children else self

    def tile(self, x: Rows, y: Rows) -> Array:
        """[k(x_i, y_j)] for checked rows, as a new (n, m) array of their dtype."""
        return values(remembered(self, self._inherited, "own"), x, y)

    def tile_diag(self, x: Rows) -> Array:
        """[k(x_i, x_i)] for checked rows, as a new (n,) array of their dtype."""
        return values(remembered(self, self._inherited, "own"), x)

    # ── derivatives ─────────────────────────────────────────────────────────
    @property
    def differentiable(self) -> bool:
        """Whether `tile_slope` is known: k has a derivative in x, but for kinks here and there."""
        return self.shape().differentiable

    # (n, d), (m, d), (n, m) -> (n, d)
    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        """Σ_j w_ij ∂k(x_i, y_j)/∂x_i: weighted sums, so that nothing larger than a tile is held."""
        return slope(self.tree(), x, y, weights)

    def diag_slope(self, x: Rows) -> Array:  # (n, d) -> (n, d)
        """∂k(x, x)/∂x, both arguments moving."""
        return slope(self.tree(), x, None, np.ones(x.shape[0], dtype=x.dtype))

    # ── the door ────────────────────────────────────────────────────────────
    @public
    def __call__(self, X: Any, Y: Any = None) -> Array:
        """The (n, m) matrix of k(x_i, y_j); ``Y=None`` means X itself.

        Rules such as ``gamma="median"`` are read off X and Y together: ``k(X, Y)`` is ``k(Y, X).T``.
        ``k(X)`` of a kernel with a formula is symmetric to the last digit.
        """
        kernel, x = _placed(self, X, Y), as_rows(X)
        y = x if Y is None else as_rows(Y)
        d, other = x.shape[1], y.shape[1]
        if d != other and not self.is_precomputed:
            msg = f"X and Y must have the same number of columns; got {d} and {other}."
            raise KernelError(msg)
        dtype = np.result_type(x.dtype, y.dtype)
        x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
        if self.is_data_dependent or (isinstance(X, sparse.spmatrix) and not self.parallel):
            pool = x if Y is None or self.is_precomputed else stacked(x, y)
            kernel = kernel.resolve(as_given(X, pool), rng=np.random.default_rng(0))
        else:
            kernel.check_parameters()
        kernel.check_rows(x)
        kernel.check_rows(y)
        tile = kernel.tile(x, y)
        if Y is None and not self.is_precomputed:
            complete(tile, kernel.tree(), kernel.tile_diag(x))
        return tile

    @public
    def diag(self, X: Any) -> Array:
        """[k(x_i, x_i)], without the matrix around it."""
        x, kernel = as_rows(X), _placed(self, X)
        if self.is_data_dependent:
            kernel = kernel.resolve(x, rng=np.random.default_rng(0))
        kernel.check_parameters()
        kernel.check_rows(x)
        return kernel.tile_diag(x)

    # ── parameters ──────────────────────────────────────────────────────────
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; those of kernels inside as ``outer__inner``."""
        params = {name: getattr(self, name) for name in constructor_names(type(self))}
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
            if name not in constructor_names(type(self)):
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
        """Whether the other has the same class and, as they were given, the same parameters.

        ``RBF(sigma=1.0)`` and ``RBF(0.5)`` are not equal, and a function equals only itself.
        """
        if not isinstance(other, Kernel):
            return NotImplemented
        if type(self) is not type(other):
            return False
        names = constructor_names(type(self))
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash(type(self))  # parameters can be set, and a hash must not change

    @property
    def children(self) -> list[Kernel]:
        """The kernels that this one is made of."""
        return [v for v in self.get_params(deep=False).values() if isinstance(v, Kernel)]

    @property
    def is_linear(self) -> bool:
        """Whether it is x·x' itself: kernel PCA with it is PCA of the rows."""
        return self.shape() == Pair("dot")

    @property
    def looks_at_rows(self) -> bool:
        """Whether some rows can't be used: those without a column that it names, for example."""
        tree = self.shape()
        own = [self, *(node.kernel for node in tree.walk() if isinstance(node, Opaque))]
        if any(type(kernel).check_rows is not Kernel.check_rows for kernel in own):
            return True
        return tree.counts_only or any(isinstance(node, On) for node in tree.walk())

    @property
    def positive_only(self) -> bool:
        """Whether rows may hold no negative entry."""
        return self.shape().counts_only

    @property
    def shift_invariant(self) -> bool:
        """Whether moving all points by one vector changes no value."""
        return self.shape().shift_invariant

    @property
    def is_data_dependent(self) -> bool:
        """Whether a parameter still has to be read off the data."""
        waiting = any(is_rule(getattr(self, name)) for name in self.rules)
        return waiting or any(child.is_data_dependent for child in self.children)

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy with every parameter a number, checked and read off the rows `x`.

        A row of weight w counts as w rows, so whole weights give what repeated rows give.
        """
        self.check_parameters()
        params = self.get_params(deep=False)
        for name, value in params.items():
            if isinstance(value, Kernel):
                params[name] = value.resolve(x, rng=rng, weights=weights)
            elif name in self.rules and is_rule(value):
                params[name] = width_from(value, name, self.shape(), x, rng=rng, weights=weights)
        return type(self)(**params)

    def check_parameters(self) -> None:
        """Raise a `KernelError` when a parameter has an impossible value."""
        own = type(self).__name__
        for name in (*self.constraints, *self.rules):
            constraint = self.constraints.get(name, GAMMA if name == "gamma" else LENGTH)
            require(name, getattr(self, name), constraint, of=own, error=KernelError)
        for child in self.children:
            child.check_parameters()

    def check_rows(self, x: Rows) -> None:
        """Raise an `InputError` when the kernel is not defined on these rows."""
        todo: list[tuple[Expr, Rows]] = [(self.shape(), x)]
        for node, rows in todo:  # which grows meanwhile
            seen = rows
            if isinstance(node, Pair) and node.kind == "chi2":
                require_counts(rows)
            elif isinstance(node, On):
                seen = picked(rows, node.columns)
            elif isinstance(node, Opaque) and node.kernel is not self:
                node.kernel.check_rows(rows)  # and those that it is made of
                continue
            todo += zip(node.parts, repeat(seen))

    # ── what is known about it ──────────────────────────────────────────────
    def why_valid(self) -> str | None:
        """Why every data set gives a positive semi-definite matrix; None where that is not known."""
        return self.proof

    def feature_map(self, d: int) -> FeatureMap:
        """The explicit φ with φ(x)·φ(x') = k(x, x') on `d` features, where it has finite dimension."""
        from mercer.kernels.feature_map import map_of

        self.check_parameters()
        if not isinstance(self.shape(), Opaque):
            with suppress(NoFiniteMapError):
                map_of(self.shape(), d)  # a width changes nothing about that
                return map_of(self.tree(), d)
        for child in self.children:
            if child.map_dimension(d) is None:
                return child.feature_map(d)  # which says why not
        msg = (
            f"{self!r} has no explicit feature map of finite dimension for {d} features. "
            "Polynomial and Linear kernels, and their sums and products, have one."
        )
        if self.shift_invariant:
            msg = (
                f"The feature map of {self!r} is infinite-dimensional (for {d} features as for any "
                "number): it can't be written down, but every product φ(x)·φ(x') is the kernel value. "
                "Polynomial(p).feature_map(d) is finite."
            )
        raise NoFiniteMapError(msg)

    def map_dimension(self, d: int) -> int | None:
        """The number of columns of `feature_map(d)`, which is not made; None when there is no map."""
        tree = self.shape()
        if isinstance(tree, Opaque) or tree.has("sqdist", "l1", "chi2"):
            return None  # that of a function of distances has no end
        from mercer.kernels.feature_map import map_of

        try:
            return map_of(tree, d).dimension
        except (NoFiniteMapError, InputError):  # none, or its coefficients are out of range
            return None

    # ── algebra ─────────────────────────────────────────────────────────────
    def __add__(self, other: Any) -> Kernel:
        return _made("Sum", self, other)

    def __radd__(self, other: Any) -> Kernel:
        return _made("Sum", other, self)

    def __sub__(self, other: Any) -> Kernel:
        return _made("Sum", self, _made("Scale", other, number=-1.0))

    def __rsub__(self, other: Any) -> Kernel:
        return _made("Sum", other, -self)

    def __neg__(self) -> Kernel:
        return _made("Scale", self, number=-1.0)

    def __mul__(self, other: Any) -> Kernel:
        return _made("Product", self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return _made("Product", other, self)

    def __pow__(self, exponent: int) -> Kernel:
        return _made("Power", self, number=exponent)

    def on(self, columns: Sequence[int] | Sequence[bool] | Sequence[str]) -> Kernel:
        """This kernel on some of the columns: their positions, their names in a data frame, or a mask."""
        return _made("OnColumns", self, number=columns)

    def normalised(self) -> Kernel:
        """k(x, x') / √(k(x, x) k(x', x')): every point gets length one in feature space."""
        return _made("Normalised", self)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={written(v)}" for k, v in self._shown_params().items())
        return f"{type(self).__name__}({shown})"

    def _shown_params(self) -> dict[str, Any]:
        return self.get_params(deep=False)


def _made(name: str, *parts: Any, **number: Any) -> Kernel:
    """A new kernel of old ones, which are kernels, names of kernels or numbers."""
    from mercer.kernels.algebra import operand

    if name == "Product" and any(map(is_number, parts)):  # a number scales a kernel
        other, factor = sorted(parts, key=is_number)
        return _made("Scale", other, factor=factor)
    return FORMULAS[name](*map(operand, parts), *number.values())


def _placed(kernel: Kernel, X: Any, Y: Any = None) -> Kernel:
    """The kernel with positions for names of columns, which X and Y have in one order."""
    from mercer.kernels.algebra import placed

    return placed(kernel, shared_names(X, Y)) if kernel.shape().names_columns else kernel
