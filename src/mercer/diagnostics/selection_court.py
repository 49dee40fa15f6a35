"""What all candidates are judged on, what is found of each, and fits to parts of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mercer.data.rows import take_rows
from mercer.engine.pairwise import squared_norms
from mercer.estimators.kernel_pca import KernelPCA

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags, Indices, Rows
    from mercer.kernels import Kernel

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


def standard_error(values: Array, weights: Array | None = None) -> float:
    """The standard error of the mean by weight; 0 where one value is all there is.

    Kish's effective number of rows, (Σw)²/Σw², takes the place of n: a row that counts a hundred times is
    one observation, and giving every row twice makes nothing more certain.
    """
    n, unit = len(values), float(np.max(np.abs(values), initial=0.0))
    if n < 2 or not 0.0 < unit < np.inf:
        return 0.0
    own = np.ones(n) if weights is None else weights / np.max(weights)
    share = own / own.sum()
    scaled = values / unit  # squares of squares overflow
    variance = float(np.sum(share * (scaled - np.sum(share * scaled)) ** 2))
    effective = 1.0 / float(np.sum(share**2))
    return unit * float(np.sqrt(variance / (effective - 1.0))) if effective > 1.0 else 0.0


def within_one_error(outcomes: list[Outcome]) -> Flags:
    """Whose mean loss is within one standard error of the first one's.

    The error is that of the difference, row by row: two candidates see the same rows and the same noise,
    and rows that are hard for one are hard for the other.
    """
    best = outcomes[0]
    gaps = [outcome.losses - best.losses for outcome in outcomes]
    return np.array([best.mean(g) <= standard_error(g, best.weights) for g in gaps])


def model_of(candidate: Candidate, court: Court, **more: Any) -> KernelPCA:
    """The candidate's model, before it is fitted."""
    return KernelPCA(candidate.k, kernel=candidate.kernel, random_state=court.seed, **more)


class Fits:
    """One candidate, fitted to parts of the rows.

    With a resolved kernel all parts have the same width, and the kernel matrix of all rows is computed once,
    where only differences of rows enter: every fit takes its part of it. Other kernels may need the rows:
    far from the origin their matrix has no digits left.
    """

    def __init__(self, candidate: Candidate, court: Court, resolved: Kernel | None = None) -> None:
        self._candidate, self._court = candidate, court
        self._kernel = candidate.kernel if resolved is None else resolved
        self._matrix: Array | None = None
        few = court.rows.shape[0] <= HELD_ROWS
        if resolved is not None and resolved.shift_invariant and few:
            self._matrix = resolved(court.rows.astype(np.float64))  # (n, n)

    def scores(self, train: Indices, test: Indices) -> tuple[KernelPCA, Array]:
        """The model of some rows, and the scores of others in it, as float64."""
        weights = self._court.weights_of(train)
        model = model_of(self._candidate, self._court)
        if self._matrix is None:
            model.set_params(kernel=self._kernel)
            known, new = (take_rows(self._court.rows, part) for part in (train, test))
        else:
            model.set_params(kernel="precomputed")
            known, new = (self._matrix[np.ix_(part, train)] for part in (train, test))
        model.fit(known, sample_weight=weights)
        return model, model.transform(new).astype(np.float64)


# ── stability ───────────────────────────────────────────────────────────────
def stability_rows(fits: Fits, candidate: Candidate, court: Court) -> Array:
    """How alike the components of two halves of the training rows are, seen by rows in neither.

    One number a row that was held out, whose mean is the affinity. None where there are too few to tell.
    """
    rng = np.random.default_rng(court.seed)
    found = []
    for train, test in court.folds:
        mixed = rng.permutation(train)
        half = len(mixed) // 2
        if candidate.k > half or candidate.k >= len(test) - 1:
            return np.empty(0)
        a, b = (fits.scores(part, test)[1] for part in (mixed[:half], mixed[half : 2 * half]))
        found.append(overlaps(a, b, court.weights_of(test)))
    return np.concatenate(found)


def overlaps(a: Array, b: Array, weights: Array | None = None) -> Array:  # -> (n,)
    """What each row adds to the affinity of two score spaces; the mean, by weight, is the affinity.

    That is the mean squared cosine of their principal angles, less what chance gives. 1: the same space.
    0: as two random spaces of k dimensions among n centred rows, whose mean squared cosine is k/(n - 1).

    With orthonormal bases P and Q of k columns ‖PᵀQ‖² = k - ‖P - QQᵀP‖² = k - ‖Q - PPᵀQ‖². What is missed
    is a sum over rows, and has a standard error; for one and the same space it is 0 in every row, which
    ‖PᵀQ‖² as a sum of leverages is not.
    """
    share = np.full(len(a), 1.0 / len(a)) if weights is None else weights / weights.sum()
    p, q = _basis(a, share), _basis(b, share)
    k = max(p.shape[1], q.shape[1])
    chance = k / (len(a) - 1)
    if k == 0 or chance >= 1.0:
        return np.full(len(a), np.nan if k else 0.0)
    missed = squared_norms(p - q @ (q.T @ p)) + squared_norms(q - p @ (p.T @ q))
    of_row = 0.5 * ((p.shape[1] + q.shape[1]) / k - missed / (share * k))
    return np.asarray((of_row - chance) / (1.0 - chance))


def _basis(scores: Array, share: Array) -> Array:
    """An orthonormal basis of the centred scores, each row scaled by the root of its share."""
    exact = scores.astype(np.float64)
    centred = np.sqrt(share)[:, None] * (exact - share @ exact)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    return u[:, s > len(scores) * np.finfo(scores.dtype).eps * max(float(s[0]), 1e-300)]
