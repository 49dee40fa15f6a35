"""Laws of every way back: on each route, for each kernel that it is for."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as Reference

import mercer
from conftest import frozen
from mercer import IncrementalKernelPCA, KernelPCA
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.errors import PreimageWarning
from mercer.estimators.preimages import fit_preimage
from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)
from mercer.preimage import PREIMAGES, Distances, Exact, FixedPoint, Gradient, Ridge, search
from mercer.preimage import exact as closed_forms
from mercer.solvers import BlockKrylov

N = 60
RADIAL = {
    "rbf": RBF(0.3),
    "scaled": 2.5 * RBF(0.3),
    "matern": Matern(2.5, length_scale=2.0),
    "rational": RationalQuadratic(length_scale=2.0),
}
ROUTES = {
    "exact": {},
    "krylov": {"solver": BlockKrylov(tol=1e-12), "n_components": N - 1},
    "rpcholesky": {"approximation": RPCholesky(rank=N)},
    "nystrom": {"approximation": Nystrom(landmarks=N)},
    "fourier": {"approximation": RandomFourier(400)},
}
# What is left of the spread of the rows when all components are kept. Ridge is a regression; random features
# are the kernel only on average, so that the distances they tell are not quite those of points.
TOLERANCE = {"ridge": 1e-2, "fixed-point": 1e-4, "distances": 1e-4, "gradient": 1e-4}


@pytest.fixture(scope="module")
def x():
    return frozen(np.random.default_rng(5).standard_normal((N, 3)) + 2.0)


@pytest.fixture(scope="module")
def digits():
    rows = load_digits().data[:260] / 16.0
    return frozen(rows[:200]), frozen(rows[200:])


def gap(model, rows):
    return np.sqrt(np.mean((model.reconstruct(rows) - rows) ** 2))


# ── all components give the rows back ───────────────────────────────────────
@pytest.mark.parametrize("kernel", sorted(RADIAL))
@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_training_rows_come_back(name, kernel, x):
    model = KernelPCA(None, kernel=RADIAL[kernel], preimage=name).fit(x)
    assert gap(model, x) < TOLERANCE[name]


@pytest.mark.parametrize("route", sorted(ROUTES))
@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_training_rows_come_back_on_every_route(name, route, x):
    if (name, route) == ("fixed-point", "fourier"):
        pytest.skip("random features have no points to make a mean of")
    knobs = {"n_components": None, **ROUTES[route]}
    model = KernelPCA(kernel=RBF(0.3), preimage=name, **knobs).fit(x)
    slack = 0.2 if (name, route) == ("distances", "fourier") else TOLERANCE[name]
    assert gap(model, x) < slack


@pytest.mark.parametrize("name", ["ridge", "distances", "gradient", "exact"])
@pytest.mark.parametrize("coef0", [0.0, 1.0])
def test_rows_come_back_through_an_explicit_map(name, coef0, x):
    model = KernelPCA(None, kernel=Polynomial(3, gamma=0.2, coef0=coef0), preimage=name).fit(x)
    assert model.plan_.route == "primal"
    # A root of cubes alone is steep near zero, which a regression smooths.
    assert gap(model, x) < {**TOLERANCE, "exact": 1e-9, "ridge": 0.1}[name]


@pytest.mark.parametrize("kernel", [Polynomial(2), Laplacian(0.3), RBF(0.2) + 0.1 * Linear()])
def test_the_gradient_is_for_other_kernels_too(kernel, x):
    assert gap(KernelPCA(None, kernel=kernel, preimage="gradient").fit(x), x) < 1e-3


def test_histograms_stay_histograms(histograms):
    model = KernelPCA(10, kernel=Chi2(1.0), preimage="gradient").fit(histograms)
    assert np.all(model.reconstruct(histograms) >= 0)
    assert gap(model, histograms) < 0.2 * histograms.std()


# ── closed forms ────────────────────────────────────────────────────────────
SIDES = {
    "primal": ((80, 5), {}),
    "dual": ((12, 30), {}),
    "rpcholesky": ((80, 5), {"approximation": RPCholesky(rank=5)}),
}


@pytest.mark.parametrize("side", sorted(SIDES))
@pytest.mark.parametrize("name", ["exact", "gradient", "distances"])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_linear_kernel_gives_what_pca_gives(side, name, factor, rng):
    shape, knobs = SIDES[side]
    x = rng.standard_normal(shape) * np.linspace(3, 1, shape[1]) + 10.0
    kernel = factor * Linear() if factor != 1.0 else Linear()
    if (name, side) == ("distances", "dual"):
        pytest.skip("what lies outside of the span of the neighbours is not located")
    # Neighbours on all sides: distances locate a point in their span.
    method = Distances(n_neighbours=40) if name == "distances" else PREIMAGES[name]()
    model = KernelPCA(3, kernel=kernel, preimage=method, **knobs).fit(x)
    reference = Reference(3).fit(x)
    wanted = reference.inverse_transform(reference.transform(x))
    atol = {"exact": 1e-9, "gradient": 1e-3, "distances": 0.3}[name]
    np.testing.assert_allclose(model.reconstruct(x), wanted, atol=atol)


@pytest.mark.parametrize("degree", [1, 3, 5])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_odd_polynomials_are_undone(degree, factor, rng):
    x = rng.standard_normal((90, 3)) + 1.0
    kernel = Polynomial(degree, gamma=0.5) * factor if factor != 1.0 else Polynomial(degree, 0.5)
    model = KernelPCA(None, kernel=kernel, preimage=Exact()).fit(x)
    np.testing.assert_allclose(model.reconstruct(x), x, atol=1e-6)


@pytest.mark.parametrize("k", [2, 6])
def test_residuals_are_those_of_the_explicit_map(k, x, rng):
    kernel = Polynomial(2, gamma=0.5)
    model = KernelPCA(k, kernel=kernel, preimage="gradient").fit(x)
    phi = kernel.feature_map(3)
    mean = phi(x).mean(axis=0)
    axes = np.linalg.svd(phi(x) - mean, full_matrices=False)[2][:k]
    x_new, points = rng.standard_normal((2, 15, 3)) + 2.0
    sought = mean + (phi(x_new) - mean) @ axes.T @ axes
    wanted = np.sum((phi(points) - sought) ** 2, axis=1)
    lengths = np.sum((phi(x) - mean) ** 2, axis=1)
    found = model.preimage_.residuals(model.transform(x_new), points)
    np.testing.assert_allclose(found, wanted / lengths.mean(), rtol=1e-8)


# ── searches ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("method", [FixedPoint(max_iter=3), FixedPoint(), Gradient()])
@pytest.mark.filterwarnings("ignore::mercer.errors.PreimageWarning")
def test_no_answer_is_worse_than_its_best_start(method, digits):
    train, held = digits
    # A narrow kernel and wild targets: weights of both signs, where a fixed point may not be reached.
    model = KernelPCA(15, kernel=RBF(0.5), preimage=method).fit(train)
    scores = 1.5 * model.transform(held)
    squares = np.sum((scores[:, None] - model.transform(train)) ** 2, axis=2)
    nearest = np.argsort(squares, axis=1)[:, :3]
    found = model.preimage_.residuals(scores, model.preimage_(scores))
    for start in (train[nearest[:, 0]], train[nearest[:, 2]], train[nearest].mean(axis=1)):
        assert np.all(found <= model.preimage_.residuals(scores, start) + 1e-12)


@pytest.mark.parametrize("name", ["fixed-point", "gradient"])
def test_searches_find_what_an_optimiser_finds(name, x, rng):
    """SciPy's BFGS on the distance written out with the kernel, from the nearest row."""
    kernel = RBF(0.2)
    model = KernelPCA(4, kernel=kernel, preimage=name).fit(x)
    scores = model.transform(rng.standard_normal((6, 3)) + 2.0)
    points, gram, own = model.inverse_transform(scores), kernel(x), model.transform(x)

    def distance(point, gamma, norm):
        values = np.exp(-0.2 * np.sum((x - point) ** 2, axis=1))
        return 1.0 - 2.0 * values @ gamma + norm

    for t, point in zip(scores, points, strict=True):
        gamma = model.fit_.projection.coef @ t + 1.0 / len(x)
        norm, start = gamma @ gram @ gamma, x[np.argmin(np.sum((own - t) ** 2, axis=1))]
        best = minimize(distance, start, args=(gamma, norm))
        assert distance(point, gamma, norm) <= best.fun + 1e-7
        assert best.fun < distance(start, gamma, norm)


