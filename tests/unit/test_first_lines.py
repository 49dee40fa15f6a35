"""The first line that a newcomer writes: knobs of other libraries, parts by name, kernels as text."""

import inspect
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import mercer
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.errors import InputError, KernelError, KernelSyntaxError, UnknownParameterError
from mercer.kernels import KERNELS, RBF, Custom, Linear, Polynomial, Sigmoid
from mercer.preimage import Ridge
from mercer.solvers import BlockKrylov, Lapack

ESTIMATORS = (KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector)


@pytest.fixture
def x(rng):
    return rng.standard_normal((40, 3))


def _bound(u, v, a=1.0):
    return a * float(u @ v)


# ── knobs of scikit-learn ────────────────────────────────────────────────────
# What was written, and what the message says to write; texts after "=" are evaluated below.
SKLEARN = [
    ({"kernel": "rbf", "gamma": 10}, "kernel=RBF(gamma=10)"),
    ({"kernel": "rbf", "gamma": 10}, "kernel='rbf(gamma=10)'"),
    ({"gamma": np.float64(0.5)}, "kernel=RBF(gamma=0.5)"),
    ({"gamma": None}, "kernel=RBF(gamma=None)"),
    ({"kernel": "poly", "degree": 2}, "kernel=Polynomial(degree=2, gamma='1/d')"),
    ({"degree": 2, "gamma": 0.5, "coef0": 0}, "kernel=Polynomial(degree=2, gamma=0.5, coef0=0)"),
    ({"kernel": "sigmoid", "gamma": 2, "coef0": 0}, "kernel=Sigmoid(gamma=2, coef0=0)"),
    ({"kernel": RBF(1.0), "gamma": 3}, "kernel=RBF(gamma=3)"),
    ({"kernel": _bound, "kernel_params": {"a": 2}}, "kernel=functools.partial(_bound, a=2)"),
    ({"eigen_solver": "dense"}, "solver='lapack'"),
    ({"eigen_solver": "arpack"}, "solver='krylov'"),
    ({"eigen_solver": "arpack", "tol": 1e-9}, "solver=BlockKrylov(tol=1e-09)"),
    ({"max_iter": 50}, "solver=BlockKrylov(max_products=50)"),
    ({"eigen_solver": "auto", "tol": 0}, "solver='auto'"),
    ({"iterated_power": 4}, "Leave iterated_power out"),
    ({"remove_zero_eig": True}, "Leave remove_zero_eig out"),
    ({"fit_inverse_transform": True}, "preimage='ridge'"),
    ({"fit_inverse_transform": True, "alpha": 0.1}, "preimage=Ridge(alpha=0.1)"),
    ({"fit_inverse_transform": False}, "Leave fit_inverse_transform out"),
    ({"copy_X": False}, "Leave copy_X out: rows are never changed"),
    ({"n_jobs": -1}, "threadpoolctl.threadpool_limits"),
]


@pytest.mark.parametrize(("given", "says"), SKLEARN, ids=[says for _, says in SKLEARN])
def test_a_knob_of_scikit_learn_says_where_it_lives(given, says):
    SklearnKernelPCA(2, **given)  # it is one
    with pytest.raises(TypeError) as caught:
        KernelPCA(2, **given)
    foreign = [name for name in given if name != "kernel"]
    told = str(caught.value)
    assert says in told
    assert all(repr(name) in told for name in foreign)
    assert "mercer.sklearn.KernelPCA takes" in told
    mercer.sklearn.KernelPCA(2, **given)  # as it is


@pytest.mark.filterwarnings("ignore::mercer.errors.IndefiniteKernelWarning")
def test_what_the_message_says_gives_what_scikit_learn_gives(x):
    names = {"RBF": RBF, "Polynomial": Polynomial, "Sigmoid": Sigmoid}
    for given in (
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "poly", "degree": 2},
        {"kernel": "poly", "coef0": 0.5},
        {"kernel": "sigmoid", "gamma": 0.01},
    ):
        with pytest.raises(TypeError) as caught:
            KernelPCA(2, **given)
        written = str(caught.value).partition("kernel=")[2].partition(" of mercer.kernels")[0]
        ours = KernelPCA(2, kernel=eval(written, names)).fit(x)
        theirs = SklearnKernelPCA(2, **given).fit(x)
        np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


