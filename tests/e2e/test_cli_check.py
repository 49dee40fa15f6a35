"""`mercer check` and `mercer plan`: verdicts that scikit-learn confirms, plans that a fit would have."""

import json
from dataclasses import asdict, fields

import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel, sigmoid_kernel
from sklearn.preprocessing import StandardScaler

from markets.commands import good, refused, results, run, write_csv
from mercer import KernelPCA
from mercer._core.errors import MemoryBudgetError
from mercer.app.check import Checked, facts
from mercer.approximations import RPCholesky
from mercer.cli.check import check_text
from mercer.diagnostics.mercer_check import How, Verdict
from mercer.kernels import RBF

SIGMOID = "sigmoid(gamma=2, coef0=-1)"


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((60, 3)) * [1.0, 20.0, 0.1] + [0, 5, 0]


@pytest.fixture(scope="module")
def data(rows, tmp_path_factory):
    """A file with names, numbers and labels, as people have them."""
    columns = dict(zip("abc", rows.T, strict=True))
    named = {"id": [f"r{i}" for i in range(60)], **columns, "label": "uv" * 30}
    return write_csv(tmp_path_factory.mktemp("check") / "data.csv", named)


@pytest.fixture
def npy(rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


def value_of(witness, kernel, points):
    v = np.array(witness["vector"])
    return float(v @ kernel(points) @ v)


# ── a kernel, on rows ───────────────────────────────────────────────────────
def test_a_sigmoid_on_a_file_ends_with_4_and_a_witness_that_scikit_learn_confirms(data, rows):
    found = results("check", "--kernel", SIGMOID, data, "--id", "id", "--label", "label", code=4)
    witness = found["witness"]
    points = StandardScaler().fit_transform(rows)[witness["rows"]]
    np.testing.assert_allclose(witness["points"], points, rtol=0, atol=1e-12)
    value = value_of(witness, lambda x: sigmoid_kernel(x, gamma=2, coef0=-1), points)
    assert value < 0
    assert value == pytest.approx(witness["value"])
    assert witness["ids"] == [f"r{i}" for i in witness["rows"]]
    assert found["valid"] is False


def test_the_witness_is_told_in_words(data):
    answer = run(
        "check", "--kernel", SIGMOID, data, "--id", "id", "--label", "label", "--scale", "none"
    )
    assert answer.exit_code == 4
    first, why, *_ = answer.stdout.splitlines()
    assert first.startswith("Sigmoid(gamma=2, coef0=-1) is not a kernel: vᵀKv = -")
    assert "could not be negative" in why
    assert "a = " in answer.stdout
    assert "units of the file" in answer.stdout


def test_a_kernel_on_a_file_has_the_spectrum_of_its_matrix(data, rows):
    text = "rbf(gamma=0.5) + 0.1*linear()"
    found = results("check", data, "--kernel", text, "--columns", "a,b", "--scale", "none")
    x = rows[:, :2]
    lowest = np.linalg.eigvalsh(rbf_kernel(x, gamma=0.5) + 0.1 * linear_kernel(x))[0]
    assert found["smallest_eigenvalue"] == pytest.approx(lowest, abs=1e-10)
    assert (found["valid"], found["how"]) == (True, "proved by construction")
    assert "Bochner" in found["reason"]
    assert (found["n"], found["d"], found["n_points"]) == (60, 2, 60)


def test_columns_of_words_are_refused_as_fit_and_plan_refuse_them(data):
    told = {verb: run(verb, "--kernel", SIGMOID, data) for verb in ("check", "plan", "fit")}
    assert {done.exit_code for done in told.values()} == {3}
    assert len({done.stderr for done in told.values()}) == 1
    assert "column 'id' has words" in told["check"].stderr
    beside = run("check", "--kernel", SIGMOID, data, "--id", "id", "--label", "label")
    assert beside.exit_code == 4


def test_rows_beyond_the_memory_are_drawn_and_that_is_said(tmp_path):
    x = np.random.default_rng(1).standard_normal((3000, 2))
    np.save(tmp_path / "x.npy", x)
    args = (
        "check",
        tmp_path / "x.npy",
        "--kernel",
        "rbf(1)",
        "--memory",
        "2MB",
        "--scale",
        "none",
    )
    done = good(*args)
    assert "125 of 3000 rows" in done.stderr
    assert results(*args)["n_points"] == 125


# ── a kernel alone ──────────────────────────────────────────────────────────
def test_without_data_a_witness_is_looked_for():
    found = results("check", "--kernel", SIGMOID, code=4)
    points = np.array(found["witness"]["points"])
    value = value_of(found["witness"], lambda x: sigmoid_kernel(x, gamma=2, coef0=-1), points)
    assert value == pytest.approx(found["witness"]["value"])
    assert value < 0
    answer = run("check", "--kernel", SIGMOID)
    assert answer.exit_code == 4
    assert "Witness:" in answer.stdout


def test_no_witness_and_no_proof_is_told_as_that():
    verdict = Verdict(None, How.SEARCH, "Nothing was found.")  # a search for one takes seconds
    checked = Checked(verdict, facts(RBF(1), verdict))
    assert check_text(checked).splitlines()[0] == "Nothing was found."
    assert "Judge it on your rows" in check_text(checked)
    assert checked.facts["valid"] is None
    assert not checked.is_refuted


def test_without_data_a_proof_is_told():
    answer = good("check", "--kernel", "rbf()")
    assert "Bochner" in answer.stdout


# ── a matrix ────────────────────────────────────────────────────────────────
def saved(folder, K):
    np.save(folder / "K.npy", K)
    return folder / "K.npy"


def test_a_kernel_matrix_passes(rows, tmp_path):
    K = rbf_kernel(rows, gamma=1e-3)
    K = 0.5 * (K + K.T)
    found = results("check", saved(tmp_path, K), "--matrix")
    assert (found["valid"], found["asymmetry"], found["n"]) == (True, 0.0, 60)
    lowest = np.linalg.eigvalsh(K)[0]
    assert found["smallest_eigenvalue"] == pytest.approx(lowest, abs=1e-12)
    assert found["smallest_eigenvalue"] > -found["rounding"] * 60
    np.savetxt(tmp_path / "K.csv", K, delimiter=",")
    answer = good("check", tmp_path / "K.csv", "--kernel", "precomputed")
    assert "It is symmetric." in answer.stdout


def test_an_indefinite_matrix_has_a_witness(rows, tmp_path):
    K = rbf_kernel(rows, gamma=1e-3)
    K[3, 7] = K[7, 3] = 2.0
    path = saved(tmp_path, K)
    found = results("check", path, "--matrix", code=4)
    v, some = np.array(found["witness"]["vector"]), found["witness"]["rows"]
    assert v @ K[np.ix_(some, some)] @ v == pytest.approx(found["witness"]["value"])
    assert found["witness"]["value"] < 0
    answer = run("check", path, "--matrix")
    assert answer.exit_code == 4
    assert "row 3" in answer.stdout


def test_an_asymmetric_matrix_has_a_witness(tmp_path):
    K = np.eye(4)
    K[0, 2] = 0.5
    usual = {"MERCER_KERNEL": "rbf()"}  # set for other commands, and no matter here
    found = results("check", saved(tmp_path, K), "--matrix", code=4, env=usual)
    assert found["witness"]["kind"] == "asymmetric"
    assert sorted(found["witness"]["rows"]) == [0, 2]
    assert found["asymmetry"] == 0.5


def test_what_is_no_matrix_is_refused(rows, data, tmp_path):
    assert "60 x 3" in refused("check", saved(tmp_path, rows), "--matrix", code=3)
    assert "words" in refused("check", data, "--matrix", code=3)
    path = tmp_path / "tall.csv"
    path.write_text("1,0\n0,1\n0,0\n")
    assert "square" in refused("check", path, "--matrix", code=3)
    path.write_text("1,0\n0,\n")
    assert "row 1, column 1" in refused("check", path, "--matrix", code=3)
    big = saved(tmp_path, np.eye(400))
    assert "--memory" in refused("check", big, "--matrix", "--memory", "1MB", code=1)


# ── usage ───────────────────────────────────────────────────────────────────
def test_usage_of_check(data, npy, tmp_path):
    assert "--matrix" in refused("check", code=2)
    assert "--kernel and --matrix" in refused("check", npy, "--kernel", "rbf", "--matrix", code=2)
    assert "needs its file" in refused("check", "--kernel", "precomputed", code=2)
    answer = refused("check", data, "--kernel", "linear() + rfb()", code=2)
    assert answer.splitlines()[1:] == ["  linear() + rfb()", "             ^~~"]
    assert "levels" in refused("check", "--kernel", "(" * 10_000, code=2)
    missing = refused("check", tmp_path / "none.csv", "--kernel", "rbf", code=3)
    assert "none.csv" in missing
    done = run("check", "--kernel", "rfb()", "--json")
    error = json.loads(done.stderr)["error"]
    assert (error["exit_code"], error["kind"]) == (2, "kernel")
    assert error["message"].endswith("\n  rfb()\n  ^~~")


@pytest.mark.parametrize("verb", ["check", "plan"])
def test_the_example_of_the_help_works(verb, tmp_path, monkeypatch):
    import shlex

    monkeypatch.chdir(tmp_path)
    lines = run(verb, "--help").stdout.split("Example:")[1].strip().splitlines()
    for line in lines:
        good(*shlex.split(line)[1:])


# ── plan ────────────────────────────────────────────────────────────────────
def test_a_plan_is_that_of_the_estimator(npy):
    found = results("plan", npy, "--components", 20, "--memory", "1GB", "--kernel", "rbf(0.1)")
    wanted = KernelPCA(20, kernel=RBF(0.1), memory="1GB", random_state=0).plan(npy)
    timed = ("seconds", "solver", "approximation", "recipe")
    for field in fields(wanted):
        if field.name not in timed:
            value = getattr(wanted, field.name)
            assert found["plan"][field.name] == (list(value) if isinstance(value, tuple) else value)
    assert found["plan"]["solver"] == repr(wanted.solver)
    assert found["plan"]["recipe"] == {"kind": "whole", **asdict(wanted.recipe)}
    assert found["plan"]["seconds"] > 0
    assert (found["n"], found["d"], found["memory_bytes"]) == (60, 3, 10**9)


def test_a_plan_of_a_csv_and_of_an_approximation(data):
    args = ("plan", data, "--id", "id", "--label", "label", "-k", "3", "--memory", "1GB")
    found = results(*args, "--approximation", "rpcholesky(rank=20)", "--refine", "1")
    assert found["plan"]["approximation"] == repr(RPCholesky(rank=20, refine=1))
    assert (found["n"], found["d"], found["components"]) == (60, 3, 3)
    answer = good(*args)
    assert "60 rows x 3 features" in answer.stdout
    assert "expected" in answer.stdout


def test_a_plan_reads_rows_of_an_npy_file_no_further_than_it_must(tmp_path):
    """Whoever reads all rows meets one that can't be used."""
    n, d = 2_000_000, 10
    path = tmp_path / "huge.npy"
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, d))
    del rows  # a hole: no block is on the disk
    with path.open("r+b") as file:
        file.seek(-8 * d * 10, 2)
        file.write(np.full(d, np.nan).tobytes())
    assert path.stat().st_blocks * 512 < 10**6
    args = ("plan", path, "--kernel", "rbf(gamma=1)", "--memory", "200MB", "--components", 5)
    found = results(*args, "--approximation", "rpcholesky(rank=50)")
    assert (found["n"], found["d"]) == (n, d)
    assert found["plan"]["route"] == "low-rank"
    assert found["plan"]["n_bytes"] < 200e6


