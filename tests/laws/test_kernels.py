"""Laws of every kernel: symmetric, positive semi-definite, its diagonal, its dtype, its algebra."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import InputError, KernelError
from mercer.kernels import (
    KERNELS,
    RBF,
    Chi2,
    Cosine,
    Custom,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    Sigmoid,
    as_kernel,
)

ALL = VALID | HISTOGRAM | INDEFINITE
SPARSE = sorted(set(ALL) - {"gp", "matrices", "points"})


@pytest.fixture(params=sorted(ALL))
def case(request, cloud, histograms):
    name = request.param
    return ALL[name], histograms if name in HISTOGRAM else cloud


def test_symmetric(case):
    kernel, x = case
    k = kernel(x)
    np.testing.assert_allclose(k, k.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [255, 257, 600])
@pytest.mark.parametrize("gamma", [2.0, 15.0, 1e4])
def test_a_matrix_of_ours_is_one_that_we_take(gamma, n, rng):
    # A narrow kernel magnifies what rounding makes of distances, and not alike on both sides.
    x = rng.standard_normal((n, 2))
    k = RBF(gamma)(x)
    np.testing.assert_array_equal(k, k.T)
    np.testing.assert_allclose(k, pairwise.rbf_kernel(x, gamma=gamma), rtol=1e-9, atol=1e-9)
    KernelPCA(2, kernel="precomputed").fit(k)


def test_the_asymmetry_of_a_function_is_left_to_be_found(cloud):
    k = (RBF(0.3) + Custom(lambda x, y: x[:, :1] - y[:, 0], "matrices"))(cloud)
    np.testing.assert_allclose(k - k.T, 2 * (cloud[:, :1] - cloud[:, 0]), atol=1e-12)


@pytest.mark.parametrize("name", sorted(VALID | HISTOGRAM))
def test_valid_kernels_have_no_negative_eigenvalue(name, cloud, histograms):
    k = ALL[name](histograms if name in HISTOGRAM else cloud)
    values = np.linalg.eigvalsh(k)
    assert values[0] >= -1e-12 * values[-1]


@pytest.mark.parametrize("name", sorted(INDEFINITE))
def test_indefinite_kernels_have_one(name, cloud):
    values = np.linalg.eigvalsh(INDEFINITE[name](cloud))
    assert values[0] < -1e-3
    assert INDEFINITE[name].why_valid() is None


def test_diag_is_the_diagonal(case):
    kernel, x = case
    reference = [kernel(x[i : i + 1], x[i : i + 1].copy())[0, 0] for i in range(len(x))]
    np.testing.assert_allclose(kernel.diag(x), reference, rtol=1e-12, atol=1e-10)
    np.testing.assert_array_equal(np.diagonal(kernel(x)), kernel.diag(x))


def test_cross_tile_is_a_block_of_the_whole(case):
    kernel, x = case
    whole = kernel(x)
    np.testing.assert_allclose(kernel(x[:7], x[7:20]), whole[:7, 7:20], rtol=1e-11, atol=1e-12)


def test_float32_stays_float32_and_is_near(case):
    kernel, x = case
    single = kernel(x.astype(np.float32))
    assert single.dtype == np.float32
    assert kernel.diag(x.astype(np.float32)).dtype == np.float32
    assert kernel(x).dtype == np.float64
    double = kernel(x)
    np.testing.assert_allclose(single, double, atol=2e-5 * np.abs(double).max())


def test_repr_of_the_resolved_copy_is_the_same(case, rng):
    kernel, x = case
    resolved = kernel.resolve(x, rng=rng)
    np.testing.assert_array_equal(resolved(x), kernel(x))
    assert resolved is not kernel


def test_clone_and_params_round_trip(case):
    kernel, x = case
    copy = clone(kernel)
    assert copy is not kernel
    assert repr(copy) == repr(kernel)
    np.testing.assert_array_equal(copy(x), kernel(x))
    copy.set_params(**kernel.get_params(deep=False))
    assert repr(copy) == repr(kernel)


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_equals_dense(name, rng):
    x = rng.random((20, 6)) * (rng.random((20, 6)) < 0.4)
    kernel = ALL[name]
    np.testing.assert_allclose(
        kernel(sparse.csr_array(x)), kernel(x), rtol=1e-11, atol=1e-12 * np.abs(kernel(x)).max()
    )


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_rows_meet_dense_rows(name, rng):
    x = rng.random((20, 6)) * (rng.random((20, 6)) < 0.4)
    kernel = ALL[name]
    left, right, dense = x[:12], x[12:], kernel(x[:12], x[12:])
    close = {"rtol": 1e-11, "atol": 1e-12 * np.abs(dense).max()}
    for mixed in (
        kernel(sparse.csr_array(left), right),
        kernel(left, sparse.csr_array(right)),
    ):
        assert isinstance(mixed, np.ndarray)
        np.testing.assert_allclose(mixed, dense, **close)


# ── references ──────────────────────────────────────────────────────────────
REFERENCES = {
    "linear": (Linear(), pairwise.linear_kernel),
    "poly": (
        Polynomial(3, 0.2, 1.5),
        lambda x, y: pairwise.polynomial_kernel(x, y, degree=3, gamma=0.2, coef0=1.5),
    ),
    "rbf": (RBF(0.7), lambda x, y: pairwise.rbf_kernel(x, y, gamma=0.7)),
    "sigmoid": (
        Sigmoid(0.3, 0.1),
        lambda x, y: pairwise.sigmoid_kernel(x, y, gamma=0.3, coef0=0.1),
    ),
    "cosine": (Cosine(), pairwise.cosine_similarity),
    "laplacian": (Laplacian(0.4), lambda x, y: pairwise.laplacian_kernel(x, y, gamma=0.4)),
    "matern-0.5": (Matern(0.5, 0.8), gp.Matern(0.8, nu=0.5)),
    "matern-1.5": (Matern(1.5, 0.8), gp.Matern(0.8, nu=1.5)),
    "matern-2.5": (Matern(2.5, 0.8), gp.Matern(0.8, nu=2.5)),
    "matern-1.1": (Matern(1.1, 0.8), gp.Matern(0.8, nu=1.1)),
    "matern-inf": (Matern(np.inf, 0.8), gp.RBF(0.8)),
    "rq": (RationalQuadratic(0.6, 1.4), gp.RationalQuadratic(1.4, 0.6)),
    "gp": (as_kernel(gp.Matern(0.8, nu=1.5)), gp.Matern(0.8, nu=1.5)),
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_agrees_with_scikit_learn(name, cloud):
    kernel, reference = REFERENCES[name]
    x, y = cloud[:30], cloud[30:]
    np.testing.assert_allclose(kernel(x, y), reference(x, y), rtol=1e-11, atol=1e-13)


def test_chi2_agrees_with_scikit_learn(histograms):
    reference = pairwise.chi2_kernel(histograms.copy(), gamma=0.7)
    np.testing.assert_allclose(Chi2(0.7)(histograms), reference, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 0.8, 3.7, 12.0])
@pytest.mark.parametrize("r", [1e-9, 1e-3, 0.5, 3.0, 40.0])
def test_matern_against_mpmath(nu, r):
    s = mp.sqrt(2 * mp.mpf(nu)) * mp.mpf(r)
    exact = mp.mpf(2) ** (1 - mp.mpf(nu)) / mp.gamma(nu) * s**nu * mp.besselk(nu, s)
    value = Matern(nu, 1.0)(np.array([[0.0]]), np.array([[r]]))[0, 0]
    np.testing.assert_allclose(value, float(exact), rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("nu", [50.0, 150.0, 400.0])
@pytest.mark.parametrize("r", [1e-3, 0.01, 0.5, 2.0, 10.0])
def test_smooth_matern_against_mpmath(nu, r):
    s = mp.sqrt(2 * mp.mpf(nu)) * mp.mpf(r)
    exact = mp.mpf(2) ** (1 - mp.mpf(nu)) / mp.gamma(nu) * s**nu * mp.besselk(nu, s)
    value = Matern(nu, 1.0)(np.array([[0.0]]), np.array([[r]]))[0, 0]
    np.testing.assert_allclose(value, float(exact), rtol=2e-9)
    if r < 0.1:  # near one, where only the difference shows anything
        np.testing.assert_allclose(1.0 - value, float(1 - exact), rtol=1e-8)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("outlier", [1e8, 1e9])
def test_one_outlier_spoils_no_other_entry(outlier, as_given, rng):
    x = rng.standard_normal((400, 4))
    x[17] = outlier
    exact = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(RBF(0.5)(as_given(x)), exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_far_clusters_in_float32(as_given, rng):
    x = rng.standard_normal((200, 3))
    x[::2] += 1e4
    x = rng.permutation(x).astype(np.float32)
    exact = np.exp(-0.05 * ((x[:, None].astype(float) - x[None]) ** 2).sum(axis=2))
    k = RBF(0.05)(as_given(x))
    assert k.dtype == np.float32
    np.testing.assert_allclose(k, exact, rtol=0, atol=1e-4)


def test_distances_do_not_cancel_far_from_the_origin(rng):
    x = rng.standard_normal((20, 3))
    near, far = RBF(0.5)(x), RBF(0.5)(x + 1e6)
    np.testing.assert_allclose(far, near, atol=1e-8)  # 1e6 · eps is what the shift itself costs


# ── algebra ─────────────────────────────────────────────────────────────────
@settings(max_examples=40, deadline=None)
@given(a=st.sampled_from(sorted(VALID)), b=st.sampled_from(sorted(VALID)), c=st.floats(0.1, 3.0))
def test_algebra_is_dense_algebra(a, b, c):
    x = np.random.default_rng(3).standard_normal((9, 4))
    left, right = VALID[a], VALID[b]
    kl, kr = left(x), right(x)
    close = {"rtol": 1e-12, "atol": 1e-12 * max(np.abs(kl).max(), np.abs(kr).max(), 1.0) ** 3}
    np.testing.assert_allclose((left + right)(x), kl + kr, **close)
    np.testing.assert_allclose((left * right)(x), kl * kr, **close)
    np.testing.assert_allclose((c * left)(x), c * kl, **close)
    np.testing.assert_allclose((left - c * right)(x), kl - c * kr, **close)
    np.testing.assert_allclose((left**3)(x), kl**3, **close)
    np.testing.assert_allclose((left + c)(x), kl + c, **close)
    np.testing.assert_allclose((c - left)(x), c - kl, **close)
    norms = np.sqrt(np.diagonal(kl))
    np.testing.assert_allclose(left.normalised()(x), kl / np.outer(norms, norms), rtol=1e-10)


def test_columns_are_the_columns(cloud):
    found, wanted = RBF(0.3).on([2, 0])(cloud), RBF(0.3)(cloud[:, [2, 0]])
    # BLAS may add in another order for rows that lie otherwise in memory: terms of γ(‖x‖² + ‖y‖²) round.
    eps, terms = np.finfo(np.float64).eps, 0.3 * 4.0 * np.max(np.sum(cloud**2, axis=1))
    np.testing.assert_allclose(found, wanted, rtol=8.0 * eps * max(1.0, terms))


@pytest.mark.parametrize(
    "columns",
    [[True, False, True, False], np.array([True, False, True, False]), np.array([0, 2]), (0, -2)],
)
def test_columns_by_mask_and_by_number_are_the_same(columns, cloud, rng):
    picked = cloud[:, [0, 2]]
    kernel = Polynomial(2).on(columns)
    assert kernel.columns is columns
    phi = kernel.feature_map(4)(cloud)
    for k in (kernel(cloud), kernel.resolve(cloud, rng=rng)(cloud), phi @ phi.T):
        np.testing.assert_allclose(k, Polynomial(2)(picked), rtol=1e-12, atol=1e-12)
    assert kernel.map_dimension(4) == phi.shape[1] == 6
    again = eval(repr(kernel), {"Polynomial": Polynomial})
    np.testing.assert_array_equal(again(cloud), kernel(cloud))


def test_repr_reads_as_it_was_written():
    kernel = (RBF(0.5) + 0.1 * Linear()) * Polynomial(2, gamma=1.0, coef0=1.0) ** 2
    namespace = {"RBF": RBF, "Linear": Linear, "Polynomial": Polynomial}
    again = eval(repr(kernel), namespace)
    x = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(again(x), kernel(x), rtol=1e-14)


# ── parameters read off the data ────────────────────────────────────────────
def test_gamma_rules(cloud, rng):
    d, variance = cloud.shape[1], cloud.var()
    assert RBF("1/d").resolve(cloud, rng=rng).gamma == pytest.approx(1 / d)
    assert RBF(None).resolve(cloud, rng=rng).gamma == pytest.approx(1 / d)
    assert RBF("scale").resolve(cloud, rng=rng).gamma == pytest.approx(1 / (d * variance))
    distances = pairwise.euclidean_distances(cloud)[np.triu_indices(len(cloud), 1)]
    sigma = np.median(distances)
    assert RBF().resolve(cloud, rng=rng).gamma == pytest.approx(0.5 / sigma**2)
    l1 = pairwise.manhattan_distances(cloud)[np.triu_indices(len(cloud), 1)]
    assert Laplacian().resolve(cloud, rng=rng).gamma == pytest.approx(1 / np.median(l1))
    assert Matern().resolve(cloud, rng=rng).length_scale == pytest.approx(sigma)
    csr = sparse.csr_array(cloud)
    assert RBF("scale").resolve(csr, rng=rng).gamma == pytest.approx(1 / (d * variance))


def test_resolving_leaves_the_kernel_as_it_was(cloud, rng):
    kernel = RBF() + Matern().on([0])
    before = repr(kernel)
    kernel.resolve(cloud, rng=rng)
    kernel(cloud)
    assert repr(kernel) == before


def test_the_sampled_median_is_seeded(rng):
    x = rng.standard_normal((3000, 2))
    first, second = (RBF().resolve(x, rng=np.random.default_rng(7)).gamma for _ in range(2))
    assert first == second


def test_median_of_data_with_many_copies_is_not_zero(rng):
    x = np.repeat(rng.standard_normal((3, 2)), [30, 1, 1], axis=0)
    assert np.isfinite(RBF().resolve(x, rng=rng).gamma)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_one_row_among_thousands_of_copies_gives_the_width(as_rows, rng):
    """A sample of a thousand rows hardly ever holds it: then all rows are looked at."""
    x = np.tile([0.1, 0.2], (20_000, 1))
    x[777] += [3.0, 4.0]
    weights = np.ones(len(x))
    weights[777] = 3.0
    for w in (None, weights):
        found = RBF().resolve(as_rows(x), rng=rng, weights=w)
        assert found.gamma == pytest.approx(0.5 / 25)
        assert Matern().resolve(as_rows(x), rng=rng, weights=w).length_scale == pytest.approx(5)
        assert Laplacian().resolve(as_rows(x), rng=rng, weights=w).gamma == pytest.approx(1 / 7)
    weights[777] = 0.0  # not there
    assert RBF().resolve(as_rows(x), rng=rng, weights=weights).gamma == 0.5


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_copies_of_one_row_have_a_width_of_one_and_not_of_rounding(as_rows, rng):
    for d in (1, 3, 7, 30):
        row = 10.0 ** rng.uniform(-3, 3, d) * rng.standard_normal(d)
        x = as_rows(np.tile(row, (50, 1)))
        assert RBF().resolve(x, rng=rng).gamma == 0.5
        assert Matern().resolve(x, rng=rng).length_scale == 1.0
        assert RBF("scale").resolve(as_rows(np.full((50, d), 0.1)), rng=rng).gamma == 1.0


# ── bad input ───────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (RBF(-1.0), "gamma must be a number > 0"),
        (RBF(0.0), "gamma must be a number > 0"),
        (RBF(np.nan), "gamma must be a number > 0"),
        (RBF("medain"), "Did you mean 'median'"),
        (Matern(1.5, "medain"), "Did you mean 'median'"),
        (Polynomial(2, gamma="scael"), "Did you mean 'scale'"),
        (RBF(1.0, sigma=2.0), "Leave one out"),
        (RBF(sigma=0.0), "sigma must be a number > 0"),
        (Laplacian(-2), "gamma must be a number > 0"),
        (Matern(-1.0, 1.0), "nu must be a number > 0"),
        (Matern(1.5, 0.0), "length_scale must be a number > 0"),
        (RationalQuadratic(0.0, 1.0), "alpha must be a number > 0"),
        (Polynomial(0), "degree must be a number > 0"),
        (Polynomial(2, gamma="median"), "gamma must be"),
        (Sigmoid(1.0, np.inf), "finite"),
        (Chi2(0.0), "gamma must be a number > 0"),
        (Linear() ** 0, "exponent must be an integer >= 1"),
        (Linear() ** 1.5, "exponent must be an integer >= 1"),
        (Linear() ** np.inf, "exponent must be an integer >= 1"),
        (Linear() ** np.nan, "exponent must be an integer >= 1"),
        (Linear() ** 10**400, "exponent must be an integer >= 1"),
        (RBF(10**400), "gamma must be a number > 0"),
        (RBF(1.0) + 10**400, "finite"),
        (RBF(1.0).on([7]), "0 to 3"),
        (RBF(1.0).on([]), "one of them at least"),
        (RBF(1.0).on([False] * 4), "one of them at least"),
        (RBF(1.0).on([True, False]), "for each of the 4 columns; got 2"),
        (RBF(1.0).on([True, 2]), "positions, of names or of booleans; got"),
        (RBF(1.0).on([0.0, 1.0]), "positions, of names or of booleans; got"),
        (RBF(1.0).on("ab"), "positions, of names or of booleans; got"),
        (RBF(1.0).on(2), "positions, of names or of booleans; got"),
    ],
)
def test_impossible_parameters_are_refused(kernel, says, cloud):
    with pytest.raises((KernelError, InputError), match=says):
        kernel(cloud)


@pytest.mark.parametrize(
    ("kernel", "name", "value"),
    [
        (RBF(-1.0), "gamma", -1.0),
        (RBF(1.0) + Matern(-1.0, 1.0), "nu", -1.0),
        (Linear() ** 1.5, "exponent", 1.5),
        (Polynomial(2, gamma="median"), "gamma", "median"),
        (RBF(1.0) + 10**400, "value", 10**400),
    ],
)
def test_an_error_names_the_parameter_and_its_value(kernel, name, value, cloud):
    with pytest.raises(KernelError) as refused:
        kernel(cloud)
    assert (refused.value.parameter, refused.value.value) == (name, value)


@pytest.mark.parametrize("nu", [np.inf, np.float64(np.inf), np.float32(2.5), np.int8(2)])
def test_numbers_of_any_type_are_numbers(nu, cloud):
    assert np.array_equal(Matern(nu, 1.0)(cloud), Matern(float(nu), 1.0)(cloud))


@pytest.mark.parametrize("p", [3, 3.0, np.float32(3), np.int8(3), np.float16(3)])
def test_a_power_is_a_whole_number_of_any_type(p, cloud):
    np.testing.assert_allclose((Linear() ** p)(cloud), Linear()(cloud) ** 3, rtol=1e-12)


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(KernelError, match="Did you mean 'rbf'"):
        as_kernel("rfb")
    with pytest.raises(KernelError, match=r"Write RBF\(\)"):
        as_kernel(RBF)
    with pytest.raises(KernelError, match="got 3"):
        as_kernel(3)


def test_every_name_gives_its_class():
    for name, kind in KERNELS.items():
        assert type(as_kernel(name)) is kind


def test_functions_of_points_and_of_matrices_are_told_apart(cloud, rng):
    for d in (1, 2, 3, 4):
        x = cloud[:, :d]
        assert Custom(lambda x, y: x @ y.T).resolve(x, rng=rng).form == "matrices"
        for function in (
            lambda x, y: float(np.dot(x, y)),
            lambda x, y: np.exp(-np.sum((x - y) ** 2)),
            lambda x, y: np.minimum(x, y).sum(),
        ):
            assert Custom(function).resolve(x, rng=rng).form == "points"


def test_wrong_answers_of_a_function_are_refused(cloud):
    with pytest.raises(KernelError, match="must return one number"):
        Custom(lambda x, y: x + y)(cloud)
    with pytest.raises(KernelError, match="finite value"):
        Custom(lambda x, y: np.nan)(cloud)  # noqa: ARG005
    with pytest.raises(KernelError, match="must return one of shape"):
        Custom(lambda x, y: np.zeros(3), "matrices")(cloud)  # noqa: ARG005


def test_negative_histograms_are_refused(cloud):
    with pytest.raises(InputError, match="histograms"):
        Chi2()(cloud)


@pytest.mark.parametrize(
    "build",
    [
        lambda k: RBF(1.0) + k,
        lambda k: k + RBF(1.0),
        lambda k: k + 1.0,
        lambda k: 1.0 + k,
        lambda k: k - RBF(1.0),
        lambda k: 1.0 - k,
        lambda k: -k,
        lambda k: 2.0 * k,
        lambda k: k * 2.0,
        lambda k: k * RBF(1.0),
        lambda k: RBF(1.0) * k,
        lambda k: k**2,
        lambda k: k.on([0]),
        lambda k: k.normalised(),
    ],
)
def test_a_precomputed_kernel_is_not_combined(build):
    with pytest.raises(KernelError, match="precomputed kernel can't be combined"):
        build(Precomputed())


def test_sparse_rows_of_a_precomputed_kernel_are_kernel_values(cloud):
    K = Linear()(cloud)
    model, sparse_rows = KernelPCA(2, kernel="precomputed").fit(K), sparse.csr_array(K)
    np.testing.assert_array_equal(Precomputed()(sparse_rows), K)
    np.testing.assert_array_equal(Precomputed().diag(sparse_rows), np.diagonal(K))
    np.testing.assert_allclose(model.transform(sparse_rows), model.transform(K), rtol=1e-12)


# ── Gaussian-process kernels ────────────────────────────────────────────────
class Stranger(gp.RBF):
    """Named like a covariance function, and none."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return -super().__call__(X, Y, eval_gradient)


