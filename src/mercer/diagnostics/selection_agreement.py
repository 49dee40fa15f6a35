"""Two witnesses that lean opposite ways; a candidate has to win both to replace the median width.

No number that is read off unlabelled rows tracks what the next step makes of the scores: most of those that
were measured (docs/selecting-measured.md) pick one width whatever the data. What two of opposite bias agree
on is evidence. *Neighbours*: do rows that are close share their scores? Narrow kernels make them. *Halves*:
do two halves of the rows span the same scores? Wide kernels, nearly linear, always do. Where they do not
agree the rule of thumb is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from mercer._core.errors import InputError
from mercer._core.types import Array, Flags, Indices, Rows
from mercer._core.wording import Message
from mercer.data.rows import take_rows
from mercer.engine.pairwise import squared_norms
from mercer.estimators.kernel_pca import KernelPCA
from mercer.kernels import RBF

if TYPE_CHECKING:
    from mercer.diagnostics.selection_trial import Fits, Folds, Outcome

# Held-out rows next to a held-out row, in input space.
NEIGHBOURS = 5
# Standard errors by which a candidate has to win, with each witness. They are taken over rows, and leave out
# what all rows of a fold have in common, its fit: at two, moves did as much harm as good on fresh splits.
CERTAIN = 4.0
# A Gaussian kernel within this factor of the median rule's gamma can stand for it.
NEAR = 4.0


# ── how sure a mean is ──────────────────────────────────────────────────────
def standard_error(values: Array, weights: Array | None = None) -> float:
    """The standard error of the mean by weight; 0 of a single value."""
    # Kish's effective number of rows, (Σw)²/Σw², takes the place of n: a row that counts a hundred times is
    # one observation, and giving every row twice makes nothing more certain.
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
    """Whose mean loss is within one standard error of the first one's: that of the difference, row by row."""
    # Two candidates see the same rows and the same noise, and rows that are hard for one are for the other.
    best = outcomes[0]
    gaps = [outcome.losses - best.losses for outcome in outcomes]
    return np.array([best.mean(g) <= standard_error(g, best.weights) for g in gaps])


# ── what neighbours share ───────────────────────────────────────────────────
def neighbours_of(rows: Rows, folds: Folds) -> list[Indices]:
    """For each fold the nearest held-out rows of each held-out row, (b, 5), counted within the fold."""
    if min(len(test) for _, test in folds) < 2:
        msg = Message(
            "{criterion:'agreement'} compares held-out rows with each other, and a fold holds out 1 row. Use "
            "fewer folds, or {criterion:'denoising'}."
        )
        raise InputError(msg)
    # Far from the origin a squared distance that is expanded has no digits left, nor in a tiny unit.
    near = rows if sparse.issparse(rows) else rows - rows.mean(axis=0, dtype=np.float64)
    near = near / (float(abs(near).max()) or 1.0)
    found = []
    for _, test in folds:
        part = take_rows(near, test)
        # A tree is searched by joblib, which sets warning filters of the process for a moment: two selections
        # in threads could leave them changed.
        search = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(test) - 1), algorithm="brute")
        found.append(search.fit(part).kneighbors(return_distance=False))
    return found


def shared_by_neighbours(fits: Fits) -> tuple[list[KernelPCA], list[Array]]:
    """Less what held-out rows share with their neighbours, in components: one number a row."""
    # Scores of unit variance on the training rows, z: Σⱼ E[zⱼ(x) zⱼ(x')] over neighbours x'. A component that
    # varies smoothly counts 1; one that is noise, or of a kernel so narrow that new rows have no scores, 0.
    court = fits.court
    assert court.neighbours is not None
    models, losses = [], []
    for (train, test), near in zip(court.folds, court.neighbours, strict=True):
        model, scores = fits.scores(train, test)  # (b, k)
        weights = court.weights_of(train)
        total = len(train) if weights is None else weights.sum()
        z = scores / np.sqrt(model.eigenvalues_.astype(np.float64) / total)
        models.append(model)
        losses.append(-np.einsum("ij,ij->i", z, z[near].mean(axis=1)))
    return models, losses


# ── what halves have in common ──────────────────────────────────────────────
def stability_rows(fits: Fits) -> Array:
    """How alike the components of two halves of the training rows are, as seen by rows in neither."""
    # One number a held-out row, whose mean is the affinity; none where there are too few rows to tell.
    k, court, found = fits.candidate.k, fits.court, []
    rng = np.random.default_rng(court.seed)
    for train, test in court.folds:
        mixed = rng.permutation(train)
        half = len(mixed) // 2
        if k > half or k >= len(test) - 1:
            return np.empty(0)
        a, b = (fits.scores(part, test)[1] for part in (mixed[:half], mixed[half : 2 * half]))
        found.append(overlaps(a, b, court.weights_of(test)))
    return np.concatenate(found)


