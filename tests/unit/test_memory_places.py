"""`memory` by place: what is said of the host and of a device, and what a plan asks of both."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from markets.commands import refused, results
from mercer import PCA, KernelPCA, KernelPCADetector, load
from mercer._core.errors import MemoryBudgetError, ParameterError
from mercer._core.memory import AUTO_SHARE, parse_bytes
from mercer.approximations import RPCholesky
from mercer.data.training import TrainingData
from mercer.engine.base import Facts, Workers
from mercer.engine.numpy import NumpyEngine
from mercer.kernels import RBF
from mercer.planning.bytes import DEVICE_TILES, TILES_SHARE, krylov_bytes, tile_width
from mercer.planning.plan import plan, plan_approximation
from mercer.planning.problem import Budget, Problem
from mercer.planning.recipe import Halved

GB, FREE = 10**9, 1000
X = np.random.default_rng(0).standard_normal((60, 3))
SAID = {
    "a size": ("4GB", 4 * GB, 4 * GB),
    "auto": ("auto", 600, 600),
    "by place": ({"cuda": "20GB", "host": "4GB"}, 20 * GB, 4 * GB),
    "as text": (" CUDA = 20GB , host=4GB", 20 * GB, 4 * GB),
    "one of them": ({"host": 5000}, 600, 5000),
    "auto of one": ({"cuda": "auto", "host": 5000}, 600, 5000),
    "the first": ({"cuda:0": "1GB", "cuda": "2GB"}, GB, 600),
    "another": ({"cuda:1": "1GB", "mps": 3}, 600, 600),
}


@pytest.mark.parametrize("name", sorted(SAID))
def test_what_is_said_of_a_place(name):
    """A size alone is said of each, and a place that is not named is on "auto"."""
    memory, cuda, host = SAID[name]
    found = [parse_bytes(memory, free=FREE, place=place) for place in ("cuda:0", "host")]
    assert found == [cuda, host]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("auto", 600),
        ("3GB", 3 * GB),
        ({"cuda": "2GB"}, 2 * GB),
        ({"cuda:0": 300, "cuda": "2GB"}, 300),
        ({"cuda:1": 300, "cuda": "2GB"}, 300),
        ({"cuda:1": "2GB"}, 600),
        ({"cuda:2": 5, "host": 7}, 600),
    ],
    ids=str,
)
def test_of_several_devices_the_least_counts(memory, expected):
    assert parse_bytes(memory, free=FREE, place="cuda:0,cuda:1") == expected


def test_a_device_holds_rows_on_their_way_in_this_process_too():
    """Buffers and a block of a file, where rows are large enough to pass through them."""
    facts = [
        Facts("cuda:0", 4, 80 * GB, lambda _: None, staging=s) for s in (lambda n: n // 2, int)
    ]
    data = TrainingData(np.zeros((100, 3)))
    found = [
        plan(Problem.of(data, RBF(0.3), 2, facts=each, budget=Budget(GB, GB))) for each in facts
    ]
    assert found[1].host_bytes - found[0].host_bytes == 100 * 3 * 8 - 100 * 3 * 4


WRONG = {
    "a place": ({"cdua": "1GB"}, r"'host', 'cuda'.*got the place 'cdua'\. Did you mean 'cuda'\?"),
    "a number for one": ({1: "1GB"}, "got the place 1"),
    "a sign": ({"cuda": -1}, "positive number of bytes.*got -1 for 'cuda'"),
    "a word": ("cuda=lots", "got 'lots' for 'cuda'"),
    "no size": ("cuda=", "got '' for 'cuda'"),
    "no place": ("cuda=1GB,4GB", "got the place '4gb'"),
    "twice": ("host=1GB,host=2GB", "one size for each place"),
    "none": ({}, r"got \{\}"),
    "nested": ({"cuda": {"host": 1}}, "for 'cuda'"),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_is_wrong_is_told(name):
    memory, words = WRONG[name]
    for model in (KernelPCA(2, memory=memory), PCA(2, memory=memory)):
        with pytest.raises(ParameterError, match=f"(?s)^memory must be .*{words}"):
            model.fit(X)


# ── estimators, files, the command ──────────────────────────────────────────
@pytest.mark.parametrize("memory", [{"cuda": "20GB", "host": "2GB"}, "cuda=20GB,host=2GB"], ids=str)
@pytest.mark.parametrize("kind", [KernelPCA, PCA, KernelPCADetector])
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_clones_and_files_keep_it(kind, memory, tmp_path):
    model = kind(2, memory=memory)
    assert clone(model).memory == memory
    model.fit(X).save(tmp_path / "m.mercer")
    assert load(tmp_path / "m.mercer").memory == memory


def test_the_command_takes_places(tmp_path):
    np.save(tmp_path / "x.npy", X)
    found = results("plan", tmp_path / "x.npy", "--memory", "cuda=20GB,host=2GB")
    assert (found["memory_bytes"], found["plan"]["host_bytes"]) == (2 * GB, 0)
    said = refused("plan", tmp_path / "x.npy", "--memory", "gpu=20GB", code=2)
    assert "got the place 'gpu'" in said


# ── two budgets ─────────────────────────────────────────────────────────────
def facts(name, **others):
    return Facts(name, 4, FREE, lambda _: None, **others)


def there(name, **others):
    return facts(name, elsewhere=True, **others)


def test_the_budgets_of_an_engine(monkeypatch):
    monkeypatch.setattr("mercer._core.memory.available_bytes", lambda: 10 * FREE)
    memory = {"cuda": "20GB", "host": "4GB"}
    assert Budget.of(memory, facts("native")) == Budget(4 * GB)
    assert Budget.of(memory, facts("torch:cpu")) == Budget(4 * GB)
    assert Budget.of(memory, there("cuda:0")) == Budget(20 * GB, 4 * GB)
    assert Budget.of("auto", there("cuda:0")) == Budget(600, int(AUTO_SHARE * 10 * FREE))
    assert Budget.of("1GB", there("mps")) == Budget(GB, GB)
    cluster = there("dask", workers=Workers(2, 4, here_bytes=7 * GB))
    assert Budget.of({"dask": "8GB"}, cluster) == Budget(8 * GB, 7 * GB)
    assert Budget.of({"host": "4GB"}, cluster) == Budget(600, 4 * GB)
    assert Budget.of({"host": "40GB"}, cluster) == Budget(600, 7 * GB)


@pytest.mark.parametrize("name", ["npu", "npu:1"])
def test_a_device_that_mercer_has_never_heard_of_has_a_place(name):
    """An engine says in its facts that its tiles are elsewhere, and `memory` knows that place by its name."""
    device = there(name)
    assert Budget.of({"npu": "8GB", "host": "2GB"}, device) == Budget(8 * GB, 2 * GB)
    assert Budget.of({name: "8GB", "host": "2GB"}, device) == Budget(8 * GB, 2 * GB)
    assert Budget.of("npu=8GB,host=2GB", device) == Budget(8 * GB, 2 * GB)
    for facts_of_others in (facts("native"), there("cuda:0")):
        with pytest.raises(ParameterError, match="got the place 'npu'"):
            Budget.of({"npu": "8GB"}, facts_of_others)
    data = TrainingData(np.zeros((4000, 3)))
    told = Problem.of(data, RBF(0.3), 2, facts=device, budget=Budget.of("1GB", device))
    assert told.on_device
    assert "threads" not in str(plan(told))


DEVICE = Problem(
    1_000_000,
    768,
    20,
    itemsize=4,
    budget_bytes=80 * GB,
    n_threads=16,
    rows_bytes=3 * GB,
    shift_invariant=True,
    halves=2,
    engine="cuda:0",
    elsewhere=True,
    here_bytes=64 * GB,
)


@pytest.mark.parametrize("halves", [0, 2])
def test_a_plan_knows_the_bytes_of_both(halves):
    """Vectors and the rows that a model keeps are the host's; products and tiles the device's."""
    problem = replace(DEVICE, halves=halves)
    found = plan(problem)
    assert isinstance(found.recipe, Halved) is bool(halves)
    vectors = krylov_bytes(problem, found.solver, 20)
    assert found.host_bytes == vectors + 3 * GB
    assert found.n_bytes <= 80 * GB
    assert re.search(r"by cuda:0, at most [\d.]+ GB there and [\d.]+ GB on the host", str(found))
    none = plan(replace(problem, rows_bytes=0))  # as an approximation keeps none
    assert (none.n_bytes, none.host_bytes) == (found.n_bytes, vectors)
    assert plan(replace(problem, elsewhere=False, here_bytes=2**63)).host_bytes == 0


@pytest.mark.parametrize("n_threads", [1, 16])
@pytest.mark.parametrize("budget", [6 * GB, 80 * GB])
@pytest.mark.parametrize("d", [50, 768])
@pytest.mark.parametrize("n", [4000, 20_000, 131_072])
def test_tiles_of_a_device_are_its_own(n, d, budget, n_threads):
    """One at a time, wide, and none the narrower for the threads of the host or the width of the rows."""
    likes = 8192**2 * 8
    problem = replace(DEVICE, n=n, d=d, budget_bytes=budget, halves=0, cache_bytes=likes)
    problem = replace(problem, n_threads=n_threads, rows_bytes=4 * n * d)
    found = plan(problem)
    assert "thread" not in str(found)
    for itemsize in (4, 8):
        width = tile_width(problem, itemsize)
        assert width == tile_width(replace(problem, d=50, n_threads=1), itemsize)
        assert 1024 <= width <= max(1024, n // 4)
        assert DEVICE_TILES * itemsize * width**2 <= budget / TILES_SHARE
        assert itemsize * width**2 <= likes
    wide = min(n // 4, 8192)
    assert n < 2 * 10**4 or budget < 10 * GB or tile_width(problem, 8) == wide


def test_a_place_that_is_too_small_is_named():
    with pytest.raises(MemoryBudgetError, match=r"on the host beside .*cuda:0.*allows 1 GB there"):
        plan(replace(DEVICE, here_bytes=GB))
    with pytest.raises(MemoryBudgetError, match=r"up to .* on cuda:0 \(n=.*allows 1 GB"):
        plan(replace(DEVICE, budget_bytes=GB))


@pytest.mark.parametrize("rank", [100, 1000])
@pytest.mark.parametrize("n", [5000, 10_000_000])
def test_a_low_rank_plan_knows_the_blocks_of_a_device(n, rank):
    """Blocks of a pass are the device's, as large as a tile at most; the host has what it has anyway."""
    likes, approximation = 8192**2 * 8, RPCholesky(rank)
    problem = replace(DEVICE, n=n, d=50, halves=0, cache_bytes=likes, rows_bytes=0)
    found, alone = (
        plan_approximation(each, approximation)
        for each in (problem, replace(problem, elsewhere=False, here_bytes=2**63))
    )
    block = min(likes, min(n, 2**16) * (rank + 50) * 8)
    assert found.n_bytes >= max(block, alone.n_bytes)
    assert found.n_bytes <= max(alone.n_bytes, DEVICE_TILES * block + 32 * rank**2 + 2**22)
    assert found.host_bytes == alone.n_bytes
    if n > 5000:
        with pytest.raises(MemoryBudgetError, match=r"on cuda:0 .*lower rank of RPCholesky"):
            plan_approximation(replace(problem, budget_bytes=block), approximation)


