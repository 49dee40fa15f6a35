"""Laws of kernel PCA on every route: the projection, its evidence, and what others compute."""

import sys
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import eigsh
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.decomposition import KernelPCA as Reference
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import mercer
from conftest import frozen
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer._core.errors import (
    FlatSpectrumWarning,
    IndefiniteKernelWarning,
    MercerWarning,
    RankWarning,
    UnconvergedWarning,
)
from mercer.kernels import RBF, Custom, Laplacian, Linear, Polynomial, Sigmoid
from mercer.model import Plan, Task, fit_kernel_pca
from mercer.planning.recipe import Proof, TileCache, Tiles, Whole
from mercer.solvers import BlockKrylov, Lapack
from mercer.views.fitted import Fitted

N, WIDTH = 150, 16


def rounded(*, packed):
    """All tiles held rounded, and checked in float64."""
    itemsize = 2 if packed else 4
    store = TileCache.within(10**6, n=N, width=WIDTH, itemsize=itemsize)
    return Tiles(WIDTH, "float32", store, Proof(WIDTH, sliced=packed))


HELD = TileCache.within(10**6, n=N, width=WIDTH, itemsize=8)
# Every way an exact fit can be made, forced.
ROUTES = {
    "lapack": Plan("dual", Lapack(), Tiles(N, "float64"), 0),
    "lapack-subset": Plan("dual", Lapack(subset=True), Tiles(N, "float64"), 0),
    "krylov-stored": Plan("dual", BlockKrylov(tol=1e-12), Whole(N, "float64"), 0),
    "krylov-half": Plan(
        "dual", BlockKrylov(tol=1e-10), Tiles(N, "float32", None, Proof(N)), 0, n_threads=2
    ),
    "krylov-packed": Plan("dual", BlockKrylov(tol=1e-10), rounded(packed=True), 0, n_threads=2),
    "krylov-rounded": Plan("dual", BlockKrylov(tol=1e-10), rounded(packed=False), 0, n_threads=2),
    "krylov-held": Plan("dual", BlockKrylov(tol=1e-10), Tiles(WIDTH, "float64", HELD), 0),
    "krylov-matrix-free": Plan("dual", BlockKrylov(tol=1e-12), Tiles(N, "float64"), 0),
    "primal": Plan("primal", Lapack(), None, 0),
    "primal-krylov": Plan("primal", BlockKrylov(tol=1e-12), None, 0),
}
MAPPED = ["linear", "poly2", "poly3-homogeneous", "cosine"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    x = rng.standard_normal((N, 4)) / np.sqrt(np.arange(1, 5))
    return frozen(x), frozen(rng.standard_normal((40, 4)))


def cases():
    for route in ROUTES:
        for name, kernel in VALID.items():
            if route.startswith("primal") and name not in MAPPED:
                continue
            if (
                route in ("krylov-half", "krylov-packed", "krylov-rounded")
                and not kernel.shift_invariant
            ):
                continue
            yield pytest.param(route, name, id=f"{route}-{name}")


def fit(route, kernel, x, k=3):
    rng = np.random.default_rng(0)
    return fit_kernel_pca(Task(kernel, x, k, ROUTES[route], rng))


@pytest.mark.parametrize(("route", "name"), list(cases()))
def test_every_route_is_the_textbook(route, name, data):
    """Centre, diagonalise, normalise, project: with explicit matrices, as in the definition."""
    x, x_new = data
    kernel = VALID[name]
    found = fit(route, kernel, x)
    k, k_new = kernel(x), kernel(x_new, x)
    n = len(x)
    ones, ones_new = np.full((n, n), 1 / n), np.full((len(x_new), n), 1 / n)
    centred = k - ones @ k - k @ ones + ones @ k @ ones
    new = k_new - ones_new @ k - k_new @ ones + ones_new @ k @ ones
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1][:3], vectors[:, ::-1][:, :3]
    alpha = vectors / np.sqrt(values)
    scale = np.abs(centred @ alpha).max()
    signs = np.sign(np.einsum("ij,ij->j", found.scores, centred @ alpha))
    np.testing.assert_allclose(found.eigenvalues, values, rtol=1e-10)
    np.testing.assert_allclose(found.scores, centred @ alpha * signs, atol=1e-8 * scale)
    np.testing.assert_allclose(found.projection(x_new), new @ alpha * signs, atol=1e-8 * scale)
    assert found.total == pytest.approx(np.trace(centred), rel=1e-10)
    # The axes in feature space have length one: αᵀK̃α = 1, or that of their own coordinates.
    own = found.projection.coef
    explicit = route.startswith("primal") or name == "linear"  # axes of φ(x) themselves
    gram = np.eye(len(own)) if explicit else centred
    np.testing.assert_allclose(np.diagonal(own.T @ gram @ own), 1.0, rtol=1e-8)