WRONG = {
    "misspelt": (lambda: KernelPCA(n_component=3), "Did you mean 'n_components'"),
    "by place": (lambda: KernelPCA(2, "rbf"), "kernel='rbf'"),
    "idle": (lambda: KernelPCA(kernel="rbf", degree=3), "RBF has no degree"),
    "inside": (lambda: KernelPCA(kernel="rbf + linear", gamma=3), "a kernel inside RBF"),
    "rank": (lambda: KernelPCA(rank=50), "approximation=RPCholesky(rank=50)"),
    "svd_solver": (lambda: PCA(svd_solver="full"), "solver='lapack'"),
    "copy": (lambda: PCA(copy=False), "sklearn.decomposition.PCA takes copy=False"),
    "kernel of PCA": (lambda: PCA(kernel="rbf"), "KernelPCA(kernel='rbf')"),
    "stream gamma": (lambda: IncrementalKernelPCA(gamma=2), "kernel=RBF(gamma=2)"),
    "stream rank": (lambda: IncrementalKernelPCA(rank=9), "max_landmarks=9"),
    "stream memory": (lambda: IncrementalKernelPCA(memory="1GB"), "max_landmarks and batch_size"),
    "batchsize": (lambda: IncrementalKernelPCA(batchsize=9), "Did you mean 'batch_size'"),
    "nu": (lambda: KernelPCADetector(nu=0.05), "contamination=0.05"),
    "detector gamma": (lambda: KernelPCADetector(gamma=2), "kernel=RBF(gamma=2)"),
    "detector solver": (lambda: KernelPCADetector(solver="lapack"), "KernelPCA(solver='lapack')"),
    "Nystroem": (lambda: Nystrom(n_components=50), "Nystrom(landmarks=50)"),
    "RBFSampler": (lambda: RandomFourier(n_components=50), "RandomFourier(n_features=50)"),
    "kernel of Nystroem": (lambda: RPCholesky(gamma=2), "KernelPCA(kernel="),
    "RBF": (lambda: RBF(gama=2), "Did you mean 'gamma'"),
    "Ridge": (lambda: Ridge(alfa=2), "Did you mean 'alpha'"),
    "BlockKrylov": (lambda: BlockKrylov(tolerance=1e-3), "Did you mean 'tol'"),
    "fit": (lambda: PCA().fit([[0.0], [1.0]], sample_weights=[1, 2]), "mean 'sample_weight'"),
    "transform": (lambda: KernelPCA().transform([[0.0]], output=None), "Did you mean 'out'"),
    "monitor": (lambda: KernelPCADetector().monitor([[0.0]], tme=[0]), "Did you mean 'time'"),
    "select": (lambda: mercer.select([[0.0], [1.0]], critrion="x"), "Did you mean 'criterion'"),
    "a search": (
        lambda: KernelPCA(kernel="rbf").set_params(gamma=2),
        "set_params and searches take kernel__gamma.",
    ),
    "a search of two": (
        lambda: KernelPCA().set_params(kernel="poly", degree=2, solver="krylov", tol=0.1),
        "set_params and searches take kernel__degree and solver__tol.",
    ),
    "center": (lambda: KernelPCA(center=False), "always centred"),
    "sample_weight": (lambda: KernelPCA(sample_weight=[1]), "`fit` takes it"),
    "a name like none": (lambda: KernelPCA(centering=False), "'centering'. Known names"),
    "cv": (lambda: mercer.select([[0.0], [1.0]], cv=3), "Did you mean 'folds'"),
    "sheet_name": (lambda: mercer.open_table("a.xlsx", sheet_name="A"), "Did you mean 'array'"),
    "sep": (lambda: mercer.open_table("a.csv", sep=";"), "Did you mean 'delimiter'"),
    "check_kernel": (lambda: mercer.check_kernel("rbf", random_stat=0), "'random_state'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_names_that_do_not_exist_are_answered(case):
    ask, says = WRONG[case]
    with pytest.raises(UnknownParameterError) as caught:
        ask()
    assert says in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_set_params_answers_as_the_constructor_does():
    with pytest.raises(ValueError, match=r"kernel=RBF\(gamma=10\)"):
        KernelPCA().set_params(gamma=10)
    with pytest.raises(ValueError, match="Did you mean 'n_components'"):
        PCA().set_params(n_component=3)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_signature_is_what_it_was(kind):
    """No *args, no **kwargs: what scikit-learn, help() and editors look at are the parameters."""
    parameters = inspect.signature(kind).parameters.values()
    assert all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)
    assert next(p.name for p in parameters) == "n_components"
    assert set(kind().get_params(deep=False)) == {p.name for p in parameters}
    model = kind(n_components=3)
    assert clone(model).get_params() == pickle.loads(pickle.dumps(model)).get_params()


def test_a_subclass_may_hand_on_what_it_does_not_know(x):
    class Mine(KernelPCA):
        def __init__(self, **knobs):
            super().__init__(**knobs)

    with pytest.raises(TypeError, match=r"KernelPCA has no parameter 'gamma'.*RBF\(gamma=3\)"):
        Mine(gamma=3)

    class Named(KernelPCA):
        def __init__(self, n_components=2, *, width=1.0):
            super().__init__(n_components, kernel=RBF(sigma=width))
            self.width = width

    with pytest.raises(TypeError, match=r"Named has no parameter 'widht'. Did you mean 'width'"):
        Named(widht=3)
    assert Named(2, width=3.0).fit(x).kernel_.gamma == pytest.approx(1 / 18)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda x: mercer.plots.scores(x, lables=x), "scores has no .* 'lables'. Did you mean"),
        (lambda x: mercer.report.build(KernelPCA(), x, titel=""), "Did you mean 'title'"),
        (lambda x: mercer.onnx.to_onnx(KernelPCA(), X_new=x), "to_onnx has no parameter 'X_new'"),
        (lambda x: RBF(1.0)(x, z=x), "Kernel has no parameter 'z'"),
        (lambda x: KernelPCA().transform(x, owt=x), "Did you mean 'out'"),
        (lambda x: mercer.Prepared(None, None).transform(x, x), "takes 'X' by position"),
    ],
    ids=["plot", "report", "onnx", "kernel", "method", "prepared"],
)
def test_functions_and_methods_tell_wrong_arguments_too(ask, says, x):
    with pytest.raises(UnknownParameterError, match=says):
        ask(x)


