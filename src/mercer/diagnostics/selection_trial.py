"""One candidate on trial: what all are judged on, fits to parts of the rows, and what is found of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from mercer._core.errors import FlatSpectrumWarning, InputError, MercerError, RankWarning
from mercer._core.types import Array, Indices, Rows
from mercer._core.wording import Message
from mercer.data.rows import take_rows
from mercer.diagnostics.selection_agreement import shared_by_neighbours, stability_rows
from mercer.diagnostics.symptoms import symptoms_on
from mercer.engine.pairwise import squared_norms
from mercer.engine.threads import lanes, single_threaded_blas
from mercer.estimators.kernel_pca import KernelPCA
from mercer.kernels import Kernel
from mercer.planning.problem import spread_over
from mercer.preimage import Exact, Ridge

Folds: TypeAlias = list[tuple[Indices, Indices]]  # rows to fit to, and rows held out
# Up to so many rows their kernel matrix is held, 128 MB.
HELD_ROWS = 4000


@dataclass(frozen=True, repr=False)
class Candidate:
    """A kernel with a number of components, and its place among the kernels that were entered."""

    kernel: Kernel
    k: int
    place: int = 0  # `is` would not survive the way to another process


@dataclass(frozen=True, repr=False)
class Court:
    """What all candidates are judged on: the same rows, folds and perturbations."""

    rows: Rows  # (n, d)
    folds: Folds
    criterion: Any
    seed: int
    noise: float | None = None  # standard deviation of what is added to an entry that is held out
    y: Any = None
    judge: Any = None
    weights: Array | None = None  # (n,), how often each row counts
    neighbours: list[Indices] | None = None  # of the rows held out, fold by fold

    def weights_of(self, part: Indices) -> Array | None:
        """Weights of some of the rows; None where all count alike."""
        return None if self.weights is None else self.weights[part]

    @property
    def held_out(self) -> Array | None:
        """Weights of the rows that are held out, fold after fold."""
        return self.weights_of(np.concatenate([test for _, test in self.folds]))


@dataclass(frozen=True, repr=False)
class Outcome:
    """What was found. Losses are to be made small: one a held-out row, or one a fold."""

    candidate: Candidate
    losses: Array = field(default_factory=lambda: np.empty(0))
    plain: Array = field(default_factory=lambda: np.empty(0))  # squared errors of rows as they are
    of_mean: Array = field(default_factory=lambda: np.empty(0))  # squared distances from the mean
    steady: Array = field(default_factory=lambda: np.empty(0))  # what each row adds to stability
    weights: Array | None = None  # of the losses; those of folds count alike
    stability: float = np.nan
    kept: float = np.nan
    full: bool = False  # it has all components that there are
    resolved: Kernel | None = None
    symptoms: tuple[str, ...] = ()
    failure: str = ""

    @property
    def loss(self) -> float:
        """The mean loss; infinite where the candidate failed."""
        return self.mean(self.losses) if not self.failure else np.inf

    def mean(self, values: Array) -> float:
        """The mean over the rows held out, by weight, or over folds."""
        return float(np.average(values, weights=self.weights))


def model_of(candidate: Candidate, court: Court, **more: Any) -> KernelPCA:
    """The candidate's model, before it is fitted."""
    return KernelPCA(candidate.k, kernel=candidate.kernel, random_state=court.seed, **more)


class Fits:
    """One candidate, fitted to parts of the rows: of the criterion agreement, all with the same width."""

    def __init__(self, candidate: Candidate, court: Court, resolved: Kernel) -> None:
        self.candidate, self.court, self.resolved = candidate, court, resolved
        fixed = court.criterion == "agreement"
        self._kernel = resolved if fixed else candidate.kernel
        # Computed once, where only differences of rows enter: every fit takes its part of it. Far from the
        # origin the matrices of other kernels have no digits left, and fits need the rows.
        self._matrix: Array | None = None
        if fixed and resolved.shift_invariant and court.rows.shape[0] <= HELD_ROWS:
            self._matrix = resolved(court.rows.astype(np.float64))  # (n, n)

    def scores(self, train: Indices, test: Indices) -> tuple[KernelPCA, Array]:
        """The model of some rows, and the scores of others in it, as float64."""
        rows, kernel = self.court.rows, self._kernel if self._matrix is None else "precomputed"
        model = model_of(self.candidate, self.court).set_params(kernel=kernel)
        if self._matrix is None:
            known, new = (take_rows(rows, part) for part in (train, test))
        else:
            known, new = (self._matrix[np.ix_(part, train)] for part in (train, test))
        model.fit(known, sample_weight=self.court.weights_of(train))
        return model, model.transform(new).astype(np.float64)


