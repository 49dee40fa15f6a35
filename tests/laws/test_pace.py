"""Laws of the pace of rows: at another step than that of the fit, or backwards, no past is made up."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import mercer
from markets.commands import write_csv
from mercer import KernelPCADetector, open_table, select_detector, views
from mercer.errors import DetectorWarning, InputError
from mercer.monitoring.clock import apart
from mercer.preprocessing.preparation import Preparation

N = 300
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((N, 2)) @ [[3.0, 1.0, 0.5], [0.0, 1.0, 2.0]] + RNG.normal(0, 0.2, (N, 3))
MINUTES = np.datetime64("2024-01-01T00:00") + np.arange(N).astype("m8[m]")
TIMES = {
    "dates": MINUTES,
    "texts": MINUTES.astype(str),
    "seconds": 60.0 * np.arange(N),
}
ASKED = {
    "monitor": lambda detector, x, time: detector.monitor(x, time=time),
    "events": lambda detector, x, time: detector.events(x, time),
    "updated": lambda detector, x, time: detector.updated(x, time, keep_faults=True),
}


def fitted(time, **knobs):
    return KernelPCADetector(2, **(knobs or {"smoothing": 0.2})).fit(ROWS, time=time)


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("knobs", [{"smoothing": 0.2}, {"lags": 2}])
def test_thinned_rows_are_refused_and_those_of_the_fit_are_not(ask, kind, knobs):
    time = TIMES[kind]
    detector = fitted(time, **knobs)
    ASKED[ask](detector, ROWS, time)
    met = "2 min apart.* 1 min apart" if kind != "seconds" else "120 apart.* 60 apart"
    with pytest.raises(InputError, match=f"The rows are {met}"):
        ASKED[ask](detector, ROWS[::2], time[::2])
    with pytest.raises(InputError, match="Times must go forwards"):
        ASKED[ask](detector, ROWS[::-1], time[::-1])


def test_a_few_gaps_and_a_jitter_are_no_other_pace():
    detector = fitted(TIMES["seconds"])
    rng = np.random.default_rng(1)
    time = TIMES["seconds"] + rng.uniform(-10, 10, N) + 3600.0 * (np.arange(N) // 10)
    assert detector.monitor(ROWS, time=time).table["judged"].all()


def test_without_a_step_only_the_order_counts():
    detector = fitted(None)
    detector.monitor(ROWS[::2], time=MINUTES[::2])
    with pytest.raises(InputError, match="Times must go forwards"):
        detector.monitor(ROWS, time=MINUTES[::-1])
    detector.monitor(ROWS, time=[f"batch {i}" for i in range(N)])  # no times at all


@pytest.mark.parametrize(
    "time", [MINUTES[::-1], MINUTES.astype("M8[D]"), MINUTES[7919 * np.arange(N) % N]]
)
def test_a_fit_needs_times_that_go_forwards(time):
    with pytest.raises(InputError, match="Times must go forwards"):
        fitted(time)


def test_rows_that_are_judged_by_themselves_are_only_warned_of():
    detector = KernelPCADetector(2).fit(ROWS)
    with pytest.warns(DetectorWarning, match="299 of 300 rows are older than one before"):
        back = detector.monitor(ROWS[::-1], time=MINUTES[::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = detector.monitor(ROWS, time=MINUTES)
        detector.monitor(ROWS[::2], time=MINUTES[::2])
    np.testing.assert_allclose(back.table["index"][::-1], told.table["index"], rtol=1e-6)


def pushed(stream, block):
    """The verdicts on every second row, block by block, each from the state that the one before left."""
    seen = []
    for start in range(0, N, 2 * block):
        part = slice(start, start + 2 * block, 2)
        seen += stream.push_many(ROWS[part], list(MINUTES[part]))
        stream.restore(stream.state())
    return seen


@pytest.mark.parametrize("block", [1, 7, 300])
def test_a_stream_says_once_that_its_rows_follow_gaps_and_marks_them(block):
    stream = fitted(MINUTES).stream()
    with pytest.warns(DetectorWarning, match="Most of the first 20 rows follow a gap") as told:
        seen = pushed(stream, block)
    assert len(told) == 1
    assert [verdict.marks for verdict in seen] == [(), *[(("gap", ""),)] * 149]
    assert stream.counts["gaps"] == 149
    assert stream.counts["short"] == 0


def test_a_stream_at_the_pace_of_the_fit_says_nothing():
    stream = fitted(MINUTES, lags=2).stream()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.push_many(ROWS, list(MINUTES))
    assert stream.counts["gaps"] == 0
    assert stream.counts["short"] == stream.counts["unjudged"] == 2


def test_why_no_row_has_a_history():
    detector = fitted(MINUTES, lags=2)
    pairs = MINUTES[:20] + np.timedelta64(60, "m") * (np.arange(20) // 2)
    with pytest.raises(InputError, match="No row has 2 rows directly before it: 9 follow a gap"):
        detector.monitor(ROWS[:20], time=pairs)
    spoilt = ROWS[:20].copy()
    spoilt[::2, 1] = np.nan
    with pytest.raises(InputError, match="No row has 2 rows directly before it: 10 lack a reading"):
        detector.monitor(spoilt, time=MINUTES[:20])
    with pytest.raises(InputError, match="at least 3 rows, since the detector looks back 2; got 2"):
        detector.monitor(ROWS[:2])


def test_lags_that_are_too_many_for_the_rows():
    with pytest.raises(InputError, match="lags=500 needs at least 502 rows in a row; X has 300"):
        fitted(None, lags=500)
    gappy = MINUTES + np.timedelta64(60, "m") * (np.arange(N) // 3)
    with pytest.raises(InputError, match="without a gap between them; 0 of 300 rows have 4 rows"):
        fitted(gappy, lags=4)


def test_steps_in_words():
    steps = (0.5, 1.0, 90.0, 3600.0, 86400.0)
    assert [apart(step, dates=True) for step in steps] == ["500 ms", "1 s", "1.5 min", "1 h", "1 d"]
    assert apart(0.25, dates=False) == "0.25"


# ── times that the rows bring ───────────────────────────────────────────────
@pytest.fixture
def table(tmp_path):
    """Rows in a file, an hour apart at every tenth; and their times."""
    time = MINUTES + np.timedelta64(60, "m") * (np.arange(N) // 10)
    columns = {"when": time.astype(str), **dict(zip("abc", ROWS.T, strict=True))}
    return open_table(str(write_csv(tmp_path / "rows.csv", columns)), id="when"), time


def test_the_ids_of_a_table_are_its_times(table):
    rows, time = table
    known, told = (
        KernelPCADetector(2, lags=2).fit(X, time=when) for X, when in ((ROWS, time), (rows, None))
    )
    assert told.model_.fit_.weight == known.model_.fit_.weight == N - 2 * N // 10
    seen = told.monitor(rows)
    assert np.array_equal(seen.table["judged"], known.monitor(ROWS, time=time).table["judged"])
    assert seen.table["time"].tolist() == time.astype(str).tolist()


def test_a_choice_of_lags_knows_the_times_of_a_table(table):
    rows, time = table
    told = select_detector(rows, lags=[2], smoothing=[0.2], random_state=0)
    known = select_detector(ROWS, time=time, lags=[2], smoothing=[0.2], random_state=0)
    blind = select_detector(ROWS, lags=[2], smoothing=[0.2], random_state=0)
    ranked = [found.best_.model_.fit_.weight for found in (told, known, blind)]
    assert ranked == [N - 2 * N // 10, N - 2 * N // 10, N - 2]


@pytest.mark.parametrize("knobs", [{"smoothing": 0.2}, {"lags": 2}])
def test_answers_take_the_times_that_monitor_takes(table, knobs):
    rows, time = table
    frame = pd.DataFrame(ROWS, index=time)
    detector = fitted(time, **knobs)
    seen = detector.monitor(ROWS, time=time, explain="all").table
    judged = seen["judged"]
    for given in ((frame,), (rows,), (ROWS, time)):
        assert np.array_equal(detector.predict(*given) == -1, seen["alarm"])
        told = detector.statistics(*given)
        np.testing.assert_allclose(told["Q"][judged], seen["Q"][judged], rtol=1e-6)
        for ask in (detector.score_samples, detector.decision_function, detector.p_values):
            assert np.array_equal(np.isfinite(ask(*given)), judged)
    for ask in (detector.contributions, detector.lag_contributions):
        blame = ask(frame), ask(ROWS, time=time)
        np.testing.assert_array_equal(*blame)
        assert np.array_equal(np.isfinite(blame[0].reshape(N, -1)[:, 0]), judged)
    assert np.array_equal(detector.fit_predict(ROWS, time=time) == -1, seen["alarm"])


@pytest.mark.parametrize("knobs", [{"smoothing": 0.2}, {"lags": 2}])
def test_a_prepared_detector_reads_the_times_that_its_model_reads(table, knobs):
    rows, time = table
    frame = pd.DataFrame(ROWS, index=time, columns=list("abc"))
    detector = fitted(time, **knobs)
    prepared = mercer.Prepared(Preparation(numbers=("a", "b", "c")), detector)
    for name in ("predict", "decision_function", "p_values", "contributions"):
        wanted = getattr(detector, name)(ROWS, time=time)
        for X in (frame, rows):
            np.testing.assert_array_equal(getattr(prepared, name)(X), wanted)
    known = detector.monitor(ROWS, time=time).table
    for X in (frame, rows):
        seen = prepared.monitor(X).table
        assert np.array_equal(seen["judged"], known["judged"])
        assert seen["time"].astype("M8[m]").tolist() == time.tolist()
    assert str(prepared.events(frame)) == str(detector.events(ROWS, time, list("abc")))


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
@pytest.mark.parametrize("knobs", [{}, {"smoothing": 0.2}])
def test_events_have_the_times_of_the_index(knobs, zone):
    frame = pd.DataFrame(ROWS, index=pd.DatetimeIndex(MINUTES, tz=zone))
    frame.iloc[200:] += [0.0, 20.0, 0.0]
    detector = KernelPCADetector(2, **knobs).fit(frame[:200])
    timed = detector.events(frame, frame.index)
    assert "2024-01-01" in str(timed[0])
    assert str(detector.events(frame)) == str(timed)
    with pytest.raises(InputError, match="Times must go forwards"):
        detector.events(frame[::-1])


def test_answers_refuse_the_times_that_monitor_refuses():
    with pytest.raises(InputError, match="The rows are 2 min apart"):
        fitted(MINUTES).predict(ROWS[::2], MINUTES[::2])
    for detector in (fitted(MINUTES), KernelPCADetector(2).fit(ROWS)):
        with pytest.raises(InputError, match="each of the 300 rows"):
            detector.predict(ROWS, MINUTES[:9])


def test_the_end_of_summer_time_is_no_gap(tmp_path):
    hours = pd.date_range("2026-10-20", periods=N, freq="h", tz="Europe/Paris")
    frame = pd.DataFrame(ROWS, index=hours)
    detector = KernelPCADetector(2, lags=2).fit(frame)
    assert detector.model_.fit_.weight == N - 2
    for told in (detector.monitor(frame), detector.monitor(ROWS, time=hours.to_series())):
        assert told.table["judged"].sum() == N - 2
    seen = detector.monitor(frame).table["time"]
    assert np.array_equal(seen, hours.tz_localize(None))  # shown by the clock of the frame
    assert views.monitoring(detector, frame).judged.sum() == N - 2
    page = tmp_path / "report.html"
    mercer.report(detector, frame, page)
    assert "2026-10-31 09:00" in page.read_text()
    assert "follow a gap" not in page.read_text()
