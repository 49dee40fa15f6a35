"""Laws of a chosen detector, of the deviations it is tried with, and of limits that say how sure they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal, stats

from mercer import KernelPCADetector, select_detector
from mercer.errors import ParameterError, SelectionWarning, ZeroVarianceError
from mercer.kernels import RBF, Linear
from mercer.monitoring.deviations import FAR, KINDS, Deviation, deviations, excursions
from mercer.monitoring.slowness import block_length, blocks_again


@pytest.fixture(scope="module")
def straight() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((900, 2)) @ rng.standard_normal((2, 5)) + 0.2 * rng.standard_normal(
        (900, 5)
    )


@pytest.fixture(scope="module")
def ring() -> np.ndarray:
    rng = np.random.default_rng(1)
    angle = rng.uniform(0, 2 * np.pi, 400)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.standard_normal((400, 2))


# ── deviations ──────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", KINDS)
def test_a_deviation_touches_its_cells_alone(straight, kind):
    x = straight[:100]
    made = Deviation(kind, np.array([1]), np.array([2.0]))(x, 40, 80)
    same = np.ones(x.shape, dtype=bool)
    same[40:80, 1] = False
    assert np.array_equal(made[same], x[same])
    assert not np.array_equal(made[40:80, 1], x[40:80, 1])


def test_deviations_are_what_they_are_called(straight):
    x, column = straight[:100], np.array([1])
    spread = x[:, 1].std()

    def made(kind):
        return Deviation(kind, column, np.array([2.0]))(x, 0, 100)[:, 1]

    np.testing.assert_allclose(made("bias") - x[:, 1], 2.0 * spread)
    np.testing.assert_allclose((made("drift") - x[:, 1])[[0, -1]], [0.0, 2.0 * spread], atol=1e-12)
    assert np.array_equal(np.sort(made("unrelated")), np.sort(x[:, 1]))
    np.testing.assert_allclose(made("wider").std(), 3.0 * spread)


def test_every_sensor_that_moves_has_its_deviation(straight):
    x = np.column_stack([straight, np.ones(len(straight))])
    found = deviations(x, 10, np.random.default_rng(0))
    assert len(found) == 10 * len(KINDS)
    for kind in KINDS:
        assert {int(c) for one in found if one.kind == kind for c in one.columns} == set(range(5))


# ── the choice ──────────────────────────────────────────────────────────────
def test_a_kernel_that_bends_is_used_where_it_pays(ring, straight):
    knobs = {"lags": [0], "smoothing": [None], "n_components": (0.9, 0.99)}
    bent = select_detector(ring, ["linear", RBF(0.5)], **knobs)
    assert isinstance(bent.best_.kernel, RBF)
    assert bent.gain_ > 0.1
    assert any(reason.startswith("The best linear detector would see") for reason in bent.reasons_)
    flat = select_detector(straight[:300], lags=[0])
    assert isinstance(flat.best_.kernel, Linear)
    assert flat.gain_ == 0.0
    assert any("does not pay" in reason for reason in flat.reasons_)


def test_the_past_is_used_where_it_pays():
    """A sensor that answers a row later: only lagged rows know that it does."""
    rng = np.random.default_rng(5)
    causes = signal.lfilter([1.0], [1.0, -0.5], rng.standard_normal((801, 2)), axis=0)
    x = np.hstack([causes[1:], causes[:-1]]) + 0.05 * rng.standard_normal((800, 4))
    found = select_detector(x, ["linear"], smoothing=[None], n_components=(0.5, 0.8, 0.95))
    lags = found.best_.lags
    assert lags >= 1
    table = found.table_
    without, used = (max(table["seen"][table["lags"] == own]) for own in (0, lags))
    assert used > without + 0.1


def test_the_choice_is_fitted_seeded_and_holds_its_rate(straight):
    knobs = {"kernels": ["linear"], "lags": [0], "n_components": (0.8, 0.95), "random_state": 4}
    found, again = (select_detector(straight[:400], **knobs) for _ in range(2))
    assert str(found) == str(again)
    rate = np.mean(found.best_.predict(straight[400:]) == -1)
    assert rate <= stats.binom.ppf(0.999, 500, 0.01) / 500 + 0.02
    assert found.table_["seen"].tolist() == sorted(found.table_["seen"], reverse=True)
    for given in ("rbf", 5, []):
        with pytest.raises(ParameterError, match="kernels must be a list of kernels, or None"):
            select_detector(straight, given)
    for name, given in [("lags", 1), ("n_components", 0.9), ("smoothing", None), ("lags", "auto")]:
        for value in (given, []):
            with pytest.raises(ParameterError, match=f"{name} must be a list of what to try; got"):
                select_detector(straight, **{name: value})


def test_of_many_rows_pieces_from_all_times_are_tried(straight):
    knobs = {"kernels": ["linear"], "lags": [0, 1], "smoothing": [None], "n_components": (0.95,)}
    found = select_detector(straight, max_rows=400, **knobs)
    assert any("400 of 900 normal rows" in reason for reason in found.reasons_)
    assert found.best_.model_.fit_.weight >= 899


# ── nothing is given up ─────────────────────────────────────────────────────
def mixed(draw, d, r, noise, rng):
    mixing = rng.standard_normal((r, d))
    return lambda n: draw(n, r) @ mixing + noise * rng.standard_normal((n, d))


def of_page(rng):
    """The sensors of docs/monitoring.md."""
    mixing = np.array([[1.0, 0.8, 0.3, 0.0], [0.0, 0.5, 1.0, 0.9]])
    return lambda n: rng.standard_normal((n, 2)) @ mixing + 0.1 * rng.standard_normal((n, 4))


def curve(rng):
    def draw(n):
        t = rng.uniform(-1, 1, n)
        return np.stack([t, t**2, np.sin(3 * t)], 1) + 0.05 * rng.standard_normal((n, 3))

    return draw


def collinear(rng):
    mixing = rng.standard_normal((2, 3))

    def draw(n):
        x = rng.standard_normal((n, 2)) @ mixing + 0.2 * rng.standard_normal((n, 3))
        return np.column_stack([x, 2 * x[:, 0], x[:, 1] - x[:, 2]])

    return draw


def autocorrelated(rng):
    def causes(n, r):
        return signal.lfilter([1], [1, -0.8], rng.standard_normal((n + 100, r)), axis=0)[100:]

    return mixed(causes, 6, 2, 0.3, rng)


# What draws so many normal rows.
NORMAL = {
    "of the page": of_page,
    "curve": curve,
    "heavy tails": lambda rng: mixed(lambda n, r: rng.standard_t(4, (n, r)), 4, 4, 0.0, rng),
    "autocorrelated": autocorrelated,
    "collinear": collinear,
    "many columns": lambda rng: mixed(lambda n, r: rng.standard_normal((n, r)), 20, 4, 0.3, rng),
}
SIZES = (3.0, 5.0, 10.0, 30.0, 100.0, 1e4)


def directions(x, rng):
    """Along principal axes in their own spreads; across them, columns and random ones in those of columns."""
    spread, d = x.std(axis=0), x.shape[1]
    _, sizes, axes = np.linalg.svd((x - x.mean(axis=0)) / spread / np.sqrt(len(x)))
    every = [*(sizes[:, None] * axes)[sizes > 1e-6], *axes[sizes < 1.0], *np.eye(d)]
    for _ in range(5):
        u = rng.standard_normal(d)
        every.append(u / np.linalg.norm(u))
    return [u * spread for u in every]


@pytest.mark.parametrize("kind", NORMAL)
def test_what_the_default_detects_the_chosen_one_detects(kind):
    """Excursions that last: a detector with smoothing has ten rows to notice.

    Neither alarm rate is known exactly: the trial has 125 rows and a tolerance of a tenth, this run has 200.
    A difference is allowed of that tolerance and four standard errors of a share of so many rows, which is
    nothing where the default detects all.
    """
    rng = np.random.default_rng(1)
    draw = NORMAL[kind](rng)
    x = draw(400)
    chosen = select_detector(x, random_state=0).best_
    assert chosen.statistic == "combined"
    default = KernelPCADetector(confidence=0.9).fit(x)
    for u in directions(x, rng):
        runs = draw(210) + np.array(SIZES)[:, None, None] * u  # (s, 210, d)
        for size, run in zip(SIZES, runs, strict=True):
            usual, rate = (np.mean(one.predict(run)[10:] == -1) for one in (default, chosen))
            error = np.sqrt(usual * (1.0 - usual) * (1 / 125 + 1 / 200))
            assert rate >= usual - 0.1 - 4.0 * error, (u, size)


@pytest.mark.filterwarnings("ignore::mercer._core.errors.DetectorWarning")  # slow, as it is
@pytest.mark.parametrize("d", [4, 60])
def test_a_smoothed_detector_detects_a_sensor_that_stays_far_out(d):
    """However slow and many the others are: readings are cut off in the mean, beyond what T² needs."""
    rng = np.random.default_rng(0)
    slow = signal.lfilter([1], [1, -0.95], rng.standard_normal((1800, d)), axis=0)[300:]
    x, run = slow[:1000], slow[1000:].copy()
    detector = KernelPCADetector(smoothing=0.3).fit(x)
    run[:, 3] += 1e6 * x[:, 3].std()
    assert np.all(detector.predict(run)[10:] == -1)


def test_excursions_go_along_components_and_across_them(straight):
    x = np.column_stack([straight, np.ones(len(straight))])
    found = excursions(x, np.random.default_rng(0))
    z = x[:, :5] / x[:, :5].std(axis=0)
    values, axes = np.linalg.eigh(np.cov(z.T, ddof=0))
    along = np.array([one.sizes for one in found]) @ axes / np.sqrt(values)  # (e, 5)
    for far in FAR:
        own = np.abs(along) / far
        alone = np.isclose(own, 1.0) & (np.isclose(own, 0.0, atol=1e-9).sum(axis=1) == 4)[:, None]
        assert alone.any(axis=0).all()
        assert {int(np.flatnonzero(one.sizes)[0]) for one in found if (one.sizes != 0).sum() == 1}
    assert all(set(one.columns) == set(range(5)) for one in found)


def test_where_every_candidate_is_blind_a_warning_says_so(straight):
    knobs = {"lags": [0], "smoothing": [None], "n_components": (0.9,)}
    with pytest.warns(SelectionWarning, match="Every candidate misses an excursion"):
        found = select_detector(straight[:300], [RBF(0.5)], **knobs)
    assert not found.table_["tolerated"].any()
    assert found.table_["missed"].min() > 0.1


def test_one_statistic_is_chosen_by_name_alone(straight):
    found = select_detector(straight[:300], lags=[0], smoothing=[None], statistic="Q")
    assert found.best_.statistic == "Q"
    assert set(found.table_["statistic"]) == {"Q"}
    with pytest.raises(ParameterError, match="statistic must be"):
        select_detector(straight, statistic="both")


@pytest.mark.parametrize("power", [-1000, -700, 500, 1000])
def test_a_choice_does_not_depend_on_units(straight, power):
    knobs = {"kernels": ["linear"], "lags": [0, "auto"], "n_components": (0.8, 0.95)}
    found, same = (
        select_detector(x, **knobs) for x in (straight[:300], np.ldexp(straight[:300], power))
    )
    assert str(found) == str(same)


def test_equal_rows_are_refused_as_equal():
    for knobs in ({}, {"lags": ["auto"]}, {"lags": [0], "smoothing": [None]}):
        with pytest.raises(ZeroVarianceError, match="rows are equal"):
            select_detector(np.ones((200, 3)), **knobs)


# ── how sure a limit is ─────────────────────────────────────────────────────
def test_the_range_of_independent_rows_is_binomial():
    x = np.random.default_rng(2).standard_normal((2000, 3))
    limits = KernelPCADetector(n_components=2).fit(x).limits_
    low, high = stats.binom.ppf([0.05, 0.95], 2000, 0.01) / 2000
    assert abs(limits.low - low) < 0.0025
    assert abs(limits.high - high) < 0.0025


def test_spells_make_a_limit_less_sure():
    rng = np.random.default_rng(0)
    slow = signal.lfilter([1.0], [1.0, -0.97], rng.standard_normal((3000, 3)), axis=0)
    found = KernelPCADetector(n_components=2).fit(slow).limits_
    shuffled = KernelPCADetector(n_components=2).fit(rng.permutation(slow)).limits_
    assert found.high - found.low > 1.5 * (shuffled.high - shuffled.low)
    assert "drawn again" in str(found)


def test_confidence_raises_limits_and_lowers_the_rate(straight):
    train, new = straight[:400], straight[400:]
    found = [KernelPCADetector(confidence=c).fit(train) for c in (None, 0.8, 0.99)]
    edges = [d.limits_.t2 for d in found]
    rates = [np.mean(d.predict(new) == -1) for d in found]
    assert edges == sorted(edges)
    assert edges[-1] > edges[0]
    assert rates == sorted(rates, reverse=True)
    assert found[-1].limits_.high <= found[0].limits_.high


def test_blocks_are_as_long_as_rows_resemble_each_other():
    rng = np.random.default_rng(0)
    fast = rng.standard_normal(4000)
    slow = signal.lfilter([1.0], [1.0, -0.95], fast)
    assert block_length(fast) == 16  # the cube root of 4000
    assert 40 <= block_length(slow) <= 160  # twice (1 + 0.95)/(1 - 0.95) = 39
    drawn = blocks_again(100, 10, rng)
    assert len(drawn) == 100
    assert np.mean(np.diff(drawn) % 100 == 1) >= 0.9
