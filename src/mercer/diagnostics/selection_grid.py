"""Where a search for a kernel starts: widths that can be read off the data, and kernels around them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._core.errors import InputError, kind_of
from mercer._core.params import is_number
from mercer._core.public import public
from mercer._core.table import Table
from mercer._core.types import Array, Rows
from mercer.diagnostics.symptoms import centred_spectrum, sample_rows
from mercer.engine.pairwise import scaled_distances, squared_norms
from mercer.estimators.input import as_generator
from mercer.kernels import RBF, Kernel, Laplacian, Linear, Matern, Polynomial, as_kernel
from mercer.kernels.algebra import placed

WIDTH_ROWS = 500
# The seventh neighbour, as Zelnik-Manor & Perona (2004) have it for local scaling.
NEIGHBOUR = 7
# Eigenvalues whose sum is made large.
LEADING = 5
# Around the median width for the sum of eigenvalues, and for the default candidates.
SEARCHED = 2.0 ** np.arange(-5.0, 5.5, 0.5)
TRIED = 4.0 ** np.arange(-1.0, 3.0)  # of gamma
# Two widths this near are one candidate.
SAME = 1.2


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
        rows; ``neighbours``, the median distance to the seventh nearest row (local scaling);
        ``variance``, γ = 1/(d·var); ``eigenvalues``, the σ for which the first five eigenvalues have the
        largest sum (CMSE).

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
    """The γ with the largest sum of leading eigenvalues: CMSE (criterion of the maximum sum of eigenvalues).

    A wide kernel loses its eigenvalues to the mean, a narrow one spreads them over all directions.
    """
    gammas = median / SEARCHED**2
    distances = scaled_distances(rows, rows)  # once for all widths
    kernels = (np.exp(-((math.sqrt(gamma) * distances) ** 2)) for gamma in gammas)
    sums = [float(centred_spectrum(K)[:LEADING].sum()) for K in kernels]
    return float(gammas[int(np.argmax(sums))])


def default_kernels(
    rows: Rows, *, rng: np.random.Generator, weights: Array | None = None
) -> list[Kernel]:
    """Linear, polynomial, Gaussian at several widths, and two that are rougher: simple ones first."""
    table = widths(rows, random_state=rng)
    median = float(table["gamma"][0])
    if weights is not None:
        median = median_gamma(rows, rng=rng, weights=weights)
    # x·x' is about one, so that neither the constant nor the highest power has it all.
    lengths = squared_norms(rows.astype(np.float64))
    length = float(np.average(lengths, weights=weights)) or 1.0
    kernels: list[Kernel] = [Linear(), *(Polynomial(p, gamma=1.0 / length) for p in (2, 3))]
    kernels += [RBF(gamma) for gamma in _apart([median, *table["gamma"][1:], *(median * TRIED)])]
    rough: tuple[Kernel, ...] = (Matern(nu=1.5), Laplacian())
    return kernels + [kernel.resolve(rows, rng=rng, weights=weights) for kernel in rough]


def _apart(gammas: list[float]) -> list[float]:
    """In order, with those left out that an earlier one stands for."""
    kept: list[float] = []
    for gamma in map(float, gammas):
        if all(max(gamma / other, other / gamma) > SAME for other in kept):
            kept.append(gamma)
    return sorted(kept)


def as_kernels(
    kernels: Any,
    rows: Rows,
    *,
    rng: np.random.Generator,
    weights: Array | None = None,
    names: list[str] | None = None,
) -> list[Kernel]:
    """The caller's kernels as objects, or the default ones; `names` are those of the columns."""
    if kernels is None:
        return default_kernels(rows, rng=rng, weights=weights)
    if isinstance(kernels, (str, Kernel)) or callable(kernels):
        kernels = [kernels]
    if np.iterable(kernels) and not isinstance(kernels, str) and any(map(is_number, kernels)):
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
