"""The laws of engines on two devices: the processor named twice, and whatever GPUs there are."""

import pickle
import threading
import time
from concurrent.futures import wait
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
from markets.engines import SOURCES
from markets.kernels import VALID
from markets.triton import in_place_of_triton
from mercer import KernelPCA
from mercer._core.errors import EngineWarning, InputError, MemoryBudgetError
from mercer.approximations import Nystrom, RPCholesky
from mercer.approximations.landmarks import checked_lengths
from mercer.data.batches import Batches
from mercer.engine.base import FLOAT32, FLOAT64, Rounding, TileStore
from mercer.engine.native.engine import program_of
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import resolve_engine
from mercer.engine.steps import SquareSections
from mercer.engine.torch import SeveralEngine, TorchEngine, rows
from mercer.engine.torch.fused import Halves, fused_columns
from mercer.engine.torch.place import Place
from mercer.engine.torch.several import shares
from mercer.kernels import RBF, Polynomial

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
NAMES = {
    "cpu": ("torch:cpu", "torch:cpu"),
    **({"cuda": ("cuda:0", f"cuda:{GPUS - 1}")} if GPUS else {}),  # the only one twice
}
N = 600
X = np.random.default_rng(0).standard_normal((N, 4)) / [1.0, 2.0, 3.0, 4.0]
V = np.random.default_rng(1).standard_normal((N, 3))
WEIGHTS = np.random.default_rng(2).uniform(0.5, 3.0, N)


@pytest.fixture(params=sorted(NAMES))
def engine(request):
    return SeveralEngine(NAMES[request.param])


@pytest.fixture(params=["rbf", "laplacian", "poly2", "sum", "normalised", "chi2"])
def kernel(request):
    from laws.test_engines import KERNELS

    return KERNELS[request.param]


# ── names ───────────────────────────────────────────────────────────────────
def test_a_name_of_several(engine):
    name = ",".join(engine.devices)
    found = resolve_engine(f" {name.replace(',', ', ').upper()} ")
    assert found == engine
    assert found.facts().name == name
    assert KernelPCA(2, kernel=RBF(0.3), engine=name).fit(X).plan_.engine == name
    assert pickle.loads(pickle.dumps(found)) == engine


def test_devices_of_one_kind():
    with pytest.raises(InputError, match="must name devices of one kind; got cpu and cuda"):
        resolve_engine("cuda:0,torch:cpu")
    with pytest.raises(InputError, match="must be of one kind, and at least one"):
        SeveralEngine(())
    with pytest.raises(InputError, match="must be names of devices with commas"):
        resolve_engine("cuda:0,")


def test_memory_is_that_of_the_smallest(engine, monkeypatch):
    monkeypatch.setattr(Place, "free_bytes", property(lambda self: 1000 - 300 * self.index))
    twice = len(set(engine.devices)) == 1
    assert engine.facts().free_bytes == (500 if twice else 700 - 300 * (GPUS - 2))


# ── what is dealt ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("of", [2, 3, 5])
def test_any_number_of_devices(of):
    engine = SeveralEngine(("torch:cpu",) * of)
    loaded = engine.load(X, RBF(0.3), FLOAT64, width=64)
    found = engine.gram_times(RBF(0.3), loaded, V)
    assert np.all(np.abs(found - RBF(0.3)(X) @ V) <= room(RBF(0.3), X, V))
    tiles = [len(part.kept._exact) for part in loaded.parts]
    assert tiles == [0] * of
    again = engine.gram_times(RBF(0.3), engine.load(X, RBF(0.3), FLOAT64, width=64), V)
    np.testing.assert_array_equal(found, again)


def test_each_device_keeps_its_part_and_has_the_rows_once(engine):
    store = TileStore(keep_bytes=10**7)
    loaded = engine.load(X, RBF(0.3), FLOAT64, width=64, store=store)
    engine.gram_times(RBF(0.3), loaded, V)
    few = engine.load(X[:5], RBF(0.3), FLOAT64)
    engine.times(RBF(0.3), few, loaded, V)
    assert [len(part.kept._exact) for part in loaded.parts] == [27, 28]  # of 55
    assert all(
        part._whole is point._whole is not None
        for part, point in zip(loaded.parts, loaded.points, strict=True)
    )