def test_what_the_host_does_is_of_its_budget_alone():
    """An explicit map is multiplied on the host, however small the device is."""
    few = replace(DEVICE, map_dimension=10, shift_invariant=False, here_bytes=200 * GB)
    found = plan(few)
    assert (found.route, found.engine, found.host_bytes) == ("primal", "numpy", 0)
    assert "there" not in str(found)


class Device(NumpyEngine):
    """One by NumPy: it says that it is a device."""

    def facts(self):
        return replace(super().facts(), name="cuda:0", free_bytes=10 * GB, elsewhere=True)


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_a_fit_refuses_before_it_starts(place):
    x = np.random.default_rng(1).standard_normal((3200, 3))
    memory = {"host": "1GB", "cuda": "1GB"}
    model = KernelPCA(3, kernel=RBF(0.3), engine=Device(1), memory=memory).fit(x)
    assert 0 < model.plan_.host_bytes < GB
    assert model.plan_.engine == "cuda:0"
    model = KernelPCA(3, kernel=RBF(0.3), engine=Device(1), memory={**memory, place: 10**6})
    where = "on the host" if place == "host" else "on cuda:0"
    with pytest.raises(MemoryBudgetError, match=f"{where}.*allows 1 MB"):
        model.fit(x)
    assert not hasattr(model, "fit_")


