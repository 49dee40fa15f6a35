"""fit, transform, reconstruct and info: the numbers of Python, files that are whole, errors in one line."""

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from sklearn.decomposition import KernelPCA as TheirKernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

import mercer
from markets.commands import document, good, read_csv, refused, results, run, write_csv
from mercer import IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.approximations import RPCholesky
from mercer.cli.main import main
from mercer.kernels import RBF, Linear
from mercer.persistence.model_file import save

N, D = 80, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) @ RNG.standard_normal((D, D)) + [5.0, -200.0, 0.01]
LABELS = np.where(X[:, 0] > 5, "a", "b <script>")
IDS = [f"r{i}" for i in range(N)]
FIT = ["fit", "data.csv", "--id", "id", "--label", "group", "-o", "m.mercer", "-q"]


def write_data(path, weights=None):
    """The rows with ids and labels, and with weights where there are some."""
    columns = {"id": IDS, **dict(zip("uvw", X.T, strict=True)), "group": LABELS}
    write_csv(path, columns if weights is None else {**columns, "n": weights})


def numbers(path, prefix):
    columns = read_csv(path)
    return np.array([columns[n] for n in columns if n.startswith(prefix)], dtype=float).T


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data("data.csv")
    np.save("data.npy", X)
    return tmp_path


# ── the numbers of Python ───────────────────────────────────────────────────
def test_unscaled_scores_are_those_of_python_to_the_last_bit():
    good(*FIT, "--kernel", "rbf(gamma=0.1)", "--components", "3", "--scale", "none")
    good("transform", "m.mercer", "data.csv", "-o", "s.csv")
    mine = KernelPCA(3, kernel=RBF(gamma=0.1), random_state=0).fit(X)
    assert np.array_equal(numbers("s.csv", "component_"), mine.transform(X))
    columns = read_csv("s.csv")
    assert list(columns)[:2] == ["id", "group"]
    assert columns["id"] == IDS
    assert columns["group"] == list(LABELS)


def test_scaled_scores_are_those_of_scikit_learns_scaler_before_the_model():
    good(*FIT, "--kernel", "rbf(gamma=0.1)", "-k", "3")
    good("transform", "m.mercer", "data.csv", "-o", "s.csv")
    scaled = StandardScaler().fit_transform(X)
    theirs = TheirKernelPCA(3, kernel="rbf", gamma=0.1, eigen_solver="dense").fit_transform(scaled)
    ours = numbers("s.csv", "component_")
    np.testing.assert_allclose(ours * np.sign(np.sum(ours * theirs, axis=0)), theirs, atol=1e-11)
    kept = mercer.load("m.mercer")
    assert np.array_equal(ours, kept.transform(X))  # the same file from Python


def test_every_format_gives_the_same_scores():
    good("fit", "data.npy", "-o", "m.mercer", "--kernel", "rbf(gamma=0.1)")
    expected = mercer.load("m.mercer").transform(X)
    for output in ("s.npy", "s.csv", "s.npz", "s.parquet"):
        good("transform", "m.mercer", "data.npy", "-o", output)
    assert np.array_equal(np.load("s.npy"), expected)
    assert np.array_equal(numbers("s.csv", "component_"), expected)
    text = Path("data.csv").read_text()
    out = good("transform", "m.mercer", "-", "--columns", "u,v,w", input=text).stdout
    Path("pipe.csv").write_text(out)
    assert np.array_equal(numbers("pipe.csv", "component_"), expected)


def test_columns_are_found_by_name_and_what_is_left_out_is_said():
    good(*FIT)
    Path("new.csv").write_text("w,extra,v,u\n0.1,7,-200.5,5.5\n")
    result = good("transform", "m.mercer", "new.csv", "-o", "s.csv")
    assert "'extra'" in result.stderr
    expected = mercer.load("m.mercer").transform([[5.5, -200.5, 0.1]])
    assert np.array_equal(numbers("s.csv", "component_"), expected)
    assert list(read_csv("s.csv")) == ["component_1", "component_2"]
    Path("less.csv").write_text("w,v\n1,2\n")
    result = run("transform", "m.mercer", "less.csv")
    assert result.exit_code == 3
    assert "'u'" in result.stderr


