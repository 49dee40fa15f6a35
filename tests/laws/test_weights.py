"""Laws of weights: a row of weight w is w rows, and one of weight 0 is not there."""

import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

import mercer
from conftest import frozen
from markets.kernels import VALID
from mercer._core.errors import InputError, KernelError, ZeroVarianceError
from mercer._core.observer import Observer
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.data.rows import RowSource
from mercer.kernels import (
    RBF,
    Cosine,
    Custom,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from mercer.kernels.feature_map import IdentityMap
from mercer.model import FeatureSections, KernelSections, Problem, Task, linear, plan_linear
from mercer.model.linear import fit_features, fit_linear_pca
from mercer.planning.recipe import Tiles, Whole
from mercer.preimage import Distances, Exact, FixedPoint, Gradient, Ridge
from mercer.solvers import BlockKrylov


# ── named cases ─────────────────────────────────────────────────────────────
class Cut(RowSource):
    """Rows that are handed out a slice at a time and counted."""

    def __init__(self, rows):
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self.tallest = 0

    def _handed(self, rows):
        self.tallest = max(self.tallest, rows.shape[0])
        return rows

    def __getitem__(self, key):
        if not isinstance(key, slice):
            assert np.all(np.diff(key) > 0), "positions are ascending"
        return self._handed(self.rows[key])

    def blocks(self, height):
        for start in range(0, self.shape[0], height):
            i = slice(start, min(start + height, self.shape[0]))
            yield i, self._handed(self.rows[i])

    def check_unchanged(self):
        pass


def thin(rows):
    rows = sparse.csr_array(rows)
    rows.data.flags.writeable = False
    return rows


FORMS = {
    "dense": lambda x: x,
    "dense32": lambda x: frozen(x.astype(np.float32)),
    "csr": thin,
    "csr32": lambda x: thin(x.astype(np.float32)),
}
SHAPES = {"primal": (40, 6), "dual": (14, 35)}


def points(shape, seed=3):
    """Columns of falling spread with a third of the entries zero: eigenvalues lie well apart."""
    rng = np.random.default_rng(seed)
    x = (1.0 + rng.standard_normal(shape)) * 0.8 ** np.arange(shape[1])
    return frozen(x * (rng.random(shape) < 0.67))


def whole(n, seed=4):
    return frozen(np.random.default_rng(seed).integers(1, 6, n).astype(np.float64))


def shares(n, seed=5):
    return frozen(np.random.default_rng(seed).random(n) + 0.05)


def copies(x, weights):
    return x[np.repeat(np.arange(x.shape[0]), weights.astype(int))]


def tol(x):
    return 1e-10 if x.dtype == np.float64 else 2e-4


@pytest.fixture(params=sorted(SHAPES))
def shape(request):
    return SHAPES[request.param]


@pytest.fixture(params=sorted(FORMS))
def form(request):
    return FORMS[request.param]


# ── parameters read off weighted rows ───────────────────────────────────────
RULES = {
    "rbf-median": RBF(),
    "rbf-scale": RBF("scale"),
    "rbf-1/d": RBF("1/d"),
    "laplacian-median": Laplacian(),
    "laplacian-scale": Laplacian("scale"),
    "matern": Matern(),
    "rational-quadratic": RationalQuadratic(),
    "polynomial-scale": Polynomial(2, gamma="scale"),
    "sigmoid-scale": Sigmoid("scale"),
    "sum": RBF() + 0.5 * Matern(),
    "columns": RBF().on([0, 2]) * Laplacian("scale").on([1, 3]),
    "normalised": (RBF() + 1.0).normalised() ** 2,
}
WEIGHTS = {"few": whole(40), "many": 60.0 * whole(40)}


@pytest.fixture
def short_median(monkeypatch):
    """A median over 200 rows: fewer than the many, more than the few."""
    monkeypatch.setattr("mercer.kernels.bandwidth.MEDIAN_ROWS", 200)
    assert WEIGHTS["few"].sum() < 200 < WEIGHTS["many"].sum()


def numbers(kernel):
    return {
        k: v for k, v in kernel.get_params().items() if isinstance(v, float | int) and v is not True
    }


def resolved(kernel, x, weights=None):
    return numbers(kernel.resolve(x, rng=np.random.default_rng(8), weights=weights))


@pytest.mark.usefixtures("short_median")
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("kernel", RULES.values(), ids=RULES)
def test_rules_read_whole_weights_as_repeated_rows(kernel, weights, form):
    x = form(points((40, 6)))
    found = resolved(kernel, x, weights)
    assert found
    assert found == pytest.approx(resolved(kernel, copies(x, weights)), rel=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), Matern()], ids=repr)
def test_the_median_of_whole_weights_is_that_of_repeated_rows_to_the_last_bit(kernel, weights):
    x = points((40, 6))
    assert resolved(kernel, x, weights) == resolved(kernel, copies(x, weights))


