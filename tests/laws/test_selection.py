"""Choosing: the winner is the one that made the data, a judge's scores are scikit-learn's, symptoms show."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from conftest import frozen
from mercer import PCA, KernelPCA
from mercer.diagnostics import n_components, select, symptoms, widths
from mercer.diagnostics.selection_agreement import overlaps
from mercer.diagnostics.selection_trial import Candidate, Court, tried
from mercer.errors import SelectionWarning
from mercer.kernels import RBF, Chi2, Linear, Matern, Polynomial


def factors(n=240, d=10, k=3, noise=0.3, seed=0):
    """Rows of a linear factor model with k orthogonal factors of equal strength, and noise."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, k)))[0]
    return frozen(2.0 * rng.standard_normal((n, k)) @ axes.T + noise * rng.standard_normal((n, d)))


@pytest.fixture(scope="module")
def circles():
    X, y = make_circles(150, factor=0.3, noise=0.05, random_state=0)
    return frozen(X), frozen(y)


def line_accuracy(model, X, y, X_new, y_new):
    judge = make_pipeline(StandardScaler(), LogisticRegression()).fit(model.transform(X), y)
    return judge.score(model.transform(X_new), y_new)


# ── the winner ──────────────────────────────────────────────────────────────
KERNELS = [Linear(), Polynomial(2, gamma=0.1), RBF(0.005), RBF(0.05), RBF(0.5)]
WIDTHS = ("gamma=0.005", "gamma=0.05", "gamma=0.5")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_linear_factor_model_is_found_linear_with_its_number_of_factors(seed):
    # The rows' own noise is less than what is added: more than three let through what they should not.
    X = factors(150, noise=0.1, seed=seed)
    found = select(X, KERNELS, n_components=[1, 3, 6], criterion="denoising", refit=False)
    assert isinstance(found.best_kernel_, Linear)
    assert found.n_components_ == 3
    # A kernel so wide that it is nearly linear comes next, a narrow one last.
    errors = {k: found.table_["error"][found.table_["parameters"] == k].min() for k in WIDTHS}
    assert errors["gamma=0.005"] < errors["gamma=0.05"] < errors["gamma=0.5"]


def test_the_linear_error_is_what_pca_of_scikit_learn_gives():
    from sklearn.decomposition import PCA as Theirs

    X, folds = factors(90), KFold(3)
    row = next(
        iter(select(X, "linear", n_components=2, criterion="reconstruction", folds=folds).table_)
    )
    missed, of_mean = [], []
    for train, test in folds.split(X):
        pca = Theirs(2).fit(X[train])
        missed.append(X[test] - pca.inverse_transform(pca.transform(X[test])))
        of_mean.append(X[test] - X[train].mean(axis=0))
    missed, of_mean = np.concatenate(missed), np.concatenate(of_mean)
    assert row["error"] == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-10)
    assert row["error_of_mean"] == pytest.approx(np.sqrt(np.mean(of_mean**2)), rel=1e-12)
    squares = np.sum(missed**2, axis=1) / X.shape[1]
    expected = np.std(squares, ddof=1) / np.sqrt(len(X)) / (2 * row["error"])
    assert row["standard_error"] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("criterion", ["agreement", "denoising"])
def test_on_two_circles_the_winner_separates_what_no_line_does(circles, criterion):
    X, y = circles
    found = mercer.select(X, criterion=criterion)
    X_new, y_new = make_circles(200, factor=0.3, noise=0.05, random_state=1)
    assert LogisticRegression().fit(X, y).score(X_new, y_new) < 0.7
    assert line_accuracy(found.best_, X, y, X_new, y_new) > 0.98
    assert found.best_.n_components_ == found.n_components_
    if criterion == "denoising":
        assert found.table_["error"][0] < found.table_["error_of_mean"][0]


