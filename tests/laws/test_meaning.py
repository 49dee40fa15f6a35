"""Laws of what components mean: slopes against differences, and shares against closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conftest import frozen
from markets.kernels import VALID
from mercer import PCA, IncrementalKernelPCA, KernelPCA
from mercer._core.errors import InputError, KernelError
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.diagnostics import gradients, importance
from mercer.kernels import RBF, Linear, Polynomial
from mercer.sklearn import KernelPCA as DropIn
from mercer.solvers import BlockKrylov

D = 4
MODELS = {
    "exact": KernelPCA(3, kernel=RBF(0.2)),
    "krylov": KernelPCA(3, kernel=RBF(0.2), solver=BlockKrylov(tol=1e-12)),
    "rpcholesky": KernelPCA(3, kernel=RBF(0.2), approximation=RPCholesky(rank=30)),
    "nystrom": KernelPCA(3, kernel=RBF(0.2), approximation=Nystrom(landmarks=30)),
    "fourier": KernelPCA(3, kernel=RBF(0.2), approximation=RandomFourier(60)),
    "explicit map": KernelPCA(3, kernel=Polynomial(2, gamma=0.5)),
    "streaming": IncrementalKernelPCA(3, kernel=RBF(0.2), max_landmarks=30, batch_size=20),
    "pca": PCA(3),
}
SMOOTH = sorted(name for name, kernel in VALID.items() if kernel.differentiable)
ROUGH = sorted(set(VALID) - set(SMOOTH))


@pytest.fixture(scope="module")
def x():
    return frozen(np.random.default_rng(5).standard_normal((70, D)) * [1.0, 2.0, 0.5, 1.5])


@pytest.fixture(scope="module")
def x_new():
    return frozen(np.random.default_rng(6).standard_normal((15, D)))


def differences(transform, x, step=1e-5):
    """Central differences of scores, (b, k, d)."""
    moved = []
    for l in range(x.shape[1]):
        shift = step * np.eye(x.shape[1])[l]
        moved.append((transform(x + shift) - transform(x - shift)) / (2 * step))
    return np.stack(moved, axis=2)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_differences_of_scores(name, x, x_new):
    model = MODELS[name].fit(x)
    found = gradients(model, x_new)
    assert found.shape == (15, 3, D)
    np.testing.assert_allclose(found, differences(model.transform, x_new), atol=1e-7)


@pytest.mark.parametrize("kernel", SMOOTH)
def test_gradients_of_every_kernel_that_has_a_slope(kernel, x, x_new):
    model = KernelPCA(2, kernel=VALID[kernel]).fit(x)
    found = gradients(model, x_new)
    scale = np.abs(found).max()
    np.testing.assert_allclose(found, differences(model.transform, x_new), atol=1e-6 * scale)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_keep_the_dtype(name, x, x_new):
    model = MODELS[name].fit(x.astype(np.float32))
    found = gradients(model, x_new.astype(np.float32))
    assert found.dtype == np.float32
    wanted = gradients(MODELS[name].fit(x.astype(np.float32).astype(np.float64)), x_new)
    signs = np.sign(np.einsum("bkd,bkd->k", found, wanted))[:, None]  # of an axis: arbitrary
    np.testing.assert_allclose(found * signs, wanted, atol=2e-3)


def test_gradients_of_many_rows_are_those_of_each(x):
    many = np.tile(x, (40, 1))  # more than one block
    model = MODELS["exact"].fit(x)
    np.testing.assert_allclose(gradients(model, many), np.tile(gradients(model, x), (40, 1, 1)))


def test_sparse_rows_and_files_have_the_gradients_of_their_dense_selves(x, x_new, tmp_path):
    holes, holes_new = np.where(x > 0, x, 0.0), np.where(x_new > 0, x_new, 0.0)
    dense, thin = MODELS["exact"].fit(holes), KernelPCA(3, kernel=RBF(0.2))
    thin.fit(sparse.csr_array(holes))
    wanted = gradients(dense, holes_new)
    np.testing.assert_allclose(gradients(thin, sparse.csr_array(holes_new)), wanted, atol=1e-10)
    np.save(tmp_path / "rows.npy", holes_new)
    np.testing.assert_allclose(gradients(dense, tmp_path / "rows.npy"), wanted, atol=1e-12)
    shares = importance(dense, holes_new).shares
    np.testing.assert_allclose(importance(thin, sparse.csr_array(holes_new)).shares, shares)
    np.testing.assert_allclose(importance(dense, tmp_path / "rows.npy").shares, shares)


# ── importance ──────────────────────────────────────────────────────────────
def linear_shares(x, k):
    sizes = np.abs(SklearnPCA(k).fit(x).components_) * x.std(axis=0)
    return (sizes / sizes.sum(axis=1, keepdims=True)).T  # (d, k)


@pytest.mark.parametrize(
    "model", [PCA(3), KernelPCA(3, kernel=Linear()), KernelPCA(3, kernel=Linear(), solver="krylov")]
)
def test_importance_of_linear_pca_is_axis_times_deviation(model, x):
    found = importance(model.fit(x), x)
    np.testing.assert_allclose(found.shares, linear_shares(x, 3), rtol=1e-8)
    # One slope everywhere: its mean is its size, but for the sign of the axis.
    np.testing.assert_allclose(np.abs(found.slopes), found.sizes, rtol=1e-10)
    np.testing.assert_allclose(found.sizes, (np.abs(gradients(model, x)[0]) * x.std(axis=0)).T)


@pytest.mark.parametrize("name", MODELS)
def test_shares_sum_to_one_and_no_mean_is_larger_than_its_size(name, x):
    found = importance(MODELS[name].fit(x), x)
    np.testing.assert_allclose(found.shares.sum(axis=0), 1.0, rtol=1e-12)
    assert np.all(np.abs(found.slopes) <= found.sizes * (1 + 1e-12))
    slopes = gradients(MODELS[name], x) * x.std(axis=0)
    np.testing.assert_allclose(found.sizes, np.sqrt((slopes**2).mean(axis=0)).T, rtol=1e-9)
    np.testing.assert_allclose(found.slopes, slopes.mean(axis=0).T, atol=1e-12)


def test_a_variable_that_the_kernel_does_not_look_at_has_no_importance(x):
    found = importance(KernelPCA(2, kernel=RBF(0.3).on([0, 1])).fit(x), x)
    assert np.array_equal(found.shares[2:], np.zeros((2, 2)))
    assert np.all(found.shares[:2] > 0.01)
    assert found.top(0, count=4) in (["x0", "x1"], ["x1", "x0"])


def test_units_do_not_matter(x):
    """A kernel that undoes a change of units sees the same data, and so does importance."""
    metres = importance(KernelPCA(2, kernel=Linear().on([0]) + RBF(0.3).on([1, 2, 3])).fit(x), x)
    scaled = x * [1000.0, 1.0, 1.0, 1.0]
    kernel = 1e-6 * Linear().on([0]) + RBF(0.3).on([1, 2, 3])
    millimetres = importance(KernelPCA(2, kernel=kernel).fit(scaled), scaled)
    np.testing.assert_allclose(millimetres.shares, metres.shares, rtol=1e-8)


def test_what_goes_up_and_down_is_important_and_has_no_direction():
    """x² on a symmetric interval: slopes 2x cancel in the mean, not in the square."""
    t = np.linspace(-1.0, 1.0, 41)[:, None]
    model = KernelPCA(1, kernel=Polynomial(2, coef0=0.0)).fit(t)
    found = importance(model, t, names=["t"])
    # score = ±(x² - mean): rms slope 2·rms(x), times std(x) = rms(x).
    np.testing.assert_allclose(found.sizes, [[2.0 * np.mean(t**2)]], rtol=1e-10)
    np.testing.assert_allclose(found.slopes, 0.0, atol=1e-12)
    assert "goes both ways with t (100%)" in str(found)


def test_iris_in_words_and_as_a_table():
    iris = load_iris(as_frame=True)
    model = PCA(2).fit(iris.data)
    found = importance(model, iris.data)
    assert found.names == tuple(iris.feature_names)
    up = np.sign(model.components_[0, 2])
    way = "rises" if up > 0 else "falls"
    assert str(found).startswith(
        f"component 1 (92.5% of the variance) {way} with petal length (cm) ("
    )
    assert found.top(0, count=1) == ["petal length (cm)"]
    table = found.table
    assert table.columns == ["variable", "share 1", "slope 1", "share 2", "slope 2"]
    assert list(table["variable"]) == iris.feature_names
    np.testing.assert_array_equal(table["share 2"], found.shares[:, 1])
    assert len(table.to_pandas()) == 4
    assert repr(found) == "Importance(4 variables for 2 components)"


def test_names_come_from_the_call_the_fit_the_rows_or_are_numbered(x):
    model = MODELS["exact"].fit(x)
    assert importance(model, x).names == ("x0", "x1", "x2", "x3")
    assert importance(model, x, names=list("abcd")).names == tuple("abcd")
    frame = pd.DataFrame(x, columns=list("pqrs"))
    assert importance(KernelPCA(1).fit(frame), frame).names == tuple("pqrs")


def test_many_components_are_not_all_printed(x):
    found = importance(KernelPCA(12, kernel=RBF(0.2)).fit(x), x)
    assert str(found).count("\n") == 10
    assert str(found).endswith("2 more components")


def test_a_component_that_stands_still_has_no_shares():
    x = np.random.default_rng(0).standard_normal((30, 2))
    model = KernelPCA(1, kernel=RBF(1.0)).fit(x)
    found = importance(model, x * 1e-3 + 1e3)  # nowhere near the data, every kernel value is zero
    assert np.array_equal(found.shares, np.zeros((2, 1)))
    assert "stands still" in str(found)
    assert found.top(0) == []


# ── bad input ───────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kernel", ROUGH)
def test_a_kernel_without_a_slope_is_refused(kernel, x):
    model = KernelPCA(2, kernel=VALID[kernel]).fit(x)
    with pytest.raises(KernelError, match="no derivative that is known here"):
        gradients(model, x)


def test_a_precomputed_kernel_is_refused(x):
    K = RBF(0.2)(x)
    with pytest.raises(KernelError, match="no derivative"):
        gradients(KernelPCA(2, kernel="precomputed").fit(K), K)


@pytest.mark.parametrize("ask", [gradients, importance])
def test_what_is_no_fitted_model_of_these_columns_is_refused(ask, x):
    with pytest.raises(NotFittedError):
        ask(KernelPCA(2), x)
    with pytest.raises(InputError, match="got a StandardScaler"):
        ask(StandardScaler().fit(x), x)
    with pytest.raises(InputError, match=r"mercer\.KernelPCA"):
        ask(DropIn(2).fit(x), x)
    with pytest.raises(ValueError, match="3 features"):
        ask(MODELS["exact"].fit(x), x[:, :3])


def test_importance_needs_rows_that_differ_names_for_all_and_components_that_exist(x):
    model = MODELS["exact"].fit(x)
    for rows in (x[:0], x[:1], np.tile(x[:1], (5, 1))):
        with pytest.raises(InputError, match=r"two different rows.*got [015] row.*Pass"):
            importance(model, rows)
    with pytest.raises(InputError, match=r"two different rows.*got 0 rows"):
        importance(make_pipeline(StandardScaler(), PCA(2)).fit(x), x[:0])
    with pytest.raises(InputError, match=r"at least 1 row.*got 0 rows"):
        gradients(model, x[:0])
    with pytest.raises(InputError, match="a list of 4 names, one for each variable; got 3"):
        importance(model, x, names=list("abc"))
    with pytest.raises(InputError, match="from 0 to 2"):
        importance(model, x).top(3)


@pytest.mark.parametrize("component", [1.0, "0", None, True, -1])
def test_a_component_is_counted_from_zero(component, x):
    with pytest.raises(InputError, match="component must be an integer from 0 to 2"):
        importance(PCA(3).fit(x), x).top(component)


@pytest.mark.parametrize("count", [-1, 1.0, "1", None])
def test_a_count_of_variables_is_whole(count, x):
    with pytest.raises(InputError, match="count must be an integer >= 0"):
        importance(PCA(3).fit(x), x).top(0, count=count)