@pytest.mark.parametrize("d", [3, 90])
@pytest.mark.parametrize("model", [PCA(2), KernelPCA(2, kernel="linear")], ids=["pca", "linear"])
def test_linear_models_are_of_the_host(model, d):
    """Rows are multiplied there, and a device that holds nothing is no obstacle."""
    x = np.random.default_rng(1).standard_normal((60, d))
    model = clone(model).set_params(engine=Device(1), memory={"cuda": 1, "host": "1GB"}).fit(x)
    assert (model.plan_.engine, model.plan_.host_bytes) == ("numpy", 0)
    assert "there" not in str(model.plan_)
    model.set_params(memory={"cuda": "1GB", "host": 1000})
    with pytest.raises(MemoryBudgetError, match="allows 1 kB"):
        model.fit(x)


def test_a_preimage_is_of_the_host():
    x = np.random.default_rng(1).standard_normal((3200, 3))
    memory = {"host": "2GB", "cuda": "1GB"}
    model = KernelPCA(3, kernel=RBF(0.3), engine=Device(1), memory=memory, preimage="ridge")
    planned = model.plan(x)
    assert planned.host_bytes >= planned.preimage_bytes > 0
    linear = clone(model).set_params(kernel="linear", preimage="exact").plan(x)
    assert (linear.host_bytes, linear.n_bytes >= linear.preimage_bytes) == (0, True)
    small = {**memory, "host": planned.preimage_bytes - 10**6}
    with pytest.raises(MemoryBudgetError, match=r"pre-image|on the host"):
        model.set_params(memory=small).fit(x)
