"""The laws of engines on torch, by its processor, and what only a device can get wrong."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from laws.test_engines import (  # noqa: F401
    many,
    placed,
    room,
    test_a_fit_is_the_same_on_every_engine,
    test_a_projection_of_one_engine_is_applied_by_another,
    test_a_step_may_travel,
    test_facts,
    test_fold_merges_in_the_order_of_the_rows,
    test_gram_times_is_symmetric,
    test_gram_times_is_the_dense_product,
    test_kept_tiles_change_no_bit,
    test_map_keeps_the_order_of_the_rows,
    test_passes_over_loaded_rows,
    test_rough_products_are_off_by_their_rounding_alone,
    test_rows_may_be_anywhere,
    test_times_is_the_dense_product,
    test_times_of_many_rows_and_many_points,
    x,
)
from markets.engines import in_memory
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from markets.routes import ROUTES
from mercer import IncrementalKernelPCA, KernelPCA, KernelPCADetector, load
from mercer._core.errors import InputError, MemoryBudgetError
from mercer.approximations import Nystrom, RPCholesky
from mercer.approximations.landmarks import checked_lengths
from mercer.engine.base import FLOAT32, FLOAT64, Rounding, TileStore
from mercer.engine.numpy import NumpyEngine
from mercer.engine.steps import SquareSections
from mercer.engine.torch import TorchEngine, evaluate, rows
from mercer.engine.torch.place import Place
from mercer.kernels import RBF, Custom, Laplacian, Linear, Matern, Polynomial, RationalQuadratic

# Where tests run: the processor, and whatever GPU there is.
NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]
KERNELS = VALID | HISTOGRAM | INDEFINITE
FORMLESS = {"matern-0.8", "gp", "matrices", "points"}


@pytest.fixture(params=NAMES)
def engine(request):
    return TorchEngine(request.param)


@pytest.fixture(params=sorted(set(KERNELS) - FORMLESS))
def kernel(request):
    return KERNELS[request.param]


# ── which kernels ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(FORMLESS))
def test_a_kernel_without_a_formula_is_refused_in_words(engine, name, cloud):
    formless = KERNELS[name]
    assert engine.facts().runs(formless) is not None
    with pytest.raises(InputError, match=r"can't run .*engine='numpy'"):
        engine.load(cloud, formless, FLOAT64)
    with pytest.raises(InputError, match=r"can't run .*engine='numpy'"):
        KernelPCA(2, kernel=formless, engine=engine).fit(cloud)


def test_every_kernel_with_a_formula_runs(engine, kernel):
    assert engine.facts().runs(kernel) is None
    assert engine.facts().runs(Custom(max)) is not None


# ── agreement with the reference ────────────────────────────────────────────
SHAPES = {"line": (70, 1), "few": (3, 4), "wide": (40, 300), "square": (90, 7)}


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32], ids=str)
@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern-3/2", "poly2", "sum", "normalised"])
def test_products_agree_with_numpy(engine, name, shape, dtype, rng):
    """Far from the origin, of near rows and of equal ones too."""
    kernel, (n, d) = VALID[name], SHAPES[shape]
    data = rng.standard_normal((n, d)) / np.sqrt(d)
    data[1], data[2] = data[0], data[0] + 1e-6
    if kernel.shift_invariant:
        data += 30.0
    data = data.astype(dtype)
    reference, v = NumpyEngine(1), rng.standard_normal((n, 5))
    loaded = [each.load(data, kernel, dtype, width=32) for each in (engine, reference)]
    found, expected = (
        each.gram_times(kernel, own, v)
        for each, own in zip((engine, reference), loaded, strict=True)
    )
    # Entries of both are within a few roundings of terms that cancel: squares of sizes up to 30 in float32.
    bound = 100.0 * np.finfo(dtype).eps * np.abs(kernel(data)).max() * np.abs(v).sum(axis=0)
    assert np.all(np.abs(found - expected) <= bound)
    np.testing.assert_allclose(
        engine.tile(kernel, data[:3], data), kernel.tile(data[:3], data), atol=bound.max()
    )


@pytest.mark.parametrize("kinked", [Matern(0.5, 1.0), Matern(1.5, 1.0), Laplacian(0.5)], ids=repr)
def test_near_points_of_kernels_with_a_kink(engine, kinked):
    """A root turns a rounding of 1e-16 into 1e-8: near pairs are subtracted first."""
    base = np.random.default_rng(0).standard_normal((40, 6))
    gap = 1e-9 * np.random.default_rng(1).standard_normal((40, 6))
    found = engine.tile(kinked, base, base + gap).diagonal()
    np.testing.assert_allclose(found, kinked.tile(base, base + gap).diagonal(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["rbf", "matern-5/2", "rational-quadratic", "poly2"])
def test_the_diagonal_is_known(engine, name, rng):
    """Distances of a row to itself only nearly cancel, in float32 to 1e-5 so far from the origin."""
    data = (8.0 * rng.standard_normal((50, 4))).astype("f4")
    found = engine.gram(VALID[name], engine.load(data, VALID[name], FLOAT32, width=16))
    expected = VALID[name].tile_diag(data)
    np.testing.assert_allclose(found.diagonal(), expected, rtol=1e-6)


def test_a_narrow_kernel_is_computed_by_differences(engine, rng):
    """Where ‖x‖² + ‖y‖² - 2x·y would lose the distance: rows near each other, a width to match."""
    data = 100.0 * rng.standard_normal((20, 3))
    data = np.vstack([data, data + 1e-4])
    narrow = RBF(1e7)
    found = engine.gram(narrow, engine.load(data, narrow, FLOAT64, width=16))
    np.testing.assert_allclose(found, narrow(data), atol=1e-8)


def test_values_out_of_range_are_the_hosts(engine, cloud):
    """Rows too large for squares, and products that overflow on the way."""
    reference, v = NumpyEngine(1), np.ones((60, 2))
    for kernel, data in (
        (RBF(1e-40), 1e20 * cloud),
        (Polynomial(4, gamma=1.0).normalised(), 1e11 * cloud.astype(np.float32)),
    ):
        loaded = engine.load(data, kernel, data.dtype, width=16)
        expected = reference.gram_times(
            kernel, reference.load(data, kernel, data.dtype, width=16), v
        )
        np.testing.assert_allclose(engine.gram_times(kernel, loaded, v), expected, rtol=1e-5)
        assert loaded.on_host


@pytest.mark.parametrize(("dtype", "tiny"), [("f8", 1e-60), ("f4", 1e-12)])
def test_lengths_out_of_range_are_the_hosts(engine, dtype, tiny, cloud):
    """Rows that are tiny beside others count in a normalised kernel, in a fit and in `transform`."""
    data = np.where(np.arange(60)[:, None] % 2, cloud, tiny * cloud).astype(dtype)
    kernel = Polynomial(3, 0.1, 0.0).normalised() + RBF(0.1)
    found, expected = (KernelPCA(2, kernel=kernel, engine=e).fit(data) for e in (engine, "numpy"))
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-5)
    scores = (np.abs(model.transform(data)) for model in (found, expected))
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize("size", [0.0, 1e-20, 1e20])
def test_rows_out_of_range_don_t_take_others_from_the_device(engine, size, cloud):
    """A row of zeros among new ones, or a few that the host has to look at, change nothing for the next."""
    model = KernelPCA(2, kernel=RBF(0.3), engine=engine, solver="krylov").fit(cloud)
    expected = clone(model).set_params(engine="numpy").fit(cloud).transform(size * cloud[:3])
    found = model.transform(size * cloud[:3])
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-7)
    (points,) = model.fit_.projection.sections._loaded.values()
    assert not points.on_host
    data = np.vstack([cloud, np.zeros((3, 4))])
    rows = engine.load(data, RBF(0.3), FLOAT64, width=16)
    few = engine.load(rows.take(np.arange(60, 63)), RBF(0.3), FLOAT64)
    engine.times(RBF(0.3), few, rows, np.ones((63, 1)))
    assert not few.on_host
    assert not rows.on_host


def test_the_plan_says_where_the_host_stands_in(engine, cloud):
    found = KernelPCA(2, kernel=RBF(1e-40), engine=engine).fit(1e20 * cloud)
    assert found.plan_.engine == "numpy"
    assert "tiles are NumPy's: tiles of" in str(found.plan_)
    assert KernelPCA(2, kernel=RBF(0.3), engine=engine).fit(cloud).plan_.engine == engine.place.name


# ── the same model ──────────────────────────────────────────────────────────
N = 600
X = np.random.default_rng(0).standard_normal((N, 4)) / [1.0, 2.0, 3.0, 4.0]
WEIGHTS = np.random.default_rng(1).uniform(0.5, 3.0, N)
MODELS = ROUTES


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize(
    ("dtype", "weights", "thin"),
    [("f8", None, False), ("f4", None, False), ("f8", WEIGHTS, False), ("f8", None, True)],
    ids=["float64", "float32", "weights", "sparse"],
)
def test_a_model_is_the_same(engine, name, dtype, weights, thin):
    data = X.astype(dtype)
    data = sparse.csr_array(np.where(np.abs(data) > 0.2, data, 0.0)) if thin else data
    expected = clone(MODELS[name]).set_params(engine="numpy").fit(data, sample_weight=weights)
    found = clone(MODELS[name]).set_params(engine=engine).fit(data, sample_weight=weights)
    top, rough = expected.eigenvalues_[0], 1e-10 if dtype == "f8" else 1e-5
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, atol=rough * top)
    reference = expected.transform(data)
    scores = found.transform(data)
    scores = scores * np.sign(np.sum(scores * reference, axis=0))
    near = 1e-6 if dtype == "f8" else 1e-3
    np.testing.assert_allclose(scores, reference, atol=near * np.abs(reference).max())


EDGES = {
    "three rows": (3, 4, 1.0),
    "one column": (200, 1, 1.0),
    "many columns": (60, 10_000, 1.0),
    "raw numbers": (200, 5, 1e5),
    "far away": (200, 5, 1.0),
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", sorted(EDGES))
def test_edges(engine, name, dtype, rng):
    n, d, size = EDGES[name]
    data = size * rng.standard_normal((n, d)) + (1000.0 if name == "far away" else 0.0)
    found, expected = (
        KernelPCA(2, kernel="rbf", engine=each, random_state=0).fit(data.astype(dtype))
        for each in (engine, "numpy")
    )
    top = expected.eigenvalues_[0]
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, atol=1e-6 * top)
    assert found.plan_.engine == engine.place.name


@pytest.mark.parametrize("kind", [IncrementalKernelPCA, KernelPCADetector])
def test_other_estimators(engine, kind):
    measure = "decision_function" if kind is KernelPCADetector else "transform"
    found, expected = (
        getattr(kind(3, kernel=RBF(0.3), engine=each, random_state=0).fit(X), measure)(X)
        for each in (engine, "numpy")
    )
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("params", [{"solver": "krylov"}, {"approximation": RPCholesky(40)}])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_two_runs_give_the_same_bits(engine, params, dtype):
    model = KernelPCA(3, kernel=RBF(0.3), engine=engine, random_state=0, **params)
    first, second = (clone(model).fit(X.astype(dtype)) for _ in range(2))
    np.testing.assert_array_equal(first.eigenvalues_, second.eigenvalues_)
    np.testing.assert_array_equal(first.transform(X), second.transform(X))


def test_a_certificate_holds(engine):
    """Residuals that are told are true: those of the matrix itself."""
    model = KernelPCA(3, kernel=RBF(0.3), engine=engine, solver="krylov").fit(X)
    h = np.eye(N) - 1.0 / N
    centred = h @ RBF(0.3)(X) @ h
    off = centred @ model.eigenvectors_ - model.eigenvectors_ * model.eigenvalues_
    true = np.linalg.norm(off, axis=0) / model.eigenvalues_[0]
    assert np.all(true <= 1.1 * np.max(model.fit_.pairs.residuals) + 1e-13)


def test_a_model_outlives_its_engine(engine, tmp_path):
    model = KernelPCA(3, kernel=RBF(0.3), engine=engine).fit(X)
    model.save(tmp_path / "model.mercer")
    again = pickle.loads(pickle.dumps(model))
    assert again.engine == engine
    for other in (again, load(tmp_path / "model.mercer")):
        np.testing.assert_allclose(other.transform(X), model.transform(X), atol=1e-10)


# ── squares of sections ─────────────────────────────────────────────────────
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weights"])
@pytest.mark.parametrize("squared_in", [FLOAT64, FLOAT32], ids=str)
def test_squares_of_sections_on_the_device(engine, weights, squared_in, monkeypatch):
    monkeypatch.setattr("mercer.engine.torch.place.DEVICE_PASS_ROWS", 128)  # several blocks

    def lengths(block):
        return checked_lengths(RBF(0.3), block)

    step = SquareSections(RBF(0.3), X[:50], squared_in, squared_in, weights, lengths, engine)
    found = engine.fold(X, step, width=50)
    expected = NumpyEngine(1).fold(X, replace(step, engine=NumpyEngine(1)), width=50)
    eps = 100 * float(np.finfo(squared_in).eps)
    assert found.trace == pytest.approx(expected.trace, rel=eps)
    scale = np.abs(expected.moments.scatter).max()
    np.testing.assert_allclose(found.moments.mean, expected.moments.mean, atol=eps)
    np.testing.assert_allclose(
        found.moments.scatter, expected.moments.scatter, atol=10 * eps * scale
    )


def test_rows_that_are_all_alike_have_no_scatter(engine):
    """To the last bit: the rounding of a sum would pass for variance."""
    alike = np.repeat(X[:1], 300, axis=0) * 1.1

    def lengths(block):
        return checked_lengths(RBF(0.3), block)

    weights = WEIGHTS[:300]
    step = SquareSections(RBF(0.3), X[:20], FLOAT64, FLOAT64, weights, lengths, engine)
    assert not engine.fold(alike, step, width=20).moments.scatter.any()


# ── memory ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["rbf", "sum", "cosine"])
@pytest.mark.parametrize("source", ["array", "file", "sparse"])
def test_rows_that_do_not_fit_are_sent_in_slices(engine, source, name, monkeypatch, tmp_path):
    """To the same bits as rows that do."""
    from markets.engines import SOURCES

    kernel, data = VALID[name], SOURCES[source](X, tmp_path)
    v = np.random.default_rng(0).standard_normal((N, 3))
    products = []
    for share in (2, 10**15):
        monkeypatch.setattr(rows, "ROWS_SHARE", share)
        loaded = engine.load(data, kernel, FLOAT64, width=64)
        products.append(engine.gram_times(kernel, loaded, v))
        assert (loaded._whole is None) == (share > 2)
        few = engine.load(loaded.take(np.arange(5)), kernel, FLOAT64)
        products.append(engine.times(kernel, few, loaded, v))
    np.testing.assert_array_equal(products[0], products[2])
    np.testing.assert_array_equal(products[1], products[3])
    dense = in_memory(data)
    assert np.all(np.abs(products[0] - kernel(dense) @ v) <= room(kernel, dense, v))


@pytest.mark.parametrize("packed", [False, True])
def test_tiles_that_do_not_fit_change_no_bit(engine, packed, monkeypatch):
    v, rounding = np.random.default_rng(0).standard_normal((N, 3)), Rounding(packed, 0.3)
    found = []
    for share in (2, 10**4, 10**15):
        monkeypatch.setattr("mercer.engine.torch.place.KEPT_SHARE", share)
        store = TileStore(keep_bytes=10**6, rounding=rounding)
        loaded = engine.load(X, RBF(0.3), FLOAT64, width=64, store=store)
        found.append([engine.gram_times(RBF(0.3), loaded, v, rough=r) for r in (True, False)])
    assert loaded.kept.n_rounded == 0
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def starved(monkeypatch, below):
    """A device that has no memory for tiles wider than `below`."""
    make = evaluate.values

    def values(program, left, right=None):
        if right is not None and max(left.n, right.n) > below:
            raise torch.OutOfMemoryError
        return make(program, left, right)

    for module in ("engine", "steps", "tiles"):
        monkeypatch.setattr(f"mercer.engine.torch.{module}.values", values)


def test_a_device_that_runs_out_of_memory_goes_on_with_narrower_tiles(engine, monkeypatch):
    v = np.random.default_rng(0).standard_normal((N, 3))
    starved(monkeypatch, 100)
    loaded = engine.load(X, RBF(0.3), FLOAT64, width=512, store=TileStore(keep_bytes=10**7))
    found = engine.gram_times(RBF(0.3), loaded, v)
    assert np.all(np.abs(found - RBF(0.3)(X) @ v) <= room(RBF(0.3), X, v))
    assert loaded.kept.width == 64
    points = engine.load(X, RBF(0.3), FLOAT64)
    found = engine.times(RBF(0.3), engine.load(X, RBF(0.3), FLOAT64), points, v)
    assert np.all(np.abs(found - RBF(0.3)(X) @ v) <= room(RBF(0.3), X, v))


def test_rows_that_could_not_be_sent_are_sent_in_slices(engine, monkeypatch):
    def starved(_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(rows.TorchRows, "_sent", starved)
    v = np.random.default_rng(0).standard_normal((N, 3))
    found = engine.gram_times(RBF(0.3), engine.load(X, RBF(0.3), FLOAT64, width=512), v)
    assert np.all(np.abs(found - RBF(0.3)(X) @ v) <= room(RBF(0.3), X, v))


def test_a_device_without_memory_ends_in_one_sentence(engine, monkeypatch):
    starved(monkeypatch, 1)
    with pytest.raises(MemoryBudgetError, match=f"{engine.place.name} ran out of memory at tiles"):
        KernelPCA(3, kernel=RBF(0.3), engine=engine, solver="krylov").fit(X)


def test_tiles_and_squares_that_do_not_fit_are_the_hosts(engine, monkeypatch):
    """Blocks of a pass over rows, whose heights the host has planned."""
    expected = KernelPCA(3, kernel=RBF(0.3), approximation=Nystrom(40), random_state=0).fit(X)
    starved(monkeypatch, 1)
    found = clone(expected).set_params(engine=engine).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(engine.tile(RBF(0.3), X[:9], X), RBF(0.3)(X[:9], X), atol=1e-14)


def test_parts_of_the_tiles_add_up(engine, rng):
    v, kernel = rng.standard_normal((N, 3)), RBF(0.3)
    parts = [engine.load(X, kernel, FLOAT64, width=64, part=(h, 3)) for h in range(3)]
    found = sum(engine.gram_times(kernel, each, v) for each in parts)
    assert np.all(np.abs(found - kernel(X) @ v) <= room(kernel, X, v))


# ── manners ─────────────────────────────────────────────────────────────────
def test_products_are_precise_whatever_the_caller_allows(engine, rng):
    """TF32 has ten bits, bfloat16 seven: float32 tiles are off by roundings of float32 all the same."""
    data, v = rng.standard_normal((200, 64)).astype("f4"), np.ones((200, 1), dtype="f4")
    rows = engine.load(data, Linear(), FLOAT32, width=64)
    usual, before = engine.gram_times(Linear(), rows, v), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        np.testing.assert_array_equal(engine.gram_times(Linear(), rows, v), usual)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_model_may_be_asked_on_several_threads(engine, monkeypatch):
    """To the same bits, with points on the device and with points that are sent in slices."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()
    for share in (2, 10**15):
        monkeypatch.setattr(rows, "ROWS_SHARE", share)
        monkeypatch.setattr(Place, "width", lambda *_: 64)
        model = KernelPCA(3, kernel=RBF(0.3), engine=engine, random_state=0).fit(X)
        expected = model.transform(X)
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(model.transform, [X] * 12):
                np.testing.assert_array_equal(found, expected)
    after = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()
    assert after == before


