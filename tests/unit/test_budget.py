"""Memory laws: what a fit takes at its peak is at most what was planned, and that at most the budget."""

import re
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from mercer import PCA, KernelPCA
from mercer._core import memory
from mercer._core.errors import MemoryBudgetError
from mercer._core.memory import parse_bytes
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF, Laplacian, Polynomial
from mercer.preimage import Distances, Exact, FixedPoint, Gradient, Ridge
from mercer.solvers import BlockKrylov

RBF_50 = RBF(0.01)
# n, d, dtype, memory, and what is fitted.
GRID = {
    "lanczos": (400, 20, "f8", "60MB", {"kernel": RBF_50, "n_components": 5}),
    "lanczos, float32": (1000, 20, "f4", "90MB", {"kernel": RBF_50, "n_components": 20}),
    "lapack": (400, 20, "f8", "60MB", {"kernel": RBF_50, "n_components": 45}),
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
    n, d, dtype, budget, knobs = GRID[case]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d)).astype(dtype)
    weights = rng.integers(1, 4, n) if weighted else None
    KernelPCA(2, kernel=RBF(0.1)).fit(x[:50, :3])  # what is imported late is nobody's budget
    model = KernelPCA(memory=budget, **knobs)
    peak = peak_of(lambda: model.fit(x, sample_weight=weights))
    assert peak <= model.plan_.n_bytes <= parse_bytes(budget)


# n, d, k, dtype, kernel, method, and how the fit is solved.
PREIMAGES = {
    "ridge, few rows": (150, 5, 10, "f8", RBF_50, Ridge(), {}),
    "ridge": (1500, 20, 10, "f8", RBF_50, Ridge(), {}),
    "ridge, many columns": (600, 800, 10, "f4", RBF(1e-3), Ridge(), {}),
    "ridge, many components": (700, 10, None, "f8", RBF(0.3), Ridge(), {}),
    "ridge, a share": (700, 10, 0.9, "f8", RBF(0.3), Ridge(), {}),
    "ridge, a sample": (4000, 10, 5, "f8", RBF_50, Ridge(max_rows=800), {}),
    "ridge, linear": (1500, 20, 15, "f8", Polynomial(1), Ridge(gamma=0), {}),
    "ridge, low rank": (
        20_000,
        10,
        5,
        "f4",
        RBF_50,
        Ridge(max_rows=900),
        {"approximation": RPCholesky(100)},
    ),
    "fixed-point": (1500, 20, 10, "f8", RBF_50, FixedPoint(max_iter=5), {}),
    "distances": (1500, 20, 10, "f8", RBF_50, Distances(), {}),
    "distances, many columns": (400, 900, 10, "f8", RBF(1e-3), Distances(), {}),
    "gradient": (1500, 20, 10, "f8", Polynomial(3), Gradient(max_iter=5), {}),
    "gradient, features": (
        9000,
        8,
        5,
        "f8",
        RBF_50,
        Gradient(max_iter=3),
        {"approximation": RandomFourier(200)},
    ),
    "exact": (1500, 60, 10, "f8", Polynomial(3), Exact(), {}),
    "exact, many columns": (300, 2000, 10, "f8", "linear", Exact(), {}),
}


@pytest.mark.filterwarnings("ignore::mercer.errors.PreimageWarning")
@pytest.mark.parametrize("case", sorted(PREIMAGES))
@pytest.mark.parametrize("weighted", [False, True])
def test_peak_with_a_pre_image_is_within_the_plan(case, weighted):
    n, d, k, dtype, kernel, method, knobs = PREIMAGES[case]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d)).astype(dtype)
    weights = rng.integers(0, 4, n) if weighted else None
    KernelPCA(2, kernel=RBF(0.1), preimage="ridge").fit(x[:50, :3])
    model = KernelPCA(k, kernel=kernel, preimage=method, memory="2GB", **knobs)
    planned = model.plan(x, sample_weight=weights)
    peak = peak_of(lambda: model.fit(x, sample_weight=weights))
    assert peak <= model.plan_.n_bytes == planned.n_bytes
    assert model.plan_.preimage_bytes == planned.preimage_bytes > 0
    assert 0 < planned.preimage_seconds <= planned.seconds
    assert f"then the pre-image, {method!r}: at most" in str(planned)


@pytest.mark.parametrize("method", ["ridge", "fixed-point", "distances", "gradient"])
def test_plan_and_fit_agree_on_what_a_budget_holds(method):
    x = np.random.default_rng(3).standard_normal((700, 6))
    needed = KernelPCA(5, kernel=RBF_50, preimage=method, memory="2GB").plan(x).n_bytes
    room = KernelPCA(5, kernel=RBF_50, preimage=method, memory=needed)
    assert room.plan(x).n_bytes == needed == room.fit(x).plan_.n_bytes
    tight = KernelPCA(5, kernel=RBF_50, preimage=method, memory=needed - 1)
    for asked in (tight.plan, tight.fit):
        with pytest.raises(MemoryBudgetError):
            asked(x)


def test_free_memory_is_looked_at_once(monkeypatch):
    """Twice, and the fit and its pre-image would have different budgets."""
    looks = []
    monkeypatch.setattr(memory, "lately_available_bytes", lambda: looks.append(1) or 10**9)
    x = np.random.default_rng(3).standard_normal((60, 3))
    KernelPCA(2, preimage="ridge").fit(x)
    assert len(looks) == 1


def test_fits_that_follow_upon_each_other_share_a_look_at_free_memory(monkeypatch):
    looks, now = [], [100.0]
    monkeypatch.setattr(memory, "available_bytes", lambda: looks.append(1) or 10**9 + len(looks))
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    memory._looked.cache_clear()
    assert [memory.lately_available_bytes() for _ in range(3)] == [10**9 + 1] * 3
    now[0] += 2 * memory.LOOK_SECONDS
    assert memory.lately_available_bytes() == 10**9 + 2
    memory._looked.cache_clear()


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


@pytest.mark.parametrize("memory", ["1MB", "12MB", "60MB"])
@pytest.mark.parametrize(("k", "solver"), [(2, "lapack"), (None, "auto"), (2, "auto")])
def test_what_a_refusal_offers_fits_the_same_budget(memory, k, solver):
    """An approximation, or another solver, that is refused in turn would send a reader in a circle."""
    X = np.random.default_rng(0).standard_normal((1500, 4))
    model = KernelPCA(k, kernel=RBF(0.1), solver=solver, memory=memory)
    try:
        model.fit(X)
    except MemoryBudgetError as error:
        offered = re.findall(r"(approximation|solver)='?([^',]+)", str(error))
        fewer = re.findall(r"at most (\d+) components", str(error))
        assert memory != "60MB" or offered or fewer  # where there is room for something
        for name, value in offered:
            KernelPCA(2, kernel=RBF(0.1), memory=memory, **{name: value.lower()}).fit(X)
        for most in map(int, fewer):
            KernelPCA(most, kernel=RBF(0.1), memory=memory).fit(X)
