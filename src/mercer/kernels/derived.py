"""One kernel, seen differently: on some of the columns, or normalised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mercer.kernels.algebra import Combined, closed
from mercer.kernels.formula import Expr, On, Unit
from mercer.kernels.parameters import written
from mercer.kernels.rows import picked, positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel


class OnColumns(Combined):
    """k(x[columns], x'[columns])."""

    proof = "choosing columns is a map of the points"

    def __init__(self, kernel: Kernel, columns: Sequence[int] | Sequence[bool]) -> None:
        self.kernel = kernel
        self.columns = columns

    def check_parameters(self) -> None:
        """The columns are positions or a mask."""
        positions(self.columns)
        super().check_parameters()

    def resolve(self, x: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> Self:
        """A copy whose kernel is resolved on its own columns."""
        self.check_parameters()
        inner = self.kernel.resolve(picked(x, self.columns), rng=rng, weights=weights)
        return type(self)(inner, self.columns)

    def formula(self) -> Expr:
        return On(self.kernel.tree(), tuple(self.columns))

    def __repr__(self) -> str:
        return f"{closed(self.kernel)}.on({written(self.columns)})"


class Normalised(Combined):
    """k(x, x') / √(k(x, x) k(x', x')), with 0 where k(x, x) = 0."""

    proof = "scaling each φ(x) to length one leaves a dot product"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def formula(self) -> Expr:
        return Unit(self.kernel.tree())

    def __repr__(self) -> str:
        return f"{closed(self.kernel)}.normalised()"
