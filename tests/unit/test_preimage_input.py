"""What a way back refuses, and what it tells."""

import numpy as np
import pytest
from scipy import sparse

from conftest import frozen
from mercer import IncrementalKernelPCA, KernelPCA
from mercer.approximations import RandomFourier
from mercer.errors import InputError, MemoryBudgetError, ParameterError, PreimageWarning
from mercer.estimators import kernel_pca
from mercer.kernels import RBF, Cosine, Linear, Polynomial, Sigmoid
from mercer.preimage import PREIMAGES, Distances, Exact, FixedPoint, Gradient, Ridge


@pytest.fixture(scope="module")
def x():
    return frozen(np.random.default_rng(6).standard_normal((80, 3)))


def mine(x, y):
    return (x @ y.T + 1.0) ** 2


UNSUITED = {
    "fixed point of a polynomial": (
        "fixed-point",
        Polynomial(3),
        "decreases.*preimage='gradient' or preimage='ridge'",
    ),
    "fixed point of a difference": ("fixed-point", RBF(1.0) - 0.1 * RBF(0.1), "decreases"),
    "distances of a square": ("distances", Polynomial(2), "tells the distance.*'gradient'"),
    "distances of a function": ("distances", mine, "preimage='ridge'"),
    "gradient of a function": ("gradient", mine, "known derivative.*preimage='ridge'"),
    "exact for a Gaussian": (
        "exact",
        RBF(1.0),
        "odd degree.*preimage='gradient' or preimage='ridge'",
    ),
    "exact for a square": ("exact", Polynomial(2), "odd degree"),
    "gradient of no distance": (
        "gradient",
        Sigmoid(0.1, 1.0),
        "known to be positive semi-definite.*preimage='ridge'",
    ),
    "fixed point of no distance": ("fixed-point", Sigmoid(0.1, 1.0), "Use preimage='ridge'"),
    "no width": (Ridge(gamma=np.inf), RBF(1.0), "gamma must be a number > 0, 0.0 or 'auto'"),
    "too few rows": (
        Ridge(rows=np.zeros((79, 2))),
        RBF(1.0),
        "80 rows that the model is fitted to, .*got 79",
    ),
    "rows that are none": (Ridge(rows=np.full((80, 2), np.nan)), RBF(1.0), "NaN"),
}


@pytest.mark.parametrize("name", sorted(UNSUITED))
def test_a_method_that_does_not_suit_the_kernel_is_refused_with_one_that_does(name, x):
    method, kernel, message = UNSUITED[name]
    with pytest.raises(ValueError, match=message):
        KernelPCA(2, kernel=kernel, preimage=method).fit(x)


IMPOSSIBLE = [
    (FixedPoint(n_starts=0), "n_starts"),
    (Gradient(max_iter=0), "max_iter"),
    (Gradient(max_iter=True), "max_iter"),
    (Gradient(tol=2), "tol"),
    (Gradient(tol="1e-6"), "tol"),
    (Distances(n_neighbours=1), "n_neighbours"),
    (Distances(max_rows=1), "max_rows"),
    (Exact(max_rows=0), "max_rows"),
]


@pytest.mark.parametrize(("method", "parameter"), IMPOSSIBLE, ids=str)
def test_an_impossible_parameter_is_named_with_its_value(method, parameter, x):
    with pytest.raises(ParameterError, match=r"must be .*; got") as caught:
        KernelPCA(
            2, kernel=Linear() if isinstance(method, Exact) else RBF(1.0), preimage=method
        ).fit(x)
    assert caught.value.parameter == parameter
    assert caught.value.value == getattr(method, parameter)


def test_random_features_have_no_fixed_points(x, monkeypatch):
    model = KernelPCA(2, kernel=RBF(1.0), approximation=RandomFourier(50), preimage="fixed-point")
    with pytest.raises(InputError, match=r"rests on none\. Use preimage='gradient'"):
        model.fit(x)
    with monkeypatch.context() as patch:  # before anything is fitted
        patch.setattr(kernel_pca, "fit_kernel_pca", None)
        with pytest.raises(InputError, match="rests on none"):
            model.fit(x)


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (RBF(1.0), "preimage='ridge' or 'fixed-point' or 'distances' or 'gradient'."),
        (Linear(), "preimage='ridge' or 'distances' or 'gradient' or 'exact'."),
        (Cosine(), "preimage='ridge' or 'gradient'."),
        (mine, "preimage='ridge'."),
    ],
)
def test_the_methods_that_would_do_are_named(kernel, names, x):
    model = KernelPCA(2, kernel=kernel).fit(x)
    with pytest.raises(InputError) as caught:
        model.inverse_transform(model.transform(x))
    assert str(caught.value).endswith(names)


