"""engine="auto" and a GPU: taken where forecasts say that it pays, never looked for by a short fit."""

import copy
import pickle
import re
import sys
import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mercer import KernelPCA, KernelPCADetector
from mercer.engine import resolve
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import device_there, resolve_engine
from mercer.engine.torch.engine import ChosenEngine
from mercer.estimators import fit_request
from mercer.kernels import RBF, Custom
from mercer.planning.forecast import CORE_FLOPS, START_SECONDS, may_pay, work
from mercer.planning.plan import plan
from mercer.planning.problem import Problem

X = np.random.default_rng(0).standard_normal((3100, 3))  # more rows than K is stored of
FREED = []
CUDA = SimpleNamespace(cuda="13.0", hip=None)


def torch_with(count, **cuda):
    """A torch of which only what is asked about devices is there."""
    own = {"init": lambda: None, "device_count": lambda: count, **cuda}
    return SimpleNamespace(__version__="2.9.0", version=CUDA, cuda=SimpleNamespace(**own))


@dataclass(frozen=True)
class Fake(NumpyEngine):
    """A device by NumPy: it says that it is one."""

    trouble: str = ""
    place = SimpleNamespace(name="cuda:0")

    def facts(self):
        if self.trouble == "context":
            msg = "CUDA error: out of memory"
            raise RuntimeError(msg)
        refuses = (lambda _: "it has no formula") if self.trouble == "kernel" else (lambda _: None)
        free = 10**5 if self.trouble == "memory" else 10**10
        return replace(
            super().facts(), name="cuda:0", runs=refuses, free_bytes=free, elsewhere=True
        )

    def let_go(self):
        FREED.append(self)

    def why_not_rows(self, kernel, x):  # noqa: ARG002
        return "tiles of cuda:0 take smaller numbers" if self.trouble == "rows" else None

    def gram_times(self, kernel, x, v, *, rough=False):
        if self.trouble == "driver":
            msg = "CUDA error: unspecified launch failure. Compile with TORCH_USE_CUDA_DSA to …"
            raise RuntimeError(msg)
        return super().gram_times(kernel, x, v, rough=rough)


@pytest.fixture
def long_fits(monkeypatch):
    """As if these rows took longer than a device takes to start; on one thread, in one order."""
    monkeypatch.setattr("mercer.planning.forecast.START_SECONDS", 0.0)
    with threadpool_limits(1):
        yield


def with_device(monkeypatch, engine, seconds=None):
    """A device that is there, and forecasts by its name if `seconds` has them."""
    monkeypatch.setattr(fit_request, "device_there", lambda: engine)
    if seconds is not None:
        monkeypatch.setattr(
            fit_request,
            "forecast",
            lambda plan, *_: replace(plan, n_products=5, seconds=seconds[plan.engine == "cuda:0"]),
        )


# ── taken or not ────────────────────────────────────────────────────────────
@pytest.mark.usefixtures("long_fits")
def test_a_device_that_pays_is_taken_and_the_plan_tells_why(monkeypatch):
    with_device(monkeypatch, Fake(1), seconds={True: 3.4, False: 95.0})
    model = KernelPCA(2, kernel=RBF(0.3), random_state=0).fit(X)
    assert model.plan_.engine == "cuda:0"
    assert " by cuda:0, at most" in str(model.plan_)
    assert model.plan_.reasons[-1] == "cuda:0 pays: about 3.4 s there, 95 s on the processor"
    assert model.fit_.projection.sections.engine == Fake(1)
    assert model.get_params()["engine"] == "auto"
    by_name = KernelPCA(2, kernel=RBF(0.3), engine=Fake(1), random_state=0).fit(X)
    np.testing.assert_array_equal(model.eigenvectors_, by_name.eigenvectors_)
    planned = KernelPCA(2, kernel=RBF(0.3)).plan(X)
    assert (planned.engine, planned.n_products, planned.seconds) == ("cuda:0", 5, 3.4)


NOT_TAKEN = {
    "hardly faster": ("", {True: 60.0, False: 95.0}, r"twice as fast \(about 60 s there, 95 s on"),
    "kernel": ("kernel", None, "can't run RBF.*it has no formula"),
    "memory": ("memory", None, "needs up to"),
    "rows": ("rows", None, "take smaller numbers"),
    "context": ("context", None, "out of memory$"),
    "driver": ("driver", None, "unspecified launch failure$"),
}


@pytest.mark.usefixtures("long_fits")
@pytest.mark.parametrize("name", sorted(NOT_TAKEN))
def test_a_device_that_does_not_pay_is_left_alone(name, monkeypatch):
    """The fit is what it would be without one, bit for bit, with one more reason."""
    FREED.clear()
    trouble, seconds, words = NOT_TAKEN[name]
    model = KernelPCA(2, kernel=RBF(0.3), random_state=0)
    with_device(monkeypatch, None)
    usual = KernelPCA(2, kernel=RBF(0.3), random_state=0).fit(X)
    with_device(monkeypatch, Fake(1, trouble), seconds)
    model.fit(X)
    assert model.plan_.engine == usual.plan_.engine != "cuda:0"
    assert model.plan_.reasons[:-1] == usual.plan_.reasons
    assert model.plan_.reasons[-1].startswith("not on cuda:0: ")
    assert [Fake(1, trouble)] == FREED  # what the trial has left there
    assert re.search(words, model.plan_.reasons[-1])
    np.testing.assert_array_equal(model.eigenvectors_, usual.eigenvectors_)


