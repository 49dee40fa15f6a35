"""Which kernel, which width, how many components: candidates side by side on rows that were held out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from mercer._core.errors import MercerError, MercerWarning, SelectionWarning
from mercer._core.memory import parse_bytes
from mercer.diagnostics import selection_door as door
from mercer.diagnostics.selection_grid import as_kernels
from mercer.diagnostics.selection_report import (
    best_first,
    reasons,
    table_of,
    warn_of,
    without_repeats,
)
from mercer.diagnostics.selection_trial import Court, tried
from mercer.diagnostics.symptoms import sample_rows
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.parts import named_approximation
from mercer.estimators.progress import Teller
from mercer.estimators.validation import as_generator, users_level
from mercer.model.linear import require_different

if TYPE_CHECKING:
    from mercer._core.table import Table
    from mercer.diagnostics.selection_trial import Candidate, Outcome
    from mercer.kernels import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The winner, the table and the reasons. Prints itself.

    Attributes
    ----------
    best_ : KernelPCA
        With the winner's kernel and number of components; fitted to X unless ``refit=False``, or unless
        X can't be fitted, which a `SelectionWarning` and ``reasons_`` say.
    best_kernel_ : Kernel
        As it was given, so that a rule such as ``gamma="median"`` is still a rule.
    n_components_ : int
    table_ : Table
        A row for each candidate, best first.
    reasons_ : list of str
        Why this one, on which rows, and what to know about it.
    """

    best_: KernelPCA
    best_kernel_: Kernel
    n_components_: int
    table_: Table
    reasons_: list[str]

    def __str__(self) -> str:
        lines = (f"  - {reason}" for reason in self.reasons_)
        return "\n".join([f"best  {self._winner}", *lines, "", str(self.table_)])

    def __repr__(self) -> str:
        return f"Selection({self._winner}, of {len(self.table_)} candidates)"

    @property
    def _winner(self) -> str:
        return f"KernelPCA({self.n_components_}, kernel={self.best_kernel_!r})"