def test_the_variance_that_held_out_points_keep_is_the_squared_length_of_their_scores():
    X, folds = factors(60, d=4), KFold(3)
    found = select(X, [RBF(0.1)], n_components=3, criterion="variance", folds=folds)
    kept = []
    for train, test in folds.split(X):
        model = KernelPCA(3, kernel=RBF(0.1)).fit(X[train])
        kept.append(np.sum(model.transform(X[test]) ** 2, axis=1))
    assert found.table_["captured"][0] == pytest.approx(np.mean(np.concatenate(kept)), rel=1e-8)


def test_variance_is_only_compared_where_points_have_length_one():
    found = select(factors(60, d=4), [Linear(), RBF(), Matern()], criterion="variance")
    failed = found.table_.take(found.table_["kernel"] == "Linear")
    assert all("k(x, x) = 1" in text for text in failed["symptoms"])
    assert found.best_kernel_.__class__ in (RBF, Matern)


# ── a judge ─────────────────────────────────────────────────────────────────
def test_a_judges_scores_are_those_of_cross_val_score(circles):
    X, y = circles
    folds = StratifiedKFold(4, shuffle=True, random_state=7)
    kernels, judge = [RBF(10.0), RBF(1.0), Polynomial(2)], LogisticRegression(C=3.0)
    found = select(X, kernels, n_components=2, y=y, judge=judge, folds=folds, criterion="f1")
    expected = {}
    for kernel in kernels:
        pipeline = make_pipeline(KernelPCA(2, kernel=kernel), judge)
        expected[repr(kernel)] = cross_val_score(pipeline, X, y, cv=folds, scoring="f1")
    assert repr(found.best_kernel_) == max(expected, key=lambda name: expected[name].mean())
    ours = dict(zip(found.table_["parameters"], found.table_["score"], strict=True))
    errors = dict(zip(found.table_["parameters"], found.table_["standard_error"], strict=True))
    for shown, kernel in zip(("gamma=10", "gamma=1"), kernels, strict=False):
        theirs = expected[repr(kernel)]
        assert ours[shown] == pytest.approx(theirs.mean(), abs=1e-12)
        assert errors[shown] == pytest.approx(np.std(theirs, ddof=1) / 2, abs=1e-12)


def test_numbers_are_judged_by_regression():
    X = factors(120, d=4)
    y = X[:, 0] + 0.01 * np.arange(120)
    table = select(X, ["linear", RBF(100.0)], n_components=4, y=y).table_
    assert table["kernel"][0] == "Linear"
    assert table["score"][0] > 0.8  # R²
    own = select(X, ["linear"], n_components=4, y=y, judge=Ridge(), folds=KFold(3)).table_
    pipeline = make_pipeline(KernelPCA(4, kernel="linear"), Ridge())
    assert own["score"][0] == pytest.approx(cross_val_score(pipeline, X, y, cv=KFold(3)).mean())


def test_labels_that_mean_nothing_earn_nothing(circles):
    X, _ = circles
    y = np.random.default_rng(3).integers(0, 2, len(X))
    # A leak from held-out rows would show as a score well above one half.
    assert select(X, [RBF(100.0)], n_components=20, y=y, refit=False).table_["score"][0] < 0.62


# ── manners ─────────────────────────────────────────────────────────────────
def test_the_number_of_jobs_changes_nothing(circles):
    X, _ = circles
    kernels = ["linear", "rbf", RBF(3.0)]
    alone = select(X, kernels, n_components=5, refit=False)
    with joblib.parallel_config("threading"):  # processes take seconds to start
        together = select(X, kernels, n_components=5, refit=False, n_jobs=2)
    for name in alone.table_.columns:
        np.testing.assert_array_equal(alone.table_[name], together.table_[name], err_msg=name)
    assert alone.reasons_ == together.reasons_


def test_processes_give_what_one_gives():
    X = factors(60, d=3, k=2)
    one, two = (select(X, ["rbf", "linear"], n_components=[1, 2], n_jobs=n) for n in (1, 2))
    assert one.reasons_ == two.reasons_
    assert any("more may be better" in reason for reason in two.reasons_)
    np.testing.assert_array_equal(one.table_["shared"], two.table_["shared"])


