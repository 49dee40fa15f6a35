"""Options of reading at the command line: files as instruments write them, and remedies as options."""

import openpyxl
import pytest

from markets.commands import good, read_csv, run

ROWS = [(round(0.37 * i % 3, 3), round(1.7 * i % 5, 3)) for i in range(12)]
LAB = ["Station 7", "# calibrated", "time;p;q", ";kPa;1/s"]
LAB += [f"{i + 1:02}.02.2024 10:30;{p};{q}".replace(".0 ", " ") for i, (p, q) in enumerate(ROWS)]
PLAIN = ["time,p,q", *(f"2024-02-{i + 1:02} 10:30:00,{p},{q}" for i, (p, q) in enumerate(ROWS))]
OPTIONS = ["--id", "time", "--skip-rows", "1", "--comment", "#"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.csv").write_text("\n".join(LAB) + "\n")
    (tmp_path / "plain.csv").write_text("\n".join(PLAIN) + "\n")
    return tmp_path


def scores(file, *options):
    good("fit", file, *options, "-o", "m.mercer", "-k", "2")
    good("transform", "m.mercer", file, *options, "-o", "s.csv")
    return read_csv("s.csv")


@pytest.mark.usefixtures("folder")
def test_a_file_of_an_instrument_is_the_plain_table():
    plain = scores("plain.csv", "--id", "time")
    lab = scores("lab.csv", *OPTIONS)
    assert {key: lab[key] for key in lab if key != "time"} == {
        key: plain[key] for key in plain if key != "time"
    }
    said = good("fit", "lab.csv", *OPTIONS, "-o", "m.mercer").stderr
    assert "line 4 is left out, since it has units (guessed): 'kPa', '1/s'" in said
    book = openpyxl.Workbook()
    book.active.append(["Station 7"])
    for row in [["time", "p", "q"], *([f"r{i}", *row] for i, row in enumerate(ROWS))]:
        book.active.append(row)
    book.save("lab.xlsx")
    sheet = scores("lab.xlsx", "--id", "time", "--skip-rows", "1")
    assert {key: sheet[key] for key in sheet if key != "time"} == {
        key: plain[key] for key in plain if key != "time"
    }


@pytest.mark.usefixtures("folder")
def test_several_columns_as_ids_are_refused_by_the_option():
    result = run("fit", "plain.csv", "--id", "time,p", "-o", "m.mercer")
    assert result.exit_code == 3
    assert "--id takes one column: name 'time' or 'p'." in result.stderr


@pytest.mark.usefixtures("folder")
def test_a_file_in_other_units_is_refused(folder):
    good("fit", "lab.csv", *OPTIONS, "-o", "m.mercer")
    (folder / "lab.csv").write_text("\n".join(LAB).replace(";kPa;", ";bar;") + "\n")
    result = run("transform", "m.mercer", "lab.csv", *OPTIONS, "-o", "s.csv")
    assert result.exit_code == 3
    assert "column 'p' is in 'bar', but the model was fitted to 'kPa'. Convert" in result.stderr


@pytest.mark.usefixtures("folder")
def test_an_array_of_a_csv_is_refused_by_its_option():
    result = run("fit", "plain.csv", "--id", "time", "--array", "rows", "-o", "m.mercer")
    assert result.exit_code == 3
    assert (
        "--array does not apply to CSV file 'plain.csv': it is for the formats 'npz', 'hdf5',"
        in result.stderr
    )


def test_values_that_stand_for_nothing(folder):
    text = (folder / "plain.csv").read_text().replace(f",{ROWS[3][0]},", ",-999,", 1)
    (folder / "gap.csv").write_text(text)
    result = run("fit", "gap.csv", "--id", "time", "--na-values", "-999,n.d.", "-o", "m.mercer")
    assert result.exit_code == 3
    assert "1 value is missing" in result.stderr
    assert "with --impute mean (or median, zero)" in result.stderr
    assert "with --columns." in result.stderr
    good(
        "fit",
        "gap.csv",
        "--id",
        "time",
        "--na-values",
        "-999",
        "--impute",
        "mean",
        "-o",
        "m.mercer",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lab.csv"], '--label "Station 7"'),
        (["plain.csv"], "--id time, or choose others"),
        (["plain.csv", "--id", "time", "--time-format", "%d.%m.%Y"], "give another --time-format"),
        (["plain.csv", "--columns", "p,q", "--time-format", "%d"], "Name it with --id."),
        (["plain.csv", "--columns", "p,r"], "no column 'r', which --columns names"),
        (
            ["plain.csv", "--id", "time", "--skip-rows", "99"],
            "--skip-rows must be less than the 13 lines",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_refused_names_the_option_that_helps(arguments, said):
    result = run("fit", *arguments, "-o", "m.mercer")
    assert result.exit_code == 3
    assert said in result.stderr
    assert "`" not in result.stderr
