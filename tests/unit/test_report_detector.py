"""A report on a detector: rows with alarms or none, events by name, rows without a past, dates."""

import numpy as np
import pytest

from mercer import KernelPCADetector
from mercer.report import build

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((300, 3))
QUIET = 0.3 * RNG.standard_normal((40, 3))
FAULTY = NORMAL[:60].copy()
FAULTY[20:40, 1] += 12.0


@pytest.mark.parametrize(
    "past",
    [{}, {"lags": 2}, {"smoothing": 0.5}, {"kernel": "laplacian", "n_components": 4}],
    ids=str,
)
def test_rows_without_an_alarm_have_a_page_with_their_charts(past):
    detector = KernelPCADetector(**past).fit(NORMAL)
    assert not (detector.predict(QUIET[2:]) == -1).any()
    page = build(detector, QUIET)
    assert "is an alarm." in page
    assert 'class="charts"' in page
    assert "leaders-figure" not in page
