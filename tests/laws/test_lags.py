"""Laws of lagged rows: the same from arrays, blocks and streams; gaps end a history; blame folds back."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from scipy import signal

import mercer
from mercer import PCA, KernelPCADetector
from mercer.errors import DetectorWarning, InputError, ParameterError
from mercer.monitoring.lag_choice import chosen_lags, parallel_analysis
from mercer.monitoring.lags import Dynamics, clock_of, seconds

N, D = 60, 3
CENTRE = np.array([1.0, -1.0, 0.0])
PASTS = {
    "lags": Dynamics(2, step=1.0),
    "differences": Dynamics(3, differences=True, step=1.0),
    "smoothing": Dynamics(0, smoothing=0.3, step=1.0, centre=CENTRE, reach=np.full(D, 2.0)),
    "both": Dynamics(2, smoothing=0.5, step=1.0, centre=CENTRE, reach=np.full(D, 2.0)),
    "none": Dynamics(step=1.0),
}


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D))


@pytest.fixture
def process() -> np.ndarray:
    """Two slow causes behind four sensors."""
    rng = np.random.default_rng(1)
    causes = signal.lfilter([1.0], [1.0, -0.5], rng.standard_normal((700, 2)), axis=0)
    return causes @ rng.standard_normal((2, 4)) + 0.2 * rng.standard_normal((700, 4))


# ── rows ────────────────────────────────────────────────────────────────────
def test_lagged_rows_are_windows(rows):
    found, whole = Dynamics(2).rows(rows)
    windows = np.lib.stride_tricks.sliding_window_view(
        rows, 3, axis=0
    )  # (n - 2, d, 3), oldest first
    assert np.array_equal(found, windows[:, :, ::-1].transpose(0, 2, 1).reshape(N - 2, -1))
    assert np.array_equal(np.flatnonzero(whole), np.arange(2, N))


def test_differences_are_those_of_numpy(rows):
    found, _ = Dynamics(2, differences=True).rows(rows)
    steps = np.diff(rows, axis=0)
    assert np.array_equal(found, np.hstack([rows[2:], steps[1:], steps[:-1]]))


def test_the_weighted_mean_is_a_filter(rows):
    found, _ = Dynamics(0, smoothing=0.3, centre=CENTRE).rows(rows)
    wanted, _ = signal.lfilter([0.3], [1.0, -0.7], rows, axis=0, zi=0.7 * CENTRE[None])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PASTS)
def test_a_stream_gives_what_the_array_gives_to_the_bit(rows, name, dtype):
    """With missing cells, gaps in time, and blocks of any size, and through a pickle."""
    how, x = PASTS[name], rows.astype(dtype)
    x[[7, 8, 30], [0, 1, 2]] = np.nan
    time = np.arange(N) + 5.0 * (np.arange(N) >= 40)
    wanted, whole = how.rows(x, time)
    lagger, parts, flags = how.lagger(), [], []
    for piece in np.split(np.arange(N), [1, 4, 9, 41]):
        found = [lagger.push(x[i], time[i]) for i in piece]
        parts += [row for row in found if row is not None]
        flags += [row is not None for row in found]
        lagger = pickle.loads(pickle.dumps(lagger))
    assert np.array_equal(parts, wanted)
    assert np.array_equal(flags, whole)
    assert {row.dtype for row in parts} == {np.dtype(dtype)}
    streamed = list(map(how.lagger().push, x, time))
    assert [one is not None for one in streamed] == whole.tolist()


def test_no_lagged_row_spans_a_gap(rows):
    how, time = Dynamics(2, step=1.0), np.arange(N, dtype=float)
    time[20:] += 3.0  # late
    time[50] = time[49]  # repeated: neither it nor the next is one step on
    x = np.column_stack([time, rows])
    found, _ = how.rows(x, time)
    past = found[:, :: D + 1]  # the times that are in each lagged row
    assert np.array_equal(-np.diff(past, axis=1), np.ones((len(found), 2)))
    assert len(found) == (20 - 2) + (30 - 2) + (N - 51 - 2)


def test_times_of_any_kind_are_one_clock():
    minutes = np.arange("2024-01-01T00:00", "2024-01-01T00:05", dtype="datetime64[m]")
    seconds = 60.0 * np.arange(5)
    for times in (
        minutes,
        minutes.astype(object),
        [str(t) for t in minutes],
        seconds.astype(object),
    ):
        clock = clock_of(times)
        np.testing.assert_array_equal(clock - clock[0], seconds)
    assert clock_of(["pump", "valve"]) is None


def test_a_wild_reading_is_soon_forgotten(process):
    detector = KernelPCADetector(smoothing=0.3).fit(process[:500])
    run = process[500:].copy()
    plain = detector.predict(run)
    run[50, 1] = 1e300
    spoilt = detector.predict(run)
    assert spoilt[50] == -1
    assert np.array_equal(plain[90:], spoilt[90:])


# ── detectors ───────────────────────────────────────────────────────────────
@pytest.mark.parametrize("knobs", [{"lags": 2}, {"lags": 1, "kernel": "rbf", "n_components": 5}])
def test_a_detector_with_lags_is_one_of_lagged_rows(process, knobs):
    lags = knobs["lags"]
    detector = KernelPCADetector(**knobs).fit(process[:500])
    plain = KernelPCADetector(**{**knobs, "lags": 0}).fit(Dynamics(lags).rows(process[:500])[0])
    run, whole = Dynamics(lags).rows(process[500:])
    own, wanted = detector.statistics(process[500:]), plain.statistics(run)
    for name in ("T2", "Q"):
        np.testing.assert_allclose(own[name][whole], wanted[name], rtol=1e-9)
        assert np.isnan(own[name][~whole]).all()


@pytest.mark.parametrize("statistic", ["T2", "Q"])
def test_contributions_fold_back_to_the_sensor_and_the_lag(process, statistic):
    detector = KernelPCADetector(model=PCA(3), lags=2).fit(process[:500])
    run = process[500:560]
    by_lag, folded = (
        detector.lag_contributions(run, statistic),
        detector.contributions(run, statistic),
    )
    assert by_lag.shape == (60, 3, 4)
    assert folded.shape == (60, 4)
    np.testing.assert_allclose(by_lag.sum(axis=1)[2:], folded[2:], rtol=1e-12)
    # The mean is the baseline, where both statistics are 0 for a linear model.
    np.testing.assert_allclose(
        folded.sum(axis=1)[2:], detector.statistics(run)[statistic][2:], rtol=1e-6
    )
    assert np.isnan(folded[:2]).all()


def test_blame_follows_a_pulse_from_lag_to_lag(process):
    detector = KernelPCADetector(lags=2).fit(process[:500])
    run = process[500:600].copy()
    run[50, 2] += 30.0
    found = detector.lag_contributions(run)[50:53]
    assert [tuple(map(int, np.unravel_index(np.argmax(f), f.shape))) for f in found] == [
        (0, 2),
        (1, 2),
        (2, 2),
    ]
    seen = detector.monitor(run, names=list("abcd"))
    (event,) = [r for r in seen.runs if r.first <= 50 <= r.last]
    assert seen.began_with(event)[0][0] == "c"


def test_rows_without_a_history_are_not_judged(process):
    detector = KernelPCADetector(lags=2).fit(process[:500], time=60.0 * np.arange(500))
    run = process[500:600].copy()
    run[30, 1] = np.nan
    time = 60.0 * np.arange(100)
    time[70:] += 3600.0
    seen = detector.monitor(run, time=time)
    assert np.flatnonzero(~seen.table["judged"]).tolist() == [0, 1, 30, 31, 32, 70, 71]
    assert seen.short == 6
    assert "1 of 100" not in seen.summary()
    assert "6 have too few rows before them" in seen.summary()
    complete = process[500:510]
    assert detector.predict(complete)[:2].tolist() == [1, 1]
    assert np.isnan(detector.p_values(complete)[:2]).all()
    assert np.isfinite(detector.p_values(complete)[2:]).all()


def test_a_row_set_aside_ends_a_history(process):
    spoilt = process[:500].copy()
    spoilt[200, 1] = 1e6
    with pytest.warns(mercer.errors.DetectorWarning, match="set aside"):
        detector = KernelPCADetector(model=PCA(3), lags=2).fit(spoilt)
    assert (
        detector.model_.fit_.weight == 500 - 2 - 3
    )  # the first two, and each that would hold the reading


@pytest.mark.parametrize(
    "knobs", [{"lags": 2}, {"smoothing": 0.3}, {"lags": "auto", "differences": True}]
)
def test_a_saved_detector_remembers_in_the_same_way(process, tmp_path, knobs):
    detector = KernelPCADetector(model=PCA(3), **knobs).fit(process[:400], time=np.arange(400.0))
    again = mercer.load(detector.save(tmp_path / "d.mercer") or tmp_path / "d.mercer")
    for name in ("T2", "Q", "index"):
        assert np.array_equal(
            detector.statistics(process)[name], again.statistics(process)[name], equal_nan=True
        )
    assert again.dynamics_.step == 1.0
    assert str(again.limits_) == str(detector.limits_)


REFUSED = {
    "negative": ({"lags": -1}, "lags must be an integer >= 0 or 'auto'"),
    "weight": ({"smoothing": 1.0}, "smoothing must be a number between 0 and 1"),
    "no lags": ({"differences": True}, "differences must be False where there are no lags"),
    "flag": ({"differences": "yes", "lags": 1}, "differences must be True or False"),
    "sure": ({"confidence": 0.3}, "confidence must be a number between 0.5 and 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_remembered_is_refused(process, name):
    knobs, words = REFUSED[name]
    with pytest.raises(ParameterError, match=words):
        KernelPCADetector(**knobs).fit(process)


def test_rows_that_have_no_past_are_refused(process):
    detector = KernelPCADetector(model=PCA(3), lags=3).fit(
        np.random.default_rng(0).standard_normal((400, 4))
    )
    with pytest.raises(
        InputError, match="X must have at least 4 rows, since the detector looks back 3; got 3"
    ):
        detector.predict(process[:3])
    with pytest.raises(InputError, match="sample_weight"):
        KernelPCADetector(lags=1).fit(process, sample_weight=np.arange(len(process)) + 1.0)
    with pytest.raises(InputError, match="time must have one entry for each of the 400 rows"):
        KernelPCADetector(lags=1).fit(process[:400], time=np.arange(3))
    with pytest.raises(InputError, match="A graph takes rows one by one"):
        mercer.onnx.to_onnx(detector)


# ── how many ────────────────────────────────────────────────────────────────
def _driven(order: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    causes = signal.lfilter(
        [1.0], [1.0, *(-a for a in order)], rng.standard_normal((1500, 2)), axis=0
    )
    return causes @ rng.standard_normal((2, 6)) + 0.05 * rng.standard_normal((1500, 6))


@pytest.mark.parametrize(("order", "lags"), [((), 0), ((0.8,), 1), ((0.3, 0.6), 2)])
def test_lags_are_those_of_the_process(order, lags):
    rng = np.random.default_rng(3)
    x = _driven(order, rng)
    linked = np.arange(len(x)) > 0
    found = chosen_lags(x, linked, rng)
    assert (found.lags, found.directions) == (lags, 2)
    if lags:
        assert "without the past" in str(found)
        detector = KernelPCADetector(model=PCA(0.99), lags="auto").fit(x)
        assert detector.dynamics_.lags == lags
        assert f"{lags} lag" in str(detector.limits_)


def test_slow_columns_without_relations_make_no_direction():
    """Shuffled, such columns would seem related: by chance slow ones are."""
    rng = np.random.default_rng(0)
    x = signal.lfilter([1.0], [1.0, -0.95], rng.standard_normal((400, 8)), axis=0)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    turned, _ = parallel_analysis(x, rng)
    assert turned == 1


def test_words_say_what_is_remembered():
    assert Dynamics().in_words() == ""
    assert Dynamics(1).in_words() == "1 lag"
    assert (
        replace(PASTS["both"], note="chosen").in_words()
        == "2 lags (chosen), rows smoothed with weight 0.5"
    )
    assert Dynamics(1).names(["flow"], 1) == ["flow", "flow (1 row before)"]


@pytest.mark.parametrize("name", [name for name in PASTS if name != "none"])
def test_ways_are_how_a_deviation_shows(rows, name):
    """What a step in one sensor changes in the scaled lagged rows, seen from rows with it and without."""
    how, unit = PASTS[name], np.linspace(0.5, 2.0, PASTS[name].width(D))
    quiet = 0.1 * rows  # within reach, so that the mean is linear
    step = quiet.copy()
    step[20:, 1] += 0.7
    change = (how.rows(step)[0] - how.rows(quiet)[0])[20 - how.lags :] / unit  # (rows since, D)
    ways = how.ways(unit)
    assert ways.shape == (D, len(ways[0]), len(unit))
    for age in range(how.lags + 1):
        np.testing.assert_allclose(ways[1, age], change[age] / change[age, 1], atol=1e-10)
    assert Dynamics().ways(unit) is None


# ── times that can't be read ────────────────────────────────────────────────
START = datetime(2026, 1, 13, tzinfo=UTC)
WRITTEN = {
    "numbers": lambda t: t,
    "texts of numbers": str,
    "ISO": lambda t: (START + timedelta(seconds=t)).strftime("%Y-%m-%dT%H:%M:%S"),
    "with a zone": lambda t: (START + timedelta(seconds=t)).isoformat(),
    "days first": lambda t: (START + timedelta(seconds=t)).strftime("%d.%m.%Y %H:%M:%S"),
    "dates": lambda t: (START + timedelta(seconds=t)).replace(tzinfo=None),
    "dates with a zone": lambda t: (START + timedelta(seconds=t)).astimezone(PARIS),
}
PARIS = timezone(timedelta(hours=1))


@pytest.mark.parametrize("unreadable", ["Bad", "", "17-A4", None, 10**400])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_time_that_cannot_be_read_hides_no_other(name, unreadable):
    times = [WRITTEN[name](60.0 * i) for i in range(8)]
    expected, _ = clock_of(times), times.insert(3, unreadable)
    found = clock_of(times)
    assert np.isnan(found[3])
    np.testing.assert_array_equal(np.delete(found, 3), expected)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_stream_and_the_array_know_the_same_times(process, name):
    x, n = process, len(process)
    clock = 60.0 * np.arange(n)
    clock[n // 2 :] += 180.0
    detector = KernelPCADetector(lags=2).fit(x, time=60.0 * np.arange(n))
    times = [WRITTEN[name](t) for t in clock]
    times[20] = times[-3] = "Bad"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen = detector.monitor(x, time=times)
        stream = detector.stream()
        verdicts = stream.push_many(x, times)
    assert [str(w.message)[:55] for w in told] == [
        f"2 of {n} rows have no time that can be read; the first is"[:55]
    ]
    assert told[0].message.numbers == {"unread": 2, "rows": n}
    np.testing.assert_array_equal(seen.table["index"], [v.index for v in verdicts])
    assert int(seen.table["judged"].sum()) == n - 4  # the gap is seen
    assert stream.counts["no time"] == 2
    assert [v.row for v in verdicts if ("no time", "") in v.marks] == [20, n - 3]


@pytest.mark.parametrize("past", [{"lags": 2}, {"smoothing": 0.3}, {"lags": 1, "smoothing": 0.3}])
@pytest.mark.parametrize("seed", range(4))
def test_a_history_goes_on_over_rows_out_of_their_turn_in_an_array_as_in_a_stream(
    process, past, seed
):
    """Late and repeated rows, a clock put back and gaps, anywhere."""
    n, rng = len(process), np.random.default_rng(seed)
    clock = 60.0 * np.arange(n)
    detector = KernelPCADetector(**past).fit(process, time=clock)
    clock[n // 2 :] -= 60.0 * rng.integers(5, 20)
    clock[3 * n // 4 :] += 600.0
    late, twice = rng.choice(np.arange(10, n - 10), (2, 6), replace=False)
    clock[late] -= 60.0 * rng.integers(2, 5, 6)
    clock[twice] = clock[twice - 1]
    x = process.copy()
    x[rng.integers(n), 0] = np.nan
    seen, stream = detector.monitor(x, time=clock), detector.stream()
    verdicts = stream.push_many(x, clock)
    assert min(stream.counts[kind] for kind in ("late", "repeated", "clock put back")) > 0
    np.testing.assert_array_equal(seen.table["judged"], [v.judged for v in verdicts])
    np.testing.assert_array_equal(seen.table["index"], [v.index for v in verdicts])


@pytest.mark.parametrize("past", [{"lags": 2}, {"smoothing": 0.3}, {"lags": 1, "smoothing": 0.3}])
@pytest.mark.parametrize("missing", [1, 3])  # rows of the gap
@pytest.mark.parametrize("unread", [slice(100, 101), slice(100, 104), slice(0, 2)])
def test_a_gap_beside_a_time_that_cannot_be_read_is_seen(process, past, missing, unread):
    """At the next time that can be read, on whichever side of the unread rows the gap is."""
    x, usual = process[:120], 60.0 * np.arange(len(process))
    detector = KernelPCADetector(**past).fit(process, time=usual)
    first, after = unread.start, unread.stop
    for begin in (first, after) if first else (after + 1,):
        expected = usual[:120] + 60.0 * missing * (np.arange(120) >= max(begin, after))
        times = [str(t) for t in usual[:120] + 60.0 * missing * (np.arange(120) >= begin)]
        times[unread] = ["Bad"] * (after - first)
        stream, singly = detector.stream(), detector.stream()
        verdicts = stream.push_many(x, times)
        assert [v.row for v in verdicts if ("gap", "") in v.marks] == [max(begin, after)]
        with pytest.warns(DetectorWarning, match="no time that can be read"):
            seen = detector.monitor(x, time=times).table
        np.testing.assert_array_equal(seen["index"], [v.index for v in verdicts])
        np.testing.assert_array_equal(
            seen["index"], detector.monitor(x, time=expected).table["index"]
        )
        for row, time, verdict in zip(x, times, verdicts, strict=True):
            again = singly.push(row, time)
            singly.restore(json.loads(json.dumps(singly.state())))
            told = [(v.judged, v.alarm, v.marks) for v in (again, verdict)]
            assert told[0] == told[1]


def test_a_fit_knows_the_step_beside_a_time_that_cannot_be_read(process):
    times = [str(60.0 * i) for i in range(len(process))]
    times[7] = "Bad"
    with pytest.warns(DetectorWarning, match=r"1 of \d+ rows has no time .* row 7 "):
        detector = KernelPCADetector(lags=1).fit(process, time=times)
    assert detector.dynamics_.step == 60.0


@pytest.mark.parametrize("time", [10**30, 10**400, START, [1, 2], np.timedelta64(1, "s"), b"x"])
def test_whatever_a_time_is_it_ends_no_stream(process, time):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for lags in (0, 1):
            stream = KernelPCADetector(lags=lags).fit(process).stream()
            assert [stream.push(row, time).time for row in process[:3]] == [time] * 3


def test_dates_with_a_zone_are_instants():
    text = "2026-07-01T12:00+02:00"
    assert seconds(datetime.fromisoformat(text)) == seconds(text) == seconds("2026-07-01T10:00")
    index = pd.date_range("2026-03-29", periods=6, freq="h", tz="Europe/Paris")  # summer begins
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(np.diff(clock_of(index)), 3600.0)


# ── times as files have them, and restarts ──────────────────────────────────
def test_a_stream_sees_gaps_in_texts_and_needs_no_times_and_restarts_in_its_precision():
    rows = np.random.default_rng(5).standard_normal((300, 3)).astype(np.float32)
    time = 60.0 * np.arange(300)
    detector = KernelPCADetector(lags=2, smoothing=0.3).fit(rows, time=time.astype(str))
    later = time + 6000.0 * (time > 6000.0)

    def judged(times):
        return [verdict.judged for verdict in detector.stream().push_many(rows, times)]

    assert detector.dynamics_.step == 60.0
    assert judged(later.astype(str)) == judged(later)
    assert judged(later).count(False) == 4
    assert judged([None] * 300) == judged(None)
    assert judged(None).count(False) == 2
    stream = detector.stream()
    stream.push_many(rows[:100])
    again = detector.stream(state=stream.state())
    expected, found = (s.push_many(rows[100:]) for s in (stream, again))
    assert [v.index for v in found] == [v.index for v in expected]