@pytest.mark.usefixtures("short_median")
@pytest.mark.parametrize("kernel", RULES.values(), ids=RULES)
def test_rules_do_not_see_rows_of_weight_zero(kernel, form):
    x, weights = form(points((40, 6))), np.array(shares(40))
    weights[::3] = 0.0
    there = weights > 0
    assert resolved(kernel, x, weights) == pytest.approx(
        resolved(kernel, x[there], weights[there]), rel=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", RULES.values(), ids=RULES)
def test_rules_read_a_source_as_they_read_an_array(kernel, weighted, monkeypatch):
    monkeypatch.setattr("mercer.kernels.bandwidth.BLOCK_ENTRIES", 64)
    monkeypatch.setattr("mercer.kernels.bandwidth.MEDIAN_ROWS", 30)
    x, weights = points((40, 6)), shares(40) if weighted else None
    source = Cut(x)
    assert resolved(kernel, source, weights) == pytest.approx(
        resolved(kernel, x, weights), rel=1e-12
    )
    assert source.tallest <= 32


@pytest.mark.parametrize("kernel", VALID.values(), ids=VALID)
def test_numbers_that_are_given_stay(kernel):
    x = points((20, 4))
    resolved = kernel.resolve(x, rng=np.random.default_rng(0), weights=whole(20))
    assert repr(resolved) == repr(kernel.resolve(x, rng=np.random.default_rng(0)))


def test_scale_is_the_weighted_variance_also_far_from_the_origin(form):
    for offset in (0.0, 1e3):
        x, w = form(points((40, 6)) + offset), shares(40)
        entries = x.toarray() if sparse.issparse(x) else x
        entries = entries.astype(np.float64)
        mean = np.average(entries, weights=np.repeat(w, 6).reshape(40, 6))
        variance = np.average((entries - mean) ** 2, weights=np.repeat(w, 6).reshape(40, 6))
        assert RBF("scale").resolve(
            x, rng=np.random.default_rng(0), weights=w
        ).gamma == pytest.approx(1.0 / (6 * variance), rel=1e-9)


def test_the_median_of_shares_is_drawn_by_weight():
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.standard_normal((300, 3)), 50.0 + 9.0 * rng.standard_normal((300, 3))])
    w = np.where(np.arange(600) < 300, 0.03, 1.5)
    distances = cdist(x, x).ravel()
    order = np.argsort(distances)
    share = np.cumsum(np.outer(w, w).ravel()[order]) / w.sum() ** 2
    expected = distances[order][np.searchsorted(share, 0.5)]
    found = resolved(Matern(), x, w)["length_scale"]
    assert found == pytest.approx(expected, rel=0.05)
    assert found == resolved(Matern(), x, w)["length_scale"]
    assert resolved(Matern(), x)["length_scale"] != pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("weight", [1e6, 1e17])
def test_heavy_weights_take_no_memory(weight):
    x = points((1500, 2))
    tracemalloc.start()
    found = resolved(Matern(), x, np.full(1500, weight))["length_scale"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    assert found == pytest.approx(np.median(cdist(x, x)), rel=0.1)


# ── linear PCA, on both sides ───────────────────────────────────────────────
def assert_same_pca(ours, theirs, new, *, atol, factor=1.0):
    scale = theirs.eigenvalues_[0]
    np.testing.assert_allclose(
        ours.eigenvalues_ / factor, theirs.eigenvalues_, rtol=0, atol=atol * scale
    )
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=0, atol=atol
    )
    np.testing.assert_allclose(ours.components_, theirs.components_, rtol=0, atol=10 * atol)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=atol, atol=atol)
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), rtol=0, atol=50 * atol)


def test_pca_reads_whole_weights_as_repeated_rows(shape, form):
    x, w, new = form(points(shape)), whole(shape[0]), form(points((9, shape[1]), 7))
    ours, theirs = mercer.PCA(4).fit(x, sample_weight=w), mercer.PCA(4).fit(copies(x, w))
    assert_same_pca(ours, theirs, new, atol=tol(x))
    np.testing.assert_allclose(
        ours.explained_variance_, theirs.explained_variance_, rtol=10 * tol(x)
    )
    assert ours.fit_.weight == w.sum() == theirs.fit_.weight
    assert ours.components_.dtype == ours.mean_.dtype == ours.transform(new).dtype == x.dtype


def test_pca_does_not_see_rows_of_weight_zero(shape, form):
    x, w, new = form(points(shape)), np.array(shares(shape[0])), form(points((9, shape[1]), 7))
    w[[0, 3, shape[0] - 1]] = 0.0
    ours = mercer.PCA(4).fit(x, sample_weight=w)
    theirs = mercer.PCA(4).fit(x[w > 0], sample_weight=w[w > 0])
    assert_same_pca(ours, theirs, new, atol=1e-14)
    assert ours.fit_transform(x, sample_weight=w).shape == (shape[0], 4)


@pytest.mark.parametrize("factor", [1e-3, 0.7, 1e5])
def test_pca_scales_with_the_weights(shape, form, factor):
    x, w, new = form(points(shape)), shares(shape[0]), form(points((9, shape[1]), 7))
    ours = mercer.PCA(4).fit(x, sample_weight=factor * w)
    theirs = mercer.PCA(4).fit(x, sample_weight=w)
    assert_same_pca(ours, theirs, new, atol=tol(x), factor=factor)


def test_weights_of_one_are_no_weights(shape, form):
    x = form(points(shape))
    ours, theirs = mercer.PCA(4).fit(x, sample_weight=np.ones(shape[0])), mercer.PCA(4).fit(x)
    assert_same_pca(ours, theirs, x, atol=0.0)