Stranger.__name__ = "RBF"


@pytest.mark.parametrize(
    "kernel",
    [
        gp.RBF() ** -1,
        gp.RBF() ** 0.5,
        gp.ConstantKernel(-1.0),
        gp.WhiteKernel(-1.0),
        gp.DotProduct(-1.0),
        gp.RBF() + gp.ConstantKernel(-1.0),
        Stranger(),
    ],
)
def test_no_reason_is_given_for_what_is_no_covariance(kernel):
    assert as_kernel(kernel).why_valid() is None


@pytest.mark.parametrize(
    "kernel",
    [gp.RBF([1.0, 2.0]) ** 2, gp.RBF() ** 0, 2.0 * gp.Matern(nu=1.5) + gp.WhiteKernel(0.1)],
)
def test_a_reason_is_given_for_covariances(kernel, cloud):
    kernel = as_kernel(kernel)
    assert kernel.why_valid() is not None
    assert np.linalg.eigvalsh(kernel(cloud[:, :2]))[0] >= -1e-12 * len(cloud)


def test_a_resolved_gp_kernel_is_out_of_the_callers_reach(cloud, rng):
    given = gp.RBF(1.0)
    resolved = as_kernel(given).resolve(cloud, rng=rng)
    before = resolved(cloud)
    given.set_params(length_scale=5.0)
    np.testing.assert_array_equal(resolved(cloud), before)


