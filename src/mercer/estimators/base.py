"""What every fitted estimator shows, read off its one fitted value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._core.errors import InputError, refuse
from mercer._core.findings import warn
from mercer._core.public import Public
from mercer._core.types import Array, Rows
from mercer.data.arrays import is_tensor
from mercer.data.dask import dask_kind
from mercer.data.intake import admitted
from mercer.data.rows import RowSource
from mercer.estimators.derived import Derivable
from mercer.estimators.form import Form
from mercer.estimators.input import (
    check_kernel_rows,
    in_our_name,
    is_whitened,
    new_rows,
    require_finite,
)
from mercer.estimators.preimages import preimages_for, warn_if_far, warn_if_unsettled
from mercer.estimators.progress import CallbackSupport, announced, with_callbacks
from mercer.estimators.scores import (
    as_collection,
    check_out,
    lazy_scores,
    like,
    require_scores,
    require_squares,
    score_spread,
    whitened,
)
from mercer.kernels import Kernel
from mercer.kernels.names import is_positive_only
from mercer.model import Fit
from mercer.model.projection import Projection, holds
from mercer.model.rounding import in_precision
from mercer.model.space import FeatureSpace
from mercer.monitoring.statistics import score_variances

# The site that `make docs` builds in a checkout; an installed package has none beside it.
BUILT = Path(__file__).parents[3] / "docs" / "_build" / "html"


def site() -> str:
    """Where the documents are: ``MERCER_DOCS``, or the site that was built in this checkout, or ""."""
    given = os.environ.get("MERCER_DOCS", "")
    return given.rstrip("/") or (BUILT.as_uri() if (BUILT / "index.html").exists() else "")


class Documented:
    """What scikit-learn's HTML repr asks for; without a site there is no link."""

    _doc_link_module = "mercer"

    @property
    def _doc_link_template(self) -> str:
        base = site()
        return f"{base}/reference/generated/{{module}}.{{name}}.html" if base else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        cls = type(self)
        home = cls.__module__ if cls.__module__ in ("mercer.sklearn", "mercer.pyod") else "mercer"
        return {"module": home, "name": cls.__name__}


class Saving(Documented, Public):
    """`save`, beside `mercer.load`."""

    def save(
        self, path: str | os.PathLike[str], *, data: Any = None, about: dict[str, Any] | None = None
    ) -> None:
        """Write the fitted model to a file, in a single step: the old file or the new one, never half.

        Parameters
        ----------
        path : str or path-like
            The file; ``.mercer`` is the usual ending.
        data : array-like, sparse matrix or source of rows, or a dict, optional
            The training rows, of which a digest is kept (a dict as it is), to show later what was fitted.
            An exact fit keeps its rows and needs none.
        about : dict, optional
            Anything that JSON can hold, such as the author, or the command of the fit.

        Examples
        --------
        >>> import tempfile, mercer, numpy as np
        >>> X = np.random.default_rng(0).standard_normal((40, 3))
        >>> model = mercer.KernelPCA(2).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.mercer")
        ...     again = mercer.load(f"{folder}/model.mercer")
        >>> np.array_equal(again.transform(X), model.transform(X))
        True
        """
        from mercer.persistence.model_file import save  # a layer above this one

        save(self, path, data=data, about=about)


