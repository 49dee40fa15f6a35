"""A report on a detector: rows with alarms or none, events by name, rows without a past, dates."""

import re
from html import unescape

import numpy as np
import pytest

from mercer import AlarmRule, KernelPCADetector
from mercer.report import build
from mercer.report.process import key_figures
from mercer.report.subject import subject as subject_of
from mercer.views import leaders
from mercer.views.leaders import events_table

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((300, 3))
QUIET = 0.3 * RNG.standard_normal((40, 3))
FAULTY = NORMAL[:60].copy()
FAULTY[20:40, 1] += 12.0
NOTHING = dict.fromkeys(
    ("preparation", "ids", "labels", "missing", "digest", "source", "model_file", "title")
)


def subject(model, X, **more):
    """What a page is about, of nothing but a model, rows, and what is given."""
    told = {"names": None, "header": {}, "notes": (), "commands": ()}
    return subject_of(model, X, **NOTHING | told | more)


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


@pytest.fixture(scope="module")
def spells():
    """Rows with 15 events that lie apart, each in one column: the sixth is by far the worst."""
    rows, where = 0.3 * RNG.standard_normal((330, 3)), [20 + 20 * i for i in range(15)]
    for i, at in enumerate(where):
        rows[at : at + 5 + i % 2, i % 3] += 40.0 if i == 5 else 7.0
    return rows


@pytest.mark.parametrize("past", [{}, {"lags": 1}], ids=str)
def test_events_of_a_page_begin_with_what_the_stream_says_and_the_worst_is_among_them(past, spells):
    detector = KernelPCADetector(**past).fit(NORMAL)
    every = {e.first: e for e in detector.events(spells, names=["a", "b", "c"])}
    assert len(every) == 15
    about = subject(detector, spells, names=["a", "b", "c"])
    table = events_table(about.watched[0])
    assert "The 12 most severe; 3 are left out" in table.caption
    shown = {int(row[0]) - 1: row for row in table.rows}
    for first, row in shown.items():
        assert row[2].split(", ") == [name for name, _ in every[first].onset]
        assert row[3] == every[first].severity
    rank = ["high", "medium", "low"].index
    worst = sorted(every, key=lambda i: (rank(every[i].severity), -every[i].rows))
    assert set(shown) >= set(worst[:1])
    left = set(every) - set(shown)
    assert max(rank(every[i].severity) for i in shown) <= min(rank(every[i].severity) for i in left)
    told = {what: words for what, _, words in key_figures(about)}
    assert "led by a" in told["first event"]


@pytest.mark.parametrize("rule", [AlarmRule(), AlarmRule(7, 9)], ids=str)
def test_a_page_names_the_rule_that_it_goes_by(spells, rule, monkeypatch):
    monkeypatch.setattr(leaders, "RULE", rule)
    detector, told = KernelPCADetector().fit(NORMAL), f"{rule.n} of {rule.m} rows above the limit"
    single = QUIET.copy()
    single[30, 0] = 9.0
    assert f"No event: never were {told}." in build(detector, single)
    long = np.repeat(spells, 2, axis=0)
    assert f"Events: {told}" in build(detector, long)


def scores_of(detector, rows):
    """Of the last of three rows: all three side by side, the latest first, scaled, to the model."""
    lagged = np.concatenate([rows[2], rows[1], rows[0]])
    return detector.model_.transform([(lagged - detector.center_) / detector.spread_])[0]


def told(html):
    """The words of a page."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


@pytest.mark.parametrize("gap", [False, True])
def test_rows_without_a_past_are_told_as_such_and_others_have_their_own(gap):
    detector = KernelPCADetector(lags=2).fit(NORMAL)
    rows = FAULTY.copy()
    if gap:
        rows[10, 1] = np.nan
    about = subject(detector, rows)
    words = told(build(detector, rows))
    assert "too far out" not in words
    short = "4 have too few rows before them" if gap else "2 have too few rows before them"
    assert short in words
    lacks = re.findall(r"cells are missing in (.*?)[;.] ", words)
    assert set(lacks) == ({"x1 (1)"} if gap else set())
    # Scores by hand: each row beside the two before it, where these are there.
    whole = [i for i in range(2, 60) if not np.isnan(rows[i - 2 : i + 1]).any()]
    complete = np.flatnonzero(~np.isnan(rows).any(axis=1))
    np.testing.assert_array_equal(complete[about.placed], whole)
    alone = [scores_of(detector, rows[i - 2 : i + 1]) for i in whole]
    np.testing.assert_allclose(
        about.measured.scores[about.placed], np.array(alone)[:, :10], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("past", [{"lags": 1}, {"smoothing": 0.3}], ids=str)
def test_scores_of_a_page_begin_anew_after_a_gap_in_time(past):
    minutes = np.datetime64("2026-01-05") + np.arange(300).astype("timedelta64[m]")
    detector = KernelPCADetector(**past).fit(NORMAL, time=minutes)
    later = np.where(np.arange(60) < 30, minutes[:60], minutes[:60] + np.timedelta64(1, "D"))
    whole = subject(detector, FAULTY, ids=later).measured
    for half in (slice(30), slice(30, 60)):
        alone = subject(detector, FAULTY[half], ids=later[half]).measured
        np.testing.assert_allclose(whole.scores[half], alone.scores, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(whole.errors[half], alone.errors, rtol=1e-9, atol=1e-12)


def test_a_row_beyond_all_numbers_takes_only_those_with_it_out_of_a_page():
    detector = KernelPCADetector(3, kernel="poly", lags=2).fit(NORMAL)
    rows = FAULTY.copy()
    rows[50, 0] = 1e150
    about = subject(detector, rows)
    gone = np.isnan(about.measured.scores).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(gone), [0, 1, 50, 51, 52])
    assert "3 rows too far out to be computed are not drawn" in told(build(detector, rows))


@pytest.mark.parametrize("place", [0, 44])
def test_a_table_of_some_columns_has_those_that_led(place):
    rng = np.random.default_rng(3)
    normal, names = rng.standard_normal((400, 45)), [f"sensor {j}" for j in range(45)]
    faulty = normal[:60].copy()
    faulty[20:40, place] += 15.0
    page = build(KernelPCADetector().fit(normal), faulty, names=names)
    begin = page.index("Columns, in the units of the file")
    table = page[begin : page.index("</table>", begin)]
    assert ">sensor " + str(place) + "<" in table
    assert table.count(">sensor ") == 40
    assert "40 of 45, with those that led alarms" in table
