"""`mercer monitor`: the same numbers as in Python, and an exit code that a script can go by."""

import csv
import io

import numpy as np
import pytest

import mercer
from markets.commands import good, refused, results, run, write_csv
from mercer import KernelPCADetector
from mercer.app import monitor
from mercer.app.demo import FAULT_AT, SENSORS
from mercer.views.process import axis_times

NUMBERS = ["T2", "T2_limit", "Q", "Q_limit", "index", "index_limit"]


def readings(path):
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, 6))


def table(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """Two files of a process, and a detector of the first."""
    folder = tmp_path_factory.mktemp("plant")
    normal, faulty = folder / "normal.csv", folder / "faulty.csv"
    good("demo", "--process", normal, faulty)
    lines = faulty.read_text().splitlines()
    (folder / "before.csv").write_text("\n".join(lines[: FAULT_AT + 1]) + "\n")
    good("fit", normal, "--id", "time", "--model", "detector", "-o", folder / "d.mercer")
    return folder


@pytest.fixture(scope="module")
def seen(plant):
    """What Python sees in the same files."""
    detector = KernelPCADetector().fit(readings(plant / "normal.csv"))
    return detector.monitor(readings(plant / "faulty.csv"), names=SENSORS)


# ── what is told ────────────────────────────────────────────────────────────
def test_the_table_is_pythons_to_the_last_bit(plant, seen):
    result = run("monitor", plant / "d.mercer", plant / "faulty.csv")
    assert result.exit_code == 4
    rows = table(result.stdout)
    assert list(rows[0]) == ["time", *NUMBERS, "alarm", "judged", "top"]
    for name in NUMBERS:
        assert np.array_equal([float(row[name]) for row in rows], seen.table[name])
    assert [int(row["alarm"]) for row in rows] == list(seen.table["alarm"])
    assert [row["top"] for row in rows] == list(seen.table["top"])
    assert rows[0]["time"] == "2026-01-05T06:00"
    assert "began: flow" in result.stderr
    assert "about 4 would be alarms by chance (1 %)" in result.stderr


def test_json_is_the_table_with_the_variables_taken_apart(plant, seen):
    found = results("monitor", plant / "d.mercer", plant / "faulty.csv", "--top", "2", code=4)
    where = np.flatnonzero(seen.table["alarm"])
    assert found["n"] == 360
    assert found["alarms"]["count"] == len(where)
    assert [row["row"] for row in found["alarms"]["rows"]] == list(where)
    assert found["alarms"]["first"] == found["alarms"]["rows"][0]["time"]
    assert sum(part["alarms"] for part in found["alarms"]["runs"]) == len(where)
    assert found["limits"]["Q"] == seen.table["Q_limit"][0]
    assert found["false_alarm_rate"] == 0.01
    for told, contributions in zip(found["alarms"]["rows"], seen.contributions, strict=True):
        assert told["Q"] == seen.table["Q"][told["row"]]
        raising = np.maximum(contributions, 0)
        order = np.argsort(-raising)[: len(told["top"])]
        assert [part["variable"] for part in told["top"]] == [SENSORS[j] for j in order]
        shares = [part["share"] for part in told["top"]]
        assert shares == pytest.approx(raising[order] / raising.sum())


def test_names_with_per_cent_in_them_are_variables_like_any_other(plant, tmp_path):
    for name in ("normal", "faulty"):
        lines = (plant / f"{name}.csv").read_text().splitlines()
        named = ["time,flow %,temperature %,pressure %,level %,power %", *lines[1:]]
        (tmp_path / f"{name}.csv").write_text("\n".join(named))
    model = tmp_path / "d.mercer"
    args = ("--id", "time", "--model", "detector", "-o", model)
    good("fit", tmp_path / "normal.csv", *args)
    found = results("monitor", model, tmp_path / "faulty.csv", "--top", "2", code=4)
    alarms = found["alarms"]["rows"]
    assert max(len(row["top"]) for row in alarms) == 2


def test_a_process_in_order_ends_with_0(plant):
    alarms = results("monitor", plant / "d.mercer", plant / "before.csv")["alarms"]
    assert alarms == {"count": 0, "share": 0, "first": None, "runs": [], "rows": []}


def test_stdin_is_a_file_like_any_other(plant):
    text = (plant / "faulty.csv").read_text()
    piped = run("monitor", plant / "d.mercer", "-", "--quiet", input=text)
    assert piped.exit_code == 4
    assert piped.stderr == ""
    assert piped.stdout == run("monitor", plant / "d.mercer", plant / "faulty.csv").stdout


def test_many_rows_go_through_in_blocks(plant, monkeypatch):
    asked = ("monitor", plant / "d.mercer", plant / "faulty.csv")
    one = results(*asked, code=4)
    monkeypatch.setattr(monitor, "BLOCK", 7)
    other = results(*asked, code=4)
    assert [row["row"] for row in one["alarms"]["rows"]] == [
        row["row"] for row in other["alarms"]["rows"]
    ]
    assert one["alarms"]["rows"][-1]["Q"] == pytest.approx(other["alarms"]["rows"][-1]["Q"])
    assert one["summary"] == other["summary"]


def test_files_labels_and_charts(plant, tmp_path):
    lines = (plant / "faulty.csv").read_text().splitlines()
    labelled = [f"{lines[0]},shift", *(f"{line},<b>night</b>" for line in lines[1:])]
    (tmp_path / "in.csv").write_text("\n".join(labelled))
    out, chart = tmp_path / "out.tsv", tmp_path / "chart.svg"
    args = ("--time", "time", "--label", "shift", "-o", out, "--chart", chart)
    result = run("monitor", plant / "d.mercer", tmp_path / "in.csv", *args)
    assert result.exit_code == 4
    assert result.stdout == ""
    rows = table(out.read_text(), "\t")
    assert {row["shift"] for row in rows} == {"<b>night</b>"}
    assert "<!-- 10:00 -->" in chart.read_text()  # a clock on the axis


def test_names_that_are_no_times_are_counted_and_that_is_said(plant, tmp_path):
    lines = (plant / "faulty.csv").read_text().splitlines()
    words = [lines[0], *(f"w{line[4:]}" for line in lines[1:])]
    (tmp_path / "in.csv").write_text("\n".join(words))
    args = ("-o", tmp_path / "out.csv", "--chart", tmp_path / "chart.png")
    result = run("monitor", plant / "d.mercer", tmp_path / "in.csv", *args)
    assert result.exit_code == 4
    assert "neither numbers nor dates: the chart counts the rows" in result.stderr
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert table((tmp_path / "out.csv").read_text())[0]["time"].startswith("w-01-05")


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["1", "2.5"], "f"),
        ([3, 4], "i"),
        (["2026-01-05", "2026-02-05"], "M"),
        (["2026-01-05 06:00", "2026-01-05T07:00"], "M"),
        (["1", "nan"], None),
        (["2026-01-05", "later"], None),
        (["a", "b"], None),
    ],
)
def test_times_are_numbers_or_dates_or_nothing(names, kind):
    found = axis_times(names)
    assert (None if found is None else found.dtype.kind) == kind