def test_sums_and_products_have_fixed_points(digits):
    train, held = digits
    kernel = RBF(0.02) + 0.5 * Matern(2.5, 3.0) * RBF(0.01)
    model = KernelPCA(10, kernel=kernel, preimage="fixed-point").fit(train)
    other = KernelPCA(10, kernel=kernel, preimage="gradient").fit(train)
    scores = model.transform(held)
    reached, wanted = (
        m.preimage_.residuals(scores, m.inverse_transform(scores)) for m in (model, other)
    )
    np.testing.assert_allclose(reached, wanted, rtol=1e-3)


@pytest.mark.parametrize("method", [FixedPoint(max_iter=1), Gradient(max_iter=1)])
def test_searches_that_have_not_settled_are_counted(method, digits):
    train, held = digits
    model = KernelPCA(10, kernel=RBF(0.05), preimage=method).fit(train)
    with pytest.warns(PreimageWarning, match=rf"of {len(held)} pre-images had not settled after 1"):
        model.reconstruct(held)


def test_neighbours_that_are_no_neighbours_of_themselves_locate_a_point(x):
    """Each row is found from its distances to others only."""
    model = KernelPCA(None, kernel=RBF(0.3), preimage=Distances()).fit(x)
    found = model.preimage_.back(model.fit_.scores, skip=np.arange(len(x)))[0]
    np.testing.assert_allclose(found, x, atol=1e-5)