# ── a judge ─────────────────────────────────────────────────────────────────
# Up to so many rows whole weights are written out: any judge and any scoring can count rows.
WRITTEN_OUT = 20_000


def handed(pipeline: Pipeline, weights: Array, prefix: str = "") -> dict[str, Any]:
    """`sample_weight` for every step that takes it; the last one, which learns, has to."""
    found: dict[str, Any] = {}
    for place, (name, step) in enumerate(pipeline.steps):
        if isinstance(step, Pipeline):
            found |= handed(step, weights, f"{prefix}{name}__")
        elif has_fit_parameter(step, "sample_weight"):
            found[f"{prefix}{name}__sample_weight"] = weights
        elif place == len(pipeline.steps) - 1:
            msg = (
                f"sample_weight has values that are not whole, and {step!r} takes no sample_weight in `fit`. "
                "Give whole weights, which repeat rows, or a judge that takes weights."
            )
            raise InputError(msg)
    return found


# ── the trial ───────────────────────────────────────────────────────────────
# Rows that a ridge pre-image learns from, the same for all kernels: the cost grows with their third power.
# Learnt from more, the order of close candidates may change; `reasons_` says so.
BACK_ROWS = 400
# Perturbations of a held-out row; each counts with its opposite.
MOVES = 2
# More of the variance than this is all of it.
ALL = 1.0 - 1e-9
# What a caller's kernel or judge may raise on rows it is not made for: that candidate fails, no other.
FAILURES = (MercerError, ValueError, TypeError, ArithmeticError, LookupError)
SYMPTOM_ROWS = 300
# Warnings for which the table has words of its own.
IN_TABLE = {FlatSpectrumWarning, RankWarning}
NOTHING: tuple[Array, ...] = (np.empty(0),)


def tried(candidate: Candidate, court: Court) -> Outcome:
    """The outcome; a candidate that can't be fitted to these rows has a reason in place of numbers."""
    # On one thread, so that the numbers do not depend on how many candidates run side by side.
    with single_threaded_blas(), lanes(1):
        try:
            outcome = _tried(candidate, court)
        except FAILURES as error:
            text = str(error) if isinstance(error, ValueError) else repr(error)
            return Outcome(candidate, failure=" ".join(text.split()))
    if not np.all(np.isfinite(outcome.losses)):  # which no order can place
        return Outcome(outcome.candidate, failure="its score is not a number")
    return outcome


class Figures(NamedTuple):
    """What a criterion found in each fold."""

    models: list[KernelPCA]
    losses: list[Array]
    plain: Sequence[Array] = NOTHING
    of_mean: Sequence[Array] = NOTHING


def _tried(candidate: Candidate, court: Court) -> Outcome:
    kernel, rows = candidate.kernel, court.rows
    if kernel.is_precomputed:
        msg = "a precomputed kernel has no rows to hold out; give the function behind it"
        raise InputError(msg)
    kernel.check_rows(rows)
    resolved = kernel.resolve(rows, rng=np.random.default_rng(court.seed), weights=court.weights)
    few = take_rows(rows, spread_over(int(rows.shape[0]), SYMPTOM_ROWS))
    symptoms = [symptom.name for symptom in symptoms_on(resolved, few)]
    fits = Fits(candidate, court, resolved)
    figures = _judged(fits) if court.judge is not None else JUDGED_BY[court.criterion](fits)
    steady = stability_rows(fits)
    mean = np.average(steady, weights=court.held_out) if len(steady) else np.nan
    models = figures.models
    warned = {type(warning) for m in models for warning in m.fit_.warnings()} - IN_TABLE
    kept = np.mean([float(m.explained_variance_ratio_.sum()) for m in models])
    found = min(m.n_components_ for m in models)  # a map of few dimensions has no more
    return Outcome(
        replace(candidate, k=min(candidate.k, found)),
        losses=np.concatenate(figures.losses),
        plain=np.concatenate(figures.plain),
        of_mean=np.concatenate(figures.of_mean),
        steady=steady,
        weights=court.held_out if court.judge is None else None,
        stability=float(np.clip(mean, 0.0, 1.0)),
        kept=float(kept),
        full=found < candidate.k or bool(kept > ALL),
        resolved=resolved,
        symptoms=(*symptoms, *sorted(kind.__name__ for kind in warned)),
    )


