"""What `select` is asked, checked once: folds, components, a criterion or a judge, kernels."""

from __future__ import annotations

import warnings
from operator import index
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target

from mercer._core.errors import InputError, ParameterError, close_to, kind_of, nearest
from mercer._core.params import Number, OneOf, Whole, is_number, is_whole, require
from mercer._core.types import Array, Rows
from mercer._core.wording import Message
from mercer.data.intake import admitted
from mercer.data.rows import take_rows
from mercer.diagnostics.selection_agreement import neighbours_of
from mercer.diagnostics.selection_trial import Candidate, Court, Folds
from mercer.diagnostics.symptoms import median_gamma, widths
from mercer.engine.equal_rows import distinct
from mercer.engine.pairwise import squared_norms
from mercer.kernels import RBF, Kernel, Laplacian, Linear, Matern, Polynomial, as_kernel
from mercer.kernels.algebra import placed
from mercer.model.rounding import require_different

Criterion: TypeAlias = Literal["agreement", "denoising", "reconstruction", "variance"]
CRITERIA: tuple[str, ...] = get_args(Criterion)
COMPONENTS = 10
# Rows to compare on where nothing else was said; the time grows with their third power.
MAX_ROWS, AGREEMENT_ROWS = 2000, 1000
# Whole numbers with more distinct values than this are amounts, not classes.
MOST_CLASSES = 50
# Around the median gamma, for the default candidates; of two gammas this near one is a candidate.
TRIED, SAME = 4.0 ** np.arange(-1.0, 3.0), 1.2


def _refuse(parameter: str, value: Any, must_be: str, remedy: str = "") -> NoReturn:
    raise ParameterError.about(parameter, value, must_be=must_be, remedy=remedy)


def check_labels(y: Any, n: int) -> Array | None:
    """One label or number a row."""
    if y is None:
        return None
    labels = np.asarray(admitted(y, what="y"))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 0 or len(labels) != n:
        msg = f"y must have one label or number for each of the {n} rows; got shape {labels.shape}."
        raise InputError(msg)
    numbers = (np.nan if label is None else label for label in labels.flat)
    if any(isinstance(label, (float, np.floating)) and np.isnan(label) for label in numbers):
        msg = "y contains NaN. Leave out the rows without a label, in X and in y."
        raise InputError(msg)
    return labels


def check_judge(judge: Any, y: Array | None) -> Any:
    """The caller's estimator, or a linear one on scores of unit variance."""
    if judge is not None:
        if y is None:
            _refuse("judge", judge, "None without y", "Pass y, or leave `judge` out.")
        if not hasattr(judge, "fit") or isinstance(judge, type):
            _refuse("judge", judge, "a scikit-learn estimator such as LogisticRegression()")
        return judge
    if y is None:
        return None
    classes = _are_classes(y)
    linear = LogisticRegression(max_iter=1000) if classes else RidgeCV(np.logspace(-4, 4, 9))
    # Scores of one kernel are a thousand times as large as those of another: a penalty has to see them alike.
    return make_pipeline(StandardScaler(), linear)


def _are_classes(y: Array) -> bool:
    with warnings.catch_warnings():  # of many classes, for which there are words of our own
        warnings.simplefilter("ignore", UserWarning)
        kind = type_of_target(y)
    if kind not in ("binary", "multiclass"):
        return False
    return y.dtype.kind not in "iuf" or len(np.unique(y)) <= MOST_CLASSES


def check_criterion(criterion: Any, judge: Any, rows: Rows) -> Any:
    """One of ours without labels; with a judge, a name that scikit-learn knows, or None for its own score."""
    if judge is not None:
        if criterion in CRITERIA:
            msg = (
                f"criterion must be a scoring of scikit-learn such as 'accuracy' where y is given; got "
                f"{criterion!r}, which looks at no labels. Leave y out, or name a scoring."
            )
            raise ParameterError(msg)
        if criterion is None or callable(criterion):
            return criterion
        # One name: several scores would have several winners.
        names, wanted = get_scorer_names(), "a scoring of scikit-learn such as 'accuracy'"
        if isinstance(criterion, str) and criterion in names:
            return criterion
        known = nearest(criterion, names) if isinstance(criterion, str) else ""
        _refuse("criterion", criterion, wanted, known)
    chosen = CRITERIA[0] if criterion is None else criterion
    if chosen not in CRITERIA:
        hint = close_to(str(criterion), CRITERIA)
        if isinstance(criterion, str) and criterion in get_scorer_names():
            hint = Message("{scoring} needs labels: {pass y!s}.", scoring=repr(criterion))
        wanted = Message(f"{OneOf(CRITERIA).wanted} {{where no y is given!s}}")
        _refuse("criterion", criterion, wanted, hint)
    if sparse.issparse(rows) and chosen in ("denoising", "reconstruction"):
        msg = (
            f"criterion={chosen!r} takes rows back to input space, and X is sparse. Use X.toarray(), "
            "criterion='agreement', or a judge with y."
        )
        raise ParameterError(msg)
    return chosen


