"""The laws of engines on a cluster whose workers compute on devices: here the processor, by torch."""

import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("distributed")
pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import dask.array as da
import torch
from distributed import Client, LocalCluster

from laws.test_engines import (  # noqa: F401
    EPS,
    KERNELS,
    room,
    test_gram_times_is_the_dense_product,
    test_kept_tiles_change_no_bit,
    test_rough_products_are_off_by_their_rounding_alone,
    test_times_is_the_dense_product,
    x,
)
from markets.clusters import small_cluster
from markets.kernels import VALID
from markets.triton import in_place_of_triton
from mercer import PCA, KernelPCA
from mercer._core.errors import EngineWarning, InputError, MemoryBudgetError, MercerError
from mercer.approximations import Nystrom, RPCholesky
from mercer.engine.base import FLOAT32, FLOAT64, NOTHING_KEPT, Rounding, TileStore
from mercer.engine.dask import DaskEngine, tasks, work
from mercer.engine.dask.cluster import ClusterError
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import resolve_engine
from mercer.engine.steps import SquareSections
from mercer.engine.torch import TorchEngine, place
from mercer.engine.torch.place import There
from mercer.kernels import RBF
from mercer.planning import bytes as planned_bytes
from mercer.planning import krylov, plan, problem
from mercer.solvers import BlockKrylov

CPU = "torch:cpu"
N = 600
X = np.random.default_rng(0).standard_normal((N, 4)) / [1.0, 2.0, 3.0, 4.0]
V = np.random.default_rng(1).standard_normal((N, 3))
WEIGHTS = np.random.default_rng(2).uniform(0.5, 3.0, N)
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture(scope="module")
def client():
    with small_cluster() as client:
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, least=0, device=CPU)


@pytest.fixture(params=["rbf", "laplacian", "poly2", "normalised"])
def kernel(request):
    return KERNELS[request.param]


@pytest.fixture
def many_tiles(monkeypatch):
    """Of so few rows there would be one tile, or K as a whole."""
    monkeypatch.setattr(planned_bytes, "DEVICE_WIDTH", 32)
    for module in (krylov, plan, problem):
        monkeypatch.setattr(module, "SMALL_ROWS", 50)


@pytest.fixture
def made(client):
    """Counts of what the devices of workers make."""
    client.run(_watched)
    yield lambda: sum(client.run(_seen).values())
    client.run(_left_alone)


def _watched():
    from mercer.engine.torch import engine, steps

    counted = {(engine, name) for name in ("symmetric_times", "values", "matrix")}
    counted = {(at, name): getattr(at, name) for at, name in counted | {(steps, "squared")}}
    engine.trial = counted, []
    for (at, name), function in counted.items():

        def called(*args, function=function, **kwargs):
            engine.trial[1].append(1)
            return function(*args, **kwargs)

        setattr(at, name, called)


def _seen():
    from mercer.engine.torch import engine

    found = len(engine.trial[1])
    engine.trial[1].clear()
    return found


def _left_alone():
    from mercer.engine.torch import engine

    for (at, name), function in engine.trial[0].items():
        setattr(at, name, function)
    del engine.trial


# ── the same model ──────────────────────────────────────────────────────────
MODELS = {
    "exact": KernelPCA(3, kernel=RBF(0.3), solver="krylov"),
    "laplacian": KernelPCA(3, kernel="laplacian", solver=BlockKrylov(tol=1e-9)),
    "lapack": KernelPCA(3, kernel=RBF(0.3), solver="lapack"),
    "nystrom": KernelPCA(3, kernel="matern", approximation=Nystrom(30)),
    "rpcholesky": KernelPCA(3, kernel=RBF(0.3), approximation=RPCholesky(40)),
    "refined": KernelPCA(3, kernel=RBF(0.3), approximation=Nystrom(40, refine=2)),
}