def test_both_devices_work(engine, monkeypatch):
    """Each on a thread of its own, and on rows of its own."""
    seen, make = set(), TorchEngine.times

    def times(self, kernel, few, points, v):
        seen.add((threading.get_ident(), few.n))
        return make(self, kernel, few, points, v)

    monkeypatch.setattr(TorchEngine, "times", times)
    loaded = [engine.load(each, RBF(0.3), FLOAT64) for each in (X[:7], X)]
    found = engine.times(RBF(0.3), *loaded, V)
    np.testing.assert_allclose(found, RBF(0.3)(X[:7], X) @ V, atol=1e-12)
    assert sorted(n for _, n in seen) == [3, 4]
    assert threading.get_ident() not in {thread for thread, _ in seen}


def test_fewer_rows_than_devices(engine):
    found = engine.times(RBF(0.3), *(engine.load(r, RBF(0.3), FLOAT64) for r in (X[:1], X)), V)
    np.testing.assert_allclose(found, RBF(0.3)(X[:1], X) @ V, atol=1e-12)
    one = engine.load(X[:1], RBF(0.3), FLOAT64)
    np.testing.assert_allclose(engine.gram_times(RBF(0.3), one, V[:1]), V[:1])


def test_batches_are_left_to_one_device(engine):
    batches = Batches(lambda: iter([X[:100], X[100:]]))
    loaded = [engine.load(each, RBF(0.3), FLOAT64) for each in (batches, X[:40])]
    found = engine.times(RBF(0.3), *loaded, V[:40])
    np.testing.assert_allclose(found, RBF(0.3)(X, X[:40]) @ V[:40], atol=1e-12)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weights"])
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_squares_of_sections_are_dealt(engine, source, weights, tmp_path, monkeypatch):
    data, seen, make = SOURCES[source](X, tmp_path), [], TorchEngine.fold

    def fold(self, rows, step, **advice):
        seen.append(rows.shape[0])
        return make(self, rows, step, **advice)

    monkeypatch.setattr(TorchEngine, "fold", fold)

    def lengths(block):
        return checked_lengths(RBF(0.3), block)

    step = SquareSections(RBF(0.3), X[:50], FLOAT64, FLOAT64, weights, lengths, engine)
    found = engine.fold(data, step, width=50)
    expected = NumpyEngine(1).fold(data, replace(step, engine=NumpyEngine(1)), width=50)
    assert seen == [300, 300]
    assert found.trace == pytest.approx(expected.trace, rel=1e-13)
    scale = np.abs(expected.moments.scatter).max()
    np.testing.assert_allclose(found.moments.mean, expected.moments.mean, atol=1e-13)
    np.testing.assert_allclose(found.moments.scatter, expected.moments.scatter, atol=1e-13 * scale)


# ── the same model ──────────────────────────────────────────────────────────
MODELS = {
    "exact": KernelPCA(3, kernel=RBF(0.3), solver="krylov"),
    "lapack": KernelPCA(3, kernel="laplacian", solver="lapack"),
    "rpcholesky": KernelPCA(3, kernel=RBF(0.3), approximation=RPCholesky(40)),
    "nystrom": KernelPCA(3, kernel="matern", approximation=Nystrom(40, refine=2)),
}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("case", ["float64", "float32", "weights", "sparse"])
def test_a_model_is_the_same(engine, name, case):
    data = X.astype("f4") if case == "float32" else X
    data = sparse.csr_array(np.where(np.abs(X) > 0.2, X, 0.0)) if case == "sparse" else data
    weights = WEIGHTS if case == "weights" else None
    expected = clone(MODELS[name]).set_params(engine="numpy").fit(data, sample_weight=weights)
    first, found = (
        clone(MODELS[name]).set_params(engine=engine).fit(data, sample_weight=weights)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.eigenvalues_, found.eigenvalues_)
    top, rough = expected.eigenvalues_[0], 1e-5 if case == "float32" else 1e-10
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, atol=rough * top)
    scores, reference = found.transform(data), expected.transform(data)
    np.testing.assert_array_equal(first.transform(data), scores)
    scores = scores * np.sign(np.sum(scores * reference, axis=0))
    near = 1e-3 if case == "float32" else 1e-6
    np.testing.assert_allclose(scores, reference, atol=near * np.abs(reference).max())


# ── what a device can't do ──────────────────────────────────────────────────
def test_values_out_of_range_are_the_hosts(engine, cloud):
    v = np.ones((60, 2))
    for kernel, data in (
        (RBF(1e-40), 1e20 * cloud),
        (Polynomial(4, gamma=1.0).normalised(), 1e11 * cloud.astype(np.float32)),
    ):
        loaded = engine.load(data, kernel, data.dtype, width=16)
        reference = NumpyEngine(1)
        expected = reference.gram_times(
            kernel, reference.load(data, kernel, data.dtype, width=16), v
        )
        np.testing.assert_allclose(engine.gram_times(kernel, loaded, v), expected, rtol=1e-5)
        assert loaded.alone.on_host