def test_a_file_that_does_not_fit_is_streamed_with_the_same_scores():
    good(*FIT, "-k", "2")
    whole = numbers_of(good("transform", "m.mercer", "data.csv"))
    parts = numbers_of(good("transform", "m.mercer", "data.csv", "--memory", "10kB"))
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-13)


def numbers_of(result):
    Path("stdout.csv").write_text(result.stdout)
    return numbers("stdout.csv", "component_")


def test_a_kernel_matrix_is_fitted_and_transformed():
    K = rbf_kernel(X, gamma=1e-4)
    np.save("K.npy", K)
    np.save("new.npy", K[:5])
    good("fit", "K.npy", "--kernel", "precomputed", "-o", "m.mercer", "-k", "2")
    good("transform", "m.mercer", "new.npy", "-o", "s.npy")
    mine = KernelPCA(2, kernel="precomputed", random_state=0).fit(K)
    assert np.array_equal(np.load("s.npy"), mine.transform(K[:5]))
    assert run("reconstruct", "m.mercer", "new.npy").exit_code == 2
    result = run("fit", "K.npy", "--kernel", "precomputed", "--scale", "standard")
    assert result.exit_code == 2
    assert "kernel values" in result.stderr


# ── every option reaches its part ───────────────────────────────────────────
REACH = {
    "share": (["-k", "0.9"], lambda m: m.n_components == 0.9 and isinstance(m.n_components, float)),
    "all": (["-k", "all", "--kernel", "linear"], lambda m: m.n_components is None),
    "one": (["-k", "1"], lambda m: m.n_components == 1 and isinstance(m.n_components, int)),
    "kernel": (
        ["--kernel", "rbf(gamma=0.5) + 0.1*linear()"],
        lambda m: repr(m.kernel) == repr(RBF(gamma=0.5) + 0.1 * Linear()),
    ),
    "median": ([], lambda m: m.kernel == "rbf"),
    "approximation": (
        ["--approximation", "rpcholesky(rank=20)"],
        lambda m: m.approximation == RPCholesky(rank=20) and m.fit_.is_low_rank,
    ),
    "named approximation": (["--approximation", "rpcholesky"], lambda m: m.fit_.is_low_rank),
    "refine": (
        ["--approximation", "rpcholesky", "--refine", "2"],
        lambda m: m.approximation == RPCholesky(rank=N, refine=2) and not m.fit_.is_low_rank,
    ),
    "solver": (["--solver", "krylov(tol=1e-6)"], lambda m: m.solver.tol == 1e-6),
    "preimage": (["--preimage", "fixed-point"], lambda m: m.preimage == "fixed-point"),
    "linear": (["--kernel", "linear"], lambda m: m.preimage == "exact"),
    "seed": (["--seed", "7"], lambda m: m.random_state == 7),
    "memory": (["--memory", "1GB"], lambda m: m.memory == "1GB"),
    "pca": (["--model", "pca", "-k", "2"], lambda m: isinstance(m, mercer.PCA)),
    "stream": (
        ["--model", "incremental", "--landmarks", "30"],
        lambda m: isinstance(m, IncrementalKernelPCA) and m.max_landmarks == 30,
    ),
    "detector": (
        ["--model", "detector", "--false-alarm", "0.05", "--statistic", "Q", "-k", "2"],
        lambda m: m.false_alarm == 0.05 and m.statistic == "Q" and m.scale is True,
    ),
    "folds": (["--model", "detector", "--folds", "3", "-k", "2"], lambda m: m.folds == 3),
    "wild": (["--model", "detector", "--wild", "keep", "-k", "2"], lambda m: m.wild == "keep"),
    "limits": (
        ["--model", "detector", "--limits", "approximate", "--scale", "none", "-k", "2"],
        lambda m: m.limits == "approximate" and m.scale is False,
    ),
}


