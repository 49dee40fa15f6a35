"""How commands end: codes, one document, nothing left half written, nothing asked that is not needed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mercer
from markets.commands import good, run
from mercer import KernelPCA

X = np.random.default_rng(0).standard_normal((40, 3))
DETECTOR = ["fit", "data.npy", "--model", "detector"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", X)
    np.savetxt("data.csv", X, delimiter=",", header="a,b,c", comments="")
    np.savetxt("one.csv", X[:1], delimiter=",", header="a,b,c", comments="")
    KernelPCA(2).fit(X).save("model.mercer")
    return tmp_path


@pytest.mark.parametrize(
    "args",
    [
        ["fit", "data.npy", "-k", "-1"],
        ["fit", "data.npy", "-k", "0"],
        ["plan", "data.npy", "-k", "-1"],
        ["select", "data.npy", "--criterion", "nonsense"],
        ["select", "data.npy", "--criterion", "denoising", "--noise", "-1"],
        ["select", "data.npy", "-k", "0"],
        ["select", "data.npy", "-k", "500"],
        ["select", "data.npy", "--folds", "1"],
        ["fit", "data.npy", "--solver", "krylov(tol=-1)"],
        ["fit", "data.npy", "--solver", "krylov(tol=1e-30)"],
        ["fit", "data.npy", "--model", "pca", "--solver", "krylov(block=0)"],
        ["fit", "data.npy", "--approximation", "rpcholesky(rank=0)"],
        ["fit", "data.npy", "--approximation", "rpcholesky(rank=41)"],
        ["fit", "data.npy", "--approximation", "rpcholesky(rank='auto', tol=2)"],
        ["fit", "data.npy", "--approximation", "nystrom(landmarks=0)"],
        ["fit", "data.npy", "--approximation", "fourier(n_features=3)"],
        ["fit", "data.npy", "--approximation", "fourier", "--kernel", "linear"],
        ["fit", "data.npy", "--preimage", "exact"],
        ["fit", "data.npy", "--preimage", "ridge(max_rows=0)"],
        ["fit", "data.npy", "--preimage", "ridge", "--kernel", "precomputed"],
        ["fit", "data.npy", "--model", "incremental", "--preimage", "exact"],
        [*DETECTOR, "--false-alarm", ".1", "--contamination", ".1"],
        [*DETECTOR, "--limits", "approximate", "--contamination", ".1"],
        ["plan", "data.npy", "--solver", "krylov(tol=-1)"],
        ["plan", "data.npy", "--approximation", "rpcholesky(rank=0)"],
        ["select", "data.npy", "--approximation", "rpcholesky(rank=0)", "-o", "m.mercer"],
        ["select", "data.npy", "--preimage", "exact", "--kernel", "rbf", "-o", "m.mercer"],
        ["transform", "model.mercer", "data.npy", "-o", "scores.xyz"],
        ["reconstruct", "model.mercer", "missing.csv", "-o", "rows"],
        ["export", "model.mercer", "m.onnx", "--opset", "3"],
        ["export", "model.mercer", "m.onnx", "--opset", "999"],
    ],
    ids=" ".join,
)
def test_a_wrong_value_of_an_option_is_wrong_usage(args):
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_messages_name_the_option_that_was_given():
    said = run("select", "data.npy", "--criterion", "foo").stderr.splitlines()[-1]
    names = "'agreement', 'denoising', 'reconstruction' or 'variance'"
    assert said == f"Error: --criterion must be {names} without --supervised; got 'foo'."
    run(*DETECTOR, "-o", "d.mercer")
    assert (
        "no column 'nope', which --time names"
        in run("monitor", "d.mercer", "data.csv", "--time", "nope").stderr
    )
    assert (
        "no column 'nope', which --id names"
        in run("monitor", "d.mercer", "data.csv", "--id", "nope").stderr
    )


def test_one_row_is_told_in_the_singular():
    run(*DETECTOR, "-o", "d.mercer")
    run("fit", "data.npy", "--preimage", "ridge", "-o", "back.mercer")
    said = good("reconstruct", "back.mercer", "one.csv", "-o", "r.csv")
    assert "mean squared error" in said.output
    assert "beside" not in said.output
    good("report", "d.mercer", "one.csv", "-o", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    assert "None of 1" not in page


@pytest.mark.parametrize("flag", ["--false-alarm", "--smoothing"])
@pytest.mark.parametrize("value", ["2", "0", "1", "nan", "some"])
def test_a_share_is_asked_for_by_an_example(flag, value):
    result = run(*DETECTOR, flag, value)
    assert result.exit_code == 2
    said = f"it must be a share between 0 and 1, such as 0.05; got '{value}'."
    assert said in " ".join(result.stderr.split())


def test_two_options_that_exclude_each_other_are_called_as_the_shell_has_them():
    said = run(*DETECTOR, "--false-alarm", ".1", "--contamination", ".1").stderr
    assert said.startswith("Error: --false-alarm 0.1 and --contamination 0.1 ")
    assert "false_alarm" not in said
    said = run(*DETECTOR, "--limits", "approximate", "--contamination", ".1").stderr
    assert said.startswith("Error: --contamination 0.1 and --limits approximate ")


@pytest.mark.parametrize(
    "args",
    [
        ["transform", "back.mercer", "huge.csv"],
        ["reconstruct", "back.mercer", "huge.csv"],
        ["report", "back.mercer", "huge.csv", "-o", "r.html"],
        ["plot", "scores", "back.mercer", "huge.csv", "-o", "p.png"],
        ["export", "back.mercer", "m.onnx", "--data", "huge.csv"],
    ],
    ids=" ".join,
)
def test_a_value_too_large_to_be_standardised_is_told_with_its_line(args):
    x = X * [1.0, 1e-3, 1.0]
    np.savetxt("small.csv", x, delimiter=",", header="a,b,c", comments="")
    good("fit", "small.csv", "--preimage", "ridge", "-o", "back.mercer", "-q")
    x[4, 1] = 1e308
    np.savetxt("huge.csv", x, delimiter=",", header="a,b,c", comments="")
    result = run(*args)
    assert result.exit_code == 3, result.output
    assert "Error: Column 'b' has 1e+308 in line 6, which is too large" in result.stderr
    assert "overflow" not in result.stderr
    assert "infinity" not in result.stderr


@pytest.mark.parametrize("verb", ["fit", "plan", "select"])
def test_one_row_is_bad_data_in_every_verb(verb):
    result = run(verb, "one.csv")
    assert result.exit_code == 3
    assert "at least 2 rows" in result.stderr
    assert "not foreseen" not in result.stderr


def test_the_options_can_be_shown_without_a_file():
    assert "Missing argument" in run("fit").stderr
    for verb in ("fit", "transform", "export", "monitor", "select", "plan", "report"):
        shown = good(verb, "--show-config")
        assert "default" in shown.stdout
    assert "Missing argument" in run("fit").stderr  # and only then
    assert "it comes from; do nothing." in " ".join(good("fit", "--help").stdout.split())


@pytest.mark.parametrize(
    "args",
    [
        ["fit", "one.csv"],
        ["plan", "one.csv"],
        ["select", "data.csv", "-k", "500"],
        ["fit", "data.csv", "-k", "-1"],
        ["transform", "model.mercer", "one.npz", "-o", "scores.csv"],
    ],
    ids=" ".join,
)
def test_with_json_stderr_is_the_document_of_the_error_alone(args):
    result = run(*args, "--json")
    assert result.exit_code in (2, 3)
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"]["exit_code"] == result.exit_code


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="POSIX signals")
def test_sigterm_takes_away_what_is_half_written(folder):
    np.save("many.npy", np.tile(X, (60_000, 1)))  # seconds of work
    command = [sys.executable, "-m", "mercer", "transform", "model.mercer", "many.npy"]
    child = subprocess.Popen([*command, "-o", "scores.csv"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("scores.csv*.part")):
        assert child.poll() is None, child.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.terminate()
    told = child.communicate(timeout=120)[1]
    assert child.returncode == 143
    assert "Terminated." in told
    assert "Traceback" not in told
    assert not list(folder.glob("scores*"))


@pytest.mark.parametrize("impute", [None, "mean", "median", "zero"])
def test_a_row_of_weight_two_is_two_rows_in_scaling_and_filling_too(impute):
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((30, 3)), rng.integers(0, 4, size=30)
    if impute:
        x[rng.random(x.shape) < 0.2] = np.nan
    as_text = [["" if np.isnan(v) else repr(float(v)) for v in row] for row in x]

    def write(name, rows):
        lines = ["a,b,c,w", *(",".join(map(str, row)) for row in rows)]
        Path(name).write_text("\n".join(lines) + "\n")

    write("weighted.csv", [[*row, count] for row, count in zip(as_text, w, strict=True)])
    write("repeated.csv", [[*row, 1] for row, n in zip(as_text, w, strict=True) for _ in range(n)])
    more = [] if impute is None else ["--impute", impute]
    for name in ("weighted", "repeated"):
        args = ["fit", f"{name}.csv", "--weights", "w", "--kernel", "rbf(gamma=0.3)", *more]
        good(*args, "-o", f"{name}.mercer")
    one, other = (mercer.load(f"{name}.mercer") for name in ("weighted", "repeated"))
    np.testing.assert_allclose(one.preparation.center, other.preparation.center, rtol=1e-12)
    np.testing.assert_allclose(one.preparation.spread, other.preparation.spread, rtol=1e-12)
    np.testing.assert_allclose(one.model.eigenvalues_, other.model.eigenvalues_, rtol=1e-9)