def test_pca_agrees_with_the_weighted_covariance(shape, form):
    x, w = form(points(shape)), shares(shape[0])
    entries = (x.toarray() if sparse.issparse(x) else x).astype(np.float64)
    values, axes = np.linalg.eigh(w.sum() * np.cov(entries.T, aweights=w, ddof=0))
    values, axes = values[::-1], axes[:, ::-1]
    model = mercer.PCA(4).fit(x, sample_weight=w)
    np.testing.assert_allclose(model.eigenvalues_, values[:4], atol=tol(x) * values[0])
    np.testing.assert_allclose(
        model.explained_variance_ratio_, values[:4] / values.sum(), atol=tol(x)
    )
    np.testing.assert_allclose(np.abs(model.components_ @ axes[:, :4]), np.eye(4), atol=10 * tol(x))
    np.testing.assert_allclose(model.mean_, np.average(entries, axis=0, weights=w), rtol=tol(x))
    assert model.residuals_.max() < tol(x)


def test_scores_of_the_weighted_fit_are_the_projected_rows(shape, form):
    x, w = form(points(shape)), shares(shape[0])
    model = mercer.PCA(4)
    scores = model.fit_transform(x, sample_weight=w)
    np.testing.assert_allclose(scores, model.transform(x), rtol=0, atol=50 * tol(x))
    # Their weighted mean is zero, and their weighted squares sum to the eigenvalues.
    np.testing.assert_allclose(w @ scores, 0.0, atol=100 * tol(x))
    squares = scores.T @ (w[:, None] * scores)
    np.testing.assert_allclose(
        squares, np.diag(model.eigenvalues_), atol=50 * tol(x) * squares[0, 0]
    )
    assert np.all(scores.max(axis=0) >= -scores.min(axis=0))  # signs: the largest score is positive


@pytest.mark.parametrize("solver", ["lapack", "krylov"])
def test_both_solvers_see_the_weights(shape, solver):
    x, w = points(shape), whole(shape[0])
    ours = mercer.PCA(2, solver=solver).fit(x, sample_weight=w)
    theirs = mercer.PCA(2, solver="lapack").fit(copies(x, w))
    assert_same_pca(ours, theirs, x, atol=1e-6 if solver == "krylov" else 1e-10)


def test_weights_and_rows_are_left_as_they_were(shape, form):
    x, w = form(points(shape)), shares(shape[0])
    before = x.toarray() if sparse.issparse(x) else np.array(x)
    mercer.PCA(3).fit(x, sample_weight=w)
    np.testing.assert_array_equal(x.toarray() if sparse.issparse(x) else x, before)
    np.testing.assert_array_equal(w, shares(shape[0]))


@pytest.mark.parametrize(
    ("weights", "value"),
    [
        (np.ones(39), (39,)),
        (np.ones((40, 1)), (40, 1)),
        (np.full(40, -1.0), -1.0),
        (np.full(40, np.inf), np.inf),
        (np.full(40, 1e307), np.inf),
        (np.eye(40)[3], 1),
    ],
    ids=["short", "2-d", "negative", "infinite", "infinite-sum", "one-row"],
)
@pytest.mark.parametrize("model", [mercer.PCA(2), mercer.KernelPCA(2)], ids=["pca", "kernel"])
def test_weights_that_are_none_are_refused(model, weights, value):
    with pytest.raises(InputError) as caught:
        model.fit(points((40, 6)), sample_weight=weights)
    assert (caught.value.parameter, caught.value.value) == ("sample_weight", value)


def test_a_weight_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="finite"):
        mercer.PCA(2).fit(points((40, 6)), sample_weight=np.full(40, np.nan))


