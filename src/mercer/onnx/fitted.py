"""What is read off a fitted model for its graph: projection, spread of the scores, precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, take_rows
from mercer.engine.pairwise import dense
from mercer.estimators.anatomy import Anatomy
from mercer.estimators.base import Projector
from mercer.estimators.detector import KernelPCADetector
from mercer.estimators.input import is_whitened
from mercer.estimators.pipelines import prepared_parts
from mercer.estimators.prepared import Prepared
from mercer.estimators.scores import score_spread
from mercer.kernels import Kernel, Linear, Precomputed
from mercer.kernels.feature_map import IdentityMap
from mercer.model.projection import Projection
from mercer.onnx.kernels import require_exportable
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.persistence.card import PIPELINE
from mercer.persistence.schema import name_of
from mercer.preprocessing.preparation import Preparation
from mercer.sklearn import KernelPCA as DropIn

# What one file of ONNX can hold, less room for all that is not points and coefficients.
MOST_BYTES = 2**31 - 2**24
SOME_POINTS = 500  # enough to see how large kernel values are, and how they are rounded
# Rounding may move a score by so much of its spread. A tenth of what a fit in float32 allows itself
# (`mercer.model.projection.SCORE_ROUNDING`), because here it is estimated.
ENOUGH = 1e-5
WHOLE = "`skl2onnx.to_onnx` exports any pipeline after `mercer.onnx.register()`."


@dataclass(frozen=True, repr=False)
class Fitted:
    """scores(x) = sections(x) A - b, what is known about the size of its terms, and what stands around it."""

    model: Any  # the estimator
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
    detector: KernelPCADetector | None = None  # which judges rows by the scores
    preparation: Preparation | None = None  # what is done to rows before

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
        return np.asarray(dense(z[:] if isinstance(z, RowSource) else z), dtype=np.float64)

    def some_points(self, most: int) -> Rows:  # (most, d) or fewer
        """Points from all over Z."""
        z = self.points
        assert z is not None  # asked of kernel sections only
        return take_rows(z, np.unique(np.linspace(0, int(z.shape[0]) - 1, most).astype(np.intp)))

    # ── rounding ────────────────────────────────────────────────────────────
    def precision(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """What to compute in: `dtype`, or float64 where the terms of a score cancel too much for it."""
        enough = np.all(self._uncertain(dtype) <= ENOUGH)
        return dtype if enough else np.dtype(np.float64)

    @property
    def rounding(self) -> Array:  # (k,)
        """What the model's own scores are uncertain by, in units of their spread."""
        return self._uncertain(np.dtype(self.projection.coef.dtype))

    def _uncertain(self, dtype: np.dtype[Any]) -> Array:  # (k,)
        """What rounding in a precision does to a score, in units of its spread.

        A score is a sum of terms that may be much larger than itself: kernel values far from zero beside a
        large offset, or large coefficients of either sign.
        """
        sections, unit = self.projection.sections, float(np.finfo(dtype).eps)
        if isinstance(sections, FeatureSections) and isinstance(sections.feature_map, IdentityMap):
            # Rows are centred first, and nothing cancels after that.
            return np.zeros_like(self.spread)
        axes = np.linalg.norm(self.projection.coef.astype(np.float64), axis=0)
        if self.mean is not None:
            terms = unit * np.sqrt(self.mean_norm) * axes
        elif self.points is None:  # k(x, x) of training rows is as large as this on average
            largest = self.mean_norm + self.variance
            terms = unit * (largest * axes + np.abs(self.projection.offset))
        else:
            largest, error = self._kernel_values(dtype)
            terms = error * axes + unit * (largest * axes + np.abs(self.projection.offset))
        return np.divide(terms, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)

    def _kernel_values(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """About the largest |k(x, z)|, and what rounding does to one.

        Rows that are moved by eps show both how much of it a kernel amplifies and how its own evaluation
        scatters; float64 shows what float32 lost.
        """
        few = self.some_points(SOME_POINTS).astype(dtype)
        moved = few * dtype.type(1.0 + np.finfo(dtype).eps)
        with np.errstate(over="ignore", invalid="ignore"):
            fine = self.kernel.tile(few.astype(np.float64), few.astype(np.float64))
            gap = np.abs(self.kernel.tile(moved, few) - fine)
        return float(np.max(np.abs(fine))), float(np.max(gap))

    def require_exportable(self, dtype: np.dtype[Any]) -> None:
        """Raise when the kernel has no graph, or the graph no room in one file."""
        if not self.kernel.is_precomputed:
            require_exportable(self.kernel)
        m, k = self.projection.coef.shape
        width = self.n_features if self.points is not None else 0
        size = m * (width + k) * self.precision(dtype).itemsize
        if size > MOST_BYTES:
            msg = (
                f"The graph would hold {m} points of {width} numbers and {k} coefficients for each: "
                f"{size / 1e9:.1f} GB, but an ONNX file holds 2 GB at most. Fit with "
                "approximation='rpcholesky', whose graph holds the landmarks only."
            )
            raise InputError(msg)


def fitted(model: Any) -> Fitted:
    """What a fitted model is made of, alone, in a detector or behind a preparation."""
    if name_of(model) == PIPELINE:
        model = Prepared(*prepared_parts(model, otherwise=f"Or export it whole: {WHOLE}"))
    if isinstance(model, Prepared):
        return replace(fitted(model.model), preparation=model.preparation)
    if isinstance(model, (KernelPCADetector, Projector, DropIn)):
        check_is_fitted(model)
        if isinstance(model, KernelPCADetector):
            if not model._past.static:
                msg = (
                    "A graph takes rows one by one, and this detector judges them by those before. Fit it "
                    "with `lags` 0 and without `smoothing`."
                )
                raise InputError(msg)
            return replace(fitted(model.model_), detector=model)
        return _of_drop_in(model) if isinstance(model, DropIn) else _of_projector(model)
    msg = (
        "An export needs a fitted KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, Prepared or "
        "mercer.sklearn.KernelPCA, alone or as the last step of a scikit-learn pipeline; got a "
        f"{type(model).__name__}. {WHOLE}"
    )
    raise InputError(msg)


def _of_projector(model: Projector) -> Fitted:
    fit = model._current()
    explicit = not isinstance(fit.projection.sections, (KernelSections, GivenSections))
    spread = np.sqrt(np.asarray(fit.eigenvalues, dtype=np.float64) / fit.weight)
    return Fitted(
        model=model,
        projection=model._scoring,
        kernel=Anatomy(model).kernel or Linear(),
        spread=spread / score_spread(fit) if is_whitened(model.whiten) else spread,
        mean_norm=float(fit.mean.norm),
        variance=fit.total / fit.weight,
        mean=fit.mean.coef if explicit else None,
        dtype=model._dtype,
        n_features=int(model.n_features_in_),
        names=Anatomy(model).feature_names,
        is_low_rank=fit.is_low_rank,
    )


def _of_drop_in(model: Any) -> Fitted:
    projection = model._projection
    n = len(model.eigenvectors_)
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    return Fitted(
        model=model,
        projection=projection,
        kernel=Anatomy(model).kernel or Precomputed(),
        spread=np.sqrt(values / n),
        mean_norm=float(abs(model._centerer.K_fit_all_)),
        variance=float(values.sum()) / n,
        mean=None,
        dtype=np.dtype(projection.coef.dtype),
        n_features=int(model.n_features_in_),
        names=Anatomy(model).feature_names,
    )
