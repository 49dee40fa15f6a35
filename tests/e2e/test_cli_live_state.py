"""States of `mercer monitor`: damaged, of several units, beside other files, and below other headers."""

from __future__ import annotations

import json
import os
import socket

import pytest

from markets.commands import good, run


def test_units_of_one_name_are_told_apart_and_a_state_keeps_those_of_other_calls(plant, tmp_path):
    one, two = tmp_path / "one" / "day.csv", tmp_path / "two" / "day.csv"
    for path, source in ((one, "faulty.csv"), (two, "normal.csv")):
        path.parent.mkdir()
        path.write_text((plant / source).read_text())
    state, metrics = tmp_path / "s.json", tmp_path / "m.prom"
    args = ("monitor", plant / "d.mercer", one, two, "--state", state, "--metrics", metrics)
    told = run(*args)
    assert f'mercer_rows_total{{unit="{one}"}} 360' in metrics.read_text()
    assert f'mercer_rows_total{{unit="{two}"}} 300' in metrics.read_text()
    assert f"{one}: 360 rows" in told.stderr
    run("monitor", plant / "d.mercer", two, "--state", state)
    assert run(*args, "-q").stdout == ""  # nothing is new


def test_a_file_is_known_again_however_its_path_is_written(plant, lines, tmp_path, monkeypatch):
    data, events = tmp_path / "r.csv", tmp_path / "e.jsonl"
    data.write_text("".join(lines))
    args = ("--state", tmp_path / "s.json", "--events", events, "-q")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    run("monitor", plant / "d.mercer", data, *args)
    told = events.read_text()
    for path in ("../r.csv", tmp_path / "sub" / ".." / "r.csv"):
        assert run("monitor", plant / "d.mercer", path, *args).stdout == ""
        twice = run("monitor", plant / "d.mercer", path, data, *args)
        assert "two of these are one file" in twice.stderr
    assert events.read_text() == told


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.update(units=3),
        lambda state: state.pop("outputs"),
        lambda state: state["units"].update(dict.fromkeys(state["units"])),
        lambda state: next(iter(state["units"].values()))["stream"].pop("tracker"),
        lambda state: next(iter(state["units"].values())).update(place={"inode": 1}),
    ],
)
def test_a_damaged_state_is_said_in_a_line(plant, tmp_path, spoil):
    state = tmp_path / "s.json"
    args = ("monitor", plant / "d.mercer", plant / "faulty.csv", "--state", state, "-q")
    run(*args)
    damaged = json.loads(state.read_text())
    spoil(damaged)
    state.write_text(json.dumps(damaged))
    found = run(*args)
    assert found.exit_code == 3
    assert "must be a state that `mercer monitor` wrote" in found.stderr
    assert json.loads(state.read_text()) == damaged


def test_a_state_cuts_back_no_file_that_it_knows_nothing_of(plant, lines, tmp_path):
    state, events, other, data = (tmp_path / name for name in ("s", "e.jsonl", "o.jsonl", "r.csv"))
    data.write_text("".join(lines[:231]))
    args = ("monitor", plant / "d.mercer", data, "--state", state, "-q")
    run(*args, "--events", events)
    kept, long = events.read_text(), '{"event": 7}\n' * 200
    other.write_text(long)
    run(*args, "--events", other)
    assert other.read_text() == long
    run(*args)  # without a log of events
    data.write_text("".join(lines))
    run(*args, "--events", events)
    assert events.read_text().startswith(kept)


def test_a_table_that_was_taken_away_begins_anew_with_its_names(plant, lines, tmp_path):
    state, table, data = (tmp_path / name for name in ("s", "t.csv", "r.csv"))
    data.write_text("".join(lines[:6]))
    args = ("monitor", plant / "d.mercer", data, "--state", state, "-o", table, "-q")
    run(*args)
    names = table.read_text().splitlines()[0]
    table.rename(tmp_path / "t.csv.1")
    data.write_text("".join(lines[:9]))
    run(*args)
    head, *rows = table.read_text().splitlines()
    assert (head, len(rows)) == (names, 3)


def test_a_later_header_that_lacks_a_column_is_not_read_by_position(plant, lines, tmp_path):
    data, state = tmp_path / "r.csv", tmp_path / "s.json"
    data.write_text("".join(lines[:6]))
    args = ("monitor", plant / "d.mercer", data, "--state", state, "--marks")
    run(*args)
    data.rename(tmp_path / "r.csv.1")
    names = lines[0].replace("flow,temperature", "temperature,flow").replace("power", "energy")
    data.write_text(names + "".join(lines[6:9]))
    found = run(*args)
    rows = found.stdout.splitlines()
    assert [row.split(",")[8] for row in rows] == ["0"] * 3  # none is judged
    assert all("lacks the column 'power'" in row for row in rows)
    assert "its rows are not judged" in found.stderr
    with data.open("a") as file:
        file.write(lines[9])
    assert "lacks the column 'power'" in run(*args).stdout  # after a restart too
    data.rename(tmp_path / "r.csv.2")
    data.write_text(lines[0] + lines[10])
    assert run(*args).stdout.split(",")[8] == "1"