# ── manners ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_the_same_again_and_in_slices(name, digits, monkeypatch):
    train, held = digits
    model = KernelPCA(8, kernel=RBF(0.05), preimage=name).fit(train)
    found = model.reconstruct(held)
    np.testing.assert_array_equal(clone(model).fit(train).reconstruct(held), found)
    for module in (search, closed_forms):
        monkeypatch.setattr(module, "SLICE_NUMBERS", 5000)
    monkeypatch.setattr("mercer.engine.native.engine.SEARCHED_BYTES", 1)
    np.testing.assert_allclose(model.reconstruct(held), found, atol=1e-6)
    np.testing.assert_allclose(model.reconstruct(held[3:4]), found[3:4], atol=1e-6)


@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_single_precision_stays_and_is_as_good(name, digits):
    train, held = (rows.astype(np.float32) for rows in digits)
    single = KernelPCA(8, kernel=RBF(0.05), preimage=name).fit(train)
    double = KernelPCA(8, kernel=RBF(0.05), preimage=name).fit(train.astype(np.float64))
    assert single.reconstruct(held).dtype == np.float32
    assert gap(single, held) == pytest.approx(gap(double, held.astype(np.float64)), rel=1e-2)


@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_quality_is_that_of_new_rows(name, digits):
    train, held = digits
    model = KernelPCA(8, kernel=RBF(0.05), preimage=name).fit(train)
    quality, points = model.preimage_.quality, model.reconstruct(held)
    residual = np.median(model.preimage_.residuals(model.transform(held), points))
    of_mean = np.sqrt(np.mean((held - train.mean(axis=0)) ** 2))
    assert quality.error == pytest.approx(gap(model, held), rel=0.25)
    assert quality.error_of_mean == pytest.approx(of_mean, rel=0.1)
    assert quality.residual == pytest.approx(residual, rel=0.5)
    assert quality.error < 0.8 * quality.error_of_mean
    assert "feature-space residual" in str(quality)


@pytest.mark.parametrize("name", ["fixed-point", "gradient", "distances"])
def test_the_models_own_rows_are_not_copied(name, digits):
    model = KernelPCA(5, kernel=RBF(0.05), preimage=name).fit(digits[0].astype(np.float32))
    own = model.fit_.projection.sections.points
    assert np.shares_memory(model.preimage_.back.near.rows, own)


