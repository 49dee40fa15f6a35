"""Laws of linear PCA, on the primal and on the dual side."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.decomposition import PCA as Reference
from sklearn.model_selection import GridSearchCV

import mercer
from conftest import frozen
from mercer._core.errors import FlatSpectrumWarning, InputError
from mercer.model.centred_features import CentredRows

SHAPES = {"tall": (80, 6), "wide": (20, 90), "square": (30, 30), "wide-large": (450, 1200)}


@pytest.fixture(params=sorted(SHAPES))
def x(request):
    n, d = SHAPES[request.param]
    rng = np.random.default_rng(5)
    return frozen(rng.standard_normal((n, d)) / np.sqrt(1 + np.arange(d)) + 3.0)


def test_the_cheaper_side_is_chosen(x):
    n, d = x.shape
    assert mercer.PCA().fit(x).plan_.route == ("primal" if d <= n else "dual")


def test_agrees_with_scikit_learn(x):
    k = min(8, *x.shape)
    ours, theirs = mercer.PCA(k).fit(x), Reference(k, svd_solver="full").fit(x)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-9
    )
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    signs = np.sign(np.einsum("ij,ij->i", ours.components_, theirs.components_))
    np.testing.assert_allclose(ours.components_ * signs[:, None], theirs.components_, atol=1e-8)
    np.testing.assert_allclose(ours.transform(x) * signs, theirs.transform(x), atol=1e-8)


def test_all_components_give_the_rows_back(x):
    model = mercer.PCA().fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x, atol=1e-10)
    k = len(model.components_)
    assert k == min(x.shape[0] - 1, x.shape[1])
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-10)


def test_the_mean_squared_error_is_the_sum_of_the_eigenvalues_left_out(x):
    everything = mercer.PCA().fit(x).eigenvalues_ / len(x)
    for k in (1, 3, 5):
        model = mercer.PCA(k).fit(x)
        error = x - model.inverse_transform(model.transform(x))
        mean_squared = np.mean(np.sum(error**2, axis=1))
        assert mean_squared == pytest.approx(everything[k:].sum(), rel=1e-9)


def test_no_other_directions_do_better(x, rng):
    k = 3
    model = mercer.PCA(k).fit(x)
    best = np.sum((x - model.inverse_transform(model.transform(x))) ** 2)
    centred = x - x.mean(axis=0)
    for _ in range(5):
        q, _ = np.linalg.qr(model.components_.T + 0.1 * rng.standard_normal((x.shape[1], k)))
        assert np.sum((centred - centred @ q @ q.T) ** 2) >= best


def test_transform_of_the_training_rows_is_fit_transform(x):
    model = mercer.PCA(4)
    np.testing.assert_allclose(model.fit_transform(x), model.transform(x), atol=1e-10)


def test_linear_kernel_pca_is_pca(x):
    kernel, linear = mercer.KernelPCA(4, kernel="linear").fit(x), mercer.PCA(4).fit(x)
    np.testing.assert_allclose(kernel.eigenvalues_, linear.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        np.abs(kernel.transform(x)), np.abs(linear.transform(x)), atol=1e-8 * np.abs(x).max()
    )


def test_sparse_rows_give_the_same(rng):
    for shape in ((60, 10), (25, 70)):
        x = rng.random(shape) * (rng.random(shape) < 0.3)
        dense, thin = mercer.PCA(4).fit(x), mercer.PCA(4).fit(sparse.csr_array(x))
        np.testing.assert_allclose(thin.explained_variance_, dense.explained_variance_, rtol=1e-9)
        np.testing.assert_allclose(thin.components_, dense.components_, atol=1e-8)
        np.testing.assert_allclose(
            thin.transform(sparse.csr_array(x)), dense.transform(x), atol=1e-9
        )


def test_small_variances_keep_their_axes_orthogonal(rng):
    x = rng.standard_normal((20, 50)) * 10.0 ** -np.arange(0, 25, 0.5)
    model = mercer.PCA().fit(x)
    gram = model.components_ @ model.components_.T
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x, atol=1e-7)


@pytest.mark.filterwarnings("ignore::mercer.errors.FlatSpectrumWarning")
def test_ties_keep_their_axes():
    square = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    design = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T  # a 2⁴ factorial design
    for x in (square, design):
        for model in (mercer.PCA(2), mercer.KernelPCA(2, kernel="linear")):
            np.testing.assert_allclose(model.fit_transform(x), model.transform(x), atol=1e-12)
        axes = mercer.PCA(2).fit(x).components_
        np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)


def test_far_from_the_origin_nothing_is_lost(rng):
    x = rng.standard_normal((50, 200))
    near = mercer.KernelPCA(5, kernel="linear").fit(x)
    far = mercer.KernelPCA(5, kernel="linear").fit(x + 1e8)
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-5)
    assert far.residuals_.max() < 1e-10


def test_sparse_float32_with_a_large_constant_column(rng):
    x = np.column_stack([np.full(400, 2020.0), rng.standard_normal((400, 3))]).astype(np.float32)
    model = mercer.PCA(2).fit(sparse.csr_array(x))
    expected = Reference(2).fit(x.astype(np.float64))
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-4)
    assert np.all(model.explained_variance_ratio_ > 0)


def test_float32_axes_are_orthonormal_too(rng):
    x = (rng.standard_normal((200, 1000)) * 0.97 ** np.arange(1000)).astype(np.float32)
    axes = mercer.PCA().fit(x).components_
    np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=2e-5)


def test_a_share_of_the_variance(x):
    shares = mercer.PCA(0.95).fit(x).explained_variance_ratio_
    assert shares.sum() >= 0.95 > shares[:-1].sum()


def test_float32_stays_float32(x):
    model = mercer.PCA(3).fit(x.astype(np.float32))
    assert model.components_.dtype == model.transform(x.astype(np.float32)).dtype == np.float32


def test_a_circle_keeps_both_variances_and_is_told():
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    with pytest.warns(FlatSpectrumWarning, match="All eigenvalues are alike"):
        model = mercer.PCA().fit(np.column_stack([np.cos(angle), np.sin(angle)]))
    np.testing.assert_allclose(model.explained_variance_ratio_, 0.5)


def test_wrong_scores_are_refused(x):
    model = mercer.PCA(3).fit(x)
    with pytest.raises(InputError, match="scores of the 3 components"):
        model.inverse_transform(np.zeros((4, 2)))


SPREADS = {
    "about the origin": (0.0, 1.0),
    "beside it": (3.0, 1.0),
    "far from it": (1e6, 1.0),
    "all but alike": (1e6, 1e-6),
    "of all sizes": (0.0, np.array([1e-6, 1e-3, 1.0, 1e3])),
}


@pytest.mark.parametrize("name", sorted(SPREADS))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("outlier", [1.0, 1e5])
def test_sums_of_squares_about_the_mean_do_not_cancel(name, weighted, dtype, outlier, rng):
    """Wherever rows lie, and whatever the first of them is: each entry to units of its row and column."""
    far, spread = SPREADS[name]
    x = (far + spread * rng.standard_normal((3001, 4))).astype(dtype)
    x[0] *= dtype(outlier)
    weights = rng.integers(1, 4, len(x)).astype(np.float64) if weighted else None
    rows, v = CentredRows.of(x, weights), rng.standard_normal((4, 3))
    w, exact = np.ones(len(x)) if weights is None else weights, x.astype(np.longdouble)
    gaps = exact - exact[1]  # or a sum of 3001 rows would round to more than they are apart
    shift = w @ gaps / np.sum(w)
    mean, centred = exact[1] + shift, np.sqrt(w)[:, None] * (gaps - shift)
    scatter = centred.T @ centred
    sizes, eps = np.sqrt(np.diagonal(scatter)), np.finfo(np.float64).eps
    assert np.all(np.abs(rows.covariance() - scatter) <= 1e3 * eps * np.outer(sizes, sizes))
    assert np.all(np.abs(rows.mean - mean) <= 4 * eps * (np.abs(mean) + sizes))
    lost = 1e3 * eps * np.linalg.norm(sizes * np.abs(v.T), axis=1)
    assert np.all(np.linalg.norm(rows.times(v) - centred @ v, axis=0) <= lost)


# ── probabilistic PCA ───────────────────────────────────────────────────────
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("whiten", [False, True])
def test_the_gaussian_model_is_scikit_learns(x, k, whiten, rng):
    new = x[:9] + rng.standard_normal((9, x.shape[1]))
    # Theirs multiplies whitened axes by their variances once more: it is asked without whitening.
    ours, theirs = mercer.PCA(k, whiten=whiten).fit(x), Reference(k, svd_solver="full").fit(x)
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-9)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-9)
    np.testing.assert_allclose(ours.get_precision(), theirs.get_precision(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.score_samples(new), theirs.score_samples(new), rtol=1e-8)
    assert ours.score(new) == pytest.approx(theirs.score(new), rel=1e-8)


def test_the_likelihood_is_that_of_a_gaussian_of_all_components(rng):
    x = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4))
    model = mercer.PCA().fit(x)
    covariance = np.cov(x.T)
    np.testing.assert_allclose(model.get_covariance(), covariance, atol=1e-12)
    np.testing.assert_allclose(model.get_precision(), np.linalg.inv(covariance), rtol=1e-8)
    expected = stats.multivariate_normal(x.mean(axis=0), covariance).logpdf(x[:5])
    np.testing.assert_allclose(model.score_samples(x[:5]), expected, rtol=1e-9)
    assert model.noise_variance_ == 0.0


def test_weights_count_as_repeated_rows_in_the_gaussian_model(rng):
    for shape in ((40, 5), (6, 30)):
        x, counts = rng.standard_normal(shape), np.arange(shape[0]) % 3
        weighted = mercer.PCA(2).fit(x, sample_weight=counts)
        repeated = mercer.PCA(2).fit(np.repeat(x, counts, axis=0))
        assert weighted.noise_variance_ == pytest.approx(repeated.noise_variance_, rel=1e-9)
        assert weighted.score(x) == pytest.approx(repeated.score(x), rel=1e-9)


def test_a_covariance_without_noise_has_no_inverse(rng):
    x = rng.standard_normal((10, 3)) @ rng.standard_normal((3, 8))
    model = mercer.PCA().fit(x)
    for ask in (model.get_precision, lambda: model.score(x), lambda: model.score_samples(x)):
        with pytest.raises(InputError, match=r"keep all of the variance.*truncated"):
            ask()
    assert np.isfinite(model.truncated(2).score(x))


def test_the_likelihood_of_rows_held_out_finds_the_number_of_components(rng):
    x = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 10)) * 2.0
    x += 0.3 * rng.standard_normal(x.shape)
    search = GridSearchCV(mercer.PCA(), {"n_components": range(1, 8)}).fit(x)
    assert search.best_params_ == {"n_components": 3}


def test_the_score_of_largest_size_is_positive(x):
    scores = mercer.PCA(4).fit_transform(x)
    largest = np.take_along_axis(scores, np.abs(scores).argmax(axis=0)[None], axis=0)
    assert np.all(largest > 0)


def test_rows_of_any_kind_have_the_same_likelihood(rng, tmp_path):
    x = rng.random((60, 5)) * (rng.random((60, 5)) < 0.5)
    np.save(tmp_path / "x.npy", x)
    model = mercer.PCA(2).fit(x)
    expected = model.score_samples(x)
    for rows in (
        sparse.csr_array(x),
        str(tmp_path / "x.npy"),
        np.load(tmp_path / "x.npy", mmap_mode="r"),
    ):
        np.testing.assert_allclose(model.score_samples(rows), expected, rtol=1e-9)
        streamed = mercer.PCA(2).fit(rows)
        assert streamed.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-9)
        assert streamed.score(rows) == pytest.approx(expected.mean(), rel=1e-9)
    single = mercer.PCA(2).fit(x.astype(np.float32))
    assert single.score_samples(x).dtype == single.get_covariance().dtype == np.float32
    np.testing.assert_allclose(single.score_samples(x), expected, rtol=1e-3)


def test_float32_rows_of_few_columns_are_not_copied_in_float64(rng):
    x = rng.standard_normal((60_000, 60)).astype(np.float32) + np.float32(3.0)
    mercer.PCA(3).fit(x[:100])
    tracemalloc.start()
    mercer.PCA(3).fit(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000 * 60 * 8
