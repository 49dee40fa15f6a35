"""Sections: what a fitted model looks at in a row. Kernel values against points, or explicit features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Annotated, Any, Protocol, Self, cast

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, row_slices
from mercer.engine.base import Engine, Resident
from mercer.engine.numpy import POINTS
from mercer.engine.pairwise import dense, squared_norms
from mercer.engine.resolve import resolve_engine
from mercer.engine.steps import FeatureProduct
from mercer.kernels.base import Kernel
from mercer.kernels.map_base import FeatureMap


class Sections(Protocol):
    """x -> (b, m): kernel values against m points, or m explicit features.

    All but `times` are asked of a block of rows in memory.
    """

    @property
    def engine(self) -> Engine[Any]:
        """What multiplies by the sections, and passes over rows."""

    def on(self, engine: Engine[Any]) -> Self:
        """The same sections on another engine."""

    @property
    def width(self) -> int:
        """The number of sections, m."""

    @property
    def parallel(self) -> bool:
        """Whether slices of rows may run on threads."""

    def __call__(self, x: Rows) -> Array:
        """The sections of the rows x."""

    def times(self, x: Rows, coef: Array) -> Array:  # (n, d), (m, k) -> (n, k)
        """sections(x) @ coef as a new array, of rows wherever they are, in the precision of coef."""

    def diag(self, x: Rows) -> Array:  # -> (b,)
        """k(x, x), or the squared length of the features."""

    def slope(self, x: Rows, weights: Array) -> Array:  # (b, d), (b, m) -> (b, d)
        """Σ_j w_ij ∂sections_j(x_i)/∂x_i."""

    def diag_slope(self, x: Rows) -> Array:  # -> (b, d)
        """The derivative of `diag`."""


@dataclass(frozen=True, repr=False, kw_only=True)
class OnEngine:
    """Sections with an engine. Files of models don't name it: a model that is loaded runs on "auto"."""

    engine: Engine[Any] = field(
        default_factory=partial(resolve_engine, "auto"), compare=False, repr=False
    )

    def on(self, engine: Engine[Any]) -> Self:
        return replace(self, engine=engine)

    def __getstate__(self) -> dict[str, Any]:  # without what is cached
        return {own.name: getattr(self, own.name) for own in fields(self)}


@dataclass(frozen=True, repr=False)
class Explicit(OnEngine):
    """Sections that are computed all at once, on the host, or where an engine knows their kind."""

    @property
    def known(self) -> Callable[[Rows], Array]:
        """The same features, of a kind that engines know where there is one: `mercer.engine.steps`."""
        return cast("Sections", self)

    def times(self, x: Rows, coef: Array) -> Array:
        own, step = cast("Sections", self), FeatureProduct(self.known, coef)
        return self.engine.map(x, step, width=own.width, parallel=own.parallel, dtype=coef.dtype)


@dataclass(frozen=True, repr=False)
class KernelSections(OnEngine):
    """x -> [k(x, z_1), …, k(x, z_m)]."""

    kernel: Kernel
    points: Annotated[Rows, "m d"]

    @property
    def width(self) -> int:
        return int(self.points.shape[0])

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel

    def __call__(self, x: Rows) -> Array:
        points = self.points[:] if isinstance(self.points, RowSource) else self.points
        return self.engine.tile(self.kernel, x, points.astype(x.dtype, copy=False))

    def times(self, x: Rows, coef: Array) -> Array:
        engine, kernel, dtype = self.engine, self.kernel, coef.dtype
        if not len(coef):  # no points: an empty sum
            return np.zeros((int(x.shape[0]), coef.shape[1]), dtype=dtype)
        if dtype not in self._loaded:
            self._loaded[dtype] = engine.load(self.points, kernel, dtype)
        return engine.times(kernel, engine.load(x, kernel, dtype), self._loaded[dtype], coef)

    @cached_property
    def _loaded(self) -> dict[np.dtype[Any], Resident]:
        """The points where the engine computes, kept between products."""
        return {}

    def diag(self, x: Rows) -> Array:
        return self.kernel.tile_diag(x)

    def slope(self, x: Rows, weights: Array) -> Array:
        return weighted_slopes(self.kernel, x, self.points, weights)

    def diag_slope(self, x: Rows) -> Array:
        return self.kernel.diag_slope(x)

    def __repr__(self) -> str:
        return f"{self.kernel!r} against {self.width} points"


def weighted_slopes(kernel: Any, x: Rows, points: Rows, weights: Array) -> Array:  # -> (b, d)
    """Σ_j w_ij ∂k(x_i, z_j)/∂x_i, a block of points at a time."""
    out = np.zeros(x.shape, dtype=weights.dtype)
    for j in row_slices(int(points.shape[0]), POINTS):
        out += kernel.tile_slope(x, points[j].astype(x.dtype, copy=False), weights[:, j])
    return out


@dataclass(frozen=True, repr=False)
class FeatureSections(Explicit):
    """x -> φ(x), an explicit map."""

    feature_map: FeatureMap
    parallel: bool = False  # one product, which BLAS runs on all cores already

    @property
    def width(self) -> int:
        return self.feature_map.dimension

    def __call__(self, x: Rows) -> Array:
        return self.feature_map(x)

    def diag(self, x: Rows) -> Array:
        return squared_norms(self(x))

    def slope(self, x: Rows, weights: Array) -> Array:
        return self.feature_map.slope(dense(x), weights)

    def diag_slope(self, x: Rows) -> Array:
        return self.slope(x, 2.0 * self(x))

    def __repr__(self) -> str:
        return f"explicit map with {self.width} features"


@dataclass(frozen=True, repr=False)
class GivenSections(Explicit):
    """x -> x: the caller hands over kernel values."""

    width: int
    parallel: bool = False

    def __call__(self, x: Rows) -> Array:
        return np.asarray(dense(x))

    def diag(self, x: Rows) -> Array:
        del x
        msg = (
            "k(x, x) of new points is not among their kernel values against the training points, which is "
            "all that a precomputed kernel gives. Pass it as `diag`."
        )
        raise InputError(msg)

    def slope(self, x: Rows, weights: Array) -> Array:
        del x, weights
        msg = "A precomputed kernel has no derivative: the points behind its values are not known."
        raise KernelError(msg)

    def diag_slope(self, x: Rows) -> Array:
        return self.slope(x, x)

    def __repr__(self) -> str:
        return f"given kernel values against {self.width} points"
