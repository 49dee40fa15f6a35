"""What goes wrong on clusters: the same numbers, or one sentence, and soon."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
from distributed import Client, wait
from distributed.comm import CommClosedError

from markets.clusters import small_cluster
from markets.commands import run
from mercer import KernelPCA
from mercer._core.errors import InputError, MercerError, MercerWarning
from mercer.approximations import RPCholesky
from mercer.engine.dask import DaskEngine, cluster, tasks, work
from mercer.engine.dask.cluster import ClusterError
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import resolve_engine
from mercer.kernels import RBF
from mercer.planning import krylov, plan, problem
from mercer.solvers import BlockKrylov

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of processes that are killed

HANG = 300  # seconds: what has not happened by then never will
X = np.random.default_rng(0).standard_normal((600, 4))


class Deadly(RBF):
    """A kernel whose next tile is the last thing that an armed worker does; or one that takes long."""

    armed = False
    slow = 0.0
    made = 0

    def tile(self, x, y):
        Deadly.made += 1
        if Deadly.armed:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(Deadly.slow)
        return super().tile(x, y)


def arm(**what):
    for name, value in what.items():
        setattr(Deadly, name, value)


@pytest.fixture(scope="module")
def client():
    """NumPy's tiles ask the kernel: so it is known what a worker does when it is killed."""
    with small_cluster(env={"MERCER_NATIVE": "off"}) as client:
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, least=0)


@pytest.fixture
def mortal():
    """A cluster of its own for a test that kills a worker: on a busy machine none may take its place."""
    with small_cluster(env={"MERCER_NATIVE": "off"}) as client:
        yield client


def dies(pid):
    """Wait until a process has ended."""
    for _ in range(10 * HANG):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise TimeoutError


MODELS = {
    "exact": KernelPCA(3, kernel=Deadly(0.3), solver=BlockKrylov(tol=1e-9)),
    "low rank": KernelPCA(3, kernel=Deadly(0.3), approximation=RPCholesky(40)),
}


