"""Choosing without labels: the two witnesses are their definitions, and weight 2 is the row twice."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits, make_circles
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import NearestNeighbors

from conftest import frozen
from mercer import select
from mercer.diagnostics.selection_agreement import CERTAIN, overlaps, standard_error
from mercer.diagnostics.selection_door import merged
from mercer.kernels import RBF, Laplacian, Linear, Polynomial


def factors(n=240, d=10, k=3, noise=0.3, seed=0):
    """Rows of a linear factor model with k orthogonal factors of equal strength, and noise."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, k)))[0]
    return frozen(2.0 * rng.standard_normal((n, k)) @ axes.T + noise * rng.standard_normal((n, d)))


# ── the witnesses ───────────────────────────────────────────────────────────
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize(
    ("kernel", "params"),
    [(RBF(0.05), {"kernel": "rbf", "gamma": 0.05}), (Linear(), {"kernel": "linear"})],
)
def test_what_neighbours_share_is_the_product_of_scores_of_unit_variance(kernel, params, offset):
    X, k, folds = factors(120, d=6), 3, KFold(3)
    table = select(X + offset, [kernel], n_components=k, folds=folds, refit=False).table_
    shared = []
    for train, test in folds.split(X):
        model = Theirs(k, **params).fit(X[train])
        z = model.transform(X[test]) / np.sqrt(model.eigenvalues_ / len(train))
        near = NearestNeighbors(n_neighbors=5).fit(X[test]).kneighbors(return_distance=False)
        shared += [np.mean([z[i] @ z[j] for j in row]) for i, row in enumerate(near)]
    assert table["shared"][0] == pytest.approx(np.mean(shared), rel=1e-6)
    expected = np.std(shared, ddof=1) / np.sqrt(len(X))
    assert table["standard_error"][0] == pytest.approx(expected, rel=1e-6)


def test_rows_share_out_the_squared_cosines_of_the_principal_angles(rng):
    a, b = rng.standard_normal((80, 4)), rng.standard_normal((80, 4))
    centred = (a - a.mean(axis=0), b - b.mean(axis=0))
    chance = 4 / 79
    expected = (np.mean(np.cos(subspace_angles(*centred)) ** 2) - chance) / (1 - chance)
    assert np.mean(overlaps(a, b)) == pytest.approx(expected, abs=1e-12)
    same = np.mean(overlaps(a, a @ rng.standard_normal((4, 4))))
    assert same == pytest.approx(1.0, abs=1e-10)


def test_a_matrix_that_is_held_changes_nothing(monkeypatch):
    held, plain = {}, {}
    for table, most in ((held, 4000), (plain, 0)):
        monkeypatch.setattr("mercer.diagnostics.selection_trial.HELD_ROWS", most)
        found = select(factors(120, d=4), ["rbf", "laplacian"], n_components=3, refit=False)
        table.update({name: found.table_[name] for name in ("shared", "stability")})
    for name, values in held.items():
        np.testing.assert_allclose(values, plain[name], rtol=1e-7, err_msg=name)


def test_a_weight_counts_in_the_overlap_as_rows_repeated(rng):
    a, b = rng.standard_normal((60, 3)), rng.standard_normal((60, 3))
    counts = rng.integers(1, 4, 60)
    twice = np.repeat(np.arange(60), counts)
    chance, chance_twice = 3 / 59, 3 / (len(twice) - 1)
    plain = np.average(overlaps(a, b, counts), weights=counts) * (1 - chance) + chance
    repeated = np.mean(overlaps(a[twice], b[twice])) * (1 - chance_twice) + chance_twice
    assert plain == pytest.approx(repeated, rel=1e-12)


# ── the verdict ─────────────────────────────────────────────────────────────
WIDTHS = 2.0 ** np.arange(-2, 5)  # of the median width


def around_the_median(X):
    median = float(RBF().resolve(X, rng=np.random.default_rng(0)).gamma)
    return [RBF(median / width**2) for width in WIDTHS]


