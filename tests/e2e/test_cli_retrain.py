"""`mercer retrain`: rows in faults are left out, kept on request, and refused where they are most."""

from __future__ import annotations

import html
import shlex

import pytest

from markets.commands import run
from mercer import load
from mercer.persistence.model_file import read_header


def learned(path):
    step = load(path).model.lineage_[-1]
    return step.learned, step.rows


@pytest.fixture
def retrained(plant, tmp_path):
    """What the command says of some lines, and the file that it writes."""

    def of(rows, *options):
        data, new = tmp_path / "rows.csv", tmp_path / "new.mercer"
        data.write_text("".join(rows))
        return run("retrain", plant / "d.mercer", data, "-o", new, *options), new

    return of


def named(lines, name):
    """The lines with other names of their rows."""
    rows = [line.partition(",")[2] for line in lines[1:]]
    return [lines[0], *(f"{name(i)},{row}" for i, row in enumerate(rows))]


def test_rows_in_faults_are_left_out_and_counted_unless_they_are_to_be_kept(
    plant, lines, retrained
):
    events = load(plant / "d.mercer").model.events(
        [[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]]
    )
    assert {event.kind for event in events} == {"fault"}
    faulty = sum(event.rows for event in events)
    told, new = retrained(lines)
    assert told.exit_code == 0
    assert f"{faulty} of 360 rows are in events of the detector and were not learned" in told.stderr
    assert "--keep-faults" in told.stderr
    assert learned(new) == (360 - faulty, 360)
    told, new = retrained(lines, "--keep-faults", "--guard", "1000")
    assert told.exit_code == 0
    assert "in events of the detector" not in told.stderr
    assert learned(new) == (360, 360)


def test_rows_most_of_which_are_in_faults_are_refused_unless_they_are_to_be_kept(lines, retrained):
    most = [lines[0], *lines[214:300]]
    told, new = retrained(most)
    assert told.exit_code == 3
    assert "of 86 rows are in events of the detector, too many" in told.stderr
    assert "set --keep-faults" in told.stderr
    assert not new.exists()
    told, new = retrained(most, "--keep-faults", "--guard", "1000")
    assert told.exit_code == 0
    assert learned(new) == (86, 86)


@pytest.mark.parametrize("options", [(), ("--keep-faults",), ("--event", "flow sensor")])
@pytest.mark.parametrize(
    "spoilt",
    [
        lambda lines: [lines[0], *lines[:0:-1]],  # the newest row first
        lambda lines: named(lines, lambda _: "2026-01-05"),  # the day, in place of the time
        lambda lines: named(lines, lambda i: 7919 * i % 360),  # numbers in no order
    ],
)
def test_times_that_do_not_go_forwards_are_refused(lines, retrained, spoilt, options):
    told, new = retrained(spoilt(lines), *options)
    assert told.exit_code == 3
    assert "Error: Times must go forwards from row to row" in told.stderr
    assert "the oldest first" in told.stderr
    assert not new.exists()


@pytest.mark.parametrize(
    "name",
    [
        lambda i: f"batch {i % 3}",
        lambda _: "",
        lambda i: "" if i % 5 else f"2026-01-05 0{i // 60}:00",
    ],
)
def test_names_that_are_no_times_change_nothing(lines, retrained, name):
    told, new = retrained(named(lines, name))
    assert told.exit_code == 0, told.stderr
    other = learned(new)
    _, new = retrained(lines)
    assert other == learned(new)


def test_a_few_rows_out_of_their_turn_end_nothing(lines, retrained):
    told, new = retrained([*lines[:100], lines[50], lines[51], *lines[100:]])
    assert told.exit_code == 0
    assert learned(new)[1] == 362


def test_info_names_the_detector_that_a_new_one_was_made_from(plant, tmp_path):
    """What a rollback needs: which of the files that are kept is the parent."""
    new, named = tmp_path / "new.mercer", tmp_path / "named.mercer"
    told = run("retrain", plant / "d.mercer", plant / "normal.csv", "-o", new, "--why", "June")
    assert f"--shadow {new}" in told.stderr
    parent = load(plant / "d.mercer").model.fingerprint_
    assert parent in run("info", plant / "d.mercer").stdout
    found = run("info", new).stdout
    assert f"from {parent} (June)" in found
    assert f"fingerprint {load(new).model.fingerprint_}" in found
    assert load(new).model.fingerprint_ != parent
    run("retrain", new, plant / "faulty.csv", "--event", "flow sensor", "-o", named)
    assert "knows       flow sensor" in run("info", named).stdout
    assert load(named).model.fingerprint_ == load(new).model.fingerprint_  # it judges alike


def test_an_event_that_is_taught_changes_nothing_of_what_is_said_of_the_fit(plant, tmp_path):
    old, new, page = plant / "d.mercer", tmp_path / "k.mercer", tmp_path / "r.html"
    faulty, normal = plant / "faulty.csv", plant / "normal.csv"
    assert run("retrain", old, faulty, "--event", "flow sensor", "-o", new).exit_code == 0
    before, after = read_header(old), read_header(new)
    assert after["data"] == before["data"]
    told = {name: after["about"].get(name) for name in before["about"]}
    assert told == before["about"]
    taught = after["about"]["events"]["flow sensor"]
    assert (taught["n"], after["data"]["n"]) == (360, before["data"]["n"])
    assert taught["digest"] != after["data"]["digest"]
    own = "the rows that the model was fitted to: their digest is the same"
    for rows, words in ((normal, own), (faulty, "by which it knows &#x27;flow sensor&#x27;")):
        run("report", new, rows, "-o", page)
        said = page.read_text("utf-8").replace("&#39;", "&#x27;")
        assert words in said
        assert (own in said) == (rows == normal)
    found = run("info", new).stdout
    assert f"{load(old).model.fingerprint_} (the same model, with 1 known event)" in found
    assert "knows       flow sensor: 360 rows" in found


def test_how_a_retrained_detector_was_made_is_in_its_file_and_in_its_report(plant, tmp_path):
    once, twice, page = (tmp_path / name for name in ("once.mercer", "twice.mercer", "r.html"))
    normal, faulty = plant / "normal.csv", plant / "faulty.csv"
    retrain = ("retrain", plant / "d.mercer", normal, "-o", once)
    teach = ("retrain", once, faulty, "--event", "drift", "-o", twice)
    commands = [shlex.join(["mercer", *map(str, args)]) for args in (retrain, teach)]
    for args in (retrain, teach, ("report", twice, normal, "-o", page)):
        assert run(*args).exit_code == 0
    about = read_header(twice)["about"]
    assert (about["retrained"], about["parent"]) == (commands, str(once))
    told = run("info", twice).stdout
    assert all(command in told for command in commands)
    shown = html.unescape(page.read_text("utf-8"))
    fit, *then = (shown.index(f"\n{command}\n") for command in commands)
    assert shown.index("mercer fit ") < fit < then[0]
    assert "These are the rows that the detector was last taught" in shown