@pytest.mark.parametrize("name", sorted(PREIMAGES))
@pytest.mark.parametrize("shape", [(700, 3), (300, 500)])
@pytest.mark.filterwarnings("ignore:The pre-image is no better:mercer.errors.PreimageWarning")
def test_learning_holds_no_more_than_it_says(name, shape, rng):
    x = rng.standard_normal(shape).astype(np.float32)
    kernel = Linear() if name == "exact" else RBF(0.3 / shape[1])
    method = PREIMAGES[name]()
    k = 3 if name == "exact" else 20
    KernelPCA(k, kernel=kernel, preimage=method).fit(x[:50])  # what is loaded once is loaded
    fitted = KernelPCA(k, kernel=kernel).fit(x)
    tracemalloc.start()
    back = fit_preimage(method, fitted.fit_, fitted.kernel_, x, rng=rng)
    back(fitted.transform(x[:30]).astype(np.float64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= method.n_bytes(*shape, k)


# ── rows handed over ────────────────────────────────────────────────────────
def test_a_precomputed_kernel_comes_back_to_the_rows_it_is_given(digits):
    train, held = digits
    kernel = RBF(0.05)
    given = KernelPCA(10, kernel="precomputed", preimage=Ridge(rows=train)).fit(kernel(train))
    direct = KernelPCA(10, kernel=kernel, preimage=Ridge()).fit(train)
    np.testing.assert_allclose(
        given.reconstruct(kernel(held, train)), direct.reconstruct(held), atol=1e-5
    )
    assert given.preimage_.residuals(given.transform(kernel(held, train)), held) is None
    assert given.preimage_.quality.error == pytest.approx(direct.preimage_.quality.error, rel=1e-4)
    np.testing.assert_array_equal(clone(given).preimage.rows, train)


def test_handed_rows_of_weight_zero_are_not_learned_from(digits):
    train, held = digits
    kernel, weights = RBF(0.05), np.r_[np.zeros(20), np.ones(len(train) - 20)]
    wild = np.concatenate([np.full((20, train.shape[1]), 1e6), train[20:]])
    given = KernelPCA(10, kernel="precomputed", preimage=Ridge(rows=wild))
    given.fit(kernel(train), sample_weight=weights)
    less = KernelPCA(10, kernel=kernel, preimage="ridge").fit(train[20:])
    np.testing.assert_allclose(
        given.reconstruct(kernel(held, train)), less.reconstruct(held), atol=1e-5
    )


def test_the_rows_handed_over_may_be_others(x):
    """The way leads to what was asked for: here twice the sum of the columns."""
    wanted = 2.0 * x.sum(axis=1, keepdims=True)
    model = KernelPCA(None, kernel=RBF(0.1), preimage=Ridge(rows=wanted)).fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), wanted, atol=0.05)


# ── streams ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_a_stream_has_a_way_back(name, rng):
    x = rng.standard_normal((400, 2))
    model = IncrementalKernelPCA(40, kernel=RBF(0.3), preimage=name, max_landmarks=100, tol=1e-7)
    for batch in np.split(x, 4):
        model.partial_fit(batch)
    assert gap(model, x) < {"ridge": 0.05, "distances": 0.05}.get(name, 0.01)
    first = model.preimage_
    assert model.preimage_ is first  # learned once between two batches
    model.partial_fit(x[:10])
    assert model.preimage_ is not first


def test_a_stream_without_one_says_so(rng):
    model = IncrementalKernelPCA(2, kernel=RBF(0.3)).fit(rng.standard_normal((50, 2)))
    assert not hasattr(model, "preimage_")
    with pytest.raises(ValueError, match="'fixed-point'"):
        model.reconstruct(rng.standard_normal((5, 2)))


# ── the error in feature space needs no way back ────────────────────────────
def test_pcas_error_is_the_squared_distance(rng):
    x = rng.standard_normal((40, 6)) + 3.0
    model = mercer.PCA(2).fit(x)
    wanted = np.sum((model.reconstruct(x) - x) ** 2, axis=1)
    np.testing.assert_allclose(model.reconstruction_error(x), wanted, rtol=1e-9)


def test_cosine_has_an_error_too(x):
    model = KernelPCA(2, kernel=Cosine()).fit(x)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    reference = Reference(2).fit(unit)
    wanted = np.sum((reference.inverse_transform(reference.transform(unit)) - unit) ** 2, axis=1)
    np.testing.assert_allclose(model.reconstruction_error(x), wanted, atol=1e-12)