# ── parts by name ────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("model", "params", "part"),
    [
        (KernelPCA(kernel="rbf"), {"kernel__gamma": 2}, RBF(2)),
        (KernelPCA(), {"kernel": "poly", "kernel__degree": 2}, Polynomial(2)),
        (KernelPCA(), {"kernel__degree": 2, "kernel": "poly"}, Polynomial(2)),
        (KernelPCA(kernel="rbf(gamma=3)"), {"kernel__gamma": 2}, RBF(2)),
        (KernelPCA(kernel="rbf + linear"), {"kernel__left__gamma": 2}, RBF(2) + Linear()),
        (KernelPCA(solver="krylov"), {"solver__tol": 1e-9}, BlockKrylov(tol=1e-9)),
        (PCA(), {"solver__subset": True, "solver": "lapack"}, Lapack(subset=True)),
        (KernelPCA(preimage="ridge"), {"preimage__alpha": 0.1}, Ridge(alpha=0.1)),
        (KernelPCA(approximation="rpcholesky"), {"approximation__rank": 9}, RPCholesky(rank=9)),
        (IncrementalKernelPCA(), {"kernel__gamma": 2}, RBF(2)),
        (KernelPCADetector(kernel="rbf"), {"kernel__gamma": 2}, RBF(2)),
    ],
)
def test_a_part_that_was_named_becomes_its_object(model, params, part):
    name = next(iter(params)).partition("__")[0]
    pipeline = make_pipeline(clone(model))
    pipeline.set_params(**{f"{type(model).__name__.lower()}__{key}": params[key] for key in params})
    for changed in (clone(model).set_params(**params), pipeline[0]):
        for got in (changed, clone(changed), pickle.loads(pickle.dumps(changed))):
            assert repr(got.get_params(deep=False)[name]) == repr(part)
    assert model.get_params(deep=False)[name] != part  # a clone was changed, not the first


