"""One candidate on trial: fitted to folds, judged on the rows that were held out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mercer._core.errors import (
    FlatSpectrumWarning,
    InputError,
    MercerError,
    RankWarning,
)
from mercer.diagnostics.symptoms import symptoms_on
from mercer.engine.pairwise import squared_norms
from mercer.engine.rows import take_rows
from mercer.estimators.kernel_pca import KernelPCA
from mercer.kernels import Linear
from mercer.preimage import Exact, Ridge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels import Kernel

# Rows that a ridge pre-image learns from, the same for all kernels: the cost grows with their third power.
# Learnt from more, the order of close candidates may change; `reasons_` tells.
BACK_ROWS = 400
# Perturbations of a held-out row; each counts with its opposite.
MOVES = 2
# More of the variance than this is all of it.
ALL = 1.0 - 1e-9
# What a caller's kernel or judge may raise on rows it is not made for. It fails, the others go on.
FAILURES = (MercerError, ValueError, TypeError, ArithmeticError, LookupError)
SYMPTOM_ROWS = 300
# Warnings that the table tells in its own words.
TOLD: tuple[type, ...] = (FlatSpectrumWarning, RankWarning)
NOTHING: tuple[Array, ...] = (np.empty(0),)


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
    folds: list[tuple[Indices, Indices]]
    criterion: Any
    seed: int
    noise: float | None = None  # standard deviation of what is added to an entry that is held out
    y: Any = None
    judge: Any = None


@dataclass(frozen=True, repr=False)
class Outcome:
    """What was found. Losses are to be made small: one a held-out row, or one a fold."""

    candidate: Candidate
    losses: Array = field(default_factory=lambda: np.empty(0))
    plain: Array = field(default_factory=lambda: np.empty(0))  # squared errors of rows as they are
    of_mean: Array = field(default_factory=lambda: np.empty(0))  # squared distances from the mean
    stability: float = np.nan
    kept: float = np.nan
    full: bool = False  # it has all components that there are
    resolved: Kernel | None = None
    symptoms: tuple[str, ...] = ()
    failure: str = ""

    @property
    def loss(self) -> float:
        """The mean loss; infinite where the candidate failed."""
        return float(np.mean(self.losses)) if not self.failure else np.inf


def tried(candidate: Candidate, court: Court) -> Outcome:
    """The outcome; a candidate that can't be fitted to these rows has a reason in place of numbers.

    On one BLAS thread, so that the numbers do not depend on how many candidates run side by side.
    """
    with threadpool_limits(limits=1):
        try:
            outcome = _tried(candidate, court)
        except FAILURES as error:
            told = str(error) if isinstance(error, ValueError) else repr(error)
            return Outcome(candidate, failure=" ".join(told.split()))
    if not np.all(np.isfinite(outcome.losses)):  # which no order can place
        return Outcome(outcome.candidate, failure="its score is not a number")
    return outcome


def _tried(candidate: Candidate, court: Court) -> Outcome:
    kernel, rows = candidate.kernel, court.rows
    if kernel.is_precomputed:
        msg = "a precomputed kernel has no rows to hold out; give the function behind it"
        raise InputError(msg)
    kernel.check_rows(rows)
    resolved = kernel.resolve(rows, rng=np.random.default_rng(court.seed))
    n = int(rows.shape[0])  # from all over: the first rows may be of one kind
    few = take_rows(rows, np.unique(np.linspace(0, n - 1, SYMPTOM_ROWS).astype(np.intp)))
    found = tuple(symptom.name for symptom in symptoms_on(resolved, few))
    if court.judge is not None:
        outcome = _judged(candidate, court)
    elif court.criterion == "variance":
        outcome = _captured(candidate, court, resolved)
    else:
        outcome = _returned(candidate, court)
    steady = _stability(candidate, court)
    ills = (*found, *outcome.symptoms)
    return replace(outcome, stability=steady, resolved=resolved, symptoms=ills)


def _model(candidate: Candidate, court: Court, **more: Any) -> KernelPCA:
    return KernelPCA(candidate.k, kernel=candidate.kernel, random_state=court.seed, **more)


def _finished(
    candidate: Candidate,
    models: list[KernelPCA],
    losses: list[Array],
    plain: Sequence[Array] = NOTHING,
    of_mean: Sequence[Array] = NOTHING,
) -> Outcome:
    """The figures of all folds, beside what the fits to the folds say of themselves."""
    told = {kind.__name__ for m in models for kind, _ in m.fit_.warnings() if kind not in TOLD}
    kept = np.mean([float(m.explained_variance_ratio_.sum()) for m in models])
    found = min(m.n_components_ for m in models)  # a map of few dimensions has no more
    own = replace(candidate, k=min(candidate.k, found))
    return Outcome(
        own,
        full=found < candidate.k or bool(kept > ALL),
        losses=np.concatenate(losses),
        plain=np.concatenate(plain),
        of_mean=np.concatenate(of_mean),
        kept=float(kept),
        symptoms=tuple(sorted(told)),
    )


def _returned(candidate: Candidate, court: Court) -> Outcome:
    """Squared errors in input space of perturbed rows, of rows as they are, and of the mean."""
    linear = isinstance(candidate.kernel, Linear)
    method = Exact() if linear else Ridge(max_rows=BACK_ROWS)
    models, losses, plain, of_mean = [], [], [], []
    for fold, (train, test) in enumerate(court.folds):
        known, new = court.rows[train], court.rows[test].astype(np.float64)
        model = _model(candidate, court, preimage=method).fit(known)
        plain.append(squared_norms(model.reconstruct(new) - new))
        if court.noise is None:
            losses.append(plain[-1])
        else:
            rng = np.random.default_rng([court.seed, fold])  # the same moves for all candidates
            losses.append(_moved(model, new, court.noise, rng=rng))
        of_mean.append(squared_norms(new - known.mean(axis=0, dtype=np.float64)))
        models.append(model)
    return _finished(candidate, models, losses, plain, of_mean)


def _moved(  # (b, d) -> (b,)
    model: KernelPCA, rows: Array, noise: float, *, rng: np.random.Generator
) -> Array:
    """Squared errors of rows that were moved, each the mean over its moves.

    Moves are Gaussian and alike in all directions: kernels and errors do not tell one from another either.
    Each comes with its opposite, so that what is linear in it cancels, and with it most of the chance.
    """
    total = np.zeros(len(rows))
    for _ in range(MOVES):
        move = rng.normal(scale=noise, size=rows.shape)
        for moved in (rows + move, rows - move):
            total += squared_norms(model.reconstruct(moved) - rows)
    return np.asarray(total / (2 * MOVES))


def _captured(candidate: Candidate, court: Court, resolved: Kernel) -> Outcome:
    """Less the squared length, within the components, of each held-out point; all points have length one."""
    if not np.allclose(resolved.diag(court.rows), 1.0):
        msg = (
            f"{resolved!r} does not give every point the length k(x, x) = 1, so that variances in feature "
            "space can't be compared. Use its normalised() form, or criterion='denoising'."
        )
        raise InputError(msg)
    models, losses = [], []
    for train, test in court.folds:
        models.append(_model(candidate, court).fit(take_rows(court.rows, train)))
        scores = models[-1].transform(take_rows(court.rows, test)).astype(np.float64)
        losses.append(-squared_norms(scores))
    return _finished(candidate, models, losses)


def _judged(candidate: Candidate, court: Court) -> Outcome:
    """Less the judge's score on each fold, everything fitted inside of it."""
    pipeline = make_pipeline(_model(candidate, court), clone(court.judge))
    found = cross_validate(
        pipeline,
        court.rows,
        court.y,
        cv=court.folds,
        scoring=court.criterion,
        error_score="raise",
        return_estimator=True,
    )
    models = [fitted[0] for fitted in found["estimator"]]
    return _finished(candidate, models, [-np.asarray(found["test_score"], dtype=np.float64)])


