"""New kernels from old: sums, products, multiples and powers; on some of the columns, or normalised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.params import Constraints, Number, Whole, is_number
from mercer._core.types import Array, Rows
from mercer.engine.formula import Add, Affine, Const, Expr, Mul, On, Pow, Unit
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import written
from mercer.kernels.rows import are_names, named_positions, picked, positions


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
    """c, whatever the points: what ``k + 1.0`` adds.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear() + 1.0
    Linear() + 1.0
    """

    constraints: ClassVar[Constraints] = {"value": Number()}

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def formula(self) -> Expr:
        return Const(float(self.value))

    def why_valid(self) -> str | None:
        return f"it is the product of two numbers √{self.value:g}" if self.value >= 0 else None

    def __repr__(self) -> str:
        return written(self.value)


class Combined(Kernel):
    """A kernel made of others."""

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        return all(child.parallel for child in self.children)

    def why_valid(self) -> str | None:
        parts = [(child, child.why_valid()) for child in self.children]
        if self.proof is None or any(why is None for _, why in parts):
            return None
        return f"{self.proof} [{'; '.join(f'{child!r}: {why}' for child, why in parts)}]"


class _Binary(Combined):
    """Two kernels, side by side."""

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right


class Sum(_Binary):
    """k₁ + k₂: the maps side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF, Linear
    >>> x = np.array([[1.0], [2.0]])
    >>> k = RBF(gamma=1.0) + Linear()
    >>> bool(np.all(k(x) == RBF(gamma=1.0)(x) + Linear()(x)))
    True
    """

    proof = "a sum of kernels is a kernel"

    def formula(self) -> Expr:
        return Add(self.left.tree(), self.right.tree())

    def __repr__(self) -> str:
        left, right, sign = self.left, self.right, "+"
        if isinstance(right, Scale) and written(right.factor) == "-1.0":  # which a - b reads as
            right, sign = right.kernel, "-"
        if isinstance(left, Constant) and isinstance(right, Constant):
            return f"{closed(left)} {sign} {closed(right)}"  # 1 + 2 would read as 3
        # Signs of one rank read from left to right: a + (b + c) needs its bracket.
        return f"{left!r} {sign} {closed(right) if isinstance(right, Sum) else repr(right)}"


class Product(_Binary):
    """k₁ · k₂: every feature of one map times every feature of the other (Schur).

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> RBF(gamma=1.0) * Linear()
    RBF(gamma=1.0) * Linear()
    """

    proof = "a product (Schur) of kernels is a kernel"

    def formula(self) -> Expr:
        return Mul(self.left.tree(), self.right.tree())

    def __repr__(self) -> str:
        return f"{closed(self.left)} * {closed(self.right)}"


class Scale(Combined):
    """c · k.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> 0.5 * Linear()
    0.5 * Linear()
    >>> (0.5 * Linear()).factor
    0.5
    """

    proof = "a non-negative multiple of a kernel is a kernel"
    constraints: ClassVar[Constraints] = {"factor": Number()}

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor

    def formula(self) -> Expr:
        return Affine(self.kernel.tree(), float(self.factor))

    def why_valid(self) -> str | None:
        return super().why_valid() if self.factor >= 0 else None

    def __repr__(self) -> str:
        return f"{written(self.factor)} * {closed(self.kernel)}"


class Power(Combined):
    """k^p.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> float((Linear() ** 3)([[2.0]], [[1.0]])[0, 0])
    8.0
    """

    proof = "a whole power is a product of kernels (Schur)"
    # Only then is a power of a kernel a kernel; 2.0 is whole.
    constraints: ClassVar[Constraints] = {"exponent": Whole(1, floats=True)}

    def __init__(self, kernel: Kernel, exponent: int) -> None:
        self.kernel = kernel
        self.exponent = exponent

    def formula(self) -> Expr:
        return Pow(self.kernel.tree(), int(self.exponent))

    def __repr__(self) -> str:
        return f"{closed(self.kernel)} ** {written(self.exponent)}"


class OnColumns(Combined):
    """k(x[columns], x'[columns]).

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> RBF(gamma=1.0).on([0, 1]) + Linear().on([2])
    RBF(gamma=1.0).on([0, 1]) + Linear().on([2])
    """

    proof = "choosing columns is a map of the points"

    def __init__(
        self, kernel: Kernel, columns: Sequence[int] | Sequence[bool] | Sequence[str]
    ) -> None:
        self.kernel = kernel
        self.columns = columns

    def check_parameters(self) -> None:
        if not are_names(self.columns):
            positions(self.columns)
        super().check_parameters()

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        self.check_parameters()
        inner = self.kernel.resolve(picked(x, self.columns), rng=rng, weights=weights)
        return type(self)(inner, self.columns)

    def formula(self) -> Expr:
        return On(self.kernel.tree(), tuple(self.columns))  # type: ignore[arg-type]  # names wait

    def __repr__(self) -> str:
        return f"{closed(self.kernel)}.on({written(self.columns)})"


def placed(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """The kernel with positions for names of columns; the same object where it names none.

    >>> from mercer.kernels import RBF
    >>> placed(RBF(1.0).on(["pressure"]), ["temperature", "pressure"])
    RBF(gamma=1.0).on([1])
    """
    if not kernel.shape().names_columns:
        return kernel
    own, inner = kernel.get_params(deep=False), names
    if isinstance(kernel, OnColumns):
        if are_names(kernel.columns):
            own["columns"] = named_positions(kernel.columns, names)
        at = positions(own["columns"])
        if names is not None and all(-len(names) <= c < len(names) for c in at):
            inner = [names[c] for c in at]  # of a kernel on columns of these columns
    parts = {name: placed(v, inner) if isinstance(v, Kernel) else v for name, v in own.items()}
    return type(kernel)(**parts)


class Normalised(Combined):
    """k(x, x') / √(k(x, x) k(x', x')), with 0 where k(x, x) = 0.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> float(Linear().normalised()([[3.0, 4.0]], [[30.0, 40.0]])[0, 0])
    1.0
    """

    proof = "scaling each φ(x) to length one leaves a dot product"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def formula(self) -> Expr:
        return Unit(self.kernel.tree())

    def __repr__(self) -> str:
        return f"{closed(self.kernel)}.normalised()"


def closed(kernel: Kernel) -> str:
    """As an operand, in brackets where it needs them; a constant by its name, so that it stays a kernel."""
    if isinstance(kernel, Constant):
        return f"Constant({kernel!r})"
    return f"({kernel!r})" if isinstance(kernel, (Sum, Product, Scale, Power)) else repr(kernel)