@pytest.mark.parametrize(
    ("model", "params", "says"),
    [
        (
            KernelPCA(),
            {"solver__tol": 1e-3},
            r"solver='auto' is chosen at the fit.*solver='krylov'",
        ),
        (KernelPCADetector(), {"kernel__gamma": 2}, r"kernel='auto' is chosen at the fit"),
        (KernelPCA(kernel="precomputed"), {"kernel__gamma": 2}, "'precomputed' has no parameters"),
        (KernelPCA(kernel="linear"), {"kernel__gamma": 2}, "'linear' has no parameters"),
        (
            KernelPCA(kernel=np.dot),
            {"kernel__gamma": 2},
            "as kernel has no parameters.*kernel='rbf'",
        ),
        (KernelPCA(solver=object()), {"solver__tol": 2}, "solver=<object.*> has no parameters"),
        (KernelPCA(), {"verbose__x": 2}, "verbose=0 has no parameters"),
        (KernelPCA(kernel="rbf + linear"), {"kernel__gamma": 2}, r"Write kernel__left__gamma\."),
        (
            KernelPCA(kernel=RBF() * RBF()),
            {"kernel__gamma": 2},
            "Write kernel__left__gamma or kernel__right__gamma",
        ),
        (KernelPCA(kernel="2 * rbf"), {"kernel__gamma": 2}, r"Write kernel__kernel__gamma\."),
        (KernelPCA(kernel="2 * rbf"), {"kernel__factor__x": 2}, "factor=2.* has no parameters"),
        (KernelPCA(), {"approximation__rank": 2}, r"approximation=None.*'rpcholesky'"),
        (KernelPCADetector(), {"model__kernel": "rbf"}, r"model=None.*model=KernelPCA\(\)"),
        (KernelPCA(), {"memory__x": 2}, "memory__x can't be set"),
        (
            KernelPCA(),
            {"kernel__gama": 2},
            r"Did you mean 'kernel__gamma'\? Its keys are kernel__g",
        ),
        (
            KernelPCA(kernel=RBF()),
            {"kernel__gama": 2},
            "kernel__gama can't be set: RBF has no",
        ),
        (KernelPCA(solver="krylov"), {"solver__tl": 1}, "Did you mean 'solver__tol'"),
        (
            mercer.sklearn.KernelPCA(kernel="rbf"),
            {"kernel__gamma": 2},
            "Write gamma=2; mercer.K",
        ),
    ],
)
def test_a_name_without_an_object_is_refused_in_words(model, params, says):
    before = repr(model)
    with pytest.raises(InputError, match=says):
        model.set_params(**params)
    assert repr(model) == before


def test_a_grid_of_widths_over_a_kernel_given_by_name(x):
    y = np.sign(x[:, 0] ** 2 + x[:, 1] ** 2 - 1.5)
    pipeline = make_pipeline(KernelPCA(5, kernel="rbf"), LogisticRegression())
    grid = {"kernelpca__kernel__gamma": [0.01, 1.0], "kernelpca__kernel": ["rbf"]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(x, y)
    best = search.best_params_["kernelpca__kernel__gamma"]
    assert search.best_estimator_[0].kernel_.gamma == best
    assert pipeline[0].kernel == "rbf"


# ── kernels as text ──────────────────────────────────────────────────────────
TEXT = "rbf(gamma=2) + 0.5*linear"


@pytest.mark.parametrize("kind", [KernelPCA, IncrementalKernelPCA, KernelPCADetector])
def test_a_kernel_may_be_text(kind, x, tmp_path):
    model = kind(2, kernel=TEXT).fit(x)
    twin = kind(2, kernel=RBF(2) + 0.5 * Linear()).fit(x)
    ask = "score_samples" if kind is KernelPCADetector else "transform"
    np.testing.assert_array_equal(getattr(model, ask)(x), getattr(twin, ask)(x))
    # The text stays the parameter; the object is the fitted model's.
    assert model.kernel == TEXT
    assert clone(model).get_params()["kernel"] == TEXT
    assert repr(TEXT) in repr(model)
    fitted = model.model_ if kind is KernelPCADetector else model
    assert repr(fitted.kernel_) == "RBF(gamma=2.0) + 0.5 * Linear()"
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.kernel == TEXT
    np.testing.assert_array_equal(getattr(again, ask)(x), getattr(model, ask)(x))


def test_text_goes_wherever_a_kernel_goes(x):
    assert mercer.check_kernel(TEXT)
    np.testing.assert_array_equal(
        KernelPCA(2, kernel="precomputed()").fit(RBF(1.0)(x)).eigenvalues_,
        KernelPCA(2, kernel="precomputed").fit(RBF(1.0)(x)).eigenvalues_,
    )
    assert KernelPCA(kernel="precomputed()").__sklearn_tags__().input_tags.pairwise


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("rbf(gama=2)", "    ^~~~"),
        ("rbf(gamma=2) + liner", "               ^~~~~"),
        ("rbf(", "    ^"),
    ],
)
def test_a_wrong_text_has_a_caret_under_the_place(x, text, mark):
    with pytest.raises(KernelSyntaxError) as caught:
        KernelPCA(2, kernel=text).fit(x)
    assert str(caught.value).endswith(f"\n  {text}\n  {mark}")


