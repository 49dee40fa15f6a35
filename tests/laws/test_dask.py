"""The laws of engines on a cluster of two workers, and what only a cluster can get wrong."""

import copy
import gc
import os
import pickle
import threading
import time
import tracemalloc
import weakref
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client

from laws.test_engines import (  # noqa: F401
    Doubled,
    placed,
    test_a_step_may_travel,
    test_fold_merges_in_the_order_of_the_rows,
    test_gram_times_is_symmetric,
    test_gram_times_is_the_dense_product,
    test_kept_tiles_change_no_bit,
    test_map_keeps_the_order_of_the_rows,
    test_passes_over_loaded_rows,
    test_rough_products_are_off_by_their_rounding_alone,
    test_rows_may_be_anywhere,
    test_times_is_the_dense_product,
    x,
)
from markets.clusters import small_cluster
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from markets.routes import ROUTES
from mercer import PCA, KernelPCA, load
from mercer._core.errors import InputError, MercerError, MercerWarning
from mercer.approximations import Nystrom
from mercer.approximations.landmarks import checked_lengths
from mercer.data.dask import DaskRows
from mercer.engine.base import FLOAT64
from mercer.engine.dask import DaskEngine, tasks, work
from mercer.engine.dask.work import Parcel
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import resolve_engine
from mercer.engine.steps import ExplainSections, SquareSections
from mercer.kernels import RBF, Polynomial
from mercer.planning import krylov, plan, problem
from mercer.solvers import BlockKrylov

# With a compiled form and without, functions of the user's, one of histograms, one that is none.
NAMES = ("rbf", "poly2", "matern-0.8", "gp", "points", "product", "chi2", "sigmoid")
KERNELS = {name: (VALID | HISTOGRAM | INDEFINITE)[name] for name in NAMES}


@pytest.fixture(scope="module")
def client():
    with small_cluster() as client:
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, least=0)


@pytest.fixture(params=sorted(KERNELS))
def kernel(request):
    return KERNELS[request.param]


# ── the same model ──────────────────────────────────────────────────────────
N = 700
X = np.random.default_rng(0).standard_normal((N, 4)) / [1.0, 2.0, 3.0, 4.0]
CHUNKS = {
    "even": ((100,) * 7, (4,)),
    "uneven": ((3, 500, 197), (1, 3)),
    "empty": ((0, 350, 0, 350, 0), (4,)),
    "single rows": ((1, 1, 697, 1), (2, 2)),
}
ROWS = da.from_array(X, chunks=CHUNKS["even"])
MODELS = {**ROUTES, "pca": PCA(2)}
WEIGHTS = np.random.default_rng(1).uniform(0.5, 3.0, N)


SHARED = ("exact", "share", "median")


@pytest.fixture
def no_k_is_held(monkeypatch):
    """Of so few rows one worker would make K, and all else would be done here."""
    for module in (krylov, plan, problem):
        monkeypatch.setattr(module, "SMALL_ROWS", 50)


@pytest.fixture
def products(no_k_is_held, monkeypatch):  # noqa: ARG001
    """Those that workers share, as they are made."""
    calls, product = [], DaskEngine._gram_times
    monkeypatch.setattr(
        DaskEngine, "_gram_times", lambda *a, **k: calls.append(a) or product(*a, **k)
    )
    return calls


def up_to_signs(found, expected):
    """Axes of explicit features have signs of their own when rows are read block by block."""
    return found * np.sign(np.sum(found * expected, axis=0))


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize(
    ("chunks", "dtype", "weights"),
    [
        ("uneven", "f8", None),
        ("empty", "f8", WEIGHTS),
        ("single rows", "f4", None),
        (None, "f8", WEIGHTS),
    ],
)
def test_a_model_is_the_same_on_a_cluster(  # noqa: PLR0917
    engine, name, chunks, dtype, weights, products
):
    data = X.astype(dtype)
    expected = clone(MODELS[name]).fit(data, sample_weight=weights)
    products.clear()
    given = data if chunks is None else da.from_array(data, chunks=CHUNKS[chunks])
    found = clone(MODELS[name]).set_params(engine=engine).fit(given, sample_weight=weights)
    assert name not in SHARED or len(products) > 2
    top = expected.eigenvalues_[0]
    room = 1e-10 if dtype == "f8" else 1e-5
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, atol=room * top)
    reference = expected.transform(data)
    scores = up_to_signs(found.transform(data), reference)
    near = 1e-6 if dtype == "f8" else 1e-3
    np.testing.assert_allclose(scores, reference, atol=near * np.abs(reference).max())


