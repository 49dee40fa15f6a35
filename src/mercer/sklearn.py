"""Drop-in: scikit-learn's own KernelPCA, signature and all, running on mercer's spine.

Migration is one changed import::

    from mercer.sklearn import KernelPCA

Parameters, attributes, numbers and errors are scikit-learn's. What changes is what happens inside: the
top components come from a block Krylov solver, degenerate spectra do not crash, and the pre-image
system is solved once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.decomposition import KernelPCA as _Reference
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import _check_psd_eigenvalues, check_is_fitted, validate_data

from mercer._core.errors import ZeroVarianceError
from mercer._core.memory import parse_bytes
from mercer.estimators.validation import as_generator
from mercer.kernels import RBF, Cosine, Custom, Linear, Polynomial, Precomputed, Sigmoid
from mercer.kernels.base import as_rows
from mercer.model import (
    GivenSections,
    KernelSections,
    Plan,
    Problem,
    Projection,
    fit_kernel_pca,
    gram_operators,
    plan,
)
from mercer.operators import minus_mean
from mercer.solvers import BlockKrylov, Lapack, Solver
from mercer.solvers.lowend import low_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array, Rows
    from mercer.kernels import Kernel

__all__ = ["KernelPCA"]


class KernelPCA(_Reference):  # type: ignore[misc]
    """Kernel PCA with scikit-learn's sixteen parameters, attributes and numbers.

    See `sklearn.decomposition.KernelPCA` for the parameters. `eigen_solver` keeps its meaning:
    ``"dense"`` is LAPACK, the others let mercer's planner choose. The plan is in ``plan_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.sklearn import KernelPCA
    >>> X = load_iris().data
    >>> KernelPCA(n_components=2, kernel="rbf").fit_transform(X).shape
    (150, 2)
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model from data in X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        del y
        if self.fit_inverse_transform and self.kernel == "precomputed":
            msg = "Cannot fit_inverse_transform with a precomputed kernel."
            raise ValueError(msg)
        X = validate_data(self, X, accept_sparse="csr", copy=self.copy_X)
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        self.X_fit_ = X
        self._fit_pairs(as_rows(X))
        if self.fit_inverse_transform:
            self._fit_inverse_transform(self.eigenvectors_ * np.sqrt(self.eigenvalues_), X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Array:
        """Fit the model from data in X and transform X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        **params : passed to fit

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        del y
        self.fit(X, **params)
        # The pre-image, if any, was learned in `fit`: once.
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def transform(self, X: Any) -> Array:
        """Transform X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return self._projection(as_rows(X).astype(self._projection.coef.dtype, copy=False))

    # ── on the spine ────────────────────────────────────────────────────────
    def _fit_pairs(self, x: Rows) -> None:
        kernel = self._kernel()
        if kernel.is_precomputed:
            if x.shape[0] != x.shape[1]:
                shape = f"{x.shape[0]}x{x.shape[1]}"
                msg = f"Precomputed kernel matrix must be square. Input is a {shape} matrix."
                raise ValueError(msg)
            given, x = x, _symmetric(x)
        rng = as_generator(self.random_state)
        n = int(x.shape[0])
        k = n if self.n_components is None else min(n, self.n_components)
        self.plan_ = self._plan(kernel, x, k)
        if self.plan_.route == "primal":
            values, vectors, means = _primal_pairs(kernel, x, k, self.plan_, rng)
        else:
            values, vectors, means = self._dual_pairs(kernel, x, k, rng)
        if kernel.is_precomputed:
            means = given.mean(axis=0)
        self._finish(kernel, x, values, vectors, means)

    def _dual_pairs(
        self, kernel: Kernel, x: Rows, k: int, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        operator, sketch = gram_operators(kernel, x, self.plan_)
        pairs = self.plan_.solver(operator, k, rng=rng, sketch=sketch)
        if self.eigen_solver == "randomized" and kernel.why_valid() is None:
            # scikit-learn selects by modulus there, and so refuses a matrix whose negative end
            # reaches above the k-th eigenvalue.
            lowest = low_end(operator, rng=rng).lowest
            if -lowest > pairs.values[-1]:
                _check_psd_eigenvalues(np.append(pairs.values, lowest), enable_warnings=False)
        return pairs.values, pairs.vectors, operator.row_means

    def _finish(self, kernel: Kernel, x: Rows, values: Array, vectors: Array, means: Array) -> None:
        """scikit-learn's own clean-up of eigenvalues and signs, then the projection."""
        dtype = x.dtype
        values = _check_psd_eigenvalues(values.astype(dtype), enable_warnings=False)
        vectors, _ = svd_flip(u=vectors.astype(dtype), v=None)
        if self.remove_zero_eig or self.n_components is None:
            vectors, values = vectors[:, values > 0], values[values > 0]
        self.eigenvalues_, self.eigenvectors_ = values, vectors
        scale = np.sqrt(values, where=values > 0, out=np.full(len(values), np.inf, dtype=dtype))
        coef = minus_mean(vectors / scale)  # zero for the null space
        offset = (means.astype(np.float64) @ coef.astype(np.float64)).astype(dtype)
        sections = (
            GivenSections(len(vectors)) if kernel.is_precomputed else KernelSections(kernel, x)
        )
        self._projection = Projection(sections, coef, offset)
        # What tools that read the fitted model look for.
        self._centerer = KernelCenterer().set_output(transform="default")
        self._centerer.K_fit_rows_ = means.astype(dtype)
        self._centerer.K_fit_all_ = means.astype(dtype).mean()
        self._centerer.n_features_in_ = len(vectors)

    def _plan(self, kernel: Kernel, x: Rows, k: int) -> Plan:
        n, d = int(x.shape[0]), int(x.shape[1])
        solver: str | Solver = "auto"
        map_dimension = kernel.map_dimension(d)
        if self.eigen_solver == "dense":
            solver, map_dimension = Lapack(subset=k < n // 2), None
        elif self.eigen_solver == "arpack" and self.tol > 0:
            solver = BlockKrylov(tol=max(self.tol, 1e-14))
        problem = Problem(
            n=n,
            d=d,
            n_components=k,
            itemsize=x.dtype.itemsize,
            budget_bytes=parse_bytes("auto"),
            map_dimension=map_dimension,
            shift_invariant=kernel.shift_invariant and not hasattr(x, "indptr"),
            precomputed=kernel.is_precomputed,
            costly=not kernel.parallel,
        )
        return plan(problem, solver)

    def _kernel(self) -> Kernel:
        makers: dict[str, Callable[[], Kernel]] = {
            "precomputed": Precomputed,
            "linear": Linear,
            "cosine": Cosine,
            "rbf": lambda: RBF(self.gamma_),
            "sigmoid": lambda: Sigmoid(self.gamma_, self.coef0),
            "poly": lambda: Polynomial(self.degree, self.gamma_, self.coef0),
        }
        ours = not callable(self.kernel) and self.gamma_ > 0 and self.degree > 0
        # Functions, and corners such as gamma=0 that are no kernel of ours: scikit-learn's own code.
        return makers[self.kernel]() if ours else Custom(_Pairwise(self), form="matrices")


class _Pairwise:
    """A kernel by scikit-learn's rules, as a function of two matrices; it can be pickled."""

    __name__ = "pairwise_kernels"

    def __init__(self, model: KernelPCA) -> None:
        self.metric = model.kernel
        self.n_jobs = model.n_jobs
        self.params = (
            model.kernel_params or {}
            if callable(model.kernel)
            else {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
        )

    def __call__(self, x: Rows, y: Rows) -> Array:
        return np.asarray(
            pairwise_kernels(
                x, y, metric=self.metric, filter_params=True, n_jobs=self.n_jobs, **self.params
            )
        )


def _primal_pairs(
    kernel: Kernel, x: Rows, k: int, chosen: Plan, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Eigenpairs through the explicit map, completed by vectors of the null space up to k."""
    try:
        pairs = fit_kernel_pca(kernel, x, k, plan=chosen, rng=rng).pairs
        values, known = pairs.values, pairs.vectors
    except ZeroVarianceError:  # scikit-learn's answer to constant data is zeros
        values, known = np.zeros(0), np.zeros((x.shape[0], 0))
    missing = k - len(values)
    block = np.concatenate([known, rng.standard_normal((x.shape[0], missing))], axis=1)
    fresh = np.linalg.qr(block)[0][:, len(values) :]  # orthogonal to the known ones
    vectors = np.concatenate([known, fresh], axis=1)
    values = np.concatenate([values, np.zeros(missing)])
    features = kernel.feature_map(int(x.shape[1]))(x)
    means = features @ features.mean(axis=0)  # K1/n = Φ(Φᵀ1/n)
    return values, vectors, np.asarray(means)


def _symmetric(x: Array) -> Array:
    """scikit-learn accepts any square matrix: it centres it, and its LAPACK reads one triangle."""
    if np.array_equal(x, x.T):
        return x
    centred = KernelCenterer().fit(x).transform(x)
    lower = np.tril(centred)
    return np.asarray(lower + np.tril(centred, -1).T)
