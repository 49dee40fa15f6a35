"""Laws of slow processes: what autocorrelation tells, and limits that hold in a second run."""

import warnings

import numpy as np
import pytest
from scipy import signal, stats
from sklearn.model_selection import KFold

from mercer import PCA, KernelPCA, KernelPCADetector
from mercer._core.errors import DetectorWarning
from mercer.kernels import RBF
from mercer.monitoring.slowness import Slowness
from mercer.monitoring.statistics import Gauge


def ar(n, d, phi, rng):
    """Columns with autocorrelation φ^l, unit variance, from their stationary state on."""
    noise = np.sqrt(1.0 - phi**2) * rng.standard_normal((n + 500, d))
    return signal.lfilter([1.0], [1.0, -phi], noise, axis=0)[500:]


def run(n, phi, rng, d=12):
    mixing = np.random.default_rng(99).standard_normal((4, d))
    return ar(n, 4, phi, rng) @ mixing + 0.3 * rng.standard_normal((n, d))


# ── measured ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("phi", [0.5, 0.8, 0.9])
def test_times_of_an_autoregression(phi):
    """1 + 2 Σ φ^l = (1 + φ)/(1 - φ), and the same with φ² for variances (Bartlett 1946)."""
    found = Slowness.of(ar(40_000, 3, phi, np.random.default_rng(0)), 0.01)
    assert len(found.times) == 3
    np.testing.assert_allclose(found.times, (1 + phi) / (1 - phi), rtol=0.25)
    np.testing.assert_allclose(found.counts, 40_000 * (1 - phi**2) / (1 + phi**2), rtol=0.1)


@pytest.mark.parametrize("n", [20, 100, 500])
def test_independent_rows_are_not_slow(n):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        for z in (rng.standard_normal((n, 15)), rng.standard_t(3, (n, 15))):
            found = Slowness.of(z, 0.01)
            assert not found.any
            assert found.gap == 0


def test_what_goes_round_is_not_stretched():
    t = np.linspace(0, 60, 600)
    ring = np.column_stack([np.cos(t), np.sin(t)])
    ring = ring + 0.02 * np.random.default_rng(0).standard_normal((600, 2))
    assert not Slowness.of(ring, 0.01).any


def test_repeated_rows_are_weight_and_not_time():
    x = np.random.default_rng(0).standard_normal((200, 5))
    assert not Slowness.of(np.repeat(x, 3, axis=0), 0.01).any


def test_factors_are_those_of_few_degrees():
    found = Slowness.of(run(300, 0.95, np.random.default_rng(1)), 0.01)
    counts = found.counts
    expected = stats.t.ppf(0.995, counts) / stats.norm.ppf(0.995)
    np.testing.assert_allclose(found.stretch, np.minimum(expected, 2.0), rtol=1e-9)
    # One run in twenty has a variance so much larger than a chi-square one of these degrees.
    np.testing.assert_allclose(
        stats.chi2.cdf(counts / found.stray**2, counts)[found.stray < 3], 0.05
    )


def test_relations_between_columns_survive_stretching():
    z = run(300, 0.95, np.random.default_rng(2))
    z = np.column_stack([z, z[:, 0] - 2.0 * z[:, 3]])
    found = Slowness.of(z, 0.01)
    assert found.any
    far = found.moved(z, found.stray)
    np.testing.assert_allclose(far[:, -1], far[:, 0] - 2.0 * far[:, 3], atol=1e-10)
    assert far.std(axis=0).sum() > 1.05 * z.std(axis=0).sum()


def test_nested_statistics_are_those_of_smaller_models():
    x = run(150, 0.5, np.random.default_rng(3))
    new = run(20, 0.5, np.random.default_rng(4))
    sizes = [1, 4, 9]
    found = Gauge.of(KernelPCA(9, kernel=RBF(0.02)).fit(x).fit_).nested(new, sizes)
    for k, nested in zip(sizes, found, strict=True):
        own = Gauge.of(KernelPCA(k, kernel=RBF(0.02)).fit(x).fit_)(new)
        np.testing.assert_allclose(nested.t2, own.t2, rtol=1e-6)
        np.testing.assert_allclose(nested.q, own.q, rtol=1e-6)


