"""Laws of wild readings: one of them blinds no sensor, and is told by name; honest columns keep theirs."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import signal

import mercer
from mercer import PCA, KernelPCADetector
from mercer._core.errors import DetectorWarning, InputError
from mercer.monitoring.set_aside import FarCells
from mercer.monitoring.wild_readings import far_cells


def process(n, *, d=6, seed=0):
    mixing = np.random.default_rng(99).standard_normal((3, d))
    rng = np.random.default_rng(seed)
    return 5.0 + rng.standard_normal((n, 3)) @ mixing + 0.3 * rng.standard_normal((n, d))


def wild_cells(x):
    found, out = FarCells.of(x), np.zeros(x.shape, dtype=bool)
    rows, columns, _ = found.cells[found.wild].T
    out[rows.astype(int), columns.astype(int)] = True
    return out


X, NEW = process(300), process(200, seed=1)
PLACES = {
    "one": [(40, 2)],
    "one elsewhere": [(40, 5)],
    "five in one column": [(7, 2), (40, 2), (90, 2), (180, 2), (260, 2)],
    "five in others": [(7, 0), (40, 1), (90, 3), (180, 4), (180, 5)],
}


# ── what is set aside ───────────────────────────────────────────────────────
@pytest.mark.parametrize("reading", [1e6, -1e6, 1e300, 0.0], ids=str)
@pytest.mark.parametrize("knobs", [{}, {"model": PCA(3)}, {"contamination": 0.05}], ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_a_wild_reading_blinds_no_sensor(place, knobs, reading):
    # A reading of 0 is a sensor that dropped out: wild where it usually shows 500.
    base, new = (X + 500.0, NEW + 500.0) if reading == 0.0 else (X, NEW)
    spoilt = base.copy()
    for i, j in PLACES[place]:
        spoilt[i, j] = reading
    with pytest.warns(DetectorWarning, match="row") as told:
        detector = KernelPCADetector(**knobs).fit(spoilt)
    gone = sorted({i for i, _ in PLACES[place]})
    clean = KernelPCADetector(**knobs).fit(np.delete(base, gone, axis=0))
    np.testing.assert_array_equal(detector.score_samples(new), clean.score_samples(new))
    step = new.copy()
    step[:, 2] += 10.0 * base[:, 2].std()
    assert np.mean(detector.predict(step) == -1) > 0.99
    np.testing.assert_array_equal(detector.set_aside_[:, :2], sorted(PLACES[place]))
    np.testing.assert_array_equal(detector.set_aside_[:, 2], reading)
    assert all(
        f"row {i}, column {j}: {reading:g}" in str(told[0].message) for i, j in PLACES[place]
    )
    assert f"{len(gone)} of 300 training rows were set aside" in str(detector.limits_)


def test_kept_where_asked_for_and_blind_then():
    """What the law above is for."""
    spoilt = X.copy()
    spoilt[40, 2] = 1e6
    detector = KernelPCADetector(wild="keep").fit(spoilt)
    step = NEW.copy()
    step[:, 2] += 10.0 * X[:, 2].std()
    assert len(detector.set_aside_) == 0
    assert np.mean(detector.predict(step) == -1) < 0.1
    with pytest.raises(InputError, match=r"wild must be .* got 'drop'"):
        KernelPCADetector(wild="drop").fit(X)


@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@pytest.mark.parametrize("kernel", ["auto", "linear"])
@pytest.mark.parametrize("reading", [1e-300, 1e40, 1e76, 1e80, 1e150], ids=str)
def test_limits_beside_a_reading_that_is_kept_are_numbers(reading, kernel, tmp_path):
    spoilt = X.copy()
    spoilt[150, 0] = reading
    detector = KernelPCADetector(kernel=kernel, wild="keep").fit(spoilt)
    limits = detector.limits_
    assert all(0.0 < limit < np.inf for limit in (limits.t2, limits.q, limits.index))
    detector.save(tmp_path / "d.mercer")
    again = mercer.load(tmp_path / "d.mercer")
    assert np.array_equal(again.p_values(NEW), detector.p_values(NEW))


@pytest.mark.parametrize("reading", [1e70, 1e150], ids=str)
def test_a_reading_beside_which_statistics_overflow_is_refused_with_a_way_out(reading):
    spoilt = X.copy()
    spoilt[150, 0] = reading
    with pytest.raises(InputError, match=r"must be finite for limits of 300 rows.*wild='aside'"):
        KernelPCADetector(kernel="poly", wild="keep").fit(spoilt)
    with pytest.warns(DetectorWarning, match="set aside"):
        KernelPCADetector(kernel="poly", wild="aside").fit(spoilt)


def test_columns_are_named_and_rows_counted_as_they_came(tmp_path):
    frame = pd.DataFrame(X.copy(), columns=["flow", "heat", "level", "pressure", "speed", "valve"])
    frame.iloc[100, 3] = 1e6
    weights = np.ones(300)
    weights[:50] = 0.0  # rows that are not there, but counted
    with pytest.warns(DetectorWarning, match=r"row 100, column 3 \('pressure'\): 1e\+06"):
        detector = KernelPCADetector().fit(frame, sample_weight=weights)
    np.testing.assert_array_equal(detector.set_aside_, [[100, 3, 1e6]])
    detector.save(tmp_path / "detector.mercer")
    again = mercer.load(tmp_path / "detector.mercer")
    np.testing.assert_array_equal(again.set_aside_, detector.set_aside_)
    assert again.limits_ == detector.limits_


@pytest.mark.filterwarnings("ignore:All eigenvalues are alike")
def test_wild_readings_all_over_are_told_and_kept():
    spoilt = process(100, d=60)
    spoilt[np.arange(60), np.arange(60)] = 1e6
    with pytest.warns(DetectorWarning, match="60 of 100 rows, too many to set aside"):
        detector = KernelPCADetector(2, kernel="linear").fit(spoilt)
    assert len(detector.set_aside_) == 0


# ── what is not ─────────────────────────────────────────────────────────────
def honest():
    rng = np.random.default_rng(5)
    valve = 0.1 * rng.standard_normal(600)
    valve[200:206] += 100.0  # open for six rows: a state, not a glitch
    rare = np.zeros(600)
    rare[[50, 300]] = 1.0
    rain = np.zeros(600)
    rain[::20] = rng.exponential(size=30)
    rain[40] = 80.0
    return {
        "gaussian": rng.standard_normal((600, 60)),
        "t with 3 degrees": rng.standard_t(3, (600, 60)),
        "laplace": rng.laplace(size=(600, 60)),
        "lognormal": rng.lognormal(size=(600, 60)),
        "constant": np.full((600, 1), 3.3),
        "two values": rng.integers(0, 2, (600, 5)).astype(float),
        "rare": rare[:, None],
        "mostly nothing": rain[:, None],
        "a valve that opens": valve[:, None],
        "whole numbers": rng.poisson(0.3, (600, 5)).astype(float),
        "few rows": rng.standard_t(3, (9, 30)),
    }


@pytest.mark.parametrize("name", honest())
def test_honest_columns_keep_their_readings(name):
    assert not wild_cells(honest()[name]).any()


@pytest.mark.parametrize(
    ("draw", "near", "far"),
    [
        # The tail of a Gaussian falls with more than the fourth power between 90 % and its end, and ends,
        # that of t with three degrees falls nearly with the third, that of a lognormal slower than the
        # second.
        (lambda rng: rng.standard_normal(600), 2.9, 7.0),
        (lambda rng: rng.standard_t(3, 600), 6.0, 30.0),
        (lambda rng: rng.lognormal(size=600), 10.0, 1e4),
        (lambda rng: rng.integers(-1, 2, 600).astype(float), 9.9, 10.1),  # three states
        (lambda rng: rng.standard_normal(12), 5.0, 10.1),  # few rows know nothing of their tail
    ],
    ids=["gaussian", "t with 3 degrees", "lognormal", "states", "few rows"],
)
def test_the_border_is_a_gap_that_the_tail_of_the_column_does_not_have(draw, near, far):
    """In units of the farthest reading. Neither a reading's own size nor standard deviations count."""
    for seed in range(20):
        x = draw(np.random.default_rng(seed))
        median = np.median(np.append(x, x.max() + 1.0))
        for factor, wild in ((near, False), (far, True)):
            there = np.append(x, median + factor * np.abs(x - median).max())[:, None]
            assert wild_cells(there)[-1, 0] == wild
            assert not wild_cells(there)[:-1].any()


