"""A detector that looks back, on the page: rows are judged with those before them, or not at all."""

import numpy as np
import pytest

from mercer import KernelPCADetector
from mercer._core.errors import InputError
from mercer.app.explore.planes import Choice
from mercer.web.answers import job_of
from mercer.web.launch import begin_in_memory
from mercer.web.packets import unpacked
from mercer.web.session import Session

PAST = {"lags": {"lags": 2}, "smoothed": {"smoothing": 0.3}, "both": {"lags": 1, "smoothing": 0.3}}


@pytest.fixture(params=sorted(PAST))
def shown(request, rng):
    """A question and its answer, the detector, and its rows."""
    x = rng.standard_normal((400, 3)) + np.sin(np.arange(400.0))[:, None]
    detector = KernelPCADetector(5, kernel="rbf", limits="approximate", **PAST[request.param]).fit(
        x
    )
    session = Session()
    begin_in_memory(session, detector, x, names=["a", "b", "c"])

    def ask(name, **body):
        body = {**session.start, **body}
        question, job = job_of(name, body)
        return unpacked(question.answer(session, body, job).body)

    yield ask, detector, x
    session.close()


@pytest.mark.parametrize("row", [5, 100, 399])
def test_contributions_of_a_row_are_those_among_all_rows(shown, row):
    ask, detector, x = shown
    header, arrays = ask("contributions", row=row)
    own = dict(zip("abc", detector.contributions(x)[row], strict=True))
    found = dict(zip(header["names"], arrays["contributions"], strict=True))
    assert found == pytest.approx(own, rel=1e-5)


def test_a_row_without_enough_before_it_is_said_to_have_none(shown):
    ask, detector, _ = shown
    if detector.lags == 0:
        assert ask("contributions", row=0)[1]["contributions"].shape == (3,)
        return
    with pytest.raises(InputError, match="Row 0 was not judged: too few rows"):
        ask("contributions", row=0)


def test_some_rows_have_the_scores_that_they_have_among_all(shown, monkeypatch):
    ask, _, _ = shown
    _, whole = ask("fit", panels={"scores": {}})
    some = Choice("sample", 400, np.arange(3, 400, 7))
    monkeypatch.setattr(Choice, "among", lambda *_: some)
    _, part = ask("fit", panels={"scores": {}})
    np.testing.assert_array_equal(part["scores"], whole["scores"][some.rows])


def test_importance_names_earlier_rows_and_level_sets_say_why_there_are_none(shown):
    ask, detector, _ = shown
    header, arrays = ask("importance")
    assert len(header["names"]) == 3 * (detector.lags + 1) == len(arrays["shares"])
    header, _ = ask("fit", panels={"levels": {}})
    assert "judges a row by those before it" in header["panels"]["levels"]["error"]["message"]
