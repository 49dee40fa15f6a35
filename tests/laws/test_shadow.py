"""Two detectors on the same rows: counts by brute force, whatever the blocks, the restarts and the order."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import AlarmRule, KernelPCADetector
from mercer.monitoring.shadow import Agreement, ShadowStream


@pytest.fixture(scope="module")
def pair():
    rows = np.random.default_rng(0).standard_normal((400, 2))
    return KernelPCADetector().fit(rows), KernelPCADetector(false_alarm=0.05).fit(1.6 * rows + 0.3)


def alone(mine, others):
    return sum(not any(a <= d and c <= b for c, d in others) for a, b in mine)


RULES = [AlarmRule(1, 1, clear=1), AlarmRule(2, 3, clear=1), AlarmRule(2, 4, delay=3, clear=2)]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([0.0, 2.6, 3.4, 9.0, np.nan]), min_size=1, max_size=60),
    st.integers(1, 9),
    st.sampled_from(RULES),
    st.booleans(),
)
def test_alarms_and_events_of_one_alone_are_those_of_brute_force(
    pair, sizes, height, rule, swapped
):
    rows = np.column_stack([sizes, np.zeros(len(sizes))])
    streams = [one.stream(rule=rule, top=0) for one in pair]
    both = ShadowStream(*streams)
    for start in range(0, len(rows), height):
        both.push_many(rows[start : start + height])
        state = json.loads(json.dumps(both._agreement.state()))  # as after a restart
        both._agreement = Agreement.of(state)
    both = both.swapped().swapped() if swapped else both
    found = both.report()
    spans = [[(e.first, e.last) for e in one.events(rows, rule=rule)] for one in pair]
    told = [one.stream(rule=rule, top=0).push_many(rows) for one in pair]
    a, b = np.array([[v.alarm for v in own] for own in told])
    sure, certain = np.array([[v.judged or v.alarm for v in own] for own in told])
    compared = sure & certain
    assert (found.rows, found.both, found.only_old, found.only_new) == (
        compared.sum(),
        (a & b & compared).sum(),
        (a & ~b & compared).sum(),
        (b & ~a & compared).sum(),
    )
    assert (found.alarms_old, found.alarms_new) == (a.sum(), b.sum())
    assert (found.unjudged_old, found.unjudged_new) == (
        (certain & ~sure).sum(),
        (sure & ~certain).sum(),
    )
    assert (found.events_old, found.events_new) == tuple(map(len, spans))
    assert found.events_only_new == alone(*reversed(spans))
    assert found.events_only_old == alone(*spans)


def test_memory_does_not_grow_with_events(pair):
    rule = AlarmRule(1, 1, clear=1)
    both = ShadowStream(*(one.stream(rule=rule, top=0) for one in pair))
    sizes = []
    for _ in range(30):
        both.push_many(np.tile([[9.0, 0.0], [0.0, 0.0], [2.6, 0.0], [0.0, 0.0]], (25, 1)))
        sizes.append(len(json.dumps(both._agreement.state())))
    assert both.report().events_old > 700
    assert max(sizes) < sizes[0] + 500
