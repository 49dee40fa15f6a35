"""What a component says about the input variables: its slopes, and how much of it each variable moves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from mercer._core.errors import InputError, many, refuse
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.table import Printed, Table
from mercer._core.types import Array, Rows
from mercer.diagnostics.symptoms import require_rows
from mercer.engine.moments import ColumnMoments
from mercer.engine.pairwise import dense
from mercer.engine.passes import SLICE_BYTES
from mercer.estimators.anatomy import Anatomy, is_fitted, is_pipeline, require_fitted
from mercer.estimators.base import Projector
from mercer.estimators.pipelines import flat_steps, names_after, steps_and_model
from mercer.estimators.prepared import Prepared
from mercer.kernels.rows import as_rows
from mercer.model.space import FeatureSpace
from mercer.monitoring.report import named_columns
from mercer.preprocessing.preparation import Preparation

TOP = 3  # variables of a component that are printed
MOST_PRINTED = 10  # components
# A mean slope below this share of the root mean square one is what is left of ups and downs.
ONE_WAY = 0.5
TWO_ROWS = "at least two different rows, since sizes are in standard deviations"


@public
def gradients(model: Any, X: Any) -> Array:
    """Derivatives of every score with respect to every input variable, at each row.

    ``out[i, j, l]`` is ∂score_j/∂x_l at row i, the exact derivative of the fitted model, on every route;
    those of linear PCA are its axes, the same at every row.

    Parameters
    ----------
    model : KernelPCA, PCA or IncrementalKernelPCA
        Fitted, with a kernel of distances or dot products, or sums and products of such. A callable or
        precomputed kernel has no derivative that is known.
    X : array-like, sparse matrix of shape (b, d) or source of rows
        Where to take the derivatives.

    Returns
    -------
    slopes : ndarray of shape (b, k, d)
        In the dtype of the model.

    See Also
    --------
    importance : The same summed up over the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import PCA
    >>> from mercer.diagnostics import gradients
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> pca = PCA(2).fit(X)
    >>> np.allclose(gradients(pca, X[:4]), pca.components_)
    True
    """
    require_rows(X, 1, "at least 1 row, where slopes are taken")
    space, rows = _opened(model, X)
    engine, width = space.projection.sections.engine, _width(space, rows)
    found = engine.map(rows, partial(_slopes, space), width=width, parallel=False)
    return np.asarray(found, dtype=model.eigenvalues_.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Printed):
    """How much of each component every variable moves. Prints as sentences.

    Attributes
    ----------
    names : tuple of d str
        The variables.
    sizes : ndarray of shape (d, k)
        Root mean square of slope times standard deviation: how far the score moves with a usual change.
    slopes : ndarray of shape (d, k)
        Mean slope times standard deviation. Much smaller than the size where the score goes up with the
        variable at some rows and down at others. NaN for a column of categories, which has no up.
    explained : ndarray of shape (k,)
        Share of the variance of each component.
    """

    names: tuple[str, ...]
    sizes: Array
    slopes: Array
    explained: Array

    @property
    def shares(self) -> Array:  # (d, k)
        """The sizes, each component's summing to one; zeros where no variable moves it at these rows."""
        total = self.sizes.sum(axis=0)
        return np.asarray(self.sizes / np.where(total > 0, total, 1.0))

    @property
    def table(self) -> Table:
        """A row for each variable; share and signed slope for each component, counted from 1."""
        columns: dict[str, Any] = {"variable": list(self.names)}
        for j, (share, slope) in enumerate(zip(self.shares.T, self.slopes.T, strict=True), start=1):
            columns |= {f"share {j}": share, f"slope {j}": slope}
        return Table(columns)

    def top(self, component: int, count: int = TOP) -> list[str]:
        """The variables that move a component most, the first one most.

        Parameters
        ----------
        component : int
            An index, as in ``shares``: 0 is the one that is printed as component 1.
        count : int, default=3

        Returns
        -------
        names : list of str
        """
        require("count", count, Whole(0))
        return [self.names[l] for l in self._order(component)[:count]]

    def _order(self, component: int) -> list[int]:
        require("component", component, Whole(0, self.sizes.shape[1] - 1))
        size = self.sizes[:, component]
        return [int(l) for l in np.argsort(-size, kind="stable") if size[l] > 0]

    def _sentence(self, component: int) -> str:
        ways = ("rises with", "falls with", "goes both ways with", "changes with")
        variables: dict[str, list[str]] = {way: [] for way in ways}
        for l in self._order(component)[:TOP]:
            slope, size = self.slopes[l, component], self.sizes[l, component]
            way = "rises with" if slope > 0 else "falls with"
            way = way if abs(slope) >= ONE_WAY * size else "goes both ways with"
            way = "changes with" if np.isnan(slope) else way
            variables[way].append(f"{self.names[l]} ({self.shares[l, component]:.0%})")
        parts = [f"{way} {', '.join(names)}" for way, names in variables.items() if names]
        head = f"component {component + 1} ({self.explained[component]:.1%} of the variance)"
        return f"{head} {'; '.join(parts) or 'stands still at these rows'}"

    def __str__(self) -> str:
        k = self.sizes.shape[1]
        lines = [self._sentence(j) for j in range(min(k, MOST_PRINTED))]
        if k > MOST_PRINTED:
            lines.append(f"… {k - MOST_PRINTED} more components")
        return "\n".join(lines)

    def __repr__(self) -> str:
        d, k = self.sizes.shape
        return f"Importance({d} variables for {k} components)"