def test_rows_of_two_widths_are_refused(cloud):
    with pytest.raises(KernelError, match="same number of columns; got 4 and 3"):
        RBF(1.0)(cloud, cloud[:, :3])
    with pytest.raises(InputError, match="reshape"):
        RBF(1.0)(cloud[0])


def test_an_unresolved_rule_is_an_error_inside():
    x = np.zeros((2, 2))
    with pytest.raises(KernelError, match="resolve"):
        RBF().tile(x, x)


# ── equality ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(ALL))
def test_a_kernel_equals_its_copy_and_no_other(name):
    kernel = ALL[name]
    again = clone(kernel)
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert {kernel: name}[again] == name
    assert [other for other in sorted(ALL) if ALL[other] == kernel] == [name]
    assert kernel != name
    assert kernel != repr(kernel)


def test_equality_follows_parameters_and_the_hash_does_not():
    """A kernel that is set to something else is still found where it was put."""
    kernel = RBF(1.0) + 0.5 * Linear()
    kept = {kernel}
    assert kernel == RBF(1.0) + 0.5 * Linear()
    kernel.set_params(left__gamma=2.0)
    assert kernel in kept
    assert kernel != RBF(1.0) + 0.5 * Linear()
    assert kernel == RBF(2.0) + 0.5 * Linear()
    assert RBF() == RBF()
    assert RBF() != Laplacian()
    assert RBF() ** 2 != RBF() ** 3
    assert RBF().normalised() == RBF().normalised()


