"""The command line: what is printed, what is written, what is imported, how it fails."""

import os
import shlex
import subprocess
import sys

import pytest

from markets.commands import run
from mercer import __version__
from mercer.cli.main import VERBS

HEAVY = {"numpy", "scipy", "sklearn", "matplotlib"}


def one_line(text):
    """As it was before it was broken into lines of a terminal."""
    return " ".join(text.split())


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
    told = one_line(run("--help").stdout)
    assert all(verb in told and text in told for verb, text in VERBS.items())
    assert example[0] == "mercer"


@pytest.mark.parametrize("verb", VERBS)
def test_short_help_is_the_first_line_of_the_verbs_own(verb):
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert VERBS[verb] in one_line(result.stdout)


def test_version():
    assert run("--version").stdout.split()[-1] == __version__


def test_a_misspelt_verb_is_a_usage_error_with_a_hint():
    result = run("dmeo")
    assert result.exit_code == 2
    assert "'demo'" in result.stderr


def test_an_unknown_option_is_a_usage_error():
    assert run("demo", "--nope").exit_code == 2


# ── failures ────────────────────────────────────────────────────────────────
def test_an_interrupt_is_130(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.app.demo._fit", interrupted)
    result = run("demo")
    assert result.exit_code == 130
    assert result.stdout == ""


def test_what_mercer_raises_on_purpose_is_one_line(monkeypatch):
    from mercer._core.errors import InputError

    def refused(_):
        msg = "this came, that was needed"
        raise InputError(msg)

    monkeypatch.setattr("mercer.app.demo._fit", refused)
    result = run("demo")
    assert result.exit_code == 3
    assert result.stderr == "Error: this came, that was needed\n"


def test_a_closed_pipe_ends_without_a_word():
    read, write = os.pipe()
    os.close(read)  # as `| head` does once it has seen enough
    code = "import sys; from mercer.cli.main import main; main(sys.argv[1:])"
    done = python(code, "completion", "zsh", stdout=write)
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == ""