@pytest.mark.usefixtures("many_tiles")
@pytest.mark.parametrize(
    ("dtype", "weights", "chunks"), [("f8", None, None), ("f4", WEIGHTS, None), ("f8", None, 150)]
)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_is_the_same_on_devices_of_workers(  # noqa: PLR0917
    engine, made, name, dtype, weights, chunks
):
    data = X.astype(dtype)
    reference = clone(MODELS[name]).set_params(engine="numpy").fit(data, sample_weight=weights)
    given = data if chunks is None else da.from_array(data, chunks=(chunks, 4))
    found = clone(MODELS[name]).set_params(engine=engine).fit(given, sample_weight=weights)
    assert made() > 0
    assert found.plan_.engine == f"dask:{CPU}"
    assert str(found.plan_).partition("\n")[0].count(f"by dask:{CPU}") == 1
    top = reference.eigenvalues_[0]
    near = 1e-8 if dtype == "f8" else 1e-5
    np.testing.assert_allclose(found.eigenvalues_, reference.eigenvalues_, atol=near * top)
    expected, scores = reference.transform(data), found.transform(data)
    assert made() > 0
    scores = scores * np.sign(np.sum(scores * expected, axis=0))
    off = 1e-5 if dtype == "f8" else 1e-3
    np.testing.assert_allclose(scores, expected, atol=off * np.abs(expected).max())


@pytest.mark.usefixtures("many_tiles")
def test_the_same_bits_twice(engine, client):
    other = DaskEngine(client, least=0, device=CPU)
    for name in ("exact", "nystrom"):
        first, again = (clone(MODELS[name]).set_params(engine=e).fit(X) for e in (engine, other))
        np.testing.assert_array_equal(first.eigenvalues_, again.eigenvalues_)
        np.testing.assert_array_equal(first.transform(X), again.transform(X))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
@pytest.mark.parametrize("width", [None, 64])
def test_products_are_those_of_one_process(engine, made, dtype, width):
    kernel, local = RBF(0.3), TorchEngine(CPU)
    expected = local.gram_times(kernel, local.load(X, kernel, dtype, width=width), V)
    loaded = engine.load(X, kernel, dtype, width=width)
    found = engine.gram_times(kernel, loaded, V)
    assert made() > 0
    assert np.all(np.abs(found - expected) <= room(kernel, X, V, float(np.finfo(dtype).eps)))
    np.testing.assert_array_equal(engine.gram_times(kernel, loaded, V), found)


def test_squares_of_sections_are_made_on_devices(engine, made):
    step = SquareSections(RBF(0.3), X[:20], FLOAT64, FLOAT64, WEIGHTS, RBF(0.3).tile_diag, engine)
    found = engine.fold(X, step, width=20)
    assert made() > 0
    local = NumpyEngine(1)
    expected = local.fold(X, replace(step, engine=local), width=20)
    np.testing.assert_allclose(found.moments.scatter, expected.moments.scatter, atol=1e-10)
    np.testing.assert_allclose(found.moments.mean, expected.moments.mean, atol=1e-13)


def test_passes_of_other_steps_are_those_of_processors(engine):
    found, expected = (PCA(2, engine=e).fit(X) for e in (engine, "numpy"))
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_)


# ── what is asked of workers ────────────────────────────────────────────────
def test_facts_are_those_of_devices(engine):
    facts = engine.facts()
    one = TorchEngine(CPU).facts()
    assert (facts.name, facts.cache_bytes) == (f"dask:{CPU}", one.cache_bytes)
    assert (facts.lanes, facts.workers.lanes) == (engine.here.facts().lanes,) * 2
    assert (facts.workers.count, facts.workers.devices) == (2, True)
    assert 0 < facts.free_bytes <= one.free_bytes  # both have a part of one
    assert facts.halves is None


def test_devices_that_workers_share_are_counted_once():
    own = There("a", 100, 80, False)
    assert tasks.free_bytes([own, replace(own, key="b")]) == 80
    assert tasks.free_bytes([own, own]) == 40
    assert tasks.free_bytes([own, own, replace(own, key="b", free_bytes=30)]) == 30


def test_tiles_of_unlike_devices_are_cut_alike(engine, monkeypatch):
    """By the one with the least memory, whatever each would choose for itself."""
    cuts, submit = [], work.Work.submit

    def submitted(self, part, function, *args, **kwargs):
        cuts.extend(each for each in args if isinstance(each, tasks.Cut))
        return submit(self, part, function, *args, **kwargs)

    monkeypatch.setattr(work.Work, "submit", submitted)
    known = engine.cluster.workers()
    small = next(iter(known))
    there = replace(known[small].there, total_bytes=16 * 4 * 8 * 100**2)
    engine.cluster._known[small] = replace(known[small], there=there)
    found = engine.gram_times(RBF(0.3), engine.load(X, RBF(0.3), FLOAT64), V)
    assert [cut.width for cut in cuts] == [100, 100]
    assert np.all(np.abs(found - RBF(0.3)(X) @ V) <= room(RBF(0.3), X, V))


