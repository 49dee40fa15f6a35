"""Laws of kernels on rows of any size: right by mpmath, or infinite where no number is that large."""

import warnings
from functools import cache

import numpy as np
import pytest
from mpmath import mp
from scipy import sparse

from markets.exact import exact, exact_matern, real
from mercer import PCA, KernelPCA, KernelPCADetector
from mercer.approximations import Nystrom, RPCholesky
from mercer.engine.pairwise import scaled_distances, scaled_squared_distances
from mercer.errors import InputError, KernelError
from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from mercer.kernels.matern import matern

KERNELS = {
    "rbf": RBF(0.5),
    "laplacian": Laplacian(0.5),
    "matern-0.001": Matern(1e-3, 1.0),
    "matern-1/4": Matern(0.25, 1.0),
    "matern-1/2": Matern(0.5, 1.0),
    "matern-3/2": Matern(1.5, 1.0),
    "matern-5/2": Matern(2.5, 1.0),
    "matern-7/2": Matern(3.5, 1.0),
    "matern-60": Matern(60.0, 1.0),
    "matern-inf": Matern(np.inf, 1.0),
    "rational-quadratic": RationalQuadratic(1.5, 1.0),
    "heavy-tail": RationalQuadratic(0.05, 1.0),
    "chi2": Chi2(0.7),
    "linear": Linear(),
    "poly3": Polynomial(3),
    "poly2-homogeneous": Polynomial(2, 1.0, 0.0),
    "sigmoid": Sigmoid(0.1, 0.0),
    "cosine": Cosine(),
    "sum": RBF(0.5) + Linear(),
    "product": RBF(0.5) * Polynomial(2),
    "small-multiple": 1e-300 * Linear(),
    "power": Cosine() ** 4,
    "columns": Matern(3.5, 1.0).on([0, 2]),
    "normalised-linear": Linear().normalised(),
    "normalised-poly3": Polynomial(3).normalised(),
    "normalised-sum": (RBF(0.5) + Linear()).normalised(),
    "normalised-power": (Linear() ** 3).normalised(),
    "normalised-nested": (Polynomial(2) * Cosine() + 3.0).normalised(),
}
SIZES = {
    "float64": (1e-300, 1e-162, 1e-17, 1.0, 1e9, 1e155, 7e307),
    "float32": (1e-44, 1e-25, 1e-9, 1.0, 1e9, 1e20, 1e37),
}
# `mercer.engine.pairwise.ROUNDING`: what an entry may be off by, of √(k(x, x) k(y, y)).
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def rows_of(size, name, dtype):
    """Rows of one size, near copies of them, a row of zeros and an ordinary one."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 3))
    x, y = (np.abs(x), np.abs(y)) if name == "chi2" else (x, y)
    x, other = (size * x).astype(dtype), (size * y[:2]).astype(dtype)
    near = x[:1] * dtype(1 + 3e-7)
    return x, np.concatenate([other, near, np.zeros((1, 3), dtype), y[2:].astype(dtype)])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_right_whatever_the_size_of_the_rows(name, dtype, form):
    kernel, kind = KERNELS[name], np.dtype(dtype).type
    for size in SIZES[dtype]:
        x, y = rows_of(size, name, kind)
        with np.errstate(all="ignore"):
            found, own = kernel.tile(form(x), form(y)), kernel.tile_diag(form(x))
        assert found.dtype == own.dtype == kind
        rows, others = ([[mp.mpf(float(v)) for v in row] for row in side] for side in (x, y))
        for i, row in enumerate(rows):
            length = exact(kernel, row, row)
            assert_right(own[i], length, abs(length), dtype)
            for j, other in enumerate(others):
                scale = mp.sqrt(abs(length * exact(kernel, other, other)))
                assert_right(found[i, j], exact(kernel, row, other), scale, dtype)


def assert_right(found, wanted, scale, dtype):
    info = np.finfo(dtype)
    if abs(wanted) > real(info.max):
        assert np.isinf(found)
        assert (found > 0) == (wanted > 0)
    else:
        assert np.isfinite(found)
        assert abs(real(found) - wanted) <= TOLERANCE[dtype] * scale + real(info.tiny)


@pytest.mark.parametrize(
    "nu", [1e-12, 1e-3, 0.019, 0.021, 0.1, 0.3, 0.49, 0.7, 1.0, 3.5, 20.0, 49.9]
)
def test_matern_from_the_least_distance_to_the_largest(nu):
    """To 4(ν|log s| + s + ν + 20) units: it is made in logarithms, whose sizes these are."""
    s = np.array([1e-300, 1e-100, 1e-17, 1e-15, 9.9e-9, 1.1e-8, 1e-3, 1.0, 30.0, 300.0])
    for each, found in zip(s, matern(s, nu), strict=True):
        wanted = exact_matern(mp.mpf(float(each)), mp.mpf(nu))
        units = 4.0 * (nu * abs(np.log(each)) + each + nu + 20.0)
        assert abs(found - wanted) <= units * np.finfo(float).eps * wanted
    np.testing.assert_array_equal(matern(np.array([0.0, 1e9, 1e300, np.inf]), nu), [1, 0, 0, 0])


FAR = [name for name in KERNELS if name != "chi2"]


@pytest.mark.parametrize("name", FAR)
def test_slopes_of_far_rows_are_numbers_or_told(name):
    kernel = KERNELS[name]
    y = np.random.default_rng(0).normal(size=(5, 3))
    for size in (1e9, 1e155, 1.5e308):
        x = np.array([[size, -size, 1.0], [1.0, 2.0, 3.0]])
        with np.errstate(all="ignore"):
            slopes, told = outcome(lambda: kernel.tile_slope(x, y, np.ones((2, 5))))  # noqa: B023
            if told:
                assert "out of the range" in told
            else:
                assert np.all(np.isfinite(slopes[1]))
                assert not np.any(np.isnan(slopes)) or kernel.tile_diag(x)[0] == np.inf


def outcome(call):
    """What it gives, or what it says."""
    try:
        return call(), ""
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("size", [1e9, 1e100, 1e160, 1.5e308])
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_transform_gives_numbers_or_says_which_row_overflows(name, size):
    x = np.random.default_rng(0).normal(size=(30, 3))
    model = KernelPCA(2, kernel=KERNELS[name]).fit(x)
    rows = np.array([[1.0, 2.0, 3.0], [size, 1.0, -size]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        scores, told = outcome(lambda: model.transform(rows))
    if told:
        assert "overflow float64 for 1 of 2 rows, the first of them row 1" in told
        assert not model.kernel_.shift_invariant  # those of distances are bounded
    else:
        assert np.all(np.isfinite(scores))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e9, 1e30, 1e100, 1e160, 1.5e308])
@pytest.mark.parametrize("name", [*FAR, "pca", "likelihood"])
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_squared_distances_are_numbers_or_the_row_is_named(name, size, dtype):
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(dtype)
    model = PCA(2) if name in ("pca", "likelihood") else KernelPCA(2, kernel=KERNELS[name])
    try:
        model.fit(x)
        ask = model.score_samples if name == "likelihood" else model.reconstruction_error
        rows = np.array([[1.0, 2.0, 3.0], [size, 1.0, -size]])
        model.transform(rows)
    except InputError:  # what the fit or `transform` refuses is another law's affair
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found, told = outcome(lambda: ask(rows))
    assert told or np.all(np.isfinite(found))
    if told:
        assert "overflow float64 for 1 of 2 rows, the first of them row 1" in told
        assert size > 1e20


@pytest.mark.parametrize("length_scale", [1e-200, 1e200])
@pytest.mark.parametrize("kind", [lambda l: Matern(np.inf, l), lambda l: RationalQuadratic(2.0, l)])
def test_lengths_whose_squares_are_out_of_range(kind, length_scale, cloud):
    wanted = kind(1.0)(cloud)
    np.testing.assert_allclose(kind(length_scale)(cloud * length_scale), wanted, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
@pytest.mark.parametrize("kind", [lambda l: Matern(2.5, l), lambda l: RationalQuadratic(2.0, l)])
def test_slopes_at_lengths_whose_squares_are_out_of_range(kind, unit, cloud, rng):
    x, y, weights = cloud[:9], cloud[9:], rng.standard_normal((9, len(cloud) - 9))
    wanted = kind(1.0).tile_slope(x, y, weights)
    found = kind(unit).tile_slope(x * unit, y * unit, weights)
    np.testing.assert_allclose(found * unit, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("length_scale", [1e-200, 1e200])
@pytest.mark.parametrize("kind", [lambda l: Matern(1.5, l), lambda l: RationalQuadratic(2.0, l)])
def test_a_fit_does_not_depend_on_the_unit_of_the_rows(kind, length_scale, cloud):
    wanted = KernelPCA(3, kernel=kind(1.0)).fit(cloud).eigenvalues_
    found = KernelPCA(3, kernel=kind(length_scale)).fit(cloud * length_scale).eigenvalues_
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("distances", [scaled_distances, scaled_squared_distances])
@pytest.mark.parametrize("other", ["near", "far", "crowded"])
def test_one_row_changes_no_bit_of_the_distances_of_another(distances, other, rng):
    """In blocks of one shape, since BLAS adds in an order that depends on that."""
    y = rng.normal(size=(40, 3))
    x = rng.normal(size=(16, 3)) + 3.0
    changed = x.copy()
    changed[5] = {"near": y[7] + 1e-7, "far": np.full(3, 1e9), "crowded": np.zeros(3)}[other]
    if other == "crowded":  # many points lie near that row
        y[:20] *= 1e-6
    rest = np.arange(16) != 5
    np.testing.assert_array_equal(distances(changed, y, 2.0)[rest], distances(x, y, 2.0)[rest])


def test_clusters_far_from_the_centre_of_all_keep_their_distances():
    """Tiles of rows made ready about one centre, in which a cluster lies a million of its widths away."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    x[600:] += 1e7
    model = KernelPCA(3, kernel=Matern(1.5, 1.0), solver="lapack").fit(x)
    wanted = KernelPCA(3, kernel="precomputed", solver="lapack").fit(exactly_spaced(x))
    np.testing.assert_allclose(model.eigenvalues_, wanted.eigenvalues_, rtol=1e-7)


