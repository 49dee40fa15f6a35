"""Laws of derivatives: kernels, feature maps and sections against central differences."""

import numpy as np
import pytest

from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer._core.errors import KernelError
from mercer.approximations.random_features import FourierSections
from mercer.kernels import Matern, RationalQuadratic
from mercer.kernels.slopes import radial_slope
from mercer.kernels.stationary import RBF
from mercer.operators.sections import FeatureSections, KernelSections
from mercer.preimage.exact import of_distance, of_dot_product, undone

UNKNOWN = ["gp", "matrices", "points"]
SMOOTH = {name: k for name, k in (VALID | INDEFINITE).items() if name not in UNKNOWN}
MAPPED = [name for name in SMOOTH if SMOOTH[name].map_dimension(4) is not None]
STEP = 1e-6


def differences(function, x):
    """Central differences of (n, d) -> (n,), coordinate by coordinate."""
    slopes = np.empty_like(x)
    for j in range(x.shape[1]):
        up, down = x.copy(), x.copy()
        up[:, j] += STEP
        down[:, j] -= STEP
        slopes[:, j] = (function(up) - function(down)) / (2.0 * STEP)
    return slopes


def assert_slopes(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-7 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_slopes_of_kernels(name, cloud, rng):
    kernel, x, y = SMOOTH[name], cloud[:15], cloud[15:]
    weights = rng.standard_normal((len(x), len(y)))
    assert kernel.differentiable
    wanted = differences(lambda z: np.einsum("ij,ij->i", weights, kernel.tile(z, y)), x)
    assert_slopes(kernel.tile_slope(x, y, weights), wanted)
    assert_slopes(kernel.diag_slope(x), differences(kernel.tile_diag, x))


def test_slopes_of_histogram_kernels(histograms, rng):
    kernel, x, y = HISTOGRAM["chi2"], histograms[:15] + 0.1, histograms[15:]
    weights = rng.standard_normal((len(x), len(y)))
    wanted = differences(lambda z: np.einsum("ij,ij->i", weights, kernel.tile(z, y)), x)
    assert_slopes(kernel.tile_slope(x, y, weights), wanted)


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_a_point_on_itself_has_a_finite_slope(name, cloud):
    slopes = SMOOTH[name].tile_slope(cloud, cloud, np.ones((len(cloud), len(cloud))))
    assert np.all(np.isfinite(slopes))


def test_slopes_far_from_the_origin(cloud, rng):
    """Only differences enter: a million away they are what they are at home, but for rounding."""
    weights = rng.standard_normal((10, 50))
    near = np.round(cloud * 2**20) / 2**20
    far = near + 2.0**20  # exact in float64
    wanted = RBF(0.3).tile_slope(near[:10], near[10:], weights)
    there = RBF(0.3).tile_slope(far[:10], far[10:], weights)
    np.testing.assert_allclose(there, wanted, atol=1e-8)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_has_no_known_slope_says_so(name, cloud):
    kernel = VALID[name]
    assert not kernel.differentiable
    assert not (kernel + RBF(1.0)).differentiable
    with pytest.raises(KernelError, match="no derivative that is known"):
        kernel.tile_slope(cloud, cloud, np.ones((len(cloud), len(cloud))))


@pytest.mark.parametrize("name", MAPPED)
def test_slopes_of_feature_maps(name, cloud, rng):
    phi = SMOOTH[name].feature_map(4)
    sections, x = FeatureSections(phi), cloud[:15]
    weights = rng.standard_normal((len(x), phi.dimension))
    wanted = differences(lambda z: np.einsum("ij,ij->i", weights, phi(z)), x)
    assert_slopes(sections.slope(x, weights), wanted)
    np.testing.assert_allclose(sections.diag(x), SMOOTH[name].tile_diag(x), rtol=1e-12)
    assert_slopes(sections.diag_slope(x), SMOOTH[name].diag_slope(x))


def test_slopes_of_random_features(cloud, rng):
    sections = FourierSections(rng.standard_normal((30, 4)), 2.0, cloud[0])
    x, weights = cloud[:15], rng.standard_normal((15, 60))
    wanted = differences(lambda z: np.einsum("ij,ij->i", weights, sections(z)), x)
    assert_slopes(sections.slope(x, weights), wanted)
    np.testing.assert_allclose(sections.diag(x), np.sum(sections(x) ** 2, axis=1))


def test_points_come_in_blocks(cloud, rng, monkeypatch):
    sections = KernelSections(RBF(0.3), cloud)
    weights = rng.standard_normal((60, 60))
    whole = sections.slope(cloud, weights)
    monkeypatch.setattr("mercer.operators.sections.POINTS", 7)
    np.testing.assert_allclose(sections.slope(cloud, weights), whole, atol=1e-12)


RADIAL = [name for name in VALID if of_distance(VALID[name]) is not None]


@pytest.mark.parametrize("name", [*RADIAL, "matern-large"])
def test_values_of_radial_kernels_become_distances_again(name):
    kernel = {**VALID, "matern-large": Matern(60.0, 0.7)}[name]
    r = np.linspace(0.05, 3.0, 40)
    values = kernel.tile(np.zeros((1, 1)), r[:, None])[0]
    np.testing.assert_allclose(np.sqrt(undone(kernel.tree(), values)), r, rtol=1e-7)
    ends = undone(kernel.tree(), np.array([1.5, 1.0, 0.0, -0.2]))
    np.testing.assert_array_equal(ends, [0.0, 0.0, np.inf, np.inf])


@pytest.mark.parametrize("kernel", [RBF(0.5), RationalQuadratic(0.7, 1.2), Matern(1.5, 1.0)])
def test_radial_slopes_are_negative(kernel, cloud):
    """Decreasing, which is what a fixed point rests on."""
    assert np.all(radial_slope(kernel.tree(), cloud[:10], cloud[10:]) < 0)


@pytest.mark.parametrize("name", ["linear", "poly1", "poly3-homogeneous"])
def test_values_of_dot_products_become_dot_products_again(name, cloud):
    kernel = VALID[name]
    np.testing.assert_allclose(
        undone(kernel.tree(), kernel.tile(cloud, cloud)), cloud @ cloud.T, atol=1e-9
    )


def test_an_even_power_has_lost_the_sign():
    assert of_dot_product(VALID["poly2"]) is None
