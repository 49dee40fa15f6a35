"""A low-rank factor of a kernel matrix, and what an approximation promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from mercer._core.errors import KernelError
from mercer._core.observer import Observer
from mercer._core.params import Constraints, Params, Whole
from mercer._core.types import Array, Indices, Rows
from mercer._core.wording import Message
from mercer.approximations.landmarks import core_matrix, entry_error, whitening
from mercer.engine.resolve import AUTO
from mercer.engine.steps import Whitened
from mercer.kernels.base import Kernel
from mercer.operators.sections import KernelSections, Sections


@dataclass(frozen=True, repr=False)
class LowRank:
    """K ≈ F Fᵀ with F = sections(X) @ whiten, computed a slice of rows at a time and never stored.

    With landmarks Z, sections(x) = k(x, Z) and W Wᵀ = k(Z, Z)⁻¹ for whiten W: F Fᵀ is the projection of K
    onto the span of φ(Z), so K - F Fᵀ is positive semi-definite. With random features sections(x) = φ(x),
    and nothing has to be whitened.
    """

    sections: Sections
    whiten: Array | None  # (m, r); None stands for the identity
    landmarks: Indices | None  # positions of the landmarks among the rows, where they are rows
    projects: bool  # whether K - FFᵀ is positive semi-definite
    goal: float | None = None  # the share of tr K that may be left out, where that was asked for
    # The rounding of k(x, z) in the dtype of the landmarks, where it is known.
    unit: float | None = None

    @classmethod
    def projecting(
        cls,
        sections: KernelSections,
        landmarks: Indices | None,
        unit: float,
        goal: float | None = None,
    ) -> LowRank:
        """The projection of K onto the span of φ(Z), for the points Z of the sections."""
        whiten = whitening(core_matrix(sections.kernel, sections.points), unit)
        return cls(sections, whiten, landmarks, projects=True, goal=goal, unit=unit)

    @property
    def rank(self) -> int:
        """The number of columns of F, r."""
        return self.sections.width if self.whiten is None else int(self.whiten.shape[1])

    @property
    def points(self) -> Rows:  # (m, d)
        """The landmarks Z."""
        assert isinstance(self.sections, KernelSections)  # what is a projection has landmarks
        return self.sections.points

    def unit_in(self, kernel: Kernel, dtype: np.dtype[Any]) -> float:
        """Rounding of a kernel value in a precision."""
        if self.unit is not None and self.points.dtype == dtype:
            return self.unit
        return entry_error(kernel, self.points.astype(dtype))

    def features(self, x: Rows) -> Array:  # (b, d) -> (b, r)
        """The rows of F that belong to a block of rows x, in the dtype of x."""
        sections = self.sections(x)  # (b, m)
        if self.whiten is None:
            return sections
        return sections @ self.whiten.astype(x.dtype, copy=False)

    def known(self, dtype: np.dtype[Any]) -> Callable[[Rows], Array] | None:
        """`features` in a precision, of a kind that engines know; None where they know none."""
        sections = self.sections
        if self.whiten is None:
            return getattr(sections, "known", None)
        if not isinstance(sections, KernelSections):
            return None
        points, whiten = (a.astype(dtype, copy=False) for a in (sections.points, self.whiten))
        return Whitened(sections.kernel, points, whiten, sections.engine)

    def rounded(self, dtype: np.dtype[Any]) -> LowRank:
        """The same factor with W in the dtype of the rows, so that a pass rounds it once."""
        if self.whiten is None:
            return self
        return replace(self, whiten=self.whiten.astype(dtype))

    def __repr__(self) -> str:
        return f"LowRank({self.sections!r}, rank={self.rank})"


# The remedy where more landmarks are asked for than there are rows.
TOO_MANY = Message(
    "Use at least 1 and at most {n_samples!s}, or {approximation:None} for the exact solution."
)

# Names of the size of an approximation, in scikit-learn and here.
SIZES = ("n_components", "rank", "landmarks", "n_landmarks", "n_features")


class Approximation(Params, ABC):
    """Chooses a low-rank factor of the kernel matrix of the rows x.

    Subclasses are dataclasses whose fields are their knobs. Each has a field ``refine``: the number of
    exact passes over K that turn the approximation into exact Ritz pairs with residuals.
    """

    refine: int

    constraints: ClassVar[Constraints] = {"refine": Whole(0)}

    @classmethod
    def _elsewhere(cls, unknown: dict[str, Any], given: dict[str, Any]) -> str:
        """Its first field is its size, which other libraries call by other names."""
        del given
        size, name = next((name for name in unknown if name in SIZES), None), cls.__name__
        if size is not None:
            return f"Write {name}({fields(cls)[0].name}={unknown[size]!r})."  # type: ignore[arg-type]
        beside = f"The kernel stands beside it: KernelPCA(kernel=…, approximation={name}())."
        return beside if unknown.keys() & {"kernel", "gamma", "degree", "coef0"} else ""

    @abstractmethod
    def __call__(
        self,
        kernel: Kernel,
        x: Rows,
        *,
        weights: Array | None,
        rng: np.random.Generator,
        observer: Observer,
        engine: Any = AUTO,
    ) -> LowRank:
        """The factor for a resolved kernel and checked rows, array, CSR matrix or `RowSource`.

        ``engine`` passes over the rows, and is what the sections of the factor are computed on.
        """

    def check(self, kernel: Kernel, shape: tuple[int, int]) -> None:
        """Raise, with the way out, when a knob is impossible or the kernel can't be used here."""
        del kernel, shape
        self.check_params()

    @abstractmethod
    def n_bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        """The most that choosing the factor, and a pass over its features, may hold at a time."""

    def at_most(self, n: int) -> Approximation:
        """The same approximation with no more landmarks than there are rows."""
        del n
        return self

    @abstractmethod
    def width(self, n: int) -> int:
        """The columns F can have at most, for n rows."""

    @property
    def size(self) -> str:
        """The parameter that limits the width: the first field of the class."""
        return fields(self)[0].name  # type: ignore[arg-type]


def check_points(kernel: Kernel, approximation: Approximation) -> None:
    """Raise when the rows are kernel values: landmarks are points."""
    if kernel.is_precomputed:
        msg = Message(
            f"{type(approximation).__name__} evaluates the kernel at landmarks, but a precomputed matrix "
            "has no points. Give the kernel and the rows, or use {approximation:None} on the matrix."
        )
        raise KernelError(msg)
