"""Sections: what a fitted model looks at in a row. Kernel values against points, or explicit features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mercer.engine.rows import RowSource
from mercer.engine.tiles import row_slices

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel
    from mercer.kernels.feature_map import FeatureMap


# Points whose kernel values are held at a time.
POINTS = 2048


class Sections(Protocol):
    """x -> (b, m): kernel values against m points, or m explicit features."""

    @property
    def width(self) -> int:
        """M."""
        ...

    @property
    def parallel(self) -> bool:
        """Whether slices of rows may run on threads."""
        ...

    def __call__(self, x: Rows) -> Array:
        """The sections of the rows x."""
        ...

    def times(self, x: Rows, coef: Array) -> Array:  # (b, d), (m, k) -> (b, k)
        """sections(x) @ coef."""
        ...


class Whole:
    """Sections that are made for all m at once."""

    def __call__(self, x: Rows) -> Array:
        raise NotImplementedError

    def times(self, x: Rows, coef: Array) -> Array:
        """sections(x) @ coef."""
        return self(x) @ coef


@dataclass(frozen=True, repr=False)
class KernelSections:
    """x -> [k(x, z_1), …, k(x, z_m)]."""

    kernel: Kernel
    points: Rows  # (m, d)

    @property
    def width(self) -> int:
        """Number of points."""
        return int(self.points.shape[0])

    @property
    def parallel(self) -> bool:
        """Whether the kernel may run on threads."""
        return self.kernel.parallel

    def __call__(self, x: Rows) -> Array:
        points = self.points[:] if isinstance(self.points, RowSource) else self.points
        return self.kernel.tile(x, points.astype(x.dtype, copy=False))

    def times(self, x: Rows, coef: Array) -> Array:
        """k(x, Z) @ coef, a block of points at a time: Z may be all training rows, in memory or not."""
        if self.width <= POINTS:
            return self(x) @ coef
        out = np.zeros((x.shape[0], coef.shape[1]), dtype=coef.dtype)
        for j in row_slices(self.width, POINTS):
            points = self.points[j].astype(x.dtype, copy=False)
            out += self.kernel.tile(x, points) @ coef[j]
        return out

    def __repr__(self) -> str:
        return f"{self.kernel!r} against {self.width} points"


@dataclass(frozen=True, repr=False)
class FeatureSections(Whole):
    """x -> φ(x), an explicit map."""

    feature_map: FeatureMap
    parallel: bool = False  # one product, which BLAS runs on all cores already

    @property
    def width(self) -> int:
        """Number of features."""
        return self.feature_map.dimension

    def __call__(self, x: Rows) -> Array:
        return self.feature_map(x)

    def __repr__(self) -> str:
        return f"explicit map with {self.width} features"


@dataclass(frozen=True, repr=False)
class GivenSections(Whole):
    """x -> x: the caller hands over kernel values."""

    width: int
    parallel: bool = False

    def __call__(self, x: Rows) -> Array:
        return np.asarray(x)

    def __repr__(self) -> str:
        return f"given kernel values against {self.width} points"