def test_a_plan_has_tiles_for_each_device():
    """About eight for each, in its part of the budget."""
    whole = problem.Problem(
        n=100_000, d=10, n_components=5, cache_bytes=8192**2 * 8, elsewhere=True
    )
    dealt = replace(whole, workers=16, devices=True)
    assert planned_bytes.tile_width(whole, 8) == 8192
    assert planned_bytes.tile_width(dealt, 8) == 100_000 // 16
    tight = replace(dealt, budget_bytes=16 * 4 * 6 * 8 * 1500**2)
    assert planned_bytes.tile_width(tight, 8) == 1500
    assert planned_bytes.live_tiles_bytes(tight) > 16 * 6 * 8 * 1500**2


# ── names and refusals ──────────────────────────────────────────────────────
def test_a_name_is_the_client_in_force(client):
    found = resolve_engine(f" DASK:{CPU} ")
    assert (found.client, found.device) == (client, CPU)
    assert found is resolve_engine(f"dask:{CPU}")
    assert found is not resolve_engine("dask")
    there = resolve_engine(f"dask:{CPU}@{client.scheduler.address}")
    assert (there.facts().name, there.facts().workers.count) == (f"dask:{CPU}", 2)
    with pytest.raises(InputError, match=r"dask:cuda@tcp://host:8786"):
        resolve_engine("dask:cuda@")
    assert isinstance(pickle.loads(pickle.dumps(found)), NumpyEngine)


@pytest.mark.parametrize("name", ["gpu", "cuda:0,cuda:1", "cpu", ""])
def test_a_device_has_a_name(client, name):
    with pytest.raises(InputError, match=r"^device must be 'cuda', .*; got '"):
        DaskEngine(client, device=name)


@NO_GPU
def test_a_worker_without_the_device_is_named_before_anything_is_sent(client, monkeypatch):
    sent = []
    monkeypatch.setattr(Client, "scatter", lambda *args, **_: sent.append(args))
    engine = DaskEngine(client, least=0, device="cuda")
    with pytest.raises(ClusterError, match=r"^Worker tcp://\S+ has no device 'cuda' \(.+\): ") as e:
        KernelPCA(2, kernel=RBF(0.3), engine=engine).fit(X)
    assert str(e.value).count(". ") == 0
    with pytest.raises(ClusterError, match="leave `device` out"):
        engine.gram_times(RBF(0.3), engine.load(X, RBF(0.3), FLOAT64), V)
    assert not sent


def test_a_worker_without_torch_says_so(monkeypatch):
    monkeypatch.setitem(place.sys.modules, "torch", None)
    monkeypatch.setattr(place, "find_spec", lambda _: None)
    assert "torch is not installed" in place.there("cuda")


@NO_GPU
def test_a_worker_that_joins_without_the_device_is_told():
    with pytest.raises(MercerError, match=r"one that has joined since can't use it .*Fit again"):
        tasks.Local("numpy", 1, "cuda").engine()


@pytest.mark.parametrize("name", ["gp", "points", "matern-0.8"])
def test_kernels_without_a_formula_are_refused(engine, name):
    with pytest.raises(InputError, match=f"engine='dask:{CPU}' can't run .*engine='numpy'"):
        KernelPCA(2, kernel=VALID[name], engine=engine).fit(X)


def test_a_part_is_not_narrowed_by_itself(monkeypatch):
    """It would not be the rest of the other parts."""

    def no_memory(*_, **__):
        msg = "not enough memory: you tried to allocate 1 byte"
        raise RuntimeError(msg)

    monkeypatch.setattr("mercer.engine.torch.engine.symmetric_times", no_memory)
    cut = tasks.Cut(RBF(0.3), FLOAT64, 128, store=NOTHING_KEPT)
    part = tasks.TilePart(cut, (0, 2), tasks.Local("numpy", 1, CPU), X)
    with pytest.raises(
        MemoryBudgetError, match=r"ran out of memory at tiles of 128 .*smaller `memory`"
    ):
        part.times(V, FLOAT64, rough=False)