@pytest.mark.parametrize(("args", "holds"), REACH.values(), ids=REACH)
def test_an_option_reaches_the_model(args, holds):
    good(*FIT, *args)
    assert holds(mercer.load("m.mercer").model)


def test_a_detector_scales_by_itself_as_in_python():
    good(*FIT, "--model", "detector")
    kept, mine = mercer.load("m.mercer"), KernelPCADetector(random_state=0).fit(X)
    assert np.array_equal(kept.decision_function(X), mine.decision_function(X))
    assert kept.model.limits_ == mine.limits_
    result = run("transform", "m.mercer", "data.csv")
    assert result.exit_code == 2
    assert "mercer monitor m.mercer data.csv" in result.stderr


def test_a_column_of_weights_counts_rows_and_is_no_feature():
    weights = np.arange(N) % 3
    write_data("w.csv", weights)
    args = ["--weights", "n", "--scale", "none", "--kernel", "rbf(gamma=0.1)", "-k", "2"]
    good("fit", "w.csv", *FIT[2:], *args)
    kept = mercer.load("m.mercer")
    assert kept.preparation.features == ("u", "v", "w")
    repeated = np.repeat(X, weights, axis=0)
    mine = KernelPCA(2, kernel=RBF(0.1)).fit(repeated)
    np.testing.assert_allclose(kept.model.eigenvalues_, mine.eigenvalues_, rtol=1e-10)
    assert run("fit", "w.csv", *FIT[2:], "--weights", "no").exit_code == 3
    assert run("fit", "-", *FIT[2:], "--weights", "n", input="u,n\n1,1\n").exit_code == 2


def test_weights_of_a_detector():
    weights = np.arange(N) % 3
    write_data("w.csv", weights)
    args = ["--model", "detector", "--contamination", "0.1", "--weights", "n", "-k", "2"]
    good("fit", "w.csv", *FIT[2:], *args)
    mine = KernelPCADetector(2, contamination=0.1).fit(X, sample_weight=weights)
    kept = mercer.load("m.mercer").model.limits_
    np.testing.assert_allclose([kept.t2, kept.q], [mine.limits_.t2, mine.limits_.q], rtol=1e-9)


WRONG_USAGE = {
    "kernel of pca": (["--model", "pca", "--kernel", "rbf"], "--model kpca"),
    "limits of kpca": (["--limits", "approximate"], "--model detector"),
    "refine alone": (["--refine", "2"], "--approximation"),
    "components": (["-k", "0"], "a share of the variance"),
    "components in words": (["-k", "many"], "a share of the variance"),
    "share above one": (["-k", "1.5"], "a share of the variance"),
    "nan": (["-k", "nan"], "a share of the variance"),
    "contamination": (["--model", "detector", "--contamination", "2"], "0<x<0.5"),
    "kernel": (["--kernel", "rbf(gamma=1"], "^"),
    "kernel of brackets": (["--kernel", "(" * 10_000], "^"),
    "approximation": (["--approximation", "rpcholsky"], "'rpcholesky'"),
    "approximation's knob": (["--approximation", "rpcholesky(rnk=3)"], "^"),
    "model to stdout": (["-o", "-"], "Name a file"),
    "the data itself": (["-o", "data.csv"], "is the file that is read"),
    "checkpoint on the data": (["--checkpoint", "data.csv"], "is the file that is read"),
    "a folder": (["-o", "."], "is a folder"),
}


