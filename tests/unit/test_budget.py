"""Memory laws: what a fit takes at its peak is at most what was planned, and that at most the budget."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from mercer import PCA, KernelPCA
from mercer._core.errors import MemoryBudgetError
from mercer._core.memory import parse_bytes
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF, Laplacian, Polynomial
from mercer.solvers import BlockKrylov

RBF_50 = RBF(0.01)
# n, d, dtype, memory, and what is fitted.
GRID = {
    "lapack": (400, 20, "f8", "60MB", {"kernel": RBF_50, "n_components": 5}),
    "lapack, all": (900, 20, "f8", "90MB", {"kernel": RBF_50, "n_components": None}),
    "stored": (2500, 50, "f8", "140MB", {"kernel": RBF_50, "n_components": 10}),
    "stored, float32": (2500, 50, "f4", "120MB", {"kernel": RBF_50, "n_components": 10}),
    "all tiles held": (5000, 50, "f8", "200MB", {"kernel": RBF_50, "n_components": 20}),
    "some tiles held": (5000, 50, "f8", "90MB", {"kernel": RBF_50, "n_components": 20}),
    "tiles in sixteen bits": (5000, 50, "f8", "85MB", {"kernel": RBF_50, "n_components": 20}),
    "sixteen bits, wide": (4500, 300, "f8", "90MB", {"kernel": RBF(1e-3), "n_components": 5}),
    "wide rows, little room": (3500, 1500, "f8", "120MB", {"kernel": RBF(1e-5), "n_components": 5}),
    "no tile held": (6000, 20, "f4", "62MB", {"kernel": RBF_50, "n_components": 20}),
    "short basis": (6000, 20, "f4", "46MB", {"kernel": RBF_50, "n_components": 20}),
    "many features": (3500, 500, "f8", "120MB", {"kernel": RBF(1e-5), "n_components": 5}),
    "many components": (4000, 10, "f8", "170MB", {"kernel": RBF(0.3), "n_components": 120}),
    "a share": (4000, 10, "f8", "200MB", {"kernel": RBF(0.02), "n_components": 0.8}),
    "a share, stored": (
        2000,
        10,
        "f8",
        "400MB",
        {"kernel": RBF(0.3), "n_components": 0.9, "solver": BlockKrylov()},
    ),
    "a twelfth of the components": (
        4000,
        10,
        "f8",
        "340MB",
        {"kernel": RBF(0.3), "n_components": 333},
    ),
    "tight": (
        4000,
        20,
        "f8",
        "130MB",
        {"kernel": RBF_50, "n_components": 10, "solver": BlockKrylov(tol=1e-10)},
    ),
    "another kernel": (3500, 8, "f8", "90MB", {"kernel": Laplacian(0.1), "n_components": 5}),
    "dot products": (4000, 60, "f4", "120MB", {"kernel": Polynomial(3), "n_components": 5}),
    "explicit map": (20_000, 8, "f8", "90MB", {"kernel": Polynomial(2), "n_components": 5}),
    "rpcholesky": (
        60_000,
        10,
        "f4",
        "60MB",
        {"kernel": RBF_50, "n_components": 5, "approximation": RPCholesky(rank=100)},
    ),
    "nystrom": (
        60_000,
        10,
        "f8",
        "80MB",
        {"kernel": RBF_50, "n_components": 5, "approximation": Nystrom(100)},
    ),
    "fourier": (
        60_000,
        10,
        "f4",
        "80MB",
        {"kernel": RBF_50, "n_components": 5, "approximation": RandomFourier(200)},
    ),
    "refined": (
        5000,
        10,
        "f8",
        "90MB",
        {"kernel": RBF_50, "n_components": 5, "approximation": RPCholesky(rank=60, refine=1)},
    ),
}


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", sorted(GRID))
@pytest.mark.parametrize("weighted", [False, True])
def test_peak_is_within_the_plan_and_the_plan_within_the_budget(case, weighted):
    n, d, dtype, memory, knobs = GRID[case]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d)).astype(dtype)
    weights = rng.integers(1, 4, n) if weighted else None
    KernelPCA(2, kernel=RBF(0.1)).fit(x[:50, :3])  # what is imported late is nobody's budget
    model = KernelPCA(memory=memory, **knobs)
    peak = peak_of(lambda: model.fit(x, sample_weight=weights))
    assert peak <= model.plan_.n_bytes <= parse_bytes(memory)


@pytest.mark.parametrize("k", [8, 0.5, 0.99])
@pytest.mark.parametrize("even", [True, False])
def test_a_kernel_matrix_stays_within_the_plan(even, k):
    """One that is symmetric within rounding only is copied, to be made even."""
    x = np.random.default_rng(3).standard_normal((1500, 6))
    matrix = RBF(0.05)(x)
    matrix = 0.5 * (matrix + matrix.T) if even else matrix * (1 + 1e-15 * np.tri(len(matrix)))
    KernelPCA(2, kernel="precomputed").fit(matrix[:50, :50])
    model = KernelPCA(k, kernel="precomputed", solver=BlockKrylov(), memory="250MB")
    peak = peak_of(lambda: model.fit(matrix))
    assert (peak > matrix.nbytes) or even
    assert peak <= model.plan_.n_bytes <= 250e6


@pytest.mark.parametrize(("n", "d"), [(5000, 100), (200, 4000)])
@pytest.mark.parametrize("k", [5, None])
def test_pca_stays_within_its_plan(n, d, k):
    x = np.random.default_rng(3).standard_normal((n, d))
    model = PCA(k, memory="200MB")
    peak = peak_of(lambda: model.fit(x))
    assert peak <= model.plan_.n_bytes <= 200e6


def test_sparse_rows_stay_within_the_plan():
    x = sparse.random(5000, 2000, density=0.01, format="csr", random_state=0)
    model = KernelPCA(5, kernel="cosine", memory="220MB")
    peak = peak_of(lambda: model.fit(x))
    assert peak <= model.plan_.n_bytes <= 220e6


@pytest.mark.parametrize("memory", ["120MB", "150MB"])
def test_wide_rows_of_a_file_stay_within_the_plan_on_one_thread(memory, tmp_path):
    """The slices that are ready are as many on one thread as on eight."""
    x = np.random.default_rng(3).standard_normal((3300, 1500))
    np.save(tmp_path / "rows.npy", x)
    del x
    model = KernelPCA(3, kernel=RBF(3e-4), memory=memory)
    with threadpool_limits(1):
        peak = peak_of(lambda: model.fit(tmp_path / "rows.npy"))
    assert peak <= model.plan_.n_bytes <= parse_bytes(memory)


def test_a_budget_that_holds_no_tile_is_refused_with_ways_out():
    x = np.random.default_rng(0).standard_normal((4000, 5))
    with pytest.raises(MemoryBudgetError, match=r"`memory` allows 1 MB\. Raise `memory` to"):
        KernelPCA(3, memory="1MB").fit(x)


def test_nothing_is_allocated_before_the_budget_is_checked():
    x = np.random.default_rng(0).standard_normal((20_000, 5))

    def refused():
        with pytest.raises(MemoryBudgetError):
            KernelPCA(None, kernel=RBF(0.1), memory="100MB").fit(x)

    assert peak_of(refused) < 8 * x.nbytes