def exactly_spaced(x):
    s = np.sqrt(3.0) * np.linalg.norm(x[:, None] - x[None], axis=2)
    return (1.0 + s) * np.exp(-s)


def test_a_detector_is_told_of_overflow_as_an_alarm(rng):
    detector = KernelPCADetector(kernel=Polynomial(3), random_state=0).fit(rng.normal(size=(80, 3)))
    assert detector.predict([[1e200, 0.0, 0.0]])[0] == -1


# ── fits of rows, or columns, that are tiny beside others ───────────────────
def mixed(kind, tiny, dtype):
    """Rows of which half are tiny, or whose last columns are."""
    x = np.abs(np.random.default_rng(0).standard_normal((24, 4)))
    x[::2, :2] *= -1.0 if kind == "rows" else 1.0
    if kind == "rows":
        x[::2] *= tiny
    else:
        x[:, 2:] *= tiny
    return x.astype(dtype)


def homogeneous(degree, gamma=1.0):
    return Polynomial(degree, gamma, 0.0)


# Of a kernel in the unit of the tiny numbers: what it is on, and how many powers of them it multiplies.
MIXED = {
    "cosine": ("rows", lambda _: Cosine()),
    "cosine of columns": ("columns", lambda _: Cosine().on([2, 3])),
    "cosine, shifted": ("rows", lambda _: (Cosine() + 1.0).normalised() + RBF(0.1)),
    "power": ("rows", lambda _: homogeneous(2).normalised()),
    "power and distance": ("rows", lambda _: homogeneous(3, 0.1).normalised() + RBF(0.1)),
    "high power": ("rows", lambda _: homogeneous(9).normalised() * RBF(0.1)),
    "power of columns": ("columns", lambda _: homogeneous(3).on([2, 3]).normalised()),
    "sum": ("rows", lambda t: (homogeneous(3) + (t**2 * 1e-3) * Linear()).normalised()),
    "product": ("rows", lambda _: (homogeneous(2) * Linear()).normalised()),
    "multiple": ("rows", lambda t: (1e4 / t * homogeneous(2)).normalised() + RBF(0.1)),
    "chi2": ("columns", lambda t: Chi2(1.0 / t).on([2, 3])),
    "laplacian": ("columns", lambda t: Laplacian(1.0 / t).on([2, 3])),
    "matern": ("columns", lambda t: Matern(np.inf, t).on([2, 3])),
    "large and small": (
        "columns",
        lambda t: (homogeneous(2).on([2, 3]) * (t**-2 * Polynomial(2).on([0, 1]))).normalised(),
    ),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize(
    ("dtype", "tiny"), [("f4", 1e-12), ("f4", 1e-25), ("f8", 1e-60), ("f8", 1e-120)]
)
@pytest.mark.parametrize("name", MIXED)
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_what_is_tiny_beside_the_rest_counts_in_a_fit(name, dtype, tiny, engine, weighted):
    kind, made = MIXED[name]
    x, kernel = mixed(kind, tiny, dtype), made(tiny)
    weights = 1.0 + np.arange(24) % 3 if weighted else np.ones(24)
    model = KernelPCA(3, kernel=kernel, engine=engine).fit(x, sample_weight=weights)
    wanted = exact_of_mixed(name, tiny, dtype, weighted)[: len(model.eigenvalues_)]
    tolerance = TOLERANCE["float32" if dtype == "f4" else "float64"]
    off = np.abs(model.eigenvalues_ - wanted).max() / wanted[0]
    assert off <= model.residuals_.max() + tolerance
    squares = np.average(model.transform(x).astype(np.float64) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(squares * np.sum(weights), wanted, rtol=100 * tolerance)


@cache
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_ordinary_rows_are_asked_for_no_more_than_their_factors(
    dtype, monkeypatch, rng
):
    x = rng.standard_normal((9, 3)).astype(dtype)
    x[0] = 0.0

    def asked(*_):
        pytest.fail("k(x, x) of a factor was evaluated beside its tile")

    monkeypatch.setattr("mercer.kernels.evaluate._own_values", asked)
    kernel = Linear() * RBF(0.5) * (Polynomial(2) + RBF(1.0))
    for y in (x, 1e3 * x[:4]):
        wanted = Linear().tile(x, y) * RBF(0.5).tile(x, y)
        wanted *= (Polynomial(2) + RBF(1.0)).tile(x, y)
        np.testing.assert_array_equal(kernel.tile(x, y), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_has_vanished_in_one_factor_counts_beside_a_large_one(dtype):
    """One factor has lost its digits below the least number; the product is well above it."""
    sizes = [1e18, 1e-11] if dtype == "f4" else [1e125, 1e-80]
    x = (np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]]) * sizes).astype(dtype)
    kernel = Linear().on([0]) * Linear().on([1]) ** 2
    found = kernel.tile(x, x)
    rows = [[real(v) for v in row] for row in x]
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            wanted = exact(kernel, a, b)
            scale = mp.sqrt(exact(kernel, a, a) * exact(kernel, b, b))
            assert abs(real(found[i, j]) - wanted) <= TOLERANCE[np.dtype(dtype).name] * scale