@pytest.mark.parametrize(("route", "name"), list(cases()))
def test_transform_of_the_training_rows_is_fit_transform(route, name, data):
    x, _ = data
    found = fit(route, VALID[name], x)
    scale = np.abs(found.scores).max()
    np.testing.assert_allclose(found.projection(x), found.scores, atol=1e-10 * scale)


@pytest.mark.parametrize(("route", "name"), list(cases()))
def test_scores_are_uncorrelated_with_the_stated_variances(route, name, data):
    x, _ = data
    found = fit(route, VALID[name], x)
    t = found.scores
    np.testing.assert_allclose(t.mean(axis=0), 0.0, atol=1e-10 * np.abs(t).max())
    np.testing.assert_allclose(
        t.T @ t, np.diag(found.eigenvalues), atol=1e-8 * found.eigenvalues[0]
    )
    assert found.residuals.max() < 1e-9
    assert found.orthogonality < 1e-9
    assert found.low_end is None or not found.is_indefinite


@pytest.mark.parametrize("name", MAPPED)
def test_primal_and_dual_agree(name, data):
    x, x_new = data
    primal, dual = fit("primal", VALID[name], x), fit("lapack", VALID[name], x)
    np.testing.assert_allclose(primal.eigenvalues, dual.eigenvalues, rtol=1e-9)
    scale = np.abs(dual.scores).max()
    np.testing.assert_allclose(primal.projection(x_new), dual.projection(x_new), atol=1e-8 * scale)
    assert primal.total == pytest.approx(dual.total, rel=1e-10)


SHARED = {
    "linear": (Linear(), {}),
    "poly": (Polynomial(3, 0.25, 1.0), {"degree": 3, "gamma": 0.25, "coef0": 1.0}),
    "rbf": (RBF(0.3), {"gamma": 0.3}),
    "sigmoid": (Sigmoid(0.1, 1.0), {"gamma": 0.1, "coef0": 1.0}),
    "cosine": (mercer.kernels.Cosine(), {}),
}


@pytest.mark.parametrize("n", [150, 700])
@pytest.mark.parametrize("name", sorted(SHARED))
@pytest.mark.filterwarnings("ignore::mercer._core.errors.IndefiniteKernelWarning")
def test_agrees_with_scikit_learn(name, n, rng):
    x, x_new = rng.standard_normal((n, 5)) / np.arange(1, 6), rng.standard_normal((20, 5))
    kernel, params = SHARED[name]
    reference = Reference(4, kernel=name, eigen_solver="dense", **params).fit(x)
    model = mercer.KernelPCA(4, kernel=kernel).fit(x)
    expected = reference.transform(x_new)
    scores = model.transform(x_new)
    signs = np.sign(np.einsum("ij,ij->j", scores, expected))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(model.eigenvalues_, reference.eigenvalues_, rtol=1e-9)


