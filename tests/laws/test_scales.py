"""A kernel times a number: eigenvalues times it, scores times its root, shares of variance as they were.

However large or small the number is: what is squared on the way must neither overflow nor vanish. Powers of
two change no digit, so the draws of an approximation are the same, and what differs is rounding.
"""

import warnings

import numpy as np
import pytest

from mercer import IncrementalKernelPCA, KernelPCA
from mercer._core.errors import KernelError, ZeroVarianceError
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF, Linear, Polynomial

ROWS = np.random.default_rng(5).standard_normal((400, 4))
KERNELS = {"rbf": RBF(gamma=0.3), "linear": Linear(), "polynomial": Polynomial(2, gamma=0.3)}
SCALES = {f"2**{p}": 2.0**p for p in (-990, -600, -330, -100, 100, 330, 600, 990)}


class InBatches:
    """A stream of four batches."""

    def __init__(self, kernel):
        self.model = IncrementalKernelPCA(3, kernel=kernel, max_landmarks=60, random_state=0)

    def fit(self, x):
        for start in range(0, len(x), 100):
            self.model.partial_fit(x[start : start + 100])
        return self.model


def exact(**options):
    return lambda kernel: KernelPCA(kernel=kernel, random_state=0, **{"n_components": 3} | options)


# Each with what rounding leaves of a score, in units of the largest: certificates that look at squares of
# squares choose features in place of sections, whose sums are others.
MODELS = {
    "auto": exact(),
    "lapack": exact(solver="lapack"),
    "krylov": exact(solver="krylov(tol=1e-10)"),
    "share": exact(n_components=0.5),
    "rpcholesky": exact(approximation=RPCholesky(50)),
    "rpcholesky, by a tolerance": exact(approximation=RPCholesky("auto")),
    "rpcholesky, refined": exact(approximation=RPCholesky(50, refine=2)),
    "nystrom": exact(approximation=Nystrom(50)),
    "nystrom, spread": exact(approximation=Nystrom(50, sampling="k-means++")),
    "fourier": exact(approximation=RandomFourier(200)),
    "stream": InBatches,
}
NO_SPECTRUM = {("fourier", "linear"), ("fourier", "polynomial")}
CASES = [(m, k) for m in MODELS for k in KERNELS if (m, k) not in NO_SPECTRUM]


def shown(model, x):
    return model.eigenvalues_, model.explained_variance_ratio_, model.transform(x[:20])


@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("model", "kernel"), CASES, ids=str)
def test_a_scaled_kernel_has_scaled_components(model, kernel, scale):
    made, kernel, c = MODELS[model], KERNELS[kernel], SCALES[scale]
    values, shares, scores = shown(made(kernel).fit(ROWS), ROWS)
    found = shown(made(c * kernel).fit(ROWS), ROWS)
    np.testing.assert_allclose(found[0] / c, values, rtol=1e-8)
    np.testing.assert_allclose(found[1], shares, rtol=1e-8)
    np.testing.assert_allclose(found[2] / np.sqrt(c), scores, atol=1e-5 * np.abs(scores).max())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("model", [m for m in MODELS if m[:4] in ("rpch", "nyst", "four")])
def test_in_single_precision_it_is_that_or_a_sentence(model, scale):
    made, kernel, c, x = MODELS[model], KERNELS["rbf"], SCALES[scale], ROWS.astype(np.float32)
    limits = np.finfo(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not limits.tiny < c < limits.max:
            with pytest.raises(KernelError, match=r"(?s)float32 holds numbers from.*float64"):
                made(c * kernel).fit(x)
            return
        values, shares, scores = shown(made(kernel).fit(x), x)
        found = shown(made(c * kernel).fit(x), x)
    np.testing.assert_allclose(found[0] / c, values, rtol=1e-3)
    np.testing.assert_allclose(found[1], shares, rtol=1e-3)
    np.testing.assert_allclose(found[2] / np.sqrt(c), scores, atol=1e-2 * np.abs(scores).max())


@pytest.mark.parametrize("approximation", [RPCholesky(20), Nystrom(20)], ids=repr)
def test_zero_times_a_kernel_is_told(approximation):
    """Not a small number: there is no component."""
    with pytest.raises(ZeroVarianceError):
        KernelPCA(2, kernel=0.0 * RBF(0.3), approximation=approximation).fit(ROWS)
