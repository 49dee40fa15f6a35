"""`mercer monitor`: what it says where an answer would otherwise be missing without a word."""

from __future__ import annotations

import csv
import subprocess
import sys
from datetime import datetime

import pandas as pd
import pytest

from markets.commands import good, run
from mercer import KernelPCA, KernelPCADetector

COUNTED = "there is no column 'time', which named the training rows: rows are counted from 0"


@pytest.fixture
def other_clock(lines, tmp_path):
    """The faulty run, with its times under another name."""
    path = tmp_path / "rows.csv"
    path.write_text("".join([lines[0].replace("time", "Stamp", 1), *lines[1:]]))
    return path


LIVE = pytest.mark.parametrize("live", [(), ("--rule", "3/5")], ids=["whole", "live"])


@LIVE
def test_rows_without_the_column_of_their_times_are_said_to_be_counted(plant, other_clock, live):
    said = run("monitor", plant / "d.mercer", other_clock, *live).stderr
    assert said.count(COUNTED) == 1
    assert "name it with --time" in said


@LIVE
def test_nothing_is_said_where_the_times_are_there(plant, other_clock, live):
    assert COUNTED not in run("monitor", plant / "d.mercer", plant / "faulty.csv", *live).stderr
    named = run("monitor", plant / "d.mercer", other_clock, "--time", "Stamp", *live)
    assert COUNTED not in named.stderr
    assert "2026-01-05" in named.stdout.splitlines()[1]


def test_points_have_times_of_their_own(plant, lines, tmp_path):
    names, cells = lines[0].strip().split(",")[1:], lines[1].strip().split(",")[1:]
    path = tmp_path / "rows.lp"
    path.write_text(f"tank {','.join(f'{k}={v}' for k, v in zip(names, cells, strict=True))}\n")
    done = run("monitor", plant / "d.mercer", path)
    assert done.exit_code in (0, 4), done.stderr
    assert COUNTED not in done.stderr


def test_a_detector_that_knows_faults_says_how_they_are_compared(plant, tmp_path):
    knows = tmp_path / "knows.mercer"
    good("retrain", plant / "d.mercer", plant / "faulty.csv", "--event", "leak", "-o", knows)
    said = run("monitor", knows, plant / "faulty.csv").stderr
    assert "To compare events with the known ones (leak), add --rule 3/5." in said
    assert "like 'leak'" in run("monitor", knows, plant / "faulty.csv", "--rule", "3/5").stderr
    assert "known ones" not in run("monitor", plant / "d.mercer", plant / "faulty.csv").stderr


