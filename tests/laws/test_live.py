"""A stream says of a row what a file of rows would say, to the bit, and goes on whatever a row holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mercer import PCA, AlarmRule, KernelPCADetector, load
from mercer.monitoring.alarms import alarm_runs
from mercer.monitoring.clock import Clock
from mercer.monitoring.events import STRETCHES
from mercer.monitoring.sensors import FEWEST, Sensors

DETECTORS = {
    "default": {},
    "narrow": {"kernel": "rbf", "n_components": 12},
    "linear": {"model": PCA(3)},
    "polynomial": {"kernel": "polynomial", "n_components": 8},
    "by Q": {"statistic": "Q"},
    "without slopes": {"kernel": "laplacian", "n_components": 8},
    "low rank": {"kernel": "rbf", "approximation": "rpcholesky(rank=40)", "n_components": 8},
    "unscaled": {"scale": False},
    "by lengths": {"kernel": "matern(nu=1.5)", "n_components": 8},
    "lagged": {"lags": 2},
    "differences": {"lags": 1, "differences": True},
    "smoothed": {"lags": 1, "smoothing": 0.9, "model": PCA(3)},
}
NAMES = ("a", "b", "c", "d", "e", "f")


def plant(n, seed, d=6):
    rng = np.random.default_rng(seed)
    cause = rng.standard_normal((n, 2))
    mix = np.random.default_rng(99).standard_normal((2, d))
    return cause @ mix + 0.3 * rng.standard_normal((n, d))


def a_bad_day(n=240):
    """Rows with two faults, one of them short."""
    rows = plant(n, 1)
    rows[60:110, 2] += 5.0
    rows[150:153, 4] -= 6.0
    rows[200, 0] = 1e300  # a reading that overflows what is made of it
    rows[201] = plant(300, 0).mean(axis=0)  # and a row that is zero, once it is scaled
    return rows


@pytest.fixture(scope="module")
def fitted():
    found = {}

    def of(name):
        if name not in found:
            found[name] = KernelPCADetector(**DETECTORS[name]).fit(plant(300, 0))
        return found[name]

    return of


@pytest.mark.parametrize("kernel", ["rbf", "matern(nu=1.5)", "laplacian"])
@pytest.mark.parametrize("d", [2, 5])
def test_rows_near_a_training_row_change_no_bit_of_their_neighbours(kernel, d):
    """Whether distances are taken from differences is decided by pair or row, never by block."""
    rows, train = plant(60, 1, d), plant(200, 0, d)
    rows[7::16] = train[:4] + 1e-9
    detector = KernelPCADetector(kernel=kernel, n_components=4, limits="approximate").fit(train)
    seen = detector.monitor(rows).table
    wanted = np.column_stack([seen["T2"], seen["Q"]])
    one, blocks = detector.stream(top=0), detector.stream(top=0)
    singly = [one.push(row) for row in rows]
    pieces = [v for i in range(0, len(rows), 23) for v in blocks.push_many(rows[i : i + 23])]
    for verdicts in (singly, pieces):
        np.testing.assert_array_equal([(v.t2, v.q) for v in verdicts], wanted)


def numbers(verdicts):
    return np.array([(v.t2, v.q, v.index, v.alarm, v.judged) for v in verdicts], dtype=float)


@pytest.mark.parametrize("name", DETECTORS)
def test_verdicts_are_those_of_monitor_to_the_bit(fitted, name):
    detector, rows = fitted(name), a_bad_day()
    rows[5, 1] = rows[120:123, 3] = np.nan
    seen = detector.monitor(rows, names=NAMES).table
    wanted = np.column_stack([seen[c] for c in ("T2", "Q", "index", "alarm", "judged")])
    one, many, blocks = (detector.stream(NAMES) for _ in range(3))
    singly = [one.push(row) for row in rows]
    for found in (singly, many.push_many(rows)):
        np.testing.assert_array_equal(numbers(found), wanted.astype(float))
    pieces = [v for i in range(0, len(rows), 37) for v in blocks.push_many(rows[i : i + 37])]
    np.testing.assert_array_equal(numbers(pieces), wanted.astype(float))
    assert len({json.dumps(stream.state()) for stream in (one, many, blocks)}) == 1
    for verdict, top in zip(singly, seen["top"], strict=True):
        assert [n for n, _ in verdict.top] == [
            word.rpartition(" ")[0].rpartition(" ")[0] for word in top.split(", ") if top
        ]


@pytest.mark.parametrize("name", ["default", "without slopes"])
def test_events_of_one_row_are_the_runs_of_monitor(fitted, name):
    detector, rows = fitted(name), a_bad_day()
    seen = detector.monitor(rows, names=NAMES)
    events = detector.events(rows, names=NAMES, rule=AlarmRule(1, 1))
    assert [(e.first, e.last, e.alarms) for e in events] == [
        (run.first, run.last, run.alarms)
        for run in alarm_runs(seen.table["alarm"], seen.table["judged"])
    ]
    for event, run in zip(events, seen.runs, strict=True):
        named = seen.began_with(run)
        assert [n for n, _ in event.onset] == [n for n, _ in named]
        np.testing.assert_allclose([s for _, s in event.onset], [s for _, s in named], rtol=1e-9)


def test_events_have_the_fault_its_time_and_its_cause(fitted):
    events = fitted("default").events(a_bad_day(), names=NAMES)
    assert [(e.first, e.last) for e in events] == [(60, 109), (150, 152)]
    assert [e.onset[0][0] for e in events] == ["c", "e"]
    assert events[0].led[0][0] == "c"
    assert events[0].blame[0].begin == 60
    assert sum(stretch.alarms for stretch in events[0].blame) == events[0].alarms == 50
    np.testing.assert_allclose([s.shares.sum() for s in events[0].blame], 1.0)
    assert events[0].raised == 62  # the third of five
    assert events[0].peak == max(
        v.index for v in fitted("default").stream().push_many(a_bad_day())[60:110]
    )


@pytest.mark.parametrize("cut", [1, 61, 63, 109, 112, 151])
def test_a_stream_goes_on_from_its_state(fitted, cut):
    detector, rows = fitted("default"), a_bad_day()
    rows[::9, 3] = np.nan
    whole, first = detector.stream(NAMES), detector.stream(NAMES)
    wanted = [
        (str(v), str(v.began), str(v.ended)) for v in whole.push_many(rows, range(1000, 1240))
    ]
    before = first.push_many(rows[:cut], range(1000, 1000 + cut))
    second = detector.stream(NAMES, state=json.loads(json.dumps(first.state())))
    after = second.push_many(rows[cut:], range(1000 + cut, 1240))
    assert [(str(v), str(v.began), str(v.ended)) for v in (*before, *after)] == wanted
    assert json.dumps(second.state()) == json.dumps(whole.state())


@pytest.mark.parametrize("later", [9.0, 0.0])  # more of the fault, or none of it
def test_a_stream_that_was_closed_may_go_on(fitted, later):
    detector = fitted("default")
    stream, middle = detector.stream(rule=AlarmRule(2, 2, clear=2)), detector.center_
    far = middle + 9.0 * detector.spread_
    stream.push_many([far, far])
    assert [(event.number, event.last) for event in stream.close()] == [(1, 1)]
    assert stream.close() == []
    stream = detector.stream(rule=stream.rule, state=json.loads(json.dumps(stream.state())))
    verdicts = stream.push_many([middle + later * detector.spread_] * 4)
    assert [v.state for v in verdicts] == (
        ["pending", *["raised"] * 3] if later else ["normal"] * 4
    )
    assert [(event.number, event.first) for event in stream.close()] == ([(2, 2)] if later else [])


def test_a_state_of_another_model_is_refused(fitted):
    state = fitted("default").stream(NAMES).state()
    with pytest.raises(ValueError, match="the same model"):
        fitted("narrow").stream(NAMES, state=state)


def test_memory_does_not_grow_with_an_event(fitted):
    stream = fitted("default").stream(NAMES)
    rows = plant(600, 3)
    rows[:, 2] += 5.0
    sizes = []
    for start in range(0, 600, 50):
        stream.push_many(rows[start : start + 50])
        sizes.append(len(json.dumps(stream.state())))
    assert stream.current.alarms > 590
    assert len(stream.current.blame) <= STRETCHES
    assert max(sizes) < 2 * sizes[0]  # between half of 48 stretches, as after 50 rows, and all


# ── rows that are not as they should be ─────────────────────────────────────
def test_missing_cells_hide_no_fault_that_the_others_show(fitted):
    """The least index is a lower bound: no value of the missing cell gives less, and it is nearly reached."""
    detector, rows = fitted("default"), a_bad_day()
    whole = detector.statistics(rows)["index"]
    for j in (2, 5):
        lacking = rows.copy()
        lacking[:, j] = np.nan
        found = detector.stream(NAMES, top=0).push_many(lacking)
        assert not any(v.judged for v in found)
        assert [v.alarm for v in found] == [v.at_least > v.limit for v in found]
        least = np.nan_to_num([v.at_least for v in found])  # nothing is known: at least zero
        assert np.all(least <= 1.01 * whole + 1e-3)
        assert not np.any((least > 0.0) & (least <= found[0].limit))
        tried = np.repeat(rows[::20, None], 401, axis=1)
        tried[:, :, j] = np.linspace(-12, 12, 401)
        best = detector.statistics(tried.reshape(-1, 6))["index"].reshape(-1, 401).min(axis=1)
        assert np.all(least[::20] <= 1.01 * best + 1e-3)
        assert not np.any((best > 1.01 * found[0].limit) & (least[::20] == 0.0))
        # The fault of column 2 shows in the others only where they can tell; without column 5 it is certain.
        if j == 5:
            assert np.mean([v.alarm for v in found[60:110]]) > 0.9
            assert np.mean([v.alarm for v in found[:60]]) < 0.05


def test_anything_may_stand_in_a_row(fitted):
    stream = fitted("default").stream(NAMES)
    for row in (
        [None] * 6,
        ["Bad", 1, 2, 3, 4, 5],
        [np.inf] * 6,
        [-1e308] * 6,
        [np.nan] * 6,
        [-(10**400)] * 6,
    ):
        verdict = stream.push(row)
        assert verdict.judged == (not any(kind == "missing" for kind, _ in verdict.marks))
    assert stream.push(plant(1, 7)[0]).judged
    assert stream.counts["rows"] == 7
    huge = [fitted("default").stream(NAMES).push([x, *[0.0] * 5]).index for x in (10**400, np.inf)]
    assert huge[0] == huge[1]
    with pytest.raises(ValueError, match="6 readings"):
        stream.push([1.0, 2.0])


def test_frozen_sensors_and_wild_ones_are_marked(fitted):
    detector, rows = fitted("default"), plant(60, 4)
    rows[20:45, 1] = rows[20, 1]
    rows[50, 4] = 80.0
    found = detector.stream(NAMES).push_many(rows)
    frozen = [i for i, v in enumerate(found) if ("frozen", "b") in v.marks]
    assert frozen == list(range(20 + FEWEST, 45))
    assert [i for i, v in enumerate(found) if ("range", "e") in v.marks] == [50]
    assert {kind for v in found for kind, _ in v.marks} == {"frozen", "range"}


@pytest.mark.parametrize("height", [1, 7, 100])
def test_stretches_are_counted_across_blocks(height, monkeypatch):
    from itertools import groupby

    from mercer.engine.resolve import resolve_engine
    from mercer.monitoring import sensors

    monkeypatch.setattr(sensors, "BLOCK_ROWS", height)
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.integers(0, 3, (40, 4)), rng.integers(1, 5, 40), axis=0).astype(float)
    found = Sensors.of(resolve_engine("numpy"), rows)
    wanted = [max(len(list(run)) for _, run in groupby(column)) for column in rows.T]
    assert found.still.tolist() == wanted
    assert found.low.tolist() == rows.min(axis=0).tolist()


def test_late_and_repeated_rows_are_judged_and_stay_outside_of_events(fitted):
    detector, rows = fitted("default"), plant(40, 5)
    stream = detector.stream(NAMES)
    stream.push_many(rows, np.arange(40.0))
    faulty = rows[0] + [0, 0, 9.0, 0, 0, 0]
    late = [stream.push(faulty, time) for time in (39.0, 10.0, 39.0, 5.0)]
    assert [v.marks[-1][0] for v in late] == ["repeated", "late", "repeated", "late"]
    assert all(v.alarm and v.state == "normal" for v in late)
    assert stream.counts["late"] == stream.counts["repeated"] == 2
    assert stream.push(rows[0], 40.0).marks == ()


def test_a_clock_that_was_put_back_is_believed_after_three_rows():
    hour = [np.datetime64("2026-10-25T02:00") + np.timedelta64(m, "m") for m in range(60)]
    clock = Clock()
    assert [clock(time) for time in hour] == [""] * 60
    assert [clock(str(time)) for time in hour][:4] == ["late", "late", "clock put back", ""]


# ── known faults ────────────────────────────────────────────────────────────
def test_a_fault_is_known_again_by_its_name(fitted, tmp_path):
    detector = KernelPCADetector().fit(plant(300, 0))
    shifts = {"cooling water": (2, 5.0), "feed": (4, -6.0), "feed too high": (4, 6.0)}
    for seed, (name, (column, shift)) in enumerate(shifts.items(), start=10):
        rows = plant(40, seed)
        rows[:, column] += shift
        detector.learn_event(name, rows)
    detector.save(tmp_path / "d.mercer")
    known = load(tmp_path / "d.mercer")
    assert known.known_events_.names == tuple(shifts)
    for seed, (name, (column, shift)) in enumerate(shifts.items(), start=30):
        rows = plant(60, seed)
        rows[20:50, column] += 1.2 * shift
        (event,) = known.events(rows, names=NAMES)
        assert event.nearest.name == name
        assert event.nearest.alike
    rows = plant(60, 50)
    rows[20:50, 0] += 8.0
    (event,) = known.events(rows, names=NAMES)
    assert not event.nearest.alike
    assert fitted("default").known_events_.names == ()


def test_rows_without_an_alarm_teach_nothing(fitted):
    with pytest.raises(ValueError, match="none of its rows is an alarm"):
        fitted("default").learn_event("nothing", np.zeros((5, 6)))
    with pytest.raises(ValueError, match="name"):
        fitted("default").learn_event("", a_bad_day())


@pytest.mark.parametrize("rows", [np.ones((300, 6)), np.ones((300, 6)).tolist()], ids=type)
def test_rows_in_place_of_a_name_are_not_written_out(fitted, rows):
    with pytest.raises(ValueError, match=r"^name must be .*; got an? (ndarray|list)\.$"):
        fitted("default").learn_event(rows, "leak")


def test_a_rule_is_no_text(fitted):
    with pytest.raises(
        ValueError, match=r"rule must be an AlarmRule, such as AlarmRule\(3, 5\).*'3/5'"
    ):
        fitted("default").events(a_bad_day(), rule="3/5")
