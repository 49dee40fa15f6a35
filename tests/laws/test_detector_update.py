"""A detector that follows a drift: as good as a fit to the new rows, and no fault becomes normal."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import IncrementalKernelPCA, KernelPCADetector, load
from mercer._core.errors import DetectorWarning, InputError
from mercer.monitoring.shadow import ShadowStream

MIX = np.random.default_rng(99).standard_normal((3, 8))


def plant(n, seed, begin=0.0, end=0.0):
    """Slow causes behind eight sensors, of which the third drifts and the seventh goes half as far."""
    rng = np.random.default_rng(seed)
    shocks = rng.standard_normal((n + 50, 3))
    causes = np.zeros((n + 50, 3))
    for i in range(1, n + 50):
        causes[i] = 0.8 * causes[i - 1] + 0.6 * shocks[i]
    rows = causes[50:] @ MIX + 0.3 * rng.standard_normal((n, 8))
    along = np.linspace(begin, end, n)
    rows[:, 2] += along
    rows[:, 6] += 0.5 * along
    return rows


@pytest.fixture(scope="module")
def old():
    return KernelPCADetector().fit(plant(1000, 1))


@pytest.fixture(scope="module")
def drift():
    return plant(2000, 2, 0.0, 4.0)


@pytest.fixture(scope="module")
def new(old, drift):
    return old.updated(drift, memory=600, why="sensor 3 drifts")


def alarms(detector, rows):
    return float(np.mean(detector.predict(rows) == -1))


def test_across_a_drift_false_alarms_stay_and_faults_are_seen(old, new):
    after = plant(1500, 3, 4.0, 4.0)
    fault = after + 2.5 * np.eye(8)[4]
    refit = KernelPCADetector().fit(plant(600, 4, 4.0, 4.0))
    assert alarms(old, after) > 0.9  # to it, all that has drifted is a fault
    assert alarms(new, after) < 0.03
    assert alarms(new, fault) > alarms(refit, fault) - 0.1
    assert alarms(refit, fault) > 0.5


def test_without_a_drift_an_update_changes_little(old):
    again = old.updated(plant(1000, 5), memory=1000)
    rows = plant(1000, 6)
    assert alarms(again, rows) < 0.03
    assert np.mean(again.predict(rows) == old.predict(rows)) > 0.97


def test_a_fault_is_not_learned(old):
    rows = plant(600, 7)
    rows[200:400, 4] += 30.0
    fault = plant(200, 8)
    fault[:, 4] += 30.0
    with pytest.warns(DetectorWarning, match="200 of 600 rows are in events"):
        again = old.updated(rows, memory=600)
    assert (again.lineage_[-1].learned, again.lineage_[-1].rows) == (400, 600)
    assert alarms(again, fault) == 1.0
    with pytest.raises(ValueError, match="Nothing was learned"):
        old.updated(fault)


def test_lineage_is_in_the_file_and_the_old_model_stays(old, new, drift, tmp_path):
    assert old.lineage_ == ()
    (step,) = new.lineage_
    assert (step.rows, step.learned, step.memory, step.why) == (2000, 2000, 600, "sensor 3 drifts")
    new.save(tmp_path / "new.mercer")
    loaded = load(tmp_path / "new.mercer")
    assert loaded.lineage_ == new.lineage_
    np.testing.assert_array_equal(loaded.predict(drift), new.predict(drift))
    newer = loaded.updated(plant(300, 9, 4.0, 4.0), memory=600)
    assert newer.lineage_[0] == step
    assert newer.lineage_[1].parent not in ("", step.parent)
    assert loaded.lineage_ == (step,)
    assert (
        step.parent == old.updated(drift[:200]).lineage_[0].parent
    )  # which tells the old one again


def test_models_that_keep_neither_rows_nor_sums_are_refused():
    detector = KernelPCADetector(
        approximation="nystrom(landmarks=30)", n_components=5, kernel="rbf"
    )
    with pytest.raises(ValueError, match="keeps its rows or their sums"):
        detector.fit(plant(300, 1)).updated(plant(100, 2))
    with pytest.raises(ValueError, match="memory must be"):
        detector.updated(plant(100, 2), memory=1)


def test_a_stream_of_a_stream_goes_on(drift):
    model = IncrementalKernelPCA(5, kernel="linear", max_landmarks=50)
    detector = KernelPCADetector(model=model).fit(plant(500, 1))
    again = detector.updated(drift[:500], memory=500)
    assert again.model_.n_samples_seen_ == 1000
    assert detector.model_.n_samples_seen_ == 500


def test_drift_is_told_from_fault(old, drift):
    stream = old.stream(top=0)
    began = [v.began for v in stream.push_many(drift) if v.began]
    assert began[-1].kind == "drift"
    sudden = plant(1200, 10)
    sudden[600:800, 4] += 5.0
    calm = old.stream(top=0)
    kinds = {v.began.kind for v in calm.push_many(sudden) if v.began}
    assert kinds == {"fault"}
    assert not calm.drift().drifted
    slow = old.stream(top=0)
    slow.push_many(plant(1500, 11, 0.0, 0.9))
    assert slow.drift().drifted
    assert "drifted" in str(slow.drift())


def test_a_model_in_the_shadow_is_counted_and_changes_no_verdict(old, new):
    rows = plant(300, 12, 4.0, 4.0)
    both = ShadowStream(old.stream(top=0), new.stream(top=0))
    verdicts = both.push_many(rows)
    assert [v.alarm for v in verdicts] == list(old.predict(rows) == -1)
    found = both.report()
    a, b = old.predict(rows) == -1, new.predict(rows) == -1
    assert (found.both, found.only_old, found.only_new) == (sum(a & b), sum(a & ~b), sum(b & ~a))
    assert both.swapped().report().only_new == found.only_old
    assert both.swapped().push(rows[0]).alarm == b[0]
    assert f"Alarms of the old model alone: {found.only_old}" in str(found)


def test_rows_that_are_not_learned_are_no_measure_of_what_is_normal(old):
    rows = plant(400, 7)
    faulty = np.vstack([rows, rows[:100] + 200.0])
    found = old.updated(faulty, memory=600, keep_faults=True)  # the guard leaves them out
    assert found.lineage_[-1].learned <= 400
    np.testing.assert_allclose(
        found._baselines.unit, old.updated(rows, memory=600)._baselines.unit, rtol=1e-12
    )


def test_rows_that_all_lack_a_reading_teach_nothing(old):
    with pytest.raises(InputError, match="every row lacks a reading"):
        old.updated(np.full((20, 8), np.nan))


def test_a_small_fault_is_not_learned_unless_it_is_asked_for(old):
    rows, fault = plant(1000, 7), plant(300, 8)
    rows[400:700, 4] += 2.5  # within the guard
    fault[:, 4] += 2.5
    with pytest.warns(DetectorWarning, match="rows are in events"):
        careful = old.updated(rows, memory=600)
    assert alarms(careful, fault) > 0.9 * alarms(old, fault) > 0.4
    assert alarms(old.updated(rows, memory=600, keep_faults=True), fault) < alarms(careful, fault)


def test_gaps_in_time_are_respected_by_updates_and_known_faults():
    detector = KernelPCADetector(lags=2).fit(plant(600, 1), time=np.arange(600.0))
    rows, time = plant(200, 2), np.arange(200.0)
    time[100:] += 50.0
    whole = detector.updated(rows, time, keep_faults=True).lineage_[-1].rows
    assert whole == detector.monitor(rows, time=time).table["judged"].sum() == 196
    assert detector.updated(rows, keep_faults=True).lineage_[-1].rows == 198
    rows[90:130, 4] += 9.0
    learned = detector.learn_event("jump", rows, time).known_events_.signatures[-1]
    unaware = detector.learn_event("jump", rows).known_events_.signatures[-1]
    assert not np.array_equal(learned, unaware)
    with pytest.raises(ValueError, match="time must have one entry"):
        detector.learn_event("jump", rows, time[:5])


# ── sensors ─────────────────────────────────────────────────────────────────
def marks(detector, readings):
    """What a stream marks of rows that hold these readings of the third sensor."""
    rows = np.tile(plant(1, 7), (len(readings), 1)) + np.arange(len(readings))[:, None] * 1e-6
    rows[:, 2] = readings
    return [
        {kind for kind, name in verdict.marks if name == "x2"}
        for verdict in detector.stream().push_many(rows)
    ]


@pytest.mark.parametrize("knobs", [{}, {"lags": 1}])
def test_ranges_of_sensors_follow_a_drift_that_was_learned(drift, knobs):
    old = KernelPCADetector(**knobs).fit(plant(1000, 1))
    new = old.updated(drift, memory=600, keep_faults=True)
    seen = plant(1000, 1)[:, 2]
    width = np.ptp(seen)
    above, below = seen.max() + width + 1.0, seen.min() - width + 1.0
    assert marks(old, [above, below]) == [{"range"}, set()]
    assert marks(new, [above, below]) == [set(), {"range"}]
    assert marks(old, [above]) == [{"range"}]  # it stays as it is


def test_patience_with_sensors_follows_them(old):
    held = np.repeat(plant(200, 8), 20, axis=0)  # all report every twentieth row
    new = old.updated(held, memory=600, keep_faults=True)
    assert {"frozen"} in marks(old, [0.5] * 50)
    assert {"frozen"} not in marks(new, [0.5] * 50)


def test_ranges_of_few_rows_hardly_narrow_those_of_the_fit(old):
    new = old.updated(plant(20, 9), memory=2000)
    seen = plant(1000, 1)[:, 2]
    beyond = 0.95 * np.array([seen.min() - np.ptp(seen), seen.max() + np.ptp(seen)])
    assert marks(new, beyond) == [set(), set()]
