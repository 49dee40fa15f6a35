"""Laws of the detector: textbook statistics, limits that hold their rate, contributions that add up."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA as TheirPCA
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import frozen
from markets.kernels import VALID
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import DetectorWarning, KernelError
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.engine.moments import Scale
from mercer.kernels import RBF
from mercer.monitoring.contributions import warn_incomplete
from mercer.monitoring.limits import box_limit, f_limit
from mercer.monitoring.statistics import Gauge


def process(n, *, d=6, seed=0):
    """Three hidden causes behind d sensors of different units, with noise."""
    mixing = np.random.default_rng(99).standard_normal((3, d))
    rng = np.random.default_rng(seed)
    units = np.logspace(-2, 3, d)
    return frozen(
        units * (5.0 + rng.standard_normal((n, 3)) @ mixing + 0.2 * rng.standard_normal((n, d)))
    )


@pytest.fixture(scope="module")
def x():
    return process(200)


@pytest.fixture(scope="module")
def x_new():
    return process(50, seed=1)


ROUTES = {
    "exact": {"n_components": 5, "kernel": RBF(0.05)},
    "rpcholesky": {"n_components": 5, "kernel": RBF(0.05), "approximation": RPCholesky(rank=60)},
    "nystrom": {"n_components": 5, "kernel": RBF(0.05), "approximation": Nystrom(landmarks=60)},
    "fourier": {"n_components": 5, "kernel": RBF(0.05), "approximation": RandomFourier(80)},
    "polynomial": {"n_components": 5, "kernel": "poly"},
    "linear": {"model": PCA(3)},
    "stream": {"model": IncrementalKernelPCA(5, kernel=RBF(0.05), max_landmarks=60)},
}


# ── the estimator ───────────────────────────────────────────────────────────
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@parametrize_with_checks(
    [
        KernelPCADetector(),
        KernelPCADetector(model=PCA(1), statistic="Q"),
        KernelPCADetector(model=PCA(1), contamination=0.1),
    ],
    expected_failed_checks=lambda detector: (
        {}
        if detector.contamination is not None
        else {
            "check_sample_weight_equivalence_on_dense_data": "it shuffles rows that are held out in stretches"
        }
    ),
)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:A row far from everything")
@pytest.mark.parametrize("statistic", ["T2", "Q", "combined"])
@pytest.mark.parametrize("route", ROUTES)
def test_predict_decision_and_offset_agree(route, statistic, x, x_new):
    detector = KernelPCADetector(**ROUTES[route], statistic=statistic, false_alarm=0.05).fit(x)
    rows = np.concatenate([x_new, x_new * 1.5])
    decision = detector.decision_function(rows)
    np.testing.assert_allclose(decision, detector.score_samples(rows) - detector.offset_)
    np.testing.assert_array_equal(detector.predict(rows), np.where(decision < 0, -1, 1))
    assert set(detector.predict(rows)) == {-1, 1}
    seen = detector.statistics(rows)
    limits = detector.limits_
    expected = {
        "T2": seen["T2"] > limits.t2,
        "Q": seen["Q"] > limits.q,
        "combined": np.maximum(seen["T2"] / limits.t2, seen["Q"] / limits.q) > limits.index,
    }
    np.testing.assert_array_equal(detector.predict(rows) == -1, expected[statistic])


def test_a_second_fit_is_the_same_to_the_bit(x, x_new):
    first, second = (KernelPCADetector(approximation=RPCholesky(rank=50)) for _ in range(2))
    np.testing.assert_array_equal(
        first.fit(x).decision_function(x_new), second.fit(x).decision_function(x_new)
    )
    assert first.limits_ == second.limits_


def test_single_precision_comes_back_and_changes_little(x, x_new):
    wide = KernelPCADetector(3).fit(x)
    narrow = KernelPCADetector(3).fit(x.astype(np.float32))
    scores = narrow.score_samples(x_new.astype(np.float32))
    assert scores.dtype == np.float32
    assert narrow.contributions(x_new.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(scores, wide.score_samples(x_new), rtol=2e-3)


@pytest.mark.parametrize("scale", [True, False])
def test_contamination_is_the_share_of_training_rows_above(scale, x):
    detector = KernelPCADetector(3, kernel="linear", contamination=0.1, scale=scale)
    assert np.sum(detector.fit_predict(x) == -1) == 20


# ── the statistics ──────────────────────────────────────────────────────────
def test_statistics_of_linear_pca_are_the_textbook_ones(x, x_new):
    detector = KernelPCADetector(model=PCA(3)).fit(x)
    scaler = StandardScaler().fit(x)
    spread = np.sqrt(len(x) / (len(x) - 1))  # theirs divides by n
    z, z_new = scaler.transform(x) / spread, scaler.transform(x_new) / spread
    theirs = TheirPCA(3).fit(z)
    scores = theirs.transform(z_new)
    seen = detector.statistics(x_new)
    np.testing.assert_allclose(
        seen["T2"], np.sum(scores**2 / theirs.explained_variance_, axis=1), rtol=1e-9
    )
    rest = z_new - theirs.inverse_transform(scores)
    np.testing.assert_allclose(seen["Q"], np.sum(rest**2, axis=1), rtol=1e-9)


def test_t2_with_all_components_is_the_mahalanobis_distance(x, x_new):
    detector = KernelPCADetector(model=PCA()).fit(x)
    rest = x_new - x.mean(axis=0)
    expected = np.einsum("ij,ij->i", rest, np.linalg.solve(np.cov(x.T), rest.T).T)
    np.testing.assert_allclose(detector.statistics(x_new)["T2"], expected, rtol=1e-7)
    # Nothing is left for Q but rounding, and rounding makes no alarms.
    assert np.all(detector.statistics(x_new)["Q"] < 1e-3 * detector.limits_.q)


def test_mean_of_t2_over_training_rows_is_the_number_of_components(x):
    # Σ_i s_ij² = λ_j, so Σ_i T²_i = k(n - 1), whatever the kernel.
    for kernel in ("rbf", "laplacian", "poly"):
        t2 = KernelPCADetector(7, kernel=kernel).fit(x).statistics(x)["T2"]
        np.testing.assert_allclose(t2.sum(), 7 * (len(x) - 1), rtol=1e-8)


def test_q_is_the_models_reconstruction_error(x, x_new):
    detector = KernelPCADetector(4).fit(x)
    z = (x_new - detector.center_) / detector.spread_
    np.testing.assert_allclose(
        detector.statistics(x_new)["Q"], detector.model_.reconstruction_error(z)
    )


def test_low_rank_with_full_rank_is_exact(x, x_new):
    knobs = {"n_components": 4, "kernel": RBF(0.05)}
    exact = KernelPCADetector(**knobs).fit(x)
    full = KernelPCADetector(**knobs, approximation=RPCholesky(rank=len(x))).fit(x)
    np.testing.assert_allclose(full.score_samples(x_new), exact.score_samples(x_new), rtol=1e-5)
    np.testing.assert_allclose(full.limits_.t2, exact.limits_.t2, rtol=1e-5)
    np.testing.assert_allclose(full.limits_.q, exact.limits_.q, rtol=1e-5)


# ── the scale ───────────────────────────────────────────────────────────────
def test_units_do_not_matter(x, x_new):
    units = np.array([1e-3, 5.0, 1e4, 1.0, 2.0, 1e-2])
    one = KernelPCADetector().fit(x)
    other = KernelPCADetector().fit(units * x + 7.0)
    np.testing.assert_allclose(
        other.score_samples(units * x_new + 7.0), one.score_samples(x_new), rtol=1e-6
    )


def test_scaling_beforehand_changes_nothing(x, x_new):
    mean, spread = x.mean(axis=0), x.std(axis=0, ddof=1)
    raw = KernelPCADetector().fit(x)
    scaled = KernelPCADetector().fit((x - mean) / spread)
    rows = np.concatenate([x_new, 1.3 * x_new])
    np.testing.assert_array_equal(raw.predict(rows), scaled.predict((rows - mean) / spread))


def test_new_rows_are_scaled_by_the_training_rows(x):
    """A batch that has drifted as a whole is seen: it is not centred by its own mean."""
    detector = KernelPCADetector().fit(x)
    drifted = x[:20] + [0, 0, 0, 6, 0, 0] * x.std(axis=0)
    assert np.all(detector.predict(drifted) == -1)


def test_a_constant_column_is_named_and_its_change_is_seen(x):
    stuck = np.column_stack([x, np.full(len(x), 3.3)])
    with pytest.warns(DetectorWarning, match=r"1 column\(s\) do not change .* 6\."):
        detector = KernelPCADetector(3, kernel="linear").fit(stuck)
    rows = np.column_stack([x[:5], np.full(5, 30.0)])
    assert np.all(detector.predict(rows) == -1)
    np.testing.assert_array_equal(np.argmax(detector.contributions(rows, "Q"), axis=1), 6)


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, -7e5 / 3.0])
@pytest.mark.parametrize("weights", [None, "uneven"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_rounding_of_a_long_sum_is_no_spread(value, weights, dtype):
    """A million times 0.1 is 100 000.0000013; a column of it has the mean 0.1 all the same."""
    rows = np.full((20_000, 2), value, dtype=dtype)
    rows[:, 1] += np.arange(20_000) % 2  # one that moves
    w = None if weights is None else np.random.default_rng(0).uniform(0.1, 3.0, len(rows))
    found = Scale.of(rows, weights=w)
    assert found.mean[0] == rows[0, 0]
    assert found.spread[0] == 0.0
    np.testing.assert_allclose(found.spread[1], 0.5, rtol=1e-2)


# ── limits ──────────────────────────────────────────────────────────────────
MODELS = {
    "pca": {"model": PCA(3)},
    "wide": {},
    "median": {"n_components": 40, "kernel": "rbf"},  # in-sample limits fail badly here
}


@pytest.mark.parametrize("model", MODELS)
def test_held_out_limits_hold_their_rate_on_new_rows(model):
    rate, n, m = 0.05, 400, 5000
    # An order statistic of n rows, read on m others: a beta-binomial count, four deviations.
    slack = 4.0 * np.sqrt(rate * (1 - rate) * (1 / n + 1 / m))
    for statistic in ("T2", "Q", "combined"):
        detector = KernelPCADetector(**MODELS[model], false_alarm=rate, statistic=statistic)
        with warnings.catch_warnings():  # T² alone is blind to far rows, and says so
            warnings.simplefilter("ignore", DetectorWarning)
            labels = detector.fit(process(n, seed=2)).predict(process(m, seed=3))
        assert abs(np.mean(labels == -1) - rate) < slack, statistic


def test_in_sample_limits_do_not(x):
    """Why rows are held out: with many components, training rows lie nearer than any others."""
    rate, new = 0.05, process(2000, seed=3)
    knobs = MODELS["median"]
    with pytest.warns(DetectorWarning, match="training rows themselves"):
        optimistic = KernelPCADetector(**knobs, contamination=rate).fit(x)
    honest = KernelPCADetector(**knobs, false_alarm=rate).fit(x)
    assert np.mean(optimistic.predict(new) == -1) > 3 * rate
    assert np.mean(honest.predict(new) == -1) < 2 * rate


@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_approximate_limits_hold_on_gaussian_rows(rate):
    n, m = 2000, 20_000
    slack = 4.0 * np.sqrt(rate * (1 - rate) * (1 / n + 1 / m))
    for statistic in ("T2", "Q", "combined"):
        knobs = {"limits": "approximate", "false_alarm": rate, "statistic": statistic}
        detector = KernelPCADetector(model=PCA(3), **knobs).fit(process(n, seed=4))
        labels = detector.predict(process(m, seed=5))
        assert abs(np.mean(labels == -1) - rate) < slack, statistic


def test_few_rows_have_limits_above_every_held_out_value_or_near():
    """At 1 % of 60 rows an order statistic knows nothing; the χ² tail still holds the rate."""
    rates = []
    for seed in range(8):
        detector = KernelPCADetector(model=PCA(3)).fit(process(60, seed=10 + seed))
        rates.append(np.mean(detector.predict(process(2000, seed=50 + seed)) == -1))
        assert "χ²" in detector.limits_.method
    assert 0.002 < np.mean(rates) < 0.03


def test_formulas_of_the_limits():
    n, k, rate = 120, 4, 0.05
    # T² of a new Gaussian row: the mean has an error of its own, 1 + 1/n, and the covariance is estimated.
    hotelling = stats.f.ppf(1 - rate, k, n - k) * k * (n - 1) / (n - k)
    np.testing.assert_allclose(f_limit(n, k, rate), hotelling * (1 + 1 / n))
    values = 3.0 * stats.chi2.rvs(7, size=200_000, random_state=0)
    np.testing.assert_allclose(box_limit(values, 0.01), 3.0 * stats.chi2.ppf(0.99, 7), rtol=0.01)


@pytest.mark.filterwarnings("ignore:The rows are those of a slow process")
def test_neighbouring_rows_are_held_out_together():
    """A slow process: with its neighbours among the training rows, a held-out row looks too normal."""
    rng = np.random.default_rng(6)
    slow = np.empty((400, 4))
    slow[0] = 0.0
    for t in range(1, 400):
        slow[t] = 0.99 * slow[t - 1] + rng.standard_normal(4)
    knobs = {"n_components": 30, "kernel": "rbf", "false_alarm": 0.05}
    blocks = KernelPCADetector(**knobs).fit(slow)
    shuffled = KernelPCADetector(**knobs, folds=KFold(5, shuffle=True, random_state=0)).fit(slow)
    assert blocks.limits_.q > 2 * shuffled.limits_.q


# ── contributions ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("statistic", ["T2", "Q"])
@pytest.mark.parametrize("route", ROUTES)
def test_contributions_sum_to_the_statistic(route, statistic, x, x_new):
    detector = KernelPCADetector(**ROUTES[route]).fit(x)
    rows = x_new * np.linspace(0.8, 1.2, len(x_new))[:, None]
    parts = detector.contributions(rows, statistic)
    centre = detector.statistics(x.mean(axis=0, keepdims=True))[statistic]
    expected = detector.statistics(rows)[statistic] - centre
    np.testing.assert_allclose(parts.sum(axis=1), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["matern-3/2", "rational-quadratic", "sum", "product", "columns"])
def test_contributions_sum_for_other_kernels(name, x, x_new):
    detector = KernelPCADetector(4, kernel=VALID[name]).fit(x[:, :4])
    parts = detector.contributions(x_new[:, :4], "Q")
    centre = detector.statistics(x[:, :4].mean(axis=0, keepdims=True))["Q"]
    expected = detector.statistics(x_new[:, :4])["Q"] - centre
    np.testing.assert_allclose(parts.sum(axis=1), expected, rtol=1e-4, atol=1e-7)


def test_contributions_of_linear_pca_are_the_complete_decomposition(x, x_new):
    detector = KernelPCADetector(model=PCA(3)).fit(x)
    z = (x_new - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    axes, variances = detector.model_.components_, detector.model_.explained_variance_
    forms = {
        "T2": axes.T @ np.diag(1 / variances) @ axes,
        "Q": np.eye(x.shape[1]) - axes.T @ axes,
    }
    for name, form in forms.items():
        np.testing.assert_allclose(
            detector.contributions(x_new, name), z * (z @ form), rtol=1e-8, atol=1e-9
        )


def test_combined_contributions_are_those_of_the_larger_statistic(x, x_new):
    detector = KernelPCADetector(3, kernel="linear").fit(x)
    rows = np.concatenate([x_new, x_new + 3 * x.std(axis=0)])
    seen, limits = detector.statistics(rows), detector.limits_
    by_t2 = seen["T2"] / limits.t2 > seen["Q"] / limits.q
    assert 0 < by_t2.sum() < len(rows)
    parts = detector.contributions(rows)
    np.testing.assert_allclose(
        parts[by_t2], detector.contributions(rows[by_t2], "T2") / limits.t2, rtol=1e-9
    )
    np.testing.assert_allclose(
        parts[~by_t2], detector.contributions(rows[~by_t2], "Q") / limits.q, rtol=1e-9
    )


def test_slopes_are_finite_differences(x, x_new):
    gauge = Gauge.of(KernelPCA(4, kernel=RBF(0.05)).fit(x / x.std(axis=0)).fit_)
    z, h = x_new[:5] / x.std(axis=0), 1e-5
    for name, slope in (("t2", gauge.t2_slopes), ("q", gauge.q_slopes)):
        sides = [(gauge(z + s), gauge(z - s)) for s in h * np.eye(z.shape[1])]
        changes = [getattr(above, name) - getattr(below, name) for above, below in sides]
        expected = np.stack(changes, axis=1) / (2 * h)
        np.testing.assert_allclose(slope(z), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("column", [0, 3])
def test_a_planted_fault_is_the_top_variable(route, column, x, x_new):
    detector = KernelPCADetector(**ROUTES[route]).fit(x)
    rows = np.array(x_new)
    rows[:, column] += 4.0 * x[:, column].std()
    leading = np.argmax(detector.contributions(rows), axis=1)
    assert np.mean(leading == column) > 0.9


def test_a_kernel_without_a_derivative_is_refused_but_monitors(x, x_new):
    detector = KernelPCADetector(3, kernel=VALID["matrices"]).fit(x)
    with pytest.raises(KernelError, match="known derivative"):
        detector.contributions(x_new)
    assert set(detector.monitor(1.5 * x_new).table["top"]) == {""}


def test_contributions_to_rows_however_far_are_integrated(x):
    """All of Q's change lies near the mean, which nodes on the way to so far a row would step over."""
    with pytest.warns(DetectorWarning, match="too narrow"):
        detector = KernelPCADetector(20, kernel=RBF(1.0)).fit(x)
    far = x[:3] + 1e30 * x.std(axis=0)
    start = detector.baselines_ * detector.spread_ + detector.center_
    gained = detector.statistics(far)["Q"][:, None] - detector.statistics(start)["Q"]
    missed = np.abs(detector.contributions(far, "Q").sum(axis=1)[:, None] - gained).min(axis=1)
    assert np.all(missed < 1e-5 * gained.max())


def test_contributions_that_can_not_be_integrated_are_told():
    with pytest.warns(DetectorWarning, match="1 of 2 rows miss their sum by up to 50.0%"):
        warn_incomplete(np.array([0.0, 0.5]))
