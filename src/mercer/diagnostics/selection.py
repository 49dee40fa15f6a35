"""Which kernel, which width, how many components: candidates side by side on rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from mercer._core.errors import MercerError, SelectionWarning, StoppedError
from mercer._core.findings import silenced, warn
from mercer._core.memory import Memory, parse_bytes
from mercer._core.observer import SILENT, current_observer, observed_by
from mercer._core.params import require
from mercer._core.public import public
from mercer._core.table import Table
from mercer._core.wording import brief
from mercer.data.frames import held
from mercer.diagnostics import selection_door as door
from mercer.diagnostics import selection_report as report
from mercer.diagnostics.selection_trial import Candidate, Court, Outcome, model_of, tried
from mercer.diagnostics.symptoms import sample_rows
from mercer.estimators.input import as_generator, check_weights
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.preimages import named_approximation
from mercer.estimators.progress import VERBOSE, ConsoleObserver
from mercer.kernels import Kernel
from mercer.kernels.rows import column_names


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
    conclusive_ : bool
        Whether there is evidence for the winner. False: no criterion can tell, and it is the reference, or
        one of several within one standard error of each other.
    """

    best_: KernelPCA
    best_kernel_: Kernel
    n_components_: int
    table_: Table
    reasons_: list[str]
    conclusive_: bool

    def __str__(self) -> str:
        lines = (f"  - {reason}" for reason in self.reasons_)
        return "\n".join([f"{self.word}  {self._winner}", *lines, "", str(self.table_)])

    def __repr__(self) -> str:
        return f"Selection({self._winner}, of {len(self.table_)} candidates)"

    @property
    def word(self) -> str:
        """What the winner is called: best, or kept where it is the reference that nothing beats."""
        kept = "verdict" in self.table_.columns and not self.conclusive_
        return "kept" if kept else "best"

    @property
    def _winner(self) -> str:
        return f"KernelPCA({self.n_components_}, kernel={brief(self.best_kernel_)})"


