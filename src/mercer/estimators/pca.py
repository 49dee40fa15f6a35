"""Linear PCA, on the cheaper side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.memory import parse_bytes
from mercer.estimators.base import Projector
from mercer.estimators.validation import (
    as_generator,
    check_n_components,
    check_rows,
    remember_columns,
    tell,
)
from mercer.model import Fit, Problem, fit_linear_pca, plan_linear

if TYPE_CHECKING:
    from mercer._core.types import Array


class PCA(Projector):
    """Principal components of the rows: scores = (x - mean) W, with W from the cheaper side.

    With d ≤ n the d x d covariance is solved; with d > n the n x n matrix of dot products, which has
    the same non-zero eigenvalues (the dual trick behind eigenfaces). Both give the axes.

    Parameters
    ----------
    n_components : int, float or None, default=None
        A number of components, a share of the variance such as 0.95, or None for all with a
        variance above rounding.
    solver : str or Solver, default="auto"
        ``"lapack"``, ``"krylov"`` or an object.
    memory : str or int, default="auto"
        What the fit may use, such as ``"4GB"``.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start vectors; None is a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The axes, one a row, orthonormal.
    mean_ : ndarray of shape (d,)
    explained_variance_ : ndarray of shape (k,)
        Variance of each score, with n - 1 in the denominator.
    explained_variance_ratio_ : ndarray of shape (k,)
        Shares of the total variance.
    singular_values_ : ndarray of shape (k,)
        Singular values of the centred data.
    eigenvalues_ : ndarray of shape (k,)
        ``explained_variance_ * (n - 1)``.
    n_components_, residuals_, plan_, fit_
        As in `KernelPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import PCA
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    >>> pca = PCA().fit(X)
    >>> pca.explained_variance_.round(6)
    array([5.])
    >>> np.allclose(pca.inverse_transform(pca.transform(X)), X)
    True
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        solver: Any = "auto",
        memory: str | float = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.memory = memory
        self.random_state = random_state

    def _fit(self, X: Any) -> Fit:
        x = check_rows(self, X, reset=True)
        n, d = int(x.shape[0]), int(x.shape[1])
        asked = check_n_components(self.n_components, min(n, d), "min(n_samples, n_features)")
        problem = Problem(
            n=n,
            d=d,
            n_components=asked,
            itemsize=x.dtype.itemsize,
            budget_bytes=parse_bytes(self.memory),
        )
        chosen = plan_linear(problem, self.solver)
        fit = fit_linear_pca(x, asked, plan=chosen, rng=as_generator(self.random_state))
        remember_columns(self, X)
        self.fit_, self.plan_, self._dtype = fit, chosen, np.dtype(x.dtype)
        self.mean_ = np.asarray(x.mean(axis=0, dtype=np.float64), dtype=x.dtype).ravel()
        tell(fit)
        return fit

    def transform(self, X: Any) -> Array:
        """Scores of new rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (b, d)

        Returns
        -------
        scores : ndarray of shape (b, k)
        """
        return self.fit_.projection(self._rows(X))

    def inverse_transform(self, X: Any) -> Array:
        """Rows rebuilt from scores: mean + scores @ components_.

        Parameters
        ----------
        X : array-like of shape (b, k)

        Returns
        -------
        rows : ndarray of shape (b, d)
        """
        scores = self._scores(X).astype(self._dtype, copy=False)
        return np.asarray(scores @ self.components_ + self.mean_)

    @property
    def components_(self) -> Array:
        """The axes, one a row."""
        return self._fitted("components_").projection.coef.T

    @property
    def singular_values_(self) -> Array:
        """Singular values of the centred data."""
        fit = self._fitted("singular_values_")
        return np.sqrt(fit.eigenvalues).astype(self._dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