@pytest.mark.parametrize("given", [X, da.from_array(X, chunks=(150, 4))], ids=["array", "chunks"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_worker_that_is_killed_within_a_pass_changes_no_bit(mortal, name, given, monkeypatch):
    for module in (problem, krylov, plan):
        monkeypatch.setattr(module, "SMALL_ROWS", 50)  # of so few rows K would be held here
    model = MODELS[name].set_params(engine=DaskEngine(mortal, least=0))
    expected = model.fit(given).eigenvalues_
    worker, pid = next(iter(mortal.run(os.getpid).items()))
    mortal.run(arm, armed=True, workers=[worker])
    np.testing.assert_array_equal(model.fit(given).eigenvalues_, expected)
    dies(pid)


def test_tiles_that_are_lost_between_products_are_made_again(mortal):
    engine, kernel = DaskEngine(mortal, least=0), RBF(0.3)
    v = np.random.default_rng(1).standard_normal((600, 3))
    rows = engine.load(X, kernel, np.dtype("f8"), width=48)
    expected = engine.gram_times(kernel, rows, v)
    os.kill(next(iter(mortal.run(os.getpid).values())), signal.SIGKILL)
    np.testing.assert_array_equal(engine.gram_times(kernel, rows, v), expected)


def test_scores_of_a_large_model_are_lost_with_no_worker(mortal):
    """Nor are they bound to a cluster: any scheduler of dask's computes them."""
    wide = np.random.default_rng(2).standard_normal((1500, 100))  # 1.2 MB
    model = KernelPCA(3, kernel=RBF(0.01)).fit(wide)
    scores = model.transform(da.from_array(wide[:300], (100, 100)))
    expected = scores.compute(scheduler="sync")
    future = mortal.compute(scores)
    os.kill(next(iter(mortal.run(os.getpid).values())), signal.SIGKILL)
    np.testing.assert_allclose(future.result(timeout=HANG), expected, atol=1e-12)
    np.testing.assert_allclose(scores.compute(), expected, atol=1e-12)


def pause_beyond(share, dask_worker):
    """Of its memory: the worker is paused for memory, or runs again, from the next look on."""
    dask_worker.memory_manager.memory_pause_fraction = share


def statuses(client, status, count):
    """Wait until so many workers have this status."""
    for _ in range(10 * HANG):
        info = client.sync(client.scheduler.identity)["workers"].values()
        if sum(worker["status"] == status for worker in info) == count:
            return
        time.sleep(0.1)
    raise TimeoutError


@pytest.mark.parametrize("given", [X, da.from_array(X, chunks=(150, 4))], ids=["array", "chunks"])
def test_a_worker_that_is_paused_is_worked_around(engine, client, given, monkeypatch):
    monkeypatch.setattr(cluster.Cluster, "patience", HANG)
    for module in (problem, krylov, plan):
        monkeypatch.setattr(module, "SMALL_ROWS", 50)
    model = KernelPCA(3, kernel=RBF(0.3), solver=BlockKrylov(tol=1e-9), engine=engine)
    expected = model.fit(X).eigenvalues_
    client.run(pause_beyond, 1e-6, workers=[next(iter(client.nthreads()))])
    try:
        statuses(client, "paused", 1)
        np.testing.assert_allclose(model.fit(given).eigenvalues_, expected, rtol=1e-10)
        client.run(pause_beyond, 1e-6)
        statuses(client, "paused", 2)
        monkeypatch.setattr(cluster.Cluster, "patience", 1.0)
        with pytest.raises(ClusterError, match=r"paused for memory.*--memory-limit"):
            model.fit(given)
    finally:
        client.run(pause_beyond, 0.8)
        statuses(client, "running", 2)


def test_ctrl_c_ends_the_wait_and_the_work(engine, client):
    """Once workers have come to other tasks, they have left most of its tiles alone."""
    client.run(arm, slow=0.1, made=0)
    kernel = Deadly(0.3)
    rows = engine.load(X, kernel, np.dtype("f8"), width=16)  # 741 tiles
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        engine.gram_times(kernel, rows, np.ones((600, 1)))
    wait([client.submit(_made, workers=[w], pure=False) for w in client.nthreads()], timeout=HANG)
    assert sum(client.run(_made).values()) < 741 // 2
    client.run(arm, slow=0.0)


def _made():
    return Deadly.made


def test_a_worker_that_has_just_been_lost_is_left_out(client, monkeypatch):
    """It is there for the scheduler, for a while, and does not answer."""
    there = list(client.nthreads())
    cluster_ = cluster.Cluster(client)
    gone = {"tcp://127.0.0.1:1": OSError("Connection reset by peer")}
    asked = client.run
    monkeypatch.setattr(client, "run", lambda *a, **k: asked(*a, **k | {"workers": there}) | gone)
    monkeypatch.setattr(cluster_, "addresses", lambda: [*there, *gone])
    assert list(cluster_.workers()) == sorted(there)
    monkeypatch.setattr(cluster_, "patience", 0.0)
    monkeypatch.setattr(cluster_, "_known", {})
    monkeypatch.setattr(client, "run", lambda *_, **__: gone)
    with pytest.raises(ClusterError, match=r"No worker of the Dask cluster .* has answered"):
        cluster_.workers()


def test_a_cluster_that_adapts_starts_workers_for_a_fit(monkeypatch):
    monkeypatch.setattr(cluster.Cluster, "patience", HANG)
    with small_cluster(0) as client:
        # It starts them; it would end one that waits for a busy client, too, and that is not judged here.
        client.cluster.adapt(minimum=0, maximum=1, wait_count=10**6)
        model = KernelPCA(2, kernel=RBF(0.3), engine=DaskEngine(client, least=0))
        found = model.fit(da.from_array(X, chunks=(150, 4))).eigenvalues_
    np.testing.assert_allclose(found, KernelPCA(2, kernel=RBF(0.3)).fit(X).eigenvalues_, rtol=1e-10)


def test_a_worker_that_joins_late_changes_nothing_of_the_fit_it_finds():
    with small_cluster(1) as client:
        engine = DaskEngine(client, least=0)
        kernel, v = RBF(0.3), np.ones((600, 2))
        rows = engine.load(X, kernel, np.dtype("f8"), width=48)
        before = engine.gram_times(kernel, rows, v)
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=HANG)
        np.testing.assert_array_equal(engine.gram_times(kernel, rows, v), before)
        assert engine.facts().workers.count == 2
        again = engine.load(engine.settle(X), kernel, np.dtype("f8"), width=48)  # shared by both
        np.testing.assert_allclose(engine.gram_times(kernel, again, v), before, rtol=1e-12)
        assert len(engine.placements.of(X).workers) == 2


@pytest.mark.parametrize("library", [None, SimpleNamespace(isa="sse")], ids=["none", "another"])
def test_a_worker_with_other_tiles_takes_no_part_of_a_fit(library, monkeypatch):
    """Its roundings are others: results would depend on who joins."""
    monkeypatch.setattr(tasks, "compiled", lambda: library)
    with pytest.raises(
        MercerError, match=r"planned for workers with compiled tiles for avx2, .*joined"
    ):
        tasks.Local("avx2", 1).engine()
    assert type(tasks.Local("numpy", 1).engine()) is NumpyEngine


# ── no cluster ──────────────────────────────────────────────────────────────
def test_a_scheduler_that_is_killed_is_told_soon(monkeypatch, tmp_path):
    """Scheduler and worker as programs, by address, for the command too."""
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard"], **quiet
    )
    address = next(
        found[0] for line in scheduler.stderr if (found := re.findall(r"tcp://[\d.:]+", line))
    )
    worker = subprocess.Popen([*dask, "worker", address, "--no-nanny", "--nthreads", "1"], **quiet)
    try:
        engine = DaskEngine(resolve_engine(f"dask:{address}").client, least=0)
        assert KernelPCA(2, kernel=RBF(0.3), engine=engine).fit(X).plan_.engine == "dask"
        np.save(tmp_path / "x.npy", X)
        named = ["--engine", f"dask:{address}", "--output", str(tmp_path / "m.mercer")]
        assert run("fit", str(tmp_path / "x.npy"), *named).exit_code == 0
        monkeypatch.setattr(cluster.Cluster, "patience", 1.0)
        asleep = work.Work(engine.cluster, "sleep")
        threading.Timer(0.5, scheduler.kill).start()
        with pytest.raises(ClusterError, match=f"scheduler at {address} has gone away"):
            asleep.value(lambda: asleep.submit(0, time.sleep, 60))
    finally:
        for program in (worker, scheduler):
            program.kill()
            program.communicate()
        engine.client.close()


