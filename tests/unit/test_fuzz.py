"""Spoilt files and texts are refused in a sentence, or read: a small helping of ``python -m fuzz``."""

import contextlib
import multiprocessing
import random

import pytest
from fuzz.deadly import DEADLY
from fuzz.doors import Door
from fuzz.market import DOORS
from fuzz.sealed import opened, sealed
from fuzz.survive import survived
from fuzz.trial import EscapeError, tried, verdict

INPUTS = 120


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_nothing_but_a_clear_refusal_comes_of_a_spoilt_input(door):
    """In a process of its own: what some of the named cases did before was to end it, or to hang."""
    outcome = survived(door, range(INPUTS), 1, multiprocessing.get_context("spawn"))
    assert len(door.named()) < INPUTS  # all of them are among these
    assert [finding for _, finding in outcome.findings] == []
    assert outcome.counts.total() == INPUTS
    refused = sum(n for what, n in outcome.counts.items() if what.startswith("refused"))
    assert refused > INPUTS // 3  # most of it is really spoilt


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_honest_inputs_are_let_in(door, tmp_path):
    for data in door.seeds():
        path = tmp_path / f"input{door.suffix}"
        path.write_bytes(data)
        door.enter(path)


def test_a_finding_is_found(tmp_path):
    def enter(_path):
        msg = "boom"
        raise ZeroDivisionError(msg)

    broken = Door("broken", ".txt", lambda: [b"x"], enter)
    outcome = tried(broken, 3, 0, tmp_path)
    assert outcome.counts == {"FOUND ZeroDivisionError": 3}


def test_a_forged_file_has_right_checksums(tmp_path):
    """Sealed anew without a change it is a model: what is refused of forged ones is their content."""
    model = next(door for door in DOORS if door.name == "model, resealed")
    path = tmp_path / "again.mercer"
    path.write_bytes(sealed(*opened(random.Random(0).choice(model.seeds()))))
    model.enter(path)


def test_a_process_that_an_input_kills_is_a_finding_and_the_next_goes_on():
    outcome = survived(DEADLY, range(4), 0, multiprocessing.get_context("spawn"))
    assert outcome.counts == {"FOUND killed by SIGKILL": 1, "let in": 3}
    assert outcome.findings == [(b"bad", "killed by SIGKILL")]


def test_a_named_case_that_is_let_in_is_a_finding(tmp_path):
    door = Door("open", ".txt", lambda: [b"x"], lambda _path: None, named=lambda: {"a": b"worst"})
    assert verdict(door, b"worst", tmp_path)[1] == "let in, where a refusal was due: a"
    assert verdict(door, b"x", tmp_path)[:2] == ("let in", None)


def test_nothing_swallows_an_escape(tmp_path):
    def enter(_path):
        with contextlib.suppress(Exception):
            raise EscapeError

    door = Door("leaky", ".txt", lambda: [b"x"], enter)
    assert verdict(door, b"x", tmp_path)[0] == "FOUND EscapeError"