def test_columns_are_equal_as_positions_and_as_masks_but_not_to_each_other():
    on = RBF().on
    assert on([0, 2]) == on((0, 2)) == on(np.array([0, 2]))
    assert on([True, False]) == on(np.array([True, False]))
    assert on([True, False]) != on([1, 0])
    assert on([0, 1]) != on([0, 1, 2])


def test_kernels_from_outside_are_equal_where_what_they_hold_is():
    assert Custom(np.dot) == Custom(np.dot)
    assert Custom(np.dot) != Custom(np.vdot)
    assert Custom(np.dot, "points") != Custom(np.dot, "matrices")
    assert as_kernel(gp.RBF(1.0)) == as_kernel(gp.RBF(1.0))
    assert as_kernel(gp.RBF(1.0)) != as_kernel(gp.RBF(2.0))
    assert Precomputed() == Precomputed()


# ── what a function returns ─────────────────────────────────────────────────
RETURNS = {
    "nothing": (lambda *_: None, "returned None.*return statement"),
    "text": (lambda *_: "a", "returned .*'a'.*real number"),
    "digits as text": (lambda *_: "1.5", "returned .*'1.5'.*real number"),
    "complex": (lambda *_: 1.0 + 2.0j, "complex numbers.*real"),
    "an object": (lambda *_: {}, "returned {}, of type dict"),
    "an array of objects": (lambda *_: np.array([None]), "returned None, of type NoneType"),
    "a vector": (lambda *_: np.ones(7), r"shape \(7,\).*must return one number"),
    "ragged lists": (lambda *_: [[1.0], [1.0, 2.0]], "not an array of numbers"),
    "NaN": (lambda *_: np.nan, "returned nan"),
}
MATRICES = {
    "nothing": (lambda *_: None, "returned None.*return statement"),
    "text": (lambda x, y: np.full((len(x), len(y)), "a"), "returned .*'a'.*real number"),
    "complex": (lambda x, y: (x @ y.T).astype(complex), "complex numbers.*real"),
    "gaps": (lambda x, y: [[None] * len(y)] * len(x), "returned None, of type NoneType"),
    "one row": (lambda x, y: (x @ y.T)[:1], r"shape \(1, \d+\) for \d+ and \d+ points"),
    "ragged lists": (lambda *_: [[1.0], [1.0, 2.0]], "not an array of numbers"),
    "NaN": (lambda x, y: x @ y.T * np.nan, "returned nan"),
}