@pytest.mark.parametrize(
    "steps", [(9.0, 81.0), (8.0, -30.0, 500.0), (8.0, 9.0, 12.0, 2e3)], ids=str
)
def test_wild_readings_do_not_hide_behind_one_another(steps):
    """Each is less than ten times as far as the next, and the first is as far from all others."""
    spoilt = X.copy()
    at = 100 + 10 * np.arange(len(steps))
    median = np.median(X[:, 2])
    spoilt[at, 2] = median + np.array(steps) * np.abs(X[:, 2] - median).max()
    with pytest.warns(DetectorWarning, match="row 100, column 2"):
        detector = KernelPCADetector().fit(spoilt)
    np.testing.assert_array_equal(detector.set_aside_[:, 0], at)
    step = NEW.copy()
    step[:, 2] += 10.0 * X[:, 2].std()
    assert np.mean(detector.predict(step) == -1) > 0.99


# ── in stretches, or often ──────────────────────────────────────────────────
CROWDS = {
    "three in a row": np.arange(100, 103),
    "five in a row": np.arange(100, 105),
    "24 in a row": np.arange(100, 124),
    "the first ten": np.arange(10),
    "one in eighteen": np.arange(4, 300, 18),
    "one in ten": np.arange(4, 300, 10),
}
NAMES = ["flow", "heat", "level", "pressure", "speed", "valve"]


