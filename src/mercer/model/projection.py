"""The one fitted type: scores(x) = sections(x) @ coef - offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mercer.engine.threads import n_blas_threads, share_out
from mercer.engine.tiles import row_slices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel
    from mercer.kernels.feature_map import FeatureMap

# Sections of one slice of rows: large enough for the product to run at speed, small beside the model.
SLICE_BYTES = 32 * 2**20


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


@dataclass(frozen=True, repr=False)
class Projection:
    """scores(x) = sections(x) @ coef - offset: every fitted kernel PCA, whatever its route."""

    sections: Sections
    coef: Array  # (m, k)
    offset: Array  # (k,)

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.coef.shape[1])

    def __call__(self, x: Rows) -> Array:  # (b, d) -> (b, k)
        """Scores of the rows x, slice by slice."""
        out = np.empty((x.shape[0], self.n_components), dtype=self.coef.dtype)
        n_threads = n_blas_threads() if self.sections.parallel else 1
        bytes_a_row = max(1, self.sections.width * self.coef.itemsize * n_threads)
        rows = max(1, min(4096, SLICE_BYTES // bytes_a_row))

        def hand(slices: Iterable[slice]) -> None:
            for i in slices:
                np.matmul(self.sections(x[i]), self.coef, out=out[i])
                out[i] -= self.offset

        share_out(hand, row_slices(x.shape[0], rows), n_threads=n_threads)
        return out

    def __repr__(self) -> str:
        return f"Projection({self.sections!r} -> {self.n_components} scores)"