APPROXIMATIONS = {
    "rpcholesky": RPCholesky(rank=20),
    "refined": RPCholesky(rank=20, refine=2),
    "nystrom": Nystrom(20),
    "fourier": RandomFourier(50),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("unit", [2.0**-900, 2.0**-200, 2.0**-40, 2.0**40, 2.0**126, 2.0**900])
@pytest.mark.parametrize("name", ["pca", "linear", "rbf", "polynomial", *APPROXIMATIONS])
def test_the_unit_of_weights_changes_nothing_but_eigenvalues(name, unit, dtype):
    """By a power of two, so that no digit changes."""
    x = frozen(points((60, 4)).astype(dtype))
    kernels = {"linear": Linear(), "polynomial": Polynomial(2, gamma=0.3)}
    model = mercer.PCA(2)
    if name != "pca":
        approximation = APPROXIMATIONS.get(name)
        model = mercer.KernelPCA(2, kernel=kernels.get(name, RBF(0.3)), approximation=approximation)
    w = np.where(np.arange(60) == 7, 0.0, shares(60))  # a row that does not count has no unit
    one, other = (clone(model).fit(x, sample_weight=weights) for weights in (w, unit * w))
    np.testing.assert_array_equal(other.fit_.eigenvalues / unit, one.fit_.eigenvalues)
    np.testing.assert_array_equal(other.fit_.bounds / unit, one.fit_.bounds)
    if not one.fit_.is_low_rank:
        np.testing.assert_array_equal(other.fit_.scores, one.fit_.scores)
    np.testing.assert_array_equal(other.residuals_, one.residuals_)
    np.testing.assert_array_equal(other.transform(x), one.transform(x))
    np.testing.assert_array_equal(other.explained_variance_ratio_, one.explained_variance_ratio_)


@pytest.mark.parametrize("name", ["pca", "rbf", *APPROXIMATIONS])
def test_weights_whose_sums_overflow_are_named(name):
    approximation = APPROXIMATIONS.get(name)
    model = mercer.KernelPCA(2, kernel=RBF(0.3), approximation=approximation)
    model = mercer.PCA(2) if name == "pca" else model
    with pytest.raises(InputError, match="Divide them by the largest") as caught:
        model.fit(points((60, 4)), sample_weight=np.full(60, 2e306))
    assert caught.value.parameter == "sample_weight"


# ── one pass over the rows ──────────────────────────────────────────────────
def sections_of(name, x):
    if name == "kernel":
        return KernelSections(RBF(0.2), x[:5])
    kernel = {"identity": Linear(), "polynomial": Polynomial(2, gamma=0.3)}[name]
    return FeatureSections(kernel.feature_map(x.shape[1]))


def one_pass(sections, x, k, weights=None):
    plan = plan_linear(Problem(n=x.shape[0], d=sections.width, n_components=k), "lapack")
    rng = np.random.default_rng(0)
    return linear.fit_streamed(Task(Linear(), Cut(x), k, plan, rng, weights), sections)


def in_memory(sections, x, k, weights=None):
    plan = plan_linear(Problem(n=x.shape[0], d=sections.width, n_components=k), "lapack")
    assert plan.route == "primal"
    rng = np.random.default_rng(0)
    return fit_features(Task(Linear(), x, k, plan, rng, weights), sections(x), sections)


def passes(sections, x, k, weights=None):
    return one_pass(sections, x, k, weights), in_memory(sections, x, k, weights)


def assert_same_fit(ours, theirs, x, *, rtol, atol):
    np.testing.assert_allclose(ours.eigenvalues, theirs.eigenvalues, rtol=rtol)
    assert ours.total == pytest.approx(theirs.total, rel=rtol)
    assert (ours.weight, ours.rank_bound) == (pytest.approx(theirs.weight), theirs.rank_bound)
    signs = np.sign(np.sum(ours.projection.coef * theirs.projection.coef, axis=0))
    np.testing.assert_allclose(ours.projection.coef * signs, theirs.projection.coef, atol=atol)
    np.testing.assert_allclose(ours.projection(x) * signs, theirs.projection(x), atol=atol)


@pytest.mark.parametrize("weights", [None, whole(40), shares(40)], ids=["none", "whole", "shares"])
@pytest.mark.parametrize("name", ["identity", "polynomial", "kernel"])
@pytest.mark.parametrize("height", [1, 7, 4096])
def test_one_pass_gives_what_memory_gives(name, weights, height, monkeypatch):
    monkeypatch.setattr(linear, "SLICE_ROWS", height)
    x = points((40, 4))
    sections = sections_of(name, x)
    ours, theirs = passes(sections, x, 3, weights)
    assert_same_fit(ours, theirs, x, rtol=1e-9, atol=1e-9)
    assert ours.is_low_rank
    assert ours.trace_error == 0.0
    low, high = ours.bounds.T
    assert np.all((low <= theirs.eigenvalues) & (theirs.eigenvalues <= high))
    features = sections(x)
    w = np.ones(40) if weights is None else weights
    assert ours.certificate.trace == pytest.approx(w @ np.sum(features**2, axis=1), rel=1e-12)


@pytest.mark.parametrize("height", [7, 4096])
def test_one_pass_far_from_the_origin(height, monkeypatch):
    monkeypatch.setattr(linear, "SLICE_ROWS", height)
    near = points((400, 4))
    x, w = frozen(near + 1e6), shares(400)
    sections = FeatureSections(IdentityMap(4))
    ours, theirs = passes(sections, x, 3, w)
    # A score is a difference of two numbers of size 1e6, so rounding alone is 1e-9 or so.
    assert_same_fit(ours, theirs, x, rtol=1e-9, atol=1e-8)
    reference = in_memory(sections, near, 3, w)
    np.testing.assert_allclose(ours.eigenvalues, reference.eigenvalues, rtol=1e-9)


def test_one_pass_over_thin_and_single_rows():
    for x in (thin(points((40, 4))), frozen(points((40, 4)).astype(np.float32))):
        ours, theirs = passes(FeatureSections(IdentityMap(4)), x, 3, whole(40))
        assert_same_fit(ours, theirs, x, rtol=10 * tol(x), atol=10 * tol(x))
        assert ours.projection.coef.dtype == ours.projection(x).dtype == x.dtype


def test_one_pass_skips_rows_of_weight_zero(monkeypatch):
    monkeypatch.setattr(linear, "SLICE_ROWS", 4)
    x, w = points((40, 4)), np.array(shares(40))
    w[:9] = w[20:31] = 0.0
    sections = FeatureSections(IdentityMap(4))
    ours, theirs = one_pass(sections, x, 3, w), in_memory(sections, x[w > 0], 3, w[w > 0])
    assert_same_fit(ours, theirs, x, rtol=1e-12, atol=1e-12)
    w[3:] = 0.0
    w[:3] = 1.0
    assert one_pass(sections, x, None, w).rank_bound == 2


@pytest.mark.parametrize("weights", [False, True])
def test_pca_of_a_source_is_that_of_its_rows(shape, form, weights):
    x, w = form(points(shape)), None
    if weights:
        w = np.array(shares(shape[0]))
        w[::5] = 0.0
    ours = mercer.PCA(3).fit(Cut(x), sample_weight=w)
    theirs = mercer.PCA(3).fit(x, sample_weight=w)
    assert ours.fit_.is_low_rank == (
        shape[1] <= shape[0]
    )  # else the rows are the smaller thing to hold
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(
        ours.components_ * signs[:, None], theirs.components_, atol=10 * tol(x)
    )
    np.testing.assert_allclose(
        ours.explained_variance_, theirs.explained_variance_, rtol=10 * tol(x)
    )
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=tol(x))
    np.testing.assert_allclose(ours.transform(Cut(x)), ours.transform(x), atol=50 * tol(x))
    scores = ours.fit_transform(Cut(x), sample_weight=w)
    np.testing.assert_allclose(scores * signs, theirs.transform(x), atol=50 * tol(x))


