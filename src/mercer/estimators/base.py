"""What every fitted estimator shows, read off its one fitted value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._core.errors import InputError
from mercer.estimators.validation import check_rows

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.model import Fit


class Projector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator around a `Fit`: it stores ``fit_`` and ``_dtype``, all else is read off them."""

    fit_: Fit
    _dtype: np.dtype[Any]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Training rows; the (n, n) kernel matrix for a precomputed kernel.
        y : ignored

        Returns
        -------
        self
        """
        del y
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and give the scores of the training rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : ignored

        Returns
        -------
        scores : ndarray of shape (n, k)
        """
        del y
        return self._fit(X).scores.astype(self._dtype, copy=False)

    def _fit(self, X: Any) -> Fit:
        """Fit, record, and hand the value over: `fit` and `fit_transform` are two ways to read it."""
        raise NotImplementedError

    @property
    def n_components_(self) -> int:
        """Number of components kept."""
        return self._fitted("n_components_").projection.n_components

    @property
    def eigenvalues_(self) -> Array:
        """Largest eigenvalues of the centred kernel matrix."""
        return self._fitted("eigenvalues_").eigenvalues.astype(self._dtype)

    @property
    def explained_variance_(self) -> Array:
        """Variance of each score: eigenvalue / (n - 1)."""
        fit = self._fitted("explained_variance_")
        return (fit.eigenvalues / (len(fit.pairs.vectors) - 1)).astype(self._dtype)

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of the true total variance of each component."""
        return self._fitted("explained_variance_ratio_").explained.astype(self._dtype)

    @property
    def residuals_(self) -> Array:
        """Relative residual of each eigenpair, in float64."""
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

    def _rows(self, X: Any) -> Rows:
        """New rows, checked against those of the fit and of their dtype."""
        check_is_fitted(self)
        return check_rows(self, X, reset=False).astype(self._dtype, copy=False)

    def _scores(self, X: Any) -> Array:
        """Scores that somebody wants taken back, checked."""
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32])
        k = self.n_components_
        if scores.shape[1] != k:
            msg = f"Scores of {scores.shape[1]} components came, but this model has {k}."
            raise InputError(msg)
        return np.asarray(scores)
