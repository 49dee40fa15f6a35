"""Kernel PCA as a scikit-learn estimator: a form to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, MemoryBudgetError, nearest
from mercer._core.memory import format_bytes, parse_bytes
from mercer.estimators.base import Projector
from mercer.estimators.validation import (
    as_generator,
    check_n_components,
    check_rows,
    check_square,
    remember_columns,
    tell,
)
from mercer.kernels import as_kernel
from mercer.model import Fit, Plan, Problem, fit_kernel_pca, plan
from mercer.preimage import PREIMAGES, FittedPreimage, Preimage

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels import Kernel


EXAMPLES = {
    "kernel": "kernel=RBF()",
    "solver": "solver=BlockKrylov()",
    "preimage": "preimage=Ridge()",
}


class KernelPCA(Projector):
    """Exact kernel PCA: scores(x) = k(x, X) A - b, with the evidence that A is right.

    Parameters
    ----------
    n_components : int, float or None, default=2
        A number of components, a share of the variance such as 0.95, or None for all with a
        variance above rounding.
    kernel : str, Kernel or callable, default="rbf"
        A name, an object such as ``RBF(gamma="median") + 0.5 * Linear()``, a scikit-learn
        Gaussian-process kernel, or a Python function of two points or two matrices.
        ``"precomputed"`` takes the kernel matrix in place of X.
    solver : str or Solver, default="auto"
        ``"lapack"``, ``"krylov"``, or an object such as ``BlockKrylov(tol=1e-10)``. The automatic
        choice and its reasons are in ``plan_``.
    preimage : str, Preimage or None, default=None
        How to come back to input space: ``"ridge"`` or ``Ridge(alpha=1e-3)``. None: no
        `inverse_transform`.
    memory : str or int, default="auto"
        What the fit may use, such as ``"4GB"``; checked before anything is allocated. ``"auto"`` is a
        share of what is free.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start vectors and of the sampled median; None is a fixed seed.

    Attributes
    ----------
    n_components_ : int
        Number of components kept.
    kernel_ : Kernel
        The kernel with every parameter a number.
    eigenvalues_ : ndarray of shape (k,)
        Largest eigenvalues of the centred kernel matrix.
    eigenvectors_ : ndarray of shape (n, k)
        Their unit eigenvectors.
    explained_variance_ : ndarray of shape (k,)
        ``eigenvalues_ / (n - 1)``: the variance of each score.
    explained_variance_ratio_ : ndarray of shape (k,)
        Shares of the true total variance, kept components or not.
    residuals_ : ndarray of shape (k,)
        ‖K̃u - λu‖/λ₁ of each pair: its eigenvalue is within residual · λ₁ of a true one.
    plan_ : Plan
        Route, solver and storage, with reasons.
    fit_ : Fit
        The fitted value: projection and evidence. Print it.
    preimage_ : FittedPreimage
        The way back, when ``preimage`` is set.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> from mercer.kernels import RBF
    >>> X, _ = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    >>> model = KernelPCA(n_components=2, kernel=RBF(gamma=10)).fit(X)
    >>> model.transform(X[:3]).shape
    (3, 2)
    >>> bool(model.residuals_.max() < 1e-10)
    True
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        kernel: Any = "rbf",
        solver: Any = "auto",
        preimage: Any = None,
        memory: str | float = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.solver = solver
        self.preimage = preimage
        self.memory = memory
        self.random_state = random_state

    # ── fit ─────────────────────────────────────────────────────────────────
    def _fit(self, X: Any) -> Fit:
        kernel, method = as_kernel(self.kernel), _preimage(self.preimage)
        rng = as_generator(self.random_state)
        # A copy: the model keeps these rows, and the caller may change his.
        x = check_rows(self, X, reset=True, copy=not kernel.is_precomputed)
        if kernel.is_precomputed:
            x = check_square(x)
            _refuse_preimage(method, "the kernel is precomputed, so the rows are not known")
        if hasattr(x, "indptr"):
            _refuse_preimage(method, "the rows are sparse; use X.toarray()")
        asked = check_n_components(self.n_components, x.shape[0])
        kernel.check_rows(x)
        kernel = kernel.resolve(x, rng=rng)
        chosen = self._plan(kernel, x, asked)
        if method is not None:
            _refuse_large_preimage(x.shape[0], parse_bytes(self.memory))
        fit = fit_kernel_pca(kernel, x, asked, plan=chosen, rng=rng)
        back = None if method is None else method.fit(fit.scores, x, rng=rng)
        # Only now, with everything done, does the estimator change.
        remember_columns(self, X)
        self.kernel_, self.fit_, self.plan_ = kernel, fit, chosen
        self._dtype = np.dtype(x.dtype)
        if back is not None:
            self.preimage_ = back
        elif hasattr(self, "preimage_"):
            del self.preimage_
        tell(fit)
        return fit

    def _plan(self, kernel: Kernel, x: Rows, asked: int | float | None) -> Plan:
        n, d = int(x.shape[0]), int(x.shape[1])
        problem = Problem(
            n=n,
            d=d,
            n_components=asked,
            itemsize=x.dtype.itemsize,
            budget_bytes=parse_bytes(self.memory),
            map_dimension=kernel.map_dimension(d),
            shift_invariant=kernel.shift_invariant and not hasattr(x, "indptr"),
            precomputed=kernel.is_precomputed,
            costly=not kernel.parallel,
        )
        return plan(problem, self.solver)

    # ── use ─────────────────────────────────────────────────────────────────
    def transform(self, X: Any) -> Array:
        """Scores of new rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (b, d)
            Rows; for a precomputed kernel the (b, n) kernel values against the training points.

        Returns
        -------
        scores : ndarray of shape (b, k)
        """
        x = self._rows(X)
        self.kernel_.check_rows(x)
        return self.fit_.projection(x)

    def inverse_transform(self, X: Any) -> Array:
        """Points in input space whose scores are near the given ones.

        Parameters
        ----------
        X : array-like of shape (b, k)
            Scores.

        Returns
        -------
        points : ndarray of shape (b, d)
        """
        check_is_fitted(self)
        back: FittedPreimage | None = getattr(self, "preimage_", None)
        if back is None:
            msg = (
                "inverse_transform was called, but this model was fitted with preimage=None and knows no "
                "way back. Fit it with preimage='ridge'."
            )
            raise InputError(msg)
        return back(self._scores(X)).astype(self._dtype, copy=False)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the parts as ``kernel__gamma`` or ``solver__tol``.

        Parameters
        ----------
        **params : parameters by name

        Returns
        -------
        self
        """
        parts = {**self.get_params(deep=False), **params}
        for name in params:
            part, _, knob = name.partition("__")
            if knob and isinstance(parts.get(part), str):
                msg = (
                    f"{name!r} was to be set, but {part}={parts[part]!r} is a name and has no {knob!r}. "
                    f"Pass an object, such as {EXAMPLES.get(part, part)}."
                )
                raise InputError(msg)
        super().set_params(**params)
        return self

    # ── what was found ──────────────────────────────────────────────────────
    @property
    def eigenvectors_(self) -> Array:
        """Unit eigenvectors of the centred kernel matrix."""
        return self._fitted("eigenvectors_").pairs.vectors.astype(self._dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self.kernel == "precomputed" or getattr(self.kernel, "is_precomputed", False)
        tags.input_tags.pairwise = bool(precomputed)
        tags.input_tags.sparse = not precomputed and self.preimage is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _refuse_large_preimage(n: int, budget: int) -> None:
    needed = 2 * 8 * n * n  # the system of the ridge, and its factor
    if needed > budget:
        msg = (
            f"The ridge pre-image of n={n} rows needs about {format_bytes(needed)}, but `memory` allows "
            f"{format_bytes(budget)}. Raise `memory`, fit on fewer rows, or use preimage=None."
        )
        raise MemoryBudgetError(msg)


def _preimage(preimage: Any) -> Preimage | None:
    if preimage is None or isinstance(preimage, Preimage):
        return preimage
    if isinstance(preimage, str):
        if preimage in PREIMAGES:
            return PREIMAGES[preimage]()
        msg = f"Unknown pre-image method {preimage!r}. {nearest(preimage, PREIMAGES)}"
        raise InputError(msg)
    msg = (
        f"preimage must be None, a name or an object, but a {type(preimage).__name__} came. "
        f"{nearest('', PREIMAGES)}"
    )
    raise InputError(msg)


def _refuse_preimage(method: Preimage | None, why: str) -> None:
    if method is not None:
        msg = f"preimage={method!r} was asked for, but {why}. Use preimage=None."
        raise InputError(msg)