def test_other_parts_may_be_text_as_at_the_command_line(x):
    given = {
        "approximation": "rpcholesky(rank=20)",
        "preimage": "ridge(alpha=1e-3)",
    }
    model = KernelPCA(2, **given).fit(x)
    assert model.plan_.approximation == RPCholesky(rank=20)
    assert model.preimage_.method.alpha == 1e-3
    assert KernelPCA(2, solver="krylov(tol=1e-9)").fit(x).plan_.solver.tol == 1e-9
    with pytest.raises(KernelError, match=r"Did you mean 'rank'"):
        KernelPCA(2, approximation="rpcholesky(rnk=20)").fit(x)


# ── defaults ─────────────────────────────────────────────────────────────────
# The kernels that scikit-learn's KernelPCA knows by name: with the text on the right its numbers.
DEFAULTS = {
    "linear": "linear",
    "cosine": "cosine",
    "sigmoid": "sigmoid",
    "poly": "poly(gamma='1/d')",
    "rbf": "rbf(gamma='1/d')",
}


@pytest.mark.filterwarnings("ignore::mercer.errors.IndefiniteKernelWarning")  # a sigmoid often is
@pytest.mark.parametrize("name", DEFAULTS)
def test_text_that_gives_the_numbers_of_scikit_learn(name, x):
    theirs = SklearnKernelPCA(2, kernel=name).fit(x)
    ours = KernelPCA(2, kernel=DEFAULTS[name]).fit(x)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


def test_a_bound_function_is_a_kernel(x):
    model = KernelPCA(2, kernel=partial(_bound, a=2.0)).fit(x)
    twin = SklearnKernelPCA(2, kernel=_bound, kernel_params={"a": 2.0}).fit(x)
    np.testing.assert_allclose(model.eigenvalues_, twin.eigenvalues_, rtol=1e-10)


def _matrix_product(u, v):
    """Of sparse matrices; to sparse arrays ``*`` is a product of entries, which have another shape."""
    return (u * v.T).toarray()


@pytest.mark.parametrize("given", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix])
def test_a_function_sees_sparse_rows_of_the_kind_that_was_given(given, x):
    """The linear kernel, written for csr_matrix, is the reference: it fails on anything else."""
    rows, exact = given(x), KernelPCA(2, kernel="linear").fit(x)
    for kernel in (_matrix_product, Custom(_matrix_product, form="matrices")):
        for model in (
            KernelPCA(2, kernel=kernel),
            KernelPCA(2, kernel=kernel, approximation="rpcholesky"),
            IncrementalKernelPCA(2, kernel=kernel),
        ):
            model.fit(rows)
            np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
            scores = model.transform(rows)
            np.testing.assert_allclose(np.abs(scores), np.abs(exact.transform(x)), atol=1e-6)
            # What the fit has seen stays, whatever is transformed.
            np.testing.assert_allclose(model.transform(sparse.csr_array(x)), scores, atol=1e-10)
    both = KernelPCA(2, kernel=Custom(_matrix_product) + 0.5 * RBF()).fit(rows)
    twin = KernelPCA(2, kernel=Linear() + 0.5 * RBF()).fit(x)
    np.testing.assert_allclose(both.eigenvalues_, twin.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(Custom(_matrix_product)(rows), x @ x.T, atol=1e-12)
    again = pickle.loads(pickle.dumps(KernelPCA(2, kernel=_matrix_product).fit(rows)))
    np.testing.assert_allclose(np.abs(again.transform(rows)), np.abs(exact.transform(x)), atol=1e-6)


def test_a_function_sees_sparse_arrays_where_those_were_given(x):
    kinds = set()

    def kernel(u, v):
        kinds.add(type(u))
        return (u @ v.T).toarray()

    KernelPCA(2, kernel=kernel).fit(sparse.csc_array(x)).transform(sparse.csr_array(x))
    assert kinds == {sparse.csr_array}


def test_the_defaults_of_every_kernel_are_documented():
    page = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
    for name, kind in KERNELS.items():
        row = next(
            line for line in page.splitlines() if line.startswith("|") and f'`"{name}"`' in line
        )
        assert f"`{kind()!r}`" in row
