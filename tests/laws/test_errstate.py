"""The caller's np.errstate changes no number and ends no fit: underflow is part of a kernel, not an error."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import mercer
import mercer.sklearn as drop_in
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer._core.public import Public, public
from mercer.diagnostics import gradients, n_components, symptoms
from mercer.kernels import RBF, Custom

KERNELS = VALID | HISTOGRAM | INDEFINITE | {"narrow": RBF(50.0), "median": RBF()}


@pytest.fixture(autouse=True)
def quiet():
    """Kernels that do not suit these rows say so, which is not what is looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def x(rng):
    """Rows near each other and far away: exp(-γd²) is 0, d² of the least is below the least normal number."""
    rows = np.abs(rng.standard_normal((40, 3)))
    rows[:10] *= 1e3
    rows[10:14] *= 1e-170
    return rows


def back(preimage):
    def run(kernel, x):
        model = mercer.KernelPCA(2, kernel=kernel, preimage=preimage).fit(x)
        return model.inverse_transform(model.transform(x[:5]))

    return run


def streamed(kernel, x):
    model = mercer.IncrementalKernelPCA(2, kernel=kernel)
    return model.partial_fit(x[:20]).partial_fit(x[20:]).transform(x)


def approximated(name):
    return lambda kernel, x: (
        mercer.KernelPCA(2, kernel=kernel, approximation=name).fit(x).transform(x)
    )


@public
def single(x):
    return x.astype(np.float32)


def solved(solver):
    return lambda kernel, x: mercer.KernelPCA(2, kernel=kernel, solver=solver).fit(x).transform(x)


DOORS = {
    "kernel": lambda kernel, x: kernel(x, x[::2]),
    "lapack": solved("lapack"),
    "krylov": solved("krylov"),
    "errors": lambda kernel, x: mercer.KernelPCA(2, kernel=kernel).fit(x).reconstruction_error(x),
    "weights": lambda kernel, x: (
        mercer.KernelPCA(2, kernel=kernel)
        .fit(x, sample_weight=np.logspace(-8, 1, len(x)))
        .eigenvalues_
    ),
    "float32": lambda kernel, x: mercer.KernelPCA(2, kernel=kernel).fit(single(x)).eigenvalues_,
    "sparse": lambda kernel, x: (
        mercer.KernelPCA(2, kernel=kernel).fit(sparse.csr_array(x)).eigenvalues_
    ),
    "streamed": streamed,
    "nystrom": approximated("nystrom"),
    "rpcholesky": approximated("rpcholesky"),
    "ridge": back("ridge"),
    "detector": lambda kernel, x: (
        mercer.KernelPCADetector(2, kernel=kernel, folds=2).fit(x).decision_function(x)
    ),
    "check_kernel": lambda kernel, x: str(mercer.check_kernel(kernel, x)),
}
ONCE = {  # slow, or for some kernels only
    "random features": approximated("fourier"),
    "distances": back("distances"),
    "fixed point": back("fixed-point"),
    "gradient": back("gradient"),
    "check_kernel without rows": lambda kernel, _x: mercer.check_kernel(kernel).valid,
    "select": lambda kernel, x: mercer.select(x, [kernel], n_components=2, folds=2).table_[
        "shared"
    ],
    "symptoms": lambda kernel, x: len(symptoms(kernel, x)),
    "n_components": lambda kernel, x: n_components(x, kernel).n_components,
    "gradients": lambda kernel, x: gradients(mercer.KernelPCA(2, kernel=kernel).fit(x), x),
    "drop-in": lambda _kernel, x: (
        drop_in.KernelPCA(2, kernel="rbf", gamma=0.3, fit_inverse_transform=True)
        .fit(x)
        .transform(x)
    ),
}


def outcome(door, kernel, x):
    try:
        return np.asarray(door(kernel, x))
    except Exception as error:  # what is refused is refused alike
        return type(error), str(error)


def assert_no_harm(door, kernel, x):
    plain = outcome(door, kernel, x)
    with np.errstate(all="raise"):
        strict = outcome(door, kernel, x)
        assert set(np.geterr().values()) == {"raise"}  # the caller's own again
    if isinstance(plain, tuple):
        assert plain == strict
        assert not issubclass(plain[0], ArithmeticError)
    else:
        np.testing.assert_array_equal(plain, strict)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_is_harmed_for_any_kernel(kernel, door, x):
    assert_no_harm(DOORS[door], KERNELS[kernel], x)


@pytest.mark.parametrize("door", DOORS | ONCE)
def test_the_doors_are_open(door, x):
    """Two refusals are alike: what is compared above and below are numbers."""
    assert not isinstance(outcome((DOORS | ONCE)[door], KERNELS["rbf"], x), tuple)


@pytest.mark.parametrize("door", ONCE)
@pytest.mark.parametrize("kernel", ["rbf", "narrow", "matern-3/2"])
def test_nothing_is_harmed_by_the_rest(kernel, door, x):
    assert_no_harm(ONCE[door], KERNELS[kernel], x)


def test_what_the_caller_ignores_stays_ignored(x):
    """A kernel of his own may divide by zero on its way."""
    kernel = Custom(
        lambda x, y: 1.0 / (1.0 + 1.0 / np.where(x @ y.T > 0, 0.0, 1.0)) + x @ y.T, "matrices"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with np.errstate(divide="ignore"):
            mercer.KernelPCA(2, kernel=kernel).fit(x)
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            mercer.KernelPCA(2, kernel=kernel).fit(x)


def test_a_class_is_steady_with_all_that_is_public():
    class Example(Public):
        def far(self):
            return np.exp(-np.float64(1e4))

        @property
        def near(self):
            """Doc."""
            return np.float32(1e-30) * np.float32(1e-30)

        def _inner(self):
            return np.exp(-np.float64(1e4))

    with np.errstate(all="raise"):
        assert Example().far() == 0
        assert Example().near == 0
        with pytest.raises(FloatingPointError):
            Example()._inner()
    assert Example.near.__doc__ == "Doc."
