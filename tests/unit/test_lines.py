"""Lines of files that are rotated, replaced and written in pieces: each is handed over, and once."""

from __future__ import annotations

import os

import pytest

from mercer._core.errors import DataError
from mercer.data import lines as module
from mercer.data.lines import Lines


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)


def taken(reader, *, looks=6):
    """The lines that are there, and the first of each file, in a few looks."""
    found, firsts = [], []
    for _ in range(looks):
        texts, fresh = reader.read()
        firsts += texts[:1] if fresh else []
        found += texts
    return found, firsts


def aged(folder, *names):
    """The files were changed one after the other."""
    for age, name in enumerate(names):
        os.utime(folder / name, (1e9 + age, 1e9 + age))


@pytest.mark.parametrize(("follow", "restarted"), [(True, False), (True, True), (False, True)])
def test_a_last_line_without_an_end_is_handed_over_when_the_next_file_has_lines(
    tmp_path, follow, restarted
):
    path, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    path.write_text("x\n1\n")
    reader = Lines(str(path), follow=follow)
    assert taken(reader)[0] == ["x", "1"]
    place = reader.place
    path.rename(old)
    with old.open("a") as file:
        file.write("2\n3")
    path.write_text("")
    if restarted:
        reader = Lines(str(path), follow=follow, at=place)
    if follow:
        assert taken(reader)[0] == ["2"]  # the writer may not have noticed yet
    path.write_text("x\n4\n")
    aged(tmp_path, "a.csv.1", "a.csv")
    assert taken(reader) == (["3", "x", "4"] if follow else ["2", "3", "x", "4"], ["x"])


@pytest.mark.parametrize("pieces", [["y,", "x\n1,2\n"], ["y" * 2**17 + "\n1\n"]])
def test_the_first_line_of_a_file_is_known_however_it_was_written(tmp_path, pieces):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n3,4\n")
    reader = Lines(str(path), follow=True)
    taken(reader)
    path.rename(tmp_path / "a.csv.1")
    path.write_text("")
    found, firsts = [], []
    for piece in pieces:
        with path.open("a") as file:
            file.write(piece)
        texts, first = taken(reader)
        found, firsts = [*found, *texts], [*firsts, *first]
    assert found == "".join(pieces).splitlines()
    assert firsts == found[:1]


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_file_that_was_put_aside_is_read_before_the_next_one_is_there(tmp_path, end):
    """A restart between the two halves of a rotation ends with the old file, and the next goes on."""
    path, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    path.write_text("x\n1\n")
    first = Lines(str(path))
    assert taken(first)[0] == ["x", "1"]
    path.rename(old)
    with old.open("a") as file:
        file.write(f"2\n3{end}")
    second = Lines(str(path), at=first.place)
    assert taken(second)[0] == ["2", "3"]
    assert second.ended
    third = Lines(str(path), at=second.place)
    assert taken(third) == ([], [])
    path.write_text("x\n4\n")
    aged(tmp_path, "a.csv.1", "a.csv")
    assert taken(Lines(str(path), at=third.place)) == (["x", "4"], ["x"])


def test_a_file_that_is_gone_without_another_in_its_place_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    first = Lines(str(path))
    taken(first)
    path.unlink()
    with pytest.raises(DataError, match="can't be read"):
        Lines(str(path), at=first.place)


def test_no_other_file_beside_them_is_taken_for_a_rotated_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    reader = Lines(str(path))
    taken(reader)
    path.rename(tmp_path / "a.csv-20260105")
    (tmp_path / "a.csv-20260106").write_text("x\n2\n")
    (tmp_path / "a.csv-alarms").write_text("no line\n")
    (tmp_path / "a.csv.state").write_text("{}")
    path.write_text("x\n3\n")
    aged(tmp_path, "a.csv-20260105", "a.csv-20260106", "a.csv.state", "a.csv-alarms", "a.csv")
    later = Lines(str(path), at=reader.place)
    assert taken(later)[0] == ["x", "2", "x", "3"]
