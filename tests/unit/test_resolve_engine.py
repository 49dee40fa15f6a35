"""The parameter `engine`: one place knows the names, and an estimator keeps what it was given."""

import re
import threading

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from markets.engines import DenseEngine
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector, load
from mercer._core.errors import InputError, ParameterError
from mercer.engine import resolve
from mercer.engine.base import Facts
from mercer.engine.native import compiled
from mercer.engine.numpy import NumpyEngine
from mercer.engine.resolve import resolve_engine
from mercer.engine.threads import lanes
from mercer.kernels import RBF
from mercer.planning import krylov, plan, problem

X = np.random.default_rng(0).standard_normal((60, 3))
ESTIMATORS = {
    "kpca": KernelPCA(2, kernel=RBF(0.3)),
    "pca": PCA(2),
    "incremental": IncrementalKernelPCA(2, kernel=RBF(0.3)),
    "detector": KernelPCADetector(2, kernel=RBF(0.3), limits="approximate"),
}
pytestmark = pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")


class OnlySmall(NumpyEngine):
    """An engine that refuses every kernel."""

    def facts(self):
        return Facts("toy", 1, 10**9, lambda _: "it knows no exponential")


@pytest.mark.parametrize("name", ["numpy", " NumPy "])
def test_names_of_engines(name):
    assert resolve_engine(name).facts().name == "numpy"


@pytest.mark.parametrize(("library", "expected"), [(None, "numpy"), (object(), "native")])
def test_auto_is_compiled_where_it_can_be(library, expected, monkeypatch):
    monkeypatch.setattr(resolve, "compiled", lambda: library)
    assert type(resolve_engine(" Auto ")) is resolve.ENGINES[expected]


STANDS_IN = {
    "no formula": ("matern(nu=1.2)", X, "Bessel"),
    "sparse rows": (RBF(0.3), sparse.csr_array(X), "sparse rows"),
    "rows in a file": (RBF(0.3), "file", "rows in a file"),
    "huge numbers": (RBF(1e-40), 1e20 * X, "take rows of"),
    "a narrow kernel": (RBF(1e12), X, "too narrow"),
    "not installed": (RBF(0.3), X, "C\\+\\+ compiler"),
}


@pytest.mark.parametrize("name", sorted(STANDS_IN))
def test_the_plan_says_where_numpy_stands_in(name, monkeypatch, tmp_path):
    """Nothing is left to NumPy without a word, and a kernel that runs compiled needs none."""
    kernel, x, words = STANDS_IN[name]
    if compiled() is None:
        pytest.skip("no compiled tiles")
    if isinstance(x, str):
        monkeypatch.setattr(problem, "OWN_SHARE", 0.0)  # they stay there
        np.save(tmp_path / "x.npy", X)
        x = tmp_path / "x.npy"
    if name == "not installed":
        monkeypatch.setattr(resolve, "compiled", lambda: None)
    model = KernelPCA(2, kernel=kernel).fit(x)
    assert model.plan_.engine == "numpy"
    assert re.search(f"tiles are NumPy's: .*{words}", model.plan_.reasons[-1])
    monkeypatch.undo()
    assert KernelPCA(2, kernel=RBF(0.3)).fit(X).plan_.engine == "native"
    for unasked in (KernelPCA(2, kernel="linear"), KernelPCA(2, kernel="poly")):
        assert "NumPy" not in str(unasked.fit(X).plan_)


def test_compiled_tiles_are_there_or_the_way_to_them_is_named(monkeypatch):
    monkeypatch.setattr(resolve, "compiled", lambda: None)
    with pytest.raises(InputError, match=r"engine='native'.*native\.build.*engine='numpy'"):
        resolve_engine("native")
    monkeypatch.setattr(resolve, "compiled", object)
    assert resolve_engine("native").facts().name == "native"


def test_an_engine_is_taken_as_it_is():
    engine = NumpyEngine(3)
    assert resolve_engine(engine) is engine
    assert engine.facts().lanes == 3


class Two(NumpyEngine):
    """An engine of a user's own, with a constructor of its own."""

    def __init__(self):
        super().__init__(2)


def test_a_subclass_runs_on_the_threads_of_the_plan():
    found = KernelPCA(2, engine=Two(), random_state=0).fit(X)
    assert found.plan_.n_threads == 1
    assert Two().lanes == 2
    with lanes(1):
        assert Two().lanes == 1
    same = KernelPCA(2, engine="numpy", random_state=0).fit(X)
    np.testing.assert_array_equal(found.eigenvalues_, same.eigenvalues_)


def test_the_plan_of_a_stream_has_the_threads_of_its_engine():
    found = IncrementalKernelPCA(2, engine=NumpyEngine(3)).fit(X)
    assert found.fit_.plan.n_threads == 3


@pytest.mark.parametrize("n_threads", [0, -1, "2", 1.5, True])
def test_threads_are_counted(n_threads):
    with pytest.raises(ParameterError, match="n_threads must be"):
        NumpyEngine(n_threads)


@pytest.mark.parametrize("given", ["nunpy", "", None, 3, NumpyEngine, object()])
def test_what_is_no_engine_is_refused_with_the_known_names(given):
    with pytest.raises(InputError, match=r"'auto'.*'numpy'"):
        resolve_engine(given)


def test_a_name_that_is_nearly_right_is_put_right():
    with pytest.raises(ParameterError, match="Did you mean 'numpy'") as caught:
        resolve_engine("nunpy")
    assert (caught.value.parameter, caught.value.value) == ("engine", "nunpy")


