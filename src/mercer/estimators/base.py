"""What every fitted estimator shows, read off its one fitted value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._core.errors import InputError
from mercer.data.intake import admitted
from mercer.data.rows import RowSource
from mercer.estimators.door import check_kernel_rows, check_out, new_rows, require_scores
from mercer.estimators.form import Form
from mercer.estimators.progress import CallbackSupport, announced, with_callbacks
from mercer.estimators.saving import Saving
from mercer.estimators.validation import require_finite
from mercer.model.projection import holds
from mercer.model.rounding import in_precision
from mercer.model.space import FeatureSpace
from mercer.monitoring.statistics import score_variances

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.model import Fit


class Projector(
    Form,
    Saving,
    CallbackSupport,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """An estimator around a `Fit`: it stores ``fit_`` and ``_dtype``, all else is read off them."""

    fit_: Fit
    _dtype: np.dtype[Any]
    # `out` is where scores go, nothing that a pipeline would route.
    __metadata_request__transform: ClassVar[dict[str, str]] = {"out": UNUSED}

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or a source of rows
            Training rows; the (n, n) kernel matrix for a precomputed kernel.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            How often each row counts: 2 is a row that is there twice, 0 one that is not there.

        Returns
        -------
        self
        """
        with announced(self, X, y, sample_weight):
            self._fit(X, sample_weight)
        return self

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and give the scores of the training rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or a source of rows
        y : ignored
        sample_weight : array-like of shape (n,), optional
            As in `fit`; rows of weight 0 get scores too.

        Returns
        -------
        scores : ndarray of shape (n, k)
        """
        with announced(self, X, y, sample_weight):
            fit = self._fit(X, sample_weight)
            if fit.is_low_rank or has_light_rows(sample_weight):
                return self.transform(X)
            return fit.scores.astype(self._scores_dtype, copy=False)

    @property
    def _scores_dtype(self) -> np.dtype[Any]:
        """That of the rows, or float64 where it can't hold the scores, as of 1e-200 times a kernel."""
        if self._dtype == np.float64:
            return self._dtype
        spread = np.sqrt(np.max(score_variances(self._current()), initial=0.0))
        return self._dtype if holds(self._dtype, float(spread)) else np.dtype(np.float64)

    def _fit(self, X: Any, sample_weight: Any) -> Fit:
        """Fit, record, and hand the value over: `fit` and `fit_transform` are two ways to read it."""
        raise NotImplementedError

    def transform(self, X: Any, out: Array | None = None) -> Array:
        """Scores of new rows.

        Parameters
        ----------
        X : array-like, sparse matrix of shape (b, d) or source of rows
            Rows; for a precomputed kernel the (b, n) kernel values against the training points.
        out : ndarray of shape (b, k), optional
            Where to write the scores, slice by slice, such as a `numpy.memmap`.

        Returns
        -------
        scores : ndarray of shape (b, k)
            `out`, where it was given.
        """
        check_is_fitted(self)
        projection = self._current().projection
        rows = new_rows(self, X, self._dtype)
        kernel = getattr(self, "kernel_", None)
        if kernel is not None:
            check_kernel_rows(kernel, rows)
        if out is not None:
            check_out(out, X, (int(rows.shape[0]), projection.n_components), self._scores_dtype)
        points = getattr(projection.sections, "points", None)
        if isinstance(points, RowSource):  # the model's own rows are still in a file
            points.check_unchanged()
        with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
            scores = projection(rows, out)
        if isinstance(rows, RowSource):
            rows.check_unchanged()
        require_scores(scores, kernel)
        return scores.astype(self._scores_dtype, copy=False) if out is None else out

    def reconstruction_error(self, X: Any, diag: Any = None) -> Array:
        """Squared distance, in feature space, of each row from its projection on the components.

        Exact, and no pre-image is needed: ‖φ(x) - μ‖² - ‖scores(x)‖². Process engineers call it Q or SPE. It
        is not comparable between kernels: each measures in a space of its own.

        Parameters
        ----------
        X : array-like, sparse matrix of shape (b, d) or source of rows
            Rows; for a precomputed kernel the (b, n) kernel values against the training points.
        diag : array-like of shape (b,), optional
            k(x, x) of the rows, for a precomputed kernel and no other.

        Returns
        -------
        errors : ndarray of shape (b,)
        """
        check_is_fitted(self)
        rows = new_rows(self, X, self._dtype)
        kernel = getattr(self, "kernel_", None)
        if kernel is not None:
            check_kernel_rows(kernel, rows)
        own = None
        if diag is not None:
            if kernel is None or not kernel.is_precomputed:
                msg = (
                    "`diag` came, but only a precomputed kernel needs it: any other knows k(x, x) itself. "
                    "Leave it out."
                )
                raise InputError(msg)
            own = check_array(admitted(diag, what="diag"), ensure_2d=False, dtype=np.float64)
            if own.shape != (int(rows.shape[0]),):
                msg = (
                    f"`diag` needs one number a row, {rows.shape[0]}, but an array of shape {own.shape} "
                    "came."
                )
                raise InputError(msg)
        errors = FeatureSpace.of(self._current()).errors(rows, own)
        return in_precision(errors, self._dtype)

    def _current(self) -> Fit:
        """The fitted value."""
        return self.fit_

    @property
    def n_components_(self) -> int:
        """Number of components kept."""
        return self._fitted("n_components_").projection.n_components

    @property
    def eigenvalues_(self) -> Array:
        """Largest eigenvalues of the centred kernel matrix."""
        return in_precision(self._fitted("eigenvalues_").eigenvalues, self._dtype)

    @property
    def explained_variance_(self) -> Array:
        """Variance of each score: eigenvalue / (n - 1), with Σw for n when the rows carry weights."""
        return in_precision(score_variances(self._fitted("explained_variance_")), self._dtype)

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of the true total variance of each component."""
        return self._fitted("explained_variance_ratio_").explained.astype(self._dtype)

    @property
    def residuals_(self) -> Array:
        """‖K̃u - λu‖/λ₁ of each pair as it is handed out, with what rounding may add; in float64."""
        return self._fitted("residuals_").residuals

    def _fitted(self, name: str) -> Fit:
        fit: Fit | None = self.__dict__.get("fit_")
        if fit is None:  # so that hasattr(model, "eigenvalues_") means "is fitted"
            msg = f"{type(self).__name__} has no {name!r} yet. Call `fit` first."
            raise AttributeError(msg)
        return fit

    @property
    def _n_features_out(self) -> int:
        return self.fit_.projection.n_components

    def _scores(self, X: Any) -> Array:
        """Scores that somebody wants taken back, checked."""
        check_is_fitted(self)
        X = admitted(X, what="The array of scores")
        scores = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
        require_finite(scores, None, what="The array of scores")
        k = self.n_components_
        if scores.shape[1] != k:
            msg = f"Scores of {scores.shape[1]} components came, but this model has {k}."
            raise InputError(msg)
        return np.asarray(scores)


# Scores of the training rows are read off eigenvectors that carry a factor √w. Below this share of the
# largest weight the division by it would show rounding.
LIGHT = 1e-6


def has_light_rows(sample_weight: Any) -> bool:
    """Whether some rows count so little beside others that their scores have to be projected."""
    if sample_weight is None:
        return False
    weights = np.asarray(sample_weight, dtype=np.float64)
    return bool(weights.min() < LIGHT * weights.max())
