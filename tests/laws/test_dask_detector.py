"""A detector of rows on workers: the limits of the same rows in memory, and no row comes here."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster

from markets.clusters import small_cluster
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector, load
from mercer._core.errors import (
    DetectorWarning,
    InputError,
    MemoryBudgetError,
    MercerError,
    MercerWarning,
)
from mercer.approximations import Nystrom
from mercer.data.dask import DaskRows
from mercer.engine.dask import DaskEngine
from mercer.estimators import detector_fit
from mercer.kernels import RBF
from mercer.monitoring.rows import moves, principal_axes, scale_of
from mercer.monitoring.set_aside import FarCells
from mercer.monitoring.slowness import Slowness
from mercer.planning import krylov, plan, problem


@pytest.fixture(scope="module")
def client():
    with small_cluster() as client:
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, least=0)


# ── rows ────────────────────────────────────────────────────────────────────
N = 300
UNEVEN = ((3, 0, 1, 199, 97), (2, 3))


def process(phi=0.9, seed=0):
    """Five sensors of three slow states: xₜ = φxₜ₋₁ + noise."""
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((N, 3))
    for t in range(1, N):
        states[t] = phi * states[t - 1] + np.sqrt(1.0 - phi**2) * states[t]
    return states @ rng.standard_normal((3, 5)) + 0.1 * rng.standard_normal((N, 5))


X = process()
LOOSE = process(0.0)


def wild():
    """A glitch, and a sensor that fails for a while when no other knows of it."""
    rows = LOOSE.copy()
    rows[77, 2] = 300.0
    rows[120:135, 1] += 90.0
    return rows


def crowded():
    """A state of the process: two sensors go far together."""
    rows = LOOSE.copy()
    rows[120:135, 1:3] += 90.0
    return rows


def stopping():
    """The same with a column that moves in one stretch only, and one that never does."""
    rows = crowded()
    rows[:200, 0], rows[:, 4] = 7.0, 0.1
    return rows


def ring():
    """The mean is no normal row here."""
    angle = 0.7 * np.arange(N)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.01 * LOOSE[:, :2]


COUNTS = np.random.default_rng(1).integers(0, 3, N).astype(float)
NYSTROM = {"n_components": 3, "approximation": Nystrom(30), "folds": 2}
TWO = {"model": PCA(2), "folds": 2}
CASES = {
    "exact, ring": (ring(), {"kernel": RBF(2.0), "n_components": 8, "folds": 2}, None),
    "low rank, in sample": (X, NYSTROM | {"contamination": 0.05, "statistic": "Q"}, COUNTS),
    "map, F and χ²": (
        LOOSE,
        {"kernel": "poly(degree=2)", "n_components": 4, "limits": "approximate", "scale": False},
        None,
    ),
    "repeated": (np.repeat(X[:150], 2, axis=0), TWO | {"statistic": "T2"}, None),
    "wild": (wild(), TWO, COUNTS),
    "stopping": (stopping(), TWO, COUNTS + 0.5),
    "drawn": (LOOSE, NYSTROM | {"folds": ShuffleSplit(2, random_state=0)}, None),
}


def fitted(given, options, weights, engine):
    """The detector, and what it warned of."""
    options = dict(options)
    if "model" in options:
        options["model"] = clone(options["model"]).set_params(engine=engine)
    else:
        options["engine"] = engine
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = KernelPCADetector(**options).fit(given, sample_weight=weights)
    return found, [str(each.message) for each in told if each.category is DetectorWarning]


def chunked(rows):
    d = rows.shape[1]
    return da.from_array(rows, chunks=(UNEVEN[0], (1, d - 1)))


@pytest.mark.parametrize("name", sorted(CASES))
def test_limits_are_those_of_the_same_rows_in_memory(engine, name):
    """The same stretches are held out, the same rows set aside, and the same is told."""
    rows, options, weights = CASES[name]
    expected, said = fitted(rows, options, weights, "auto")
    found, told = fitted(chunked(rows), options, weights, engine)
    # Approximations divide by small eigenvalues of their landmarks: rounding of 1e-16 shows as 1e-8.
    near = 1e-6 if "approximation" in options else 1e-8
    for limit in ("t2", "q", "index"):
        ours = getattr(found.limits_, limit)
        np.testing.assert_allclose(ours, getattr(expected.limits_, limit), rtol=near)
    assert (found.limits_.method, found.limits_.note) == (
        expected.limits_.method,
        expected.limits_.note,
    )
    assert told == said
    np.testing.assert_array_equal(found.set_aside_, expected.set_aside_)
    for learnt in ("center_", "spread_", "baselines_"):
        ours, theirs = getattr(found, learnt), getattr(expected, learnt)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.score_samples(rows), expected.score_samples(rows), rtol=1e-5)


def test_an_exact_model_on_workers_keeps_its_rows_there(engine, monkeypatch):
    for module in (krylov, plan, problem):
        monkeypatch.setattr(module, "SMALL_ROWS", 50)  # of so few rows K would be held here
    options = {"model": KernelPCA(3, kernel=RBF(0.05), solver="krylov"), "folds": 2}
    found, told = fitted(chunked(X), options, None, engine)
    expected, said = fitted(X, options, None, "auto")
    assert told == said
    assert isinstance(found.model_.fit_.projection.sections.points, DaskRows)
    np.testing.assert_allclose(found.limits_.t2, expected.limits_.t2, rtol=1e-6)
    np.testing.assert_allclose(found.limits_.q, expected.limits_.q, rtol=1e-6)
    scores = found.decision_function(chunked(X)).compute()
    np.testing.assert_allclose(scores, expected.decision_function(X), atol=1e-5)


# ── answers ─────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def detector(client):
    return KernelPCADetector(**NYSTROM, engine=client).fit(chunked(LOOSE))


@pytest.mark.parametrize("name", ["predict", "score_samples", "decision_function", "statistics"])
@pytest.mark.parametrize("scheduler", [None, "sync"], ids=["cluster", "here"])
def test_answers_to_a_collection_are_lazy(detector, name, scheduler):
    rows = wild()
    expected = getattr(detector, name)(rows)
    if name == "statistics":
        expected = np.column_stack([expected[column] for column in expected.columns])
    lazy = getattr(detector, name)(chunked(rows))
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(lazy.compute(scheduler=scheduler), expected, rtol=1e-8, atol=1e-10)


def test_a_data_frame_is_judged_by_the_names_of_its_columns(client):
    frame = pd.DataFrame(wild(), columns=list("abcde"))
    frame["f"] = 1.0
    given = dd.from_pandas(frame, npartitions=3)[list("abcde")]
    detector = KernelPCADetector(model=PCA(2, engine=client), folds=2)
    with pytest.warns(DetectorWarning, match=r"row 77, column 2 \('c'\): 300"):
        detector.fit(given)
    assert list(detector.feature_names_in_) == list("abcde")
    other_order = dd.from_pandas(frame[list("fedcba")], npartitions=2)
    expected = detector.predict(frame[list("abcde")])
    np.testing.assert_array_equal(detector.predict(other_order).compute(), expected)


def test_a_collection_needs_no_cluster():
    """Chunks are read one after the other."""
    expected, said = fitted(X, NYSTROM, None, "auto")
    with dask.config.set(scheduler="sync"):
        found, told = fitted(chunked(X), NYSTROM, None, "auto")
    np.testing.assert_allclose(found.limits_.q, expected.limits_.q, rtol=1e-6)
    assert told == said


def test_a_model_that_learns_batch_by_batch(client):
    model = IncrementalKernelPCA(2, kernel=RBF(0.05), batch_size=100)
    expected = KernelPCADetector(model=model, folds=2).fit(LOOSE)
    found = KernelPCADetector(model=clone(model).set_params(engine=client), folds=2)
    found.fit(chunked(LOOSE))
    np.testing.assert_allclose(found.limits_.t2, expected.limits_.t2, rtol=1e-6)


def test_an_array_is_sent_and_a_detector_outlives_its_client(client, engine, tmp_path):
    """Of an array all rows are here; a file of the model has no client, nor needs one."""
    expected = KernelPCADetector(2, folds=2).fit(LOOSE)
    sent = KernelPCADetector(2, folds=2, engine=engine).fit(LOOSE)
    np.testing.assert_allclose(sent.limits_.q, expected.limits_.q, rtol=1e-8)
    with Client(client.scheduler.address, set_as_default=False) as other:
        found = KernelPCADetector(2, folds=2, engine=other).fit(chunked(LOOSE))
    found.save(tmp_path / "detector.mercer")
    again = load(tmp_path / "detector.mercer")
    np.testing.assert_allclose(again.score_samples(X), expected.score_samples(X), rtol=1e-6)
    with pytest.warns(MercerWarning, match="client .* is closed: it computes in this process"):
        scores = found.score_samples(X)
    np.testing.assert_allclose(scores, expected.score_samples(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["contributions", "monitor"])
def test_what_explains_rows_asks_for_them(detector, name):
    with pytest.raises(InputError, match=r"a dask array\. Use detector\.predict\(X\).*X\[\.\.\.\]"):
        getattr(detector, name)(chunked(LOOSE))


def test_a_bad_chunk_is_told(client, detector):
    rows = LOOSE.copy()
    rows[150, 3] = np.nan
    words = r"row 150, which is row 146 of chunk 3 \(the 4th\), column 3"
    with pytest.raises(InputError, match=words):
        KernelPCADetector(engine=client).fit(chunked(rows))
    with pytest.raises(InputError, match=words):
        detector.predict(chunked(rows)).compute()
    with pytest.raises(InputError, match=r"rows of 5 columns.*a dask array of 4"):
        detector.predict(chunked(rows)[:, :4])


# ── where rows are ──────────────────────────────────────────────────────────
def test_rows_on_workers_are_not_gathered(client):
    """Some hundreds come here, and some numbers of each; all rows would take at least their size."""
    n, d = 6000, 500
    rows = da.random.default_rng(0).standard_normal((n, d), chunks=(n // 6, d))
    model = KernelPCA(2, kernel=RBF(1e-4), approximation=Nystrom(20), engine=client)
    tracemalloc.start()
    try:
        # Rows in no order are looked at for no slow direction.
        KernelPCADetector(model=model, folds=KFold(2)).fit(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.8 * n * d * 8, f"{peak / 1e6:.0f} MB"


def test_statistics_that_do_not_fit_here_are_told_before_the_work(client, monkeypatch):
    monkeypatch.setattr(detector_fit, "available_bytes", lambda: 10_000)
    with pytest.raises(MemoryBudgetError, match=r"300 rows take .* 64 bytes a row .* fewer rows"):
        KernelPCADetector(engine=client).fit(chunked(X))
    monkeypatch.setattr(detector_fit, "available_bytes", lambda: 100 * N)
    with pytest.raises(MemoryBudgetError, match=r"300 rows take .* 144 bytes a row"):  # slow rows
        KernelPCADetector(model=PCA(2, engine=client)).fit(chunked(X))


def test_a_worker_that_is_lost_between_folds_changes_no_limit(monkeypatch):
    expected, again = KernelPCADetector(**TWO).fit(LOOSE).limits_, detector_fit.part_model
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        left = []

        def losing(*args):
            if not left:  # with the chunks that it has
                left.extend(cluster.workers.values())
                client.sync(left[0].close, nanny=False)
            return again(*args)

        monkeypatch.setattr(detector_fit, "part_model", losing)
        found, _ = fitted(chunked(LOOSE), TWO, None, client)
        assert len(client.nthreads()) == 1
    np.testing.assert_allclose(found.limits_.t2, expected.t2, rtol=1e-8)
    np.testing.assert_allclose(found.limits_.q, expected.q, rtol=1e-8)


# ── what limits ask of rows ─────────────────────────────────────────────────
@pytest.fixture
def placed(engine):
    return lambda rows: engine.settle(DaskRows(chunked(rows)))


def test_some_rows_as_a_step_makes_them(placed):
    rows = placed(X)
    at = np.array([0, 1, 1, 150, 203, 299])
    taken = rows.taken(at, np.square)
    np.testing.assert_array_equal(taken[:], X[at] ** 2)
    np.testing.assert_array_equal(taken.taken(np.array([2, 5]))[:], X[at[[2, 5]]] ** 2)
    assert rows.taken(None) is rows


def _shape_and_first(columns, first):
    return columns.shape, first, columns.sum()


def test_columns_are_whole(placed):
    found = placed(X).by_columns(_shape_and_first)
    assert [shape for shape, _, _ in found] == [(N, 1)] * 5
    assert [first for _, first, _ in found] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([total for *_, total in found], X.sum(axis=0), rtol=1e-12)


def test_scales_moves_and_axes(placed, engine):
    rows = np.repeat(stopping()[:150], 2, axis=0)
    there = placed(rows)
    for weights in (None, COUNTS):
        ours, theirs = scale_of(engine, there, weights), scale_of(engine, rows, weights)
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-12)
        np.testing.assert_allclose(ours.spread, theirs.spread, rtol=1e-12)
    np.testing.assert_array_equal(moves(engine, there), moves(engine, rows))
    # A direction of 1e-6 of the largest is one, a multiple of others none: RᵀR could tell neither.
    flat = np.column_stack([X, X[:, 0] + X[:, 1], 1e-6 * LOOSE[:, 0]])
    axes = principal_axes(engine, placed(flat), flat.mean(axis=0))
    assert len(axes) == 6
    expected = principal_axes(engine, flat, flat.mean(axis=0))
    np.testing.assert_allclose(np.abs(np.sum(axes * expected, axis=1)), 1.0, rtol=1e-6)


def test_slowness_and_far_cells(placed, engine):
    ours, theirs = Slowness.of(placed(X), 0.01, engine), Slowness.of(X, 0.01)
    assert ours.gap == theirs.gap > 0
    np.testing.assert_allclose(ours.stray, theirs.stray, rtol=1e-10)
    for rows in (wild(), crowded(), LOOSE):
        ours, theirs = FarCells.of(placed(rows)), FarCells.of(rows)
        for name in ("cells", "wild", "lonely"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        assert ours.medians == theirs.medians
    with pytest.raises(MercerError, match="0 rows"):
        _ = placed(LOOSE).taken(np.empty(0, dtype=np.intp)).shape
