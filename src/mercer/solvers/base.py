"""Eigenpairs, and what a solver promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import numpy as np

from mercer._core.observer import SILENT, Observer
from mercer._core.params import Params
from mercer._core.quick import changed
from mercer._core.types import Array
from mercer._core.wording import Message
from mercer.operators.base import SymmetricOperator

# Numbers this close, relative to the largest, are equal but for rounding: their order is that of their
# places, or another processor would print another answer.
TIE = 1e-6


BOUNDS = ("unseen", "rounding")  # numbers of `EigenPairs` that are added to residuals


class Status(Enum):
    """How a solver ended."""

    CONVERGED = "converged: every residual is within the tolerance."
    MAX_PRODUCTS = Message(
        "stopped at {max_products} before every residual met the tolerance. "
        "Raise {max_products}, loosen {tol}, or use {solver:'lapack'}."
    )
    STOPPED = (
        "stopped early because a callback asked for it. Let it run on, or take the residuals for what "
        "they are."
    )
    REFINED = Message(
        "made the exact passes that were asked for. The residuals say how near the pairs have come: raise "
        "{refine} for more, or use {approximation:None}."
    )
    STAGNATED = (
        "stopped because rounding keeps the residuals above the tolerance. Centre and scale the "
        "columns (StandardScaler), fit in float64, or loosen `tol`."
    )

    @property
    def ok(self) -> bool:
        """Whether the answer is what was asked for."""
        return self in (Status.CONVERGED, Status.REFINED)


@dataclass(frozen=True, repr=False)
class EigenPairs:
    """Eigenvalues (descending), their vectors, and the products that prove them.

    ``products`` is A @ vectors for the operator A: with it the residuals are free. Where a rough operator
    multiplied a part of them, ``unseen`` bounds how far they may be off, from a sample of rows of A (an
    error below a thousandth of what the residual may be is left out). ``rounding`` bounds what no product
    shows: how far rounding has moved the matrix itself, and the pairs in their final precision.
    """

    values: Annotated[Array, "k"]
    vectors: Annotated[Array, "n k"]
    products: Annotated[Array, "n k"]
    n_products: int = 0  # block products with the operator or its rough copy
    status: Status = Status.CONVERGED
    spectrum: Annotated[Array, "s"] | None = None  # all eigenvalues, where the solver saw them
    unseen: Annotated[Array, "k"] | None = None  # how far a product may be off
    rounding: Annotated[Array, "k"] | None = None  # what rounding may add to a residual, times λ₁

    @classmethod
    def largest(
        cls, values: Array, vectors: Array, products: Array, k: int, **facts: Any
    ) -> EigenPairs:
        """The k largest pairs with fixed signs; the only place that sorts."""
        order = np.argsort(-values, kind="stable")[:k]
        for name in BOUNDS:
            if facts.get(name) is not None:
                facts[name] = facts[name][order]
        vectors, products = vectors[:, order], products[:, order]  # copies
        signs = fixed_signs(vectors)
        vectors *= signs
        products *= signs
        return cls(values[order], vectors, products, **facts)

    @property
    def residuals(self) -> Array:
        """‖A u - λ u‖ / λ₁: each eigenvalue is within residual · λ₁ of a true one."""
        residuals = relative_residuals(self.values, self.vectors, self.products)
        for more in (self.unseen, self.rounding):
            if more is not None:
                residuals = residuals + more / largest_size(self.values)
        return residuals

    def here(self) -> EigenPairs:
        """With vectors and products on the host."""
        if isinstance(self.vectors, np.ndarray):
            return self
        return changed(self, vectors=np.asarray(self.vectors), products=np.asarray(self.products))

    def first(self, k: int) -> EigenPairs:
        """The first k of them."""
        if k == len(self.values):
            return self
        parts = {name: getattr(self, name) for name in ("values", "vectors", "products", *BOUNDS)}
        return changed(self, **{n: part[..., :k] for n, part in parts.items() if part is not None})

    def turned(self, signs: Array) -> EigenPairs:
        """Each vector times its sign."""
        if np.all(signs > 0):  # as they are
            return self
        return changed(self, vectors=self.vectors * signs, products=self.products * signs)

    def __getstate__(self) -> dict[str, Any]:  # by its name: skops can't make members of an Enum
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, status=Status[state["status"]])

    def __repr__(self) -> str:
        return f"EigenPairs(k={len(self.values)}, n_products={self.n_products}, {self.status.name})"


def fixed_signs(vectors: Array) -> Array:
    """±1 for each column, so that its largest entry is positive, the first of those equal to a millionth."""
    if vectors.size == 0:
        return np.ones(vectors.shape[1])
    high, low = np.maximum.reduce(vectors, axis=0), -np.minimum.reduce(vectors, axis=0)
    signs, least = np.where(low > high, -1.0, 1.0), (1.0 - TIE) * np.maximum(high, low)
    # Entries of either sign are the largest.
    for j in (np.minimum(high, low) >= least).nonzero()[0]:
        column = np.asarray(vectors[:, j])
        signs[j] = -1.0 if column[np.argmax(np.abs(column) >= least[j])] < 0 else 1.0
    return signs


def largest_size(values: Array) -> float:
    """The largest |λ|, or one where there is none: what residuals are relative to."""
    return float(np.abs(values).max(initial=0.0)) or 1.0


def allowed_residuals(values: Array, tol: float, floor: float = 0.0) -> Array:
    """How large the residual of each pair may be, relative to λ₁; rounding sets the floor."""
    # No more than a thousandth of the pair's own eigenvalue: a component far below the first would pass
    # otherwise without being an eigenvector of anything.
    scale = largest_size(values)
    return np.maximum(np.minimum(tol, 1e-3 * np.abs(values) / scale), floor)


def relative_residuals(values: Array, vectors: Array, products: Array) -> Array:
    """‖A u - λ u‖ / λ₁ of each pair, without overflow or underflow on the way."""
    scale = largest_size(values)
    return np.asarray(np.linalg.norm((products - vectors * values) / scale, axis=0))


class Solver(Params, ABC):
    """Finds the k largest eigenpairs of a symmetric operator.

    Subclasses are dataclasses whose fields are their knobs.
    """

    @abstractmethod
    def __call__(
        self,
        operator: SymmetricOperator,
        k: int,
        *,
        rng: np.random.Generator,
        start: Array | None = None,
        observer: Observer = SILENT,
    ) -> EigenPairs:
        """The k largest eigenpairs of `operator`, made by `EigenPairs.largest`.

        ``operator.rough`` may do most of the work; the answer is proved against ``operator``. ``start``
        holds vectors near the ones sought. ``observer`` sees each product, and may hold the state in
        which an earlier run was cut off.
        """
