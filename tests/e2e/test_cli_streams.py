"""Streams that are closed, names that are odd, words of Python: one line that a user can act on."""

import os
import subprocess
import sys

import numpy as np
import pytest

from markets.commands import good, run


def without(stream, *args):
    """Run mercer in a process whose file descriptor `stream` is closed."""
    command = [sys.executable, "-m", "mercer", *args]
    return subprocess.run(
        command,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.close(stream),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", np.random.default_rng(0).standard_normal((20, 2)))
    good("fit", "data.npy", "-o", "m.mercer")


@pytest.mark.parametrize(
    ("stream", "args", "code", "said"),
    [
        (1, ["info", "m.mercer"], 0, ""),
        (1, ["transform", "m.mercer", "data.npy"], 1, "standard output"),
        (0, ["transform", "m.mercer", "-"], 3, "standard input"),
    ],
)
def test_a_stream_that_was_never_there_is_told_in_one_line(stream, args, code, said):
    done = without(stream, *args)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == (1 if said else 0)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["fit"], 2),
        (["fit", "data.npy", "--scal", "none"], 2),
        (["fit", "data.npy", "--scale", "much"], 2),
        (["fit", "data.npy", "-o", "."], 2),
        (["fit", "data.npy", "more.npy"], 2),
        (["info", "."], 3),
        (["fit", "data.npy", "-o", "nowhere/m.mercer"], 1),
    ],
)
def test_what_is_wrong_is_told_in_one_line_that_ends_once(args, code):
    result = run(*args)
    assert result.exit_code == code
    assert result.stderr.count("\n") == 1
    assert ".." not in result.stderr
    assert "?." not in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-k", "50"], "50 components were asked for, but only 19"),
        (["-k", "50"], "Ask for --components 19"),
        (["--approximation", "rpcholesky(rank=100)"], "or no --approximation"),
        (["--memory", "1kB"], "--memory allows 1 kB. Raise --memory to"),
        (["--kernel", "poly()", "--preimage", "fixed-point"], "--preimage gradient"),
        (["--kernel", "sigmoid(gamma=2, coef0=-1)"], "`mercer check` shows a witness"),
    ],
)
def test_the_library_is_told_in_the_words_of_the_command_line(args, said):
    told = " ".join(run("fit", "data.npy", *args).stderr.split())
    assert said in told
    for python in ("n_components", "n_samples", "`memory`", "preimage=", "approximation="):
        assert python not in told


def test_a_name_of_two_lines_is_told_in_one():
    result = run("fit", "data.npy", "-o", "two\nlines.mercer")
    assert "wrote 'two\\nlines.mercer'" in result.stderr


def test_a_name_that_is_too_long_for_a_file_is_bad_input():
    result = run("info", "x" * 5000)
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1


def test_one_component_keeps_and_two_keep():
    for k, said in (("1", "1 component keeps "), ("2", "2 components keep ")):
        assert said in run("fit", "data.npy", "-k", k).stdout


def test_a_sound_model_of_the_wrong_kind_is_wrong_usage_in_every_verb():
    good("fit", "data.npy", "--model", "detector", "-k", "1", "-o", "d.mercer")
    for words in (
        "transform d.mercer data.npy",
        "reconstruct d.mercer data.npy",
        "plot panels d.mercer data.npy -o s.png",
        "monitor m.mercer data.npy",
        "plot chart m.mercer data.npy -o c.png",
    ):
        result = run(*words.split())
        assert result.exit_code == 2, (words, result.stderr)
        assert result.stderr.count("\n") == 1
