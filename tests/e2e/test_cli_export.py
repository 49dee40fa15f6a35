"""`mercer export`: nothing is written before it is verified, and everything that is said is so."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import mercer
from markets.commands import good, results, run, write_csv
from mercer import KernelPCA, KernelPCADetector
from mercer.kernels import RBF
from mercer.onnx.verify import Agreement

pytestmark = pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")


def scores(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kind = np.float64 if session.get_inputs()[0].type == "tensor(double)" else np.float32
    return session.run(None, {"X": np.asarray(x, dtype=kind)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with gaps and a category, and models of it as the command line makes them."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 2)) * [1.0, 100.0] + [0.0, 1e3]
    columns = {
        "id": [f"r{i}" for i in range(80)],
        "x": ["" if i % 9 == 0 else a for i, a in enumerate(x[:, 0])],
        "y": x[:, 1],
        "colour": np.where(x[:, 0] > 0, "red", "blue"),
    }
    write_csv(folder / "data.csv", columns)
    good(
        "fit", folder / "data.csv", "--id", "id", "--kernel", "rbf(gamma=0.5)", "--impute", "mean",
        "--one-hot", "-o", folder / "model.mercer",
    )  # fmt: skip
    KernelPCADetector().fit(x).save(folder / "detector.mercer")
    return folder


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data", [False, True])
def test_a_file_that_onnxruntime_reads(folder, tmp_path, dtype, data):
    out = tmp_path / "model.onnx"
    more = ["--data", folder / "data.csv", "--id", "id"] if data else []
    found = results("export", folder / "model.mercer", out, "--dtype", dtype, *more)
    assert found["bytes"] == out.stat().st_size
    assert found["opset"] == onnx.load(out).opset_import[0].version == 13
    assert found["agreement"]["max_rel"] <= {"float32": 1e-5, "float64": 1e-12}[dtype]
    assert found["agreement"]["n"] == (80 if data else 500)
    names = json.loads(found["metadata"]["mercer.features"])
    assert names == ["x", "y", "colour=blue", "colour=red"]


def test_the_graph_gives_the_numbers_of_transform(folder, tmp_path):
    """Raw numbers in, a gap among them: filled and scaled inside, as at the command line."""
    good("export", folder / "model.mercer", tmp_path / "m.onnx")
    (tmp_path / "new.csv").write_text("id,x,y,colour\na,0.5,1100,red\nb,,900,blue\n")
    good("transform", folder / "model.mercer", tmp_path / "new.csv", "-o", tmp_path / "s.csv")
    expected = np.loadtxt(tmp_path / "s.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    asked = [[0.5, 1100.0, 0.0, 1.0], [np.nan, 900.0, 1.0, 0.0]]
    found = scores(tmp_path / "m.onnx", asked)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    # A category that is missing is not filled: that row has no scores.
    asked[0][3] = np.nan
    assert np.all(np.isnan(scores(tmp_path / "m.onnx", asked)[0][0]))


def test_a_detector_is_exported_with_its_limits(folder, tmp_path):
    result = good("export", folder / "detector.mercer", tmp_path / "d.onnx")
    assert "X gives T2, Q, index, label" in result.stderr
    detector = mercer.load(folder / "detector.mercer")
    asked = np.array([[0.0, 1000.0], [5.0, 400.0]])
    assert list(scores(tmp_path / "d.onnx", asked)[3]) == list(detector.predict(asked)) == [1, -1]


def test_people_are_told_what_was_checked(folder, tmp_path):
    result = run("export", folder / "model.mercer", tmp_path / "m.onnx", "--opset", "17")
    for words in ("opset 17", "exact, 80 points", "verified with onnxruntime on"):
        assert words in result.stderr
    assert result.stdout == ""  # the graph is in its file


def test_a_pipe_gets_the_graph_and_nothing_else(folder):
    result = good("export", folder / "model.mercer", "-")
    onnx.checker.check_model(onnx.load_from_string(result.stdout_bytes))
    assert "verified" in result.stderr
    assert run("export", folder / "model.mercer", "-", "--json").exit_code == 2


# ── what must not be written ────────────────────────────────────────────────
def test_a_disagreement_leaves_the_old_file(folder, tmp_path, monkeypatch):
    out = tmp_path / "m.onnx"
    out.write_bytes(b"old")
    wrong = Agreement(1.0, 0.5, 500, 1e-9, 5e8)
    monkeypatch.setattr("mercer.onnx.verify", lambda *_: wrong)
    result = run("export", folder / "model.mercer", out)
    assert result.exit_code == 1
    assert "5.0e-01 relative" in result.stderr
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_refusals(folder, tmp_path):
    assert run("export", folder / "none.mercer", tmp_path / "m.onnx").exit_code in {1, 3}
    assert run("export", folder / "data.csv", tmp_path / "m.onnx").exit_code == 3
    assert run("export", folder / "model.mercer", tmp_path / "no" / "m.onnx").exit_code == 1
    assert run("export", folder / "model.mercer", tmp_path).exit_code == 2
    assert (
        run("export", folder / "model.mercer", tmp_path / "m.onnx", "--opset", "9").exit_code == 2
    )
    newer = run("export", folder / "model.mercer", tmp_path / "m.onnx", "--opset", "999")
    assert newer.exit_code == 2
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in newer.stderr


def test_a_missing_package_is_named_with_its_command(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    result = run("export", folder / "model.mercer", tmp_path / "m.onnx")
    assert result.exit_code == 1
    assert 'pip install "mercer[onnx]"' in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_components_that_are_rounding_are_told(tmp_path):
    x = np.random.default_rng(1).standard_normal((60, 4))
    KernelPCA(None, kernel=RBF(1e-3)).fit(x).save(tmp_path / "all.mercer")
    result = good("export", tmp_path / "all.mercer", tmp_path / "all.onnx")
    assert "warning: Some components vary so little" in result.stderr