# ── a second run ────────────────────────────────────────────────────────────
@pytest.mark.filterwarnings("ignore::mercer._core.errors.DetectorWarning")
@pytest.mark.parametrize("knobs", [{"model": PCA(4)}, {"n_components": 6}], ids=str)
def test_limits_hold_in_a_second_run(knobs):
    """100 rows with φ = 0.9 are ten independent ones; neighbours of what is held out gave 4 to 5 %."""
    rates = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        detector = KernelPCADetector(**knobs).fit(run(100, 0.9, rng))
        rates.append(np.mean(detector.predict(run(1000, 0.9, rng)) == -1))
    assert np.mean(rates) < 0.02


def test_limits_that_a_second_run_would_break_are_told():
    """A kernel that bends makes much of a slow direction; its last components are not to be relied on."""
    x = run(300, 0.97, np.random.default_rng(5))
    with pytest.warns(DetectorWarning, match=r"slow process.*independent rows.* of normal rows"):
        KernelPCADetector(40, kernel="rbf").fit(x)


def test_enough_rows_are_fitted_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCADetector().fit(run(2000, 0.7, np.random.default_rng(6)))


def test_a_splitter_takes_rows_in_no_order():
    """Who passes one has said that rows have none: nothing is left out, nothing stretched."""
    x = run(300, 0.97, np.random.default_rng(7))
    detector = KernelPCADetector(40, kernel="rbf", folds=KFold(5)).fit(x)
    with pytest.warns(DetectorWarning):
        other = KernelPCADetector(40, kernel="rbf").fit(x)
    assert other.limits_.q > detector.limits_.q


@pytest.mark.filterwarnings("ignore::mercer._core.errors.DetectorWarning")
def test_gaps_leave_the_rows_that_many_components_need():
    x = run(200, 0.95, np.random.default_rng(8))
    assert Slowness.of(x, 0.01).gap > 5
    detector = KernelPCADetector(150, kernel="rbf").fit(x)  # of 160 rows in each fold
    assert detector.model_.n_components_ == 150


# ── what is advised ─────────────────────────────────────────────────────────
def told(x, **knobs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KernelPCADetector(**knobs).fit(x)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    "knobs",
    [
        {"n_components": 4, "kernel": "linear"},
        {"model": PCA(4)},
        {"n_components": 40, "kernel": "rbf"},
    ],
    ids=str,
)
def test_only_a_kernel_that_bends_is_advised_to_be_wider(knobs):
    slow = [
        one
        for seed in range(4)
        for one in told(run(300, 0.97, np.random.default_rng(5 + seed)), **knobs)
        if "slow process" in one
    ]
    assert slow
    assert all(("wider or a linear" in one) == (knobs.get("kernel") == "rbf") for one in slow)


@pytest.mark.parametrize("phi", [0.9, 0.97])
@pytest.mark.parametrize(
    ("limits", "rate"),
    [({"contamination": 0.01}, 0.01), ({"limits": "approximate"}, 0.01)],
    ids=str,
)
def test_limits_of_the_training_rows_are_checked_on_rows_held_out(limits, rate, phi):
    """With a narrow kernel a second run makes many times the false alarms, and `fit` says so."""
    said = r"training rows themselves.* of 80 rows .* are above, not 1\.00%"
    for seed in range(3):
        x = run(400, phi, np.random.default_rng(seed))
        with pytest.warns(DetectorWarning, match=said):
            detector = KernelPCADetector(60, kernel="rbf", **limits).fit(x)
        new = run(2000, phi, np.random.default_rng(100 + seed))
        assert np.mean(detector.predict(new) == -1) > 3.0 * rate


@pytest.mark.parametrize("limits", [{"contamination": 0.05}, {"limits": "approximate"}], ids=str)
def test_limits_of_the_training_rows_that_hold_are_no_matter(limits):
    for seed in range(20):
        x = run(400, 0.0, np.random.default_rng(seed))
        assert not told(x, kernel="linear", n_components=4, **limits)


@pytest.mark.parametrize("limits", [{"contamination": 0.1}, {"limits": "approximate"}], ids=str)
@pytest.mark.parametrize("folds", [5, 60, KFold(60)], ids=str)
def test_limits_of_the_training_rows_need_no_fold(limits, folds):
    """Without the middle stretch nothing moves, or fifty rows make no sixty folds: no check, no error."""
    x = np.zeros((50, 3))
    x[20:30] = np.random.default_rng(0).standard_normal((10, 3))
    assert not told(x, n_components=2, kernel="linear", wild="keep", folds=folds, **limits)