# ── what is refused ─────────────────────────────────────────────────────────
def test_a_model_that_is_no_detector_is_answered_with_the_command_that_makes_one(plant, tmp_path):
    path = tmp_path / "kpca.mercer"
    good("fit", plant / "normal.csv", "--id", "time", "-o", path)
    result = run("monitor", path, plant / "faulty.csv")
    assert result.exit_code == 2
    assert "holds a KernelPCA" in result.stderr
    assert "mercer fit DATA --model detector" in result.stderr


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("faulty.csv", "-o", "table.xlsx"), 2, "a .csv or .tsv file"),
        (("faulty.csv", "-o", "faulty.csv"), 2, "is the file that is read"),
        (("faulty.csv", "-o", "-", "--json"), 2, "both fill stdout"),
        (("faulty.csv", "--chart", "chart.gif"), 2, "must end in .png, .svg or .pdf"),
        (("faulty.csv", "--chart", "none/chart.png"), 1, "folder does not exist"),
        (("faulty.csv", "--time", "time", "--id", "flow"), 2, "one name"),
        (("faulty.csv", "--time", "tiem"), 3, "'tiem'"),
        (("faulty.csv", "--top", "-1"), 2, "--top"),
        (("absent.csv",), 3, "absent.csv"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(plant, monkeypatch, args, code, told):
    monkeypatch.chdir(plant)
    before = sorted(path.name for path in plant.iterdir())
    result = run("monitor", "d.mercer", *args)
    assert result.exit_code == code, result.stderr
    assert told in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in plant.iterdir()) == before


