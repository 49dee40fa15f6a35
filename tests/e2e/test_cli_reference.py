"""The reference page is what the commands say, every example of the help runs, and bench measures."""

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from markets.commands import document, good, results, run
from mercer.cli.bench import Outcome, methods, residual, verdict
from mercer.cli.main import VERBS, main
from mercer.cli.reference import command_of, example_lines, page
from mercer.cli.verb import Verb

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
CONTEXT = click.Context(main, info_name="mercer")
ENDS = re.compile(r"\s+# exit code (\d+)$")


# ── the page ────────────────────────────────────────────────────────────────
def test_the_page_is_what_the_commands_say():
    hint = "write it again: python -m mercer.cli.reference > docs/cli.md"
    assert DOCUMENT.read_text() == page(), hint


def test_every_parameter_of_every_verb_is_on_the_page():
    text = page()
    shared = text.split("## Options of every verb")[1].split("\n## mercer")[0]
    for verb in VERBS:
        own = text.split(f"## mercer {verb}\n")[1].split("\n## ")[0]
        command = command_of(CONTEXT, verb)
        assert isinstance(command, Verb)
        for param in command.params:
            option = isinstance(param, click.Option)
            name = max(param.opts, key=len) if option else param.make_metavar(CONTEXT)
            assert re.search(rf"{re.escape(name)}(?![\w-])", own + (shared if option else "")), name


def test_what_an_option_takes_is_told_in_our_words():
    theirs = {"INTEGER", "FLOAT", "INTEGER RANGE", "FLOAT RANGE", "HXW", "NUMBER|SHARE|ALL"}
    for verb in VERBS:
        for param in command_of(CONTEXT, verb).params:
            assert param.make_metavar(CONTEXT) not in theirs, f"{verb} {param.name}"


def test_a_plan_has_the_options_of_the_fit_in_the_same_words():
    fit, plan = (
        {param.name: getattr(param, "help", None) for param in command_of(CONTEXT, verb).params}
        for verb in ("fit", "plan")
    )
    for name in (
        "approximation",
        "refine",
        "solver",
        "scale",
        "impute",
        "one_hot",
        "seed",
        "memory",
    ):
        assert plan[name] == fit[name] is not None


# ── the examples ────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """One folder for all examples, and what was run in it already."""
    return tmp_path_factory.mktemp("desk"), {"mercer demo --out out"}  # in test_cli_demo


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_the_help_works_when_pasted(verb, desk, monkeypatch):
    folder, done = desk
    monkeypatch.chdir(folder)
    lines = example_lines(command_of(CONTEXT, verb))
    assert f"mercer {verb}" in lines[-1]
    for line in lines:
        if line in done:
            continue
        ends = ENDS.search(line)
        inner = re.fullmatch(r'eval "\$\((.*)\)"', line)
        name, *args = shlex.split(inner[1] if inner else line, comments=True)
        assert name == "mercer"
        result = run(*args)
        assert result.exit_code == int(ends[1] if ends else 0), f"{line}\n{result.output}"
        if args[0] == "demo":  # it writes the same files again; a fit may change a model
            done.add(line)


# ── bench ───────────────────────────────────────────────────────────────────
def test_bench_measures_all_by_one_ruler():
    found = results("bench", "--rows", 120, "--columns", 3, "--components", 4, "--repeat", 2)
    assert (found["n"], found["d"], found["components"]) == (120, 3, 4)
    names = [method["name"] for method in found["methods"]]
    assert names == ["mercer", *(f"scikit-learn {s}" for s in ("arpack", "randomized", "dense"))]
    for method in found["methods"]:
        assert len(method["seconds"]) == 2
        assert method["median_seconds"] == pytest.approx(np.median(method["seconds"]))
        exact = method["name"] != "scikit-learn randomized"
        assert 0 < method["residual"] < (1e-9 if exact else 1e-2)
    ours = found["methods"][0]["median_seconds"]
    assert found["methods"][1]["ratio"] == found["methods"][1]["median_seconds"] / ours


def test_the_ruler_sees_an_eigenvalue_that_is_off():
    x = np.random.default_rng(0).standard_normal((60, 2))
    model = KernelPCA(3, kernel="rbf", gamma=0.5, eigen_solver="dense").fit(x)
    values, vectors = model.eigenvalues_, model.eigenvectors_
    assert residual(x, 0.5, values, vectors) < 1e-14
    off = values + values[0] * np.array([0.0, 0.01, 0.0])
    assert residual(x, 0.5, off, vectors) == pytest.approx(0.01)
    centred = KernelCenterer().fit_transform(rbf_kernel(x, gamma=0.5))
    turned = np.linalg.qr(vectors + 0.01)[0]
    error = np.linalg.norm(centred @ turned - turned * values, axis=0).max() / values[0]
    assert residual(x, 0.5, values, turned) == pytest.approx(error)


def test_a_matrix_that_does_not_fit_is_left_out_and_that_is_said():
    entered = methods(2000, 5, 0.5, memory_bytes=60 * 10**6, seed=0)
    assert [bool(method.left_out) for method in entered[-3:]] == [True, True, True]
    assert "beyond --memory" in entered[-1].left_out
    assert not entered[0].left_out


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [(1.0, 2.0, "mercer was the fastest"), (2.0, 1.0, "mercer was slower: b took 50% of its time")],
)
def test_the_verdict_is_honest(ours, theirs, words):
    outcomes = [Outcome("mercer", (ours,), 1e-12), Outcome("b", (theirs,), 1e-13)]
    assert verdict(outcomes).startswith(words)
    assert "no comparison" in verdict(outcomes[:1])


def test_bench_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good("demo", "--csv", "circles.csv")
    args = ("--data", "circles.csv", "--id", "id", "--label", "label", "--repeat", 1)
    result = good("bench", *args, "--components", 2)
    assert "400 x 2 rows of circles.csv" in result.stderr
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--rows", "50", "--components", "50"), "ask for fewer"),
        (("--data", "a.csv", "--rows", "50"), "--rows is of made rows"),
        (("--label", "a"), "--label is of a file"),
        (("--repeat", "0"), "--repeat"),
    ],
)
def test_bench_refuses_what_it_has_no_use_for(args, told):
    result = run("bench", *args)
    assert result.exit_code == 2
    assert told in result.stderr


# ── options that mean something else elsewhere ──────────────────────────────
def test_a_file_of_options_for_fit_does_not_reach_plot_and_bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mercer.toml").write_text('components = 7\nlabel = "label"\ntime = "t"\ncolumns = ["a"]\n')
    monkeypatch.setenv("MERCER_COMPONENTS", "7")
    monkeypatch.setenv("MERCER_COLUMNS", "a,b")
    shown = document("plot", "spectrum", "m", "-o", "a.png", "--show-config")
    assert shown["params"]["components"] is None
    raced = document("bench", "--rows", "60", "--repeat", "1")
    assert raced["params"]["columns"] is None
