"""Who takes part. An entrant is a name and a function that builds an unfitted estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.scale.case import NOTHING_HELD, Case, Options

if TYPE_CHECKING:
    import numpy as np

Builder = Callable[[Case, float, Options], Any]

EXACT = "mercer exact"
EXACT_UNHELD = "mercer exact, nothing held"
RPCHOLESKY = "mercer RPCholesky"
NYSTROM = "mercer Nystrom, uniform"
KMEANS = "mercer Nystrom, k-means++"
FOURIER = "mercer RandomFourier"
ARPACK = "sklearn arpack"
RANDOMIZED = "sklearn randomized"
DENSE = "sklearn dense"
NYSTROEM = "sklearn Nystroem + PCA"

# These hold the kernel matrix: their memory grows with n².
HOLDS_MATRIX = (ARPACK, RANDOMIZED, DENSE)


def mercer(case: Case, gamma: float, options: Options, approximation: Any = None) -> Any:
    from mercer import KernelPCA
    from mercer.kernels import RBF

    return KernelPCA(
        case.k,
        kernel=RBF(gamma),
        approximation=approximation,
        memory=options.memory,
        random_state=options.seed,
    )


def mercer_rpcholesky(case: Case, gamma: float, options: Options) -> Any:
    from mercer.approximations import RPCholesky

    return mercer(case, gamma, options, RPCholesky(rank=options.rank))


def mercer_nystrom(case: Case, gamma: float, options: Options, *, sampling: str) -> Any:
    from mercer.approximations import Nystrom

    return mercer(case, gamma, options, Nystrom(landmarks=options.rank, sampling=sampling))


def mercer_fourier(case: Case, gamma: float, options: Options) -> Any:
    from mercer.approximations import RandomFourier

    return mercer(case, gamma, options, RandomFourier(n_features=options.rank))


def sklearn_kernel_pca(case: Case, gamma: float, options: Options, *, eigen_solver: str) -> Any:
    from sklearn.decomposition import KernelPCA

    return KernelPCA(
        case.k, kernel="rbf", gamma=gamma, eigen_solver=eigen_solver, random_state=options.seed
    )


def sklearn_nystroem(case: Case, gamma: float, options: Options) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline

    nystroem = Nystroem(
        kernel="rbf", gamma=gamma, n_components=options.rank, random_state=options.seed
    )
    return make_pipeline(nystroem, PCA(case.k, random_state=options.seed))


ENTRANTS: dict[str, Builder] = {
    EXACT: mercer,
    EXACT_UNHELD: mercer,
    RPCHOLESKY: mercer_rpcholesky,
    NYSTROM: partial(mercer_nystrom, sampling="uniform"),
    KMEANS: partial(mercer_nystrom, sampling="k-means++"),
    FOURIER: mercer_fourier,
    ARPACK: partial(sklearn_kernel_pca, eigen_solver="arpack"),
    RANDOMIZED: partial(sklearn_kernel_pca, eigen_solver="randomized"),
    DENSE: partial(sklearn_kernel_pca, eigen_solver="dense"),
    NYSTROEM: sklearn_nystroem,
}


def settled(who: str, case: Case, gamma: float, options: Options, x: np.ndarray) -> Options:
    """The options with "nothing held" as a number of bytes, which depends on the data."""
    if options.memory != NOTHING_HELD:
        return options
    options = replace(options, memory="auto")
    while (
        True
    ):  # a plan may have room for more than the matrix it holds: for LAPACK, where n is small
        plan = ENTRANTS[who](case, gamma, options).plan(x)
        if plan.recipe.share == 0.0:
            return replace(options, memory=plan.n_bytes)
        store = getattr(plan.recipe, "store", None)
        matrix = case.n**2 * x.itemsize if store is None else store.n_bytes
        options = replace(options, memory=plan.n_bytes - matrix)
