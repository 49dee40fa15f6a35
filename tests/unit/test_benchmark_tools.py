"""The benchmark's own instruments: a ruler has to be right before it measures anyone."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.decomposition import KernelPCA

# The benchmark is not packaged: it is found from the repository's root, for these imports only.
ROOT = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, ROOT)
try:
    accuracy = import_module("benchmarks.accuracy")
    case_module = import_module("benchmarks.case")
    cases = import_module("benchmarks.cases")
    competitors = import_module("benchmarks.competitors")
    data = import_module("benchmarks.data")
    memory = import_module("benchmarks.memory")
    report = import_module("benchmarks.report")
    schedule = import_module("benchmarks.schedule")
    turns = import_module("benchmarks.turns")
finally:
    sys.path.remove(ROOT)

Case = case_module.Case
GAMMA = 0.11
THREE_ROWS = 3 * 60 * 8  # block size in bytes for n = 60


@pytest.fixture
def x():
    return np.random.default_rng(5).standard_normal((60, 4)) + 3.0


def kernel_matrix(kernel, x):
    if kernel == "rbf":
        return np.exp(-GAMMA * cdist(x, x, "sqeuclidean"))
    return (GAMMA * (x @ x.T) + 1.0) ** 2


def centred_matrix(kernel, x):
    h = np.eye(len(x)) - 1.0 / len(x)
    return h @ kernel_matrix(kernel, x) @ h


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("block_bytes", [1, THREE_ROWS, 10**9], ids=["row", "rows", "whole"])
def test_residual_is_the_dense_one_for_any_vectors(x, kernel, block_bytes):
    rng = np.random.default_rng(6)
    u = rng.standard_normal((60, 5)) + 1.0  # not centred: H must act on both sides
    values = np.array([9.0, 7.0, 5.0, 2.0, 1.0])
    error = centred_matrix(kernel, x) @ u - u * values
    expected = np.linalg.norm(error, axis=0).max() / 9.0
    tile = accuracy.TILES[kernel](GAMMA)
    found = accuracy.eigen_accuracy(tile, x, values, u, block_bytes=block_bytes)
    assert found.residual == pytest.approx(expected, rel=1e-11)
    assert found.orthogonality == pytest.approx(np.abs(u.T @ u - np.eye(5)).max(), rel=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_scikit_learn_dense_is_right_by_our_ruler(x, kernel):
    model = KernelPCA(5, kernel=kernel, gamma=GAMMA, degree=2, coef0=1, eigen_solver="dense").fit(x)
    tile = accuracy.TILES[kernel](GAMMA)
    found = accuracy.eigen_accuracy(tile, x, model.eigenvalues_, model.eigenvectors_)
    assert found.residual < 1e-13
    assert found.orthogonality < 1e-13


def test_one_eigenvector_given_twice_is_seen(x):
    values, vectors = np.linalg.eigh(centred_matrix("rbf", x))
    twice = [-1, -1]
    found = accuracy.eigen_accuracy(accuracy.rbf_tile(GAMMA), x, values[twice], vectors[:, twice])
    assert found.residual < 1e-13
    assert found.orthogonality == pytest.approx(1.0)


def row(who, seconds, *, n=1000, kernel="rbf", residual=1e-9, eigenvalues=(4.0, 2.0, 1.0)):
    case = Case(kernel, "gaussian", n, 50, 3)
    return {
        "case": case.as_dict(),
        "name": case.name,
        "who": who,
        "status": "measured",
        "seconds": seconds,
        "seconds_min": seconds,
        "peak_bytes": 16 * n**2,
        "residual": residual,
        "eigenvalue_1": eigenvalues[0],
        "eigenvalues": list(eigenvalues),
    }


def absent(who, remark):
    measured = row(who, 1.0)
    kept = {key: measured[key] for key in ("case", "name", "who")}
    return {**kept, "status": "skipped", "remark": remark}


def cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_table_holds_every_row_with_its_ratio_and_memory_share():
    rows = [row("mercer", 0.5), row("sklearn dense", 6.0), absent("sklearn arpack", "too slow")]
    header, _rule, *lines = cells(report.measurements(rows))
    assert {len(line) for line in lines} == {len(header)}
    column = header.index
    assert [line[column("who")] for line in lines] == [r["who"] for r in rows]
    assert [line[column("÷ mercer")] for line in lines] == ["1.00", "12.00", "–"]
    assert [line[column("peak / 8n²")] for line in lines] == ["2.00", "2.00", "–"]
    assert lines[2][column("seconds")] == "skipped"


def test_summary_tells_the_fastest_from_the_fastest_right_one():
    rows = [
        row("mercer", 1.0),
        row("sklearn randomized", 2.0, residual=1e-3),
        row("sklearn arpack", 5.0),
        row("sklearn auto", 20.0),
    ]
    header, _rule, line = cells(report.summary(rows))
    told = dict(zip(header, line, strict=True))
    assert told["fastest scikit-learn"] == "randomized"
    assert told["fastest ÷ mercer"] == "2"
    assert told["fastest right one ÷ mercer"] == "5"
    assert told["default ÷ mercer"] == "20"


def test_eigenvalue_gap_sees_a_leading_pair_that_was_missed():
    right = row("sklearn dense", 1.0, eigenvalues=(4.0, 2.0, 1.0))
    missed = row("mercer", 1.0, eigenvalues=(4.0, 1.0, 0.5))
    wrong = row("sklearn randomized", 1.0, residual=1e-2, eigenvalues=(9.0, 9.0, 9.0))
    group = [right, missed, wrong]
    assert report.eigenvalue_gap(right, group) == 0.0
    assert report.eigenvalue_gap(missed, group) == pytest.approx(0.25)
    assert report.eigenvalue_gap(wrong, [wrong]) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"remark": "stopped after 9 s"}, "stopped after 9 s"),
        ({"warnings": ["did not converge"]}, "warned: did not converge"),
        ({"n_returned": 2}, "returned 2 of 3 components"),
        ({"orthogonality": 1e-2}, "orthonormal only to 1.0e-02"),
        ({"busy_elsewhere": 1.25}, "other processes used 1.2 cores"),
    ],
)
def test_nothing_is_left_out_in_silence(change, sentence):
    assert report.remarks([row("mercer", 1.0)]) == []
    (remark,) = report.remarks([row("mercer", 1.0) | change])
    assert sentence in remark
    assert "rbf gaussian n=1000 d=50 k=3, mercer" in remark


def test_prediction_is_cubic_for_dense_and_made_from_the_same_case_only():
    noisy = row("sklearn dense", 30.0, n=2000) | {"seconds_min": 9.0}
    rows = [row("sklearn dense", 1.0, n=1000), noisy]
    larger = Case("rbf", "gaussian", 4000, 50, 3)
    assert schedule.predicted_seconds(larger, "sklearn dense", rows) == pytest.approx(72.0)
    assert schedule.predicted_seconds(larger, "sklearn arpack", rows) is None
    other = Case("poly", "gaussian", 4000, 50, 3)
    assert schedule.predicted_seconds(other, "sklearn dense", rows) is None


@pytest.mark.parametrize(
    ("n", "k", "twin"),
    [(5000, 20, None), (10_000, 20, "sklearn dense"), (10_000, 2, "sklearn arpack")],
)
def test_only_slow_twins_share_a_run(n, k, twin):
    assert competitors.same_route(Case("rbf", "gaussian", n, 50, k), "sklearn auto") == twin
    assert competitors.same_route(Case("rbf", "gaussian", n, 50, k), "sklearn dense") is None


@pytest.mark.parametrize("dataset", case_module.DATASETS)
def test_data_are_the_same_in_every_process_and_full_rank(dataset):
    case = Case("rbf", dataset, 80, 10, 2)
    x = data.load(case)
    assert np.array_equal(x, data.load(case))
    assert np.linalg.matrix_rank(x - x.mean(axis=0)) == 10
    median = np.median(cdist(x, x)[np.triu_indices(80, k=1)])
    assert data.kernel_gamma(case, x) == pytest.approx(1.0 / (2.0 * median**2))


@pytest.mark.parametrize(
    ("words", "chosen"),
    [("", True), ("n=5000 rbf", True), ("n=500", False), ("rbf poly", False)],
)
def test_a_case_is_chosen_by_whole_words(words, chosen):
    assert Case("rbf", "gaussian", 5000, 50, 20).matches(words) is chosen


def test_grid_has_every_combination_once():
    names = [case.name for case in cases.full(("gaussian", "decaying"), large=False)]
    assert len(names) == len(set(names)) == 1 + 4 * 3 * 3 * 2 * 2


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux keeps this count")
def test_peak_memory_sees_what_was_given_back_and_forgets_what_was_before():
    megabyte = 2**20
    earlier = np.ones(96 * megabyte // 8)
    del earlier
    peak = memory.PeakMemory()
    peak.start()
    during = np.ones(48 * megabyte // 8)
    del during
    # The kernel counts pages in batches, on each core for itself.
    blurred = (os.cpu_count() or 1) * 64 * 4096 + megabyte
    assert 48 * megabyte - blurred <= peak.stop() <= 60 * megabyte


# ── two versions in turns ───────────────────────────────────────────────────
@pytest.mark.parametrize(("n", "left_out"), [(7, 0), (9, 1), (20, 5), (61, 22)])
def test_interval_of_the_median_ratio_is_the_sign_tests(n, left_out):
    """Of n ratios the outer ones go, as many as leave at least 95 %: the tables of the sign test."""
    found = turns.Turns([(1.0, 0)] * n, [(float(i), 0) for i in range(n, 0, -1)])
    assert found.interval == (left_out + 1, n - left_out)


def test_a_version_runs_over_the_tree_it_was_given(tmp_path):
    """Another tree is another code: a package that can do nothing is found out at once."""
    (tmp_path / "mercer").mkdir()
    (tmp_path / "mercer" / "__init__.py").write_text("")
    src = Path(ROOT) / "src"
    found = turns.compare(src, src, "scores 1 against 1000", seconds=0.0, most=7)
    assert len(found.ratios) == 7
    with pytest.raises(Exception, match="ended with 1"):
        turns.Version(tmp_path, "scores 1 against 1000")
