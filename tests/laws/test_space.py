"""Laws of the feature space behind a fit: what is left out, distances, and slopes, on every route."""

import numpy as np
import pytest

from conftest import frozen
from markets.kernels import VALID
from mercer import KernelPCA
from mercer._core.errors import InputError
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF, Polynomial
from mercer.model.space import FeatureSpace
from mercer.solvers import BlockKrylov

POLYNOMIALS = ["linear", "poly2", "poly3-homogeneous", "poly4", "normalised"]
ROUTES = {
    "exact": {},
    "krylov": {"solver": BlockKrylov(tol=1e-12)},
    "rpcholesky": {"approximation": RPCholesky(rank=40)},
    "nystrom": {"approximation": Nystrom(landmarks=40)},
    "fourier": {"approximation": RandomFourier(80)},
    "refined": {"approximation": RPCholesky(rank=40, refine=1)},
}


@pytest.fixture(scope="module")
def x():
    return frozen(np.random.default_rng(3).standard_normal((80, 4)))


@pytest.fixture(scope="module")
def x_new():
    return frozen(np.random.default_rng(4).standard_normal((20, 4)))


def explicit_errors(kernel, x, x_new, k, weights=None):
    """With φ written out: what the first k axes of the centred features leave of each row."""
    phi = kernel.feature_map(x.shape[1])
    mean = np.average(phi(x), axis=0, weights=weights)
    roots = 1.0 if weights is None else np.sqrt(weights)[:, None]
    axes = np.linalg.svd(roots * (phi(x) - mean), full_matrices=False)[2][:k]
    rest = phi(x_new) - mean
    rest = rest - rest @ axes.T @ axes
    return np.sum(rest**2, axis=1)


@pytest.mark.parametrize("name", POLYNOMIALS)
@pytest.mark.parametrize("n", [80, 12])  # more rows than features, and fewer: both sides
def test_errors_are_those_of_the_explicit_map(name, n, x, x_new):
    kernel = VALID[name]
    model = KernelPCA(3, kernel=kernel).fit(x[:n])
    wanted = explicit_errors(kernel, x[:n], x_new, 3)
    found = FeatureSpace.of(model.fit_).errors(x_new)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * wanted.max())


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_errors_with_weights(name, x, x_new, rng):
    kernel, weights = VALID[name], rng.integers(0, 4, len(x)).astype(float)
    model = KernelPCA(3, kernel=kernel).fit(x, sample_weight=weights)
    wanted = explicit_errors(kernel, x, x_new, 3, weights)
    found = FeatureSpace.of(model.fit_).errors(x_new)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * wanted.max())


@pytest.mark.parametrize("approximation", [RPCholesky(rank=15), Nystrom(landmarks=15)])
def test_errors_of_landmarks_that_span_everything_are_exact(approximation, x, x_new):
    kernel = Polynomial(2, gamma=0.5)  # of 15 dimensions
    model = KernelPCA(3, kernel=kernel, approximation=approximation).fit(x)
    wanted = explicit_errors(kernel, x, x_new, 3)
    found = FeatureSpace.of(model.fit_).errors(x_new)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * wanted.max())


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "refined"])
def test_all_components_leave_nothing_of_training_rows(route, x):
    model = KernelPCA(None, kernel=RBF(0.05), **ROUTES[route]).fit(x)
    space = FeatureSpace.of(model.fit_)
    left = space.errors(x).mean() / space.lengths(x).mean()
    # What landmarks do not span is left, and no more than the certificate says.
    allowed = model.fit_.trace_error if route in ("rpcholesky", "nystrom") else 0.0
    centred = np.trace(RBF(0.05)(x)) / model.fit_.total
    assert left <= allowed * centred + 1e-8


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_errors_and_scores_make_up_the_length(route, x, x_new):
    model = KernelPCA(5, kernel=RBF(0.2), **ROUTES[route]).fit(x)
    space = FeatureSpace.of(model.fit_)
    scores, errors = space.scores_and_errors(x_new)
    np.testing.assert_allclose(scores, model.transform(x_new), atol=1e-10)
    np.testing.assert_allclose(space.lengths(x_new), errors + np.sum(scores**2, axis=1), rtol=1e-9)


def test_the_length_is_that_of_the_centred_kernel(x, x_new):
    kernel = RBF(0.2)
    space = FeatureSpace.of(KernelPCA(5, kernel=kernel).fit(x).fit_)
    wanted = kernel.diag(x_new) - 2 * kernel(x_new, x).mean(axis=1) + kernel(x).mean()
    np.testing.assert_allclose(space.lengths(x_new), wanted, rtol=1e-10)


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_distances_to_targets(route, x, x_new, rng):
    """‖φ(x) - ψ(t)‖² from the weights of ψ and from its parts: two ways to one number."""
    model = KernelPCA(4, kernel=RBF(0.2), **ROUTES[route]).fit(x)
    space = FeatureSpace.of(model.fit_)
    t = rng.standard_normal((len(x_new), 4))
    sections, own = space.projection.sections, space.projection.sections.diag(x_new)
    along = np.einsum("ij,ij->i", sections(x_new), space.weights(t))
    wanted = own - 2 * along + space.target_norms(t)
    np.testing.assert_allclose(space.distances(x_new, t), wanted, atol=1e-9)


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_slopes_of_what_is_left_out(route, x, x_new):
    model = KernelPCA(4, kernel=RBF(0.2), **ROUTES[route]).fit(x)
    space, step = FeatureSpace.of(model.fit_), 1e-5
    found, scores = space.error_slopes(x_new), space.score_slopes(x_new)
    for j in range(x.shape[1]):
        up, down = x_new.copy(), x_new.copy()
        up[:, j] += step
        down[:, j] -= step
        wanted = (space.errors(up) - space.errors(down)) / (2 * step)
        np.testing.assert_allclose(found[:, j], wanted, atol=1e-7)
        wanted = (space.scores(up) - space.scores(down)) / (2 * step)
        np.testing.assert_allclose(scores[:, :, j], wanted, atol=1e-7)


def test_a_precomputed_kernel_needs_the_diagonal(x, x_new):
    kernel = RBF(0.2)
    direct = FeatureSpace.of(KernelPCA(4, kernel=kernel).fit(x).fit_)
    given = FeatureSpace.of(KernelPCA(4, kernel="precomputed").fit(kernel(x)).fit_)
    values = kernel(x_new, x)
    with pytest.raises(InputError, match="Pass it as `diag`"):
        given.errors(values)
    found = given.errors(values, kernel.diag(x_new))
    np.testing.assert_allclose(found, direct.errors(x_new), atol=1e-12)