def test_one_pass_tells_how_far_it_is(monkeypatch):
    class Counting(Observer):
        seen = ()

        def step(self, done, expected, what, residual):
            self.seen = (*self.seen, (done, expected, what))
            return super().step(done, expected, what, residual)

    monkeypatch.setattr(linear, "SLICE_ROWS", 25)
    observer, x = Counting(), points((60, 4))
    sections = FeatureSections(IdentityMap(4))
    linear.stream_moments(sections, Cut(x), weights=None, observer=observer)
    assert observer.seen == ((25, 60, "rows"), (50, 60, "rows"), (60, 60, "rows"))


def test_one_pass_refuses_what_has_no_variance_or_overflows():
    sections = FeatureSections(IdentityMap(4))
    with pytest.raises(ZeroVarianceError):
        one_pass(sections, np.full((20, 4), 0.1), 2)
    with pytest.raises(KernelError, match="overflows"):
        one_pass(sections, points((40, 4)) * 1e200, 2)


# ── kernel PCA ──────────────────────────────────────────────────────────────
def laplace(x, y):
    return np.exp(-0.5 * cdist(x, y, "cityblock"))


KERNELS = {
    "rbf-default": "rbf",
    "rbf": RBF(0.2),
    "rbf-scale": RBF("scale"),
    "laplacian": Laplacian(),
    "matern": Matern(),
    "rational-quadratic": RationalQuadratic(),
    "cosine": Cosine(),
    "linear": "linear",
    "polynomial": Polynomial(2, gamma=0.2),  # primal: 28 columns for 90 rows
    "polynomial-5": Polynomial(5, gamma=0.05),  # dual: 462 columns
    "sum": RBF() + 0.3 * Linear(),
    "columns": RBF().on([0, 1, 2]) + Linear().on([3]),
    "matrices": Custom(laplace, "matrices"),
}
RTOL = 1e-10
SOLVERS = {"lapack": "lapack", "krylov": BlockKrylov(tol=1e-12)}


@pytest.fixture(params=sorted(KERNELS))
def kernel(request):
    return KERNELS[request.param]


@pytest.fixture(params=sorted(SOLVERS))
def solver(request):
    return request.param


@pytest.fixture(scope="module")
def rows():
    return points((90, 6), 11)


@pytest.fixture(scope="module")
def new():
    return points((12, 6), 12)


def fitted(x, weights=None, *, kernel, solver="lapack", k=3):
    model = mercer.KernelPCA(k, kernel=kernel, solver=SOLVERS[solver], random_state=0)
    return model.fit(x, sample_weight=weights)


def assert_same_kernel_pca(ours, theirs, x, new, *, rtol, factor=1.0):
    top = theirs.eigenvalues_[0]
    np.testing.assert_allclose(
        ours.eigenvalues_ / factor, theirs.eigenvalues_, rtol=0, atol=rtol * top
    )
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=0, atol=10 * rtol
    )
    for some in (x, new):
        scores = theirs.transform(some)
        atol = 100 * rtol * np.abs(scores).max()
        np.testing.assert_allclose(ours.transform(some), scores, rtol=0, atol=atol)


def test_kernel_pca_reads_whole_weights_as_repeated_rows(kernel, solver, rows, new):
    w = whole(90)
    ours = fitted(rows, w, kernel=kernel, solver=solver)
    theirs = fitted(copies(rows, w), kernel=kernel)
    assert numbers(ours.kernel_) == pytest.approx(numbers(theirs.kernel_), rel=1e-12)
    assert_same_kernel_pca(ours, theirs, rows, new, rtol=RTOL)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=10 * RTOL)


def test_kernel_pca_does_not_see_rows_of_weight_zero(kernel, solver, rows, new):
    w = np.array(shares(90))
    w[::4] = 0.0
    ours = fitted(rows, w, kernel=kernel, solver=solver)
    theirs = fitted(rows[w > 0], w[w > 0], kernel=kernel, solver=solver)
    assert_same_kernel_pca(ours, theirs, rows, new, rtol=RTOL)


@pytest.mark.parametrize("factor", [0.01, 30.0])
@pytest.mark.parametrize("name", ["rbf", "cosine", "polynomial", "polynomial-5", "matrices"])
def test_kernel_pca_scales_with_the_weights(name, solver, factor, rows, new):
    w, kernel = shares(90), KERNELS[name]
    ours = fitted(rows, factor * w, kernel=kernel, solver=solver)
    theirs = fitted(rows, w, kernel=kernel)
    assert_same_kernel_pca(ours, theirs, rows, new, rtol=RTOL, factor=factor)


