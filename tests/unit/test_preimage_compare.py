"""Ways back side by side: the numbers are those of a model with each."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from conftest import frozen
from mercer import PCA, IncrementalKernelPCA, KernelPCA
from mercer.diagnostics import compare_preimages
from mercer.errors import InputError
from mercer.kernels import RBF, Linear, Polynomial
from mercer.preimage import FixedPoint


@pytest.fixture(scope="module")
def x():
    return frozen(np.random.default_rng(5).standard_normal((60, 3)) + 2.0)


@pytest.fixture(scope="module")
def digits():
    rows = load_digits().data[:260] / 16.0
    return frozen(rows[:200]), frozen(rows[200:])


def gap(model, rows):
    return np.sqrt(np.mean((model.reconstruct(rows) - rows) ** 2))


def test_the_comparison_is_that_of_models_with_each_method(digits):
    train, held = digits
    model = KernelPCA(8, kernel=RBF(0.05)).fit(train)
    table = compare_preimages(model, held, methods=["ridge", FixedPoint(n_starts=2), "exact"])
    assert list(table["method"]) == ["ridge", repr(FixedPoint(n_starts=2)), "exact"]
    for line, method in zip(list(table)[:2], ("ridge", FixedPoint(n_starts=2)), strict=True):
        own = KernelPCA(8, kernel=RBF(0.05), preimage=method).fit(train)
        residuals = own.preimage_.residuals(own.transform(held), own.reconstruct(held))
        assert line["error"] == pytest.approx(gap(own, held), rel=1e-6)
        assert line["residual"] == pytest.approx(np.median(residuals), rel=1e-5)
        assert line["error_of_mean"] == pytest.approx(
            np.sqrt(np.mean((held - train.mean(axis=0)) ** 2))
        )
        assert line["reason"] == ""
    assert np.isnan(table["error"][2])
    assert "odd degree" in table["reason"][2]


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3, 0.1)])
def test_an_explicit_map_is_compared_with_rows(kernel, x):
    model = KernelPCA(2, kernel=kernel).fit(x[:40])
    with pytest.raises(ValueError, match=r"keeps no training rows.*`rows`"):
        compare_preimages(model, x[40:])
    table = compare_preimages(model, x[40:], rows=x[:40], methods=["exact", "gradient"])
    own = KernelPCA(2, kernel=kernel, preimage="exact").fit(x[:40])
    assert table["error"][0] == pytest.approx(gap(own, x[40:]))
    assert table["residual"][1] <= table["residual"][0] + 1e-9  # nothing is nearer than the nearest


def test_one_name_is_one_method(digits):
    train, held = digits
    model = KernelPCA(8, kernel=RBF(0.05)).fit(train)
    for one in ("ridge", FixedPoint(n_starts=2)):
        assert list(compare_preimages(model, held, methods=one)["error"]) == list(
            compare_preimages(model, held, methods=[one])["error"]
        )


def test_what_is_no_kernel_pca_is_refused(x):
    for other in (PCA(2).fit(x), x):
        with pytest.raises(InputError, match=rf"KernelPCA .* got a {type(other).__name__}"):
            compare_preimages(other, x)


def test_streams_are_compared_and_given_kernels_are_not(x):
    stream = IncrementalKernelPCA(5, kernel=RBF(0.3)).fit(x[:40])
    table = compare_preimages(stream, x[40:], methods=["gradient"])
    assert table["error"][0] < table["error_of_mean"][0]
    given = KernelPCA(2, kernel="precomputed").fit(RBF(0.3)(x))
    with pytest.raises(ValueError, match="precomputed kernel knows no rows"):
        compare_preimages(given, RBF(0.3)(x))


def test_no_rows_to_bring_back_or_to_learn_from_are_refused_in_words(x):
    model = KernelPCA(2).fit(x)
    with pytest.raises(InputError, match="at least 1 row to bring back; got 0 rows"):
        compare_preimages(model, x[:0])
    with pytest.raises(InputError, match="at least 1 row to learn from; got 0 rows"):
        compare_preimages(model, x[:5], rows=x[:0])