@pytest.mark.usefixtures("long_fits")
def test_a_warning_of_the_trial_is_not_given(monkeypatch):
    class Warns(Fake):
        def gram_times(self, kernel, x, v, *, rough=False):
            warnings.warn("slower tiles instead", UserWarning, stacklevel=2)
            return super().gram_times(kernel, x, v, rough=rough)

    with_device(monkeypatch, Warns(1))
    monkeypatch.setattr(fit_request, "PAYING_SHARE", 0.0)  # the suite makes warnings errors
    assert KernelPCA(2, kernel=RBF(0.3)).fit(X).plan_.engine != "cuda:0"


# ── never looked for ────────────────────────────────────────────────────────
def looks(*_):
    msg = "torch was looked for"
    raise AssertionError(msg)


SHORT = {
    "a few rows": KernelPCA(2),
    "a detector": KernelPCADetector(2, limits="approximate"),
}


@pytest.mark.parametrize("name", sorted(SHORT))
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_a_short_fit_looks_for_no_device(name, monkeypatch):
    monkeypatch.setattr(resolve, "find_spec", looks)
    monkeypatch.setattr(fit_request, "device_there", looks)
    SHORT[name].fit(X[:300])


LEFT_ALONE = {
    "by name": KernelPCA(2, kernel=RBF(0.3), engine="numpy"),
    "low rank": KernelPCA(2, kernel=RBF(0.3), approximation="nystrom"),
    "linear": KernelPCA(2, kernel="linear"),
    "function": KernelPCA(2, kernel=Custom(lambda x, y: x @ y.T, form="matrices"), solver="lapack"),
}


@pytest.mark.usefixtures("long_fits")
@pytest.mark.parametrize("name", sorted(LEFT_ALONE))
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_what_a_device_does_not_speed_up_looks_for_none(name, monkeypatch):
    monkeypatch.setattr(fit_request, "device_there", looks)
    LEFT_ALONE[name].fit(X[:600])


# ── how much work is long ───────────────────────────────────────────────────
def planned(n, d, k=20, *, n_threads=16, **others):
    problem = {"itemsize": 4, "shift_invariant": True, "valid": True, "budget_bytes": 60 * 10**9}
    return plan(Problem(n=n, d=d, n_components=k, n_threads=n_threads, **problem | others))


@pytest.mark.parametrize(
    ("n", "d", "threads", "expected"),
    [
        (20_000, 50, 1, False),  # three seconds on one core
        (100_000, 50, 16, False),  # nine
        (131_072, 768, 16, True),
        (1_048_576, 768, 16, True),
        (1_048_576, 768, 192, True),
        (60_000, 784, 2, True),
    ],
)
def test_what_takes_longer_than_a_device_to_start(n, d, threads, expected):
    assert may_pay(planned(n, d, n_threads=threads), n, d, 20) is expected


def test_work_is_counted_from_tiles_and_products():
    """Of all entries: k + 12 columns a product, and a pair of rows where no tile is held."""
    found = planned(50_000, 30, budget_bytes=10**9)
    products = found.solver.products(20, 50_000)
    assert found.recipe.share < 1.0
    used = products * 2.0 * 32 * 50_000**2
    assert used < work(found, 50_000, 30, 20) <= used + products * 50_000**2 * (30 + 15)
    assert work(planned(50_000, 30), 50_000, 30, 20) < work(found, 50_000, 30, 20)
    assert work(planned(2000, 30), 2000, 30, 20) == 0.0  # K is stored
    assert work(found, 50_000, 30, 20) < START_SECONDS * CORE_FLOPS * 16


# ── is there one ────────────────────────────────────────────────────────────
NONE = {
    "no torch": None,
    "no device": torch_with(0),
    "not built": SimpleNamespace(
        __version__="2.9.0", version=SimpleNamespace(cuda=None, hip=None), cuda=None
    ),
    "broken": SimpleNamespace(),
}


@pytest.mark.parametrize("name", sorted(NONE))
def test_no_device_is_no_trouble(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", NONE[name])
    assert device_there() is None


def test_without_torch_nothing_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(resolve, "find_spec", lambda _: None)
    assert device_there() is None
    assert "torch" not in sys.modules


def test_a_chosen_device_does_not_travel(monkeypatch):
    """A model that is pickled computes as "auto" does where it is read; by name, it wants its device."""
    monkeypatch.setitem(sys.modules, "torch", torch_with(2))
    found = device_there()
    assert (type(found), found.place.name) == (ChosenEngine, "cuda:0")
    assert copy.deepcopy(found) is found
    sent = pickle.dumps(found)
    named = pickle.dumps(resolve_engine("cuda"))
    assert pickle.loads(named).place.name == "cuda:0"
    monkeypatch.setitem(sys.modules, "torch", None)
    assert pickle.loads(sent) == resolve_engine("auto")
