"""Laws of low-rank factors: what they are against dense algebra, how landmarks are drawn, what they cost."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem

from conftest import frozen
from markets.kernels import VALID
from mercer._core.errors import InputError, KernelError, ZeroVarianceError
from mercer._core.observer import SILENT, Observer
from mercer.approximations import APPROXIMATIONS, Nystrom, RPCholesky, rpcholesky
from mercer.approximations.landmarks import checked_diagonal
from mercer.data.rows import RowSource
from mercer.engine import numpy as numpy_engine
from mercer.engine import passes
from mercer.engine.native import squares as native_squares
from mercer.engine.threads import lanes
from mercer.kernels import RBF, Chi2, Linear, Polynomial, Precomputed, RationalQuadratic
from mercer.model.lowrank import fit_low_rank
from mercer.model.result import Task
from mercer.operators import Centred, StoredGram
from mercer.planning.plan import Problem, plan_approximation
from mercer.solvers.refine import ritz_pairs

METHODS = {
    "rpcholesky": RPCholesky,
    "nystrom": Nystrom,
    "nystrom-k-means++": lambda m: Nystrom(m, "k-means++"),
}


@pytest.fixture(params=sorted(METHODS))
def method(request):
    return METHODS[request.param]


def factored(approximation, kernel, x, *, weights=None, seed=0, observer=SILENT):
    return approximation(
        kernel, x, weights=weights, rng=np.random.default_rng(seed), observer=observer
    )


def fitted(approximation, kernel, x, *, asked=None, weights=None, seed=0, observer=SILENT):
    plan = plan_approximation(Problem(*x.shape, asked, x.dtype.itemsize), approximation)
    factor = factored(approximation, kernel, x, weights=weights, seed=seed, observer=observer)
    rng = np.random.default_rng(seed)
    return fit_low_rank(Task(kernel, x, asked, plan, rng, weights, observer), factor)


def products(factor, x):
    f = factor.features(x)
    return f @ f.T


# ── what a factor is ────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", sorted(VALID))
def test_nystrom_with_given_landmarks_is_the_dense_formula(name, cloud, rng):
    kernel, z = VALID[name], rng.standard_normal((7, 4))
    cross = kernel(cloud, z)
    dense = cross @ np.linalg.pinv(kernel(z), rcond=1e-12, hermitian=True) @ cross.T
    factor = factored(Nystrom(z), kernel, cloud)
    np.testing.assert_allclose(products(factor, cloud), dense, atol=1e-9 * np.abs(dense).max())
    assert factor.landmarks is None


@pytest.mark.parametrize("name", sorted(VALID))
def test_a_factor_is_the_projection_on_its_landmarks(name, method, cloud):
    kernel = VALID[name]
    factor = factored(method(12), kernel, cloud)
    z = cloud[factor.landmarks]
    assert len(np.unique(factor.landmarks)) == len(factor.landmarks)
    cross = kernel(cloud, z)
    dense = cross @ np.linalg.pinv(kernel(z), rcond=1e-12, hermitian=True) @ cross.T
    scale = np.abs(kernel(cloud)).max()
    np.testing.assert_allclose(products(factor, cloud), dense, atol=1e-8 * scale)
    assert np.linalg.eigvalsh(kernel(cloud) - dense).min() > -1e-8 * scale


def test_all_rows_give_the_whole_matrix(method, cloud):
    for name in ("rbf", "laplacian", "sum", "poly2"):
        dense = VALID[name](cloud)
        factor = factored(method(len(cloud)), VALID[name], cloud)
        np.testing.assert_allclose(products(factor, cloud), dense, atol=1e-11 * dense.max())


def test_a_fit_is_pca_of_the_features(method, cloud):
    for name in ("rbf", "poly3-homogeneous", "product", "matrices"):
        factor = factored(method(15), VALID[name], cloud)
        f = factor.features(cloud)
        u, s, _ = np.linalg.svd(f - f.mean(axis=0), full_matrices=False)
        fit = fitted(method(15), VALID[name], cloud, asked=4)
        scores = fit.projection(cloud)
        np.testing.assert_allclose(fit.eigenvalues, s[:4] ** 2, rtol=1e-10)
        signs = np.sign(np.sum(scores * u[:, :4], axis=0))
        np.testing.assert_allclose(scores, u[:, :4] * s[:4] * signs, atol=1e-9 * s[0])
        assert fit.pairs.vectors.shape == (factor.rank, 4)
        assert np.max(fit.residuals) < 1e-12
        assert np.all(fit.projection.coef.max(axis=0) > -fit.projection.coef.min(axis=0))


def test_agrees_with_scikit_learn(cloud):
    theirs = Nystroem(kernel="rbf", gamma=0.3, n_components=20, random_state=3).fit(cloud)
    pca = PCA(5).fit(theirs.transform(cloud))
    fit = fitted(Nystrom(cloud[theirs.component_indices_]), RBF(0.3), cloud, asked=5)
    fresh = np.random.default_rng(4).standard_normal((9, 4))
    expected, scores = pca.transform(theirs.transform(fresh)), fit.projection(fresh)
    signs = np.sign(np.sum(expected * scores, axis=0))
    np.testing.assert_allclose(scores, expected * signs, atol=1e-8)
    np.testing.assert_allclose(fit.eigenvalues / 59, pca.explained_variance_, rtol=1e-8)


# ── how landmarks are drawn ─────────────────────────────────────────────────
def pair_law(first, then):
    """Probabilities of ordered pairs, from those of the first and of the next given the first."""
    law = first[:, None] * np.array([row / row.sum() for row in then])
    return law / law.sum()


def rpcholesky_law(k, w):
    d = np.diagonal(k)
    return pair_law(w * d / (w @ d), [w * np.maximum(d - k[i] ** 2 / k[i, i], 0) for i in range(5)])


def p_value(counts, law):
    """Of Pearson's chi-square; pairs that can't be drawn must not have been."""
    assert np.all(counts[law < 1e-12] == 0)
    possible = law >= 1e-12
    return stats.chisquare(counts[possible], law[possible] / law[possible].sum() * counts.sum())[1]


def counted(approximation, kernel, x, weights, draws):
    rng, counts = np.random.default_rng(6), np.zeros((5, 5))
    for _ in range(draws):
        factor = approximation(kernel, x, weights=weights, rng=rng, observer=SILENT)
        counts[tuple(factor.landmarks)] += 1
    return counts


FIVE = frozen([[0.2, 1.0], [1.0, 0.9], [1.1, 1.0], [-1.3, 0.4], [0.3, -0.9]])


@pytest.mark.parametrize("candidates", [1, 2, 2000])
@pytest.mark.parametrize("weights", [None, frozen([1.0, 3.0, 0.5, 1.0, 2.0])])
def test_pivots_follow_the_law_of_rpcholesky(candidates, weights, monkeypatch):
    """One candidate a round is the algorithm by its book; a block with rejections has the same law."""
    monkeypatch.setattr(rpcholesky, "CANDIDATES", candidates)
    kernel, w = Polynomial(2, gamma=0.8, coef0=0.3), np.ones(5) if weights is None else weights
    counts = counted(RPCholesky(2), kernel, FIVE, weights, 1200)
    k = kernel(FIVE)
    assert p_value(counts, rpcholesky_law(k, w)) > 1e-3
    # The draws tell this law from its neighbours: without rejection, and with the wrong weights.
    d = w * np.diagonal(k)
    no_rejection = pair_law(d / d.sum(), [np.where(np.arange(5) == i, 0.0, d) for i in range(5)])
    assert p_value(counts, no_rejection) < 1e-6
    if weights is not None:
        assert p_value(counts, rpcholesky_law(k, np.ones(5))) < 1e-6


def test_k_means_plus_plus_is_d2_sampling_in_feature_space():
    kernel, w = Polynomial(2, gamma=0.8, coef0=0.3), np.array([1.0, 3.0, 0.5, 1.0, 2.0])
    counts = counted(Nystrom(2, "k-means++"), kernel, FIVE, w, 1500)
    k = kernel(FIVE)
    squared = np.diagonal(k)[:, None] + np.diagonal(k)[None] - 2.0 * k
    assert p_value(counts, pair_law(w / w.sum(), w * squared)) > 1e-3
    in_input_space = np.sum((FIVE[:, None] - FIVE[None]) ** 2, axis=2)
    assert p_value(counts, pair_law(w / w.sum(), w * in_input_space)) < 1e-6


def test_uniform_landmarks_are_drawn_by_weight_without_replacement():
    w = np.array([1.0, 3.0, 0.5, 1.0, 2.0])
    counts = counted(Nystrom(2), RBF(1.0), FIVE, w, 1500)
    law = pair_law(w / w.sum(), [np.where(np.arange(5) == i, 0.0, w) for i in range(5)])
    both = np.triu(law + law.T, 1)  # positions come sorted
    assert p_value(counts, both) > 1e-3


def test_rpcholesky_finds_rare_clusters_that_uniform_landmarks_miss():
    x = rare_clusters()
    uniform, pivoted = (
        np.array([fitted(m, RBF(1.0), x, seed=s).trace_error for s in range(5)])
        for m in (Nystrom(40), RPCholesky(40))
    )
    assert np.all(uniform > 10.0 * pivoted)


def rare_clusters():
    """One cluster of 1960 rows, and twenty far away of two rows each."""
    rng = np.random.default_rng(8)
    centres = np.concatenate(
        [np.zeros((1960, 5)), np.repeat(rng.normal(0, 20, (20, 5)), 2, axis=0)]
    )
    return frozen(centres + 0.05 * rng.standard_normal((2000, 5)))


def test_k_means_plus_plus_finds_rare_clusters_too():
    x = rare_clusters()
    spread = factored(Nystrom(40, "k-means++"), RBF(1.0), x).landmarks
    assert len(np.unique((spread[spread >= 1960] - 1960) // 2)) >= 15
    assert np.sum(factored(Nystrom(40), RBF(1.0), x).landmarks >= 1960) < 5


def test_duplicates_are_landmarks_once(method, cloud):
    x = np.repeat(cloud[:20], 3, axis=0)
    factor = factored(method(60), RBF(0.3), x)
    assert factor.rank == 20
    np.testing.assert_allclose(products(factor, x), RBF(0.3)(x), atol=1e-12)
    if not isinstance(method(60), Nystrom) or method(60).sampling == "k-means++":
        assert len(np.unique(factor.landmarks // 3)) == len(factor.landmarks) == 20


def test_rpcholesky_stops_where_only_rounding_is_left(cloud):
    for dtype in (np.float32, np.float64):
        factor = factored(RPCholesky(30), Linear(), cloud.astype(dtype))
        assert factor.rank == 4


# ── an automatic rank ───────────────────────────────────────────────────────
def left_out_by(kernel, x, landmarks, weights):
    cross = kernel(x, x[landmarks])
    inside = cross @ np.linalg.pinv(kernel(x[landmarks]), hermitian=True)
    left = kernel.diag(x) - np.sum(inside * cross, axis=1)
    return weights @ left / (weights @ kernel.diag(x))


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_automatic_rank_is_the_first_to_meet_the_tolerance(tol, weighted, rng):
    x = frozen(rng.standard_normal((300, 3)))
    weights = rng.random(300) + 0.1 if weighted else None
    kernel = RBF(0.2)
    fit = fitted(RPCholesky("auto", tol=tol), kernel, x, weights=weights)
    assert fit.trace_error <= tol
    z = factored(RPCholesky("auto", tol=tol), kernel, x, weights=weights).landmarks
    w = np.ones(300) if weights is None else weights
    assert left_out_by(kernel, x, z, w) == pytest.approx(fit.trace_error, rel=1e-6)
    assert left_out_by(kernel, x, z[:-1], w) > (1.0 - 2.0 * rpcholesky.MARGIN) * tol


def test_an_automatic_rank_ends_at_max_rank_and_says_what_it_was_after(cloud):
    approximation = RPCholesky("auto", tol=1e-6, max_rank=10)
    factor = factored(approximation, RBF(1.0), cloud)
    assert (factor.rank, factor.goal) == (10, 1e-6)
    assert fitted(approximation, RBF(1.0), cloud).trace_error > factor.goal
    assert factored(RPCholesky(10), RBF(1.0), cloud).goal is None


def test_a_tolerance_below_rounding_is_refused(cloud):
    with pytest.raises(InputError, match=r"tol=1e-09.*float32.*below 1e-05.*float64"):
        factored(RPCholesky("auto", tol=1e-9), RBF(0.3), cloud.astype(np.float32))
    assert factored(RPCholesky("auto", tol=1e-9), RBF(0.3), cloud).rank <= 60


# ── rows of every kind ──────────────────────────────────────────────────────
class Batches(RowSource):
    """Rows that can only be read in order, in blocks lower than asked for."""

    random_access = False

    def __init__(self, x):
        self.rows, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, key):
        if not isinstance(key, slice):
            assert np.all(np.diff(key) > 0)
        return self.rows[key]

    def blocks(self, height):
        for start in range(0, len(self.rows), min(height, 17)):
            i = slice(start, min(start + min(height, 17), len(self.rows)))
            yield i, self.rows[i]

    def check_unchanged(self):
        pass


SHAPES = {"csr": sparse.csr_array, "source": Batches}


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("name", ["rbf", "linear", "matern-3/2", "poly2"])
def test_sparse_rows_and_sources_give_what_arrays_give(shape, name, method, cloud):
    x = frozen(np.where(np.abs(cloud) > 0.5, cloud, 0.0))
    one, other = (fitted(method(12), VALID[name], rows, asked=3) for rows in (x, SHAPES[shape](x)))
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(other.projection(x), one.projection(x), atol=1e-7)
    scale = one.certificate.trace
    assert other.certificate.left_out == pytest.approx(one.certificate.left_out, abs=1e-10 * scale)


@pytest.mark.parametrize("name", ["rbf", "poly2", "sum"])
def test_whole_weights_are_repeated_rows(name, cloud, rng):
    weights = rng.integers(1, 5, len(cloud))
    repeated = np.repeat(cloud, weights, axis=0)
    z = cloud[::5]
    one = fitted(Nystrom(z), VALID[name], cloud, asked=5, weights=weights.astype(float))
    other = fitted(Nystrom(z), VALID[name], repeated, asked=5)
    np.testing.assert_allclose(one.eigenvalues, other.eigenvalues, rtol=1e-11)
    np.testing.assert_allclose(one.projection(cloud), other.projection(cloud), atol=1e-9)
    assert one.weight == other.weight == weights.sum()
    assert one.total == pytest.approx(other.total, rel=1e-12)
    assert one.certificate.trace == pytest.approx(other.certificate.trace, rel=1e-12)
    assert one.certificate.left_out == pytest.approx(other.certificate.left_out, rel=1e-9)


def test_weighted_scores_have_the_eigenvalues_as_variances(method, cloud, rng):
    weights = rng.random(len(cloud)) + 0.1
    fit = fitted(method(20), RBF(0.3), cloud, asked=4, weights=weights)
    scores = fit.projection(cloud)
    np.testing.assert_allclose(weights @ scores, 0.0, atol=1e-11)
    scatter = scores.T @ (weights[:, None] * scores)
    np.testing.assert_allclose(scatter, np.diag(fit.eigenvalues), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept_and_the_rows_too(dtype, method, cloud):
    x = frozen(cloud.astype(dtype))
    fit = fitted(method(20), RBF(0.3), x, asked=3)
    assert fit.projection(x).dtype == fit.projection.coef.dtype == dtype
    assert fit.eigenvalues.dtype == np.float64
    double = fitted(method(20), RBF(0.3), x.astype(np.float64), asked=3)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(fit.eigenvalues, double.eigenvalues, rtol=tolerance)


def test_two_runs_agree_to_the_last_bit_and_threads_change_nothing(method, monkeypatch, rng):
    x = frozen(rng.standard_normal((3000, 3)))
    monkeypatch.setattr(passes, "pass_height", lambda *_: 128)
    fits = []
    for n_threads in (2, 2, 1):
        with lanes(n_threads):
            fits.append(fitted(method(30), RBF(0.2), x, asked=3))
    np.testing.assert_array_equal(fits[0].projection.coef, fits[1].projection.coef)
    np.testing.assert_allclose(fits[2].eigenvalues, fits[0].eigenvalues, rtol=1e-12)


CANCELLING = {
    "rational-quadratic": (RationalQuadratic(44, 1.3) ** 3).on([3, 0]),
    "rbf": RBF(0.2),
    "wide rbf": RBF(1e-3),
}


@pytest.mark.parametrize("name", sorted(CANCELLING))
def test_float32_rows_keep_their_digits_where_kernel_values_cancel(name, cloud):
    """Of rows so near to each other all kernel values are one, less what tells the rows apart."""
    x, kernel = (0.01 * cloud).astype(np.float32), CANCELLING[name]
    wide, z = x.astype(np.float64), x[:12].astype(np.float64)
    values, vectors = np.linalg.eigh(kernel(z))
    keep = values > 1e-13
    features = kernel(wide, z) @ (vectors[:, keep] / np.sqrt(values[keep]))
    reference = PCA(2).fit_transform(features)
    fit = fitted(Nystrom(x[:12]), kernel, x, asked=2)
    found = fit.projection(x)
    found = found * np.sign(np.sum(found * reference, axis=0))
    np.testing.assert_allclose(found, reference, atol=1e-4 * np.abs(reference).max())


@pytest.mark.parametrize("name", ["rational-quadratic", "rbf"])
def test_scores_of_float32_rows_have_the_moments_that_were_told(name, cloud, method):
    x = (0.01 * cloud).astype(np.float32)
    fit = fitted(method(12), CANCELLING[name], x, asked=2)
    scores = fit.projection(x)
    np.testing.assert_allclose(
        scores.T @ scores, np.diag(fit.eigenvalues), atol=1e-5 * fit.eigenvalues[0]
    )
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-4 * scores.std(axis=0).min())


# ── what it costs ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_peak_stays_below_what_is_told(method, dtype, weighted):
    n, d = 200_000, 5
    x = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    weights = np.random.default_rng(1).random(n) if weighted else None
    told = method(50).n_bytes(x.shape, x.itemsize)
    tracemalloc.start()
    fitted(method(50), RBF(0.2), x, asked=5, weights=weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told / 20 <= peak <= told
    assert told < n * 50 * x.itemsize  # less than the factor that is never stored


class Looker(Observer):
    def __init__(self):
        self.steps = []

    def step(self, done, expected, what, residual):
        self.steps.append((done, expected, what, residual))
        return True  # a pass is not stopped half way


def test_a_pass_tells_how_far_it_is(method, monkeypatch, cloud):
    monkeypatch.setattr(numpy_engine, "pass_shape", lambda *_: (1, 4))
    for name in ("MOST_ROWS", "LEAST_ROWS", "RUN_ROWS"):
        monkeypatch.setattr(native_squares, name, 4)
    looker = Looker()
    fitted(method(10), RBF(0.3), cloud, observer=looker)
    done = [step[0] for step in looker.steps]
    assert done[-1] == 60
    assert len(done) > 3
    assert {step[1:] for step in looker.steps} == {(60, "rows", None)}


# ── exact passes ────────────────────────────────────────────────────────────
def test_ritz_pairs_have_true_residuals_that_fall_with_each_pass(cloud, rng):
    kernel = RBF(0.5)
    operator = Centred(StoredGram(kernel(cloud)))
    dense = operator.dense()
    true = np.linalg.eigvalsh(dense)[::-1]
    start = fitted(RPCholesky(12), kernel, cloud, asked=8).projection(cloud)
    worst = []
    for passes_made in (1, 2, 3):
        pairs = ritz_pairs(operator, start, 5, passes_made, rng=rng)
        u = pairs.vectors
        np.testing.assert_allclose(pairs.products, dense @ u, atol=1e-12 * true[0])
        np.testing.assert_allclose(u.T @ u, np.eye(5), atol=1e-12)
        assert np.all(pairs.values <= true[:5] + 1e-12 * true[0])
        assert np.all(
            np.min(np.abs(pairs.values[:, None] - true), axis=1) <= pairs.residuals * true[0]
        )
        assert pairs.n_products == passes_made
        worst.append(np.max(pairs.residuals))
    assert worst[0] > 3.0 * worst[1] > 9.0 * worst[2]


def test_ritz_pairs_of_an_invariant_space_are_exact_and_look_outside(rng):
    values = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.5])
    operator = StoredGram(np.diag(values))
    inside = ritz_pairs(operator, np.eye(6)[:, 2:4], 2, 1, rng=rng)
    np.testing.assert_allclose(inside.values, [3.0, 2.0])
    assert np.max(inside.residuals) < 1e-15
    outside = ritz_pairs(operator, np.eye(6)[:, 2:4], 2, 4, rng=rng)
    np.testing.assert_allclose(outside.values, [5.0, 4.0], rtol=1e-10)


# ── what can't be done ──────────────────────────────────────────────────────
WRONG = {
    "rank above n": (
        RPCholesky(61),
        "rank must be an integer from 1 to 60 or 'auto'; got 61.*approximation=None",
    ),
    "rank zero": (RPCholesky(0), "rank must be an integer >= 1 or 'auto'; got 0"),
    "rank a share": (RPCholesky(0.5), "rank must be .* got 0.5"),
    "rank true": (RPCholesky(True), "rank must be .* got True"),
    "rank a word": (RPCholesky("full"), "rank must be .* got 'full'"),
    "tol zero": (RPCholesky("auto", tol=0.0), "tol must be a number between 0 and 1.*got 0.0"),
    "tol one": (RPCholesky("auto", tol=1.0), "tol must be .* got 1.0"),
    "tol a word": (RPCholesky("auto", tol="tight"), "tol must be .* got 'tight'"),
    "max_rank zero": (RPCholesky("auto", max_rank=0), "max_rank must be an integer >= 1; got 0"),
    "refine negative": (RPCholesky(5, refine=-1), "refine must be an integer >= 0; got -1"),
    "landmarks above n": (
        Nystrom(61),
        "landmarks must be an integer from 1 to 60; got 61.*at most n_samples",
    ),
    "landmarks zero": (Nystrom(0), "landmarks must be an integer from 1 to 60; got 0"),
    "landmarks a word": (Nystrom("all"), "integer >= 1 or an array.*'all'"),
    "landmarks flat": (Nystrom(np.zeros(4)), "2-D array"),
    "landmarks too wide": (Nystrom(np.zeros((3, 5))), r"the 4 columns.*\(3, 5\)"),
    "landmarks none": (Nystrom(np.zeros((0, 4))), r"at least one point"),
    "landmarks not finite": (Nystrom(np.full((3, 4), np.nan)), "landmarks must be finite"),
    "sampling unknown": (Nystrom(5, "kmeans"), "sampling must be .*'kmeans'.*mean 'k-means"),
    "sampling a number": (Nystrom(5, 3), "got 3"),
    "refine a share": (Nystrom(5, refine=0.5), "refine must be .* got 0.5"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_impossible_knobs_are_told_with_a_way_out(case, cloud):
    approximation, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        approximation.check(RBF(0.3), cloud.shape)
    with pytest.raises(InputError, match=message):
        factored(approximation, RBF(0.3), cloud)


def test_a_precomputed_matrix_has_no_landmarks(method, cloud):
    with pytest.raises(KernelError, match=r"no points.*approximation=None"):
        factored(method(5), Precomputed(), RBF(0.3)(cloud))


def test_landmarks_have_to_be_points_of_the_kernel(histograms):
    with pytest.raises(InputError, match="kernel of histograms"):
        factored(Nystrom(-histograms[:3]), Chi2(0.5), histograms)


def test_overflow_and_zero_rows_are_told(method, cloud):
    with pytest.raises(KernelError, match="overflows"):
        fitted(method(5), Polynomial(8), (1e6 * cloud).astype(np.float32))
    with pytest.raises(ZeroVarianceError, match="zero variance"):
        fitted(method(5), Linear(), np.zeros((20, 3)))


def test_approximations_by_name():
    assert {"rpcholesky": RPCholesky, "nystrom": Nystrom}.items() <= APPROXIMATIONS.items()
    assert (
        repr(Nystrom(np.zeros((3, 2))))
        == "Nystrom(landmarks=<3 points>, sampling='uniform', refine=0)"
    )
    assert RPCholesky().set_params(rank="auto").width(10) == 10


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(VALID))
def test_the_diagonal_is_that_of_every_row(name, dtype, cloud):
    """Bit for bit, also of kernels of which one row tells it; of these no other row is read."""
    kernel, x = VALID[name], cloud.astype(dtype)
    found = checked_diagonal(kernel, x, numpy_engine.NumpyEngine(1))
    np.testing.assert_array_equal(found, kernel.tile_diag(x).astype(np.float64))
    read = []

    class Read(numpy_engine.NumpyEngine):
        def map(self, *args, **given):
            read.append(args)
            return super().map(*args, **given)

    checked_diagonal(kernel, x, Read(1))
    assert bool(read) != kernel.shift_invariant