@pytest.mark.usefixtures("no_k_is_held")
def test_results_depend_on_no_timing(engine, client):
    """The same bits from cluster to cluster of as many workers, and from fit to fit."""
    model = KernelPCA(3, kernel=RBF(0.3), solver=BlockKrylov(tol=1e-9), engine=engine)
    first, second = (clone(model).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.eigenvectors_, second.eigenvectors_)
    rows = engine.load(X, RBF(0.3), FLOAT64, width=48)
    v = np.random.default_rng(0).standard_normal((N, 4))
    products = [engine.gram_times(RBF(0.3), rows, v)]
    busy = client.submit(time.sleep, 0.3, workers=[next(iter(client.nthreads()))])
    products.append(engine.gram_times(RBF(0.3), rows, v))
    np.testing.assert_array_equal(*products)
    busy.release()


@dataclass(frozen=True)
class Astray:
    """How many of the arrays of a step and of its blocks are not aligned; its sums are checked, too."""

    weights: np.ndarray
    name: str
    total: float = 0.0

    def __call__(self, rows, place):
        del place
        arrays = [rows.data, rows.indices, rows.indptr] if sparse.issparse(rows) else [rows]
        return replace(self, total=sum(not a.flags.aligned for a in [*arrays, self.weights]))

    def merged(self, other):
        astray = sum(not each.weights.flags.aligned for each in (self, other))
        return replace(self, total=self.total + other.total + astray)


@pytest.mark.parametrize("name", ["array", "CSR", "chunks"])
@pytest.mark.parametrize("n", [60, 5000, 30_000])
def test_arrays_arrive_aligned(client, engine, rng, n, name):
    """Whatever else is on the line: NumPy multiplies others without BLAS, to other bits."""
    rows = rng.standard_normal((n, 4))
    rows = {
        "array": rows,
        "CSR": sparse.csr_array(rows),
        "chunks": DaskRows(da.from_array(rows, (777, 3))),
    }
    noise = [client.submit(len, b"x" * (37 * i + 1), pure=False) for i in range(20)]
    found = engine.fold(rows[name], Astray(rng.random(n), "x" * (n % 7)))
    assert found.total == 0
    assert found.weights.flags.aligned
    del noise


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 600)], ids=["alike", "weights"])
def test_squares_of_a_share_are_compiled_where_tiles_are(weights):
    """Engines know the step by its kind, and sum up by products of their own."""
    lengths = partial(checked_lengths, RBF(0.3))
    double = np.dtype("f8")
    step = SquareSections(RBF(0.3), X[:50], double, double, weights, lengths, NumpyEngine())
    found = tasks.placed(step, 200)
    assert isinstance(found, SquareSections)
    share, place = X[200:300], slice(0, 100)
    again, by_place = found(share, place), tasks.Placed(step, 200)(share, place)
    np.testing.assert_array_equal(again.moments.scatter, by_place.moments.scatter)
    np.testing.assert_array_equal(again.moments.mean, by_place.moments.mean)
    assert again.trace == by_place.trace


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 600)], ids=["alike", "weights"])
def test_rounds_of_a_share_are_compiled_where_tiles_are(weights):
    fresh = np.triu(np.random.default_rng(3).standard_normal((50, 50)))[:, 20:]
    step = ExplainSections(RBF(0.3), X[:50], fresh, weights, NumpyEngine())
    found = tasks.placed(step, 200)
    assert isinstance(found, ExplainSections)
    share, place = X[200:300], slice(0, 100)
    again, by_place = found(share, place), tasks.Placed(step, 200)(share, place)
    np.testing.assert_array_equal(again.rows, by_place.rows)
    np.testing.assert_array_equal(again.energies, by_place.energies)