@pytest.mark.usefixtures("many_tiles")
def test_memory_is_that_of_all_workers(engine):
    model = KernelPCA(2, kernel=RBF(0.3), engine=engine, memory={"dask": "100kB"})
    with pytest.raises(MemoryBudgetError, match="if workers and their devices have it"):
        model.fit(X)
    assert model.set_params(memory={"dask": "1GB"}).fit(X).plan_.engine == f"dask:{CPU}"


# ── values out of range ─────────────────────────────────────────────────────
@pytest.mark.parametrize("where", ["array", "chunks"])
@pytest.mark.parametrize("alike", [True, False])
def test_rows_out_of_range_are_those_of_processors(engine, made, where, alike):
    """On all workers by the same tiles, whoever has compiled ones, so that their parts fit together."""
    data = X.copy()
    data[5] *= 1e13
    kernel, known = RBF(0.3), engine.cluster.workers()
    if not alike:
        first = next(iter(known))
        engine.cluster._known[first] = replace(known[first], tiles="others")
    loaded = engine.load(engine.settle(_rows(data, where)), kernel, FLOAT64, width=64)
    found = engine.gram_times(kernel, loaded, V)
    assert alike or loaded.local.tiles == "numpy"
    assert type(loaded.local.engine().here) is type(loaded.local.host())
    assert made() == 0
    assert np.all(np.abs(found - kernel(data) @ V) <= room(kernel, data, V))


def _rows(data, where):
    from mercer.data.dask import DaskRows

    return data if where == "array" else DaskRows(da.from_array(data, chunks=(150, 4)))


def test_a_plan_says_whose_tiles_are_made(engine):
    data = X.copy()
    data[5] *= 1e13
    model = KernelPCA(2, kernel=RBF(0.3), engine=engine)
    told = model.plan(data)
    assert told.engine == "dask"
    assert f"tiles of dask:{CPU} take rows of" in told.reasons[-1]
    assert model.plan(X).engine == f"dask:{CPU}"


def test_values_that_overflow_in_one_part_are_made_anew_in_all(engine, made, client):
    """Tiles of processors are cut otherwise: none of theirs is the rest of a device's."""
    kernel = RBF(0.3)
    client.run(_overflowing)  # `made` puts it right
    loaded = engine.load(X, kernel, FLOAT64, width=64)
    found = engine.gram_times(kernel, loaded, V)
    assert loaded.local.device is None
    assert np.all(np.abs(found - kernel(X) @ V) <= room(kernel, X, V))
    made()
    np.testing.assert_array_equal(engine.gram_times(kernel, loaded, V), found)
    assert made() == 0  # devices are not asked again


def test_no_half_floats_where_processors_had_to_make_tiles(engine, made, client):
    del made  # which puts right what follows
    client.run(_overflowing)
    loaded = engine.load(X, RBF(0.3), FLOAT64, width=64, store=halves_store(two=False))
    for rough in (False, True):
        found = engine.gram_times(RBF(0.3), loaded, V, rough=rough)
        assert np.all(np.abs(found - (RBF(0.3)(X) - 0.1) @ V) <= room(RBF(0.3), X, V))


def _overflowing():
    from mercer.engine.torch import engine

    make = engine.symmetric_times

    def overflowing(rows, v, *, rough):
        return make(rows, v, rough=rough) * (np.inf if rows.part == (1, 2) else 1.0)

    engine.symmetric_times = overflowing


# ── products of half floats ─────────────────────────────────────────────────
@pytest.fixture
def halved(monkeypatch):
    """Two workers in this process, with NumPy in place of Triton, which runs one program at a time."""
    in_place_of_triton(monkeypatch)
    lock, make = threading.Lock(), tasks.share_of_halves

    def in_turn(*args, **kwargs):
        with lock:
            return make(*args, **kwargs)

    monkeypatch.setattr(tasks, "share_of_halves", in_turn)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        yield DaskEngine(client, least=0, device=CPU)


def halves_store(two):
    return TileStore(minus=0.1, rounding=Rounding(halves=1 + two))