def test_a_detector_is_chosen_as_in_python(plant, tmp_path):
    file = tmp_path / "d.mercer"
    fit = ("fit", plant / "normal.csv", "--id", "time", "--model", "detector")
    told = results(*fit, "--choose", "--false-alarm", 0.02, "--memory", "1GB", "-o", file)
    table = mercer.open_table(plant / "normal.csv", id="time")
    times = np.concatenate([chunk.ids for chunk in table.chunks(10_000)])
    found = mercer.select_detector(table, time=times, false_alarm=0.02, random_state=0)
    model = mercer.load(file).model
    chosen = found.best_.get_params(deep=False) | {"memory": "1GB"}
    assert {name: repr(value) for name, value in model.get_params(deep=False).items()} == {
        name: repr(value) for name, value in chosen.items()
    }
    assert told["kernel"] == repr(model.model_.kernel_)
    for words, others in {
        "--choose is an option of --model detector": ("--model", "kpca"),
        "takes no --lags": ("--lags", 2),
        "takes no --scale": ("--scale", "none"),
        "takes no --kernel": ("--kernel", "rbf"),
    }.items():
        assert words in refused(*fit, *others, "--choose", code=2)


def test_a_detector_with_lags_judges_by_the_times_of_files(tmp_path):
    rows = np.random.default_rng(0).standard_normal((260, 2))
    stamps = np.datetime64("2024-01-01T00:00") + (
        np.arange(260) + 60 * (np.arange(260) >= 230)
    ).astype("m8[m]")
    normal, later = (
        write_csv(
            tmp_path / name, {"when": stamps[part], "flow": rows[part, 0], "heat": rows[part, 1]}
        )
        for name, part in (("normal.csv", slice(0, 200)), ("run.csv", slice(200, 260)))
    )
    fit = ("fit", normal, "--id", "when", "--model", "detector")
    done = good(*fit, "--lags", 1, "--smoothing", 0.5, "-o", tmp_path / "d.mercer")
    assert "1 lag, rows smoothed with weight 0.5" in done.stdout
    code = run("monitor", tmp_path / "d.mercer", later, "--time", "when").exit_code
    told = results("monitor", tmp_path / "d.mercer", later, "--time", "when", code=code)
    assert [row["row"] for row in told["not_judged"]["rows"]] == [0, 30]  # first, and after an hour
    words = refused(*fit, "--differences", code=2)
    assert "--differences must be False where there are no lags" in words


# ── names that a spreadsheet takes for formulas ─────────────────────────────
FORMULAS = ["=cmd|'/c calc'!A1", "+b", "-c", "@d"]


@pytest.mark.parametrize("live", [(), ("--state", "state.json", "--marks")], ids=["table", "live"])
def test_no_cell_of_mercers_own_words_is_a_formula(live, tmp_path, monkeypatch):
    """OWASP's apostrophe before words that begin with a name; copies and numbers stay as they are."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    normal, faulty = rng.standard_normal((2, 120, 4))
    faulty[60:] += 8.0 * np.eye(4)[np.arange(60) // 15]
    for name, rows in (("normal", normal), ("faulty", faulty)):
        columns = dict(zip(FORMULAS, rows.T.tolist(), strict=True))
        write_csv(tmp_path / f"{name}.csv", {"=id": [f"@{i}" for i in range(120)]} | columns)
    good("fit", "normal.csv", "--id", "=id", "--model", "detector", "-o", "d.mercer")
    assert run("monitor", "d.mercer", "faulty.csv", "-o", "out.csv", *live).exit_code == 4
    rows = table((tmp_path / "out.csv").read_text())
    assert [row["=id"] for row in rows] == [f"@{i}" for i in range(120)]
    words = [row[key] for row in rows for key in ("top", "marks") if row.get(key)]
    assert {word[:2] for word in words} >= {"'=", "'+", "'-", "'@"}
    assert not any(word.startswith(tuple("=+-@\t\r")) for word in words)
    assert all(float(row["T2"]) >= 0.0 for row in rows)
    shown = mercer.load("d.mercer").monitor(faulty).table
    assert [row["top"].removeprefix("'") for row in rows] == list(shown["top"])
    # Names and ids that are copied are read again the same, and negative numbers are numbers.
    good("fit", "normal.csv", "--id", "=id", "--components", 2, "-o", "k.mercer")
    good("transform", "k.mercer", "faulty.csv", "-o", "scores.csv")
    scores = table((tmp_path / "scores.csv").read_text())
    assert [row["=id"] for row in scores] == [f"@{i}" for i in range(120)]
    assert min(float(value) for row in scores for key, value in row.items() if key != "=id") < 0.0