def test_a_file_that_is_waited_for_is_named_and_then_read(plant, lines, tmp_path):
    wanted = tmp_path / "later.csv"
    command = [sys.executable, "-m", "mercer", "monitor", str(plant / "d.mercer"), str(wanted)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--follow"], **pipes) as process:
        said = process.stderr.readline()
        wanted.write_text("".join(lines[:2]))
        table = [process.stdout.readline() for _ in range(2)]
        process.terminate()
        assert process.wait() == 0
    assert said.strip() == f"there is no file {str(wanted)!r} yet: it is waited for"
    assert table[1].startswith(lines[1].split(",")[0])


# ── times in a format that is given ─────────────────────────────────────────
AMERICAN = "%m/%d/%Y %H:%M"  # 01/05/2026 may be in May: it is not guessed


@pytest.fixture
def two_ways(lines, tmp_path):
    """A run with a gap of an hour, its times as in ISO 8601, and in America."""
    rows = [line.partition(",") for line in [*lines[1:41], *lines[101:161]]]
    times = [datetime.fromisoformat(time) for time, _, _ in rows]
    paths = tmp_path / "iso.csv", tmp_path / "american.csv"
    for path, written in zip(paths, (datetime.isoformat, american), strict=True):
        body = (f"{written(time)},{cells}" for time, (_, _, cells) in zip(times, rows, strict=True))
        path.write_text(lines[0] + "".join(body))
    return paths


def american(time):
    return time.strftime(AMERICAN)


def without_times(text):
    return [line.partition(",")[2] for line in text.splitlines()]


def test_a_gap_is_found_in_times_of_a_given_format(plant, two_ways, tmp_path):
    lagged, (iso, other) = tmp_path / "lags.mercer", two_ways
    how = ("--id", "time", "--model", "detector", "--lags", "2", "--components", "4")
    good("fit", plant / "normal.csv", *how, "-o", lagged)
    wanted = run("monitor", lagged, iso).stdout
    found = run("monitor", lagged, other, "--time", "time", "--time-format", AMERICAN).stdout
    judged = [row["judged"] for row in csv.DictReader(wanted.splitlines())]
    assert judged.count("0") == 4  # two at the beginning, two after the gap
    assert without_times(found) == without_times(wanted)
    assert found.splitlines()[1].startswith("01/05/2026 06:00,")


def test_a_fit_knows_its_gaps_by_times_of_a_given_format(plant, two_ways, tmp_path):
    how = ("--id", "time", "--model", "detector", "--lags", "2", "--components", "4")
    of_iso, of_other = (tmp_path / f"{name}.mercer" for name in ("iso", "american"))
    good("fit", two_ways[0], *how, "-o", of_iso)
    good("fit", two_ways[1], *how, "--time-format", AMERICAN, "-o", of_other)
    judged = [run("monitor", model, plant / "faulty.csv").stdout for model in (of_iso, of_other)]
    assert judged[0] == judged[1]


@LIVE
def test_times_that_may_mean_two_days_are_said_to_be_unread(plant, two_ways, live):
    iso, other = two_ways
    said = run("monitor", plant / "d.mercer", other, *live).stderr
    assert said.count("it is not known how the times in column 'time' are written") == 1
    assert "gaps and late rows are not noticed" in said
    assert "not known how" not in run("monitor", plant / "d.mercer", iso, *live).stderr


@LIVE
def test_a_format_is_that_of_the_column_that_named_the_training_rows(plant, two_ways, live):
    form = ("--time-format", AMERICAN, *live)
    found = run("monitor", plant / "d.mercer", two_ways[1], *form)
    assert "not known how" not in found.stderr
    named = run("monitor", plant / "d.mercer", two_ways[1], "--time", "time", *form)
    assert found.stdout == named.stdout != ""


# ── detectors that Python saved ─────────────────────────────────────────────
@pytest.fixture
def from_python(plant, tmp_path):
    """A detector of a data frame, saved in Python: it knows its columns, and none of times."""
    table = pd.read_csv(plant / "normal.csv", index_col="time")
    KernelPCADetector().fit(table).save(tmp_path / "python.mercer")
    return tmp_path / "python.mercer"


def test_columns_that_were_matched_by_name_are_not_said_to_have_no_names(
    plant, from_python, tmp_path
):
    faulty, model = plant / "faulty.csv", tmp_path / "kpca.mercer"
    KernelPCA(2).fit(pd.read_csv(faulty, index_col="time")).save(model)
    for command in (
        ("monitor", from_python, faulty),
        ("retrain", from_python, plant / "normal.csv", "-o", tmp_path / "newer.mercer"),
        ("transform", model, faulty),
        ("reconstruct", model, faulty),
    ):
        done = run(*command)
        assert done.exit_code in (0, 4), done.stderr
        assert "feature names" not in done.stderr


@LIVE
def test_a_detector_that_knows_no_column_of_times_says_so(plant, from_python, live):
    faulty = plant / "faulty.csv"
    said = run("monitor", from_python, faulty, *live).stderr
    assert said.count("knows no column of times: rows are counted from 0") == 1
    assert (
        "rows are counted"
        not in run("monitor", from_python, faulty, "--time", "time", *live).stderr
    )