def exact_of_mixed(name, tiny, dtype, weighted):
    kind, made = MIXED[name]
    weights = 1.0 + np.arange(24) % 3 if weighted else np.ones(24)
    return exact_eigenvalues(made(tiny), mixed(kind, tiny, dtype), weights)


def exact_eigenvalues(kernel, x, weights):
    """Those of the centred kernel matrix in mpmath, whose entries are rounded once."""
    with mp.workdps(60):
        rows, w = [[real(v) for v in row] for row in x], [real(v) for v in weights]
        k = [[exact(kernel, a, b) for b in rows] for a in rows]
        total = mp.fsum(w)
        means = [mp.fdot(w, row) / total for row in k]
        mean = mp.fdot(w, means) / total
        centred = [
            [
                float((v - means[i] - means[j] + mean) * mp.sqrt(w[i] * w[j]))
                for j, v in enumerate(row)
            ]
            for i, row in enumerate(k)
        ]
    return np.linalg.eigvalsh(np.array(centred))[::-1]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", [n for n in KERNELS if n.startswith("normalised")])
def test_maps_of_normalised_kernels_are_right_whatever_the_size_of_the_rows(name, dtype):
    kernel, kind = KERNELS[name], np.dtype(dtype).type
    if name == "normalised-sum":  # of distances, which have no finite map
        kernel = (Linear() + 2.0 * Linear() ** 2 + Cosine()).normalised()
    assert_map_is_right(kernel, name, kind)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("gamma", [1e-60, 1e-20, 1e20, 1e60])
