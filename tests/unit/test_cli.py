"""The command line: what is printed, what is written, what is imported, how it fails."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner
from sklearn.datasets import make_circles, make_moons
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from mercer import __version__
from mercer.cli.main import VERBS, main

HEAVY = {"numpy", "scipy", "sklearn", "matplotlib"}
PNG = b"\x89PNG\r\n\x1a\n"


def run(*args):
    return CliRunner().invoke(main, args)


def python(code, *args, **options):
    command = [sys.executable, "-c", code, *args]
    # Buffered, as a user has it: without a buffer a closed pipe is met at another place.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    options |= {"env": env, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(command, check=False, **options)


@pytest.fixture(scope="module")
def example():
    """The line that the help ends with."""
    return shlex.split(run("--help").stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def pasted(example, tmp_path_factory):
    """That line, run in an empty folder, and the folder."""
    folder = tmp_path_factory.mktemp("pasted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return run(*example[1:]), folder


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    result = run("demo", "--json", "--out", str(tmp_path_factory.mktemp("json") / "new" / "folder"))
    assert result.exit_code == 0
    return json.loads(result.stdout)


# ── help and usage ──────────────────────────────────────────────────────────
def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from mercer.cli.main import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = python(code, "--help", stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert "mercer.cli.main" in done.stderr.split()  # the list is what it claims to be
    assert not HEAVY & set(done.stderr.split())


def test_help_names_every_verb_and_ends_with_an_example(example):
    told = run("--help").stdout
    assert all(verb in told and text in told for verb, text in VERBS.items())
    assert example[0] == "mercer"


@pytest.mark.parametrize("verb", VERBS)
def test_short_help_is_the_first_line_of_the_verbs_own(verb):
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert VERBS[verb] in result.stdout


def test_version():
    assert run("--version").stdout.split()[-1] == __version__


def test_a_misspelt_verb_is_a_usage_error_with_a_hint():
    result = run("dmeo")
    assert result.exit_code == 2
    assert "'demo'" in result.stderr


def test_an_unknown_option_is_a_usage_error():
    assert run("demo", "--nope").exit_code == 2


# ── demo ────────────────────────────────────────────────────────────────────
def test_the_example_of_the_help_works_when_pasted(pasted):
    result, folder = pasted
    assert result.exit_code == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["circles.png", "moons.png"]
    for path in (folder / "out").iterdir():
        assert path.read_bytes().startswith(PNG)
        assert path.stat().st_size > 20_000  # four panels, not a blank sheet
        assert f"wrote {path.relative_to(folder)}" in result.stderr


def test_the_table_says_what_the_json_says(pasted, document):
    lines = pasted[0].stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for i, row in enumerate(document["data"]):
        for title, value in (
            ("points", f"{row['n']}"),
            ("variance kept", f"{row['variance_kept']:.1%}"),
            ("linear accuracy before", f"{row['accuracy_before']:.1%}"),
            ("linear accuracy after", f"{row['accuracy_after']:.1%}"),
        ):
            line = next(line for line in lines if line.startswith(title))
            assert line.split()[-2 + i] == value


def test_json_is_scikit_learns_kernel_pca(document):
    assert document["schema_version"] == 1
    circles = make_circles(400, factor=0.3, noise=0.05, random_state=0)[0]
    moons = make_moons(50, random_state=0)[0]
    assert [row["data"] for row in document["data"]] == ["circles", "moons"]
    for row, X, gamma in zip(document["data"], (circles, moons), (10, 15), strict=True):
        theirs = KernelPCA(2, kernel="rbf", gamma=gamma, eigen_solver="dense").fit(X)
        trace = KernelCenterer().fit_transform(rbf_kernel(X, gamma=gamma)).trace()
        assert row["n"] == len(X)
        assert row["components"] == 2
        assert row["variance_kept"] == pytest.approx(theirs.eigenvalues_.sum() / trace, rel=1e-10)
        assert 0 <= row["largest_residual"] < 1e-12
        assert row["accuracy_before"] < 0.9
        assert row["accuracy_after"] == 1.0


def test_equal_variances_are_a_note_and_no_python_warning(pasted, document):
    told = pasted[0].stderr
    assert "note: circles, PCA: All eigenvalues are alike" in told
    assert "Warning" not in told
    assert [len(row["notes"]) for row in document["data"]] == [1, 0]


# ── failures ────────────────────────────────────────────────────────────────
def test_a_folder_that_cannot_be_made_is_one_line_and_exit_code_1(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = run("demo", "--json", "--out", str(tmp_path / "file" / "below"))
    assert result.exit_code == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert "--out" in last
    assert "Traceback" not in result.stderr
    assert json.loads(result.stdout)["pictures"] == []  # what was found is told all the same


def test_without_matplotlib_the_table_comes_and_then_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("demo", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.stdout.startswith("data set")
    assert 'pip install "mercer[plot]"' in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_interrupt_is_130(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.cli.demo._fit", interrupted)
    result = run("demo")
    assert result.exit_code == 130
    assert result.stdout == ""


def test_what_mercer_raises_on_purpose_is_one_line(monkeypatch):
    from mercer._core.errors import InputError

    def refused(_):
        msg = "this came, that was needed"
        raise InputError(msg)

    monkeypatch.setattr("mercer.cli.demo._fit", refused)
    result = run("demo")
    assert result.exit_code == 1
    assert result.stderr == "Error: this came, that was needed\n"


def test_a_closed_pipe_gives_no_traceback(tmp_path):
    read, write = os.pipe()
    os.close(read)  # as `| head` does once it has seen enough
    code = "import sys; from mercer.cli.main import main; main(sys.argv[1:])"
    done = python(code, "demo", "--out", str(tmp_path), stdout=write)
    os.close(write)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