def test_a_line_that_is_cut_as_a_fit_begins_is_told(client, monkeypatch):
    """The client has not noticed yet that its scheduler is gone, and then knows no address of it."""
    there, address = cluster.Cluster(client), client.scheduler.address

    def cut():
        monkeypatch.setattr(client, "scheduler", None)
        raise CommClosedError

    monkeypatch.setattr(there, "_running", cut)
    with pytest.raises(ClusterError, match=f"scheduler at {address} has gone away"):
        there.workers()


def no_answer():
    raise TimeoutError


@pytest.mark.parametrize("gone", [SimpleNamespace(identity=no_answer), None])
def test_a_scheduler_that_does_not_answer_for_a_moment_is_asked_again(gone, client, monkeypatch):
    """A large right side asks who is there: a line that is lost just then is one that was lost on the way."""
    large, looked, tries = work.Work(cluster.Cluster(client), "large"), np.ones(work.WITH_TASKS), []

    def build():
        tries.append(gone)
        with monkeypatch.context() as moment:
            if len(tries) == 1:
                moment.setattr(client, "scheduler", gone)
            return large.submit("sum", np.sum, large.sent("v", looked))

    assert large.value(build) == looked.sum()
    assert len(tries) == 2


def test_no_client_no_address_no_scheduler(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    told = {
        "dask": "client in force, and there is none",
        "dask:": "address of a scheduler",
        "dask:http://x": "address of a scheduler",
        "dask:127.0.0.1": "address of a scheduler",
        "dask:tls://127.0.0.1:9": "configuration names certificates.*TLS__CA_FILE",
        "dask:tcp://127.0.0.1:9": r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9' within 1 s",
    }
    monkeypatch.setattr("distributed.get_client", no_client)
    for name, words in told.items():
        with pytest.raises((InputError, ClusterError), match=words):
            resolve_engine(name)
    with (
        pytest.warns(MercerWarning, match="not encrypted.*tls://"),
        pytest.raises(ClusterError, match="answers"),
    ):
        resolve_engine("dask:tcp://192.0.2.1:8786")


def no_client():
    raise ValueError


def test_a_client_that_is_closed(client):
    other = Client(client.scheduler.address, set_as_default=False)
    model = KernelPCA(2, engine=other)
    other.close()
    with pytest.raises(ClusterError, match=r"client is closed\. Open a new one"):
        model.fit(X)


@pytest.mark.parametrize(
    ("package", "version", "words"),
    [
        ("mercer", None, 'has no mercer, .*pip install "mercer=='),
        ("mercer", "0.0.1", "has mercer 0.0.1, and this process mercer"),
        ("numpy", "1.26.4", "has numpy 1.26.4, and this process numpy"),
    ],
)
def test_other_versions_are_told_before_the_work(client, package, version, words, monkeypatch):
    versions = client.get_versions(packages=["mercer", "numpy"])
    next(iter(versions["workers"].values()))["packages"][package] = version
    monkeypatch.setattr(client, "get_versions", lambda packages: versions)  # noqa: ARG005
    with pytest.raises(ClusterError, match=words):
        KernelPCA(2, engine=DaskEngine(client)).fit(X)


def test_a_worker_that_can_not_import_mercer(monkeypatch):
    monkeypatch.setattr(cluster.Cluster, "patience", 1.0)
    with small_cluster(0) as client:
        with pytest.raises(ClusterError, match=r"no workers.*dask worker tcp://"):
            KernelPCA(2, engine=client).fit(X)
        blind = "import sys; sys.modules['mercer'] = None; "
        blind += "from distributed.cli import dask_worker; dask_worker.main()"
        options = [client.scheduler.address, "--no-nanny", "--no-dashboard"]
        worker = subprocess.Popen(
            [sys.executable, "-c", blind, *options], stderr=subprocess.DEVNULL
        )
        try:
            client.wait_for_workers(1, timeout=HANG)
            monkeypatch.setattr(cluster.Cluster, "patience", HANG)
            with pytest.raises(ClusterError, match=r"Worker tcp://.* (can't run|has no) mercer"):
                KernelPCA(2, engine=client).fit(X)
        finally:
            worker.kill()
            worker.wait()