def test_kernel_pca_agrees_with_the_weighted_matrix(kernel, solver, rows):
    w = shares(90)
    model = fitted(rows, w, kernel=kernel, solver=solver)
    h = np.eye(90) - np.outer(np.ones(90), w / w.sum())
    s = np.diag(np.sqrt(w))
    values, vectors = np.linalg.eigh(s @ h @ model.kernel_(rows) @ h.T @ s)
    values, vectors = values[::-1], vectors[:, ::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[:3], rtol=0, atol=RTOL * values[0])
    np.testing.assert_allclose(
        model.explained_variance_ratio_, values[:3] / values.sum(), rtol=0, atol=10 * RTOL
    )
    scores = vectors[:, :3] * np.sqrt(values[:3]) / np.sqrt(w)[:, None]
    scores *= np.sign(scores[np.argmax(np.abs(scores), axis=0), np.arange(3)])
    atol = 100 * RTOL * np.abs(scores).max()
    np.testing.assert_allclose(model.transform(rows), scores, rtol=0, atol=atol)
    np.testing.assert_allclose(model.fit_.scores, scores, rtol=0, atol=atol)
    assert model.residuals_.max() < 1e-9


def test_kernel_pca_scores_are_the_projected_rows(kernel, solver, rows):
    model = mercer.KernelPCA(3, kernel=kernel, solver=SOLVERS[solver])
    for w in (whole(90), shares(90), np.where(np.arange(90) % 5, 1.0, 0.0)):
        scores = model.fit_transform(rows, sample_weight=w)
        atol = 100 * RTOL * np.abs(scores).max()
        np.testing.assert_allclose(scores, model.transform(rows), rtol=0, atol=atol)
        squares = scores.T @ (w[:, None] * scores)
        np.testing.assert_allclose(
            squares, np.diag(model.eigenvalues_), rtol=0, atol=1e-7 * squares[0, 0]
        )


@pytest.mark.parametrize("small", [3000, 100])
def test_kernel_pca_of_more_rows(small, monkeypatch):
    # Above so many rows K is held in tiles, of float32 where float64 ones prove the result.
    monkeypatch.setattr(sys.modules["mercer.planning.krylov"], "SMALL_ROWS", small)
    x, w, some = points((700, 6), 13), np.arange(700) % 3 + 1.0, points((12, 6), 12)
    ours = mercer.KernelPCA(3, solver=BlockKrylov(tol=1e-6)).fit(x, sample_weight=w)
    theirs = mercer.KernelPCA(3, solver=BlockKrylov(tol=1e-12)).fit(copies(x, w))
    assert isinstance(ours.plan_.recipe, Whole if small > 700 else Tiles)
    assert (ours.plan_.recipe.proof is not None) == (small < 700)
    assert ours.kernel_.gamma == theirs.kernel_.gamma
    assert_same_kernel_pca(ours, theirs, x, some, rtol=1e-6)


@pytest.mark.parametrize("name", ["rbf-default", "linear", "polynomial", "cosine"])
def test_kernel_pca_of_thin_and_single_rows(name, rows, new):
    w = whole(90)
    for form in FORMS.values():
        ours = fitted(form(rows), w, kernel=KERNELS[name])
        theirs = fitted(form(copies(rows, w)), kernel=KERNELS[name])
        assert_same_kernel_pca(ours, theirs, form(rows), form(new), rtol=tol(form(rows)))


def test_a_precomputed_matrix_with_weights_is_that_of_repeated_rows(solver, rows, new):
    w = whole(90)
    k, k_new = frozen(RBF(0.2)(rows)), RBF(0.2)(new, rows)
    again = np.repeat(np.arange(90), w.astype(int))
    ours = fitted(k, w, kernel="precomputed", solver=solver)
    theirs = fitted(k[np.ix_(again, again)], kernel="precomputed")
    points = fitted(rows, w, kernel=RBF(0.2))
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=RTOL)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=RTOL)
    for scores in (theirs.transform(k_new[:, again]), points.transform(new)):
        np.testing.assert_allclose(ours.transform(k_new), scores, rtol=0, atol=100 * RTOL)


def test_a_precomputed_matrix_with_zero_weights_keeps_its_columns(rows, new):
    w = np.array(shares(90))
    w[::4] = 0.0
    k, k_new = frozen(RBF(0.2)(rows)), RBF(0.2)(new, rows)
    ours = fitted(k, w, kernel="precomputed")
    theirs = fitted(rows, w, kernel=RBF(0.2))
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(ours.transform(k_new), theirs.transform(new), atol=1e-8)


def test_kernel_pca_leaves_weights_and_rows_as_they_were(kernel, rows):
    w, before = shares(90), np.array(rows)
    fitted(rows, w, kernel=kernel)
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(w, shares(90))