def told(x, **knobs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        detector = KernelPCADetector(**knobs).fit(x)
    return detector, [str(one.message) for one in caught]


@pytest.mark.parametrize("knobs", [{}, {"kernel": "rbf"}, {"model": PCA(3)}], ids=str)
@pytest.mark.parametrize("size", [15.0, 1e6], ids=str)
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_sensor_that_fails_alone_for_a_while_stays_seeing(crowd, size, knobs):
    """The fit is that without its rows; kept, they hide a step of ten standard deviations."""
    at, spread = CROWDS[crowd], X[:, 3].std()
    frame = pd.DataFrame(X.copy(), columns=NAMES)
    frame.iloc[at, 3] = X[:, 3].mean() + size * spread
    detector, said = told(frame, **knobs)
    np.testing.assert_array_equal(detector.set_aside_[:, 0], at)
    np.testing.assert_array_equal(detector.set_aside_[:, 1], 3)
    clean, _ = told(pd.DataFrame(np.delete(X, at, axis=0), columns=NAMES), **knobs)
    new = pd.DataFrame(NEW.copy(), columns=NAMES)
    np.testing.assert_array_equal(detector.score_samples(new), clean.score_samples(new))
    rows = f"row {at[0]}" if at[1] > at[0] + 1 else f"rows {at[0]} to {at[-1]}"
    assert any(
        f"{rows}, column 3 ('pressure'): " in one and "all other columns go on as before" in one
        for one in said
    )
    new.iloc[:, 3] += 10.0 * spread
    assert np.mean(detector.predict(new) == -1) > 0.99 or knobs == {"kernel": "rbf"}
    kept, _ = told(frame, **knobs, wild="keep")
    assert np.mean(kept.predict(new) == -1) < np.mean(detector.predict(new) == -1)


@pytest.mark.parametrize("knobs", [{}, {"kernel": "rbf"}, {"model": PCA(3)}], ids=str)
@pytest.mark.parametrize("shift", [5.0, -10.0])
@pytest.mark.parametrize("crowd", CROWDS)
def test_what_another_column_shows_too_is_a_state_and_told_by_name(crowd, shift, knobs):
    """So it stays; but the scale is that of these rows."""
    at = CROWDS[crowd]
    frame = pd.DataFrame(X.copy(), columns=NAMES)
    frame.iloc[at, 3] = 1e6
    frame.iloc[at, 0] += shift * X[:, 0].std()
    tell = f"column 3 ('pressure'): {len(at)} of 300 rows, up to 1e+06"
    for wild in ("aside", "keep"):
        detector, said = told(frame, **knobs, wild=wild)
        assert any(tell in one and "may go unseen" in one for one in said) == (wild == "aside")
        assert not any("too narrow" in one for one in said)
        assert not np.any(detector.set_aside_[:, 1] == 3)


def test_with_no_other_column_nothing_is_known_of_a_stretch():
    for others in (np.empty((300, 0)), np.full((300, 2), 7.0)):
        spoilt = np.column_stack([X[:, 0], others])
        spoilt[100:110, 0] = 1e6
        assert far_cells(spoilt)[100:110, 0].all()
        assert not wild_cells(spoilt).any()


def slow(n, rng, d=6):
    mixing = np.random.default_rng(99).standard_normal((3, d))
    causes = signal.lfilter([1.0], [1.0, -0.9], rng.standard_normal((n + 200, 3)), axis=0)[200:]
    return causes @ mixing + 0.3 * rng.standard_normal((n, d))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.standard_t(3, (300, 3)) @ np.ones((3, 6)) + rng.standard_t(3, (300, 6)),
        lambda rng: slow(300, rng),
        lambda rng: np.exp(0.3 * slow(300, rng)),
        lambda rng: np.where(rng.random((300, 1)) < 0.5, 0.0, 20.0) + rng.standard_normal((300, 6)),
        lambda rng: rng.poisson(2.0, (300, 6)).astype(float),
    ],
    ids=["t with 3 degrees", "slow", "skewed and slow", "two regimes", "counts"],
)
def test_whatever_the_columns_are_like_the_others_know_of_a_stretch_or_do_not(draw):
    """By luck they seem to in one of a hundred; 5 of 40 has a chance of 5e-5 then."""
    known = missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        alone = draw(rng)
        first = int(rng.integers(0, 290))
        alone[first : first + 8, 2] = 1e6
        known += not wild_cells(alone)[first : first + 8, 2].all()
        shared = alone.copy()
        off = np.abs(shared[:, 4] - np.median(shared[:, 4]))
        shared[first : first + 8, 4] += 3.0 * np.quantile(off, 0.99)
        missed += wild_cells(shared)[first : first + 8, 2].any()
    assert known < 5
    assert missed < 5, missed


