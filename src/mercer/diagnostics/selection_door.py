"""What `select` is asked, checked once: folds, components, a criterion or a judge."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target

from mercer._core.errors import InputError, nearest
from mercer.diagnostics.selection_trial import Candidate

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels import Kernel

CRITERIA = ("denoising", "reconstruction", "variance")
COMPONENTS = 10
# Perturbations of a held-out row; each counts with its opposite.
MOVES = 2
# Whole numbers with more distinct values than this are amounts, not classes.
MOST_CLASSES = 50


def check_labels(y: Any, n: int) -> Array | None:
    """One label or number a row."""
    if y is None:
        return None
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if len(labels) != n or labels.ndim == 0:
        msg = f"y has shape {labels.shape}, but X has {n} rows. Give one label or number a row."
        raise InputError(msg)
    return labels


def check_judge(judge: Any, y: Array | None) -> Any:
    """The caller's estimator, or a linear one on scores of unit variance.

    Scores of one kernel are a thousand times as large as those of another: a penalty has to see them alike.
    """
    if y is None:
        if judge is not None:
            msg = f"judge={judge!r} came without y. Pass y, or leave `judge` out."
            raise InputError(msg)
        return None
    if judge is not None:
        if not hasattr(judge, "fit") or isinstance(judge, type):
            msg = f"judge={judge!r} came; a scikit-learn estimator was needed, as LogisticRegression()."
            raise InputError(msg)
        return judge
    linear = (
        LogisticRegression(max_iter=1000) if _are_classes(y) else RidgeCV(np.logspace(-4, 4, 9))
    )
    return make_pipeline(StandardScaler(), linear)


def _are_classes(y: Array) -> bool:
    if type_of_target(y) not in ("binary", "multiclass"):
        return False
    return y.dtype.kind not in "iuf" or len(np.unique(y)) <= MOST_CLASSES


def check_criterion(criterion: Any, judge: Any, rows: Rows) -> Any:
    """One of ours without labels; with a judge, a name that scikit-learn knows, or None for its own score."""
    if judge is not None:
        if criterion in CRITERIA:
            msg = (
                f"criterion={criterion!r} looks at no labels, but y came. Leave y out, or name a scoring of "
                "scikit-learn such as 'accuracy'."
            )
            raise InputError(msg)
        return criterion
    chosen = CRITERIA[0] if criterion is None else criterion
    if chosen not in CRITERIA:
        msg = f"criterion={criterion!r} came without y. {nearest(str(criterion), CRITERIA)}"
        raise InputError(msg)
    if sparse.issparse(rows) and chosen != "variance":
        msg = (
            f"criterion={chosen!r} takes rows back to input space, and sparse rows came. Use X.toarray(), "
            "criterion='variance', or a judge with y."
        )
        raise InputError(msg)
    return chosen


def check_folds(
    folds: Any, rows: Rows, *, y: Array | None, judge: Any, seed: int
) -> list[tuple[Indices, Indices]]:
    """Positions to fit and to judge on; a number means shuffled folds, with a seed."""
    n = int(rows.shape[0])
    if isinstance(folds, Integral) and not isinstance(folds, bool):
        if not 2 <= int(folds) <= n // 2:
            msg = (
                f"folds={folds} came for {n} rows. Needed: at least 2, and at least two rows in each. "
                "Lower `folds`, or give more rows."
            )
            raise InputError(msg)
        stratified = judge is not None and is_classifier(judge)
        kind = StratifiedKFold if stratified else KFold
        folds = kind(int(folds), shuffle=True, random_state=seed)
    elif not (hasattr(folds, "split") or np.iterable(folds)) or isinstance(folds, str):
        msg = (
            f"folds={folds!r} came; a number such as 3, or a splitter of scikit-learn, was needed."
        )
        raise InputError(msg)
    return [(train, test) for train, test in check_cv(folds).split(rows, y)]


def check_noise(noise: Any) -> float:
    """A positive share of the spread."""
    if not isinstance(noise, Real) or isinstance(noise, bool) or not 0.0 < float(noise) < 10.0:
        msg = f"noise={noise!r} came; a share of the spread of the rows was needed, such as 0.3."
        raise InputError(msg)
    return float(noise)


def shifts(rows: Rows, noise: float, *, rng: np.random.Generator) -> Array:  # (s, n, d)
    """Gaussian moves, alike in all directions: kernels and errors do not tell one from another either.

    Each comes with its opposite, so that what is linear in it cancels, and with it most of the chance.
    """
    spread = float(np.sqrt(np.mean(np.var(rows, axis=0, dtype=np.float64))))
    moves = rng.normal(scale=noise * spread, size=(MOVES, *rows.shape))
    return np.concatenate([moves, -moves])


def check_components(n_components: Any, smallest: int) -> list[int]:
    """Whole numbers that a training fold can hold; ours is cut to that."""
    if n_components is None:
        return [max(1, min(COMPONENTS, smallest - 1))]
    if isinstance(n_components, Integral) and not isinstance(n_components, bool):
        n_components = [n_components]
    asked = list(n_components) if np.iterable(n_components) else [n_components]
    for k in asked:
        if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= int(k) < smallest:
            msg = (
                f"n_components={k!r} came. Needed: whole numbers from 1 to {smallest - 1}, what the smallest "
                "training fold can hold; kernels are compared at the same numbers, so a share of the "
                "variance will not do."
            )
            raise InputError(msg)
    if not asked:
        msg = "n_components is empty. Give a number, several, or None for 10."
        raise InputError(msg)
    return sorted({int(k) for k in asked})


def candidates(kernels: list[Kernel], numbers: list[int], d: int) -> list[Candidate]:
    """Every kernel with every number of components that it can have."""
    found = []
    for kernel in kernels:
        most = kernel.map_dimension(d) or np.inf
        found += [Candidate(kernel, k) for k in dict.fromkeys(int(min(k, most)) for k in numbers)]
    return found


def check_verbose(verbose: Any) -> bool:
    """Whether to tell."""
    if not isinstance(verbose, Integral) or verbose < 0:
        msg = f"verbose must be 0 (silent) or 1 (a line about once a second), but {verbose!r} came."
        raise InputError(msg)
    return bool(verbose)