@pytest.mark.parametrize("name", RETURNS)
def test_a_function_of_points_is_told_what_it_returned(name, cloud):
    function, says = RETURNS[name]
    for kernel in (Custom(function, "points"), Custom(function, "points") + RBF(1.0)):
        with pytest.raises(KernelError, match=says):
            kernel(cloud)
        with pytest.raises(KernelError, match=says):
            kernel.diag(cloud)


@pytest.mark.parametrize("form", ["auto", "matrices"])
@pytest.mark.parametrize("name", MATRICES)
def test_a_function_of_matrices_is_told_what_it_returned(name, form, cloud):
    function, says = MATRICES[name]
    with pytest.raises(KernelError, match=says):
        Custom(function, form)(cloud)


def test_numbers_of_any_kind_are_numbers(cloud):
    wanted = Linear()(cloud)
    for cast in (
        lambda K: K.astype(object),
        lambda K: K.astype(np.longdouble),
        lambda K: K.tolist(),
        sparse.csr_array,
    ):
        kernel = Custom(lambda x, y, cast=cast: cast(x @ y.T), "matrices")
        np.testing.assert_allclose(kernel(cloud), wanted, rtol=1e-14)
    assert Custom(lambda *_: Fraction(1, 4), "points")(cloud)[0, 0] == 0.25
    assert Custom(lambda *_: True, "points")(cloud)[0, 0] == 1.0