def select(
    X: Any,
    kernels: Any = None,
    *,
    n_components: Any = None,
    y: Any = None,
    judge: Any = None,
    criterion: Any = None,
    noise: float = 0.3,
    folds: Any = 3,
    max_rows: int = 2000,
    n_jobs: int | None = None,
    refit: bool = True,
    memory: str | float = "auto",
    approximation: Any = None,
    verbose: int = 0,
    random_state: Any = None,
) -> Selection:
    """Compare kernels, widths and numbers of components on rows that were held out.

    Without labels the default criterion is an error in **input space**: held-out rows are perturbed,
    projected, taken back, and compared with what they were. The error in feature space
    (`KernelPCA.reconstruction_error`) can't be used: each kernel measures it in a space of its own. Nor does
    the plain error tell much, because with as many components as columns a kernel that is as good as
    linear gives every row back, noise and all.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or a source of rows
    kernels : list of names, Kernel objects or functions, optional
        Left out: linear, polynomial of degree 2 and 3, Gaussian at the widths of
        `mercer.diagnostics.widths` and around the median, Matérn and Laplacian.
    n_components : int or list of int, optional
        All kernels are compared at all of these; left out: 10, or what a fold can hold. Of several the
        fewest win that do as well as any, which may be fewer than the next step can use: two components
        clean two circles as well as five do, but do not separate them.
    y : array-like of shape (n,), optional
        Labels or numbers: the judge's cross-validated score decides, and nothing else.
    judge : scikit-learn estimator, optional
        What comes after the scores. Left out: logistic regression, or ridge regression where y has more
        than 50 distinct numbers, of standardised scores.
    criterion : str, optional
        Without y: ``"denoising"`` (default), ``"reconstruction"`` (the same without noise) or
        ``"variance"`` (the share of held-out squared length in feature space that lies in the components;
        only for kernels with k(x, x) = 1, which it can compare). With y: a scoring of scikit-learn.
    noise : float, default=0.3
        Size of the perturbation, as a share of the spread of the rows.
    folds : int or splitter, default=3
    max_rows : int, default=2000
        Compare on a seeded sample where there are more; the result says so.
    n_jobs : int, optional
        Candidates side by side, as in scikit-learn. It changes no number.
    refit : bool, default=True
        Fit the winner to all of X.
    memory, approximation : optional
        Handed to ``best_``, as in `KernelPCA`. The trials stay exact, on the sample.
    verbose : int, default=0
        1 tells on stderr how far it is.
    random_state : int, Generator, RandomState or None, default=None
        Seeds sample, folds, noise and fits; None is a fixed seed.

    Returns
    -------
    selection : Selection
        With ``best_``, ``best_kernel_``, ``n_components_``, ``table_`` and ``reasons_``. Candidates
        that can't be fitted are rows of the table that say why.

    Notes
    -----
    Candidates within one standard error of the least error, taken row by row against the best, count as
    equal. Of these the winner has the fewest symptoms, then the fewest components, then the most stable
    subspace. *Stability* is the mean squared cosine of the principal angles between the scores of models
    fitted to two halves, less what chance gives: 1 is the same subspace, 0 a random one.

    Rows come back by a `Ridge` pre-image that learns from at most 400 rows of each fold (by the axes, for the
    linear kernel). Learnt from more, errors may be less, and close candidates may change places.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> import mercer
    >>> X, y = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    >>> found = mercer.select(X, ["linear", "rbf"], n_components=5)
    >>> found.best_
    KernelPCA(kernel=RBF(gamma='median'), n_components=5, ...)
    >>> mercer.select(X, ["linear", "rbf"], n_components=5, y=y).table_["score"].round(2)
    array([1.  , 0.4...])
    """
    tells = door.check_verbose(verbose)
    rng = as_generator(random_state)
    parse_bytes(memory)
    named_approximation(approximation)
    rows, some, n = sample_rows(X, max_rows, rng=rng)
    door.check_scale(rows)
    require_different(rows)
    labels = door.check_labels(y, n)
    chosen = door.check_judge(judge, labels)
    criterion = door.check_criterion(criterion, chosen, rows)
    own = None if labels is None else labels[some]
    seed = int(rng.integers(2**31))
    court = Court(
        rows=rows,
        folds=door.check_folds(folds, rows, n=n, y=own, judge=chosen, seed=seed),
        criterion=criterion,
        seed=seed,
        noise=door.check_noise(noise) * door.spread(rows) if criterion == "denoising" else None,
        y=own,
        judge=chosen,
    )
    numbers = door.check_components(n_components, min(len(train) for train, _ in court.folds))
    entered = door.candidates(as_kernels(kernels, rows, rng=rng), numbers, int(rows.shape[1]))
    outcomes, equal = best_first(
        without_repeats(_all_tried(entered, court, n_jobs=n_jobs, tells=tells)),
        judged=chosen is not None,
    )
    table = table_of(outcomes, court)
    winner = outcomes[0].candidate
    model = KernelPCA(
        winner.k,
        kernel=winner.kernel,
        approximation=approximation,
        memory=memory,
        random_state=seed,
    )
    warn_of(outcomes[0], judged=chosen is not None)
    why = reasons(outcomes, table, court, n=n, equal=equal)
    if refit:
        why += _refitted(model, X)
    return Selection(model, winner.kernel, winner.k, table, why)


def _refitted(model: KernelPCA, X: Any) -> list[str]:
    """Fit the winner; where all of X is too much for it, what was found is still worth having."""
    try:
        model.fit(X)
    except MercerError as error:
        told = f"`best_` is not fitted: {' '.join(str(error).split())}"
        warnings.warn(told, SelectionWarning, stacklevel=users_level())
        return [told]
    return []


def _all_tried(
    entered: list[Candidate], court: Court, *, n_jobs: int | None, tells: bool
) -> list[Outcome]:
    """One after the other or side by side, in the order they were entered."""
    teller = Teller("select") if tells else None
    run = Parallel(n_jobs=n_jobs, return_as="generator")
    outcomes = []
    # One limit around all, for candidates on threads: each with its own would undo those of the others.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)  # the table has them
        for outcome in run(delayed(tried)(candidate, court) for candidate in entered):
            outcomes.append(outcome)
            if teller is not None:
                teller.step(len(outcomes), len(entered), "candidates", None)
    if teller is not None:
        teller.finish()
    return outcomes
