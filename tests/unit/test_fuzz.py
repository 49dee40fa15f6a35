"""Spoilt files and texts are refused in a sentence, or read: a small helping of ``python -m fuzz``."""

import random

import pytest
from fuzz.doors import DOORS
from fuzz.sealed import opened, sealed
from fuzz.trial import tried

INPUTS = 120


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_nothing_but_a_clear_refusal_comes_of_a_spoilt_input(door, tmp_path):
    outcome = tried(door, INPUTS, 1, tmp_path)
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
    from fuzz.doors import Door

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