@pytest.mark.parametrize("name", sorted(set(RETURNS) - {"NaN"}))
def test_transform_is_told_as_fit_is(name, cloud):
    """A function may change its mind after the fit."""
    answers = [np.dot]

    def function(x, y):
        return answers[-1](x, y)

    model = KernelPCA(2, kernel=Custom(function, "points")).fit(cloud)
    answers.append(RETURNS[name][0])
    with pytest.raises(KernelError, match=RETURNS[name][1]):
        model.transform(cloud[:3])


def test_positive_only_is_known_of_every_combination():
    for kernel in (Chi2(), RBF() + Chi2(), 2.0 * Chi2(), Chi2() ** 2, (Chi2() * RBF()).on([0])):
        assert kernel.positive_only
        assert KernelPCA(kernel=kernel.normalised()).__sklearn_tags__().input_tags.positive_only
        assert IncrementalKernelPCA(kernel=kernel).__sklearn_tags__().input_tags.positive_only
        detector = KernelPCADetector(kernel=kernel, scale=False)
        assert detector.__sklearn_tags__().input_tags.positive_only
    for kernel in ("rbf", "precomputed", RBF() + Linear(), "no such kernel", None):
        assert not KernelPCA(kernel=kernel).__sklearn_tags__().input_tags.positive_only