def test_a_model_that_runs_elsewhere_leaves_no_trace(engine):
    """Neither the default precision of torch, nor its generators."""

    def allowed():
        return torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32

    state, precision = torch.get_rng_state(), allowed()
    KernelPCA(3, kernel=RationalQuadratic(0.7, 1.2), engine=engine).fit(X).transform(X)
    assert torch.equal(torch.get_rng_state(), state)
    assert allowed() == precision
    assert torch.get_default_dtype() == torch.float32


def test_a_plan_names_the_device(engine):
    plan = KernelPCA(3, kernel=RBF(0.3), engine=engine).plan(X)
    assert plan.engine == engine.place.name
    assert plan.seconds > 0.0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there(name):
    why = "(torch .* is (a build|built) without|found no NVIDIA driver)"
    with pytest.raises(InputError, match=f"engine='{name}' has no device: {why}"):
        TorchEngine(name)


def test_a_linear_kernel_takes_rows_as_they_are(engine, rng):
    far = rng.standard_normal((50, 3)) + 1000.0
    found = engine.gram(Linear(), engine.load(far, Linear(), FLOAT64, width=16))
    np.testing.assert_allclose(found, far @ far.T, rtol=1e-14)
    assert Place("cpu").name == "torch:cpu"


# ── bytes ───────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [20, 900])
@pytest.mark.parametrize("kernel", [RBF(0.05), RBF(0.05) + 0.5 * RBF(0.5) * RBF(0.1)], ids=str)
def test_a_block_is_no_larger_than_the_plan_says(kernel, rank, dtype, engine, rng):
    """One block at its largest, and on a GPU all that torch has had there at a time."""
    data = rng.standard_normal((40_000, 5)).astype(dtype)
    points = engine.load(data[:rank], kernel, data.dtype)
    height = min(len(data), engine.place.height(rank + 5, points.program.depth))
    assert height * (rank + 5) * 8 <= engine.facts().cache_bytes
    if engine.place.kind == "cuda":
        model = KernelPCA(3, kernel=kernel, engine=engine, approximation=Nystrom(rank))
        model.fit(data[:2000])
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(engine.place.index)
        before = torch.cuda.memory_allocated(engine.place.index)
        found = model.fit(data)
        peak = torch.cuda.max_memory_allocated(engine.place.index) - before
        assert peak <= found.plan_.n_bytes