def _returned(fits: Fits) -> Figures:
    """Squared errors in input space of perturbed rows, of rows as they are, and of the mean."""
    candidate, court = fits.candidate, fits.court
    method = Exact() if candidate.kernel.is_linear else Ridge(max_rows=BACK_ROWS)
    models, losses, plain, of_mean = [], [], [], []
    for fold, (train, test) in enumerate(court.folds):
        known, new = court.rows[train], court.rows[test].astype(np.float64)
        weights = court.weights_of(train)
        model = model_of(candidate, court, preimage=method).fit(known, sample_weight=weights)
        plain.append(squared_norms(model.reconstruct(new) - new))
        if court.noise is None:
            losses.append(plain[-1])
        else:
            rng = np.random.default_rng([court.seed, fold])  # the same moves for all candidates
            losses.append(_moved(model, new, court.noise, rng=rng))
        mean = np.average(known.astype(np.float64), axis=0, weights=weights)
        of_mean.append(squared_norms(new - mean))
        models.append(model)
    return Figures(models, losses, plain, of_mean)


def _moved(  # (b, d) -> (b,)
    model: KernelPCA, rows: Array, noise: float, *, rng: np.random.Generator
) -> Array:
    """Squared errors of rows that were moved, each the mean over its moves, Gaussian and isotropic."""
    # Each move has its opposite, so that what is linear in it cancels, and with it most of the chance.
    total = np.zeros(len(rows))
    for _ in range(MOVES):
        move = rng.normal(scale=noise, size=rows.shape)
        for moved in (rows + move, rows - move):
            total += squared_norms(model.reconstruct(moved) - rows)
    return np.asarray(total / (2 * MOVES))


def _captured(fits: Fits) -> Figures:
    """Less the squared length, within the components, of each held-out point; all points have length one."""
    if not np.allclose(fits.resolved.diag(fits.court.rows), 1.0):
        msg = Message(
            "{criterion:'variance'} compares kernels with k(x, x) = 1 for every point; got {kernel_}. Use "
            "its normalised() form, or {criterion:'denoising'}.",
            kernel_=repr(fits.resolved),
        )
        raise InputError(msg)
    found = [fits.scores(train, test) for train, test in fits.court.folds]
    return Figures([m for m, _ in found], [-squared_norms(scores) for _, scores in found])


def _judged(fits: Fits) -> Figures:
    """Less the judge's score on each fold, everything fitted inside of it."""
    court = fits.court
    folds, weights = court.folds, court.weights
    if weights is not None:
        counts = np.rint(weights).astype(np.intp)
        if np.array_equal(counts, weights) and int(counts.sum()) <= WRITTEN_OUT:
            folds = [(np.repeat(a, counts[a]), np.repeat(b, counts[b])) for a, b in folds]
            weights = None  # each row is there as often as it counts
    pipeline = make_pipeline(model_of(fits.candidate, court), clone(court.judge))
    scorer = check_scoring(pipeline, scoring=court.criterion)
    models, scores = [], []
    for train, test in folds:
        own, fitted, scored = clone(pipeline), {}, {}
        if weights is not None:
            fitted, scored = handed(own, weights[train]), {"sample_weight": weights[test]}
        own.fit(take_rows(court.rows, train), court.y[train], **fitted)
        scores.append(float(scorer(own, take_rows(court.rows, test), court.y[test], **scored)))
        models.append(own[0])
    return Figures(models, [-np.array(scores)])


JUDGED_BY: dict[str, Callable[[Fits], Figures]] = {
    "agreement": lambda fits: Figures(*shared_by_neighbours(fits)),
    "denoising": _returned,
    "reconstruction": _returned,
    "variance": _captured,
}
