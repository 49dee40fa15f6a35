"""Sections: what a fitted model looks at in a row. Kernel values against points, or explicit features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel
    from mercer.kernels.feature_map import FeatureMap


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
        return self.kernel.tile(x, self.points)

    def __repr__(self) -> str:
        return f"{self.kernel!r} against {self.width} points"


@dataclass(frozen=True, repr=False)
class FeatureSections:
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
class GivenSections:
    """x -> x: the caller hands over kernel values."""

    width: int
    parallel: bool = False

    def __call__(self, x: Rows) -> Array:
        return np.asarray(x)

    def __repr__(self) -> str:
        return f"given kernel values against {self.width} points"
