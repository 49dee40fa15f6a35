"""What a fit says of itself holds for what it hands out, in the precision that it is handed out in."""

import numpy as np
import pytest
from scipy import sparse

import mercer
from conftest import frozen
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import ZeroVarianceError
from mercer.app.fit import evidence
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.engine.moments import weighted_mean
from mercer.kernels import RBF, Constant, Cosine, Laplacian, Linear, Matern, Polynomial
from mercer.model.centred_features import CentredRows
from mercer.operators import Centred, StoredGram
from mercer.planning.recipe import Tiles
from mercer.solvers import BlockKrylov, Lapack

LONG = np.longdouble  # 64 bits of mantissa: eleven more than float64, where the machine has it
# A reference that is no better than float64 is itself rounded, as is LAPACK's solution of it.
REFERENCE = 100 * np.finfo(np.float64).eps


# ── the true matrix, less a constant that centring takes off ────────────────
def rbf(x, gamma):
    return np.expm1(-LONG(gamma) * np.square(x[:, None] - x[None]).sum(axis=2))


def laplacian(x, gamma):
    return np.expm1(-LONG(gamma) * np.abs(x[:, None] - x[None]).sum(axis=2))


def polynomial(x, degree):
    return (LONG(0.5) * (x @ x.T) + LONG(2.0)) ** degree


KERNELS = {
    "rbf narrow": (RBF(1.0), lambda x: rbf(x, 1.0)),
    "rbf": (RBF(0.05), lambda x: rbf(x, 0.05)),
    "rbf wide": (RBF(1e-4), lambda x: rbf(x, 1e-4)),
    "rbf very wide": (RBF(1e-8), lambda x: rbf(x, 1e-8)),
    "laplacian": (Laplacian(0.1), lambda x: laplacian(x, 0.1)),
    "laplacian wide": (Laplacian(1e-6), lambda x: laplacian(x, 1e-6)),
    "linear": (Linear(), lambda x: x @ x.T),
    "poly2": (Polynomial(2, gamma=0.5, coef0=2.0), lambda x: polynomial(x, 2)),
    "poly6": (Polynomial(6, gamma=0.5, coef0=2.0), lambda x: polynomial(x, 6)),
}
DATA = {
    "cloud": lambda rng, n: rng.standard_normal((n, 4)),
    "clusters": lambda rng, n: (
        0.05 * rng.standard_normal((n, 4)) + 30.0 * rng.integers(0, 3, (n, 1))
    ),
    "far": lambda rng, n: rng.standard_normal((n, 4)) + 50.0,
}
SOLVERS = {"auto": "auto", "lapack": "lapack", "krylov": BlockKrylov(tol=1e-10)}
WEIGHTS = {
    "even": lambda _, __: None,
    "six decades": lambda rng, n: 10.0 ** rng.uniform(-6, 0, n),
}


def true_matrix(entries, x, weights):
    """S H K Hᵀ S in float64, rounded once, from entries in 80 bits."""
    k = entries(x.astype(LONG))
    w = np.ones(len(x), dtype=LONG) if weights is None else weights.astype(LONG)
    means = k @ (w / w.sum())
    k = k - means[:, None] - means[None, :] + (w / w.sum()) @ means
    return np.asarray(np.sqrt(w)[:, None] * k * np.sqrt(w)[None, :], dtype=np.float64)