# ── the estimator ───────────────────────────────────────────────────────────
def test_a_large_fit_uses_the_float32_sketch_and_is_right_in_float64(rng):
    x = rng.standard_normal((3200, 3))
    model = mercer.KernelPCA(3, kernel=RBF(0.4)).fit(x)
    assert model.plan_.recipe.proof is not None
    assert model.residuals_.max() < 1e-6
    k = RBF(0.4)(x)
    centred = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    u = model.eigenvectors_
    np.testing.assert_allclose(
        centred @ u, u * model.eigenvalues_, atol=1e-6 * model.eigenvalues_[0]
    )
    exact = np.sort(eigsh(centred, 3, return_eigenvectors=False))[::-1]  # ARPACK, to rounding
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=1e-11)
    # Scores of the fit are products over √λ: off by no more than the residual that is told.
    gap = np.linalg.norm(model.transform(x) - model.fit_.scores, axis=0)
    assert np.all(
        gap * np.sqrt(model.eigenvalues_) <= model.residuals_ * model.eigenvalues_[0] + 1e-12
    )


def test_components_far_below_the_first_are_right_above_3000_rows(rng):
    x = rng.standard_normal((3001, 3))
    model = mercer.KernelPCA(20, kernel=RBF(1e-3)).fit(x)
    k = RBF(1e-3)(x)
    centred = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    exact = np.sort(eigsh(centred, 20, return_eigenvectors=False))[::-1]
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=1e-3)


def test_values_beyond_float32_do_without_the_sketch(rng):
    x = rng.standard_normal((3001, 3))
    plain = mercer.KernelPCA(2, kernel=RBF(0.3)).fit(x)
    huge = mercer.KernelPCA(2, kernel=1e40 * RBF(0.3)).fit(x)
    np.testing.assert_allclose(huge.eigenvalues_, 1e40 * plain.eigenvalues_, rtol=1e-10)


def test_the_plan_is_a_record_of_the_fit(data):
    x, _ = data
    model = mercer.KernelPCA(2, kernel=RBF(0.3), solver=BlockKrylov(tol=1e-5)).fit(x)
    model.set_params(solver__tol=1e-2)
    assert model.plan_.solver.tol == 1e-5


def test_n_components_as_a_share_is_the_smallest_k_that_reaches_it(data):
    x, _ = data
    everything = mercer.KernelPCA(None, kernel=RBF(0.3)).fit(x)
    for share in (0.3, 0.8, 0.95, 1.0):
        model = mercer.KernelPCA(share, kernel=RBF(0.3)).fit(x)
        cumulative = np.cumsum(everything.explained_variance_ratio_)
        k = min(int(np.sum(cumulative < share * (1 - 1e-12))) + 1, len(cumulative))
        assert len(model.eigenvalues_) == k


def test_a_share_of_a_large_problem_grows_k(rng):
    x = rng.standard_normal((3100, 2))
    model = mercer.KernelPCA(0.9, kernel=RBF(0.5)).fit(x)
    shares = model.explained_variance_ratio_
    assert shares.sum() >= 0.9 > shares[:-1].sum()
    assert isinstance(model.plan_.solver, BlockKrylov)


@pytest.mark.parametrize("n", [60, 700, 3100])  # LAPACK, a stored matrix, tiles
@pytest.mark.parametrize("kernel", [RBF(1e-6), Laplacian(1e-6)], ids=["rbf", "laplacian"])
def test_a_wide_kernel_of_float32_rows_is_solved_in_float64(kernel, n, rng):
    x, new = (rng.standard_normal((m, 4)).astype(np.float32) for m in (n, 20))
    single = mercer.KernelPCA(3, kernel=kernel).fit(x)
    exact = mercer.KernelPCA(3, kernel=kernel).fit(x.astype(np.float64))
    np.testing.assert_allclose(single.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
    scores = exact.transform(new.astype(np.float64))
    assert single.transform(new).dtype == np.float32
    np.testing.assert_allclose(
        single.transform(new), scores, rtol=0, atol=1e-5 * np.abs(scores).max()
    )


J = np.arange(1, 700)  # the centred matrix of 700 rows has one eigenvalue less
SPECTRA = {
    "flat": np.ones(699),
    "slow": J**-0.5,
    "fast": 0.9**J,
    "a cliff": np.where(J <= 40, 1.0, 1e-3),
    "a cliff, then slow": np.where(J <= 20, 1.0, 0.2 * J**-0.3),
    "few": np.where(J <= 30, 1.0 / J, 0.0),
    "indefinite": np.where(J <= 600, J**-1.0, -1e-4),
}


@pytest.mark.parametrize("name", sorted(SPECTRA))
def test_a_share_is_reached_by_the_fewest_whatever_the_spectrum(name, rng, monkeypatch):
    # As above 3000 rows: up to n/12 components by iterating.
    monkeypatch.setattr(sys.modules["mercer.planning.problem"], "SMALL_ROWS", 100)
    values = SPECTRA[name]
    q = np.linalg.qr(np.column_stack([np.ones(700), rng.standard_normal((700, 699))]))[0][:, 1:]
    matrix = (q * values) @ q.T
    for share in (0.2, 0.6, 0.9, 0.99):
        model = mercer.KernelPCA(share, kernel="precomputed", solver=BlockKrylov(tol=1e-10))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)  # not all are kernels
            model.fit(matrix)
        least = int(np.argmax(np.cumsum(values) >= share * values.sum() * (1.0 - 1e-9))) + 1
        assert len(model.eigenvalues_) == least
        np.testing.assert_allclose(model.eigenvalues_, values[:least], rtol=0, atol=1e-9)