def test_a_candidate_can_be_sent_to_another_process(circles):
    X, _ = circles
    court = Court(X, list(KFold(3).split(X)), "denoising", 0, noise=0.2)
    here = tried(Candidate(RBF(3.0), 4), court)
    function, candidate, sent = pickle.loads(pickle.dumps((tried, here.candidate, court)))
    there = pickle.loads(pickle.dumps(function(candidate, sent)))
    np.testing.assert_array_equal(there.losses, here.losses)
    assert there.stability == here.stability


def test_the_seed_is_fixed_unless_given(circles):
    X, _ = circles
    tables = [
        select(X, "rbf", n_components=5, refit=False, random_state=seed).table_["shared"][0]
        for seed in (None, None, 1)
    ]
    assert tables[0] == tables[1] != tables[2]


def test_a_sample_is_told_and_the_winner_is_fitted_to_all_rows():
    X = factors(500, d=5)
    found = select(X, ["linear", RBF(0.05)], n_components=2, max_rows=100)
    assert any("100 of 500 rows" in reason for reason in found.reasons_)
    assert "100 of 500 rows" in str(found)
    assert found.best_.fit_.weight == 500
    whole = select(X[:100], ["linear", RBF(0.05)], n_components=2, refit=False)
    assert not any("rows, drawn" in reason for reason in whole.reasons_)
    assert not hasattr(whole.best_, "fit_")


def test_a_candidate_that_fails_is_a_row_with_its_reason():
    found = select(factors(60, d=4), [Chi2(), Linear()], n_components=2)
    assert isinstance(found.best_kernel_, Linear)
    assert found.table_["symptoms"][1].startswith("failed: ")
    assert "histograms" in found.table_["symptoms"][1]
    assert np.isnan(found.table_["shared"][1])
    assert any("Chi2" in reason for reason in found.reasons_)


def test_a_kernel_of_few_dimensions_is_entered_with_as_many_components_as_it_has(circles):
    # (x·y + 1)² of two features has five dimensions beside the constant; linear has two.
    found = select(circles[0], [Polynomial(2), Linear()], n_components=10)
    assert sorted(found.table_["components"]) == [2, 5]
    assert found.best_.n_components_ == found.n_components_  # and no RankWarning


def test_a_path_and_float32_rows_are_taken_as_they_come(tmp_path):
    X = factors(120, d=5).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    there = select(tmp_path / "rows.npy", ["linear", "rbf"], n_components=2)
    here = select(X, ["linear", "rbf"], n_components=2)
    np.testing.assert_allclose(there.table_["shared"], here.table_["shared"], rtol=1e-5)
    assert here.best_.transform(X).dtype == np.float32


def test_progress_goes_to_stderr(circles, capsys):
    select(circles[0], ["linear", "rbf"], n_components=2, refit=False, verbose=1)
    said = capsys.readouterr()
    assert "2 of 2 candidates" in said.err
    assert said.out == ""


def test_a_winner_that_sees_nothing_is_told():
    X = np.random.default_rng(0).standard_normal((90, 3))
    with pytest.warns(SelectionWarning, match="nearly the identity"):
        found = select(X, [RBF(1e6), RBF(1e7)], n_components=2, refit=False)
    assert "identity" in found.table_["symptoms"][0]


def test_a_score_that_is_no_number_never_wins(circles):
    X, y = circles

    def scoring(pipeline, *_):
        return np.nan if isinstance(pipeline[0].kernel, RBF) else 0.5

    found = select(
        X, [RBF(), Linear(), RBF(2.0)], n_components=2, y=y, criterion=scoring, refit=False
    )
    assert isinstance(found.best_kernel_, Linear)
    assert list(found.table_["symptoms"][1:]) == ["failed: its score is not a number"] * 2


def test_a_winner_that_all_rows_are_too_much_for_is_still_told(circles):
    kept = ["linear", RBF(3.0)]
    X = np.tile(circles[0], (60, 1))  # 9000 rows
    with pytest.warns(SelectionWarning, match="`best_` is not fitted"):
        found = select(X, kept[1:], n_components=2, max_rows=60, memory="1MB")
    assert not hasattr(found.best_, "fit_")
    assert "not fitted" in found.reasons_[-1]
    assert len(found.table_) == 1
    low = select(X, kept[1:], n_components=2, max_rows=60, approximation="rpcholesky")
    assert low.best_.fit_.is_low_rank