def test_a_fit_that_does_not_go_is_answered_with_one_that_does(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20_000, 2)))
    args = ("plan", tmp_path / "x.npy", "--memory", "40MB", "-k", "30", "--kernel", "rbf(1)")
    found = results(*args, code=4)
    with pytest.raises(MemoryBudgetError) as refusal:
        KernelPCA(30, kernel=RBF(1), memory="40MB").plan(tmp_path / "x.npy")
    assert found["refusal"] == str(refusal.value)
    assert (found["fits"], found["plan"]) == (False, None)
    assert found["alternative"]["n_bytes"] <= 40e6
    answer = run(*args)
    assert answer.exit_code == 4
    assert 'This fits: --approximation "rpcholesky(rank=' in answer.stdout
    assert results("plan", tmp_path / "x.npy", "--memory", "1kB", code=4)["alternative"] is None


def test_what_can_not_be_planned_says_so(npy):
    assert "must be a whole number from 1" in refused("plan", npy, "--components", "-1", code=2)
    answer = refused("plan", npy, "--approximation", "rpcholesky(rnak=5)", code=2)
    assert "Did you mean 'rank'" in answer
    assert "--refine" in refused("plan", npy, "--refine", "1", code=2)


def test_a_plan_has_the_pre_image_in_it(tmp_path):
    x = np.random.default_rng(0).standard_normal((700, 4))
    np.save(tmp_path / "x.npy", x)
    args = ("plan", tmp_path / "x.npy", "-k", "3", "--kernel", "rbf(0.1)", "--memory", "1GB")
    alone, both = results(*args)["plan"], results(*args, "--preimage", "ridge")["plan"]
    mine = KernelPCA(3, kernel=RBF(0.1), preimage="ridge", memory="1GB").plan(x)
    assert (both["n_bytes"], both["preimage_bytes"]) == (mine.n_bytes, mine.preimage_bytes)
    assert both["preimage"] == "Ridge(alpha='auto', gamma='auto', max_rows=5000)"
    assert (alone["preimage"], alone["preimage_bytes"], alone["preimage_seconds"]) == (
        None,
        0,
        None,
    )
    assert both["preimage_seconds"] < both["seconds"]
    little = ("plan", tmp_path / "x.npy", "-k", "3", "--kernel", "rbf(0.1)", "--preimage", "ridge")
    refused = results(*little, "--memory", str(mine.n_bytes - 1), code=4)
    assert "The pre-image of 700 rows needs about" in refused["refusal"]