def test_the_ratio_is_of_the_true_trace_and_all_of_them_sum_to_one(data):
    x, _ = data
    few, everything = (mercer.KernelPCA(k, kernel=RBF(0.3)).fit(x) for k in (2, None))
    np.testing.assert_allclose(
        few.explained_variance_ratio_, everything.explained_variance_ratio_[:2], rtol=1e-10
    )
    assert everything.explained_variance_ratio_.sum() == pytest.approx(1.0, abs=1e-10)
    assert few.explained_variance_ratio_.sum() < 0.9
    variances = few.transform(x).var(axis=0, ddof=1)
    np.testing.assert_allclose(few.explained_variance_, variances, rtol=1e-10)


def test_two_features_give_more_than_two_components(rng):
    x = rng.standard_normal((120, 2))
    assert mercer.KernelPCA(100, kernel=RBF(5.0)).fit_transform(x).shape == (120, 100)


def test_two_runs_agree_to_the_last_bit(rng):
    x = rng.standard_normal((600, 3))
    first, second = (mercer.KernelPCA(3).fit(x) for _ in range(2))
    np.testing.assert_array_equal(first.eigenvectors_, second.eigenvectors_)
    np.testing.assert_array_equal(first.transform(x), second.transform(x))


@pytest.mark.parametrize("n", [80, 600])
def test_float32_stays_float32_and_is_near(n, rng):
    x = rng.standard_normal((n, 3))
    double = mercer.KernelPCA(2, kernel=RBF(0.3), preimage="ridge").fit(x)
    single = mercer.KernelPCA(2, kernel=RBF(0.3), preimage="ridge").fit(x.astype(np.float32))
    scores = single.transform(x.astype(np.float32))
    for array in (
        scores,
        single.eigenvalues_,
        single.eigenvectors_,
        single.inverse_transform(scores),
    ):
        assert array.dtype == np.float32
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-4)
    np.testing.assert_allclose(scores, double.transform(x), atol=2e-3)


def test_mutating_the_data_after_the_fit_changes_nothing(rng):
    x = rng.standard_normal((50, 3))
    model = mercer.KernelPCA(2, kernel=RBF(0.3)).fit(x)
    before = model.transform(x[:5].copy())
    probe = x[:5].copy()
    x[:] = 0.0
    np.testing.assert_array_equal(model.transform(probe), before)


def test_sparse_rows_give_the_same(rng):
    x = rng.random((90, 8)) * (rng.random((90, 8)) < 0.4)
    for kernel in (RBF(0.5), Linear(), Polynomial(2), mercer.kernels.Laplacian(0.5)):
        dense, thin = (mercer.KernelPCA(3, kernel=kernel).fit(m) for m in (x, sparse.csr_matrix(x)))
        np.testing.assert_allclose(thin.eigenvalues_, dense.eigenvalues_, rtol=1e-10)
        np.testing.assert_allclose(
            thin.transform(sparse.csr_array(x)), dense.transform(x), atol=1e-9 * np.abs(x).max()
        )


