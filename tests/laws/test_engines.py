"""Laws of every engine: the products of the dense matrix, rows in their order, the same fitted model."""

import pickle
import time
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

from markets.engines import ENGINES, SOURCES, DenseEngine, in_memory
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import IncrementalKernelPCA, KernelPCA, KernelPCADetector, load
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.engine.base import FLOAT32, FLOAT64, Rounding, TileStore
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import resolve_engine
from mercer.kernels import RBF, Custom, Polynomial
from mercer.model import Plan, gram_operator
from mercer.model.dual import dual_fit
from mercer.model.result import Task
from mercer.operators import Centred, Gram
from mercer.planning.recipe import Proof, TileCache, Tiles, Whole
from mercer.preimage import Ridge
from mercer.solvers import BlockKrylov, Lapack

KERNELS = VALID | HISTOGRAM | INDEFINITE
EPS = float(np.finfo(np.float64).eps)


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param]()


@pytest.fixture(params=sorted(KERNELS))
def kernel(request, engine):
    found = KERNELS[request.param]
    if engine.facts().runs(found) is not None:
        pytest.skip("the engine says that it does not run this kernel")
    return found


@pytest.fixture
def x(kernel, cloud, histograms):
    return histograms if kernel.positive_only else cloud


@pytest.fixture(params=sorted(SOURCES))
def placed(request, tmp_path):
    """Puts rows where they may be."""
    return lambda x: SOURCES[request.param](x, tmp_path)


def room(kernel, x, v, eps=EPS):
    """A sum of n products is off by n eps of their sizes; entries by a few units, more for sums in powers."""
    return 100.0 * eps * np.abs(kernel(x)).max() * np.abs(v).sum(axis=0)


# ── products ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("width", [None, 7, 1000])
def test_gram_times_is_the_dense_product(engine, kernel, x, rng, width):
    v = rng.standard_normal((len(x), 3))
    rows = engine.load(x, kernel, FLOAT64, width=width)
    found = engine.gram_times(kernel, rows, v)
    assert np.all(np.abs(found - kernel(x) @ v) <= room(kernel, x, v))
    assert np.all(
        np.abs(engine.gram(kernel, rows) - kernel(x)) <= 100 * EPS * np.abs(kernel(x)).max()
    )


def test_gram_times_is_symmetric(engine, kernel, x, rng):
    u, v = rng.standard_normal((2, len(x), 2))
    rows = engine.load(x, kernel, FLOAT64, width=16)
    left, right = u.T @ engine.gram_times(kernel, rows, v), engine.gram_times(kernel, rows, u).T @ v
    scale = np.abs(kernel(x)).max() * np.abs(u).sum() * np.abs(v).sum()
    np.testing.assert_allclose(left, right, atol=100 * EPS * scale)


def test_times_is_the_dense_product(engine, kernel, x, rng):
    z, more = x[:25], rng.standard_normal((25, 2))
    v = rng.standard_normal((len(x), 2))
    rows, points = engine.load(x, kernel, FLOAT64), engine.load(z, kernel, FLOAT64)  # loaded apart
    taken = engine.load(rows.take(np.arange(25)), kernel, FLOAT64)
    for few in (points, taken):
        found = engine.times(kernel, rows, few, more)
        assert np.all(np.abs(found - kernel(x, z) @ more) <= room(kernel, x, more))
        found = engine.times(kernel, few, rows, v)
        assert np.all(np.abs(found - kernel(z, x) @ v) <= room(kernel, x, v))


@pytest.mark.parametrize("n", [30, 300])
def test_a_product_with_no_columns_has_none(engine, n, rng):
    kernel, x = RBF(0.2), rng.standard_normal((n, 3))
    rows, points = (engine.load(part, kernel, FLOAT64) for part in (x[:7], x))
    assert engine.times(kernel, rows, points, np.empty((n, 0))).shape == (7, 0)
    assert engine.gram_times(kernel, points, np.empty((n, 0))).shape == (n, 0)


@pytest.mark.parametrize("n", [2100, 4200])
def test_times_of_many_rows_and_many_points(engine, rng, n):
    """More than are multiplied at a time, on either side."""
    kernel, x, z = RBF(0.3), rng.standard_normal((n, 3)), rng.standard_normal((3000, 3))
    v = rng.standard_normal((3000, 2))
    found = engine.times(kernel, *(engine.load(rows, kernel, FLOAT64) for rows in (x, z)), v)
    np.testing.assert_allclose(found, kernel(x, z) @ v, atol=1e-12 * np.abs(v).sum())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["rbf", "poly2", "laplacian", "cosine"])