@public
def importance(model: Any, X: Any, *, names: Sequence[str] | None = None) -> Importance:
    """How much of each component every input variable moves, over the rows X.

    The size of a variable is the root mean square of its slope over the rows, times its standard deviation
    over them: on the scale of the score, whatever the units; ``|axis|`` times that deviation for linear PCA.

    It says which variables the score looks at, each moved alone. Of two variables that always go together
    either may get the share of both.

    Parameters
    ----------
    model : KernelPCA, PCA, IncrementalKernelPCA, Pipeline or Prepared
        As in `gradients`; or one of these behind imputers, one-hot encoders and scalers, of the columns
        before all of that. The size of a column of categories is the sum of those of its columns of 0 and 1.
        Behind any other steps, of the columns that these make.
    X : array-like, sparse matrix of shape (b, d) or source of rows
        Rows to average over, at least two: usually those of the fit or a sample of them.
    names : d strings, optional
        Of the variables. Left out: the columns of the data frame that was fitted, or of X, or x0, x1, …

    Returns
    -------
    Importance
        Prints the main variables of each component in words; ``.table`` has all of them.

    See Also
    --------
    mercer.plots.arrows : The slopes as arrows on a plot of the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelPCA
    >>> from mercer.diagnostics import importance
    >>> iris = load_iris()
    >>> model = KernelPCA(1, kernel="rbf").fit(iris.data)
    >>> found = importance(model, iris.data, names=["sepal l", "sepal w", "petal l", "petal w"])
    >>> found.top(0, count=2)
    ['petal l', 'sepal l']
    >>> float(found.shares.sum().round(12))
    1.0
    """
    require_rows(X, 2, TWO_ROWS)
    if is_pipeline(model):
        try:
            model = Prepared.from_pipeline(model)
        except InputError:
            last = flat_steps(model)[-1]
            if isinstance(last, Projector) and is_fitted(last):
                return _behind(model, X, names)
            raise
    if isinstance(model, Prepared):
        found = importance(model.model, model.rows(X), names=model.preparation.features)
        return _folded(found, model.preparation, names)
    space, rows = _opened(model, X)
    known = Anatomy(model).feature_names or getattr(X, "columns", None)
    called = tuple(named_columns(names, known, int(rows.shape[1])))
    first = np.asarray(dense(rows[0:1]), dtype=np.float64)[0]
    height = max(1, min(1024, SLICE_BYTES // (8 * _width(space, rows))))
    engine = space.projection.sections.engine
    sums = engine.fold(rows, partial(_sums, space, first), height=height, parallel=False)
    n, spread = int(rows.shape[0]), sums.columns.spread()[:, None]  # (d, 1)
    if not np.any(spread > 0):
        remedy = "Pass the training rows, or a sample of them."
        refuse("X", X, TWO_ROWS, f"{many(n, 'row')}, all alike", remedy)
    sizes = np.sqrt(sums.squares.T / n) * spread
    return Importance(called, sizes, (sums.slopes.T / n) * spread, model.fit_.explained)


def _behind(pipeline: Any, X: Any, names: Sequence[str] | None) -> Importance:
    """The importance of the columns that the steps of a pipeline make, whatever these are."""
    steps, model = steps_and_model(pipeline)
    called = names_after(steps) if names is None else names
    with warnings.catch_warnings():  # names of columns are those that the steps have made
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return importance(model, as_rows(steps.transform(X)), names=called)


def _folded(found: Importance, made: Preparation, names: Sequence[str] | None) -> Importance:
    """The importance of prepared columns, as one of the columns they were made of."""
    # A number stays as it is: scaling divides its standard deviation by what it multiplies its slope by.
    p, k = len(made.numbers), found.sizes.shape[1]
    columns = (*made.numbers, *(column for column, _ in made.categories))
    ends = np.cumsum([p, *(len(levels) for _, levels in made.categories)])
    groups = [found.sizes[a:b].sum(axis=0) for a, b in pairwise(ends)]
    sizes = np.concatenate([found.sizes[:p], np.reshape(groups, (len(groups), k))])
    slopes = np.concatenate([found.slopes[:p], np.full((len(groups), k), np.nan)])
    called = tuple(named_columns(names, columns, len(columns)))
    return Importance(called, sizes, slopes, found.explained)


@dataclass(frozen=True, repr=False)
class _Sums:
    """What importance is made of, block by block: no (b, k, d) array is ever whole."""

    slopes: Array  # (k, d) Σ slope
    squares: Array  # (k, d) Σ slope²
    columns: ColumnMoments  # of the variables

    def merged(self, other: _Sums) -> _Sums:
        slopes, squares = self.slopes + other.slopes, self.squares + other.squares
        return _Sums(slopes, squares, self.columns.merged(other.columns))


def _sums(space: FeatureSpace, first: Array, rows: Rows, place: slice) -> _Sums:
    """Of some rows; a variable that is always as in the first row is exactly zero less that row."""
    del place
    slopes, columns = _slopes(space, rows), ColumnMoments.of(dense(rows), None, first)
    return _Sums(slopes.sum(axis=0), np.einsum("bkd,bkd->kd", slopes, slopes), columns)


def _opened(model: Any, X: Any) -> tuple[FeatureSpace, Rows]:
    """The feature space of a fitted model, and rows that are fit for it."""
    require_fitted(model, Projector, "KernelPCA, mercer.PCA or mercer.IncrementalKernelPCA")
    return FeatureSpace.of(model.fit_), model._asked(X)[0]


def _width(space: FeatureSpace, rows: Rows) -> int:
    """Slopes, or kernel values, that are made of a row."""
    return max(space.projection.sections.width, space.projection.n_components * int(rows.shape[1]))


def _slopes(space: FeatureSpace, rows: Rows) -> Array:  # (b, d) -> (b, k, d)
    return space.score_slopes(dense(rows).astype(np.float64, copy=False))
