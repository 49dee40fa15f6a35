"""Ways back that would leave the data, or overflow, or help nobody."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_swiss_roll
from sklearn.decomposition import PCA as Reference

from conftest import frozen
from mercer import IncrementalKernelPCA, KernelPCA
from mercer.errors import InputError, KernelError, PreimageWarning
from mercer.kernels import RBF, Linear, Polynomial
from mercer.plots import levels
from mercer.preimage import Distances, Gradient, Ridge


@pytest.fixture(scope="module")
def x():
    return frozen(np.random.default_rng(6).standard_normal((80, 3)))


@pytest.fixture(scope="module")
def roll():
    rows = make_swiss_roll(500, random_state=0)[0]
    noise = np.random.default_rng(0).normal(scale=2.0, size=(200, 3))
    return frozen(rows[:300]), frozen(rows[300:] + noise)


def test_points_that_leave_the_data_are_counted(roll):
    train, noisy = roll
    wild = Ridge(alpha=1e-8, gamma=0.2)  # somebody insists
    model = KernelPCA(20, kernel=RBF(0.1), preimage=wild).fit(train)
    scores = model.transform(noisy)
    with pytest.warns(PreimageWarning) as told:
        points = model.inverse_transform(scores)
    lengths = np.linalg.norm(points - train.mean(axis=0), axis=1)
    left = lengths > 2 * np.max(np.linalg.norm(train - train.mean(axis=0), axis=1))
    worst = np.max(model.preimage_.residuals(scores, points)[left])
    assert f"{np.sum(left)} of 200 points lie more than 2 times as far" in str(told[0].message)
    assert f"residual is {worst:.3g} of" in str(told[0].message)


FLAT = {
    "exact": KernelPCA(8, kernel=RBF(0.1), preimage="distances"),
    "cubic": KernelPCA(8, kernel=Polynomial(3), preimage="distances"),
    "stream": IncrementalKernelPCA(8, kernel=Polynomial(3), preimage="distances"),
}


@pytest.mark.parametrize("name", sorted(FLAT))
@pytest.mark.parametrize("seed", range(4))
def test_distances_that_no_point_has_lead_no_farther_than_the_nearest_row(name, seed):
    # Rows near a plane: across it neighbours hardly differ, and what distances say of it is noise.
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 5)) + 0.1 * rng.normal(
        size=(200, 5)
    )
    model = clone(FLAT[name]).fit(x[:150])
    scores, near = model.transform(x[150:]).astype(np.float64), model.preimage_.back.near
    found = model.preimage_(scores)
    nearest = near.points(near.nearest(scores, 1))[:, 0]
    residuals = model.preimage_.residuals
    assert np.all(residuals(scores, found) <= residuals(scores, nearest) * (1 + 1e-9))
    error, of_nearest = (np.mean((points - x[150:]) ** 2) for points in (found, nearest))
    assert error < 1.1 * of_nearest
    assert np.max(np.abs(found)) < 1.5 * np.max(np.abs(x))


def test_points_beyond_the_data_give_the_nearest_row(roll):
    train, _ = roll
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PreimageWarning)  # of a fit that is no better than the mean
        model = KernelPCA(4, kernel=RBF(0.1), preimage=Distances(n_neighbours=4)).fit(train)
    far, nearest = train.mean(axis=0) + 1e3 * np.eye(3), train[:3]
    best = model.preimage_.back._best(model.transform(nearest), far[:, None], nearest[:, None])
    np.testing.assert_array_equal(best, nearest)


CASES = [
    *((name, RBF(0.5)) for name in ("ridge", "fixed-point", "distances", "gradient")),
    *((name, Linear()) for name in ("ridge", "distances", "gradient", "exact")),
    *((name, Polynomial(3, 0.5)) for name in ("ridge", "distances", "gradient", "exact")),
]


@pytest.mark.parametrize(("name", "kernel"), CASES)
@pytest.mark.parametrize("size", [1e120, 1e306])
def test_no_score_is_too_large(name, kernel, size, x):
    model = KernelPCA(3, kernel=kernel, preimage=name).fit(x)
    scores = model.transform(x[:4])
    scores[1] = [size, -size, 0.5 * size]
    with pytest.warns(PreimageWarning, match="1 of 4 scores lie more than 2 times as far out"):
        points = model.inverse_transform(scores)
    assert np.isfinite(points).all()
    np.testing.assert_allclose(points[0], model.inverse_transform(scores[:1])[0], rtol=1e-6)


def test_a_way_back_no_better_than_the_mean_is_told(rng):
    x = rng.standard_normal((100, 30))
    with pytest.warns(PreimageWarning, match="no better than always answering the mean") as told:
        model = KernelPCA(2, kernel=RBF(0.05), preimage=Distances(n_neighbours=2)).fit(x)
    assert model.preimage_.quality.error >= model.preimage_.quality.error_of_mean
    assert told[0].filename == __file__


def test_the_line_that_asked_is_told_of_searches(x):
    model = KernelPCA(5, kernel=RBF(0.3), preimage=Gradient(max_iter=1)).fit(x)
    with pytest.warns(PreimageWarning, match="not settled after 1 steps") as told:
        model.reconstruct(x)
    assert told[0].filename == __file__


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_far_origin_does_not_matter_to_a_linear_kernel(factor, rng):
    x = rng.standard_normal((60, 3)) * [3.0, 2.0, 0.1]
    model = KernelPCA(2, kernel=factor * Linear(), preimage="distances").fit(x + 1e8)
    reference = Reference(2).fit(x)
    wanted = reference.inverse_transform(reference.transform(x))
    np.testing.assert_allclose(model.reconstruct(x + 1e8) - 1e8, wanted, atol=1e-5)


def test_many_columns_are_read_off_in_little_memory(rng):
    x = rng.standard_normal((20, 20000)) * np.linspace(3.0, 1.0, 20)[:, None]
    tracemalloc.start()
    model = KernelPCA(19, kernel="linear", preimage="exact", memory="100MB").fit(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # the axes alone would be 3.2 GB
    np.testing.assert_allclose(model.reconstruct(x), x, atol=1e-8)


def test_a_diagonal_is_for_precomputed_kernels(x):
    model = KernelPCA(2, kernel=RBF(0.5)).fit(x)
    with pytest.raises(InputError, match="only a precomputed kernel") as caught:
        model.reconstruction_error(x, diag=np.ones(len(x)))
    assert caught.value.parameter == "diag"
    given = KernelPCA(2, kernel="precomputed").fit(RBF(0.5)(x))
    found = given.reconstruction_error(RBF(0.5)(x), diag=np.ones(len(x)))
    np.testing.assert_allclose(found, model.reconstruction_error(x), atol=1e-12)


def test_a_model_is_no_transform(x):
    model = KernelPCA(2, kernel=RBF(0.5)).fit(x[:, :2])
    for first, second in ((x[:, :2], model), (model.transform, x[:, :2])):
        with pytest.raises(InputError, match=r"levels\(X, model.transform\)"):
            levels(first, second)


@pytest.mark.parametrize("unit", [2.0**-300, 2.0**490])
def test_ridge_does_not_depend_on_the_unit_of_the_rows(unit, x):
    kernel = RBF(0.3)
    model = KernelPCA(4, kernel="precomputed", preimage=Ridge(rows=x)).fit(kernel(x))
    other = KernelPCA(4, kernel="precomputed", preimage=Ridge(rows=unit * x)).fit(kernel(x))
    scores = model.transform(kernel(x[:9], x))
    np.testing.assert_array_equal(
        other.inverse_transform(scores), unit * model.inverse_transform(scores)
    )
    assert other.preimage_.quality.error == unit * model.preimage_.quality.error


@pytest.mark.parametrize("name", ["ridge", "fixed-point", "distances", "gradient"])
def test_rows_too_large_to_be_squared_are_refused(name, x):
    with pytest.raises((InputError, KernelError), match="too large to be squared"):
        KernelPCA(3, preimage=name).fit(x * 1e306)
    with pytest.raises(InputError, match=r"as large as .*too large to be squared"):
        KernelPCA(3, kernel="precomputed", preimage=Ridge(rows=x * 1e306)).fit(RBF(0.3)(x))
