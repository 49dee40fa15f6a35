"""What `select` and its neighbours say to input that will not do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

from mercer import KernelPCA, select, select_detector
from mercer.diagnostics import n_components, symptoms
from mercer.errors import InputError, KernelError
from mercer.kernels import Chi2, Polynomial

X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.arange(40) % 2

CALLS = {
    "no kernels": (lambda: select(X, []), "`kernels` is empty"),
    "unknown kernel": (lambda: select(X, ["rbv"]), "Did you mean 'rbf'"),
    "a number for kernels": (lambda: select(X, 3), "a list of names"),
    "one row": (lambda: select(X[:1]), "X must be at least 2 rows.*got 1 row. Pass more rows"),
    "no row": (lambda: select([]), "X must be at least 2 rows.*got 0 rows"),
    "one row to count components of": (lambda: n_components(X[:1]), "at least 2 rows.*got 1 row"),
    "one row for a detector": (lambda: select_detector(X[:1]), "at least 2 rows.*got 1 row"),
    "two rows": (lambda: select(X[:2], "rbf"), "two of the 2 rows"),
    "many folds": (lambda: select(X, "rbf", folds=21), "from 2 to 20; got 21"),
    "a word for folds": (lambda: select(X, "rbf", folds="three"), "a splitter of scikit-learn"),
    "short y": (lambda: select(X, "rbf", y=Y[:30]), r"each of the 40 rows; got shape \(30,\)"),
    "judge without y": (lambda: select(X, "rbf", judge=LogisticRegression()), "None without y"),
    "a class for a judge": (lambda: select(X, "rbf", y=Y, judge=LogisticRegression), "estimator"),
    "large k": (lambda: select(X, "rbf", n_components=30), "from 1 to 25"),
    "zero k": (lambda: select(X, "rbf", n_components=[2, 0]), "from 1 to 25.*got 0"),
    "a share": (lambda: select(X, "rbf", n_components=0.95), "share of the variance"),
    "no k": (lambda: select(X, "rbf", n_components=[]), r"n_components must be .* got \[\]"),
    "criterion": (lambda: select(X, "rbf", criterion="denoise"), "Did you mean 'denoising'"),
    "criterion and y": (lambda: select(X, "rbf", y=Y, criterion="variance"), "Leave y out"),
    "noise": (lambda: select(X, "rbf", noise=0.0), "share of the spread"),
    "max_rows": (lambda: select(X, "rbf", max_rows=1), "max_rows must be an integer >= 2; got 1"),
    "verbose": (lambda: select(X, "rbf", verbose="yes"), "verbose must be"),
    "sparse": (
        lambda: select(sparse.csr_array(X), "rbf", criterion="denoising"),
        r"X.toarray\(\)",
    ),
    "one row held out": (
        lambda: select(X, "rbf", folds=[(range(39), [39])], n_components=2),
        "a fold holds out 1 row",
    ),
    "short weights": (lambda: select(X, "rbf", sample_weight=[1.0, 2.0]), r"40 numbers.*\(2,\)"),
    "negative weights": (
        lambda: select(X, "rbf", sample_weight=np.full(40, -1.0)),
        "sample_weight must be .*got -1.0 for row 0",
    ),
    "a judge without weights": (
        lambda: select(X, "rbf", y=Y, judge=KNeighborsClassifier(), sample_weight=np.full(40, 0.5)),
        "takes no sample_weight",
    ),
    "NaN": (lambda: select(np.full((9, 2), np.nan), "rbf"), "must be finite; got NaN"),
    "all fail": (lambda: select(X, [Chi2()]), "The only candidate could not be fitted"),
    "precomputed": (lambda: select(X, ["precomputed"]), "has no rows to hold out"),
    "positions in a sample": (
        lambda: select(X, "rbf", folds=[(range(20), range(20, 30))], max_rows=30),
        "Raise `max_rows`, or pass a splitter",
    ),
    "no folds": (lambda: select(X, "rbf", folds=[]), "got 0 item"),
    "positions that are not there": (lambda: select(X, "rbf", folds=[([0, 1], [40])]), "below 40"),
    "groups": (lambda: select(X, "rbf", folds=GroupKFold(3)), "There are no groups here"),
    "several scores": (
        lambda: select(X, "rbf", y=Y, criterion=["accuracy", "f1"]),
        "a scoring of scikit-learn",
    ),
    "unknown score": (lambda: select(X, "rbf", y=Y, criterion="acuracy"), "'accuracy'"),
    "one label": (lambda: select(X, "rbf", y=3), r"got shape \(\)"),
    "NaN in y": (lambda: select(X, "rbf", y=np.where(Y, np.nan, 1.0)), "y contains NaN"),
    "no label": (lambda: select(X, "rbf", y=[None, *Y[1:]]), "y contains NaN"),
    "large numbers": (lambda: select(X * 1e160, "linear"), "Scale the columns"),
    "memory": (lambda: select(X, "rbf", memory="much"), "much"),
    "approximation": (lambda: select(X, "rbf", approximation="nystrem"), "nystrom"),
    "sparse folds": (
        lambda: n_components(sparse.csr_array(X), method="cross-validation"),
        "method='gap'",
    ),
    "method": (lambda: n_components(X, method="gaps"), "Did you mean 'gap'"),
    "share": (lambda: n_components(X, method="variance", share=1.5), "share must be a number in"),
    "repeats": (lambda: n_components(X, repeats=0), "repeats must be an integer >= 1; got 0"),
    "model": (
        lambda: n_components(KernelPCA(2).fit(X), method="permutation"),
        "needs rows; got a fitted model",
    ),
    "matrix": (lambda: n_components(X, "precomputed"), "pass the model"),
    "shuffled sparse": (lambda: n_components(sparse.csr_array(X)), "got a sparse matrix"),
    "chi2 of negatives": (
        lambda: n_components(X, Chi2(), method="cross-validation"),
        "kernel of histograms",
    ),
    "not finite": (
        lambda: n_components((1e20 * X).astype(np.float32), kernel=Polynomial(3)),
        "not finite on these rows",
    ),
    "one point": (lambda: n_components(np.ones((9, 2)), method="gap"), "rows are equal"),
    "symptoms of a matrix": (lambda: symptoms("precomputed", X), "Pass the kernel itself"),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_bad_input_is_told_what_to_do(name):
    call, message = CALLS[name]
    with pytest.raises(InputError, match=message):
        call()


def test_a_misspelt_kernel_is_a_kernel_error():
    with pytest.raises(KernelError):
        select(X, ["linaer"])


def test_defaults_are_cut_to_what_a_fold_can_hold():
    found = select(X[:12], ["linear", "rbf"], refit=False)
    assert max(found.table_["components"]) == 7  # training folds have 8 rows


def test_sparse_rows_can_be_judged():
    found = select(sparse.csr_array(X), ["linear", "rbf"], n_components=2, y=Y)
    assert found.best_.n_components_ == 2
    select(sparse.csr_array(X), ["rbf"], n_components=2, criterion="variance")


def test_sparse_rows_are_compared_as_dense_ones_are():
    tables = [select(x, ["linear", "rbf"], n_components=2).table_ for x in (X, sparse.csr_array(X))]
    for column in ("shared", "stability"):
        np.testing.assert_allclose(tables[1][column], tables[0][column], rtol=1e-6)


def test_the_callers_arrays_stay_as_they_are():
    mine, kernels = X.copy(), ["linear", "rbf"]
    select(mine, kernels, n_components=2, y=Y.copy())
    np.testing.assert_array_equal(mine, X)
    assert kernels == ["linear", "rbf"]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (lambda n: np.ones(n, dtype=int), "All 40 labels in y are 1"),
        (lambda n: np.arange(n) == 3, "All labels in y but 1 are alike"),
        (
            lambda n: [f"row {i}" for i in range(n)],
            "40 classes in 40 rows, none with a row for each of 3",
        ),
    ],
)
def test_labels_that_tell_nothing_apart_are_refused(labels, says, rng):
    with pytest.raises(InputError, match=says):
        select(rng.standard_normal((40, 2)), ["rbf"], y=labels(40), folds=3)


def test_labels_in_the_place_of_kernels_are_seen(rng):
    with pytest.raises(InputError, match=r"second argument .* list of kernels. Pass labels as y=y"):
        select(rng.normal(size=(30, 2)), np.repeat([0, 1], 15))
