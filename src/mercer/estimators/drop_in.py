"""What scikit-learn's KernelPCA lacks: evidence, variances, and fewer components without a refit."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import UnknownParameterError, refuse
from mercer._core.public import Public
from mercer._core.quick import changed
from mercer._core.types import Array, Rows
from mercer.estimators.derived import kept_components
from mercer.kernels import Kernel
from mercer.kernels.algebra import placed
from mercer.kernels.names import is_positive_only
from mercer.model import Fit, Projection
from mercer.operators.sections import KernelSections


class Evidence(Public):
    """What `mercer.sklearn.KernelPCA` has beyond scikit-learn's."""

    fit_: Fit
    n_components: int | None
    kernel: Any
    eigenvalues_: Array  # (k,)
    eigenvectors_: Array  # (n, k)
    _projection: Projection

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; those of a kernel object as ``kernel__gamma``, of a name without prefix.

        Parameters
        ----------
        **params : parameters by name

        Returns
        -------
        self
        """
        nested = [name for name in params if name.startswith("kernel__")]
        kernel = params.get("kernel", self.kernel)
        if nested and (isinstance(kernel, type) or not hasattr(kernel, "set_params")):
            knob = nested[0].removeprefix("kernel__")
            written = f"Write {knob}={params[nested[0]]!r}"
            remedy = written if hasattr(self, knob) else "Pass kernel_params"
            msg = (
                f"{nested[0]} can't be set: the kernel of this mercer.sklearn.KernelPCA is a name or a "
                f"function, and its parameters are gamma, degree, coef0 and kernel_params. {remedy}; "
                "mercer.KernelPCA takes kernel__gamma, as a kernel object does here."
            )
            raise UnknownParameterError(msg)
        return super().set_params(**params)  # type: ignore[misc]

    @property
    def explained_variance_(self) -> Array:
        """The variance of each score, ``eigenvalues_ / (n - 1)``, with Σw for n where rows have weights."""
        weight = self._evidence("explained_variance_").weight
        return self.eigenvalues_ / (weight - 1.0 if weight > 1.0 else weight)

    @property
    def explained_variance_ratio_(self) -> Array:
        """The share of each component in the true total variance, of kept components and others."""
        return self.eigenvalues_ / self._evidence("explained_variance_ratio_").total

    @property
    def residuals_(self) -> Array:
        """‖K̃u - λu‖/λ₁ of each pair that has a variance, with what rounding may add; in float64."""
        return self._evidence("residuals_").residuals

    def truncated(self, n_components: int | float) -> Self:
        """The same model with fewer components; a pre-image, where there is one, is learned again.

        Parameters
        ----------
        n_components : int or float
            As in `mercer.KernelPCA.truncated`.

        Returns
        -------
        model : KernelPCA

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.sklearn import KernelPCA
        >>> X = np.random.default_rng(0).standard_normal((40, 3))
        >>> model = KernelPCA(5, kernel="rbf").fit(X)
        >>> np.allclose(model.truncated(2).transform(X), model.transform(X)[:, :2])
        True
        """
        check_is_fitted(self)
        fit, was = self._evidence("fit_"), self._projection
        k = kept_components(n_components, self.eigenvalues_, fit.total)
        found: Any = copy(self)
        found.n_components, found.fit_ = k, fit.first(min(k, len(fit.eigenvalues)))
        found.eigenvalues_ = self.eigenvalues_[:k].copy()
        found.eigenvectors_ = self.eigenvectors_[:, :k].copy()
        found._projection = changed(was, coef=was.coef[:, :k].copy(), offset=was.offset[:k].copy())
        if "dual_coef_" in vars(self):
            found._learn_inverse(None if fit.roots is None else fit.roots**2)
        return found

    def _keep_evidence(self, fit: Fit | None, weights: Array | None) -> None:
        """The fitted value with the signs of the estimator, sharing its arrays where they are the same."""
        vars(self).pop("fit_", None)
        # scikit-learn takes more of the small eigenvalues for zeros than a fit does.
        k = int(np.count_nonzero(self.eigenvalues_))
        if fit is None or k == 0:
            return
        if k < len(fit.eigenvalues):
            fit = fit.first(k, fit.asked)
        k = len(fit.eigenvalues)
        own, vectors = self._projection, self.eigenvectors_[:, :k]
        signs = np.where(np.einsum("ij,ij->j", vectors, fit.pairs.vectors) < 0, -1.0, 1.0)
        pairs = fit.pairs.turned(signs)
        if weights is None:  # theirs have no factor √w
            pairs = changed(pairs, vectors=vectors)
        coef, offset = own.coef[:, :k], own.offset[:k]
        if not fit.keeps_points and len(fit.mean.coef) != len(own.coef):  # on explicit features
            own = fit.projection
            coef, offset = own.coef * signs, own.offset * signs
        self.fit_ = changed(fit, pairs=pairs, projection=changed(own, coef=coef, offset=offset))

    def _get_kernel(self, X: Any, Y: Any = None) -> Array:
        """Kernel values of scores, for pre-images: those of the kernel of the rows, as in scikit-learn."""
        sections = self._projection.sections
        if isinstance(self.kernel, Kernel) and isinstance(sections, KernelSections):
            return np.asarray(sections.kernel(X, Y))
        return np.asarray(super()._get_kernel(X, Y))  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        if isinstance(self.kernel, Kernel):
            tags.input_tags.positive_only = is_positive_only(self.kernel)
        return tags

    def _evidence(self, name: str) -> Fit:
        if vars(self).get("fit_") is not None:
            return self.fit_
        why = "Call `fit` first."
        if "eigenvalues_" in vars(self):
            why = "The rows have no variance in feature space, or an earlier version of mercer saved this "
            why += "model: fit it again."
        msg = f"{type(self).__name__} has no {name!r}. {why}"
        raise AttributeError(msg)


# ── kernels that are objects ────────────────────────────────────────────────
def is_precomputed(kernel: Any) -> bool:
    """Whether rows are kernel values, by the name of the kernel or the object."""
    if isinstance(kernel, str):
        return kernel == "precomputed"
    return isinstance(kernel, Kernel) and kernel.is_precomputed


def read_off(model: Any, x: Rows, weights: Array | None, rng: np.random.Generator) -> Kernel:
    """The kernel with every parameter a number, read off the rows that count, as in `mercer.KernelPCA`."""
    if given := model.kernel_params:
        wanted = "None where kernel is an object, which has its parameters itself"
        refuse("kernel_params", given, wanted, repr(given))
    kernel: Kernel = placed(model.kernel, getattr(model, "feature_names_in_", None))
    kernel.check_rows(x)
    if weights is not None:
        there = np.flatnonzero(weights)
        x, weights = x[there], weights[there]
    return kernel.resolve(x, rng=rng, weights=weights)


# ── scikit-learn's numbers ──────────────────────────────────────────────────
def completed(vectors: Array, k: int, rng: np.random.Generator) -> Array:
    """The vectors, and others orthogonal to them and to each other, up to k."""
    n, rank = vectors.shape
    block = np.concatenate([vectors, rng.standard_normal((n, k - rank))], axis=1)
    return np.concatenate([vectors, np.linalg.qr(block)[0][:, rank:]], axis=1)


def average(rows: Rows, weights: Array | None) -> Array:
    """Mean of the rows, each as often as it counts."""
    if weights is None:
        return np.asarray(rows.mean(axis=0))
    return np.asarray((weights / weights.sum()) @ rows)


def centred(vectors: Array, weights: Array | None) -> Array:
    """W(I - 1wᵀ/Σw)v: coefficients that sum to zero."""
    if weights is None:
        return vectors - vectors.mean(axis=0)
    return ((vectors - average(vectors, weights)) * weights[:, None]).astype(vectors.dtype)


def symmetric(x: Array, weights: Array | None) -> Array:
    """scikit-learn accepts any square matrix: it centres it, and its LAPACK reads one triangle."""
    if np.array_equal(x, x.T):
        return x
    if weights is None:
        even = KernelCenterer().fit(x).transform(x)
    else:
        across = x - average(x, weights)
        even = across - average(across.T, weights)[:, None]
    return np.asarray(np.tril(even) + np.tril(even, -1).T)