def starved(monkeypatch, below, only=None):
    """Devices, or the one with this part, without memory for tiles wider than `below`."""
    make = rows.TorchRows.side

    def side(self, i):
        if i.stop - i.start > below and (only is None or self.part == only):
            raise torch.OutOfMemoryError
        return make(self, i)

    monkeypatch.setattr(rows.TorchRows, "side", side)


@pytest.mark.parametrize("only", [None, (0, 2), (1, 2)], ids=str)
def test_one_device_that_runs_out_of_memory_narrows_the_tiles_of_all(engine, only, monkeypatch):
    """Parts of tiles of two widths would leave some out, and use others twice."""
    starved(monkeypatch, 100, only)
    loaded = engine.load(X, RBF(0.3), FLOAT64, width=512, store=TileStore(keep_bytes=10**7))
    found = engine.gram_times(RBF(0.3), loaded, V)
    assert np.all(np.abs(found - RBF(0.3)(X) @ V) <= room(RBF(0.3), X, V))
    assert [part.kept.width for part in loaded.parts] == [64, 64]


def test_a_part_alone_is_never_of_narrower_tiles(engine, monkeypatch):
    starved(monkeypatch, 100)
    part = engine.first.load(X, RBF(0.3), FLOAT64, width=512, part=(0, 2))
    with pytest.raises(MemoryBudgetError, match="ran out of memory"):
        engine.first.gram_times(RBF(0.3), part, V)


