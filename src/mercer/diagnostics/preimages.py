"""Pre-image methods side by side, on rows that none of them has seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer._core.table import Table
from mercer._core.types import Array
from mercer.diagnostics.symptoms import require_rows
from mercer.engine.pairwise import dense
from mercer.estimators import IncrementalKernelPCA, KernelPCA
from mercer.estimators.anatomy import require_fitted
from mercer.estimators.input import as_generator, new_rows
from mercer.estimators.preimages import named_preimage, warn_if_unsettled
from mercer.model.space import FeatureSpace
from mercer.operators.sections import KernelSections
from mercer.preimage import Examples, Preimage

METHODS = ("ridge", "fixed-point", "distances", "gradient")
NOTHING = {"error": np.nan, "residual": np.nan, "seconds": np.nan}  # of a method that is refused


@public
def compare_preimages(
    model: Any,
    X: Any,
    *,
    rows: Any = None,
    methods: str | Preimage | Sequence[str | Preimage] = METHODS,
    random_state: Any = None,
) -> Table:
    """Compare pre-images of held-out rows by several methods, from one fit.

    Parameters
    ----------
    model : KernelPCA or IncrementalKernelPCA
        Fitted, with whatever `preimage`: each method is learned anew from its components.
    X : array-like of shape (b, d)
        Rows that the model was not fitted to.
    rows : array-like of shape (n, d), optional
        Training rows to learn from, or to start at. By default the rows that the model keeps: all of an exact
        fit, the landmarks of an approximation or a stream. An explicit map keeps none.
    methods : str, Preimage or a sequence of them, default=("ridge", "fixed-point", "distances", "gradient")
        Names or objects.
    random_state : int, Generator, RandomState or None, default=None
        Seed of what the methods sample; None is a fixed seed.

    Returns
    -------
    table : Table
        A line for each method. ``error`` is the root mean squared error in input space and ``error_of_mean``
        that of the mean of `rows`; ``residual`` is the median squared distance in feature space, as a share
        of the mean squared length; ``seconds`` are those of learning and of the pre-images. A method that is
        not for this kernel has NaN there, and a ``reason``.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> from mercer.diagnostics import compare_preimages
    >>> X, _ = make_circles(300, factor=0.3, noise=0.05, random_state=0)
    >>> model = KernelPCA(20, kernel="rbf").fit(X[:200])
    >>> table = compare_preimages(model, X[200:], methods=["ridge", "exact"])
    >>> table.columns
    ['method', 'error', 'error_of_mean', 'residual', 'seconds', 'reason']
    >>> bool(table["error"][0] < 0.01 * table["error_of_mean"][0])
    True
    >>> print(table["reason"][1])
    Exact needs the linear kernel or a polynomial of odd degree; got RBF(gamma=...). Use ...
    """
    require_fitted(
        model, (KernelPCA, IncrementalKernelPCA), "KernelPCA or mercer.IncrementalKernelPCA"
    )
    if isinstance(methods, (str, Preimage)):
        methods = (methods,)
    if model.kernel_.is_precomputed:
        msg = (
            "A precomputed kernel knows no rows, so methods can't be compared. Only Ridge(rows=X) works "
            "with it: see `preimage_.quality`."
        )
        raise InputError(msg)
    held = _plain(model, X, "to bring back")
    known = _kept(model) if rows is None else _plain(model, rows, "to learn from")
    named = [named_preimage(method) for method in methods]
    of_mean = float(np.sqrt(np.mean((held - known.mean(axis=0)) ** 2)))
    tries = [_tried(model, method, known, held, random_state) for method in named]
    columns = {
        "method": [name if isinstance(name, str) else repr(name) for name in methods],
        "error": [found["error"] for found in tries],
        "error_of_mean": [of_mean for _ in tries],
    }
    others = ("residual", "seconds", "reason")
    return Table(columns | {name: [found[name] for found in tries] for name in others})


def _plain(model: Any, X: Any, what_for: str) -> Array:
    require_rows(X, 1, f"at least 1 row {what_for}")
    return np.asarray(dense(new_rows(model, X, model._dtype)[:]), dtype=np.float64)


def _kept(model: Any) -> Array:
    sections = model.fit_.projection.sections
    if not isinstance(sections, KernelSections):
        msg = (
            f"This model keeps no training rows ({sections!r}), and the methods need some to learn from. "
            "Pass them as `rows`."
        )
        raise InputError(msg)
    return np.asarray(dense(sections.points[:]), dtype=np.float64)


def _tried(
    model: Any, method: Preimage | None, rows: Array, held: Array, random_state: Any
) -> dict[str, Any]:
    if method is None:
        return {**NOTHING, "reason": "None is not a pre-image method."}
    start, rng = time.perf_counter(), as_generator(random_state)
    space = FeatureSpace.of(model.fit_)
    try:
        engine = space.projection.sections.engine
        examples = Examples(space.scores(rows), rows, model.kernel_, space, engine)
        back = method.fit(examples, rng=rng)
    except InputError as refusal:
        return {**NOTHING, "reason": str(refusal)}
    scores = space.scores(held)
    points, settled = back.found(scores)
    seconds = time.perf_counter() - start
    warn_if_unsettled(back, settled)
    residuals = back.residuals(scores, points)
    assert residuals is not None  # the rows are the kernel's own
    return {
        "error": float(np.sqrt(np.mean((points - held) ** 2))),
        "residual": float(np.median(residuals)),
        "seconds": seconds,
        "reason": "",
    }
