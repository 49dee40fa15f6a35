"""New kernels from old: sums, products, multiples, powers, columns, normalisation."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer.kernels.base import Kernel, finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Rows
    from mercer.kernels.feature_map import FeatureMap


def is_number(value: Any) -> bool:
    """Whether the value scales a kernel (2.0 * k) rather than multiplies it (k1 * k2)."""
    return isinstance(value, (Real, np.number)) and not isinstance(value, bool)


def operand(value: Any) -> Kernel:
    """What stands beside a kernel in a sum or product: a number is a constant kernel."""
    from mercer.kernels.names import as_kernel

    kernel = Constant(value) if is_number(value) else as_kernel(value)
    if kernel.is_precomputed:
        msg = (
            "A precomputed kernel can't be combined with another: its rows are kernel values, not "
            "points. Add the matrices instead, and pass the result as precomputed."
        )
        raise KernelError(msg)
    return kernel


class Constant(Kernel):
    """c, whatever the points: what ``k + 1.0`` adds."""

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def check_parameters(self) -> None:
        """The value is finite."""
        finite("value", self.value, kernel="Constant")

    @property
    def shift_invariant(self) -> bool:
        """Yes: the points do not enter at all."""
        return True

    def tile(self, x: Rows, y: Rows) -> Array:
        return np.full((x.shape[0], y.shape[0]), self.value, dtype=x.dtype)

    def tile_diag(self, x: Rows) -> Array:
        return np.full(x.shape[0], self.value, dtype=x.dtype)

    def why_valid(self) -> str | None:
        """A constant c ≥ 0 is the product of two numbers √c."""
        return f"it is the product of two numbers √{self.value:g}" if self.value >= 0 else None

    def map_dimension(self, d: int) -> int | None:
        """One column."""
        del d
        return 1 if self.value >= 0 else None

    def feature_map(self, d: int) -> FeatureMap:
        """One column of √c."""
        if self.value < 0:
            return super().feature_map(d)
        from mercer.kernels.feature_map import PolynomialMap

        return PolynomialMap(d, 0, gamma=1.0, coef0=1.0).scaled(float(self.value))

    def __repr__(self) -> str:
        return f"{self.value!r}"


class _Binary(Kernel):
    """Two kernels, side by side."""

    symbol: str

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether both parts may run on threads."""
        return self.left.parallel and self.right.parallel

    def _both_valid(self, name: str) -> str | None:
        left, right = self.left.why_valid(), self.right.why_valid()
        if left is None or right is None:
            return None
        return f"{name} of kernels is a kernel [{self.left!r}: {left}; {self.right!r}: {right}]"

    def _maps(self, d: int) -> tuple[FeatureMap, FeatureMap]:
        return self.left.feature_map(d), self.right.feature_map(d)


class Sum(_Binary):
    """k₁ + k₂: the maps side by side."""

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = self.left.tile(x, y)
        tile += self.right.tile(x, y)
        return tile

    def tile_diag(self, x: Rows) -> Array:
        return self.left.tile_diag(x) + self.right.tile_diag(x)

    def why_valid(self) -> str | None:
        """A sum of kernels is a kernel."""
        return self._both_valid("a sum")

    def map_dimension(self, d: int) -> int | None:
        """Columns of both."""
        left, right = self.left.map_dimension(d), self.right.map_dimension(d)
        return None if left is None or right is None else left + right

    def feature_map(self, d: int) -> FeatureMap:
        """The two maps side by side."""
        from mercer.kernels.feature_map import SumMap

        return SumMap(*self._maps(d))

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


class Product(_Binary):
    """k₁ · k₂: every feature of one map times every feature of the other (Schur)."""

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = self.left.tile(x, y)
        tile *= self.right.tile(x, y)
        return tile

    def tile_diag(self, x: Rows) -> Array:
        return self.left.tile_diag(x) * self.right.tile_diag(x)

    def why_valid(self) -> str | None:
        """A product of kernels is a kernel (Schur)."""
        return self._both_valid("a product (Schur)")

    def map_dimension(self, d: int) -> int | None:
        """Columns of one times columns of the other."""
        left, right = self.left.map_dimension(d), self.right.map_dimension(d)
        return None if left is None or right is None else left * right

    def feature_map(self, d: int) -> FeatureMap:
        """All products of a feature of one with a feature of the other."""
        from mercer.kernels.feature_map import ProductMap

        return ProductMap(*self._maps(d))

    def __repr__(self) -> str:
        return f"{bracketed(self.left)} * {bracketed(self.right)}"


