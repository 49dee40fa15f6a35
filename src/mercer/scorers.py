"""Scorers for searches of scikit-learn that have no labels: what a model keeps of rows that it has not seen.

    GridSearchCV(KernelPCA(preimage="ridge"), {"n_components": [2, 5, 10]}, scoring=mercer.scorers.denoising)

No number that is read off unlabelled rows tells reliably which kernel the next step will like
(docs/selecting-measured.md measures how much each loses). Each of these says what it rewards; the error of
reconstruction without noise is left out, since more components and wider kernels always win by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._core.errors import InputError
from mercer._core.params import Number, Whole, require
from mercer._core.public import public
from mercer.data.frames import frame_package
from mercer.data.intake import admitted
from mercer.estimators.anatomy import require_fitted
from mercer.estimators.kernel_pca import KernelPCA
from mercer.kernels.rows import as_rows

__all__ = ["Denoising", "denoising", "variance"]

# Moves of each row, each of which counts with its opposite: what is linear in it cancels.
MOVES = 2


@dataclass(frozen=True)
class Denoising:
    """How much of rows held out comes back after noise was added: 1 - error / variance.

    Gaussian noise is added to the rows, in proportion to the spread of each column; they are transformed,
    brought back by `inverse_transform` and compared with what they were. 1 is everything, 0 as good as always
    answering the mean. It rewards components that hold what columns share and leave noise out: too few lose
    structure, too many let the noise through. Of kernels it tends to take wide ones, 4 to 16 median
    distances. Columns count alike, whatever their units, and all candidates see the same noise.

    Parameters
    ----------
    noise : float, default=0.3
        Standard deviation of the noise, in those of the columns.
    random_state : int, default=0
        Seed of the noise.

    Examples
    --------
    >>> import numpy as np, mercer
    >>> from sklearn.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((200, 8))
    >>> search = GridSearchCV(mercer.PCA(), {"n_components": [1, 2, 6]}, scoring=mercer.scorers.denoising)
    >>> search.fit(X).best_params_
    {'n_components': 2}
    """

    noise: float = 0.3
    random_state: int = 0

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """The score of a fitted model, or of a pipeline that can go back, on these rows."""
        del y
        require("noise", self.noise, Number(0, ends="[)"))
        require("random_state", self.random_state, Whole(0))
        check_is_fitted(estimator)
        back = getattr(estimator, "inverse_transform", None)
        if back is None:
            msg = (
                f"scorers.denoising needs a model with transform and inverse_transform; got a "
                f"{type(estimator).__name__}. Use KernelPCA(preimage='ridge') or PCA, or a pipeline of such."
            )
            raise InputError(msg)
        rows = check_array(admitted(X), dtype=np.float64, input_name="X")
        spread = rows.std(axis=0)
        unit = np.where(spread > 0.0, spread, 1.0)
        rng, lost = np.random.default_rng(self.random_state), 0.0
        for _ in range(MOVES):
            move = self.noise * spread * rng.standard_normal(rows.shape)
            for moved in (rows + move, rows - move):
                found = np.asarray(back(estimator.transform(_as_given(X, moved))), dtype=np.float64)
                lost += float(np.mean(np.square((found - rows) / unit)))
        total = float(np.mean(np.square((rows - rows.mean(axis=0)) / unit)))
        return 1.0 - lost / (2 * MOVES * total) if total > 0.0 else 0.0


denoising = Denoising()


@public
def variance(estimator: Any, X: Any, y: Any = None) -> float:
    """The mean squared length of the scores of rows held out, of kernels with k(x, x) = 1.

    It is the sum of the leading eigenvalues, on rows that were not fitted to. It rewards medium widths: a
    wide kernel loses its variance to the mean, a narrow one to the rows that it has not seen. It never falls
    with the number of components: compare at one number, and choose that by `denoising`, by
    `mercer.diagnostics.n_components` or by what comes next.

    Parameters
    ----------
    estimator : KernelPCA, or a pipeline that ends in one
        Fitted, with k(x, x) = 1: RBF, Laplacian, Matern, RationalQuadratic, or a ``normalised()`` kernel.
    X : array-like of shape (b, d)
    y : ignored

    Returns
    -------
    score : float
        From 0 to 1.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import make_circles
    >>> from sklearn.model_selection import GridSearchCV
    >>> X, _ = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    >>> grid = {"kernel__gamma": [1e-3, 1.0, 1e3]}
    >>> model = mercer.KernelPCA(5, kernel="rbf(gamma=1)")
    >>> search = GridSearchCV(model, grid, scoring=mercer.scorers.variance)
    >>> search.fit(X).best_params_
    {'kernel__gamma': 1.0}
    """
    del y
    model, rows = estimator, X
    if isinstance(estimator, Pipeline):
        model = estimator[-1]
        rows = estimator[:-1].transform(X) if len(estimator) > 1 else X
    require_fitted(model, KernelPCA, "KernelPCA")
    kernel = model.kernel_
    if kernel.is_precomputed or not np.allclose(kernel.diag(as_rows(rows)[:100]), 1.0):
        msg = (
            f"scorers.variance compares kernels with k(x, x) = 1 for every point; got {kernel!r}. Use its "
            "normalised() form, or scorers.denoising."
        )
        raise InputError(msg)
    scores = np.asarray(model.transform(rows), dtype=np.float64)
    if model.whiten:  # lengths are those of the axes
        scores = scores * np.sqrt(model.explained_variance_)
    return float(np.mean(np.square(scores).sum(axis=1)))


def _as_given(X: Any, rows: Any) -> Any:
    """The rows as a frame where X is one, so that columns keep their names."""
    package = frame_package(X)
    if package == "pandas":
        return type(X)(rows, columns=X.columns, index=X.index)
    return type(X)(dict(zip(X.columns, rows.T, strict=True))) if package == "polars" else rows