def test_good_rows_are_fitted_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detector = KernelPCADetector().fit(X)
    np.testing.assert_allclose(detector.center_, X.mean(axis=0))
    np.testing.assert_allclose(detector.spread_, X.std(axis=0, ddof=1))
    assert "aside" not in str(detector.limits_)


def test_up_to_one_row_in_ten():
    spoilt = X[:100].copy()
    spoilt[0:100:10, 2] = 1e6
    assert wild_cells(spoilt).sum() == 10
    spoilt[5, 2] = 1e6  # as often as that is what the process does
    assert not wild_cells(spoilt).any()


# ── rates ───────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("n", [30, 100, 500])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: process(n, seed=rng.integers(1 << 30)),
        lambda rng, n: slow(n, rng),
        lambda rng, n: np.repeat(rng.standard_normal((n, 6)), 2, axis=0)[:n],
        lambda rng, n: np.round(2.0 * slow(n, rng)),
        lambda rng, n: rng.poisson(2.0, (n, 6)).astype(float),
        lambda rng, n: np.where(rng.random((n, 6)) < 0.6, 0.0, rng.standard_normal((n, 6))),
        lambda rng, n: process(n, seed=rng.integers(1 << 30)) + 30.0 * (rng.random((n, 1)) < 0.3),
    ],
    ids=["gaussian", "slow", "held", "rounded", "counts", "mostly still", "two regimes"],
)
def test_light_tails_lose_no_row(draw, n):
    assert not any(wild_cells(draw(np.random.default_rng(seed), n)).any() for seed in range(25))


@pytest.mark.parametrize("n", [30, 100, 500])
def test_heavy_tails_lose_hardly_a_row(n):
    """A chance of one in a thousand for each column, and several for few rows that don't show their tail."""
    columns = [
        wild_cells(np.random.default_rng(seed).standard_t(3, (n, 20))).any(axis=0).mean()
        for seed in range(60)
    ]
    assert np.mean(columns) < 0.01


def test_a_gaussian_tail_ends():
    """One reading at 15 standard deviations of 2000: by a power law it might be one of them."""
    found = 0
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((2000, 1))
        x[77] = 15.0
        found += wild_cells(x)[77, 0]
    assert found > 15