class _Unary(Kernel):
    """One kernel, changed."""

    kernel: Kernel

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether the kernel inside may run on threads."""
        return self.kernel.parallel

    def _inner_valid(self, why: str) -> str | None:
        inner = self.kernel.why_valid()
        return None if inner is None else f"{why} [{self.kernel!r}: {inner}]"


class Scale(_Unary):
    """c · k."""

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor

    def check_parameters(self) -> None:
        """The factor is finite."""
        finite("factor", self.factor, kernel="Scale")
        super().check_parameters()

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = self.kernel.tile(x, y)
        tile *= float(self.factor)
        return tile

    def tile_diag(self, x: Rows) -> Array:
        diag = self.kernel.tile_diag(x)
        diag *= float(self.factor)
        return diag

    def why_valid(self) -> str | None:
        """A non-negative multiple of a kernel is a kernel."""
        if self.factor < 0:
            return None
        return self._inner_valid("a non-negative multiple of a kernel is a kernel")

    def map_dimension(self, d: int) -> int | None:
        """As before scaling."""
        return self.kernel.map_dimension(d) if self.factor >= 0 else None

    def feature_map(self, d: int) -> FeatureMap:
        """The map times √c."""
        if self.factor < 0:
            return super().feature_map(d)
        return self.kernel.feature_map(d).scaled(float(self.factor))

    def __repr__(self) -> str:
        return f"{self.factor!r} * {bracketed(self.kernel)}"


class Power(_Unary):
    """k^p."""

    def __init__(self, kernel: Kernel, exponent: int) -> None:
        self.kernel = kernel
        self.exponent = exponent

    def check_parameters(self) -> None:
        """The exponent is a positive whole number: only then is a power of a kernel a kernel."""
        if not is_number(self.exponent) or self.exponent != int(self.exponent) or self.exponent < 1:
            msg = f"k ** p needs a whole p ≥ 1, but p={self.exponent!r} came."
            raise KernelError(msg)
        super().check_parameters()

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = self.kernel.tile(x, y)
        return np.power(tile, int(self.exponent), out=tile)

    def tile_diag(self, x: Rows) -> Array:
        diag = self.kernel.tile_diag(x)
        return np.power(diag, int(self.exponent), out=diag)

    def why_valid(self) -> str | None:
        """A whole power is a product of kernels."""
        return self._inner_valid("a whole power is a product of kernels (Schur)")

    def map_dimension(self, d: int) -> int | None:
        """Distinct products of p features of the inner map."""
        self.check_parameters()
        inner = self.kernel.map_dimension(d)
        if inner is None:
            return None
        from mercer.kernels.feature_map import n_monomials

        return n_monomials(inner, int(self.exponent), homogeneous=True)

    def feature_map(self, d: int) -> FeatureMap:
        """The homogeneous polynomial map of the inner features."""
        from mercer.kernels.feature_map import PolynomialMap

        self.check_parameters()
        inner = self.kernel.feature_map(d)
        return PolynomialMap(inner.dimension, int(self.exponent), gamma=1.0, coef0=0.0).after(inner)

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)} ** {self.exponent!r}"


class OnColumns(_Unary):
    """k(x[columns], x'[columns])."""

    def __init__(self, kernel: Kernel, columns: Sequence[int]) -> None:
        self.kernel = kernel
        self.columns = columns

    def _pick(self, x: Rows) -> Rows:
        columns = list(self.columns)
        d = x.shape[1]
        outside = [c for c in columns if not -d <= c < d]
        if outside or not columns:
            msg = (
                f"A kernel on columns {columns} was asked for, but the data have {d} columns "
                f"(0 to {d - 1}). Name at least one of those."
            )
            raise InputError(msg)
        return x[:, columns]

    def check_rows(self, x: Rows) -> None:
        """The columns exist."""
        self.kernel.check_rows(self._pick(x))

    def resolve(self, x: Rows, *, rng: np.random.Generator) -> Self:
        """A copy whose kernel is resolved on its own columns."""
        self.check_parameters()
        return type(self)(self.kernel.resolve(self._pick(x), rng=rng), self.columns)

    def tile(self, x: Rows, y: Rows) -> Array:
        return self.kernel.tile(self._pick(x), self._pick(y))

    def tile_diag(self, x: Rows) -> Array:
        return self.kernel.tile_diag(self._pick(x))

    def why_valid(self) -> str | None:
        """Dropping columns is a map of the points."""
        return self._inner_valid("choosing columns is a map of the points")

    def map_dimension(self, d: int) -> int | None:
        """That of the kernel on its columns."""
        del d
        return self.kernel.map_dimension(len(list(self.columns)))

    def feature_map(self, d: int) -> FeatureMap:
        """The map of the kernel on its columns."""
        from mercer.kernels.feature_map import ColumnsMap

        columns = list(self.columns)
        return self.kernel.feature_map(len(columns)).after(ColumnsMap(d, columns))

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.on({list(self.columns)!r})"


class Normalised(_Unary):
    """k(x, x') / √(k(x, x) k(x', x')), with 0 where k(x, x) = 0."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def _inverse_lengths(self, x: Rows) -> Array:
        lengths = self.kernel.tile_diag(x)
        if np.any(lengths < 0):
            msg = (
                f"{self.kernel!r} has k(x, x) = {lengths.min():.3g} < 0 on these data, so it is no kernel "
                "and can't be normalised. `mercer.check_kernel` shows a witness."
            )
            raise KernelError(msg)
        np.sqrt(lengths, out=lengths)
        return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = self.kernel.tile(x, y)
        tile *= self._inverse_lengths(x)[:, None]
        tile *= self._inverse_lengths(y)[None, :]
        return tile

    def tile_diag(self, x: Rows) -> Array:
        return (self._inverse_lengths(x) > 0).astype(x.dtype)

    def why_valid(self) -> str | None:
        """Scaling each φ(x) to length one keeps dot products dot products."""
        return self._inner_valid("scaling each φ(x) to length one leaves a dot product")

    def map_dimension(self, d: int) -> int | None:
        """As before."""
        return self.kernel.map_dimension(d)

    def feature_map(self, d: int) -> FeatureMap:
        """The map, each row scaled to length one."""
        from mercer.kernels.feature_map import UnitMap

        return UnitMap(self.kernel.feature_map(d))

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.normalised()"


def bracketed(kernel: Kernel) -> str:
    """The kernel's text, in brackets where it would otherwise be read wrongly."""
    return f"({kernel!r})" if isinstance(kernel, (Sum, Product, Scale, Power)) else repr(kernel)
