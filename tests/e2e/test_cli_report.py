"""`mercer report` at the command line: what it writes, what it says, and how it ends."""

import html
import json
import re

import numpy as np
import pytest

import mercer
from markets.commands import good, results, run, write_csv

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A CSV file with missing values and a label that is markup, and a model of it."""
    where = tmp_path_factory.mktemp("report")
    columns = {
        "id": [f"r{i}" for i in range(40)],
        "a": ["" if i == 2 else i % 7 for i in range(40)],
        "b": [(3 * i) % 11 for i in range(40)],
        "kind": [EVIL if i % 2 else "plain" for i in range(40)],
    }
    data = write_csv(where / "data.csv", columns)
    how = ("--id", "id", "--label", "kind", "--components", "2", "--impute", "mean")
    good("fit", data, *how, "-o", where / "model.mercer")
    return where


def ran(folder, *args, **more):
    return run("report", folder / "model.mercer", folder / "data.csv", *args, **more)


def test_the_verb_writes_the_page(folder, tmp_path):
    out = tmp_path / "report.html"
    found = results("report", folder / "model.mercer", folder / "data.csv", "-o", out)
    assert found["bytes"] == out.stat().st_size
    page = out.read_text("utf-8")
    assert "These are the rows that the model was fitted to" in page
    (cells,) = re.findall(r"<tr><td>a</td>(.*?)</tr>", page)
    assert cells.endswith(">1</td>"), "one value of column a was missing"
    assert html.escape(EVIL) in page
    assert EVIL not in page
    data = json.loads(re.search(r'id="scores-data">(.*?)</script>', page)[1])
    assert data["ids"][:3] == ["r0", "r1", "r2"]
    assert data["classes"] == [EVIL, "plain"]


def test_the_commands_are_those_that_were_typed(folder):
    page = ran(folder, "-q", "-o", "-", "--title", "A & B").stdout
    told = html.unescape(re.search(r'<pre class="commands"[^>]*>(.*?)</pre>', page, re.DOTALL)[1])
    fit, transform, report = told.splitlines()
    assert fit.startswith(f"mercer fit {folder}/data.csv --id id")
    assert transform.startswith(f"mercer transform {folder}/model.mercer {folder}/data.csv")
    assert report.endswith("-o - --title 'A & B'")
    assert "<h1>A &amp; B</h1>" in page


def test_rows_of_a_pipe_are_a_pipe_in_the_commands_too(folder):
    rows = (folder / "data.csv").read_bytes()
    done = run("report", folder / "model.mercer", "-", "-q", "-o", "-", input=rows)
    assert "rows of 2 columns in standard input" in done.stdout.replace("\N{NO-BREAK SPACE}", " ")
    told = re.search(r'<pre class="commands"[^>]*>(.*?)</pre>', done.stdout, re.DOTALL)[1]
    assert f"mercer transform {folder}/model.mercer - -o scores.csv" in told
    assert "standard input" not in told


def test_the_day_can_be_set_and_left_out(folder):
    days = {"SOURCE_DATE_EPOCH": "86400"}
    assert "on 1970-01-02." in ran(folder, "-q", "-o", "-", env=days).stdout
    assert "Made by mercer" in (plain := ran(folder, "-q", "-o", "-", "--no-date", env=days).stdout)
    assert "1970" not in plain
    assert ran(folder, "-o", "-", env={"SOURCE_DATE_EPOCH": "soon"}).exit_code == 2


def test_a_large_page_is_told(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.cli.report.LARGE", 1000)
    assert "The report is large" in ran(folder, "-o", f"{tmp_path}/r.html").stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["{d}/none.mercer", "{d}/data.csv"], 3),
        (["{d}/data.csv", "{d}/data.csv"], 3),
        (["{d}/model.mercer", "{d}/none.csv"], 3),
        (["{d}/model.mercer", "{d}/data.csv", "-o", "{d}/data.csv"], 2),
        (["{d}/model.mercer", "{d}/data.csv", "-o", "{d}/no/r.html"], 1),
        (["{d}/model.mercer", "{d}/data.csv", "-o", "{d}"], 2),
        (["{d}/model.mercer", "{d}/data.csv", "-o", "-", "--json"], 2),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code(folder, args, code):
    before = (folder / "data.csv").read_bytes()
    done = run("report", *(a.format(d=folder) for a in args))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    assert (folder / "data.csv").read_bytes() == before
    assert not list(folder.glob("*.part"))


def test_times_that_are_written_in_a_way_of_their_own_are_dates_in_the_charts(tmp_path):
    """01/02/2026 may be in January or in February: only the user knows."""
    stamps = [f"{1 + i // 24:02d}/02/2026 {i % 24:02d}:30" for i in range(96)]
    rows = {
        "when": stamps,
        **{name: [(7 * i * i + j) % 11 for i in range(96)] for j, name in enumerate("ab")},
    }
    data, model, out = (
        write_csv(tmp_path / "d.csv", rows),
        tmp_path / "m.mercer",
        tmp_path / "r.html",
    )
    good("fit", data, "--id", "when", "--model", "detector", "--components", "1", "-o", model)
    given = ("--time", "when", "--time-format", "%d/%m/%Y %H:%M")
    for extra, dates in (((), False), (given, True)):
        good("report", model, data, *extra, "-o", out)
        page = out.read_text("utf-8")
        charts = page[page.index('class="charts"') :]
        ticks = re.findall(r"<text[^>]*>(2026-02-0\d[^<]*)<", charts)
        assert bool(ticks) == dates
    assert {tick[:10] for tick in ticks} >= {"2026-02-02", "2026-02-03", "2026-02-04"}


def test_of_a_detector_that_python_chose_nothing_is_said_that_is_not_known(tmp_path):
    data, model, out = tmp_path / "d.csv", tmp_path / "m.mercer", tmp_path / "r.html"
    rows = np.random.default_rng(0).standard_normal((200, 3))
    np.savetxt(data, rows, delimiter=",", header="a,b,c", comments="")
    table = mercer.open_table(data)
    mercer.select_detector(table, lags=[0], smoothing=[None]).best_.save(model)
    assert "trained on  200 rows x 3 columns\n" in run("info", model).stdout
    good("report", model, data, "-o", out)
    page = out.read_text("utf-8")
    assert "given by hand" not in page
    assert "Whether it was compared with others is not known here" in page
    good("fit", data, "--model", "detector", "--kernel", "linear", "--components", "2", "-o", model)
    good("report", model, data, "-o", out)
    assert "given by hand" in out.read_text("utf-8")


def test_columns_are_counted_as_the_file_has_them(tmp_path):
    columns = {"a": range(30), "b": [i % 7 for i in range(30)], "kind": ["x", "y", "z"] * 10}
    data, model, out = (
        write_csv(tmp_path / "d.csv", columns),
        tmp_path / "m.mercer",
        tmp_path / "r.html",
    )
    good("fit", data, "--one-hot", "--components", "2", "-o", model)
    good("report", model, data, "-o", out)
    page = out.read_text("utf-8")
    assert f"30 rows of 3 columns in {data}, 5 after words became columns. " in page
    assert "of the total variance" in page