def check(model, matrix):
    """Each eigenvalue is within residual · λ₁ of a true one, and each vector has that residual."""
    true = np.linalg.eigvalsh(matrix)
    values, vectors = (a.astype(np.float64) for a in (model.eigenvalues_, model.eigenvectors_))
    allowed = (model.residuals_ + REFERENCE) * true[-1]
    gaps = np.abs(values[:, None] - true[None, :]).min(axis=1)
    assert np.all(gaps <= allowed)
    assert np.all(np.linalg.norm(matrix @ vectors - vectors * values, axis=0) <= allowed)
    low, high = model.fit_.bounds.T
    assert np.all(low <= true[::-1][: len(low)] + REFERENCE * true[-1])
    assert np.all(true[::-1][: len(low)] <= high + REFERENCE * true[-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("data", sorted(DATA))
@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")
def test_eigenvalues_are_as_near_to_true_ones_as_told(name, data, solver, weights, dtype):
    kernel, entries = KERNELS[name]
    for n in (30, 120):
        rng = np.random.default_rng([sorted(KERNELS).index(name), n])
        x, w = frozen(DATA[data](rng, n).astype(dtype)), WEIGHTS[weights](rng, n)
        model = KernelPCA(3, kernel=kernel, solver=SOLVERS[solver]).fit(x, sample_weight=w)
        assert model.eigenvalues_.dtype == model.eigenvectors_.dtype == dtype
        check(model, true_matrix(entries, x, w))


def matern(x, length_scale):
    s = np.sqrt(LONG(3.0) * np.square(x[:, None] - x[None]).sum(axis=2)) / LONG(length_scale)
    return np.expm1(-s) + s * np.exp(-s)


DISTANCES = {
    "rbf": (RBF(1e-3), lambda x: rbf(x, 1e-3)),
    "matern": (Matern(1.5, length_scale=30.0), lambda x: matern(x, 30.0)),
    "scaled": (3.0 * RBF(0.1), lambda x: 3 * rbf(x, 0.1)),
}


@pytest.mark.parametrize("column", [1e2, 3e3, 1e4])
@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_so_are_those_of_sparse_rows_far_from_the_origin(name, column, rng):
    """They are not centred, so their distances are differences of squares of the size of that column."""
    kernel, entries = DISTANCES[name]
    x = np.c_[np.full(300, column), rng.standard_normal((300, 4))]
    model = KernelPCA(5, kernel=kernel).fit(sparse.csr_array(x))
    check(model, true_matrix(entries, x, None))


def cosine(x):
    unit = x / np.sqrt(np.square(x).sum(axis=1))[:, None]
    return unit @ unit.T


def unit_diagonal(k):
    lengths = np.sqrt(np.diagonal(k))
    return k / lengths[:, None] / lengths[None, :]


QUINTIC = Polynomial(5, gamma=0.5, coef0=2.0)
PRODUCTS = {
    "cosine": (Cosine(), cosine),
    "cosine to the 20": (Cosine() ** 20, lambda x: cosine(x) ** 20),
    "poly8": (Polynomial(8, gamma=0.5, coef0=2.0), lambda x: polynomial(x, 8)),
    "poly20": (Polynomial(20, gamma=0.5, coef0=2.0), lambda x: polynomial(x, 20)),
    "normalised": (QUINTIC.normalised(), lambda x: unit_diagonal(polynomial(x, 5))),
}


@pytest.mark.parametrize("d", [5, 100, 200])
@pytest.mark.parametrize("shift", [30.0, 1e3])
@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_so_are_those_of_powers_of_wide_dot_products(name, shift, d, rng):
    """A sum of d products is off by √d units, and its p-th power by p times that."""
    kernel, entries = PRODUCTS[name]
    x = frozen(rng.standard_normal((300, d)) + shift)
    model = KernelPCA(4, kernel=kernel).fit(x)
    check(model, true_matrix(entries, x, None))


@pytest.mark.parametrize("shape", [(80, 5), (20, 300)])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_so_are_those_of_pca_in_float32(shape, weights, shift):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) + shift).astype(np.float32)
    w = WEIGHTS[weights](rng, len(x))
    model = PCA(3).fit(x, sample_weight=w)
    true = np.linalg.eigvalsh(true_matrix(lambda x: x @ x.T, x, w))[::-1]
    gaps = np.abs(model.eigenvalues_ - true[:3])
    assert np.all(gaps <= (model.residuals_ + REFERENCE) * true[0])
    # Nothing but the rounding of the answer is left.
    assert np.all(gaps <= np.finfo(np.float32).eps * true[0])