@pytest.mark.parametrize(("args", "said"), WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_wrong_usage_is_exit_code_2_before_anything_is_read(folder, args, said):
    before = (folder / "data.csv").read_bytes()
    result = run("fit", "data.csv", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert (folder / "data.csv").read_bytes() == before


# ── what is told ────────────────────────────────────────────────────────────
def test_evidence_is_on_stdout_talk_on_stderr_and_all_of_it_in_json():
    args = [arg for arg in FIT if arg != "-q"]
    people = good(*args, "-k", "2")
    assert "standardised 3 columns" in people.stderr
    assert "wrote m.mercer" in people.stderr
    assert "residuals" in people.stdout
    again = good(*args, "-k", "2", "--json")
    assert "replaced m.mercer" in again.stderr
    found = json.loads(again.stdout)["results"]
    model = mercer.load("m.mercer").model
    assert found["eigenvalues"] == model.eigenvalues_.tolist()
    assert found["features"] == ["u", "v", "w"]
    assert found["model"]["bytes"] == Path("m.mercer").stat().st_size
    unkept = good("fit", "data.npy", "-k", "2")
    assert "nothing was written" in unkept.stderr


def test_a_plan_of_every_model_fits_and_writes_nothing(folder):
    before = sorted(path.name for path in folder.iterdir())
    named = ("--id", "id", "--label", "group", "-k", "2")
    found = results("plan", "data.csv", *named)["plan"]
    mine = KernelPCA(2).plan(X)
    assert (found["route"], found["n_bytes"]) == (mine.route, mine.n_bytes)
    for kind in ("pca", "detector", "incremental"):
        for data in (["data.npy"], ["data.csv", *named[:4]]):
            told = good("plan", *data, "--model", kind, "-k", "2").stdout
            assert "80 rows x 3 features" in told
            assert "B" in told.splitlines()[2]
    assert sorted(path.name for path in folder.iterdir()) == before
    assert "mercer plan" in refused("fit", "data.csv", "--dry-run", code=2)


def test_info_tells_the_header():
    good(*FIT, "--kernel", "rbf(gamma=0.1)")
    people = good("info", "m.mercer").stdout
    for said in ("RBF(gamma=0.1)", "u, v, w", "80 rows x 3", "mercer fit data.csv", "standardised"):
        assert said in people
    header = results("info", "m.mercer")["header"]
    assert header["about"]["options"]["kernel"] == "rbf(gamma=0.1)"
    assert header["data"]["n"] == N


def test_info_tells_the_way_back_and_why_a_kernel_was_chosen():
    good(*FIT)
    assert "pre-images" not in good("info", "m.mercer").stdout
    good(*FIT, "--preimage", "fixed-point")
    assert "pre-images  fixed-point" in good("info", "m.mercer").stdout
    chosen = {"selection": {"reasons": ["held out rows", "error 0.3"]}}
    save(KernelPCA(1).fit(X), "m.mercer", about=chosen)
    assert f"chosen      held out rows\n{'':12}error 0.3" in good("info", "m.mercer").stdout


def test_info_shows_a_strangers_control_characters_as_text():
    about = {"command": "\x1b]0;gotcha\x07", "notes": ["\x1b[2J"]}
    save(KernelPCA(1).fit(X), "m.mercer", about=about)
    assert "\x1b" not in good("info", "m.mercer").stdout


# ── back again ──────────────────────────────────────────────────────────────
def test_rows_come_back_in_their_units_with_the_error_beside_that_of_the_mean():
    good(*FIT, "--kernel", "linear", "-k", "2")
    found = results("reconstruct", "m.mercer", "data.csv", "-o", "back.csv")
    columns = read_csv("back.csv")
    assert list(columns) == ["id", "group", "u", "v", "w"]
    back = np.array([columns[name] for name in "uvw"], dtype=float).T
    scaler = StandardScaler().fit(X)
    scaled = scaler.transform(X)
    axes = np.linalg.svd(scaled, full_matrices=False)[2][:2]
    np.testing.assert_allclose(back, scaler.inverse_transform(scaled @ axes.T @ axes), rtol=1e-9)
    error = np.mean((scaled @ axes.T @ axes - scaled) ** 2)
    assert found["mean_squared_error"] == pytest.approx(error)
    assert found["error_of_mean"] == pytest.approx(1.0)


def test_reconstruct_in_chunks_has_the_same_errors():
    good(*FIT, "--kernel", "rbf(gamma=0.1)", "-k", "5", "--preimage", "ridge")
    errors = [
        results("reconstruct", "m.mercer", "data.csv", "-o", "b.npy", *more)
        for more in ([], ["--memory", "10kB"])
    ]
    for name in ("mean_squared_error", "error_of_mean"):
        whole, parts = (found[name] for found in errors)
        assert parts == pytest.approx(whole, rel=1e-9)


def test_a_model_without_a_way_back_learns_the_one_that_its_fit_would_have():
    backs = []
    for more in ([], ["--preimage", "ridge"]):
        good(*FIT, "--kernel", "rbf(gamma=0.1)", "-k", "3", *more)
        said = good("reconstruct", "m.mercer", "data.csv", "-o", "back.csv").stderr
        assert ("ridge was learned from its 80 points" in said) == (not more)
        backs.append([read_csv("back.csv")[name] for name in "uvw"])
    assert backs[0] == backs[1]


@pytest.mark.parametrize(
    "how", [["--model", "incremental"], ["--approximation", "rpcholesky(rank=30)"]]
)
def test_landmarks_lead_back_too(how):
    good(*FIT, "-k", "3", *how)
    told = document("reconstruct", "m.mercer", "data.csv", "-o", "back.csv")
    assert "gradient was learned" in told["notes"][0]
    assert told["results"]["mean_squared_error"] < told["results"]["error_of_mean"]


def test_a_way_back_that_does_not_fit_is_refused():
    good(*FIT, "--kernel", "rbf(gamma=0.1)")
    result = run("reconstruct", "m.mercer", "data.csv", "--memory", "10kB")
    assert result.exit_code == 1
    assert "needs about" in result.stderr


def test_where_none_can_be_learned_the_command_that_makes_a_way_back_is_named():
    good(*FIT, "--approximation", "fourier(n_features=50)")
    result = run("reconstruct", "m.mercer", "data.csv")
    assert result.exit_code == 2
    command = result.stderr.split("Fit it with some: mercer ")[1]
    good(*shlex.split(command))
    good("reconstruct", "m.mercer", "data.csv", "-o", "back.csv")


# ── bad input ───────────────────────────────────────────────────────────────
BAD = {
    "missing": None,
    "empty": b"",
    "garbage": bytes(range(256)) * 8,
    "ragged": b"a,b\n1,2\n3\n",
    "twice": b"a,a\n1,2\n3,4\n",
    "words": b"a,b\n1,x\n2,y\n",
    "hole": b"a,b\n1,2\n3,\n4,5\n",
    "header": b"a,b\n",
    "one row": b"a,b\n1,2\n",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_bad_data_is_one_line_and_exit_code_3(folder, content):
    if content is not None:
        Path("bad.csv").write_bytes(content)
    for command in (["fit", "bad.csv", "-o", "new.mercer"], ["plan", "bad.csv"]):
        result = run(*command, "-q")
        assert result.exit_code == 3
        assert len(result.stderr.strip().splitlines()) == 1
        assert result.stdout == ""
    assert not (folder / "new.mercer").exists()


def test_a_damaged_model_is_one_line_and_exit_code_3():
    good(*FIT)
    whole = Path("m.mercer").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for content in (whole[:-1], bytes(flipped), b"", b"PK\x03\x04", None):
        if content is None:
            Path("m.mercer").unlink()
        else:
            Path("m.mercer").write_bytes(content)
        for verb in (["info"], ["transform"], ["reconstruct"]):
            result = run(*verb, "m.mercer", *(["data.csv"] if verb != ["info"] else []))
            assert result.exit_code == 3
            assert len(result.stderr.strip().splitlines()) == 1
    assert run("info", ".").exit_code == 3


def test_an_output_that_is_the_model_or_the_data_is_refused():
    good(*FIT)
    for output in ("m.mercer", "data.csv"):
        assert run("transform", "m.mercer", "data.csv", "-o", output).exit_code == 2
    assert run("transform", "m.mercer", "data.csv", "-o", "s.xyz").exit_code == 2
    assert run("transform", "m.mercer", "data.csv", "-o", "no/s.csv").exit_code == 1


@pytest.mark.parametrize("command", [FIT, ["transform", "m.mercer", "data.csv", "-o", "s.csv"]])
def test_a_full_disk_keeps_the_old_file(folder, monkeypatch, command):
    good(*FIT)
    (folder / "s.csv").write_text("old")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mercer._core.atomic.os.fsync", full)
    result = run(*command)
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_interrupt_leaves_the_old_file_and_nothing_else(folder, monkeypatch):
    good(*FIT)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(KernelPCA, "fit", interrupted)
    monkeypatch.setattr(KernelPCA, "transform", interrupted)
    assert run(*FIT).exit_code == 130
    assert run("transform", "m.mercer", "data.csv", "-o", "s.csv").exit_code == 130
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_closed_pipe_is_exit_code_1_without_a_word():
    np.save("long.npy", np.tile(X, (100, 1)))
    good(*FIT, "-k", "3")
    command = [sys.executable, "-m", "mercer", "transform", "m.mercer", "long.npy", "-q"]
    read, write = os.pipe()
    os.close(read)  # as `| head` does once it has seen enough
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == ""


# ── completion and examples ─────────────────────────────────────────────────
def test_columns_are_completed_from_the_head_of_the_file():
    complete = ShellComplete(main, {}, "mercer", "_MERCER_COMPLETE").get_completions
    assert [i.value for i in complete(["fit", "data.csv", "--label"], "g")] == ["group"]
    assert [i.value for i in complete(["fit", "data.csv", "--columns"], "u,")] == [
        f"u,{name}" for name in ("id", "u", "v", "w", "group")
    ]
    assert complete(["fit", "nowhere.csv", "--label"], "") == []


@pytest.mark.parametrize("verb", ["fit", "transform", "reconstruct", "info"])
def test_the_example_of_the_help_works_when_pasted(verb):
    told = run(verb, "--help").stdout
    lines = told.split("Example:")[1].strip().splitlines()
    for line in lines:
        good(*shlex.split(line)[1:])
    assert shlex.split(lines[-1])[1] == verb


# ── options for another model ───────────────────────────────────────────────
def test_a_configured_option_of_another_model_is_left_out_and_said_but_a_flag_is_a_mistake(folder):
    (folder / "mercer.toml").write_text('[fit]\npreimage = "ridge"\n')
    result = good("fit", "data.npy", "--model", "pca")
    assert "left out: --preimage" in result.stderr
    assert run("fit", "data.npy", "--model", "pca", "--preimage", "ridge").exit_code == 2


@pytest.mark.parametrize("model", ["kpca", "pca", "detector", "incremental"])
def test_the_engine_is_an_option_of_every_model(model):
    good(*FIT, "--model", model, "--engine", "numpy")
    assert mercer.load("m.mercer").model.engine == "numpy"
    for verb in (FIT, ["plan", "data.npy"]):
        refused = run(*verb, "--engine", "cuda:x")
        assert refused.exit_code == 2
        assert "engine='cuda:x' names no device" in refused.stderr
        refused = run(*verb, "--engine", "cluster")
        assert refused.exit_code == 2
        assert "'auto', 'native', 'numpy', 'dask', 'cuda', 'mps' or 'torch:cpu'" in refused.stderr


@pytest.mark.parametrize("kind", ["kpca", "detector", "incremental"])
def test_a_kernel_names_columns_of_the_file(kind):
    for columns, path in (("['v', 'w']", "names.mercer"), ("[1, 2]", "places.mercer")):
        kernel = f"rbf(gamma=0.5).on({columns})"
        good(*FIT[:-3], "--model", kind, "--kernel", kernel, "-o", path, "-q")
    one, other = (mercer.load(path) for path in ("names.mercer", "places.mercer"))
    if kind == "detector":
        assert np.array_equal(one.model.score_samples(X), other.model.score_samples(X))
    else:
        assert np.array_equal(one.transform(X), other.transform(X))


def test_a_plan_knows_the_columns_too():
    good(*("plan", "data.csv", "--id", "id", "--label", "group", "--kernel", "rbf().on(['v'])"))
    wrong = run(*FIT, "--kernel", "rbf().on(['z'])")
    assert wrong.exit_code == 3
    assert "Unknown column 'z'" in wrong.stderr
