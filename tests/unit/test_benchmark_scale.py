"""The instruments of the benchmark of what lies past memory, and a toy measurement with each."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial.distance import cdist
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem

# The benchmark is not packaged: it is found from the repository's root, for these imports only.
ROOT = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, ROOT)
try:
    command = import_module("benchmarks.scale.__main__")
    accuracy = import_module("benchmarks.accuracy")
    case_module = import_module("benchmarks.scale.case")
    child = import_module("benchmarks.scale.child")
    data = import_module("benchmarks.scale.data")
    entrants = import_module("benchmarks.scale.entrants")
    product = import_module("benchmarks.scale.tasks.product")
    questions = import_module("benchmarks.scale.questions")
    report = import_module("benchmarks.scale.report")
    ruler = import_module("benchmarks.scale.ruler")
    runner = import_module("benchmarks.scale.runner")
finally:
    sys.path.remove(ROOT)

Case, Job, Options, Setting = (
    case_module.Case,
    case_module.Job,
    case_module.Options,
    case_module.Setting,
)
GAMMA = 0.11
TILE = accuracy.rbf_tile(GAMMA)


@pytest.fixture
def x():
    return np.random.default_rng(5).standard_normal((300, 4)) + 3.0


def kernel_matrix(x, y=None):
    return np.exp(-GAMMA * cdist(x, x if y is None else y, "sqeuclidean"))


# ── the ruler ───────────────────────────────────────────────────────────────
def test_residual_is_the_dense_one_when_all_rows_are_sampled(x):
    h = np.eye(300) - 1.0 / 300
    rng = np.random.default_rng(6)
    u = h @ rng.standard_normal((300, 3))
    values = np.array([9.0, 5.0, 1.0])
    error = h @ kernel_matrix(x) @ u - u * values
    expected = np.linalg.norm(error, axis=0).max() / 9.0
    assert ruler.residual(TILE, x, values, u) == pytest.approx(expected, rel=1e-10)


def test_sampled_residual_is_near_the_whole_one(x, monkeypatch):
    model = KernelPCA(3, kernel="rbf", gamma=GAMMA, eigen_solver="dense").fit(x)
    assert ruler.residual(TILE, x, model.eigenvalues_, model.eigenvectors_) < 1e-13
    wrong = model.eigenvectors_ + 1e-3 * np.random.default_rng(0).standard_normal((300, 3))
    whole = ruler.residual(TILE, x, model.eigenvalues_, wrong)
    monkeypatch.setattr(ruler, "RESIDUAL_ROWS", 200)
    assert ruler.residual(TILE, x, model.eigenvalues_, wrong) == pytest.approx(whole, rel=0.2)


def test_trace_and_frobenius_error_are_those_of_nystroem(x):
    nystroem = Nystroem(kernel="rbf", gamma=GAMMA, n_components=20, random_state=0).fit(x)
    f, k = nystroem.transform(x), kernel_matrix(x)
    features = ruler.landmark_features(TILE, nystroem.components_)
    left_out = np.trace(k - f @ f.T) / 300
    frobenius = np.linalg.norm(k - f @ f.T) / np.linalg.norm(k)
    assert ruler.left_out(features, x, block=70) == pytest.approx(left_out, rel=1e-6)
    assert ruler.frobenius(TILE, features, x) == pytest.approx(frobenius, rel=1e-6)


def test_all_rows_as_landmarks_leave_nothing_out(x):
    features = ruler.landmark_features(TILE, x)
    assert abs(ruler.left_out(features, x)) < 1e-9
    assert ruler.frobenius(TILE, features, x) < 1e-9


# ── arithmetic ──────────────────────────────────────────────────────────────
def test_bound_is_flops_and_exponentials_twice_over_the_threads():
    # 8 entries of 2·5 + 4·2 flops: 144 flops, at 72 a second 2 s; 8 exponentials of half a second 4 s.
    bound = product.bound_seconds(4, 3, 2, peak_flops=72.0, exp_seconds=0.5, n_threads=3)
    assert bound == pytest.approx(2.0 * (2.0 + 4.0) / 3.0)


def test_exponent_is_that_of_the_upper_half():
    sizes = [1000, 100, 200, 400]
    costs = [1000.0**2, 7.0, 7.0, 400.0**2]
    assert report.exponent(sizes, costs) == pytest.approx(2.0)
    assert report.exponent([100, 200], [1.0, 8.0]) == pytest.approx(3.0)
    assert report.exponent([100], [1.0]) is None


def test_eigenvalue_difference_is_relative_to_each():
    mnist = questions.QUESTIONS["mnist"]
    assert mnist.eigenvalue_difference([4.0, 1.1], [4.0, 1.0]) == pytest.approx(0.1)


# ── what is run, and what is not ────────────────────────────────────────────
def row(who, n, seconds, peak=10**9):
    case = Case("gaussian", n, 50, 20, "float64")
    return {
        "who": who,
        "case": case.as_dict(),
        "status": "measured",
        "seconds": seconds,
        "seconds_min": seconds,
        "peak_bytes": peak,
    }


@pytest.mark.parametrize(
    ("seconds", "memory_bytes", "limited", "reason"),
    [
        (1.0, 2**63, True, None),
        (100.0, 2**63, True, "over the limit of 300 s"),
        (1.0, 4 * 10**9, True, "about 4 GB of 4"),
        (100.0, 10**9, False, None),
    ],
    ids=["fits", "too slow", "too large", "not limited"],
)
def test_a_limited_job_is_skipped_for_time_and_for_memory(seconds, memory_bytes, limited, reason):
    job = Job(Case("gaussian", 2000, 50, 20, "float64"), entrants.ARPACK, limited=limited)
    setting = Setting(memory_bytes=memory_bytes)
    rows = [row(entrants.ARPACK, 1000, seconds)]
    found = runner.reason_to_skip(job, rows, setting)
    assert found is None if reason is None else reason in found


def test_without_real_data_their_lines_are_left_out_and_it_is_said(tmp_path):
    wanted = dict.fromkeys(name for q in questions.QUESTIONS.values() for name in q.DATASETS)
    assert len(report.missing_data(wanted, None)) == len(data.FILES)
    (tmp_path / data.FILES["mnist"]).touch()
    said = "\n".join(report.missing_data(wanted, str(tmp_path)))
    assert "letters" in said
    assert "mnist" not in said
    for quick in (True, False):
        setting = Setting(quick=quick)
        asked = {j.case.dataset for q in questions.QUESTIONS.values() for j in q.jobs(setting)}
        assert not asked & set(data.FILES)


@pytest.mark.parametrize("name", questions.QUESTIONS)
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "whole"])
def test_every_job_of_a_question_is_another(name, quick, tmp_path):
    for file in data.FILES.values():
        (tmp_path / file).touch()
    jobs = questions.QUESTIONS[name].jobs(Setting(quick=quick, folder=str(tmp_path)))
    assert len({(job.name, job.who, job.task) for job in jobs}) == len(jobs) > 0


# ── the data ────────────────────────────────────────────────────────────────
def test_uniform_landmarks_miss_rare_clusters_and_rpcholesky_does_not():
    case = Case(data.RARE, 20_000, 10, 5)
    x = data.load(case)
    assert np.array_equal(x, data.load(case))
    gamma = data.width(case, x)
    options = Options(rank=100)
    uniform, pivoted = (
        entrants.ENTRANTS[who](case, gamma, options).fit(x).fit_.trace_error
        for who in (entrants.NYSTROM, entrants.RPCHOLESKY)
    )
    assert uniform >= 10 * pivoted


def test_real_rows_are_scaled_and_the_same_in_every_process(tmp_path):
    raw = np.random.default_rng(0).integers(0, 256, (50, 2, 3)).astype(np.uint8)
    np.savez(tmp_path / data.FILES["mnist"], X_train=raw)
    np.savez(tmp_path / data.FILES["letters"], X=100.0 * raw.reshape(50, 6) + 3.0)
    grey = data.load(Case("mnist", 20, 6, 2, "float64"), str(tmp_path))
    assert {tuple(r) for r in 255 * grey} <= {tuple(r) for r in raw.reshape(50, 6).astype(float)}
    letters = data.load(Case("letters", 50, 6, 2, "float64"), str(tmp_path))
    assert np.allclose(letters.mean(axis=0), 0)
    assert np.allclose(letters.std(axis=0), 1)
    with pytest.raises(ValueError, match="needs data of shape"):
        data.load(Case("letters", 51, 6, 2, "float64"), str(tmp_path))


# ── toy measurements ────────────────────────────────────────────────────────
def measure(job):
    told = {
        "case": job.case.as_dict(),
        "who": job.who,
        "task": job.task,
        "options": job.options.as_dict(),
        "folder": None,
        "repeat": 1,
    }
    return json.loads(json.dumps(child.measure(json.loads(json.dumps(told)))))


SMALL = Case("decaying", 700, 5, 3, "float64")


@pytest.mark.parametrize("who", entrants.ENTRANTS)
def test_every_entrant_is_measured(who):
    held = case_module.NOTHING_HELD if who == entrants.EXACT_UNHELD else "auto"
    exact = who in (entrants.EXACT, entrants.EXACT_UNHELD, *entrants.HOLDS_MATRIX)
    rank = None if exact else 40
    found = measure(Job(SMALL, who, options=Options(memory=held, rank=rank)))
    assert found["seconds"] > 0
    assert len(found["eigenvalues"]) == 3
    if exact:
        assert found["residual"] < (0.1 if who == entrants.RANDOMIZED else 1e-6)
    else:
        assert 0 < found["frobenius"] < 0.5
    if found.get("told_left_out"):
        assert found["told_left_out"] == pytest.approx(found["left_out"], rel=1e-6)
    if who == entrants.EXACT_UNHELD:
        assert found["held"] == 0


@pytest.mark.parametrize(
    ("memory", "status"), [("auto", "measured"), (1000, "refused")], ids=["enough", "too little"]
)
def test_a_process_of_its_own_measures_or_says_why_not(memory, status):
    job = Job(SMALL, entrants.EXACT, options=Options(memory=memory))
    (row,) = runner.run_jobs("exact", [job], Setting(repeat=1))
    assert row["status"] == status
    assert ("seconds" in row) is (status == "measured")
    assert row.get("remark", "").startswith("mercer._core.errors") is (status == "refused")


def test_a_product_is_measured_against_its_bound(monkeypatch):
    monkeypatch.setattr(product, "AT_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(product, "SQUARE", 64)
    found = measure(Job(SMALL, "mercer, one product", task="product"))
    speeds = {key: found[key] for key in ("peak_flops", "exp_seconds", "n_threads")}
    assert found["bound"] == product.bound_seconds(700, 5, found["columns"], **speeds)
    x = np.random.default_rng(0).standard_normal((600, 3))
    one = product.a_product(x, GAMMA, 2)
    assert np.allclose(one.gram.matmat(one.v), kernel_matrix(x) @ one.v)


def test_errors_are_told_for_each_method_rank_and_seed():
    options = Options(ranks=(20, 40), n_seeds=2)
    case = Case("decaying", 400, 5, 3)
    job = Job(case, "all methods", task="errors", options=options)
    found = measure(job)["errors"]
    error = questions.QUESTIONS["error"]
    assert len(found) == len(error.METHODS) * 2 * 2
    rows = [{"name": "toy", "options": options.as_dict(), "errors": found}]
    of = error.medians(rows, "left_out")["toy", 40]
    own = [e["left_out"] for e in found if (e["who"], e["rank"]) == (entrants.NYSTROM, 40)]
    assert of[entrants.NYSTROM] == pytest.approx(np.median(own))
    assert of[entrants.FOURIER] is None


# ── the page ────────────────────────────────────────────────────────────────
MACHINE = {
    "cpu": "a processor",
    "cores": 2,
    "memory_bytes": 16 * 10**9,
    "system": "a system",
    "python": "3",
    "numpy": "2",
    "scipy": "1",
    "scikit-learn": "1",
    "mercer": "0",
    "commit": "abc",
    "blas": ["some"],
    "date": "today",
    "quick": False,
    "questions": list(questions.QUESTIONS),
    "left_out": ["- letters: left out, since it was not there"],
}
NUMBERS = dict.fromkeys(
    ("expected_seconds", "residual", "told_residual", "held", "left_out", "told_left_out"), 0.5
) | {
    "seconds": 2.0,
    "peak_bytes": 10**9,
    "planned_bytes": 2 * 10**9,
    "n_products": 7,
    "expected_products": 8,
    "eigenvalues": [2.0, 1.0],
    "frobenius": 0.25,
    "bound": 4.0,
    "peak_flops": 1e11,
    "exp_seconds": 1e-9,
    "n_threads": 2,
}


def fake(question, job, *, measured):
    result = {"status": "skipped", "remark": "too slow"}
    if measured:
        told = NUMBERS if job.task != "errors" else {"errors": fake_errors(job)}
        result = {"status": "measured", **told}
    label = {"question": question, "task": job.task, "who": job.who, "name": job.name}
    return label | {"case": job.case.as_dict(), "options": job.options.as_dict()} | result


def fake_errors(job):
    methods = questions.QUESTIONS["error"].METHODS
    return [
        {"who": who, "rank": rank, "seed": 0, "left_out": 0.1, "frobenius": 0.2}
        for who in methods
        for rank in job.options.ranks
    ]


@pytest.mark.parametrize("measured", [True, False], ids=["measured", "skipped"])
def test_an_earlier_run_is_told_again_with_every_line(tmp_path, measured):
    for file in data.FILES.values():
        (tmp_path / file).touch()
    setting = Setting(folder=str(tmp_path))
    rows = [
        fake(name, job, measured=measured)
        for name, question in questions.QUESTIONS.items()
        for job in question.jobs(setting)
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"machine": MACHINE, "rows": rows}))
    done = CliRunner().invoke(command.main, ["--report", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    text = path.with_suffix(".md").read_text()
    for question in questions.QUESTIONS.values():
        assert f"## {question.TITLE}" in text
        own = question.section([r for r in rows if questions.QUESTIONS[r["question"]] is question])
        assert own in text
        assert all(cells_agree(table) for table in tables(own))
    assert "letters: left out" in text
    assert ("too slow" in text) is not measured
    pictures = sorted(p.name for p in tmp_path.glob("*.png"))
    assert pictures == ["run-error.png", "run-growth.png", "run-memory.png"]
    assert all(f"({name})" in text for name in pictures)


def tables(text):
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return [[line for line in block if line.startswith("|")] for block in blocks]


def cells_agree(table):
    return len({line.count("|") for line in table}) <= 1


@pytest.mark.parametrize("flag", [["--quick"], ["--only", "memory"]], ids=["quick", "a part"])
def test_the_docs_are_written_from_a_whole_run_only(flag):
    done = CliRunner().invoke(command.main, [*flag, "--update-docs"])
    assert done.exit_code == 2
    assert "needs the whole run" in done.output