def test_linear_kernel_pca_with_weights_is_weighted_pca(rows, new):
    w = shares(90)
    kernel, linear = fitted(rows, w, kernel="linear"), mercer.PCA(3).fit(rows, sample_weight=w)
    np.testing.assert_allclose(kernel.eigenvalues_, linear.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(kernel.transform(new), linear.transform(new), atol=1e-9)


def test_the_same_fit_from_the_model_layer(rows):
    plan, w = plan_linear(Problem(n=90, d=6, n_components=3)), shares(90)
    fit = fit_linear_pca(Task(Linear(), rows, 3, plan, np.random.default_rng(0), w))
    np.testing.assert_allclose(fit.roots**2, w, rtol=1e-14)
    assert fit.rank_bound == 6
    np.testing.assert_allclose(fit.scores, fit.projection(rows), atol=1e-10)


# ── every way to fit ─────────────────────────────────────────────────────────
def _streamed(x, weights):
    model = mercer.IncrementalKernelPCA(3, kernel=RBF(0.3), max_landmarks=60, tol=0.0)
    for i in (slice(0, 7), slice(7, 25), slice(25, None)):
        model.partial_fit(x[i], sample_weight=None if weights is None else weights[i])
    return model


# Each as good as exact here: as many landmarks as rows; or features that no row has a say in.
FITS = {
    "nystrom": lambda x, w: mercer.KernelPCA(
        3, kernel=RBF(0.3), approximation=Nystrom(np.unique(x, axis=0))
    ).fit(x, sample_weight=w),
    "rpcholesky": lambda x, w: mercer.KernelPCA(
        3, kernel=RBF(0.3), approximation=RPCholesky(rank=40, refine=2)
    ).fit(x, sample_weight=w),
    "fourier": lambda x, w: mercer.KernelPCA(
        3, kernel=RBF(0.3), approximation=RandomFourier(200)
    ).fit(x, sample_weight=w),
    "stream": lambda x, w: mercer.IncrementalKernelPCA(
        3, kernel=RBF(0.3), max_landmarks=60, tol=0.0
    ).fit(x, sample_weight=w),
    "batches": _streamed,
    "pca": lambda x, w: mercer.PCA(3).fit(x, sample_weight=w),
    "drop-in": lambda x, w: mercer.sklearn.KernelPCA(3, kernel="rbf").fit(x, sample_weight=w),
}


@pytest.mark.parametrize("name", FITS)
def test_every_fit_reads_whole_weights_as_repeated_rows(name):
    rng = np.random.default_rng(21)
    x, new = rng.standard_normal((40, 4)) / np.arange(1, 5), rng.standard_normal((9, 4))
    weights = 1.0 + np.arange(40) % 3
    weighted = FITS[name](x, weights)
    repeated = FITS[name](np.repeat(x, weights.astype(int), axis=0), None)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-6)
    scores, twin = weighted.transform(new), repeated.transform(new)
    np.testing.assert_allclose(np.abs(scores), np.abs(twin), atol=1e-5 * np.abs(twin).max())


# ── pre-images ──────────────────────────────────────────────────────────────
CUBIC = Polynomial(3, gamma=0.3)
# kernel, method, and how far equal pre-images may lie apart: searches stop within their own tolerance, and a
# penalty magnifies rounding.
BACK = {
    "ridge": (RBF(0.3), Ridge(), 1e-7),
    "ridge, sampled": (RBF(0.3), Ridge(max_rows=60), 1e-7),
    "ridge, given": (RBF(0.3), Ridge(alpha=1e-2, gamma=0.5), 1e-10),
    "ridge, linear": (CUBIC, Ridge(gamma=0), 1e-7),
    "fixed-point": (RBF(0.3), FixedPoint(), 1e-5),
    "fixed-point, sampled": (Matern(1.5, 2.0), FixedPoint(max_rows=60), 1e-5),
    "distances": (RBF(0.3), Distances(), 1e-7),
    "distances, sampled": (RBF(0.3), Distances(max_rows=60), 1e-7),
    "gradient": (RBF(0.3), Gradient(), 1e-5),
    "gradient, sampled": (CUBIC, Gradient(max_rows=60), 1e-5),
    "exact": (CUBIC, Exact(), 1e-10),
    "exact, sampled": (CUBIC, Exact(max_rows=60), 1e-10),
}


@pytest.mark.filterwarnings("ignore::mercer.errors.PreimageWarning")
@pytest.mark.parametrize("solver", ["lapack", BlockKrylov(tol=1e-13)])
@pytest.mark.parametrize("name", sorted(BACK))
def test_a_pre_image_of_weighted_rows_is_that_of_repeated_ones(name, solver):
    kernel, method, near = BACK[name]
    rng = np.random.default_rng(5)
    x, weights, new = (
        rng.standard_normal((110, 3)),
        rng.integers(0, 4, 110),
        rng.standard_normal((9, 3)),
    )
    model = mercer.KernelPCA(6, kernel=kernel, solver=solver, preimage=method)
    one, other = (
        model.fit(x, sample_weight=weights),
        clone(model).fit(np.repeat(x, weights, axis=0)),
    )
    np.testing.assert_allclose(one.reconstruct(new), other.reconstruct(new), atol=near)
    assert one.preimage_.n_rows == other.preimage_.n_rows
    for found in ("reach", "length", "radius"):
        mine, theirs = getattr(one.preimage_, found), getattr(other.preimage_, found)
        assert mine == pytest.approx(theirs, rel=1e-9)
    np.testing.assert_allclose(one.preimage_.centre, other.preimage_.centre, atol=1e-12)
    for found in ("error", "error_of_mean", "residual"):
        mine, theirs = (getattr(m.preimage_.quality, found) for m in (one, other))
        assert mine == pytest.approx(theirs, rel=10 * near)
    for knob in ("alpha", "gamma"):
        assert getattr(one.preimage_.method, knob, 0) == pytest.approx(
            getattr(other.preimage_.method, knob, 0), rel=1e-9
        )