def check_folds(folds: Any, rows: Rows, *, n: int, y: Array | None, judge: Any, seed: int) -> Folds:
    """Positions to fit and to judge on, of m rows, of the caller's n; a number means shuffled folds."""
    m = int(rows.shape[0])
    if is_whole(folds):
        require("folds", folds, Whole(2, m // 2), remedy=f"Each fold needs two of the {m} rows.")
        stratified = judge is not None and is_classifier(judge)
        if stratified and y is not None:
            _check_classes(y, int(folds))
        kind = StratifiedKFold if stratified else KFold
        folds = kind(int(folds), shuffle=True, random_state=seed)
    elif not (hasattr(folds, "split") or np.iterable(folds)) or isinstance(folds, str):
        _refuse("folds", folds, "an integer >= 2 or a splitter of scikit-learn")
    elif not hasattr(folds, "split"):
        folds = _check_pairs(list(folds), m, n)
    try:
        return [(train, test) for train, test in check_cv(folds).split(rows, y)]
    except (ValueError, TypeError) as error:
        msg = (
            f"folds={folds!r} can't split these rows: {error} There are no groups here; give a number, or a "
            "splitter that needs none."
        )
        raise InputError(msg) from error


def _check_classes(y: Array, folds: int) -> None:
    """Raise unless there are several, and enough rows of one of them for all folds."""
    try:
        classes, counts = np.unique(y, return_counts=True)
    except TypeError as error:
        msg = f"y mixes labels that can't be compared: {error}. Make all of them texts, or numbers."
        raise InputError(msg) from error
    if len(classes) < 2:
        msg = f"All {len(y)} labels in y are {classes[0]!s}, and a judge needs two classes. Or leave y out."
    elif int(counts.max()) < folds:
        msg = (
            f"y has {len(classes)} classes in {len(y)} rows, none with a row for each of {folds} folds. Are "
            "they labels? Lower `folds`, or give numbers, which are predicted as amounts."
        )
    elif np.sort(counts)[-2] < 2:
        msg = f"All labels in y but {len(classes) - 1} are alike, and a judge needs rows of two classes."
    else:
        return
    raise InputError(msg)


def _check_pairs(pairs: list[Any], m: int, n: int) -> Folds:
    """Positions of rows of X, some to fit and some to judge on; in a sample they would mean other rows."""
    if m < n:
        msg = (
            f"folds as positions in X need all of its {n} rows; {m} of them were sampled, or have a weight. "
            "Raise `max_rows`, or pass a splitter."
        )
        raise InputError(msg)

    def positions(part: Any) -> bool:
        counted = part.ndim == 1 and len(part) > 0 and part.dtype.kind in "iu"
        return bool(counted and -n <= part.min() and part.max() < n)

    found = [[np.asarray(part) for part in pair] if np.iterable(pair) else [] for pair in pairs]
    fine = (len(p) == 2 and all(map(positions, p)) and len(p[0]) > 1 for p in found)
    if not found or not all(fine):
        msg = (
            f"folds must be at least one pair (train, test) of positions below {n}, with two rows or more to "
            f"fit; got {len(pairs)} item(s). Give a number such as 3, or a splitter of scikit-learn."
        )
        raise InputError(msg)
    return [(train, test) for train, test in found]


def court_of(
    rows: Rows,
    *,
    labels: Array | None,
    weights: Array | None,
    judge: Any,
    criterion: Any,
    noise: float,
    folds: Any,
    n: int,
    seed: int,
) -> Court:
    """What all candidates are judged on: distinct rows with their weights, folds, noise or neighbours."""
    check_scale(rows)
    require_different(rows)
    criterion = check_criterion(criterion, judge, rows)
    if is_whole(folds):  # the caller's own splitter counts the caller's rows
        rows, labels, weights = merged(rows, labels, weights, least=2 * int(folds))
    splits = check_folds(folds, rows, n=n, y=labels, judge=judge, seed=seed)
    return Court(
        rows=rows,
        folds=splits,
        criterion=criterion,
        seed=seed,
        noise=noise * spread(rows, weights) if criterion == "denoising" else None,
        y=labels,
        judge=judge,
        weights=weights,
        neighbours=neighbours_of(rows, splits) if criterion == "agreement" else None,
    )


def merged(
    rows: Rows, y: Any, weights: Array | None, *, least: int
) -> tuple[Rows, Any, Array | None]:
    """Distinct rows in the order of their first appearance, their labels, and how often each counts."""
    # A row and its copy in two folds would be held out from itself. Rows with different labels stay apart,
    # and all rows stay where fewer than `least` are distinct.
    parts: tuple[Rows, ...] = (rows,)
    if y is not None:  # a number for each label, whatever labels are
        _, codes = np.unique([repr(label) for label in y.tolist()], return_inverse=True)
        parts = (rows, codes.astype(np.float64)[:, None])
    first, counts = distinct(parts, weights)
    if first is None or len(first) < least:
        return rows, y, weights
    weights = None if counts is None or np.all(counts == 1.0) else counts
    return take_rows(rows, first), None if y is None else y[first], weights


def check_noise(noise: Any) -> float:
    """A positive share of the spread."""
    remedy = "It is a share of the spread of the rows, such as 0.3."
    return float(require("noise", noise, Number(0, 10), remedy=remedy))


def spread(rows: Rows, weights: Array | None = None) -> float:
    """The root mean squared distance of an entry from the mean of its column."""
    exact = rows.astype(np.float64)
    centred = exact - np.average(exact, axis=0, weights=weights)
    return float(np.sqrt(np.mean(np.average(centred**2, axis=0, weights=weights))))


def check_max_rows(max_rows: Any, criterion: Any) -> Any:
    """The caller's limit, or ours, which is less where a comparison has to be quick."""
    own = AGREEMENT_ROWS if criterion in (None, "agreement") else MAX_ROWS
    return own if max_rows is None else max_rows


def check_scale(rows: Rows) -> None:
    """Raise where not even the squared length of a row is a number: nothing could be compared."""
    largest = float(abs(rows).max())
    if largest > np.sqrt(np.finfo(np.float64).max / rows.shape[1]):
        msg = (
            f"X has entries as large as {largest:.3g}, too large to be squared. Scale the columns."
        )
        raise InputError(msg)


def check_components(n_components: Any, smallest: int) -> list[int]:
    """Whole numbers that a training fold can hold; ours is cut to that."""
    if n_components is None:
        return [max(1, min(COMPONENTS, smallest - 1))]
    asked = list(n_components) if np.iterable(n_components) else [n_components]
    why = (
        "The smallest training fold holds no more; kernels are compared at the same numbers, so a share "
        "of the variance is not accepted."
    )
    # What `n_components` has found counts as the number that it is.
    asked = [index(k) if hasattr(k, "__index__") and not isinstance(k, bool) else k for k in asked]
    for k in asked or [asked]:
        require("n_components", k, Whole(1, smallest - 1), remedy=why)
    return sorted({int(k) for k in asked})


def candidates(kernels: list[Kernel], numbers: list[int], d: int) -> list[Candidate]:
    """Every kernel with every number of components that it can have."""
    found = []
    for place, kernel in enumerate(kernels):
        most = kernel.map_dimension(d) or np.inf
        own = dict.fromkeys(int(min(k, most)) for k in numbers)
        found += [Candidate(kernel, k, place) for k in own]
    return found


# ── kernels ─────────────────────────────────────────────────────────────────
def default_kernels(
    rows: Rows, *, rng: np.random.Generator, weights: Array | None = None
) -> list[Kernel]:
    """Linear, polynomial, Gaussian at several widths, and two that are rougher: simple ones first."""
    table = widths(rows, random_state=rng)
    median = float(table["gamma"][0])
    if weights is not None:
        median = median_gamma(rows, rng=rng, weights=weights)
    # x·x' is about one, so that neither the constant nor the highest power has it all.
    length = float(np.average(squared_norms(rows.astype(np.float64)), weights=weights)) or 1.0
    kernels: list[Kernel] = [Linear(), *(Polynomial(p, gamma=1.0 / length) for p in (2, 3))]
    kernels += [RBF(gamma) for gamma in _apart([median, *table["gamma"][1:], *(median * TRIED)])]
    rough: tuple[Kernel, ...] = (Matern(nu=1.5), Laplacian())
    return kernels + [kernel.resolve(rows, rng=rng, weights=weights) for kernel in rough]


def _apart(gammas: list[float]) -> list[float]:
    """In order, less those that are near an earlier one."""
    kept: list[float] = []
    for gamma in map(float, gammas):
        if all(max(gamma / other, other / gamma) > SAME for other in kept):
            kept.append(gamma)
    return sorted(kept)


def as_kernels(kernels: Any, names: list[str] | None) -> list[Kernel]:
    """The caller's kernels as objects; `names` are those of the columns."""
    if isinstance(kernels, (str, Kernel)) or callable(kernels):
        kernels = [kernels]
    if np.iterable(kernels) and any(map(is_number, kernels)):
        msg = "The second argument of select is the list of kernels. Pass labels as y=y."
        raise InputError(msg)
    try:
        found = [placed(as_kernel(kernel), names) for kernel in kernels]
    except TypeError as error:
        msg = (
            f"kernels must be a list of names or mercer.kernels objects; got {kind_of(kernels)}. "
            "Leave it out for a grid around the usual widths."
        )
        raise InputError(msg) from error
    if not found:
        msg = "`kernels` is empty. Name at least one, or leave it out for a grid around the usual widths."
        raise InputError(msg)
    for kernel in found:
        kernel.check_parameters()
    return found


def shown(kernel: Kernel) -> tuple[str, str]:
    """The kernel's name and its parameters, as a table shows them."""
    if kernel.children or not kernel.parallel:  # made of others, or a caller's function
        return repr(kernel), ""
    params = ((k, v) for k, v in kernel._shown_params().items() if v is not None)
    text = ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in params)
    return type(kernel).__name__, text
