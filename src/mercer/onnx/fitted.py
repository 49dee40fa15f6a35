"""What is read off a fitted model for its graph: projection, spread of the scores, precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError
from mercer.engine.rows import RowSource, take_rows
from mercer.estimators.base import Projector
from mercer.kernels import Linear
from mercer.kernels.feature_map import IdentityMap
from mercer.model.projection import projection_dtype
from mercer.onnx.kernels import require_exportable
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.sklearn import KernelPCA as DropIn

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels import Kernel
    from mercer.model.projection import Projection

# What one file of ONNX can hold, less room for all that is not points and coefficients.
MOST_BYTES = 2**31 - 2**24
SOME_POINTS = 500  # enough to see how large kernel values are


@dataclass(frozen=True, repr=False)
class Fitted:
    """scores(x) = sections(x) A - b, and what is known about the size of its terms."""

    projection: Projection
    kernel: Kernel
    spread: Array  # (k,): standard deviation of each score of the training rows
    mean_norm: float  # ‖μ‖², of the training rows in feature space
    variance: float  # mean ‖φ(x) - μ‖² of the training rows
    mean: Array | None  # (D,): μ of explicit features
    dtype: np.dtype[Any]
    n_features: int
    names: tuple[str, ...] | None
    is_low_rank: bool = False

    @property
    def route(self) -> str:
        """What the graph holds, in words."""
        if self.points is None:
            return repr(self.projection.sections)
        m = int(self.points.shape[0])
        return f"low rank, {m} landmarks" if self.is_low_rank else f"exact, {m} points"

    @property
    def points(self) -> Rows | None:
        """Z; None for explicit features and for given kernel values."""
        sections = self.projection.sections
        return sections.points if isinstance(sections, KernelSections) else None

    def stored_points(self) -> Array:  # (m, d)
        """Z, dense and in float64."""
        z = self.points
        assert z is not None  # asked of kernel sections only
        z = z[:] if isinstance(z, RowSource) else z
        dense = z.toarray() if sparse.issparse(z) else z
        return np.asarray(dense, dtype=np.float64)

    def precision(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """What to compute in: `dtype`, or float64 where the terms of a score cancel too much for it.

        The rule of a fit: see `mercer.model.projection.projection_dtype`.
        """
        sections = self.projection.sections
        if isinstance(sections, FeatureSections) and isinstance(sections.feature_map, IdentityMap):
            return dtype  # rows are centred before anything is multiplied: nothing cancels
        return projection_dtype(dtype, self.terms, self.spread)

    @property
    def terms(self) -> Array:  # (k,)
        """About how large the terms are that add up to a score."""
        axes = np.linalg.norm(self.projection.coef.astype(np.float64), axis=0)
        if self.mean is not None:
            return np.sqrt(self.mean_norm) * axes
        return np.asarray(self._largest() * axes + np.abs(self.projection.offset))

    @property
    def rounding(self) -> Array:  # (k,)
        """What float64 leaves a score uncertain by, in units of its spread."""
        eps = float(np.finfo(np.float64).eps)
        known = self.spread > 0
        return np.divide(eps * self.terms, self.spread, out=np.zeros_like(self.spread), where=known)

    def _largest(self) -> float:
        """About the largest |k(x, z)|."""
        z = self.points
        if z is None:
            return self.mean_norm + self.variance  # mean k(x, x) of the training rows
        m = int(z.shape[0])
        some = np.unique(np.linspace(0, m - 1, SOME_POINTS).astype(np.intp))
        few = take_rows(z, some).astype(np.float64)
        return float(np.max(np.abs(self.kernel.tile(few, few))))

    def require_exportable(self, dtype: np.dtype[Any]) -> None:
        """Raise when the kernel has no graph, or the graph no room in one file."""
        if not self.kernel.is_precomputed:
            require_exportable(self.kernel)
        m, k = self.projection.coef.shape
        width = self.n_features if self.points is not None else 0
        size = m * (width + k) * dtype.itemsize
        if size > MOST_BYTES:
            msg = (
                f"The graph would hold {m} points of {width} numbers and {k} coefficients for each: "
                f"{size / 1e9:.1f} GB, but an ONNX file holds 2 GB at most. Fit with "
                "approximation='rpcholesky', whose graph holds the landmarks only."
            )
            raise InputError(msg)


def fitted(model: Any) -> Fitted:
    """What a fitted KernelPCA, PCA, IncrementalKernelPCA or drop-in is made of."""
    if isinstance(model, Projector):
        check_is_fitted(model)
        return _of_projector(model)
    if isinstance(model, DropIn):
        check_is_fitted(model)
        return _of_drop_in(model)
    msg = (
        f"A fitted model of mercer was needed (KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, "
        f"Prepared or mercer.sklearn.KernelPCA), but a {type(model).__name__} came. A scikit-learn "
        "pipeline with such a model in it is exported by `skl2onnx.to_onnx` after `mercer.onnx.register()`."
    )
    raise InputError(msg)


def _of_projector(model: Projector) -> Fitted:
    fit = model._current()
    explicit = not isinstance(fit.projection.sections, (KernelSections, GivenSections))
    return Fitted(
        projection=fit.projection,
        kernel=getattr(model, "kernel_", Linear()),
        spread=np.sqrt(np.asarray(fit.eigenvalues, dtype=np.float64) / fit.weight),
        mean_norm=float(fit.mean.norm),
        variance=fit.total / fit.weight,
        mean=fit.mean.coef if explicit else None,
        dtype=model._dtype,
        n_features=int(model.n_features_in_),
        names=_names(model),
        is_low_rank=fit.is_low_rank,
    )


def _of_drop_in(model: Any) -> Fitted:
    projection = model._projection
    n = len(model.eigenvectors_)
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    return Fitted(
        projection=projection,
        kernel=model._kernel(),
        spread=np.sqrt(values / n),
        mean_norm=float(abs(model._centerer.K_fit_all_)),
        variance=float(values.sum()) / n,
        mean=None,
        dtype=np.dtype(projection.coef.dtype),
        n_features=int(model.n_features_in_),
        names=_names(model),
    )


def _names(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)
