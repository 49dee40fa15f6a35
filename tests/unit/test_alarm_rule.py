"""Alarm rules against what they say in words, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import AlarmRule, KernelPCADetector, compare_events

RISE = [0.5, 1.2, 0.5, 1.3, 1.4, 1.5, 1.1, 0.95, 0.9, 0.5, 0.4, 0.3, 0.2, 0.1]


def raised(rule, index):
    return [i for i, state in enumerate(rule.states(index)) if state == "raised"]


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        (AlarmRule(1, 1, clear=1), [1, 3, 4, 5, 6]),
        (AlarmRule(2, 3, clear=1), [3, 4, 5, 6]),
        (AlarmRule(3, 5, clear=1), [4, 5, 6]),
        (AlarmRule(3, 5, delay=2, clear=1), [6]),
        (AlarmRule(3, 5, clear=3), [4, 5, 6, 7, 8]),
        (AlarmRule(3, 5, clear=1, deadband=0.2), [4, 5, 6, 7, 8]),
        (AlarmRule(5, 5), []),
    ],
    ids=str,
)
def test_rules_raise_and_clear_when_they_say(rule, rows):
    assert raised(rule, RISE) == rows


def test_a_rule_against_its_definition():
    """n of the last m above, for `delay` more rows; over after `clear` rows below the deadband."""
    rng = np.random.default_rng(0)
    index = np.exp(0.4 * rng.standard_normal(3000) + np.sin(np.arange(3000) / 40) - 0.3)
    rule = AlarmRule(n=3, m=6, delay=2, clear=4, deadband=0.1)
    on, since, last_end, wanted = False, 0, 0, []
    for i in range(len(index)):
        window = index[max(i - rule.m + 1, last_end) : i + 1]
        since = since + 1 if np.sum(window > 1) >= rule.n else 0
        on = on or since > rule.delay
        tail = index[max(i - rule.clear + 1, last_end) : i + 1]
        if on and len(tail) == rule.clear and np.all(tail < 1 - rule.deadband):
            on, since, last_end = False, 0, i + 1
        wanted.append(on)
    assert 5 < np.sum(np.diff(wanted)) < 400
    assert [state == "raised" for state in rule.states(index)] == wanted


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n": 6}, "n must be at most m=5"),
        ({"n": 0}, "n must be an integer >= 1"),
        ({"deadband": 1.0}, "deadband must be"),
        ({"delay": -1}, "delay must be"),
    ],
)
def test_rules_that_can_not_be_meant(settings, told):
    with pytest.raises(ValueError, match=told):
        AlarmRule(**settings)


@pytest.fixture(scope="module")
def detector():
    return KernelPCADetector().fit(np.random.default_rng(0).standard_normal((300, 4)))


def run_of(detector, *faults, rule=None):
    """(begin, end, column, shift) each; announced events and all."""
    rows = np.random.default_rng(1).standard_normal((200, 4))
    for begin, end, column, shift in faults:
        rows[begin:end, column] += shift
    return detector.events(rows, names=list("abcd"), rule=rule)


def test_an_alarm_that_comes_back_is_shelved_and_another_is_not(detector):
    faults = (20, 30, 0, 9.0), (40, 50, 0, 9.0), (60, 70, 1, 9.0), (150, 160, 0, 9.0)
    shelved = [e.shelved for e in run_of(detector, *faults, rule=AlarmRule(shelve=50))]
    assert shelved == [False, True, False, False]
    assert not any(e.shelved for e in run_of(detector, *faults))


def test_an_operator_shelves(detector):
    rows = np.random.default_rng(1).standard_normal((60, 4))
    rows[10:20, 0] += 9.0
    rows[40:50, 0] += 9.0
    stream = detector.stream(list("abcd"))
    stream.shelve(30, "a")
    found = [v.ended for v in stream.push_many(rows) if v.ended]
    assert [e.shelved for e in found] == [True, False]
    with pytest.raises(ValueError, match="variable must be one of a, b, c, d"):
        stream.shelve(5, "z")


def test_two_events_beside_each_other(detector):
    one, same, other = run_of(detector, (20, 40, 0, 9.0), (80, 100, 0, 12.0), (150, 170, 2, -9.0))
    assert compare_events(one, same).distance < 0.2
    found = compare_events(one, other)
    assert found.distance > 0.9
    assert set(found.table["variable"][:2]) == {"a", "c"}
    assert "unlike" in str(found)
    up, down = run_of(detector, (20, 40, 0, 9.0), (80, 100, 0, -9.0))
    assert compare_events(up, down).distance > 1.3
