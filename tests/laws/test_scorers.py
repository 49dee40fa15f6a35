"""Laws of scorers without labels, and of the detector with PyOD's conventions."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA as Reference
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from conftest import frozen
from mercer import PCA, KernelPCA, KernelPCADetector
from mercer.errors import InputError, ParameterError
from mercer.kernels import RBF
from mercer.pyod import KernelPCADetector as PyodDetector
from mercer.scorers import Denoising, denoising, variance

RNG = np.random.default_rng(0)
PLANE = frozen(
    RNG.standard_normal((240, 3)) @ RNG.standard_normal((3, 12))
    + 0.2 * RNG.standard_normal((240, 12))
)
CIRCLES = frozen(make_circles(200, factor=0.3, noise=0.05, random_state=0)[0])


# ── scorers ─────────────────────────────────────────────────────────────────
def test_without_noise_it_is_the_mean_r2_of_the_columns():
    model, new = PCA(2).fit(PLANE[:150]), PLANE[150:]
    expected = r2_score(new, model.inverse_transform(model.transform(new)))
    assert Denoising(noise=0.0)(model, new) == pytest.approx(expected, rel=1e-12)


def test_all_components_let_all_of_the_noise_through():
    model = PCA().fit(PLANE)
    score = Denoising(noise=0.5)(model, PLANE)
    # The error is the noise itself: 4 · 240 · 12 squares of mean 0.25 and variance 2 · 0.25².
    assert score == pytest.approx(1 - 0.25, abs=4 * np.sqrt(2 * 0.25**2 / (2 * 240 * 12)))


def test_the_structure_that_is_there_is_found():
    search = GridSearchCV(PCA(), {"n_components": [1, 2, 3, 5, 12]}, scoring=denoising).fit(PLANE)
    assert search.best_params_ == {"n_components": 3}


def test_units_do_not_matter_behind_a_scaler():
    units = 10.0 ** np.arange(-6, 6)
    pipeline = make_pipeline(StandardScaler(), PCA(3))
    plain = denoising(clone(pipeline).fit(PLANE), PLANE)
    assert denoising(pipeline.fit(PLANE * units), PLANE * units) == pytest.approx(plain, rel=1e-9)


def test_a_foreign_model_is_scored_as_ours():
    ours, theirs = PCA(3).fit(PLANE), Reference(3).fit(PLANE)
    assert denoising(ours, PLANE) == pytest.approx(denoising(theirs, PLANE), rel=1e-9)


def test_kernels_are_scored_through_their_pre_image():
    model = KernelPCA(8, kernel=RBF(1.0), preimage="ridge").fit(CIRCLES)
    assert 0.5 < denoising(model, CIRCLES) < 1.0
    assert denoising(model, CIRCLES) == denoising(pickle.loads(pickle.dumps(model)), CIRCLES)
    with pytest.raises(InputError, match="preimage=None"):
        denoising(KernelPCA(2).fit(CIRCLES), CIRCLES)


def test_variance_is_the_sum_of_the_eigenvalues_on_the_rows_of_the_fit():
    for whiten in (False, True):
        model = KernelPCA(4, kernel=RBF(1.0), whiten=whiten).fit(CIRCLES)
        assert variance(model, CIRCLES) == pytest.approx(model.eigenvalues_.sum() / 200, rel=1e-9)


def test_variance_takes_a_medium_width_and_more_components():
    grid = {"kernel": [RBF(1e-3), RBF(1.0), RBF(1e3)]}
    search = GridSearchCV(KernelPCA(5), grid, scoring=variance).fit(CIRCLES)
    assert search.best_params_["kernel"].gamma == 1.0
    pipeline = make_pipeline(StandardScaler(), KernelPCA(5, kernel=RBF(1.0))).fit(CIRCLES)
    few = make_pipeline(StandardScaler(), KernelPCA(2, kernel=RBF(1.0))).fit(CIRCLES)
    assert variance(few, CIRCLES) < variance(pipeline, CIRCLES) < 1.0


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(InputError, match=r"k\(x, x\) = 1.*normalised"):
        variance(KernelPCA(2, kernel="poly").fit(CIRCLES), CIRCLES)
    with pytest.raises(InputError, match="KernelPCA"):
        variance(PCA(2).fit(PLANE), PLANE)
    with pytest.raises(ParameterError, match="noise must be"):
        Denoising(noise=-1.0)(PCA(2).fit(PLANE), PLANE)
    with pytest.raises(InputError, match="got a LogisticRegression"):
        denoising(LogisticRegression().fit(CIRCLES, CIRCLES[:, 0] > 0), CIRCLES)


def test_frames_keep_their_names():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {f"c{i}": column for i, column in enumerate(PLANE.T)}
    expected = denoising(PCA(3).fit(PLANE), PLANE)
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        assert denoising(PCA(3).fit(frame), frame) == pytest.approx(expected, rel=1e-9)


# ── PyOD ────────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def rows():
    x = np.array(PLANE)
    x[:12] += 3.0 * np.random.default_rng(1).standard_normal((12, 12))
    return frozen(x)


def test_labels_scores_and_threshold_are_pyods(rows):
    model = PyodDetector(contamination=0.1).fit(rows)
    assert set(model.labels_) == {0, 1}
    assert model.labels_.sum() == 24
    assert_array_equal(model.labels_, model.decision_scores_ > model.threshold_)
    assert_array_equal(model.predict(rows), model.labels_)
    assert_array_equal(model.decision_function(rows), model.decision_scores_)
    assert model.labels_[:12].mean() > 0.9
    assert_array_equal(clone(model).fit_predict(rows), model.labels_)


def test_scores_rise_where_those_of_scikit_learns_form_fall(rows):
    theirs = KernelPCADetector(contamination=0.1).fit(rows)
    model = PyodDetector(contamination=0.1).fit(rows)
    assert_array_equal(model.decision_function(rows), -theirs.score_samples(rows))
    # Both call the same training rows outliers: their thresholds are between the same two scores.
    assert_array_equal(model.labels_ == 1, theirs.predict(rows) == -1)


def test_the_numbers_are_those_of_pyods_base_class(rows):
    base = pytest.importorskip("pyod.models.base", exc_type=ImportError)
    model = PyodDetector(contamination=0.1).fit(rows)

    class Theirs(base.BaseDetector):
        def __init__(self, contamination=0.1):
            super().__init__(contamination=contamination)

        def fit(self, X, y=None):  # noqa: ARG002
            self._set_n_classes(y)
            self.decision_scores_ = model.decision_scores_
            self._process_decision_scores()
            return self

        def decision_function(self, X):
            return model.decision_function(X)

    theirs, new = Theirs(contamination=0.1).fit(rows), rows[::7] * 1.3
    assert model.threshold_ == pytest.approx(theirs.threshold_, rel=1e-15)
    assert_array_equal(model.labels_, theirs.labels_)
    assert_array_equal(model.predict(new), theirs.predict(new))
    for method in ("linear", "unify"):
        assert_allclose(
            model.predict_proba(new, method), theirs.predict_proba(new, method), atol=1e-12
        )
    assert_allclose(model.predict_confidence(new), theirs.predict_confidence(new), atol=1e-12)


def test_shares_are_in_order(rows):
    model = PyodDetector(contamination=0.05, statistic="Q").fit(rows)
    order = np.argsort(model.decision_function(rows))
    for method in ("linear", "unify"):
        shares, confidence = model.predict_proba(rows, method, return_confidence=True)
        assert_allclose(shares.sum(axis=1), 1.0)
        assert np.all(np.diff(shares[order, 1]) >= 0)
        assert np.all((confidence >= 0) & (confidence <= 1))
    with pytest.raises(ParameterError, match="'linear' or 'unify'"):
        model.predict_proba(rows, "other")
    with pytest.raises(ParameterError, match="contamination must be"):
        PyodDetector(contamination=0.7).fit(rows)


def test_the_detector_inside_explains(rows):
    model = PyodDetector(model=PCA(3)).fit(rows)
    assert isinstance(model.detector_, KernelPCADetector)
    assert model.detector_.contributions(rows[:2]).shape == (2, 12)
    assert mercer.pyod.KernelPCADetector is PyodDetector
