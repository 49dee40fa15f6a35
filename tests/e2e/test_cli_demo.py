"""`mercer demo`: the table, the pictures, and the files that the examples of the help begin with."""

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from markets.commands import good, run
from mercer import KernelPCADetector
from mercer.app.demo import FAULT_AT, MINUTES, MORE, SENSORS, WARM_AT

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def pasted(tmp_path_factory):
    """`mercer demo`, run in an empty folder, and the folder."""
    folder = tmp_path_factory.mktemp("pasted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return run("demo"), folder


@pytest.fixture(scope="module")
def barred(tmp_path_factory):
    """`mercer demo` where the folder can't be made: people are told what was found all the same."""
    folder = tmp_path_factory.mktemp("barred")
    (folder / "file").write_text("in the way")
    return run("demo", "--out", str(folder / "file" / "below")), folder / "file" / "below"


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    return run("demo", "--json", "--out", str(tmp_path_factory.mktemp("documented")))


@pytest.fixture(scope="module")
def results(documented):
    document = json.loads(documented.stdout)
    assert document["schema_version"] == 1
    assert document["command"] == "demo"
    return document["results"]


# ── the fits ────────────────────────────────────────────────────────────────
def test_two_pictures_are_written_and_said(pasted):
    result, folder = pasted
    assert result.exit_code == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["circles.png", "moons.png"]
    for path in (folder / "out").iterdir():
        assert path.read_bytes().startswith(PNG)
        assert path.stat().st_size > 20_000  # four panels, not a blank sheet
        assert f"wrote {path.relative_to(folder)}" in result.stderr


def test_the_table_says_what_the_json_says(pasted, results):
    lines = pasted[0].stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for i, row in enumerate(results["data"]):
        for title, value in (
            ("points", f"{row['n']}"),
            ("variance kept", f"{row['variance_kept']:.1%}"),
            ("linear accuracy before", f"{row['accuracy_before']:.1%}"),
            ("linear accuracy after", f"{row['accuracy_after']:.1%}"),
        ):
            line = next(line for line in lines if line.startswith(title))
            assert line.split()[-2 + i] == value


def test_json_is_scikit_learns_kernel_pca(results):
    circles = make_circles(400, factor=0.3, noise=0.05, random_state=0)[0]
    moons = make_moons(50, random_state=0)[0]
    assert [row["data"] for row in results["data"]] == ["circles", "moons"]
    for row, X, gamma in zip(results["data"], (circles, moons), (10, 15), strict=True):
        theirs = KernelPCA(2, kernel="rbf", gamma=gamma, eigen_solver="dense").fit(X)
        trace = KernelCenterer().fit_transform(rbf_kernel(X, gamma=gamma)).trace()
        assert row["n"] == len(X)
        assert row["components"] == 2
        assert row["variance_kept"] == pytest.approx(theirs.eigenvalues_.sum() / trace, rel=1e-10)
        assert 0 <= row["largest_residual"] < 1e-12
        assert row["accuracy_before"] < 0.9
        assert row["accuracy_after"] == 1.0


def test_equal_variances_are_a_note_and_no_python_warning(pasted, results):
    told = pasted[0].stderr
    assert "note: circles, PCA: All eigenvalues are alike" in told
    assert "Warning" not in told
    assert [len(row["notes"]) for row in results["data"]] == [1, 0]


# ── failures ────────────────────────────────────────────────────────────────
def test_a_folder_that_cannot_be_made_is_one_line_and_exit_code_1(barred):
    people, out = barred
    assert people.exit_code == 1
    assert people.stdout.startswith("data set")
    assert "--out" in people.stderr.splitlines()[-1]
    programs = run("demo", "--json", "--out", str(out))
    assert programs.exit_code == 1
    assert programs.stdout == ""  # a result or an error, not both
    error = json.loads(programs.stderr)["error"]
    assert error["kind"] == "file"
    assert "--out" in error["message"]


def test_without_matplotlib_the_table_comes_and_then_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("demo", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.stdout.startswith("data set")
    assert 'pip install "mercer[plot]"' in result.stderr
    assert not (tmp_path / "out").exists()


# ── the files ───────────────────────────────────────────────────────────────
def test_the_circles_read_back_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = good("demo", "--csv", "circles.csv")
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["circles.csv"]  # nothing was drawn
    lines = [line.split(",") for line in (tmp_path / "circles.csv").read_text().splitlines()]
    assert lines[0] == ["id", "x", "y", "label"]
    points, which = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    assert np.array_equal([[float(x), float(y)] for _, x, y, _ in lines[1:]], points)
    assert [label == "inner" for *_, label in lines[1:]] == list(which == 1)
    assert len({cells[0] for cells in lines[1:]}) == 400
    assert run("demo", "--csv", "-").stdout == (tmp_path / "circles.csv").read_text()


def test_the_process_has_a_fault_that_no_sensor_shows_alone_and_one_for_each_statistic(tmp_path):
    files = [str(tmp_path / name) for name in ("normal.csv", "faulty.csv")]
    assert json.loads(run("demo", "--json", "--process", *files).stdout)["results"]["files"] == [
        {"file": path, "rows": rows}
        for path, rows in zip(files, (MINUTES, MINUTES + MORE), strict=True)
    ]
    normal, faulty = (
        np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, 6)) for path in files
    )
    seen = KernelPCADetector().fit(normal).monitor(faulty, names=SENSORS)
    alarm = seen.table["alarm"]
    assert alarm[:FAULT_AT].mean() < 0.05
    drifted, warm = slice(FAULT_AT + 40, MINUTES), slice(WARM_AT + 20, None)  # at their ends
    assert alarm[drifted].mean() > 0.95
    assert alarm[MINUTES:WARM_AT].mean() < 0.05
    assert alarm[warm].mean() > 0.95
    assert "began: flow" in seen.summary()
    # Q sees the one and T² hardly, T² the other.
    above = {name: seen.table[name] > seen.table[f"{name}_limit"] for name in ("T2", "Q")}
    assert above["Q"][drifted].mean() > 0.95
    assert above["T2"][drifted].mean() < 0.05
    assert above["T2"][warm].mean() > 0.95
    assert above["Q"][warm].mean() < 0.5
    # Limits on single sensors, three standard deviations, miss most of it.
    alone = np.abs(faulty - normal.mean(axis=0)) > 3 * normal.std(axis=0)
    assert alone[drifted].any(axis=1).mean() < 0.2


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("--csv", "none/circles.csv"), 1, "its folder does not exist"),
        (("--csv", "."), 2, "is a folder"),
        (("--csv", "-", "--json"), 2, "name a file"),
        (("--process", "one.csv"), 2, "--process"),
        (("--process", "one.csv", "./one.csv"), 2, "two of these are one file"),
        (("--csv", "one.csv", "--process", "two.csv", "one.csv"), 2, "two of these are one file"),
    ],
)
def test_files_that_cannot_be_written_are_one_line(tmp_path, monkeypatch, args, code, told):
    monkeypatch.chdir(tmp_path)
    result = run("demo", *args)
    assert result.exit_code == code
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