def test_rows_may_be_anywhere(engine, placed, dtype, name, cloud):
    kernel, x = VALID[name], placed(cloud.astype(dtype))
    dense, v = in_memory(x), np.random.default_rng(0).standard_normal((60, 3))
    few = np.array([40, 3, 3])
    for precision in engine.facts().precisions:
        eps = float(np.finfo(precision).eps)
        rows = engine.load(x, kernel, precision, width=16)
        assert (rows.n, rows.d) == x.shape
        np.testing.assert_allclose(in_memory(kernel_rows(rows.take(few))), dense[few], atol=1e-6)
        found = engine.gram_times(kernel, rows, v)
        assert found.dtype == v.dtype
        assert np.all(np.abs(found - kernel(dense) @ v) <= room(kernel, dense, v, eps))


def kernel_rows(rows):
    """Rows that may be ready for distances, as they were."""
    return rows.plain() if hasattr(rows, "plain") else rows


class Failing(RBF):
    """Its third tile fails."""

    def tile(self, x, y):
        self.made = getattr(self, "made", 0) + 1
        if self.made == 3:
            raise MemoryError
        time.sleep(1e-4)  # the other threads may run
        return super().tile(x, y)


@pytest.mark.parametrize("verb", ["times", "gram_times"])
def test_a_tile_that_fails_stops_the_other_threads(verb, rng):
    """Before their next tile, not at the end of a pass that nobody wants any more."""
    engine, kernel, x = NumpyEngine(2), Failing(0.3), rng.standard_normal((2000, 2))
    rows = engine.load(x, kernel, FLOAT64, width=1 if verb == "times" else 32)
    few = engine.load(rows.take(np.arange(3)), kernel, FLOAT64)
    call = {"times": (few, rows), "gram_times": (rows,)}[verb]
    with pytest.raises(MemoryError):
        getattr(engine, verb)(kernel, *call, np.ones((2000, 1)))
    assert kernel.made < 500  # of 2000 or so


# ── what is kept between products ───────────────────────────────────────────
@pytest.mark.parametrize("keep_bytes", [0, 3000, 10**6])
def test_kept_tiles_change_no_bit(engine, keep_bytes, cloud, rng):
    kernel, v = VALID["rbf"], rng.standard_normal((60, 3))
    rows = engine.load(cloud, kernel, FLOAT64, width=16)
    fresh = engine.gram_times(kernel, rows, v)
    store = TileStore(keep_bytes=keep_bytes)
    keeping = engine.load(cloud, kernel, FLOAT64, width=16, store=store)
    for _ in range(3):
        np.testing.assert_array_equal(engine.gram_times(kernel, keeping, v), fresh)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("exact_first", [False, True])
def test_rough_products_are_off_by_their_rounding_alone(engine, packed, exact_first, cloud, rng):
    kernel, v = VALID["rbf"], rng.standard_normal((60, 3))
    operator = Gram(
        engine, kernel, cloud, TileStore(rounding=Rounding(packed=packed, minus=0.3)), width=16
    )
    if exact_first:
        assert np.all(np.abs(operator.matmat(v) - kernel(cloud) @ v) <= room(kernel, cloud, v))
    # Entries of at most one in size, less 0.3: off by half a step of 16 bits, or by a unit of float32.
    unit = 1.0 / 131070 if packed else 0.0
    bound = (unit + 100 * float(np.finfo(np.float32).eps)) * np.abs(v).sum(axis=0)
    found = operator.rough.matmat(v)
    assert np.all(np.abs(found + 0.3 * v.sum(axis=0) - kernel(cloud) @ v) <= bound)
    assert operator.fills_rough
    assert operator.rough.eps > operator.eps
    np.testing.assert_array_equal(operator.rough.matmat(v), found)


# ── parts of the tiles ──────────────────────────────────────────────────────
LOCAL = sorted(set(ENGINES) - {"dense"})


