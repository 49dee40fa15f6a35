"""Who takes part. A competitor is a name and a function that builds an unfitted estimator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.case import Case

Builder = Callable[[Case, float], Any]

MERCER = "mercer"
TIGHT = "mercer tol=1e-10"  # near what ARPACK and LAPACK give
DEFAULT = {False: "sklearn auto", True: "sklearn PCA"}  # by case.is_pca

# From this n on a dense solve takes minutes, so a route is not measured twice under two names.
SHARE_FROM_N = 10_000


def mercer_kernel_pca(case: Case, gamma: float) -> Any:
    from mercer import KernelPCA
    from mercer.kernels import RBF, Polynomial

    kernel = RBF(gamma=gamma) if case.kernel == "rbf" else Polynomial(2, gamma=gamma, coef0=1)
    return KernelPCA(n_components=case.k, kernel=kernel, random_state=0)


def mercer_tight(case: Case, gamma: float) -> Any:
    from mercer.solvers import BlockKrylov

    return mercer_kernel_pca(case, gamma).set_params(solver=BlockKrylov(tol=1e-10))


def sklearn_kernel_pca(case: Case, gamma: float, *, eigen_solver: str) -> Any:
    from sklearn.decomposition import KernelPCA

    return KernelPCA(
        n_components=case.k,
        kernel=case.kernel,
        gamma=gamma,
        degree=2,
        coef0=1,
        eigen_solver=eigen_solver,
        random_state=0,
    )


def mercer_pca(case: Case, _gamma: float) -> Any:
    from mercer import PCA

    return PCA(n_components=case.k)


def sklearn_pca(case: Case, _gamma: float) -> Any:
    from sklearn.decomposition import PCA

    return PCA(n_components=case.k)


KERNEL_PCA: dict[str, Builder] = {
    MERCER: mercer_kernel_pca,
    TIGHT: mercer_tight,
    **{
        f"sklearn {solver}": partial(sklearn_kernel_pca, eigen_solver=solver)
        for solver in ("auto", "dense", "arpack", "randomized")
    },
}
LINEAR_PCA: dict[str, Builder] = {MERCER: mercer_pca, "sklearn PCA": sklearn_pca}


def competitors(case: Case) -> dict[str, Builder]:
    return LINEAR_PCA if case.is_pca else KERNEL_PCA


def same_route(case: Case, who: str) -> str | None:
    """The competitor whose slow run stands for this one too, if there is one.

    scikit-learn's "auto" is ARPACK for fewer than ten components of more than 200 points, else
    dense: the very same call, so for large n its line repeats the other one, and says so.
    """
    if who != "sklearn auto" or case.is_pca or case.n < SHARE_FROM_N:
        return None
    return "sklearn arpack" if case.k is not None and case.k < 10 else "sklearn dense"
