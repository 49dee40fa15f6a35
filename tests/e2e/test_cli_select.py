"""`mercer select`: the choice that Python makes, the winner in a file that says how it was chosen."""

import shlex

import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.preprocessing import StandardScaler

import mercer
from markets.commands import document, good, results, run, write_csv
from mercer.kernels import RBF, Linear
from mercer.persistence.model_file import read_header

NAMED = ("--id", "id", "--label", "label")


@pytest.fixture(scope="module")
def circles():
    return make_circles(90, factor=0.3, noise=0.05, random_state=0)


@pytest.fixture(scope="module")
def data(circles, tmp_path_factory):
    points, which = circles
    columns = {
        "id": range(90),
        "x": points[:, 0],
        "y": points[:, 1],
        "label": ["io"[y] for y in which],
    }
    return write_csv(tmp_path_factory.mktemp("select") / "circles.csv", columns)


def plain(table):
    return [
        {k: (None if isinstance(v, float) and np.isnan(v) else v) for k, v in row.items()}
        for row in table
    ]


def test_labels_that_have_no_part_in_the_choice_are_noted(data):
    args = ("select", data, *NAMED, "--kernels", "linear(); rbf()", "--folds", 2)
    said = "the labels have no part in the choice; --supervised judges by them"
    assert said in good(*args).stderr
    assert said not in good(*args, "--supervised").stderr
    assert said not in good("select", data, "--columns", "x,y", *args[6:]).stderr


def test_the_choice_is_the_one_that_python_makes(data, circles):
    args = ("select", data, *NAMED, "--kernel", "linear()", "--kernels", "rbf(gamma=2) ; rbf()")
    told = document(*args, "--components", "2,4", "--folds", 2, "--seed", 3)
    x = StandardScaler().fit_transform(circles[0])
    wanted = mercer.select(
        x,
        [Linear(), RBF(gamma=2), RBF()],
        n_components=[2, 4],
        folds=2,
        refit=False,
        random_state=3,
    )
    found = told["results"]
    assert found["winner"]["components"] == wanted.n_components_
    assert found["winner"]["kernel"] == repr(wanted.best_kernel_)
    assert [row["kernel"] for row in found["table"]] == list(wanted.table_["kernel"])
    assert found["conclusive"] == wanted.conclusive_
    shared = [row["shared"] for row in found["table"]]
    np.testing.assert_allclose(shared, wanted.table_["shared"], rtol=1e-6)
    assert len(found["reasons"]) == len(wanted.reasons_)
    assert told["params"]["components"] == [2, 4]


def test_the_winner_is_kept_with_the_reasons(data, circles, tmp_path):
    path = tmp_path / "winner.mercer"
    args = ("select", data, *NAMED, "--kernels", "rbf(2); rbf(500)", "-k", "4", "-o", path)
    found = results(*args, "--preimage", "ridge")
    chosen = read_header(path)["about"]["selection"]
    assert chosen["winner"] == found["winner"] == {"kernel": "RBF(gamma=2)", "components": 4}
    assert chosen["table"] == found["table"]
    assert chosen["reasons"] == found["reasons"]
    assert found["model"]["bytes"] == path.stat().st_size
    x = StandardScaler().fit_transform(circles[0])
    wanted = mercer.KernelPCA(4, kernel=RBF(gamma=2), random_state=0).fit_transform(x)
    model = mercer.load(path)
    np.testing.assert_allclose(np.abs(model.transform(circles[0])), np.abs(wanted), atol=1e-8)
    assert model.reconstruct(circles[0][:3]).shape == (3, 2)


def test_rows_count_as_often_as_a_column_says(circles, tmp_path):
    counts = np.arange(90) % 3
    path, model = tmp_path / "counted.csv", tmp_path / "winner.mercer"
    rows = np.column_stack([circles[0], counts])
    np.savetxt(path, rows, delimiter=",", header="x,y,times", comments="", fmt="%.17g")
    args = ("select", path, "--kernels", "rbf(2); rbf(1)", "-k", "4", "--scale", "none")
    found = results(*args, "--weights", "times", "-o", model)
    wanted = mercer.select(
        circles[0], [RBF(2), RBF(1)], n_components=4, sample_weight=counts, random_state=0
    )
    shared = [row["shared"] for row in found["table"]]
    np.testing.assert_allclose(shared, wanted.table_["shared"], rtol=1e-8)
    scores = (m.transform(circles[0]) for m in (mercer.load(model), wanted.best_))
    np.testing.assert_allclose(*map(np.abs, scores), atol=1e-8)


