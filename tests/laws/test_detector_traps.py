"""Laws of the detector where it is easily wrong in silence: overflow, rings, folds, narrow kernels."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from sklearn.model_selection import KFold

from conftest import frozen
from mercer import PCA, KernelPCA, KernelPCADetector
from mercer._core.errors import DetectorWarning, InputError
from mercer.estimators import detector_fit
from mercer.kernels import RBF
from mercer.monitoring.contributions import integrated_gradients
from mercer.monitoring.limits import approximate_limits, box_limit, f_limit
from mercer.monitoring.statistics import Gauge, Statistics


def rows(n, *, d=4, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).standard_normal((2, d))
    return frozen(rng.standard_normal((n, 2)) @ mixing + 0.2 * rng.standard_normal((n, d)))


def ring(n, *, seed=0):
    """Two sensors on a circle and one beside: the mean is in the hole."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, n)
    flat = np.column_stack([np.cos(t), np.sin(t), 0.3 * rng.standard_normal(n)])
    return flat + 0.03 * rng.standard_normal((n, 3)), t


# ── what can't be computed is not normal ────────────────────────────────────
@pytest.mark.parametrize("size", [1e110, 1e150])
def test_a_row_that_overflows_is_an_alarm(size):
    x = rows(120)
    detector = KernelPCADetector(3, kernel="poly").fit(x)
    far = np.concatenate([size * x[:2], x[2:3] + np.array([9.0, 0, 0, 0])])
    np.testing.assert_array_equal(detector.predict(far), -1)
    np.testing.assert_array_equal(detector.decision_function(far)[:2], -np.inf)
    parts = detector.contributions(far)
    assert np.all(np.isnan(parts[:2]))
    assert np.all(np.isfinite(parts[2]))
    seen = detector.monitor(far)
    assert list(seen.table["alarm"]) == [True, True, True]
    assert all(seen.table["top"])  # as those of a row at the end of our reach
    assert len(seen.plot(fig=Figure())) == 2


def test_a_row_too_large_for_single_precision_is_an_alarm():
    x = rows(120).astype(np.float32)
    detector = KernelPCADetector(model=PCA(2)).fit(x)
    np.testing.assert_array_equal(detector.score_samples(x[:2] * 1e30), -np.inf)
    np.testing.assert_array_equal(detector.predict(x[:2] * 1e30), -1)


def test_numbers_that_single_precision_cannot_hold(tmp_path):
    x = rows(120)
    detector = KernelPCADetector().fit(x.astype(np.float32))
    far = x[:2].copy()
    far[1, 2] = 1e200
    np.save(tmp_path / "far.npy", far)
    for rows_ in (far, tmp_path / "far.npy"):
        assert detector.predict(rows_)[1] == -1
    model = KernelPCA(2).fit(x.astype(np.float32))
    for ask in (model.transform, model.reconstruction_error):
        with pytest.raises(InputError, match="1e\\+200 in row 1, column 2"):
            ask(tmp_path / "far.npy")
        with pytest.raises(InputError, match=r"float32, .*1e\+200 in row 1, column 2"):
            ask(far)


# ── what T² and Q have to detect ────────────────────────────────────────────
@pytest.mark.parametrize("d", [1, 4, 30])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.0])
def test_an_excursion_beyond_twice_a_limit_is_an_alarm(d, share):
    """√T² and √Q are lengths: whoever is within a limit and moves by two of them is beyond it.

    The axes and the variances are NumPy's. Along each component that is kept a hundred spreads are farther
    than that, and off them all a hundred spreads of a column.
    """
    x, rng = rows(400, d=d), np.random.default_rng(5)
    detector = KernelPCADetector(share, kernel="linear").fit(x)
    k, limits = detector.model_.n_components_, detector.limits_
    mean, spread = x.mean(axis=0), x.std(axis=0, ddof=1)
    _, sizes, axes = np.linalg.svd((x - mean) / spread, full_matrices=True)
    known, spreads = axes[:k], sizes[:k] / np.sqrt(len(x) - 1)
    new = rows(60, d=d, seed=3)
    new = new[detector.predict(new) == 1]
    units = [*(spreads[:, None] * known), *axes[k:], *np.eye(d), *rng.standard_normal((20, d))]
    assert 4.0 * max(limits.t2, limits.q) < 100.0**2
    for unit in units:
        for size in 10.0 ** rng.uniform(0.0, 6.0, 4):
            move = size * unit  # (d,)
            along = np.sum((known @ move / spreads) ** 2)
            across = np.sum((axes[k:] @ move) ** 2)
            if along > 4.001 * limits.t2 or across > 4.001 * limits.q:
                assert np.all(detector.predict(new + move * spread) == -1)