def test_a_precomputed_matrix_is_the_kernel_itself(data):
    x, x_new = data
    kernel = RBF(0.3)
    matrix = frozen(kernel(x))
    given = mercer.KernelPCA(3, kernel="precomputed").fit(matrix)
    made = mercer.KernelPCA(3, kernel=kernel).fit(x)
    np.testing.assert_allclose(given.transform(kernel(x_new, x)), made.transform(x_new), atol=1e-10)
    np.testing.assert_allclose(given.explained_variance_ratio_, made.explained_variance_ratio_)
    rounded = kernel(x)
    rounded[0, 1] *= 1 + 1e-14  # symmetric within rounding: made symmetric
    mercer.KernelPCA(3, kernel="precomputed").fit(rounded)


@pytest.mark.parametrize(
    "kernel",
    [
        "rbf",
        gp.Matern(1.2, nu=1.5),
        lambda x, y: x @ y.T,
        lambda x, y: float(np.exp(-abs(x - y).sum())),
    ],
)
def test_whatever_a_user_calls_a_kernel_works(kernel, data):
    x, x_new = data
    model = mercer.KernelPCA(2, kernel=kernel)
    np.testing.assert_allclose(model.fit_transform(x), model.transform(x), atol=1e-9)
    assert model.transform(x_new).shape == (len(x_new), 2)


