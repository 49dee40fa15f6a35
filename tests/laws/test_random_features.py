"""Laws of random Fourier features: unbiased, of the right law, orthogonal, and accurate in float32."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.gaussian_process import kernels as gp

from conftest import frozen
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer._core.errors import KernelError, ParameterError
from mercer._core.observer import SILENT
from mercer.approximations.random_features import FourierSections, RandomFourier
from mercer.data.rows import RowSource, row_blocks
from mercer.engine.passes import pass_height
from mercer.kernels import (
    RBF,
    Constant,
    GaussianProcess,
    Laplacian,
    Linear,
    Matern,
    Precomputed,
    RationalQuadratic,
)
from mercer.kernels.spectral import sample_frequencies

MARKET = (
    "rbf",
    "rbf-sigma",
    "laplacian",
    "matern-1/2",
    "matern-3/2",
    "matern-5/2",
    "matern-0.8",
    "matern-inf",
    "rational-quadratic",
    "power",
)
CASES = {name: VALID[name] for name in MARKET} | {
    "constant": Constant(2.5),
    "scaled": 3.0 * RBF(0.3),
    "scaled by zero": 0.0 * RBF(5.0) + Matern(1.5, 1.3),
    "sum": 0.7 * RBF(0.05) + Laplacian(0.2) + 0.25,
    "product": RBF(0.05) * Matern(0.5, 3.0),
    "product with itself": Laplacian(0.1) * Laplacian(0.1),
    "product of sums": (RBF(0.02) + 2.0 * Matern(1.5, 0.7)) * (Laplacian(0.05) + 0.5 * RBF(1.0)),
    "power of a sum": (RBF(0.02) + 0.5 * Laplacian(0.5)) ** 2,
    "columns": RBF(0.3).on([0, 2]) + 0.5 * Laplacian(0.3).on([-1]),
    "columns of columns": Matern(2.5, 1.0).on([1, 0]).on([3, 2, 0]),
    "mask": RBF(0.5).on([True, False, True, False]),
    "column twice": RBF(0.3).on([1, 1]),
    "normalised": (3.0 * RBF(0.3) + 2.0).normalised(),
}
REFUSED = {  # each with the part that is to blame
    **{name: (kernel, repr(kernel)) for name, kernel in (HISTOGRAM | INDEFINITE).items()},
    **{n: (VALID[n], repr(VALID[n])) for n in ("linear", "poly2", "cosine", "matrices", "points")},
    "gp": (GaussianProcess(gp.RBF(1.0)), "GaussianProcess(RBF(length_scale=1))"),
    "precomputed": (Precomputed(), "Precomputed()"),
    "sum": (VALID["sum"], "Linear()"),
    "product": (VALID["product"], "Polynomial("),
    "normalised": (VALID["normalised"], "Polynomial("),
    "columns": (VALID["columns"], "Linear()"),
    "difference": (RBF(0.3) - 0.5 * Matern(1.5, 1.0), "-1.0 * (0.5 * Matern("),
    "less than zero": (RBF(0.3) + Constant(-0.5), "-0.5"),
    "power": ((RBF(0.3) + Linear()) ** 2, "Linear()"),
}


def low_rank(kernel, x, n_features=200, seed=0):
    rng = np.random.default_rng(seed)
    return RandomFourier(n_features)(kernel, x, weights=None, rng=rng, observer=SILENT)


def draw(kernel, d, m, seed=0):
    return sample_frequencies(kernel, d, m, rng=np.random.default_rng(seed))


@pytest.fixture(params=sorted(CASES))
def kernel(request):
    return CASES[request.param]


# ── unbiased ────────────────────────────────────────────────────────────────
def test_the_mean_over_seeds_is_the_kernel(kernel, cloud):
    n_seeds, n_features = 40, 1000
    x = cloud[:10]
    features = [low_rank(kernel, x, n_features, seed).features(x) for seed in range(n_seeds)]
    found = np.stack([f @ f.T for f in features])  # (n_seeds, n, n)
    k, spread = kernel(x), found.std(axis=0, ddof=1)
    assert np.all(np.abs(found.mean(axis=0) - k) <= 6.0 * spread / np.sqrt(n_seeds) + 1e-12)
    # Var cos ωᵀδ = (1 + E cos 2ωᵀδ)/2 - (E cos ωᵀδ)² for independent draws: ours vary no more than
    # that, as far as 40 seeds can tell, and the counts of a sum's parts by one at most.
    a = kernel.diag(x[:1])[0]
    variance = np.maximum(a * (a + kernel(2.0 * x)) / 2.0 - k**2, 0.0) / (n_features / 2)
    assert np.all(spread <= 1.6 * np.sqrt(variance) + 0.5 * a / (n_features / 2))


def test_counts_of_a_mixture_are_rounded_without_bias():
    # Three rows for two parts whose shares are 1/10 and 9/10: only the constant's have ω = 0.
    rng, kernel = np.random.default_rng(0), Constant(0.1) + 0.9 * RBF(1.0)
    n = 1500
    counts = np.array(
        [np.sum(~sample_frequencies(kernel, 2, 3, rng=rng)[0].any(axis=1)) for _ in range(n)]
    )
    assert set(counts) == {0, 1}  # 0.3, rounded down or up and nothing else
    assert abs(counts.mean() - 0.3) < 4.0 * np.sqrt(0.3 * 0.7 / n)


def test_parts_of_a_mixture_stand_at_every_place():
    rng, kernel = np.random.default_rng(0), Constant(0.5) + 0.5 * RBF(1.0)
    n = 1000
    zero = np.array([~sample_frequencies(kernel, 2, 4, rng=rng)[0].any(axis=1) for _ in range(n)])
    assert np.all(np.abs(zero.mean(axis=0) - 0.5) < 4.0 * 0.5 / np.sqrt(n))


# ── the law of one frequency ────────────────────────────────────────────────
D, M = 3, 30_000
RADIAL = {  # the law of ‖ω‖² and of one coordinate, in closed form
    "rbf": (RBF(0.3), stats.chi2(D, scale=0.6), stats.norm(scale=np.sqrt(0.6))),
    "matern-1/2": (
        Matern(0.5, 1.3),
        stats.f(D, 1, scale=D / 1.3**2),
        stats.cauchy(scale=1 / 1.3),
    ),
    "matern-3/2": (Matern(1.5, 1.3), stats.f(D, 3, scale=D / 1.3**2), stats.t(3, scale=1 / 1.3)),
    "matern-inf": (Matern(np.inf, 1.3), stats.chi2(D, scale=1.3**-2), stats.norm(scale=1 / 1.3)),
    "rational-quadratic": (
        RationalQuadratic(1.0, 1.2),  # 1/(1 + t²/(2l²)) is the Fourier transform of Laplace's law
        None,
        stats.laplace(scale=1.0 / (np.sqrt(2.0) * 1.2)),
    ),
}


@pytest.mark.parametrize("name", sorted(RADIAL))
def test_radial_laws(name):
    kernel, squared, coordinate = RADIAL[name]
    omega, amplitude = draw(kernel, D, M, seed=3)
    assert amplitude == 1.0
    if squared is not None:
        assert stats.kstest(np.sum(omega**2, axis=1), squared.cdf).pvalue > 1e-3
    # Rows of one block depend on each other; those at one place of all blocks do not.
    for place in range(D):
        for column in range(D):
            assert stats.kstest(omega[place::D, column], coordinate.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ["rbf", "matern-1/2", "matern-3/2"])
def test_radial_laws_hold_for_two_frequencies_as_for_many(name):
    kernel, squared, _ = RADIAL[name]
    rng = np.random.default_rng(8)
    for place in (0, 1):
        rows = [sample_frequencies(kernel, D, 2, rng=rng)[0][place] for _ in range(1000)]
        assert stats.kstest(np.sum(np.square(rows), axis=1), squared.cdf).pvalue > 1e-3


def test_the_rational_quadratic_radius_is_a_gamma_mixture():
    # ‖ω‖² = s·χ²₂ in two dimensions: exponential with mean 2s, s gamma-distributed; by quadrature.
    alpha, l = 0.7, 1.2
    squares = np.sum(draw(RationalQuadratic(alpha, l), 2, 10_000, seed=5)[0] ** 2, axis=1)
    widths = stats.gamma(alpha, scale=1.0 / (alpha * l**2)).ppf((np.arange(1000) + 0.5) / 1000)

    def cdf(q):
        return np.mean(-np.expm1(-q[:, None] / (2.0 * widths)), axis=1)

    assert stats.kstest(squares, cdf).pvalue > 1e-3


def test_the_laplacian_law():
    omega, _ = draw(Laplacian(0.4), D, 200_000, seed=3)
    assert stats.kstest(omega.ravel(), stats.cauchy(scale=0.4).cdf).pvalue > 1e-3


@pytest.mark.parametrize("kernel", [Matern(1e-3, 1.0), RationalQuadratic(1e-3, 1.0)], ids=repr)
def test_extreme_laws_stay_finite(kernel, cloud):
    for dtype in (np.float32, np.float64):
        features = low_rank(kernel, cloud).features(cloud.astype(dtype))
        np.testing.assert_allclose(np.sum(features**2, axis=1), 1.0, rtol=1e-5)


# ── orthogonal ──────────────────────────────────────────────────────────────
@pytest.mark.parametrize("m", [3, 8, 21])  # less than a block, one, two and a bit
@pytest.mark.parametrize("name", ["rbf", "matern-1/2", "rational-quadratic"])
def test_directions_of_a_block_are_orthogonal(name, m):
    omega, _ = draw(VALID[name], 8, m)
    assert omega.shape == (m, 8)
    directions = omega / np.linalg.norm(omega, axis=1, keepdims=True)
    for start in range(0, m, 8):
        block = directions[start : start + 8]
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-13)


def test_orthogonal_frequencies_have_less_error_than_independent_ones():
    d, m, gamma = 20, 60, 0.02
    x = np.random.default_rng(0).standard_normal((40, d))
    k = RBF(gamma)(x)
    squares = {"orthogonal": 0.0, "independent": 0.0}
    for seed in range(30):
        normal = np.random.default_rng(seed).standard_normal((m, d)) * np.sqrt(2.0 * gamma)
        drawn = {"orthogonal": draw(RBF(gamma), d, m, seed)[0], "independent": normal}
        for name, omega in drawn.items():
            f = FourierSections(omega, 1.0, np.zeros(d))(x)
            squares[name] += np.sum((f @ f.T - k) ** 2)
    assert squares["orthogonal"] < 0.7 * squares["independent"]


def test_stratified_lengths_have_less_error_than_independent_ones():
    # On a line nothing but the length is random: 500 independent ones would be off by 0.02.
    x = np.random.default_rng(0).standard_normal((40, 1))
    f = FourierSections(draw(RBF(0.5), 1, 500)[0], 1.0, np.zeros(1))(x)
    assert np.sqrt(np.mean((f @ f.T - RBF(0.5)(x)) ** 2)) < 0.002


# ── the features ────────────────────────────────────────────────────────────
def test_features_are_cosines_and_sines(kernel, cloud):
    found = low_rank(kernel, cloud).sections
    phases = (cloud - found.centre) @ found.frequencies.T
    expected = np.hstack([np.cos(phases), np.sin(phases)]) * np.sqrt(found.amplitude / 100)
    loss = 1e-14 * (1.0 + np.max(np.abs(phases)))
    np.testing.assert_allclose(found(cloud), expected, rtol=0.0, atol=loss)


def test_the_diagonal_is_the_amplitude(kernel, cloud):
    f = low_rank(kernel, cloud).features(cloud)
    np.testing.assert_allclose(np.sum(f**2, axis=1), kernel.diag(cloud), rtol=1e-13)


def test_the_zero_kernel_has_zero_features(cloud):
    for kernel in (0.0 * RBF(1.0) + Constant(0.0), (0.0 * RBF(1.0)).normalised()):
        assert not low_rank(kernel, cloud).features(cloud).any()


def test_the_seed_decides(kernel, cloud):
    first, again, other = (low_rank(kernel, cloud, seed=s).sections for s in (1, 1, 2))
    np.testing.assert_array_equal(first.frequencies, again.frequencies)
    if kernel is not CASES["constant"]:
        assert np.any(first.frequencies != other.frequencies)


def test_what_it_is():
    x = frozen(np.random.default_rng(0).standard_normal((5, 2)))
    found = low_rank(RBF(1.0), x, 6)
    assert (found.rank, found.whiten, found.landmarks, found.projects) == (6, None, None, False)
    assert repr(found) == "LowRank(random Fourier features of 3 frequencies, rank=6)"
    assert repr(RandomFourier()) == "RandomFourier(n_features=1000, refine=0)"
    assert RandomFourier(6).width(3) == found.sections.width == 6
    assert found.features(x[:0]).shape == (0, 6)


def test_each_row_is_mapped_by_itself(kernel, cloud):
    found = low_rank(kernel, cloud, 2000)  # so wide that not all rows are turned at a time
    whole = found.features(np.tile(cloud, (4, 1)))
    scale = 1e-14 * (1.0 + np.max(np.abs(found.sections.frequencies)))
    np.testing.assert_allclose(whole[180:], found.features(cloud), rtol=0.0, atol=scale)


# ── precision ───────────────────────────────────────────────────────────────
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_float32_stays_float32_and_is_near(kernel, cloud, layout):
    x = cloud.astype(np.float32)
    found = low_rank(kernel, x)
    single, double = found.features(layout(x)), found.features(x.astype(np.float64))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    # No phase is off by more than 1e-4, heavy tails or not.
    np.testing.assert_allclose(single, double, atol=2e-4 * np.sqrt(found.sections.amplitude / 100))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_long_frequencies_get_more_than_float32(cloud, layout):
    x = cloud.astype(np.float32)
    found = low_rank(Laplacian(400.0), x).sections
    omega, centre = found.frequencies, found.centre
    exact = np.cos((x.astype(np.float64) - centre) @ omega.T) / 10.0
    naive = np.cos((x - centre.astype(np.float32)) @ omega.T.astype(np.float32)) / 10.0
    assert np.max(np.abs(naive - exact)) > 1e-3  # what float32 alone would do
    np.testing.assert_allclose(found(layout(x))[:, :100], exact, rtol=0.0, atol=2e-5)


@pytest.mark.parametrize("name", ["rbf", "matern-3/2", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_from_the_origin(name, dtype, cloud):
    near = np.rint(cloud * 256) / 256  # 2¹⁴ away, all these are float32 numbers still
    far = (near + 2.0**14).astype(dtype)
    kernel = VALID[name]
    here = low_rank(kernel, near).features(near)
    there = low_rank(kernel, far).features(far)
    tolerance = 5e-6 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(there @ there.T, here @ here.T, rtol=0.0, atol=tolerance)


def test_an_outlier_after_the_fit(cloud):
    found = low_rank(RBF(0.3), cloud)
    far = (np.rint(cloud * 256) / 256 + 2.0**14).astype(np.float32)
    near = far.astype(np.float64)
    np.testing.assert_allclose(found.features(far), found.features(near), rtol=0.0, atol=2e-5)


def test_sparse_rows_far_from_the_centre(cloud):
    found = low_rank(RBF(0.3), cloud + 2.0**14)
    near = (np.rint(cloud * 256) / 256).astype(np.float32)
    expected = found.features(near.astype(np.float64))
    features = found.features(sparse.csr_array(near))
    np.testing.assert_allclose(features, expected, rtol=0.0, atol=2e-5)


def test_both_precisions_are_shifted_by_one_centre(cloud):
    x = cloud + np.array([1e4, -3.3e-7, 0.0, 1e39])
    centre = low_rank(RBF(0.3), x).sections.centre
    np.testing.assert_allclose(centre, x.mean(axis=0), rtol=1e-7, atol=0.0)
    assert np.all(centre[:3].astype(np.float32) == centre[:3])
    assert np.isfinite(centre).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_equal_dense_ones(kernel, dtype):
    rng = np.random.default_rng(4)
    x = np.where(rng.random((40, 4)) < 0.3, rng.standard_normal((40, 4)), 0.0).astype(dtype)
    rows = sparse.csr_array(x)
    found, expected = low_rank(kernel, rows), low_rank(kernel, x)
    np.testing.assert_array_equal(found.sections.centre, expected.sections.centre)
    single = dtype == np.float32
    scale = np.sqrt(found.sections.amplitude / 100) * (1.0 if single else 1e-9)
    features = found.features(rows)
    assert features.dtype == dtype
    np.testing.assert_allclose(features, expected.features(x), rtol=0.0, atol=3e-4 * scale)


class Batches(RowSource):
    """Rows that can only be read in order."""

    random_access = False

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, key):
        pytest.fail(f"rows {key} were asked for out of order")

    def blocks(self, height):
        return row_blocks(self.x, height)

    def check_unchanged(self):
        pass


def test_batches_are_as_good_as_an_array(cloud):
    found, expected = low_rank(RBF(0.3), Batches(cloud)), low_rank(RBF(0.3), cloud)
    np.testing.assert_array_equal(found.features(cloud), expected.features(cloud))


# ── memory ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("shape", [(3000, 5), (3000, 300), (5, 20_000)])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "product of sums"])
def test_no_more_bytes_than_told(name, shape):
    method, x = RandomFourier(100), np.zeros(shape)
    tracemalloc.start()
    found = method(CASES[name], x, weights=None, rng=np.random.default_rng(0), observer=SILENT)
    drawn = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    found.features(x[: pass_height(100, 8, shape[1])])
    mapped = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(drawn, mapped) <= method.n_bytes(shape, 8)


# ── refusals ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_kernels(name, cloud):
    kernel, part = REFUSED[name]
    with pytest.raises(KernelError) as refusal:
        RandomFourier().check(kernel, cloud.shape)
    message = str(refusal.value)
    assert f"need a shift-invariant kernel, k(x - y), but {part}" in message
    assert "`RPCholesky` takes any kernel" in message
    with pytest.raises(KernelError, match="shift-invariant"):
        low_rank(kernel, cloud)


def test_a_subclass_is_another_kernel(cloud):
    class Wider(RBF):
        def tile(self, x, y):
            return np.sqrt(super().tile(x, y))

    with pytest.raises(KernelError, match="Wider"):
        RandomFourier().check(Wider(1.0), cloud.shape)


def test_accepted_kernels(kernel):
    RandomFourier(2, refine=3).check(kernel, (10, 4))
    RandomFourier().check(RBF("median") + Matern(), (10, 4))  # widths are read off the data later


def test_a_width_that_waits_for_data_is_not_guessed(cloud):
    with pytest.raises(KernelError, match="still depends on data"):
        low_rank(RBF("median"), cloud)


@pytest.mark.parametrize("n_features", [0, 1, 7, -2, 10.0, True, "many", None])
def test_impossible_n_features(n_features):
    with pytest.raises(ParameterError, match="an even integer >= 2") as refused:
        RandomFourier(n_features).check(RBF(1.0), (10, 2))
    assert (refused.value.parameter, refused.value.value) == ("n_features", n_features)


@pytest.mark.parametrize("refine", [-1, 0.5, True, None])
def test_impossible_refine(refine):
    with pytest.raises(ParameterError, match="an integer >= 0") as refused:
        RandomFourier(refine=refine).check(RBF(1.0), (10, 2))
    assert (refused.value.parameter, refused.value.value) == ("refine", refine)