def test_candidates_that_the_rank_makes_one_are_one_row():
    X = np.repeat(factors(4, d=3), 20, axis=0)  # four points have three components
    found = select(X, ["rbf"], n_components=[2, 5, 10], noise=0.01, refit=False)
    assert sorted(found.table_["components"]) == [2, 3]
    assert found.n_components_ == 3
    assert not any("more may be better" in reason for reason in found.reasons_)
    ladder = n_components(X, "rbf", method="cross-validation")
    assert list(ladder.curve["components"]) == [1, 2, 3]
    assert "more may be better" not in str(ladder)


def test_the_rows_that_a_way_back_learns_from_are_told():
    X = factors(700, d=3, k=2)
    options = {"n_components": 2, "criterion": "denoising", "refit": False}
    told = select(X, [RBF(0.1)], **options).reasons_
    assert any("learned from 400 of the 467 rows" in reason for reason in told)
    told = select(X[:300], [RBF(0.1)], **options).reasons_
    assert not any("learned from" in reason for reason in told)


def test_what_a_judge_finds_good_has_no_warning(circles, recwarn):
    X, y = circles
    found = select(X, [RBF(1e5)], n_components=2, y=y, refit=False)
    assert "identity" in found.table_["symptoms"][0]
    assert not [w for w in recwarn if issubclass(w.category, SelectionWarning)]


def test_a_kernel_that_breaks_fails_alone():
    def broken(*_):
        msg = "no such rows"
        raise TypeError(msg)

    found = select(factors(60, d=4), [broken, "linear"], n_components=2)
    assert isinstance(found.best_kernel_, Linear)
    assert "no such rows" in found.table_["symptoms"][1]


@pytest.mark.filterwarnings("error")
def test_one_row_that_is_held_out_is_enough_to_compare():
    X = factors(30, d=4)
    folds = [(np.arange(29), np.array([29]))]
    options = {"n_components": 2, "folds": folds, "refit": False}
    table = select(X, ["linear", RBF(0.1)], criterion="denoising", **options).table_
    assert np.all(np.isfinite(table["error"]))
    assert np.all(np.isnan(table["standard_error"]))


# ── stability ───────────────────────────────────────────────────────────────
def affinity(a, b):
    return float(np.mean(overlaps(a, b)))


def test_affinity_is_one_for_one_space_and_nothing_for_chance(rng):
    a = rng.standard_normal((400, 5))
    turned = 3.0 * a @ rng.standard_normal((5, 5)) + 7.0
    assert affinity(a, turned) == pytest.approx(1.0, abs=1e-12)
    assert affinity(a, rng.standard_normal((400, 5))) < 0.02
    centred = a - a.mean(axis=0)
    basis = np.linalg.qr(centred)[0]
    # Three of five axes shared and two at right angles to all: 3/5, less what chance gives.
    other = rng.standard_normal((400, 2))
    other -= other.mean(axis=0)
    other -= basis @ (basis.T @ other)
    chance = 5 / 399
    shared = affinity(a, np.column_stack([basis[:, :3], other]))
    assert shared == pytest.approx((0.6 - chance) / (1 - chance), abs=1e-10)


def test_strong_factors_are_stable_and_noise_is_not():
    table = select(factors(300), [Linear(), RBF(50.0)], n_components=3, refit=False).table_
    stability = dict(zip(table["kernel"], table["stability"], strict=True))
    assert stability["Linear"] > 0.95
    assert stability["RBF"] < 0.5