def test_grid_search_reaches_the_knobs_of_the_parts():
    x, y = make_circles(120, factor=0.3, noise=0.05, random_state=0)
    pipeline = make_pipeline(mercer.KernelPCA(2, kernel=RBF(), solver=BlockKrylov()), LinearSVC())
    grid = {"kernelpca__kernel__gamma": [1e-3, 2.0], "kernelpca__solver__tol": [1e-6]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(x, y)
    assert search.best_params_["kernelpca__kernel__gamma"] == 2.0
    assert search.best_score_ == 1.0
    assert search.best_estimator_[0].plan_.solver.tol == 1e-6


def test_each_parameter_reaches_its_part(data):
    x, _ = data
    model = mercer.KernelPCA(
        3,
        kernel=RBF("scale"),
        solver=BlockKrylov(tol=1e-5),
        preimage=mercer.preimage.Ridge(alpha=0.1),
    ).fit(x)
    assert model.kernel_.gamma == pytest.approx(1 / (x.shape[1] * x.var()))
    assert model.kernel.gamma == "scale"  # the user's object stays as it was
    assert model.plan_.solver.tol == 1e-5
    assert model.preimage_.method.alpha == 0.1
    assert repr(clone(model)) == repr(model)


@pytest.mark.parametrize("kind", [mercer.KernelPCA, mercer.PCA, mercer.IncrementalKernelPCA])
def test_a_question_about_rows_asks_once_whether_there_is_a_fit(kind, monkeypatch, data):
    model, asked = kind(2).fit(data[0]), []
    known = mercer.estimators.base.check_is_fitted
    monkeypatch.setattr(
        mercer.estimators.base, "check_is_fitted", lambda own: asked.append(1) or known(own)
    )
    for question in (model.transform, model.reconstruction_error):
        asked.clear()
        question(data[1])
        assert len(asked) == 1  # each time the tags of the class are made anew


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_come_out_as_asked(library, rng):
    frames = pytest.importorskip(library)
    x = frames.DataFrame({name: rng.standard_normal(40) for name in "abc"})
    model = mercer.KernelPCA(2).set_output(transform=library)
    out = model.fit_transform(x)
    assert list(out.columns) == ["kernelpca0", "kernelpca1"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert list(model.get_feature_names_out()) == ["kernelpca0", "kernelpca1"]


def test_evidence_prints_in_a_few_lines_and_html_is_not_flooded(rng):
    model = mercer.KernelPCA(2).fit(rng.standard_normal((500, 3)))
    text = str(model.fit_)
    assert 5 <= len(text.splitlines()) <= 10
    for word in (
        "variance",
        "residuals",
        "orthogonal",
        "positive semi-definite",
        "block product",
        "n=500",
    ):
        assert word in text
    assert len(repr(model)) < 200
    few = mercer.KernelPCA(2).fit(rng.standard_normal((50, 3)))
    assert len(model._repr_html_()) < len(few._repr_html_()) + 200  # arrays are not written out


# ── circles and moons ───────────────────────────────────────────────────────
def test_circles_and_moons_are_separated():
    x, y = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    scores = mercer.KernelPCA(2, kernel=RBF(10.0)).fit_transform(x)
    assert LinearSVC().fit(x, y).score(x, y) < 0.8
    assert LinearSVC().fit(scores, y).score(scores, y) == 1.0
    x, y = make_moons(50, random_state=0)
    first = mercer.KernelPCA(1, kernel=RBF(15.0)).fit_transform(x)
    assert LinearSVC().fit(first, y).score(first, y) == 1.0


# ── what has to be said ─────────────────────────────────────────────────────
@pytest.mark.parametrize("n", [60, 600])
@pytest.mark.parametrize("kernel", [INDEFINITE["sigmoid"], Linear() - 2.0 * RBF(0.3)], ids=repr)
def test_an_indefinite_kernel_is_told_with_its_share(kernel, n, rng):
    x = rng.standard_normal((n, 4))
    values = np.linalg.eigvalsh(_centred(kernel(x)))
    with pytest.warns(IndefiniteKernelWarning, match="eigenvalue mass is negative") as caught:
        model = mercer.KernelPCA(2, kernel=kernel).fit(x)
    share = -values[values < 0].sum() / np.abs(values).sum()
    said = float(str(caught[0].message).split("%")[0].split()[-1]) / 100
    assert said <= share + 1e-3
    assert said >= 0.3 * share
    assert model.fit_.low_end.lowest >= values[0] - 1e-9
    assert model.fit_.low_end.lowest <= 0.9 * values[0]


def _centred(k):
    return k - k.mean(0) - k.mean(1)[:, None] + k.mean()


def test_the_negative_of_a_kernel_is_refused(rng):
    for n in (60, 600):
        with pytest.raises(mercer._core.errors.KernelError, match="No eigenvalue is positive"):
            mercer.KernelPCA(2, kernel=INDEFINITE["minus-rbf"]).fit(rng.standard_normal((n, 4)))


def distance(a, b):
    return float(np.linalg.norm(a - b))


@pytest.mark.parametrize("solver", ["auto", "lanczos", "krylov"])
@pytest.mark.parametrize("seed", range(6))
def test_rounding_beside_negative_eigenvalues_is_not_a_component(seed, solver):
    """Distances have none that is positive, but for rounding of either sign."""
    x = np.random.default_rng(seed).standard_normal((60, 5))
    k = np.linalg.norm(x[:, None] - x, axis=2)
    smallest = f"{np.linalg.eigvalsh(_centred(k)).min():.3g}"
    for kernel, rows, name in ((distance, x, "distance"), ("precomputed", k, "D")):
        told = rf"beyond rounding: .* the smallest {smallest}; .* zero diagonal and .*gamma \* {name}\*\*2"
        with pytest.raises(mercer._core.errors.KernelError, match=told):
            mercer.KernelPCA(2, kernel=kernel, solver=solver).fit(rows)
    with pytest.raises(
        mercer._core.errors.KernelError, match="; K is not a kernel, and on these data"
    ):
        mercer.KernelPCA(2, kernel="precomputed", solver=solver).fit(-x @ x.T)


def test_of_a_negative_trace_there_is_no_share(rng):
    x = rng.standard_normal((60, 5))
    k = 0.15 * x @ x.T - RBF(0.3)(x)
    with pytest.warns(IndefiniteKernelWarning):
        model = mercer.KernelPCA(1, kernel="precomputed").fit(k)
    assert np.trace(_centred(k)) < 0 < model.eigenvalues_[0]
    assert np.all(np.isnan(model.explained_variance_ratio_))
    assert "1 component keeps an undefined share of it (true trace -" in str(model.fit_)
    assert "variance kept undefined" in repr(model.fit_)
    assert Fitted.of(model).shares is None  # or views would draw NaN


def test_a_python_function_is_called_once_a_pair(rng):
    n = 120
    x = rng.standard_normal((n, 2))
    calls = []

    def kernel(a, b):
        calls.append(1)
        return float(np.exp(-np.sum((a - b) ** 2)))

    mercer.KernelPCA(2, kernel=kernel).fit(x)
    # Tiles on the diagonal hold both halves; symmetry is tried on 12 rows, and the diagonal is asked for.
    assert len(calls) < 1.15 * n**2 / 2 + 12**2 + 3 * n


def test_a_flat_spectrum_is_told(rng):
    x = 100 * rng.standard_normal((200, 10))
    with pytest.warns(FlatSpectrumWarning, match="order by variance is meaningless"):
        model = mercer.KernelPCA(3, kernel=RBF("1/d")).fit(x)  # scikit-learn crashes here
    np.testing.assert_allclose(model.eigenvalues_, 1.0, atol=1e-6)


def test_fewer_components_than_asked_is_told(rng):
    with pytest.warns(RankWarning, match="only 3 have a variance"):
        model = mercer.KernelPCA(5, kernel="linear").fit(rng.standard_normal((30, 3)) * [1, 2, 5])
    assert model.transform(np.zeros((1, 3))).shape == (1, 3)


def test_an_unconverged_fit_is_told(rng):
    x = rng.standard_normal((600, 20))
    solver = BlockKrylov(tol=1e-14, max_products=1, landmarks=0, block=1)
    with pytest.warns(UnconvergedWarning, match="max_products"):
        mercer.KernelPCA(1, kernel=RBF(0.02), solver=solver).fit(x)


def test_histogram_kernels_fit(histograms):
    model = mercer.KernelPCA(2, kernel=HISTOGRAM["chi2"])
    np.testing.assert_allclose(
        model.fit_transform(histograms), model.transform(histograms), atol=1e-12
    )


# ── how often a function of Python is called ────────────────────────────────
class _Counted:
    """A kernel of two points, or of two matrices, that counts for which rows it is asked."""

    def __init__(self, form):
        self.form, self.pairs, self.asked = form, Counter(), 0

    def __call__(self, x, y):
        self.asked += 1
        if self.form == "points":
            if np.ndim(x) != 1:
                raise TypeError
            self.pairs[int(x[0]), int(y[0])] += 1
            return float(np.exp(-0.1 * np.sum((x[1:] - y[1:]) ** 2)))
        self.pairs.update((int(a), int(b)) for a in x[:, 0] for b in y[:, 0])
        return np.exp(-0.1 * np.sum((x[:, None, 1:] - y[None, :, 1:]) ** 2, axis=2))


@pytest.mark.parametrize("solver", ["auto", "lapack", "lanczos", "krylov"])
@pytest.mark.parametrize("form", ["points", "matrices"])
@pytest.mark.parametrize("n", [60, 310])
def test_an_exact_fit_asks_a_function_for_each_pair_of_rows_once(n, form, solver, rng):
    """The docstring of `Custom` says how often; to find out the form takes one more call."""
    x = np.column_stack([np.arange(n), rng.standard_normal((n, 2))])
    function = _Counted(form)
    mercer.KernelPCA(2, kernel=function, solver=solver).fit(x)
    unasked = function.asked
    function.pairs.clear()
    function.asked = 0
    model = mercer.KernelPCA(2, kernel=Custom(function, form), solver=solver).fit(x)
    assert function.asked == unasked - 1
    usual = {pair: 1 + (pair[0] == pair[1]) for pair in function.pairs}
    again = {pair for pair, times in function.pairs.items() if times > usual[pair]}
    assert all(function.pairs[pair] == usual[pair] + 1 for pair in again)
    assert len({i for pair in again for i in pair}) == 12
    assert len({frozenset(pair) for pair in function.pairs}) == n * (n + 1) // 2
    function.pairs.clear()
    new = np.column_stack([n + np.arange(7), rng.standard_normal((7, 2))])
    model.transform(new)
    assert function.pairs == Counter((int(a), b) for a in new[:, 0] for b in range(n))