# ── rows of any size ────────────────────────────────────────────────────────
KNOBS = {
    "default": {},
    "linear": {"kernel": "linear"},
    "past": {"lags": "auto", "smoothing": 0.3},
    "approximate": {"limits": "approximate"},
}


@pytest.mark.parametrize("knobs", KNOBS)
@pytest.mark.parametrize("power", [-1000, -700, 300, 530, 1020])
def test_units_change_nothing(knobs, power):
    """A power of two rounds nothing, so labels, statistics and limits are the same to the bit."""
    x, new = rows(300), 2.0 * rows(200, seed=1)
    plain = KernelPCADetector(**KNOBS[knobs]).fit(x)
    same = KernelPCADetector(**KNOBS[knobs]).fit(np.ldexp(x, power))
    assert str(same.limits_) == str(plain.limits_)
    np.testing.assert_array_equal(
        same.score_samples(np.ldexp(new, power)), plain.score_samples(new)
    )
    np.testing.assert_array_equal(same.spread_, np.ldexp(plain.spread_, power))


def test_rows_too_far_apart_to_have_a_deviation_are_refused():
    x = np.clip(rows(100), -1.0, 1.0) * np.finfo(np.float64).max
    for knobs in KNOBS.values():
        with pytest.raises(InputError, match=r"farther apart than the largest number .* 1.8e\+308"):
            KernelPCADetector(wild="keep", **knobs).fit(x)


def test_slowness_does_not_depend_on_units_either():
    slow = np.cumsum(rows(400), axis=0)
    x = slow - np.linspace(0, 1, 400)[:, None] * slow[-1]
    with pytest.warns(DetectorWarning, match="slow process") as plain:
        KernelPCADetector(2, kernel="linear", scale=False).fit(x)
    with pytest.warns(DetectorWarning, match="slow process") as small:
        KernelPCADetector(2, kernel="linear", scale=False).fit(np.ldexp(x, -300))
    assert str(small[0].message) == str(plain[0].message)


# ── as many components as limits hold for ───────────────────────────────────
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"kernel": "linear"},
        {"model": PCA(0.99)},
        {"n_components": 1.0, "kernel": "rbf"},
        {"folds": KFold(5, shuffle=True, random_state=0)},
        {"lags": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(300, 400), (130, 765), (8, 4)])