def test_labels_decide_when_asked(data, circles):
    args = (
        "select",
        data,
        *NAMED,
        "--supervised",
        "--kernels",
        "linear(); rbf(gamma=2)",
        "-k",
        "4",
    )
    found = results(*args)
    x = StandardScaler().fit_transform(circles[0])
    y = np.array(["i", "o"])[circles[1]]
    wanted = mercer.select(
        x, [Linear(), RBF(gamma=2)], n_components=4, y=y, refit=False, random_state=0
    )
    assert [row["score"] for row in found["table"]] == pytest.approx(list(wanted.table_["score"]))
    assert found["winner"]["kernel"] == "RBF(gamma=2)"


def test_people_read_the_table_the_reasons_and_what_to_do_next(data):
    args = ("select", data, *NAMED, "--kernels", "linear(); rbf(gamma=2)", "-k", "2")
    done = good(*args)
    assert done.stdout.startswith("kept  Linear() with 2 components\n  - criterion agreement")
    assert "no criterion can tell" in done.stdout
    done = good(*args, "--criterion", "denoising")
    assert done.stdout.startswith("best  Linear() with 2 components\n  - criterion denoising")
    assert "RBF     gamma=2" in done.stdout
    assert "-o model.mercer" in done.stderr


def test_a_sample_is_said(data):
    args = ("select", data, *NAMED, "--kernels", "linear(); rbf", "-k", "2", "--max-rows", "60")
    done = run(*args)
    assert "60 of 90 rows" in done.stderr
    told = document(*args)
    assert told["results"]["n_judged"] == 60
    assert any("60 of 90 rows" in note for note in told["notes"])


def test_candidates_from_the_environment_are_split_at_semicolons(data):
    env = {"MERCER_SELECT_KERNEL": "rbf(gamma=2) + 0.1 * linear();linear()"}
    found = results("select", data, *NAMED, "-k", "2", env=env)
    assert {row["kernel"] for row in found["table"]} == {
        "RBF(gamma=2.0) + 0.1 * Linear()",
        "Linear",
    }


def test_a_winner_that_can_not_be_fitted_is_still_told(data, tmp_path):
    path = tmp_path / "winner.mercer"
    path.write_bytes(b"what was there")
    args = ("select", data, *NAMED, "--kernel", "rbf(gamma=2)", "-k", "4", "-o", path)
    told = document(*args, "--approximation", "rpcholesky(rank=2)", code=1)
    assert told["results"]["model"] is None
    assert told["results"]["table"]
    assert any("not fitted" in line for line in told["warnings"])
    assert path.read_bytes() == b"what was there"


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--kernel", "rfb()"], 2, "Did you mean 'rbf'"),
        (["--kernels", "linear(); rbf("], 2, "^"),
        (["--kernels", " ; "], 2, "empty"),
        (["--kernel", "precomputed"], 2, "precomputed"),
        (["--components", "2,x"], 2, "whole numbers"),
        (["--supervised"], 2, "--label"),
        (["--criterion", "denosing"], 2, "Did you mean 'denoising'"),
        (["--folds", "1"], 2, "folds"),
        (["-o", "-"], 2, "Name a file"),
        (["--noise", "-1", "--kernel", "linear()"], 2, "noise"),
        (["--jobs", "0", "--kernel", "linear()"], 2, "all cores"),
        (["--kernel", "rbf", "--components", "0"], 2, "--components must be an integer from 1"),
    ],
)
def test_what_is_wrong_is_one_sentence(data, options, code, why):
    columns = ("--columns", "x,y")
    done = run("select", data, *columns, *options)
    assert done.exit_code == code, done.output
    assert why in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_the_output_is_never_the_data(data):
    before = data.read_bytes()
    assert run("select", data, *NAMED, "-o", data).exit_code == 2
    assert data.read_bytes() == before


def test_the_example_of_the_help_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in run("select", "--help").stdout.split("Example:")[1].strip().splitlines():
        good(*shlex.split(line)[1:])


OTHER_WORDS = {
    "labels are needed": (
        ("--criterion", "accuracy"),
        "'accuracy' needs labels: add --supervised",
    ),
    "commas": (("--kernels", "rbf,laplacian"), 'Separate candidates with ";"'),
    "a parameter of a kernel": (("--gamma=0.1",), 'Write --kernel "rbf(gamma=0.1)"'),
    "a name of others": (("--kernel", "tanh"), "Did you mean 'sigmoid'?"),
}


@pytest.mark.parametrize("name", OTHER_WORDS)
def test_what_is_meant_is_suggested(name, tmp_path):
    args, said = OTHER_WORDS[name]
    path = tmp_path / "x.csv"
    np.savetxt(
        path,
        np.random.default_rng(0).normal(size=(30, 2)),
        delimiter=",",
        header="a,b",
        comments="",
    )
    told = run("select", path, *args)
    assert told.exit_code in (2, 3)
    assert said in told.stderr