@public
def select(
    X: Any,
    kernels: Any = None,
    *,
    n_components: Any = None,
    y: Any = None,
    judge: Any = None,
    criterion: door.Criterion | str | Callable[..., float] | None = None,
    noise: float = 0.3,
    folds: Any = 3,
    sample_weight: Any = None,
    max_rows: int | None = None,
    n_jobs: int | None = None,
    refit: bool = True,
    memory: Memory = "auto",
    approximation: Any = None,
    verbose: int = 0,
    random_state: Any = None,
) -> Selection:
    """Compare kernels, widths and numbers of components on rows that were held out.

    With labels a judge behind the scores decides. Without them no number tells reliably which kernel the
    next step will like: the Gaussian kernel at the median width is kept, unless a candidate beats it with
    two witnesses that lean opposite ways. ``conclusive_`` says which of the two happened.

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
        Without y: ``"agreement"`` (default, see Notes), ``"denoising"`` (the distance in input space of
        held-out rows from their pre-images after noise was added), ``"reconstruction"`` (the same without
        noise) or ``"variance"`` (the share of held-out squared length in feature space that lies in the
        components; only for kernels with k(x, x) = 1). With y: a scoring of scikit-learn.
    noise : float, default=0.3
        Size of the perturbation of ``"denoising"``, as a share of the spread of the rows.
    folds : int or splitter, default=3
        A number means shuffled folds of distinct rows: a row and its copies are held out together.
    sample_weight : array-like of shape (n,), optional
        How often each row counts. Where they are not whole, a judge has to take ``sample_weight``.
    max_rows : int, optional
        Compare on a seeded sample where there are more; the result says so. Left out: 1000 for
        ``"agreement"``, 2000 otherwise.
    n_jobs : int, optional
        Candidates side by side, as in scikit-learn. It changes no number.
    refit : bool, default=True
        Fit the winner to all of X.
    memory, approximation : optional
        Handed to ``best_``, as in `KernelPCA`. The trials stay exact, on the sample.
    verbose : int, default=0
        1 reports progress on stderr.
    random_state : int, Generator, RandomState or None, default=None
        Seeds sample, folds, noise and fits; None is a fixed seed.

    Returns
    -------
    selection : Selection
        With ``best_``, ``best_kernel_``, ``n_components_``, ``table_``, ``reasons_`` and ``conclusive_``. The
        table says why where a candidate can't be fitted.

    Notes
    -----
    ``"agreement"`` asks two questions of the rows held out. *Shared*: of how many components' worth do the
    five nearest rows share the scores (Σⱼ E[zⱼ(x) zⱼ(x')], unit variance on the training rows)? Narrow
    kernels are good at it. *Stability*: how alike are the score spaces of models fitted to two halves, as
    the mean squared cosine of their principal angles less what chance gives? Wide kernels always are. The
    reference is the Gaussian kernel at the median width, or the candidate nearest to it; where none is
    within a factor of 4 in gamma, the candidate listed first. A candidate wins that is better by more than
    four standard errors of the difference, row by row, in both; of several the one with the larger margin.

    With the other criteria candidates within one standard error of the best count as equal. Of these the
    winner has the fewest symptoms, then the fewest components, then the most stable subspace. Pre-images are
    those of a `Ridge` that learns from at most 400 rows of each fold (of the linear kernel, exact). Learnt
    from more, errors may be less, and close candidates may change places.

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
    require("verbose", verbose, VERBOSE)
    rng = as_generator(random_state)
    parse_bytes(memory)
    named_approximation(approximation)
    X = held(X)  # read for the trials, and again by the winner
    limit = door.check_max_rows(max_rows, criterion if y is None else "judged")
    rows, some, n = sample_rows(X, limit, rng=rng, sample_weight=sample_weight)
    weights, labels = check_weights(sample_weight, n), door.check_labels(y, n)
    court = door.court_of(
        rows,
        labels=None if labels is None else labels[some],
        weights=None if weights is None else weights[some],
        judge=door.check_judge(judge, labels),
        criterion=criterion,
        noise=door.check_noise(noise),
        folds=folds,
        n=n,
        seed=int(rng.integers(2**31)),
    )
    numbers = door.check_components(n_components, min(len(train) for train, _ in court.folds))
    if kernels is None:
        kernels = door.default_kernels(court.rows, rng=rng, weights=court.weights)
    else:
        kernels = door.as_kernels(kernels, column_names(X, rows))
    entered = door.candidates(kernels, numbers, int(rows.shape[1]))
    tries = _all_tried(entered, court, n_jobs=n_jobs, verbose=bool(verbose))
    order = report.in_order(report.without_repeats(tries), court)
    table = report.table_of(order, court)
    winner = order.outcomes[0].candidate
    model = model_of(winner, court, approximation=approximation, memory=memory)
    report.warn_of(order.outcomes[0], judged=court.judge is not None)
    why = report.reasons(order, table, court, n=n, drawn=len(some))
    if refit:
        why += _refitted(model, X, sample_weight)
    return Selection(model, winner.kernel, winner.k, table, why, order.conclusive)


def _refitted(model: KernelPCA, X: Any, sample_weight: Any) -> list[str]:
    """Fit the winner; where all of X is too much for it, what was found is still worth having."""
    try:
        model.fit(X, sample_weight=sample_weight)
    except MercerError as error:
        reason = f"`best_` is not fitted: {' '.join(str(error).split())}"
        warn(reason, SelectionWarning)
        return [reason]
    return []


def _all_tried(
    entered: list[Candidate], court: Court, *, n_jobs: int | None, verbose: bool
) -> list[Outcome]:
    """One after the other or side by side, in the order they were entered."""
    tries: Iterator[Outcome] = (_quietly_tried(candidate, court) for candidate in entered)
    if effective_n_jobs(n_jobs) > 1:  # with one, `Parallel` would set filters of the process
        run = Parallel(n_jobs=n_jobs, return_as="generator")
        tries = run(delayed(_quietly_tried)(candidate, court) for candidate in entered)
    console, around, outcomes = ConsoleObserver("select"), current_observer(), []
    for outcome in tries:
        outcomes.append(outcome)
        if verbose:
            console.step(len(outcomes), len(entered), "candidates", None)
        if around.step(len(outcomes), len(entered), "candidates", None):
            msg = f"Stopped after {len(outcomes)} of {len(entered)} candidates."
            raise StoppedError(msg)
    if verbose:
        console.finish()
    return outcomes


def _quietly_tried(candidate: Candidate, court: Court) -> Outcome:
    """What a candidate is worth, here or in a process of its own: the table has the warnings of its fits."""
    with silenced(), observed_by(SILENT):
        return tried(candidate, court)
