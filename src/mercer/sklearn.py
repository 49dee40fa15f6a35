"""Drop-in: scikit-learn's KernelPCA, signature and all, running on mercer's spine.

Migration is one changed import::

    from mercer.sklearn import KernelPCA

Parameters, attributes, numbers and errors are scikit-learn's. What changes is what happens inside: the
top components come from a block Krylov solver, degenerate spectra do not crash, and the pre-image
system is solved once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse
from sklearn.base import _fit_context
from sklearn.decomposition import KernelPCA as _Reference
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import (
    _check_psd_eigenvalues,
    check_array,
    check_is_fitted,
    validate_data,
)

from mercer._core.errors import KernelError, ZeroVarianceError
from mercer._core.memory import parse_bytes
from mercer._core.types import Array, Rows
from mercer.data.intake import admitted
from mercer.data.training import TrainingData
from mercer.engine.base import Facts
from mercer.engine.resolve import AUTO, facts_for, resolve_engine
from mercer.engine.threads import lanes
from mercer.estimators.base import Saving, has_light_rows
from mercer.estimators.drop_in import (
    Evidence,
    average,
    centred,
    completed,
    is_precomputed,
    read_off,
    symmetric,
)
from mercer.estimators.input import as_generator, check_weights, require_finite
from mercer.kernels import RBF, Cosine, Custom, Kernel, Linear, Polynomial, Precomputed, Sigmoid
from mercer.kernels.names import as_kernel
from mercer.kernels.rows import as_given, as_rows
from mercer.model import Fit, Plan, Problem, Projection, Task, fit_kernel_pca, gram_operator
from mercer.model.dual import dual_fit
from mercer.model.rounding import in_precision
from mercer.operators import Centred
from mercer.operators.sections import GivenSections, KernelSections
from mercer.planning.plan import plan
from mercer.solvers import BlockKrylov, EigenPairs, Lanczos, Lapack
from mercer.solvers.refine import negative_part

__all__ = ["KernelPCA"]

# What stands for tol=0, "to machine precision", by the bytes of a number: residuals over λ₁.
TOL = {8: 1e-12, 4: 1e-6}
# Which parameters a kernel has; at zero scikit-learn's code is used. The others have none that matter.
POSITIVE = {"rbf": ("gamma_",), "sigmoid": ("gamma_",), "poly": ("gamma_", "degree")}


class KernelPCA(Saving, Evidence, _Reference):  # type: ignore[misc]
    """Kernel PCA with scikit-learn's sixteen parameters, attributes and numbers.

    See `sklearn.decomposition.KernelPCA` for the parameters. As `eigen_solver`, ``"dense"`` is LAPACK; others
    let mercer's planner choose between LAPACK and block Krylov, which iterates to the precision of the data,
    or to `tol` where ``"arpack"`` is given one. If it does not get there, LAPACK takes over, or, where the
    matrix does not fit into memory, a `ConvergenceWarning` says how far it got.

    `kernel` may also be an object of `mercer.kernels`, such as ``RBF("median") + Linear()``, which has its
    parameters itself and is evaluated on matrices, not row by row as functions are; its widths are read off
    the training rows.

    Beyond scikit-learn's, `fit` and `fit_transform` take ``sample_weight``, `truncated` keeps fewer
    components, and ``plan_``, ``fit_`` (but where the rows have no variance), ``explained_variance_`` and
    ``explained_variance_ratio_`` are as in `mercer.KernelPCA`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.sklearn import KernelPCA
    >>> X = load_iris().data
    >>> model = KernelPCA(n_components=2, kernel="rbf").fit(X)
    >>> model.transform(X).shape, model.explained_variance_ratio_.round(2)
    ((150, 2), array([0.52, 0.21]))
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model from data in X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts, which scikit-learn does not have: 2 is a row that is there twice, 0
            one that is not there. ``eigenvectors_`` has the entries that a repeated row would have, once.

        Returns
        -------
        self
        """
        del y
        if self.fit_inverse_transform and is_precomputed(self.kernel):
            msg = "Cannot fit_inverse_transform with a precomputed kernel."
            raise ValueError(msg)
        X = validate_data(self, admitted(X), accept_sparse="csr", copy=self.copy_X)
        weights = check_weights(sample_weight, X.shape[0])
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        self.X_fit_ = X
        facts = resolve_engine(AUTO).facts()
        with lanes(facts.lanes):
            self._fit_pairs(self._rows(X), weights, facts)
        if self.fit_inverse_transform:
            self._learn_inverse(weights)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the model from data in X and transform X.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; rows of weight 0 get scores too.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        del y
        self.fit(X, sample_weight=sample_weight)
        # The pre-image, if any, was learned in `fit`: once.
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def transform(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, admitted(X), accept_sparse="csr", reset=False)
        X = check_array(X, input_name="X") if is_precomputed(self.kernel) else X  # dense
        rows = self._rows(X).astype(self._projection.coef.dtype, copy=False)
        sections = self._projection.sections
        if isinstance(sections, KernelSections):
            sections.kernel.check_rows(rows)
        return self._projection(rows)

    def _rows(self, X: Any) -> Rows:
        """Rows of floats; to a function they are what scikit-learn hands it, a csr_matrix for one."""
        ours = getattr(self.kernel, "parallel", False) or not callable(self.kernel)
        # Times are numbers to scikit-learn.
        rows = as_rows(X.astype(np.float64) if X.dtype.kind in "mM" else X)
        if X.dtype.kind == "O":  # whose None validate_data lets pass
            require_finite(rows)
        return rows if ours else as_given(X, rows)

    def inverse_transform(self, X: Any) -> Array:
        return np.asarray(super().inverse_transform(admitted(X)))

    # ── on the spine ────────────────────────────────────────────────────────
    def _fit_pairs(self, x: Rows, weights: Array | None, facts: Facts) -> None:
        kernel = self._kernel()
        if kernel.is_precomputed:
            n, m = x.shape
            if n != m:
                msg = f"Precomputed kernel matrix must be square. Input is a {n}x{m} matrix."
                raise ValueError(msg)
            # Which refuses a sparse one, as scikit-learn's centring does.
            matrix = check_array(x, input_name="X")
            x = symmetric(x, weights)
        rng = as_generator(self.random_state)
        if isinstance(self.kernel, Kernel):
            kernel = read_off(self, x, weights, rng)
        n = int(x.shape[0])
        k = n if self.n_components is None else min(n, int(self.n_components))
        facts, stands_in = facts_for(AUTO, facts, kernel, x)
        budget = parse_bytes("auto", free=facts.free_bytes)
        self.plan_ = self._plan(kernel, x, k, facts, budget)
        if stands_in is not None and kernel.parallel and not kernel.is_precomputed:
            self.plan_ = self.plan_.because(f"tiles are NumPy's: {stands_in}")
        task = Task(kernel, x, k, self.plan_, rng, weights)
        if self.plan_.route == "primal":
            fit, values, vectors, means = self._primal_pairs(task)
        else:
            with lanes(self.plan_.n_threads):
                operator = gram_operator(kernel, x, self.plan_, weights, engine=task.engine)
                pairs = self._dual_pairs(operator, task, k, budget)
                asked = None if self.n_components is None else k
                fit = None  # where no component has a variance, of which scikit-learn makes zeros
                with suppress(ZeroVarianceError, KernelError):
                    fit = dual_fit(replace(task, asked=asked, plan=self.plan_), operator, pairs)
            values, vectors, means = pairs.values, pairs.vectors, operator.row_means
        if kernel.is_precomputed:
            means = np.average(matrix, axis=0, weights=weights)
            task = replace(task, x=matrix)
        self._finish(task, values, vectors, means)
        self._keep_evidence(fit, weights)

    def _dual_pairs(self, operator: Centred, task: Task, k: int, budget: int) -> EigenPairs:
        pairs = self.plan_.solver(operator, k, rng=task.rng)
        if not pairs.status.ok:
            # K and the eigenvectors, as in the plan for LAPACK's subset driver, in 8 bytes an entry.
            if 2 * operator.n**2 * 8 <= budget:
                self._take_over(Lapack(subset=True))
                pairs = self.plan_.solver(operator, k, rng=task.rng)
            else:
                _warn_unconverged(pairs, operator.n)
        if self.eigen_solver == "randomized" and task.kernel.why_valid() is None:
            # scikit-learn selects by modulus there, and so refuses a matrix whose negative end
            # reaches above the k-th eigenvalue.
            lowest = negative_part(operator, rng=task.rng).lowest
            if -lowest > pairs.values[-1]:
                _check_psd_eigenvalues(np.append(pairs.values, lowest), enable_warnings=False)
        return pairs

    def _take_over(self, solver: Lapack) -> None:
        why = "Krylov did not converge: LAPACK took over"
        self.plan_ = replace(self.plan_, solver=solver).because(why)

    def _primal_pairs(self, task: Task) -> tuple[Fit | None, Array, Array, Array]:
        """The fit through the explicit map, its pairs completed up to k where scikit-learn keeps zeros."""
        (n, d), k, fit = task.x.shape, int(task.asked or 0), None
        try:
            fit = fit_kernel_pca(task)
            if not fit.pairs.status.ok:  # the m x m covariance is there already, so LAPACK fits
                self._take_over(Lapack())
                fit = fit_kernel_pca(replace(task, plan=self.plan_))
            values, vectors = fit.pairs.values, fit.pairs.vectors
        except ZeroVarianceError:  # scikit-learn's answer is zeros; H1 = 0 is one it can start from
            values, vectors = np.zeros(1), np.full((n, 1), n**-0.5)
        if len(values) < k and not self._drops_zeros():
            values, vectors = np.pad(values, (0, k - len(values))), completed(vectors, k, task.rng)
        features = task.kernel.feature_map(int(d))(task.x)
        means = features @ average(features, task.weights)  # Kw/Σw = Φ(Φᵀw/Σw)
        return fit, values, vectors, np.asarray(means)

    def _drops_zeros(self) -> bool:
        return self.remove_zero_eig or self.n_components is None

    def _finish(self, task: Task, values: Array, vectors: Array, means: Array) -> None:
        """scikit-learn's own clean-up of eigenvalues and signs, then the projection."""
        kernel, x, weights = task.kernel, task.x, task.weights
        # The eigenvectors carry √w; copies of a row have the entry without it.
        if weights is not None:
            there, roots = (weights > 0)[:, None], np.sqrt(weights)[:, None]  # in float64
            vectors = np.divide(vectors, roots, where=there, out=np.zeros(vectors.shape))
        dtype = x.dtype
        # Of weights far from one float32 may not hold them.
        values = _check_psd_eigenvalues(in_precision(values, dtype), enable_warnings=False)
        vectors, _ = svd_flip(u=in_precision(vectors, dtype), v=None)
        if self._drops_zeros():
            vectors, values = vectors[:, values > 0], values[values > 0]
        self.eigenvalues_, self.eigenvectors_ = values, vectors
        scale = np.sqrt(values, where=values > 0, out=np.full_like(values, np.inf))
        coef = centred(vectors / scale, weights).astype(dtype)  # zero for the null space
        offset = (means.astype(np.float64) @ coef.astype(np.float64)).astype(dtype)
        given = GivenSections(len(vectors))
        sections = given if kernel.is_precomputed else KernelSections(kernel, x)
        self._projection = Projection(sections, coef, offset)
        if has_light_rows(weights):  # their entries are rounding, or none: scores are not
            scores, none = self._projection(x), np.zeros_like(vectors)
            self.eigenvectors_ = np.divide(scores, np.sqrt(values), where=values > 0, out=none)
        # What tools that read the fitted model look for.
        self._centerer = KernelCenterer().set_output(transform="default")
        self._centerer.K_fit_rows_ = means.astype(dtype)
        self._centerer.K_fit_all_ = np.average(means, weights=weights).astype(dtype)
        self._centerer.n_features_in_ = len(vectors)

    def _learn_inverse(self, weights: Array | None) -> None:
        """Kernel ridge regression of weighted rows, (K + αW⁻¹)a = X: what repeated rows would give."""
        scores, X = self.eigenvectors_ * np.sqrt(self.eigenvalues_), self.X_fit_
        if weights is None or sparse.issparse(X):  # which scikit-learn refuses
            self._fit_inverse_transform(scores, X)
            return
        there = np.flatnonzero(weights)
        system = self._get_kernel(scores[there])
        system[np.diag_indices_from(system)] += self.alpha / weights[there]
        self.dual_coef_ = np.zeros(X.shape, dtype=X.dtype)
        self.dual_coef_[there] = linalg.solve(system, X[there], assume_a="pos", overwrite_a=True)
        self.X_transformed_fit_ = scores

    def _plan(self, kernel: Kernel, x: Rows, k: int, facts: Facts, budget: int) -> Plan:
        problem = Problem.of(TrainingData(x), kernel, k, facts=facts, budget=budget)
        if self.eigen_solver == "dense":  # K is wanted, even where an explicit map is shorter
            return plan(replace(problem, map_dimension=None), Lapack(subset=k < problem.n // 2))
        chosen = plan(problem, "auto")
        if isinstance(chosen.solver, Lanczos | Lapack):  # both go on to rounding
            return chosen
        # The planner's own tolerance is for pictures. Users of scikit-learn expect ARPACK's digits,
        # in small eigenvalues too; asking for them also makes the plan store K in full precision.
        given = self.eigen_solver == "arpack" and self.tol > 0
        tol = max(float(self.tol), 1e-14) if given else TOL[x.dtype.itemsize]
        tight = plan(problem, BlockKrylov(tol=tol))
        return replace(tight, reasons=(*chosen.reasons[:1], *tight.reasons[1:]))

    def _kernel(self) -> Kernel:
        if isinstance(self.kernel, Kernel | type):
            return as_kernel(self.kernel)
        makers: dict[str, Callable[[], Kernel]] = {
            "precomputed": Precomputed,
            "linear": Linear,
            "cosine": Cosine,
            "rbf": lambda: RBF(self.gamma_),
            "sigmoid": lambda: Sigmoid(self.gamma_, self.coef0),
            "poly": lambda: Polynomial(self.degree, self.gamma_, self.coef0),
        }
        known = not callable(self.kernel)
        ours = known and all(getattr(self, name) > 0 for name in POSITIVE.get(self.kernel, ()))
        # Functions, and corners such as gamma=0, which kernels here refuse: scikit-learn's code.
        return makers[self.kernel]() if ours else Custom(_Pairwise(self), form="matrices")


def _warn_unconverged(pairs: EigenPairs, n: int) -> None:
    msg = (
        f"Block Krylov stopped at a residual of {pairs.residuals.max():.1e} of the largest "
        f"eigenvalue, and free memory does not hold LAPACK's {n} x {n} matrices. "
        "Ask for fewer components, loosen `tol` with eigen_solver='arpack', or fit on fewer rows."
    )
    warnings.warn(msg, ConvergenceWarning, stacklevel=2)


class _Pairwise:
    """A kernel by scikit-learn's rules, as a function of two matrices; it can be pickled."""

    __name__ = "pairwise_kernels"

    def __init__(self, model: KernelPCA) -> None:
        self.metric, self.n_jobs = model.kernel, model.n_jobs
        self.params = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
        if callable(model.kernel):
            self.params = model.kernel_params or {}

    def __call__(self, x: Rows, y: Rows) -> Array:
        rules = {"metric": self.metric, "filter_params": True, "n_jobs": self.n_jobs}
        return np.asarray(pairwise_kernels(x, y, **rules, **self.params))
