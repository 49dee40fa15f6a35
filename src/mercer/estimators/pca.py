"""Linear PCA, on the cheaper side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.memory import parse_bytes
from mercer._core.observer import SILENT
from mercer.data.rows import RowSource
from mercer.data.sources import in_memory
from mercer.engine.moments import weighted_mean
from mercer.engine.resolve import engine_facts, resolve_engine
from mercer.engine.threads import lanes
from mercer.estimators.base import Projector
from mercer.estimators.door import remember, training_rows
from mercer.estimators.elsewhere import (
    PCA_WORDS,
    SKLEARN_PCA,
    advice,
    drop_in,
    fixed,
    needless,
    of_solver,
)
from mercer.estimators.validation import as_generator, check_n_components, tell
from mercer.kernels import Linear
from mercer.kernels.feature_map import IdentityMap
from mercer.model import FeatureSections, Fit, Plan, Problem, fit_linear_pca, plan_linear
from mercer.model.streamed import fit_streamed
from mercer.planning.problem import Ownership

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.data.training import TrainingData
    from mercer.engine.base import Facts


class PCA(Projector):
    """Principal components of the rows: scores = (x - mean) W, with W from the cheaper side.

    With d ≤ n the d x d covariance is solved; with d > n the n x n matrix of dot products, which has
    the same non-zero eigenvalues (the dual trick behind eigenfaces). Both give the axes. Rows may carry
    weights: a whole number is that many copies of the row.

    Parameters
    ----------
    n_components : int, float or None, default=None
        A number of components, a share of the variance such as 0.95, or None for all with a
        variance above rounding.
    solver : str or Solver, default="auto"
        ``"lapack"``, ``"krylov"`` or an object.
    memory : str or int, default="auto"
        What the fit may use, such as ``"4GB"``.
    engine : str or Engine, default="auto"
        As in `KernelPCA`.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start vectors; None is a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The axes, one a row, orthonormal.
    mean_ : ndarray of shape (d,)
        Mean of the rows, weighted as they are.
    explained_variance_ : ndarray of shape (k,)
        Variance of each score, with n - 1 in the denominator; n is the sum of the weights, if any.
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
        engine: Any = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.memory = memory
        self.engine = engine
        self.random_state = random_state

    @classmethod
    def _elsewhere(cls, unknown: dict[str, Any], given: dict[str, Any]) -> str:
        said = advice(
            (fixed(PCA_WORDS), of_solver, needless), cls._get_param_names(), unknown, given
        )
        return said + drop_in(unknown, SKLEARN_PCA, "sklearn.decomposition.PCA")

    def _fit(self, X: Any, sample_weight: Any = None) -> Fit:
        facts = engine_facts(self.engine)
        with lanes(facts.lanes):
            return self._fit_on(facts, X, sample_weight)

    def _fit_on(self, facts: Facts, X: Any, sample_weight: Any) -> Fit:
        data = training_rows(self, X, sample_weight, copy=False)
        few = min(data.n, data.d)
        asked = check_n_components(self.n_components, few, "min(n_samples, n_features)")
        budget = parse_bytes(self.memory, free=facts.free_bytes)
        owner = Ownership.SEEN if data.in_memory else Ownership.STREAMED
        problem = Problem.of(
            data, Linear(), asked, facts=facts, budget=budget, ownership=owner, linear=True
        )
        chosen = plan_linear(problem, self.solver)
        fit = self._fitted_to(data, asked, chosen)
        mean = weighted_mean(data.rows, data.weights)
        if isinstance(data.rows, RowSource):
            data.rows.check_unchanged()
        tell(fit)  # a warning may be an error, and then nothing has happened
        remember(self, X, data.rows)
        self.fit_, self.plan_, self._dtype = fit, chosen, np.dtype(data.rows.dtype)
        self.mean_ = mean.astype(self._dtype)
        return fit

    def _fitted_to(self, data: TrainingData, asked: int | float | None, chosen: Plan) -> Fit:
        rows, weights, rng = data.rows, data.weights, as_generator(self.random_state)
        if not isinstance(rows, RowSource):
            return fit_linear_pca(
                rows, asked, plan=chosen, rng=rng, weights=weights, engine=self.engine
            )
        if chosen.route == "primal":
            sections = FeatureSections(IdentityMap(data.d), engine=resolve_engine(self.engine))
            return fit_streamed(
                sections, rows, asked, plan=chosen, rng=rng, observer=SILENT, weights=weights
            )
        rows = in_memory(rows)  # the plan has counted it
        if weights is not None:  # a row of weight 0 is not there
            rows, weights = rows[weights > 0], weights[weights > 0]
        return fit_linear_pca(
            rows, asked, plan=chosen, rng=rng, weights=weights, engine=self.engine
        )

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

    def reconstruct(self, X: Any) -> Array:
        """Each row as the components see it.

        Parameters
        ----------
        X : array-like of shape (b, d)

        Returns
        -------
        rows : ndarray of shape (b, d)
            ``inverse_transform(transform(X))``.
        """
        return self.inverse_transform(self.transform(X))

    @property
    def components_(self) -> Array:
        """The axes, one a row."""
        return self._fitted("components_").projection.coef.T.astype(self._dtype, copy=False)

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