@pytest.mark.filterwarnings("ignore::mercer.errors.SelectionWarning")  # of the plain error
@pytest.mark.parametrize("name", ["digits", "factors", "noise"])
def test_being_nearly_linear_is_no_merit(name):
    X = {
        "digits": lambda: load_digits().data[:240],
        "factors": factors,
        "noise": lambda: np.random.default_rng(0).standard_normal((240, 6)),
    }[name]()
    grid = around_the_median(X)
    found = select(X, grid, n_components=5, refit=False)
    wide = {id(kernel) for kernel in grid[4:]}  # from four medians on
    assert id(found.best_kernel_) not in wide
    plain = select(X, grid, n_components=5, criterion="reconstruction", refit=False)
    assert id(plain.best_kernel_) in wide  # what the plain error takes


def test_what_can_not_be_told_apart_is_said_and_the_median_width_is_kept():
    X = factors(150, d=4)
    median = float(RBF().resolve(X, rng=np.random.default_rng(0)).gamma)
    found = select(X, [Linear(), RBF(0.999 * median), RBF("median")], n_components=3)
    assert found.best_kernel_.gamma == "median"
    assert not found.conclusive_
    assert str(found).startswith("kept  KernelPCA(3, kernel=RBF(gamma='median'))")
    assert any("no criterion can tell" in reason for reason in found.reasons_)
    assert found.table_["verdict"][0] == "reference"
    assert "better" not in found.table_["verdict"]


def test_evidence_with_both_witnesses_is_told():
    # Narrow enough that new rows hardly have scores, but no symptom yet; three factors are linear.
    X = factors(300)
    narrow = Laplacian(0.45)
    found = select(X, [narrow, Linear()], n_components=3)
    assert found.conclusive_
    assert isinstance(found.best_kernel_, Linear)
    row = next(iter(found.table_))
    assert min(row["z_shared"], row["z_stability"]) > CERTAIN
    assert row["verdict"] == "better"
    assert any("beats the reference on both" in reason for reason in found.reasons_)
    assert str(found).startswith("best  ")


def test_one_witness_alone_moves_nothing():
    found = select(make_circles(200, factor=0.3, noise=0.05, random_state=0)[0])
    table = found.table_
    certain = (table["z_shared"] > CERTAIN, table["z_stability"] > CERTAIN)
    assert np.any(certain[0] ^ certain[1])
    np.testing.assert_array_equal(table["verdict"] == "better", certain[0] & certain[1])
    assert not found.conclusive_


def test_the_reference_is_the_nearest_to_the_median_or_the_first():
    X = factors(120, d=4)
    grid = around_the_median(X)

    def kept(kernels):
        verdicts = select(X, kernels, n_components=2, refit=False).table_
        return verdicts["parameters"][verdicts["verdict"] == "reference"][0]

    assert kept([grid[0], grid[3], grid[2]]) == f"gamma={grid[2].gamma:.4g}"  # σ = the median
    far = [Polynomial(2, gamma=0.1), RBF(1e-3 * grid[-1].gamma)]
    assert kept(far).startswith("degree=2")


# ── weights ─────────────────────────────────────────────────────────────────
CRITERIA = ["agreement", "denoising", "reconstruction", "variance"]
SHIFTED = [RBF(0.05), RBF(0.2)]


def assert_alike(one, other):
    for name in one.table_.columns:
        np.testing.assert_array_equal(one.table_[name], other.table_[name], err_msg=name)
    assert one.best_kernel_ is other.best_kernel_
    assert one.conclusive_ == other.conclusive_


