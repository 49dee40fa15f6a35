"""Each wrong input gets an error that says what came and what to do, and changes nothing."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mercer
import mercer.sklearn as drop_in
from mercer._core.errors import InputError, KernelError, MemoryBudgetError, ZeroVarianceError
from mercer._core.memory import parse_bytes
from mercer.approximations import Nystrom
from mercer.diagnostics import symptoms
from mercer.kernels import RBF, Polynomial
from mercer.planning.recipe import Tiles, Whole
from mercer.preimage import Ridge


@pytest.fixture
def x(rng):
    return rng.standard_normal((30, 4))


def with_value(x, value, row=7, column=2):
    x = x.copy()
    x[row, column] = value
    return x


def about(error, said):
    """What an error is about, by its attributes; a text is looked for in the message."""
    if isinstance(said, str):
        assert re.search(f"(?s){said}", str(error)), str(error)
    else:
        assert (error.parameter, error.value) == said


FITS = {
    "nan": (lambda x: with_value(x, np.nan), {}, r"NaN.*row 7, column 2.*SimpleImputer"),
    "inf": (lambda x: with_value(x, -np.inf), {}, ("X", -np.inf)),
    "sparse nan": (
        lambda x: sparse.csr_matrix(with_value(x, np.nan)),
        {},
        r"NaN.*row 7, column 2",
    ),
    "text": (
        lambda x: [*x.astype(object).tolist()[:-1], ["a", 1, 2, 3]],
        {},
        r"text, 'a' in row 29, column 0.*encode",
    ),
    "numbers as text": (
        lambda x: x.astype(str),
        {},
        r"text, .* in row 0, column 0.*astype\(float\)",
    ),
    "numbers as bytes": (
        lambda x: x.astype("S"),
        {},
        r"text, '.* in row 0, column 0.*astype\(float\)",
    ),
    "a number as text in a list": (
        lambda x: [*x.tolist()[:-1], [1, "007", 2, 3]],
        {},
        r"text, '007' in row 29, column 1.*astype\(float\)",
    ),
    "a column of numbers as text": (
        lambda x: pd.DataFrame(x, columns=list("abcd")).assign(c="7"),
        {},
        r"text, '7' in row 0, column 2 \('c'\).*astype\(float\)",
    ),
    "empty": (lambda x: x[:0], {}, "0 sample"),
    "no columns": (lambda x: x[:, :0], {}, "0 feature"),
    "one row": (lambda x: x[:1], {}, "1 sample"),
    "1-D": (lambda x: x[0], {}, "Reshape"),
    "3-D": (lambda x: x[None], {}, "dim 3"),
    "complex": (lambda x: x + 1j, {}, "Complex data not supported"),
    "k=0": (None, {"n_components": 0}, r"n_components must be.*1 to 30.*0\.95.*got 0"),
    "k=-1": (None, {"n_components": -1}, "1 to 30"),
    "k=1.5": (None, {"n_components": 1.5}, r"\(0, 1\]"),
    "whiten": (None, {"whiten": "yes"}, "whiten must be True or False; got 'yes'"),
    "k=True": (None, {"n_components": True}, "1 to 30"),
    "k='many'": (None, {"n_components": "many"}, "1 to 30"),
    "k=nan": (None, {"n_components": float("nan")}, "1 to 30"),
    "gamma<0": (None, {"kernel": RBF(-1.0)}, "gamma must be a number > 0"),
    "gamma=0": (None, {"kernel": RBF(0.0)}, "gamma must be a number > 0"),
    "kernel name": (None, {"kernel": "rfb"}, "Did you mean 'rbf'"),
    "kernel type": (None, {"kernel": 5}, "got 5"),
    "solver name": (None, {"solver": "lapac"}, "Did you mean 'lapack'"),
    "solver type": (None, {"solver": 3.0}, "solver must be 'auto', a name or an object"),
    "preimage name": (None, {"preimage": "rigde"}, "Did you mean 'ridge'"),
    "preimage knob": (None, {"preimage": Ridge(alpha=-1)}, "alpha must be a number > 0"),
    "memory word": (None, {"memory": "lots"}, "'4GB'"),
    "memory sign": (None, {"memory": -5}, "positive size"),
    "seed": (None, {"random_state": -1}, "random_state"),
    "function shape": (None, {"kernel": lambda x, y: x + y}, "must return one number"),
    "function nan": (None, {"kernel": lambda x, y: np.nan}, "finite value"),  # noqa: ARG005
    "function asymmetric": (
        None,
        {"kernel": lambda x, y: float(x[0] - y[0])},
        r"not symmetric: k\(x, y\)",
    ),
    "not square": (None, {"kernel": "precomputed"}, ("X", (30, 4))),
    "asymmetric matrix": (
        lambda x: x[:4] + 5.0 * np.triu(np.ones((4, 4))),
        {"kernel": "precomputed"},
        r"symmetric.*got K\[",
    ),
    "sparse matrix": (
        lambda x: sparse.csr_matrix(np.eye(len(x))),
        {"kernel": "precomputed"},
        "dense",
    ),
    "no way back": (
        lambda x: x @ x.T,
        {"kernel": "precomputed", "preimage": "ridge"},
        "precomputed",
    ),
    "constant": (lambda x: np.full_like(x, 0.1), {"kernel": RBF(1.0)}, "zero variance"),
    "constant, linear": (lambda x: np.full_like(x, 0.1), {"kernel": "linear"}, "zero variance"),
    "constant, median": (lambda x: np.full_like(x, 1e3), {}, "zero variance"),
    "overflow": (lambda x: 1e200 * x, {"kernel": Polynomial(3)}, "overflows"),
    "overflow, dual": (
        lambda x: 1e200 * x,
        {"kernel": lambda x, y: (x @ y.T + 1.0) ** 3},
        "finite value",
    ),
    "fractional degree": (None, {"kernel": Polynomial(2.5)}, "integer degree"),
    "negative histogram": (None, {"kernel": "chi2"}, "histograms"),
}


@pytest.mark.parametrize("case", sorted(FITS))
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_fit_refuses_and_changes_nothing(case, x):
    spoil, params, says = FITS[case]
    bad = x if spoil is None else spoil(x)
    model = mercer.KernelPCA(**params)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError)) as caught:
        model.fit(bad)
    about(caught.value, says)
    assert not {name for name in vars(model) if name.endswith("_")}
    assert {name: vars(model)[name] for name in before} == before


@pytest.mark.parametrize(
    "case",
    ["nan", "inf", "text", "numbers as text", "empty", "one row", "1-D", "complex", "constant"],
)
def test_pca_refuses_the_same(case, x):
    spoil, _, says = FITS[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        mercer.PCA().fit(spoil(x))
    about(caught.value, says)


def test_float32_rows_whose_squares_overflow_are_told(x):
    with pytest.raises(ValueError, match=r"overflows on these data.*fit in float64"):
        mercer.PCA(2).fit((1e20 * x).astype(np.float32))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("degree", "scale"), [(2, 1e100), (3, 1e100), (200, 1.0)])
def test_powers_that_overflow_are_told_once_and_by_us(degree, scale, x):
    with pytest.raises(ValueError, match="overflows on these data"):
        mercer.KernelPCA(2, kernel=Polynomial(degree, gamma=100.0)).fit(scale * x)


@pytest.mark.parametrize("as_rows", [np.asarray, pd.DataFrame])
def test_kernel_values_against_other_rows_are_no_features(as_rows, x):
    k = x @ x.T
    model = mercer.KernelPCA(2, kernel="precomputed").fit(k)
    says = rf"X has 5 features, .* expecting {len(x)} .* K is k\(X_new, X_train\)"
    with pytest.raises(InputError, match=says):
        model.transform(as_rows(k[:3, :5]))
    assert model.transform(as_rows(k[:3])).shape == (3, 2)
    theirs = drop_in.KernelPCA(2, kernel="precomputed").fit(k)
    with pytest.raises(ValueError, match="X has 5 features"):
        theirs.transform(k[:3, :5])


def test_rows_without_variance_are_equal_or_far_from_the_origin(x):
    with pytest.raises(
        ZeroVarianceError, match=r"^All 20 rows are equal, so there is no component"
    ):
        mercer.KernelPCA(2).fit(np.ones((20, 3)))
    far = 1e-7 * x + 6e7
    products = far @ far.T
    for kernel, rows in (("precomputed", products), (lambda a, b: a @ b.T, far)):
        with pytest.raises(
            ZeroVarianceError, match=r"about 1e\+16 and differ by less .* Centre the col"
        ):
            mercer.KernelPCA(2, kernel=kernel).fit(rows)
    with pytest.raises(ZeroVarianceError, match="has not saturated"):
        mercer.KernelPCA(2, kernel=RBF(1e-20)).fit(x)


def test_the_gap_of_an_asymmetric_matrix_is_told(x):
    k = x @ x.T + 1.0
    k[0, 1] += 3e-9
    with pytest.raises(ValueError, match=r"got K\[0, 1\] = .* K\[1, 0\], which differs by 3e-09"):
        mercer.KernelPCA(2, kernel="precomputed").fit(k)


def test_a_failed_refit_leaves_the_old_fit(x):
    model = mercer.KernelPCA(2, kernel=RBF(1.0)).fit(x)
    before = model.transform(x)
    for bad in (np.ones((9, 4)), np.ones((9, 7))):
        with pytest.raises(ValueError, match="zero variance"):
            model.fit(bad)
        np.testing.assert_array_equal(model.transform(x), before)


def test_a_warning_points_at_the_users_line(x):
    with pytest.warns(mercer.errors.RankWarning) as caught:
        mercer.KernelPCA(9, kernel="linear").fit_transform(x)
    assert caught[0].filename == __file__


def test_a_ridge_that_does_not_fit_is_refused(rng):
    with pytest.raises(
        MemoryBudgetError, match=r"pre-image of 2600 rows needs about \d+ MB.*`max_rows`"
    ):
        mercer.KernelPCA(2, preimage="ridge", memory="100MB").fit(rng.standard_normal((2600, 2)))


def test_transform_refuses(x):
    model = mercer.KernelPCA(2)
    with pytest.raises(NotFittedError):
        model.transform(x)
    model.fit(x)
    with pytest.raises(ValueError, match="X has 3 features, but KernelPCA is expecting 4"):
        model.transform(x[:, :3])
    with pytest.raises(ValueError, match="row 7, column 2"):
        model.transform(with_value(x, np.nan))


def test_the_column_is_named_where_it_has_a_name(x):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(with_value(x, np.nan), columns=list("abcd"))
    with pytest.raises(ValueError, match="column 2 \\('c'\\)"):
        mercer.KernelPCA().fit(frame)
    words = pandas.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(ValueError, match=r"'red' in row 0, column 1 \('colour'\)"):
        mercer.KernelPCA().fit(words)


def test_inverse_transform_refuses(x):
    model = mercer.KernelPCA(2).fit(x)
    with pytest.raises(ValueError, match="preimage='ridge'"):
        model.inverse_transform(model.transform(x))
    model = mercer.KernelPCA(2, preimage="ridge").fit(x)
    with pytest.raises(ValueError, match="2 components") as caught:
        model.inverse_transform(np.zeros((2, 3)))
    about(caught.value, ("X", (2, 3)))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("given", [np.arange(5.0), np.zeros((2, 2, 2)), np.zeros((0, 3))], ids=str)
def test_what_is_no_table_is_told_by_a_stream_too(given, method):
    with pytest.raises(ValueError, match=r"Expected 2D|dim 3|0 sample"):
        getattr(mercer.IncrementalKernelPCA(2), method)(given)


def test_sparse_rows_have_no_way_back(x):
    with pytest.raises(ValueError, match=r"got a sparse matrix. Use X.toarray\(\)"):
        mercer.KernelPCA(preimage="ridge").fit(sparse.csr_matrix(x))


def test_a_budget_that_cannot_hold_the_plan_is_refused_with_the_numbers(rng):
    x = rng.standard_normal((500, 3))
    with pytest.raises(
        MemoryBudgetError, match=r"needs up to 25\.9 MB .*allows 1 MB.*Raise `memory`"
    ):
        mercer.KernelPCA(None, memory="1MB", engine="numpy").fit(x)


def test_a_share_that_needs_all_components_is_refused_when_they_do_not_fit(rng):
    x = rng.standard_normal((3100, 30))
    with pytest.raises(MemoryBudgetError, match=r"99.0% of the variance takes more than"):
        mercer.KernelPCA(0.99, kernel=RBF(0.5), memory="200MB").fit(x)


def test_a_tight_budget_is_met_without_storing_the_matrix(rng):
    x = rng.standard_normal((1500, 3))
    roomy = mercer.KernelPCA(2, kernel=RBF(0.3)).fit(x)
    tight = mercer.KernelPCA(2, kernel=RBF(0.3), memory="20MB").fit(x)
    assert isinstance(roomy.plan_.recipe, Whole)
    assert isinstance(tight.plan_.recipe, Tiles)
    assert tight.plan_.recipe.share < 1.0
    np.testing.assert_allclose(tight.eigenvalues_, roomy.eigenvalues_, rtol=1e-12)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda x: symptoms(x, RBF(1.0)), r"got a kernel, RBF\(gamma=1.0\)\. Check"),
        (lambda x: mercer.select(RBF(1.0), x), ("X", RBF(1.0))),
        (lambda x: mercer.KernelPCA(2, approximation=Nystrom).fit(x), r"Write Nystrom\(...\)"),
        (lambda x: mercer.KernelPCA(2, preimage=Ridge).fit(x), r"Write Ridge\(...\)"),
        (lambda x: mercer.KernelPCA(2, kernel="rbf(gamma=2").fit(x), r"rbf\(gamma=2\n +\^"),
        (
            lambda x: mercer.KernelPCA(2, preimage="ridge").fit(x).inverse_transform([[0, np.nan]]),
            "got NaN, first in row 0, column 1",
        ),
        (lambda x: mercer.KernelPCA(2).fit(x).transform(RBF(1.0)), ("X", RBF(1.0))),
        (lambda x: mercer.KernelPCA(1).fit(pd.Series(x[:, 0])), "2-dimensional container"),
        (
            lambda x: mercer.KernelPCA(1).fit([list(row) for row in x.astype("M8[s]")]),
            ("X", np.dtype("M8[s]")),
        ),
        (lambda x: mercer.KernelPCA(2).fit(np.where(x > 1, np.inf, x)), r"or fill them in\.$"),
    ],
)
def test_a_slip_is_answered_with_what_to_write(ask, says, rng):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (ours are all ValueErrors)
        ask(rng.standard_normal((20, 3)))
    about(caught.value, says)


def test_a_bad_kernel_parameter_by_name_is_answered():
    with pytest.raises(KernelError, match=r"RBF has no parameter 'gama'. Did you mean 'gamma'\?"):
        RBF().set_params(gama=1.0)


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("1.5 MiB", 1572864), ("10", 10), (2e6, 2 * 10**6)]
)
def test_sizes_are_read(text, size):
    assert parse_bytes(text) == size
