"""Linear PCA, on the cheaper side, and the Gaussian model behind it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from math import log, pi
from typing import Annotated, Any

import numpy as np

from mercer._core.errors import InputError, refuse
from mercer._core.memory import Memory
from mercer._core.observer import current_observer
from mercer._core.public import public
from mercer._core.types import Array, Rows
from mercer.data.dask import DaskRows
from mercer.data.rows import RowSource
from mercer.data.training import TrainingData
from mercer.engine.resolve import resolve_engine
from mercer.engine.threads import lanes
from mercer.estimators.base import Projector, warn_of
from mercer.estimators.fit_request import as_many_as_there_are, asked_for
from mercer.estimators.form import PCA as PCA_ADVICE
from mercer.estimators.input import as_generator, is_whitened, loaded, remember, training_rows
from mercer.estimators.parameters import EngineLike, Seed, SolverLike
from mercer.estimators.scores import like, require_squares
from mercer.kernels import Linear
from mercer.model import Fit, Plan, Problem, Task, fit_kernel_pca, plan_linear
from mercer.model.rounding import in_precision
from mercer.model.space import FeatureSpace
from mercer.monitoring.statistics import score_variances
from mercer.planning.problem import Budget, Ownership

# A share of the total variance below this is the rounding of a sum, not noise.
NOTHING = 1e-13


@public
@dataclass(eq=False, repr=False)
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
    whiten : bool, default=False
        Whether scores are divided by ``np.sqrt(explained_variance_)``, so that each has variance 1 on the
        training rows. `inverse_transform` takes such scores then. ``components_`` and the Gaussian model
        (`score`, `get_covariance`) are the same with it and without.
    solver : str or Solver, default="auto"
        ``"lapack"``, ``"krylov"`` or an object.
    memory : str, int or dict, default="auto"
        What the fit may use, such as ``"4GB"``; by place as in `KernelPCA`.
    engine : str or Engine, default="auto"
        As in `KernelPCA`.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start vectors; None is a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The axes, one a row, orthonormal. The sign of each is such that the training score of largest size is
        positive; in scikit-learn it is the entry of largest size of the axis.
    mean_ : ndarray of shape (d,)
        Mean of the rows, weighted as they are.
    explained_variance_ : ndarray of shape (k,)
        Variance of each score, with n - 1 in the denominator; n is the sum of the weights, if any.
    explained_variance_ratio_ : ndarray of shape (k,)
        Shares of the total variance.
    singular_values_ : ndarray of shape (k,)
        Singular values of the centred data.
    noise_variance_ : float
        Mean variance along the directions that are left out, of min(n, d): the noise of probabilistic PCA.
    eigenvalues_ : ndarray of shape (k,)
        ``explained_variance_ * (n - 1)``.
    n_components_, residuals_, plan_, fit_
        As in `KernelPCA`.

    See Also
    --------
    KernelPCA : Components that are curved.
    mercer.diagnostics.n_components : How many components hold structure.

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

    _advice = PCA_ADVICE

    n_components: int | float | None = None
    _: KW_ONLY
    whiten: bool = False
    solver: SolverLike = "auto"
    memory: Memory = "auto"
    engine: EngineLike = "auto"
    random_state: Seed = None

    plan_: Plan = field(init=False)
    mean_: Annotated[Array, "d"] = field(init=False)

    def _fit(self, X: Any, sample_weight: Any = None) -> Fit:
        is_whitened(self.whiten)
        facts = resolve_engine(self.engine).facts()
        with lanes(facts.lanes):
            data = training_rows(self, X, sample_weight)
            few = min(data.n, data.d)
            asked = as_many_as_there_are(self.n_components, few, "min(n_samples, n_features)")
            # Rows are multiplied by the host, whatever device there is; workers pass over theirs.
            room = Budget.of(self.memory, facts)
            budget = room.there if facts.workers is not None else room.of_rows
            owner = Ownership.SEEN if data.in_memory else Ownership.STREAMED
            problem = Problem.of(
                data, Linear(), asked, facts=facts, budget=budget, ownership=owner, linear=True
            )
            chosen = plan_linear(problem, self.solver)
            if isinstance(data.rows, DaskRows) and facts.workers and chosen.route == "dual":
                remedy = "Use KernelPCA(kernel='linear'), whose matrix is made by the workers."
                wanted = "rows of no more columns than there are rows, where they stay on workers"
                refuse("X", data.rows.shape, wanted, repr(data.rows), remedy)
            fit = asked_for(self._fitted_to(data, asked, chosen), self.n_components)
        if isinstance(data.rows, RowSource):
            data.rows.check_unchanged()
        warn_of(fit)  # a warning may be an error, and then nothing has happened
        remember(self, X, data.rows)
        self.fit_, self.plan_, self._dtype = fit, chosen, np.dtype(data.rows.dtype)
        self.mean_ = fit.mean.coef.astype(self._dtype)
        return fit

    def _fitted_to(self, data: TrainingData, asked: int | float | None, chosen: Plan) -> Fit:
        if not data.in_memory and chosen.route != "primal":
            data = loaded(data)  # the plan has counted it
        rng, engine = as_generator(self.random_state), resolve_engine(self.engine)
        around = current_observer()
        task = Task(Linear(), data.rows, asked, chosen, rng, data.weights, around, engine)
        return fit_kernel_pca(task)

    def inverse_transform(self, X: Any) -> Array:
        """Rows rebuilt from scores: ``mean_ + scores @ components_``, of scores before they are whitened.

        Parameters
        ----------
        X : array-like of shape (b, k)

        Returns
        -------
        rows : ndarray of shape (b, d)
        """
        scores = self._scores(X).astype(self._dtype, copy=False)
        return like(np.asarray(scores @ self.components_ + self.mean_), X)

    @property
    def components_(self) -> Array:
        """The axes, one a row."""
        return self._fitted("components_").projection.coef.T.astype(self._dtype, copy=False)

    @property
    def singular_values_(self) -> Array:
        """Singular values of the centred data."""
        fit = self._fitted("singular_values_")
        return np.sqrt(fit.eigenvalues).astype(self._dtype)

    # ── probabilistic PCA ───────────────────────────────────────────────────
    @property
    def noise_variance_(self) -> float:
        """Mean variance along the directions that are left out."""
        return self._gaussian("noise_variance_").noise

    def get_covariance(self) -> Array:
        """The covariance of the Gaussian model: ``components_`` with their variances, the noise elsewhere.

        Returns
        -------
        covariance : ndarray of shape (d, d)
        """
        return self._gaussian("get_covariance").covariance().astype(self._dtype, copy=False)

    def get_precision(self) -> Array:
        """The inverse of `get_covariance`, without a d x d system.

        Returns
        -------
        precision : ndarray of shape (d, d)
        """
        return self._gaussian("get_precision").precision().astype(self._dtype, copy=False)

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of each row under the Gaussian model (Tipping and Bishop 1999).

        Parameters
        ----------
        X : array-like, sparse matrix of shape (b, d) or source of rows

        Returns
        -------
        log_likelihood : ndarray of shape (b,)

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import PCA
        >>> X = np.random.default_rng(0).standard_normal((200, 3)) * [3.0, 1.0, 1.0]
        >>> likely = PCA(1).fit(X).score_samples([[0.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
        >>> bool(likely[0] > likely[1])
        True
        """
        return like(in_precision(self._likelihoods(X, "score_samples"), self._dtype), X)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows: on rows held out it tells how many components the data have.

        Parameters
        ----------
        X, y
            As in `score_samples`; y is ignored.

        Returns
        -------
        log_likelihood : float
        """
        del y
        return float(np.mean(self._likelihoods(X, "score")))

    def _likelihoods(self, X: Any, name: str) -> Array:
        rows, kernel = self._asked(X)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            found = self._gaussian(name).log_likelihood(rows)
        require_squares(found, kernel)
        return found

    def _gaussian(self, name: str) -> Gaussian:
        return Gaussian.of(self._fitted(name), int(self.n_features_in_))


@dataclass(frozen=True, repr=False)
class Gaussian:
    """N(μ, C) with C = V(Λ - σ²I)Vᵀ + σ²I, by maximum likelihood (Tipping and Bishop 1999).

    Nothing d x d is solved: V is orthonormal, so C has the variances Λ along it and σ² across.
    """

    space: FeatureSpace
    variances: Array  # (k,)
    noise: float  # σ²
    d: int

    @classmethod
    def of(cls, fit: Fit, d: int) -> Gaussian:
        """The model of a fit; σ² is the mean of the eigenvalues left out, of the min(n, d) that there are."""
        variances, k = score_variances(fit), len(fit.eigenvalues)
        n = max(fit.rank_bound + 1, round(fit.weight))  # a row of weight two is two rows
        left, scale = fit.total - float(fit.eigenvalues.sum()), variances[0] / fit.eigenvalues[0]
        others = min(n, d) - k
        noise = float(left * scale) / others if others > 0 and left > NOTHING * fit.total else 0.0
        return cls(FeatureSpace.of(fit), variances, noise, d)

    def covariance(self) -> Array:  # (d, d)
        return self._matrix(self.variances, self.noise)

    def precision(self) -> Array:  # (d, d)
        """C⁻¹ = V(Λ⁻¹ - σ⁻²I)Vᵀ + σ⁻²I."""
        self._require_noise()
        return self._matrix(1.0 / self.variances, 1.0 / self.noise if self.noise > 0.0 else 0.0)

    def _matrix(self, along: Array, across: float) -> Array:  # (k,) -> (d, d)
        axes = self.space.projection.coef  # (d, k)
        found = (axes * (along - across)) @ axes.T
        found[np.diag_indices_from(found)] += across
        return np.asarray(found)

    def log_likelihood(self, x: Rows) -> Array:  # (b, d) -> (b,)
        """log N(x; μ, C), from the scores and the squared distance from the axes."""
        self._require_noise()
        scores, off = self.space.scores_and_errors(x)  # (b, k), (b,)
        others = self.d - len(self.variances)
        far = np.square(scores) @ (1.0 / self.variances)
        volume = float(np.log(self.variances).sum())
        if others:
            far, volume = far + off / self.noise, volume + others * log(self.noise)
        return np.asarray(-0.5 * (far + volume + self.d * log(2.0 * pi)))

    def _require_noise(self) -> None:
        k = len(self.variances)
        if self.noise > 0.0 or k == self.d:
            return
        msg = (
            f"The {k} components of this model keep all of the variance of {self.d} columns: nothing is left "
            "for the noise in the other directions, and the covariance has no inverse. Fit with fewer "
            "components, such as n_components=0.99, or call truncated(0.99)."
        )
        raise InputError(msg)