@pytest.mark.parametrize("of", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("name", LOCAL)
def test_products_of_parts_add_up(name, of, kernel_of_parts, cloud, rng):
    """More parts than tiles too; a part that keeps its tiles, exact or rounded, gives the same bits again."""
    engine, kernel, v = ENGINES[name](), kernel_of_parts, rng.standard_normal((60, 3))
    stores = (TileStore(), TileStore(keep_bytes=5000), TileStore(rounding=Rounding(minus=0.3)))
    for store in (*stores, TileStore(rounding=Rounding(packed=True, minus=0.3))):
        loaded = [
            engine.load(cloud, kernel, FLOAT64, width=8, store=store, part=(h, of))
            for h in range(of)
        ]
        first = [engine.gram_times(kernel, rows, v) for rows in loaded]
        assert np.all(np.abs(sum(first) - kernel(cloud) @ v) <= room(kernel, cloud, v))
        for rows, product in zip(loaded, first, strict=True):
            np.testing.assert_array_equal(engine.gram_times(kernel, rows, v), product)
        if store.rounding is None:
            continue
        rough = sum(engine.gram_times(kernel, rows, v, rough=True) for rows in loaded)
        entries = np.abs(kernel(cloud) - 0.3).max()
        unit = (1 / 65535 if store.rounding.packed else 0.0) + 100 * float(np.finfo(FLOAT32).eps)
        exact = (kernel(cloud) - 0.3) @ v
        assert np.all(np.abs(rough - exact) <= unit * entries * np.abs(v).sum(axis=0))


@pytest.fixture(params=["rbf", "poly2"])
def kernel_of_parts(request):
    return VALID[request.param]


# ── passes over rows ────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Span:
    """Which rows were seen, and their weighted sum."""

    start: int
    stop: int
    total: np.ndarray

    def merged(self, other):
        assert self.stop == other.start  # in the order of the rows
        return Span(self.start, other.stop, self.total + other.total)


@dataclass(frozen=True)
class WeightedSum:
    weights: np.ndarray

    def __call__(self, rows, place):
        return Span(place.start, place.stop, rows.T @ self.weights[place])


@dataclass(frozen=True)
class Doubled:
    def __call__(self, rows):
        return 2.0 * (rows.toarray() if hasattr(rows, "toarray") else rows)


@pytest.mark.parametrize("n", [60, 5000, 300_000])
def test_fold_merges_in_the_order_of_the_rows(engine, n, rng):
    x, weights = rng.standard_normal((n, 4)), rng.random(n)
    found = engine.fold(x, WeightedSum(weights))
    assert (found.start, found.stop) == (0, n)
    np.testing.assert_allclose(found.total, x.T @ weights, rtol=1e-9, atol=1e-9)


def test_fold_does_not_depend_on_the_number_of_threads(rng):
    x, weights = rng.standard_normal((300_000, 4)), rng.random(300_000)
    first, *others = (NumpyEngine(t).fold(x, WeightedSum(weights)).total for t in (1, 2, 5))
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_map_keeps_the_order_of_the_rows(engine, placed, rng):
    x = placed(rng.standard_normal((5000, 3)))
    np.testing.assert_array_equal(engine.map(x, Doubled()), 2.0 * in_memory(x))


def test_passes_over_loaded_rows(engine, rng):
    x, weights = rng.standard_normal((300, 4)), rng.random(300)
    rows = engine.load(x, Polynomial(2, gamma=0.3), FLOAT64, width=7)
    found = engine.fold(rows, WeightedSum(weights))
    assert (found.start, found.stop) == (0, 300)
    np.testing.assert_allclose(found.total, x.T @ weights, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(engine.map(rows, Doubled()), 2.0 * x)


def test_a_step_may_travel(engine, rng):
    """To a worker in another process: it pickles, and so does what it gives."""
    x = rng.standard_normal((60, 4))
    step = WeightedSum(rng.random(60))
    again = pickle.loads(pickle.dumps(engine.fold(x, pickle.loads(pickle.dumps(step)))))
    np.testing.assert_array_equal(again.total, engine.fold(x, step).total)


# ── what a planner may ask ──────────────────────────────────────────────────
def test_facts(engine):
    facts = engine.facts()
    assert facts.name
    assert facts.lanes >= 1
    # None is the memory of this machine, which is not that of a device or of workers.
    assert (
        facts.free_bytes > 0
        if facts.elsewhere
        else facts.free_bytes is None or facts.free_bytes > 0
    )
    assert facts.cache_bytes > 0
    assert FLOAT64 in facts.precisions
    assert facts.runs(RBF(0.3)) is None


def test_an_engine_says_why_it_does_not_run_a_kernel():
    why = DenseEngine().facts().runs(Custom(max))
    assert "Python function" in why
    assert "engine='numpy'" in why
    assert NumpyEngine().facts().runs(Custom(max)) is None
    assert FLOAT32 not in DenseEngine().facts().precisions


# ── the same model ──────────────────────────────────────────────────────────
N, WIDTH = 60, 16
HELD = {
    itemsize: TileCache.within(10**6, n=N, width=WIDTH, itemsize=itemsize) for itemsize in (8, 4, 2)
}
RECIPES = {
    "tiles": Tiles(WIDTH, "float64"),
    "kept": Tiles(WIDTH, "float64", HELD[8]),
    "rough": Tiles(WIDTH, "float32", None, Proof(WIDTH)),
    "rounded": Tiles(WIDTH, "float32", HELD[4], Proof(WIDTH)),
    "packed": Tiles(WIDTH, "float32", HELD[2], Proof(WIDTH)),
}
PLANS = {
    "lapack": Plan("dual", Lapack(), Whole(N, "float64"), 0),
    **{name: Plan("dual", BlockKrylov(tol=1e-10), recipe, 0) for name, recipe in RECIPES.items()},
}
MODELS = {
    "rbf": (RBF(0.3), None),
    "poly": (Polynomial(2, gamma=0.3), None),
    "weighted-rbf": (RBF(0.3), np.linspace(0.2, 3.0, 60)),
    "weighted-poly": (Polynomial(2, gamma=0.3), np.linspace(0.2, 3.0, 60)),
}


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("plan", sorted(PLANS))
def test_a_fit_is_the_same_on_every_engine(engine, plan, placed, model, cloud):
    (kernel, weights), x = MODELS[model], placed(cloud)
    operator = gram_operator(kernel, x, PLANS[plan], weights, engine=engine)
    pairs = PLANS[plan].solver(operator, 4, rng=np.random.default_rng(0))
    rng = np.random.default_rng(0)
    task = Task(kernel, x, 4, PLANS[plan], rng, weights, engine=engine)
    fit = dual_fit(task, operator, pairs)
    # The centred matrix itself, formed here.
    dense = in_memory(x)
    w = np.ones(60) if weights is None else weights
    h = np.eye(60) - np.outer(np.ones(60), w) / w.sum()
    centred = h @ kernel(dense) @ h.T
    values, vectors = np.linalg.eigh(np.sqrt(np.outer(w, w)) * centred)
    np.testing.assert_allclose(fit.pairs.values, values[::-1][:4], rtol=1e-7)
    u = vectors[:, ::-1][:, :4]
    scores = centred @ (np.sqrt(w)[:, None] * u) / np.sqrt(values[::-1][:4])
    found = fit.projection(dense)
    scores *= np.sign(np.sum(scores * found, axis=0))
    np.testing.assert_allclose(found, scores, atol=1e-6 * np.abs(scores).max())


def test_solvers_reach_the_matrix_by_products_of_the_engine_alone(cloud, rng):
    engine = DenseEngine()
    operator = Centred(Gram(engine, RBF(0.3), cloud))
    pairs = BlockKrylov(landmarks=0)(operator, 3, rng=rng)
    assert engine.products == pairs.n_products


# ── every route of a model ──────────────────────────────────────────────────
class Watched(RBF):
    """A kernel that notes who asks for its tiles: an engine that multiplies, or anyone else."""

    within, beside = [], []
    multiplying = 0

    def tile(self, x, y):
        (Watched.within if Watched.multiplying else Watched.beside).append(
            (int(x.shape[0]), int(y.shape[0]))
        )
        return super().tile(x, y)


def multiplying(verb):
    def noted(self, *args, **kwargs):
        Watched.multiplying += 1
        try:
            return verb(self, *args, **kwargs)
        finally:
            Watched.multiplying -= 1

    return noted


class Counting(NumpyEngine):
    """NumPy on one thread, so that what is asked for while it multiplies is asked for by it."""

    times, gram_times, gram, tile = (
        multiplying(getattr(NumpyEngine, verb)) for verb in ("times", "gram_times", "gram", "tile")
    )


class CountingDense(DenseEngine):
    times, gram_times, gram = (
        multiplying(verb) for verb in (DenseEngine.times, DenseEngine.gram_times, DenseEngine.gram)
    )


COUNTING = {"numpy": lambda: Counting(1), "dense": CountingDense}
WATCHED = Watched(0.3)
ROUTED = {
    "krylov": KernelPCA(3, kernel=WATCHED, solver="krylov"),
    "lapack": KernelPCA(3, kernel=WATCHED, solver="lapack"),
    "rpcholesky": KernelPCA(3, kernel=WATCHED, approximation=RPCholesky(20)),
    "rpcholesky-auto": KernelPCA(3, kernel=WATCHED, approximation=RPCholesky("auto", tol=0.2)),
    "nystrom": KernelPCA(3, kernel=WATCHED, approximation=Nystrom(20)),
    "k-means++": KernelPCA(3, kernel=WATCHED, approximation=Nystrom(20, sampling="k-means++")),
    "refined": KernelPCA(3, kernel=WATCHED, approximation=Nystrom(20, refine=2)),
    "stream": IncrementalKernelPCA(3, kernel=WATCHED, batch_size=400, max_landmarks=30),
    "detector": KernelPCADetector(3, kernel=WATCHED, approximation=RPCholesky(20)),
}
# Landmarks, candidates and probes among themselves are small problems of the host; rows are 1200.
FEW, MANY = 300, 1200


@pytest.fixture
def many(rng):
    return rng.standard_normal((MANY, 3)) / [1.0, 2.0, 3.0]


@pytest.fixture(params=sorted(ROUTED))
def routed(request):
    return request.param


@pytest.fixture(params=sorted(COUNTING))
def counting(request):
    Watched.within.clear()
    Watched.beside.clear()
    return COUNTING[request.param]()


def fitted_on(engine, name, x, kernel=WATCHED):
    """A model of that route, and what it says of rows."""
    model = clone(ROUTED[name]).set_params(engine=engine, kernel=kernel).fit(x)
    return model, model.decision_function if name == "detector" else model.transform


def test_every_tile_of_rows_is_made_by_the_engine(counting, routed, many):
    model, measure = fitted_on(counting, routed, many)
    assert sum(n * m for n, m in Watched.within) >= MANY * 10
    Watched.within.clear()
    measure(many)
    if routed != "detector":
        points = model.fit_.projection.sections.width
        assert sum(n * m for n, m in Watched.within) == MANY * points
        model.reconstruction_error(many)
    assert max(max(shape) for shape in [(0, 0), *Watched.beside]) <= FEW


def test_a_model_is_the_same_on_every_engine(counting, routed, many):
    """To rounding; a low-rank fit draws the same landmarks, because rounding moves no die."""
    (_, measure), (_, reference) = (fitted_on(e, routed, many) for e in (counting, NumpyEngine(2)))
    expected = reference(many)
    np.testing.assert_allclose(measure(many), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("made_by", sorted(ENGINES))
@pytest.mark.parametrize("name", ["krylov", "nystrom", "stream"])
def test_a_projection_of_one_engine_is_applied_by_another(engine, made_by, name, placed, many):
    kernel = RBF(0.3)  # which every engine runs
    model, _ = fitted_on(ENGINES[made_by](), name, many, kernel)
    own, x = model.fit_.projection, placed(many)
    dense = in_memory(x)
    exact = kernel(dense, own.sections.points) @ own.coef - own.offset
    bound = 100 * EPS * (np.abs(own.coef).sum(axis=0) + np.abs(own.offset))  # k(x, z) is at most 1
    assert np.all(np.abs(own.on(engine)(x) - exact) <= bound)


@pytest.mark.parametrize("name", ["krylov", "fourier", "stream", "detector"])
def test_a_model_of_an_engine_is_saved_without_it(name, many, tmp_path):
    """The file has no engine; a pickle has what pickles."""
    models = ROUTED | {"fourier": KernelPCA(3, kernel=RBF(0.3), approximation=RandomFourier(50))}
    model = clone(models[name]).set_params(engine=DenseEngine())
    if name != "fourier":
        model.set_params(kernel=RBF(0.3))  # a file knows the kernels of mercer
    model.fit(many)
    model.save(tmp_path / "model.mercer")
    kept, pickled = load(tmp_path / "model.mercer"), pickle.loads(pickle.dumps(model))
    assert kept.engine == "auto"
    assert isinstance(pickled.engine, DenseEngine)
    measure = "decision_function" if name == "detector" else "transform"
    expected = getattr(model, measure)(many)
    for again in (kept, pickled):
        found = getattr(again, measure)(many)
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    if name != "detector":
        assert kept.fit_.projection.sections.engine == resolve_engine("auto")
        assert isinstance(pickled.fit_.projection.sections.engine, DenseEngine)
        assert model.fit_.plan.engine == "dense"


@pytest.mark.parametrize("params", [{"solver": "krylov"}, {"approximation": "nystrom"}])
def test_a_forecast_times_the_engine(params, many):
    engine = DenseEngine()
    plan = KernelPCA(3, kernel=RBF(0.3), engine=engine, **params).plan(many)
    assert plan.engine == "dense"
    assert plan.seconds > 0.0
    assert engine.products > 0


def test_a_ridge_pre_image_is_computed_by_the_engine(many):
    engine = DenseEngine()
    model = KernelPCA(3, kernel=RBF(0.3), preimage=Ridge(max_rows=200), random_state=0)
    expected = clone(model).fit(many)
    found = model.set_params(engine=engine).fit(many)
    scores = expected.transform(many[:50])
    before = engine.products
    rows = found.inverse_transform(scores)
    assert engine.products == before + 1
    np.testing.assert_allclose(rows, expected.inverse_transform(scores), atol=1e-6)