# ── number of components ────────────────────────────────────────────────────
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("strengths", ["equal", "falling"])
def test_parallel_analysis_finds_the_planted_components(k, strengths):
    rng = np.random.default_rng(k)
    axes = np.linalg.qr(rng.standard_normal((15, k)))[0]
    size = np.full(k, 4.0) if strengths == "equal" else 8.0 * 0.6 ** np.arange(k)
    X = (rng.standard_normal((300, k)) * size) @ axes.T + 0.5 * rng.standard_normal((300, 15))
    found = n_components(X, "linear", method="permutation")
    assert int(found) == k
    curve = found.curve
    assert np.all(curve["eigenvalue"][:k] > curve["chance"][:k])
    assert curve["eigenvalue"][k] <= curve["chance"][k]
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose(curve["eigenvalue"], values, rtol=1e-10)


def test_parallel_analysis_finds_nothing_in_columns_that_have_nothing_to_do_with_each_other():
    X = np.random.default_rng(0).standard_normal((200, 6))
    for kernel in ("linear", RBF(0.1)):
        assert int(n_components(X, kernel)) == 0


def test_a_gaussian_kernel_sees_more_in_a_ring_than_chance():
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    found = n_components(X, RBF(2.0), repeats=10)
    assert int(found) >= 2  # cos and sin, which shuffling breaks apart
    assert "shuffled" in str(found)


def spectrum_rows(values, n=400):
    """Rows whose centred scatter has exactly these eigenvalues."""
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((n, len(values)))
    return np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(values)


VALUES = np.array([10.0, 9.0, 8.0, 1.0, 0.8, 0.7, 0.5])


def test_gap_and_variance_on_known_spectra():
    X = spectrum_rows(VALUES)
    assert int(n_components(X, "linear", method="gap")) == 3
    held = np.cumsum(VALUES) / VALUES.sum()
    for share in (0.3, 0.5, 0.9, 0.95, 1.0):
        expected = int(np.argmax(held >= share - 1e-12)) + 1
        assert int(n_components(X, "linear", method="variance", share=share)) == expected
    # Exactly: held[2] is the third share itself.
    assert int(n_components(X, "linear", method="variance", share=held[2])) == 3
    # A rank below the number of columns is a gap of its own.
    flat = np.column_stack([spectrum_rows(VALUES[:3]), np.zeros((400, 4))])
    assert int(n_components(flat, "linear", method="gap")) == 3


@pytest.mark.parametrize("method", ["gap", "variance"])
@pytest.mark.parametrize("kind", [PCA, KernelPCA])
def test_a_model_gives_what_its_rows_give(kind, method):
    X = spectrum_rows(VALUES)
    model = kind(None) if kind is PCA else kind(None, kernel="linear")
    assert int(n_components(model.fit(X), method=method)) == int(
        n_components(X, "linear", method=method)
    )


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_far_from_the_origin_the_spectrum_is_the_same(offset):
    X = np.random.default_rng(0).standard_normal((80, 3)) * [4.0, 2.0, 0.1] + offset
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    found = n_components(X, "linear", method="gap")
    assert int(found) == 2
    np.testing.assert_allclose(found.curve["eigenvalue"], values, rtol=1e-6)
    assert int(n_components(X, "linear", method="variance", share=0.9999)) == 3


def test_a_sample_of_a_path_is_told(tmp_path):
    np.save(tmp_path / "rows.npy", factors(300, d=4))
    found = n_components(tmp_path / "rows.npy", "linear", method="gap", max_rows=100)
    assert "100 of 300 rows" in str(found)


def test_a_number_of_components_that_was_found_can_be_asked_for():
    X = factors(90, d=5)
    found = n_components(X, "linear")
    assert int(found) == 3
    assert select(X, "linear", n_components=found, refit=False).n_components_ == 3


def test_a_model_with_too_few_components_says_so():
    model = PCA(2).fit(spectrum_rows(VALUES))
    found = n_components(model, method="variance", share=0.95)
    assert int(found) == 2
    assert "more components" in str(found)


def test_held_out_rows_find_the_number_of_factors():
    found = n_components(factors(300, d=12, k=4), "linear", method="cross-validation")
    assert int(found) in (3, 5)  # the steps of the ladder around 4
    errors = found.curve["error"]
    assert errors[0] > errors.min()
    assert errors[-1] > errors.min()  # all components let all noise through
    assert np.all(np.diff(found.curve["error_without_noise"]) < 0)  # which this one can't see


