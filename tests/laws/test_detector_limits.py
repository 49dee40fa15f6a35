"""Laws of a detector's limits: no row lies on one, and a row of weight two is a row that is there twice."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from conftest import frozen
from mercer import PCA, IncrementalKernelPCA, KernelPCADetector
from mercer._core.errors import DetectorWarning
from mercer.kernels import RBF
from mercer.monitoring.limits import box_limit, half_way, order_limit


def rows(n, *, d=4, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).standard_normal((2, d))
    return frozen(rng.standard_normal((n, 2)) @ mixing + 0.3 * rng.standard_normal((n, d)))


MODELS = {
    "wide": {"n_components": 3},
    "median": {"n_components": 8, "kernel": "rbf"},
    "linear": {"n_components": 2, "kernel": "linear"},
    "polynomial": {"n_components": 5, "kernel": "poly"},
    "pca": {"model": PCA(2)},
    "stream": {"model": IncrementalKernelPCA(4, kernel=RBF(0.1), max_landmarks=40)},
}


# ── no row on a limit ───────────────────────────────────────────────────────
@pytest.mark.filterwarnings("ignore::mercer._core.errors.DetectorWarning")
@pytest.mark.parametrize("statistic", ["T2", "Q", "combined"])
@pytest.mark.parametrize("model", MODELS)
def test_labels_do_not_depend_on_the_rows_beside(model, statistic):
    """The row that a limit comes from would be an alarm by rounding alone, in some batches only."""
    for seed in range(6):
        x = rows(40 + 7 * seed, seed=seed)
        detector = KernelPCADetector(**MODELS[model], statistic=statistic, contamination=0.1).fit(x)
        labels = detector.predict(x)
        assert np.sum(labels == -1) == round(0.1 * len(x))
        alone = np.concatenate([detector.predict(x[i : i + 1]) for i in range(len(x))])
        shuffled = np.random.default_rng(seed).permutation(len(x))
        np.testing.assert_array_equal(alone, labels)
        np.testing.assert_array_equal(detector.predict(x[shuffled]), labels[shuffled])


@pytest.mark.parametrize("model", MODELS)
def test_a_limit_is_half_way_to_the_next_row(model):
    x = rows(60)
    for statistic, name in (("T2", "T2"), ("Q", "Q"), ("combined", "index")):
        with warnings.catch_warnings():  # T² alone is blind to far rows, and says so
            warnings.simplefilter("ignore", DetectorWarning)
            detector = KernelPCADetector(
                **MODELS[model], contamination=0.1, statistic=statistic
            ).fit(x)
        limit = {"T2": detector.limits_.t2, "Q": detector.limits_.q, "index": -detector.offset_}[
            name
        ]
        below, above = np.sort(detector.statistics(x)[name])[[53, 54]]  # six of sixty lie above
        np.testing.assert_allclose(limit, 0.5 * (below + above), rtol=1e-6)


def test_half_way_among_equal_values():
    values = np.array([1.0, 2.0, 2.0, 2.0, 5.0])
    assert half_way(values, 2) == half_way(values, 4) == 3.5
    assert 5.0 < half_way(values, 5) < 5.0 + 1e-6
    assert 2.0 < half_way(np.full(4, 2.0), 2) < 2.0 + 1e-6
    assert half_way(np.array([1.0, 2.0, np.inf]), 2) < 2.0 + 1e-6


# ── weights ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_quantiles_of_weighted_values_are_those_of_repeated_ones(rate):
    rng = np.random.default_rng(0)
    values, counts = rng.exponential(size=300), rng.integers(1, 5, 300)
    many = np.repeat(values, counts)
    weights = counts.astype(float)
    assert order_limit(values, rate, weights) == order_limit(many, rate)
    assert half_way(values, 200.0, weights) == half_way(many, 200.0)
    np.testing.assert_allclose(box_limit(values, rate, weights), box_limit(many, rate), rtol=1e-12)


KINDS = {
    "contamination": {"contamination": 0.1},
    "approximate": {"limits": "approximate", "false_alarm": 0.05},
    "held out": {"false_alarm": 0.05},
    "few": {"false_alarm": 0.005},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["wide", "median", "linear", "pca"])
def test_weight_two_is_a_row_twice(model, kind):
    """Weights of 1, 2 and 3 in five parts alike, so that stretches of equal weight begin at the same rows."""
    x, new = rows(120), rows(30, seed=1)
    counts = np.tile(np.repeat([1, 2, 3], 8), 5)
    weighed = KernelPCADetector(**MODELS[model], **KINDS[kind])
    repeated = KernelPCADetector(**MODELS[model], **KINDS[kind])
    weighed.fit(x, sample_weight=counts)
    repeated.fit(np.repeat(x, counts, axis=0))
    np.testing.assert_allclose(weighed.center_, repeated.center_, rtol=1e-10)
    np.testing.assert_allclose(weighed.spread_, repeated.spread_, rtol=1e-10)
    ours, theirs = weighed.limits_, repeated.limits_
    np.testing.assert_allclose(
        [ours.t2, ours.q, ours.index], [theirs.t2, theirs.q, theirs.index], rtol=1e-6
    )
    np.testing.assert_allclose(
        weighed.score_samples(new), repeated.score_samples(new), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        weighed.contributions(new, "Q"), repeated.contributions(new, "Q"), rtol=1e-5, atol=1e-8
    )


@pytest.mark.parametrize("order", ["independent", "slow"])
@pytest.mark.parametrize("model", ["wide", "linear", "pca"])
def test_any_whole_weights_are_copies_side_by_side(model, order):
    """Wherever stretches begin: the copies of a row are held out together, as the row is."""
    for seed, n in ((0, 80), (1, 83), (2, 121)):
        x = rows(n, seed=seed)
        if order == "slow":
            x = np.cumsum(x, axis=0) * 0.2 + x
        counts = np.random.default_rng(seed).integers(1, 4, n)
        one, other = (KernelPCADetector(**MODELS[model], false_alarm=0.1) for _ in range(2))
        with warnings.catch_warnings():  # a slow process is told in both
            warnings.simplefilter("ignore", DetectorWarning)
            ours = one.fit(x, sample_weight=counts).limits_
            theirs = other.fit(np.repeat(x, counts, axis=0)).limits_
        np.testing.assert_allclose(
            [ours.t2, ours.q, ours.index], [theirs.t2, theirs.q, theirs.index], rtol=1e-6
        )


def test_weights_with_a_splitter():
    x, new = rows(90), rows(20, seed=1)
    counts = np.random.default_rng(2).integers(1, 4, 90)
    fold = np.random.default_rng(3).integers(0, 4, 90)
    knobs = {"n_components": 2, "kernel": "linear", "false_alarm": 0.05}
    weighed = KernelPCADetector(**knobs, folds=PredefinedSplit(fold)).fit(x, sample_weight=counts)
    repeated = KernelPCADetector(**knobs, folds=PredefinedSplit(np.repeat(fold, counts)))
    repeated.fit(np.repeat(x, counts, axis=0))
    np.testing.assert_allclose(weighed.score_samples(new), repeated.score_samples(new), rtol=1e-7)


def test_a_row_of_weight_zero_is_not_there():
    x, new = rows(100), rows(20, seed=1)
    weights = np.ones(100)
    weights[::7] = 0.0
    one = KernelPCADetector(2).fit(x, sample_weight=weights)
    other = KernelPCADetector(2).fit(x[weights > 0])
    np.testing.assert_array_equal(one.score_samples(new), other.score_samples(new))


def test_equal_weights_of_one_change_nothing():
    x = rows(100)
    one, other = (
        KernelPCADetector(2).fit(x, sample_weight=np.ones(100)),
        KernelPCADetector(2).fit(x),
    )
    assert one.limits_ == other.limits_


def test_weights_are_routed():
    x, weights = rows(100), np.random.default_rng(0).integers(1, 4, 100)
    direct = KernelPCADetector(2).fit(x, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        line = make_pipeline(
            FunctionTransformer(), KernelPCADetector(2).set_fit_request(sample_weight=True)
        )
        line.fit(x, sample_weight=weights)
    assert line[-1].limits_ == direct.limits_
