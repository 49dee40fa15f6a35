"""Known faults: an event is compared with the same stretch of a known one, in a stream as in a file."""

from __future__ import annotations

import numpy as np
import pytest
from tests.laws.test_live import NAMES, plant

from mercer import KernelPCADetector, load
from mercer.monitoring.library import ENDS, Course, KnownEvents

# Column and shift when a fault begins, and those ten rows later, when the controllers have answered.
FAULTS = {
    "pump": ((2, 6.0), (4, -7.0)),
    "valve": ((4, -7.0), (1, 6.0)),
    "leak": ((0, 6.0), (5, 7.0)),
}
BEGINS, ANSWERED, LENGTH = 20, 10, 60


def faulty(name, seed, before=BEGINS):
    rows = plant(before + LENGTH, seed)
    (first, by), (later, answer) = FAULTS[name]
    rows[before : before + ANSWERED, first] += by
    rows[before + ANSWERED :, later] += answer
    return rows


@pytest.fixture(scope="module")
def detector():
    found = KernelPCADetector().fit(plant(300, 0))
    for seed, name in enumerate(FAULTS, start=10):
        found.learn_event(name, faulty(name, seed))
    return found


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [30, 31, 32])
def test_a_fault_is_named_at_its_onset_and_ever_after(detector, name, seed):
    stream = detector.stream(NAMES)
    told = []
    for row in faulty(name, seed):
        verdict = stream.push(row)
        told += [] if stream.current is None else [stream.current.nearest]
        if verdict.began is not None:
            assert verdict.began.nearest.alike
    assert len(told) > LENGTH - 5
    assert {nearest.name for nearest in told if nearest.alike} == {name}
    assert all(nearest.alike for nearest in told)
    (event,) = detector.events(faulty(name, seed), names=NAMES)
    assert event.nearest == told[-1]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_seen_from_its_middle_on_is_named_too(detector, name):
    (event,) = detector.events(faulty(name, 40, before=0)[ANSWERED + 5 :], names=NAMES)
    assert event.nearest.alike
    assert event.nearest.name != "leak" or name == "leak"


def test_a_course_sums_what_a_list_would():
    rng = np.random.default_rng(0)
    signs, at = rng.standard_normal((300, 3)), np.sort(rng.choice(1500, 300, replace=False))
    at -= at[0]
    course = Course.empty(3)
    for row, own in zip(at, signs, strict=True):
        course.add(int(row), own)
    for rows in [*ENDS[at[-1] > ENDS].astype(int), at[-1] + 1, 5000]:
        np.testing.assert_allclose(course.upto(rows), signs[at < rows].sum(axis=0), atol=1e-12)
    assert course.rows == at[-1] + 1


def test_events_of_a_file_older_than_courses_are_compared_as_a_whole(detector, tmp_path):
    known = detector.known_events_
    (event,) = detector.events(faulty("leak", 50), names=NAMES)
    old = KnownEvents(known.names, known.signatures)
    assert old.nearest(event.course).name == "leak"
    both = old.learned("other", event.course)
    assert both.names == (*known.names, "other")
    assert both.course(0) is None
    assert both.nearest(event.course).distance < 1e-6
    detector.save(tmp_path / "d.mercer")
    again = load(tmp_path / "d.mercer").known_events_
    np.testing.assert_array_equal(again.courses, known.courses)
    np.testing.assert_array_equal(again.rows, known.rows)