def test_other_targets_and_a_kernel_matrix_count_their_rows_as_well():
    rng = np.random.default_rng(5)
    x, weights = rng.standard_normal((70, 3)), rng.integers(1, 4, 70)
    targets, again = np.sin(x[:, :2]), np.repeat(np.arange(70), weights)
    matrix = RBF(0.3)(x)
    one = mercer.KernelPCA(5, kernel="precomputed", preimage=Ridge(rows=targets))
    other = mercer.KernelPCA(5, kernel="precomputed", preimage=Ridge(rows=targets[again]))
    one.fit(matrix, sample_weight=weights)
    other.fit(matrix[np.ix_(again, again)])
    np.testing.assert_allclose(
        one.reconstruct(matrix[:9]), other.reconstruct(matrix[:9][:, again]), atol=1e-7
    )
    assert one.preimage_.n_rows == other.preimage_.n_rows == 70


def test_a_ridge_with_weights_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    x, weights, new = (
        rng.standard_normal((80, 3)),
        rng.uniform(0.1, 5.0, 80),
        rng.standard_normal((9, 3)),
    )
    model = mercer.KernelPCA(4, kernel=RBF(0.3), preimage=Ridge(alpha=0.03, gamma=0.5))
    model.fit(x, sample_weight=weights)
    scores, scale = (
        model.transform(x),
        np.average(np.square(model.transform(x)).sum(axis=1), weights=weights),
    )

    def latent(a, b):
        return RBF(0.5)(a, b) + a @ b.T / scale

    mean = np.average(x, axis=0, weights=weights)
    ridge = KernelRidge(alpha=0.03, kernel="precomputed")
    ridge.fit(latent(scores, scores), x - mean, sample_weight=weights)
    wanted = ridge.predict(latent(model.transform(new), scores)) + mean
    np.testing.assert_allclose(model.reconstruct(new), wanted, atol=1e-9)


def test_a_copy_of_a_row_does_not_tell_what_it_is():
    """Left out together with its copies: the quality of rows that are there twice is that of rows."""
    x = np.random.default_rng(5).standard_normal((80, 6))
    for method in ("ridge", "distances", "fixed-point"):
        once, twice = (
            mercer.KernelPCA(20, kernel=RBF(0.3), preimage=method).fit(rows).preimage_.quality
            for rows in (x, np.concatenate([x, x]))
        )
        assert twice.error == pytest.approx(once.error, rel=1e-4)


# ── one row far heavier than all others ─────────────────────────────────────
def one_heavy(weight, n=120):
    """Rows, weights, and the true share of two components: in long doubles, from the heavy row on."""
    x, w = points((n, 4)), np.ones(n)
    w[5] = weight
    k = np.exp(-0.1 * cdist(x, x, "sqeuclidean")).astype(np.longdouble)
    k = k - k[5] - k[:, [5]] + k[5, 5]
    p = w.astype(np.longdouble) / w.sum(dtype=np.longdouble)
    p[5] = 0.0  # its φ is zero
    k = k - (k @ p)[:, None] - (k @ p)[None] + p @ k @ p
    s = np.sqrt(w)
    values = np.linalg.eigvalsh(s[:, None] * k.astype(np.float64) * s)
    return x, w, values[-2:].sum() / values.sum()


@pytest.mark.parametrize("weight", [1e6, 1e10, 3e13, 1e14, 1e16, 1e17])
@pytest.mark.parametrize("solver", ["lapack", "krylov"])
def test_shares_beside_a_heavy_row_are_true_to_their_digits_or_not_told(weight, solver):
    x, w, share = one_heavy(weight)
    model = mercer.KernelPCA(2, kernel=RBF(0.1), solver=solver)
    if weight > 119 * 1e-4 / np.finfo(float).eps:
        for approximation in (None, RPCholesky(rank=120), Nystrom(100)):
            with pytest.raises(InputError, match="for row 5") as caught:
                model.set_params(approximation=approximation).fit(x, sample_weight=w)
            assert caught.value.value == weight
            assert caught.value.remedy.startswith("Lower that weight")
        return
    found = model.fit(x, sample_weight=w).explained_variance_ratio_.sum()
    assert found == pytest.approx(share, abs=5e-4)


@pytest.mark.parametrize("weight", [1e8, 1e12, 1e17])
def test_a_stream_tells_of_a_row_that_drowns_the_others(weight):
    x, w, _ = one_heavy(weight)
    first = mercer.IncrementalKernelPCA(2, kernel=RBF(0.1))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        first.fit(x, sample_weight=w)
        one = mercer.IncrementalKernelPCA(2, kernel=RBF(0.1)).partial_fit(
            x[5:6], sample_weight=[weight]
        )
        assert not [t for t in told if "One row weighs" in str(t.message)][1:]  # others may follow
        one.partial_fit(x)
    assert sum("One row weighs" in str(t.message) for t in told) == (2 if weight > 119e8 else 0)