NAMES_OF_OTHERS = {
    "gpu": "engine='cuda'",
    "cpu": "engine='native'",
    "cuda,mps": "devices of one kind",
    "cuda:0,": "'cuda:0,' must be names of devices",
    "dask:cuda:0": "each worker's own GPU.*got 'dask:cuda:0'",
    "dask:cuda@": "each worker's own GPU.*got 'dask:cuda@'",
}


@pytest.mark.parametrize("name", sorted(NAMES_OF_OTHERS))
def test_a_name_that_others_use_is_answered_with_the_right_one(name):
    with pytest.raises((ParameterError, InputError), match=NAMES_OF_OTHERS[name]):
        resolve_engine(name)


@pytest.mark.parametrize("kind", sorted(ESTIMATORS))
def test_clones_share_an_engine_and_what_it_holds(kind):
    """A device or a client can't be copied, and two engines on one device would share its memory."""
    engine = DenseEngine()
    engine.lock = threading.Lock()  # has no copy
    model = clone(ESTIMATORS[kind]).set_params(engine=engine)
    assert clone(model).engine is engine
    model.fit(X)


@pytest.mark.parametrize("kind", sorted(ESTIMATORS))
def test_every_estimator_refuses_an_engine_before_it_fits(kind):
    model = clone(ESTIMATORS[kind]).set_params(engine="cuda:none")
    with pytest.raises(InputError, match="engine='cuda:none' names no device"):
        model.fit(X)
    assert not hasattr(model, "fit_")


@pytest.mark.parametrize("kind", ["kpca", "incremental", "detector"])
def test_an_engine_that_can_not_run_a_kernel_names_one_that_can(kind):
    model = clone(ESTIMATORS[kind]).set_params(engine=OnlySmall())
    with pytest.raises(
        InputError, match=r"engine='toy' can't run RBF.*exponential.*engine='numpy'"
    ):
        model.fit(X)


@pytest.mark.parametrize("engine", ["auto", "numpy", NumpyEngine(1)], ids=str)
@pytest.mark.parametrize("kind", sorted(ESTIMATORS))
def test_the_engine_is_a_parameter_of_which_a_file_has_the_name(kind, engine, tmp_path):
    """An object may be a device or a cluster: a model that is loaded is on "auto" again."""
    model = clone(ESTIMATORS[kind]).set_params(engine=engine)
    assert clone(model).get_params()["engine"] == engine
    model.fit(X)
    kept = load(model.save(tmp_path / "m.mercer") or tmp_path / "m.mercer")
    assert kept.engine == (engine if isinstance(engine, str) else "auto")
    measure = "decision_function" if kind == "detector" else "transform"
    there, here = getattr(kept, measure)(X), getattr(model, measure)(X)
    if engine == "auto":
        np.testing.assert_array_equal(there, here)
    else:  # to the rounding of another engine
        np.testing.assert_allclose(there, here, atol=1e-12 * np.abs(here).max())


PLANNED = {
    "exact": (KernelPCA(2, kernel="rbf"), X, "dense"),
    "low rank": (KernelPCA(2, kernel="rbf", approximation="fourier"), X, "dense"),
    "explicit map": (KernelPCA(2, kernel="poly"), X, "numpy"),
    "linear": (KernelPCA(2, kernel="linear"), X, "numpy"),
    "wide linear": (KernelPCA(2, kernel="linear"), X[:, :1] * np.ones(50) + np.eye(50)[0], "numpy"),
    "pca": (PCA(2), X, "numpy"),
    "pca of a file": (PCA(2), "file", "dense"),
    "stream": (IncrementalKernelPCA(2), X, "dense"),
}


@pytest.mark.parametrize("name", sorted(PLANNED))
def test_the_plan_says_which_engine_runs(name, tmp_path):
    """The rows and features that are multiplied in memory are NumPy's."""
    model, x, expected = PLANNED[name]
    if isinstance(x, str):
        np.save(tmp_path / "x.npy", X)
        x = tmp_path / "x.npy"
    fitted = clone(model).set_params(engine=DenseEngine()).fit(x)
    assert fitted.fit_.plan.engine == expected


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("params", [{"solver": "krylov"}, {"solver": "lapack"}, {"memory": "30MB"}])
def test_a_fit_runs_on_the_engine_it_was_given(params, dtype, monkeypatch):
    """One that has float64 alone, and counts: the planner asks it, and the tiles are its own."""
    for module in (problem, krylov, plan):
        monkeypatch.setattr(module, "SMALL_ROWS", 50)  # above, there would be a float32 sketch
    engine, x = DenseEngine(), np.random.default_rng(1).standard_normal((560, 3)).astype(dtype)
    model = KernelPCA(2, kernel=RBF(0.3), engine=engine, **params).fit(x)
    assert model.plan_.engine == "dense"
    assert (model.plan_.recipe.dtype, model.plan_.recipe.proof) == ("float64", None)
    assert engine.products > 0
    same = KernelPCA(2, kernel=RBF(0.3), **params).fit(x)
    np.testing.assert_allclose(model.eigenvalues_, same.eigenvalues_, rtol=1e-5)


def test_the_planner_asks_the_engine_and_nothing_else():
    """Lanes, cache, free bytes and precisions are the engine's: two plans differ by what it says."""
    x = np.random.default_rng(1).standard_normal((4000, 3))

    class Told(NumpyEngine):
        def facts(self):
            return Facts("told", 1, 10**8, lambda _: None, cache_bytes=8 * 200**2)

    found = KernelPCA(2, kernel=RBF(0.3), engine=Told()).plan(x)
    usual = KernelPCA(2, kernel=RBF(0.3), engine=NumpyEngine(2), memory="1GB").plan(x)
    assert (found.engine, found.n_threads, usual.n_threads) == ("told", 1, 2)
    assert found.n_bytes <= 0.6 * 10**8  # a share of what is free
    assert found.recipe.width == 200 < usual.recipe.width