# ── symptoms ────────────────────────────────────────────────────────────────
def names(kernel, X):
    return {symptom.name for symptom in symptoms(kernel, X)}


def test_symptoms_at_both_ends_of_the_width(cloud):
    narrow = {s.name: s for s in symptoms(RBF(1e6), cloud)}
    assert set(narrow) == {"nearly the identity", "all eigenvalues alike"}
    assert narrow["nearly the identity"].value < 1e-10
    assert "Lower `gamma`" in str(narrow["nearly the identity"])
    wide = symptoms(RBF(1e-9), cloud)
    assert [s.name for s in wide] == ["nearly constant"]
    assert "Raise `gamma`" in str(wide[0])
    # tr(HKH)/tr K to first order: 2γ times the mean squared distance from the mean.
    expected = 2e-9 * np.sum(np.var(cloud, axis=0))
    assert wide[0].value == pytest.approx(expected, rel=1e-3)
    assert not symptoms(RBF(), cloud)


def test_each_kernel_is_told_its_own_knob(cloud):
    assert "Raise `length_scale`" in str(symptoms(Matern(length_scale=1e-6), cloud)[0])
    assert "Lower `length_scale`" in str(symptoms(Matern(length_scale=1e6), cloud)[0])
    assert "Centre the columns" in str(symptoms(Polynomial(2), cloud + 1e3)[0])


def test_clusters_far_apart_are_no_points_alone(rng):
    X = np.repeat(1e3 * np.arange(6.0)[:, None], 20, axis=0) + 0.1 * rng.standard_normal((120, 1))
    assert "nearly the identity" not in names(RBF(1.0), X)


@pytest.mark.filterwarnings("error")
def test_scale_is_no_symptom(cloud):
    assert not symptoms("linear", np.zeros((9, 2)))
    here = {s.name: s.value for s in symptoms("linear", cloud)}
    for scale in (1e-100, 1e100):
        there = {s.name: s.value for s in symptoms("linear", scale * cloud)}
        assert there == pytest.approx(here)


def test_alike_columns_rank_nothing(rng):
    assert "all eigenvalues alike" in names("linear", rng.standard_normal((500, 5)))
    assert not names("linear", rng.standard_normal((500, 5)) * [4.0, 2.0, 1.0, 0.5, 0.2])


# ── widths ──────────────────────────────────────────────────────────────────
def test_widths_are_their_definitions(cloud):
    from scipy.spatial.distance import pdist, squareform

    table = {row["rule"]: row for row in widths(cloud)}
    distances = squareform(pdist(cloud))
    assert table["median"]["sigma"] == pytest.approx(np.median(pdist(cloud)))
    seventh = np.sort(distances, axis=1)[:, 7]  # place 0 is the row itself
    assert table["neighbours"]["sigma"] == pytest.approx(np.median(seventh))
    assert table["variance"]["gamma"] == pytest.approx(1 / (cloud.shape[1] * cloud.var()))
    for row in table.values():
        assert row["gamma"] == pytest.approx(0.5 / row["sigma"] ** 2)

    def leading(gamma):
        return KernelPCA(5, kernel=RBF(gamma)).fit(cloud).eigenvalues_.sum()

    best = table["eigenvalues"]["gamma"]
    assert leading(best) > max(leading(best / 2), leading(best * 2))


@pytest.mark.parametrize("criterion", ["agreement", "denoising"])
@pytest.mark.parametrize("unit", [1e-150, 1e-90, 1e90, 1e140])
def test_the_winner_does_not_depend_on_the_unit(unit, criterion, rng):
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 4)) + 0.1 * rng.normal(size=(60, 4))
    plain, other = (
        mercer.select(u * x, ["linear", "rbf"], folds=3, criterion=criterion) for u in (1.0, unit)
    )
    assert type(other.best_kernel_) is type(plain.best_kernel_)
    figure, scale = ("shared", 1.0) if criterion == "agreement" else ("error", unit)
    for column in (figure, "standard_error"):
        np.testing.assert_allclose(other.table_[column] / scale, plain.table_[column], rtol=1e-3)
