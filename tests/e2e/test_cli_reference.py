"""The help of the commands, from which the reference is made, and every example of it runs."""

import re
import shlex
from pathlib import Path

import click
import pytest

from markets.commands import document, run
from mercer.cli.main import VERBS, main
from mercer.cli.verb import Verb

CONTEXT = click.Context(main, info_name="mercer")
ENDS = re.compile(r"\s+# exit code (\d+)$")


def command_of(context, name):
    """The command of a verb; its module is imported for it."""
    return main.get_command(context, name)


def example_lines(command):
    """The lines of the example that ends the help of a command."""
    lines = (command.epilog or "").split("\b\n")[-1].splitlines()
    return [line.strip() for line in lines if line.strip()]


# ── the help ────────────────────────────────────────────────────────────────
def test_every_verb_is_a_command_with_an_example():
    for verb in VERBS:
        command = command_of(CONTEXT, verb)
        assert isinstance(command, Verb)
        assert command.help
        assert example_lines(command)


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


@pytest.mark.parametrize("verb", VERBS)
def test_options_stand_under_headings_each_once(verb):
    text = run(verb, "--help").stdout
    command = command_of(CONTEXT, verb)
    headings = re.findall(r"^(\w[\w ]*):\n", text, re.MULTILINE)
    assert headings[-1] == "Every command"
    assert len(set(headings)) == len(headings)
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            flag = max(param.opts, key=len)
            assert len(re.findall(rf"^  (?:-\w, )?{flag}[ ,\n]", text, re.MULTILINE)) == 1, flag


def test_a_fit_has_headings_for_what_is_read_fitted_and_written():
    text = run("fit", "--help").stdout
    for heading in ("Model", "Solution", "Detector", "Output", "Preparation", "Input"):
        assert f"\n{heading}:\n" in text


# ── the examples ────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """One folder for all examples, and what was run in it already."""
    return tmp_path_factory.mktemp("desk"), {"mercer demo --out out"}  # in test_cli_demo


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_the_help_works_when_pasted(verb, desk, monkeypatch):
    folder, done = desk
    monkeypatch.chdir(folder)
    # Until Ctrl-C, which test_cli_explore sends.
    monkeypatch.setattr("mercer.web.launch.Explorer.serve", lambda page: page.stop())
    monkeypatch.setattr("webbrowser.open", lambda url: url)
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


# ── options that mean something else elsewhere ──────────────────────────────
def test_a_file_of_options_for_fit_does_not_reach_plot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mercer.toml").write_text('components = 7\nlabel = "label"\ntime = "t"\ncolumns = ["a"]\n')
    monkeypatch.setenv("MERCER_COMPONENTS", "7")
    shown = document("plot", "spectrum", "m", "-o", "a.png", "--show-config")
    assert shown["params"]["components"] is None