def test_maps_of_steep_polynomials_are_right_whatever_the_size_of_the_rows(gamma, dtype):
    """√γ x is out of range where neither √γ nor x is."""
    kernel = Polynomial(2, gamma, 1.0).normalised()
    assert_map_is_right(kernel, "steep", np.dtype(dtype).type)


def assert_map_is_right(kernel, name, kind):
    for size in SIZES[kind.__name__]:
        x, y = rows_of(size, name, kind)
        y = y[:3]
        found = kernel.feature_map(3)(x) @ kernel.feature_map(3)(y).T
        for i, row in enumerate(x):
            for j, other in enumerate(y):
                wanted = exact(kernel, *([real(v) for v in side] for side in (row, other)))
                assert abs(real(found[i, j]) - wanted) <= TOLERANCE[kind.__name__]


FITS = {
    "primal": {},
    "primal, weighted": {"weights": True},
    "dual": {},
    "RPCholesky": {"approximation": RPCholesky(9)},
    "Nystrom": {"approximation": Nystrom(9)},
    "refined": {"approximation": Nystrom(9, refine=1)},
}
LOST = {  # kernels whose values have lost digits below the least number, or are nothing
    "f8, subnormal": ("f8", homogeneous(6), 4e-27),
    "f8, nothing": ("f8", homogeneous(6), 1e-30),
    "f8, a multiple": ("f8", 1e40 * homogeneous(6), 1e-27),
    "f8, a product": ("f8", homogeneous(5) * homogeneous(4), 1e-18),
    "f4, in double nothing": ("f4", homogeneous(9), 1e-20),
}


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("name", LOST)
def test_values_that_have_lost_digits_are_refused(name, fit, rng):
    dtype, kernel, size = LOST[name]
    options = dict(FITS[fit])
    weights = np.arange(1.0, 31.0) if options.pop("weights", False) else None
    x = (size * rng.standard_normal((30, 2))).astype(dtype)
    told = "holds numbers from|keep their digits"
    if fit == "dual":
        kernel = kernel * RBF(1e-3)  # which has no explicit map
    elif fit.startswith("primal") and name == "f8, a multiple":
        return  # features, roots of values, are in range
    with pytest.raises(KernelError, match=told):
        KernelPCA(2, kernel=kernel, random_state=0, **options).fit(x, sample_weight=weights)
    # Rows near one are right to rounding, so it is their size alone that is refused.
    KernelPCA(2, kernel=kernel, random_state=0, **options).fit(x / np.dtype(dtype).type(size))