class Projector(
    Form,
    Saving,
    Derivable,
    CallbackSupport,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """An estimator around a `Fit`: it stores ``fit_`` and ``_dtype``, all else is read off them."""

    fit_: Fit
    _dtype: np.dtype[Any]
    n_features_in_: int
    # `out` is where scores go, nothing that a pipeline would route.
    __metadata_request__transform: ClassVar[dict[str, str]] = {"out": UNUSED}

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or a source of rows
            Training rows; the (n, n) kernel matrix for a precomputed kernel. Tensors of torch and other
            arrays with DLPack are read as arrays.
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
        X, y, sample_weight
            As in `fit`; rows of weight 0 get scores too.

        Returns
        -------
        scores : ndarray of shape (n, k)
        """
        with announced(self, X, y, sample_weight):
            fit = self._fit(X, sample_weight)
            if fit.is_low_rank or has_light_rows(sample_weight):
                return self.transform(X)
            scores = fit.scores / score_spread(fit) if is_whitened(self.whiten) else fit.scores
            scores = scores.astype(self._scores_dtype, copy=False)
            return like(scores, X, self) if dask_kind(X) is None else as_collection(scores, X)

    @property
    def _scores_dtype(self) -> np.dtype[Any]:
        """The dtype of scores: that of the rows, or float64 where it can't hold scores as small as 1e-200."""
        if self._dtype == np.float64 or is_whitened(self.whiten):
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
            `out`, where it was given. Of a dask array or data frame a dask array, which is computed, chunk
            by chunk and where the rows are, when it is asked for.
        """
        if dask_kind(X) is not None and out is None:
            check_is_fitted(self)
            return lazy_scores(self, X, (self._dtype, self._scores_dtype))
        rows, kernel = self._asked(X)
        projection = self._scoring
        if out is not None:
            read = rows if is_tensor(X) else X  # rows of a tensor are a view of it
            check_out(out, read, (int(rows.shape[0]), projection.n_components), self._scores_dtype)
        points = getattr(projection.sections, "points", None)
        if isinstance(points, RowSource):  # the model's own rows are still in a file
            points.check_unchanged()
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            scores = projection(rows, out)
        if isinstance(rows, RowSource):
            rows.check_unchanged()
        require_scores(scores, kernel)
        if out is not None:
            return out
        return like(scores.astype(self._scores_dtype, copy=False), X, self)

    def reconstruction_error(self, X: Any, diag: Any = None) -> Array:
        """Squared distance, in feature space, of each row from its projection on the components.

        Exact, without a pre-image: ‖φ(x) - μ‖² - ‖scores(x)‖², the Q or SPE of process engineers. It is not
        comparable between kernels: each measures in a space of its own.

        Parameters
        ----------
        X : array-like, sparse matrix of shape (b, d) or source of rows
            As in `transform`.
        diag : array-like of shape (b,), optional
            k(x, x) of the rows, for a precomputed kernel and no other.

        Returns
        -------
        errors : ndarray of shape (b,)
        """
        rows, kernel = self._asked(X)
        if diag is not None:
            if kernel is None or not kernel.is_precomputed:
                wanted = "None, since only a precomputed kernel does not know k(x, x) itself"
                refuse("diag", diag, wanted, f"a {type(diag).__name__}")
            with in_our_name():
                diag = check_array(admitted(diag, what="diag"), ensure_2d=False, dtype=np.float64)
            if diag.shape != (n := int(rows.shape[0]),):
                got = f"an array of shape {diag.shape}"
                refuse("diag", diag.shape, f"{n} numbers, one for each row", got)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            errors = FeatureSpace.of(self._current()).errors(rows, diag)
        require_squares(errors, kernel)
        return like(in_precision(errors, self._dtype), X)

    def _asked(self, X: Any) -> tuple[Rows, Kernel | None]:
        """New rows, checked, and the kernel that they are checked by."""
        check_is_fitted(self)
        rows, kernel = new_rows(self, X, self._dtype), getattr(self, "kernel_", None)
        if kernel is not None:
            check_kernel_rows(kernel, rows)
        return rows, kernel

    def reconstruct(self, X: Any) -> Array:
        """Each row as the components see it, back in input space, without the noise that they leave out.

        Parameters
        ----------
        X : array-like of shape (b, d)
            As in `transform`.

        Returns
        -------
        points : ndarray of shape (b, d)
            ``inverse_transform(transform(X))``.

        Examples
        --------
        >>> from sklearn.datasets import make_circles
        >>> from mercer import KernelPCA
        >>> X, _ = make_circles(200, noise=0.02, random_state=0)
        >>> model = KernelPCA(20, kernel="rbf", preimage="fixed-point").fit(X)
        >>> bool(abs(model.reconstruct(X) - X).max() < 0.01)
        True
        """
        return self.inverse_transform(self.transform(X))

    def inverse_transform(self, X: Any) -> Array:
        """Points in input space whose scores are near the given ones.

        Parameters
        ----------
        X : array-like of shape (b, k)
            Scores. A `PreimageWarning` says where they, or their points, lie far outside the training data.

        Returns
        -------
        points : ndarray of shape (b, d)
        """
        check_is_fitted(self)
        back = getattr(self, "preimage_", None)
        if back is None:
            model: Any = self  # an estimator with a `preimage` has a kernel
            ways = preimages_for(model.kernel_, self._current(), sparse=model._sparse)
            msg = (
                "inverse_transform needs a pre-image; this model was fitted with preimage=None. Add one by "
                f"`with_preimage`, or fit it with {ways}."
            )
            raise InputError(msg)
        scores = self._scores(X)
        points, settled = back.found(scores)
        warn_if_unsettled(back, settled)
        warn_if_far(back, scores, points)
        return like(points.astype(self._dtype, copy=False), X)

    def __sklearn_tags__(self) -> Any:
        tags, kernel = super().__sklearn_tags__(), getattr(self, "kernel", None)
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = kernel is not None and is_positive_only(kernel)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _current(self) -> Fit:
        return self.fit_

    @property
    def _scoring(self) -> Projection:
        """What `transform` gives: the projection of the fit, or that to scores of unit variance."""
        fit = self._current()
        return whitened(fit) if is_whitened(self.whiten) else fit.projection

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
        """‖K̃u - λu‖/λ₁ of each pair, rounding included; of an approximation, those of its small problem."""
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
        """Scores whose points are asked for, checked, as they are before they are whitened."""
        check_is_fitted(self)
        X = admitted(X, what="The array of scores")
        with in_our_name():
            scores = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
        require_finite(scores)
        m, k = scores.shape[1], self.n_components_
        if m != k:
            refuse("X", scores.shape, f"scores of the {k} components of this model", f"{m} columns")
        return scores * score_spread(self._current()) if is_whitened(self.whiten) else scores


# Scores of the training rows are read off eigenvectors that carry a factor √w. Below this share of the
# largest weight the division by it would show rounding.
LIGHT = 1e-6


def has_light_rows(sample_weight: Any) -> bool:
    """Whether some rows count so little beside others that their scores have to be projected."""
    if sample_weight is None:
        return False
    weights = np.asarray(admitted(sample_weight, what="sample_weight"), dtype=np.float64)
    return bool(weights.min() < LIGHT * weights.max())


def warn_of(fit: Fit) -> None:
    """Give the warnings of a fit, pointing at the user's call."""
    for warning in fit.warnings():
        warn(warning)
