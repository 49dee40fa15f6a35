"""Laws of models made from fitted models, of whitened scores, and of components that are not there."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA as Reference
from sklearn.decomposition import KernelPCA as KernelReference
from sklearn.model_selection import GridSearchCV, KFold

import mercer
from conftest import frozen
from mercer import PCA, IncrementalKernelPCA, KernelPCA, Prepared
from mercer.approximations import RPCholesky
from mercer.errors import InputError, ParameterError, RankWarning
from mercer.kernels import RBF
from mercer.preimage import Ridge
from mercer.preprocessing.preparation import Preparation
from mercer.sklearn import KernelPCA as DropIn
from mercer.solvers import BlockKrylov

MOONS = make_moons(120, noise=0.1, random_state=0)[0] @ [[1.0, 0.3, 0.0], [0.0, 1.0, 2.0]]
X = frozen(MOONS + 0.1 * np.random.default_rng(2).standard_normal((120, 3)) + 0.5)
WEIGHTS = frozen(np.arange(120) % 3 + 0.5)
SMOOTH = Ridge(alpha=1e-2)
NEW = frozen(np.random.default_rng(1).standard_normal((7, 3)))
# A tolerance of 0 means equal to the bit: all eigenpairs are found there, however many are asked for.
MODELS = {
    "lapack": (KernelPCA(8), 1e-12),
    "krylov": (KernelPCA(8, kernel=RBF(0.5), solver=BlockKrylov(tol=1e-12)), 1e-8),
    "explicit map": (KernelPCA(8, kernel="poly"), 0.0),
    "linear": (KernelPCA(3, kernel="linear"), 0.0),
    "landmarks": (KernelPCA(8, approximation=RPCholesky(rank=30)), 1e-12),
    "random features": (KernelPCA(8, approximation="fourier"), 1e-12),
    "pca": (PCA(3), 0.0),
    "stream": (IncrementalKernelPCA(8, max_landmarks=40), 0.0),
}


@pytest.fixture(params=sorted(MODELS))
def case(request):
    return MODELS[request.param]


# ── fewer components ────────────────────────────────────────────────────────
def test_a_truncated_model_is_the_one_fitted_with_fewer(case):
    model, tol = case
    few = clone(model).fit(X).truncated(2)
    fitted = clone(model).set_params(n_components=2).fit(X)
    same = assert_array_equal if tol == 0.0 else lambda a, b: assert_allclose(a, b, atol=tol)
    same(few.eigenvalues_, fitted.eigenvalues_)
    same(few.fit_.projection.coef, fitted.fit_.projection.coef)
    assert_allclose(few.transform(NEW), fitted.transform(NEW), atol=max(tol, 1e-13))
    assert_allclose(
        few.explained_variance_ratio_, fitted.explained_variance_ratio_, atol=max(tol, 1e-15)
    )
    assert_allclose(few.fit_.bounds, fitted.fit_.bounds, rtol=1e-6, atol=1e-9)
    assert few.get_params()["n_components"] == 2
    assert few.fit_.warnings() == fitted.fit_.warnings() == []


def test_the_model_it_is_made_from_stays(case):
    model = clone(case[0]).fit(X)
    before, k = model.transform(NEW), model.n_components_
    few = model.truncated(1)
    assert_array_equal(model.transform(NEW), before)
    assert (model.n_components_, few.n_components_) == (k, 1)
    assert len(few.get_feature_names_out()) == 1


def test_a_truncated_model_goes_through_a_file(case, tmp_path):
    few = clone(case[0]).fit(X).truncated(np.int64(2))
    few.save(tmp_path / "few.mercer")
    again = mercer.load(tmp_path / "few.mercer")
    assert_array_equal(again.transform(NEW), few.transform(NEW))
    assert again.n_components == 2
    assert_array_equal(again.fit_.bounds, few.fit_.bounds)


def test_a_share_of_the_variance_truncates_to_as_many_as_a_fit_finds():
    everything = KernelPCA(None).fit(X)
    for share in (0.3, 0.9, 0.999):
        few, fitted = everything.truncated(share), KernelPCA(share).fit(X)
        assert few.n_components_ == fitted.n_components_
        assert few.explained_variance_ratio_.sum() >= share


@pytest.mark.parametrize("asked", [0, 9, 0.9999, "two", True])
def test_what_the_model_does_not_have_is_refused(asked):
    with pytest.raises(ParameterError, match=r"n_components must be an integer from 1 to 8"):
        KernelPCA(8).fit(X).truncated(asked)


def test_a_stream_goes_on_after_it_was_truncated():
    model = IncrementalKernelPCA(5, max_landmarks=40, batch_size=60).partial_fit(X[:60])
    few = model.truncated(2).partial_fit(X[60:])
    whole = model.partial_fit(X[60:])
    assert_allclose(few.eigenvalues_, whole.eigenvalues_[:2], rtol=1e-12)
    assert few.n_components_ == 2


# ── another pre-image ───────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "method", ["ridge", "fixed-point", "distances", "gradient", SMOOTH], ids=str
)
def test_a_pre_image_that_is_added_is_the_one_of_the_fit(method):
    fitted = KernelPCA(4, preimage=method).fit(X)
    added = KernelPCA(4).fit(X).with_preimage(method)
    assert_array_equal(added.reconstruct(0.3 * NEW), fitted.reconstruct(0.3 * NEW))
    assert added.plan_.preimage == fitted.plan_.preimage


def test_of_weighted_rows_too():
    # Weights are the squares of their roots, but for rounding, which this ridge does not amplify.
    fitted = KernelPCA(4, preimage=SMOOTH).fit(X, sample_weight=WEIGHTS)
    added = KernelPCA(4).fit(X, sample_weight=WEIGHTS).with_preimage(SMOOTH)
    assert_allclose(added.reconstruct(X), fitted.reconstruct(X), atol=1e-9)


def test_rows_that_are_not_kept_are_passed():
    model = KernelPCA(5, approximation=RPCholesky(rank=20))
    with pytest.raises(InputError, match=r"does not keep.*with_preimage\(…, X\)"):
        clone(model).fit(X).with_preimage("ridge")
    added = clone(model).fit(X).with_preimage("ridge", X)
    fitted = clone(model).set_params(preimage="ridge").fit(X)
    assert_array_equal(added.reconstruct(X), fitted.reconstruct(X))
    with pytest.raises(InputError, match=r"truncated\(…, X\)"):
        added.truncated(2)
    assert added.truncated(2, X).reconstruct(X).shape == X.shape


def test_other_rows_than_those_of_the_fit_are_refused():
    matrix = RBF(0.5)(X)
    model = KernelPCA(3, kernel="precomputed").fit(matrix)
    with pytest.raises(ValueError, match=r"50 features, .* expecting 120 .* a column for each"):
        model.with_preimage(Ridge(rows=X[:50]), matrix[:50, :50])
    added = model.with_preimage(Ridge(rows=X), matrix)
    fitted = KernelPCA(3, kernel="precomputed", preimage=Ridge(rows=X)).fit(matrix)
    assert_array_equal(added.reconstruct(matrix), fitted.reconstruct(matrix))


def test_a_pre_image_is_learned_again_for_fewer_components_and_can_be_left_out(tmp_path):
    fitted = KernelPCA(6, kernel=RBF(0.5), preimage="ridge").fit(X)
    few, own = fitted.truncated(3), KernelPCA(3, kernel=RBF(0.5), preimage="ridge").fit(X)
    assert_allclose(few.reconstruct(X), own.reconstruct(X), atol=1e-6)
    few.save(tmp_path / "few.mercer")
    assert_array_equal(mercer.load(tmp_path / "few.mercer").reconstruct(X), few.reconstruct(X))
    bare = few.with_preimage(None)
    with pytest.raises(InputError, match="preimage=None"):
        bare.inverse_transform(bare.transform(X))
    assert hasattr(few, "preimage_")


def test_a_stream_takes_another_pre_image():
    model = IncrementalKernelPCA(4, max_landmarks=40).fit(X)
    added = model.with_preimage("gradient")
    fitted = IncrementalKernelPCA(4, max_landmarks=40, preimage="gradient").fit(X)
    assert_array_equal(added.reconstruct(X[:9]), fitted.reconstruct(X[:9]))
    with pytest.raises(InputError, match="landmarks"):
        model.with_preimage("ridge", X)


# ── whitened scores ─────────────────────────────────────────────────────────
WHITE = {
    "exact": KernelPCA(5, whiten=True, preimage="ridge"),
    "single": KernelPCA(5, whiten=True, preimage="ridge"),
    "landmarks": KernelPCA(5, whiten=True, approximation=RPCholesky(rank=30)),
    "pca": PCA(3, whiten=True),
}


@pytest.mark.parametrize("name", sorted(WHITE))
def test_whitened_scores_have_unit_covariance(name):
    x = X.astype(np.float32) if name == "single" else X
    model = clone(WHITE[name])
    scores, again = model.fit_transform(x), model.transform(x)
    assert scores.dtype == x.dtype
    eps = float(np.finfo(x.dtype).eps) ** 0.5
    assert_allclose(np.cov(again.T), np.eye(scores.shape[1]), atol=max(eps, 1e-8))
    assert_allclose(scores, again, atol=max(eps, 1e-8))
    plain = clone(model).set_params(whiten=False).fit(x)
    assert_allclose(again * np.sqrt(plain.explained_variance_), plain.transform(x), atol=eps)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["rows", "weights"])
@pytest.mark.parametrize("model", [KernelPCA(4, preimage=SMOOTH), PCA(2)], ids=["kernel", "pca"])
def test_whitening_changes_neither_reconstruction_nor_evidence(model, weights):
    plain = clone(model).fit(X, sample_weight=weights)
    white = clone(model).set_params(whiten=True).fit(X, sample_weight=weights)
    assert_allclose(white.reconstruct(X), plain.reconstruct(X), atol=1e-8)
    assert_array_equal(white.explained_variance_, plain.explained_variance_)
    assert_array_equal(white.reconstruction_error(X), plain.reconstruction_error(X))
    assert_allclose(np.average(white.transform(X), axis=0, weights=weights), 0.0, atol=1e-12)


def test_whitened_pca_is_scikit_learns():
    ours, theirs = PCA(2, whiten=True).fit(X), Reference(2, whiten=True, svd_solver="full").fit(X)
    signs = np.sign(np.einsum("ij,ij->i", ours.components_, theirs.components_))
    assert_allclose(ours.transform(NEW) * signs, theirs.transform(NEW), atol=1e-10)
    z = np.array([[1.0, -2.0]])
    assert_allclose(ours.inverse_transform(z * signs), theirs.inverse_transform(z), atol=1e-12)


def test_whitening_goes_through_files_truncation_and_detectors(tmp_path):
    white = KernelPCA(5, whiten=True).fit(X)
    white.save(tmp_path / "white.mercer")
    assert_array_equal(mercer.load(tmp_path / "white.mercer").transform(NEW), white.transform(NEW))
    assert_allclose(white.truncated(2).transform(NEW), white.transform(NEW)[:, :2], atol=1e-12)
    plain, other = (mercer.KernelPCADetector(model=KernelPCA(2, whiten=w)) for w in (False, True))
    assert_array_equal(plain.fit(X).score_samples(NEW), other.fit(X).score_samples(NEW))


def test_a_whitened_graph_gives_whitened_scores():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    for model in (KernelPCA(3, whiten=True), PCA(2, whiten=True)):
        graph = mercer.onnx.to_onnx(model.fit(X))
        session = runtime.InferenceSession(graph.SerializeToString())
        (found, *_) = session.run(None, {session.get_inputs()[0].name: NEW})
        assert_allclose(found, model.transform(NEW), atol=1e-8)


# ── more components than there are ──────────────────────────────────────────
@pytest.mark.parametrize(
    "model",
    [KernelPCA(), PCA(), KernelPCA(kernel="poly"), KernelPCA(approximation="rpcholesky")],
    ids=["dual", "pca", "primal", "landmarks"],
)
def test_a_search_over_n_components_survives_small_folds(model):
    x = X[:24]
    with pytest.warns(RankWarning, match="30 components were asked for, but only"):
        clone(model).set_params(n_components=30).fit(x)
    search = GridSearchCV(
        model, {"n_components": [1, 20, 30]}, cv=KFold(8), scoring=_components, error_score="raise"
    )
    with pytest.warns(RankWarning):
        search.fit(x)
    counts = search.cv_results_["mean_test_score"]
    assert counts[0] == 1
    assert counts[1] <= counts[2] <= 20  # 21 rows have 20 components at most
    assert search.best_estimator_.n_components_ <= 23


def _components(model, _x, _y=None):
    return model.n_components_


def test_all_that_there_are_is_what_none_gives():
    x = X[:24]
    with pytest.warns(RankWarning):
        many = KernelPCA(1000).fit(x)
    assert_array_equal(many.transform(NEW), KernelPCA(None).fit(x).transform(NEW))


def test_a_detector_of_more_components_than_rows_says_what_it_needs():
    with pytest.warns(RankWarning), pytest.raises(InputError, match="are needed"):
        mercer.KernelPCADetector(n_components=121, kernel=RBF(1.0)).fit(X)


# ── the drop-in ─────────────────────────────────────────────────────────────
DROP_INS = {
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "explicit map": {"kernel": "poly", "gamma": 0.5, "degree": 2},
    "function": {"kernel": "rbf", "gamma": 0.0},  # all rows alike: no kernel of ours
    "dense": {"kernel": "cosine", "eigen_solver": "dense"},
}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["rows", "weights"])
@pytest.mark.parametrize("name", ["dense", "explicit map", "rbf"])
def test_the_drop_in_tells_what_kernel_pca_tells(name, weights):
    model = DropIn(3, **DROP_INS[name]).fit(X, sample_weight=weights)
    ours = KernelPCA(3, kernel=model._kernel()).fit(X, sample_weight=weights)
    assert_allclose(model.explained_variance_ratio_, ours.explained_variance_ratio_, rtol=1e-9)
    assert_allclose(model.explained_variance_, ours.explained_variance_, rtol=1e-9)
    assert model.fit_.total == pytest.approx(ours.fit_.total, rel=1e-9)
    assert model.residuals_.max() < 1e-11
    assert_allclose(model.fit_.projection(NEW), model.transform(NEW), atol=1e-12)
    assert_allclose(model.fit_.scores, model.transform(X), atol=1e-12)


def test_shares_of_the_drop_in_are_those_of_all_components():
    everything = KernelReference(None, kernel="rbf", gamma=0.5).fit(X).eigenvalues_
    model = DropIn(3, kernel="rbf", gamma=0.5).fit(X)
    assert_allclose(model.explained_variance_ratio_, everything[:3] / everything.sum(), rtol=1e-9)


def test_rows_without_variance_have_no_evidence():
    model = DropIn(2, **DROP_INS["function"]).fit(X)
    assert not hasattr(model, "explained_variance_ratio_")
    with pytest.raises(AttributeError, match="no variance in feature space"):
        model.truncated(1)
    assert not hasattr(DropIn(2), "explained_variance_ratio_")


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["rows", "weights"])
def test_a_truncated_drop_in_is_the_one_fitted_with_fewer(weights, tmp_path):
    params = {"kernel": "rbf", "gamma": 0.5, "fit_inverse_transform": True, "eigen_solver": "dense"}
    few = DropIn(6, **params).fit(X, sample_weight=weights).truncated(2)
    fitted = DropIn(2, **params).fit(X, sample_weight=weights)
    assert_allclose(few.transform(NEW), fitted.transform(NEW), atol=1e-10)
    assert_allclose(
        few.inverse_transform(NEW[:, :2]), fitted.inverse_transform(NEW[:, :2]), atol=1e-8
    )
    assert few.get_params() == fitted.get_params()
    few.save(tmp_path / "few.mercer")
    again = mercer.load(tmp_path / "few.mercer")
    assert_array_equal(again.transform(NEW), few.transform(NEW))
    assert_array_equal(again.explained_variance_ratio_, few.explained_variance_ratio_)


def test_rows_in_a_file_are_learned_from_where_they_are(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, X)
    model = KernelPCA(4).fit(np.load(path, mmap_mode="r"))
    expected = KernelPCA(4, preimage=SMOOTH).fit(X)
    assert_allclose(model.with_preimage(SMOOTH).reconstruct(X), expected.reconstruct(X), atol=1e-9)


def test_a_prepared_model_has_the_same_doors():
    raw = X * [1.0, 100.0, 1e-3]
    center, spread = raw.mean(axis=0), raw.std(axis=0)
    scaled = Preparation(numbers=("a", "b", "c"), center=center, spread=spread)
    exact, low = KernelPCA(5), KernelPCA(5, approximation=RPCholesky(rank=20))
    for model, rows in ((exact, None), (low, raw)):
        prepared = Prepared(scaled, model.fit((raw - center) / spread))
        few = prepared.with_preimage(SMOOTH, rows).truncated(2, rows)
        own = clone(model).set_params(n_components=2, preimage=SMOOTH).fit(prepared.rows(raw))
        assert_allclose(few.transform(raw), own.transform(prepared.rows(raw)), atol=1e-10)
        assert_allclose(few.reconstruct(raw), own.reconstruct(prepared.rows(raw)) * spread + center)
    with pytest.raises(InputError, match="A KernelPCADetector has no `truncated`"):
        Prepared(scaled, mercer.KernelPCADetector(2, kernel="linear").fit(X)).truncated(1)


# ── the rows of the fit, and no others ──────────────────────────────────────
NAMED = pd.DataFrame(np.asarray(X), columns=list("abc"))
ROWS_OF_OTHERS = {
    "columns in another order": NAMED[list("cba")],
    "too few columns": NAMED[["a", "b"]],
    "rows moved": NAMED + 5.0,
    "rows in another order": NAMED[::-1],
    "too few rows": NAMED[:50],
}


# A model of landmarks keeps no rows that others could be compared with, but their number.
REFUSED = [
    *(("exact", name, "[Ff]eature|rows that the model was fitted to") for name in ROWS_OF_OTHERS),
    *(("landmarks", name, "[Ff]eature") for name in ROWS_OF_OTHERS if "columns" in name),
    ("landmarks", "too few rows", "sample_weight must be the weights of the fit"),
]


@pytest.mark.parametrize(("kind", "name", "said"), REFUSED)
def test_rows_that_are_not_those_of_the_fit_are_refused(kind, name, said):
    approximation = None if kind == "exact" else RPCholesky(rank=30)
    model = KernelPCA(5, kernel=RBF(0.5), approximation=approximation, preimage=SMOOTH)
    model = model.set_params(random_state=0).fit(NAMED)
    for ask in (lambda x: model.with_preimage("ridge", x), lambda x: model.truncated(2, x)):
        with pytest.raises(ValueError, match=said):
            ask(ROWS_OF_OTHERS[name])


@pytest.mark.parametrize("name", ["lapack", "landmarks", "explicit map"])
def test_a_weighted_model_learns_its_pre_image_with_its_weights(name):
    params = {"preimage": SMOOTH, "random_state": 0}
    model = clone(MODELS[name][0]).set_params(**params).fit(X, sample_weight=WEIGHTS)
    scores = model.transform(NEW)[:, :2]
    expected = model.truncated(2, X, WEIGHTS).inverse_transform(scores)
    plain = clone(model).fit(X).truncated(2, X)
    assert np.abs(plain.inverse_transform(scores) - expected).max() > 1e-6  # weights matter here
    if model.fit_.roots is None:
        with pytest.raises(InputError, match="sample_weight must be the weights of the fit"):
            model.truncated(2, X)
    else:
        assert_allclose(model.truncated(2, X).inverse_transform(scores), expected, atol=1e-9)


def test_a_pre_image_that_is_left_out_leaves_the_plan():
    left = KernelPCA(5, preimage="ridge").fit(X).with_preimage(None)
    assert (left.plan_.preimage, left.plan_.preimage_bytes) == (None, 0)
    assert left.fit_.plan == left.plan_


@pytest.mark.parametrize("model", [KernelPCA(2), PCA(2)], ids=repr)
def test_whiten_is_looked_at_where_it_is_read(model):
    fitted = clone(model).fit(X).set_params(whiten="no")
    with pytest.raises(ParameterError, match="whiten must be True or False; got 'no'"):
        fitted.transform(X)


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(InputError, match="columns have different names; got 'a' twice"):
        KernelPCA(2).fit(pd.DataFrame(np.asarray(X), columns=list("aab")))