def overlaps(a: Array, b: Array, weights: Array | None = None) -> Array:  # -> (n,)
    """What each row adds to the affinity of two score spaces; the mean, by weight, is the affinity.

    That is the mean squared cosine of their principal angles, less what chance gives. 1: the same space.
    0: as two random spaces of k dimensions among n centred rows, whose mean squared cosine is k/(n - 1).
    """
    # With orthonormal bases P and Q of k columns ‖PᵀQ‖² = k - ‖P - QQᵀP‖² = k - ‖Q - PPᵀQ‖². What is missed
    # is a sum over rows, each 0 for the same space, and has a standard error.
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


# ── who beats the reference ─────────────────────────────────────────────────
@dataclass(frozen=True)
class Contest:
    """A candidate against the reference: differences over their standard errors."""

    neighbours: float
    halves: float
    k: int  # components of the reference
    is_reference: bool = False

    @property
    def wins(self) -> bool:
        """Beyond doubt, with both witnesses."""
        return min(self.neighbours, self.halves) > CERTAIN

    @property
    def verdict(self) -> str:
        """The reference, better, worse, split (one for, one against) or can't tell."""
        if self.is_reference:
            return "reference"
        low, high = sorted((self.neighbours, self.halves))
        if low > CERTAIN:
            return "better"
        if low < -CERTAIN:
            return "split" if high > CERTAIN else "worse"
        return "can't tell"


def contests(outcomes: list[Outcome], median: float) -> list[Contest]:
    """Each of the candidates that could be fitted against the reference with as many components."""
    place = reference(outcomes, median).candidate.place
    ours = {o.candidate.k: o for o in outcomes if o.candidate.place == place}
    found = []
    for outcome in outcomes:
        # A kernel of few dimensions has fewer than were asked for: those that it lacks share nothing.
        k = min((k for k in ours if k >= outcome.candidate.k), default=max(ours))
        other, own = ours[k], outcome.steady
        gains = own - other.steady if len(own) == len(other.steady) else np.empty(0)
        neighbours = _certainty(other.losses - outcome.losses, outcome.weights)
        halves, is_reference = _certainty(gains, outcome.weights), outcome.candidate.place == place
        found.append(Contest(neighbours, halves, other.candidate.k, is_reference))
    return found


def reference(outcomes: list[Outcome], median: float) -> Outcome:
    """The Gaussian kernel at the median width, or the nearest; where there is none, the one listed first."""

    def key(outcome: Outcome) -> tuple[bool, float, int]:
        kernel, apart = outcome.resolved, np.inf
        if isinstance(kernel, RBF):
            apart = abs(float(np.log(float(kernel.gamma) / median)))  # type: ignore[arg-type]
        far = apart > np.log(NEAR)
        return bool(outcome.symptoms), np.inf if far else apart, outcome.candidate.place

    return min(outcomes, key=key)


def _certainty(gains: Array, weights: Array | None) -> float:
    """A mean over its standard error; 0 where neither is known."""
    if len(gains) == 0 or np.any(np.isnan(gains)):
        return 0.0
    mean, error = float(np.average(gains, weights=weights)), standard_error(gains, weights)
    if error == 0.0:
        return float(np.sign(mean)) * np.inf if mean != 0.0 and len(gains) > 1 else 0.0
    return mean / error


def agreed_first(outcomes: list[Outcome], found: list[Contest]) -> list[int]:
    """Positions, best first: of each number of components the one that wins, or else the reference."""
    best: dict[int, int] = {}
    for i, (outcome, contest) in enumerate(zip(outcomes, found, strict=True)):
        if contest.is_reference or (contest.wins and not outcome.symptoms):
            k = outcome.candidate.k
            if k not in best or _rank(contest) > _rank(found[best[k]]):
                best[k] = i
    # Of several numbers of components the fewest that share as much as any, within one standard error.
    among = list(best.values())
    most = min(among, key=lambda i: outcomes[i].loss)
    as_good = within_one_error([outcomes[most], *(outcomes[i] for i in among)])[1:]
    fine = [i for i, is_fine in zip(among, as_good, strict=True) if is_fine]
    first = min(fine, key=lambda i: outcomes[i].candidate.k)
    chosen = outcomes[first].candidate.k
    rest = [i for i in range(len(outcomes)) if i != first]
    rest.sort(key=lambda i: (outcomes[i].candidate.k != chosen, *(-x for x in _rank(found[i]))))
    return [first, *rest]


def _rank(contest: Contest) -> tuple[bool, bool, float]:
    """Winners, the reference, and the others by the witness that is less for them."""
    return contest.wins, contest.is_reference, min(contest.neighbours, contest.halves)