@pytest.fixture(scope="module")
def counted():
    X = factors(90, d=5)
    return X, np.random.default_rng(1).integers(0, 4, len(X))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weight_2_is_the_row_twice(criterion, counted):
    X, counts = counted
    weighted = select(X, SHIFTED, n_components=2, criterion=criterion, sample_weight=counts)
    repeated = select(np.repeat(X, counts, axis=0), SHIFTED, n_components=2, criterion=criterion)
    assert_alike(weighted, repeated)
    np.testing.assert_allclose(
        np.abs(weighted.best_.transform(X)), np.abs(repeated.best_.transform(X)), atol=1e-8
    )
    plain = select(X, SHIFTED, n_components=2, criterion=criterion, refit=False)
    figure = [name for name in plain.table_.columns if name != "rank"][3]
    assert np.all(plain.table_[figure] != weighted.table_[figure])  # so they do count


def test_weight_2_is_the_row_twice_for_the_default_candidates(counted):
    X, counts = counted
    one = select(X, n_components=2, sample_weight=counts, refit=False)
    other = select(np.repeat(X, counts, axis=0), n_components=2, refit=False)
    np.testing.assert_array_equal(one.table_["shared"], other.table_["shared"])
    assert repr(one.best_kernel_) == repr(other.best_kernel_)


@pytest.mark.parametrize("judge", [None, LogisticRegression(C=2.0)])
def test_weight_2_is_the_row_twice_for_a_judge(judge, counted):
    X, counts = counted
    y = (X[:, 0] + 0.5 * np.sin(9 * X[:, 1]) > 0).astype(int)
    options = {"n_components": 2, "judge": judge, "refit": False}
    weighted = select(X, SHIFTED, y=y, sample_weight=counts, **options)
    twice = np.repeat(np.arange(len(X)), counts)
    assert_alike(weighted, select(X[twice], SHIFTED, y=y[twice], **options))
    # Weights that are not whole are handed on. Half of each is a penalty twice as strong, here all but none.
    weak = {**options, "judge": LogisticRegression(C=1e6, tol=1e-10, max_iter=5000)}
    whole, half = (
        select(X, SHIFTED, y=y, sample_weight=unit * counts, **weak).table_["score"]
        for unit in (1.0, 0.5)
    )
    np.testing.assert_allclose(half, whole, atol=1e-6)


def test_only_ratios_of_weights_count(counted):
    X, counts = counted
    one, other = (
        select(X, SHIFTED, n_components=2, sample_weight=unit * counts, refit=False).table_
        for unit in (1.0, 0.37)
    )
    for name in ("shared", "standard_error", "stability"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-8)


def test_a_copy_is_never_held_out_from_its_original():
    X = np.repeat(factors(60, d=4), 3, axis=0)
    found = select(X, [RBF(0.5)], n_components=2, refit=False)
    once = select(factors(60, d=4), [RBF(0.5)], n_components=2, refit=False)
    np.testing.assert_allclose(found.table_["shared"], once.table_["shared"], rtol=1e-8)
    assert any("60 rows are distinct" in reason for reason in found.reasons_)


def test_rows_are_merged_in_the_order_of_their_first_appearance():
    x = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 0.0], [0.0, 1.0]])
    y = np.array(["a", "a", "b", "c"])
    for rows in (x, sparse.csr_array(x)):
        own, labels, weights = merged(rows, y, None, least=1)
        np.testing.assert_array_equal(own.toarray() if sparse.issparse(own) else own, x[[0, 2, 3]])
        assert list(labels) == ["a", "b", "c"]  # another label is another row
        assert list(weights) == [2.0, 1.0, 1.0]
    assert merged(x, None, None, least=5)[2] is None


def test_the_standard_error_counts_effective_rows(rng):
    values = rng.standard_normal(40)
    plain = np.std(values, ddof=1) / np.sqrt(40)
    assert standard_error(values) == pytest.approx(plain, rel=1e-12)
    assert standard_error(values, np.full(40, 7.0)) == pytest.approx(plain, rel=1e-12)
    alone = np.where(np.arange(40) == 0, 1e12, 1.0)
    assert standard_error(values, alone) == pytest.approx(0.0, abs=3.0)
    assert standard_error(values[:1]) == 0.0
