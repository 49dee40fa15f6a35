"""How many components: a share of the variance, more than chance, least error on held-out rows, or a gap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import linalg, sparse
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, many
from mercer._core.findings import silenced
from mercer._core.params import Number, OneOf, Whole, require
from mercer._core.public import public
from mercer._core.table import Table
from mercer._core.types import Array, Rows
from mercer.diagnostics import selection_door as door
from mercer.diagnostics.selection_agreement import within_one_error
from mercer.diagnostics.selection_report import figures, without_repeats
from mercer.diagnostics.selection_trial import Court, Outcome, tried
from mercer.diagnostics.symptoms import centred_spectrum, kernel_matrix, sample_rows
from mercer.estimators.base import Projector
from mercer.estimators.input import as_generator, check_kernel_rows
from mercer.estimators.kernel_pca import KernelPCA
from mercer.kernels import Kernel, as_kernel
from mercer.kernels.algebra import placed
from mercer.kernels.rows import column_names
from mercer.model.result import Fit

Method: TypeAlias = Literal["permutation", "variance", "cross-validation", "gap"]
# A gap is looked for among components with at least this share of the first one's variance: further
# down every spectrum has large ratios, between numbers that do not matter.
LOOKED_AT = 1e-3
# Methods that need rows, dense ones: what for, and what to use instead.
DENSE = {
    "permutation": ("shuffles columns", "or method='gap'"),
    "cross-validation": ("goes back to input space", "method='variance' or method='gap'"),
}
# Numbers of components that cross-validation tries, as far as a fold can hold them.
LADDER = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90)


@dataclass(frozen=True, eq=False, repr=False)
class Components:
    """A number of components, the curve it was read off, and why. ``int`` gives the number.

    Attributes
    ----------
    n_components : int
    method : str
    curve : Table
        A row for each number of components that was looked at.
    reasons : list of str
    """

    n_components: int
    method: str
    curve: Table
    reasons: list[str]

    def __int__(self) -> int:
        return self.n_components

    __index__ = __int__

    def __str__(self) -> str:
        lines = (f"  - {reason}" for reason in self.reasons)
        return "\n".join([f"{many(self.n_components, 'component')}, by {self.method}", *lines])

    def __repr__(self) -> str:
        return f"Components({self.n_components}, method={self.method!r})"


@public
def n_components(
    X: Any,
    kernel: Any = "rbf",
    *,
    method: Method = "permutation",
    share: float = 0.95,
    quantile: float = 0.95,
    repeats: int = 20,
    folds: Any = 3,
    noise: float = 0.3,
    max_rows: int = 1000,
    random_state: Any = None,
) -> Components:
    """How many components are worth keeping.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), a source of rows, or a fitted model
        A model knows its eigenvalues, which is enough for ``"variance"`` and ``"gap"``.
    kernel : str, Kernel or callable, default="rbf"
        Not used when X is a model.
    method : {"permutation", "variance", "cross-validation", "gap"}, default="permutation"
        ``"permutation"``: parallel analysis (Horn 1965). Columns are shuffled, each on its own, which removes
        their dependence; leading eigenvalues count as long as they exceed the given quantile of those of
        shuffled data. Components of the linear kernel are taken off one by one (Dobriban & Owen 2019), so
        that a strong one hides none behind it; of other kernels the number is on the low side.
        ``"variance"``: the fewest that hold the given share.
        ``"cross-validation"``: the fewest within one standard error of the least error, in input space, of
        held-out rows with noise added, as in `mercer.select`.
        ``"gap"``: before the largest ratio of an eigenvalue to the next.
    share : float, default=0.95
        For ``"variance"``.
    quantile : float, default=0.95
        For ``"permutation"``: of the eigenvalues of shuffled data.
    repeats : int, default=20
        For ``"permutation"``: how many times the columns are shuffled.
    folds : int or splitter, default=3
        For ``"cross-validation"``.
    noise : float, default=0.3
        For ``"cross-validation"``: as a share of the spread of the rows.
    max_rows : int, default=1000
        Work on a seeded sample where there are more; the result says so.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    found : Components
        A permutation test may find none: 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.diagnostics import n_components
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 12))
    >>> X += 0.3 * rng.standard_normal(X.shape)
    >>> print(n_components(X, "linear"))
    3 components, by permutation
      - the first 3 eigenvalues exceed the 95% quantile of those of 20 data sets with shuffled columns
    >>> print(n_components(X, "linear", method="gap"))
    3 components, by gap
      - eigenvalue 3 is ... times the next, the largest such ratio
    """
    require("method", method, OneOf(get_args(Method)))
    require("share", share, Number(0, 1, ends="(]"))
    require("quantile", quantile, Number(0, 1, ends="(]"))
    if isinstance(X, Projector):
        check_is_fitted(X)
        if method in DENSE:
            msg = f"{method=} needs rows; got a fitted model. Pass the rows, and kernel=model.kernel_."
            raise InputError(msg)
        fit = X._current()
        return _from_spectrum(fit, method, share=share, most=len(fit.eigenvalues))
    rng = as_generator(random_state)
    rows, _, n = sample_rows(X, max_rows, rng=rng)
    m = int(rows.shape[0])
    chosen = placed(as_kernel(kernel), column_names(X))
    if chosen.is_precomputed:
        msg = (
            "`n_components` needs rows or a fitted model; got kernel='precomputed'. Fit KernelPCA(None, "
            "kernel='precomputed') to the matrix and pass the model."
        )
        raise InputError(msg)
    if sparse.issparse(rows) and method in DENSE:
        why, instead = DENSE[method]
        msg = f"{method=} {why} and needs dense rows; got a sparse matrix. Use X.toarray(), {instead}."
        raise InputError(msg)
    check_kernel_rows(chosen, rows)
    resolved = chosen.resolve(rows, rng=rng)
    if method == "permutation":
        require("repeats", repeats, Whole(1))
        found = _by_permutation(resolved, rows, quantile, int(repeats), rng=rng)
    elif method == "cross-validation":
        found = _by_folds(chosen, rows, folds, door.check_noise(noise), n=n, rng=rng)
    else:
        with silenced():  # the spectrum is what is asked for
            # By a fit, which loses no digits far from the origin.
            fit = KernelPCA(None, kernel=resolved).fit(rows).fit_
        # Of as many eigenvalues as there could be, the last is followed by zeros only as a matter of course.
        most = min(m, resolved.map_dimension(int(rows.shape[1])) or m) - 1
        found = _from_spectrum(fit, method, share=share, most=most)
    if m < n:
        drawn = f"of {m} of {n} rows, drawn with a seed; raise `max_rows` for more"
        return replace(found, reasons=[*found.reasons, drawn])
    return found


# ── from the spectrum alone ─────────────────────────────────────────────────
def _from_spectrum(fit: Fit, method: str, *, share: float, most: int) -> Components:
    values = fit.eigenvalues
    cut = len(values) * float(np.finfo(np.float64).eps) * max(float(values[0]), 0.0)
    values = values[values > cut]
    if len(values) == 0:
        msg = "All rows are one point in feature space: there is no component to count."
        raise InputError(msg)
    if method == "variance":
        return _by_share(values, fit.total, share)
    return _by_gap(values, cut if len(values) < most else np.nan)


def _by_share(values: Array, total: float, share: float) -> Components:
    held = np.cumsum(values) / total
    # Rounding in a sum must not ask for one more.
    reached = np.flatnonzero(held >= share - 1e-12 * len(values))
    k = int(reached[0]) + 1 if len(reached) else len(values)
    why = f"the first {k} hold {held[k - 1]:.2%} of the variance; {share:.0%} was asked for"
    if not len(reached):
        why += ". The model has no more: fit one with more components"
    return Components(k, "variance", _curve(values, share=held), [why])


def _by_gap(values: Array, after: float) -> Components:
    """After the last eigenvalue comes `after`: rounding, or NaN where nothing could come."""
    ratios = values / np.append(values[1:], after)
    looked = ratios[: int(np.sum(values >= LOOKED_AT * values[0]))]
    looked = looked[~np.isnan(looked)]
    k = int(np.argmax(looked)) + 1 if len(looked) else 1
    why = f"eigenvalue {k} is {ratios[k - 1]:.3g} times the next, the largest such ratio"
    if k == len(values):
        why = f"eigenvalue {k} is the last above rounding"
    return Components(k, "gap", _curve(values, ratio=ratios), [why])


def _curve(values: Array, **columns: Array) -> Table:
    return Table({"components": np.arange(1, len(values) + 1), "eigenvalue": values, **columns})


# ── against chance ──────────────────────────────────────────────────────────
def _against_chance(
    kernel: Kernel, rows: Array, *, quantile: float, repeats: int, rng: np.random.Generator
) -> tuple[int, Array, Array]:
    """How many leading eigenvalues exceed those of shuffled data, one by one; all of them, and the limits."""
    values = centred_spectrum(kernel_matrix(kernel, rows))
    shuffled = (rng.permuted(rows, axis=0) for _ in range(repeats))
    chance = [centred_spectrum(kernel_matrix(kernel, x)) for x in shuffled]
    limits = np.quantile(chance, quantile, axis=0)  # (n,)
    floor = len(values) * float(np.finfo(np.float64).eps) * max(float(values[0]), 0.0)
    below = np.flatnonzero(values <= np.maximum(limits, floor))
    return int(below[0]) if len(below) else len(values), values, limits


def _linear_against_chance(
    rows: Array, *, quantile: float, repeats: int, rng: np.random.Generator
) -> tuple[int, Array, Array]:
    """The same for the linear kernel, each component taken off the rows before the next is asked for."""
    # Shuffling spreads the variance of a strong component over all directions, and would hide a weak one
    # behind it. What is left after j components has d - j directions, and its shuffled form has d: the limit
    # is scaled by d/(d - j), so that both have the same variance in each.
    x = rows.astype(np.float64)
    x -= x.mean(axis=0)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    values, d = s**2, x.shape[1]
    rank = int(np.sum(s > max(x.shape) * np.finfo(np.float64).eps * s[0]))
    limits = np.full(len(values), np.nan)
    for j in range(rank):
        rest = (u[:, j:] * s[j:]) @ vt[j:]
        tops = [_largest(rng.permuted(rest, axis=0)) for _ in range(repeats)]
        limits[j] = np.quantile(tops, quantile) * d / (d - j)
        if values[j] <= limits[j]:
            return j, values, limits
    return rank, values, limits


def _largest(x: Array) -> float:
    """The largest eigenvalue of xᵀx, on the smaller side; x keeps its column means of zero."""
    gram = x.T @ x if x.shape[0] > x.shape[1] else x @ x.T
    last = len(gram) - 1
    return float(linalg.eigvalsh(gram, subset_by_index=[last, last])[0])


def _by_permutation(
    kernel: Kernel, rows: Rows, quantile: float, repeats: int, *, rng: np.random.Generator
) -> Components:
    test = _linear_against_chance if kernel.is_linear else partial(_against_chance, kernel)
    k, values, limits = test(rows, quantile=quantile, repeats=repeats, rng=rng)
    what = f"the {quantile:.0%} quantile of those of {repeats} data sets with shuffled columns"
    why = f"the first {'eigenvalue exceeds' if k == 1 else f'{k} eigenvalues exceed'} {what}"
    if k == 0:
        why = f"not even the first eigenvalue exceeds {what}: this kernel sees no more than chance"
    return Components(k, "permutation", _curve(values, chance=limits), [why])


# ── by pre-images of held-out rows ──────────────────────────────────────────
def _by_folds(
    kernel: Kernel, rows: Rows, folds: Any, noise: float, *, n: int, rng: np.random.Generator
) -> Components:
    door.check_scale(rows)
    seed = int(rng.integers(2**31))
    splits = door.check_folds(folds, rows, n=n, y=None, judge=None, seed=seed)
    court = Court(rows, splits, "denoising", seed, noise=noise * door.spread(rows))
    smallest, d = min(len(train) for train, _ in splits), int(rows.shape[1])
    ladder = [k for k in LADDER if k < smallest] or [1]
    with silenced():  # their numbers are what is asked for
        entered = door.candidates([kernel], ladder, d)
        outcomes = without_repeats([tried(candidate, court) for candidate in entered])
    failed = next((o.failure for o in outcomes if o.failure), "")
    if failed:
        msg = f"{kernel!r} can't be fitted to these rows: {failed}"
        raise InputError(msg)
    return _fewest(outcomes, court)


def _fewest(outcomes: list[Outcome], court: Court) -> Components:
    """The smallest number of components whose error is within one standard error of the least."""
    best = min(outcomes, key=lambda outcome: outcome.loss)
    equal = within_one_error([best, *outcomes])[1:]
    chosen = next(o for o, e in zip(outcomes, equal, strict=True) if e)  # fewest first
    errors = figures(outcomes, court)
    del errors["standard_error"]
    numbers, k = [o.candidate.k for o in outcomes], chosen.candidate.k
    curve = Table({"components": numbers, **errors, "within_one_error": equal})
    own, least = (errors["error"][numbers.index(o.candidate.k)] for o in (chosen, best))
    rank = ", the least of all"
    if chosen is not best:
        rank = f"; the least, {least:.4g} with {best.candidate.k} components, is within one standard error"
    reasons = [f"error {own:.4g} of held-out rows{rank}"]
    if best is outcomes[-1] and len(outcomes) > 1 and not best.full:
        reasons.append("the error still fell at the end of what was tried: more may be better")
    return Components(k, "cross-validation", curve, reasons)
