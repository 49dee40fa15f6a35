"""`mercer monitor` of InfluxDB line protocol: the verdicts of the same rows in a CSV."""

from __future__ import annotations

import numpy as np
import pytest

from markets.commands import run


@pytest.fixture(scope="module")
def points(lines):
    """The faulty run as points, in nanoseconds, one a line."""
    names = lines[0].strip().split(",")[1:]
    out = []
    for line in lines[1:]:
        time, *cells = line.strip().split(",")
        stamp = np.datetime64(time, "ns").astype(int)
        fields = ",".join(f"{n}={c}" for n, c in zip(names, cells, strict=True))
        out.append(f"reactor,unit=R\\ 1 {fields} {stamp}\n")
    return out


@pytest.fixture(scope="module")
def table(plant):
    return run("monitor", plant / "d.mercer", plant / "faulty.csv", "-q").stdout.splitlines()


def one_reading_a_line(points):
    split = []
    for point in points:
        head, fields, stamp = point.replace("\\ ", "_").split(" ")
        split += [f"{head} {field} {stamp}" for field in fields.split(",")]
    return split


def after_time(rows):
    return [row.partition(",")[2] for row in rows]


@pytest.mark.parametrize(
    "given", [(), ("--format", "influx"), ("--format", "influx", "--precision", "ns")]
)
def test_points_are_judged_as_the_rows_of_a_file(plant, points, table, given):
    found = run("monitor", plant / "d.mercer", "-", *given, input="".join(points))
    assert found.exit_code == 4
    assert after_time(found.stdout.splitlines()) == after_time(table)
    assert found.stdout.splitlines()[1].startswith("2026-01-05T06:00:00Z,")
    assert ("read as InfluxDB line protocol" in found.stderr) == (not given)
    assert ("taken for nanoseconds" in found.stderr) == ("--precision" not in given)


def test_one_reading_a_line_and_lines_that_are_none(plant, points, table):
    """A row that lacks a reading is judged as far as it can be; bad lines are marked and counted."""
    split = one_reading_a_line(points)
    spoilt = [
        *split[:5],
        "reactor flow=\n",
        "garbage\n",
        "cpu usage=1 1\n",
        *split[6:],
    ]  # lacks a flow
    found = run(
        "monitor", plant / "d.mercer", "-", "--format", "influx", "--marks", input="".join(spoilt)
    )
    rows = found.stdout.splitlines()
    assert len(rows) == len(table) + 2
    good = [row.split(",")[1:-3] for row in (rows[1], *rows[5:])]
    assert good == [row.split(",")[1:] for row in (table[1], *table[3:])]
    assert "missing: flow" in rows[4]
    assert all("not line protocol" in row for row in rows[2:4])
    assert "2 lines were not rows" in found.stderr
    assert "left out, such as 'cpu'" in found.stderr


def test_a_file_of_points_goes_on_from_a_state(plant, points, table, tmp_path):
    data, out = tmp_path / "rows.lp", tmp_path / "o.csv"
    args = ("monitor", plant / "d.mercer", data, "--state", tmp_path / "s.json", "-o", out, "-q")
    split = one_reading_a_line(points)
    for end in (903, len(split)):  # in the middle of a row
        data.write_text("".join(split[:end]))
        run(*args)
    assert after_time(out.read_text().splitlines()) == after_time(table)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("rows.lp", "--json"), "--json needs all rows at once"),
        (("rows.lp", "--format", "influx", "--precision", "h"), "'h' is not one of"),
    ],
)
def test_what_can_not_be_meant(plant, tmp_path, args, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.lp").write_text("r flow=1 1\n")
    found = run("monitor", plant / "d.mercer", *args)
    assert found.exit_code == 2
    assert words in found.stderr