@pytest.mark.parametrize("kernel", [RBF(0.1), Polynomial(2), Linear()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_as_uncorrelated_as_told(kernel, dtype, rng):
    x = rng.standard_normal((300, 4)).astype(dtype)
    model = KernelPCA(4, kernel=kernel).fit(x)
    u = model.eigenvectors_.astype(np.float64)
    found = np.max(np.abs(u.T @ u - np.eye(4)))
    assert found <= model.fit_.orthogonality + 1e-15


@pytest.mark.parametrize(
    "kernel", [Polynomial(10), 1e39 * RBF(1e-8), 1e-40 * RBF(1e-8), 1e-200 * RBF(1e-8)], ids=repr
)
def test_a_float32_model_has_scores_of_its_own_rows_whatever_the_unit(kernel, rng):
    """Eigenvalues, coefficients or scores that float32 can't hold are handed out in float64."""
    x = (2e3 * rng.standard_normal((60, 5))).astype(np.float32)
    model, double = KernelPCA(3, kernel=kernel), KernelPCA(3, kernel=kernel).fit(x.astype(float))
    scores = model.fit_transform(x)
    np.testing.assert_allclose(model.transform(x), scores, atol=1e-5 * np.abs(scores).max())
    np.testing.assert_allclose(model.eigenvalues_, double.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(
        np.square(scores, dtype=float).sum(0), double.eigenvalues_, rtol=1e-5
    )
    errors = model.reconstruction_error(x)
    expected = double.reconstruction_error(x.astype(float))
    np.testing.assert_allclose(errors, expected, atol=1e-5 * np.abs(expected).max())


def test_one_number_wherever_it_is_told(tmp_path, rng):
    x = rng.standard_normal((120, 4)).astype(np.float32)
    model = KernelPCA(3, kernel=RBF(0.1)).fit(x)
    worst = float(model.residuals_.max())
    assert worst > 1e-8  # of pairs in float32
    assert f"at most {worst:.1e}, mostly rounding; converged" in str(model.fit_)
    assert evidence(model)["largest_residual"] == worst
    loaded = mercer.load(model.save(tmp_path / "m.mercer") or tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.residuals_, model.residuals_)


def test_the_residual_of_a_wide_kernel_is_the_rounding_of_its_values(rng):
    """Residuals of products alone were 9.6e-10 where values are taken as they are."""
    n, gamma = 3000, 1e-8
    model = KernelPCA(3, kernel=RBF(gamma)).fit(rng.standard_normal((n, 5)))
    pairs = model.fit_.pairs
    seen = np.linalg.norm(pairs.products - pairs.vectors * pairs.values, axis=0) / pairs.values[0]
    assert seen.max() <= 1e-10
    assert model.fit_.total == pytest.approx(2 * gamma * n * 5, rel=0.1)


@pytest.mark.parametrize("memory", ["12MB", "60MB"])
@pytest.mark.parametrize("gamma", [1e-6, 1e-7])
def test_a_few_float32_rows_are_multiplied_in_float64_whatever_fits(gamma, memory, rng):
    """In tiles of float32 the eigenvalues of a wide kernel drown in the rounding of its entries."""
    x = rng.standard_normal((1000, 5)).astype(np.float32)
    model = KernelPCA(3, kernel=RBF(gamma), memory=memory, solver="krylov").fit(x)
    assert isinstance(model.fit_.plan.recipe, Tiles) == (memory == "12MB")
    assert model.residuals_.max() < 1e-6
    # 1 - k(x, y) = γ‖x - y‖² to the first order: centred, 2γ times the dot products.
    true = 2 * gamma * np.linalg.svd(x - x.mean(axis=0, dtype=np.float64))[1][:3] ** 2
    np.testing.assert_allclose(model.eigenvalues_, true, rtol=1e-4)


def test_a_kernel_that_is_too_wide_shows_linear_pca(rng):
    x = rng.standard_normal((200, 5)) * [3.0, 1.0, 1.0, 0.5, 0.1]
    wide, linear = KernelPCA(4, kernel=RBF(1e-7)).fit(x), PCA(4).fit(x)
    shares = linear.explained_variance_ratio_
    np.testing.assert_allclose(wide.explained_variance_ratio_, shares, atol=1e-4)


# ── rows without variance ───────────────────────────────────────────────────
VALUES = {"tenth": 0.1, "third": 1 / 3, "far": 1e6 + 0.1, "tiny": 1e-9 / 3}
ESTIMATORS = {
    "rbf": lambda: KernelPCA(2, kernel=RBF(0.5)),
    "krylov": lambda: KernelPCA(2, kernel=Laplacian(0.5), solver="krylov"),
    "polynomial": lambda: KernelPCA(2, kernel=Polynomial(3, gamma=0.3, coef0=1.0)),
    "sum": lambda: KernelPCA(2, kernel=RBF(0.1) + Linear()),
    "product": lambda: KernelPCA(2, kernel=RBF(0.1) * Polynomial(2, gamma=0.3, coef0=0.3)),
    "cosine": lambda: KernelPCA(2, kernel=Cosine()),
    "matern": lambda: KernelPCA(2, kernel=Matern(1.5, length_scale=1.0)),
    "nystrom": lambda: KernelPCA(2, kernel=RBF(0.5), approximation=Nystrom(5)),
    "rpcholesky": lambda: KernelPCA(2, kernel=RBF(0.5), approximation=RPCholesky(5)),
    "refined": lambda: KernelPCA(2, kernel=RBF(0.5), approximation=Nystrom(5, refine=1)),
    "random": lambda: KernelPCA(2, kernel=RBF(0.5), approximation=RandomFourier(40)),
    "pca": lambda: PCA(1),
    "stream": lambda: IncrementalKernelPCA(1, kernel=Polynomial(2, gamma=1.0, coef0=1.0)),
    "forgetful": lambda: IncrementalKernelPCA(1, kernel=Linear(), forgetting=0.99),
}


@pytest.mark.parametrize("shape", [(30, 4), (300, 4), (20, 60)])
@pytest.mark.parametrize("value", sorted(VALUES))
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_rows_that_are_alike_have_no_variance(name, value, shape, rng):
    n = shape[0]
    x = frozen(np.full(shape, VALUES[value]))
    for dtype in (np.float64, np.float32):
        for weights in (None, np.full(n, 1e-10), 10.0 ** rng.uniform(-6, 0, n)):
            with pytest.raises(ZeroVarianceError, match="zero variance"):
                ESTIMATORS[name]().fit(x.astype(dtype), sample_weight=weights)


@pytest.mark.parametrize("n", [25, 300])
@pytest.mark.parametrize("value", sorted(VALUES))
def test_nor_have_they_on_other_ways_in(value, n):
    x = np.full((n, 4), VALUES[value])

    def batches():
        return iter(np.array_split(x, 5))

    for kernel in (RBF(0.5), Polynomial(2, gamma=0.3, coef0=1.0), Linear()):
        for approximation in (None, Nystrom(5)):
            with pytest.raises(ZeroVarianceError):
                KernelPCA(1, kernel=kernel, approximation=approximation).fit(batches)
        with pytest.raises(ZeroVarianceError):
            KernelPCA(1, kernel="precomputed").fit(kernel(x))
        with pytest.raises(ZeroVarianceError):
            KernelPCADetector(kernel=kernel).fit(x)
    for rows in (batches, sparse.csr_array(x)):
        with pytest.raises(ZeroVarianceError):
            PCA(1).fit(rows)
    with pytest.raises(ZeroVarianceError):
        KernelPCA(1, kernel=RBF(0.5), approximation=RandomFourier(40)).fit(batches)
    with pytest.raises(ZeroVarianceError):
        mercer.select(x, ["linear", RBF(0.5)], n_components=1)


@pytest.mark.parametrize("n", [25, 300])
def test_nor_have_rows_that_a_kernel_does_not_tell_apart(n, rng):
    z, side = rng.standard_normal((n, 3)), np.array([[0.1, 0.7, 1 / 3]])
    cases = [
        (Cosine(), rng.uniform(0.1, 10.0, (n, 1)) * side),
        (Constant(0.1), z),
        (Constant(0.1) + Constant(1 / 3), z),
        (Polynomial(2, gamma=1.0, coef0=0.0), rng.choice([-1.0, 1.0], (n, 1)) * side),
        (RBF(0.5).on([0]), np.column_stack([np.full(n, 0.1), z])),
        (Polynomial(2, gamma=1.0, coef0=0.3).on([0]), np.column_stack([np.full(n, 0.1), z])),
    ]
    for kernel, x in cases:
        for model in (KernelPCA(1, kernel=kernel), IncrementalKernelPCA(1, kernel=kernel)):
            for weights in (None, 10.0 ** rng.uniform(-6, 0, n)):
                with pytest.raises(ZeroVarianceError):
                    model.fit(x, sample_weight=weights)


@pytest.mark.parametrize("spread", [1e-10, 1e-12, 1e-14])
def test_a_variance_that_is_tiny_but_real_is_found(spread, rng):
    x = 1.0 + spread * rng.standard_normal((60, 3))
    true = np.linalg.eigvalsh(
        true_matrix(lambda x: (x - x.mean(axis=0)) @ (x - x.mean(axis=0)).T, x, None)
    )[-1]
    for model in (PCA(1), KernelPCA(1, kernel=Linear())):
        assert model.fit(x).eigenvalues_[0] == pytest.approx(true, rel=1e-9)
    source = PCA(1).fit(lambda: iter(np.array_split(x, 4)))
    assert source.eigenvalues_[0] == pytest.approx(true, rel=1e-9)
    wide = PCA(1).fit(np.tile(x, (1, 100)))  # the other side
    assert wide.eigenvalues_[0] == pytest.approx(100.0 * true, rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, 3, 300, 4999])
def test_the_mean_of_a_row_is_that_row(n, weighted, rng):
    x = np.full((n, 3), [0.1, 1 / 3, 1e6 + 0.1])
    weights = rng.random(n) + 1e-6 if weighted else None
    np.testing.assert_array_equal(weighted_mean(x, weights), x[0])
    assert not any(rows.any() for _, rows in CentredRows.of(x, weights)._slices())


@pytest.mark.parametrize("weighted", [False, True])
def test_centring_leaves_nothing_along_the_mean(weighted, rng):
    """A mean of n entries that is off by n/2 units would leave an eigenvalue n times as large."""
    n, a = 700, 0.1
    weights = rng.random(n) if weighted else None
    matrix = np.full((n, n), a)
    values = np.linalg.eigvalsh(Centred(StoredGram(matrix), weights).dense())
    assert np.max(np.abs(values)) <= 4 * np.finfo(np.float64).eps * a
    pairs = Lapack()(Centred(StoredGram(matrix + np.eye(n)), weights), n, rng=rng)
    assert abs(pairs.values[-1]) <= 1e3 * np.finfo(np.float64).eps


# ── shares ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kernel", [RBF(0.1), RBF(1.0), Laplacian(0.3), Matern(1.5)], ids=repr)
def test_shares_of_landmarks_are_lower_bounds_and_those_of_random_features_estimates(kernel):
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((150, 3))
        exact = KernelPCA(4, kernel=kernel).fit(x).explained_variance_ratio_
        for approximation in (Nystrom(30), RPCholesky(30)):
            model = KernelPCA(4, kernel=kernel, approximation=approximation, random_state=seed)
            shares = model.fit(x).explained_variance_ratio_
            assert np.all(np.cumsum(shares) <= np.cumsum(exact) + 1e-12)
            assert "at least" in str(model.fit_)
        model = KernelPCA(4, kernel=kernel, approximation=RandomFourier(200), random_state=seed)
        fit = model.fit(x).fit_
        assert "keep about" in str(fit)
        assert "trace about" in str(fit)
        # Of so few rows the error of the matrix is known, and no eigenvalue is off by more (Weyl).
        total = KernelPCA(4, kernel=kernel).fit(x).fit_.total
        assert np.all(np.abs(fit.eigenvalues / total - exact) <= fit.certificate.left_out / total)


@pytest.mark.parametrize("scale", [1e-250, 1e-150, 1e150, 1e250])
def test_the_unit_of_a_kernel_is_not_seen_in_its_residuals(scale, rng):
    """c·k has c times the eigenvalues of k, to the same relative bounds: no square leaves the range."""
    x = rng.standard_normal((60, 4))
    own, other = (KernelPCA(3, kernel=kernel).fit(x) for kernel in (RBF(0.1), scale * RBF(0.1)))
    assert np.allclose(other.eigenvalues_ / scale, own.eigenvalues_, rtol=1e-12)
    assert np.all(other.residuals_ <= 10.0 * own.residuals_)