@pytest.mark.parametrize(
    ("model", "rows", "wanted"),
    [
        (
            KernelPCA(2, kernel=RBF(1.0), approximation=RandomFourier(50)),
            np.asarray,
            "fit it with preimage='ridge' or 'distances' or 'gradient'.",
        ),
        (KernelPCA(2, kernel=RBF(1.0)), sparse.csr_array, "dense rows, X.toarray(), and preimage="),
        (KernelPCA(2, kernel="linear"), sparse.csr_array, "dense rows, X.toarray(), and preimage="),
        (
            IncrementalKernelPCA(2, kernel=RBF(1.0)),
            sparse.csr_array,
            "dense rows, X.toarray(), and",
        ),
        (KernelPCA(2, kernel=Sigmoid(0.01, 1.0)), np.asarray, "fit it with preimage='ridge'."),
    ],
)
@pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")
def test_only_methods_that_would_be_accepted_are_named(model, rows, wanted, x):
    model.fit(rows(x))
    with pytest.raises(InputError) as caught:
        model.inverse_transform(np.zeros((1, 2)))
    assert wanted in str(caught.value)


def test_a_precomputed_kernel_needs_rows(x):
    gram = RBF(1.0)(x)
    model = KernelPCA(2, kernel="precomputed").fit(gram)
    with pytest.raises(InputError, match=r"preimage=Ridge\(rows=X\)"):
        model.inverse_transform(np.zeros((1, 2)))
    for name in sorted(PREIMAGES):
        with pytest.raises(InputError, match=r"Use preimage=Ridge\(rows=X\)"):
            KernelPCA(2, kernel="precomputed", preimage=name).fit(gram)


@pytest.mark.parametrize("name", ["ridge", "fixed-point", "distances", "gradient"])
def test_scores_are_checked(name, x):
    model = KernelPCA(2, kernel=RBF(0.5), preimage=name).fit(x)
    with pytest.raises(InputError, match="2 components") as caught:
        model.inverse_transform(np.zeros((1, 3)))
    assert (caught.value.parameter, caught.value.value) == ("X", (1, 3))
    with pytest.raises(ValueError, match="NaN"):
        model.inverse_transform([[np.nan, 0.0]])


FAR_AWAY = [
    *((name, RBF(0.5)) for name in ("ridge", "fixed-point", "distances", "gradient")),
    *((name, Polynomial(3, 0.5)) for name in ("ridge", "distances", "gradient", "exact")),
]


@pytest.mark.parametrize(("name", "kernel"), FAR_AWAY)
@pytest.mark.parametrize("factor", [100.0, 1e8])
def test_far_scores_give_points_and_a_number(name, kernel, factor, x):
    model = KernelPCA(3, kernel=kernel, preimage=name).fit(x)
    scores = model.transform(x[:5])
    scores[:2] *= factor * model.preimage_.reach / np.linalg.norm(scores[:2], axis=1, keepdims=True)
    with pytest.warns(
        PreimageWarning, match=r"2 of 5 scores lie more than 2 times.*residual"
    ) as told:
        points = model.inverse_transform(scores)
    assert np.isfinite(points).all()
    message = next(str(w.message) for w in told if "lie more than" in str(w.message))
    worst = np.max(model.preimage_.residuals(scores, points)[:2])
    assert f"is {worst:.3g} of the mean squared length" in message
    assert f"usually it is {model.preimage_.quality.residual:.3g}" in message


def test_new_rows_of_the_same_kind_are_not_far(x, rng):
    model = KernelPCA(None, kernel=RBF(0.5), preimage="ridge").fit(x)
    model.reconstruct(rng.standard_normal((200, 3)))  # a warning is an error here


def test_a_search_that_does_not_fit_is_refused(rng):
    model = KernelPCA(2, preimage="gradient", memory="60MB")
    with pytest.raises(MemoryBudgetError, match="pre-image of 900 rows needs about"):
        model.fit(rng.standard_normal((900, 2)))


@pytest.mark.parametrize(
    ("rows", "method", "message"),
    [
        (sparse.csr_array, "gradient", r"got a sparse matrix. Use X.toarray\(\)"),
        (np.asarray, Ridge(rows=np.zeros((80, 3))), "keeps landmarks only"),
        (np.asarray, "exact", "odd degree"),
    ],
)
def test_a_stream_refuses_and_stays_as_it_was(rows, method, message, x):
    model = IncrementalKernelPCA(2, kernel=RBF(0.5), preimage=method)
    with pytest.raises(InputError, match=message):
        model.partial_fit(rows(x))
    assert not hasattr(model, "stream_")
