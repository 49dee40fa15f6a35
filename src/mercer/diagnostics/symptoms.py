"""What a few rows show: symptoms of a kernel (each point alone, all alike), and widths that may suit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._core.errors import InputError, KernelError, many, refuse
from mercer._core.params import Whole, require
from mercer._core.public import public
from mercer._core.table import Table
from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import take_rows
from mercer.engine.pairwise import scaled_distances
from mercer.estimators.input import as_generator, check_kernel_rows, check_weights, training_rows
from mercer.kernels import RBF, Kernel, as_kernel
from mercer.kernels.algebra import placed
from mercer.kernels.rows import column_names

# Half of the points are less alike than this to their own nearest neighbour: nothing is shared.
ALONE = 0.05
# Centring leaves less than this of the squared lengths: the values differ by a hundredth or two, and the
# kernel is its own first-order expansion there, which is linear.
ALIKE = 0.02
# The spectrum has this share of the largest effective rank it could have.
FLAT = 0.9
# Eigenvalues below this share of the first are rounding.
ROUNDING = 1e-10

WIDTH_ROWS = 500
# The seventh neighbour, as Zelnik-Manor & Perona (2004) have it for local scaling.
NEIGHBOUR = 7
# Eigenvalues whose sum is made large, and widths around the median that are searched for that.
LEADING = 5
SEARCHED = 2.0 ** np.arange(-5.0, 5.5, 0.5)


@dataclass(frozen=True)
class Symptom:
    """One thing that is wrong with a kernel on some data.

    Attributes
    ----------
    name : str
        ``"nearly the identity"``, ``"nearly constant"`` or ``"all eigenvalues alike"``.
    value : float
        The number that shows it.
    text : str
        The number in a sentence, and what to do. `str` gives it.
    """

    name: str
    value: float
    text: str

    def __str__(self) -> str:
        return self.text


@public
def symptoms(
    kernel: Any, X: Any, *, max_rows: int = 500, random_state: Any = None
) -> list[Symptom]:
    """What makes components of this kernel useless on these data, each with its number and its remedy.

    Nothing is fitted: the kernel matrix of at most `max_rows` rows is looked at.

    Parameters
    ----------
    kernel : str, Kernel or callable
    X : array-like or sparse matrix of shape (n, d), or a source of rows
    max_rows : int, default=500
        Look at a seeded sample where there are more.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    found : list of Symptom
        Empty when nothing is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.diagnostics import symptoms
    >>> from mercer.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> symptoms(RBF(), X)
    []
    >>> print(symptoms(RBF(1e-9), X)[0])
    The kernel is nearly constant: centring leaves 6e-09 of the squared lengths. All points are alike, and the
    components are those of linear PCA. Raise `gamma`.
    """
    rng = as_generator(random_state)
    rows, _, _ = sample_rows(X, max_rows, rng=rng)
    kernel = placed(as_kernel(kernel), column_names(X))
    if kernel.is_precomputed:
        msg = "Symptoms are looked for on rows; got kernel='precomputed'. Pass the kernel itself."
        raise InputError(msg)
    check_kernel_rows(kernel, rows)
    return symptoms_on(kernel.resolve(rows, rng=rng), rows)


def sample_rows(
    X: Any, max_rows: Any, *, rng: np.random.Generator, sample_weight: Any = None
) -> tuple[Rows, Indices, int]:
    """At most so many rows in memory, checked, their positions in order, and how many there are; seeded."""
    require("max_rows", max_rows, Whole(2))
    require_rows(X, 2, "at least 2 rows, since one alone has no variance")
    data = training_rows(None, X, None, copy=False)
    weights = check_weights(sample_weight, data.n)
    # A row of weight zero is a row that is not there; all others are drawn alike.
    some = np.arange(data.n) if weights is None else np.flatnonzero(weights)
    if len(some) > max_rows:
        some = np.sort(rng.choice(some, int(max_rows), replace=False))
    elif data.in_memory and len(some) == data.n:
        return data.rows, some, data.n
    return take_rows(data.rows, some), some, data.n


def require_rows(X: Any, least: int, wanted: str) -> None:
    """Raise where a table in memory has fewer rows than that; those of a file are counted when it is read."""
    shape = (len(X), 1) if isinstance(X, (list, tuple)) else getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2:
        return
    # Dask does not know its number of rows before they are computed.
    if isinstance(shape[0], (int, np.integer)) and shape[0] < least:
        remedy = "Pass more rows; a selection or a filter before may have left too few."
        refuse("X", shape, wanted, many(int(shape[0]), "row"), remedy)


def symptoms_on(kernel: Kernel, rows: Rows) -> list[Symptom]:
    """The symptoms of a resolved kernel on checked rows, few enough for their kernel matrix."""
    K = kernel_matrix(kernel, rows)
    found = [_alone(K, kernel), _alike(K, kernel), _flat(K, kernel)]
    return [symptom for symptom in found if symptom is not None]


def kernel_matrix(kernel: Kernel, rows: Rows) -> Array:  # (n, d) -> (n, n)
    """k(X, X) of a resolved kernel on checked rows in float64; raise where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K: Array = kernel(rows).astype(np.float64, copy=False)
    if not np.all(np.isfinite(K)):
        msg = f"{kernel!r} is not finite on these rows. Scale the columns (StandardScaler)."
        raise KernelError(msg)
    return K


def centred_spectrum(K: Array) -> Array:  # (n, n) -> (n,)
    """Eigenvalues of HKH, descending."""
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values: Array = np.linalg.eigvalsh(0.5 * (centred + centred.T))[::-1]
    return values


