"""New kernels from old: sums, products, multiples and powers."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from mercer._core.errors import KernelError
from mercer.kernels.base import Kernel
from mercer.kernels.formula import Add, Affine, Const, Expr, Mul, Pow
from mercer.kernels.parameters import finite, is_whole


def is_number(value: Any) -> bool:
    """Whether the value scales a kernel (2.0 * k) rather than multiplies it (k1 * k2)."""
    return isinstance(value, (Real, np.number)) and not isinstance(value, bool)


def operand(value: Any) -> Kernel:
    """What a new kernel may be made of; a number is a constant kernel."""
    from mercer.kernels.names import as_kernel

    kernel = Constant(value) if is_number(value) else as_kernel(value)
    if kernel.is_precomputed:
        msg = (
            "A precomputed kernel can't be combined or changed: its rows are kernel values, not "
            "points. Add, scale or normalise the matrices instead, and pass the result as precomputed."
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

    def formula(self) -> Expr:
        return Const(float(self.value))

    def why_valid(self) -> str | None:
        """A constant c ≥ 0 is the product of two numbers √c."""
        return f"it is the product of two numbers √{self.value:g}" if self.value >= 0 else None

    def __repr__(self) -> str:
        return f"{self.value!r}"


class Combined(Kernel):
    """A kernel made of others."""

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether all parts may run on threads."""
        return all(child.parallel for child in self.children)


class _Binary(Combined):
    """Two kernels, side by side."""

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def _both_valid(self, name: str) -> str | None:
        left, right = self.left.why_valid(), self.right.why_valid()
        if left is None or right is None:
            return None
        return f"{name} of kernels is a kernel [{self.left!r}: {left}; {self.right!r}: {right}]"


class Sum(_Binary):
    """k₁ + k₂: the maps side by side."""

    def formula(self) -> Expr:
        return Add(self.left.tree(), self.right.tree())

    def why_valid(self) -> str | None:
        """A sum of kernels is a kernel."""
        return self._both_valid("a sum")

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


class Product(_Binary):
    """k₁ · k₂: every feature of one map times every feature of the other (Schur)."""

    def formula(self) -> Expr:
        return Mul(self.left.tree(), self.right.tree())

    def why_valid(self) -> str | None:
        """A product of kernels is a kernel (Schur)."""
        return self._both_valid("a product (Schur)")

    def __repr__(self) -> str:
        return f"{bracketed(self.left)} * {bracketed(self.right)}"


class Unary(Combined):
    """One kernel, changed."""

    kernel: Kernel

    def _inner_valid(self, why: str) -> str | None:
        inner = self.kernel.why_valid()
        return None if inner is None else f"{why} [{self.kernel!r}: {inner}]"


class Scale(Unary):
    """c · k."""

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor

    def check_parameters(self) -> None:
        """The factor is finite."""
        finite("factor", self.factor, kernel="Scale")
        super().check_parameters()

    def formula(self) -> Expr:
        return Affine(self.kernel.tree(), float(self.factor))

    def why_valid(self) -> str | None:
        """A non-negative multiple of a kernel is a kernel."""
        if self.factor < 0:
            return None
        return self._inner_valid("a non-negative multiple of a kernel is a kernel")

    def __repr__(self) -> str:
        return f"{self.factor!r} * {bracketed(self.kernel)}"


class Power(Unary):
    """k^p."""

    def __init__(self, kernel: Kernel, exponent: int) -> None:
        self.kernel = kernel
        self.exponent = exponent

    def check_parameters(self) -> None:
        """The exponent is a positive whole number: only then is a power of a kernel a kernel."""
        if not is_whole(self.exponent):
            msg = f"k ** p needs a whole p ≥ 1, but p={self.exponent!r} came."
            raise KernelError(msg)
        super().check_parameters()

    def formula(self) -> Expr:
        return Pow(self.kernel.tree(), int(self.exponent))

    def why_valid(self) -> str | None:
        """A whole power is a product of kernels."""
        return self._inner_valid("a whole power is a product of kernels (Schur)")

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)} ** {self.exponent!r}"


def bracketed(kernel: Kernel) -> str:
    """The kernel's text, in brackets where it would otherwise be read wrongly."""
    return f"({kernel!r})" if isinstance(kernel, (Sum, Product, Scale, Power)) else repr(kernel)