# ── stability ───────────────────────────────────────────────────────────────
def _stability(candidate: Candidate, court: Court) -> float:
    """How alike the components of two halves of the training rows are, seen by rows in neither."""
    rng = np.random.default_rng(court.seed)
    found = []
    for train, test in court.folds:
        mixed = rng.permutation(train)
        half = len(mixed) // 2
        if candidate.k > half or candidate.k >= len(test) - 1:
            return np.nan  # too few rows to tell
        scores = [
            _model(candidate, court)
            .fit(take_rows(court.rows, part))
            .transform(take_rows(court.rows, test))
            for part in (mixed[:half], mixed[half : 2 * half])
        ]
        found.append(affinity(*scores))
    return float(np.mean(found))


def affinity(a: Array, b: Array) -> float:  # (n, k), (n, k) -> a number
    """Mean squared cosine of the principal angles between two score spaces, less what chance gives.

    1: the same space. 0: as two random spaces of k dimensions among n centred rows, whose mean squared
    cosine is k/(n - 1).
    """
    p, q = _basis(a), _basis(b)
    k = max(p.shape[1], q.shape[1])
    chance = k / (len(a) - 1)
    if k == 0 or chance >= 1.0:
        return np.nan if k else 0.0
    overlap = float(np.sum((p.T @ q) ** 2)) / k
    return float(np.clip((overlap - chance) / (1.0 - chance), 0.0, 1.0))


def _basis(scores: Array) -> Array:
    """An orthonormal basis of the centred scores, rounding left out."""
    centred = scores.astype(np.float64) - scores.mean(axis=0, dtype=np.float64)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    return u[:, s > len(scores) * np.finfo(scores.dtype).eps * max(float(s[0]), 1e-300)]
