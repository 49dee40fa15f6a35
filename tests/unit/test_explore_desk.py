"""The newest request of a tab is answered, older ones end; stops, strangers and crowds are told so."""

import gc
import threading
import weakref
from concurrent.futures import CancelledError

import pytest

from mercer._core.errors import StoppedError
from mercer.web.desk import WAITING, BusyError, Desk, Job, SupersededError

SECONDS = 300  # more than any of this takes; a test that waits so long has failed


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.close()


class Held:
    """Work that goes on until it is let go or cancelled."""

    def __init__(self):
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __call__(self, job):
        self.begun.set()
        while not (self.let_go.wait(0.005) or job.cancelled.is_set()):
            job.step(1, 2, "products", 0.5)
        job.check()
        return job.generation


def test_the_newest_request_of_a_tab_wins(desk):
    held, second = Held(), Held()
    second.let_go.set()
    first = desk.submit(Job("tab", "fit", 1), held, fits=True)
    assert held.begun.wait(SECONDS)
    between = desk.submit(Job("tab", "fit", 2), second, fits=True)
    newest = desk.submit(Job("tab", "fit", 3), second, fits=True)
    for old in (first, between):
        with pytest.raises(SupersededError):
            old.result(SECONDS)
    assert newest.result(SECONDS) == 3


def test_a_request_that_arrives_late_is_superseded_at_once(desk):
    done = Held()
    done.let_go.set()
    assert desk.submit(Job("tab", "fit", 5), done, fits=True).result(SECONDS) == 5
    with pytest.raises(SupersededError):
        desk.submit(Job("tab", "fit", 4), done, fits=True).result(SECONDS)


def test_tabs_and_slots_do_not_disturb_each_other(desk):
    held, done = Held(), Held()
    done.let_go.set()
    first = desk.submit(Job("one", "a", 1), held, fits=True)
    assert held.begun.wait(SECONDS)
    others = [desk.submit(Job(*who, 9), done, fits=True) for who in (("two", "a"), ("one", "b"))]
    held.let_go.set()
    assert first.result(SECONDS) == 1
    assert [other.result(SECONDS) for other in others] == [9, 9]


def test_a_stop_ends_what_a_tab_waits_for_and_nothing_else(desk):
    held, other = Held(), Held()
    job = Job("one", "fit", 1)
    running = desk.submit(job, held, fits=True)
    waiting = desk.submit(Job("two", "fit", 1), other, fits=True)
    assert held.begun.wait(SECONDS)
    assert desk.progress("one")["running"]
    assert desk.stop("one") == 1
    with pytest.raises(StoppedError):
        running.result(SECONDS)
    other.let_go.set()
    assert waiting.result(SECONDS) == 1
    assert desk.progress("one") == {"running": False}


def test_light_questions_are_answered_beside_a_fit(desk):
    held, light = Held(), Held()
    light.let_go.set()
    running = desk.submit(Job("tab", "fit", 1), held, fits=True)
    assert held.begun.wait(SECONDS)
    assert desk.submit(Job("tab", "row"), light, fits=False).result(SECONDS) == 0
    assert not running.done()
    held.let_go.set()
    assert running.result(SECONDS) == 1


def test_a_crowd_is_sent_away_and_the_desk_stays_open(desk):
    held = Held()
    running = [desk.submit(Job(f"tab {i}", "fit", 1), held, fits=True) for i in range(WAITING)]
    with pytest.raises(BusyError, match=str(WAITING)):
        desk.submit(Job("one more", "fit", 1), held, fits=True)
    held.let_go.set()
    assert [job.result(SECONDS) for job in running] == [1] * WAITING
    assert desk.submit(Job("one more", "fit", 1), held, fits=True).result(SECONDS) == 1


def test_a_fit_on_behalf_of_a_light_question_is_done_by_the_one_worker(desk):
    names = []

    def light(_job):
        desk.alone(lambda: names.append(threading.current_thread().name))
        names.append(threading.current_thread().name)

    desk.submit(Job("tab"), light, fits=False).result(SECONDS)
    desk.submit(Job("tab"), light, fits=True).result(SECONDS)
    assert [name.rpartition("_")[0] for name in names] == [
        "mercer-fit",
        "mercer-help",
        "mercer-fit",
        "mercer-fit",
    ]


class Answer:
    """Something large."""


@pytest.mark.parametrize("fits", [True, False])
def test_an_answer_is_let_go_of_once_it_is_given(desk, fits):
    gone = threading.Event()

    def work(_job):
        answer = Answer()
        weakref.finalize(answer, gone.set)
        return answer

    assert isinstance(desk.submit(Job("tab", "fit", 1), work, fits=fits).result(SECONDS), Answer)
    gc.collect()
    assert gone.wait(SECONDS)


def test_what_is_asked_of_a_closed_desk_is_not_waited_for(desk):
    desk.close()
    for fits in (True, False):
        with pytest.raises(CancelledError):
            desk.submit(Job("tab"), lambda _: 1, fits=fits).result(SECONDS)
    with pytest.raises(CancelledError):
        desk.alone(lambda: 1)
    assert not desk.is_busy