@pytest.mark.parametrize("offset", range(8))
def test_a_parcel_is_opened_aligned(offset, rng):
    """Its buffers may begin at any byte of a message."""
    things = {
        "x": rng.standard_normal((7, 3)),
        "none": np.empty((0, 3)),
        "K": np.arange(5, dtype=">i4"),
    }
    buffers = []
    data = pickle.dumps(Parcel(things), protocol=5, buffer_callback=buffers.append)
    shifted = [memoryview(bytes(offset) + bytes(each.raw()))[offset:] for each in buffers]
    found = pickle.loads(data, buffers=shifted).thing
    for name, thing in things.items():
        assert found[name].flags.aligned
        np.testing.assert_array_equal(found[name], thing)


def test_what_all_workers_need_may_be_handed_on(engine, monkeypatch):
    kernel, v = (
        RBF(0.3),
        np.random.default_rng(0).standard_normal((N, 20)),
    )  # too large to go with tasks
    products = []
    for many in (2, 3):
        monkeypatch.setattr(work, "MANY_WORKERS", many)
        rows = engine.load(X.copy(), kernel, FLOAT64, width=48)
        products.append(engine.gram_times(kernel, rows, v))
    np.testing.assert_array_equal(*products)


def test_small_work_stays_here_and_gives_the_same(client):
    here = DaskEngine(client)
    rows = here.load(X, RBF(0.3), FLOAT64, width=48)
    v = np.ones((N, 2))
    np.testing.assert_array_equal(
        here.gram_times(RBF(0.3), rows, v),
        resolve_engine("auto").gram_times(
            RBF(0.3), resolve_engine("auto").load(X, RBF(0.3), FLOAT64, width=48), v
        ),
    )
    assert rows.parts is None


def test_an_array_that_was_changed_is_sent_again(engine):
    data = X.copy()
    np.testing.assert_array_equal(engine.map(data, Doubled()), 2.0 * X)
    data[5] += 1.0
    np.testing.assert_array_equal(engine.map(data, Doubled()), 2.0 * data)


def test_values_out_of_the_range_of_compiled_tiles_are_numpys(engine):
    """One part may be out of range and another not, and the tiles of NumPy are others: all of them are."""
    data = X.copy()
    data[0] *= 1e5
    kernel = Polynomial(30, gamma=1.0)
    v = np.random.default_rng(0).standard_normal((N, 2))
    local = NumpyEngine(1)
    expected = local.gram_times(kernel, local.load(data, kernel, FLOAT64, width=64), v)
    with np.errstate(over="ignore", invalid="ignore"):
        found = engine.gram_times(kernel, engine.load(data, kernel, FLOAT64, width=64), v)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# ── rows on workers ─────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["exact", "nystrom", "pca"])
