"""What every verb prints to be read has four significant digits of a number; what is copied has all."""

import re

import numpy as np
import pytest

import mercer
from markets.commands import good, run, write_csv
from mercer.cli.main import VERBS
from mercer.kernels.text import parse_kernel

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?![\w.%])")
COPIED = re.compile(r'--kernel ".*?"|mercer [a-z]+ .*')  # what is typed in again is exact
FIT = ["fit", "data.csv", "--id", "id", "--label", "group"]
CASES = {
    "fit": [*FIT, "-k", "3", "-o", "m.mercer", "--preimage", "ridge"],
    "fit to landmarks": [*FIT, "-k", "0.9", "--approximation", "nystrom(landmarks=15)"],
    "fit to a matern": [*FIT, "--kernel", "matern(nu=1.5)", "--scale", "none"],
    "plan": ["plan", "data.csv", "--id", "id", "--label", "group", "--preimage", "ridge"],
    "transform": ["transform", "m.mercer", "data.csv", "-o", "s.csv"],
    "reconstruct": ["reconstruct", "m.mercer", "data.csv", "-o", "r.csv"],
    "select": ["select", "data.csv", "--id", "id", "--label", "group"],
    "select with labels": ["select", "data.csv", "--label", "group", "--id", "id", "--supervised"],
    "check": ["check", "--kernel", "sigmoid(gamma=0.5, coef0=-1)"],
    "plot": ["plot", "scores", "m.mercer", "data.csv", "-o", "p.svg"],
    "report": ["report", "m.mercer", "data.csv", "-o", "r.html"],
    "export": ["export", "m.mercer", "m.onnx"],
    "info": ["info", "m.mercer"],
    "info of a detector": ["info", "d.mercer"],
    "monitor": ["monitor", "d.mercer", "data.csv", "-o", "mon.csv"],
    "demo": ["demo"],
    "retrain": ["retrain", "d.mercer", "data.csv", "-o", "e.mercer"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("digits")
    rows = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 3)) * [1.0, 1e-3, 123456.7]
    columns = {"id": [f"r{i}" for i in range(60)], **dict(zip("uvw", rows.T, strict=True))}
    write_csv(folder / "data.csv", {**columns, "group": np.where(rows[:, 0] > 0, "a", "b")})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        good(*CASES["fit"])
        good(*FIT, "--model", "detector", "-o", "d.mercer")
    return folder


def digits(number):
    return len(number.partition("e")[0].replace(".", "").lstrip("0"))


def long_numbers(text):
    return [number for number in NUMBER.findall(COPIED.sub("", text)) if digits(number) > 4]


def test_every_verb_is_here_or_prints_no_number():
    assert {name.partition(" ")[0] for name in CASES} == {*VERBS} - {"completion", "explore"}


@pytest.mark.parametrize("name", CASES)
def test_what_a_verb_prints_has_four_digits(folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    done = run(*CASES[name])
    assert done.exit_code == (4 if name == "check" else 0), done.stderr
    text = f"{done.stdout}\n{done.stderr}"
    assert long_numbers(text) == []
    assert "922337203685477" not in text


def test_bounds_that_say_no_more_than_the_eigenvalue_are_left_out(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert "between" not in good(*CASES["fit"]).stdout
    rough = good(*FIT, "--approximation", "nystrom(landmarks=3)", "--kernel", "rbf").stdout
    assert re.search(r"component +eigenvalue +between", rough)


def test_what_python_prints_of_a_fit_has_four_digits_and_reads_back_from_repr(rng):
    X = rng.standard_normal((50, 3)) * [1.0, 20.0, 123.456]
    model = mercer.KernelPCA(2, kernel="rbf(gamma='median')", preimage="ridge").fit(X)
    for shown in (str(model.fit_), repr(model.fit_), str(model.plan_), repr(model.preimage_)):
        assert long_numbers(shown) == [], shown
    assert "most_components" not in repr(model.plan_)
    assert parse_kernel(repr(model.kernel_)).gamma == model.kernel_.gamma
    found = mercer.select(X, random_state=0)
    assert long_numbers(str(found)) == []
    assert long_numbers(repr(found)) == []