def test_rows_of_a_product_of_half_floats(halved, rng, monkeypatch):
    """As a plain pass over all rows has them, but for the order of sums."""
    data, v = rng.standard_normal((700, 40)) / (1.0 + np.arange(40)), rng.standard_normal((700, 3))
    local, tiles = TorchEngine(CPU, fused=None), []
    monkeypatch.setattr(DaskEngine, "_gram_times", lambda *args, **_: tiles.append(args))
    for name in ("rbf", "poly2"):
        kernel = VALID[name]
        loaded, whole = (
            e.load(data, kernel, FLOAT64, width=64, store=halves_store(two=True))
            for e in (halved, local)
        )
        for rough in (True, False):
            found = halved.gram_times(kernel, loaded, v, rough=rough)
            alone = local.gram_times(kernel, whole, v, rough=rough)
            scale = np.abs(kernel(data)).max() * np.abs(v).sum(axis=0)
            # An entry between two half floats is rounded to either, by the last bit of its float32.
            border = 2.0**-10 * np.abs(kernel(data)).max() * np.abs(v).max(axis=0) if rough else 0.0
            assert np.all(np.abs(found - alone) <= 1e-6 * scale + border)
            off = np.abs(found - (kernel(data) - 0.1) @ v)
            assert np.all(off <= (6e-3 if rough else 3e-6) * scale)
            assert off.max() > 1e-12 * scale.max()  # no tiles
            again = halved.gram_times(kernel, loaded, v, rough=rough)
            np.testing.assert_array_equal(found, again)
    assert not tiles


def test_passes_that_fail_are_tiles_on_all_workers(halved, monkeypatch):
    def broken(*_, **__):
        msg = "no compiler was found"
        raise RuntimeError(msg)

    monkeypatch.setattr("mercer.engine.torch.fused.fused_times", broken)
    kernel = RBF(0.3)
    loaded = halved.load(X, kernel, FLOAT64, width=64, store=halves_store(two=True))
    with pytest.warns(EngineWarning, match="makes no products of half floats here.*no compiler"):
        found = halved.gram_times(kernel, loaded, V, rough=True)
    assert np.all(np.abs(found - (kernel(X) - 0.1) @ V) <= room(kernel, X, V))
    np.testing.assert_array_equal(halved.gram_times(kernel, loaded, V, rough=True), found)


@pytest.mark.filterwarnings("error")
def test_why_there_are_no_half_floats_travels(engine):
    """Triton has no passes for the processor: the first product says so, and the next does not try."""
    kernel = RBF(0.3)
    loaded = engine.load(X, kernel, FLOAT64, width=64, store=halves_store(two=True))
    with pytest.warns(EngineWarning, match=f"^dask:{CPU} makes no products of half floats"):
        found = engine.gram_times(kernel, loaded, V)
    assert np.all(np.abs(found - (kernel(X) - 0.1) @ V) <= room(kernel, X, V))
    np.testing.assert_array_equal(engine.gram_times(kernel, loaded, V), found)


def test_short_products_are_those_of_this_process(client):
    """Which has no half floats, whatever a store says."""
    engine, kernel = DaskEngine(client, device=CPU), RBF(0.3)
    loaded = engine.load(X, kernel, FLOAT64, width=64, store=halves_store(two=True))
    for rough in (True, False):
        found = engine.gram_times(kernel, loaded, V, rough=rough)
        assert np.all(np.abs(found - (kernel(X) - 0.1) @ V) <= room(kernel, X, V))


def test_half_floats_are_planned_where_all_devices_have_them(many_tiles, halved, monkeypatch):
    """By a fit that makes them, of rows that are worth a trip."""
    del many_tiles
    monkeypatch.setattr(type(halved.cluster), "workers", _with_tensor_cores(type(halved.cluster)))
    facts = halved.facts()
    assert [facts.halves(VALID[name]) for name in ("rbf", "laplacian")] == [2, 0]
    model = KernelPCA(2, kernel=RBF(0.3), solver="krylov", engine=halved).fit(X)
    assert "K in products of half floats" in str(model.plan_)
    assert "2 workers, each with all rows" in model.plan_.reasons[-1]
    assert "some rows of a product" in model.plan_.reasons[-1]
    reference = KernelPCA(2, kernel=RBF(0.3), solver="krylov", engine="numpy").fit(X)
    top = reference.eigenvalues_[0]
    np.testing.assert_allclose(model.eigenvalues_, reference.eigenvalues_, atol=1e-5 * top)
    short = DaskEngine(halved.client, device=CPU)
    assert "half floats" not in str(KernelPCA(2, kernel=RBF(0.3), engine=short).plan(X))


def _with_tensor_cores(cluster):
    ask = cluster.workers

    def workers(self):
        found = ask(self)
        return {
            a: replace(w, there=replace(w.there, has_tensor_cores=True)) for a, w in found.items()
        }

    return workers