def test_a_share_keeps_as_many_components_as_limits_hold_for(shape, knobs):
    """A third of the rows that are left; a warning comes before they are, and the limits say so."""
    x = frozen(np.random.default_rng(0).standard_normal(shape))
    with pytest.warns(DetectorWarning, match="components? of the .* that keep") as told:
        detector = KernelPCADetector(**knobs).fit(x)
    k = detector.model_.n_components_
    n = len(x) - detector.lags
    left = n - -(-n // 5)  # of the largest of five folds
    assert k == left // 3
    assert f"The model has {k} component" in str(told[0].message)
    assert f"{k} component" in detector.limits_.note
    far = x + 1e3 * np.eye(x.shape[1])[0]
    np.testing.assert_array_equal(detector.predict(far)[detector.lags :], -1)


def test_a_number_of_components_stays_what_it_is():
    x = frozen(np.random.default_rng(0).standard_normal((300, 400)))
    with pytest.warns(DetectorWarning, match="240 rows are few for 100 components"):
        assert KernelPCADetector(100).fit(x).model_.n_components_ == 100
    with pytest.raises(InputError, match="300 rows are too few for 270 components"):
        KernelPCADetector(270).fit(x)


def test_the_warning_of_many_components_comes_before_the_folds(monkeypatch):
    x, order = np.random.default_rng(0).standard_normal((60, 40)), []
    fit = KernelPCA.fit

    def noted_fit(self, *rows, **knobs):
        order.append("fit")
        return fit(self, *rows, **knobs)

    monkeypatch.setattr(KernelPCA, "fit", noted_fit)
    monkeypatch.setattr(detector_fit, "warn", lambda *said: order.append(said[2]))
    KernelPCADetector().fit(x)
    assert order == ["fit", "few-rows", *["fit"] * 5]


def test_a_fold_without_which_all_rows_are_equal_is_named():
    x = np.repeat(rows(2), 50, axis=0)
    with pytest.raises(
        InputError, match="50 of 100 rows left when one fold is held out are all equal"
    ):
        KernelPCADetector(1).fit(x)
    KernelPCADetector(1, folds=KFold(5, shuffle=True, random_state=0)).fit(x)


# ── contributions ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("kernel", ["auto", "rbf"])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e12, 1e15])
def test_a_sensor_far_out_is_named_by_sums_that_are_right(kernel, size):
    x = rows(200)
    detector = KernelPCADetector(2, kernel=kernel).fit(x)
    far = x[:1].copy()
    far[0, 2] = size
    parts = detector.contributions(far, "Q")
    start = detector.baselines_ * detector.spread_ + detector.center_
    near = np.min(
        np.abs(parts.sum() - (detector.statistics(far)["Q"] - detector.statistics(start)["Q"]))
    )
    assert near < 1e-5 * abs(parts.sum())
    assert detector.monitor(far).table["top"][0].startswith("x2")


@pytest.mark.parametrize("scale", [True, False])
def test_on_a_ring_the_moved_sensor_leads(scale):
    x, _ = ring(600)
    detector = KernelPCADetector(20, kernel="rbf", scale=scale).fit(x)
    assert detector.predict(x.mean(axis=0, keepdims=True)) == [-1]
    moved, t = ring(600, seed=1)
    moved = moved[np.abs(np.sin(t)) < 0.2]
    moved[:, 0] *= 0.5  # inwards
    seen = detector.monitor(moved)
    assert np.mean(seen.table["alarm"]) > 0.9
    assert np.mean(np.argmax(seen.contributions, axis=1) == 0) > 0.9


@pytest.mark.parametrize("statistic", ["T2", "Q"])
@pytest.mark.parametrize("scale", [True, False])
def test_contributions_sum_to_the_difference_from_the_nearest_normal_row(scale, statistic):
    x, _ = ring(300)
    detector = KernelPCADetector(20, kernel="rbf", scale=scale).fit(x)
    new = 1.2 * ring(20, seed=1)[0]
    z = (new - detector.center_) / detector.spread_
    gaps = np.abs(z[:, None, :] - detector.baselines_).sum(axis=2)
    nearest = detector.baselines_[np.argmin(gaps, axis=1)] * detector.spread_ + detector.center_
    np.testing.assert_array_equal(detector.predict(nearest), 1)
    expected = detector.statistics(new)[statistic] - detector.statistics(nearest)[statistic]
    found = detector.contributions(new, statistic).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_without_scale_contributions_start_at_the_mean():
    x = rows(200) + np.array([5.0, 0, -3.0, 1.0])
    detector = KernelPCADetector(2, kernel=RBF(0.02), scale=False).fit(x)
    np.testing.assert_allclose(detector.baselines_, [x.mean(axis=0)])
    new = rows(20, seed=1) * 2
    expected = (
        detector.statistics(new)["Q"] - detector.statistics(x.mean(axis=0, keepdims=True))["Q"]
    )
    np.testing.assert_allclose(detector.contributions(new, "Q").sum(axis=1), expected, rtol=1e-5)


def test_rounding_is_no_gap():
    """Nothing is off the components of a full PCA; a warning would be an error here."""
    x = rows(120)
    detector = KernelPCADetector(model=PCA(), statistic="Q").fit(x)
    for size in (1.0, 10.0, 1e4):
        assert np.all(np.abs(detector.contributions(size * x[:5])) < 1e-9 * size**2)


# ── folds ───────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("knobs", [{}, {"model": PCA()}])
def test_a_column_that_changes_in_one_stretch_is_told(knobs):
    step = np.zeros(200)
    step[:15] = 1.0
    x = np.column_stack([rows(200), step])
    with pytest.warns(DetectorWarning, match=r"one stretch of the rows only: 4\..*shuffle=True"):
        KernelPCADetector(**knobs).fit(x)
    KernelPCADetector(**knobs, folds=KFold(5, shuffle=True, random_state=0)).fit(x)


def test_a_fold_that_takes_components_away_is_told():
    x = np.array(rows(200))
    x[:, 3] = x[:, 2]
    x[:30, 3] += rows(30, seed=3)[:, 0]
    with pytest.warns(DetectorWarning, match="has 3 components, that of all rows 4"):
        KernelPCADetector(model=PCA()).fit(x)


def test_held_out_limits_are_those_of_a_loop_over_folds():
    """Own scale in each fold; the kernel and the number of components are those of all rows."""
    x, rate = np.array(rows(300)), 0.05
    x[:60, 3] += rows(60, seed=5)[:, 0]  # a fold alone would choose other components
    detector = KernelPCADetector(0.9, kernel="rbf", false_alarm=rate).fit(x)
    k, kernel, limits = detector.model_.n_components_, detector.model_.kernel_, detector.limits_
    t2, q = [], []
    for stop in range(60, 301, 60):
        test = np.arange(stop - 60, stop)
        train = np.setdiff1d(np.arange(300), test)
        mean, spread = x[train].mean(axis=0), x[train].std(axis=0, ddof=1)
        part = KernelPCA(k, kernel=kernel).fit((x[train] - mean) / spread)
        z = (x[test] - mean) / spread
        t2.extend(np.sum(part.transform(z) ** 2 / (part.eigenvalues_ / 239), axis=1))
        q.extend(part.reconstruction_error(z))
    rank = int(np.ceil(301 * (1 - rate)))  # 286
    t2_limit, q_limit = np.sort(t2)[rank - 1], np.sort(q)[rank - 1]
    index = np.sort(np.maximum(t2 / t2_limit, q / q_limit))[rank - 1]
    # The index makes alarms, so that T² and Q have their limits where it does.
    expected = [index * t2_limit, index * q_limit, 1.0]
    np.testing.assert_allclose([limits.t2, limits.q, limits.index], expected)


# ── narrow kernels, many components ─────────────────────────────────────────
def test_nowhere_is_the_limit_of_far_rows():
    x = rows(100)
    gauge = Gauge.of(KernelPCA(5, kernel=RBF(0.5)).fit(x).fit_)
    far, nowhere = gauge(x[:1] + 1e4), gauge.nowhere(x)
    np.testing.assert_allclose(nowhere.t2, far.t2)
    np.testing.assert_allclose(nowhere.q, far.q)


def test_a_kernel_that_is_blind_to_far_rows_is_told():
    x = np.random.default_rng(0).standard_normal((100, 8))
    with pytest.warns(DetectorWarning, match="too narrow"):
        blind = KernelPCADetector(10, kernel=RBF(2.0)).fit(x)
    assert blind.predict(x[:1] + 1e6) == [1]
    assert KernelPCADetector().fit(x).predict(x[:1] + 1e6) == [-1]


@pytest.mark.parametrize("limits", ["cross-validation", "approximate"])
def test_too_many_components_are_told(limits):
    x = np.random.default_rng(0).standard_normal((100, 40))
    with pytest.warns(DetectorWarning, match="rows are few for 30 components"):
        KernelPCADetector(model=PCA(30), limits=limits).fit(x)


# ── limits ──────────────────────────────────────────────────────────────────
def test_a_recipe_that_repeats_itself_makes_no_alarms():
    states = np.random.default_rng(0).standard_normal((3, 4))
    detector = KernelPCADetector(2, kernel="linear").fit(np.tile(states, (80, 1)))
    np.testing.assert_array_equal(detector.predict(states), 1)


def test_values_that_are_all_the_same_lie_below_their_limit():
    assert 2.0 < box_limit(np.full(50, 2.0), 0.01) < 2.1
    assert 2.0 < box_limit(2.0 + 1e-15 * np.arange(50), 0.01) < 2.1


def test_the_smallest_rates_have_limits():
    rate = 1e-18
    quantile = f_limit(100, 3, rate) * 9700 / (3 * 9999)
    np.testing.assert_allclose(stats.f.sf(quantile, 3, 97), rate, rtol=1e-9)
    own = Statistics(np.arange(1.0, 50.0), np.arange(1.0, 50.0))
    found = approximate_limits(own, rate, n=49.0, k=2, rounding=0.0)
    assert np.isfinite([found.t2, found.q, found.index]).all()
    assert found.index > 1.0


def test_few_rows_have_limits_no_lower_than_the_largest_held_out_value():
    heavy = np.random.default_rng(0).standard_t(2, (80, 3))
    detector = KernelPCADetector(model=PCA(2)).fit(heavy)
    part = KernelPCADetector(model=PCA(2)).fit(heavy[:64])
    assert detector.limits_.t2 >= 0.9 * part.statistics(heavy[64:])["T2"].max()
    assert "80 rows are few" in str(detector.limits_)


# ── charts ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("statistic", ["T2", "Q", "combined"])
def test_only_a_limit_that_makes_alarms_is_drawn(statistic):
    x = rows(100)
    axes = KernelPCADetector(model=PCA(2), statistic=statistic).fit(x).monitor(x).plot(fig=Figure())
    drawn = [any(line.get_label() == "limit" for line in ax.get_lines()) for ax in axes]
    assert drawn == [statistic in ("T2", "combined"), statistic in ("Q", "combined")]
    assert "limit" in [text.get_text() for text in axes[0].get_legend().get_texts()]


def test_contributions_that_no_cut_can_sum_are_no_numbers():
    rows_ = np.ones((2, 3))
    found, gap = integrated_gradients(
        np.full(2, np.nan), np.zeros_like, rows_, np.zeros((2, 3)), width=3
    )
    assert np.all(np.isnan(found))
    assert np.all(np.isinf(gap))