def test_a_later_header_that_the_shadow_alone_cannot_use_ends_nothing(plant, lines, tmp_path):
    """Not after a restart either."""
    data, state, model = (tmp_path / name for name in ("r.csv", "s.json", "few.mercer"))
    fit = ("fit", plant / "normal.csv", "--id", "time", "--columns", "flow,temperature,pressure")
    good(*fit, "--model", "detector", "-o", model)
    args = ("monitor", model, data, "--shadow", plant / "d.mercer", "--state", state, "-q")
    data.write_text("".join(lines[:6]))
    told = run(*args).stdout
    data.rename(tmp_path / "r.csv.1")
    data.write_text(lines[0].replace("power", "energy") + "".join(lines[6:20]))
    told += run(*args).stdout
    assert [row.split(",")[8] for row in told.splitlines()[1:]] == ["1"] * 19
    assert [row.split(",")[-2] == "" for row in told.splitlines()[1:]] == [False] * 5 + [True] * 14


def test_all_files_that_were_rotated_since_are_read(plant, lines, tmp_path):
    data, state = tmp_path / "r.csv", tmp_path / "s.json"
    data.write_text("".join(lines[:6]))
    args = ("monitor", plant / "d.mercer", data, "--state", state, "-q")
    told = run(*args).stdout
    data.rename(tmp_path / "r.csv.2")
    (tmp_path / "r.csv.1").write_text(lines[0] + "".join(lines[6:9]))
    data.write_text(lines[0] + "".join(lines[9:20]))
    for age, name in enumerate(("r.csv", "r.csv.1", "r.csv.2")):
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    told += run(*args).stdout
    whole = run("monitor", plant / "d.mercer", plant / "faulty.csv", "-q").stdout
    assert told == "".join(whole.splitlines(keepends=True)[:20])


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_lines_before_the_names_are_left_out_once(plant, lines, tmp_path, cut):
    """Also where a call ended among them."""
    data, state = tmp_path / "r.csv", tmp_path / "s.json"
    text = ["# export\n", "of the plant\n", *lines[:40]]
    args = ("monitor", plant / "d.mercer", data, "--skip-rows", "2", "--state", state, "-q")
    told = ""
    for part in (text[:cut], text):
        data.write_text("".join(part))
        told += run(*args).stdout
    whole = run("monitor", plant / "d.mercer", plant / "faulty.csv", "-q").stdout
    assert told == "".join(whole.splitlines(keepends=True)[:40])


def test_another_file_with_the_number_of_the_old_one_is_read_from_its_beginning(
    plant, lines, tmp_path
):
    data, state = tmp_path / "r.csv", tmp_path / "s.json"
    data.write_text("".join(lines[:6]))
    args = ("monitor", plant / "d.mercer", data, "--state", state, "-q")
    run(*args)
    data.write_text(lines[0] + "".join(lines[6:20]))  # in its place, and longer
    assert len(run(*args).stdout.splitlines()) == 14


def test_a_port_that_is_taken_leaves_the_files_as_they_were(plant, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("kept")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        args = (plant / "faulty.csv", "--metrics", f":{port}", "-o", out)
        found = run("monitor", plant / "d.mercer", *args)
    assert found.exit_code == 1
    assert f"port {port}" in found.stderr
    assert out.read_text() == "kept"


def test_the_exit_code_is_of_the_rows_of_this_call_or_of_an_event_that_lasts(
    plant, lines, tmp_path
):
    data, state = tmp_path / "r.csv", tmp_path / "s.json"
    args = ("monitor", plant / "d.mercer", data, "--state", state, "-o", tmp_path / "o.csv")
    data.write_text("".join(lines[:231]))  # in the middle of an event
    assert run(*args).exit_code == 4
    assert run(*args).exit_code == 4  # no row is new, and the event lasts
    later = [line.replace("2026-01-05", "2026-01-06") for line in lines[1:200]]
    data.write_text("".join([*lines[:231], *later]))
    told = run(*args)
    assert told.exit_code == 0  # the event is over, and nobody is called out for it again
    assert "199 new rows, 0 alarms; since the state began 429 rows" in told.stderr


def test_a_shelf_is_not_put_up_again_by_a_restart(plant, lines, tmp_path):
    data, state, events = (tmp_path / name for name in ("r.csv", "s.json", "e.jsonl"))
    for end in range(30, len(lines), 30):
        data.write_text("".join(lines[:end]))
        run(
            *("monitor", plant / "d.mercer", data, "--state", state, "-q"),
            *("--events", events, "--shelve", "60", "-o", tmp_path / "o.csv"),
        )
    first = json.loads(events.read_text().splitlines()[0])
    assert not first["shelved"]