def test_rows_of_workers_are_not_gathered(engine, name):
    """Some hundreds of them come here, for probes and proofs; all of them would take at least their size."""
    n, d = (3100, 1600) if name == "exact" else (30_000, 150)
    rows = da.random.default_rng(0).standard_normal((n, d), chunks=(n // 20, d))
    models = {
        "exact": KernelPCA(
            2, kernel=RBF(0.001), solver=BlockKrylov(tol=0.1, block=4, max_basis=24)
        ),
        "nystrom": KernelPCA(2, kernel=RBF(0.01), approximation=Nystrom(20)),
        "pca": PCA(2),
    }
    model = models[name].set_params(engine=engine)
    tracemalloc.start()
    try:
        model.fit(rows)
        model.transform(rows)  # lazy
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A few copies of those hundreds, and what is being sent, depend on timing; all rows are one size more.
    assert peak < 0.8 * n * d * 8, f"{peak / 1e6:.0f} MB"


def test_lazy_scores_are_never_those_of_another_model(client):
    """Dask knows tasks by their names: two models that live one after the other share none."""
    rows, names = da.from_array(X, chunks=CHUNKS["uneven"]), set()
    for gamma in np.linspace(0.1, 1.0, 20):
        model = KernelPCA(2, kernel=RBF(gamma), approximation=Nystrom(20), engine=client).fit(X)
        names.update(str(key) for key in model.transform(rows).dask if "mercer-scores" in str(key))
    assert len(names) == 20 * len(CHUNKS["uneven"][0])


@pytest.mark.parametrize("name", ["exact", "nystrom", "map"])
@pytest.mark.parametrize("on_cluster", [True, False])
def test_transform_of_a_collection_is_lazy(client, name, on_cluster):
    """A dask array of the same rows, computed by any scheduler of dask's."""
    engine = client if on_cluster else "auto"
    rows = da.from_array(X, chunks=CHUNKS["uneven"])
    model = clone(MODELS[name]).set_params(engine=engine).fit(rows)
    lazy = model.transform(rows)
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (N, model.n_components_)
    assert lazy.dtype == np.float64
    np.testing.assert_allclose(lazy.compute(), model.transform(X), atol=1e-10)
    both = clone(model).fit_transform(rows)
    assert isinstance(both, da.Array)
    np.testing.assert_allclose(both.compute(), lazy.compute(), atol=1e-8)


def test_columns_of_parquet_files_are_rows(client, tmp_path):
    """Of which Dask reads several at a time when it counts, and one at a time when it computes."""
    frame = pd.DataFrame(X, columns=list("abcd"))
    for name in "efghijkl":
        frame[name] = 0.0
    for i in range(6):
        frame[100 * i : 100 * i + 100].to_parquet(tmp_path / f"{i}.parquet")
    rows = dd.read_parquet(tmp_path)[["b", "d"]]
    expected = KernelPCA(2, kernel=RBF(0.3)).fit(X[:600, [1, 3]]).eigenvalues_
    for engine in (client, "auto"):
        found = KernelPCA(2, kernel=RBF(0.3), engine=engine).fit(rows)
        np.testing.assert_allclose(found.eigenvalues_, expected, rtol=1e-10)


def _fitted_there(rows):
    from distributed import get_client

    model = KernelPCA(2, kernel=RBF(0.3), engine=DaskEngine(get_client(), least=0))
    return model.fit(rows).eigenvalues_


def test_a_fit_within_a_task_leaves_its_thread_to_others(client):
    """As many of them as there are threads: each waits for tasks of its own."""
    tasks = [client.submit(_fitted_there, X[: 200 + i], pure=False) for i in range(2)]
    for i, found in enumerate(client.gather(tasks)):
        expected = KernelPCA(2, kernel=RBF(0.3)).fit(X[: 200 + i]).eigenvalues_
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_kernel_that_can_not_be_sent_is_told(engine):
    lock = threading.Lock()

    def kernel(one, other):
        with lock:
            return float(np.exp(-np.sum((one - other) ** 2)))

    with pytest.raises(InputError, match=r"can't be sent to the workers.*locks"):
        KernelPCA(2, kernel=kernel, engine=engine).fit(X[:60])


@pytest.mark.usefixtures("client")
def test_data_frames_are_rows():
    frame = pd.DataFrame(X, columns=list("abcd"))
    rows = dd.from_pandas(frame, npartitions=3)
    model = KernelPCA(3, kernel=RBF(0.3), engine="dask").fit(rows)
    assert list(model.feature_names_in_) == list("abcd")
    expected = KernelPCA(3, kernel=RBF(0.3)).fit(frame)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    more = rows.assign(note="text")[["note", "d", "c", "b", "a"]]
    np.testing.assert_allclose(
        model.transform(more).compute(), expected.transform(frame), atol=1e-10
    )


def _whose(partition):
    return pd.DataFrame({"process": [float(os.getpid())] * 40, "row": np.arange(40.0) + partition})


def test_partitions_are_computed_on_the_cluster_of_the_engine(client):
    """Also where that is not the one in force: they may be larger than this process."""
    with (
        Client(client.scheduler.address, set_as_default=False) as other,
        dask.config.set(scheduler="sync"),
    ):
        model = KernelPCA(1, kernel=RBF(0.3), engine=other)
        model.fit(dd.from_map(_whose, range(5)))
        points = model.fit_.projection.sections.points
        assert model.n_features_in_ == 2
        assert os.getpid() not in points[:][:, 0]


def test_files_are_read_by_workers(engine, tmp_path):
    np.save(tmp_path / "x.npy", X)
    for model in (MODELS["exact"], MODELS["rpcholesky"]):
        found = clone(model).set_params(engine=engine).fit(tmp_path / "x.npy")
        assert isinstance(found.fit_.projection.sections.engine, DaskEngine)
        np.testing.assert_allclose(found.eigenvalues_, clone(model).fit(X).eigenvalues_, rtol=1e-10)


def test_kernels_look_at_rows_where_they_are(engine):
    with pytest.raises(InputError, match=r"Negative values.*histograms"):
        KernelPCA(2, kernel="chi2", approximation=Nystrom(20), engine=engine).fit(ROWS)


def test_pre_images_of_rows_on_workers(client):
    """Ridge takes some rows; a search would read all of them in each step, unless it rests on landmarks."""
    rows = ROWS[:150]
    model = KernelPCA(3, kernel=RBF(0.3), solver="krylov", preimage="ridge", engine=client)
    expected = clone(model).set_params(engine="auto").fit(X[:150])
    found = model.fit(rows).inverse_transform(expected.transform(X[:20]))
    np.testing.assert_allclose(found, expected.reconstruct(X[:20]), atol=1e-4)
    model.set_params(preimage="fixed-point")
    with pytest.raises(InputError, match=r"all training rows in each of its steps.*'ridge'"):
        model.fit(rows)
    model.set_params(approximation=Nystrom(20)).fit(rows)


def test_more_columns_than_rows_are_not_gathered(engine):
    wide = da.from_array(X[:40].T.copy(), chunks=(2, 40))
    with pytest.raises(InputError, match=r"no more columns.*KernelPCA\(kernel='linear'\)"):
        PCA(2, engine=engine).fit(wide)
    found = KernelPCA(2, kernel="linear", engine=engine).fit(wide)
    expected = PCA(2).fit(X[:40].T)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)


def test_a_checkpoint_of_an_array_is_one_of_the_collection(engine, tmp_path):
    model = KernelPCA(2, kernel=RBF(0.3), solver="krylov", checkpoint=tmp_path / "fit.ckpt")
    model.set_params(engine=engine)
    first = model.fit(ROWS).eigenvalues_
    np.testing.assert_allclose(model.fit(X).eigenvalues_, first, rtol=1e-10)


# ── a client as a parameter ─────────────────────────────────────────────────
def test_a_client_is_an_engine(client, tmp_path):
    """Clones share it; a pickle and a file do without."""
    model = KernelPCA(3, kernel=RBF(0.3), engine=client)
    assert clone(model).engine is client
    model.fit(da.from_array(X, chunks=(200, 4)))
    assert model.plan_.engine == "dask"
    model.save(tmp_path / "model.mercer")
    expected = model.transform(X)
    for again in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model.mercer")):
        assert again.engine == "auto"
        np.testing.assert_allclose(again.transform(X), expected, atol=1e-10)


def test_one_engine_a_client(client):
    address = client.scheduler.address
    assert resolve_engine(client) is resolve_engine("dask") is resolve_engine(client)
    by_address = resolve_engine(f"dask:{address}")
    assert resolve_engine(f" DASK:{address}") is by_address
    there = by_address.facts().workers
    assert (there.count, there.lanes) == (2, 2)
    by_address.client.close()
    assert resolve_engine(f"dask:{address}") is not by_address
    resolve_engine(f"dask:{address}").client.close()


def test_a_copy_is_on_the_same_cluster(engine):
    """A pickle is not: it is read in another process."""
    assert copy.copy(engine) is copy.deepcopy(engine) is engine
    assert not isinstance(pickle.loads(pickle.dumps(engine)), DaskEngine)


def test_a_client_is_let_go():
    """With its engine, and the rows that it has sent."""
    with small_cluster(n_workers=1) as client:
        engine = weakref.ref(resolve_engine(client))
    del client
    gc.collect()
    assert engine() is None


@pytest.mark.parametrize("rows", ["array", "chunks"])
def test_a_model_outlives_its_client(rows, tmp_path):
    """It answers from its own process then, and says so; a fit is refused."""
    with small_cluster(n_workers=1) as client:
        # A search looks at all rows in each of its steps, and chunks are not gathered for it.
        given, preimage = (X, "fixed-point") if rows == "array" else (ROWS, "ridge")
        engine = DaskEngine(client, least=0)
        model = KernelPCA(3, kernel=RBF(0.3), engine=engine, preimage=preimage).fit(given)
        expected = model.transform(X)
        back = model.inverse_transform(expected[:4])
    with pytest.warns(MercerWarning, match="client .* is closed: it computes in this process"):
        found = model.transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    with pytest.warns(MercerWarning, match="it computes in this process"):
        np.testing.assert_allclose(model.inverse_transform(expected[:4]), back, atol=1e-6)
    model.save(tmp_path / "model.mercer")
    np.testing.assert_allclose(load(tmp_path / "model.mercer").transform(X), expected, atol=1e-10)
    with pytest.raises(MercerError, match=r"client is closed. Open a new one"):
        model.fit(X)


def test_little_work_is_planned_for_this_process(client):
    assert "so little work stays in this process" in str(KernelPCA(2, engine=client).plan(X))
    exact = str(KernelPCA(2, solver="krylov", engine=DaskEngine(client, least=0)).plan(X))
    assert "so little" not in exact


# ── what can't be used ──────────────────────────────────────────────────────
@pytest.mark.parametrize("client", ["tcp://10.0.0.1:8786", None, Client], ids=str)
def test_an_engine_needs_a_client(client):
    with pytest.raises(InputError, match=r"client must be a client of Dask.*dask:tcp://host:8786"):
        DaskEngine(client)


def _spoilt(place=(523, 2)):
    data = X.copy()
    data[place] = np.nan
    return da.from_array(data, chunks=CHUNKS["even"])


def _narrow_chunk(block, block_id):
    return block[:, :2] if block_id[0] == 4 else block


BAD = {
    "unknown chunks": (lambda: ROWS[ROWS[:, 0] > 0], r"unknown sizes.*compute_chunk_sizes\(\)"),
    "objects": (lambda: ROWS.astype(object), "dtype object.*float32 or float64"),
    "text": (lambda: ROWS.astype("U9"), "text.*encode"),
    "NaN": (_spoilt, r"NaN.*row 523, which is row 23 of chunk 5 \(the 6th\), column 2;"),
    "two columns less": (
        lambda: ROWS.map_blocks(_narrow_chunk, dtype=float, chunks=ROWS.chunks),
        r"chunk 4 \(the 5th\) of the dask array has 100 rows and 2 columns.*says 100 and 4",
    ),
    "no rows": (lambda: ROWS[:0], "0 rows and 4 columns"),
    "one row": (lambda: ROWS[:1], "at least 2 rows; got 1 row"),
    "one axis": (lambda: ROWS[:, 0], r"1-D.*reshape\(-1, 1\)"),
    "a series": (
        lambda: dd.from_pandas(pd.Series([1.0, 2.0]), npartitions=1),
        r"a dask Series. Use X.to_frame\(\)",
    ),
    "a frame with text": (
        lambda: dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": list("xy")}), npartitions=1),
        r"'b' \(.*numbers only: \['a'\]",
    ),
}


@pytest.mark.parametrize("on_cluster", [True, False])
@pytest.mark.parametrize("name", sorted(BAD))
def test_what_can_not_be_used_is_told_in_a_sentence(client, name, on_cluster):
    make, words = BAD[name]
    model = KernelPCA(2, kernel=RBF(0.3), engine=client if on_cluster else "auto")
    with pytest.raises(InputError, match=words):
        model.fit(make())
    assert not hasattr(model, "fit_")


def test_a_bad_chunk_is_told_when_its_scores_are_computed(client):
    model = KernelPCA(2, kernel=RBF(0.3), engine=client).fit(ROWS)
    scores = model.transform(_spoilt())
    with pytest.raises(InputError, match=r"row 23 of chunk 5 \(the 6th\), column 2"):
        scores.compute()
    with pytest.raises(InputError, match=r"rows of 4 columns.*a dask array of 3"):
        model.transform(ROWS[:, :3])