def test_rows_that_could_not_be_sent_are_sent_in_slices(engine, monkeypatch):
    def starved(_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(rows.TorchRows, "_sent", starved)
    found = engine.gram_times(RBF(0.3), engine.load(X, RBF(0.3), FLOAT64, width=512), V)
    assert np.all(np.abs(found - RBF(0.3)(X) @ V) <= room(RBF(0.3), X, V))


def test_devices_of_other_sizes_make_tiles_of_one_width(engine, monkeypatch):
    widths = iter([96, 64, 32])
    monkeypatch.setattr(Place, "width", lambda *_: next(widths))
    loaded = engine.load(X, RBF(0.3), FLOAT64)
    found = engine.gram_times(RBF(0.3), loaded, V)
    assert [part.kept.width for part in loaded.parts] == [64, 64]
    assert np.all(np.abs(found - RBF(0.3)(X) @ V) <= room(RBF(0.3), X, V))


# ── half floats ─────────────────────────────────────────────────────────────
@pytest.fixture
def halved(engine, monkeypatch):
    """The engine, with NumPy in place of Triton where there is no GPU."""
    if engine.first.place.kind == "cpu":
        in_place_of_triton(monkeypatch)
        # A trial runs one program at a time, and knows which by a variable of its own.
        monkeypatch.setattr("mercer.engine.torch.several.on_threads", in_turn)
    return engine


def in_turn(jobs, stop):
    del stop
    from mercer.engine.threads import _ended

    return [_ended(job) for job in jobs]


def halves_store(two):
    return TileStore(minus=0.1, rounding=Rounding(halves=1 + two))


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("name", ["rbf", "poly2", "matern-3/2", "cosine"])
def test_shares_of_a_fused_product(halved, name, precise, rng):
    """As a plain pass over all rows has them, but for the order of sums."""
    kernel, n = VALID[name], 1400
    data, v = rng.standard_normal((n, 40)) / (1.0 + np.arange(40)), rng.standard_normal((n, 3))
    loaded = halved.load(data, kernel, FLOAT64, width=64, store=halves_store(two=True))
    found = halved.gram_times(kernel, loaded, v, rough=not precise)
    assert not loaded.alone.plain
    assert loaded.parts[1].start == 700
    one = halved.first
    whole = Halves.of(program_of(kernel), loaded.points[0].sides(512), n, precise=True)
    right = one.place.tensor(v, FLOAT32)
    args = {"precise": precise, "minus": 0.1, "mirror": False}
    plain = fused_columns(program_of(kernel), whole, whole, right, **args).cpu().numpy()
    scale = np.abs(kernel(data)).max() * np.abs(v).sum(axis=0)
    assert np.all(np.abs(found - plain) <= 1e-6 * scale)
    unit = 3e-6 if precise else 6e-3
    assert np.all(np.abs(found - (kernel(data) - 0.1) @ v) <= unit * scale)
    np.testing.assert_array_equal(halved.gram_times(kernel, loaded, v, rough=not precise), found)


@pytest.mark.parametrize("precise", [False, True])
def test_the_diagonal_of_shares_is_k_of_a_row_and_itself(halved, precise, rng):
    """Told otherwise by twice as much, the diagonal is twice as large, and nothing else."""
    kernel, n = VALID["poly2"], 400
    data, v = rng.standard_normal((n, 4)), rng.standard_normal((n, 2))
    loaded = halved.load(data, kernel, FLOAT64, width=64, store=halves_store(two=True))
    usual = halved.gram_times(kernel, loaded, v, rough=not precise)
    for part in loaded.parts:
        part.halves = replace(part.halves, own=2.0 * part.halves.own)
    more = halved.gram_times(kernel, loaded, v, rough=not precise) - usual
    diagonal = kernel.tile_diag(data)[:, None] * v
    unit = (3e-6 if precise else 1e-3) * np.abs(kernel(data)).max() * np.abs(v).sum(axis=0) / n
    assert np.all(np.abs(more - diagonal) <= 10.0 * unit)
    assert np.abs(diagonal).max() > 100.0 * unit.max()


@pytest.mark.parametrize("where", ["host", "device"])
def test_fused_products_of_vectors_here_and_there(halved, where, rng):
    kernel, v = VALID["rbf"], rng.standard_normal((N, 5))
    loaded = halved.load(X, kernel, FLOAT64, width=64, store=halves_store(two=False))
    few = halved.load(loaded.take(np.arange(9)), kernel, FLOAT64, store=halves_store(two=False))
    right = halved.placed(loaded, v) if where == "device" else v
    found = halved.gram_times(kernel, loaded, right, rough=True)
    assert isinstance(found, type(right))
    unit = 6e-3 * np.abs(v).sum(axis=0)
    assert np.all(np.abs(np.asarray(found) - (kernel(X) - 0.1) @ v) <= unit)
    cross = halved.times(kernel, loaded, few, v[:9])
    assert np.all(np.abs(cross - kernel(X, X[:9]) @ v[:9]) <= unit)


def test_passes_that_fail_are_tiles_on_all_devices(halved, monkeypatch):
    def broken(*_, **__):
        msg = "no compiler was found"
        raise RuntimeError(msg)

    monkeypatch.setattr("mercer.engine.torch.fused.fused_times", broken)
    loaded = halved.load(
        X, RBF(0.3), FLOAT64, width=64, store=TileStore(rounding=Rounding(halves=2))
    )
    with pytest.warns(EngineWarning, match="make no products of half floats here.*no compiler"):
        found = halved.gram_times(RBF(0.3), loaded, V, rough=True)
    np.testing.assert_allclose(found, RBF(0.3)(X) @ V, atol=1e-11)
    assert loaded.alone.plain


def test_an_interrupt_stops_the_devices_at_their_next_tile(engine, monkeypatch):
    """As Ctrl-C comes: out of the wait of the thread that asked."""
    begun, made, make = threading.Event(), [], rows.TorchRows.side

    def side(self, i):
        made.append(i)
        begun.set()
        time.sleep(1e-3)
        return make(self, i)

    def interrupted(futures, timeout=None):
        if timeout is None:  # the wait for all to end
            return wait(futures)
        assert begun.wait(10.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(rows.TorchRows, "side", side)
    wide = np.random.default_rng(0).standard_normal((6400, 4))
    loaded = engine.load(wide, RBF(0.3), FLOAT64, width=64)  # 5050 tiles
    with monkeypatch.context() as patch:
        patch.setattr("mercer.engine.threads.wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.gram_times(RBF(0.3), loaded, np.ones((6400, 1)))
    assert len(made) < 500
    monkeypatch.setattr(rows.TorchRows, "side", make)
    found = engine.gram_times(
        RBF(0.3), loaded, np.ones((6400, 1))
    )  # and go on when they are asked again
    np.testing.assert_allclose(found[:5], RBF(0.3)(wide[:5], wide).sum(axis=1, keepdims=True))


def test_shares_are_all_rows():
    for n in (2, 7, 100):
        for of in (1, 2, 3):
            found = shares(n, of)
            assert [i for s in found for i in range(s.start, s.stop)] == [*range(n)]


def test_an_error_in_one_device_is_raised(engine, monkeypatch):
    def times(self, *_):
        raise ZeroDivisionError(self.device)

    monkeypatch.setattr(TorchEngine, "times", times)
    loaded = engine.load(X, RBF(0.3), FLOAT64)
    with pytest.raises(ZeroDivisionError):
        engine.times(RBF(0.3), loaded, loaded, V)
