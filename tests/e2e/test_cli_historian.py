"""Files as historians write them: the batch monitor takes for missing what the stream takes for missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from markets.commands import good, run
from mercer import load, open_table

TEXTS = {11: (1, "Bad"), 21: (2, "I/O Timeout"), 31: (1, "No Data"), 41: (3, "Comm Fail")}


@pytest.fixture
def spoilt(lines, tmp_path):
    """A file with texts in place of readings, and a column of quality."""
    rows = [line.strip().split(",") for line in lines]
    for i, (j, text) in TEXTS.items():
        rows[i][j] = text
    rows = [[*row, "Bad" if i == 51 else "Good"] for i, row in enumerate(rows)]
    rows[0][-1] = "power.Quality"
    path = tmp_path / "spoilt.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    return path


def test_a_file_is_judged_as_the_stream_judges_it(plant, spoilt):
    whole = run("monitor", plant / "d.mercer", spoilt)
    live = run("monitor", plant / "d.mercer", "-", "-q", input=spoilt.read_text())
    assert whole.exit_code == live.exit_code == 4
    judged = [[row.split(",")[8] for row in told.stdout.splitlines()] for told in (whole, live)]
    assert judged[0] == judged[1]
    assert [i for i, cell in enumerate(judged[0]) if cell == "0"] == [*TEXTS, 51]
    assert "cells are missing in flow (2), temperature (1), pressure (1), power (1)" in whole.stderr
    assert "which readings count is read from 'power.Quality'" in whole.stderr
    facts = json.loads(run("monitor", plant / "d.mercer", spoilt, "--json").stdout)
    cells = facts.get("results", facts)["not_judged"]["missing_cells"]
    assert cells == {"flow": 2, "temperature": 1, "pressure": 1, "power": 1}
    seen = load(plant / "d.mercer").monitor(open_table(spoilt))
    assert (~seen.table["judged"]).sum() == 5


def test_a_text_that_no_historian_writes_is_an_error(plant, lines, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("".join([*lines[:9], lines[9].replace(",", ",x", 1)]))
    told = run("monitor", plant / "d.mercer", path)
    assert told.exit_code == 3
    assert "is not a number, in line 10, column 'flow'" in told.stderr


@pytest.mark.parametrize("rows", [0, 1])
def test_units_above_too_few_numbers_are_named_as_a_way_out(plant, lines, tmp_path, rows):
    path = tmp_path / "rows.csv"
    path.write_text("".join([lines[0], ",m3/h,°C,bar,m,kW\n", *lines[1 : rows + 1]]))
    told = run("monitor", plant / "d.mercer", path)
    assert told.exit_code == 3
    assert "If that line has the units of the columns, use --units-row." in told.stderr
    asked = run("monitor", plant / "d.mercer", path, "--units-row")
    assert asked.exit_code == (0 if rows else 3), asked.stderr
    assert ("1 row" if rows else "has a header and no rows") in asked.stderr


LIVE = pytest.mark.parametrize("live", [(), ("--rule", "3/5")], ids=["whole", "live"])


@LIVE
def test_a_name_that_the_model_uses_itself_is_not_proposed_for_another(
    plant, lines, tmp_path, live
):
    head, other = "time,feed_1,feed_2,pressure,level,power\n", tmp_path / "rows.csv"
    normal, model = tmp_path / "normal.csv", tmp_path / "model.mercer"
    normal.write_text(head + "".join((plant / "normal.csv").read_text().splitlines(True)[1:]))
    good("fit", normal, "--id", "time", "--model", "detector", "-o", model)
    for name, near in (("R2-FI101", ""), ("FEED_1", "Did you mean 'FEED_1'? ")):
        other.write_text("".join([head.replace("feed_1", name), *lines[1:]]))
        told = run("monitor", model, other, *live)
        assert told.exit_code == 3
        assert "lacks the column 'feed_1', which the model needs. " + near + "Its" in told.stderr
        assert "or fit a model without the others (--columns)" in told.stderr


def test_rows_without_a_line_of_names_are_asked_to_have_one(plant, lines):
    told = run("monitor", plant / "d.mercer", "-", input="".join(lines[1:]))
    assert told.exit_code == 3
    assert "Begin with a line of names." in told.stderr


def test_a_fit_names_the_cell_and_the_option(spoilt, tmp_path):
    args = ("fit", spoilt, "--id", "time", "--label", "power.Quality")
    told = run(*args, "-o", tmp_path / "new.mercer")
    assert told.exit_code == 3
    assert "line 12, column 'flow': 'Bad' is not a number" in told.stderr
    assert "--na-values" in told.stderr


def test_a_detector_is_fitted_to_whole_rows_of_readings_that_count(spoilt, lines, tmp_path):
    """As to a file from which those rows were taken by hand; --impute keeps them."""
    by_hand, new, other = (tmp_path / name for name in ("rows.csv", "new.mercer", "other.mercer"))
    left = {*TEXTS, 51}
    by_hand.write_text("".join(line for i, line in enumerate(lines) if i not in left))
    fit = ("fit", "--id", "time", "--model", "detector")
    told = run(*fit, spoilt, "-o", new)
    assert told.exit_code == 0, told.stderr
    assert "which readings count is read from 'power.Quality'" in told.stderr
    assert "5 of 360 rows lack a reading and are left out" in told.stderr
    run(*fit, by_hand, "-o", other)
    assert load(new).model.fingerprint_ == load(other).model.fingerprint_
    filled = run(*fit, spoilt, "--impute", "median", "-o", other)
    assert "5 values imputed by" in filled.stderr
    assert "left out" not in filled.stderr


def test_a_detector_of_rows_that_all_lack_a_reading_is_refused(lines, tmp_path):
    path = tmp_path / "rows.csv"
    rows = [line.split(",") for line in lines[1:]]
    path.write_text(lines[0] + "".join(",".join([row[0], "Bad", *row[2:]]) for row in rows))
    told = run("fit", path, "--id", "time", "--model", "detector", "-o", tmp_path / "d.mercer")
    assert told.exit_code == 3
    assert "every one of 360 rows lacks a reading" in told.stderr


QUALITIES = {
    "words": ("Good", "Bad"),
    "numbers": ("192", "24"),
    "numbers that pandas wrote": ("192.0", "0.0"),
}


@pytest.mark.parametrize("kind", sorted(QUALITIES))
@pytest.mark.parametrize("chosen", [False, True])
def test_quality_counts_whatever_its_spelling_and_whichever_columns_are_chosen(
    plant, tmp_path, kind, chosen
):
    good, bad = QUALITIES[kind]
    rows = [line.split(",") for line in (plant / "normal.csv").read_text().splitlines()]
    rows = [[*row, bad if i in (7, 8) else good] for i, row in enumerate(rows)]
    rows[0][-1] = "power.Quality"
    path = tmp_path / "q.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    args = ("--columns", "flow,power") if chosen else ()
    told = run(
        "fit", path, "--id", "time", "--model", "detector", *args, "-o", tmp_path / "q.mercer"
    )
    assert told.exit_code == 0, told.stderr
    assert f"2 of {len(rows) - 1} rows lack a reading" in told.stderr
    assert "read from 'power.Quality'" in told.stderr


@pytest.mark.parametrize(("low", "high"), [(180, 220), (90, 110), (0, 1)])
def test_a_variable_with_the_name_of_a_quality_stays_a_variable(plant, tmp_path, low, high):
    rng = np.random.default_rng(0)
    rows = [line.split(",") for line in (plant / "normal.csv").read_text().splitlines()]
    other = [f"{low + (high - low) * u:.0f}" if high > 1 else f"{u:.3f}" for u in rng.random(999)]
    rows = [[*row, *other[i : i + 1]] for i, row in enumerate(rows)]
    rows[0][-1] = "power_q"
    path = tmp_path / "v.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    told = run("fit", path, "--id", "time", "--model", "detector", "-o", tmp_path / "v.mercer")
    assert told.exit_code == 0, told.stderr
    assert len(load(tmp_path / "v.mercer").preparation.features) == len(rows[0]) - 1


@pytest.mark.parametrize("name", ["flow_q", "status"])
def test_a_variable_with_the_name_of_a_quality_is_judged_the_same_as_it_arrives(
    plant, tmp_path, name
):
    """Whole numbers of a heat flow or a state of operation are bad qualities of OPC too."""
    found = {}
    for part in ("normal", "faulty"):
        rows = [line.split(",") for line in (plant / f"{part}.csv").read_text().splitlines()]
        rows[0][2] = name
        rows[1:] = [[*row[:2], f"{float(row[2]):.0f}", *row[3:]] for row in rows[1:]]
        found[part] = rows
        (tmp_path / f"{part}.csv").write_text("\n".join(map(",".join, rows)) + "\n")
    points = "".join(
        f"r {','.join(map('='.join, zip(found['faulty'][0][1:], row[1:], strict=True)))} {60 * i}\n"
        for i, row in enumerate(found["faulty"][1:])
    )
    model = tmp_path / "v.mercer"
    good("fit", tmp_path / "normal.csv", "--id", "time", "--model", "detector", "-o", model)
    whole = run("monitor", model, tmp_path / "faulty.csv", "-q").stdout
    lines = run("monitor", model, "-", "-q", input=(tmp_path / "faulty.csv").read_text())
    assert lines.stdout == whole
    given = ("--format", "influx", "--precision", "s")
    arrived = run("monitor", model, "-", "-q", *given, input=points).stdout
    assert [line.split(",", 1)[1] for line in arrived.splitlines()] == [
        line.split(",", 1)[1] for line in whole.splitlines()
    ]


def test_lags_over_rows_that_are_left_out_need_times(plant, tmp_path):
    rows = [line.split(",") for line in (plant / "normal.csv").read_text().splitlines()]
    for row in rows[50:60]:
        row[1] = ""
    path = tmp_path / "g.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    args = ("fit", path, "--model", "detector", "--lags", "3", "-o", tmp_path / "g.mercer")
    assert run(*args, "--id", "time").exit_code == 0
    refused = run(*args, "--columns", ",".join(rows[0][1:]))
    assert refused.exit_code == 2
    assert "need a column of times where rows lack readings" in refused.stderr