def _alone(K: Array, kernel: Kernel) -> Symptom | None:
    """Each point is alike to itself only: not to its neighbours, as it is in clusters far from each other."""
    lengths = np.sqrt(np.maximum(np.diag(K), 0.0))
    scale = np.outer(lengths, lengths)
    alike = np.divide(np.abs(K), scale, out=np.zeros_like(K), where=scale > 0)
    np.fill_diagonal(alike, 0.0)
    somewhere = lengths > 0  # a point of length zero has no direction to share
    if not np.any(somewhere):
        return None
    nearest = float(np.median(alike.max(axis=1)[somewhere]))
    if nearest >= ALONE:
        return None
    text = (
        f"The kernel is nearly the identity: half of the points have a similarity of at most {nearest:.1g} "
        f"to their nearest neighbour (1 is their own). Every point is alone. {_remedy(kernel, wider=True)}"
    )
    return Symptom("nearly the identity", nearest, text)


def _alike(K: Array, kernel: Kernel) -> Symptom | None:
    """All values are alike. A linear kernel is linear anyway, wherever the origin may be."""
    total = float(np.trace(K))
    if kernel.is_linear or total <= 0:
        return None
    left = max(total - float(K.sum()) / len(K), 0.0) / total
    if left >= ALIKE:
        return None
    text = (
        f"The kernel is nearly constant: centring leaves {left:.1g} of the squared lengths. All points are "
        f"alike, and the components are those of linear PCA. {_remedy(kernel, wider=False)}"
    )
    return Symptom("nearly constant", left, text)


def _flat(K: Array, kernel: Kernel) -> Symptom | None:
    """The effective rank (Σλ)²/Σλ² is nearly the rank: no direction stands out."""
    values = centred_spectrum(K)
    values = values[values > ROUNDING * max(float(values[0]), 0.0)]
    rank = len(values)
    if rank < 3:
        return None
    values = values / values[0]  # whose squares neither vanish nor overflow
    share = float(values.sum() ** 2 / (values**2).sum()) / rank
    if share <= FLAT:
        return None
    remedy = "Scale the columns by what they mean, or keep all components."
    if rank > len(K) // 2:  # as many directions as points: it is narrow
        remedy = _remedy(kernel, wider=True)
    text = (
        f"All eigenvalues are alike: the effective rank is {share:.0%} of the rank, {rank}, so ranking "
        f"components by variance says nothing. {remedy}"
    )
    return Symptom("all eigenvalues alike", share, text)


def _remedy(kernel: Kernel, *, wider: bool) -> str:
    if hasattr(kernel, "length_scale"):
        return f"{'Raise' if wider else 'Lower'} `length_scale`."
    if kernel.shift_invariant and hasattr(kernel, "gamma"):
        return f"{'Lower' if wider else 'Raise'} `gamma`."
    if wider:
        return "Use a wider kernel, or scale the columns."
    return "Centre the columns (StandardScaler), or use a narrower kernel."


# ── widths ──────────────────────────────────────────────────────────────────
@public
def widths(X: Any, *, random_state: Any = None) -> Table:
    """Widths of a Gaussian kernel that rules of thumb give for these rows.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or a source of rows
        At most 500 of them, drawn with a seed, are looked at.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    table : Table
        Columns ``rule``, ``sigma`` and ``gamma`` = 1/(2σ²). The rules: ``median``, of the distances between
        rows; ``neighbours``, the median distance to the seventh nearest row (local scaling); ``variance``,
        γ = 1/(d·var); ``eigenvalues``, where the first five have the largest sum (CMSE).

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.diagnostics import widths
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> print(widths(X))
    rule          sigma   gamma
    median        1.148  0.3793
    neighbours   0.1383   26.13
    variance     0.7188  0.9677
    eigenvalues  0.5741   1.517
    """
    rng = as_generator(random_state)
    rows, _, _ = sample_rows(X, WIDTH_ROWS, rng=rng)
    rows = rows.astype(np.float64)
    median = median_gamma(rows, rng=rng)
    gammas = {
        "median": median,
        "neighbours": _neighbour_gamma(rows, median),
        "variance": float(RBF("scale").resolve(rows, rng=rng).gamma),  # type: ignore[arg-type]
        "eigenvalues": _eigenvalue_gamma(rows, median),
    }
    sigmas = [math.sqrt(0.5 / gamma) for gamma in gammas.values()]
    return Table({"rule": list(gammas), "sigma": sigmas, "gamma": list(gammas.values())})


def median_gamma(rows: Rows, *, rng: np.random.Generator, weights: Array | None = None) -> float:
    """The γ of the median rule, where rows count by weight."""
    return float(RBF("median").resolve(rows, rng=rng, weights=weights).gamma)  # type: ignore[arg-type]


def _neighbour_gamma(rows: Rows, median: float) -> float:
    """1/(2σ²) with σ the median distance to the seventh neighbour; rows that repeat do not count as one."""
    distances = scaled_distances(rows, rows)
    np.fill_diagonal(distances, np.inf)
    distances[distances == 0.0] = np.inf
    place = min(NEIGHBOUR, len(distances) - 1) - 1
    nearest = np.partition(distances, place, axis=1)[:, place]
    nearest = nearest[np.isfinite(nearest)]
    return float(0.5 / np.median(nearest) ** 2) if len(nearest) else median


def _eigenvalue_gamma(rows: Rows, median: float) -> float:
    """The γ with the largest sum of leading eigenvalues (CMSE: criterion of maximum sum of eigenvalues)."""
    # A wide kernel loses its eigenvalues to the mean, a narrow one spreads them over all directions.
    gammas = median / SEARCHED**2
    distances = scaled_distances(rows, rows)  # once for all widths
    kernels = (np.exp(-((math.sqrt(gamma) * distances) ** 2)) for gamma in gammas)
    sums = [float(centred_spectrum(K)[:LEADING].sum()) for K in kernels]
    return float(gammas[int(np.argmax(sums))])
